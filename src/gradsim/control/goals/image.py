"""A picture of the goal, from a file or a tensor, as the camera of the scene would make it.

Silhouettes of a coloured picture are what differs from the empty scene (`gradsim.video.background`).

A goal that is seen: pictures of where things should be, and nothing else.

    loss = mean over pictures of loss(image of the episode in that frame, picture)

Only the frames that have a picture are drawn. Silhouettes are those of the bodies alone, as if grounds and obstacles
were of glass: nothing should hide the body in the picture.
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
from gradsim.video.background import QUANTIZED, STRONG, subtract_background

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


Sees = Silhouettes | Renderer
Given = Tensor | str | Path

LEAST = 4  # pixels that differ from the background: what `subtract_background` takes for more than a defect
UNLIKE = 0.02  # difference of most pixels from the background, beyond that of compressed pictures


def listed(given: Given | Sequence[Given]) -> list[Given]:
    """One picture or several as a list."""
    return [given] if isinstance(given, str | Path | Tensor) or not isinstance(given, Sequence) else list(given)


def target_of(given: Given, sees: Sees, colours: bool, background: Tensor | None = None) -> Tensor:
    """What the camera's image is compared with.

    Args:
        given: Path of a png or jpg, or a tensor in [0, 1]: (3, height, width) in colours, or a silhouette
            (height, width) or (1, height, width), which is 1 where the body is. A grey file is a silhouette too.
        sees: The renderer of the camera.
        colours: Whether colours are compared.
        background: The empty scene (3, height, width); None: the background of the renderer.

    Returns:
        Colours (3, height, width), or a silhouette (height, width), in [0, 1].

    Raises:
        InputError: If the picture cannot be read, its size is not that of the camera, it has other channels, or shows
            nothing.
    """
    name = str(given) if isinstance(given, str | Path) else "the goal picture"
    picture = read(given)
    height, width = sees.camera.height, sees.camera.width
    if picture.shape[1:] != (height, width):
        raise InputError(
            f"{name} is {picture.shape[2]} × {picture.shape[1]} px; the camera `{sees.lens}` makes {width} × {height}. "
            f"Scale one of them: the picture, or `{sees.lens}.size` of the scene."
        )
    if colours and len(picture) != 3:
        raise InputError(f"{name} has {len(picture)} channel; colours are compared with 3: red, green and blue.")
    if colours:
        return picture
    mask = picture[0] if len(picture) == 1 else silhouette(picture, _background(sees, background), name)
    if not mask.sum() >= 1:
        raise InputError(f"{name} is an empty silhouette; it needs a body, as 1 on 0.")
    if isinstance(given, str | Path) and mask.median() > UNLIKE:  # a grey photograph, or black on white
        raise InputError(
            f"{name} is no silhouette: most of it is not black, but {mask.median():.2g}. Give it in colours, or the body "
            "bright on black."
        )
    return mask


def read(given: Given) -> Tensor:
    """A goal picture as it is, (3 or 1, height, width) in [0, 1].

    Raises:
        InputError: If it cannot be read, or has other channels.
    """
    return _from_file(Path(given)) if isinstance(given, str | Path) else _checked(given)


def silhouette(picture: Tensor, background: Tensor, name: str = "the goal picture") -> Tensor:
    """The share of each pixel (height, width) that something covers which is not in the background.

    Args:
        picture: (3, height, width) in [0, 1].
        background: The empty scene, the same.
        name: What to call the picture in the message.

    Raises:
        InputError: If it shows nothing but the background, or has another background.
    """
    size = (picture - background).square().mean(0).sqrt()
    if not (size > STRONG * QUANTIZED).sum() >= LEAST:
        raise InputError(f"{name} shows nothing but the background; it needs the body where it should be.")
    if size.median() > UNLIKE:
        raise InputError(
            f"{name} differs from the empty scene in most pixels, by {size.median():.2g}: no body can be told from the "
            "background. Give the scene the picture's `background`, or a silhouette, bright on black in a grey picture."
        )
    film, still = (np.moveaxis(x.detach().double().cpu().numpy(), 0, -1) for x in (picture, background))
    try:
        mask = subtract_background(film[None] * 255, still).masks[0]
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return torch.from_numpy(mask.clip(0, 1)).to(picture.device)


def _background(sees: Sees, given: Tensor | None) -> Tensor:
    if given is not None:
        return given
    colour = torch.as_tensor(sees.background, dtype=torch.float64)
    return colour if colour.ndim == 3 else colour[:, None, None].expand(3, sees.camera.height, sees.camera.width)


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
        raise InputError(f"there is no goal picture {path}.") from None
    except InputError:
        raise
    except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as a picture ({error}); export it again as png.") from error
    return torch.from_numpy(values[None] if values.ndim == 2 else np.moveaxis(values, -1, 0).copy())


def _checked(picture: Tensor) -> Tensor:
    if not isinstance(picture, Tensor):
        raise InputError(f"the goal picture is {type(picture).__name__}; expected a path, or a tensor.")
    if picture.ndim not in (2, 3) or (picture.ndim == 3 and len(picture) not in (1, 3)):
        raise InputError(
            f"the goal picture has shape {tuple(picture.shape)}; expected (3, height, width) in colours, or a silhouette "
            "(height, width)."
        )
    if not picture.is_floating_point():
        raise InputError(f"the goal picture is of {picture.dtype}; it needs floats in [0, 1]: divide by 255.")
    if not ((picture >= 0) & (picture <= 1 + 1e-6)).all():
        raise InputError(
            f"the goal picture has values from {picture.min():.4g} to {picture.max():.4g}; it needs [0, 1], such as "
            "values of 8 bits divided by 255."
        )
    return picture.detach()[(None,) * (3 - picture.ndim)]


DIFFERENCES = (MSE, L1, Pyramid)  # losses that take any numbers; the others read an image as a share of a body


@final
class PictureGoal(Goal):
    """Pictures of the goal, of one or more cameras, in one or more frames.

    Args:
        sees: The renderer of each picture, or one of all: `Silhouettes.of(scene, camera)`, which is the fastest, or a
            `Renderer`.
        pictures: Paths or tensors, see `target_of`; one or several.
        frames: Of each picture, or one of all; -1 is the last of an episode.
        loss: A loss of images or its name, or a `Schedule` of them by iteration; by default the CDF for 30 iterations,
            which sees the body anywhere, then the difference of pixels.
        colours: Compare colours, as the paper does (loss "mse"); else silhouettes.
        background: The empty scene (3, height, width) of each picture, or None: that of the renderer.
        truth: For figures, see `Goal`.

    Raises:
        InputError: If a picture is not what its camera makes (see `target_of`), there are not as many renderers, frames
            or backgrounds as pictures, or the loss does not compare colours.
    """

    def __init__(
        self,
        sees: Sees | Sequence[Sees],
        pictures: Given | Sequence[Given],
        frames: int | Sequence[int] = -1,
        loss: Schedule | ImageLoss | str | None = None,
        colours: bool = False,
        background: Sequence[Tensor | None] | None = None,
        truth: Truth | None = None,
    ):
        super().__init__(truth)
        given = listed(pictures)
        if not given:
            raise InputError("the goal has no picture; give at least one.")
        self.sees: list[Sees] = _each(sees, len(given), "renderers")
        self.frames: list[int] = _each(frames, len(given), "frames")
        empty = [None] * len(given) if background is None else _each(background, len(given), "backgrounds")
        self.colours, self.schedule = colours, _schedule(loss, colours)
        self.targets = [
            target_of(picture, eye, colours, B) for picture, eye, B in zip(given, self.sees, empty, strict=True)
        ]

    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        compare, trajectory = self.schedule.at(iteration), episode.trajectory
        frames = within(self.frames, len(trajectory.times))
        part = trajectory.at(sorted(set(frames)))
        losses = []
        for sees, target, frame in zip(self.sees, self.targets, self.frames, strict=True):
            if frame in frames:
                image = self._image(sees, part.at([sorted(set(frames)).index(frame)]))
                losses.append(compare(image[:, 0], target))
        return torch.stack(losses).mean(0)

    def stage(self, iteration: int) -> str:
        """What the loss of an iteration is called."""
        return self.schedule.at(iteration).name

    def image(self, episode: "Episode", picture: int = 0) -> Tensor:
        """What is compared with a picture: (worlds, height, width), or (worlds, 3, height, width) in colours."""
        return self._image(self.sees[picture], episode.trajectory.at([self.frames[picture]]))[:, 0]

    def _image(self, sees: Sees, seen) -> Tensor:
        if self.colours:
            return sees(seen.drawn, seen.values)
        mask = sees.union if isinstance(sees, Silhouettes) else sees.alpha
        return mask(seen.surface, seen.values)


def _each(given, count: int, what: str) -> list:
    """One for each picture."""
    several = isinstance(given, Sequence) and not isinstance(given, str)
    found = list(given) if several else [given] * count
    if len(found) != count:
        raise InputError(f"the goal has {count} pictures and {len(found)} {what}; give one for each, or one for all.")
    return found


def _schedule(loss: Schedule | ImageLoss | str | None, colours: bool) -> Schedule:
    if loss is None:
        loss = Schedule(stage("mse", 1)) if colours else coarse_to_fine()
    found = loss if isinstance(loss, Schedule) else Schedule(stage(loss, 1))
    for each in found.stages if colours else ():
        inner = each.loss.loss if isinstance(each.loss, Blurred) else each.loss
        if not isinstance(inner, DIFFERENCES):
            known = ", ".join(kind.name for kind in DIFFERENCES)
            raise InputError(f"the loss {each.loss.name!r} reads silhouettes; colours are compared by {known}.")
    return found
