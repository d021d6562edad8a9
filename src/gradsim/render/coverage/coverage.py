"""Exact coverage: the covered area of every pixel, differentiable by the projected vertices.

Exact to rounding (`kernels.py`) for any mesh, closed or open, anywhere on the screen. Of coincident outlines, as of a
duplicated body, one counts and has the derivatives.
"""

import threading
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array, field, replay, struct_of
from gradsim.engine.operation import operation
from gradsim.render.coverage.edges import functions, index_range, mesh_of, open_edge

if TYPE_CHECKING:
    from gradsim.render.coverage import kernels, outline_kernels
else:
    kernels = "gradsim.render.coverage.kernels"
    outline_kernels = "gradsim.render.coverage.outline_kernels"

EDGES = ("Edge", "face_camera", "silhouette", "outline_edge", "cell", "in_row", "in_column")
OUTLINES = ("Bins", "Outline", "arrange", "empty_band", "is_outer", "next_cut", "touched", "widen_band")


def coverage(screen: Tensor, faces: Tensor, height: int, width: int, convex: bool = True) -> Tensor:
    """Coverage of every pixel, (worlds, frames, height, width) in [0, 1].

    Frames with a vertex that is NaN, or farther than 1e9 px from the origin, are empty.

    Args:
        screen: Projected vertices (worlds, frames, n, 2) [px], x to the right, y down, corners of pixels at whole
            numbers. Differentiable.
        faces: Triangles (m, 3); of a convex body closed and outward counter-clockwise, else any.
        height: Rows of the image.
        width: Columns of the image.
        convex: True for one convex body: faster, same result.

    Raises:
        ValueError: If the shapes do not fit or a convex body is not closed.
    """
    _check(screen, faces, convex)
    if not height * width:
        return screen.new_zeros(*screen.shape[:2], height, width)
    canvas = screen.new_empty(0, height, width)
    if convex:
        return _exact(screen, faces, canvas)[0]
    # occlusion between edges is decided in double precision
    return _other(screen.double(), faces, canvas.double())[0].to(screen.dtype)


def coverage_tangent(
    screen: Tensor, tangent: Tensor, faces: Tensor, height: int, width: int, convex: bool = True
) -> tuple[Tensor, Tensor]:
    """Coverage, and its derivative along every unknown (worlds, frames, height, width, unknowns).

    Args:
        screen: As for `coverage`.
        tangent: Derivatives of `screen`, (worlds, unknowns, frames, n, 2) [px per unit].
        faces: As for `coverage`.
        height: As for `coverage`.
        width: As for `coverage`.
        convex: As for `coverage`.

    Raises:
        ValueError: As `coverage`, or if `tangent` does not fit `screen`.
    """
    _check(screen, faces, convex)
    worlds, frames, n, _ = screen.shape
    if tangent.ndim != 5 or tangent.shape != (worlds, tangent.shape[1], frames, n, 2):
        shape = f"({worlds}, unknowns, {frames}, {n}, 2)"
        raise ValueError(f"`tangent` has shape {tuple(tangent.shape)}; `screen` needs {shape}.")
    if not height * width:  # a part of an image that no body comes to
        image = screen.new_zeros(worlds, frames, height, width)
        return image, screen.new_zeros(*image.shape, tangent.shape[1])
    canvas = screen.new_empty(0, height, width)
    if convex:
        return _Coverage(convex).tangent(screen.detach(), tangent.detach(), faces, canvas)
    wide = screen.detach().double(), tangent.detach().double(), faces, canvas.double()
    image, slope = _Coverage(convex).tangent(*wide)
    return image.to(screen.dtype), slope.to(screen.dtype)


class _Coverage:
    """Program from screen, faces and an empty canvas (0, height, width) to coverage, see `engine.operation`.

    Args:
        convex: True for convex bodies.
    """

    def __init__(self, convex: bool):
        self.convex = convex

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        screen, _, canvas = inputs
        return [(*screen.shape[:2], *canvas.shape[1:])]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        screen, faces, canvas = inputs
        nothing = screen.new_empty(len(screen), 0, *screen.shape[1:])
        return [self.tangent(screen, nothing, faces, canvas)[0]]

    def tangent(self, screen: Tensor, tangent: Tensor, faces: Tensor, canvas: Tensor) -> tuple[Tensor, Tensor]:
        """See `coverage_tangent`."""
        code, points = coverage_code(screen.dtype), screen.flatten(0, 1)
        image = screen.new_zeros(*screen.shape[:2], *canvas.shape[1:])
        image_tangent = screen.new_zeros(*image.shape, tangent.shape[1])
        moving = array(code.Point, points), array(code.Point, tangent.to(screen.dtype))
        outputs = [array(code.Scalar, y.flatten(0, 1)) for y in (image, image_tangent)]
        args = [*moving, *mesh_of(faces), self.convex, *_scratch(points, faces, self.convex, image.shape[2]), *outputs]
        replay(code.cover, len(points), args, str(screen.device))
        return image, image_tangent

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        screen, faces, _ = inputs
        code, points = coverage_code(screen.dtype), screen.flatten(0, 1)
        adjoint = torch.zeros_like(points)
        image_adjoint = array(code.Scalar, adjoints[0].flatten(0, 1))
        scratch = _scratch(points, faces, self.convex, adjoints[0].shape[2])
        arguments = [array(code.Point, points), image_adjoint, *mesh_of(faces), self.convex, *scratch]
        replay(code.cover_adjoint, len(points), [*arguments, array(code.Point, adjoint)], str(screen.device))
        return [adjoint.view_as(screen), None, None]


_exact, _other = operation(_Coverage(convex=True)), operation(_Coverage(convex=False))


def _scratch(points: Tensor, faces: Tensor, convex: bool, height: int) -> tuple[int, wp.array, Any]:
    """Number of outlines that are kept (one on a CPU, where threads run in turn), front faces of each body, and outlines."""
    front = array(wp.bool, points.new_empty(len(points), len(faces), dtype=torch.bool))
    if points.device.type != "cpu":
        return len(points), front, outline_scratch(points, faces, len(points), convex, height)
    key = points.dtype, len(faces), convex, height
    if getattr(_reused, "key", None) != key:
        _reused.key, _reused.outline = key, outline_scratch(points, faces, 1, convex, height)
    return 1, front, _reused.outline


_reused = threading.local()  # scratch memory of the last launch on a CPU, whose threads run in turn


def outline_scratch(points: Tensor, faces: Tensor, pages: int, convex: bool, height: int) -> Any:
    """`Outline` of `outline_kernels.py` in images of some height, with the device and dtype of `points`."""
    most, code = max(1, 3 * len(faces)), outline_code(points.dtype)
    sorted_edges = 1 if convex else most  # a convex body has no use for them
    whole = lambda *shape: torch.empty(pages, *shape, dtype=torch.int32, device=points.device)
    fields = {
        "edges": (wp.int32, whole(most)),
        "extent": (code.Extent, points.new_empty(pages, sorted_edges, 4)),
        "about": (wp.vec4i, whole(sorted_edges, 4)),
        "begin": (wp.int32, whole(sorted_edges)),
        "band": (wp.int32, whole(height, 4)),
    }
    return struct_of(code.Outline, {name: field(dtype, x) for name, (dtype, x) in fields.items()})


@cache
def outline_code(dtype: torch.dtype) -> ModuleType:
    """`outline_kernels.py`."""
    return specialize(outline_kernels, lane_of(dtype), **functions(dtype, "Edge", "jump"))


@cache
def coverage_code(dtype: torch.dtype) -> ModuleType:
    """The kernels of coverage."""
    outlines = members(outline_code(dtype), *OUTLINES)
    return specialize(kernels, lane_of(dtype), **functions(dtype, *EDGES), **outlines)


def _check(screen: Tensor, faces: Tensor, convex: bool) -> None:
    if screen.ndim != 4 or screen.shape[-1] != 2 or not screen.is_floating_point():
        got = f"shape {tuple(screen.shape)} and {screen.dtype}"
        raise ValueError(f"`screen` has {got}; coverage needs (worlds, frames, n, 2), float64 or float32.")
    if faces.ndim != 2 or faces.shape[-1] != 3 or faces.is_floating_point():
        got = f"shape {tuple(faces.shape)} and {faces.dtype}"
        raise ValueError(f"`faces` has {got}; coverage needs whole numbers (m, 3).")
    if not torch.compiler.is_compiling() and faces.numel():
        least, greatest = index_range(faces)
        if not 0 <= least <= greatest < screen.shape[2]:
            raise ValueError(f"`faces` names vertices {least} to {greatest}; `screen` has {screen.shape[2]}, from 0.")
    if convex and not torch.compiler.is_compiling():
        gap = open_edge(faces)
        if gap:
            raise ValueError(
                f"edge {gap} has a face on one side only, or two that are turned differently; the coverage of a convex "
                "body needs a closed mesh, where each edge runs once each way: merge equal vertices, close holes, turn "
                "faces outward, or leave out `convex`."
            )
