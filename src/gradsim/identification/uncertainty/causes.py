"""Causes of a motion that the video contradicts: numbers of the scene taken as known, and effects of camera and air that it lacks.

Each has one number p. One step of least squares from the answer, with p free besides the unknowns, lowers Σ r² by Δ (Rao 1948):

    δ = −g_p/S,    Δ = g_p²/S,      S = A_pp − A_pb A_bb⁻¹ A_bp,  A = JᵀJ, g = Jᵀr

Those that promise most are fitted with the unknowns: what is left then is measured, not extrapolated. Of causes that leave the
same, the one comes first whose number is the least unusual (`TYPICAL`). A new effect is an entry of `EFFECTS`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.camera_effects import AIR_DRAG, EFFECTS, LATE_EXPOSURE, WithEffect
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.outline import OutlineErrors, fit_outline
from gradsim.identification.uncertainty.outline_sums import sums_by_frame
from gradsim.identification.unknowns import Space, Unknown
from gradsim.scene.parameters import component_letters, parameters

MOST = 3  # causes that are named
FITTED = 6  # causes that are fitted
WORTH = 0.15  # share of Σ r² that a cause promises to explain at least, and of the misfit that it explains
OPEN = 1e-6  # share of A_pp that the unknowns leave, below which they make up for p anyway
ALIKE = 1.1, 0.01  # misfits that are equal: up to this factor, and as much more [px, or of χ²/N]
UNUSUAL = 20.0  # typical sizes up to which a number is a cause
ITERATIONS = 15  # Gauss–Newton steps of unknowns and cause
COARSE = 8  # pixels across a body at least
RTOL = 1e-3  # relative decrease of Σ r² at which they have arrived
TYPICAL = (  # by how much a number of a scene is wrong: of its value, or in its unit
    ("timing.rate", 0.03, ""),
    ("*.focal", 0.03, "of its value"),
    ("*.centre.?", 0.04, "of its value"),
    ("*camera*.translation.z", 0.1, ""),
    ("*camera*.translation.?", 0.03, ""),
    ("*.scale", 0.05, "of its value"),
    ("*.position.?", 0.02, ""),
    ("*.velocity.?", 0.1, ""),
    ("*.rotation_vector.?", 0.05, ""),
    ("*.mass", 0.05, "of its value"),
    ("*.distortion.k?", 0.1, ""),
    ("*.fisheye.k?", 0.1, ""),
    ("*.readout", 0.02, ""),
    ("*.exposure", 0.02, ""),
    ("*.height", 0.01, ""),
    ("*", 0.3, "of its value"),
)
TILT = 0.02  # of a camera that is not level: what a vertical is off [rad]
LOCAL_GRAVITY = 0.003  # how much gravity differs from place to place, of its value
TURNED = "camera*.rotation_vector.?"
MASKS = "masks"  # cause without a number


@dataclass(frozen=True)
class Cause:
    """A number of the scene that may be wrong, an effect that it lacks, or the masks.

    Args:
        name: Dotted name of the number; name of the effect; or "masks".
        change: From its value in the scene; None of masks.
        unit: SI unit.
        size: What it leaves when fitted: RMS displacement of outlines [px], or χ²/N where the noise is stated; None of masks.
        explained: True if nothing is left that the verdict would call a mismatch.
        shift: By how much it moves each unknown, in solver coordinates (unknowns,).
        words: What is changed; by default from name and change.
        std: Standard deviations of the unknowns with it, in solver coordinates (unknowns,).
        unusual: Change over the typical one.
    """

    name: str
    change: float | None
    unit: str
    size: float | None
    explained: bool = False
    shift: tuple[float, ...] = ()
    words: str = ""
    std: tuple[float, ...] = ()
    unusual: float = 0.0

    def result(self) -> dict:
        """For `result.json`."""
        keys = ("name", "change", "unit", "size", "explained", "words")
        return {key: getattr(self, key) for key in keys}


@dataclass(frozen=True)
class _Candidate:
    """A problem with one more unknown, the last one.

    Args:
        name, unit: Of its number.
        problem: The problem.
        start: Of the number, in solver coordinates.
        typical: Size of the number's change that is not unusual.
        share: Of Σ r² that it promises to explain.
        unusual: Its change, as promised, over the typical one.
    """

    name: str
    unit: str
    problem: Problem
    start: float
    typical: float
    share: float
    unusual: float

    def number(self, inner: float) -> float:
        """Value of the number at a solver coordinate."""
        row = torch.zeros(len(self.problem.space), dtype=torch.float64)
        row[-1] = inner
        return self.problem.space.numbers(row)[-1].item()


def misfit_of(errors: OutlineErrors) -> float:
    """RMS displacement of outlines, with their offset where masks are not usually as wide or as narrow [px]."""
    return errors.size if errors.usually_wide else math.hypot(errors.size, errors.offset)


def likely_causes(problem: Problem, u: Tensor, misfit: float) -> list[Cause]:
    """Numbers of the scene and effects that would explain most of what outlines are off, best first; few or none.

    Where masks of many frames cannot be right, they are the only cause.

    Args:
        problem: Of one clip and camera with `Masks` and noise `auto`, as they were observed.
        u: The answer (unknowns,).
        misfit: `misfit_of` its errors [px].
    """
    data, causes = problem.observation, []
    assert isinstance(data, Masks)
    if data.mask_faults and data.mask_faults.of_method:
        return [Cause(MASKS, None, "", None)]
    coarse = _with_wide_pixels(problem, misfit)
    for candidate in _candidates(coarse, u, coarse is problem):
        best, errors = torch.cat([u, torch.tensor([candidate.start]).double()]), None
        try:
            for stage in [candidate.problem] + [candidate.problem.with_observation(data)] * (coarse is not problem):
                _, best, errors = fit_outline(stage, best, ITERATIONS, RTOL)
                if misfit_of(errors) > (1 - WORTH) * misfit:
                    break
        except InputError:  # the body leaves the image
            continue
        assert errors is not None
        change = candidate.number(best[-1].item()) - candidate.number(candidate.start)
        size = misfit_of(errors)
        if size > (1 - WORTH) * misfit or abs(change) > UNUSUAL * candidate.typical:
            continue
        shift = tuple((best[:-1] - u).tolist())
        std = tuple(errors.covariance.diagonal()[:-1].clamp(min=0).sqrt().tolist())
        unusual = abs(change) / candidate.typical
        causes.append(Cause(candidate.name, change, candidate.unit, size, errors.explained, shift, "", std, unusual))
    return _ranked(causes)


def _with_wide_pixels(problem: Problem, misfit: float) -> Problem:
    """The problem in pixels as wide as the misfit [px], so that steps reach as far; itself where they are."""
    data = problem.observation
    assert isinstance(data, Masks)
    widest = min(misfit / data.silhouettes.binning, data.largest_bin(COARSE))
    factor = max([f for f in range(2, int(widest) + 1) if data.can_be_binned(f)], default=1)
    return problem if factor == 1 else problem.with_observation(data.binned(factor))


def _ranked(causes: Sequence[Cause]) -> list[Cause]:
    """Causes by what they leave; of those that leave the same, the least unusual first."""
    left = lambda cause: cause.size or 0.0
    factor, more = ALIKE
    limit = factor * min(map(left, causes), default=0.0) + more
    alike = sorted((cause for cause in causes if left(cause) <= limit), key=lambda cause: cause.unusual)
    return alike + sorted((cause for cause in causes if left(cause) > limit), key=left)


def _candidates(problem: Problem, u: Tensor, near: bool) -> list[_Candidate]:
    """The most promising numbers and effects; of numbers that the unknowns and another make up for, the least unusual.

    Where outlines are off by pixels (not `near`), steps promise little: the best count whatever they promise, and all effects.
    """
    n, scene = len(u), problem.model.scene
    base, rows = list(problem.space.unknowns), []
    tried = _tried(problem, base)
    if tried:
        wider = _with(problem, [*base, *(Unknown(name, *_around(value)) for name, value, _ in tried)])
        at = wider.space.inner(torch.tensor([*[1.0] * n, *(value for _, value, _ in tried)]).double())
        at[:n] = u
        promised = _promised(wider, at, n)
        stepped = at.clone()
        stepped[n:] += torch.tensor([step for _, step in promised])
        changed = wider.space.numbers(stepped)
        for k, (name, value, unit) in enumerate(tried):
            share, typical = promised[k][0], typical_change(scene, name, value)
            if share > (WORTH if near else 0.0):
                alone = _with(problem, [*base, Unknown(name, *_around(value))])
                unusual = abs(changed[n + k].item() - value) / typical
                rows.append(_Candidate(name, unit, alone, at[n + k].item(), typical, share, unusual))
    rows = _distinct(rows)[: FITTED - 1]
    for effect in EFFECTS:
        alone = WithEffect(problem, effect)
        ((share, step),) = _promised(alone, torch.cat([u, torch.zeros(1).double()]), n)
        if share > WORTH or not near:
            unusual = abs(step) / effect.typical
            rows.append(_Candidate(effect.name, effect.unit, alone, 0.0, effect.typical, share, unusual))
    return rows


def _distinct(rows: list[_Candidate]) -> list[_Candidate]:
    """Best first, two of those that promise the same at most: the least unusual."""
    chosen: list[_Candidate] = []
    for row in sorted(rows, key=lambda row: (-round(row.share, 2), row.unusual)):
        if sum(abs(row.share - other.share) < 0.01 for other in chosen) < 2:
            chosen.append(row)
    return chosen


def _promised(wider: Problem, at: Tensor, n: int) -> list[tuple[float, float]]:
    """Share of Σ r² that each number after the n-th promises to explain, one at a time, and its change, in solver coordinates.

    Both are 0 where the unknowns make up for it.
    """
    frames = sums_by_frame(wider, at)
    A, g = frames.information.sum(0), frames.gradient.sum(0)
    inverse, promised = torch.linalg.pinv(A[:n, :n], hermitian=True), []
    rest = frames.squares - (g[:n] @ inverse @ g[:n]).item()
    for p in range(n, len(at)):
        across = inverse @ A[:n, p]
        left = (A[p, p] - A[p, :n] @ across).item()
        slope = (g[p] - g[:n] @ across).item()
        good = math.isfinite(slope) and left > OPEN * A[p, p].item() > 0
        promised.append((slope**2 / left / rest, -slope / left) if good else (0.0, 0.0))
    return promised


def typical_change(scene, name: str, value: float) -> float:
    """By how much a number of a scene is wrong where it is not unusual, in its unit."""
    if name.startswith("gravity"):
        strength = math.hypot(*parameters(scene)["gravity"].value)
        return (LOCAL_GRAVITY if abs(value) > 0.5 * strength else TILT) * max(strength, 1.0)
    size, kind = next((size, kind) for pattern, size, kind in TYPICAL if fnmatch(name, pattern))
    return size * (abs(value) if kind and value else 1.0)


def _tried(problem: Problem, base: list[Unknown]) -> list[tuple[str, float, str]]:
    """Numbers that the model reads and that are no unknowns: name, value, unit."""
    rows = []
    for name, value, unit in _numbers(problem.model.scene, {n for unknown in base for n in unknown.names}):
        if fnmatch(name, TURNED):  # as its principal point and the direction of gravity, which are tried
            continue
        try:
            _with(problem, [*base, Unknown(name, *_around(value))])
        except InputError:  # nothing reads it
            continue
        rows.append((name, value, unit))
    return rows


def describe(causes: list[Cause], problem: Problem, misfit: float) -> str:
    """Sentence on the causes of outlines that are off by `misfit` [px]; empty without causes."""
    scene, notes = problem.model.scene, problem.observation.notes
    if any(cause.name == MASKS for cause in causes):
        return f" First make other masks: {'; '.join(notes['mask_faults'])}. Try {notes['mask_advice']}."
    values = {name: value for name, value, _ in _numbers(scene, set())}
    parts = [
        f"{c.size:.2g} px with {_change(c, values.get(c.name))}{_advice(c, problem)}"
        for c in causes[:MOST]
        if c.size is not None
    ]
    turning = "" if any(cause.explained for cause in causes) else _turning(scene, problem.space.names)
    if not parts:
        return turning
    return f" In place of {misfit:.2g} px there would be left {', or '.join(parts)}.{turning}"


def _turning(scene, unknowns: Sequence[str]) -> str:
    """Sentence on a body whose spin is taken as known; no single number of it is a cause, since a body turns about any axis.

    Args:
        scene: The scene.
        unknowns: Names of the unknowns.
    """
    jointed = {name for joint in scene.joints.values() for name in joint.between}
    for name, body in scene.bodies.items():
        spin = f"{name}.angular_velocity"
        if (
            name in jointed
            or name in scene.recorded
            or body.kind != "rigid"
            or body.shape.sphere
            or any(unknown.startswith(spin) for unknown in unknowns)
        ):
            continue
        value = ", ".join(f"{x:g}" for x in body.angular_velocity)
        return (
            f" The spin of `{name}` is taken as known ({value} rad/s): if it turns otherwise in the video, make "
            f"`{spin}.x`, `.y` and `.z` unknowns."
        )
    return ""


def _advice(cause: Cause, problem: Problem) -> str:
    """Lines of the scene that have an effect, in brackets; empty for other causes, and where the scene has it already."""
    data, change = problem.observation, cause.change
    if change is None or not isinstance(data, Masks):
        return ""
    camera, optics, offset = data.silhouettes.lens, data.silhouettes.camera.optics, problem.model.scene.timing.offset
    if cause.name == AIR_DRAG:
        return _braked(problem.model.scene)
    late = change / 2 if cause.name == LATE_EXPOSURE else change  # `exposure` of a camera is about the stamp
    open_for, stamped = (camera, f"exposure: {abs(change):.3f}"), ("timing", f"offset: {offset + late:.4f}")
    entries = {
        "rolling shutter": [(camera, f"readout: {change:.3f}")],
        "exposure": [open_for],
        LATE_EXPOSURE: [open_for, stamped],
        "lens distortion": [(camera, f"distortion: [{change:.3f}, 0, 0, 0, 0]")],
        "late stamps": [stamped],
    }
    lines = entries.get(cause.name, [])
    for owner, entry in lines:
        key = entry.partition(":")[0]
        if (owner == "timing" and offset + late < 0) or (
            owner == camera and optics is not None and getattr(optics, key) is not None
        ):
            return ""
    return f" (write {' and '.join(f'`{entry}` under `{owner}:`' for owner, entry in lines)})" if lines else ""


def _braked(scene) -> str:
    """Lines for a lone rigid body that air brakes, and, for a ball on a ground, for friction against rolling."""
    plain = [name for name, body in scene.bodies.items() if body.kind == "rigid" and body.drag is None]
    if len(plain) != 1:
        return ""
    name, surface = plain[0], next(iter(scene.surfaces), None)
    words = f"write `drag: 0.01` under `{name}:` and make `{name}.drag` an unknown"
    if surface and scene.bodies[name].shape.sphere and scene.surfaces[surface].rolling_friction is None:
        words += f"; if it rolls, `rolling_friction: 0.001` under `{surface}:` and `{surface}.rolling_friction`"
    return f" ({words})"


def _change(cause: Cause, value: float | None) -> str:
    change = cause.change or 0.0
    if value is None:
        article = "an" if cause.name[0] in "aeiou" else "a"
        if cause.unit == "s":
            return f"{article} {cause.name} of {1000 * change:.2g} ms".replace(
                "a late stamps of", "stamps that are late by"
            )
        return f"{article} {cause.name} of {change:.2g} {cause.unit}".rstrip()
    if value and abs(change) < abs(value):
        return f"`{cause.name}` by {100 * change / value:+.2g} %"
    return f"`{cause.name}` by {change:+.2g} {cause.unit}".rstrip()


def _numbers(scene, known: set[str]) -> list[tuple[str, float, str]]:
    """Name, value and unit of every number and component of a scene that is not an unknown."""
    rows = []
    for name, parameter in parameters(scene).items():
        if parameter.value.ndim == 0:
            rows.append((name, float(parameter.value), parameter.unit))
        elif parameter.value.ndim == 1 and not parameter.elements and not parameter.row_of:
            letters = component_letters(name)
            if len(parameter.value) <= len(letters):
                rows += [
                    (f"{name}.{axis}", float(v), parameter.unit)
                    for axis, v in zip(letters, parameter.value, strict=False)
                ]
    return [row for row in rows if row[0] not in known and row[0].rpartition(".")[0] not in known]


def _around(value: float) -> tuple[float, float]:
    """A range about a value, to which a step is not confined."""
    return (0.5 * value, 1.5 * value) if value > 0 else (1.5 * value, 0.5 * value) if value < 0 else (-1.0, 1.0)


def _with(problem: Problem, unknowns: list[Unknown]) -> Problem:
    space = Space(problem.model.scene, unknowns, priors=problem.space.priors)
    wider = Problem(problem.model, problem.observation, space)
    wider.effort = problem.effort
    return wider
