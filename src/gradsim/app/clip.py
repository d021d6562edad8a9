"""A clip as `gradsim new` and `gradsim camera --refine` look at it: frames, masks, moving regions, properties of the file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.identification.first_scene import Regions, regions
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.video.background import MOG2, read_background, subtract_background
from gradsim.video.clip_properties import ClipProperties, clip_properties
from gradsim.video.mask_faults import MaskFaults, mask_faults
from gradsim.video.mask_input import read_masks
from gradsim.video.read import is_subsampled

MIN_FRAMES = 3  # frames of a clip


@dataclass(frozen=True, eq=False)
class ObservedClip:
    """A clip and its masks.

    Args:
        path: Its file.
        video: Its frames.
        properties: Properties of the file.
        coverage: Masks (frames, height, width) of what moves.
        faults: What is wrong with them.
        regions: The body in the frames that count; None if there is none.
        problem: Why there is none; "" if there is one.
        options: Options of masks and frames for further commands.
    """

    path: Path
    video: videos.Video
    properties: ClipProperties
    coverage: np.ndarray
    faults: MaskFaults
    regions: Regions | None
    problem: str
    options: tuple[str, ...]


def read_clip(
    path: Path,
    mask: Path | None = None,
    background: str = "median",
    category: str = "",
    frames: str = "",
    progress: Progress | None = None,
    by_hand: bool = False,
) -> ObservedClip:
    """Read a clip and look for what moves in it.

    Args:
        path: Video file.
        mask: Masks of the body, in place of a background; as in `read_masks`.
        background: Image or video of the empty scene, or "median" or "mog2" of the clip.
        category: Of COCO annotations, as in `read_masks`.
        frames: "A:B": the frames that count; "": all.
        progress: Shown meanwhile.
        by_hand: True if a clip in which no region is found can be used.

    Raises:
        InputError: If a file cannot be read, there are fewer than 3 frames, or, unless `by_hand`, no body moves in the clip.
    """
    progress = progress or NullProgress()
    progress.stage(f"reading {path}")
    video = videos.read(path)
    count = len(video.frames)
    if count < MIN_FRAMES:
        raise InputError(f"{path} has {count} frames; expected {MIN_FRAMES} or more.")
    first, end = _range(frames, count)
    progress.stage("looking for what moves")
    coverage, shadows, body, problem = np.zeros(video.frames.shape[:3]), None, None, ""
    try:
        coverage, shadows = _masks(video, path, mask, background, category)
        body = regions(coverage[first:end])
        body = Regions(body.frames + first, body.centre, body.area, body.lowest)
    except InputError as error:
        if not by_hand:
            raise
        problem = str(error)
    options = ["--mask", str(mask)] if mask else ["--background", background]
    options += ["--category", category] if category else []
    start = int(body.frames[0]) if body is not None else first
    if start or end < count:
        options += ["--frames", f"{start}:{end if end < count else ''}"]
    properties = clip_properties(path, video)
    faults = mask_faults(coverage, shadows=shadows)
    return ObservedClip(path, video, properties, coverage, faults, body, problem, tuple(options))


def _masks(
    video: videos.Video, path: Path, mask: Path | None, background: str, category: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Masks, and the share of each that looks like a shadow, where that is known."""
    if mask is not None or category:
        if mask is None:
            raise InputError("got a category (--category) and no COCO annotations; give them (--mask FILE.json).")
        return read_masks(mask, video, path, category=category), None
    empty = None if background == "median" else MOG2 if background == MOG2 else read_background(background)
    subtraction = subtract_background(video.frames, empty, subsampled=is_subsampled(path), windowed=True)
    assert subtraction.windows is not None
    return subtraction.windows.spread(subtraction.masks), subtraction.shadows


def _range(text: str, count: int) -> tuple[int, int]:
    """First frame, and end, of "A:B"."""
    start, colon, end = text.strip().partition(":")
    if not text.strip():
        return 0, count
    first, last = (int(x) if x.isdigit() else -1 for x in (start or "0", end or str(count)))
    if not (colon and 0 <= first < last <= count):
        raise InputError(f"--frames is {text!r}; expected A:B with 0 ≤ A < B ≤ {count}, the frames of the clip.")
    return first, last
