"""Vertices that follow a table: their velocities in each time step, from positions at samples.

Between the samples i and i + 1, at s = (t - t_i)/d_i with d_i = t_{i+1} - t_i, positions are the cubic

    p(t) = (1 + 2 s)(1 - s)² p_i + s (1 - s)² d_i m_i + s² (3 - 2 s) p_{i+1} - s² (1 - s) d_i m_{i+1}

with slopes m of the parabola through a sample and its two neighbors, and at both ends that through the last three (Bessel;
de Boor, A Practical Guide to Splines, ch. IV). The error is of third order in d, and p is a straight line of two samples.
The velocity in a step is (p(t + h) - p(t))/h, so that positions after each step are those of the table, or p'(t) of a
step shorter than 0.1 μs.

The frame point of a rod's edge whose ends both move so turns with the edge from t₀ to t by the smallest angle:

    d = d₀ - (d₀·t)/(1 + t₀·t) (t₀ + t)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.physics.soft.implicit import ImplicitParticles

MIN_STEP = 1e-7  # [s], as in `soft/kernels.py`


def slopes(table: Tensor, times: Tensor) -> Tensor:
    """dp/dt at the samples (worlds, times, ...) of a table of that shape at times (times,) [s]."""
    d = times.diff().reshape(-1, *[1] * (table.ndim - 2))
    secant = table.diff(dim=1) / d
    if len(times) == 2:
        return secant.expand(-1, 2, *secant.shape[2:])
    inner = (d[1:] * secant[:, :-1] + d[:-1] * secant[:, 1:]) / (d[:-1] + d[1:])
    first, last = 2 * secant[:, :1] - inner[:, :1], 2 * secant[:, -1:] - inner[:, -1:]
    return torch.cat([first, inner, last], 1)


def follow(table: Tensor, times: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Positions and velocities (worlds, n, ...) at times (worlds, n) [s]; after the last sample they stand still.

    Args:
        table: Positions at the samples (worlds, times, ...) [m].
        times: Times of the samples (times,) [s].
        at: Times (worlds, n) [s].
    """
    m = slopes(table, times)
    late = at > times[-1]
    at = torch.where(late, times[-1], at)
    i = (torch.searchsorted(times, at.detach().contiguous(), right=True) - 1).clamp(0, len(times) - 2)
    wide = lambda y: y.reshape(*y.shape, *[1] * (table.ndim - 2))
    pick = lambda y, k: torch.gather(y, 1, wide(k).expand(*k.shape, *y.shape[2:]))
    d = wide(times[i + 1] - times[i])
    s = wide(at - times[i]) / d
    p0, p1, m0, m1 = pick(table, i), pick(table, i + 1), d * pick(m, i), d * pick(m, i + 1)
    r = 1 - s
    p = (1 + 2 * s) * r * r * p0 + s * r * r * m0 + s * s * (3 - 2 * s) * p1 - s * s * r * m1
    v = (6 * s * r * (p1 - p0) + r * (1 - 3 * s) * m0 + s * (3 * s - 2) * m1) / d
    return p, torch.where(wide(late), 0.0, v)


@dataclass(frozen=True, eq=False)
class DrivenParticles:
    """A rollout in which pinned vertices follow a table.

    Its inputs are those of `program`, with the table (worlds, times, driven, 3) [m] in place of the drive.

    Args:
        program: `ImplicitParticles` with `driven`.
        times: Times of the samples (times,) [s].
        driven: Vertices that follow the table.
        frames: Frame points that turn with an edge, as (point, first end, second end); both ends are driven.
    """

    program: ImplicitParticles
    times: Tensor
    driven: Sequence[int]
    frames: Sequence[tuple[int, int, int]] = ()

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.program.run(*self._with_drive(inputs))

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return self.program.forward([x.contiguous() for x in self._with_drive(inputs)])

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world (see `Particles.tangent`)."""
        moving = {str(k): t for k, t in enumerate(tangents) if t is not None}
        inputs_along = lambda some: self._with_drive([some.get(str(k), x) for k, x in enumerate(inputs)])
        values, slope = derivative(inputs_along, {key: inputs[int(key)] for key in moving}, moving)
        return self.program.tangent(values, slope)

    def _with_drive(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        *head, table, step = inputs
        program = self.program
        if not step.shape[1]:
            step = table.new_full((len(table), program.frames - 1), program.dt)
        h = step.repeat_interleave(program.substeps, 1)
        at = torch.cat([h.new_zeros(len(h), 1), h.cumsum(1)], 1)
        p, v = follow(table, self.times.to(table), at)
        parts = {vertex: (p[:, :, k], v[:, :, k]) for k, vertex in enumerate(self.driven)}
        x = head[0]
        for point, first, second in self.frames:
            parts[point] = _turned(x[:, point], x[:, first], x[:, second], parts[first], parts[second])
        short = (h < MIN_STEP)[..., None]
        divisor = torch.where(short[..., 0], 1.0, h)[..., None]
        still = torch.zeros_like(p[:, 1:, 0])
        drive = []
        for vertex in program.pinned:
            if vertex not in parts:
                drive.append(still)
                continue
            position, velocity = parts[vertex]
            drive.append(torch.where(short, velocity[:, :-1], position.diff(dim=1) / divisor))
        return [*head, torch.stack(drive, 2), step]


def _turned(point: Tensor, start: Tensor, end: Tensor, first, second) -> tuple[Tensor, Tensor]:
    """Positions and velocities (worlds, steps + 1, 3) of a frame point from its start and those of an edge."""
    unit = lambda e: e / torch.linalg.vector_norm(e, dim=-1, keepdim=True)
    (p0, v0), (p1, v1) = first, second
    old, e = unit(end - start)[:, None], p1 - p0
    t = unit(e)
    d = (point - (start + end) / 2)[:, None]
    d = d - (d * old).sum(-1, keepdim=True) * old
    share = (d * t).sum(-1, keepdim=True) / (1 + (old * t).sum(-1, keepdim=True))
    turned = d - share * (old + t)
    rate = v1 - v0
    spin = torch.linalg.cross(e, rate) / e.square().sum(-1, keepdim=True)  # of the edge; good for a step of no length
    return (p0 + p1) / 2 + turned, (v0 + v1) / 2 + torch.linalg.cross(spin, turned)


__all__ = ["DrivenParticles", "follow", "slopes"]
