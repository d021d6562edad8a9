"""Depth, normals, ids and optical flow as pictures to look at: arrays (frames, height, width, 3) uint8."""

import numpy as np

NEAR, FAR = 255, 50  # grey levels; where there is nothing it is 0
GOLDEN = 0.6180339887  # hues that follow one another by the golden section are far apart


def depth(z: np.ndarray) -> np.ndarray:
    """Distances (frames, height, width) [m], infinite for nothing: bright is near, over the range of all frames."""
    seen = np.isfinite(z)
    low, high = (z[seen].min(), z[seen].max()) if seen.any() else (0.0, 1.0)
    share = np.where(seen, (z - low) / max(high - low, np.finfo(float).tiny), 0.0)
    grey = np.where(seen, NEAR + (FAR - NEAR) * share, 0)
    return np.rint(grey[..., None].repeat(3, -1)).astype(np.uint8)


def normals(n: np.ndarray) -> np.ndarray:
    """Unit normals (frames, 3, height, width), 0 for nothing: x is red, y green, z blue, from -1 to 1; 0 is grey."""
    return np.rint((np.moveaxis(n, 1, -1) + 1) * 127.5).astype(np.uint8)


def ids(part: np.ndarray) -> np.ndarray:
    """Numbers (frames, height, width), -1 for nothing, which is black: a hue for each."""
    hue = (part * GOLDEN) % 1.0
    return _rgb(hue, np.full(part.shape, 0.65), np.where(part >= 0, 0.95, 0.0))


def flow(motion: np.ndarray) -> np.ndarray:
    """Motions (frames, 2, height, width) [px] on the colour wheel.

    Hue is the direction (right red, down yellow-green, left cyan, up violet); the stronger the colour the faster, over
    the range of all frames; white stands still.
    """
    right, down = np.nan_to_num(motion[:, 0]), np.nan_to_num(motion[:, 1])
    speed = np.hypot(right, down)
    hue = (np.arctan2(down, right) / (2 * np.pi)) % 1.0
    return _rgb(hue, speed / max(speed.max(initial=0.0), np.finfo(float).tiny), np.ones_like(speed))


def _rgb(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Smith 1978, all arrays of one shape in [0, 1]."""
    sector = (6 * hue[..., None] + np.array([5.0, 3.0, 1.0])) % 6
    share = np.clip(np.minimum(sector, 4 - sector), 0, 1)
    colour = value[..., None] * (1 - saturation[..., None] * share)
    return np.rint(255 * colour).astype(np.uint8)
