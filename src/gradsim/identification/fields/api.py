"""`identify_fields`: estimate whole arrays of a soft body, with error bars and an effective rank."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError, Status
from gradsim.identification.fields.answer import (
    MAX_DENSE_UNKNOWNS,
    NOISELESS_TARGET,
    Evidence,
    FieldAnswer,
    minimize_fields,
)
from gradsim.identification.fields.fields import Field, FieldSpace
from gradsim.identification.fields.fit import FieldFit
from gradsim.identification.fields.problem import FieldProblem
from gradsim.identification.fields.resolution import Spectrum
from gradsim.identification.observation.base import Observation
from gradsim.identification.uncertainty.discretization import Discretization, converge, depends_on_steps
from gradsim.identification.uncertainty.residual_diagnostics import chi2_limit
from gradsim.physics.model import Model
from gradsim.scene import Scene

METHODS = ("auto", "dense", "cg", "lbfgs")
EARLY_LINEARIZATIONS = 12  # maximum number of linearizations of a stage before the last
EARLY_RTOL = 1e-3  # relative decrease at which such a stage ends
# Effort that the next halving of the step may cost, over that of the search; halvings at most
MAX_HALVING_EFFORT, HALVINGS = 4.0, 8
EARLY_NOISELESS_TARGET = 1e-2  # χ²/N at which such a stage ends without noise


def identify_fields(
    scene,
    fields: Sequence[str | Field],
    observation: Observation,
    starts: int = 1,
    seed: int = 0,
    method: str = "auto",
    curriculum: Sequence[int] | None = None,
    iterations: int = 40,
    report: Callable[[dict], None] = lambda entry: None,
    model: Model | None = None,
) -> FieldFit:
    """Estimate whole arrays of a soft body, such as the mass or velocity of each vertex.

    Args:
        scene: A `gradsim.Scene` with soft bodies, or a path to one.
        fields: Names of arrays, or `Field`s.
        observation: `Images`, `Masks`, `Vertices`, or several in `MultiView`.
        starts: Number of starts, random for fields with ranges; the one of lowest cost is returned.
        seed: Seed of the starts.
        method: "dense": Levenberg–Marquardt with JᵀJ; "cg": matrix-free Gauss–Newton with conjugate gradients; "lbfgs";
            "auto": dense up to 1000 unknowns, else cg.
        curriculum: Number of first frames of each stage; None: 2, 4, 8 … all.
        iterations: Maximum number of linearizations of the last stage.
        report: Called after each stage with a dict of start, frames, iterations and cost.
        model: Model of the scene, if it exists already.

    Returns:
        The fit. Along directions that neither data nor prior determine, values are those of the start.

    Raises:
        InputError: If a name is not an array, the method is unknown, the stages are invalid, or no start can be
            simulated.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}.")
    stages = _stages(curriculum, observation.frames)
    scene = Scene.load(scene) if isinstance(scene, str | Path) else scene
    model = model or _model(scene, [Field(f) if isinstance(f, str) else f for f in fields])
    space = FieldSpace(model, fields)
    problem = FieldProblem(model, observation, space)
    way = method if method != "auto" else "dense" if len(space) <= MAX_DENSE_UNKNOWNS else "cg"
    ends: list[tuple[float, Tensor]] = []
    history, total = [], 0
    for start, u in enumerate(space.draw(np.random.default_rng(seed), max(1, starts))):
        cost = math.inf
        for stage, frames in enumerate(stages):
            last = stage == len(stages) - 1
            few = observation.noise_floor(frames).informative
            plan = (
                (iterations, 1e-9, NOISELESS_TARGET * few)
                if last
                else (EARLY_LINEARIZATIONS, EARLY_RTOL, EARLY_NOISELESS_TARGET * few)
            )
            u, cost, count = minimize_fields(problem, u, frames, way, *plan)
            total += count
            history.append({"start": start, "frames": frames, "iterations": count, "cost": cost})
            report(history[-1])
        ends.append((cost, u))
    cost, u = min(ends, key=lambda end: end[0])
    answer, steps = FieldAnswer(problem, u, way, cost), None
    if depends_on_steps(problem) and math.isfinite(cost):
        answer, steps = converge(answer, MAX_HALVING_EFFORT * problem.effort.rollouts, HALVINGS)
        if answer.factor > 1:
            which = min(range(len(ends)), key=lambda k: ends[k][0])
            finer = {"frames": problem.frames, "iterations": answer.iterations, "cost": answer.cost}
            history.append({"start": which, **finer, "substeps": answer.problem.model.substeps})
            report(history[-1])
    return _conclude(
        answer, steps, [c for c, _ in ends], total + (answer.factor > 1) * answer.iterations, seed, history
    )


def _conclude(
    answer: FieldAnswer, steps: Discretization | None, starts: list[float], total: int, seed: int, history
) -> FieldFit:
    problem, space, u = answer.problem, answer.problem.space, answer.u
    finite = math.isfinite(answer.cost)
    evidence = answer.evidence if finite else _nothing(u)
    spectrum = evidence.spectrum
    if steps is not None:
        steps = replace(steps, shift=answer.shifts(steps.displacement))
        if (remainder := steps.remainder) is not None:
            spectrum = spectrum.widened(torch.full_like(u, torch.inf) if steps.diverged else remainder)
    spare = max(1.0, evidence.count - evidence.spectrum.rank)
    status = Status.OK if spectrum.rank == len(space) else Status.PARTIAL
    if evidence.chi2 / spare > chi2_limit(spare):
        status = Status.MISMATCH
    values = {name: v[0].numpy() for name, v in space.values(u[None]).items()}
    std = {}
    for p in space.pieces:
        std_inner = spectrum.std[p.columns].numpy()
        size = values[p.field.name].ravel()[p.entries.numpy()] if p.kind.positive else p.scale
        std[p.field.name] = p.whole(std_inner * size, 0.0)
    effort, sigma = problem.effort, problem.observation.sigma
    return FieldFit(
        status if finite else Status.FAILED,
        values,
        std,
        len(space),
        spectrum,
        sigma,
        evidence.chi2 / spare,
        int(evidence.count),
        answer.cost,
        starts,
        answer.method,
        total,
        effort.rollouts,
        effort.cpu_seconds,
        effort.wall_seconds,
        seed,
        space,
        u,
        history,
        discretization=steps,
    )


def _nothing(u: Tensor) -> Evidence:
    bounds = torch.full((len(u),), torch.inf, dtype=u.dtype)
    spectrum = Spectrum(bounds, torch.eye(len(u), dtype=u.dtype), bounds, ["No start could be simulated."])
    return Evidence(spectrum, math.nan, 0.0, None)


def _stages(given: Sequence[int] | None, frames: int) -> list[int]:
    if given is None:
        return sorted({min(2**k, frames) for k in range(1, max(2, math.ceil(math.log2(frames)) + 1))})
    if not given or list(given) != sorted(set(given)) or not 2 <= given[0] or given[-1] != frames:
        raise InputError(
            f"the curriculum is {list(given)}; it needs rising numbers of frames from 2 or more up to {frames}."
        )
    return list(given)


def _model(scene, fields: Sequence[Field]) -> Model:
    """Model whose automatic time step is stable over the ranges of the fields."""
    model = Model(scene)
    if scene.timing.substeps != "auto":
        return model
    ends = [{f.name: end for f in fields if (end := getattr(f, side)) is not None} for side in ("low", "high")]
    most = model.substeps
    for one in ends:
        FieldSpace(model, fields)  # names are right from here on
        values = {n: torch.full((1, *model.kinds[n].value.shape), v, dtype=torch.float64) for n, v in one.items()}
        most = max(most, model.recommended_substeps(model.values(values)))
    return Model(scene, substeps=most)
