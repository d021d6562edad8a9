"""Interpolation of vertex values at fragments."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor
from torch.nn.functional import pad

from gradsim.engine.kernel_program import KernelProgram
from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array
from gradsim.engine.operation import operation

if TYPE_CHECKING:
    from gradsim.render.raster import interpolate_kernels
else:
    interpolate_kernels = "gradsim.render.raster.interpolate_kernels"


def interpolate(place: Tensor, values: Tensor, table: Tensor, owner: Tensor) -> Tensor:
    """Interpolate values by the barycentrics of fragments (P, channels), differentiable by both.

    Args:
        place: See `Fragments`, (P, 4).
        values: (images or 1, entries, channels).
        table: Entries at the corners of each face (m, 3), int32.
        owner: See `Fragments`, (P, 4), int32.
    """
    return _interpolate(place, by_threes(values), table, owner)[0][:, : values.shape[-1]]


def by_threes(channels: Tensor) -> Tensor:
    """Pad values (..., channels) with zeros to a multiple of 3 channels."""
    return pad(channels, (0, -channels.shape[-1] % 3)) if channels.shape[-1] % 3 else channels


def _arguments(code: ModuleType, inputs: Sequence[Tensor]) -> list:
    place, values, table, owner = inputs
    groups = values.shape[-1] // 3
    page = 0 if len(values) == 1 else values.shape[1] * groups
    numbers = [array(code.Three, values.view(-1, 3)), page, groups]
    return [array(code.Place, place), *numbers, array(wp.vec3i, table), array(wp.vec4i, owner)]


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(interpolate_kernels, lane_of(dtype))


_THREES = ("Three", (-1, 3))
_interpolate = operation(
    KernelProgram(
        "interpolate",
        code=_code,
        arguments=_arguments,
        threads=lambda inputs: len(inputs[0]),
        output=lambda inputs: inputs[0].new_empty(len(inputs[0]), inputs[1].shape[-1]),
        gradients=lambda inputs, _: [torch.empty_like(inputs[0]), torch.zeros_like(inputs[1])],
        elements=(_THREES, "Place", _THREES),
    )
)
