"""Frames of surfaces by any renderer, selected by name, without gradients: for videos and reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Appearance, DenseVertices, Surface
from gradsim.render.camera import Camera
from gradsim.render.renderer import Renderer, rasterizers
from gradsim.render.shading.shading import Shading
from gradsim.render.silhouettes import Silhouettes

BLOCK = 2**19  # [px] drawn at once, but at least one frame
SAMPLES_PER_PIXEL = 2  # rows and columns of samples per pixel for a rasterizer with hard edges


def renderer_names() -> tuple[str, ...]:
    """Names that `FrameRenderer` and `gradsim render --renderer` accept; all of `rasterizers()` are among them."""
    return ("coverage", *rasterizers(), "mitsuba")


@dataclass(frozen=True, eq=False)
class FrameRenderer:
    """Draws surfaces frame by frame.

    Args:
        renderer: One of `renderer_names()`: "coverage" (exact, flat colors, parts must not intersect: what is fitted), a
            rasterizer of `rasterizers()` ("aa", "softras", "dibr"), or "mitsuba" (path traced, with shadows).
        camera: The camera.
        shading: Shading law and lights.
        background: RGB in [0, 1].
        spp: Samples per pixel of Mitsuba.

    Raises:
        InputError: If the renderer is unknown, does not support the shading law, or is not installed.
    """

    renderer: str
    camera: Camera
    shading: Shading
    background: Sequence[float]
    spp: int = 64

    def __post_init__(self):
        names = renderer_names()
        if self.renderer not in names:
            raise InputError(f"renderer is {self.renderer!r}; use one of {', '.join(names)}.")
        if self.renderer == "coverage" and self.shading.law != "colour":
            raise InputError(f"renderer `coverage` draws flat colors only; use `aa` for shading {self.shading.law}.")
        if self.renderer == "mitsuba":
            self._traced()

    def draw(self, surface: Surface) -> Iterator[Tensor]:
        """Frames of the first world, (height, width, 3) in [0, 1] each.

        Args:
            surface: Vertices (worlds, frames, n, 3) [m], with appearance.
        """
        first_world = surface.at(slice(None), slice(0, 1)).detach()
        for image in self._images(first_world):
            yield image.permute(1, 2, 0).clamp(0, 1)

    def share(self, surface: Surface, names: Sequence[str]) -> Iterator[Tensor]:
        """Visible coverage of the named parts (height, width), frame by frame; other parts occlude them."""
        looks = [Appearance((1.0, 1.0, 1.0) if p.name in names else (0.0, 0.0, 0.0)) for p in surface.parts]
        parts = tuple(replace(p, appearance=look) for p, look in zip(surface.parts, looks, strict=True))
        exact = "aa" if self.renderer == "mitsuba" else self.renderer
        plain = replace(self, renderer=exact, shading=Shading(), background=(0.0, 0.0, 0.0))
        return (image[..., 0] for image in plain.draw(replace(surface, parts=parts)))

    def without(self, surface: Surface, names: Sequence[str]) -> Tensor:
        """First frame (height, width, 3) without the named parts, which have to come before all others."""
        parts = [p for p in surface.parts if p.name not in names]
        if not parts:
            size = self.camera.height, self.camera.width, 3
            return torch.tensor(self.background, dtype=surface.vertices.dtype).expand(size)
        first = parts[0].vertices.start
        ranges = [slice(p.vertices.start - first, p.vertices.stop - first) for p in parts]
        shifted = tuple(replace(p, vertices=v) for p, v in zip(parts, ranges, strict=True))
        one = surface.at(slice(0, 1))
        dense = one.dense and DenseVertices(one.dense.offsets, one.dense.vertices[:, :, :, first:])
        return next(self.draw(Surface(one.vertices[:, :, first:], shifted, dense, one.times)))

    def _images(self, surface: Surface) -> Iterator[Tensor]:
        """RGB (3, height, width), frame by frame."""
        if self.renderer == "mitsuba":
            yield from self._traced().frames(surface)
            return
        if self.renderer == "coverage":
            render = Silhouettes(self.camera, self.background).image
        else:
            samples = SAMPLES_PER_PIXEL if self.renderer == "dibr" else 1
            render = Renderer(self.camera, self.renderer, self.shading, self.background, samples)
        step = max(1, BLOCK // (self.camera.width * self.camera.height))
        for first in range(0, surface.vertices.shape[1], step):
            with torch.no_grad():
                block = render(surface.at(slice(first, first + step)))
            yield from block[0]

    def _traced(self):
        from gradsim.render.mitsuba.renderer import Mitsuba

        return Mitsuba(self.camera, self.shading, tuple(self.background), self.spp)


def default_renderer(scene, looks: Sequence[Appearance], camera: Camera | None = None) -> str:
    """Simplest renderer for a scene: "coverage", or "aa" for textures, shading or visible grounds, which has no lens or shutter."""
    if camera is not None and (camera.optics is not None or camera.poses is not None):
        return "coverage"
    painted = any(look.pattern is not None or look.vertex_colors is not None for look in looks)
    grounds = any(
        ground.visible for ground in scene.grounds.values()
    )  # bodies rest on them, neither wholly in front nor behind
    return "aa" if painted or grounds or scene.shading != "colour" else "coverage"
