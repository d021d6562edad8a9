"""Training of a policy by the gradients of rollouts.

    θ ← θ - step(∇θ L),   L(θ) = mean over worlds of goal.loss(plant.rollout(policy θ))

One iteration is exactly one rollout forward and one backward of every world, then a step; the curve is raw, entry k is
the loss before step k, and the policy ends as it was in the last entry. What a line search rolls out besides is counted.

Training by short pieces of a motion: truncated backpropagation through time (Williams and Peng 1990).

    for each piece:   θ ← θ - step(∇θ L),   L(θ) = mean over worlds of goal.loss(piece);   the next one begins where it ended

Gradients over many steps and contacts grow with their number (`History.gradient_norm` shows it), and those of a policy
that looks grow further, by its own reactions. A piece is short, and its gradient is exact up to its end; what comes
later is the business of a goal that asks something of every piece, such as `ApproachGoal`. The pieces' borders move from
iteration to iteration.
"""

import math
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from gradsim.control.goals.base import Goal
from gradsim.control.impulses import split
from gradsim.control.plant import check, last
from gradsim.control.training import optimizers
from gradsim.control.training.descent import Descent, ParameterSource
from gradsim.control.training.history import History, Iteration
from gradsim.control.training.settings import TrainingConfig
from gradsim.errors import InputError
from gradsim.geometry.validation import counts
from gradsim.physics.model import Divergence
from gradsim.runtime.checkpoint import CheckpointFile


class IterationProgress(Protocol):
    """Is told each iteration: its loss, and values ± standard deviations (not numbers here) by name."""

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None: ...


def train(
    plant,
    policy: nn.Module,
    goal,
    config: TrainingConfig | None = None,
    progress: IterationProgress | None = None,
    checkpoint: CheckpointFile | str | Path | None = None,
    given: ParameterSource = None,
    worlds: int = 1,
) -> History:
    """Train a policy, in place.

    Args:
        plant: A `Plant`.
        policy: Ends with the parameters of the last iteration; those of the first, middle and best are in the history.
        goal: A `Goal`, whose loss is lowered. Where that changes, a method `stage(iteration)` names it.
        search: How.
        progress: Is told every iteration.
        checkpoint: A file. If it is there, the search goes on where it was; the answer is the same to the last bit, if
            `given` depends on nothing but the iteration.
        given: Parameters of the model that differ from its own, (worlds, ...) by name; or a function of the iteration
            that gives them, for a policy that bears what it does not know (`randomization.py`).
        worlds: How many are rolled out with feedback, where `given` does not say.

    Raises:
        InputError: If the policy does not fit the plant, or the checkpoint is of another search.
        Divergence: If a rollout or a gradient is not finite, unless the search halves such steps.
    """
    check(plant, policy)
    run = Descent(plant, policy, goal, config or TrainingConfig(), given, worlds)
    keeper = CheckpointFile(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    own = _describe(plant, policy, run.config)
    if keeper is not None and (state := keeper.load(own)):
        run.resume(state)
    while not run.finished:
        entry = run.iterate()
        _check_slope(entry, run)
        if progress is not None:
            figures = {"gradient norm": entry.gradient_norm, "distance [m]": entry.distance}
            progress.update(len(run.history) - 1, entry.loss, {k: (v, math.nan) for k, v in figures.items()})
        if keeper is not None and (run.finished or len(run.history) % keeper.interval == 0):
            keeper.save(own, run.state())
    policy.load_state_dict(run.history.policies["last"])
    return run.history


def _check_slope(entry: Iteration, run: Descent) -> None:
    """Refuse a loss that no step can lower, at the first iteration."""
    floor = run.config.options.get("floor", 0.0)
    if run.config.optimizer == "polyak" and entry.loss < floor and len(run.history) == 1:
        raise InputError(
            f"the loss begins at {entry.loss:.4g}, below the {floor:g} that polyak takes for its least value, so that no "
            "step is made, as for most rewards: give the option `floor`, or take adam."
        )
    if entry.gradient_norm == 0 and entry.loss > 0 and len(run.history) == 1 and run.config.horizon is None:
        raise InputError(
            f"the loss, {entry.loss:.4g}, does not depend on the policy: its gradient is exactly 0. Look whether the goal "
            "and the body are in view, and whether the controls move what the goal is about."
        )


def _describe(plant, policy: nn.Module, config: TrainingConfig) -> str:
    """What a checkpoint has to agree in, in words; a search may go on for more iterations.

    Not so where the schedule of the rate is as long as the search: its steps before would have been others.
    """
    numbers = sum(p.numel() for p in policy.parameters())
    fixed = config.schedule is not None and optimizers.spans(config.schedule)
    settings = replace(config, iterations=config.iterations if fixed else 1, target_loss=-math.inf)
    return f"{type(policy).__name__} of {numbers} numbers for {plant.outputs} outputs, {settings}"


def train_truncated(
    plant,
    policy: nn.Module,
    goal: Goal,
    config: TrainingConfig,
    length: int,
    given: ParameterSource = None,
    worlds: int = 1,
    progress: IterationProgress | None = None,
) -> History:
    """Train a policy in place, with a step of the optimiser after each piece.

    Args:
        plant: A `Plant` whose controls all act over time.
        policy: With feedback or without.
        goal: Measures each piece as an episode of its own.
        search: Optimiser, rate, clip and schedule; an iteration is all pieces of one episode. It takes no horizon.
        length: Control intervals in a piece.
        given: Parameters and kicks, or a function of the iteration that gives them, such as `DomainRandomization`.
        worlds: Where `given` does not say.
        progress: Is told every iteration.

    Returns:
        The loss of an iteration is the mean over its pieces, its gradient's norm the largest of them.

    Raises:
        InputError: If the policy does not fit the plant, or the search has a horizon or a line search.
        Divergence: If a state or a gradient is not finite.
    """
    check(plant, policy)
    (length,) = counts("length", length)
    if config.horizon is not None:
        raise InputError("the search has a horizon; pieces of a motion have their length instead: leave it out.")
    if config.optimizer == "lbfgs":
        raise InputError("lbfgs asks for the same loss again and again, and each piece is another; take adam or sgd.")
    parameters = [p for p in policy.parameters() if p.requires_grad]
    step = optimizers.make_optimizer(config.optimizer, parameters, config.learning_rate, config.options)
    rates = None if config.schedule is None else optimizers.make_schedule(config.schedule, step, config.iterations)
    history = History()
    for k in range(config.iterations):
        begun, here = time.process_time(), {name: y.clone() for name, y in policy.state_dict().items()}
        own = given(k) if callable(given) else given
        parameters_of, impulses = split(own, plant.model)
        states = plant.begin(parameters_of, max([worlds, *map(len, impulses.values())]))
        losses, norms, rate = [], [], step.param_groups[0]["lr"]
        for first, end in pairwise(borders(plant.intervals, length, k)):
            piece = plant.pieces(policy, states, range(first, end), own)
            each = goal.loss(piece, k)
            loss = each.mean()
            step.zero_grad()
            loss.backward()
            norms.append(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]).item())
            if not math.isfinite(norms[-1] + loss.item()):
                raise Divergence(
                    f"iteration {k}, intervals {first} to {end}: the loss is {loss.item():.4g}, the norm of its gradient "
                    f"{norms[-1]:.4g}. Take a smaller rate, shorter pieces or more substeps."
                )
            if config.clip is not None:
                nn.utils.clip_grad_norm_(parameters, config.clip)
            losses.append(loss.item())
            step.step(lambda value=losses[-1]: value)  # for optimisers that ask
            getattr(policy, "project", lambda: None)()
            states = {body: {name: y.detach() for name, y in s.items()} for body, s in last(piece.trajectory).items()}
        if rates is not None:
            rates.step()
        distance, error = goal.distance(piece), goal.position_error(piece)
        entry = Iteration(
            loss=sum(losses) / len(losses),
            gradient_norm=max(norms),
            seconds=time.process_time() - begun,
            rollouts=len(each),
            steps=len(each) * plant.steps,
            distance=math.nan if distance is None else distance.mean().item(),
            position_error=math.nan if error is None else error.mean().item(),
            frames=plant.frames,
            rate=rate,
        )
        history.add(entry, here)
        if progress is not None:
            progress.update(k, entry.loss, {})
        if entry.loss <= config.target_loss:
            break
    return history


def borders(intervals: int, length: int, iteration: int) -> list[int]:
    """Where pieces begin and end: the first has 1 to `length` intervals, by the iteration alone."""
    first = 1 + int(torch.randint(length, (), generator=torch.Generator().manual_seed(iteration)))
    return [*sorted({0, *range(first, intervals, length)}), intervals]
