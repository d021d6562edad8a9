"""The surface that physics hands to a renderer."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


class Pattern(NamedTuple):
    """A picture and where it lies, see `Look`."""

    texture: Tensor
    uv: Tensor
    faces: Tensor  # rows of uv


@dataclass(frozen=True, eq=False)
class Look:
    """What a piece of a surface looks like. Colours are RGB, 1 is white.

    Where it has a texture, that is its own colour (albedo); else `vertex_colours`, else `colour`.

    Args:
        colour: In [0, 1].
        vertex_colours: (n, 3) by vertex.
        uv: Places in the texture (k, 2): u to the right, v up; (0, 0) is the lower left corner, (1, 1) the upper right;
            beyond them the picture begins again.
        uv_faces: Rows (m, 3) of `uv` at the corners of each face; a vertex may have several, at seams.
        texture: Picture (3, h, w) in [0, 1], row 0 on top.
        smooth: Whether normals are those of the vertices, interpolated, or those of the faces.
        ambient: Part of the ambient light that it reflects.
        diffuse: Part of the other light that it scatters evenly.
        specular: Strength of highlights, in the colour of the light.
        shininess: How sharp they are: the exponent of Phong's law.

    Raises:
        ValueError: If it has a texture and `uv`, but no `uv_faces`.
    """

    colour: tuple[float, float, float] = (0.0, 0.0, 0.0)
    vertex_colours: Tensor | None = None
    uv: Tensor | None = None
    uv_faces: Tensor | None = None
    texture: Tensor | None = None
    smooth: bool = False
    ambient: float = 1.0
    diffuse: float = 1.0
    specular: float = 0.0
    shininess: float = 32.0

    def __post_init__(self):
        if self.texture is not None and self.uv is not None and self.uv_faces is None:
            raise ValueError(
                "a look has a texture and `uv`, but no `uv_faces`; give the rows of `uv` at the corners of each face: the "
                "faces themselves, where each vertex has one."
            )

    @property
    def pattern(self) -> Pattern | None:
        """Its texture and where that lies; None without one, or without uv."""
        if self.texture is None or self.uv is None or self.uv_faces is None:
            return None
        return Pattern(self.texture, self.uv, self.uv_faces)


@dataclass(frozen=True, eq=False)
class Part:
    """One body's piece of a surface.

    Args:
        name: The body's name.
        vertices: Its range among the surface's vertices.
        faces: Triangles (m, 3), outward counter-clockwise; indices count from the part's first vertex.
        convex: Whether it is one convex body.
        look: Its colour, texture and material.
    """

    name: str
    vertices: slice
    faces: Tensor
    convex: bool
    look: Look

    @property
    def colour(self) -> tuple[float, float, float]:
        """RGB in [0, 1]."""
        return self.look.colour


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
