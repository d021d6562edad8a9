"""Alignment of video frames with the scene's clock: dropped, repeated and excluded frames.

Instants are the frames of the scene's clock, counted from the first frame of the video:

    instant of frame k = round((t_k − t_0) fps)

A gap in the time stamps leaves instants without a frame. A frame that repeats the one before, as players and recorders
insert where they missed one, is not an observation of its instant. Both are excluded, and the clock keeps running.

Frames of a real video differ by their noise, so an equal frame is a copy. In a video without noise, a body at rest makes
equal frames as well: there, a frame counts as a copy only if the body jumps after it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradsim.errors import InputError
from gradsim.video.read import Video

# Fraction of the median number of changed pixels below which a frame is a copy after lossy coding
COPY_CHANGE_SHARE = 0.1
# Median fraction of changed pixels above which the video is noisy and every equal frame is a copy
NOISY_CHANGE_SHARE = 0.25
WORD, CHANNELS = 8, 3  # bytes that are compared at once, and those of a pixel
NOISY_ROWS = 4  # of which one tells how much a noisy frame changes
SURELY_NOISY_SHARE = 0.35  # fraction of changed pixels in these rows from which no more are compared
JUMP = 1.3  # change across a copy over the adjacent change: 2 for a repeated frame, 1 for a body at rest
MAX_STEP_RATIO = 1.7  # step over the adjacent steps: 2 where a frame was dropped, 1 in free motion
MIN_STEP = 1.0  # [px] below which a step is not tested


@dataclass(frozen=True, eq=False)
class FrameAlignment:
    """Frames of a video by instants.

    Attributes:
        index: Video frame (instants,) of each instant; at an instant without a frame, the one before.
        used: Instants (instants,) that are observations, bool.
        dropped: Instants without a frame.
        repeated: Instants whose frame repeats the one before.
        excluded: Instants excluded by the user.
        suspected: Further suspicious frames, as text.
    """

    index: np.ndarray
    used: np.ndarray
    dropped: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    excluded: list[int] = field(default_factory=list)
    suspected: list[str] = field(default_factory=list)

    def notes(self) -> dict:
        """Entries for `result.json`."""
        return {
            "frames_used": int(self.used.sum()),
            "frames_dropped": self.dropped,
            "frames_repeated": self.repeated,
            "frames_excluded": self.excluded,
            "frames_suspected": self.suspected,
        }


def align_frames(video: Video, fps: float, choice: str = "", stamps: Sequence[float] | None = None) -> FrameAlignment:
    """`align_times` of the frames of a video that was read.

    Args:
        video: Video whose time stamps fit the clock (`gradsim.video.check_video`).
        fps: As for `align_times`.
        choice: Likewise.
        stamps: Likewise.

    Raises:
        InputError: As `align_times`.
    """
    return align_times(video.times, repeated_frames(video.frames), fps, choice, stamps)


def align_times(
    times: np.ndarray, copies: np.ndarray, fps: float, choice: str = "", stamps: Sequence[float] | None = None
) -> FrameAlignment:
    """Align the frames of a video with the instants of a clock.

    Args:
        times: Times of the frames (T,) [s].
        copies: Frames that repeat the one before (T,) bool, as of `repeated_frames`.
        fps: Frames per second of the clock.
        choice: Comma-separated words: `A:B` uses frames A to B − 1 only, `!K` excludes frame K, `-K` removes frame K
            together with its time (an inserted frame), `+K` inserts a missing instant before frame K.
        stamps: Times of the frames, where the scene has them: each frame is an instant then, and `-K` and `+K` have no meaning.

    Raises:
        InputError: If `choice` has another word, or one that `stamps` forbid, names a frame that the video lacks, or leaves fewer than 2 frames.
    """
    count = len(times)
    instant = np.arange(count) if stamps is not None else np.rint((times - times[0]) * fps).astype(int)
    selected, removed, ranges = np.ones(count, bool), np.zeros(count, bool), np.zeros(count, bool)
    for word in filter(None, (w.strip() for w in choice.split(","))):
        if word[0] in "!-+":
            k = _frame_number(word[1:], word, count)
            if stamps is not None and word[0] != "!":
                raise InputError(f"--frames {word} shifts later frames, whose times are `timing.stamps`; use !{k}.")
            selected[k] &= word[0] != "!"
            removed[k] |= word[0] == "-"
            instant[k:] += {"!": 0, "-": -1, "+": 1}[word[0]]
        else:
            first, colon, last = word.partition(":")
            if not colon:
                raise _choice_error(word)
            ranges[_frame_number(first or "0", word, count) : _frame_number(last or str(count), word, count + 1)] = True
    if ranges.any():
        selected &= ranges
    length = int(instant[~removed].max(initial=0)) + 1
    index, present = np.zeros(length, int), np.zeros(length, bool)
    for k in np.flatnonzero(~removed & (instant >= 0)):
        index[instant[k]], present[instant[k]] = k, True
    index = np.maximum.accumulate(np.where(present, index, 0))
    # a removed copy is not in `index`, and the frame after it is not a copy
    repeated, chosen = present & copies[index], selected[index]
    used = present & chosen & ~repeated
    if used.sum() < 2:
        raise InputError(
            f"{used.sum()} of {count} frames can be used (--frames {choice!r}; {copies.sum()} repeat the one before); "
            "a fit needs at least 2. Use more frames in --frames, or give a longer video."
        )
    indices = lambda flags: np.flatnonzero(flags).tolist()
    return FrameAlignment(index, used, indices(~present), indices(repeated), indices(present & ~chosen))


def repeated_frames(frames: Iterable[np.ndarray]) -> np.ndarray:
    """Frames (T, height, width, 3) uint8 that repeat the one before, (T,) bool."""
    changes = FrameChanges()
    for frame in frames:
        changes.add(frame)
    return changes.repeated()


class FrameChanges:
    """Changes from frame to frame of a video that comes one frame at a time."""

    def __init__(self):
        self._shares: list[float] = []  # of the pixels that change
        self._sizes: list[float] = []  # of the mean change
        self._before: np.ndarray | None = None

    def add(self, frame: np.ndarray) -> None:
        """See the next frame (height, width, 3) uint8, which must not change until the one after it."""
        share = change = 0.0
        if self._before is not None:
            rows, rows_before = frame[::NOISY_ROWS], self._before[::NOISY_ROWS]
            share, part, old = _count_changed(rows, rows_before) / rows[..., 0].size, rows, rows_before
            size = rows.size
            if share < SURELY_NOISY_SHARE:
                part, old = _changed_parts(frame, self._before)
                share, size = _count_changed(part, old) / frame[..., 0].size, frame.size
                if share > NOISY_CHANGE_SHARE:
                    part, old, size = rows, rows_before, rows.size
            change = float(np.abs(part.astype(np.int16) - old).sum(dtype=np.int64) / size)
        self._shares.append(share)
        self._sizes.append(change)
        self._before = frame

    def repeated(self) -> np.ndarray:
        """Frames that repeat the one before, (T,) bool."""
        changed, change = np.array(self._shares), np.array(self._sizes)
        count = len(changed)
        usual = np.median(changed[1:]) if count > 1 else 0.0
        repeated = np.zeros(count, bool)
        for first, last in _runs(changed[1:] <= COPY_CHANGE_SHARE * usual):
            first, last = first + 1, last + 1  # equal frames first … last − 1, between first − 1 and last
            if usual > NOISY_CHANGE_SHARE:
                repeated[first:last] = True
            elif last < count:
                before = change[first - 1] if first > 1 else 0.0
                adjacent = max(before, change[last + 1] if last + 1 < count else 0.0)
                # across the run: what changes within it is next to nothing
                repeated[first:last] = 0 < adjacent < change[last] / JUMP
        return repeated


def _changed_parts(frame: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (..., 3) of two frames that are equal elsewhere."""
    if frame.size % (WORD * CHANNELS) or not (frame.flags.c_contiguous and before.flags.c_contiguous):
        return frame, before
    words = lambda image: image.reshape(-1).view(np.uint64)
    changed = words(frame) != words(before)
    if WORD * np.count_nonzero(changed) > NOISY_CHANGE_SHARE * frame.size:
        return frame, before
    different = np.flatnonzero(changed) // CHANNELS  # of which three are `WORD` pixels
    places = different[np.diff(different, prepend=-1) > 0]
    part, old = (image.reshape(-1, WORD, CHANNELS)[places] for image in (frame, before))
    return part, old


def _count_changed(part: np.ndarray, old: np.ndarray) -> int:
    """Pixels (…, 3) of two images that differ in a channel."""
    channels = part != old
    return int(np.count_nonzero(channels[..., 0] | channels[..., 1] | channels[..., 2]))


def suspicious_steps(positions: np.ndarray, frames: FrameAlignment) -> list[str]:
    """Describe steps of a body that suggest a missing or an inserted frame.

    Args:
        positions: Position of the body at each instant (instants, 2) [px].
        frames: Alignment of the frames.
    """
    at = np.flatnonzero(frames.used)
    speed = np.diff(positions[at], axis=0) / np.diff(at)[:, None]
    size = np.linalg.norm(speed, axis=1)
    messages = []
    for k in range(1, len(speed) - 1):
        before, after = speed[k - 1], speed[k + 1]
        if min(size[k - 1], size[k + 1]) < MIN_STEP or size[k] == 0:
            continue
        cosine = min(speed[k] @ before / (size[k] * size[k - 1]), speed[k] @ after / (size[k] * size[k + 1]))
        frame = int(frames.index[at[k + 1]])
        if cosine > 0.8 and size[k] > MAX_STEP_RATIO * max(size[k - 1], size[k + 1]):
            messages.append(
                f"before frame {frame} the body moves {size[k] / max(size[k - 1], size[k + 1]):.1f} times as far as in "
                f"the adjacent frames: a frame may be missing (if so: --frames +{frame})"
            )
        repeat = at[k + 1] - at[k] > 1 and at[k] + 1 in frames.repeated
        if cosine > 0.8 and repeat and size[k] * MAX_STEP_RATIO < min(size[k - 1], size[k + 1]):
            messages.append(
                f"after the repeated frame {frame - 1} the body does not jump: the frame may have been inserted (if so: "
                f"--frames=-{frame - 1})"
            )
    return messages


def centroids(masks: np.ndarray) -> np.ndarray:
    """Centroids (T, 2) of masks (T, height, width), column and row [px]; nan for an empty mask."""
    columns, rows = np.arange(masks.shape[2]) + 0.5, np.arange(masks.shape[1]) + 0.5
    places = np.empty((len(masks), 2))
    for place, mask in zip(places, masks, strict=True):
        inside = np.clip(mask, 0, 1) * (mask > 0.1)  # noise around an empty image has no centroid
        with np.errstate(invalid="ignore"):
            place[:] = np.array([inside.sum(0) @ columns, inside.sum(1) @ rows]) / inside.sum()
    return places


def _runs(flags: np.ndarray) -> Sequence[tuple[int, int]]:
    """Ends (first, last + 1) of the runs of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _frame_number(text: str, word: str, end: int) -> int:
    if not text.isdigit():
        raise _choice_error(word)
    if int(text) >= end:
        raise InputError(f"--frames {word} names frame {text}; the video has frames 0 to {end - 1}.")
    return int(text)


def _choice_error(word: str) -> InputError:
    return InputError(
        f"--frames has {word!r}; it takes comma-separated words: A:B (use these only), !K (exclude K), -K (K was "
        "inserted), +K (a frame is missing before K)."
    )
