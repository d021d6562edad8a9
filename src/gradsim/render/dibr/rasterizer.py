"""DIB-R: interpolated colors of visible triangles, soft alpha around them (Chen et al. 2019).

Colors of covered pixels are differentiable by vertices, colors, texture and uv, but not through visibility; outlines have
derivatives through alpha alone, in pixels that are not covered.
"""

import math
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.kernel_program import KernelProgram
from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import arrays
from gradsim.engine.operation import operation
from gradsim.errors import InputError
from gradsim.render.near_clipping import cut_near
from gradsim.render.raster.composite import composite
from gradsim.render.raster.zbuffer import CULL, nearest, rasterize
from gradsim.render.shading.surface_color import ColorSource
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.dibr import kernels
    from gradsim.render.raster import triangle_kernels
else:
    kernels = "gradsim.render.dibr.kernels"
    triangle_kernels = "gradsim.render.raster.triangle_kernels"


@dataclass(frozen=True)
class DibR:
    """Rasterizer of Chen et al. (2019).

    Args:
        blur_px: √δ [px], the distance from a triangle at which alpha is 1/e. Bodies appear larger by about as much; for
            unbiased positions use `Antialiased`.
        cull: Faces to leave out, by their visible side: "none", "back" or "front".

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
        """Convert the paper's δ, in units of half the image height, for images of `height` [px]."""
        return cls(delta**0.5 * height / 2, cull)

    def alpha(self, view: View) -> Tensor:
        """Opacity (images, height, width): 1 at covered pixels, 1 − Π (1 − exp(−d² / δ)) elsewhere."""
        return self._soft_alpha(view, nearest(view, self.cull) > 0)

    def draw(self, view: View, color_source: ColorSource, background: Tensor) -> tuple[Tensor, Tensor]:
        """Color (images, 3, height, width) over the background, and alpha (images, height, width).

        Args:
            view: Triangles of all images.
            color_source: Colors of fragments.
            background: (1 or images, 3, height or 1, width or 1).
        """
        fragments = rasterize(view, self.cull)
        covered = fragments.rows >= 0
        image = composite(fragments, color_source.at(fragments), covered.to(view.clip), background)
        return image, self._soft_alpha(view, covered)

    def _soft_alpha(self, view: View, covered: Tensor) -> Tensor:
        screen, faces = view.screen, view.faces
        if view.reaches_behind:
            cut = cut_near(view.clip, view.faces, view.near)
            screen, faces = cut.screen, cut.faces.int()
        # half of the near distance: new corners lie on the plane up to rounding
        numbers = view.clip.new_tensor([self.blur_px**2]), view.clip.new_tensor([view.near / 2])
        cull = torch.tensor([CULL[self.cull]], dtype=torch.int32, device=covered.device)
        clear = _fade(screen, faces if faces.ndim == 3 else faces[None], covered, *numbers, cull)[0]
        return torch.where(covered, 1.0, -torch.expm1(clear))


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    near = members(specialize(triangle_kernels, lane_of(dtype)), "reach", "to_border", "centre")
    return specialize(kernels, lane_of(dtype), **near)


_fade = operation(
    KernelProgram(
        "fade",
        code=_code,
        arguments=lambda code, inputs: arrays((code.Corner, wp.vec3i, wp.bool, *[code.Scalar] * 2, wp.int32), inputs),
        threads=lambda inputs: len(inputs[0]) * inputs[1].shape[1],
        output=lambda inputs: torch.zeros_like(inputs[2], dtype=inputs[0].dtype),
        gradients=lambda inputs, _: [torch.zeros_like(inputs[0])],
        elements=("Scalar", "Corner"),
    )
)
