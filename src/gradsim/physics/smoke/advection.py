"""Carry smoke, or a velocity, along a velocity: programs around the kernels of `smoke/kernels.py`.

    bilinear      q' = A q                                          (Stam 1999; Courant, Isaacson & Rees 1952)
    maccormack    q' = clamp(A q + ½ (q − A₋ A q))                  (Selle et al. 2008)

A takes values from where particles were, by means of the nodes around there; A₋ is the same with time reversed. The first
blurs by up to h²/8 a step along each axis and keeps to the range of its values; so does the second, which is of second
order, since clamp() holds it within the nodes that A takes means of.
"""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation
from gradsim.physics.smoke.grid import Grid

if TYPE_CHECKING:
    from gradsim.physics.smoke import kernels
else:
    kernels = "gradsim.physics.smoke.kernels"

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
        self._program = operation((MacCormack if scheme == "maccormack" else Bilinear)(grid, dt, like))

    def __call__(self, q: Tensor, velocity: Tensor) -> Tensor:
        return self._program(q, velocity)[0]


class _Moving:
    """Base of both programs: the grid as kernels see it, and the operator A."""

    def __init__(self, grid: Grid, dt: float, like: Tensor):
        self.grid, self.code = grid, _code(like.dtype, grid.walled)
        box = self.code.Box()
        strides = [1]
        for n in reversed(grid.shape[1:]):
            strides.insert(0, n * strides[0])
        box.sizes, box.strides = self.code.Sizes(*grid.shape), self.code.Sizes(*strides)
        box.walls, box.count = self.code.Sizes(*map(int, grid.walled)), grid.shape[0] * strides[0]
        box.run = grid.shape[-1] if like.device.type == "cpu" else 1
        self.box, self.steps = box, {sign: self.code.Point(*(sign * dt / h for h in grid.spacing)) for sign in (1, -1)}
        self.fluid = like.new_ones(1) if grid.solid is None else (~grid.solid).to(like).flatten()

    def flat(self, q: Tensor):
        """Flattened, for cheaper indexing."""
        return array(self.code.Scalar, q.view(-1))

    def arguments(self, q: Tensor, velocity: Tensor, sign: int = 1) -> list:
        """Arguments of the kernels of A, or of A₋ for a sign of -1."""
        components = self.grid.dimensions if q.dim() == self.grid.dimensions + 2 else 1
        masked = int(self.grid.solid is not None and components == 1)
        fluid = array(self.code.Scalar, self.fluid)
        return [self.flat(q), self.flat(velocity), fluid, masked, components, self.box, self.steps[sign]]

    def advect(self, q: Tensor, velocity: Tensor, extremes: Sequence[Tensor]) -> Tensor:
        """Compute A q; `extremes`, unless empty, get the nodes with the smallest and the largest interpolated value."""
        advected = torch.empty_like(q)
        args = [*self.arguments(q, velocity), self.flat(advected), *(array(wp.int32, x) for x in extremes)]
        self.launch(self.code.advect, args, q)
        return advected

    def launch(self, kernel: wp.Kernel, args: list, q: Tensor) -> None:
        """Launch a kernel over the lines of q."""
        replay(kernel, q.numel() // self.box.run, args, str(q.device))


class Bilinear(_Moving):
    """A program from values and a velocity to A q."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        none = torch.empty(0, dtype=torch.int32, device=inputs[0].device)
        return [self.advect(inputs[0], inputs[1], (none, none))]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        q, velocity = inputs
        gradients = [torch.zeros_like(x) for x in inputs]
        args = [*self.arguments(q, velocity), *map(self.flat, (adjoints[0], *gradients))]
        self.launch(self.code.advect_adjoint, args, q)
        return list(gradients)


class MacCormack(_Moving):
    """A program from values and a velocity to the corrected values; then A q, and where values were clamped to."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)] * 3

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        q, velocity = inputs
        least, largest = torch.empty(2, q.numel(), dtype=torch.int32, device=q.device)
        advected = self.advect(q, velocity, (least, largest))
        corrected, source = torch.empty_like(q), torch.empty_like(q)
        limits = [self.flat(advected), array(wp.int32, least), array(wp.int32, largest)]
        args = [*self.arguments(q, velocity, -1), *limits, self.flat(corrected), self.flat(source)]
        self.launch(self.code.correct, args, q)
        return [corrected, advected, source]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (q, velocity), (_, advected, source) = inputs, outputs
        by_q, by_velocity = torch.zeros_like(q), torch.zeros_like(velocity)
        by_moved, by_returned = torch.empty_like(q), torch.empty_like(q)
        args = [self.flat(source), self.flat(adjoints[0]), self.box, *map(self.flat, (by_moved, by_returned, by_q))]
        self.launch(self.code.correct_adjoint, args, q)
        back = [*self.arguments(advected, velocity, -1), *map(self.flat, (by_returned, by_moved, by_velocity))]
        self.launch(self.code.advect_adjoint, back, q)
        forward = [*self.arguments(q, velocity), *map(self.flat, (by_moved, by_q, by_velocity))]
        self.launch(self.code.advect_adjoint, forward, q)
        return [by_q, by_velocity]


@cache
def _code(dtype: torch.dtype, walled: tuple[bool, ...]) -> ModuleType:
    return specialize(kernels, lane_of(dtype), dimensions=len(walled), walled=walled)
