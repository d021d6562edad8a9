"""Rendering of samples: shaded images, exact masks, and the trajectory.

Images are rendered at 256 × 256 pixels, and smaller ones are their block means: an image of 64 × 64 averages 16 samples
per pixel, independent of the other sizes. Masks are exact coverages (`render.coverage`), whose block means are exact
too.

Only a window around the bodies is rendered in each frame, and pasted into an image of the static scene. A body fills a
tenth of the image, so this takes a tenth of the time of whole images. Only obstacles can occlude bodies: without
obstacles, the bodies alone are rendered and composited over the static image; with obstacles, everything is rendered in
the windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from gradsim.dataset.sample import Sample
from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space
from gradsim.physics.trajectory import Trajectory
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene, Visible

SAMPLED_SIZE = 256  # [px] width and height of the image that windows are cut from
BLOCK = 8  # [px] windows begin and end at multiples of it, so that their block means equal those of the whole image
MARGIN = 2  # [px] beyond the outermost vertices, which antialiasing may colour
FRAMES_PER_BATCH = 20  # frames rendered at a time, so that their data fit into the cache


@dataclass(frozen=True, eq=False)
class ImageWindows:
    """One window of the image for each frame, all of one size.

    Attributes:
        sight: Silhouettes with the camera.
        corners: Column and row of the upper left pixel (frames, 2), int64.
        width, height: Size of the windows [px]; 0 if no body is ever in view.
    """

    sight: Silhouettes
    corners: Tensor
    width: int
    height: int

    @classmethod
    def around(cls, scene: Scene, surface: Surface) -> "ImageWindows":
        """Windows around all bodies, with vertices (1, frames, n, 3), in the camera of a scene."""
        sight = Silhouettes.of(scene)
        screen = sight.screen(surface)[0]  # NaN where a body is not rendered
        low = torch.nan_to_num(screen, nan=torch.inf).amin(1) - MARGIN
        high = torch.nan_to_num(screen, nan=-torch.inf).amax(1) + MARGIN
        low = ((low / BLOCK).floor() * BLOCK).clamp(0, SAMPLED_SIZE).long()
        high = ((high / BLOCK).ceil() * BLOCK).clamp(0, SAMPLED_SIZE).long()
        size = (high - low).clamp(min=0).amax(0)
        if not size.all():
            size = torch.zeros_like(size)
        return cls(sight, torch.minimum(low, SAMPLED_SIZE - size), *size.tolist())

    def masks(self, surface: Surface) -> Tensor:
        """Coverage by all bodies (frames, 1, height, width) in [0, 1]."""
        return self._render_windows(lambda camera, part, values: Silhouettes(camera).union(part, values), surface)

    def images(self, scene: Scene, trajectory: Trajectory) -> tuple[Tensor, Tensor]:
        """Images in the windows (frames, 3, height, width), and the image of the static scene (3, 256, 256)."""
        renderer = Renderer.of(scene)
        still = _scenery(renderer, trajectory)
        if scene.obstacles:
            draw = lambda camera, part, values: replace(renderer, camera=camera)(part, values)[:, 0]
            return self._render_windows(draw, _single(trajectory.scene_surface)), still

        def layer(camera, part, values):
            image = replace(renderer, camera=camera, background=(0.0, 0.0, 0.0)).output(part, values)
            return torch.cat([image.rgb[:, 0], image.alpha], 1)

        colors, alpha = self._render_windows(layer, _single(trajectory.surface)).split((3, 1), 1)
        return colors + (1 - alpha) * self._cut(still), still

    def paste(self, windows: Tensor, still: Tensor, size: int) -> np.ndarray:
        """Whole images (frames, size, size, channels) uint8, from windows (frames, channels, height, width).

        Args:
            windows: Images of the windows in [0, 1].
            still: Image around them (channels, 256, 256).
            size: Width and height of the images [px]; 256 / size is an integer of at most `BLOCK`.
        """
        share = SAMPLED_SIZE // size
        images = _quantised(_means(still[None], share)).repeat(len(self.corners), 0)
        if self.width:
            small, (height, width) = _quantised(_means(windows, share)), (self.height // share, self.width // share)
            for image, window, (x, y) in zip(images, small, (self.corners // share).tolist(), strict=True):
                image[y : y + height, x : x + width] = window
        return images

    def _render_windows(self, draw, surface: Surface) -> Tensor:
        """Render `draw(camera, surface, values)` for all frames, each as a separate world with its window."""
        if not self.width:
            return torch.zeros(len(self.corners), 4, 0, 0)
        camera = replace(self.sight.camera, width=self.width, height=self.height)
        centers = camera.K[:2, 2] - self.corners
        rows = surface.vertices[0].unsqueeze(1)
        parts = [slice(k, k + FRAMES_PER_BATCH) for k in range(0, len(rows), FRAMES_PER_BATCH)]
        return torch.cat(
            [draw(camera, Surface(rows[at], surface.parts), {"camera.centre": centers[at].to(rows)}) for at in parts]
        )

    def _cut(self, still: Tensor) -> Tensor:
        """Crop the windows of one image (channels, 256, 256): (frames, channels, height, width)."""
        places = self.corners.tolist()
        return torch.stack([still[:, y : y + self.height, x : x + self.width] for x, y in places])


def _scenery(renderer: Renderer, trajectory: Trajectory) -> Tensor:
    """Image of the static scene (3, 256, 256)."""
    vertices, parts = [], []
    for thing in trajectory.scenery:
        parts.append(thing.part(parts[-1].vertices.stop if parts else 0))
        vertices.append(thing.vertices(trajectory.values)[:, None])
    if not parts:
        return torch.tensor(renderer.background)[:, None, None].expand(3, SAMPLED_SIZE, SAMPLED_SIZE)
    return renderer(Surface(torch.cat(vertices, 2).float(), tuple(parts)))[0, 0]


def _single(surface: Surface) -> Surface:
    """Surface in single precision, enough for 8-bit images."""
    return Surface(surface.vertices.float(), surface.parts)


def _means(images: Tensor, share: int) -> Tensor:
    return avg_pool2d(images, share) if share > 1 else images


def _quantised(images: Tensor) -> np.ndarray:
    """(frames, channels, height, width) in [0, 1] as (frames, height, width, channels) uint8."""
    return (images * 255).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


SIZES = (32, 64, 128, 256)  # [px] of images
GROUND = Visible(size=60.0, colour=(0.6, 0.55, 0.45))


@dataclass(frozen=True, eq=False)
class RenderedVideo:
    """Video of the data set.

    Attributes:
        frames: Images by size, (frames, size, size, 3) uint8: RGB, row 0 on top.
        masks: Masks by size, (frames, size, size) uint8: 255 where bodies cover the whole pixel, ignoring occlusion.
        states: Trajectory by "body.quantity", (frames, ...) float64, see `Trajectory`.
    """

    frames: dict[int, np.ndarray]
    masks: dict[int, np.ndarray]
    states: dict[str, np.ndarray]


def visible_scene(scene: Scene, size: int | None = None) -> Scene:
    """Scene with shading and a visible ground, for rendering.

    Args:
        scene: Scene of a sample; its camera has `look_at` with `fov`, independent of the size.
        size: Width and height of the image [px]; None: those of the camera.
    """
    grounds = {name: g if g.visible else g.model_copy(update={"visible": GROUND}) for name, g in scene.grounds.items()}
    camera = scene.view() if size is None else scene.view().model_copy(update={"size": (size, size)})
    return scene.model_copy(update={"grounds": grounds, "shading": "lambert", "camera": camera})


def check_sizes(sizes: Sequence[int]) -> None:
    """Check sizes of images.

    Raises:
        InputError: If a size is not in `SIZES` or repeated, or there is none.
    """
    wrong = next((size for size in sizes if size not in SIZES), None)
    if wrong is not None or not sizes or len(set(sizes)) < len(sizes):
        known = ", ".join(map(str, SIZES))
        raise InputError(f"sizes: got {', '.join(map(str, sizes)) or 'none'}; expected some of {known}, each once.")


def render_sample(sample: Sample, sizes: Sequence[int]) -> RenderedVideo:
    """Simulate and render a sample, with the model that a fit of its unknowns uses.

    Args:
        sample: Sample.
        sizes: Sizes of the images [px], from `SIZES`.
    """
    scene = visible_scene(sample.scene, SAMPLED_SIZE)
    with torch.no_grad():
        trajectory = model_for(scene, Space(scene, sample.unknowns)).rollout(parameter_values(scene, sample.truth))
        windows = ImageWindows.around(scene, trajectory.surface)
        colors, still = windows.images(scene, trajectory)
        masks, nothing = windows.masks(trajectory.surface), torch.zeros(1, SAMPLED_SIZE, SAMPLED_SIZE)
    states = {f"{body}.{key}": y[0].numpy() for body, state in trajectory.states.items() for key, y in state.items()}
    return RenderedVideo(
        {size: windows.paste(colors, still, size) for size in sizes},
        {size: windows.paste(masks, nothing, size)[..., 0] for size in sizes},
        states,
    )
