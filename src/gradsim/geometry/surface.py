"""Surfaces: what physics passes to renderers. `Surface.of` makes one from vertices and faces."""

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
from gradsim.geometry.index_tables import entry_range

BLACK = (0.0, 0.0, 0.0)
FLOATS = torch.float32, torch.float64
WHOLE = torch.int64, torch.int32  # of other whole numbers `_check` tells
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


def _check_range(name: str, indices: Tensor, count: int, of: str, part: str = "") -> None:
    if 0 in indices.shape:
        return
    low, high = entry_range(indices)
    if low < 0 or high >= count:
        name = f"{name} `{part}`" if part else name
        raise InputError(f"{name} name {low} to {high}; there are {count} {of}, counted from 0.")


def _check_color(color: Any) -> None:
    if color is BLACK:
        return
    if isinstance(color, Tensor):
        _check("appearance.color", color, (3,), whole=False)
        return
    if len(color) != 3 or not all(isinstance(c, Real) and 0 <= float(c) <= 1 for c in color):
        raise InputError(f"appearance.color is {color!r}; expected red, green and blue in [0, 1], or a tensor of them.")


def _has_rows(values: Any, ndim: int, dtypes: tuple[torch.dtype, ...]) -> bool:
    """True for tensors (..., 3) as `_check` wants them: surfaces are made at each call, and texts for messages cost more than what they say."""
    if not isinstance(values, Tensor) or values.dtype not in dtypes:
        return False
    shape = (
        values.shape
    )  # of which all is read here: each attribute of a tensor costs where nothing is in the caches of the CPU
    return len(shape) == ndim and shape[-1] == 3


class Pattern(NamedTuple):
    """Texture image and its coordinates, see `Appearance`."""

    texture: Tensor
    uv: Tensor
    faces: Tensor  # rows of uv


@dataclass(frozen=True, eq=False)
class Appearance:
    """Color, texture and Phong material of a part of a surface. Colors are RGB, 1 is white.

    The albedo is the texture if there is one, else `vertex_colors`, else `color`. All fields may be tensors and keep their
    gradients.

    Args:
        color: Uniform color (3), in [0, 1].
        vertex_colors: Colors of the vertices (n, 3).
        uv: Texture coordinates (k, 2): u to the right, v up, (0, 0) the lower left corner, (1, 1) the upper right one;
            the texture repeats beyond.
        uv_faces: Rows (m, 3) of `uv` at the corners of each face; at seams a vertex has several. Default: the faces, with
            one row of `uv` for each vertex.
        texture: Image (3, h, w) in [0, 1], row 0 on top.
        smooth: Interpolate normals of the vertices; else use those of the faces.
        ambient: Ambient reflectance k_a.
        diffuse: Diffuse reflectance k_d.
        specular: Specular reflectance k_s; highlights have the color of the light.
        shininess: Phong exponent s.

    Raises:
        InputError: If a shape or dtype does not fit, a number is out of range, or a texture has no uv.
    """

    color: Sequence[float] | Tensor = BLACK
    vertex_colors: Tensor | None = None
    uv: Tensor | None = None
    uv_faces: Tensor | None = None
    texture: Tensor | None = None
    smooth: bool = False
    ambient: float | Tensor = 1.0
    diffuse: float | Tensor = 1.0
    specular: float | Tensor = 0.0
    shininess: float | Tensor = 32.0

    def __post_init__(self):
        _check_color(self.color)
        if self.vertex_colors is not None and not _has_rows(self.vertex_colors, 2, FLOATS):
            _check("appearance.vertex_colors", self.vertex_colors, ("n", 3), whole=False)
        if self.uv is not None:
            _check("appearance.uv", self.uv, ("k", 2), whole=False)
        if self.texture is not None:
            _check("appearance.texture", self.texture, (3, "h", "w"), whole=False)
        if self.uv_faces is not None:
            _check("appearance.uv_faces", self.uv_faces, ("m", 3), whole=True)
            if self.uv is None:
                raise InputError("appearance.uv_faces has no `uv` to count in; give both.")
            _check_range("appearance.uv_faces", self.uv_faces, len(self.uv), "places of `uv`")
        if self.texture is not None and self.uv is None:
            raise InputError("appearance.texture has no `uv`; give texture coordinates (n, 2) in [0, 1].")
        for name in ("ambient", "diffuse", "specular", "shininess"):
            value = getattr(self, name)
            if not (isinstance(value, Tensor) or 0 <= value < math.inf):
                raise InputError(f"appearance.{name} is {value!r}; it is a number of at least 0.")

    @property
    def pattern(self) -> Pattern | None:
        """Texture and its coordinates; None without a texture."""
        if self.texture is None or self.uv is None or self.uv_faces is None:
            return None
        return Pattern(self.texture, self.uv, self.uv_faces)

    def rgb(self, like: Tensor) -> Tensor:
        """`color` (3) with the dtype and device of a tensor."""
        return torch.as_tensor(self.color, dtype=like.dtype, device=like.device)


GREY = Appearance((0.7, 0.7, 0.7))


@dataclass(frozen=True, eq=False)
class Part:
    """One body of a surface.

    Args:
        name: Name of the body.
        vertices: Range among the vertices of the surface.
        faces: Triangles (m, 3), outward counter-clockwise; indices count from the part's first vertex.
        convex: True for one convex body.
        appearance: Color, texture and material.

    Raises:
        InputError: If faces or appearance do not fit the vertices.
    """

    name: str
    vertices: slice
    faces: Tensor
    convex: bool
    appearance: Appearance

    def __post_init__(self):
        appearance, n = self.appearance, self.size
        if not _has_rows(self.faces, 2, WHOLE):
            _check(f"faces of `{self.name}`", self.faces, ("m", 3), whole=True)
        _check_range("faces of", self.faces, n, "vertices", self.name)
        colors = appearance.vertex_colors
        # `len` costs the time of all else here, if it was not in a cache
        if colors is not None and colors.shape[0] != n:
            raise InputError(f"`{self.name}` has {n} vertices, and {len(colors)} vertex colors; give one for each.")
        if appearance.uv is not None and appearance.uv_faces is None:
            if len(appearance.uv) != n:
                raise InputError(
                    f"`{self.name}` has {n} vertices, and {len(appearance.uv)} uv; give one for each, or `uv_faces` with "
                    "their rows at the corners of the faces."
                )
            object.__setattr__(self, "appearance", replace(appearance, uv_faces=self.faces))
        elif appearance.uv_faces is not None and len(appearance.uv_faces) != len(self.faces):
            raise InputError(
                f"`{self.name}` has {len(self.faces)} faces, and {len(appearance.uv_faces)} uv_faces; give one for each."
            )

    @property
    def size(self) -> int:
        """Number of vertices.

        Raises:
            InputError: If the range is not a slice with start and stop.
        """
        where = self.vertices
        if not isinstance(where, slice) or where.start is None or where.stop is None or where.step not in (None, 1):
            raise InputError(f"vertices of `{self.name}` are {where!r}; expected slice(first, beyond the last).")
        return where.stop - where.start

    @property
    def color(self) -> Sequence[float] | Tensor:
        """RGB in [0, 1]."""
        return self.appearance.color


class DenseVertices(NamedTuple):
    """Vertices at instants about every frame, for cameras with a shutter.

    Args:
        offsets: Instants after the time of the frame (frames, samples) [s].
        vertices: (worlds, frames, samples, n, 3) [m].
    """

    offsets: Tensor
    vertices: Tensor


@dataclass(frozen=True, eq=False)
class Surface:
    """Moving triangle mesh of one or more parts. `a + b` joins two surfaces.

    Args:
        vertices: (worlds, frames, n, 3) [m], float32 or float64; part after part.
        parts: Parts, with consecutive ranges of vertices up to n.
        dense: Vertices between frames, for cameras with a shutter.
        times: Times of the frames (frames,) [s], for cameras that move.

    Raises:
        InputError: If the shape or dtype of the vertices does not fit, or the ranges are not consecutive.
    """

    vertices: Tensor
    parts: tuple[Part, ...]
    dense: DenseVertices | None = None
    times: Tensor | None = None

    def __post_init__(self):
        if not _has_rows(self.vertices, 4, FLOATS):
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
        appearance: Appearance = GREY,
        name: str = "body",
        convex: bool = False,
    ) -> "Surface":
        """Make a surface of one body.

        Args:
            vertices: (n, 3), (frames, n, 3) or (worlds, frames, n, 3) [m]; tensors keep their gradients.
            faces: Triangles (m, 3), outward counter-clockwise.
            appearance: Color, texture and material.
            name: Name of the body.
            convex: True for a convex body, which makes silhouettes faster.

        Raises:
            InputError: If a shape or dtype does not fit, or faces or appearance do not fit the vertices.
        """
        x, table = _tensor(vertices), _tensor(faces)
        dimensions = len(x.shape)
        if dimensions not in (2, 3, 4):
            raise InputError(
                f"vertices have shape {tuple(x.shape)}; expected (n, 3), with frames or worlds and frames before."
            )
        x = x[(None,) * (4 - dimensions)] if dimensions < 4 else x
        return cls(x, (Part(name, slice(0, x.shape[2]), table, convex, appearance),))

    def __add__(self, other: "Surface") -> "Surface":
        """Join two surfaces; worlds and frames broadcast."""
        if not isinstance(other, Surface):
            return NotImplemented
        a, b, n = self.vertices, other.vertices, self.vertices.shape[2]
        if any(i != j and 1 not in (i, j) for i, j in zip(a.shape[:2], b.shape[:2], strict=True)):
            raise InputError(
                f"surfaces have {tuple(a.shape[:2])} and {tuple(b.shape[:2])} worlds and frames; both have to be equal, or 1."
            )
        shape = torch.broadcast_shapes(a.shape[:2], b.shape[:2])
        both = torch.cat([x.expand(*shape, -1, -1) for x in (a, b.to(a))], 2)
        later = (replace(p, vertices=slice(p.vertices.start + n, p.vertices.stop + n)) for p in other.parts)
        return Surface(both, (*self.parts, *later), times=self.times)

    def detach(self) -> "Surface":
        """The same without gradients."""
        dense = self.dense and DenseVertices(self.dense.offsets, self.dense.vertices.detach())
        return Surface(self.vertices.detach(), self.parts, dense, self.times)

    def at(self, frames: int | slice | Sequence[int], worlds: slice = slice(None)) -> "Surface":
        """That of some frames and worlds alone; frame -1 is the last."""
        which = frames if isinstance(frames, slice) else [frames] if isinstance(frames, int) else list(frames)
        dense = self.dense
        if dense is not None:
            dense = DenseVertices(dense.offsets[which], dense.vertices[worlds][:, which])
        times = None if self.times is None else self.times[which]
        return Surface(self.vertices[worlds][:, which], self.parts, dense, times)

    @cached_property
    def faces(self) -> Tensor:
        """Triangles (m, 3) of all parts, as indices of the vertices of the surface."""
        return torch.cat([p.faces + p.vertices.start for p in self.parts])

    @property
    def convex(self) -> bool:
        """True for one convex body."""
        return len(self.parts) == 1 and self.parts[0].convex
