"""Pixels and the triangles that they show, with derivatives of where on them.

Which triangle a pixel shows is decided before, and has no derivative; where on it the pixel falls has
(`fragments_kernels.py`). Shading then works on the list of fragments alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation
from gradsim.render.raster.interpolate import blend
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.raster import fragment_kernels
else:
    fragment_kernels = "gradsim.render.raster.fragment_kernels"

INSIDE = 3  # the side of a fragment whose centre its triangle covers


@dataclass(frozen=True, eq=False)
class Fragments:
    """Pixels and what they show.

    Args:
        view: What was rasterised.
        owner: Image, face, column and row of each fragment (P, 4), int32.
        side: `INSIDE`, or which edge of its triangle the centre of the pixel lies beside (P,), int32.
        rows: Number of the fragment at each pixel (images, height, width), int32; -1: none.
        place: Barycentrics b_0, b_1, b_2 on the triangle in space, and depth z [m], (P, 4); differentiable by
            `view.clip`.
    """

    view: View
    owner: Tensor
    side: Tensor
    rows: Tensor
    place: Tensor

    @classmethod
    def of(cls, view: View, key: Tensor) -> "Fragments":
        """From the table of a rasteriser (images, height, width), int64 (`zbuffer_kernels.py`)."""
        code = _code(view.clip.dtype)
        images, height, width = key.shape
        last = (key > 0).sum(-1, dtype=torch.int32).view(-1).cumsum(0, dtype=torch.int32)
        count = int(last[-1]) if len(last) else 0
        first = torch.nn.functional.pad(last[:-1], (1, 0))
        owner = torch.empty(count, 4, dtype=torch.int32, device=key.device)
        side = torch.empty(count, dtype=torch.int32, device=key.device)
        rows = torch.empty(key.shape, dtype=torch.int32, device=key.device)
        given = [array(wp.int64, key.view(-1, width)), height, array(wp.int32, first)]
        out = [array(wp.vec4i, owner), array(wp.int32, side), array(wp.int32, rows.view(-1, width))]
        replay(code.unpack, images * height, [*given, *out], str(key.device))
        return cls(view, owner, side, rows, _locate(view.clip, view.faces, owner, side)[0])

    @property
    def image(self) -> Tensor:
        """Image of each fragment (P,), int64."""
        return self.owner[:, 0].long()

    @property
    def face(self) -> Tensor:
        """Its triangle (P,), int64."""
        return self.owner[:, 1].long()

    @cached_property
    def part(self) -> Tensor:
        """Part of each fragment (P,)."""
        return self.view.part_of[self.face]

    @cached_property
    def is_front(self) -> Tensor:
        """Whether a fragment shows the outer side of its triangle (P,)."""
        return self.view.is_front[self.image, self.face]

    def take(self, some: Tensor) -> "Fragments":
        """Some of the fragments, by number; not to be put onto a picture."""
        own = self.owner[some], self.side[some], self.rows, self.place[some]
        return Fragments(self.view, *own)

    def interpolate(self, values: Tensor, table: Tensor | None = None) -> Tensor:
        """Values of vertices at the fragments (P, channels), perspective-correct and differentiable.

        Args:
            values: (images, n, channels), or (1, n, channels) for all images.
            table: Which entries of `values` the corners of each face have (m, 3); by default its vertices.
        """
        table = self.view.faces if table is None else table.to(self.owner.device, torch.int32)
        return blend(self.place, values.to(self.place), table, self.owner)

    def onto(self, values: Tensor, elsewhere: float) -> Tensor:
        """(images, height, width, channels) of values (P, channels), and a number where there is no fragment."""
        image, column, row = self.owner[:, 0].long(), self.owner[:, 2], self.owner[:, 3]
        index = (image * self.view.height + row) * self.view.width + column
        whole = values.new_full((self.rows.numel(), values.shape[1]), elsewhere)
        return whole.index_copy(0, index, values).view(*self.rows.shape, values.shape[1])


class _Locate:
    """A program from homogeneous pixels, faces, and owners and sides of fragments to their places."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(len(inputs[2]), 4)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        clip, _, owner, _ = inputs
        code = _code(clip.dtype)
        place = clip.new_empty(len(owner), 4)
        replay(code.locate, len(owner), [*self._given(code, inputs), array(code.Place, place)], str(clip.device))
        return [place]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        clip = inputs[0]
        code = _code(clip.dtype)
        adjoint = torch.zeros_like(clip)
        args = [*self._given(code, inputs), array(code.Place, adjoints[0]), array(code.Corner, adjoint)]
        replay(code.locate_adjoint, len(inputs[2]), args, str(clip.device))
        return [adjoint, *[None] * (len(inputs) - 1)]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        return arrays((code.Corner, wp.vec3i, wp.vec4i, wp.int32), inputs)


_locate = operation(_Locate())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(fragment_kernels, lane_of(dtype))
