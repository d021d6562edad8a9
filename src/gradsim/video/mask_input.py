"""Masks of a video from what a user names: a mask video, a folder of png, COCO annotations, or a way to make them.

masks.webm, masks/          white on black, as `gradsim.video.masks.from_mask_video`
masks.json                  COCO annotations, as `gradsim.video.coco`
grabcut:X,Y,W,H[@FRAME]     the body in a rectangle, cut out along its edges, as `gradsim.video.grabcut`
color:X,Y,W,H[@FRAME]       what has the colors of the body in a rectangle, as `gradsim.video.color_model`
"""

import math
from pathlib import Path

import numpy as np

from gradsim.errors import InputError
from gradsim.video.coco import read_coco
from gradsim.video.color_model import Rectangle, color_masks
from gradsim.video.front_coverage import COLOR_WEIGHTS
from gradsim.video.grabcut import grabcut_masks
from gradsim.video.masks import from_mask_video
from gradsim.video.read import Clocked, Frames, Video, check_video, is_subsampled, read
from gradsim.video.response import Edges
from gradsim.video.soft_edges import with_soft_edges
from gradsim.video.windowed import WHOLE_PIXELS, FrameWindows, read_windows

METHODS = {"grabcut": grabcut_masks, "color": color_masks}


def is_method(mask: str | Path) -> bool:
    """True for a way to make masks, such as `grabcut:40,30,64,48`, False for a file."""
    method, colon, _ = str(mask).partition(":")
    return bool(colon) and method in METHODS


def read_masks(
    mask: str | Path, film: Video, path: str | Path, fps: float | None = None, category: str = "", gamma: float = 1.0
) -> np.ndarray:
    """Masks (T, height, width) in [0, 1] of the bodies in a video; arguments and errors as of `masks_and_edges`."""
    masks, _, windows = masks_and_edges(mask, film, path, fps, category, gamma)
    return masks if windows is None else windows.spread(masks)


def masks_and_edges(
    mask: str | Path,
    film: Clocked,
    path: str | Path,
    fps: float | None = None,
    category: str = "",
    gamma: float = 1.0,
    whole_pixels: int = WHOLE_PIXELS,
) -> tuple[np.ndarray, Edges | None, FrameWindows | None]:
    """Masks (T, height, width) in [0, 1] of the bodies in a video, or of windows about them.

    Args:
        mask: A file, a folder of png (with the clock of the video), or a method with a rectangle.
        film: The video; of a file or a folder, its pixels are not needed.
        path: Its file, for errors.
        fps: Frames per second of the scene, which a mask video has too; None: its clock does not matter.
        category: Of COCO annotations, as in `read_coco`.
        gamma: Of the camera's response, for soft edges.
        whole_pixels: Pixels of a video up to which masks are whole.

    Returns:
        Masks, the colors that their edges are measured by (None of a file), and where masks are windows; None: they are whole.

    Raises:
        InputError: If the mask cannot be read or made, differs in size, clock or length from the video, or shows no body; or
            if a category is given for another kind of mask.
    """
    require_no_category(mask, category)
    is_coco = Path(mask).suffix.lower() == ".json"
    if not is_method(mask) and not is_coco:
        masks, windows = _masks_of_video(mask, film, path, fps, whole_pixels)
        return masks, None, windows
    size, count = (film.height, film.width), len(film.times)
    is_whole = count * math.prod(size) <= whole_pixels
    if is_coco:
        masks = read_coco(mask, count, *size, category)
        windows = None if is_whole else FrameWindows.about(masks > 0)
        return masks if windows is None else np.stack(windows.cut(masks)), None, windows
    assert isinstance(film, Video)
    method, _, rectangle = str(mask).partition(":")
    metric = COLOR_WEIGHTS if is_subsampled(path) else None
    frames, bodies = film.frames, METHODS[method](film.frames, Rectangle.parse(rectangle))
    windows = None if is_whole else FrameWindows.about(bodies)
    if windows is not None:
        frames, bodies = windows.cut(frames), np.stack(windows.cut(bodies))
    return *with_soft_edges(frames, bodies, gamma, metric), windows


def require_no_category(mask: str | Path, category: str) -> None:
    """Refuse a category of masks that have none: of another kind than COCO annotations.

    Raises:
        InputError: If one is given.
    """
    if category and Path(mask).suffix.lower() != ".json":
        raise InputError(f"a category (--category) is one of COCO annotations, and {mask} has none; leave it out.")


def matching_frames(other: str | Path, film: Video, path: str | Path, fps: float | None = None) -> np.ndarray:
    """Frames of a second video, or folder of png, with one frame for each of a video; arguments as in `read_masks`.

    Raises:
        InputError: If it cannot be read, or differs in size, clock or length.
    """
    second = read(other, _rate(other, film, fps))
    _require_match(second, film, other, path, fps)
    return second.frames


def _masks_of_video(
    mask: str | Path, film: Clocked, path: str | Path, fps: float | None, whole_pixels: int
) -> tuple[np.ndarray, FrameWindows | None]:
    """Masks of a mask video, or of the windows of its bodies where it is large; it is read one frame at a time."""
    levels = np.zeros(256, bool)

    def brightest(part: np.ndarray) -> np.ndarray:
        level = part.max(-1)
        levels[level.ravel()] = True
        return level / 255

    second = read_windows(Frames(mask, _rate(mask, film, fps)), brightest, whole_pixels)
    _require_match(second, film, mask, path, fps)
    if second.windows is not None:  # windows of labels may show none
        from_mask_video(np.flatnonzero(levels).astype(np.uint8)[None, None, :, None], grey=True)
    return from_mask_video(np.stack(second.parts), grey=True), second.windows


def _rate(other: str | Path, film: Clocked, fps: float | None) -> float | None:
    """Clock [1/s] of a second video that has none of its own."""
    return (fps or film.fps) if Path(other).is_dir() else None


def _require_match(second: Clocked, film: Clocked, other: str | Path, path: str | Path, fps: float | None) -> None:
    if fps is not None:
        check_video(second, film.width, film.height, fps, other)
    elif (second.width, second.height) != (film.width, film.height):
        raise InputError(
            f"{other} is {second.width} × {second.height} px, {path} is {film.width} × {film.height}; give videos of equal size."
        )
    if len(second.times) != len(film.times):
        raise InputError(
            f"{other} has {len(second.times)} frames, {path} has {len(film.times)}; give videos of equal length."
        )
