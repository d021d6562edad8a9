"""Pixels and the triangles that they show, with derivatives of where on them.

Which triangle a pixel shows is decided before, and has no derivative; where on it the pixel falls has
(`fragments_kernels.py`). Shading then works on the list of fragments alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

import torch
import warp as wp
from torch import Tensor
from torch.nn.functional import pad

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation
from gradsim.render.view import View

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
        channels = values.shape[-1]
        return _blend(self.place, by_threes(values.to(self.place)), table, self.owner)[0][:, :channels]

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
        types = (code.Corner, wp.vec3i, wp.vec4i, wp.int32)
        return arrays(types, inputs)


class _Blend:
    """A program from places, values, their table, and owners of fragments to values at the fragments.

    Channels come in threes.
    """

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(len(inputs[0]), inputs[1].shape[-1])]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        place, values = inputs[:2]
        code = _code(place.dtype)
        mixed = place.new_empty(len(place), values.shape[-1])
        args = [*self._given(code, inputs), array(code.Three, mixed.view(-1, 3))]
        replay(code.blend, len(place), args, str(place.device))
        return [mixed]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        place, values = inputs[:2]
        code = _code(place.dtype)
        by_place, by_values = torch.empty_like(place), torch.zeros_like(values)
        by_mixed, to_values = (array(code.Three, x.view(-1, 3)) for x in (adjoints[0], by_values))
        args = [*self._given(code, inputs), by_mixed, array(code.Place, by_place), to_values]
        replay(code.blend_adjoint, len(place), args, str(place.device))
        return [by_place, by_values, *[None] * (len(inputs) - 2)]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        place, values, table, owner = inputs
        groups = values.shape[-1] // 3
        page = 0 if len(values) == 1 else values.shape[1] * groups
        shape = [array(code.Three, values.view(-1, 3)), page, groups]
        return [array(code.Place, place), *shape, array(wp.vec3i, table), array(wp.vec4i, owner)]


def by_threes(channels: Tensor) -> Tensor:
    """Values (..., channels) with zeros added until channels are a multiple of 3."""
    return pad(channels, (0, -channels.shape[-1] % 3)) if channels.shape[-1] % 3 else channels


_locate, _blend = operation(_Locate()), operation(_Blend())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialise("gradsim.render.fragments_kernels", lane_of(dtype))
