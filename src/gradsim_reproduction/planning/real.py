"""Three real tosses, of a cube and of two links on a hinge, chosen by what they would tell of friction, against three at random.

A plan knows the start of each toss, from its first frames, and laws and ranges of the reality league, no fit. It takes the law to be off by `LAW_ERROR`
in a toss as a whole (`simulated_tosses.py`). In each repetition half of the tosses is there; the plan chooses three of them, and chance three more. Friction is
fitted to each three: for the cube in clips, from one place in the ranges (as `reproduce real-cube`), for the links over whole tosses by the cross-entropy
method (as `reproduce reality`). Of the cube all 924 halves and all 20 threes of each are compared, so chance has no part in the ratio; as halves overlap, its
standard error is that of a jackknife over the tosses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.errors import InputError
from gradsim.identification.solvers.clip_ensemble import descend
from gradsim.identification.unknowns import Space
from gradsim.runtime.progress import Progress
from gradsim_reproduction.planning.simulated_tosses import choose, trajectory_distances
from gradsim_reproduction.real.cube import CLIP, UNKNOWNS, problem_of, scene
from gradsim_reproduction.real.cube_recordings import load as load_cube
from gradsim_reproduction.real.cube_recordings import noise
from gradsim_reproduction.reality import cube, hinge

WANTED = "ground.friction"
CHOSEN, ITERATIONS = 3, 12
REPETITIONS = {"cube": 924, "hinge": 40}  # twelve tosses have 924 halves and 220 threes, each of which is fitted once
PARTICLES, TRUTHS, STRIDE, CHUNK = (
    6000,
    300,
    4,
    500,
)  # samples of the numbers; those taken for truths; frames; samples at once
LAW_ERROR = (
    0.03  # [m] what `reproduce real-cube` misses in the mean of tosses that it has not fitted; the same for the links
)
CUBE_LAW, HINGE_LAW = "continuous", "damped and dry"
GOAL = 1.5


@dataclass(frozen=True)
class Tosses:
    """Tosses of one body.

    Args:
        names: Of the tosses.
        distances: Of simulated tosses (truths, samples) [m], for each.
        log_friction: Of each sample.
        friction: Friction fitted to some tosses.
    """

    names: tuple[str, ...]
    distances: list[Tensor]
    log_friction: Tensor
    friction: Callable[[tuple[int, ...]], float]


def real_tosses(seed: int, progress: Progress) -> dict:
    """Friction by planned and by random threes, by body; those without recordings are left out."""
    records = {}
    for name, make in {"cube": cube_tosses, "hinge": hinge_tosses}.items():
        try:
            tosses = make(seed)
        except InputError:
            continue
        count = REPETITIONS[name]
        records[name] = compare_threes(tosses, seed, count, lambda k, count=count: progress.fraction(k, count))
    return records


def compare_threes(tosses: Tosses, seed: int, repetitions: int, report: Callable[[int], None]) -> dict:
    """Planned and random threes of halves, and the friction of all.

    Args:
        tosses: The tosses.
        seed: Of halves and random threes, where these are not all.
        repetitions: Number of halves; if there are no more, all of them are compared with all of their threes.
        report: Receives the number of finished repetitions.
    """
    known, records = {}, []
    friction, count = cache(tosses.friction), len(tosses.names)
    for k, (half, threes) in enumerate(_halves(count, seed, repetitions)):
        planned = choose(tosses.distances, tosses.log_friction, LAW_ERROR, half, CHOSEN, known)
        record = {"half": [tosses.names[j] for j in half], "chosen": [tosses.names[j] for j in planned]}
        records.append({**record, "planned": friction(planned), "random": [friction(three) for three in threes]})
        report(k + 1)
    return {"all": friction(tuple(range(count))), "repetitions": records}


def _halves(count: int, seed: int, repetitions: int) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Halves of tosses, and threes of each: all, or one at random of halves at random."""
    if comb(count, count // 2) <= repetitions:
        for half in combinations(range(count), count // 2):
            yield half, list(combinations(half, CHOSEN))
        return
    rng = np.random.default_rng(seed)
    for _ in range(repetitions):
        half = tuple(sorted(rng.choice(count, count // 2, replace=False).tolist()))
        yield half, [tuple(sorted(rng.choice(half, CHOSEN, replace=False).tolist()))]


def cube_tosses(seed: int) -> Tosses:
    """Tosses of the cube.

    Raises:
        InputError: If the recordings are not there.
    """
    recordings, space = load_cube(), Space(scene(CLIP), UNKNOWNS)
    column, sigma = space.names.index(WANTED), noise(recordings)
    start = space.inner(space.numbers(torch.stack([space.low, space.high]).mean(0)))[None]

    def friction(chosen: tuple[int, ...]) -> float:
        problem = problem_of([recordings[k] for k in chosen], sigma, space)
        return space.numbers(descend(problem, problem.at(start), ITERATIONS).u)[0, column].item()

    rng = np.random.default_rng([seed, 1])
    contact = cube.Contact(CUBE_LAW)
    u, starts = (
        rng.random((PARTICLES, len(contact.ranges))),
        cube.flights(recordings, 1, (0.0, 0.0), rng),
    )
    simulate = lambda part, k: contact.predict(part, starts[k : k + 1], len(recordings[k]))[:, 0, cube.SEEN :, None]
    distances = [_distances(u, lambda part, k=k: simulate(part, k)) for k in range(len(recordings))]
    values = torch.tensor(contact.numbers(u)[WANTED]).log()
    return Tosses(tuple(toss.name for toss in recordings), distances, values, friction)


def hinge_tosses(seed: int) -> Tosses:
    """Tosses of the two links.

    Raises:
        InputError: If the recordings are not there.
    """
    recordings = hinge.load()

    def friction(chosen: tuple[int, ...]) -> float:
        rng = np.random.default_rng([seed, 2, *chosen])
        members, _ = hinge.fit([recordings[k] for k in chosen], HINGE_LAW, hinge.GENERATIONS, rng)
        return float(hinge.numbers(members[:1], HINGE_LAW)[WANTED][0])

    rng = np.random.default_rng([seed, 1])
    u, starts = rng.random((PARTICLES, hinge.LAWS[HINGE_LAW])), hinge.start_of(recordings)

    def simulate(part: np.ndarray, k: int) -> Tensor:
        centers, _ = hinge.predict(part, HINGE_LAW, starts[k : k + 1], len(recordings[k]))
        return centers[:, 0, hinge.SEEN :].unflatten(-1, (2, 3))

    distances = [_distances(u, lambda part, k=k: simulate(part, k)) for k in range(len(recordings))]
    values = torch.tensor(hinge.numbers(u, HINGE_LAW)[WANTED]).log()
    return Tosses(tuple(toss.name for toss in recordings), distances, values, friction)


def _distances(u: np.ndarray, simulate: Callable[[np.ndarray], Tensor]) -> Tensor:
    """Distances (truths, samples) of trajectories at coordinates u (samples, numbers)."""
    parts = np.array_split(u, max(1, len(u) // CHUNK))
    return trajectory_distances(torch.cat([simulate(part)[:, ::STRIDE].float() for part in parts]), TRUTHS)


def real_figures(records: Mapping[str, Mapping]) -> dict[str, dict]:
    """Scatter and distance from the friction of all tosses: random threes over planned ones."""
    figures = {}
    for name, tosses in records.items():
        whole, repetitions = tosses["all"], tosses["repetitions"]
        values = {
            "planned": np.array([r["planned"] for r in repetitions]),
            "random": np.concatenate([r["random"] for r in repetitions]),
        }
        away = {key: float(np.sqrt(np.mean((x / whole - 1) ** 2))) for key, x in values.items()}
        ratio = scatter_ratio(repetitions)
        figures |= {
            f"real {name}: scatter of random threes over planned ones": figure(ratio, goal=GOAL, ok=ratio >= GOAL),
            f"real {name}: its standard error, over tosses": figure(jackknife(repetitions)),
            f"real {name}: distance from all tosses, random over planned": figure(
                away["random"] / max(away["planned"], 1e-12)
            ),
            f"real {name}: distance of planned threes": figure(away["planned"]),
            f"real {name}: distance of random threes": figure(away["random"]),
            f"real {name}: friction of all tosses": figure(whole),
        }
    return figures


def scatter_ratio(repetitions: Sequence[Mapping]) -> float:
    """Standard deviation of the friction of random threes over that of planned ones."""
    random = np.concatenate([r["random"] for r in repetitions])
    return float(np.std(random) / max(np.std([r["planned"] for r in repetitions]), 1e-12))


def jackknife(repetitions: Sequence[Mapping]) -> float:
    """Standard error of `scatter_ratio`, from the halves that lack each toss in turn (Tukey 1958)."""
    names = sorted({name for r in repetitions for name in r["half"]})
    ratios = [scatter_ratio([r for r in repetitions if name not in r["half"]]) for name in names]
    return float(np.sqrt((len(ratios) - 1) * np.var(ratios)))
