"""Vertices that follow a recording: places and velocities at any time, from positions or poses at samples.

Between the samples i and i + 1, at s = (t - t_i)/d_i with d_i = t_{i+1} - t_i, positions are the cubic

    p(t) = (1 + 2 s)(1 - s)² p_i + s (1 - s)² d_i m_i + s² (3 - 2 s) p_{i+1} - s² (1 - s) d_i m_{i+1}

with slopes m of the parabola through a sample and its two neighbors, and at both ends that through the last three (Bessel;
de Boor, A Practical Guide to Splines, ch. IV). The error is of third order in d, and p is a straight line of two samples.

Vertices that follow poses (c, q) are those of a rigid frame, in which they have the places r of the start. The quaternion is the
same cubic, over its length:

    x = c + R(q) r,   ω = 2 n' n*,   n = q/|q|,   n' = (q' - n (n·q'))/|q|,   v = c' + ω × R r

Explicit steps have p and p' where forces are taken, and at the end of a step. Implicit ones have the velocity
(p(t + h) - p(t))/h in all of a step, or p'(t) of a step shorter than 0.1 μs, so that positions after each step are those of the
table.

The frame point of a rod's edge whose ends both move so turns with the edge from t₀ to t by the smallest angle:

    d = d₀ - (d₀·t)/(1 + t₀·t) (t₀ + t)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.numerics import rotation
from gradsim.physics.soft.implicit import ImplicitParticles
from gradsim.physics.soft.rollout import Particles
from gradsim.physics.soft.rollout_buffers import drive_instants

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
    """Positions and velocities (worlds, n, ...) at times (worlds, n) [s]; before the first sample and after the last they stand still.

    Args:
        table: Positions at the samples (worlds, times, ...) [m].
        times: Times of the samples (times,) [s].
        at: Times (worlds, n) [s].
    """
    m = slopes(table, times)
    outside = (at < times[0]) | (at > times[-1])
    at = torch.where(outside, at.detach().clamp(times[0], times[-1]), at)
    i = (torch.searchsorted(times, at.detach().contiguous(), right=True) - 1).clamp(0, len(times) - 2)
    wide = lambda y: y.reshape(*y.shape, *[1] * (table.ndim - 2))
    pick = lambda y, k: torch.gather(y, 1, wide(k).expand(*k.shape, *y.shape[2:]))
    d = wide(times[i + 1] - times[i])
    s = wide(at - times[i]) / d
    p0, p1, m0, m1 = pick(table, i), pick(table, i + 1), d * pick(m, i), d * pick(m, i + 1)
    r = 1 - s
    p = (1 + 2 * s) * r * r * p0 + s * r * r * m0 + s * s * (3 - 2 * s) * p1 - s * s * r * m1
    v = (6 * s * r * (p1 - p0) + r * (1 - 3 * s) * m0 + s * (3 * s - 2) * m1) / d
    return p, torch.where(wide(outside), 0.0, v)


class Recording(Protocol):
    """A table that some vertices follow.

    Attributes:
        vertices: These vertices.
    """

    vertices: Sequence[int]

    def at(self, table: Tensor, delay: Tensor, start: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Places and velocities (worlds, n, vertices, 3).

        Args:
            table: The table (worlds, times, ...).
            delay: Time of its first sample (worlds,) [s].
            start: Vertices at the start (worlds, vertices, 3) [m].
            at: Times (worlds, n) [s].
        """
        ...


@dataclass(frozen=True, eq=False)
class RecordedPositions:
    """Positions at samples, a table (worlds, times, vertices, 3) [m].

    Args:
        times: Times of the samples (times,) [s].
        vertices: Vertices that follow it.
    """

    times: Tensor
    vertices: Sequence[int]

    def at(self, table: Tensor, delay: Tensor, start: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        return follow(table, self.times.to(table), at - delay[:, None])


@dataclass(frozen=True, eq=False)
class RecordedPoses:
    """Poses of a rigid frame at samples, a table (worlds, times, 7) of positions [m] and quaternions (x, y, z, w).

    Args:
        times: Times of the samples (times,) [s].
        vertices: Vertices that move with the frame.
    """

    times: Tensor
    vertices: Sequence[int]

    def at(self, table: Tensor, delay: Tensor, start: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        instants = torch.cat([at.new_zeros(len(at), 1), at], 1) - delay[:, None]  # the start, then the others
        place, rate = follow(table, self.times.to(table), instants)
        length = torch.linalg.vector_norm(place[..., 3:], dim=-1, keepdim=True)
        q = place[..., 3:] / length
        change = (rate[..., 3:] - q * (q * rate[..., 3:]).sum(-1, keepdim=True)) / length
        spin = 2 * rotation.multiply(change, rotation.conjugate(q))[..., :3]
        arm = rotation.rotate(rotation.conjugate(q[:, :1]), start - place[:, :1, :3])
        arm = rotation.rotate(q[:, 1:, None], arm[:, None])
        return place[:, 1:, None, :3] + arm, rate[:, 1:, None, :3] + rotation.cross(spin[:, 1:, None], arm)


@dataclass(frozen=True, eq=False)
class Drive:
    """All vertices of a body that follow recordings.

    Args:
        recordings: The recordings.
        frames: Frame points that turn with an edge, as (point, first end, second end); both ends are driven.
    """

    recordings: Sequence[Recording]
    frames: Sequence[tuple[int, int, int]] = ()

    @property
    def vertices(self) -> list[int]:
        """Driven vertices, then frame points."""
        return [k for one in self.recordings for k in one.vertices] + [point for point, *_ in self.frames]

    def at(self, tables: Sequence[Tensor], x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        """Places and velocities (worlds, n, driven, 3) of these.

        Args:
            tables: The table and the delay of each recording.
            x: All vertices at the start (worlds, vertices, 3) [m].
            at: Times (worlds, n) [s].
        """
        pairs = [
            one.at(table, delay, x[:, list(one.vertices)], at)
            for one, table, delay in zip(self.recordings, tables[::2], tables[1::2], strict=True)
        ]
        p, v = (torch.cat(y, 2) for y in zip(*pairs, strict=True))
        column = {vertex: k for k, vertex in enumerate(self.vertices)}
        of = lambda vertex: (p[:, :, column[vertex]], v[:, :, column[vertex]])
        turned = [_turned(x[:, k], x[:, a], x[:, b], of(a), of(b)) for k, a, b in self.frames]
        return tuple(torch.cat([y, *(part[k][:, :, None] for part in turned)], 2) for k, y in enumerate((p, v)))  # pyright: ignore[reportReturnType] -- two

    def start(self, tables: Sequence[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        """Places and velocities (worlds, driven, 3) at time 0; arguments as for `at`."""
        p, v = self.at(tables, x, x.new_zeros(len(x), 1))
        return p[:, 0], v[:, 0]


@dataclass(frozen=True, eq=False)
class DrivenParticles:
    """A rollout in which pinned vertices follow recordings.

    Its inputs are those of `program`, with the table (worlds, times, ...) and the delay (worlds,) [s] of each recording in place
    of the drive.

    Args:
        program: `ImplicitParticles` with `driven`, or `Particles` with the `driven_vertices` of `drive`.
        drive: The recordings.
    """

    program: ImplicitParticles | Particles
    drive: Drive

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.program.run(*self._with_drive(inputs))

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return self.program.shapes(inputs)

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return self.program.forward([x.contiguous() for x in self._with_drive(inputs)])

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world (see `Particles.tangent`)."""
        moving = {str(k): t for k, t in enumerate(tangents) if t is not None}
        inputs_along = lambda some: self._with_drive([some.get(str(k), x) for k, x in enumerate(inputs)])
        values, slope = derivative(inputs_along, {key: inputs[int(key)] for key in moving}, moving)
        return self.program.tangent([x.contiguous() for x in values], slope)

    def _with_drive(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        count, step = 2 * len(self.drive.recordings), inputs[-1]
        head, tables = inputs[: -1 - count], inputs[-1 - count : -1]
        program, x = self.program, inputs[0]
        if not step.shape[1]:
            step = x.new_full((len(x), program.frames - 1), program.dt)
        if isinstance(program, Particles):
            within = x.new_tensor(drive_instants(program.integrator, program.substeps))
            begin = torch.nn.functional.pad((program.substeps * step).cumsum(1), (1, 0))[:, :-1]
            at = (begin[..., None] + step[..., None] * within).flatten(1)
            return [*head, *self.drive.at(tables, x, at), step]
        h = step.repeat_interleave(program.substeps, 1)
        p, v = self.drive.at(tables, x, torch.nn.functional.pad(h.cumsum(1), (1, 0)))
        short = (h < MIN_STEP)[..., None, None]
        mean = torch.where(short, v[:, :-1], p.diff(dim=1) / torch.where(short, 1.0, h[..., None, None]))
        column = {vertex: k for k, vertex in enumerate(self.drive.vertices)}
        still = torch.zeros_like(mean[:, :, 0])
        velocities = [mean[:, :, column[k]] if k in column else still for k in program.pinned]
        return [*head, torch.stack(velocities, 2), step]


def _turned(point: Tensor, start: Tensor, end: Tensor, first, second) -> tuple[Tensor, Tensor]:
    """Positions and velocities (worlds, n, 3) of a frame point from its start and those of an edge."""
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


__all__ = ["Drive", "DrivenParticles", "RecordedPoses", "RecordedPositions", "Recording", "follow", "slopes"]
