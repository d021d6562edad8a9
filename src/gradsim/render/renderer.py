"""Differentiable renderer: a camera, a rasterizer, a shading law, lights and a background."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import entry_points
from numbers import Integral
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.render.antialias.rasterizer import Antialiased
from gradsim.render.camera import Camera, from_scene
from gradsim.render.dibr.rasterizer import DibR
from gradsim.render.raster.fragments import Fragments
from gradsim.render.raster.zbuffer import rasterize
from gradsim.render.repeated_images import Passes, RepeatedImages
from gradsim.render.shading.shading import Shading
from gradsim.render.shading.surface_color import ColorSource, Labels, SurfaceColor
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.softras.rasterizer import SoftRas
from gradsim.render.view import NEAR_DEPTH, View
from gradsim.scene.parameters import camera_prefix

UNLIT_SHADING = Shading()


class Rasterizer(Protocol):
    """Rasterizer: from triangles to pixels."""

    name: ClassVar[str]

    @property
    def cull(self) -> str:
        """Faces to leave out: "none", "back" or "front"."""
        ...

    def alpha(self, view: View) -> Tensor:
        """Opacity (images, height, width) in [0, 1]."""
        ...

    def draw(self, view: View, color_source: ColorSource, background: Tensor) -> tuple[Tensor, Tensor]:
        """Color (images, 3, height, width) over a background, and opacity (images, height, width).

        Args:
            view: Triangles of all images.
            color_source: Color of fragments, or at the corners of faces; may have other channels than RGB.
            background: (images or 1, 3, height or 1, width or 1), with the channels of `color_source`.
        """
        ...


GROUP = "gradsim.rasterizers"  # of entry points
RASTERIZERS: dict[str, type[Rasterizer]] = {kind.name: kind for kind in (Antialiased, SoftRas, DibR)}


def rasterizers() -> dict[str, type[Rasterizer]]:
    """`RASTERIZERS` with those of installed packages: entry points NAME = "module:Class" of the group `gradsim.rasterizers`."""
    for name, kind in _installed().items():
        RASTERIZERS.setdefault(name, kind)
    return RASTERIZERS


@cache
def _installed() -> dict[str, type[Rasterizer]]:
    return {point.name: point.load() for point in entry_points(group=GROUP)}


@dataclass(frozen=True, eq=False)
class RenderOutput:
    """Image with depth, normals, ids and optical flow. Properties marked * are computed on first use.

    Args:
        rgb: (worlds, frames, 3, height, width).
        alpha: Opacity (worlds, frames, height, width).
        fragments: Visible triangles at pixel centres, without supersampling.
        color_source: Appearance and lights.
    """

    rgb: Tensor
    alpha: Tensor
    fragments: Fragments
    color_source: SurfaceColor

    @cached_property
    def depth(self) -> Tensor:
        """* Depth z along the optical axis (worlds, frames, height, width) [m]; infinite for the background."""
        fragments = self.fragments
        return self._image(fragments.place[:, 3:], torch.inf)[..., 0]

    @cached_property
    def normals(self) -> Tensor:
        """* Unit normals in world axes, towards the camera (worlds, frames, 3, height, width); 0 for the background."""
        return self._image(self.color_source.normals_at(self.fragments), 0.0).movedim(-1, 2)

    @cached_property
    def faces(self) -> Tensor:
        """* Index of the visible triangle (worlds, frames, height, width), int64; -1 for the background."""
        return self._image(self.fragments.face[:, None], -1)[..., 0]

    @cached_property
    def ids(self) -> Tensor:
        """* Index of the visible part (worlds, frames, height, width), int64; -1 for the background."""
        return self._image(self.fragments.part[:, None], -1)[..., 0]

    @cached_property
    def flow(self) -> Tensor:
        """* Optical flow to the next frame (worlds, frames - 1, 2, height, width) [px]; 0 for the background.

        Right and down, whether or not the point is visible in the next frame; NaN if it moves behind the camera.
        """
        fragments, (worlds, frames) = self.fragments, self.fragments.view.shape
        clip = fragments.view.clip.unflatten(0, (worlds, frames))
        later = torch.cat([clip[:, 1:], clip[:, -1:]], 1).flatten(0, 1)
        ahead, now = fragments.interpolate(later), fragments.interpolate(clip.flatten(0, 1))
        depth = torch.where(ahead[:, 2:] > 0, ahead[:, 2:], torch.nan)
        displacement = ahead[:, :2] / depth - now[:, :2] / now[:, 2:]
        return self._image(displacement, 0.0)[:, :-1].movedim(-1, 2)

    def _image(self, values: Tensor, elsewhere: float) -> Tensor:
        return self.fragments.onto(values, elsewhere).unflatten(0, self.fragments.view.shape)


@dataclass(frozen=True, eq=False)
class Renderer:
    """Renders surfaces; differentiable by vertices, colors, textures and uv, normals, lights and camera.

    Args:
        camera: The camera; K, R and t may require gradients.
        rasterizer: `Antialiased()` (the default, unbiased), `SoftRas()`, `DibR()` or your own; or a name of `rasterizers()`:
            "aa", "softras", "dibr".
        shading: Shading law and lights, or the name of a law for the default lights, see `Shading`. Default: flat colors.
        background: RGB in [0, 1], or an image (3, height, width).
        samples: Supersampling: rows and columns of samples per pixel, averaged.
        near: Distance of the near plane [m].
        lens: Prefix of the camera's parameters in `values`, see `Silhouettes`.

    Raises:
        InputError: If the camera has a lens or shutter, a rasterizer or law is unknown, the background does not fit the camera, or `samples` or `near` is
            out of range.
    """

    camera: Camera
    rasterizer: Rasterizer | str = "aa"
    shading: Shading | str = UNLIT_SHADING
    background: Tensor | Sequence[float] = (1.0, 1.0, 1.0)
    samples: int = 1
    near: float = NEAR_DEPTH
    lens: str = "camera"

    def __post_init__(self):
        if not isinstance(self.camera, Camera):
            raise InputError(f"camera is {self.camera!r}; expected a Camera, such as render.look_at(...).")
        if self.camera.poses is not None:
            raise InputError(
                "the camera moves (`motion`), which rasterizers do not draw; use `Silhouettes` (`gradsim render --renderer coverage`)."
            )
        if self.camera.optics is not None:
            raise InputError(
                "the camera has a lens or shutter, which rasterizers do not draw; use `Silhouettes` (`gradsim render --renderer "
                "coverage`), or `camera.pinhole` and undistorted images."
            )
        if not isinstance(self._shading, Shading):
            raise InputError(f"shading is {self.shading!r}; expected a Shading, or the name of a law.")
        known = (
            self.rasterizer in rasterizers() if isinstance(self.rasterizer, str) else hasattr(self.rasterizer, "draw")
        )
        if not known or isinstance(self.rasterizer, type):
            raise InputError(f"rasterizer is {self.rasterizer!r}; use one of {', '.join(rasterizers())}, or SoftRas().")
        if not isinstance(self.samples, Integral) or self.samples < 1:
            raise InputError(f"samples is {self.samples}; it has to be a whole number of at least 1.")
        if not self.near > 0:
            raise InputError(f"near is {self.near} m; it has to be above 0, since pixels are divided by depth.")
        self._check_background()

    def _check_background(self) -> None:
        background, size = self.background, (3, self.camera.height, self.camera.width)
        if isinstance(background, str):
            raise InputError(f"the background is {background!r}; it needs RGB in [0, 1], or an image {size}.")
        shape = tuple(torch.as_tensor(background).shape)
        if shape not in ((3,), size):
            raise InputError(f"the background has shape {shape}; it needs (3) or, for this camera, {size}.")
        if isinstance(background, Tensor) and not background.is_floating_point():
            raise InputError(f"the background is of {background.dtype}; it needs floats in [0, 1]: divide by 255.")
        if shape == (3,) and not isinstance(background, Tensor) and not all(0 <= c <= 1 for c in background):
            raise InputError(f"the background is {tuple(background)}; it needs red, green and blue in [0, 1].")

    @classmethod
    def of(cls, scene, rasterizer: Rasterizer | str = "aa", camera: str = "camera", law: str | None = None, **options):
        """Make a renderer with the camera, lights and background of a scene.

        Args:
            scene: A `gradsim.Scene`.
            rasterizer: See the class.
            camera: Name of the camera.
            law: Shading law in place of the scene's.
            **options: Further arguments of the class.

        Raises:
            InputError: If `scene` is not a scene, or has no such camera.
        """
        if not hasattr(scene, "view"):
            raise InputError(f"scene is {scene!r}; expected a Scene: Scene.load(path), or Scene.library(name).")
        options = {
            "shading": Shading.of(scene, law),
            "background": scene.background,
            "lens": camera_prefix(camera),
        } | options
        return cls(from_scene(scene.view(camera)), rasterizer, **options)

    def __call__(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Render RGB (worlds, frames, 3, height, width), in [0, 1] if colors and lights are.

        Args:
            surface: Vertices (worlds, frames, n, 3) [m], with appearance.
            values: Parameters of the camera by name, see `Silhouettes`, and of lights, see `Shading.with_values`.

        Raises:
            InputError: If a vertex is not finite, or a parameter of a light is unknown.
        """
        image = None if values else self._repeated(surface, True)
        if image is not None:
            return image
        colors, _, paint = self._sampled(surface, values, None)
        return self._pooled(colors, paint.view)

    def alpha(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Opacity of all parts together (worlds, frames, height, width); arguments as for `__call__`."""
        alpha = None if values else self._repeated(surface, False)
        if alpha is not None:
            return alpha
        view = self._view(surface, values)
        return self._pooled(self._raster.alpha(view)[:, None], view)[:, :, 0]

    def output(
        self, surface: Surface, values: Mapping[str, Tensor] | None = None, normals: Tensor | None = None
    ) -> RenderOutput:
        """Render RGB with depth, normals, ids and optical flow.

        Args:
            surface: As for `__call__`.
            values: As for `__call__`.
            normals: Normals of the vertices (worlds, frames, n, 3), of any length, for smooth parts. Default: means of
                the normals of adjacent faces.

        Raises:
            InputError: As `__call__`, or if normals do not have the shape of the vertices.
        """
        if normals is not None and normals.shape != surface.vertices.shape:
            got, needed = tuple(normals.shape), tuple(surface.vertices.shape)
            raise InputError(f"normals have shape {got}; expected that of the vertices, {needed}.")
        rgb, alpha, paint = self._draw(surface, values, normals)
        plain = self._view(surface, values, 1) if self.samples > 1 else paint.view
        return RenderOutput(
            rgb, alpha, rasterize(plain, self._raster.cull), SurfaceColor(plain, paint.shading, paint.normals)
        )

    def masks(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Visible share of each part, with occlusion (worlds, frames, parts, height, width) in [0, 1]."""
        view = self._view(surface, values)
        shares = self._raster.draw(view, Labels(view), view.clip.new_zeros(1, len(view.parts), 1, 1))[0]
        return self._pooled(shares, view)

    @cached_property
    def _raster(self) -> Rasterizer:
        return RASTERIZERS[self.rasterizer]() if isinstance(self.rasterizer, str) else self.rasterizer

    @cached_property
    def _shading(self) -> Shading:
        return Shading(self.shading) if isinstance(self.shading, str) else self.shading  # pyright: ignore[reportArgumentType] -- it checks

    @cached_property
    def _silhouettes(self) -> Silhouettes:
        return Silhouettes(self.camera, lens=self.lens)

    @cached_property
    def _repeated(self) -> RepeatedImages:
        return RepeatedImages(self._silhouettes, self._passes)

    def _passes(self, surface: Surface, is_colored: bool) -> tuple[Passes, Tensor | None] | None:
        """Launches that alone draw images, or opacity, of a surface like this one, and colors of its vertices; else None."""
        raster = self._raster
        if self.samples > 1 or isinstance(self.background, Tensor):
            return None
        if not is_colored:
            passes = raster.passes(self._view(surface, None)) if type(raster) is SoftRas else None
            return passes and (passes, None)
        if type(raster) is not Antialiased:
            return None
        view = self._view(surface, None)
        paint = SurfaceColor(view, self._shading)
        passes, colors = raster.passes(view, paint, self._behind(view.points)), paint.by_vertex
        return None if passes is None or colors is None else (passes, colors.contiguous())

    @cached_property
    def _constant_backgrounds(self) -> dict[tuple, Tensor]:
        return {}

    def _view(self, surface: Surface, values: Mapping[str, Tensor] | None, samples: int | None = None) -> View:
        return View.of(surface, self._silhouettes, values, samples or self.samples, self.near)

    def _draw(self, surface: Surface, values, normals: Tensor | None) -> tuple[Tensor, Tensor, SurfaceColor]:
        """RGB and opacity of images, and what they show."""
        colors, alpha, paint = self._sampled(surface, values, normals)
        return self._pooled(colors, paint.view), self._pooled(alpha[:, None], paint.view)[:, :, 0], paint

    def _sampled(self, surface: Surface, values, normals: Tensor | None) -> tuple[Tensor, Tensor, SurfaceColor]:
        """Colors (images, 3, ...) and opacity (images, ...) of all samples, and what they show."""
        view = self._view(surface, values)
        shading = self._shading.with_values(values, view.shape[1]) if values else self._shading
        paint = SurfaceColor(view, shading, None if normals is None else normals.flatten(0, 1))
        return *self._raster.draw(view, paint, self._behind(view.points)), paint

    def _behind(self, like: Tensor) -> Tensor:
        """Background of all samples (1, 3, height or 1, width or 1), with the dtype and device of a tensor."""
        if isinstance(self.background, Tensor):
            background = self.background.to(like)
        else:
            key = like.dtype, like.device
            if key not in self._constant_backgrounds:
                constant = torch.as_tensor(self.background, dtype=like.dtype, device=like.device)
                self._constant_backgrounds[key] = constant
            background = self._constant_backgrounds[key]
        if background.ndim == 1:
            background = background[:, None, None]
        elif self.samples > 1:
            background = background.repeat_interleave(self.samples, 1).repeat_interleave(self.samples, 2)
        return background[None]

    def _pooled(self, image: Tensor, view: View) -> Tensor:
        """Average the samples of each pixel: (images, channels, ...) to (worlds, frames, channels, height, width)."""
        if self.samples > 1:
            image = avg_pool2d(image, self.samples)
        return image.unflatten(0, view.shape)
