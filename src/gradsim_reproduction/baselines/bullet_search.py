"""Masses by REINFORCE through PyBullet, of the test objects (paper, H.1): PyBullet films the truth, and is searched."""

import time
from collections.abc import Mapping

import numpy as np

from gradsim.dataset import Sample, sample
from gradsim.identification.unknowns import Space
from gradsim_reproduction.baselines.bullet import bullet, reward_of, squared_error
from gradsim_reproduction.baselines.reinforce import Plan, reinforce
from gradsim_reproduction.baselines.trivial import row

START = 6000  # added to the seed: starts come from another stream than truths
STARTS = ("range", "vertices")  # uniform over the range of masses; over [0, number of vertices] kg, as H.1 has it
MASS = "body.mass"
EVERY = 5  # steps between the means that are kept


def solve(job: Mapping) -> dict:
    """One search.

    Args:
        job: `number` and `seed` of the sample, `start` (one of `STARTS`) and `plan`, the fields of a `Plan`.

    Returns:
        The row, with the start `begun` [kg], the means of every `EVERY`-th step, and the loss at truth, start and end.
    """
    started, one, plan = time.process_time(), sample("rigid", job["number"], job["seed"]), Plan(**job["plan"])
    rng = np.random.default_rng([START + one.seed, one.number, STARTS.index(job["start"])])
    with bullet(one.placed()) as world:
        target = world.film(one.truth[MASS])

        def reward(mass: float) -> float:
            return float(reward_of(squared_error(world.film(mass), target)))

        begun = first(one, job["start"], len(world.points), rng)
        means = reinforce(reward, begun, plan, rng)
        losses = {"truth": -reward(one.truth[MASS]), "start": -reward(begun), "end": -reward(means[-1])}
    found = row(one, {MASS: means[-1]}, time.process_time() - started)
    return {
        **found,
        "start": job["start"],
        "begun": begun,
        "means": np.round(means[::EVERY], 4).tolist(),
        "losses": losses,
    }


def first(one: Sample, kind: str, vertices: int, rng: np.random.Generator) -> float:
    """Where a search for a mesh of so many vertices begins [kg]."""
    if kind == "vertices":
        return float(rng.uniform(0, vertices))
    space = Space(one.scene, [text for text in one.unknowns if text.startswith(f"{MASS}:")])
    return space.numbers(space.draw(rng, 1)).item()
