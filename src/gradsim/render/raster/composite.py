"""Alpha compositing of fragments over a background."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.kernel_program import KernelProgram
from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array
from gradsim.engine.operation import may_be_differentiated, operation
from gradsim.render.raster.fragments import Fragments
from gradsim.render.raster.interpolate import by_threes

if TYPE_CHECKING:
    from gradsim.render.raster import composite_kernels
else:
    composite_kernels = "gradsim.render.raster.composite_kernels"


def composite(fragments: Fragments, colors: Tensor, alpha: Tensor, background: Tensor) -> Tensor:
    """Image (images, channels, height, width): alpha · color + (1 − alpha) · background.

    Args:
        fragments: At most one fragment for each pixel.
        colors: Colors of the fragments (P, channels).
        alpha: (images, height, width); ignored in pixels without a fragment.
        background: (images or 1, channels, height or 1, width or 1).
    """
    # not detached, although the operation has no derivative by it: a second one has to raise, and so has a tangent
    image = _composite(by_threes(colors), alpha, fragments.owner, background)[0]
    if may_be_differentiated(background):
        clear = 1 - torch.where(fragments.rows >= 0, alpha, 0.0)[:, None]
        image = image + clear * (background - background.detach())  # 0, with the background's derivative
    return image


def _arguments(code: ModuleType, inputs: Sequence[Tensor]) -> list:
    colors, alpha, owner, background = inputs
    numbers = [array(code.Three, colors.view(-1, 3)), colors.shape[1] // 3, background.shape[1]]
    return [*numbers, array(code.Scalar, alpha), array(wp.vec4i, owner), array(code.Scalar, background)]


def _background(inputs: Sequence[Tensor]) -> Tensor:
    """The image without fragments (images, channels, height, width)."""
    alpha, background = inputs[1], inputs[3]
    shape = len(alpha), background.shape[1], *alpha.shape[1:]
    return background.expand(shape).clone(memory_format=torch.contiguous_format)


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(composite_kernels, lane_of(dtype))


_composite = operation(
    KernelProgram(
        "composite",
        code=_code,
        arguments=_arguments,
        threads=lambda inputs: len(inputs[2]),
        output=_background,
        gradients=lambda inputs, _: [torch.empty_like(inputs[0]), torch.zeros_like(inputs[1])],
        elements=(("Scalar", (-1,)), ("Three", (-1, 3)), "Scalar"),
    )
)
