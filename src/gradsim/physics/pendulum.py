"""A solid ball on a massless, inextensible string that swings in a vertical plane about a fixed pivot.

    (L² + 2/5 r²) θ̈ = L (b cos θ − g sin θ) − (L² + 2/5 r²) (c θ̇ + d |θ̇| θ̇),   L = s + r

θ is the angle from hanging straight down, s the string from the pivot to the surface of the ball, r the ball's radius,
so L reaches its centre. The ball turns with the string: its moment of inertia over its mass, 2/5 r² about its centre,
is shifted to the pivot by L² (Huygens–Steiner; Goldstein, Classical Mechanics, 3rd ed., §5.3). A point mass is r = 0.
Mass itself drops out. c damps linearly; d is drag that grows with the square of the speed (Nelson & Olsson 1986,
"The pendulum – rich physics from a simple system", with both). g pulls down and b to the side to which θ is positive:
their parts of gravity and of a constant force at the ball's centre, over its mass.

The string stays straight whatever its tension, as a rod does: a true string would go slack above the pivot where
L θ̇² + g cos θ < 0, and that is not modelled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from gradsim.engine.lanes import Lane, native_width, specialise
from gradsim.engine.launch import replay
from gradsim.engine.layout import Layout
from gradsim.engine.operation import operation

STATE = ("angle", "rate")
PARAMETERS = ("string_length", "radius", "gravity", "damping", "drag", "side")
INPUTS = (*STATE, *PARAMETERS)


@dataclass(frozen=True)
class PendulumRollout:
    """A program (see `engine.operation`) that swings one pendulum per world through time.

    Inputs, in this order and (B,) each with worlds B: the start angle [rad] and rate [rad/s]; then string_length [m],
    radius [m], gravity [m/s²] (downwards), damping [1/s], drag [1/rad] and side [m/s²] (the pull to the side). A further
    one may be the time step in each frame interval (B, frames - 1) [s]; without it every step is `dt`. Outputs: angle
    and rate of every frame, (B, frames); frame 0 is the start. The angle is not wrapped: it counts the turns.

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

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(inputs[0].shape[0], self.frames)] * 2

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
        history = [layout.pack("Real", y) for y in outputs]
        adjoint = [layout.pack("Real", g) for g in adjoints]
        steps = max(1, min(self.segment, self.frames - 1)) * self.substeps
        scratch = [layout.zeros("Real", worlds, (steps,), device) for _ in STATE]
        given, grad = code.Parameters(), code.Parameters()
        out = [layout.zeros("Real", worlds, () if x.ndim == 1 else x.shape[1:], device) for x in self._all(inputs)]
        for name, x, g in zip((*PARAMETERS, "step"), self._all(inputs)[len(STATE) :], out[len(STATE) :], strict=True):
            setattr(given, name, layout.pack("Real", x))
            setattr(grad, name, g)
        start = out[: len(STATE)]
        args = [given, self.substeps, self.segment, *history, *scratch, *adjoint, *start, grad]
        replay(code.backward, layout.packs(worlds), args, str(device))
        return [layout.unpack("Real", g, worlds)[0].to(x.dtype) for g, x in zip(out, inputs, strict=False)]

    def _forward(self, inputs, tangents) -> list[tuple]:
        code, layout = self._code(inputs[0], dual=tangents is not None)
        worlds = len(inputs[0])
        tangents = [*(tangents or [None] * len(inputs)), None]
        given, states = code.Parameters(), []
        for name, x, t in zip((*INPUTS, "step"), self._all(inputs), tangents, strict=False):
            shape = (worlds, self.frames - 1) if name == "step" else (worlds,)
            if x.shape != shape:
                raise ValueError(f"`{name}` has shape {tuple(x.shape)}; {worlds} worlds need shape {shape}.")
            if name in STATE:
                states.append(layout.pack("Real", self._first(x), None if t is None else self._first(t)))
            else:
                setattr(given, name, layout.pack("Real", x, t))
        replay(code.forward, layout.packs(worlds), [given, self.substeps, *states], str(inputs[0].device))
        return [layout.unpack("Real", state, worlds) for state in states]

    def _all(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """With the steps, where they are not given."""
        steps = inputs[0].new_full((len(inputs[0]), self.frames - 1), self.dt)
        return [*inputs, *([steps] if len(inputs) == len(INPUTS) else [])]

    def _first(self, start: Tensor) -> Tensor:
        """(B, frames) with the start in frame 0, and zeros to be filled."""
        return torch.nn.functional.pad(start[:, None], (0, self.frames - 1))

    def _code(self, like: Tensor, dual: bool):
        dtype = str(like.dtype).removeprefix("torch.")
        width = self.width or (native_width(dtype) if like.device.type == "cpu" else 1)
        return _code(Lane(dtype, width, dual))


@cache
def _code(lane: Lane):
    return specialise("gradsim.physics.pendulum_lanes", lane), Layout(lane)


def acceleration(
    angle: Tensor,
    rate: Tensor,
    string_length: Tensor,
    radius: Tensor,
    gravity: Tensor,
    damping: Tensor,
    drag: Tensor,
    side: Tensor | float = 0.0,
) -> Tensor:
    """θ̈ [rad/s²]: the definition of the physics in plain PyTorch, of any shapes that broadcast."""
    length = string_length + radius
    inertia = length**2 + 2 / 5 * radius**2
    pull = length / inertia * (side * torch.cos(angle) - gravity * torch.sin(angle))
    return pull - damping * rate - drag * rate.abs() * rate


def energy(
    angle: Tensor, rate: Tensor, string_length: Tensor, radius: Tensor, gravity: Tensor, side: Tensor | float = 0.0
) -> Tensor:
    """½ (L² + 2/5 r²) θ̇² + g L (1 − cos θ) − b L sin θ, per mass [J/kg]; 0 when hanging at rest."""
    length = string_length + radius
    inertia = length**2 + 2 / 5 * radius**2
    height = 2 * torch.sin(angle / 2) ** 2  # 1 − cos θ without cancellation
    return 0.5 * inertia * rate**2 + length * (gravity * height - side * torch.sin(angle))
