"""`identify_fields`: estimate whole arrays of a soft body, with error bars and an effective rank."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError, Status
from gradsim.identification.fields import gauss_newton_cg, lbfgs
from gradsim.identification.fields.fields import Field, FieldSpace
from gradsim.identification.fields.fit import FieldFit
from gradsim.identification.fields.problem import FieldProblem
from gradsim.identification.fields.resolution import Spectrum, of_matrix, of_products
from gradsim.identification.fit import MISMATCH
from gradsim.identification.observation.base import Observation
from gradsim.identification.solvers.levenberg_marquardt import Population
from gradsim.identification.solvers.levenberg_marquardt import descend as by_matrix
from gradsim.identification.uncertainty.residual_diagnostics import STRAYS
from gradsim.physics.model import Model
from gradsim.scene import Scene

DENSE = 1000  # number of unknowns up to which JᵀJ is computed in full
METHODS = ("auto", "dense", "cg", "lbfgs")
EARLY = 12  # maximum number of linearizations of a stage before the last
ROUGH = 1e-3  # relative decrease at which such a stage ends
CLOSE, FINEST = 1e-2, 1e-14  # χ²/N at which an early stage and the last end, without noise
STEPS = 20  # of L-BFGS per linearization of the other methods


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
    way = method if method != "auto" else "dense" if len(space) <= DENSE else "cg"
    ends: list[tuple[float, Tensor]] = []
    history, total = [], 0
    for start, u in enumerate(space.draw(np.random.default_rng(seed), max(1, starts))):
        cost = math.inf
        for stage, frames in enumerate(stages):
            last = stage == len(stages) - 1
            few = observation.noise_floor(frames).informative
            plan = (iterations, 1e-9, FINEST * few) if last else (EARLY, ROUGH, CLOSE * few)
            u, cost, count = _descend(problem, u, frames, way, *plan)
            total += count
            history.append({"start": start, "frames": frames, "iterations": count, "cost": cost})
            report(history[-1])
        ends.append((cost, u))
    cost, u = min(ends, key=lambda end: end[0])
    return _conclude(problem, u, cost, way, [c for c, _ in ends], total, seed, history)


def _descend(
    problem: FieldProblem, u: Tensor, frames: int, way: str, iterations: int, rtol: float, target_cost: float
) -> tuple[Tensor, float, int]:
    """Minimize from one start with the chosen method; return u, its cost and the number of linearizations."""
    if way == "cg":
        return gauss_newton_cg.descend(problem, u, frames, "pixels", iterations, target_cost=target_cost, rtol=rtol)
    if way == "lbfgs":
        return lbfgs.descend(problem, u, frames, "pixels", STEPS * iterations, rtol)
    people, count = by_matrix(problem, Population.at(u[None]), frames, "pixels", iterations, target_cost, rtol=rtol)
    return people.u[0], people.cost[0].item(), count


def _conclude(
    problem: FieldProblem, u: Tensor, cost: float, way: str, starts: list[float], total: int, seed: int, history
) -> FieldFit:
    space, finite = problem.space, math.isfinite(cost)
    spectrum, chi2, count = (_by_matrix if len(space) <= DENSE else _by_products)(problem, u) if finite else _nothing(u)
    spare = max(1.0, count - spectrum.rank)
    status = Status.OK if spectrum.rank == len(space) else Status.PARTIAL
    if chi2 / spare > max(MISMATCH, 1 + 5 * math.sqrt(2 / spare)):
        status = Status.MISMATCH
    values = {name: v[0].numpy() for name, v in space.values(u[None]).items()}
    std = {}
    for p in space.pieces:
        std_inner = spectrum.std[p.columns].numpy()
        size = values[p.field.name].ravel()[p.entries.numpy()] if p.kind.positive else p.scale
        std[p.field.name] = p.whole(std_inner * size, 0.0)
    effort, sigma = problem.effort, getattr(problem.observation, "sigma", 1.0)
    return FieldFit(
        status if finite else Status.FAILED,
        values,
        std,
        len(space),
        spectrum,
        sigma,
        chi2 / spare,
        int(count),
        cost,
        starts,
        way,
        total,
        effort.rollouts,
        effort.cpu_seconds,
        effort.wall_seconds,
        seed,
        space,
        u,
        history,
    )


def _by_matrix(problem: FieldProblem, u: Tensor) -> tuple[Spectrum, float, float]:
    """Spectrum, χ² and number of residuals that carry information or contradict the model."""
    fisher, chi2, count = torch.zeros(len(u), len(u), dtype=u.dtype), 0.0, 0.0
    for r, J in problem.jacobian(u[None], problem.frames):
        fisher += J[0].T @ J[0]
        used = (J[0].abs().amax(1) > 1e-9 * J[0].abs().max().clamp(min=1e-300)) | (r[0].abs() > STRAYS)
        chi2, count = chi2 + r[0][used].square().sum().item(), count + used.sum().item()
    return of_matrix(problem, fisher), chi2, count


def _by_products(problem: FieldProblem, u: Tensor) -> tuple[Spectrum, float, float]:
    linearization = problem.at(u, problem.frames)
    least, count, _ = problem.observation.noise_floor(problem.frames)
    return of_products(problem, linearization), max(0.0, linearization.r.square().sum().item() - least), count


def _nothing(u: Tensor) -> tuple[Spectrum, float, float]:
    bounds = torch.full((len(u),), torch.inf, dtype=u.dtype)
    return Spectrum(bounds, torch.eye(len(u), dtype=u.dtype), bounds, ["No start could be simulated."]), math.nan, 0.0


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
