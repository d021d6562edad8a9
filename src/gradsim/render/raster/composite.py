"""Fragments onto a background, by their share of each pixel."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation
from gradsim.render.raster.fragments import Fragments
from gradsim.render.raster.interpolate import by_threes

if TYPE_CHECKING:
    from gradsim.render.raster import composite_kernels
else:
    composite_kernels = "gradsim.render.raster.composite_kernels"


def compose(fragments: Fragments, colours: Tensor, alpha: Tensor, background: Tensor) -> Tensor:
    """A picture (images, channels, height, width): alpha · colour + (1 − alpha) · background.

    Args:
        fragments: The pixels that are not background alone, at most one fragment each.
        colours: Of the fragments (P, channels).
        alpha: (images, height, width); counts where there is a fragment.
        background: (images or 1, channels, height or 1, width or 1).
    """
    picture = _compose(by_threes(colours), alpha, fragments.owner, background.detach())[0]
    if background.requires_grad:
        clear = 1 - torch.where(fragments.rows >= 0, alpha.detach(), 0.0)[:, None]
        picture = picture + clear * (background - background.detach())  # 0, with the background's derivative
    return picture


class _Compose:
    """A program from colours, alpha, owners and background to the picture; channels of colours come in threes."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        alpha, background = inputs[1], inputs[3]
        return [(len(alpha), background.shape[1], *alpha.shape[1:])]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        colours, _, owner, background = inputs
        code = _code(colours.dtype)
        picture = background.expand(self.shapes(inputs)[0]).clone(memory_format=torch.contiguous_format)
        args = [*self._given(code, inputs), array(code.Scalar, picture.view(-1))]
        replay(code.compose, len(owner), args, str(colours.device))
        return [picture]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        colours, alpha, owner, background = inputs
        code = _code(colours.dtype)
        by_colours, by_alpha = torch.empty_like(colours), torch.zeros_like(alpha)
        given = [*self._given(code, inputs), array(code.Scalar, background), array(code.Scalar, adjoints[0].view(-1))]
        args = [*given, array(code.Three, by_colours.view(-1, 3)), array(code.Scalar, by_alpha)]
        replay(code.compose_adjoint, len(owner), args, str(colours.device))
        return [by_colours, by_alpha, None, None]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        colours, alpha, owner, background = inputs
        shape = [array(code.Three, colours.view(-1, 3)), colours.shape[1] // 3, background.shape[1]]
        return [*shape, array(code.Scalar, alpha), array(wp.vec4i, owner)]


_compose = operation(_Compose())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(composite_kernels, lane_of(dtype))
