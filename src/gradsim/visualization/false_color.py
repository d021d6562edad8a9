"""False-color images of depth, normals, ids and optical flow: arrays (frames, height, width, 3) uint8."""

import numpy as np

NEAR_LEVEL, FAR_LEVEL = 255, 50  # gray levels; 0 for the background
GOLDEN = 0.6180339887  # consecutive hues at the golden ratio are far apart


def depth(z: np.ndarray) -> np.ndarray:
    """Depth (frames, height, width) [m], infinite for the background: near is bright, scaled over all frames."""
    finite = np.isfinite(z)
    low, high = (z[finite].min(), z[finite].max()) if finite.any() else (0.0, 1.0)
    share = np.where(finite, (z - low) / max(high - low, np.finfo(float).tiny), 0.0)
    gray = np.where(finite, NEAR_LEVEL + (FAR_LEVEL - NEAR_LEVEL) * share, 0)
    return np.rint(gray[..., None].repeat(3, -1)).astype(np.uint8)


def normals(n: np.ndarray) -> np.ndarray:
    """Unit normals (frames, 3, height, width), 0 for the background: x, y, z in [-1, 1] as red, green, blue."""
    return np.rint((np.moveaxis(n, 1, -1) + 1) * 127.5).astype(np.uint8)


def ids(part: np.ndarray) -> np.ndarray:
    """Part numbers (frames, height, width), -1 for the background (black): one hue each."""
    hue = (part * GOLDEN) % 1.0
    return _rgb(hue, np.full(part.shape, 0.65), np.where(part >= 0, 0.95, 0.0))


def flow(displacement: np.ndarray) -> np.ndarray:
    """Optical flow (frames, 2, height, width) [px] on the color wheel.

    Hue is the direction (right red, down yellow-green, left cyan, up violet), saturation the speed, scaled over all
    frames; white is 0.
    """
    right, down = np.nan_to_num(displacement[:, 0]), np.nan_to_num(displacement[:, 1])
    speed = np.hypot(right, down)
    hue = (np.arctan2(down, right) / (2 * np.pi)) % 1.0
    return _rgb(hue, speed / max(speed.max(initial=0.0), np.finfo(float).tiny), np.ones_like(speed))


def _rgb(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """HSV to RGB (Smith 1978), all arrays of one shape in [0, 1]."""
    sector = (6 * hue[..., None] + np.array([5.0, 3.0, 1.0])) % 6
    share = np.clip(np.minimum(sector, 4 - sector), 0, 1)
    color = value[..., None] * (1 - saturation[..., None] * share)
    return np.rint(255 * color).astype(np.uint8)
