"""The outline of a coloured ball in a video, motion blur and all.

Light adds up where a picture mixes a ball and what is behind it, at its edge and along the blur of its motion:

    I = p F + q B,   share = p / (p + q)                     in linear light, not in the bytes of a video

with the ball's colour F and the background B. Shading dims p, a shadow on the wall behind dims q, and neither turns a
wall into a ball. The line of half a share is the outline of a ball at the middle of the exposure: a point on it was
covered for half of the time. Writing and string across the ball leave holes, so the outline is the convex hull.
"""

from collections.abc import Sequence

import numpy as np

from gradsim.errors import InputError
from gradsim.video import masks as masks_of

DIM = 0.05  # p below which a pixel is too dark to have a colour
BLUR = 3  # [px] width of the mean over neighbours, which undoes the dither of small palettes

# sRGB, IEC 61966-2-1
_BYTES = np.arange(256) / 255
LINEAR = np.where(_BYTES <= 0.04045, _BYTES / 12.92, ((_BYTES + 0.055) / 1.055) ** 2.4).astype(np.float32)


def shares(frames: np.ndarray, colour: Sequence[float], background: np.ndarray | None = None) -> np.ndarray:
    """How much of the colour in each pixel is the ball's, (T, height, width) float32 in [0, 1].

    Args:
        frames: (T, height, width, 3) uint8.
        colour: RGB of the ball where it is well lit, in [0, 1].
        background: What is behind, (height, width, 3) uint8; by default the median over time of each pixel.

    Raises:
        InputError: If ball and background have the same hue somewhere.
    """
    from scipy import ndimage

    behind = np.median(frames, axis=0).astype(np.uint8) if background is None else background
    F, B = LINEAR[np.rint(np.asarray(colour) * 255).astype(int)], LINEAR[behind]
    FF, FB, BB = F @ F, B @ F, (B**2).sum(-1)
    determinant = FF * BB - FB**2
    if (determinant < 1e-3 * FF * BB).any():
        raise InputError(f"the ball's colour {list(colour)} has the hue of the background; choose another video.")
    found = np.empty(frames.shape[:3], np.float32)
    for frame, share in zip(frames, found, strict=True):
        light = ndimage.uniform_filter(LINEAR[frame], BLUR, axes=(0, 1))
        IF, IB = light @ F, np.einsum("ijk,ijk->ij", light, B)
        p, q = ((BB * IF - FB * IB) / determinant).clip(0), ((FF * IB - FB * IF) / determinant).clip(0)
        share[:] = np.where(p > DIM, p / np.maximum(p + q, DIM), 0)
    return found


def outlines(share: np.ndarray, level: float = 0.5, name: str = "the video") -> np.ndarray:
    """Masks (T, height, width) float32 of the ball: the convex hull of the largest blob above a level, with soft edges.

    Args:
        share: From `shares`.
        level: Half is the outline at the middle of the exposure.
        name: Whose masks these are, for the error.

    Raises:
        InputError: If a frame has no pixel above the level.
    """
    found = np.stack([_hull(frame > level) for frame in share])
    masks_of.check(found, name)
    return found


def shrink(masks: np.ndarray, factor: int) -> np.ndarray:
    """Means over squares of `factor` pixels: masks become coverages.

    Raises:
        InputError: If the size is not a multiple of the factor.
    """
    count, height, width = masks.shape
    if height % factor or width % factor:
        raise InputError(f"a picture of {width} × {height} px has no whole number of squares of {factor} px.")
    squares = masks.reshape(count, height // factor, factor, width // factor, factor)
    return squares.mean((2, 4), dtype=np.float64)


def centres(masks: np.ndarray) -> np.ndarray:
    """Centroids (T, 2) of masks, column and row [px], pixel centres at +0.5."""
    across, down = masks.sum(1, dtype=np.float64), masks.sum(2, dtype=np.float64)
    columns, rows = (np.arange(n) + 0.5 for n in masks.shape[:0:-1])
    return np.stack([across @ columns, down @ rows], 1) / across.sum(1, keepdims=True)


def _hull(inside: np.ndarray) -> np.ndarray:
    """Coverage by the convex hull of the largest connected blob; nothing where there is no blob."""
    from scipy import ndimage
    from scipy.spatial import ConvexHull

    covered = np.zeros(inside.shape, np.float32)
    labels, count = ndimage.label(inside)
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
