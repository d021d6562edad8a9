"""Rollout of rigid bodies with frames that follow recordings: the motion of each frame in every step, from its samples.

A frame moves as a body of infinite mass by the same method, pushed so that it arrives where the recording does. A semi-implicit step has

    v = (p(t + h) - p(t))/h      a = (v - v before)/h

and the like for ω, with the rotation vector from q(t) to q(t + h). The stages of a step of fourth order have the accelerations a₀, b, b, c, with
which Runge-Kutta ends at p(t + h) and p'(t + h):

    b = 3 (p(t + h) - p - h p')/h² - a₀/2      c = 6 (p'(t + h) - p')/h - a₀ - 4 b

both off p'' by the third order of h. Of ω' the middle one is that of the recording, and a step of Newton's method with 3 e/h², by the rotation vector e
from where the orientation then ends to q(t + h). Places, orientations and velocities of a stage are those that the method has there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.numerics import rotation
from gradsim.physics.rigid.multibody import Bodies
from gradsim.physics.rigid.recorded.frames import FrameState, RecordedFrame

MIN_STEP = 1e-7  # [s] of a step so short that differences over it are rounding


def at_steps(frame: RecordedFrame, samples: Tensor, h: Tensor, first_order: bool) -> FrameState:
    """Motion that kernels take in each stage of each step, (worlds, steps · stages, ·).

    Args:
        frame: The frame.
        samples: Its samples (worlds, times, 7).
        h: Steps (worlds, steps) [s].
        first_order: Whether steps are semi-implicit, of one stage, or of fourth order, of four.
    """
    ends = torch.cat([torch.zeros_like(h[:, :1]), h.cumsum(1)], 1)
    short = (h < MIN_STEP)[..., None]
    safe = torch.where(short, torch.ones_like(h)[..., None], h[..., None])
    if first_order:
        return _semi_implicit(frame.at(samples, ends), short, safe)
    middle = frame.at(samples, ends[:, :-1] + 0.5 * h)
    begin, end = frame.at(samples, ends[:, :-1], True), frame.at(samples, ends[:, 1:])
    stages = _runge_kutta(begin, middle, end, h[..., None], short, safe)
    return FrameState(*(torch.stack(y, 2).flatten(1, 2) for y in zip(*stages, strict=True)))


def _semi_implicit(at_ends: FrameState, short: Tensor, h: Tensor) -> FrameState:
    """Motion in each step, from that at the ends of all; that of the recording where a step is short."""
    x, q, v, w, a, s = at_ends
    turn = rotation.logarithm(rotation.multiply(q[:, 1:], rotation.conjugate(q[:, :-1])))
    during = [torch.where(short, rate[:, :-1], change / h) for rate, change in ((v, x.diff(dim=1)), (w, turn))]
    before = [torch.cat([rate[:, :1], y[:, :-1]], 1) for rate, y in zip((v, w), during, strict=True)]
    pushes = [
        torch.where(short, bend[:, :-1], (y - old) / h) for bend, y, old in zip((a, s), during, before, strict=True)
    ]
    return FrameState(x[:, :-1], q[:, :-1], before[0], before[1], pushes[0], pushes[1])


def _runge_kutta(
    begin: FrameState, middle: FrameState, end: FrameState, h: Tensor, short: Tensor, safe: Tensor
) -> list[FrameState]:
    """Motion in the four stages of each step, see the head of this file; `safe` is h where it is not short."""
    x, q, v, w, a, s = begin
    half = 0.5 * h
    push = torch.where(short, middle.a, 3 * (end.x - x - h * v) / safe**2 - 0.5 * a)
    last_push = torch.where(short, end.a, 6 * (end.v - v) / safe - a - 4 * push)
    ahead = _orientations(q, w, s, middle.s, h)[-1]
    off = rotation.logarithm(rotation.multiply(end.q, rotation.conjugate(ahead)))
    turn = torch.where(short, middle.s, middle.s + 3 * off / safe**2)
    last_turn = torch.where(short, end.s, 6 * (end.w - w) / safe - s - 4 * turn)
    q2, q3, q4, _ = _orientations(q, w, s, turn, h)
    v2, v3, v4 = v + half * a, v + half * push, v + h * push
    w2, w3, w4 = w + half * s, w + half * turn, w + h * turn
    return [
        begin,
        FrameState(x + half * v, q2, v2, w2, push, turn),
        FrameState(x + half * v2, q3, v3, w3, push, turn),
        FrameState(x + h * v3, q4, v4, w4, last_push, last_turn),
    ]


def _orientations(q: Tensor, w: Tensor, s: Tensor, turn: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Orientations of the last three stages and after the step, from q and ω, and ω' of the first and the middle stages."""
    rate = lambda w, q: 0.5 * rotation.multiply(torch.cat([w, torch.zeros_like(w[..., :1])], -1), q)
    unit = lambda raw: raw / torch.linalg.vector_norm(raw, dim=-1, keepdim=True)
    half = 0.5 * h
    k1 = rate(w, q)
    q2 = unit(q + half * k1)
    k2 = rate(w + half * s, q2)
    q3 = unit(q + half * k2)
    k3 = rate(w + half * turn, q3)
    q4 = unit(q + h * k3)
    k4 = rate(w + h * turn, q4)
    return q2, q3, q4, unit(q + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))


@dataclass(frozen=True, eq=False)
class RecordedBodies:
    """A rollout of rigid bodies with frames that follow recordings.

    Its inputs are those of `program`, with the samples of each frame (worlds, times, 7) in place of its motion in each step.

    Args:
        program: `Bodies` with `recorded`.
        frames: The frames.
        first_order: Whether its steps are semi-implicit.
    """

    program: Bodies
    frames: Sequence[RecordedFrame]
    first_order: bool

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
        parts = [at_steps(f, y.double(), h, self.first_order) for f, y in zip(self.frames, samples, strict=True)]
        motion = [torch.stack(y, 2).to(inputs[0].dtype) for y in zip(*parts, strict=True)]
        return [*head, *motion, step]
