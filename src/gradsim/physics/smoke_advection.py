"""Carry smoke, or a velocity, along a velocity: programs around the kernels of `smoke_lanes.py`.

    bilinear      q' = A q                                          (Stam 1999; Courant, Isaacson & Rees 1952)
    maccormack    q' = clamp(A q + ½ (q − A₋ A q))                  (Selle et al. 2008)

A takes values from where particles were, by means of the nodes around there; A₋ is the same with time reversed. The first
blurs by up to h²/8 a step along each axis and keeps to the range of its values; so does the second, which is of second
order, since clamp() holds it within the nodes that A takes means of.
"""

from collections.abc import Sequence
from functools import cache
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation
from gradsim.physics.smoke_grid import Grid

SCHEMES = ("bilinear", "maccormack")


class Advection:
    """Values (worlds, *shape) at centres, or velocities (worlds, dimensions, *shape), one step later.

    Args:
        grid: Of both.
        dt: Step [s].
        scheme: One of `SCHEMES`.
        like: Tensor of the dtype and device.
    """

    def __init__(self, grid: Grid, dt: float, scheme: str, like: Tensor):
        self.scheme = scheme
        self._there = operation(Advect(grid, dt, like))
        self._back = operation(Advect(grid, -dt, like))
        self._limit = operation(Limit(grid, dt, like))

    def __call__(self, q: Tensor, velocity: Tensor) -> Tensor:
        (moved,) = self._there(q, velocity)
        if self.scheme == "bilinear":
            return moved
        (returned,) = self._back(moved, velocity)
        return self._limit(q, velocity, moved + 0.5 * (q - returned))[0]


class _Moving:
    """What both programs share: the grid as kernels see it."""

    def __init__(self, grid: Grid, dt: float, like: Tensor):
        self.grid, self.code = grid, _code(like.dtype, grid.walled)
        box = self.code.Box()
        strides = [1]
        for n in reversed(grid.shape[1:]):
            strides.insert(0, n * strides[0])
        box.sizes, box.strides = self.code.Sizes(*grid.shape), self.code.Sizes(*strides)
        box.count = grid.shape[0] * strides[0]
        box.run = grid.shape[-1] if like.device.type == "cpu" else 1
        self.box, self.tau = box, self.code.Point(*(dt / h for h in grid.spacing))
        self.fluid = like.new_ones(1) if grid.solid is None else (~grid.solid).to(like).flatten()

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)]

    def flat(self, q: Tensor):
        """As one row, in which indices cost less."""
        return array(self.code.Scalar, q.view(-1))

    def components(self, q: Tensor) -> int:
        """Rows of one world."""
        return self.grid.dimensions if q.dim() == self.grid.dimensions + 2 else 1

    def given(self, q: Tensor, velocity: Tensor) -> list:
        components = self.components(q)
        masked = int(self.grid.solid is not None and components == 1)
        fluid = array(self.code.Scalar, self.fluid)
        return [self.flat(q), self.flat(velocity), fluid, masked, components, self.box, self.tau]


class Advect(_Moving):
    """A program from values and a velocity to A q."""

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        moved = torch.empty_like(inputs[0])
        replay(
            self.code.advect, moved.numel() // self.box.run, [*self.given(*inputs), self.flat(moved)], str(moved.device)
        )
        return [moved]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        found = [torch.zeros_like(x) for x in inputs]
        args = [*self.given(*inputs), *map(self.flat, (outputs[0], adjoints[0], *found))]
        replay(self.code.advect_adjoint, outputs[0].numel() // self.box.run, args, str(found[0].device))
        return list(found)


class Limit(_Moving):
    """A program from values, a velocity and values to be limited to these, within the nodes that A takes means of."""

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [self._limited(inputs)[0]]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        source = self._limited(inputs)[1]
        by_q, by_corrected = torch.zeros_like(inputs[0]), torch.zeros_like(inputs[2])
        args = [array(wp.int32, source), self.flat(adjoints[0]), self.box, *map(self.flat, (by_q, by_corrected))]
        replay(self.code.limit_adjoint, len(source), args, str(source.device))
        return [by_q, None, by_corrected]

    def _limited(self, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        q, velocity, corrected = inputs
        limited = torch.empty_like(corrected)
        source = torch.empty(q.numel(), dtype=torch.int32, device=q.device)
        given = [self.flat(q), self.flat(velocity), self.flat(corrected), self.components(q), self.box, self.tau]
        args = [*given, self.flat(limited), array(wp.int32, source)]
        replay(self.code.limit, q.numel() // self.box.run, args, str(q.device))
        return limited, source


@cache
def _code(dtype: torch.dtype, walled: tuple[bool, ...]) -> ModuleType:
    return specialise("gradsim.physics.smoke_lanes", lane_of(dtype), dimensions=len(walled), walled=walled)
