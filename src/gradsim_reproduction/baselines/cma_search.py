"""CMA-ES on the pixels (Hansen and Ostermeier 2001, library `cma`): what the same loss gives up without a gradient.

Silhouettes in double precision, as the least squares of the paper's tables sees them; logarithms of the unknowns, each
scaled to its range. Runs begin at points drawn uniformly over the range, and a run that stalls is followed by another
while rollouts are left. The answer is the best of all.
"""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from gradsim.dataset import Sample, sample
from gradsim.identification import synthetic
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Ranges, Space
from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.optional import require_extra
from gradsim.runtime.progress import NullProgress, Progress
from gradsim_reproduction.baselines.rows import row

ROLLOUTS, QUICK = {1: 1000, 5: 10_000}, {1: 200, 5: 1000}  # by the number of unknowns: what least squares takes
WIDTH = 0.3  # standard deviation of the first generation, of the range
START = 5000  # added to the seed: starts come from another stream than truths


def cma(
    numbers: Sequence[int],
    seed: int,
    out: Path,
    progress: Progress | None = None,
    quick: bool = False,
    unknowns: Sequence[str] = ("body.mass",),
) -> list[dict]:
    """CMA-ES for every test sample; arguments as of every row, see `ROWS`.

    Raises:
        InputError: If `cma` is not installed.
    """
    require_extra("cma", "the baseline CMA-ES", "baselines")
    progress, most = progress or NullProgress(), (QUICK if quick else ROLLOUTS)[len(unknowns)]
    ledger = Ledger(Path(out) / f"cma_{len(unknowns)}.jsonl", {"seed": seed, "rollouts": most})
    rows = []
    for k, number in enumerate(numbers):
        rows.append(ledger.once(f"{number}", lambda n=number: solve(sample("rigid", n, seed), unknowns, most)))
        progress.fraction(k + 1, len(numbers))
    return rows


def solve(one: Sample, unknowns: Sequence[str], rollouts: int) -> dict:
    """Search for some unknowns of a sample, the others known, with this number of rollouts."""
    begun = time.process_time()
    problem = problem_of(one, unknowns)
    space, width = problem.space, problem.space.high - problem.space.low

    def losses(points: np.ndarray) -> np.ndarray:
        u = space.low + width * torch.tensor(points)
        return problem.cost(u, problem.frames).numpy()

    rng = np.random.default_rng([START + one.seed, one.number])
    point, loss, evaluations = search(losses, lambda: _start(space, rng), rollouts, rng)
    values = dict(zip(space.names, space.numbers(space.low + width * torch.tensor(point)).tolist(), strict=True))
    return row(one, values, time.process_time() - begun, rollouts=evaluations, loss=loss)


def problem_of(one: Sample, unknowns: Sequence[str]) -> Problem:
    """The fit of a sample's video, by silhouettes; all other parameters are known."""
    known = {name: value for name, value in one.truth.items() if name not in unknowns}
    scene = one.true_scene() if known else one.scene
    space = Space(scene, [text for text in one.unknowns if text.partition(":")[0] in unknowns])
    model = model_for(scene, space)
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(scene, one.truth))
    return Problem(model, synthetic.float_masks(scene, trajectory), space)


def search(
    losses: Callable[[np.ndarray], np.ndarray],
    start: Callable[[], np.ndarray],
    rollouts: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float, int]:
    """The best point of the unit cube, its loss, and how many points were tried.

    Args:
        losses: Of points (n, unknowns); infinite where a rollout diverges.
        start: Where a run begins.
        rollouts: How many points may be tried; the last generation of a run is not begun if it would be more.
        rng: Rng of what is drawn.
    """
    library = require_extra("cma", "the baseline CMA-ES", "baselines")
    best, least, evaluations = start(), math.inf, 0
    idle = [0.5] * (len(best) == 1)  # `cma` fails with bounds on a single number: another that nothing reads joins it
    while True:
        options = {"bounds": [0, 1], "verbose": -9, "seed": math.nan, "randn": lambda *size: rng.standard_normal(size)}
        run = library.CMAEvolutionStrategy([*start(), *idle], WIDTH, {**options, "tolfun": 1e-12, "tolx": 1e-13})
        while not run.stop():
            if evaluations + run.popsize > rollouts:
                return best, least, evaluations
            candidates = run.ask()
            points = np.array(candidates)[:, : len(best)]
            costs = losses(points)
            evaluations += len(points)
            run.tell(candidates, costs.tolist())
            if costs.min() < least:
                best, least = points[costs.argmin()], float(costs.min())


def _start(space: Ranges, rng: np.random.Generator) -> np.ndarray:
    """A point drawn as the starts of least squares are: uniform over the values, not their logarithms."""
    u = space.draw(rng, 1)[0]
    return ((u - space.low) / (space.high - space.low)).numpy()
