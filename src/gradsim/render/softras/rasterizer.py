"""SoftRas, the soft rasterizer of Liu et al. (2019): silhouettes and colors that are smooth in every vertex.

Faces are blurred by a sigmoid of the squared distance over σ (`kernels.py`), and mixed by a softmax of their depths over γ
(`color_kernels.py`). Bodies appear larger: by about two pixels at a blur of one, more for finer meshes. For unbiased
positions use coverage; SoftRas reproduces the paper, and has gradients by shape, color and depth of occluded faces.

Two formulas of the original release are wrong and are corrected here: the weight of the background, and the gradient of
texels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.engine.launch import array, replay
from gradsim.engine.operation import operation
from gradsim.errors import InputError
from gradsim.render.near_clipping import cut_near
from gradsim.render.repeated_images import Passes
from gradsim.render.shading.surface_color import ColorSource
from gradsim.render.softras import opacity
from gradsim.render.softras.color import border_code, color
from gradsim.render.softras.faces import MIN_FACE_COVERAGE, blur, check, face_arguments, table
from gradsim.render.view import View

__all__ = ["SoftRas", "color", "silhouette"]


@dataclass(frozen=True)
class SoftRas:
    """SoftRas with the γ, ε, near and far of the paper.

    Args:
        blur_px: √σ [px], the width of the blur.
        gamma: γ, the softness of occlusion, relative to far - near.
        epsilon: ε, the depth score of the background: 0 at `far`, 1 at `near`.
        near: Depth of score 1 [m]. Does not clip.
        far: Depth of score 0 [m].
        cull: Faces to leave out, by their visible side: "none", "back" or "front".

    Raises:
        ValueError: If the blur is out of range.
    """

    blur_px: float = 1.0
    gamma: float = 1e-4
    epsilon: float = 1e-3
    near: float = 1.0
    far: float = 100.0
    cull: str = "none"

    name: ClassVar[str] = "softras"

    def __post_init__(self):
        if not 0 < self.blur_px < math.inf:
            raise InputError(f"blur_px of SoftRas is {self.blur_px}; it is above 0 px and finite.")

    @property
    def sigma(self) -> float:
        """σ [px²]."""
        return self.blur_px**2

    @classmethod
    def ndc(cls, sigma: float, height: int, **others) -> "SoftRas":
        """Convert the paper's σ, in squared units of half the image height: σ_px = σ (height/2)²."""
        return cls(blur_px=math.sqrt(sigma) * height / 2, **others)

    def silhouette(self, screen: Tensor, faces: Tensor, height: int, width: int) -> Tensor:
        """See `silhouette`."""
        return silhouette(screen, faces, height, width, sigma=self.sigma, cull=self.cull)

    def color(self, screen: Tensor, faces: Tensor, height: int, width: int, diffuse: Tensor, specular: Tensor, **options) -> tuple[Tensor, Tensor]:  # fmt: skip
        """See `color`."""
        depth = {"gamma": self.gamma, "epsilon": self.epsilon, "near": self.near, "far": self.far}
        return color(
            screen, faces, height, width, diffuse, specular, sigma=self.sigma, cull=self.cull, **depth, **options
        )

    def alpha(self, view: View) -> Tensor:
        """Opacity (images, height, width), see `silhouette`."""
        alpha = opacity.opacity(view, blur(self.sigma, MIN_FACE_COVERAGE, self.cull))
        if alpha is not None:
            return alpha
        cut = cut_near(view.clip, view.faces, view.near)
        return self.silhouette(cut.screen, cut.faces, view.height, view.width)

    def passes(self, view: View) -> Passes | None:
        """Launches that are all of `alpha` for images of this kind; None where it has more to do."""
        return opacity.passes(view, blur(self.sigma, MIN_FACE_COVERAGE, self.cull))

    def draw(self, view: View, color_source: ColorSource, background: Tensor) -> tuple[Tensor, Tensor]:
        """Color (images, 3, height, width) mixed with the background, and alpha (images, height, width).

        Args:
            view: Triangles of all images.
            color_source: Colors at the corners of faces, where lights are evaluated.
            background: (images or 1, channels, height or 1, width or 1).
        """
        c, size = color_source.corners, (view.height, view.width)
        tables = [(c.diffuse, c.table), (c.specular, c.table)]
        if c.uv is not None and c.uv_table is not None:
            tables.append((c.uv[None], c.uv_table))
        cut = cut_near(view.clip, view.faces, view.near, tables)
        (diffuse, rows), (specular, _), *places = cut.tables
        options = {"uv": places[0][0], "uv_faces": places[0][1], "texture": c.texture} if places else {}
        channels, behind = diffuse.shape[2], background.expand(-1, -1, *size)
        images = []
        for first in range(0, channels, 3):  # three channels at a time, since paint may have others than RGB
            three, missing = slice(first, first + 3), (0, max(0, first + 3 - channels))
            colors = (pad(x[..., three], missing) for x in (diffuse, specular))
            options["background"] = pad(behind[:, three], (0, 0, 0, 0, *missing))
            images.append(self.color(cut.screen, cut.faces, *size, *colors, paint_faces=rows, **options))
        return torch.cat([rgb for rgb, _ in images], 1)[:, :channels], images[0][1]


def silhouette(screen: Tensor, faces: Tensor, height: int, width: int, *, sigma: float, cut: float = MIN_FACE_COVERAGE, cull: str = "none") -> Tensor:  # fmt: skip
    """Soft coverage A of every pixel, (images, height, width) in [0, 1].

        A = 1 - Π (1 - D),   D = sigmoid(± d²/σ)            (Liu et al. 2019, Eqs. 1 and 2)

    Faces without area, or with a corner nearer than 1e-6 m or beyond 1e9 px, are ignored.

    Args:
        screen: Corners on the screen (images, n, 3): x to the right and y down [px], with pixel centres at +0.5, and
            depth [m], in front of the camera. Differentiable.
        faces: Triangles (m, 3) of all images, or (images, m, 3); rows with a negative number are ignored.
        height: Rows of the images.
        width: Columns.
        sigma: σ [px²].
        cut: D below which a face is ignored.
        cull: See `SoftRas`.

    Raises:
        ValueError: If a shape does not fit, a number is not finite, or a face names no vertex.
    """
    check(screen, height, width)
    corners = table("faces", faces, *screen.shape[:2])
    settings = torch.tensor(blur(sigma, cut, cull), dtype=torch.float64)
    (clear,) = _silhouette(screen, corners, screen.new_empty(0, height, width), settings)
    return 1 - clear


class _Silhouette:
    """Program from screen, faces, an empty canvas and settings to 1 - A, see `engine.operation`."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        screen, _, canvas, _ = inputs
        return [(len(screen), *canvas.shape[1:])]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        code, tiles, arguments = face_arguments(border_code, inputs)
        product = tiles.lane.width > 1  # else the sum of its logarithms
        clear = tiles.empty(len(inputs[0]), float(product))
        if clear.numel():
            replay(code.cover_faces, _threads(inputs), [*arguments, tiles.array(clear)], str(clear.device))
        return [tiles.join(clear if product else clear.neg_().exp_()).contiguous()]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        code, tiles, arguments = face_arguments(border_code, inputs)
        clear, adjoint = outputs[0], torch.zeros_like(inputs[0])
        opaque = tiles.cut(torch.where(clear > float(code.SATURATED), -clear * adjoints[0], 0.0))
        if opaque.numel():
            args = [*arguments, tiles.array(opaque), array(code.Point, adjoint)]
            replay(code.cover_faces_adjoint, _threads(inputs), args, str(opaque.device))
        return [adjoint, None, None, None]


def _threads(inputs: Sequence[Tensor]) -> tuple[int, int]:
    """One thread for each face of each image."""
    return len(inputs[0]), inputs[1].shape[1]


_silhouette = operation(_Silhouette())
