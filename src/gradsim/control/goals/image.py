"""Image goals: images of the target, from files or tensors, compared with renderings of an episode.

    loss = mean over goal images of loss(rendering of the episode in that frame, goal image)

Only the frames of goal images are rendered. The silhouette of a colour image is its difference from the empty scene
(`gradsim.video.background`). Silhouettes are those of the bodies alone: grounds and obstacles occlude nothing, so nothing
may hide the body in a goal image.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from torch import Tensor

from gradsim.control.goals.base import Goal, Truth, within
from gradsim.errors import InputError
from gradsim.losses import L1, MSE, Blurred, ImageLoss, Pyramid, Schedule, coarse_to_fine, stage
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.video.background import subtract_background
from gradsim.video.camera_noise import QUANTIZATION_NOISE, UPPER_THRESHOLD

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


ImageRenderer = Silhouettes | Renderer
ImageLike = Tensor | str | Path

MIN_PIXELS = 4  # pixels that differ from the background: the smallest body that `subtract_background` accepts
MAX_MEDIAN = 0.02  # median difference of pixels from the background, above that of compressed images


def listed(images: ImageLike | Sequence[ImageLike]) -> list[ImageLike]:
    """One or several images as a list."""
    return [images] if isinstance(images, str | Path | Tensor) or not isinstance(images, Sequence) else list(images)


def target_image(source: ImageLike, renderer: ImageRenderer, colors: bool, background: Tensor | None = None) -> Tensor:
    """Goal image to compare with the camera's.

    Args:
        source: Path of a png or jpg, or a tensor in [0, 1]: (3, height, width) in colours, or a silhouette
            (height, width) or (1, height, width), which is 1 where the body is. A grey file is a silhouette too.
        renderer: Renderer of the camera.
        colors: Compare colours, else silhouettes.
        background: Image of the empty scene (3, height, width); None: the background of the renderer.

    Returns:
        Colours (3, height, width), or a silhouette (height, width), in [0, 1].

    Raises:
        InputError: If the image cannot be read, has another size than the camera's or other channels, or is empty.
    """
    name = str(source) if isinstance(source, str | Path) else "the goal image"
    image = read_goal_image(source)
    height, width = renderer.camera.height, renderer.camera.width
    if image.shape[1:] != (height, width):
        raise InputError(
            f"{name} is {image.shape[2]} × {image.shape[1]} px; the camera `{renderer.lens}` makes {width} × {height}. "
            f"Scale one of them: the image, or `{renderer.lens}.size` of the scene."
        )
    if colors and len(image) != 3:
        raise InputError(f"{name} has {len(image)} channel; colours are compared with 3: red, green and blue.")
    if colors:
        return image
    mask = image[0] if len(image) == 1 else silhouette(image, _background(renderer, background), name)
    if not mask.sum() >= 1:
        raise InputError(f"{name} is an empty silhouette; it needs a body, as 1 on 0.")
    if isinstance(source, str | Path) and mask.median() > MAX_MEDIAN:  # a grey photograph, or black on white
        raise InputError(
            f"{name} is not a silhouette: most of it is not black, but {mask.median():.2g}. Give a colour image, or the "
            "body bright on black."
        )
    return mask


def read_goal_image(source: ImageLike) -> Tensor:
    """Read a goal image (3 or 1, height, width) in [0, 1].

    Raises:
        InputError: If it cannot be read, or has other channels.
    """
    return _from_file(Path(source)) if isinstance(source, str | Path) else _checked(source)


def silhouette(image: Tensor, background: Tensor, name: str = "the goal image") -> Tensor:
    """Coverage (height, width) in [0, 1] of each pixel by what is not in the background.

    Args:
        image: Image (3, height, width) in [0, 1].
        background: Image of the empty scene, likewise.
        name: Name of the image in messages.

    Raises:
        InputError: If it equals the background, or differs from it almost everywhere.
    """
    size = (image - background).square().mean(0).sqrt()
    if not (size > UPPER_THRESHOLD * QUANTIZATION_NOISE).sum() >= MIN_PIXELS:
        raise InputError(f"{name} shows nothing but the background; it needs the body where it should be.")
    if size.median() > MAX_MEDIAN:
        raise InputError(
            f"{name} differs from the empty scene in most pixels, by {size.median():.2g}: no body can be separated from "
            "the background. Set the scene's `background` to the image's, or give a silhouette: grey, bright on black."
        )
    frame, empty = (np.moveaxis(x.detach().double().cpu().numpy(), 0, -1) for x in (image, background))
    try:
        mask = subtract_background(frame[None] * 255, empty).masks[0]
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return torch.from_numpy(mask.clip(0, 1)).to(image.device)


def _background(renderer: ImageRenderer, background: Tensor | None) -> Tensor:
    if background is not None:
        return background
    colour = torch.as_tensor(renderer.background, dtype=torch.float64)
    return (
        colour if colour.ndim == 3 else colour[:, None, None].expand(3, renderer.camera.height, renderer.camera.width)
    )


def _from_file(path: Path) -> Tensor:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            bands, mode = image.getbands(), image.mode
            if mode[0] in "IF":
                raise InputError(f"{path} has more than 8 bits per channel (mode {mode}); save it with 8.")
            if mode == "P":  # a palette
                bands = ("R", "G", "B", "A") if "transparency" in image.info else ("R", "G", "B")
            if bands not in (("L",), ("1",), ("R", "G", "B")):
                raise InputError(
                    f"{path} has {len(bands)} channels, {', '.join(bands)}; expected 3, red, green and blue, or 1, a "
                    "silhouette: save it again, without transparency."
                )
            values = np.asarray(image.convert("L" if len(bands) == 1 else "RGB"), np.float64) / 255
    except FileNotFoundError:
        raise InputError(f"the goal image {path} does not exist.") from None
    except InputError:
        raise
    except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as an image ({error}); export it again as png.") from error
    return torch.from_numpy(values[None] if values.ndim == 2 else np.moveaxis(values, -1, 0).copy())


def _checked(image: Tensor) -> Tensor:
    if not isinstance(image, Tensor):
        raise InputError(f"the goal image is {type(image).__name__}; expected a path, or a tensor.")
    if image.ndim not in (2, 3) or (image.ndim == 3 and len(image) not in (1, 3)):
        raise InputError(
            f"the goal image has shape {tuple(image.shape)}; expected (3, height, width) in colours, or a silhouette "
            "(height, width)."
        )
    if not image.is_floating_point():
        raise InputError(f"the goal image is of {image.dtype}; it needs floats in [0, 1]: divide by 255.")
    if not ((image >= 0) & (image <= 1 + 1e-6)).all():
        raise InputError(
            f"the goal image has values from {image.min():.4g} to {image.max():.4g}; it needs [0, 1], such as "
            "values of 8 bits divided by 255."
        )
    return image.detach()[(None,) * (3 - image.ndim)]


DIFFERENCES = (MSE, L1, Pyramid)  # losses of any images; the others need coverages


@final
class ImageGoal(Goal):
    """Goal images of one or more cameras in one or more frames.

    Args:
        renderers: Renderer of each image, or one for all: `Silhouettes.of(scene, camera)`, the fastest, or a `Renderer`.
        images: Paths or tensors, see `target_image`; one or several.
        frames: Frame of each image, or one for all; -1 is the last of an episode.
        loss: Image loss or its name, or a `Schedule` by iteration; by default the CDF for 30 iterations, which has a
            gradient wherever the body is, then the squared difference of pixels.
        colors: Compare colours, as the paper does (loss "mse"); else silhouettes.
        background: Image of the empty scene (3, height, width) for each image, or None: that of the renderer.
        truth: See `Goal`.

    Raises:
        InputError: If an image does not fit its camera (see `target_image`), the numbers of renderers, frames or
            backgrounds differ from that of images, or the loss does not compare colours.
    """

    def __init__(
        self,
        renderers: ImageRenderer | Sequence[ImageRenderer],
        images: ImageLike | Sequence[ImageLike],
        frames: int | Sequence[int] = -1,
        loss: Schedule | ImageLoss | str | None = None,
        colors: bool = False,
        background: Sequence[Tensor | None] | None = None,
        truth: Truth | None = None,
    ):
        super().__init__(truth)
        goal_images = listed(images)
        if not goal_images:
            raise InputError("the goal has no image; give at least one.")
        self.renderers: list[ImageRenderer] = _one_per_image(renderers, len(goal_images), "renderers")
        self.frames: list[int] = _one_per_image(frames, len(goal_images), "frames")
        empty = (
            [None] * len(goal_images)
            if background is None
            else _one_per_image(background, len(goal_images), "backgrounds")
        )
        self.colors, self.schedule = colors, _schedule(loss, colors)
        self.targets = [
            target_image(image, renderer, colors, B)
            for image, renderer, B in zip(goal_images, self.renderers, empty, strict=True)
        ]

    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        compare, trajectory = self.schedule.at(iteration), episode.trajectory
        frames = within(self.frames, len(trajectory.times))
        part = trajectory.at(sorted(set(frames)))
        losses = []
        for renderer, target, frame in zip(self.renderers, self.targets, self.frames, strict=True):
            if frame in frames:
                image = self._image(renderer, part.at([sorted(set(frames)).index(frame)]))
                losses.append(compare(image[:, 0], target))
        return torch.stack(losses).mean(0)

    def stage(self, iteration: int) -> str:
        """Name of the loss of an iteration."""
        return self.schedule.at(iteration).name

    def image(self, episode: "Episode", index: int = 0) -> Tensor:
        """Rendering compared with goal image `index`: (worlds, height, width), or (worlds, 3, height, width) in colours."""
        return self._image(self.renderers[index], episode.trajectory.at([self.frames[index]]))[:, 0]

    def _image(self, renderer: ImageRenderer, trajectory) -> Tensor:
        if self.colors:
            return renderer(trajectory.scene_surface, trajectory.values)
        mask = renderer.union if isinstance(renderer, Silhouettes) else renderer.alpha
        return mask(trajectory.surface, trajectory.values)


def _one_per_image(value, count: int, label: str) -> list:
    """One value for each image."""
    several = isinstance(value, Sequence) and not isinstance(value, str)
    values = list(value) if several else [value] * count
    if len(values) != count:
        raise InputError(f"the goal has {count} images and {len(values)} {label}; give one for each, or one for all.")
    return values


def _schedule(loss: Schedule | ImageLoss | str | None, colors: bool) -> Schedule:
    if loss is None:
        loss = Schedule(stage("mse", 1)) if colors else coarse_to_fine()
    schedule = loss if isinstance(loss, Schedule) else Schedule(stage(loss, 1))
    for entry in schedule.stages if colors else ():
        inner = entry.loss.loss if isinstance(entry.loss, Blurred) else entry.loss
        if not isinstance(inner, DIFFERENCES):
            known = ", ".join(kind.name for kind in DIFFERENCES)
            raise InputError(f"the loss {entry.loss.name!r} compares silhouettes; colours are compared by {known}.")
    return schedule
