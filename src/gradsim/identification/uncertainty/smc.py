"""Sequential Monte Carlo for posteriors that contact may bend or kink.

    p(u) ∝ exp(−χ²(u)/2) within the ranges

Contact cuts the likelihood of a long clip into valleys, some narrower than the error bars of its first frames, and two may
explain the clip alike. So a cloud begins uniformly over the ranges, wherever the search ended, and frames come in one after
the other (iterated batch importance sampling, Chopin 2002), as many at once as leave half of the cloud counting. Where a
single frame leaves fewer, it comes in by a power φ that grows from 0 to 1 (sequential Monte Carlo, Del Moral et al. 2006),

    χ²_φ = χ²_first + φ χ²_frame,

and each step is followed by moves (`Cloud`). A valley that no start met is found if it is within the error bars of the first
frames: the cloud is a search, too. All later frames at once would not do: after a few contacts they vary by thousands where
the next frame varies by ten, so a small φ of theirs already picks what the next frame would not. Of frames between which bodies hardly
move, a cloud takes in every k-th (`observation.thinned`).

Rounds of moves go on until samples are no longer where they were. Where they cannot leave the teeth that the last frames have
cut into the likelihood, resampling alone would pick one tooth of many, and error bars would be its width. So the cloud goes
back to where it was before, and ends there, with the wider error bars of the frames it came to: what cannot be explored is not
believed, and the posterior of fewer frames is a posterior, too. Where many moves are accepted, though all are short, the cloud
goes on, but may have lost what it could not come back to: then a second one has to come to the same place.

A cloud of a hundred loses valleys on the way, one resampling after the other. So it is larger while frames are few, where
samples are cheap, and all valleys that it came by are listed by least squares from its samples (`valleys`). Where draws from
normal distributions about them resemble the posterior, the samples begin anew from these, by weights; if not, they jump to them.

Cloud and search are independent. A minimum of the search that explains the clip about as well has to be within the cloud, or in one
of the valleys that it lists: costs alike are not enough, since valleys alike may be fifty error bars apart. Where it is not, or
explains the clip worse, so that nothing confirms the cloud, further clouds are drawn until one has all valleys of the others that
are as good and have mass. Where none does, what lies between them all counts as an error (`pool`), and the fit is not `ok`.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.de_mcmc import Samples
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.uncertainty.fisher import WIDEST
from gradsim.identification.uncertainty.importance import (
    StudentMixture,
    importance_sample,
    systematic,
)
from gradsim.identification.uncertainty.valleys import find_valleys, principal_axes

CLOUD_SIZE = 16, 24  # samples of the whole clip, and more for each unknown
EARLY_FACTOR = 6  # times as many, at most, while frames are few, so that each frame costs the same
MIN_EFFECTIVE = 0.5  # least effective share of the cloud after new frames, or a step of φ
MAX_ROUNDS, LAST_ROUNDS = 3, 5  # most rounds of moves of the whole cloud after each step, and after the last one
RENEWED_VARIANCE = 0.04  # share of the variance, along every direction, at which rounds of moves end
LANGEVIN_STEPS = 2  # of a round
LOG10_STEP_SIZES = -0.75, 0.15  # between which the logarithm of their size ε is drawn
LANGEVIN_EVERY = 4  # of this many samples one takes them: a linearization costs as much as eight rollouts
MAX_NEW_FRAMES = 4  # most frames that come in at once
MIN_TEMPERING_STEP = 1e-60  # of what is left of φ, the smallest step
MAX_TEMPERING_STEPS = 40  # most steps of φ for a frame; a model that is wrong needs them all
COARSE_ITERATIONS = 10  # linearisations on the way from the answer to that of a part of the clip
MIN_VALLEY_EFFECTIVE = 0.1  # least effective sample fraction of draws about valleys that moves begin from: 80 of 800
ENOUGH_VALLEY_EFFECTIVE = 0.5  # and of those that need no moves
MIN_CONFIRMED_EFFECTIVE = 0.25  # and of those that are the samples, without a cloud: 100 of 400
MIN_FINDERS = 3  # starts that came to the answer by themselves, from which on no cloud has to confirm it
VALLEY_DRAWS = 800  # draws about valleys: half of them tell the ends of a 95 % interval to 0.14 σ
PATH_SAMPLES = 192  # samples on the way of a cloud, from which valleys are listed
PATH_START = 0.75  # share of the clip from which on they are taken
JUMPS = 2  # jumps between valleys of a round of the last moves
RIVAL = 10.0  # difference of χ² up to which the minimum of another exploration has to be within the cloud
EXTRA_CLOUDS = 2  # clouds more where they do not agree
ALL = slice(None)  # rows of a cloud
MIN_ACCEPTANCE = 0.25  # share of moves below which a cloud that is not renewed no longer follows; it is 0.45 if smooth
MIN_SHARE = 0.01  # of the mass of all valleys, of one that another exploration has to know
HELD_MASS = 0.999  # share of a normal distribution that counts as within it


def posterior(
    problem: Problem,
    u: Tensor,
    fisher: Tensor,
    rng: np.random.Generator,
    coarse: Problem | None = None,
    others: Tensor | None = None,
) -> tuple[Samples, float]:
    """Samples of the posterior, and the share of the frames that they follow: 1, or less where they froze.

    The search and the cloud explored the likelihood independently. Where samples are not about the minimum of the search, the
    likelihood has more valleys than an exploration finds. Then more clouds are drawn, until one holds all minima of others that
    are as good. Where none does, how far explorations lie apart becomes part of the samples (`pool`).

    Args:
        problem: The problem, with residuals whitened by the true noise.
        u: The answer of the search (unknowns,).
        fisher: Information about it, from secants (`secant_fisher`); its axes are moved along, the open ones too.
        rng: Draws everything.
        coarse: The same problem on longer time steps, or of a part of the frames: explored in place of `problem`, whose samples are drawn
            from the valleys that were found there. Samples that are not drawn anew are moved as the answer is.
        others: Minima of the search that explain the data as well (minima, unknowns).
    """
    axes, ends = principal_axes(fisher), u[None] if others is None else torch.cat([u[None], others])
    if coarse is None:
        return _samples(_explored(problem, ends, axes, rng)[0], rng)
    starts = descend(coarse, Population.at(ends), problem.frames, "pixels", COARSE_ITERATIONS)[0].u
    explored, minima = _explored(coarse, starts, axes, rng)
    start = starts[0]
    if not isinstance(explored, _Mapped):
        samples, followed = _samples(explored, rng)
        place = lambda v: (v + u - start).clamp(problem.space.low, problem.space.high)
        cost = problem.cost(u[None], problem.frames).item()
        return replace(samples, u=place(samples.u), best=u, best_cost=cost), followed
    fine = explored.cloud.on(problem, u - start)
    valleys = find_valleys(problem, torch.cat([ends, minima]))
    fine.meet(valleys.u, valleys.cost)
    return _Mapped(fine, valleys.mixture()).samples(rng), 1.0


def confirmed_posterior(problem: Problem, ends: Tensor, finders: int, rng: np.random.Generator) -> Samples | None:
    """Samples by importance alone, where several starts of a search found one valley by themselves; None where weights do not suffice.

    A cloud is a second search, and takes tens of thousands of rollouts: minutes where another engine makes one after the other.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        ends: Where the starts of the search ended on the whole clip, and the answer (starts, unknowns).
        finders: Starts that came to the answer by themselves.
        rng: Draws everything.
    """
    if finders < MIN_FINDERS:
        return None
    valleys = find_valleys(problem, ends)
    draws = importance_sample(problem, valleys.mixture(), problem.frames, rng, ENOUGH_VALLEY_EFFECTIVE)
    if draws.effective_sample_fraction < MIN_CONFIRMED_EFFECTIVE:
        return None
    k = int(draws.cost.argmin())
    lowest = min((draws.cost[k].item(), draws.u[k]), (valleys.cost[0].item(), valleys.u[0]), key=lambda pair: pair[0])
    return Samples(draws.samples(rng), lowest[1], lowest[0], 1.0)


def _samples(explored: "_Mapped | Cloud | Samples", rng: np.random.Generator) -> tuple[Samples, float]:
    """Samples of what an exploration found, and the share of the frames that they follow."""
    if isinstance(explored, Samples):
        return explored, 1.0
    return (explored.samples(rng), 1.0) if isinstance(explored, _Mapped) else (explored.samples(), explored.followed)


def _explored(
    problem: Problem, ends: Tensor, axes: Tensor, rng: np.random.Generator
) -> "tuple[_Mapped | Cloud | Samples, Tensor]":
    """A cloud that holds the minima of the search (minima, unknowns), or samples of all; and all minima (valleys, unknowns)."""
    minima, costs, tried = ends, problem.cost(ends, problem.frames), []
    searched = costs[0].item()
    for extra in range(1 + EXTRA_CLOUDS):
        cloud = _explore(problem, axes, rng)
        met = find_valleys(problem, torch.cat([cloud.best[None], cloud.passed()]))
        valleys = find_valleys(problem, torch.cat([minima, met.u]))
        cloud.meet(valleys.u, valleys.cost)
        mixture, whole = valleys.mixture(), cloud.followed == 1
        tried.append(_Mapped(cloud, mixture) if whole else cloud)
        rivals = minima[costs < valleys.cost.min() + RIVAL]
        explored = [cloud.holds(rival) or (whole and met.of(rival) >= 0) for rival in rivals]
        if explored and all(explored) and (extra or not cloud.doubtful):
            return tried[-1], valleys.u
        counts = mixture.share > MIN_SHARE
        counts[0] = True  # the deepest
        minima, costs = valleys.u[counts], valleys.cost[counts]
    ends = ends if searched < valleys.cost.min() + RIVAL else ends[:0]
    return pool([_samples(one, rng)[0] for one in tried], ends, rng), minima


class _Mapped(NamedTuple):
    """A cloud of the whole clip, and the valleys it came by."""

    cloud: "Cloud"
    valleys: StudentMixture

    def samples(self, rng: np.random.Generator) -> Samples:
        """Samples with the masses of all valleys."""
        cloud = self.cloud
        draws = importance_sample(
            cloud.problem, self.valleys, cloud.problem.frames, rng, ENOUGH_VALLEY_EFFECTIVE, VALLEY_DRAWS
        )
        cloud.meet(draws.u, draws.cost)
        if draws.effective_sample_fraction > ENOUGH_VALLEY_EFFECTIVE:
            return Samples(draws.samples(rng), cloud.best, cloud.best_cost, 1.0)
        if draws.effective_sample_fraction > MIN_VALLEY_EFFECTIVE:
            cloud.restart(draws.resample(len(cloud.u), rng))
        return cloud.samples(draws.mixture)


def _explore(problem: Problem, axes: Tensor, rng: np.random.Generator) -> "Cloud":
    """One cloud, led from the ranges to the whole clip."""
    low, high = problem.space.low, problem.space.high
    count = cloud_size(problem, 1)
    return anneal(problem, low + (high - low) * torch.tensor(rng.random((count, len(low)))), axes, 0, rng)


def cloud_size(problem: Problem, frames: int) -> int:
    """Number of samples of a cloud that follows this number of frames."""
    last = CLOUD_SIZE[0] + CLOUD_SIZE[1] * len(problem.space.low)
    return round(last * min(EARLY_FACTOR, problem.frames / frames))


def pool(clouds: Sequence[Samples], ends: Tensor, rng: np.random.Generator) -> Samples:
    """Samples of several clouds, and ends (n, unknowns) of other explorations that are as good, which did not find the same valley.

    Each is one draw of where an exploration ends, so their mean is known to the standard error of m draws, and a cloud
    scatters about its own centre besides:

        ū + (draw of a cloud − its centre) + t √(1 + 1/m) Σ z_k (u_k − ū)/√(m − 1),      t² = (m − 1)/χ²(m − 1)

    with the centres u_k and normal z_k: Student's predictive distribution (Gelman et al., Bayesian Data Analysis, 2013).
    """
    best = min(clouds, key=lambda cloud: cloud.best_cost)
    centres = torch.stack([*ends, *(cloud.u.mean(0) for cloud in clouds)])
    within = torch.cat([cloud.u - cloud.u.mean(0) for cloud in clouds])
    m, n = len(centres), len(within)
    normal = torch.tensor(rng.standard_normal((n, m)))
    stretch = torch.tensor(np.sqrt((1 + 1 / m) / rng.chisquare(m - 1, (n, 1))))  # t/√(m − 1)
    between = stretch * (normal @ (centres - centres.mean(0)))
    return Samples(centres.mean(0) + within + between, best.best, best.best_cost, best.accepted, agreed=False)


def central(samples: Tensor, best: Tensor) -> Tensor:
    """The value to state with error bars from samples: the one nearest to their mean (unknowns,), in their covariance.

    Of valleys alike the deepest is as much chance as any other draw, so its error has twice their variance; that of the
    mean has once. A mean may lie on a ridge between valleys, so one of the samples is taken, or `best` where that is nearer.

    Args:
        samples: Of the posterior (samples, unknowns).
        best: The point of lowest cost (unknowns,).
    """
    candidates = torch.cat([best[None], samples])
    return candidates[int(_squared_distance(candidates, samples).argmin())]


def _squared_distance(points: Tensor, samples: Tensor) -> Tensor:
    """Squared Mahalanobis distance (n,) of points (n, unknowns) from the mean of samples, in their covariance."""
    off, size = points - samples.mean(0), samples.std(0).clamp(min=1e-300)
    correlation = torch.atleast_2d(torch.corrcoef(((samples - samples.mean(0)) / size).T)).nan_to_num(0.0)
    return ((off / size) @ torch.linalg.pinv(correlation, hermitian=True, rtol=1e-9) * (off / size)).sum(1)


def anneal(problem: Problem, cloud: Tensor, axes: Tensor, frames: int, rng: np.random.Generator) -> "Cloud":
    """A cloud that follows the first frames, led to all of them, or as far as it can follow.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        cloud: Samples of exp(−χ²/2) of the first frames (samples, unknowns), or uniform ones.
        axes: Moved along, too (unknowns, unknowns): as columns, one σ long.
        frames: Number of these frames; 0: uniform samples.
        rng: Draws everything.
    """
    sampler = Cloud(problem, cloud.clone(), axes, frames, _later_ends(problem, frames)[0], rng)
    sampler.renew()
    while True:
        sampler.take_in()
        for _ in range(MAX_TEMPERING_STEPS):
            before = copy(sampler)
            sampler.step()
            sampler.renew()
            if sampler.frozen:
                before.meet(sampler.best[None], torch.tensor([sampler.best_cost]))
                return before
            if sampler.power == 1:
                break
        if sampler.power < 1 or sampler.goal == problem.frames:
            return sampler
        sampler.frames = sampler.goal
        problem.effort.fraction(sampler.frames, problem.frames)


def _later_ends(problem: Problem, frames: int) -> list[int]:
    """Numbers of first frames that take in one more that is compared, beyond these; that of all where none follows."""
    return [end for end in problem.ends if end > frames] or [problem.frames]


class _Linearized(NamedTuple):
    """Both stretches of the clip at some points: for each the cost, A and g of `Problem.linearizations`."""

    first: tuple[Tensor, ...]
    rest: tuple[Tensor, ...]

    def where(self, chosen: Tensor, other: "_Linearized") -> "_Linearized":
        """Take these points where `chosen` (samples,), the others elsewhere."""
        choose = lambda a, b: torch.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b)
        part = lambda k: tuple(choose(a, b) for a, b in zip(self[k], other[k], strict=True))
        return _Linearized(part(0), part(1))

    def proposal(self, u: Tensor, phi: float, size: float) -> "_Gaussian":
        """Distribution of a Langevin step of some size from u (samples, unknowns) at the power φ."""
        A, g = (a + phi * b for a, b in zip(self.first[1:], self.rest[1:], strict=True))
        A, g = A.nan_to_num(0.0, 0.0, 0.0), g.nan_to_num(0.0, 0.0, 0.0)[..., None]
        eigenvalues, axes = torch.linalg.eigh((A + A.mT) / 2)
        eigenvalues = eigenvalues.clamp(min=WIDEST**-2)
        newton = (axes @ ((axes.mT @ g) / eigenvalues[..., None]))[..., 0]
        return _Gaussian(u - size**2 / 2 * newton, axes, size * eigenvalues.rsqrt())


class _Gaussian(NamedTuple):
    """Normal distributions: means (samples, unknowns), axes as columns, and standard deviations along these."""

    mean: Tensor
    axes: Tensor
    std: Tensor

    def draw(self, rng: np.random.Generator) -> Tensor:
        """One point of each (samples, unknowns)."""
        normal = torch.tensor(rng.standard_normal(self.mean.shape))
        return self.mean + (self.axes @ (self.std * normal)[..., None])[..., 0]

    def log_density(self, u: Tensor) -> Tensor:
        """Logarithm of the density at u (samples, unknowns), up to a constant."""
        off = (self.axes.mT @ (u - self.mean)[..., None])[..., 0] / self.std
        return -off.square().sum(1) / 2 - self.std.log().sum(1)


def _weights(cost: Tensor) -> Tensor:
    """exp(−χ²/2), normalized, of costs (samples,)."""
    return torch.softmax(-cost.nan_to_num(torch.inf) / 2, 0)


def _enough(weights: Tensor) -> bool:
    """True if enough samples count with these weights (samples,), which sum to 1."""
    return bool(1 / weights.square().sum() >= MIN_EFFECTIVE * len(weights))


class Cloud:
    """Samples of exp(−χ²_φ/2), with both parts of their cost, and the best point for the clip that any of them met.

    They follow the first `frames` frames, and those up to `goal` with the power φ.

    A round of moves has three whose proposals are symmetric: by differences of two others, in all sizes, which may lead
    to another valley (ter Braak 2006), and along one principal axis, since a cloud that began thin along an open direction
    would stay so. Then two Langevin steps in the metric of the information at each sample (Girolami & Calderhead 2011), with

        u' = u − ε²/2 A⁻¹ g + ε A^(−1/2) ξ,       A = JᵀJ, g = Jᵀr of χ²_φ at u

    which follow a valley that is narrow, and bends; a cloud of a hundred does not have all its directions.
    """

    def __init__(self, problem: Problem, u: Tensor, axes: Tensor, frames: int, goal: int, rng: np.random.Generator):
        self.problem, self.u, self.axes, self.rng = problem, u, axes, rng
        self.accepted, self.renewed, self.doubtful = 1.0, True, False
        self.best, self.best_cost = u[0], math.inf
        self._passed: list[Tensor] = []
        self.frames, self.goal, self.power = frames, goal, 0.0
        self.stretches = [problem.stretch(0, frames), problem.stretch(frames, goal)]
        self.part, self.rest = self._costs(u)

    @property
    def followed(self) -> float:
        """Share of the frames that count; those that come in at present count by their power."""
        return (self.frames + self.power * (self.goal - self.frames)) / self.problem.frames

    def take_in(self) -> None:
        """Let as many frames more come in as leave enough of the cloud counting, at least one."""
        ends = _later_ends(self.problem, self.frames)[:MAX_NEW_FRAMES]
        stretches = [self.problem.stretch(*pair) for pair in pairwise([0, self.frames, *ends])]
        self.part, self.rest, *later = self.problem.costs(self.u, stretches)
        self.goal, self.power = ends[0], 0.0
        for cost, end in zip(later, ends[1:], strict=True):
            more = self.rest + cost
            if not _enough(_weights(more)):
                break
            self.rest, self.goal = more, end
        self.stretches = [self.problem.stretch(0, self.frames), self.problem.stretch(self.frames, self.goal)]

    def passed(self) -> Tensor:
        """Some samples of the steps through the last frames (samples, unknowns)."""
        passed = torch.cat(self._passed or [self.u])
        return passed[torch.linspace(0, len(passed) - 1, min(len(passed), PATH_SAMPLES)).round().long()]

    def holds(self, u: Tensor) -> bool:
        """True for a point (unknowns,) that is within the cloud, where 99.9 % of a normal distribution are."""
        return _squared_distance(u[None], self.u).item() < scipy.special.chdtri(len(u), 1 - HELD_MASS)

    def on(self, problem: Problem, shift: Tensor) -> "Cloud":
        """The same samples, moved by a shift (unknowns,), of the whole clip on other time steps."""
        u = (self.u + shift).clamp(problem.space.low, problem.space.high)
        cloud = Cloud(problem, u, self.axes, self.frames, problem.frames, self.rng)
        cloud.power = 1.0
        return cloud

    def restart(self, u: Tensor) -> None:
        """Take other samples (samples, unknowns) of the whole clip."""
        self.u = u
        self.part, self.rest = self._costs(u)

    def samples(self, valleys: StudentMixture | None = None) -> Samples:
        """Samples of the last moves, which may jump between valleys."""
        return Samples(torch.cat(self.move(LAST_ROUNDS, valleys)), self.best, self.best_cost, self.accepted)

    def _costs(self, u: Tensor) -> tuple[Tensor, Tensor]:
        part, rest = self.problem.costs(u, self.stretches)
        if self.goal == self.problem.frames:
            self.meet(u, part + rest)
        return part, rest

    def _linearized(self, u: Tensor) -> _Linearized:
        linearized = _Linearized(*self.problem.linearizations(u, self.stretches))
        if self.goal == self.problem.frames:
            self.meet(u, linearized.first[0] + linearized.rest[0])
        return linearized

    def meet(self, u: Tensor, whole: Tensor) -> None:
        """Remember the best of points (n, unknowns) with costs of the whole clip (n,)."""
        whole = whole.nan_to_num(torch.inf)
        if whole.min() < self.best_cost:
            self.best, self.best_cost = u[whole.argmin()].clone(), whole.min().item()

    def _energy(self, part: Tensor, rest: Tensor) -> Tensor:
        return (part + self.power * rest).nan_to_num(torch.inf)

    def step(self) -> None:
        """The largest step of φ that leaves enough of the cloud counting; then as many copies of each as its weight."""
        rest = self.rest.nan_to_num(torch.inf)
        weights = lambda step: _weights(step * (rest - rest.min()))
        last = 1 - self.power
        low, high = last * MIN_TEMPERING_STEP, last
        if _enough(weights(last)):
            low = last
        else:
            for _ in range(60):
                middle = math.sqrt(low * high)
                low, high = (middle, high) if _enough(weights(middle)) else (low, middle)
        self.power = 1.0 if low == last else self.power + low
        rows = systematic(weights(low), cloud_size(self.problem, self.goal), self.rng)
        self.u, self.part, self.rest = self.u[rows], self.part[rows], self.rest[rows]

    @property
    def frozen(self) -> bool:
        """True if the last rounds did not renew the samples, and few of their moves were accepted."""
        return not self.renewed and self.accepted < MIN_ACCEPTANCE

    def renew(self) -> None:
        """Move all of them until they are no longer where they were, if they can."""
        before = self.u
        for _ in range(MAX_ROUNDS):
            self.move(1)
            self.renewed = self._renewed(before) > RENEWED_VARIANCE
            if self.renewed:
                return
        self.doubtful = True

    def _renewed(self, before: Tensor) -> float:
        """½ ⟨(a·Δu)²⟩ over the variance of a·u, of the direction a where it is least: 1 if samples are drawn anew."""
        off = self.u - before
        moment, covariance = off.T @ off / len(off) / 2, torch.atleast_2d(torch.cov(self.u.T))
        size = covariance.diagonal().sqrt().clamp(min=1e-300)
        eigenvalues, axes = torch.linalg.eigh(covariance / size / size[:, None])
        whitened = axes / eigenvalues.clamp(min=1e-12).sqrt()
        return torch.linalg.eigvalsh(whitened.T @ (moment / size / size[:, None]) @ whitened)[0].item()

    def move(self, rounds: int, valleys: StudentMixture | None = None) -> list[Tensor]:
        """Move all of them, with jumps to valleys where these are given; returns where they were after each move."""
        draws, won, tried = [], 0.0, 0
        for _ in range(rounds):
            for _ in range(JUMPS if valleys else 0):
                assert valleys is not None
                trial = valleys.draw(len(self.u), self.rng)
                trial = trial[torch.tensor(self.rng.permutation(len(trial)))]  # draws are in the order of the valleys
                odds = valleys.log_density(self.u) - valleys.log_density(trial)
                self._choose(trial, *self._costs(self._within(trial)), odds)
            for propose in (self._difference, self._along_axis, lambda: self._difference(1.0)):
                trial = propose()
                won += self._choose(trial, *self._costs(self._within(trial))).double().sum().item()
                tried += len(trial)
                draws.append(self.u)
            rows = torch.tensor(self.rng.permutation(len(self.u))[: -(-len(self.u) // LANGEVIN_EVERY)])
            start = self._linearized(self.u[rows])
            for _ in range(LANGEVIN_STEPS):
                size = 10 ** self.rng.uniform(*LOG10_STEP_SIZES)
                forward = start.proposal(self.u[rows], self.power, size)
                trial = forward.draw(self.rng)
                end = self._linearized(self._within(trial))
                backward = end.proposal(trial, self.power, size)
                odds = backward.log_density(self.u[rows]) - forward.log_density(trial)
                better = self._choose(trial, end.first[0], end.rest[0], odds, rows)
                start = end.where(better, start)
                won, tried = won + better.double().sum().item(), tried + len(trial)
                draws.append(self.u)
        self.accepted = won / tried
        if self.goal > PATH_START * self.problem.frames:
            self._passed.append(self.u)
        return draws

    def _difference(self, gamma: float | None = None) -> Tensor:
        n, k = self.u.shape
        first, second = (torch.tensor((np.arange(n) + self.rng.integers(1, n, n)) % n) for _ in range(2))
        gamma = gamma or 2.38 / math.sqrt(2 * k) * 10 ** self.rng.uniform(-1, 0)
        jitter = 1e-3 * self.u.std(0) * torch.tensor(self.rng.standard_normal((n, k)))
        return self.u + gamma * (self.u[first] - self.u[second]) + jitter

    def _along_axis(self) -> Tensor:
        n, k = self.u.shape
        axis = self.axes.T[torch.tensor(self.rng.integers(k, size=n))]
        return self.u + axis * torch.tensor(self.rng.standard_normal((n, 1)))

    def _within(self, u: Tensor) -> Tensor:
        return u.clamp(self.problem.space.low, self.problem.space.high)

    def _choose(
        self, trial: Tensor, part: Tensor, rest: Tensor, odds: Tensor | float = 0.0, rows: Tensor | slice = ALL
    ) -> Tensor:
        """Move those of the rows that win (Metropolis & Hastings); returns which."""
        odds = odds + (self._energy(self.part[rows], self.rest[rows]) - self._energy(part, rest)) / 2
        inside = (trial == self._within(trial)).all(1)
        better = inside & (torch.log(torch.tensor(self.rng.random(len(trial)))) < odds)
        self.u, self.part, self.rest = self.u.clone(), self.part.clone(), self.rest.clone()
        self.u[rows] = torch.where(better[:, None], trial, self.u[rows])
        self.part[rows] = torch.where(better, part, self.part[rows])
        self.rest[rows] = torch.where(better, rest, self.rest[rows])
        return better
