"""A second search where the first did not explain its video.

One fit of a thrown object of the data set: by least squares, or by gradient descent as the paper does it.

All other parameters are known and set in the scene; the truth of the unknowns never reaches the fit. Starts are
drawn from the ranges of the data set, from another stream than truths and noise.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from gradsim.dataset import Sample, sample
from gradsim.dataset.sample import with_parameters
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.fit import Fit
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.uncertainty.fisher import KNOWN
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim_reproduction.observation_modes import observe
from gradsim_reproduction.rigid.joint import bounds, outcome


def refit_if_mismatch(fit: Callable[[MultistartConfig], Fit], plan: MultistartConfig) -> Fit:
    """Fit by a plan that is coarser than the usual one; where that ends in "mismatch", once more by the usual one.

    Either the model is wrong or the search was too coarse, and only the second can be mended. The lower χ² is the answer;
    effort is that of both.

    Args:
        fit: By a plan.
        plan: The first one.
    """
    first = fit(plan)
    if first.status != Status.MISMATCH:
        return first
    again = fit(MultistartConfig())
    spent = {key: getattr(first, key) + getattr(again, key) for key in ("cpu_seconds", "wall_seconds", "rollouts")}
    return replace(min(first, again, key=lambda one: one.chi2_per_n), **spent)


SEEDS = 100_000  # numbers of one seed, so that no two fits share their starts
PLANS = {"8bit": MultistartConfig(grow=4), "foreign": MultistartConfig(grow=6, rounds=1)}
ITERATIONS = 100  # of gradient descent
STEEP = 10.0  # largest gradient of the loss, in shares of the first one for each unit of a logarithm
RATES = 0.1, 0.001  # first and last of its rates, per step of the logarithm


class FitJob(NamedTuple):
    """One fit to be made.

    Args:
        number: Number of the sample.
        names: Unknowns.
        mode: See `observation_modes`; with " descent" behind it, by gradient descent.
        seed: Seed of data set, noise and starts.
        starts: How many, of least squares.
    """

    number: int
    names: tuple[str, ...]
    mode: str
    seed: int
    starts: int = 16

    @property
    def key(self) -> str:
        """In a ledger."""
        return f"{self.number} {self.mode}"


def run_fit(job: FitJob) -> dict:
    """Make a fit: its result and the truth; a job of `many`."""
    one, (mode, _, descent) = sample("rigid", job.number, job.seed), job.mode.partition(" ")
    problem, truth = problem_of(one, job.names, mode)
    record = {"number": job.number, "object": one.object, "sight": job.mode}
    seed = SEEDS * job.seed + job.number
    if descent:
        return record | descend(problem, truth, seed)
    relative = bounds(problem, truth)
    plan = replace(PLANS.get(mode, MultistartConfig()), starts=job.starts)
    space, course = problem.space, []

    def follow(entry: dict) -> None:
        error = _worst(space.numbers(torch.tensor(entry["u"], dtype=torch.float64)), truth)
        course.append([entry["iteration"], entry["rollouts"], error])

    unknowns = [u for u in one.unknowns if u.partition(":")[0] in job.names]
    by = lambda plan: least_squares(
        problem.model.scene, problem.observation, unknowns, plan, seed, report=follow, model=problem.model
    )
    fit = refit_if_mismatch(by, plan) if mode == "8bit" else by(plan)
    known = all(b < KNOWN for b in relative.values())
    return record | {"identifiable": known, "bounds": relative, **outcome(fit, truth), "course": course}


def problem_of(one: Sample, names: Sequence[str], mode: str) -> tuple[Problem, dict[str, float]]:
    """The problem of finding some unknowns of a sample, the others known, and the truth."""
    truth = {name: value for name, value in one.truth.items() if name in names}
    scene = with_parameters(one.scene, {name: value for name, value in one.truth.items() if name not in names})
    space = Space(scene, [u for u in one.unknowns if u.partition(":")[0] in names])
    model = (
        model_for(scene := synthetic.default_steps(scene), space)
        if mode == "foreign"
        else Model(synthetic.own_steps(scene))
    )
    observation = observe(scene, truth, model, mode, SEEDS * one.seed + one.number)
    return Problem(model, observation, space), truth


def descend(problem: Problem, truth: dict[str, float], seed: int) -> dict:
    """Adam on the mean square over all pixels of all frames at once (or over all poses), from one start.

    The loss is relative to the first one, and its gradient is clipped: one that explodes through chatter would stop
    Adam for good.
    """
    begun, space = time.process_time(), problem.space
    u = space.draw(np.random.default_rng(seed), 1).requires_grad_()
    steps = torch.optim.Adam([u], RATES[0])
    fall = torch.optim.lr_scheduler.ExponentialLR(steps, (RATES[1] / RATES[0]) ** (1 / (ITERATIONS - 1)))
    errors, losses = [], []
    for _ in range(ITERATIONS):
        errors.append(_worst(space.numbers(u.detach())[0], truth))
        motion = problem.model.rollout(space.values(u))
        residuals = torch.cat(list(problem.observation.residuals(motion, problem.frames, "pixels")), 1)
        loss = residuals.square().mean()
        losses.append(loss.item())
        steps.zero_grad()
        (loss / losses[0]).backward()
        torch.nn.utils.clip_grad_norm_([u], STEEP)
        steps.step()
        fall.step()
        with torch.no_grad():
            u.clamp_(space.low, space.high)
    values = dict(zip(space.names, space.numbers(u.detach())[0].tolist(), strict=True))
    return {
        "truth": truth,
        "values": values,
        "errors": {name: abs(values[name] / truth[name] - 1) for name in truth},
        "course": errors,
        "losses": losses,
        "cpu_seconds": time.process_time() - begun,
    }


def _worst(numbers: torch.Tensor, truth: dict[str, float]) -> float:
    """Largest relative error."""
    true = torch.tensor(list(truth.values()), dtype=torch.float64)
    worst = (numbers / true - 1).abs().max().item()
    return worst if math.isfinite(worst) else math.inf
