"""Training of a policy by the gradients of rollouts.

    θ ← θ - step(∇θ L),   L(θ) = mean over worlds of goal.loss(plant.rollout(policy θ))

One iteration is exactly one rollout forward and one backward of every world, then a step. The loss curve is not
smoothed: entry k is the loss before step k, and the policy ends with the parameters of the last entry. Further rollouts
of a line search are counted.

`train_truncated` trains on short pieces of a trajectory: truncated backpropagation through time (Williams and Peng
1990).

    for each piece:   θ ← θ - step(∇θ L),   L(θ) = mean over worlds of goal.loss(piece);   the next one begins where it ended

Gradients over many steps and contacts grow with their number (see `Iteration.gradient_norm`), and further with
feedback, by the reactions of the policy. A piece is short, and its gradient is exact up to its end; it ignores later
effects, so the goal must apply to every piece, such as `ApproachGoal`. The borders of the pieces change in each
iteration.
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
from gradsim.control.plant import check_policy, last
from gradsim.control.training import optimizers
from gradsim.control.training.descent import Descent, ParameterSource
from gradsim.control.training.history import History, Iteration
from gradsim.control.training.settings import TrainingConfig
from gradsim.errors import InputError
from gradsim.geometry.validation import counts
from gradsim.physics.model import Divergence
from gradsim.runtime.checkpoint import CheckpointFile


class IterationProgress(Protocol):
    """Called after each iteration with its loss, and values and standard deviations (NaN here) by name."""

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None: ...


def train(
    plant,
    policy: nn.Module,
    goal,
    config: TrainingConfig | None = None,
    progress: IterationProgress | None = None,
    checkpoint: CheckpointFile | str | Path | None = None,
    overrides: ParameterSource = None,
    worlds: int = 1,
) -> History:
    """Train a policy in place.

    Args:
        plant: Plant.
        policy: Policy; ends with the parameters of the last iteration. The history has those of the first, middle and
            best.
        goal: Goal whose loss is minimized. If the loss changes, a method `stage(iteration)` names it.
        config: Training configuration.
        progress: Called after each iteration.
        checkpoint: File. If it exists, training resumes from it, with a bitwise identical result if `overrides` depends on
            the iteration only.
        overrides: Parameters that replace those of the model, (worlds, ...) by name; or a function of the iteration that
            returns them, for robust policies (`randomization.py`).
        worlds: Number of worlds with feedback, unless `overrides` determines it.

    Raises:
        InputError: If the policy does not fit the plant, or the checkpoint belongs to different training.
        Divergence: If a rollout or a gradient is not finite, unless the configuration halves such steps.
    """
    check_policy(plant, policy)
    run = Descent(plant, policy, goal, config or TrainingConfig(), overrides, worlds)
    keeper = CheckpointFile(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    description = _describe(plant, policy, run.config)
    if keeper is not None and (state := keeper.load(description)):
        run.resume(state)
    while not run.finished:
        entry = run.iterate()
        _check_slope(entry, run)
        if progress is not None:
            figures = {"gradient norm": entry.gradient_norm, "distance [m]": entry.distance}
            progress.update(len(run.history) - 1, entry.loss, {k: (v, math.nan) for k, v in figures.items()})
        if keeper is not None and (run.finished or len(run.history) % keeper.interval == 0):
            keeper.save(description, run.state())
    policy.load_state_dict(run.history.policies["last"])
    return run.history


def _check_slope(entry: Iteration, run: Descent) -> None:
    """Require a loss that a step can lower, at the first iteration."""
    floor = run.config.options.get("floor", 0.0)
    if run.config.optimizer == "polyak" and entry.loss < floor and len(run.history) == 1:
        raise InputError(
            f"the initial loss is {entry.loss:.4g}, below the minimum {floor:g} that polyak assumes, so that no step "
            "is made, as for most rewards: give the option `floor`, or take adam."
        )
    if entry.gradient_norm == 0 and entry.loss > 0 and len(run.history) == 1 and run.config.horizon is None:
        raise InputError(
            f"the loss, {entry.loss:.4g}, does not depend on the policy: its gradient is exactly 0. Check that the "
            "goal and the body are in view, and that the controls move the body of the goal."
        )


def _describe(plant, policy: nn.Module, config: TrainingConfig) -> str:
    """Description that a checkpoint must match; the number of iterations may differ.

    It may not differ if the learning-rate schedule depends on it, since earlier steps would have been different.
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
    overrides: ParameterSource = None,
    worlds: int = 1,
    progress: IterationProgress | None = None,
) -> History:
    """Train a policy in place, with an optimizer step after each piece.

    Args:
        plant: Plant whose controls all act over time.
        policy: Policy with or without feedback.
        goal: Goal; evaluated on each piece as an episode.
        config: Optimizer, rate, clip and schedule; an iteration is all pieces of one episode. Without a horizon.
        length: Control intervals in a piece.
        overrides: Parameters and impulses, or a function of the iteration that returns them, such as `DomainRandomization`.
        worlds: Number of worlds, unless `overrides` determines it.
        progress: Called after each iteration.

    Returns:
        History; the loss of an iteration is the mean over its pieces, its gradient norm their maximum.

    Raises:
        InputError: If the policy does not fit the plant, or the configuration has a horizon or a line search.
        Divergence: If a state or a gradient is not finite.
    """
    check_policy(plant, policy)
    (length,) = counts("length", length)
    if config.horizon is not None:
        raise InputError(
            "the configuration has a horizon; pieces of a trajectory have `length` instead: remove the horizon."
        )
    if config.optimizer == "lbfgs":
        raise InputError(
            "lbfgs evaluates the same loss several times, and each piece has a different one; take adam or sgd."
        )
    parameters = [p for p in policy.parameters() if p.requires_grad]
    step = optimizers.make_optimizer(config.optimizer, parameters, config.learning_rate, config.options)
    rates = None if config.schedule is None else optimizers.make_schedule(config.schedule, step, config.iterations)
    history = History()
    for k in range(config.iterations):
        begun, before = time.process_time(), {name: y.clone() for name, y in policy.state_dict().items()}
        world_parameters = overrides(k) if callable(overrides) else overrides
        parameters_of, impulses = split(world_parameters, plant.model)
        states = plant.begin(parameters_of, max([worlds, *map(len, impulses.values())]))
        losses, norms, rate = [], [], step.param_groups[0]["lr"]
        for first, end in pairwise(borders(plant.intervals, length, k)):
            piece = plant.pieces(policy, states, range(first, end), world_parameters)
            world_losses = goal.loss(piece, k)
            loss = world_losses.mean()
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
            step.step(lambda value=losses[-1]: value)  # for optimizers that require a closure
            getattr(policy, "project", lambda: None)()
            states = {body: {name: y.detach() for name, y in s.items()} for body, s in last(piece.trajectory).items()}
        if rates is not None:
            rates.step()
        distance, error = goal.distance(piece), goal.position_error(piece)
        entry = Iteration(
            loss=sum(losses) / len(losses),
            gradient_norm=max(norms),
            seconds=time.process_time() - begun,
            rollouts=len(world_losses),
            steps=len(world_losses) * plant.steps,
            distance=math.nan if distance is None else distance.mean().item(),
            position_error=math.nan if error is None else error.mean().item(),
            frames=plant.frames,
            rate=rate,
        )
        history.add(entry, before)
        if progress is not None:
            progress.update(k, entry.loss, {})
        if entry.loss <= config.target_loss:
            break
    return history


def borders(intervals: int, length: int, iteration: int) -> list[int]:
    """Borders of the pieces: the first piece has 1 to `length` intervals, determined by the iteration."""
    first = 1 + int(torch.randint(length, (), generator=torch.Generator().manual_seed(iteration)))
    return [*sorted({0, *range(first, intervals, length)}), intervals]
