"""Background subtraction: soft masks, with their noise, in front of a static textured background.

    I = α F + (1 − α) B   ⇒   α = (I − B)·(F − B) / |F − B|²,      standard deviation σ / |F − B|

per pixel, of light I = value^γ (a pixel on an edge is a mean of light, not of values), so a pixel holds less information the closer its background is to the body's color, and none where they are
equal. B is an image of the empty scene, the median over time, or that of a mixture of Gaussians (`gradsim.video.mog2`). F is the
body's color where it is known. Otherwise the body is the connected region that differs from B (hysteresis threshold), and F of
a pixel at its edge is the color a few pixels further inside, with the shading of the body continued to the edge. σ is estimated from I − B outside of the body.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.errors import InputError
from gradsim.video.background_checks import check_background
from gradsim.video.camera_noise import UPPER_THRESHOLD, noise_and_bodies, noise_without
from gradsim.video.connected_regions import grown
from gradsim.video.front_coverage import (
    COLOR_WEIGHTS,
    PENUMBRA,
    Images,
    alpha_in_front,
    alpha_of_color,
    cores_of,
    passage,
    strongest,
    sweep,
)
from gradsim.video.mask_faults import BODY_COVERAGE
from gradsim.video.masks import median_background
from gradsim.video.mog2 import mixture_background
from gradsim.video.response import Edges, edges_of
from gradsim.video.shadows import shadow_shares
from gradsim.video.windowed import FrameWindows

MOG2 = "mog2"  # background that is a mixture of Gaussians
BLOCK = 2**16  # pixels of a background whose median is taken at once


@dataclass(frozen=True, eq=False)
class Subtraction:
    """Masks with their noise.

    Attributes:
        masks: Coverage (T, height, width) of frames, or of windows of them, not clipped, so that the noise has mean 0.
        sigma: Standard deviation of a mask pixel of median contrast.
        weight: (T, height, width) of each squared residual: (contrast / median contrast)², 0 without contrast.
        background: (height, width, 3) in [0, 1].
        noise: Standard deviation of a channel of the video, in [0, 1].
        edges: Colors from which coverage follows, of the pixels of masks that bodies may cover.
        windows: Where in frames masks and weights are; None: they are of whole frames.
        shadows: Share (T,) of each mask that looks like a cast shadow; None where shadows are left out, or bodies were stated.
    """

    masks: np.ndarray
    sigma: float
    weight: np.ndarray
    background: np.ndarray
    noise: float
    edges: Edges | None = None
    windows: FrameWindows | None = None
    shadows: np.ndarray | None = None


def subtract_background(
    frames: np.ndarray,
    background: np.ndarray | str | None = None,
    color: Sequence[float] | np.ndarray | None = None,
    subsampled: bool = False,
    bodies: np.ndarray | None = None,
    blur: float = 0.0,
    gamma: float = 1.0,
    inside: np.ndarray | None = None,
    windowed: bool = False,
) -> Subtraction:
    """Masks of moving bodies in front of a static background.

    Args:
        frames: (T, height, width, 3) uint8.
        background: (height, width, 3) in [0, 1], of the empty scene; None: the median over time; "mog2": a mixture of Gaussians
            per pixel, whose shadows are not bodies.
        color: RGB in [0, 1] of a flat body; None: everything that differs from the background.
        subsampled: True for a codec with chroma at half the resolution: coverage is mostly from luma then, which is as sharp as the
            pixels and not shifted.
        bodies: (T, height, width) bool, where bodies are, to half a pixel or half the blur; None: where the video differs from the
            background. What else differs, such as a shadow, is not a body then.
        blur: Share of the time between frames in which the shutter is open: what a body passes in it is covered in part, and its color
            is that further inside.
        gamma: γ of the camera's response: light is a value to this power. What differs, and the noise, are of values.
        inside: (T, height, width, 3) in [0, 1], colors of `bodies` at the pixels about their edges; NaN where it is that further inside.
        windowed: True for masks and weights of windows about the bodies alone, which take some 40 bytes for each of their pixels, and some 10 for each pixel of the frames
            meanwhile.

    Raises:
        InputError: If the camera moves, nothing differs from the background, the body has the background's color, or
            it covers a pixel in too many frames for the median or the mixture.
    """
    if bodies is not None and not isinstance(background, str):
        near = sweep(bodies, passage(bodies, blur), PENUMBRA)
        B = background_behind(frames, bodies, blur) if background is None else background
        _check_size(frames, B)
        if background is None and np.isnan(B).any():
            raise InputError(
                "bodies cover a part of the background in all frames; give an image or a video of the empty scene (--background FILE)."
            )
        noise = noise_without(frames, B, near, subsampled)
        return _subtraction(
            frames,
            B,
            bodies,
            noise,
            color,
            subsampled,
            confined=True,
            blur=blur,
            near=near,
            gamma=gamma,
            inside=inside,
            windowed=windowed,
        )
    if isinstance(background, str):
        B, bodies = mixture_background(frames)
        check_background(frames, B, bodies, "mixture of Gaussians")
        noise = noise_without(frames, B, bodies, subsampled)
        return _subtraction(
            frames, B, bodies, noise, color, subsampled, confined=True, blur=blur, gamma=gamma, windowed=windowed
        )
    median = background is None
    B = median_background(frames) if background is None else background
    _check_size(frames, B)
    noise, bodies = noise_and_bodies(frames, B, subsampled)
    if not bodies.any():
        raise InputError(
            f"nothing in the video differs from the background by more than {UPPER_THRESHOLD:g} times the noise of {noise:.2g}: "
            "the body is not visible, or it never moves and is part of the median. Give an image of the empty scene "
            "(--background FILE), or masks (--mask)."
        )
    if median:
        check_background(frames, B, bodies, "median")
        # where a body passed, the median of all frames is biased towards its color
        B = _median_without(frames, B, grown(bodies))
        noise, bodies = noise_and_bodies(frames, B, subsampled)
    # the median of T frames has a variance of π/(2 T) of theirs
    scale = (1 + np.pi / (2 * len(frames))) ** 0.5 if median else 1.0
    return _subtraction(
        frames, B, bodies, noise, color, subsampled, scale, blur=2 * blur, gamma=gamma, windowed=windowed
    )  # all of which differs


def background_behind(frames: np.ndarray, bodies: np.ndarray, blur: float = 0.0) -> np.ndarray:
    """Median (height, width, 3) in [0, 1] over the frames in which a pixel is not near a body; NaN where it always is.

    Args:
        frames: (T, height, width, 3) uint8.
        bodies: (T, height, width) bool.
        blur: As in `subtract_background`.
    """
    near = sweep(bodies, passage(bodies, blur), PENUMBRA)
    return _median_without(frames, median_background(frames), near)


def _check_size(frames: np.ndarray, B: np.ndarray) -> None:
    if B.shape != frames.shape[1:]:
        raise InputError(
            f"the background is {B.shape[1]} × {B.shape[0]} px, the video {frames.shape[2]} × {frames.shape[1]}; give a "
            "background of the video's size (--background)."
        )


def _subtraction(
    frames: np.ndarray,
    B: np.ndarray,
    bodies: np.ndarray,
    noise: float,
    color: Sequence[float] | np.ndarray | None,
    subsampled: bool,
    scale: float = 1.0,
    confined: bool = False,
    blur: float = 0.0,
    near: np.ndarray | None = None,
    gamma: float = 1.0,
    inside: np.ndarray | None = None,
    windowed: bool = False,
) -> Subtraction:
    """Coverage, of the stated color or of that inside the bodies.

    Args:
        frames: (T, height, width, 3) uint8.
        B: Background (height, width, 3).
        bodies: (T, height, width) bool.
        noise: Of a channel.
        color: As in `subtract_background`.
        subsampled: As there.
        scale: Of the noise, by that of the background.
        confined: Whether coverage by a stated color is 0 away from the bodies: there may be shadows.
        blur: As there.
        near: Pixels that a body may cover (T, height, width); None: the bodies and the pixels next to them.
        gamma: As there.
        inside: As there.
        windowed: As there.

    Raises:
        InputError: If the background has the body's color, or the body another than stated.
    """
    shaded, passed = near is not None, passage(bodies, blur)
    windows = FrameWindows.about(bodies if near is None else near) if windowed else None
    images: Images = frames
    backgrounds, inner_colors = [B] * len(frames), inside
    if windows is not None:
        images, backgrounds = windows.cut(frames), windows.cut(backgrounds)
        bodies = np.stack(windows.cut(bodies))
        near = None if near is None else np.stack(windows.cut(near))
        inner_colors = None if inside is None else windows.cut(inside)
    near = grown(bodies) if near is None else near
    cores = cores_of(bodies, passed)
    metric, colors = COLOR_WEIGHTS if subsampled else np.eye(3), []
    colored = cores if cores.any() or color is not None else strongest(images, backgrounds, bodies)
    masks, contrast = (
        alpha_in_front(images, backgrounds, cores, colored, near, metric, shaded, gamma, inner_colors, colors)
        if color is None
        else alpha_of_color(images, backgrounds, np.asarray(color), metric, gamma, near, colors)
    )
    if confined:
        masks[~near] = 0.0
    usable = contrast > (4 * noise) ** 2
    if color is not None and not usable[bodies].mean() > 0.5:
        raise InputError(
            f"more than half of the background behind the body has the body's colour {_rounded(color)}; give a mask "
            "video (--mask)."
        )
    masks[~usable] = 0.0
    if color is not None and (core := cores & usable).any() and abs(np.median(masks[core]) - 1) > 0.2:
        raise InputError(
            f"the moving body is not of the colour {_rounded(color)}: inside it the coverage is "
            f"{np.median(masks[core]):.2f}, not 1. Correct `colour` of the bodies, or remove it from the scene."
        )
    median_contrast = float(np.median(contrast[near & usable]))
    weight = np.where(usable, contrast / median_contrast, 0.0)
    if color is None or confined:
        weight[~near] = 1.0
    edges = None
    if colors:
        places, image, behind, inner = (np.concatenate(part) for part in zip(*colors, strict=True))
        clear = usable.reshape(-1)[places]
        edges = edges_of(places[clear], image[clear], behind[clear], inner[clear], metric)
    shadows = None if confined else shadow_shares(images, backgrounds, masks > BODY_COVERAGE)
    return Subtraction(masks, noise * scale / median_contrast**0.5, weight, B, noise, edges, windows, shadows)


def _median_without(frames: np.ndarray, B: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Median over the frames in which a pixel is not near a body (T, height, width); B where it never is."""
    B, passed = B.copy(), np.nonzero(near.any(0))
    for first in range(0, len(passed[0]), BLOCK):
        rows, columns = (at[first : first + BLOCK] for at in passed)
        hidden = near[:, rows, columns]
        values = np.where(hidden[..., None], np.int16(256), frames[:, rows, columns])  # behind all that count
        count = (~hidden).sum(0)[:, None]
        values = np.sort(values, axis=0)
        at = lambda k, values=values: np.take_along_axis(values, np.maximum(k, 0)[None].repeat(3, -1), 0)[0]
        middle = (at((count - 1) // 2) + at(count // 2)) / 2 / 255
        B[rows, columns] = np.where(count > 0, middle, np.nan)
    return B


def read_background(path: str | Path) -> np.ndarray:
    """Read a background (height, width, 3) in [0, 1]: an image, or the median of a video of the empty scene.

    Raises:
        InputError: If the file is missing or cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    from gradsim.video.read import read

    path = Path(path)
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        return median_background(read(path, fps=1.0).frames)
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB")) / 255
    except FileNotFoundError:
        raise InputError(
            f"the background {path} does not exist; give an image or a video of the empty scene, or `median` "
            "(--background)."
        ) from None
    except (OSError, SyntaxError, UnidentifiedImageError) as error:
        raise InputError(f"{path} cannot be read as an image ({error}); save it again.") from error


def _rounded(color: Sequence[float] | np.ndarray) -> list[float]:
    return [round(float(c), 3) for c in color]
