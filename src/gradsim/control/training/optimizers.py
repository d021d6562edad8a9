"""Optimisers and schedules of their rates, by name: all of PyTorch's, and Polyak's step.

Adam → "adam", LBFGS → "lbfgs", ...;   CosineAnnealingLR → "cosine_annealing", StepLR → "step", ...
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler

from gradsim.control.training.polyak import Polyak
from gradsim.errors import InputError
from gradsim.scene.node import did_you_mean

ELSEWHERE = ("Optimizer", "SparseAdam", "Muon")  # the base; for sparse gradients alone; for matrices alone
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and name not in ELSEWHERE
} | {"polyak": Polyak}
RATES = {"lbfgs": 1.0, "polyak": 1.0, "adadelta": 1.0}  # where a step has a size of its own
RATE = 0.05  # for the others; policies are made of numbers of order 1
OURS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9},
    # one iteration is one step; rollouts of its line search are counted apart
    "lbfgs": {"max_iter": 1, "line_search_fn": "strong_wolfe", "tolerance_grad": 0.0, "tolerance_change": 0.0},
}
UNCLIPPED = {
    "lbfgs": "it learns curvature from the gradients as they are",
    "polyak": "it divides by the gradient, and has a `bound` of its step",
}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.replace("LR", "")).lower()


COMPOSED = ("LRScheduler", "LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler")  # take functions
SCHEDULES: dict[str, type] = {
    _snake(name): kind
    for name, kind in vars(lr_scheduler).items()
    if inspect.isclass(kind)
    and (issubclass(kind, lr_scheduler.LRScheduler) or name == "ReduceLROnPlateau")
    and name not in COMPOSED
    and not name.startswith("_")
}
LENGTHS = ("T_max", "total_steps", "total_iters")  # of a schedule: the whole search, unless given


def make_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    rate: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> torch.optim.Optimizer:
    """An optimiser of this name.

    Args:
        name: Such as "adam", "sgd" (momentum 0.9), "lbfgs" (strong Wolfe line search) or "polyak".
        parameters: What it moves.
        rate: Learning rate; by default 0.05, or 1 for those whose steps have a size of their own.
        options: Its further arguments.

    Raises:
        InputError: If there is none of this name, or it has no such option.
    """
    if name not in OPTIMIZERS:
        hint = did_you_mean(name, list(OPTIMIZERS)) or f"; choose one of {', '.join(OPTIMIZERS)}."
        raise InputError(f"there is no optimiser {name!r}{hint}")
    kind, given = OPTIMIZERS[name], {**OURS.get(name, {}), **(options or {})}
    given["lr"] = default_rate(name) if rate is None else rate
    return _made(kind, f"the optimiser {name!r}", list(parameters), given)


def default_rate(name: str) -> float:
    """The learning rate of an optimiser that is given none."""
    return RATES.get(name, RATE)


def make_schedule(given: str | Mapping[str, Any], of: torch.optim.Optimizer, iterations: int):
    """A schedule of the learning rate.

    Args:
        given: Its name, such as "cosine_annealing", "exponential", "step" or "reduce_on_plateau"; or a mapping of `name`
            and its further arguments. A length (`T_max`, `total_steps`, `total_iters`) that is left out is `iterations`.
        of: The optimiser.
        iterations: Of the search.

    Raises:
        InputError: If there is none of this name, or it has no such option or lacks one.
    """
    options = {"name": given} if isinstance(given, str) else dict(given)
    name = options.pop("name", None)
    if name not in SCHEDULES:
        hint = did_you_mean(str(name), list(SCHEDULES)) or f"; choose one of {', '.join(SCHEDULES)}."
        raise InputError(f"there is no schedule {name!r} of the learning rate{hint}")
    kind = SCHEDULES[name]
    own = inspect.signature(kind).parameters
    lengths = {key: iterations for key in LENGTHS if key in own}
    return _made(kind, f"the schedule {name!r}", of, lengths | options)


def spans(given: str | Mapping[str, Any]) -> bool:
    """Whether a schedule, as above, is as long as the search."""
    options = {"name": given} if isinstance(given, str) else given
    own = inspect.signature(SCHEDULES[options["name"]]).parameters
    return any(key in own and key not in options for key in LENGTHS)


def _made(kind: type, what: str, first, options: Mapping[str, Any]):
    """`kind(first, **options)`, with its refusals in our words."""
    known = [key for key in inspect.signature(kind).parameters if key != "params" and key != "optimizer"]
    for key in options:
        if key not in known:
            hint = did_you_mean(key, known) or f"; it has {', '.join(known)}."
            raise InputError(f"{what} has no option `{key}`{hint}")
    try:
        return kind(first, **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} refuses {dict(options)}: {error}; its options are {', '.join(known)}.") from error
