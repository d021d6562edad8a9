"""Pictures without bias: exact coverage of pixels, and exact shares along edges inside.

The share of a pixel that bodies cover is exact (`coverage.py`), with exact derivatives, for closed and open meshes,
several bodies, whatever hides what. Inside, the nearest triangle at each centre gives the colour, and pixels that an
edge of one thing before another crosses are divided between both by area (`antialiased_kernels.py`), and so are those
that a crease of a flat-shaded body crosses, over which its shade jumps. That is exact where
one outline crosses a pixel; where several meet, and where things are thinner than a pixel, it is not: a ball before
another, or on the ground, appears up to 0.01 px off. Lines where bodies intersect are not divided and have no derivative.
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
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation
from gradsim.render.beside import add_touched
from gradsim.render.compose import compose
from gradsim.render.coverage import coverage, mesh_of
from gradsim.render.fragments import Fragments
from gradsim.render.lights import unit
from gradsim.render.near import cut_near
from gradsim.render.paint import Painter
from gradsim.render.view import View
from gradsim.render.zbuffer import nearest

STRAIGHT = 1 - 1e-6  # cosine of the angle between faces, from which on they are one plane


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
    borders = outlines(view)
    if flat is not None:
        shares = _shares(fragments, borders, creases(view, borders[0], flat))
        colours = _mix(colours, shares.to(colours), torch.ones_like(alpha), fragments.owner, fragments.rows)[0]
    if hidden:
        shares = _shares(fragments, borders, torch.nn.functional.pad(borders[2], (0, 1)))
        colours = _mix(colours, shares.to(colours), alpha, fragments.owner, fragments.rows)[0]
    return colours


def _shares(fragments: Fragments, borders: tuple[Tensor, Tensor, Tensor, Tensor], listed: Tensor) -> Tensor:
    """Of the four neighbours in each fragment (P, 5), by some edges; see `divide` of `antialiased_kernels.py`."""
    view = fragments.view
    near = torch.tensor([view.near], dtype=torch.float64, device=listed.device)
    given = view.faces, view.part_of.int(), *borders[:2], listed, *borders[2:]
    pixels = fragments.owner, fragments.side, fragments.rows, near
    # which edges hide one another is asked in double precision, as for coverage
    return _divide(view.clip.double(), *given, *pixels)[0]


def creases(view: View, edges: Tensor, flat: Tensor) -> Tensor:
    """Edges between two flat faces that are turned to the same side, but not the same way: (k, 3), int32.

    Args:
        view: What is seen.
        edges: See `outlines`.
        flat: Faces (m,).

    Returns:
        Image, edge, and 1 if the faces show their outer sides, else -1, for each.
    """
    face, back = edges[:, 2].long(), edges[:, 3].long()
    inner = (face >= 0) & (back >= 0) & flat[face] & flat[back]
    a, b, c = view.points.detach()[:, view.faces.long()].unbind(2)
    normals = unit(torch.linalg.cross(b - a, c - a))
    bent = (normals[:, face] * normals[:, back]).sum(-1) < STRAIGHT
    front = view.is_front
    seen = front[:, face] if view.is_solid else torch.ones_like(bent)
    found = (inner & bent & seen & (front[:, face] == front[:, back])).nonzero()
    turned = torch.where(front[found[:, 0], face[found[:, 1]]], 1, -1)
    return torch.cat([found, turned[:, None]], 1).int()


def outlines(view: View) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Edges over which layers change.

    Returns:
        All edges (e, 4); by how much layers change over them (images, e); image and edge of those where they do (k, 2);
        where those of each image begin, and the end (images + 1). All int32.
    """
    edges, code = wp.to_torch(mesh_of(view.faces)[1]), _code(torch.float64)
    turn = torch.empty(len(view.clip), len(edges), dtype=torch.int32, device=view.clip.device)
    args = [array(wp.vec4i, edges), array(wp.bool, view.is_front), array(wp.int32, turn)]
    replay(code.turns, turn.numel(), args, str(turn.device))
    found = turn.nonzero()
    begin = torch.searchsorted(found[:, 0].contiguous(), torch.arange(len(turn) + 1, device=turn.device))
    return edges, turn, found.int(), begin.int()


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
        types = (*mesh, wp.vec4i, wp.int32, wp.int32, code.Scalar)
        return arrays(types, inputs)


class _Mix:
    """A program from colours, shares of neighbours, alpha, and owners and rows of fragments to mixed colours."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        colours = inputs[0]
        code, mixed = _code(colours.dtype), colours.clone()
        replay(code.mix, len(colours), [*self._given(code, inputs), array(code.Scalar, mixed)], str(colours.device))
        return [mixed]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        colours, shares, alpha, _, _ = inputs
        code = _code(colours.dtype)
        results = adjoints[0].clone(), torch.zeros_like(shares), torch.zeros_like(alpha)
        args = [*self._given(code, inputs), *(array(code.Scalar, x) for x in (adjoints[0], *results))]
        replay(code.mix_adjoint, len(colours), args, str(colours.device))
        return [*results, None, None]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        types = code.Scalar, code.Scalar, code.Scalar, wp.vec4i, wp.int32
        return arrays(types, inputs)


_divide, _mix = operation(_Divide()), operation(_Mix())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    """Edges as in `coverage_kernels.py`."""
    code = specialise("gradsim.render.coverage_kernels", lane_of(dtype))
    names = "Edge", "jump", "straight", "cell", "in_row", "in_column"
    bound = {name: getattr(code, name) for name in names}
    cut = specialise("gradsim.render.fragments_kernels", lane_of(dtype))
    bound |= {"behind": cut.behind, "flat_adjoint": cut.flat_adjoint}
    return specialise("gradsim.render.antialiased_kernels", lane_of(dtype), **bound)
