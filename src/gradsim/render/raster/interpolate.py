"""Values of vertices where pixels fall on their triangles."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor
from torch.nn.functional import pad

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation

if TYPE_CHECKING:
    from gradsim.render.raster import interpolate_kernels
else:
    interpolate_kernels = "gradsim.render.raster.interpolate_kernels"


def blend(place: Tensor, values: Tensor, table: Tensor, owner: Tensor) -> Tensor:
    """Means of values by the barycentrics of fragments (P, channels), differentiable by both.

    Args:
        place: See `Fragments`, (P, 4).
        values: (images or 1, entries, channels).
        table: Entries at the corners of each face (m, 3), int32.
        owner: See `Fragments`, (P, 4), int32.
    """
    return _blend(place, by_threes(values), table, owner)[0][:, : values.shape[-1]]


def by_threes(channels: Tensor) -> Tensor:
    """Values (..., channels) with zeros added until channels are a multiple of 3."""
    return pad(channels, (0, -channels.shape[-1] % 3)) if channels.shape[-1] % 3 else channels


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


_blend = operation(_Blend())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(interpolate_kernels, lane_of(dtype))
