"""Fits of long or chaotic clips by multiple shooting: start states, continuation in κ, verdict.

1. Measured states give the start states of the windows; from silhouettes alone, the first window is searched in one
   shot and the clip grows by a few frames a stage, each new window from the end of the last. Never from the truth.
2. κ grows until the windows are one motion (`multiple_shooting.py`).
3. From every place where that came to, one shot through a growing clip polishes the answer. Where its cost comes down
   to that of the windows, it is the answer, and the verdict is that of any fit. Where it does not, because the motion
   forgets its start faster than the unknowns can be known, or the model is not quite right, the windows are the answer,
   reported with the jumps between them.
4. Where the windows are the answer, their time step is halved as that of any fit, with the start states eliminated.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError, Status
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import States
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population
from gradsim.identification.solvers.levenberg_marquardt import descend as descend_in_one
from gradsim.identification.solvers.multiple_shooting import Segments, ShootingProblem, descend, jumps, measured_starts
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome, history_entry, search
from gradsim.identification.solvers.thresholds import HOPELESS_CHI2_GAP
from gradsim.identification.uncertainty.discretization import (
    ITERATIONS,
    Answer,
    Bounds,
    Discretization,
    converge,
    depends_on_steps,
    linear_bounds,
    with_steps,
)
from gradsim.identification.uncertainty.fisher import analyze
from gradsim.identification.uncertainty.intervals import estimate_in_range
from gradsim.identification.uncertainty.residual_diagnostics import (
    FrameResiduals,
    ResidualDiagnostics,
    by_frame,
    chi2_limit,
    diagnose_residuals,
    first_contact,
    outlier_threshold,
)

GROWING_GAP_WEIGHT = 100.0  # κ of a clip that grows: a gap of a tenth of the body's size costs one unit of χ²
MAX_HALVING_EFFORT = 2.0  # effort that the next halving of the step may cost, over that of the search
STEP_COMPARISON_RTOL = 1e-9  # relative decrease of the cost below which an iteration is idle, where steps are compared
MAX_STARTS_AFTER_FIRST_WINDOW = 6  # starts that go on from the first window, at most


@dataclass(frozen=True)
class MultipleShooting:
    """Settings of multiple shooting.

    Args:
        window: Frames from one start to the next: as many as the motion remembers, often 10 to 30.
        stiffness: κ, in turn.
        iterations: Linearisations for each κ, at most.
        grow: Frames added at a stage where starts of windows are not measured.
    """

    window: int = 20
    stiffness: tuple[float, ...] = (1.0, 1e2, 1e3, 1e4)
    iterations: int = 8
    grow: int = 3

    def __post_init__(self):
        if not self.stiffness or min(*self.stiffness, self.iterations, self.grow) <= 0:
            raise InputError(f"{self} has a stiffness, iterations or grow of 0 or less; give positive numbers.")


def shoot(
    problem: Problem,
    plan: MultipleShooting,
    starts: int,
    rng: np.random.Generator,
    report: Callable[[dict], None] = lambda entry: None,
) -> tuple[Outcome, Segments, ShootingProblem]:
    """Search by multiple shooting.

    Args:
        problem: The problem in one shot.
        plan: How the clip is cut.
        starts: Number drawn from the ranges.
        rng: Draws them.
        report: Called after each stage with its entry of the history.

    Returns:
        Where one shot came to from the starts; the best start of the windows (one row); and the windows' problem.

    Raises:
        InputError: As `Windows`.
    """
    cut, history = ShootingProblem(problem, plan.window), []

    def note(stage: str, frames: int, cost: Tensor, u: Tensor) -> None:
        history.append(history_entry(problem, stage, frames, u, cost, len(history)))
        report(history[-1])

    initial = problem.space.draw(rng, starts)
    states = _all_states(problem)
    if states:
        nodes, who = measured_starts(cut, states).expand(starts, -1, -1), torch.arange(starts)
        segments = cut.at(initial, nodes, plan.stiffness[0], problem.frames)
    else:
        segments, who = _grown(cut, plan, starts, rng, note)
    for stiffness in plan.stiffness:
        segments = descend(cut, segments, stiffness, problem.frames, plan.iterations)
        note("windows", problem.frames, segments.cost, segments.u)
    iterates = _one_shot(problem, segments.u, plan.window)
    note("one shot", problem.frames, iterates.cost, iterates.u)
    k, original = int(iterates.cost.argmin()), who >= 0
    final, cost = torch.full_like(initial, torch.nan), torch.full((starts,), torch.inf).double()
    final[who[original]], cost[who[original]] = iterates.u[original], iterates.cost[original]
    outcome = Outcome(initial, final, cost, iterates.u[k], iterates.cost[k].item(), len(history), history)
    return outcome, segments[[int(segments.cost.argmin())]], cut


def one_shot_suffices(outcome: Outcome, segments: Segments) -> bool:
    """True if one shot fits the data as well as the windows, which may jump."""
    return outcome.best_cost < segments.cost[0].item() * 1.1 + HOPELESS_CHI2_GAP


def jump_record(cut: ShootingProblem, segments: Segments, plan: MultipleShooting, polished: bool) -> dict:
    """Entry `shooting` of `result.json`."""
    records = jumps(cut, segments)
    names = [key for key in records[0] if key != "frame"]
    largest = {name: max(jump[name] for jump in records) for name in names}
    return {
        "window": plan.window,
        "windows": len(records) + 1,
        "answer": "one shot" if polished else "windows",
        "chi2_windows": segments.data[0].item(),
        "largest_jump": largest,
        "jumps": records,
    }


def _all_states(problem: Problem) -> list[States]:
    """Measured states of every body, in their order; nothing where some are not measured."""
    parts = problem.observation.parts.values()
    known = {part.body: part for part in parts if isinstance(part, States) and part.q is not None}
    bodies = list(problem.model.scene.bodies)
    return [known[name] for name in bodies] if set(bodies) <= set(known) else []


def _grown(cut: ShootingProblem, plan: MultipleShooting, starts: int, rng, note) -> tuple[Segments, Tensor]:
    """Search the first window in one shot, then let the clip grow window by window; and which start each is, or -1."""
    problem, first = cut.problem, min(plan.window + 1, cut.problem.frames)
    begin = Problem(problem.model, problem.observation.slice_frames(0, first), problem.space)
    begin.effort = problem.effort
    outcome = search(begin, MultistartConfig(starts=starts), rng)
    near = torch.isfinite(outcome.cost).nonzero()[:, 0]
    near = near[outcome.cost[near].argsort()][:MAX_STARTS_AFTER_FIRST_WINDOW]
    u = torch.cat([outcome.best[None], outcome.final[near]])
    note("first window", first, torch.tensor([outcome.best_cost, *outcome.cost[near].tolist()]), u)
    segments = cut.at(u, u.new_zeros(len(u), 0, cut.windows.size), GROWING_GAP_WEIGHT, first)
    for frames in [*range(first + plan.grow, problem.frames, plan.grow), problem.frames]:
        segments = cut.at(segments.u, cut.grown(segments, frames), GROWING_GAP_WEIGHT, frames)
        least, informative, level = problem.observation.noise_floor(frames)
        target_cost = least + 0.5 * min(level, 1.0) * informative
        segments = descend(cut, segments, GROWING_GAP_WEIGHT, frames, 4, target_cost=target_cost)
        note("windows grow", frames, segments.cost, segments.u)
    return segments, torch.cat([torch.tensor([-1]), near])


def _one_shot(problem: Problem, u: Tensor, window: int) -> Population:
    """Refine the unknowns in one shot through a growing clip."""
    iterates = Population.at(u)
    for frames in [*range(min(window, problem.frames), problem.frames, max(2, window // 4)), problem.frames]:
        iterates, _ = descend_in_one(problem, iterates, frames, "pixels", 6 if frames < problem.frames else 30)
    return iterates


class WindowsAnswer(Answer):
    """Answer of a fit in windows.

    Args:
        cut: The problem on some time step.
        segments: Unknowns and start states of one start.
        stiffness: κ.
        factor: As for `Answer`.
    """

    def __init__(self, cut: ShootingProblem, segments: Segments, stiffness: float, factor: int = 1):
        super().__init__(cut.problem, segments.u[0], factor)
        self.cut, self.segments, self.stiffness = cut, segments, stiffness

    @cached_property
    def _reduced(self) -> tuple[Tensor, Tensor]:
        information, gradient = self.cut.reduced(self.segments, self.stiffness)
        return information[0], gradient[0]

    @property
    def information(self) -> Tensor:
        """Information on the shared unknowns (unknowns, unknowns)."""
        return self._reduced[0]

    @property
    def cost(self) -> float:
        return self.segments.cost[0].item()

    @property
    def gradient(self) -> Tensor:
        return self._reduced[1]

    def bounds(self) -> Bounds:
        return linear_bounds(self.problem, self.information)

    def doubled(self) -> Self:
        cut = self.cut.with_finer_steps(2)
        segments = cut.at(self.segments.u, self.segments.nodes, self.stiffness, cut.problem.frames)
        return type(self)(cut, segments, self.stiffness, 2 * self.factor)

    def descend(self) -> Self:
        cut, plan = self.cut, (self.stiffness, self.problem.frames, ITERATIONS)
        segments = descend(cut, self.segments, *plan, rtol=STEP_COMPARISON_RTOL)
        return self.arrived(type(self)(cut, segments, self.stiffness, self.factor), ITERATIONS)


def refine_windows(
    cut: ShootingProblem, segments: Segments, outcome: Outcome, stiffness: float, report: Callable[[dict], None]
) -> tuple[WindowsAnswer, Discretization | None]:
    """Halve the time step of windows until the answer stays.

    Args:
        cut: The problem in windows.
        segments: Unknowns and start states of one start.
        outcome: Of one shot; its history gets an entry.
        stiffness: κ.
        report: Called with that entry.
    """
    answer = WindowsAnswer(cut, segments, stiffness)
    if not depends_on_steps(cut.problem) or not math.isfinite(answer.cost):
        return answer, None
    answer, discretization = converge(answer.descend(), MAX_HALVING_EFFORT * cut.effort.rollouts)
    if answer.factor > 1:
        u, cost = answer.segments.u, answer.segments.cost
        entry = history_entry(answer.problem, "finer steps", answer.problem.frames, u, cost, len(outcome.history))
        outcome.history.append(entry)
        report(entry)
    return answer, discretization


def verdict(
    answer: WindowsAnswer, discretization: Discretization | None, outcome: Outcome, seed: int, noise_known: bool
) -> Fit:
    """Fit where the windows are the answer; error bars from the information with start states eliminated."""
    problem, segments, space = answer.problem, answer.segments, answer.problem.space
    least, informative, _ = problem.observation.noise_floor(problem.frames)
    spare = max(1.0, informative - len(space) - segments.nodes[0].numel())
    chi2 = max(segments.data[0].item() - least, 0.0) / spare
    scale = 1.0 if noise_known else max(chi2, 1e-30)
    pushed = any(scene.pushes for scene in problem.scenes)
    information, _, discretization = with_steps(space, answer.information / scale, None, discretization, seed)
    uncertainty = analyze(space, information, pushed)
    estimates = {
        name: estimate_in_range(space, k, answer.u[k].item(), uncertainty) for k, name in enumerate(space.names)
    }
    known = all(e.identifiable for e in estimates.values())
    status = Status.OK if known else Status.UNIDENTIFIABLE
    left = _diagnostics(answer) if math.isfinite(answer.cost) else None
    if left is None:
        status = Status.FAILED
    elif noise_known and (chi2 > chi2_limit(spare) or not left.white):
        status = Status.MISMATCH
    return Fit.of(
        problem,
        outcome,
        status=status,
        unknowns=estimates,
        uncertainty=uncertainty,
        sigma_reference=problem.observation.sigma * math.sqrt(scale),
        chi2_per_n=chi2 / scale,
        informative=informative,
        seed=seed,
        starts={"count": len(outcome.initial), "converged": 0},
        residual_diagnostics=left,
        discretization=discretization,
    )


def _diagnostics(answer: WindowsAnswer) -> ResidualDiagnostics:
    """Tests of what windows leave, all frames in a row."""
    problem, spans, joined = answer.problem, answer.cut.windows.spans(answer.problem.frames), None
    by_window: list[list[FrameResiduals]] = []
    contacts = []
    for (first, last), (trajectory, data, blocks) in zip(spans, answer.cut.linearized(answer.segments), strict=True):
        joined = joined.then(trajectory) if joined else trajectory
        by_window.append(by_frame(data, last - first, blocks, outlier_threshold(problem)))
        contacts += [first + frame for frame in [first_contact(trajectory)] if frame is not None]
    assert joined is not None
    whole = list(problem.observation.parts.values())
    whole = whole if len(whole) == len(by_window[0]) else [problem.observation]
    parts = [
        FrameResiduals(data, torch.cat([w.r for w in windows]), torch.cat([w.informative for w in windows]))
        for data, *windows in zip(whole, *by_window, strict=True)
    ]
    free = len(problem.space) + answer.segments.nodes[0].numel()
    return diagnose_residuals(problem, joined, parts, min(contacts, default=None), free, absorbed=True)
