"""Inputs of `Model.rollout`, checked and as tensors: numbers of parameters by name, and states to start from."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from gradsim.engine.numbers import bytes_of
from gradsim.errors import InputError
from gradsim.physics.system import Values
from gradsim.scene.parameters import Parameter, resolve

END_SLACK = 1e-3  # beyond the end of a range, for differences about it, such as a friction of 0
WITHOUT_ENDS = ".margin"  # a number whose formulas hold below 0, so that differences about 0 have two sides
States = Mapping[str, Mapping[str, Tensor]]  # (worlds, ...) by body and name


class RangeCheck:
    """A check that numbers are in the ranges of their parameters, which passes over those that were at the last call."""

    def __init__(self):
        self._checked: dict[str, tuple[torch.dtype, bytes | None] | None] = {}

    def check(self, kinds: Mapping[str, Parameter], tensors: Mapping[str, Tensor]) -> None:
        """Refuse numbers that are not finite or outside of what a scene file may have."""
        for name, value in tensors.items():
            kind, numbers = kinds[name], value.detach()
            known = None if is_functorch_wrapped_tensor(numbers) else (numbers.dtype, bytes_of(numbers))
            if known and known[1] and self._checked.get(name) == known:
                continue
            low, high = (end.item() for end in numbers.aminmax()) if numbers.numel() else (0.0, 0.0)
            inside = kind.lower - END_SLACK <= low and high <= kind.upper + END_SLACK
            if math.isfinite(low + high) and (inside or name.endswith(WITHOUT_ENDS)):
                self._checked[name] = known
                continue
            legal = torch.isfinite(numbers)
            if not name.endswith(WITHOUT_ENDS):
                legal = legal & (numbers >= kind.lower - END_SLACK) & (numbers <= kind.upper + END_SLACK)
            if legal.all():
                continue
            world, number = int((~legal).nonzero()[0, 0]), numbers[~legal][0].item()
            span = "that is finite"
            if math.isfinite(kind.lower):
                span = f"of at least {kind.lower:g}"
            if math.isfinite(kind.upper):
                span = f"from {kind.lower:g} to {kind.upper:g}"
            raise InputError(f"`{name}` of world {world} is {number:g}; expected a number {span}.")


def override_tensors(model, overrides: Mapping[str, Tensor | float | Sequence]) -> dict[str, Tensor]:
    """Parameters (worlds, ...) by name of what `rollout` is given: tensors, numbers and arrays, and components such as `ball.velocity.x`.

    Raises:
        InputError: If a name is unknown or given twice, or a number is outside of its range or not finite.
    """
    tensors: dict[str, Tensor] = {}
    columns: dict[str, dict[int, Tensor]] = {}
    value: Any
    for name, value in overrides.items():
        parameter, index = (name, None) if name in model.kinds else resolve(model.scene, name, model.kinds)
        shape = model.kinds[parameter].value.shape if index is None else ()
        if isinstance(value, int | float | list | tuple | np.ndarray):
            value = _as_worlds(value, shape, model.get_parameter(parameter).device)
        if index is None:
            check_shape(name, model.kinds[name], value)
            tensors[name] = value
            continue
        if not isinstance(value, Tensor) or value.ndim != 1:
            got = f"with shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"as {value!r:.60}"
            raise InputError(f"`{name}` is given {got}; expected a number, or a tensor (worlds).")
        columns.setdefault(parameter, {})[index] = value
    for name, by_index in columns.items():
        if name in tensors:
            raise InputError(f"`{name}` is given as a vector and by component; give one of them.")
        fixed = model.get_parameter(name)
        parts = [by_index.get(k, fixed[k : k + 1].to(model.dtype)) for k in range(len(fixed))]
        tensors[name] = torch.stack(torch.broadcast_tensors(*parts), -1)
    if not torch.compiler.is_compiling():
        model._ranges.check(model.kinds, tensors)
    return tensors


def check_shape(name: str, kind: Parameter, value: Tensor) -> None:
    """Raise `InputError` if what is given for a parameter is not a tensor of one of its shapes."""
    per_element = (kind.elements, *kind.value.shape)
    tensor = isinstance(value, Tensor)
    if tensor and value.ndim and value.shape[1:] in (kind.value.shape, *([per_element] if kind.elements else [])):
        return
    if tensor and kind.timed and value.ndim == 3 and value.shape[2] in (1, kind.elements):
        return  # and `time_steps.timed_values` looks at the intervals
    shapes = [("worlds", *kind.value.shape), *([("worlds", *per_element)] if kind.elements else [])]
    shapes += [("worlds", "frames - 1", *per_element)] if kind.timed else []
    expected = " or ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
    got = f"with shape {tuple(value.shape)}" if tensor else f"as {value!r:.60}"
    column = tensor and value.ndim == 2 and value.shape[1] == 1 and not kind.value.shape
    hint = ": drop its last dimension by `squeeze(1)`" if column else ""
    raise InputError(f"`{name}` is given {got}; expected a tensor {expected}{hint}.")


def continued_values(model, values: Values, start: States) -> tuple[Values, States]:
    """Parameters, and states to start from, both for as many worlds.

    Raises:
        InputError: If a rollout of this scene cannot start from states, or they are not of all bodies, or for other worlds.
    """
    if model.scene.timing.stamps is not None:
        raise InputError(
            "`start` is given and the scene has `timing.stamps`, which count from its start; remove one of them."
        )
    for system in model.systems:
        if system.name not in start or set(start[system.name]) != set(system.states):
            raise InputError(f"`start` has no {', '.join(system.states)} of `{system.name}`; give those of all bodies.")
        if getattr(system, "windows", ()):
            raise InputError(
                f"`{system.name}` has pushes, which count from the scene's start, so it cannot start from a state; "
                f"give it a `velocity` in their place."
            )
        if model.motors:
            raise InputError(
                "the scene has a log, whose times count from its start, so it cannot start from a state; leave `log` out of it."
            )
        if getattr(system, "motion", ()):
            raise InputError(
                f"`{system.name}` has a `motion`, whose times count from the scene's start, so it cannot start from "
                "a state; give a motion that begins there in the scene, or roll out from the scene's start."
            )
    for name in [name for name, joint in model.scene.joints.items() if joint.motion is not None]:
        raise InputError(
            f"the joint `{name}` has a `motion`, whose times count from the scene's start, so bodies cannot start from "
            "a state; roll out from the scene's start."
        )
    named = {f"{s.name}.{k}": start[s.name][k] for s in model.systems for k in s.states}
    worlds = max(len(values["gravity"]), *(len(y) for y in named.values()))
    for name, count in {"overrides": len(values["gravity"]), **{name: len(y) for name, y in named.items()}}.items():
        if count not in (1, worlds):
            raise InputError(
                f"`start` and `overrides` are for {worlds} worlds, and `{name}` for {count}; give as many, or 1."
            )
    expand = lambda y: y.to(model.dtype).expand(worlds, *y.shape[1:])
    states = {s.name: {k: expand(named[f"{s.name}.{k}"]) for k in s.states} for s in model.systems}
    return {name: v.expand(worlds, *v.shape[1:]) for name, v in values.items()}, states


def _as_worlds(value, shape: tuple[int, ...], device: torch.device):
    """Numbers of one world, or of several, as a tensor (worlds, ...); as they are where they have another shape."""
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return value
    if numbers.shape == shape:
        numbers = numbers[None]
    return torch.as_tensor(numbers, device=device) if numbers.shape[1:] == shape and numbers.ndim else value
