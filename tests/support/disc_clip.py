"""A disc that flies across a texture, and its shadow below it: anti-aliased by NumPy alone."""

import numpy as np
from scipy import ndimage

WIDTH, HEIGHT, COUNT = 160, 120, 20
RADIUS = 11.0  # [px]
BODY = np.array([0.85, 0.35, 0.15])
SHADE = 0.65  # brightness in the shadow
BELOW = 30  # [px] from the disc to its shadow
NOISE = 2 / 255
FINE = 8  # samples along a pixel
RECTANGLE = "50,40,35,35@8"  # around the disc in frame 8


def centers(count: int = COUNT) -> np.ndarray:
    """Columns and rows (count, 2) of the disc [px]."""
    k = np.arange(count)
    return np.stack([15 + 6.5 * k, 40 + 20 * np.sin(k / 4)], 1)


def disc(x: float, y: float, radius: float = RADIUS) -> np.ndarray:
    """Coverage (HEIGHT, WIDTH) by a disc."""
    column, row = ((np.arange(n * FINE) + 0.5) / FINE for n in (WIDTH, HEIGHT))
    inside = (column - x) ** 2 + (row[:, None] - y) ** 2 < radius**2
    return inside.reshape(HEIGHT, FINE, WIDTH, FINE).mean((1, 3))


def texture(seed: int = 0) -> np.ndarray:
    """Smooth clutter (HEIGHT, WIDTH, 3), greenish."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal((HEIGHT, WIDTH, 3)), (2, 2, 0))
    return np.clip([0.35, 0.5, 0.45] + 0.12 * noise / noise.std(), 0, 1)


def render(coverage: np.ndarray, shadow: np.ndarray | float = 0.0, behind: np.ndarray | None = None) -> np.ndarray:
    """Frames (T, HEIGHT, WIDTH, 3) uint8 of a body, with noise; `shadow`: coverage by its shadow."""
    alpha, dark = coverage[..., None], np.broadcast_to(shadow, coverage.shape)[..., None]
    lit = (texture() if behind is None else behind) * (1 - (1 - SHADE) * dark)
    clean = alpha * BODY + (1 - alpha) * lit
    noisy = clean + NOISE * np.random.default_rng(1).standard_normal(clean.shape)
    return np.clip(np.rint(255 * noisy), 0, 255).astype(np.uint8)


def clip(count: int = COUNT) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames, coverage by the disc, and coverage by its shadow."""
    coverage = np.stack([disc(x, y) for x, y in centers(count)])
    shadow = np.stack([disc(x + 4, y + BELOW) for x, y in centers(count)])
    return render(coverage, shadow), coverage, shadow


def overlap(masks: np.ndarray, coverage: np.ndarray) -> np.ndarray:
    """Intersection over union of each frame (T,)."""
    masks = np.clip(masks.astype(float), 0, 1)
    return np.minimum(masks, coverage).sum((1, 2)) / np.maximum(masks, coverage).sum((1, 2))
