"""Soft silhouettes of a view in one launch each way: for CPUs, where launches cost more than small images."""

import math
import threading
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import Lane, members, names
from gradsim.engine.launch import BoundLaunch, array
from gradsim.engine.operation import operation
from gradsim.engine.runs import lists, tiles
from gradsim.render.coverage.edges import mesh_of
from gradsim.render.repeated_images import Passes
from gradsim.render.softras.color import border_code
from gradsim.render.softras.faces import SHAPES, Tiles, reach, with_faces
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.softras import opacity_kernels
else:
    opacity_kernels = "gradsim.render.softras.opacity_kernels"

MOST_BOUND = 8  # kinds of images whose launches are used again
SIDE_ENTRIES = 9  # registers: three for each side of a face, see `put_line` of the kernels
BORDER = ("SATURATED", "Reach")


def opacity(view: View, settings: tuple[float, float, float]) -> Tensor | None:
    """Soft coverage (images, height, width), see `silhouette` of `rasterizer.py`; None where this file is not for the view.

    Args:
        view: Triangles of all images.
        settings: See `blur`.
    """
    inputs = view.plain_inputs()
    if inputs is None or not len(view.faces):
        return None
    run = _operation(view.height, view.width, view.shape[1], view.near, settings)
    alpha, _, status = run(*inputs, view.faces)
    return None if status.item() else alpha


def passes(view: View, settings: tuple[float, float, float]) -> Passes | None:
    """The launches of `opacity`, for images of this kind; None where this file is not for the view, and arguments as there."""
    inputs = view.plain_inputs()
    if inputs is None or not len(view.faces):
        return None
    bound = _Bound(_Opacity(view.height, view.width, view.shape[1], view.near, settings), (*inputs, view.faces))
    points, shape = inputs[0], (*view.shape, view.height, view.width)
    saved = {"clear": len(points) * math.prod(bound.layout.shape) * points.element_size()}
    return Passes(bound.forward, lambda: bound.backward, shape, saved, {}, image="alpha")


@cache
def opacity_code(lane: Lane) -> ModuleType:
    """Kernels of `opacity_kernels.py`, for a CPU."""
    bound = members(border_code(lane), *BORDER) | tiles(lane, *SHAPES[lane.width]) | lists(lane)
    return with_faces(opacity_kernels, lane, **bound)


@lru_cache(64)
def _operation(height: int, width: int, frames: int, near: float, settings: tuple[float, float, float]):
    return operation(_Opacity(height, width, frames, near, settings))


class _Opacity:
    """Program from points, matrices, offsets and faces to alpha, 1 - alpha in tiles, and status, see `opacity_kernels.py`.

    Args:
        height: Rows of the image.
        width: Columns.
        frames: Frames of each world.
        near: Distance of the near plane [m].
        settings: See `blur`.
    """

    reads_missing_adjoints = True

    def __init__(self, height: int, width: int, frames: int, near: float, settings: tuple[float, float, float]):
        self.height, self.width, self.frames, self.near, self.settings = height, width, frames, near, settings
        self.local = threading.local()

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        images, layout = len(inputs[0]), Tiles(self.height, self.width, like=inputs[0])
        return [(images, self.height, self.width), (images, *layout.shape), (1,)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        points, matrices, offsets, _ = inputs
        bound = self._bound(inputs)
        alpha = points.new_empty(len(points), self.height, self.width)
        clear = points.new_empty(len(points), *bound.layout.shape)
        status = torch.zeros(1, dtype=torch.int32)
        bound.forward(points=points, matrices=matrices, offsets=offsets, clear=clear, alpha=alpha, status=status)
        return [alpha, clear, status]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        points, matrices, offsets, _ = inputs
        if adjoints[0] is None:
            return [torch.zeros_like(points), None, None, None]
        adjoint = torch.empty_like(points)
        results = {"clear": outputs[1], "alpha_adjoint": adjoints[0], "points_adjoint": adjoint}
        self._bound(inputs).backward(points=points, matrices=matrices, offsets=offsets, **results)
        return [adjoint, None, None, None]

    def _bound(self, inputs: Sequence[Tensor]) -> "_Bound":
        known = vars(self.local).setdefault("bound", {})
        faces, _ = mesh_of(inputs[3])
        key = (id(faces), *((x.dtype, x.shape) for x in inputs[:3]))
        if key not in known:
            if len(known) >= MOST_BOUND:
                known.clear()
            known[key] = _Bound(self, inputs)
        return known[key]


@cache
def _centers(lane: Lane) -> wp.array:
    """Offsets x and y of the pixels of a tile, and of the tiles of a block, from the first one [px]."""
    rows, columns = SHAPES[lane.width]
    k = torch.arange(rows * columns)
    places = [k % columns, k // columns, k % rows * columns, k // rows * rows]
    return wp.array(torch.stack(places).numpy(), dtype=names(lane)["Real"], device="cpu")


def _unit(code: ModuleType, sigma: float, cut: float):
    """Struct of the kernels: length by which squared distances over σ count bits."""
    unit = code.Unit()
    unit.by_pixel, unit.bits = math.sqrt(1 / (sigma * math.log(2))), cut / math.log(2)
    return unit


class _Bound:
    """Scratch and launches for tensors of these shapes."""

    def __init__(self, program: _Opacity, inputs: Sequence[Tensor]):
        points, matrices, offsets = (torch.empty_like(x, device="meta") for x in inputs[:3])
        self.layout = layout = Tiles(program.height, program.width, like=inputs[0])
        self.code = code = opacity_code(layout.lane)
        self.points, self.images, self.size = points, len(points), (program.height, program.width)
        self.head = [array(code.Point, points), array(code.Square, matrices), array(code.Double, offsets)]
        self.head += [program.frames, program.near, mesh_of(inputs[3])[0], _centers(layout.lane)]
        self.head += [reach(code, layout, *program.settings), _unit(code, *program.settings[:2])]
        self.scratch = inputs[0].new_empty
        marked = (layout.down + layout.columns) * (layout.across + layout.rows)  # a block behind the last tile
        n, tail = points.shape[1], layout.tail
        self.work = [array(code.Place, torch.empty(n, 2, dtype=torch.float64)), array(code.Scalar, self.scratch(n))]
        self.work += [
            array(code.Scalar, inputs[0].new_zeros(marked)),
            array(code.Real, self.scratch(SIDE_ENTRIES, *tail)),
        ]

    @cached_property
    def forward(self) -> BoundLaunch:
        """The launch of `cover_images`."""
        status = array(wp.int32, torch.empty(1, dtype=torch.int32, device="meta"))
        return BoundLaunch(
            self.code.cover_images, self.images, [*self.head, *self.work, self._clear, self._alpha, status]
        )

    @cached_property
    def backward(self) -> BoundLaunch:
        """The launch of `cover_images_adjoint`."""
        code = self.code
        opaque = array(code.Real, self.scratch(self.layout.shape).flatten(0, 1))
        screen_adjoint = array(code.Pixel, self.scratch(self.points.shape[1], 2))
        args = [
            *self.head,
            *self.work,
            opaque,
            screen_adjoint,
            self._clear,
            self._alpha,
            array(code.Point, self.points),
        ]
        return BoundLaunch(code.cover_images_adjoint, self.images, args)

    @property
    def _clear(self) -> Any:
        return array(self.code.Real, self.points.new_empty(self.images, *self.layout.shape).flatten(0, 2))

    @property
    def _alpha(self) -> Any:
        return array(self.code.Scalar, self.points.new_empty(self.images * self.size[0] * self.size[1]))
