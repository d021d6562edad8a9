"""Pictures without bias: exact coverage of pixels, and blended edges inside.

The share of a pixel that bodies cover is exact (`coverage.py`), with exact derivatives, for closed and open meshes,
several bodies, whatever hides what. Inside, the nearest triangle at each centre gives the colour, and where an edge of
one thing lies before another, pixels on both sides are blended by where it crosses between their centres; its
derivatives are good to 4–10 %. Lines where bodies intersect are not blended and have no derivative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import ClassVar

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation
from gradsim.render.beside import add_touched
from gradsim.render.compose import compose
from gradsim.render.coverage import coverage, mesh_of
from gradsim.render.fragments import Fragments
from gradsim.render.paint import Paint
from gradsim.render.view import View
from gradsim.render.zbuffer import nearest


@dataclass(frozen=True)
class Antialiased:
    """Exact coverage outside, blended edges inside.

    Args:
        cull: Faces to leave out of the colours, by the side they show: "none", "back" or "front". Coverage counts all.
    """

    cull: str = "none"

    name: ClassVar[str] = "aa"

    def alpha(self, view: View) -> Tensor:
        """Share of every pixel that is covered (images, height, width)."""
        return _covered(view)

    def draw(self, view: View, paint: Paint, background: Tensor) -> tuple[Tensor, Tensor]:
        """Colours (images, 3, height, width) over the background, and alpha (images, height, width).

        Args:
            view: What is seen.
            paint: Its colours.
            background: (1 or images, 3, height or 1, width or 1).
        """
        alpha, key = self.alpha(view), nearest(view, self.cull)
        add_touched(view, key, alpha, self.cull)
        fragments = Fragments.of(view, key)
        colours = blended(fragments, paint.at(fragments))
        return compose(fragments, colours, alpha, background), alpha


def _covered(view: View) -> Tensor:
    """Coverage by all parts together (images, height, width)."""
    if not len(view.faces):
        return view.clip.new_zeros(len(view.clip), view.height, view.width)
    convex = len(view.parts) == 1 and view.parts[0].convex
    return coverage(view.screen[:, None, :, :2], view.faces, view.height, view.width, convex)[:, 0]


def blended(fragments: Fragments, colours: Tensor) -> Tensor:
    """Colours (P, channels) of fragments with neighbours blended across edges that lie before something else."""
    edges = wp.to_torch(mesh_of(fragments.view.faces)[1])
    view, near = fragments.view, colours.new_tensor([fragments.view.near])
    own = fragments.rows, fragments.place.detach(), fragments.side
    return _blend(view.screen, colours, edges, view.is_front, *own, near)[0]


class _Blend:
    """A program from screen, colours, edges, fronts, rows, places, sides and near plane to blended colours."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[1].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        screen, colours, edges = inputs[:3]
        code, smoothed = _code(screen.dtype), colours.clone()
        args = [*self._given(code, inputs), array(code.Scalar, smoothed)]
        replay(code.smooth, len(screen) * len(edges), args, str(screen.device))
        return [smoothed]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        screen, _, edges = inputs[:3]
        code = _code(screen.dtype)
        by_screen, by_colours = torch.zeros_like(screen), adjoints[0].clone()
        results = array(code.Scalar, adjoints[0]), array(code.Corner, by_screen), array(code.Scalar, by_colours)
        replay(
            code.smooth_adjoint, len(screen) * len(edges), [*self._given(code, inputs), *results], str(screen.device)
        )
        return [by_screen, by_colours, *[None] * (len(inputs) - 2)]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list[wp.array]:
        types = (code.Corner, code.Scalar, wp.vec4i, wp.bool, wp.int32, code.Place, wp.int32, code.Scalar)
        return [array(dtype, x) for dtype, x in zip(types, inputs, strict=True)]


_blend = operation(_Blend())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    jump = specialise("gradsim.render.coverage_kernels", lane_of(dtype)).jump
    return specialise("gradsim.render.antialiased_kernels", lane_of(dtype), jump=jump)
