"""Rollout of rigid bodies with frames that follow recordings: the motion of each frame in every step, from its samples.

A method of fourth order takes it at the begin, middle and end of each step. Steps of first order arrive where the recording says: x + h v is
the position after a step, and exp(h ω) q the orientation, so v and ω of a step are differences over it, and accelerations those of v and ω
over h.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.numerics import rotation
from gradsim.physics.rigid.multibody import Bodies
from gradsim.physics.rigid.recorded_frames import FrameState, RecordedFrame

MIN_STEP = 1e-7  # [s] of a step so short that differences over it are rounding


def at_steps(frame: RecordedFrame, samples: Tensor, h: Tensor, ends_only: bool) -> FrameState:
    """Motion that kernels take in each step, (worlds, steps, ·) where `ends_only`, else at begins, middles and ends (worlds, 3 steps, ·).

    Args:
        frame: The frame.
        samples: Its samples (worlds, times, 7).
        h: Steps (worlds, steps) [s].
        ends_only: Whether steps are of first order.
    """
    ends = torch.cat([torch.zeros_like(h[:, :1]), h.cumsum(1)], 1)
    if not ends_only:
        begin, end = ends[:, :-1], ends[:, 1:]
        limits = frame.at(samples, begin, True), frame.at(samples, begin + 0.5 * h), frame.at(samples, end)
        return FrameState(*(torch.stack(y, 2).flatten(1, 2) for y in zip(*limits, strict=True)))
    x, q, v, w, a, s = frame.at(samples, ends)
    short = (h < MIN_STEP)[..., None]
    divisor = torch.where(short, torch.ones_like(h)[..., None], h[..., None])
    turn = rotation.logarithm(rotation.multiply(q[:, 1:], rotation.conjugate(q[:, :-1])))
    during = [torch.where(short, slope[:, :-1], change / divisor) for slope, change in ((v, x.diff(dim=1)), (w, turn))]
    before = [torch.cat([slope[:, :1], y[:, :-1]], 1) for slope, y in zip((v, w), during, strict=True)]
    changes = [
        torch.where(short, bend[:, :-1], (y - old) / divisor)
        for bend, y, old in zip((a, s), during, before, strict=True)
    ]
    return FrameState(x[:, :-1], q[:, :-1], before[0], before[1], changes[0], changes[1])


@dataclass(frozen=True, eq=False)
class RecordedBodies:
    """A rollout of rigid bodies with frames that follow recordings.

    Its inputs are those of `program`, with the samples of each frame (worlds, times, 7) in place of its motion in each step.

    Args:
        program: `Bodies` with `recorded`.
        frames: The frames.
        ends_only: Whether steps are of first order.
    """

    program: Bodies
    frames: Sequence[RecordedFrame]
    ends_only: bool

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.program.run(*self._in_steps(inputs))

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return self.program.forward([x.contiguous() for x in self._in_steps(inputs)])

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world, as of `Bodies`."""
        moving = {str(k): t for k, t in enumerate(tangents) if t is not None}
        inputs_along = lambda varied: self._in_steps([varied.get(str(k), x) for k, x in enumerate(inputs)])
        values, slopes = derivative(inputs_along, {key: inputs[int(key)] for key in moving}, moving)
        return self.program.tangent(values, slopes)

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        """Shapes of the outputs."""
        return self.program.shapes(inputs)

    def _in_steps(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        count = len(self.frames)
        head, samples, step = inputs[: -1 - count], inputs[-1 - count : -1], inputs[-1]
        program = self.program
        if not step.shape[1]:
            step = step.new_full((len(step), program.frames - 1), program.dt)
        h = step.double().repeat_interleave(program.substeps, 1)
        if not h.shape[1]:  # of a start alone, which no kernel steps from
            h = h.new_zeros(len(h), 1)
        parts = [at_steps(f, y.double(), h, self.ends_only) for f, y in zip(self.frames, samples, strict=True)]
        motion = [torch.stack(y, 2).to(inputs[0].dtype) for y in zip(*parts, strict=True)]
        return [*head, *motion, step]
