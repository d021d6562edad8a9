"""Outline of a colored ball in a video with motion blur.

A pixel at the edge of the ball, or within its motion blur, is a mixture of ball and background:

    I = p F + q B,   fraction = p / (p + q)                  in linear light, not in the bytes of a video

with the ball's color F and the background B. Shading reduces p and a shadow on the background q; neither turns background
into ball. The level set of fraction 1/2 is the outline at the middle of the exposure: a point on it was covered for half
of the time. Print and string across the ball leave holes, so the outline is the convex hull.
"""

from collections.abc import Sequence

import numpy as np

from gradsim.errors import InputError
from gradsim.video.connected_regions import connected_regions
from gradsim.video.masks import require_masks

MIN_BRIGHTNESS = 0.05  # p below which a pixel is too dark to have a color
BLUR = 3  # [px] width of the box filter, which removes the dither of small palettes

# sRGB, IEC 61966-2-1
_BYTES = np.arange(256) / 255
LINEAR = np.where(_BYTES <= 0.04045, _BYTES / 12.92, ((_BYTES + 0.055) / 1.055) ** 2.4).astype(np.float32)


def color_fractions(frames: np.ndarray, color: Sequence[float], background: np.ndarray | None = None) -> np.ndarray:
    """Fraction of each pixel's color that is the ball's, (T, height, width) float32 in [0, 1].

    Args:
        frames: (T, height, width, 3) uint8.
        color: RGB of the ball where it is well lit, in [0, 1].
        background: (height, width, 3) uint8; by default the median over time of each pixel.

    Raises:
        InputError: If ball and background have the same hue somewhere.
    """
    from scipy import ndimage

    behind = np.median(frames, axis=0).astype(np.uint8) if background is None else background
    F, B = LINEAR[np.rint(np.asarray(color) * 255).astype(int)], LINEAR[behind]
    FF, FB, BB = F @ F, B @ F, (B**2).sum(-1)
    determinant = FF * BB - FB**2
    if (determinant < 1e-3 * FF * BB).any():
        raise InputError(
            f"the ball's colour {list(color)} has the hue of the background; give a video with another background."
        )
    fractions = np.empty(frames.shape[:3], np.float32)
    for frame, fraction in zip(frames, fractions, strict=True):
        light = ndimage.uniform_filter(LINEAR[frame], BLUR, axes=(0, 1))
        IF, IB = light @ F, np.einsum("ijk,ijk->ij", light, B)
        p, q = ((BB * IF - FB * IB) / determinant).clip(0), ((FF * IB - FB * IF) / determinant).clip(0)
        fraction[:] = np.where(p > MIN_BRIGHTNESS, p / np.maximum(p + q, MIN_BRIGHTNESS), 0)
    return fractions


def outline_masks(fractions: np.ndarray, level: float = 0.5, name: str = "the video") -> np.ndarray:
    """Masks (T, height, width) float32 of the ball: the convex hull of the largest region above a level, antialiased.

    Args:
        fractions: From `color_fractions`.
        level: Threshold; 1/2 is the outline at the middle of the exposure.
        name: Name of the video in errors.

    Raises:
        InputError: If a frame has no pixel above the level.
    """
    hulls = np.stack([_hull(frame > level) for frame in fractions])
    require_masks(hulls, name)
    return hulls


def downsample_masks(masks: np.ndarray, factor: int) -> np.ndarray:
    """Average masks over squares of `factor` pixels.

    Raises:
        InputError: If the image size is not a multiple of the factor.
    """
    count, height, width = masks.shape
    if height % factor or width % factor:
        raise InputError(
            f"an image of {width} × {height} px has no whole number of squares of {factor} px; choose a factor that "
            "divides both."
        )
    squares = masks.reshape(count, height // factor, factor, width // factor, factor)
    return squares.mean((2, 4), dtype=np.float64)


def centroids(masks: np.ndarray) -> np.ndarray:
    """Centroids (T, 2) of masks, column and row [px], pixel centers at +0.5."""
    column_sums, row_sums = masks.sum(1, dtype=np.float64), masks.sum(2, dtype=np.float64)
    columns, rows = (np.arange(n) + 0.5 for n in masks.shape[:0:-1])
    return np.stack([column_sums @ columns, row_sums @ rows], 1) / column_sums.sum(1, keepdims=True)


def _hull(inside: np.ndarray) -> np.ndarray:
    """Coverage by the convex hull of the largest connected region; zero without a region."""
    from scipy import ndimage
    from scipy.spatial import ConvexHull

    covered = np.zeros(inside.shape, np.float32)
    labels, count = connected_regions(inside, None)
    if not count:
        return covered
    blob = labels == 1 + ndimage.sum(inside, labels, np.arange(1, count + 1)).argmax()
    row, column = np.nonzero(blob)
    corners = np.concatenate([np.stack([column + i, row + j], 1) for i in (0, 1) for j in (0, 1)])
    box = slice(row.min(), row.max() + 1), slice(column.min(), column.max() + 1)
    y, x = np.meshgrid(*(np.arange(s.start, s.stop) + 0.5 for s in box), indexing="ij")
    sides = ConvexHull(corners).equations  # outward normals and offsets
    covered[box] = (0.5 - (np.stack([x, y, np.ones_like(x)], -1) @ sides.T).max(-1)).clip(0, 1)
    return covered
