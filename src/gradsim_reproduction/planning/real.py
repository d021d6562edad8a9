"""Three of the real cube's tosses, chosen by what they would tell of friction, against three at random.

A toss is cut into clips of 16 frames, as `reproduce real-cube` fits them. A toss would tell its Fisher matrix with the noise of the poses, the
starts of its clips eliminated, at samples of the whole ranges: no fit has been made. In each repetition half of the tosses is there; the
plan chooses three of them one after the other, and chance three more. Friction is fitted to each three from one place in the ranges, and compared
with that of all tosses. Halves of twelve tosses overlap, so repetitions are not independent.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.errors import InputError
from gradsim.identification.solvers.clip_ensemble import descend
from gradsim.identification.unknowns import Space
from gradsim.planning.information import posterior_covariance
from gradsim.planning.question import range_precision
from gradsim_reproduction.real.cube import CLIP, UNKNOWNS, problem_of, scene
from gradsim_reproduction.real.cube_recordings import Toss, load, noise

WANTED = "ground.friction"
CHOSEN, REPETITIONS, SAMPLES, ITERATIONS = 3, 40, 8, 12
GOAL = 1.5


def real_tosses(seed: int) -> dict:
    """Friction by planned and by random threes; empty without the recordings."""
    try:
        tosses = load()
    except InputError:
        return {}
    space, sigma, rng = Space(scene(CLIP), UNKNOWNS), noise(tosses), np.random.default_rng(seed)
    column = space.names.index(WANTED)
    places = space.draw(rng, SAMPLES)
    start = space.inner(space.numbers(torch.stack([space.low, space.high]).mean(0)))[None]
    fishers = [information(toss, sigma, space, places) for toss in tosses]

    @cache
    def friction(chosen: tuple[int, ...]) -> float:
        problem = problem_of([tosses[k] for k in chosen], sigma, space)
        ends = descend(problem, problem.at(start), ITERATIONS)
        return space.numbers(ends.u)[0, column].item()

    whole = friction(tuple(range(len(tosses))))
    repetitions = []
    for _ in range(REPETITIONS):
        half = sorted(rng.choice(len(tosses), len(tosses) // 2, replace=False).tolist())
        planned = choose(fishers, half, space, column)
        random = tuple(sorted(rng.choice(half, CHOSEN, replace=False).tolist()))
        names = [[tosses[k].name for k in three] for three in (planned, random)]
        repetitions.append({"planned": friction(planned), "random": friction(random), "tosses": names})
    return {"all": whole, "repetitions": repetitions}


def information(toss: Toss, sigma, space: Space, places: Tensor) -> Tensor:
    """Information of a toss (samples, unknowns, unknowns): the sum over its clips, their starts eliminated."""
    problem = problem_of([toss], sigma, space)
    iterates = problem.at(places)
    weight = 1 + iterates.chi2 / problem.residuals  # undoes the weight by residuals: a plan knows none
    schur, _ = problem.linearize(iterates, torch.where(torch.isfinite(weight), weight, 0.0))
    return schur.nan_to_num(0.0, 0.0, 0.0).sum(1)


def choose(fishers: Sequence[Tensor], among: Sequence[int], space: Space, column: int) -> tuple[int, ...]:
    """The three tosses that leave the smallest standard deviation, RMS over samples."""
    P = range_precision(space)
    sd = {
        three: posterior_covariance(torch.stack([fishers[k] for k in three]).sum(0), P)[:, column, column].mean().item()
        for three in combinations(among, CHOSEN)
    }
    return min(sd, key=lambda three: sd[three])


def real_figures(tosses: Mapping) -> dict[str, dict]:
    """Scatter and distance from the friction of all tosses: random threes over planned ones."""
    if not tosses:
        return {}
    values = {key: np.array([r[key] for r in tosses["repetitions"]]) for key in ("planned", "random")}
    away = {key: float(np.sqrt(np.mean((x / tosses["all"] - 1) ** 2))) for key, x in values.items()}
    spread = {key: float(np.std(x / tosses["all"])) for key, x in values.items()}
    return {
        "real: scatter of random threes over planned ones": figure(
            spread["random"] / max(spread["planned"], 1e-12), goal=GOAL, ok=spread["random"] >= GOAL * spread["planned"]
        ),
        "real: distance from all tosses, random over planned": figure(away["random"] / max(away["planned"], 1e-12)),
        "real: distance of planned threes": figure(away["planned"]),
        "real: distance of random threes": figure(away["random"]),
        "real: friction of all tosses": figure(tosses["all"]),
    }
