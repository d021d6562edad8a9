"""Discretization: how far an answer depends on the time step, and the answer at a step on which it does not.

    Δ = −A⁻¹ (g_{h/2}(u) − g_h(u))          one Gauss–Newton step from the minimum at step h towards that at h/2

A video that gradsim did not make has none of its time steps, so an answer that moves with them is off by as much. After
the search the steps are halved until Δ is small compared with the standard deviation, or, where the video has no noise,
with the unknowns; each time the answer descends on the finer steps. What is left counts as an error of its own.

A video that was simulated at step h contradicts h/2: χ² rises. Then the answer at h stands, and says so.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.levenberg_marquardt import (
    RTOL,
    Population,
    damped_step,
    descend,
    remaining_decrease,
)
from gradsim.identification.solvers.multistart import Outcome, history_entry
from gradsim.identification.solvers.restarts import restart_around_best
from gradsim.identification.solvers.thresholds import NOISELESS_LEVEL, solved_cost
from gradsim.identification.uncertainty.fisher import analyze, is_quadratic, secant_fisher
from gradsim.identification.unknowns import Ranges
from gradsim.physics.convergence import halve

RELATIVE = 1e-7  # shift in relative units that does not count where the video has no noise
SLACK = 1.0  # χ² of a video without noise that its own steps explain
FOLLOWS = 9.0  # rise of χ² by finer steps that chance does not explain: 3 σ
SHARPER = 1e-2  # χ² of a video without noise over that of finer steps, below which it follows the coarser ones
HALVINGS = 3, 8  # of the step at most with noise, where samples at the last step may follow, and without
SHARE = 1.0  # of the effort of the search that each further halving may cost,
LEAST_EFFORT = 250  # or rollouts on the steps of the search, where that is more
ITERATIONS = 12  # linearizations on each step
PARTS = (0.85, 0.7, 0.55, 0.4)  # of a clip that are tried where no step converges over all of it
CHORDS = 4  # steps by the derivatives on the coarser steps at most
CHORDS_LEAVE = 0.25  # of χ² that these may leave, by what their model says and by how much that is wrong
RESTARTS = 2  # rounds of restarts before χ² counts as risen
APPROACH = 0.5  # relative decrease of χ² on finer steps, at which a video without noise may show which steps it follows
FURTHER = 1e-2  # of that χ², which the rest of the way surely leaves
NOISY_DECREASE = 1e-3  # decrease of χ² of a video with noise at which descents end: 0.03 standard deviations


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
    def largest(self) -> float:
        """Largest shift."""
        return max(map(abs, self.shift.values()))

    @property
    def converged(self) -> bool:
        """True if no shift exceeds the tolerance."""
        return self.largest <= self.tolerance

    @property
    def diverged(self) -> bool:
        """True if half the step cannot be simulated; the displacement is then the unit of each unknown."""
        return not math.isfinite(self.chi2_change)

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
        if self.diverged:
            return (
                f"On half the time step ({steps} steps per frame now) the motion or its derivatives leave the finite "
                "numbers. So the error of the steps is unknown, and counts as the whole range of each unknown."
            )
        if self.video_follows:
            return (
                f"The video follows the steps of this model ({steps} per frame): half the step raises χ² by "
                f"{self.chi2_change:.2g}. The answer holds at this step."
            )
        part = f"No time step converges over all {self.clip_frames} frames: the first {self.frames} are used. "
        half = ("" if self.frames == self.clip_frames else part) + f"Half the time step ({steps} steps per frame now)"
        if self.converged:
            return f"{half} moves no unknown by more than {self.largest:.2g} standard deviations."
        words = f"{half} still moves {name} by {self.largest:.2g} standard deviations, which are part of its error bar."
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


@dataclass(frozen=True)
class Bounds:
    """Error bars and information at an answer, as far as a comparison with half the step needs them.

    Args:
        solve: A⁻¹ b from b (unknowns,), along the directions that the data determine.
        shifts: Displacement (unknowns,) in standard deviations, by name.
    """

    solve: Callable[[Tensor], Tensor]
    shifts: Callable[[Tensor], dict[str, float]]


class Answer(ABC):
    """Answer of a fit on one time step.

    Args:
        problem: The problem on that step.
        u: The unknowns (unknowns,), in solver coordinates.
        factor: Steps per frame over those of the search.

    Attributes:
        iterations: Linearizations on this step.
    """

    def __init__(self, problem: Problem, u: Tensor, factor: int = 1):
        self.problem, self.u, self.factor = problem, u, factor
        self.began, self.iterations = problem.effort.rollouts, 0

    @property
    def effort(self) -> int:
        """Rollouts on this step, each as many as it has times the steps of the search."""
        return self.factor * (self.problem.effort.rollouts - self.began)

    @property
    @abstractmethod
    def cost(self) -> float:
        """Cost; infinite where the motion or its derivatives are not finite."""

    @property
    @abstractmethod
    def gradient(self) -> Tensor:
        """g (unknowns,)."""

    @abstractmethod
    def bounds(self) -> Bounds:
        """Error bars and information."""

    @abstractmethod
    def doubled(self) -> Self:
        """The same answer on half the step."""

    @abstractmethod
    def descend(self) -> Self:
        """The minimum near the answer."""

    def descend_until(self, decided: Callable[[float], bool]) -> Self:
        """The minimum near the answer, or a point on the way there whose cost decides all that is asked."""
        return self.descend()

    def near_minimum(self, coarse: Self, decided: Callable[[float], bool]) -> Self | None:
        """A point near the minimum about a coarser answer, without derivatives on these steps, if its cost decides all that is asked."""
        return None

    def restart(self) -> Self:
        """The best minimum of some more around the answer, for a cost of many valleys."""
        return self

    def arrived(self, answer: Self, count: int) -> Self:
        """An answer on the same step, `count` linearizations later."""
        answer.began, answer.iterations = self.began, self.iterations + count
        return answer


class SearchAnswer(Answer):
    """Answer of a search in one shot.

    Args:
        problem, u, factor: As for `Answer`.
        rng: Draws restarts.
        cost: Cost, if it is known.
    """

    def __init__(
        self, problem: Problem, u: Tensor, rng: np.random.Generator, cost: float | None = None, factor: int = 1
    ):
        super().__init__(problem, u, factor)
        self._rng, self._cost = rng, cost

    @cached_property
    def _linearization(self) -> tuple[Tensor, Tensor, Tensor]:
        cost, A, g = self.problem.linearize(self.u[None], self.problem.frames)
        return cost[0], A[0], g[0]

    @property
    def cost(self) -> float:
        return self._linearization[0].item() if self._cost is None else self._cost

    @property
    def gradient(self) -> Tensor:
        return self._linearization[2]

    def bounds(self) -> Bounds:
        return linear_bounds(self.problem, secant_fisher(self.problem, self.u, self._linearization[1])[0])

    def doubled(self) -> Self:
        return type(self)(self.problem.with_finer_steps(2), self.u, self._rng, None, 2 * self.factor)

    def descend(self, rtol: float = RTOL) -> Self:
        start, least = Population.at(self.u[None]), 0.0 if _exact(self.problem) else NOISY_DECREASE
        return self._at(*descend(self.problem, start, self.problem.frames, "pixels", ITERATIONS, 0.0, least, rtol))

    def descend_until(self, decided: Callable[[float], bool]) -> Self:
        if not _exact(self.problem):
            return self.descend()
        near = self.descend(APPROACH)
        return near if decided(near.cost) else near.descend()

    def near_minimum(self, coarse: Self, decided: Callable[[float], bool]) -> Self | None:
        """The same by the chord method: Gauss–Newton steps with the derivatives that the motion has on the coarser steps."""
        problem, last = self.problem, torch.zeros(1, dtype=torch.float64)
        near = coarse.problem.known_sensitivity(coarse.u) if type(problem) is Problem else None
        if near is None:
            return None
        now = Population.at(coarse.u[None])
        now.cost, A, g = problem.linearize_by(near, now.u, problem.frames)
        for _ in range(CHORDS):
            if not (torch.isfinite(A).all() and torch.isfinite(g).all() and now.cost.isfinite()):
                return None
            trial = Population.at(damped_step(problem.space, now.u, A, g, last))
            trial.cost, *after = problem.linearize_by(near, trial.u, problem.frames)
            if not trial.cost < now.cost:
                return None
            left = remaining_decrease(problem.space, now, A, g, trial)
            now, (A, g) = trial, after
            if left <= CHORDS_LEAVE * now.cost:
                return self._at(now, 1) if decided((now.cost - left).item()) else None
        return None

    def restart(self) -> Self:
        """The same where χ² is smooth about the answer, and has no other valley."""
        A = self._linearization[1]
        if not secant_fisher(self.problem, self.u, A)[1] and is_quadratic(self.problem, self.u, A):
            return self
        iterates = Population.at(self.u[None])
        iterates.cost[0] = self.cost
        return self._at(*restart_around_best(self.problem, iterates, self._rng, RESTARTS))

    def _at(self, iterates: Population, count: int) -> Self:
        return self.arrived(
            type(self)(self.problem, iterates.u[0], self._rng, iterates.cost[0].item(), self.factor), count
        )


A = TypeVar("A", bound=Answer)


def linear_bounds(problem: Problem, information: Tensor) -> Bounds:
    """Bounds from the information on numbers (unknowns, unknowns)."""
    space = problem.space
    bounds = analyze(space, information, True)
    covariance = bounds.covariance * space.unit[:, None] * space.unit
    in_units = lambda move: dict(zip(space.names, _in_units(move, bounds.std_inner), strict=True))
    return Bounds(lambda b: covariance @ b, in_units)


def refine(
    problem: Problem,
    outcome: Outcome,
    rng: np.random.Generator,
    report: Callable[[dict], None] = lambda entry: None,
) -> tuple[Problem, Outcome, Discretization | None]:
    """Halve the time step of a search in one shot until the answer stays.

    Args:
        problem: One clip or several; where a scene states a number of steps they stay, and are only judged.
        outcome: Of the search.
        rng: Draws restarts.
        report: Called with the entry that the history gets.

    Returns:
        The problem at the step of the answer, the outcome there, and the verdict; None for a problem without a model, and for
        videos that were simulated with the steps of the scene (`timing.tolerance: .inf`).
    """
    if not depends_on_steps(problem) or not math.isfinite(outcome.best_cost):
        return problem, outcome, None
    budget, frames = max(SHARE * problem.effort.rollouts, LEAST_EFFORT), problem.frames
    answer, verdict = converge(SearchAnswer(problem, outcome.best, rng, outcome.best_cost), budget)
    lost = lambda verdict: verdict.adaptive and not verdict.video_follows and verdict.largest > 1
    partial = lost(verdict) and not _exact(problem) and hasattr(problem, "first_frames")
    for share in PARTS if partial else ():
        part = problem.first_frames(max(2, round(share * frames)))
        shorter, judged = converge(SearchAnswer(part, outcome.best, rng).descend(), budget)
        if not lost(judged):
            answer, verdict = shorter, replace(judged, clip_frames=frames)
            break
    if answer.factor > 1 or partial:
        outcome = _continued(answer.problem, outcome, answer, report)
    return answer.problem, outcome, verdict


def depends_on_steps(problem: Problem) -> bool:
    """False for a problem without a model, where another engine has the steps, and for videos that were simulated with those of the scene."""
    has_steps = hasattr(problem, "with_finer_steps") and not any(one.model.is_external for one in problem.problems)
    return has_steps and _tolerance(problem) < math.inf


@dataclass(frozen=True)
class _Change:
    """Change of an answer by half the step, as in `Discretization`."""

    displacement: Tensor
    chi2_change: float
    video_follows: bool = False


def converge(answer: A, budget: float | None = None, halvings: int | None = None) -> tuple[A, Discretization]:
    """Halve the time step from an answer on, until it stays or too much effort is spent.

    Args:
        answer: Answer on the steps of the search, of a problem that `depends_on_steps`.
        budget: Effort that ends it, in rollouts on the steps of the search; None: as much as so far.
        halvings: Their number at most; None: `HALVINGS`.

    Returns:
        The answer on the last step, and what half of that still changes.
    """
    problem, bounds, tolerance = answer.problem, answer.bounds(), _tolerance(answer.problem)
    adaptive, clean = all(scene.timing.substeps == "auto" for scene in problem.scenes), _exact(problem)
    limit = SHARE * problem.effort.rollouts if budget is None else budget
    unit, most = problem.space.unit, SLACK if clean else solved_cost(problem, problem.frames)
    follows = lambda coarse, cost: coarse.cost < most and _follows(coarse.cost, cost, clean)

    def counts(move: Tensor) -> bool:
        if clean:
            return _largest(move / unit) >= RELATIVE
        return max(map(abs, bounds.shifts(move).values())) >= tolerance

    def compare(coarse: A) -> tuple[A, _Change, bool]:
        finer = coarse.doubled()
        if clean and (near := finer.near_minimum(coarse, lambda cost: follows(coarse, FURTHER * cost))):
            return coarse, _Change(near.u - coarse.u, near.cost - coarse.cost, True), True
        estimate = -bounds.solve(finer.gradient - coarse.gradient)
        if not (torch.isfinite(estimate).all() and math.isfinite(finer.cost)):  # nothing is known of the answer there
            return coarse, _Change(unit.clone(), math.inf), True
        if not (clean or counts(estimate)):
            return coarse, _Change(estimate, finer.cost - coarse.cost), True
        finer = finer.descend_until(lambda cost: follows(coarse, FURTHER * cost))
        if not clean and follows(coarse, finer.cost):
            finer = finer.restart()
        change = _Change(finer.u - coarse.u, finer.cost - coarse.cost, follows(coarse, finer.cost))
        moves = counts(change.displacement)
        if change.video_follows or not adaptive or not (clean or moves):
            return coarse, change, True
        return finer, change, not moves or 2 * finer.effort > limit

    refined, change = halve(answer, compare, HALVINGS[clean] if halvings is None else halvings)
    return refined, Discretization(
        _substeps(refined.problem),
        _substeps(problem),
        change.displacement,
        bounds.shifts(change.displacement),
        tolerance,
        change.chi2_change,
        change.video_follows,
        adaptive,
        problem.frames,
        problem.frames,
    )


def at_answer(problem: Problem, discretization: Discretization | None) -> Problem:
    """The problem of a search at the step of its answer, of the frames that count."""
    if discretization is None:
        return problem
    if discretization.frames < problem.frames:
        problem = problem.first_frames(discretization.frames)
    factor = discretization.substeps[0] // _substeps(problem)[0]
    return problem.with_finer_steps(factor) if factor > 1 else problem


def with_steps(
    space: Ranges, information: Tensor, samples: Samples | None, discretization: Discretization | None, seed: int
) -> tuple[Tensor, Samples | None, Discretization | None]:
    """Error bars that contain what half the step still moves, and the verdict in units of those without it.

    Args:
        space: The unknowns.
        information: Of the posterior (unknowns, unknowns).
        samples: Of the same.
        discretization: The verdict; None where steps were not examined.
        seed: Random seed of the samples' part.
    """
    if discretization is None:
        return information, samples, None
    discretization = discretization.relative_to(analyze(space, information, True).std_inner)
    if (remainder := discretization.remainder) is not None:
        information, samples = with_remainder(information, samples, remainder, seed)
    return information, samples, discretization


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


def _tolerance(problem: Problem) -> float:
    return min(scene.timing.tolerance for scene in problem.scenes)


def _exact(problem: Problem) -> bool:
    """True for a video without noise; where outlines are noise, σ of the pixels says nothing of that."""
    observation = problem.observation
    return not observation.outline_noise and observation.noise_floor(problem.frames).level < NOISELESS_LEVEL


def _largest(x: Tensor) -> float:
    return x.nan_to_num(0.0, torch.inf, torch.inf).abs().max().item()


def _substeps(problem: Problem) -> list[int]:
    """Steps per frame of each clip."""
    return [p.model.substeps for p in problem.problems]


def _continued(problem: Problem, outcome: Outcome, answer: Answer, report: Callable[[dict], None]) -> Outcome:
    """The outcome at a finer step; which starts converged is still judged on the steps of the search."""
    u, cost = answer.u[None], torch.tensor([answer.cost], dtype=torch.float64)
    iterations = outcome.iterations + answer.iterations
    entry = history_entry(problem, "finer steps", problem.frames, u, cost, iterations)
    report(entry)
    offset = torch.where(torch.isfinite(outcome.cost), answer.cost - outcome.best_cost, 0.0)
    return replace(
        outcome,
        best=answer.u,
        best_cost=answer.cost,
        cost=outcome.cost + offset,
        iterations=iterations,
        history=[*outcome.history, entry],
    )
