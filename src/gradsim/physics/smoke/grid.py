"""A staggered grid: scalars at centres of cells, each component of a velocity at the faces across its own axis.

On it, divergence and gradient are each other's negative adjoint, so that one symmetric Laplacian belongs to both and a
projection with it leaves no divergence but rounding (Harlow & Welch 1965):

    (D u)_c = Σ_a (u_a[c + 1] − u_a[c])/h_a,    (G p)_a[c] = (p[c] − p[c − 1])/h_a,    G = −Dᵀ,    L = −D M G

Component a of cell c lives at the lower face of c, so that all arrays have the shape of the cells; an axis that ends in
walls has them at the lower face of its first cells (stored, always 0) and the upper face of its last (not stored). M is
0 at faces that nothing passes, walls and those of solid cells, and 1 elsewhere.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.validation import counts, lengths

BOUNDARIES = ("periodic", "walled")


class Grid:
    """Cells of a box.

    Args:
        shape: Cells along each axis, two or three of at least 4.
        spacing: Edge of a cell [m], one for all axes or one for each.
        boundary: "periodic" or "walled", one for all axes or one for each.
        obstacles: Which cells are solid, bool of that shape; None: none.

    Raises:
        InputError: If one of them is not that, or no cell is left for the fluid.
    """

    def __init__(
        self,
        shape: Sequence[int],
        spacing: float | Sequence[float],
        boundary: str | Sequence[str] = "periodic",
        obstacles: Tensor | None = None,
    ):
        if not isinstance(shape, Sequence) or len(shape) not in (2, 3):
            raise InputError(f"shape: got {shape}; expected cells along 2 or 3 axes, as (128, 128).")
        self.shape = counts("shape", shape, len(shape), 4)
        self.dimensions = len(self.shape)
        spacings = [spacing] * self.dimensions if isinstance(spacing, int | float) else spacing
        self.spacing = tuple(lengths("spacing", spacings, self.dimensions).tolist())
        kinds = [boundary] * self.dimensions if isinstance(boundary, str) else list(boundary)
        if len(kinds) != self.dimensions or any(kind not in BOUNDARIES for kind in kinds):
            raise InputError(f"boundary: got {boundary!r}; expected periodic or walled, one for all axes or each.")
        self.walled = tuple(kind == "walled" for kind in kinds)
        self.solid = None if obstacles is None else self._checked(obstacles)

    def _checked(self, obstacles: Tensor) -> Tensor | None:
        if not isinstance(obstacles, Tensor) or obstacles.dtype != torch.bool or obstacles.shape != self.shape:
            got = f"{obstacles.dtype} {tuple(obstacles.shape)}" if isinstance(obstacles, Tensor) else type(obstacles)
            raise InputError(f"obstacles: got {got}; expected a bool tensor {self.shape}, True in solid cells.")
        if obstacles.all():
            raise InputError("obstacles: every cell is solid; leave some for the smoke.")
        return obstacles.detach().cpu().clone() if obstacles.any() else None

    @property
    def axes(self) -> range:
        """Axes of arrays that end in `shape`, from the end."""
        return range(-self.dimensions, 0)

    def passable(self) -> Tensor | None:
        """M (dimensions, *shape), bool; None if all faces of a periodic box are open."""
        if self.solid is None and not any(self.walled):
            return None
        passable = torch.ones(self.dimensions, *self.shape, dtype=torch.bool)
        for a, walled in enumerate(self.walled):
            if walled:
                passable[a].select(a, 0).fill_(False)
            if self.solid is not None:
                passable[a] &= ~(self.solid | self.solid.roll(1, a))
        return passable

    def divergence(self, velocity: Tensor) -> Tensor:
        """D u (..., *shape) [1/s] of velocities (..., dimensions, *shape) that are 0 on walls."""
        parts = velocity.unbind(-self.dimensions - 1)
        total = None
        for a, h, u in zip(self.axes, self.spacing, parts, strict=True):
            part = (u.roll(-1, a) - u) / h
            total = part if total is None else total + part
        assert total is not None
        return total

    def gradient(self, p: Tensor) -> Tensor:
        """G p (..., dimensions, *shape), through walls and obstacles too."""
        parts = [(p - p.roll(1, a)) / h for a, h in zip(self.axes, self.spacing, strict=True)]
        return torch.stack(parts, -self.dimensions - 1)

    def at_faces(self, q: Tensor) -> Tensor:
        """Means (..., dimensions, *shape) of the two cells at each face."""
        return torch.stack([0.5 * (q + q.roll(1, a)) for a in self.axes], -self.dimensions - 1)
