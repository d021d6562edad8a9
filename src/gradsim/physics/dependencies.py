"""Parameters of a scene that affect a trajectory, a surface or an image.

A parameter may have a path and yet a derivative of 0: the mass of a body in free fall. That is an answer. One that nothing
reads has no derivative at all, and requesting one raises an error.
"""

from collections.abc import Iterable
from contextlib import nullcontext

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd.graph import saved_tensors_hooks

from gradsim.engine.operation import are_saved_tensors_hooked
from gradsim.errors import InputError
from gradsim.scene.parameters import CONTACT, camera_prefix, parameters

CLOCK = ("timing.rate", "timing.offset")


def read_by_motion(model) -> frozenset[str]:
    """Parameters on which states or surfaces of a `Model` depend, by whatever derivative."""
    # `torch.func` lets no tensor require a gradient inside of its transforms
    # nor may hooks of the caller count what is saved here, once for a model
    hooked, as_it_is = are_saved_tensors_hooked(), lambda x: x
    hooks = saved_tensors_hooks(as_it_is, as_it_is) if hooked else nullcontext()
    with temporarily_clear_interpreter_stack(), torch.enable_grad(), hooks:
        values = {name: v.detach().clone().requires_grad_() for name, v in model.values().items()}
        interval = values["timing.rate"].new_full((1, 1), 1 / model.scene.timing.fps)
        timed, ends = model.driven(values, interval), []
        for group in model.groups:
            inputs = group.inputs(timed)
            states = group.split(_start(group.program(1, model.substeps, model.dt), inputs))
            ends += inputs
            ends += [s.vertices(list(y), values) for s, y in zip(group.systems, states, strict=True)]
        ends += [thing.vertices(values) for thing in model.scenery]
        reached = _reached([x for x in ends if x.requires_grad and x.numel()], values)
    return frozenset(reached) | frozenset(CLOCK)


def read_by_tracks(scene) -> frozenset[str]:
    """Places of markers, which only tracks of them depend on."""
    return frozenset(f"markers.{name}.point" for name, marker in scene.markers.items() if marker.point is not None)


def read_by_log(scene) -> frozenset[str]:
    """Numbers of sensors, which only a log depends on."""
    sensors = [name for name, channel in scene.channels.items() if not channel.drives]
    return frozenset(f"channels.{name}.{key}" for name in sensors for key in ("scale", "offset", "delay"))


def read_by_images(scene) -> frozenset[str]:
    """Parameters of cameras and lights."""
    lenses = tuple(f"{camera_prefix(name)}." for name in scene.views)
    lamps = {f"lights.{name}.{key}" for name, lamp in scene.lights.items() for key in type(lamp).model_fields}
    return frozenset(name for name in parameters(scene) if name.startswith(lenses)) | lamps


def require_dependency(model, names: Iterable[str]) -> None:
    """Raise `InputError` if nothing reads one of these parameters."""
    for name in names:
        if name in model.unused_parameters:
            raise InputError(f"`{name}` has no gradient, not even 0: {why_unread(model, name)}")


def why_unread(model, name: str) -> str:
    """Why nothing reads a parameter, and what would make it act."""
    scene, (owner, _, key) = model.scene, name.partition(".")
    key = key.rpartition(".")[2]
    if owner in scene.bodies and key in CONTACT:
        what = "the scene has no ground or obstacle" if not scene.surfaces else f"`{owner}` has collision: none"
        return f"{what}, so `{owner}` touches nothing. Let it touch something, or leave `{name}` out."
    if owner in scene.surfaces:
        owners = [n for n in scene.bodies if any(f"{n}.{part}{key}" in model.kinds for part in ("", "contact."))]
        if not owners:
            return f"nothing can touch `{owner}`. Let a body have collision with it, or leave `{name}` out."
        have = "has its" if len(owners) == 1 else "have their"
        return f"in contact with `{owner}`, {' and '.join(f'`{n}`' for n in owners)} {have} own `{key}`; use that of the body."
    return "no trajectory, surface or image of this scene depends on it; remove it."


def _start(program, inputs: list[Tensor]) -> list[Tensor]:
    """States of frame 0, by their shapes alone where the program has them: kernels of a rollout take seconds to build."""
    inputs = [x.detach() for x in inputs]
    if hasattr(program, "shapes"):
        return [inputs[0].new_zeros(shape) for shape in program.shapes(inputs)]
    return program.forward([*inputs, inputs[0].new_zeros(len(inputs[0]), 0)])


def _reached(ends: list[Tensor], values: dict[str, Tensor]) -> list[str]:
    if not ends:
        return []
    slopes = torch.autograd.grad([x.sum() for x in ends], list(values.values()), allow_unused=True)
    return [name for name, slope in zip(values, slopes, strict=True) if slope is not None]
