"""Sequential Monte Carlo for posteriors that contact may bend or kink.

    p(u) ∝ exp(−χ²(u)/2) within the ranges

Contact cuts the likelihood of a long clip into valleys, some narrower than the error bars of its first frames, and two may
explain the clip alike. So a cloud is first drawn on a part of the clip that is still smooth, by weights (importance
sampling, Student's t about the answer), whose effective sample fraction shows whether they suffice.
Then it is led to the whole clip (sequential Monte Carlo, Del Moral et al. 2006). The rest comes in by a power φ that grows
from 0 to 1,

    χ²_φ = χ²_part + φ (χ²_whole − χ²_part),

in steps that leave half of the cloud counting, each followed by moves by differential evolution. A valley that no start
met is found if it is within the error bars of the part: the cloud is a search, too. It ends early, with the wider error
bars of the φ it came to, where no move is accepted any more: what cannot be explored is not believed.

One of two valleys looks smooth, and its draws all count, while the truth may lie in the other. So the cloud does not begin
with the longest part that looks smooth, but earlier, where valleys have not parted yet, and goes through that one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.uncertainty.fisher import WIDEST, secant_fisher

DRAWS, FREEDOM = 400, 5.0  # draws of a round, and degrees of freedom of the t they are from: heavier tails than needed
MIN_EFFECTIVE_FRACTION = 0.25  # least effective sample fraction of the weights
ROUNDS = 3  # most rounds where a cloud begins, each with a t fitted to what the one before found
SHARES = (0.7, 0.55, 0.4, 0.25)  # of the clip that a cloud may begin with, where it is explained
EARLIER = 2  # fractions before the longest that looks smooth
SURPRISE = 2.0  # standard deviations of χ² above its mean, from which on a part is not followed
CLOUD = 16, 16  # samples, and more for each unknown
HALVED = 0.5  # share of the cloud that a step of φ leaves counting
MOVES, LAST = 8, 20  # moves of the whole cloud after each step, and after the last
LEAST = 1e-60  # of what is left of φ, the smallest step
STEPS = 40  # most steps; a model that is wrong needs them all
DESCENT = 10  # linearisations on the way from the answer to that of a part of the clip
FROZEN = 0.02  # share of moves accepted below which the cloud no longer follows


def posterior(problem: Problem, u: Tensor, fisher: Tensor, rng: np.random.Generator) -> tuple[Samples, float]:
    """Samples of the posterior, and the power φ of the rest of the clip that they follow: 1, or less where they froze.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        u: The answer of the search (unknowns,).
        fisher: Information about it, from secants (`secant_fisher`); its axes are moved along, the open ones too.
        rng: Draws everything.
    """
    tried: list[_StartPart] = []
    for share in SHARES:
        frames = min(problem.frames, max(4, round(share * problem.frames)))
        tried.append(_start_part(problem, u, frames, rng))
        smooth = [k for k, part in enumerate(tried) if part.smooth]
        if smooth and len(tried) - smooth[0] > EARLIER:
            break
    chosen = [tried[k] for k in smooth] or [
        max(tried, key=lambda part: (part.explained, part.draws.effective_sample_fraction))
    ]
    cloud = chosen[-1].draws.resample(CLOUD[0] + CLOUD[1] * len(u), rng)
    parts = tuple(dict.fromkeys((chosen[-1].frames, chosen[0].frames)))
    return anneal(problem, cloud, principal_axes(fisher), parts, rng)


class _StartPart(NamedTuple):
    """Candidate start of the cloud: draws on the first frames, and whether the model explains these."""

    frames: int
    explained: bool
    draws: "WeightedDraws"

    @property
    def smooth(self) -> bool:
        return self.explained and self.draws.effective_sample_fraction > MIN_EFFECTIVE_FRACTION


def _start_part(problem: Problem, u: Tensor, frames: int, rng: np.random.Generator) -> _StartPart:
    short = Problem(problem.model, problem.observation.slice_frames(0, frames), problem.space)
    centre = descend(problem, Population.at(u[None]), frames, "pixels", DESCENT)[0].u[0]
    wide, _ = secant_fisher(short, centre, short.linearize(centre[None], frames)[1][0])
    problem.effort.rollouts += short.effort.rollouts
    draws = importance_sample(problem, centre, principal_axes(wide), frames, rng)
    return _StartPart(frames, chi2_zscore(short, centre) < SURPRISE, draws)


def chi2_zscore(problem: Problem, u: Tensor) -> float:
    """Standard score of χ² over the residuals that depend on the unknowns."""
    chi2 = count = 0.0
    for r, J in problem.jacobian(u[None], problem.frames):
        size = J[0].abs().amax(1)
        informative = size > 1e-9 * size.max().clamp(min=1e-300)
        chi2, count = chi2 + r[0][informative].square().sum().item(), count + informative.sum().item()
    return (chi2 - count) / math.sqrt(2 * max(1.0, count))


def principal_axes(fisher: Tensor) -> Tensor:
    """Principal axes of the information, one σ long, as columns."""
    eigenvalues, axes = torch.linalg.eigh(fisher)
    return axes * eigenvalues.clamp(min=WIDEST**-2).rsqrt()


@dataclass(frozen=True)
class WeightedDraws:
    """Draws (n, unknowns), their χ², their weights, which sum to 1, and the effective sample fraction 1/(n Σ w²)."""

    u: Tensor
    cost: Tensor
    weight: Tensor
    effective_sample_fraction: float

    def resample(self, count: int, rng: np.random.Generator) -> Tensor:
        """Resample `count` draws by weight (count, unknowns)."""
        return self.u[systematic(self.weight, count, rng)]


def systematic(weight: Tensor, count: int, rng: np.random.Generator) -> Tensor:
    """Systematic resampling: indices, each as often as its weight times `count`, to within one (Kitagawa 1996)."""
    ladder = (rng.random() + np.arange(count)) / count
    return torch.tensor(np.searchsorted(weight.cumsum(0).numpy(), ladder).clip(max=len(weight) - 1))


def importance_sample(
    problem: Problem, centre: Tensor, scale: Tensor, frames: int, rng: np.random.Generator
) -> WeightedDraws:
    """Draws of exp(−χ²/2) on the first frames with their weights.

    A t that was fitted to few draws may miss tails without saying so, so these are to be moved afterwards.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        centre: Where the t begins (unknowns,).
        scale: Its axes (unknowns, unknowns) as columns, one σ long.
        frames: Number of first frames that count.
        rng: Draws everything.
    """
    n, low, high = len(centre), problem.space.low, problem.space.high
    best = None
    for _ in range(ROUNDS):
        normal = torch.tensor(rng.standard_normal((DRAWS, n)))
        stretch = torch.tensor(np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (DRAWS, 1))))
        away = normal * stretch
        u = centre + away @ scale.T
        inside = ((u >= low) & (u <= high)).all(1)
        cost = torch.where(inside, problem.cost(u.clamp(low, high), frames), torch.inf)
        proposed = -(FREEDOM + n) / 2 * torch.log1p(away.square().sum(1) / FREEDOM)
        weight = torch.softmax(-cost / 2 - proposed, 0).nan_to_num(0.0)
        effective_sample_fraction = 1 / (DRAWS * weight.square().sum().clamp(min=1e-12)).item()
        if best is None or effective_sample_fraction > best.effective_sample_fraction:
            best = WeightedDraws(u, cost, weight, effective_sample_fraction)
        if best.effective_sample_fraction > MIN_EFFECTIVE_FRACTION:
            break
        soft = torch.softmax(torch.log(best.weight.clamp(min=1e-300)) * min(1.0, 4 * best.effective_sample_fraction), 0)
        centre = soft @ best.u
        off = best.u - centre
        covariance = (off * soft[:, None]).T @ off
        scale = torch.linalg.cholesky(covariance + 1e-4 * torch.diag(covariance.diagonal()) + 1e-24 * torch.eye(n))
    assert best is not None
    return best


def anneal(
    problem: Problem, cloud: Tensor, axes: Tensor, parts: Sequence[int], rng: np.random.Generator
) -> tuple[Samples, float]:
    """A cloud that follows the first frames, led to all of them; and the power φ that it came to, 1 where it did.

    It is 0 where the cloud froze before it followed the longest of the parts.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        cloud: Samples of exp(−χ²_part/2) (samples, unknowns).
        axes: Moved along, too (unknowns, unknowns): as columns, one σ long.
        parts: Number of frames of that part, and of longer ones on the way.
        rng: Draws everything.
    """
    goals = [*parts[1:], problem.frames]
    sampler = _Cloud(problem, cloud.clone(), axes, parts[0], goals[0], rng)
    sampler.move(MOVES)
    for goal in goals:
        if goal != sampler.goal:
            sampler.turn_to(goal)
        for _ in range(STEPS):
            sampler.step()
            sampler.move(MOVES)
            if sampler.phi == 1 or sampler.accepted < FROZEN:
                break
        if sampler.phi < 1:
            break
    draws = sampler.move(LAST)
    phi = sampler.phi if sampler.goal == problem.frames else 0.0
    return Samples(torch.cat(draws), sampler.best, sampler.best_cost, sampler.accepted), phi


class _Cloud:
    """Samples of exp(−χ²_φ/2), with both parts of their cost, and the best point for the clip that any of them met.

    Here "whole" is what is led to: the clip, or first a part of it.
    """

    def __init__(self, problem: Problem, u: Tensor, axes: Tensor, frames: int, goal: int, rng: np.random.Generator):
        self.problem, self.u, self.axes, self.frames, self.goal, self.rng = problem, u, axes, frames, goal, rng
        self.phi, self.accepted = 0.0, 1.0
        self.best, self.best_cost = u[0], math.inf
        self.part, self.whole = self._costs(u)

    def turn_to(self, goal: int) -> None:
        """Take the current goal as the part, and follow the next goal."""
        self.frames, self.goal, self.phi = self.goal, goal, 0.0
        self.part, self.whole = self._costs(self.u)

    def _costs(self, u: Tensor) -> tuple[Tensor, Tensor]:
        part, whole = self.problem.cost(u, self.frames), self.problem.cost(u, self.goal)
        if self.goal == self.problem.frames and whole.min() < self.best_cost:
            self.best, self.best_cost = u[whole.argmin()].clone(), whole.min().item()
        return part, whole

    def _energy(self, part: Tensor, whole: Tensor) -> Tensor:
        return (part + self.phi * (whole - part)).nan_to_num(torch.inf)

    def step(self) -> None:
        """The largest step of φ that leaves enough of the cloud counting; then as many copies of each as its weight."""
        rest, n = (self.whole - self.part).nan_to_num(torch.inf), len(self.u)
        weights = lambda step: torch.softmax(-step * (rest - rest.min()) / 2, 0)
        last = 1 - self.phi
        enough = lambda step: 1 / weights(step).square().sum() >= HALVED * n
        low, high = last * LEAST, last
        if enough(last):
            low = last
        else:
            for _ in range(60):
                middle = math.sqrt(low * high)
                low, high = (middle, high) if enough(middle) else (low, middle)
        self.phi = 1.0 if low == last else self.phi + low
        rows = systematic(weights(low), n, self.rng)
        self.u, self.part, self.whole = self.u[rows], self.part[rows], self.whole[rows]

    def move(self, times: int) -> list[Tensor]:
        """Move all of them; returns where they were after each move.

        By differences of two others, in all sizes; and every fourth time along one principal axis, since a cloud that
        began thin along an open direction would stay so.
        """
        n, k = self.u.shape
        low, high, draws, won = self.problem.space.low, self.problem.space.high, [], 0
        for turn in range(times):
            if turn % 4 == 1:
                axis = self.axes.T[torch.tensor(self.rng.integers(k, size=n))]
                trial = self.u + axis * torch.tensor(self.rng.standard_normal((n, 1)))
            else:
                first, second = (torch.tensor((np.arange(n) + self.rng.integers(1, n, n)) % n) for _ in range(2))
                gamma = 1.0 if turn % 4 == 3 else 2.38 / math.sqrt(2 * k) * 10 ** self.rng.uniform(-1, 0)
                jitter = 1e-3 * self.u.std(0) * torch.tensor(self.rng.standard_normal((n, k)))
                trial = self.u + gamma * (self.u[first] - self.u[second]) + jitter
            inside = ((trial >= low) & (trial <= high)).all(1)
            part, whole = self._costs(trial.clamp(low, high))
            odds = (self._energy(self.part, self.whole) - self._energy(part, whole)) / 2
            better = inside & (torch.log(torch.tensor(self.rng.random(n))) < odds)
            self.u = torch.where(better[:, None], trial, self.u)
            self.part, self.whole = torch.where(better, part, self.part), torch.where(better, whole, self.whole)
            won += int(better.sum())
            draws.append(self.u.clone())
        self.accepted = won / (n * times)
        return draws
