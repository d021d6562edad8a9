"""Optimizers and learning-rate schedules by name: all of PyTorch's, and Polyak's step.

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

UNSUPPORTED_OPTIMIZERS = ("Optimizer", "SparseAdam", "Muon")  # the base; for sparse gradients alone; for matrices alone
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): kind
    for name, kind in vars(torch.optim).items()
    if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and name not in UNSUPPORTED_OPTIMIZERS
} | {"polyak": Polyak}
RATES = {"lbfgs": 1.0, "polyak": 1.0, "adadelta": 1.0}  # optimizers that determine the size of a step
RATE = 0.05  # for the others; parameters of policies are of order 1
DEFAULT_OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9},
    # one iteration is one step; rollouts of its line search are counted separately
    "lbfgs": {"max_iter": 1, "line_search_fn": "strong_wolfe", "tolerance_grad": 0.0, "tolerance_change": 0.0},
}
UNCLIPPED_OPTIMIZERS = {
    "lbfgs": "it estimates the curvature from unclipped gradients",
    "polyak": "it divides by the gradient, and limits its step by `bound`",
}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.replace("LR", "")).lower()


# They take functions
UNSUPPORTED_SCHEDULES = ("LRScheduler", "LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler")
SCHEDULES: dict[str, type] = {
    _snake(name): kind
    for name, kind in vars(lr_scheduler).items()
    if inspect.isclass(kind)
    and (issubclass(kind, lr_scheduler.LRScheduler) or name == "ReduceLROnPlateau")
    and name not in UNSUPPORTED_SCHEDULES
    and not name.startswith("_")
}
LENGTHS = ("T_max", "total_steps", "total_iters")  # of a schedule: all iterations, unless given


def make_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    rate: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> torch.optim.Optimizer:
    """Make an optimizer by name.

    Args:
        name: Name, such as "adam", "sgd" (momentum 0.9), "lbfgs" (strong Wolfe line search) or "polyak".
        parameters: Parameters to optimize.
        rate: Learning rate; by default 0.05, or 1 for those that determine the size of a step.
        options: Further arguments of the optimizer.

    Raises:
        InputError: If the name or an option is unknown.
    """
    if name not in OPTIMIZERS:
        hint = did_you_mean(name, list(OPTIMIZERS)) or f"; choose one of {', '.join(OPTIMIZERS)}."
        raise InputError(f"unknown optimiser {name!r}{hint}")
    kind, arguments = OPTIMIZERS[name], {**DEFAULT_OPTIONS.get(name, {}), **(options or {})}
    arguments["lr"] = default_rate(name) if rate is None else rate
    return _made(kind, f"the optimiser {name!r}", list(parameters), arguments)


def default_rate(name: str) -> float:
    """Default learning rate of an optimizer."""
    return RATES.get(name, RATE)


def make_schedule(schedule: str | Mapping[str, Any], of: torch.optim.Optimizer, iterations: int):
    """Make a learning-rate schedule.

    Args:
        schedule: Name, such as "cosine_annealing", "exponential", "step" or "reduce_on_plateau"; or a mapping of `name`
            and further arguments. Lengths (`T_max`, `total_steps`, `total_iters`) are `iterations` by default.
        of: Optimizer.
        iterations: Number of training iterations.

    Raises:
        InputError: If the name or an option is unknown, or a required option is missing.
    """
    options = {"name": schedule} if isinstance(schedule, str) else dict(schedule)
    name = options.pop("name", None)
    if name not in SCHEDULES:
        hint = did_you_mean(str(name), list(SCHEDULES)) or f"; choose one of {', '.join(SCHEDULES)}."
        raise InputError(f"unknown schedule {name!r} of the learning rate{hint}")
    kind = SCHEDULES[name]
    accepted = inspect.signature(kind).parameters
    lengths = {key: iterations for key in LENGTHS if key in accepted}
    return _made(kind, f"the schedule {name!r}", of, lengths | options)


def spans(schedule: str | Mapping[str, Any]) -> bool:
    """True if a schedule depends on the number of iterations (see `make_schedule`)."""
    options = {"name": schedule} if isinstance(schedule, str) else schedule
    accepted = inspect.signature(SCHEDULES[options["name"]]).parameters
    return any(key in accepted and key not in options for key in LENGTHS)


def _made(kind: type, label: str, first, options: Mapping[str, Any]):
    """Return `kind(first, **options)`; its exceptions become `InputError`."""
    known = [key for key in inspect.signature(kind).parameters if key != "params" and key != "optimizer"]
    for key in options:
        if key not in known:
            hint = did_you_mean(key, known) or f"; it has {', '.join(known)}."
            raise InputError(f"{label} has no option `{key}`{hint}")
    try:
        return kind(first, **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"{label} refuses {dict(options)}: {error}; its options are {', '.join(known)}.") from error
