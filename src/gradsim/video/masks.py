"""Masks of bodies in a video: the fraction of each pixel that a body covers.

Frames are (T, height, width, 3) uint8, masks (T, height, width) float64. Colors and thresholds are in [0, 1], as in a
scene. A mask without a single pixel is an error; `require_masks` requires pixels in every frame.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gradsim.errors import InputError

Color = Sequence[float] | np.ndarray
LUMA = np.array([0.299, 0.587, 0.114])  # of red, green and blue (ITU-R BT.601)
LEAST_LUMA = 0.1  # difference from which on luma decides
OTHER_WEIGHT = 1e-3  # weight of the other directions
LEVELS = np.arange(256) / 255  # of the bytes of a frame, in [0, 1]
LOOKUP_ROWS = 32  # of which numbers of tables fit into the cache
WHITE = 250  # grey level that a codec may leave of 255


def from_mask_video(frames: np.ndarray, threshold: float = 0.5, grey: bool = False) -> np.ndarray:
    """Masks from a video that shows a body bright on black.

    Args:
        frames: Frames of the mask video.
        threshold: A pixel is in the mask if any of its channels is above.
        grey: Return the brightest channel itself, in [0, 1], for antialiased masks.

    Raises:
        InputError: If no channel of any pixel is above the threshold, or grey levels are labels: 0 and one that is not white.
    """
    brightest = frames.max(axis=-1) / 255
    levels = np.flatnonzero(np.bincount(frames.max(axis=-1).ravel(), minlength=256)) if grey else np.array([0, 255])
    if len(levels) == 2 and levels[0] == 0 and levels[1] < WHITE:
        raise InputError(
            f"the mask video has the levels 0 and {levels[1]} alone, as images of labels do; expected white (255) on the body. "
            f"Save it multiplied by {255 / levels[1]:.4g}, or as COCO annotations (--mask FILE.json)."
        )
    if not brightest.max() > threshold:
        raise InputError(
            f"the mask video has no mask pixel: its brightest channel is {brightest.max():.3g}, the threshold "
            f"{threshold}; lower the threshold or give another mask video."
        )
    return brightest if grey else (brightest > threshold).astype(np.float64)


def color_key(frames: np.ndarray, color: Color, tolerance: float, softness: float = 0.0) -> np.ndarray:
    """Mask of the pixels of a color.

        mask = clip(1 − (|I − color| − tolerance) / softness, 0, 1)

    Args:
        frames: Frames of the video.
        color: RGB of the body.
        tolerance: Distance in RGB up to which the mask is 1.
        softness: Further distance over which the mask falls to 0; 0: a hard mask.

    Raises:
        InputError: If no pixel of any frame is in the mask.
    """
    key = _unit(color, "colour")
    distance = np.stack([np.linalg.norm(frame / 255 - key, axis=-1) for frame in frames])
    if softness:
        mask = np.clip(1 - (distance - tolerance) / softness, 0, 1)
    else:
        mask = (distance <= tolerance).astype(np.float64)
    if not mask.any():
        raise InputError(
            f"colour {key.tolist()} has no mask pixel in any frame: the nearest is {distance.min():.3g} away, the "
            f"tolerance {tolerance}; raise the tolerance, or take the colour from a frame."
        )
    return mask


def luma_metric(foreground: Color, background: Color) -> np.ndarray:
    """Weights (3, 3) of differences of color, for films whose chroma has fewer pixels than their luma: those of luma, where it tells a body from its
    background.

    Chroma is half as sharp, and no file says for sure where its samples lie between those of luma: masks by all channels of a film in
    H.264 were 0.2 px off.
    """
    apart = abs(float((_unit(foreground, "foreground") - _unit(background, "background")) @ LUMA))
    return np.outer(LUMA, LUMA) + OTHER_WEIGHT * np.eye(3) if apart >= LEAST_LUMA else np.eye(3)


def alpha_from_flat_colors(
    frames: np.ndarray, foreground: Color, background: Color, clip: bool = False, metric: np.ndarray | None = None
) -> np.ndarray:
    """Coverage of each pixel by a body of one color on a known background: inverse compositing.

        I = α F + (1 − α) B   ⇒   α = (I − B)·(F − B) / |F − B|²      (least squares along the color difference, in a metric)

    Exact for frames that follow the first equation. Noise of mean 0 in I gives noise of mean 0 in α, of standard
    deviation σ / |F − B|; clipping would bias it, so estimates need the unclipped α.

    Args:
        frames: Frames of the video.
        foreground: RGB of the body, F.
        background: RGB (3), or an image (height, width, 3), uint8 or in [0, 1], B.
        clip: Clip α to [0, 1], for display.
        metric: Weights (3, 3) of differences of color, such as `luma_metric`; None: all channels alike.

    Raises:
        InputError: If foreground and background differ by less than one grey level in a pixel.
    """
    fore, back = _unit(foreground, "foreground"), _unit(background, "background")
    if back.ndim != 1 and back.shape != frames.shape[1:]:
        raise InputError(f"background has shape {back.shape}, the frames {frames.shape[1:]}; the two must be equal.")
    difference = fore - back
    contrast = (difference**2).sum(axis=-1)
    alike = contrast < (1 / 255) ** 2
    if alike.any():
        where = f" in {alike.sum()} of {alike.size} pixels" if alike.size > 1 else ""
        raise InputError(
            f"foreground {fore.tolist()} and background are the same{where}, so the body is invisible there; choose "
            "another colour, or give a mask video (--mask)."
        )
    if metric is not None:
        difference = difference @ metric
        contrast = (difference * (fore - back)).sum(axis=-1)
    weight = difference / contrast[..., None]
    if back.ndim == 1 and frames.dtype == np.uint8:
        tables = ((LEVELS[:, None] - back) * weight).T.copy()
        alpha = np.empty(frames.shape[:3])
        for image, frame in zip(alpha, frames, strict=True):
            for first in range(0, len(frame), LOOKUP_ROWS):
                rows = slice(first, first + LOOKUP_ROWS)
                red, green, blue = _look_up(tables, frame[rows])
                red += green
                np.add(red, blue, out=image[rows])
    else:
        alpha = np.stack([((frame / 255 - back) * weight).sum(axis=-1) for frame in frames])
    return np.clip(alpha, 0, 1) if clip else alpha


def distance_from_line(
    frames: Iterable[np.ndarray], alpha: Iterable[np.ndarray], foreground: Color, background: Color
) -> float:
    """Root mean square over pixels and channels of I − (α F + (1 − α) B).

    Args:
        frames: Frames of the video, I.
        alpha: Coverage of each, α.
        foreground: RGB of the body, F.
        background: RGB, B.
    """
    fore, back = _unit(foreground, "foreground"), _unit(background, "background")
    total, count = 0.0, 0
    for frame, coverage in zip(frames, alpha, strict=True):
        for off, step in zip(_look_up((LEVELS[:, None] - back).T, frame), fore - back, strict=True):
            off -= step * coverage
            total += off.ravel() @ off.ravel()
        count += frame.size
    return (total / count) ** 0.5


def share_off_color(frames: Iterable[np.ndarray], color: Color, tolerance: float) -> float:
    """Share of pixels of which a channel differs from that of a color by more than a tolerance, all in [0, 1]."""
    apart = (np.abs(LEVELS[:, None] - np.asarray(color)) > tolerance).T.copy()
    count = pixels = 0
    for frame in frames:
        red, green, blue = _look_up(apart, frame)
        count += np.count_nonzero(red | green | blue)
        pixels += red.size
    return count / pixels


def median_background(frames: np.ndarray) -> np.ndarray:
    """Background behind moving bodies: the median over time of each pixel, (height, width, 3) in [0, 1].

    Correct where bodies cover the pixel in fewer than half of the frames.
    """
    middle, half = np.empty(frames.shape[1:]), ((len(frames) - 1) // 2, len(frames) // 2)
    for row, one in enumerate(middle):  # a row of all frames fits into the cache
        one[:] = np.sort(frames[:, row], axis=0)[half, :].mean(0)
    return middle / 255


def require_masks(masks: np.ndarray, name: str) -> None:
    """Check that every frame has a pixel in the mask; `name` is the name of the mask in the error.

    Raises:
        InputError: If a frame has none; the message lists these frames.
    """
    empty = np.flatnonzero(~(masks > 0).any(axis=(1, 2)))
    if len(empty):
        listed = ", ".join(map(str, empty[:10])) + (", …" if len(empty) > 10 else "")
        raise InputError(
            f"{name} has no mask pixel in {len(empty)} of {len(masks)} frames ({listed}); give a mask that shows the "
            "body in every frame, or trim the video to the frames that show it."
        )


def _look_up(tables: np.ndarray, frame: np.ndarray) -> Iterator[np.ndarray]:
    """Entries of tables (3, 256) for red, green and blue of a frame (height, width, 3) uint8."""
    return (table.take(frame[..., c]) for c, table in enumerate(tables))


def _unit(color: Color, name: str) -> np.ndarray:
    """Color or image in [0, 1], from numbers in [0, 1] or from uint8."""
    value = np.asarray(color)
    value = value / 255 if value.dtype == np.uint8 else value.astype(np.float64)
    if value.shape[-1:] != (3,) or not ((value >= 0) & (value <= 1)).all():
        raise InputError(f"{name} has shape {value.shape}; it needs red, green, blue in [0, 1], or uint8.")
    return value
