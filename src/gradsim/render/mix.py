"""Colours of pixels mixed with those of their neighbours."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation


def mix(colours: Tensor, shares: Tensor, alpha: Tensor, owner: Tensor, rows: Tensor) -> Tensor:
    """Colours (P, channels) of fragments, each with some of its neighbours'; differentiable by the first three.

    Args:
        colours: (P, channels).
        shares: Of the neighbours in each fragment (P, 5), see `antialiased_kernels.py`.
        alpha: Share of every pixel that is covered (images, height, width).
        owner: See `Fragments`, (P, 4).
        rows: See `Fragments`, (images, height, width).
    """
    return _mix(colours, shares.to(colours), alpha, owner, rows)[0]


class _Mix:
    """A program from colours, shares of neighbours, alpha, and owners and rows of fragments to mixed colours."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        colours = inputs[0]
        code, mixed = mix_code(colours.dtype), colours.clone()
        replay(code.mix, len(colours), [*self._given(code, inputs), array(code.Scalar, mixed)], str(colours.device))
        return [mixed]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        colours, shares, alpha, _, _ = inputs
        code = mix_code(colours.dtype)
        results = adjoints[0].clone(), torch.zeros_like(shares), torch.zeros_like(alpha)
        args = [*self._given(code, inputs), *(array(code.Scalar, x) for x in (adjoints[0], *results))]
        replay(code.mix_adjoint, len(colours), args, str(colours.device))
        return [*results, None, None]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        return arrays((code.Scalar, code.Scalar, code.Scalar, wp.vec4i, wp.int32), inputs)


_mix = operation(_Mix())


@cache
def mix_code(dtype: torch.dtype) -> ModuleType:
    """The template `mix_kernels.py`."""
    return specialise("gradsim.render.mix_kernels", lane_of(dtype))
