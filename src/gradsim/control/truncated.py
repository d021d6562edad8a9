"""Training by short pieces of a motion: truncated backpropagation through time (Williams and Peng 1990).

    for each piece:   θ ← θ - step(∇θ L),   L(θ) = mean over worlds of goal.loss(piece);   the next one begins where it ended

Gradients over many steps and contacts grow with their number (`History.gradient_norm` shows it), and those of a policy
that looks grow further, by its own reactions. A piece is short, and its gradient is exact up to its end; what comes
later is the business of a goal that asks something of every piece, such as `Approach`. The pieces' borders move from
iteration to iteration.
"""

import math
import time
from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from gradsim.control import optimisers
from gradsim.control.goal import Goal
from gradsim.control.history import History, Iteration
from gradsim.control.kicks import split
from gradsim.control.matching import check
from gradsim.control.plant import last
from gradsim.control.search import Search
from gradsim.control.training import Progress
from gradsim.errors import InputError
from gradsim.geometry.validation import counts
from gradsim.physics.model import Divergence

Given = Mapping[str, Tensor] | Callable[[int], Mapping[str, Tensor]] | None


def train_truncated(
    plant,
    policy: nn.Module,
    goal: Goal,
    search: Search,
    length: int,
    given: Given = None,
    worlds: int = 1,
    progress: Progress | None = None,
) -> History:
    """Train a policy in place, with a step of the optimiser after each piece.

    Args:
        plant: A `Plant` whose controls all act over time.
        policy: With feedback or without.
        goal: Measures each piece as an episode of its own.
        search: Optimiser, rate, clip and schedule; an iteration is all pieces of one episode. It takes no horizon.
        length: Control intervals in a piece.
        given: Parameters and kicks, or a function of the iteration that gives them, such as `Disturbances`.
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
    if search.horizon is not None:
        raise InputError("the search has a horizon; pieces of a motion have their length instead: leave it out.")
    if search.optimiser == "lbfgs":
        raise InputError("lbfgs asks for the same loss again and again, and each piece is another; take adam or sgd.")
    parameters = [p for p in policy.parameters() if p.requires_grad]
    step = optimisers.optimiser(search.optimiser, parameters, search.learning_rate, search.options)
    rates = None if search.schedule is None else optimisers.schedule(search.schedule, step, search.iterations)
    history = History()
    for k in range(search.iterations):
        begun, here = time.process_time(), {name: y.clone() for name, y in policy.state_dict().items()}
        own = given(k) if callable(given) else given
        parameters_of, kicks = split(own, plant.model)
        states = plant.begin(parameters_of, max([worlds, *map(len, kicks.values())]))
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
            if search.clip is not None:
                nn.utils.clip_grad_norm_(parameters, search.clip)
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
        if entry.loss <= search.enough:
            break
    return history


def borders(intervals: int, length: int, iteration: int) -> list[int]:
    """Where pieces begin and end: the first has 1 to `length` intervals, by the iteration alone."""
    first = 1 + int(torch.randint(length, (), generator=torch.Generator().manual_seed(iteration)))
    return [*sorted({0, *range(first, intervals, length)}), intervals]
