"""CPU minutes of one identification and of one control episode (the paper's Appendix I).

Identification: objects of the data set's test split with their truths, seen as silhouettes in double precision over 60
frames; eight starts over the ranges, with least squares. Mass by descent is one start with 100 iterations of Adam, which
is nearest to the paper's protocol. The episode is that of Fig. 6's gear: 40 iterations, of which one is timed.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.dataset import sample, test_numbers
from gradsim.dataset.sample import with_parameters
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.problem import Effort
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim_reproduction.control import methods
from gradsim_reproduction.landscapes.descents import problem, run_descents

STARTS, ITERATIONS, EPISODE = 8, 100, 40
KINDS = {"mass": "rigid", "mass_by_descent": "rigid", "rigid_joint": "rigid", "deformable": "deformable"}


def plan(kinds: Sequence[str], objects: int) -> Iterator[tuple[str, int]]:
    """Timed cases: member of `KINDS` and number of the object."""
    for what in kinds:
        for number in test_numbers(objects if what != "mass_by_descent" else 1):
            yield what, number


def identification(what: str, number: int, seed: int) -> dict:
    """CPU minutes of one, with the largest relative error that it ends with."""
    one = sample(KINDS[what], number, seed)
    unknowns = [u for u in one.unknowns if not what.startswith("mass") or u.startswith("body.mass:")]
    names = [u.split(":")[0] for u in unknowns]
    scene = with_parameters(one.scene, {name: value for name, value in one.truth.items() if name not in names})
    truth = {name: one.truth[name] for name in names}
    if what == "mass_by_descent":
        fit, effort = problem(scene, unknowns, truth), Effort()
        start = fit.space.numbers(fit.space.draw(np.random.default_rng(seed), 1))
        (end,) = torch.tensor(run_descents(fit, truth, start, ITERATIONS)["ends"])
        values, spent = dict(zip(names, end.tolist(), strict=True)), effort.cpu_seconds
    else:
        scene = synthetic.own_steps(scene)
        model, trajectory = synthetic.simulate(scene, unknowns, truth)
        estimate = least_squares(
            scene, synthetic.float_masks(scene, trajectory), unknowns, MultistartConfig(STARTS), seed, model=model
        )
        values, spent = estimate.values, estimate.cpu_seconds
    error = max(abs(values[name] / truth[name] - 1) for name in names)
    return {"what": what, "object": one.object, "minutes": spent / 60, "error": error}


def episode(repeats: int) -> dict:
    """CPU minutes of a control episode, from the iterations that were timed."""
    spent = methods.iteration_seconds(Setup.of(Task.load("gear"), 0), repeats)["whole"]
    return {"minutes": EPISODE * spent / 60}
