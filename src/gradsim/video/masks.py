"""Masks of bodies in a video: how much of each pixel a body covers.

Frames are (T, height, width, 3) uint8, masks (T, height, width) float64. Colours and thresholds are in [0, 1], as in
a scene. A mask without a single pixel is an error here; `check` is stricter and wants pixels in every frame.
"""

from collections.abc import Sequence

import numpy as np

from gradsim.errors import InputError

Colour = Sequence[float] | np.ndarray


def from_mask_video(frames: np.ndarray, threshold: float = 0.5, grey: bool = False) -> np.ndarray:
    """The masks in a video that shows a body bright on black.

    Args:
        frames: Of the mask video.
        threshold: A pixel is in the mask if any of its channels is above.
        grey: Return the brightest channel itself, in [0, 1], as antialiased masks need it.

    Raises:
        InputError: If no channel of any pixel is above the threshold.
    """
    brightest = frames.max(axis=-1) / 255
    if not brightest.max() > threshold:
        raise InputError(
            f"the mask video has no mask pixel: its brightest channel is {brightest.max():.3g}, the threshold "
            f"{threshold}; lower the threshold or give another mask."
        )
    return brightest if grey else (brightest > threshold).astype(np.float64)


def colour_key(frames: np.ndarray, colour: Colour, tolerance: float, softness: float = 0.0) -> np.ndarray:
    """The pixels that have a colour.

        mask = clip(1 − (|I − colour| − tolerance) / softness, 0, 1)

    Args:
        frames: Of the video.
        colour: RGB of the body.
        tolerance: Distance in RGB up to which a pixel is wholly in the mask.
        softness: Over this further distance the mask falls to 0; 0 makes a hard mask.

    Raises:
        InputError: If no pixel of any frame is in the mask.
    """
    key = _unit(colour, "colour")
    distance = np.stack([np.linalg.norm(frame / 255 - key, axis=-1) for frame in frames])
    if softness:
        mask = np.clip(1 - (distance - tolerance) / softness, 0, 1)
    else:
        mask = (distance <= tolerance).astype(np.float64)
    if not mask.any():
        raise InputError(
            f"colour {key.tolist()} has no mask pixel in any frame: the nearest is {distance.min():.3g} away, the "
            f"tolerance {tolerance}; raise it or take the colour from a frame."
        )
    return mask


def alpha_from_flat_colours(
    frames: np.ndarray, foreground: Colour, background: Colour, clip: bool = False
) -> np.ndarray:
    """How much of each pixel a flat body covers on a known background: flat compositing inverted.

        I = α F + (1 − α) B   ⇒   α = (I − B)·(F − B) / |F − B|²      (least squares along the colour difference)

    Exact for frames that follow the first equation. Noise of mean 0 in I gives noise of mean 0 in α, of standard
    deviation σ / |F − B|; clipping would make it biased, so an estimate wants α as it is.

    Args:
        frames: Of the video.
        foreground: RGB of the body, F.
        background: RGB (3), or a picture (height, width, 3), uint8 or in [0, 1], B.
        clip: Cut α to [0, 1], to look at it.

    Raises:
        InputError: If foreground and background are alike (closer than one grey level) somewhere.
    """
    fore, back = _unit(foreground, "foreground"), _unit(background, "background")
    if back.ndim != 1 and back.shape != frames.shape[1:]:
        raise InputError(f"background has shape {back.shape}, the frames {frames.shape[1:]}; make them equal.")
    difference = fore - back
    contrast = (difference**2).sum(axis=-1)
    alike = contrast < (1 / 255) ** 2
    if alike.any():
        where = f" in {alike.sum()} of {alike.size} pixels" if alike.size > 1 else ""
        raise InputError(
            f"foreground {fore.tolist()} and background are the same{where}, so the body cannot be seen; "
            "choose another colour, or give a mask video."
        )
    weight = difference / contrast[..., None]
    alpha = np.stack([((frame / 255 - back) * weight).sum(axis=-1) for frame in frames])
    return np.clip(alpha, 0, 1) if clip else alpha


def median_background(frames: np.ndarray) -> np.ndarray:
    """What is behind moving bodies: the median over time of each pixel, (height, width, 3) in [0, 1].

    Right where a body covers the pixel in fewer than half of the frames.
    """
    return np.median(frames, axis=0) / 255


def subtract_background(frames: np.ndarray, background: Colour | None = None, threshold: float = 0.1) -> np.ndarray:
    """The pixels where any channel differs from the background by more than `threshold`.

    Args:
        frames: Of the video.
        background: RGB (3), or a picture (height, width, 3), uint8 or in [0, 1]; by default `median_background`.
        threshold: Above the noise, below the contrast of the body.

    Raises:
        InputError: If no pixel of any frame is in the mask.
    """
    back = median_background(frames) if background is None else _unit(background, "background")
    difference = np.stack([np.abs(frame / 255 - back).max(axis=-1) for frame in frames])
    if not difference.max() > threshold:
        raise InputError(
            f"no frame differs from the background: the largest difference is {difference.max():.3g}, the threshold "
            f"{threshold}; lower it, or give a picture of the empty background."
        )
    return (difference > threshold).astype(np.float64)


def check(masks: np.ndarray, name: str) -> None:
    """Make sure that every frame has a pixel in the mask; `name` says whose mask it is.

    Raises:
        InputError: If a frame has none; it names these frames.
    """
    empty = np.flatnonzero(~(masks > 0).any(axis=(1, 2)))
    if len(empty):
        listed = ", ".join(map(str, empty[:10])) + (", …" if len(empty) > 10 else "")
        raise InputError(
            f"{name} has no mask pixel in {len(empty)} of {len(masks)} frames ({listed}); give a mask that shows the "
            "body in every frame, or cut the video to where it is in view."
        )


def _unit(colour: Colour, name: str) -> np.ndarray:
    """A colour or picture in [0, 1], from numbers in [0, 1] or from uint8."""
    value = np.asarray(colour)
    value = value / 255 if value.dtype == np.uint8 else value.astype(np.float64)
    if value.shape[-1:] != (3,) or not ((value >= 0) & (value <= 1)).all():
        raise InputError(f"{name} has shape {value.shape}; it needs red, green, blue in [0, 1], or uint8.")
    return value
