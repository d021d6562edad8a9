"""The surface that physics hands to a renderer, or that is made of vertices and faces: `Surface.of`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gradsim.errors import InputError

WAY = ", as `Surface.of(vertices, faces)` makes of (n, 3)"


def _check(name: str, values: Any, shape: tuple[int | str, ...], whole: bool, way: str = "") -> None:
    expected = f"({', '.join(map(str, shape))})"
    if not isinstance(values, Tensor):
        raise InputError(f"{name}: got {type(values).__name__}; expected a tensor {expected}: torch.tensor(...).")
    fits = values.ndim == len(shape) and all(
        isinstance(a, str) or a == b for a, b in zip(shape, values.shape, strict=True)
    )
    if not fits or (shape[-1] == "w" and not values.numel()):
        raise InputError(f"{name}: got shape {tuple(values.shape)}; expected {expected}{way}.")
    if whole and (values.is_floating_point() or values.dtype == torch.bool):
        raise InputError(f"{name}: got {values.dtype}; expected whole numbers, such as torch.int64.")
    if not whole and values.dtype not in (torch.float32, torch.float64):
        way = "; divide by 255" if values.dtype == torch.uint8 else ""
        raise InputError(f"{name}: got {values.dtype}; expected torch.float32 or torch.float64{way}.")


def _tensor(values: Tensor | ArrayLike) -> Tensor:
    return values if isinstance(values, Tensor) else torch.tensor(values)


def _check_range(name: str, indices: Tensor, count: int, of: str) -> None:
    if not indices.numel():
        return
    low, high = (int(x) for x in indices.aminmax())
    if low < 0 or high >= count:
        raise InputError(f"{name} name {low} to {high}; there are {count} {of}, counted from 0.")


def _check_colour(colour: Any) -> None:
    if isinstance(colour, Tensor):
        _check("look.colour", colour, (3,), whole=False)
        return
    if len(colour) != 3 or not all(isinstance(c, Real) and 0 <= float(c) <= 1 for c in colour):
        raise InputError(f"look.colour is {colour!r}; expected red, green and blue in [0, 1], or a tensor of them.")


class Pattern(NamedTuple):
    """A picture and where it lies, see `Appearance`."""

    texture: Tensor
    uv: Tensor
    faces: Tensor  # rows of uv


@dataclass(frozen=True, eq=False)
class Appearance:
    """What a piece of a surface looks like. Colours are RGB, 1 is white.

    Where it has a texture, that is its own colour (albedo); else `vertex_colours`, else `colour`. Tensors keep their
    gradients, also in the place of numbers.

    Args:
        colour: In [0, 1], (3).
        vertex_colours: (n, 3) by vertex.
        uv: Places in the texture (k, 2): u to the right, v up; (0, 0) is the lower left corner, (1, 1) the upper right;
            beyond them the picture begins again.
        uv_faces: Rows (m, 3) of `uv` at the corners of each face; a vertex may have several, at seams. By default those
            of the faces, if each vertex has one.
        texture: Picture (3, h, w) in [0, 1], row 0 on top.
        smooth: Whether normals are those of the vertices, interpolated, or those of the faces.
        ambient: Part of the ambient light that it reflects.
        diffuse: Part of the other light that it scatters evenly.
        specular: Strength of highlights, in the colour of the light.
        shininess: How sharp they are: the exponent of Phong's law.

    Raises:
        InputError: If a shape or type is another, a number is out of its range, or a texture has no uv.
    """

    colour: Sequence[float] | Tensor = (0.0, 0.0, 0.0)
    vertex_colours: Tensor | None = None
    uv: Tensor | None = None
    uv_faces: Tensor | None = None
    texture: Tensor | None = None
    smooth: bool = False
    ambient: float | Tensor = 1.0
    diffuse: float | Tensor = 1.0
    specular: float | Tensor = 0.0
    shininess: float | Tensor = 32.0

    def __post_init__(self):
        _check_colour(self.colour)
        for name, rows in (("vertex_colours", ("n", 3)), ("uv", ("k", 2)), ("texture", (3, "h", "w"))):
            if getattr(self, name) is not None:
                _check(f"look.{name}", getattr(self, name), rows, whole=False)
        if self.uv_faces is not None:
            _check("look.uv_faces", self.uv_faces, ("m", 3), whole=True)
            if self.uv is None:
                raise InputError("look.uv_faces has no `uv` to count in; give both.")
            _check_range("look.uv_faces", self.uv_faces, len(self.uv), "places of `uv`")
        if self.texture is not None and self.uv is None:
            raise InputError("look.texture has no `uv`, which tell where it lies; give them, (n, 2), in [0, 1].")
        for name in ("ambient", "diffuse", "specular", "shininess"):
            value = getattr(self, name)
            if not isinstance(value, Tensor) and not 0 <= value < math.inf:
                raise InputError(f"look.{name} is {value!r}; it is a number of at least 0.")

    @property
    def pattern(self) -> Pattern | None:
        """Its texture and where that lies; None without one."""
        if self.texture is None or self.uv is None or self.uv_faces is None:
            return None
        return Pattern(self.texture, self.uv, self.uv_faces)

    def rgb(self, like: Tensor) -> Tensor:
        """`colour` (3) in the precision and on the device of a tensor."""
        return torch.as_tensor(self.colour, dtype=like.dtype, device=like.device)


GREY = Appearance((0.7, 0.7, 0.7))


@dataclass(frozen=True, eq=False)
class Part:
    """One body's piece of a surface.

    Args:
        name: The body's name.
        vertices: Its range among the surface's vertices.
        faces: Triangles (m, 3), outward counter-clockwise; indices count from the part's first vertex.
        convex: Whether it is one convex body.
        look: Its colour, texture and material.

    Raises:
        InputError: If faces or the look do not fit the vertices.
    """

    name: str
    vertices: slice
    faces: Tensor
    convex: bool
    look: Appearance

    def __post_init__(self):
        own, look, n = f"`{self.name}`", self.look, self.size
        _check(f"faces of {own}", self.faces, ("m", 3), whole=True)
        _check_range(f"faces of {own}", self.faces, n, "vertices")
        if look.vertex_colours is not None and len(look.vertex_colours) != n:
            raise InputError(
                f"{own} has {n} vertices, and {len(look.vertex_colours)} vertex colours; give one for each."
            )
        if look.uv is not None and look.uv_faces is None:
            if len(look.uv) != n:
                raise InputError(
                    f"{own} has {n} vertices, and {len(look.uv)} uv; give one for each, or `uv_faces`, which say at what "
                    "corner of the faces they stand."
                )
            object.__setattr__(self, "look", replace(look, uv_faces=self.faces))
        elif look.uv_faces is not None and len(look.uv_faces) != len(self.faces):
            raise InputError(
                f"{own} has {len(self.faces)} faces, and {len(look.uv_faces)} uv_faces; give one for each."
            )

    @property
    def size(self) -> int:
        """Number of its vertices.

        Raises:
            InputError: If its range has no ends.
        """
        where = self.vertices
        if not isinstance(where, slice) or where.start is None or where.stop is None or where.step not in (None, 1):
            raise InputError(f"vertices of `{self.name}` are {where!r}; expected slice(first, beyond the last).")
        return where.stop - where.start

    @property
    def colour(self) -> Sequence[float] | Tensor:
        """RGB in [0, 1]."""
        return self.look.colour


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles that move. `a + b` is both.

    Args:
        vertices: (worlds, frames, n, 3) [m], float32 or float64; all parts one after another.
        parts: What they belong to.

    Raises:
        InputError: If the shape or type of the vertices is another, or parts do not follow one another up to n.
    """

    vertices: Tensor
    parts: tuple[Part, ...]

    def __post_init__(self):
        _check("vertices of a surface", self.vertices, ("worlds", "frames", "n", 3), False, WAY)
        first = 0
        for part in self.parts:
            if part.vertices.start != first:
                raise InputError(
                    f"`{part.name}` begins at vertex {part.vertices.start}; the one before it ends at {first}."
                )
            first = part.vertices.stop
        if first != self.vertices.shape[2]:
            raise InputError(f"the surface has {self.vertices.shape[2]} vertices; its parts have {first}.")

    @classmethod
    def of(
        cls,
        vertices: Tensor | ArrayLike,
        faces: Tensor | ArrayLike,
        look: Appearance = GREY,
        name: str = "body",
        convex: bool = False,
    ) -> "Surface":
        """One body of vertices and faces.

        Args:
            vertices: (n, 3), (frames, n, 3) or (worlds, frames, n, 3) [m]; tensors keep their gradients.
            faces: Triangles (m, 3), outward counter-clockwise.
            look: Its colour, texture and material.
            name: The body's name.
            convex: Whether it is convex, which makes silhouettes faster.

        Raises:
            InputError: If a shape or type is another, or faces or the look do not fit the vertices.
        """
        x, table = _tensor(vertices), _tensor(faces)
        if x.ndim not in (2, 3, 4):
            raise InputError(
                f"vertices have shape {tuple(x.shape)}; expected (n, 3), with frames or worlds and frames before."
            )
        x = x[(None,) * (4 - x.ndim)]
        return cls(x, (Part(name, slice(0, x.shape[2]), table, convex, look),))

    def __add__(self, other: "Surface") -> "Surface":
        """The parts of both, over the same worlds and frames; those of one alone are there in all of the other's."""
        if not isinstance(other, Surface):
            return NotImplemented
        a, b, n = self.vertices, other.vertices, self.vertices.shape[2]
        if any(i != j and 1 not in (i, j) for i, j in zip(a.shape[:2], b.shape[:2], strict=True)):
            raise InputError(
                f"surfaces have {tuple(a.shape[:2])} and {tuple(b.shape[:2])} worlds and frames; only what is the same, or "
                "one, goes together."
            )
        shape = torch.broadcast_shapes(a.shape[:2], b.shape[:2])
        both = torch.cat([x.expand(*shape, -1, -1) for x in (a, b.to(a))], 2)
        later = (replace(p, vertices=slice(p.vertices.start + n, p.vertices.stop + n)) for p in other.parts)
        return Surface(both, (*self.parts, *later))

    @cached_property
    def faces(self) -> Tensor:
        """Triangles (m, 3) of all parts, by the surface's vertices."""
        return torch.cat([p.faces + p.vertices.start for p in self.parts])

    @property
    def convex(self) -> bool:
        """Whether it is one convex body."""
        return len(self.parts) == 1 and self.parts[0].convex
