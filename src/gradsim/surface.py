"""The surface that physics hands to a renderer."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Part:
    """One body's piece of a surface.

    Args:
        name: The body's name.
        vertices: Its range among the surface's vertices.
        faces: Triangles (m, 3), outward counter-clockwise; indices count from the part's first vertex.
        convex: Whether it is one convex body.
        colour: RGB in [0, 1].
    """

    name: str
    vertices: slice
    faces: Tensor
    convex: bool
    colour: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles that move.

    Args:
        vertices: (worlds, frames, n, 3) [m], all parts one after another.
        parts: What they belong to.
    """

    vertices: Tensor
    parts: tuple[Part, ...]

    @cached_property
    def faces(self) -> Tensor:
        """Triangles (m, 3) of all parts, by the surface's vertices."""
        return torch.cat([p.faces + p.vertices.start for p in self.parts])

    @property
    def convex(self) -> bool:
        """Whether it is one convex body."""
        return len(self.parts) == 1 and self.parts[0].convex
