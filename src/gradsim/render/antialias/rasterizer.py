"""Pictures without bias: exact coverage of pixels, and exact shares along edges inside.

The share of a pixel that bodies cover is exact (`coverage.py`), with exact derivatives, for closed and open meshes,
several bodies, whatever hides what. Inside, the nearest triangle at each centre gives the colour, and pixels that an
edge of one thing before another crosses are divided between both by area (`antialiased_kernels.py`), and so are those
that a crease of a flat-shaded body crosses, over which its shade jumps. That is exact where one outline crosses a pixel;
where several meet, and where things are thinner than a pixel, it is not: a ball before another, or on the ground,
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

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation
from gradsim.render.antialias.passes import add_touched, borders_code, creases, mix, mix_code, outlines
from gradsim.render.coverage.coverage import coverage
from gradsim.render.coverage.edges import functions
from gradsim.render.near_clipping import cut_near
from gradsim.render.raster.composite import compose
from gradsim.render.raster.fragments import Fragments
from gradsim.render.raster.zbuffer import nearest
from gradsim.render.shading.surface_color import Painter
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
    """Exact coverage outside, divided pixels inside.

    Args:
        cull: Faces to leave out of the colours, by the side they show: "none", "back" or "front". Coverage counts all.
    """

    cull: str = "none"

    name: ClassVar[str] = "aa"

    def alpha(self, view: View) -> Tensor:
        """Share of every pixel that is covered (images, height, width)."""
        return _covered(view)

    def draw(self, view: View, paint: Painter, background: Tensor) -> tuple[Tensor, Tensor]:
        """Colours (images, 3, height, width) over the background, and alpha (images, height, width).

        Args:
            view: What is seen.
            paint: Its colours.
            background: (1 or images, 3, height or 1, width or 1).
        """
        alpha, key = self.alpha(view), nearest(view, self.cull)
        add_touched(view, key, alpha, self.cull)
        fragments = Fragments.of(view, key)
        colours = divided(fragments, paint.at(fragments), alpha, paint.flat)
        return compose(fragments, colours, alpha, background), alpha


def _covered(view: View) -> Tensor:
    """Coverage by all parts together (images, height, width)."""
    if not len(view.faces):
        return view.clip.new_zeros(len(view.clip), view.height, view.width)
    size = view.height, view.width
    if not view.reaches_behind:
        convex = len(view.parts) == 1 and view.parts[0].convex
        return coverage(view.screen[:, None, :, :2], view.faces, *size, convex)[:, 0]
    cut = cut_near(view.clip, view.faces, view.near)
    tables = cut.faces.expand(len(view.clip), *cut.faces.shape[-2:])
    tables = [faces[faces[:, 0] >= 0] for faces in tables]
    pairs = zip(cut.screen[:, None, None, :, :2], tables, strict=True)
    return torch.cat([coverage(screen, faces, *size, convex=False) for screen, faces in pairs])[:, 0]


def divided(fragments: Fragments, colours: Tensor, alpha: Tensor, flat: Tensor | None = None) -> Tensor:
    """Colours (P, channels) of fragments, those of pixels with an edge before something else mixed with a neighbour's.

    Args:
        fragments: Of the nearest triangles.
        colours: Of the fragments (P, channels).
        alpha: Share of every pixel that is covered (images, height, width).
        flat: Faces (m,) whose shade jumps at their edges; None: no face's does.
    """
    view = fragments.view
    hidden = not (len(view.parts) == 1 and view.parts[0].convex)  # whether something lies behind an edge
    if not len(view.faces) or not (hidden or flat is not None):
        return colours
    edges = outlines(view)
    if flat is not None:
        shares = _shares(fragments, edges, creases(view, edges[0], flat))
        colours = mix(colours, shares, torch.ones_like(alpha), fragments.owner, fragments.rows)
    if hidden:
        shares = _shares(fragments, edges, torch.nn.functional.pad(edges[2], (0, 1)))
        colours = mix(colours, shares, alpha, fragments.owner, fragments.rows)
    return colours


def _shares(fragments: Fragments, edges: tuple[Tensor, Tensor, Tensor, Tensor], listed: Tensor) -> Tensor:
    """Of the four neighbours in each fragment (P, 5), by some edges; see `divide` of `antialiased_kernels.py`."""
    view = fragments.view
    near = torch.tensor([view.near], dtype=torch.float64, device=listed.device)
    given = view.faces, view.part_of.int(), *edges[:2], listed, *edges[2:]
    pixels = fragments.owner, fragments.side, fragments.rows, near
    # which edges hide one another is asked in double precision, as for coverage
    return _divide(view.clip.double(), *given, *pixels)[0]


class _Divide:
    """A program from clip, faces, their parts, edges, turns, outlines and where those of each image begin,
    owners, sides and rows of fragments, and near plane to shares."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(len(inputs[8]), 5)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        clip, listed = inputs[0], inputs[5]
        code, shares = _code(clip.dtype), clip.new_zeros(self.shapes(inputs)[0])
        replay(code.divide, len(listed), [*self._given(code, inputs), array(code.Scalar, shares)], str(clip.device))
        return [shares]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        clip, listed = inputs[0], inputs[5]
        code, adjoint = _code(clip.dtype), torch.zeros_like(clip)
        args = [*self._given(code, inputs), array(code.Scalar, adjoints[0]), array(code.Corner, adjoint)]
        replay(code.divide_adjoint, len(listed), args, str(clip.device))
        return [adjoint, *[None] * (len(inputs) - 1)]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        mesh = code.Corner, wp.vec3i, wp.int32, wp.vec4i, wp.int32, wp.vec3i, wp.vec2i, wp.int32
        return arrays((*mesh, wp.vec4i, wp.int32, wp.int32, code.Scalar), inputs)


_divide = operation(_Divide())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    bound = functions(dtype, "cell", "in_row", "in_column")
    bound |= members(specialize(fragment_kernels, lane_of(dtype)), "behind", "flat_adjoint")
    bound |= members(borders_code(dtype), *BORDERS) | members(mix_code(dtype), *WAYS)
    return specialize(kernels, lane_of(dtype), **bound)
