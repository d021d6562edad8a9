"""`explain_gradients`: which unknowns have zero, exploding or non-finite gradients; at which frame, step and force.

The simulation is repeated with a frame per step and a tangent per unknown, and its contacts are recomputed in plain
PyTorch. Secants of increasing width show whether a tangent follows the trend, and Lyapunov exponents how fast the
trajectory loses the memory of its initial state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.fit import Fit
from gradsim.identification.gradients.findings import Finding, judge
from gradsim.identification.gradients.secant_audit import Audit, audit
from gradsim.identification.gradients.trace import ContactInterval, Record
from gradsim.identification.observation.base import Observation
from gradsim.identification.problem import Problem
from gradsim.identification.sensitivity import lyapunov
from gradsim.identification.sensitivity.adjoints import Adjoints, adjoints
from gradsim.identification.sensitivity.directions import Direction, of_model, of_space
from gradsim.identification.unknowns import Space, Unknown
from gradsim.physics.model import Divergence, Model
from gradsim.physics.trajectory import Trajectory
from gradsim.runtime.atomic import jsonable

ORDER = ("non-finite", "exploding", "kinked", "zero", "ok")


@dataclass(frozen=True)
class Explanation:
    """Diagnosis of the gradients of one trajectory.

    Args:
        findings: One for each unknown.
        times: Times of the frames (frames,) [s].
        sensitivity: Sensitivity of the motion to each unknown (unknowns, frames), in body sizes per step of one.
        contacts: Stretches of steps in which a body touches.
        substeps: Steps per frame.
        size: The body's radius [m].
        growth: Growth of errors of the start.
        audit: Comparison of tangents with secants; None where the motion diverges or it was not requested.
        loss: Description of the loss that was differentiated.
    """

    findings: list[Finding]
    times: Tensor
    sensitivity: Tensor
    contacts: list[ContactInterval]
    substeps: int
    size: float
    growth: lyapunov.Growth
    audit: Audit | None
    loss: str

    def __getitem__(self, name: str) -> Finding:
        by_name = {f.name: f for f in self.findings}
        if name not in by_name:
            raise InputError(f"nothing was asked about `{name}`; there are {', '.join(by_name)}.")
        return by_name[name]

    @property
    def ok(self) -> bool:
        """True if every gradient can be used as it is."""
        return all(f.verdict == "ok" for f in self.findings) and not self.growth.warnings

    @property
    def table(self) -> str:
        """One line for each unknown: gradient, what 1 % does, up to where the tangent holds, verdict."""
        rows = [("unknown", "gradient", "1 % moves the end", "holds up to", "verdict")]
        for f in self.findings:
            effect = f"{0.01 * f.sensitivity * self.size:.2g} m" + ("" if f.effect == "1 %" else f" ({f.effect})")
            rows.append((f.name, _number(f.gradient), effect, _width(f), f.verdict))
        widths = [max(len(row[c]) for row in rows) for c in range(5)]
        keep = [c for c in range(5) if c != 1 or any(f.gradient is not None for f in self.findings)]
        return "\n".join("  ".join(f"{row[c]:<{widths[c]}}" for c in keep).rstrip() for row in rows)

    def __str__(self) -> str:
        lines = [f"Gradients of {self.loss}:", self.table]
        for f in sorted(self.findings, key=lambda f: ORDER.index(f.verdict)):
            if f.reason:
                lines.append(f"\n{f.name} is {f.verdict}: {f.reason}.\n    Try: {f.advice}")
        lines += [f"\nWarning: {text}" for text in self.growth.warnings]
        return "\n".join(lines)

    def result(self) -> dict:
        """Plain numbers, for `result.json`."""
        content = jsonable(
            {
                "loss": self.loss,
                "gradients": {f.name: asdict(f) for f in self.findings},
                "warnings": self.growth.warnings,
                "lyapunov": self.growth.result(),
                "audit": self.audit.result() if self.audit is not None else None,
                "times": self.times.tolist(),
                "sensitivity": {f.name: row.tolist() for f, row in zip(self.findings, self.sensitivity, strict=True)},
                "contacts": [[c.body, c.first, c.last] for c in self.contacts],
                "substeps": self.substeps,
                "size": self.size,
            }
        )
        assert isinstance(content, dict)
        return content


def explain_gradients(
    subject: Tensor | Callable[[Trajectory], Tensor] | Problem | Fit | Model,
    model: Model | None = None,
    overrides: Mapping[str, Any] | None = None,
    unknowns: Sequence[str] | None = None,
    observation: Observation | None = None,
    frames: int | None = None,
    world: int = 0,
    secants: bool = True,
) -> Explanation:
    """Diagnose zero, exploding, kinked or non-finite gradients: unknown, frame, step, force and cause.

    Args:
        subject: Quantity to differentiate:
            a scalar made from `model.rollout(overrides)`, before its graph is freed;
            a function from a `Trajectory` to a scalar;
            a `Problem` (its Jacobian, at the values `overrides`, or in the middle of the ranges);
            a `Fit`, at its estimates, with or without its `observation`;
            or a `Model`: the trajectory itself.
        model: The model; not needed if the subject is a model or a problem.
        overrides: Parameters (worlds, ...) of the rollout; for a problem, numbers by unknown.
        unknowns: Names; None: those given or fitted; or else all masses, stiffnesses and other positive quantities.
        observation: Observation of a fit.
        frames: Number of frames; None: those of the loss, of the observation or of the scene.
        world: Index of the world to diagnose.
        secants: Audit the tangents by secants (24 rollouts per unknown).

    Returns:
        An `Explanation`: print it, or read `.findings`, `.growth`, `.audit`, `.result()`.

    Raises:
        InputError: If the model is missing or not the one that made the loss, the loss is not a scalar, or its graph is
            gone.
    """
    overrides = dict(overrides or {})
    if isinstance(subject, Problem):
        return _of_problem(subject, overrides, "the residuals of the problem", secants)
    alone = isinstance(subject, Model)
    if isinstance(subject, Model):
        model = subject
    if not isinstance(model, Model):
        raise InputError(f"got {type(model).__name__} for `model`; give the Model that made the motion.")
    if isinstance(subject, Fit):
        return _of_fit(subject, model, observation, frames, secants)
    directions = of_model(model, unknowns, overrides)
    values = model.values(overrides)
    worlds = len(next(iter(values.values())))
    if not 0 <= world < worlds:
        raise InputError(f"the rollout has no world {world}; it has {worlds}, counted from 0.")
    one = {name: v[world : world + 1].detach() for name, v in values.items()}
    if isinstance(subject, Tensor):
        loss_adjoints = adjoints(subject, model, overrides, directions)
        return _explain(
            model, one, directions, frames or loss_adjoints.frames, "the loss", loss_adjoints, None, secants
        )
    frames = frames or model.scene.timing.frames
    if alone:
        return _explain(model, one, directions, frames, "the motion", None, None, secants)
    if not callable(subject):
        raise InputError(
            f"got {type(subject).__name__}; give a loss, a function of a trajectory, a Problem, Fit or Model."
        )
    moving = {n: one[n].clone().requires_grad_() for d in directions for n, _ in d.places}
    try:
        loss = subject(model.rollout({**one, **moving}, frames))
    except Divergence:
        return _explain(model, one, directions, frames, "the motion, which diverges", None, None, secants)
    loss_adjoints = adjoints(loss, model, {**one, **moving}, directions)
    return _explain(model, one, directions, frames, "the loss", loss_adjoints, subject, secants)


def _of_fit(fit: Fit, model: Model, observation, frames: int | None, secants: bool) -> Explanation:
    unknowns = [Unknown(name, e.low, e.high) for name, e in fit.unknowns.items()]
    space = Space(model.scene, unknowns)
    numbers = torch.tensor([[fit.unknowns[name].value for name in space.names]], dtype=torch.float64)
    if observation is not None:
        at = dict(zip(space.names, numbers[0], strict=True))
        return _of_problem(Problem(model, observation, space), at, "the residuals of the fit", secants)
    values = {n: v.detach() for n, v in model.values(space.values(space.inner(numbers))).items()}
    frames = frames or model.scene.timing.frames
    return _explain(model, values, of_space(space), frames, "the fitted motion", None, None, secants)


def _of_problem(problem: Problem, overrides: Mapping[str, Any], label: str, secants: bool) -> Explanation:
    space, u = problem.space, (0.5 * (problem.space.low + problem.space.high))[None].clone()
    for name, number in overrides.items():
        if name not in space.names:
            raise InputError(f"the problem has no unknown `{name}`; it has {', '.join(space.names)}.")
        u[0, space.names.index(name)] = space.inner(torch.as_tensor(number).double().expand(len(space)))[
            space.names.index(name)
        ]
    columns = sum(J[0].square().sum(0) for _, J in problem.jacobian(u, problem.frames))
    directions = of_space(space)
    scales = torch.tensor([1.0 if d.scale is None else d.scale for d in directions], dtype=torch.float64)
    loss_adjoints = Adjoints({}, torch.as_tensor(columns).sqrt() * scales, problem.frames)
    values = {n: v.detach() for n, v in problem.model.values(space.values(u)).items()}
    return _explain(problem.model, values, directions, problem.frames, label, loss_adjoints, None, secants)


def _explain(
    model: Model,
    values: dict[str, Tensor],
    directions: list[Direction],
    frames: int,
    label: str,
    found: Adjoints | None,
    loss: Callable[[Trajectory], Tensor] | None,
    secants: bool,
) -> Explanation:
    if frames < 2:
        raise InputError(f"{frames} frame has no motion to explain; give at least 2.")
    record = Record(model, values, directions, frames)
    finite = record.not_finite(None) is None
    audited = audit(model, values, directions, frames, loss=loss) if secants and finite else None
    findings = [
        judge(record, k, audited, None if found is None else found.gradients[k].item(), _unseen(record, k, found))
        for k in range(len(directions))
    ]
    contacts = record.every_contact()
    growth = lyapunov.growth(model, values, frames)
    times = torch.arange(frames, dtype=torch.float64) / model.scene.timing.fps
    return Explanation(
        findings, times, record.by_frame(), contacts, model.substeps, record.scale.size, growth, audited, label
    )


def _unseen(record: Record, k: int, found: Adjoints | None) -> str | None:
    """Why a loss does not see an unknown that moves something, or where its own derivative is not finite."""
    if found is None or not found.states:
        return None
    broken = found.not_finite()
    if broken is not None:
        frame, quantity, body, world = broken
        where = f" of world {world}" if len(next(iter(found.states[body].values()))) > 1 else ""
        return f"the derivative of the loss itself by `{quantity}` of {body} is not finite at frame {frame}{where}"
    acts = (record.by_frame()[k] > 0).nonzero()[:, 0]
    read = found.frames_read()
    if len(acts) and read and max(read) < int(acts[0]):
        return f"it acts from frame {int(acts[0])} on, and the loss reads frames up to {max(read)}"
    return None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _width(finding: Finding) -> str:
    if finding.holds is None or finding.verdict == "zero":
        return "–"
    percent = 100 * finding.holds
    return "nowhere" if percent == 0 else f"{percent:.2g} %" if percent > 1 else f"{percent:.1g} %"
