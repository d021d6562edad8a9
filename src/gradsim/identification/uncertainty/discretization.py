"""Discretization: how far an answer depends on the time step, and the answer at a step on which it does not.

    Δ = −A⁻¹ (g_{h/2}(u) − g_h(u))          one Gauss–Newton step from the minimum at step h towards that at h/2

A video that gradsim did not make has none of its time steps, so an answer that moves with them is off by as much. After
the search the steps are halved until Δ is small compared with the standard deviation, or, where the video has no noise,
with the unknowns; each time the answer descends on the finer steps. What is left counts as an error of its own.

A video that was simulated at step h contradicts h/2: χ² rises. Then the answer at h stands, and says so.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import EXACT, Outcome, history_entry, restart_around_best, solved_cost
from gradsim.identification.uncertainty.fisher import analyze, secant_fisher

RELATIVE = 1e-7  # shift in relative units that does not count where the video has no noise
SLACK = 1.0  # χ² of a video without noise that its own steps explain
FOLLOWS = 9.0  # rise of χ² by finer steps that chance does not explain: 3 σ
SHARPER = 1e-2  # χ² of a video without noise over that of finer steps, below which it follows the coarser ones
HALVINGS = 3, 8  # of the step at most with noise, where samples at the last step may follow, and without
SHARE = 0.5  # of the effort of the search that each further halving may cost
ITERATIONS = 12  # linearizations on each step
PARTS = (0.85, 0.7, 0.55, 0.4)  # of a clip that are tried where no step converges over all of it
RESTARTS = 2  # rounds of restarts before χ² counts as risen


@dataclass(frozen=True)
class Discretization:
    """Dependence of a fit on the time step.

    Args:
        substeps: Steps per frame of the answer, of each clip.
        searched: Steps per frame of the search, likewise.
        displacement: How far half the step moves the answer, in solver coordinates (unknowns,).
        shift: The same by unknown, in standard deviations.
        tolerance: Largest of these that does not count (`timing.tolerance`).
        chi2_change: Change of χ² by half the step.
        video_follows: Whether the video follows the steps of the answer: finer ones explain it worse.
        adaptive: Whether steps were free (`timing.substeps: auto`).
        frames: Number of first frames that count: all, or those over which a step converges.
        clip_frames: Number of all frames.
    """

    substeps: list[int]
    searched: list[int]
    displacement: Tensor = field(repr=False)
    shift: dict[str, float]
    tolerance: float
    chi2_change: float
    video_follows: bool
    adaptive: bool
    frames: int
    clip_frames: int

    @property
    def converged(self) -> bool:
        """True if no shift exceeds the tolerance."""
        return max(map(abs, self.shift.values())) <= self.tolerance

    @property
    def remainder(self) -> Tensor | None:
        """Error that is left in the answer, in solver coordinates (unknowns,); None where it does not count."""
        return None if self.converged or self.video_follows else self.displacement

    def relative_to(self, std: Tensor) -> "Discretization":
        """The same with shifts in units of other standard deviations, in solver coordinates (unknowns,)."""
        return replace(self, shift=dict(zip(self.shift, _in_units(self.displacement, std), strict=True)))

    @property
    def words(self) -> str:
        """The verdict in a sentence or two."""
        steps = ", ".join(str(n) for n in self.substeps)
        name = max(self.shift, key=lambda k: abs(self.shift[k]))
        largest = abs(self.shift[name])
        if self.video_follows:
            return (
                f"The video follows the steps of this model ({steps} per frame): half the step raises χ² by "
                f"{self.chi2_change:.2g}. The answer holds at this step."
            )
        part = f"No time step converges over all {self.clip_frames} frames: the first {self.frames} are used. "
        half = ("" if self.frames == self.clip_frames else part) + f"Half the time step ({steps} steps per frame now)"
        if self.converged:
            return f"{half} moves no unknown by more than {largest:.2g} standard deviations."
        words = f"{half} still moves {name} by {largest:.2g} standard deviations, which are part of its error bar."
        if not self.adaptive:
            words += " The answer holds at this step; set timing.substeps to auto to make it independent of the step."
        return words

    def result(self) -> dict:
        """For `result.json`."""
        names = (
            "substeps",
            "searched",
            "shift",
            "tolerance",
            "chi2_change",
            "converged",
            "video_follows",
            "adaptive",
            "words",
        )
        return {name: getattr(self, name) for name in names}


class _Level:
    """The problem at `factor` times the steps of the search, the answer there, and the computing effort spent on it."""

    def __init__(self, problem: Problem, factor: int, u: Tensor, cost: float | None = None):
        self.problem, self.factor, self.u, self._cost = problem, factor, u, cost
        self.began, self.iterations = problem.effort.rollouts, 0

    @property
    def effort(self) -> int:
        """Rollouts since it was made, each as many as it has times the steps."""
        return self.factor * (self.problem.effort.rollouts - self.began)

    @cached_property
    def _linearization(self) -> tuple[Tensor, Tensor, Tensor]:
        cost, A, g = self.problem.linearize(self.u[None], self.problem.frames)
        return cost[0], A[0], g[0]

    @property
    def cost(self) -> float:
        """Cost at the answer."""
        return self._linearization[0].item() if self._cost is None else self._cost

    @property
    def normal(self) -> tuple[Tensor, Tensor]:
        """A (unknowns, unknowns) and g (unknowns,) at the answer."""
        return self._linearization[1:]

    def doubled(self) -> "_Level":
        """The same answer on half the step."""
        return _Level(self.problem.refined(2), 2 * self.factor, self.u)

    def descend(self) -> "_Level":
        """The minimum near the answer."""
        people, count = descend(self.problem, Population.at(self.u[None]), self.problem.frames, "pixels", ITERATIONS)
        return self._arrive(people, count)

    def restart(self, rng: np.random.Generator) -> "_Level":
        """The best minimum of some more around the answer."""
        people = Population.at(self.u[None])
        people.cost[0] = self.cost
        return self._arrive(*restart_around_best(self.problem, people, rng, RESTARTS))

    def _arrive(self, people: Population, count: int) -> "_Level":
        level = _Level(self.problem, self.factor, people.u[0], people.cost[0].item())
        level.began, level.iterations = self.began, self.iterations + count
        return level


def refine(
    problem: Problem,
    outcome: Outcome,
    rng: np.random.Generator,
    report: Callable[[dict], None] = lambda entry: None,
) -> tuple[Problem, Outcome, Discretization | None]:
    """Halve the time step until the answer stays.

    Args:
        problem: One clip or several; where a scene states a number of steps they stay, and are only judged.
        outcome: Of the search.
        rng: Draws restarts.
        report: Called with the entry that the history gets.

    Returns:
        The problem at the step of the answer, the outcome there, and the verdict; None for a problem without a model, and for
        videos that were simulated with the steps of the scene (`timing.tolerance: .inf`).
    """
    if not hasattr(problem, "refined") or not math.isfinite(outcome.best_cost):
        return problem, outcome, None
    tolerance = min(scene.timing.tolerance for scene in problem.scenes)
    if tolerance == math.inf:
        return problem, outcome, None
    budget, frames = SHARE * problem.effort.rollouts, problem.frames
    halved = _halve(_Level(problem, 1, outcome.best, outcome.best_cost), tolerance, budget, rng)
    shares = PARTS if halved.lost and hasattr(problem, "first_frames") else ()
    for share in shares:
        part = problem.first_frames(max(2, round(share * problem.frames)))
        shorter = _halve(_Level(part, 1, outcome.best).descend(), tolerance, budget, rng)
        if not shorter.lost:
            problem, halved = part, shorter
            break
    if halved.level.factor > 1 or shares:
        outcome = _continued(halved.level.problem, outcome, halved.level, report)
    return halved.level.problem, outcome, halved.verdict(problem, frames, tolerance)


@dataclass(frozen=True)
class _Halved:
    """Result of `_halve`: the answer and what half the step still changes."""

    level: _Level
    displacement: Tensor
    std: Tensor
    chi2_change: float
    video_follows: bool
    adaptive: bool
    clean: bool

    @property
    def lost(self) -> bool:
        """True if finer steps go on moving the answer by more than an error bar."""
        free = self.adaptive and not self.clean and not self.video_follows
        return free and _largest(self.displacement / self.std) > 1

    def verdict(self, searched: Problem, frames: int, tolerance: float) -> Discretization:
        problem = self.level.problem
        shift = dict(zip(problem.space.names, _in_units(self.displacement, self.std), strict=True))
        steps, flags = (_substeps(problem), _substeps(searched)), (self.video_follows, self.adaptive)
        counted = problem.frames, frames
        return Discretization(*steps, self.displacement, shift, tolerance, self.chi2_change, *flags, *counted)


def _halve(level: _Level, tolerance: float, budget: float, rng: np.random.Generator) -> _Halved:
    """Halve the step from an answer on, until it stays or an effort of `budget` rollouts at its steps is spent."""
    problem, space = level.problem, level.problem.space
    adaptive = all(scene.timing.substeps == "auto" for scene in problem.scenes)
    clean = problem.observation.noise_floor(problem.frames).level < EXACT
    unit = space.unit
    bounds = analyze(space, secant_fisher(problem, level.u, level.normal[0])[0], True)
    covariance, std = bounds.covariance * unit[:, None] * unit, bounds.std_inner
    counts = lambda move: _largest(move / (unit if clean else std)) >= (RELATIVE if clean else tolerance)
    most = SLACK if clean else solved_cost(problem, problem.frames)
    explained = lambda level: level.cost < most
    displacement, change, follows = torch.zeros_like(level.u), 0.0, False
    for _ in range(HALVINGS[clean]):
        finer = level.doubled()
        displacement, change = -(covariance @ (finer.normal[1] - level.normal[1])), finer.cost - level.cost
        if torch.isfinite(displacement).all() and not (clean or counts(displacement)):
            break
        finer = finer.descend()
        if not clean and explained(level) and _follows(level.cost, finer.cost, clean):
            finer = finer.restart(rng)
        displacement, change = finer.u - level.u, finer.cost - level.cost
        follows = explained(level) and _follows(level.cost, finer.cost, clean)
        if not math.isfinite(finer.cost):  # finer steps diverge: nothing is known of the answer
            displacement, follows = unit.clone(), False
            break
        if follows or not adaptive or not (clean or counts(displacement)):
            break
        level = finer
        if 2 * finer.effort > budget or not counts(displacement):
            break
    return _Halved(level, displacement, std, change, follows, adaptive, clean)


def at_answer(problem: Problem, discretization: Discretization | None) -> Problem:
    """The problem of a search at the step of its answer, of the frames that count."""
    if discretization is None:
        return problem
    if discretization.frames < problem.frames:
        problem = problem.first_frames(discretization.frames)
    factor = discretization.substeps[0] // _substeps(problem)[0]
    return problem.refined(factor) if factor > 1 else problem


def with_remainder(
    information: Tensor, samples: Samples | None, remainder: Tensor, seed: int
) -> tuple[Tensor, Samples | None]:
    """Information and samples of the posterior with an error of the size and direction of `remainder` (unknowns,) added.

    C + d dᵀ for the covariance C; by Sherman & Morrison (1950), W − W d dᵀ W / (1 + dᵀ W d) for W = C⁻¹.
    """
    towards = information @ remainder
    information = information - torch.outer(towards, towards) / (1 + remainder @ towards)
    if samples is not None:
        size = torch.tensor(np.random.default_rng(seed).standard_normal(len(samples.u)))
        samples = replace(samples, u=samples.u + size[:, None] * remainder)
    return information, samples


def _follows(coarse: float, fine: float, clean: bool) -> bool:
    """True if a video with these χ² on steps and on half of them was made with the former."""
    return coarse < SHARPER * fine if clean else coarse < fine - FOLLOWS


def _in_units(displacement: Tensor, std: Tensor) -> list[float]:
    """Shifts in standard deviations; 0 of what the data do not determine."""
    return (displacement / std).nan_to_num(0.0, torch.inf, -torch.inf).tolist()


def _largest(x: Tensor) -> float:
    return x.nan_to_num(0.0, torch.inf, torch.inf).abs().max().item()


def _substeps(problem: Problem) -> list[int]:
    """Steps per frame of each clip."""
    return [p.model.substeps for p in getattr(problem, "problems", [problem])]


def _continued(problem: Problem, outcome: Outcome, level: _Level, report: Callable[[dict], None]) -> Outcome:
    """The outcome at a finer step; which starts converged is still judged on the steps of the search."""
    u, cost = level.u[None], torch.tensor([level.cost], dtype=torch.float64)
    iterations = outcome.iterations + level.iterations
    entry = history_entry(problem, "finer steps", problem.frames, u, cost, iterations)
    report(entry)
    offset = torch.where(torch.isfinite(outcome.cost), level.cost - outcome.best_cost, 0.0)
    return replace(
        outcome,
        best=level.u,
        best_cost=level.cost,
        cost=outcome.cost + offset,
        iterations=iterations,
        history=[*outcome.history, entry],
    )
