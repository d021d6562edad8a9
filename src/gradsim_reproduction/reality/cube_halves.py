"""Numbers of the cube by disjoint halves of its tosses: do their error bars cover how far the halves differ?

    χ²/ν = mean over splits and numbers of (u₁ - u₂)² / (s₁² + s₂²)

Each half is fitted in short clips with starts of their own, with the error bars of `reproduce real-cube`: the largest of Fisher's bound, of how much tosses
disagree, of leaving out each, and of another cut. Whole tosses, as the league predicts them, leave numbers at the ends of their ranges. The mass is 1 kg, so
that stiffness and friction stiffness are per kilogram, which is all that motion shows.

Bags of tosses, each fitted again (Huggins and Miller 2023), gave smaller bars and χ²/ν of 6 to 8: six tosses disagree less with one another than with the
other six.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from gradsim.identification.clip_jackknife import jackknife_estimates, leave_one_out
from gradsim.identification.solvers.clip_ensemble import scatter
from gradsim.identification.unknowns import Space
from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.real.cube import COPIES, OTHER_CLIP, UNKNOWNS, SearchBudget, problem_of, refit, scene, search
from gradsim_reproduction.real.cube_recordings import Toss, load, noise

SPLITS = 3
BUDGET = SearchBudget(6, 12, ((3, 0, 8, 4), (1, 0, 12, 1)), 8)
QUICK = SearchBudget(6, 4, ((3, 0, 3, 1), (1, 0, 3, 1)), 2)


def fit_half(job: tuple[int, int, int, bool]) -> dict[str, list[float]]:
    """Numbers by one half of the tosses, as `estimate` returns them.

    Args:
        job: Number of the split; of the half, 0 or 1; the seed; and whether to search quickly.
    """
    split, side, seed, quick = job
    tosses = load()
    half = [tosses[k] for k in np.random.default_rng([seed, split]).permutation(len(tosses))[side::2]]
    return estimate(half, QUICK if quick else BUDGET, np.random.default_rng([seed, split, side]))


def estimate(half: Sequence[Toss], effort: SearchBudget, rng: np.random.Generator) -> dict[str, list[float]]:
    """Inner coordinates `u` and error bars `std` of the numbers by some tosses, and the numbers themselves.

    Args:
        half: The tosses.
        effort: Budget of the search.
        rng: Source of the starts.
    """
    sigma, space = noise(half), Space(scene(1), UNKNOWNS[1:])
    problem = problem_of(half, sigma, space)
    ends, _, _ = search(problem, space.draw(rng, effort.starts), effort.stages, rng, NullProgress())
    _, left_out = leave_one_out(problem, scatter(problem, ends[[0]], COPIES, rng), effort.refit)
    recut = refit(problem_of(half, sigma, space, OTHER_CLIP), ends.u, effort.refit)
    _, bars, _ = jackknife_estimates(problem, ends[[0]], left_out, recut[None])
    return {"u": ends.u[0].tolist(), "std": bars.std_inner.tolist(), "numbers": space.numbers(ends.u[0]).tolist()}


def chi2_by_number(halves: Sequence[tuple[Mapping, Mapping]]) -> dict[str, float]:
    """Mean square of the difference of two halves over its variance, by number; of pairs of `estimate`."""
    u, std = (torch.tensor([[half[key] for half in pair] for pair in halves]).double() for key in ("u", "std"))
    square = ((u[:, 0] - u[:, 1]).square() / std.square().sum(1)).mean(0)
    return dict(zip(Space(scene(1), UNKNOWNS[1:]).names, square.tolist(), strict=True))
