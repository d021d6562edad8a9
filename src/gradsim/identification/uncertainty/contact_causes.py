"""Contact as the cause of a mismatch: the flight before it is explained, the frames after it are not, another law explains both.

The frames before the first contact are fitted by themselves. If they are explained, camera, clock, scale and forces in flight are
right as far as they show, and the motion from the contact on tells what is wrong with its law: a shift along the ground is that of
friction, one across it that of the loss of speed. Then the ground gets free numbers of its law, and of the other law, and the
clip is fitted once more within what the flight leaves open.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.estimators import LEAST_SQUARES, estimator_named
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import FEWEST
from gradsim.identification.outline_search import search_outlines
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.uncertainty.causes import COARSE, Cause, misfit_of
from gradsim.identification.uncertainty.outline import OutlineErrors, fit_outline
from gradsim.identification.uncertainty.residual_diagnostics import first_contact
from gradsim.identification.unknowns import Ranges, Space, Unknown
from gradsim.numerics.formatting import with_error
from gradsim.physics.model import Model
from gradsim.physics.rigid.body import RigidBody
from gradsim.scene import Scene
from gradsim.scene.body import Rigid
from gradsim.scene.restitution import damping, of_damping

ROUNDS = 3  # fits of the flight, whose end follows from the one before
ITERATIONS = 15  # Gauss–Newton steps of each
OPAQUE = 0.5  # coverage from which a pixel is of the body
AFTER = 8  # frames after the contact in which the shift is measured
CLEAR = 0.7  # px of a shift that is none of an outline's errors
LARGER = 4.0  # or times its standard deviation in the flight
STARTS, SEED = 8, 0  # of a fit with another law
DETERMINED = 0.1  # relative standard deviation up to which the flight determines an unknown
AROUND = 4.0  # standard deviations of the flight about its answer in which it searches
TOUCH = 1e-3  # duration of a contact of the law of constant restitution [s]
RESTITUTION = (0.2, 0.98)  # range
DISSIPATION, FRICTION = (0.01, 3.0), (1e-3, 1.5)  # ranges [s/m], 1
WORTH = 0.5  # share of the misfit that another law explains at least


@dataclass(frozen=True)
class ContactCause:
    """A contact that the video contradicts.

    Args:
        frame: First frame after it.
        alone: Misfit of the frames before it, fitted by themselves [px].
        values: Value and standard deviation of the unknowns that this fit determines.
        along, across: Shift of the data against its continuation along the ground and out of it [px].
        shifted: Frame of the shift.
        causes: Laws that explain more, best first.
    """

    frame: int
    alone: float
    values: dict[str, tuple[float, float]]
    along: float
    across: float
    shifted: int
    causes: list[Cause]

    def result(self) -> dict:
        """For `result.json`."""
        return {key: getattr(self, key) for key in ("frame", "alone", "along", "across", "shifted")}

    def words(self, misfit: float) -> str:
        """Sentences for the verdict, where outlines of the whole clip are off by `misfit` [px]."""
        known = [f"{name} = {with_error(*number)}" for name, number in self.values.items()]
        parts = [f"{abs(self.along):.2g} px along the ground"] * (abs(self.along) > CLEAR)
        parts += [f"{abs(self.across):.2g} px {'out of' if self.across > 0 else 'into'} it"] * (
            abs(self.across) > CLEAR
        )
        hints = ["along it, try friction"] * (abs(self.along) > CLEAR)
        hints += ["across it, another law, loss of speed or height"] * (abs(self.across) > CLEAR)
        text = (
            f" Frames 0 to {self.frame - 1} alone are explained to {self.alone:.2g} px ({', '.join(known)}); the contact before frame "
            f"{self.frame} breaks it: in frame {self.shifted} the body is {' and '.join(parts)} from where that model goes on "
            f"({'; '.join(hints)})."
        )
        left = [f"{cause.size:.2g} px with {cause.words}" for cause in self.causes if cause.size is not None]
        return text + (f" In place of {misfit:.2g} px there would be left {', or '.join(left)}." if left else "")


def contact_cause(
    problem: Problem, u: Tensor, history: list[dict], misfit: float, build: Callable[[Scene, Space], Model]
) -> ContactCause | None:
    """The first contact, if the frames before it are explained and those after it are not; None otherwise.

    Args:
        problem: Of one clip and camera with `Masks` and noise `auto`, as they were observed.
        u: The answer (unknowns,), which may be far off.
        history: Of the search: entries with frames and `u`.
        misfit: `misfit_of` the errors at the answer [px].
        build: Model of a scene for a space of unknowns.
    """
    scene = problem.model.scene
    if len(scene.surfaces) != 1 or len(scene.bodies) != 1 or not isinstance(next(iter(scene.bodies.values())), Rigid):
        return None
    flight = _flight(problem, u, history)
    if flight is None:
        return None
    frame, best, errors = flight
    shift = _first_shift(problem, best, frame, errors)
    if shift is None:
        return None
    shifted, along, across = shift
    causes = [
        cause
        for unknowns, changed, words, name in _laws(problem)
        if (cause := _fitted(problem, changed, unknowns, best, errors, frame, build, words, name))
        and (cause.size or 0.0) < (1 - WORTH) * misfit
    ]
    causes.sort(key=lambda cause: cause.size or 0.0)
    if not causes:
        causes = [Cause(f"{next(iter(scene.surfaces))}.law", None, "", None, words="another law of the contact")]
    values = _determined(problem.space, best, errors)
    return ContactCause(frame, misfit_of(errors), values, along, across, shifted, causes)


def _determined(space: Ranges, u: Tensor, errors: OutlineErrors) -> dict[str, tuple[float, float]]:
    """Value and standard deviation of the unknowns that a fit determines to a tenth of their unit."""
    bars = errors.covariance.diagonal().clamp(min=0).sqrt()
    ends = space.numbers(torch.stack([u, u + bars]))
    rows = zip(space.names, ends.T.tolist(), (bars / space.unit).tolist(), strict=True)
    return {name: (value, abs(end - value)) for name, (value, end), relative in rows if 0 < relative < DETERMINED}


def _flight(problem: Problem, u: Tensor, history: list[dict]) -> tuple[int, Tensor, OutlineErrors] | None:
    """First frame after the first contact, and the fit of the frames before it, if they are explained."""
    contact = _contact(problem, u)
    if contact is None:
        return None
    for _ in range(ROUNDS):
        if contact < FEWEST:
            return None
        stages = [entry["u"] for entry in history if "u" in entry and entry["frames"] <= contact]
        start = torch.tensor(stages[-1]).double() if stages else u
        part = problem.first_frames(contact)
        try:
            _, best, errors = fit_outline(part, start, ITERATIONS, 1e-4)
        except InputError:
            return None
        later = _contact(problem, best)
        if later is None or later >= contact:  # the frames that were fitted are all before it
            return (contact, best, errors) if errors.explained else None
        contact = later
    return None


def _contact(problem: Problem, u: Tensor) -> int | None:
    with torch.no_grad():
        values = problem.model.values(problem.space.values(u[None]))
        return first_contact(problem.model.rollout_unchecked(values, problem.frames))


def _first_shift(problem: Problem, u: Tensor, frame: int, errors: OutlineErrors) -> tuple[int, float, float] | None:
    """Last frame with a clear shift soon after the contact, and the shift along and across the ground [px]."""
    last = min(problem.frames, frame + AFTER)
    data = problem.observation
    assert isinstance(data, Masks)
    with torch.no_grad():
        values = problem.model.values(problem.space.values(u[None]))
        image = data.image(problem.model.rollout_unchecked(values, problem.frames))
    visible = [k for k in range(frame, last) if _whole(data.masks[k]) and _whole(image[k])]
    shifts = {k: data.silhouettes.binning * (_centre(data.masks[k]) - _centre(image[k])) for k in visible}
    clear = [k for k, shift in shifts.items() if shift.norm() > max(CLEAR, LARGER * errors.shift)]
    if not clear:
        return None
    (surface,) = problem.model.scene.surfaces.values()
    normal = np.array(getattr(surface, "normal", (0.0, 0.0, 1.0)), float)
    out = torch.tensor((data.silhouettes.camera.R.double().numpy() @ normal)[:2])  # right, down
    out = out / out.norm().clamp(min=1e-9)
    k = clear[-1]
    across = (shifts[k] @ out).item()
    return k, (shifts[k] - across * out).norm().item(), across


def _whole(mask: Tensor) -> bool:
    """True if a mask (height, width) has a body that does not touch the border."""
    body = mask > OPAQUE
    return bool(body.any()) and not bool(body[[0, -1]].any() or body[:, [0, -1]].any())


def _centre(mask: Tensor) -> Tensor:
    """Column and row (2,) of the middle of a mask (height, width) [px]."""
    row, column = (mask > OPAQUE).double().nonzero(as_tuple=True)
    return torch.stack([column.double().mean(), row.double().mean()])


def _laws(problem: Problem) -> list[tuple[list[Unknown], dict, str, str]]:
    """Unknowns besides those of the problem, content of the ground, words and name of each law that is tried."""
    scene = problem.model.scene
    ((name, surface),) = scene.surfaces.items()
    mass = _mass(problem.model)
    friction = Unknown(f"{name}.friction", *FRICTION)
    stiffness = mass * (math.pi / TOUCH) ** 2
    ends = sorted(damping(e, stiffness, mass, "constant-restitution") for e in RESTITUTION)
    constant = {"law": "constant-restitution", "stiffness": stiffness, "damping": math.sqrt(ends[0] * ends[1])}
    free = [
        (
            [Unknown(f"{name}.dissipation", *DISSIPATION), friction],
            {"law": "continuous"},
            "continuous",
            f"{name}.dissipation",
        )
    ]
    free += [
        ([Unknown(f"{name}.damping", ends[0], ends[1]), friction], constant, "constant-restitution", f"{name}.law")
    ]
    return [row for row in free if row[2] == surface.law] + [row for row in free if row[2] != surface.law]


def _mass(model: Model) -> float:
    """Mass of the one body [kg], as the scene has it."""
    (body,) = model.systems
    assert isinstance(body, RigidBody)
    return body.mass(model.values()).item()


def _fitted(
    problem: Problem,
    changed: dict,
    more: list[Unknown],
    flight: Tensor,
    errors: OutlineErrors,
    frame: int,
    build: Callable[[Scene, Space], Model],
    law: str,
    name: str,
) -> Cause | None:
    """The cause that a ground with these numbers is; None where it cannot be fitted."""
    ((ground, surface),) = problem.model.scene.surfaces.items()
    content = problem.model.scene.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    key = "grounds" if ground in problem.model.scene.grounds else "obstacles"
    node = {k: v for k, v in content[key][ground].items() if k not in ("dissipation", "damping", "law", "friction")}
    content[key] = {ground: node | changed}
    names = {unknown.name for unknown in more} | {f"{ground}.{k}" for k in ("dissipation", "damping", "stiffness")}
    same = [k for k, unknown in enumerate(problem.space.unknowns) if unknown.name not in names]
    bars = errors.covariance.diagonal().clamp(min=0).sqrt()
    unknowns = [_near(problem.space, k, flight, bars) for k in same] + more
    scene = Scene.parse(content)
    priors = [prior.of(u.name for u in unknowns) for prior in problem.space.priors]
    space = Space(scene, unknowns, priors=[prior for prior in priors if prior])
    alternative = Problem(build(scene, space), problem.observation, space)
    alternative.effort = problem.effort
    first = min(problem.frames, max(frame + AFTER, 3 * frame // 2))
    search, rng = estimator_named(LEAST_SQUARES), np.random.default_rng(SEED)
    plan = MultistartConfig(starts=STARTS, explore=False)
    try:
        _, outcome = search_outlines(alternative.first_frames(first), plan, rng, lambda entry: None, None, search)
        data = problem.observation
        assert isinstance(data, Masks)
        coarse = alternative.with_observation(data.binned(data.largest_bin(COARSE)))
        _, best, _ = fit_outline(coarse, outcome.best, ITERATIONS, 1e-3)
        _, best, final = fit_outline(alternative, best, ITERATIONS, 1e-3)
    except InputError:
        return None
    numbers = dict(zip(space.names, space.numbers(best).tolist(), strict=True))
    friction = f"friction {numbers[f'{ground}.friction']:.2g}"
    if law == "constant-restitution":
        node = scene.surfaces[ground]
        e = of_damping(numbers[f"{ground}.damping"], node.stiffness, _mass(problem.model), law)
        words = f"`law: constant-restitution` of `{ground}` (restitution {e:.2g}, {friction})"
    else:
        words = f"other numbers of `{ground}` (dissipation {numbers[f'{ground}.dissipation']:.2g} s/m, {friction})"
    if surface.law == law:
        words = words.replace("`law: ", "the same law: ").replace("restitution` of", "restitution of")
    return Cause(name, None, "", misfit_of(final), final.explained, (), words)


def _near(space: Ranges, k: int, flight: Tensor, bars: Tensor) -> Unknown:
    """The k-th unknown in the range that the flight leaves."""
    unknown, reach = space.unknowns[k], AROUND * max(bars[k].item(), 1e-4 * space.unit[k].item())
    if not 0 < bars[k] < DETERMINED * space.unit[k]:
        return unknown
    ends = torch.stack([flight, flight])
    ends[0, k] -= reach
    ends[1, k] += reach
    low, high = space.numbers(ends.clamp(space.low, space.high))[:, k].tolist()
    return Unknown(unknown.name, low, high) if low < high else unknown
