"""Rollouts of pendulums as a differentiable operation and with forward sensitivities.

A rollout is one operation of PyTorch on the whole trajectory of angles and rates: the frames are its checkpoints, and the
backward pass recomputes the steps between them. The kernels are those of each kind of pendulum.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.launch import replay, struct_of
from gradsim.engine.layout import Layout
from gradsim.engine.operation import operation

STATE = ("angle", "rate")


@dataclass(frozen=True)
class AngleRollout(ABC):
    """A program (see `engine.operation`) for one system of angles per world.

    Inputs, with worlds B: the start angles and rates, then the parameters. A further one may be the time step in each
    frame interval (B, frames - 1) [s]; without it every step is `dt`. Outputs: angles and rates of every frame, frame 0
    is the start. Angles are not wrapped: they count the turns.

    Args:
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s].
        segment: Frames between two checkpoints of the backward pass.
        width: Worlds in one register; None takes the widest of the CPU, 1 elsewhere.
    """

    frames: int
    substeps: int
    dt: float
    segment: int = 1
    width: int | None = None
    run: Callable[..., list[Tensor]] = field(init=False, compare=False)

    angles: ClassVar[tuple[int, ...]]  # shape of the angles in a world
    parameters: ClassVar[dict[str, tuple[int, ...]]]  # name and shape in a world
    workspace: ClassVar[dict[str, tuple[int, ...]]]  # further arrays of the kernels' `Parameters`

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))

    @staticmethod
    @abstractmethod
    def kernels(lane: Lane) -> Any:
        """The specialised kernel file: `Parameters`, `States`, `Adjoint`, `forward` and, of a plain lane, `backward`."""

    @staticmethod
    def constants(layout: Layout, device: torch.device) -> dict[str, Any]:
        """Arrays of `Parameters` that are the same in all worlds."""
        return {}

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(inputs[0].shape[0], self.frames, *self.angles)] * 2

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [value for value, _ in self._forward(inputs, None)]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world: the exact forward sensitivity.

        Args:
            inputs: As for `forward`.
            tangents: One tensor of the same shape for each input, or None for zero.
        """
        return self._forward(inputs, tangents)

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        code, layout = self._code(inputs[0], dual=False)
        worlds, device = len(inputs[0]), inputs[0].device
        zeros = lambda *items: layout.zeros("Real", worlds, items, device)
        trajectory, frame_adjoints = (
            struct_of(code.States, {name: layout.pack("Real", y) for name, y in zip(STATE, ys, strict=True)})
            for ys in (outputs, adjoints)
        )
        count = max(1, min(self.segment, self.frames - 1)) * self.substeps + 1
        steps = struct_of(code.States, {name: zeros(count, *self.angles) for name in STATE})
        start = struct_of(code.Adjoint, {name: zeros(*self.angles) for name in STATE})
        shapes = {**self.parameters, "step": (self.frames - 1,), **self.workspace}
        gradient = struct_of(code.Parameters, {name: zeros(*shape) for name, shape in shapes.items()})
        args = [
            self._parameters(code, layout, inputs, None),
            self.substeps,
            self.segment,
            0,
            self.frames - 1,
            trajectory,
        ]
        args += [trajectory if self.substeps == 1 else steps, frame_adjoints, start, gradient]
        replay(code.backward, layout.packs(worlds), args, str(device))
        arrays = [getattr(start, name) for name in STATE]
        arrays += [getattr(gradient, name) for name in (*self.parameters, "step")]
        return [layout.unpack("Real", g, worlds)[0].to(x.dtype) for g, x in zip(arrays, inputs, strict=False)]

    def _forward(self, inputs: Sequence[Tensor], tangents) -> list[tuple]:
        code, layout = self._code(inputs[0], dual=tangents is not None)
        worlds = len(inputs[0])
        parameters, trajectory = self._parameters(code, layout, inputs, tangents), code.States()
        for name, x, t in zip(STATE, inputs, tangents or (None, None), strict=False):
            setattr(trajectory, name, layout.pack("Real", self._frames(x), None if t is None else self._frames(t)))
        args = [parameters, self.substeps, 0, self.frames - 1, trajectory]
        replay(code.forward, layout.packs(worlds), args, str(inputs[0].device))
        return [layout.unpack("Real", getattr(trajectory, name), worlds) for name in STATE]

    def _parameters(self, code, layout: Layout, inputs: Sequence[Tensor], tangents):
        """The kernels' `Parameters`."""
        worlds, device = len(inputs[0]), inputs[0].device
        steps = inputs[0].new_full((worlds, self.frames - 1), self.dt)
        shapes = dict.fromkeys(STATE, self.angles) | self.parameters | {"step": (self.frames - 1,)}
        values = [*inputs, *([steps] if len(inputs) < len(shapes) else [])]
        slopes = [*(tangents or [None] * len(inputs)), None]
        arrays = {}
        for (name, shape), x, t in zip(shapes.items(), values, slopes, strict=False):
            if x.shape != (worlds, *shape):
                raise ValueError(f"`{name}` has shape {tuple(x.shape)}; {worlds} worlds need {(worlds, *shape)}.")
            if name not in STATE:
                arrays[name] = layout.pack("Real", x, t)
        work = {name: layout.zeros("Real", worlds, shape, device) for name, shape in self.workspace.items()}
        return struct_of(code.Parameters, {**arrays, **work, **self.constants(layout, device)})

    def _frames(self, start: Tensor) -> Tensor:
        """(B, frames, ...) with the start in frame 0, and zeros to be filled."""
        return torch.cat([start[:, None], start.new_zeros(len(start), self.frames - 1, *self.angles)], 1)

    def _code(self, like: Tensor, dual: bool):
        dtype = str(like.dtype).removeprefix("torch.")
        width = self.width or (native_width(dtype) if like.device.type == "cpu" else 1)
        lane = Lane(dtype, width, dual)
        return self.kernels(lane), _layout(lane)


@cache
def _layout(lane: Lane) -> Layout:
    return Layout(lane)
