"""Kinds of bodies that are not part of gradsim: their registration, and rollouts in plain PyTorch.

A kind of body is a node of the scene, the names of its numbers, and a `System` (`physics/system.py`) made of the node.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.errors import InputError
from gradsim.physics.model import KINDS as SYSTEMS
from gradsim.scene.body import BodyNode
from gradsim.scene.parameters import KEYS
from gradsim.scene.scene import KINDS as NODES


def register_body(kind: str, node: type[BodyNode], numbers: Sequence[str], system: Callable) -> None:
    """Add a kind of body that scenes can name: `kind: KIND` of a body.

    Args:
        kind: Its name in scenes.
        node: Its keys in a scene, with units and defaults; see `scene/double_pendulum.py`.
        numbers: The keys that are parameters, with gradients and as unknowns of fits.
        system: Called with name, node, scene, index of its first vertex, dtype and device; returns a `System`.

    Raises:
        InputError: If the name is taken by another node, or the node lacks one of the numbers.
    """
    if NODES.get(kind, node) is not node:
        raise InputError(f"there is a kind of body {kind!r} already; choose another name.")
    missing = [key for key in numbers if key not in node.model_fields]
    if missing:
        raise InputError(f"{node.__name__} has no key {', '.join(map(repr, missing))}; numbers are keys of the node.")
    NODES[kind] = node  # pyright: ignore[reportArgumentType] -- its union names the kinds that are part of gradsim
    KEYS[node] = tuple(numbers)
    SYSTEMS[kind] = system


class TorchProgram:
    """A rollout that is a function in plain PyTorch: adjoints by autograd, tangents by forward mode.

    Args:
        trajectory: From the inputs of the `System`, and last the time step (worlds, frames - 1) [s] in each frame
            interval, to the states (worlds, frames, ...).
    """

    def __init__(self, trajectory: Callable[..., list[Tensor]]):
        self.run = trajectory

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        """The states (worlds, frames, ...), without gradients."""
        with torch.no_grad():
            return self.run(*inputs)

    def tangent(self, inputs: list[Tensor], tangents: list[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """The states, and their derivatives along `tangents`; None means 0."""
        numbered = {str(k): x for k, x in enumerate(inputs)}
        along = {
            str(k): torch.zeros_like(x) if t is None else t
            for k, (x, t) in enumerate(zip(inputs, tangents, strict=True))
        }
        function = lambda given: self.run(*(given[key] for key in numbered))
        values, slopes = derivative(function, numbered, along)
        return [(y, torch.zeros_like(y) if t is None else t) for y, t in zip(values, slopes, strict=True)]
