"""Pictures of surfaces: a camera, a rasteriser, a law of shading, lights and a background."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from gradsim.render.raster.zbuffer import rasterise
from gradsim.render.shading.shading import Shading
from gradsim.render.shading.surface_color import Labels, Painter, SurfaceColor
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.softras.rasterizer import SoftRas
from gradsim.render.view import NEAR, View
from gradsim.scene.parameters import camera_prefix

COLOUR_ONLY = Shading()


class Rasterizer(Protocol):
    """Turns triangles into pixels."""

    name: ClassVar[str]

    @property
    def cull(self) -> str:
        """Faces to leave out: "none", "back" or "front"."""
        ...

    def alpha(self, view: View) -> Tensor:
        """Opacity (images, height, width) in [0, 1]."""
        ...

    def draw(self, view: View, paint: Painter, background: Tensor) -> tuple[Tensor, Tensor]:
        """Colours (images, 3, height, width) over a background, and opacity (images, height, width).

        The background is (images or 1, 3, height or 1, width or 1); it and the paint may have other channels than RGB.
        """
        ...


RASTERIZERS: dict[str, type[Rasterizer]] = {kind.name: kind for kind in (Antialiased, SoftRas, DibR)}


@dataclass(frozen=True, eq=False)
class RenderOutput:
    """What a camera sees. Tensors start with (worlds, frames); what is worked out only if asked for is marked *.

    Args:
        rgb: (worlds, frames, 3, height, width).
        alpha: Opacity (worlds, frames, height, width).
        fragments: What the centres of pixels show, without supersampling.
        paint: Looks and lights.
    """

    rgb: Tensor
    alpha: Tensor
    fragments: Fragments
    paint: SurfaceColor

    @cached_property
    def depth(self) -> Tensor:
        """* Distance from the camera's plane (worlds, frames, height, width) [m]; infinite where nothing is seen."""
        fragments = self.fragments
        return self._image(fragments.place[:, 3:], torch.inf)[..., 0]

    @cached_property
    def normals(self) -> Tensor:
        """* Unit normals in the world, on the side of the camera (worlds, frames, 3, height, width); 0 beyond."""
        return self._image(self.paint.normals_at(self.fragments), 0.0).movedim(-1, 2)

    @cached_property
    def faces(self) -> Tensor:
        """* Number of the triangle (worlds, frames, height, width), int64; -1 where nothing is seen."""
        return self._image(self.fragments.face[:, None], -1)[..., 0]

    @cached_property
    def ids(self) -> Tensor:
        """* Number of the part (worlds, frames, height, width), int64; -1 where nothing is seen."""
        return self._image(self.fragments.part[:, None], -1)[..., 0]

    @cached_property
    def flow(self) -> Tensor:
        """* Where what is seen moves until the next frame (worlds, frames - 1, 2, height, width) [px]; 0 beyond.

        To the right and down, whether or not it is seen there too; not a number if it gets behind the camera.
        """
        fragments, (worlds, frames) = self.fragments, self.fragments.view.shape
        clip = fragments.view.clip.unflatten(0, (worlds, frames))
        later = torch.cat([clip[:, 1:], clip[:, -1:]], 1).flatten(0, 1)
        ahead, now = fragments.interpolate(later), fragments.interpolate(clip.flatten(0, 1))
        there = torch.where(ahead[:, 2:] > 0, ahead[:, 2:], torch.nan)
        moved = ahead[:, :2] / there - now[:, :2] / now[:, 2:]
        return self._image(moved, 0.0)[:, :-1].movedim(-1, 2)

    def _image(self, values: Tensor, elsewhere: float) -> Tensor:
        return self.fragments.onto(values, elsewhere).unflatten(0, self.fragments.view.shape)


@dataclass(frozen=True, eq=False)
class Renderer:
    """Pictures of surfaces, differentiable by vertices, colours, textures and their coordinates, normals, lights, camera.

    Args:
        camera: The camera; its K, R and t may be tensors that require gradients.
        rasterizer: `Antialiased()` (the default, without bias), `SoftRas()` or `DibR()`, or its name: "aa", "softras",
            "dibr".
        shading: Law of shading and lights, or the name of a law for lights as usual, see `Shading`; flat colours by
            default.
        background: RGB in [0, 1], or a picture (3, height, width).
        samples: Rows and columns of samples in each pixel, of which the mean is taken.
        near: Distance of the plane that cuts off what is nearer to the camera [m].
        lens: How the names of the camera's parameters begin, see `Silhouettes`.

    Raises:
        InputError: If there is no rasteriser or law of this name, the background has another size than the camera,
            `samples` or `near` is out of range, or something else cannot be.
    """

    camera: Camera
    rasterizer: Rasterizer | str = "aa"
    shading: Shading | str = COLOUR_ONLY
    background: Tensor | Sequence[float] = (1.0, 1.0, 1.0)
    samples: int = 1
    near: float = NEAR
    lens: str = "camera"

    def __post_init__(self):
        if not isinstance(self.camera, Camera):
            raise InputError(f"camera is {self.camera!r}; expected a Camera, such as render.look_at(...).")
        if not isinstance(self._shading, Shading):
            raise InputError(f"shading is {self.shading!r}; expected a Shading, or the name of a law.")
        known = self.rasterizer in RASTERIZERS if isinstance(self.rasterizer, str) else hasattr(self.rasterizer, "draw")
        if not known or isinstance(self.rasterizer, type):
            raise InputError(f"rasteriser is {self.rasterizer!r}; use one of {', '.join(RASTERIZERS)}, or SoftRas().")
        if not isinstance(self.samples, Integral) or self.samples < 1:
            raise InputError(f"samples is {self.samples}; it has to be a whole number of at least 1.")
        if not self.near > 0:
            raise InputError(f"near is {self.near} m; it has to be above 0, since pixels are divided by depth.")
        self._check_background()

    def _check_background(self) -> None:
        given, size = self.background, (3, self.camera.height, self.camera.width)
        if isinstance(given, str):
            raise InputError(f"the background is {given!r}; it needs RGB in [0, 1], or a picture {size}.")
        shape = tuple(torch.as_tensor(given).shape)
        if shape not in ((3,), size):
            raise InputError(f"the background has shape {shape}; it needs (3) or, for this camera, {size}.")
        if isinstance(given, Tensor) and not given.is_floating_point():
            raise InputError(f"the background is of {given.dtype}; it needs floats in [0, 1]: divide by 255.")
        if shape == (3,) and not isinstance(given, Tensor) and not all(0 <= c <= 1 for c in given):
            raise InputError(f"the background is {tuple(given)}; it needs red, green and blue in [0, 1].")

    @classmethod
    def of(cls, scene, rasterizer: Rasterizer | str = "aa", camera: str = "camera", law: str | None = None, **options):
        """What a camera of a scene sees, with the scene's lights and background.

        Args:
            scene: A `gradsim.Scene`.
            rasterizer: As above.
            camera: Name of the camera.
            law: Law of shading in place of the scene's.
            **options: As above.

        Raises:
            InputError: If it is no scene, or has no camera of this name.
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
        """RGB (worlds, frames, 3, height, width), in [0, 1] if colours and lights are.

        Args:
            surface: Vertices (worlds, frames, n, 3) [m], and looks.
            values: Parameters of the camera by name, see `Silhouettes`, and of lights, see `Shading.with_values`.

        Raises:
            InputError: If a vertex is not finite, or a light has no such parameter.
        """
        return self._draw(surface, values, None)[0]

    def alpha(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Opacity (worlds, frames, height, width) of all parts together; arguments as above."""
        view = self._view(surface, values)
        return self._pooled(self._raster.alpha(view)[:, None], view)[:, :, 0]

    def picture(
        self, surface: Surface, values: Mapping[str, Tensor] | None = None, normals: Tensor | None = None
    ) -> RenderOutput:
        """Colours with depth, normals, ids and optical flow.

        Args:
            surface: As above.
            values: As above.
            normals: Of the vertices (worlds, frames, n, 3), of any length, for the parts that are smooth; by default
                the mean of those of the faces around.

        Raises:
            InputError: If normals have another shape than the vertices, and as above.
        """
        if normals is not None and normals.shape != surface.vertices.shape:
            got, needed = tuple(normals.shape), tuple(surface.vertices.shape)
            raise InputError(f"normals have shape {got}; expected that of the vertices, {needed}.")
        rgb, alpha, paint = self._draw(surface, values, normals)
        plain = self._view(surface, values, 1) if self.samples > 1 else paint.view
        return RenderOutput(
            rgb, alpha, rasterise(plain, self._raster.cull), SurfaceColor(plain, paint.shading, paint.normals)
        )

    def masks(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """What is seen of each part, where others hide it too (worlds, frames, parts, height, width) in [0, 1]."""
        view = self._view(surface, values)
        shares = self._raster.draw(view, Labels(view), view.clip.new_zeros(1, len(view.parts), 1, 1))[0]
        return self._pooled(shares, view)

    @cached_property
    def _raster(self) -> Rasterizer:
        return RASTERIZERS[self.rasterizer]() if isinstance(self.rasterizer, str) else self.rasterizer

    @cached_property
    def _shading(self) -> Shading:
        return Shading(self.shading) if isinstance(self.shading, str) else self.shading  # pyright: ignore[reportArgumentType] -- it checks

    def _view(self, surface: Surface, values: Mapping[str, Tensor] | None, samples: int | None = None) -> View:
        camera = Silhouettes(self.camera, lens=self.lens)
        return View.of(surface, camera, values, samples or self.samples, self.near)

    def _draw(self, surface: Surface, values, normals: Tensor | None) -> tuple[Tensor, Tensor, SurfaceColor]:
        view = self._view(surface, values)
        shading = self._shading.with_values(values or {}, view.shape[1])
        paint = SurfaceColor(view, shading, None if normals is None else normals.flatten(0, 1))
        background = torch.as_tensor(self.background, dtype=view.clip.dtype, device=view.clip.device)
        if background.ndim == 1:
            background = background[:, None, None]
        elif self.samples > 1:
            background = background.repeat_interleave(self.samples, 1).repeat_interleave(self.samples, 2)
        colours, alpha = self._raster.draw(view, paint, background[None])
        return self._pooled(colours, view), self._pooled(alpha[:, None], view)[:, :, 0], paint

    def _pooled(self, image: Tensor, view: View) -> Tensor:
        """(images, channels, height, width) as (worlds, frames, ...), samples of a pixel averaged."""
        if self.samples > 1:
            image = avg_pool2d(image, self.samples)
        return image.unflatten(0, view.shape)
