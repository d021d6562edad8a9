"""Images of one convex body with colors at its vertices, in one launch each way: for CPUs, where launches cost more than pixels."""

import math
import threading
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from gradsim.engine.lanes import Lane, lane_of, members, native_width, specialize
from gradsim.engine.launch import BoundLaunch, array
from gradsim.engine.operation import may_be_differentiated, operation
from gradsim.engine.runs import runs
from gradsim.render.antialias.passes import touched_code
from gradsim.render.coverage.coverage import coverage_code, outline_code, outline_scratch
from gradsim.render.coverage.edges import functions, is_closed, mesh_of
from gradsim.render.raster.vertex_colors import vertex_color_code
from gradsim.render.raster.zbuffer import CULL
from gradsim.render.repeated_images import Passes
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.antialias import convex_kernels
    from gradsim.render.raster import fragment_kernels, zbuffer_kernels
else:
    fragment_kernels = "gradsim.render.raster.fragment_kernels"
    zbuffer_kernels = "gradsim.render.raster.zbuffer_kernels"
    convex_kernels = "gradsim.render.antialias.convex_kernels"

CHANNELS = 3
MOST_BOUND = 8  # kinds of images whose launches are used again
TOUCHED = ("MARK_STEPS", "PIXEL_RADIUS", "on_screen", "side_of", "visible_face")
OUTLINE = ("as_coverage", "bounds", "draw_part", "is_seen", "part_weights")
POINTS = ("NEARNESS", "back_to_pixels", "behind", "flat_adjoint", "relative")
COLORS = ("along", "touched_adjoint", "touched_shares")
DEPTHS = ("BACK", "EDGE", "MAX_COORDINATE", "MIN_SPAN_WIDTH", "NONE", "Triangle", "between", "prepare")


def draw(view: View, colors: Tensor, background: Tensor, cull: str) -> tuple[Tensor, Tensor] | None:
    """Image (images, 3, height, width) and coverage (images, height, width); None where this file is not for the view.

    The same as coverage, `nearest`, `add_touched` and `paint`, to rounding; differentiable as they are.

    Args:
        view: Triangles of all images.
        colors: RGB of the vertices (images or 1, n, 3).
        background: (images or 1, 3, height or 1, width or 1).
        cull: Faces to leave out: "none", "back" or "front".
    """
    inputs = _inputs(view, colors, background, cull)
    if inputs is None:
        return None
    run = _operation(view.height, view.width, view.shape[1], view.near, CULL[cull])
    image, alpha, mark, status = run(*inputs)
    if status[0].item():
        return None
    if may_be_differentiated(background):
        clear = 1 - torch.where(mark >= 0, alpha, 0.0)[:, None]
        image = image + clear * (background - background.detach())  # 0, with the background's derivative
    return image, alpha


def _inputs(view: View, colors: Tensor, background: Tensor, cull: str) -> tuple[Tensor, ...] | None:
    """Inputs of `_Draw`; None where it is not for the view."""
    inputs, width = view.plain_inputs(), _lane(view.points.dtype).width
    if inputs is None or width == 1 or view.height * view.width < width or cull not in CULL:
        return None
    if any(map(is_functorch_wrapped_tensor, (colors, background))) or background.shape[1] != CHANNELS:
        return None
    if len(view.parts) != 1 or not view.parts[0].convex or not len(view.faces) or not is_closed(view.faces):
        return None
    points, matrices, offsets = inputs
    colors, background = colors.to(points), background.to(points)  # launches are bound for one dtype
    if background.shape[2:] != (1, 1):
        background = background.expand(-1, -1, view.height, view.width)
    return points, colors, background, matrices, offsets, view.faces


def passes(view: View, colors: Tensor, background: Tensor, cull: str) -> Passes | None:
    """The launches of `draw`, for images of this kind; None where this file is not for the view, and arguments as there."""
    inputs = _inputs(view, colors, background, cull)
    if inputs is None:
        return None
    bound = _Bound(_Draw(view.height, view.width, view.shape[1], view.near, CULL[cull]), inputs)
    size, background = len(inputs[0]) * view.height * view.width, inputs[2].contiguous()
    saved = {"alpha": size * background.element_size(), "mark": size * torch.int32.itemsize}
    shape = (*view.shape, CHANNELS, view.height, view.width)
    constants, aliases = {"background": background}, {"flat": "alpha"}
    return Passes(bound.forward, lambda: bound.backward, shape, saved, constants, "painted", aliases, has_colors=True)


@cache
def _lane(dtype: torch.dtype) -> Lane:
    name = str(dtype).removeprefix("torch.")
    return Lane(name, native_width(name))


@cache
def convex_code(dtype: torch.dtype) -> ModuleType:
    """Kernels of `convex_kernels.py`, for a CPU."""
    single, wide = lane_of(dtype), _lane(dtype)
    bound = members(touched_code(dtype), *TOUCHED) | members(coverage_code(dtype), *OUTLINE)
    bound |= functions(dtype, "cell", "outline_edge", "silhouette")
    bound |= members(outline_code(dtype), "Outline", "empty_band", "touched")
    points = specialize(fragment_kernels, single)
    bound |= members(points, *POINTS) | {"cross_flat": points.cross} | members(vertex_color_code(dtype), *COLORS)
    bound |= members(specialize(zbuffer_kernels, single), *DEPTHS)
    return specialize(convex_kernels, wide, **bound, **runs(wide))


@lru_cache(64)
def _operation(height: int, width: int, frames: int, near: float, cull: int):
    return operation(_Draw(height, width, frames, near, cull))


class _Draw:
    """Program from points, colors, background, matrices, offsets and faces to image, coverage, marks and status, see `draw` of `convex_kernels.py`.

    Args:
        height: Rows of the image.
        width: Columns.
        frames: Frames of each world.
        near: Distance of the near plane [m].
        cull: See `zbuffer.CULL`.
    """

    reads_missing_adjoints = True

    def __init__(self, height: int, width: int, frames: int, near: float, cull: int):
        self.height, self.width, self.frames, self.near, self.cull = height, width, frames, near, cull
        self.local = threading.local()

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        images, size = len(inputs[0]), (self.height, self.width)
        return [(images, CHANNELS, *size), (images, *size), (images, *size), (2,)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        points, colors, background, matrices, offsets, _ = inputs
        image, alpha, mark = (points.new_empty(shape) for shape in self.shapes(inputs)[:3])
        mark = mark.view(torch.int32) if mark.dtype == torch.float32 else torch.empty_like(mark, dtype=torch.int32)
        status = torch.zeros(2, dtype=torch.int32)
        outputs = {"alpha": alpha, "flat": alpha, "mark": mark, "painted": image, "status": status}
        numbers = {"points": points, "colors": colors, "background": background}
        self._bound(inputs).forward(**numbers, matrices=matrices, offsets=offsets, **outputs)
        return [image, alpha, mark, status]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        points, colors, background, matrices, offsets, _ = inputs
        image, alpha, mark, status = outputs
        by_image = torch.zeros_like(image) if adjoints[0] is None else adjoints[0]
        to_points, to_colors = torch.empty_like(points), torch.zeros_like(colors)
        bound = self._bound(inputs)
        numbers = {"points": points, "colors": colors, "background": background, "matrices": matrices}
        numbers |= {"offsets": offsets, "alpha": alpha, "mark": mark, "status": status, "painted_adjoint": by_image}
        numbers |= {"points_adjoint": to_points, "colors_adjoint": to_colors}
        if adjoints[1] is None:
            bound.backward(**numbers)
        else:
            bound.backward_by_alpha(**numbers, alpha_seed=adjoints[1])
        return [to_points, to_colors, None, None, None, None]

    def _bound(self, inputs: Sequence[Tensor]) -> "_Bound":
        known = vars(self.local).setdefault("bound", {})
        faces, _ = mesh_of(inputs[5])
        key = (id(faces), *((x.dtype, x.shape) for x in inputs[:5]))
        bound = known.get(key)
        if bound is None:
            if len(known) >= MOST_BOUND:
                known.clear()
            bound = known[key] = _Bound(self, inputs)
        return bound


class _Bound:
    """Scratch and launches for tensors of these shapes."""

    def __init__(self, program: _Draw, inputs: Sequence[Tensor]):
        points, colors, background, matrices, offsets = (torch.empty_like(x, device="meta") for x in inputs[:5])
        code = self.code = convex_code(points.dtype)
        faces, edges = mesh_of(inputs[5])
        self.points, self.colors = points, colors
        self.size, self.images = (program.height, program.width), len(points)
        self.head = [array(code.Point, points), array(code.Point, colors), array(code.Scalar, background.flatten())]
        self.head += [background.shape[-1] == 1, len(background), array(code.Square, matrices)]
        self.head += [array(code.Double, offsets), program.frames, program.near, program.cull, faces, edges]
        n, like = points.shape[1], inputs[0]
        self.clip, self.screen = array(code.Point, like.new_empty(1, n, 3)), array(code.Flat, like.new_empty(1, n, 2))
        self.front = array(wp.bool, torch.empty(1, len(inputs[5]), dtype=torch.bool))
        self.outline = outline_scratch(like, inputs[5], 1, True, program.height)
        self.scratch = like.new_empty

    @cached_property
    def forward(self) -> BoundLaunch:
        """The launch of `draw`."""
        code = self.code
        none = array(code.Flat, self.scratch(1, 0, 1, self.points.shape[1], 2))
        rank = array(wp.int32, torch.empty(math.prod(self.size), dtype=torch.int32))
        nothing = array(code.Scalar, self.scratch(self.images, *self.size, 0))
        scratch = [self.clip, self.screen, none, self.front, self.outline, rank, nothing]
        alpha = array(code.Scalar, self._later(self.images, *self.size))
        out = [alpha, self._pixels(), self._pixels(dtype=torch.int32), self._pixels(CHANNELS)]
        out.append(array(wp.int32, self._later(2, dtype=torch.int32)))
        return BoundLaunch(code.draw, self.images, [*self.head, *scratch, *out])

    @cached_property
    def backward(self) -> BoundLaunch:
        """The launch of `draw_adjoint` for a loss of the image alone."""
        return self._backward(array(self.code.Scalar, self._later(0)))

    @cached_property
    def backward_by_alpha(self) -> BoundLaunch:
        """The same for a loss of image and coverage."""
        return self._backward(self._pixels())

    def _backward(self, alpha_seed: Any) -> BoundLaunch:
        code, by_alpha = self.code, self.scratch(1, *self.size)
        scratch = [self.clip, self.screen, self.front, self.outline]
        scratch.append(array(code.Point, self.scratch(1, self.points.shape[1], 3)))
        scratch += [array(code.Scalar, by_alpha), array(code.Scalar, by_alpha.flatten())]
        outputs = [self._pixels(), self._pixels(dtype=torch.int32), array(wp.int32, self._later(2, dtype=torch.int32))]
        results = [array(code.Point, self.points), array(code.Point, self.colors)]
        args = [*self.head, *scratch, *outputs, self._pixels(CHANNELS), alpha_seed, *results]
        return BoundLaunch(code.draw_adjoint, self.images, args)

    def _later(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor without memory, for an argument that calls name."""
        return torch.empty(shape, dtype=dtype or self.points.dtype, device="meta")

    def _pixels(self, channels: int = 1, dtype: torch.dtype | None = None) -> Any:
        """Description of all pixels of all images in one row."""
        kind = wp.int32 if dtype else self.code.Scalar
        return array(kind, self._later(self.images * channels * math.prod(self.size), dtype=dtype))
