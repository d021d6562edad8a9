"""Fragments onto a background, by their share of each pixel."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation


def compose(colours: Tensor, alpha: Tensor, background: Tensor, rows: Tensor) -> Tensor:
    """A picture (images, channels, height, width): alpha · colour + (1 − alpha) · background.

    Args:
        colours: Of the fragments (P, channels).
        alpha: (images, height, width); counts where there is a fragment.
        background: (images or 1, channels, height or 1, width or 1).
        rows: Number of the fragment at each pixel (images, height, width), int32; -1: none.
    """
    return _compose(colours, alpha, background, rows)[0]


class _Compose:
    """A program with the arguments of `compose`."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        colours, alpha = inputs[:2]
        return [(len(alpha), colours.shape[1], *alpha.shape[1:])]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        colours, alpha = inputs[:2]
        code = _code(colours.dtype)
        picture = colours.new_empty(self.shapes(inputs)[0])
        args = [*self._given(code, inputs), array(code.Scalar, picture)]
        replay(code.compose, alpha.shape[0] * alpha.shape[1], args, str(colours.device))
        return [picture]

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        colours, alpha, background, rows = inputs
        code = _code(colours.dtype)
        results = torch.empty_like(colours), torch.empty_like(alpha), torch.zeros_like(background)
        args = [*self._given(code, inputs), *(array(code.Scalar, x) for x in (adjoints[0], *results))]
        replay(code.compose_adjoint, alpha.shape[0] * alpha.shape[1], args, str(colours.device))
        return [*results, torch.zeros_like(rows)]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list[wp.array]:
        types = (code.Scalar, code.Scalar, code.Scalar, wp.int32)
        return [array(dtype, x) for dtype, x in zip(types, inputs, strict=True)]


_compose = operation(_Compose())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialise("gradsim.render.compose_kernels", lane_of(dtype))
