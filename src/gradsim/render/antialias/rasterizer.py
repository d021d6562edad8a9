"""Unbiased antialiased rasterizer: exact coverage, and exact area shares along inner edges.

Coverage is exact (`coverage.py`), with exact derivatives, for closed and open meshes, several bodies and any occlusion.
Inside, the nearest triangle at each pixel centre gives the color. Pixels crossed by an occluding edge are divided by area
between both sides (`kernels.py`), as are those crossed by a crease of a flat-shaded body. That is exact where one outline
crosses a pixel, but not where several meet or features are thinner than a pixel: a ball before another, or on the ground,
appears up to 0.01 px off. Lines where bodies intersect are not divided and have no derivative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.kernel_program import KernelProgram
from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import arrays
from gradsim.engine.operation import operation
from gradsim.render.antialias import convex
from gradsim.render.antialias.passes import add_touched, creases, edge_code, mix, mix_code, outlines
from gradsim.render.coverage.coverage import coverage
from gradsim.render.coverage.edges import functions
from gradsim.render.near_clipping import cut_near
from gradsim.render.raster.composite import composite
from gradsim.render.raster.fragments import Fragments
from gradsim.render.raster.vertex_colors import paint
from gradsim.render.raster.zbuffer import nearest
from gradsim.render.repeated_images import Passes
from gradsim.render.shading.surface_color import ColorSource
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.antialias import kernels
    from gradsim.render.raster import fragment_kernels
else:
    kernels = "gradsim.render.antialias.kernels"
    fragment_kernels = "gradsim.render.raster.fragment_kernels"

BORDERS = ("Border", "border", "is_outline")
WAYS = ("LEFT", "RIGHT", "ABOVE", "BELOW", "NEAR_SIDE", "row_of", "column_of")


@dataclass(frozen=True)
class Antialiased:
    """Unbiased rasterizer: exact coverage outside, divided pixels inside.

    Args:
        cull: Faces to leave out of the colors, by their visible side: "none", "back" or "front". Coverage counts all.
    """

    cull: str = "none"

    name: ClassVar[str] = "aa"

    def alpha(self, view: View) -> Tensor:
        """Coverage (images, height, width)."""
        return _covered(view)

    def passes(self, view: View, color_source: ColorSource, background: Tensor) -> Passes | None:
        """Launches that are all of `draw` for images of this kind, see there; None where it has more to do."""
        colors = None if _is_divided(view, color_source.flat) else color_source.by_vertex
        return None if colors is None else convex.passes(view, colors, background, self.cull)

    def draw(self, view: View, color_source: ColorSource, background: Tensor) -> tuple[Tensor, Tensor]:
        """Color (images, 3, height, width) over the background, and alpha (images, height, width).

        Args:
            view: Triangles of all images.
            color_source: Colors of fragments.
            background: (1 or images, 3, height or 1, width or 1).
        """
        colors = None if _is_divided(view, color_source.flat) else color_source.by_vertex
        images = None if colors is None else convex.draw(view, colors, background, self.cull)
        if images is not None:
            return images
        alpha, key = self.alpha(view), nearest(view, self.cull)
        add_touched(view, key, alpha, self.cull)
        if colors is not None and not view.reaches_behind:
            return paint(view, key, colors, alpha, background), alpha
        fragments = Fragments.of(view, key)
        colors = divide_pixels(fragments, color_source.at(fragments), alpha, color_source.flat)
        return composite(fragments, colors, alpha, background), alpha


def _covered(view: View) -> Tensor:
    """Coverage by all parts together (images, height, width)."""
    if not len(view.faces):
        return view.clip.new_zeros(len(view.clip), view.height, view.width)
    size = view.height, view.width
    if not view.reaches_behind:
        return coverage(view.pixels[None], view.faces, *size, not _may_hide(view))[0]
    cut = cut_near(view.clip, view.faces, view.near)
    tables = cut.faces.expand(len(view.clip), *cut.faces.shape[-2:])
    tables = [faces[faces[:, 0] >= 0] for faces in tables]
    pairs = zip(cut.screen[:, None, None, :, :2], tables, strict=True)
    return torch.cat([coverage(screen, faces, *size, convex=False) for screen, faces in pairs])[:, 0]


def _may_hide(view: View) -> bool:
    """True if one face may be before another one that shows its outer side."""
    return not (len(view.parts) == 1 and view.parts[0].convex)


def _is_divided(view: View, flat: Tensor | None) -> bool:
    """True if an edge may divide pixels."""
    return len(view.faces) > 0 and (_may_hide(view) or flat is not None)


def divide_pixels(fragments: Fragments, colors: Tensor, alpha: Tensor, flat: Tensor | None = None) -> Tensor:
    """Divide pixels at edges: colors (P, channels) of fragments, mixed with those of their neighbours.

    Args:
        fragments: Fragments of the nearest triangles.
        colors: Colors of the fragments (P, channels).
        alpha: Coverage of each pixel (images, height, width).
        flat: True for flat-shaded faces (m,); None if there are none.
    """
    view = fragments.view
    if not _is_divided(view, flat):
        return colors
    hidden, edges = _may_hide(view), outlines(view)
    if flat is not None:
        shares = _shares(fragments, edges, creases(view, edges[0], flat))
        colors = mix(colors, shares, torch.ones_like(alpha), fragments.owner, fragments.rows)
    if hidden:
        shares = _shares(fragments, edges, torch.nn.functional.pad(edges[2], (0, 1)))
        colors = mix(colors, shares, alpha, fragments.owner, fragments.rows)
    return colors


def _shares(fragments: Fragments, edges: tuple[Tensor, Tensor, Tensor, Tensor], listed: Tensor) -> Tensor:
    """Shares of the four neighbours in each fragment (P, 5) for the listed edges; see `divide` of `kernels.py`."""
    view = fragments.view
    near = torch.tensor([view.near], dtype=torch.float64, device=listed.device)
    mesh = view.faces, view.part_of.int(), *edges[:2], listed, *edges[2:]
    pixels = fragments.owner, fragments.side, fragments.rows, near
    # occlusion between edges is decided in double precision, as for coverage
    return _divide(view.clip.double(), *mesh, *pixels)[0]


def _arguments(code: ModuleType, inputs: Sequence[Tensor]) -> list:
    mesh = code.Corner, wp.vec3i, wp.int32, wp.vec4i, wp.int32, wp.vec3i, wp.vec2i, wp.int32
    return arrays((*mesh, wp.vec4i, wp.int32, wp.int32, code.Scalar), inputs)


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    bound = functions(dtype, "cell", "in_row", "in_column")
    bound |= members(specialize(fragment_kernels, lane_of(dtype)), "behind", "flat_adjoint")
    bound |= members(edge_code(dtype), *BORDERS) | members(mix_code(dtype), *WAYS)
    return specialize(kernels, lane_of(dtype), **bound)


_divide = operation(
    KernelProgram(
        "divide",
        code=_code,
        arguments=_arguments,
        threads=lambda inputs: len(inputs[5]),
        output=lambda inputs: inputs[0].new_zeros(len(inputs[8]), 5),
        gradients=lambda inputs, _: [torch.zeros_like(inputs[0])],
        elements=("Scalar", "Corner"),
    )
)
