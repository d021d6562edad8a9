"""Training of a policy by the gradients of rollouts.

    θ ← θ - step(∇θ L),   L(θ) = mean over worlds of goal.loss(plant.rollout(policy θ))

One iteration is exactly one rollout forward and one backward of every world, then a step; the curve is raw, entry k is
the loss before step k, and the policy ends as it was in the last entry. What a line search rolls out besides is counted.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from torch import nn

from gradsim.control import optimisers
from gradsim.control.checkpoint import Checkpoint
from gradsim.control.descent import Descent, Given
from gradsim.control.history import History, Iteration
from gradsim.control.matching import check
from gradsim.control.search import Search
from gradsim.errors import InputError


class Progress(Protocol):
    """Is told each iteration: its loss, and values ± standard deviations (not numbers here) by name."""

    def update(self, iteration: int, loss: float, values: dict[str, tuple[float, float]]) -> None: ...


def train(
    plant,
    policy: nn.Module,
    goal,
    search: Search | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | str | Path | None = None,
    given: Given = None,
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
            that gives them, for a policy that bears what it does not know (`disturbances.py`).
        worlds: How many are rolled out with feedback, where `given` does not say.

    Raises:
        InputError: If the policy does not fit the plant, or the checkpoint is of another search.
        Divergence: If a rollout or a gradient is not finite, unless the search halves such steps.
    """
    check(plant, policy)
    run = Descent(plant, policy, goal, search or Search(), given, worlds)
    keeper = Checkpoint(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint
    own = _describe(plant, policy, run.search)
    if keeper is not None and (state := keeper.load(own)):
        run.resume(state)
    while not run.finished:
        entry = run.iterate()
        _check_slope(entry, run)
        if progress is not None:
            figures = {"gradient norm": entry.gradient_norm, "distance [m]": entry.distance}
            progress.update(len(run.history) - 1, entry.loss, {k: (v, math.nan) for k, v in figures.items()})
        if keeper is not None and (run.finished or len(run.history) % keeper.every == 0):
            keeper.save(own, run.state())
    policy.load_state_dict(run.history.policies["last"])
    return run.history


def _check_slope(entry: Iteration, run: Descent) -> None:
    """Refuse a loss that no step can lower, at the first iteration."""
    floor = run.search.options.get("floor", 0.0)
    if run.search.optimiser == "polyak" and entry.loss < floor and len(run.history) == 1:
        raise InputError(
            f"the loss begins at {entry.loss:.4g}, below the {floor:g} that polyak takes for its least value, so that no "
            "step is made, as for most rewards: give the option `floor`, or take adam."
        )
    if entry.gradient_norm == 0 and entry.loss > 0 and len(run.history) == 1 and run.search.horizon is None:
        raise InputError(
            f"the loss, {entry.loss:.4g}, does not depend on the policy: its gradient is exactly 0. Look whether the goal "
            "and the body are in view, and whether the controls move what the goal is about."
        )


def _describe(plant, policy: nn.Module, search: Search) -> str:
    """What a checkpoint has to agree in, in words; a search may go on for more iterations.

    Not so where the schedule of the rate is as long as the search: its steps before would have been others.
    """
    numbers = sum(p.numel() for p in policy.parameters())
    fixed = search.schedule is not None and optimisers.spans(search.schedule)
    settings = replace(search, iterations=search.iterations if fixed else 1, enough=-math.inf)
    return f"{type(policy).__name__} of {numbers} numbers for {plant.outputs} outputs, {settings}"
