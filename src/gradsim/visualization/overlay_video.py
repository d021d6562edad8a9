"""Videos that compare a fit with the observation: side by side, and overlaid outlines."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from gradsim import video as videos

HEIGHT = 320  # [px] small videos are enlarged to about this
EDGE = np.array([230, 20, 140], np.uint8)  # color of the outline of the fit
TRACK, ARM = (20, 110, 230), 6  # color of tracks, and half of the size of a mark [px]


def side_by_side(observed: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Observed left, fit right: (frames, height, 2 width + gap, 3) uint8."""
    gap = np.full((len(observed), observed.shape[1], max(2, observed.shape[2] // 40), 3), 255, np.uint8)
    return _enlarged(np.concatenate([observed, gap, fitted], 2))


def overlay(observed: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Observed frames with the outline of the mask of the fit (frames, height, width)."""
    big, times = _enlarged(observed), factor(observed)
    inside = mask.repeat(times, 1).repeat(times, 2) > 0.5
    grown = inside.copy()
    for axis, shift in ((1, 1), (1, -1), (2, 1), (2, -1)):
        grown |= np.roll(inside, shift, axis)
    big[grown & ~inside] = EDGE
    return big


def mark_points(observed: np.ndarray, tracks: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Observed frames with tracks as crosses and points of the fit as circles.

    Args:
        observed: Frames (frames, height, width, 3) uint8.
        tracks: Positions (frames, n, 2) [px]; NaN where there is none.
        fitted: Those of the fit, likewise.
    """
    big, times = _enlarged(observed), factor(observed)
    for k, frame in enumerate(big):
        image = Image.fromarray(frame)
        draw = ImageDraw.Draw(image)
        for u, v in tracks[k][np.isfinite(tracks[k]).all(1)] * times:
            draw.line([(u - ARM, v), (u + ARM, v)], fill=TRACK)
            draw.line([(u, v - ARM), (u, v + ARM)], fill=TRACK)
        for u, v in fitted[k] * times:
            draw.ellipse([(u - ARM, v - ARM), (u + ARM, v + ARM)], outline=tuple(EDGE.tolist()))
        big[k] = np.asarray(image)
    return big


def write_videos(folder: Path, observed: np.ndarray, fitted: np.ndarray, mask: np.ndarray, fps: float) -> None:
    """Write side_by_side.webm and overlay.webm for a report."""
    videos.write_preview(folder / "side_by_side.webm", side_by_side(observed, fitted), fps)
    videos.write_preview(folder / "overlay.webm", overlay(observed, mask), fps)


def factor(frames: np.ndarray) -> int:
    """Enlargement factor of small frames (frames, height, ...)."""
    return max(1, round(HEIGHT / frames.shape[1]))


def _enlarged(frames: np.ndarray) -> np.ndarray:
    times = factor(frames)
    return frames.repeat(times, 1).repeat(times, 2)
