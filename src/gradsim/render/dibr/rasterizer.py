"""DIB-R: interpolated colours where a triangle is seen, soft alpha beside it (Chen et al. 2019).

Colours of a covered pixel have derivatives by vertices, colours, texture and texture coordinates, but none by which
triangle is seen; the borders of bodies are seen by alpha alone, in pixels that are not covered.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation
from gradsim.errors import InputError
from gradsim.render.near_clipping import cut_near
from gradsim.render.raster.composite import compose
from gradsim.render.raster.zbuffer import CULL, nearest, rasterise
from gradsim.render.shading.surface_color import Painter
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.dibr import kernels
    from gradsim.render.raster import triangle_kernels
else:
    kernels = "gradsim.render.dibr.kernels"
    triangle_kernels = "gradsim.render.raster.triangle_kernels"


@dataclass(frozen=True)
class DibR:
    """The rasteriser of Chen et al. (2019).

    Args:
        blur_px: √δ: at this distance from a triangle a pixel is opaque to 1/e [px]. It makes bodies larger by about
            as much; for positions without bias take `Antialiased`.
        cull: Faces to leave out, by the side they show: "none", "back" or "front".

    Raises:
        ValueError: If the blur is out of range.
    """

    blur_px: float = 1.0
    cull: str = "none"

    name: ClassVar[str] = "dibr"

    def __post_init__(self):
        if not 0 < self.blur_px < math.inf:
            raise InputError(f"blur_px of DibR is {self.blur_px}; it is above 0 px and finite.")

    @classmethod
    def ndc(cls, delta: float, height: int, cull: str = "none") -> "DibR":
        """With the paper's δ, in units where the image is 2 high, for images of a height [px]."""
        return cls(delta**0.5 * height / 2, cull)

    def alpha(self, view: View) -> Tensor:
        """Opacity (images, height, width): 1 at covered pixels, 1 − Π (1 − exp(−d² / δ)) beside triangles."""
        return self._beside(view, nearest(view, self.cull) > 0)

    def draw(self, view: View, paint: Painter, background: Tensor) -> tuple[Tensor, Tensor]:
        """Colours (images, 3, height, width) over the background, and alpha (images, height, width).

        Args:
            view: What is seen.
            paint: Its colours.
            background: (1 or images, 3, height or 1, width or 1).
        """
        fragments = rasterise(view, self.cull)
        covered = fragments.rows >= 0
        picture = compose(fragments, paint.at(fragments), covered.to(view.clip), background)
        return picture, self._beside(view, covered)

    def _beside(self, view: View, covered: Tensor) -> Tensor:
        screen, faces = view.screen, view.faces
        if view.reaches_behind:
            cut = cut_near(view.clip, view.faces, view.near)
            screen, faces = cut.screen, cut.faces.int()
        # half of the near plane's distance: new corners lie on it but for rounding
        numbers = view.clip.new_tensor([self.blur_px**2]), view.clip.new_tensor([view.near / 2])
        cull = torch.tensor([CULL[self.cull]], dtype=torch.int32, device=covered.device)
        clear = _fade(screen, faces if faces.ndim == 3 else faces[None], covered, *numbers, cull)[0]
        return torch.where(covered, 1.0, -torch.expm1(clear))


class _Fade:
    """A program from screen, faces, covered pixels, δ, near plane and culling to log (1 − alpha)."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[2].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        screen, faces, covered = inputs[:3]
        code = _code(screen.dtype)
        clear = torch.zeros_like(covered, dtype=screen.dtype)
        args = [*self._given(code, inputs), array(code.Scalar, clear)]
        replay(code.fade, len(screen) * faces.shape[1], args, str(screen.device))
        return [clear]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        screen, faces = inputs[:2]
        code = _code(screen.dtype)
        adjoint = torch.zeros_like(screen)
        args = [*self._given(code, inputs), array(code.Scalar, adjoints[0]), array(code.Corner, adjoint)]
        replay(code.fade_adjoint, len(screen) * faces.shape[1], args, str(screen.device))
        return [adjoint, *[None] * (len(inputs) - 1)]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        return arrays((code.Corner, wp.vec3i, wp.bool, code.Scalar, code.Scalar, wp.int32), inputs)


_fade = operation(_Fade())


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    near = members(specialize(triangle_kernels, lane_of(dtype)), "reach", "to_border", "centre")
    return specialize(kernels, lane_of(dtype), **near)
