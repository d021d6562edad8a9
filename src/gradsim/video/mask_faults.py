"""Masks that cannot be right: empty, full, in pieces, with a shadow, or of an area that jumps from one frame to the next.

Nothing is repaired: a person looks at the frames, and makes another mask or leaves them out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from gradsim.video.connected_regions import connected_regions
from gradsim.video.windowed import FrameWindows

BODY_COVERAGE = 0.5  # coverage from which a pixel is of the body
FULL_IMAGE_SHARE = 0.95  # share of the image
MIN_PIECE_SHARE = 0.15  # of the largest region, from which another one is a piece of a body
JUMP = 1.4  # ratio of areas from frame to frame: the radius of a round body then changes by a sixth
USUAL_JUMP_FACTOR = 4.0  # and in its logarithm over the median of the video's: bodies seen edge on change fast
# Share of a mask that looks like a shadow, from which on it holds one, and above which the body itself is a darker shade of its background. Of 12 clips of
# `gradsim reproduce clips` 0.00 in all frames of the 10 without a shadow, and 0.10 to 0.17 in 72 and 34 % of those of the others
MIN_SHADOW_SHARE, MAX_SHADOW_SHARE = 0.1, 0.8
# Share of the frames from which on a fault is the method's, and leaving frames out does not help
MANY_FRAMES_SHARE = 0.25
SHADOW = "shadow"
ADVICE = {  # what to do about a fault of many frames
    "empty": "the method loses the body: another one, or a rectangle around it (--mask grabcut:X,Y,W,H or color:X,Y,W,H)",
    "full": "the method takes all for body: an empty scene (--background empty.png), or a rectangle around the body (--mask grabcut:X,Y,W,H)",
    "pieces": "a shadow, a reflection or something else that moves is in the mask, also where it touches the body and makes one piece with "
    "it: --background mog2 leaves shadows out, a rectangle around the body (--mask grabcut:X,Y,W,H or color:X,Y,W,H) takes that body alone",
    SHADOW: "--background mog2, which leaves shadows out, or a rectangle around the body next to --background (--mask color:X,Y,W,H); neither where the "
    "body itself is gray before gray",
    "jump": "the method takes now more, now less: another one, or a rectangle around the body (--mask grabcut:X,Y,W,H or color:X,Y,W,H)",
}
WORDS = {
    "empty": "the mask is empty",
    "full": "the mask covers the whole image",
    "pieces": "the mask is in more pieces than there are bodies",
    SHADOW: "a part of the mask is the background but darker, as a cast shadow is,",
    "jump": "the area of the mask jumps",
}


@dataclass(frozen=True)
class MaskFaults:
    """Frames with masks that cannot be right.

    Attributes:
        frames: Frames by kind, as in `WORDS`.
        masks: The masks (height, width) bool of these frames.
        count: Number of frames that were looked at.
    """

    frames: Mapping[str, list[int]]
    masks: Mapping[int, np.ndarray]
    count: int = 0

    @property
    def every_frame(self) -> list[int]:
        """Frames with a fault, in order."""
        return sorted(self.masks)

    @property
    def words(self) -> list[str]:
        """One sentence for each kind, with its frames."""
        return [f"{WORDS[kind]} in {_listed(frames)}" for kind, frames in self.frames.items() if frames]

    @property
    def advice(self) -> str:
        """Cure of the fault with the most frames; empty without faults."""
        kind = max(self.frames, key=lambda kind: len(self.frames[kind]), default="")
        if not kind or not self.frames[kind]:
            return ""
        if self.of_method or kind == SHADOW:
            return ADVICE[kind]
        return "another mask, or these frames left out (--frames '!7,!12')"

    @property
    def of_method(self) -> bool:
        """True if one fault is in a large part of the frames, and leaving them out does not help.

        Not a shadow: a gray body before a gray wall may look like one.
        """
        sure = [frames for kind, frames in self.frames.items() if kind != SHADOW]
        return any(frames and len(frames) >= MANY_FRAMES_SHARE * self.count for frames in sure)

    def of_frame(self, frame: int) -> str:
        """Kinds of fault of a frame."""
        return ", ".join(kind for kind, frames in self.frames.items() if frame in frames)


def mask_faults(
    masks: np.ndarray,
    bodies: int | None = 1,
    used: Iterable[int] | None = None,
    windows: FrameWindows | None = None,
    shadows: np.ndarray | None = None,
) -> MaskFaults:
    """Frames of masks (T, height, width) that cannot be right.

    Where a mask touches the border its area may jump: a body comes in or leaves. Empty masks before the first one with a body, and
    after the last, are faults only if that body is more than its diameter from the border.

    Args:
        masks: Coverage.
        bodies: Most pieces that a mask can be in: the number of bodies; None: as many as it usually is in.
        used: Frames that count; None: all.
        windows: Those of images that the masks are; None: they are whole.
        shadows: Share (T,) of each mask that looks like a cast shadow; None: unknown. A fault where it is of many frames.
    """
    inside = masks > BODY_COVERAGE
    corner = np.zeros((len(masks), 2), int) if windows is None else windows.corner
    size = masks.shape[1:] if windows is None else windows.size
    area = inside.sum((1, 2))
    (visible,) = np.nonzero(area)
    depth = np.full(len(masks), np.inf)  # [px] of the border that has no body
    for k in visible:
        depth[k] = _depth(inside[k], corner[k], size)
    reach = np.ceil(2 * (area / np.pi) ** 0.5)  # the diameter of a disc of that area
    first = visible[0] if len(visible) and depth[visible[0]] < reach[visible[0]] else 0
    last = visible[-1] if len(visible) and depth[visible[-1]] < reach[visible[-1]] else len(masks) - 1
    empty = [k for k in range(first, last + 1) if not area[k]]
    full = np.flatnonzero(area > FULL_IMAGE_SHARE * size[0] * size[1]).tolist()
    counts = np.array([_pieces(mask) for mask in inside])
    most = bodies or (int(np.median(counts[visible])) if len(visible) else 1)
    pieces = np.flatnonzero(counts > most).tolist()
    kinds = {"empty": empty, "full": full, "pieces": pieces, SHADOW: _shadowed(shadows)}
    kinds["jump"] = _jumps(area, depth == 0)
    counted = set(range(len(masks)) if used is None else used)
    frames = {kind: [k for k in faulty if k in counted] for kind, faulty in kinds.items()}
    images = {k: _in_image(inside[k], corner[k], size) for faulty in frames.values() for k in faulty}
    return MaskFaults(frames, images, len(counted))


def _shadowed(shares: np.ndarray | None) -> list[int]:
    """Frames whose mask holds a shadow, by shares as of `mask_faults`; none where they are few."""
    if shares is None:
        return []
    frames = np.flatnonzero((shares > MIN_SHADOW_SHARE) & (shares < MAX_SHADOW_SHARE)).tolist()
    return frames if len(frames) >= MANY_FRAMES_SHARE * len(shares) else []


def _depth(mask: np.ndarray, corner: np.ndarray, size: tuple[int, int]) -> int:
    """Pixels from the nearest border of the image to the body of a mask."""
    sides = [np.flatnonzero(mask.any(axis)) + start for axis, start in ((1, corner[0]), (0, corner[1]))]
    return min(min(side[0], length - 1 - side[-1]) for side, length in zip(sides, size, strict=True))


def _in_image(mask: np.ndarray, corner: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The image (height, width) of which a mask is a window."""
    image = np.zeros(size, bool)
    image[corner[0] : corner[0] + mask.shape[0], corner[1] : corner[1] + mask.shape[1]] = mask
    return image


def _pieces(mask: np.ndarray) -> int:
    labels, _ = connected_regions(mask)
    areas = np.bincount(labels.ravel())[1:]
    return int(np.count_nonzero(areas >= MIN_PIECE_SHARE * areas.max(initial=0)))


def _jumps(area: np.ndarray, cut: np.ndarray) -> list[int]:
    """Frames whose area differs by far from that of the frame before; of one that differs from both its neighbours, that frame."""
    whole = (area > 0) & ~cut
    step = np.where(whole[1:] & whole[:-1], np.log(np.maximum(area[1:], 1) / np.maximum(area[:-1], 1)), 0.0)
    changed = np.abs(step[whole[1:] & whole[:-1]])
    limit = max(np.log(JUMP), USUAL_JUMP_FACTOR * float(np.median(changed)) if len(changed) else 0.0)
    far = np.abs(step) > limit
    jumps = []
    for k in np.flatnonzero(far):
        returns = k > 0 and far[k - 1] and k in jumps and step[k] * step[k - 1] < 0
        if not returns:
            jumps.append(int(k) + 1)
    return jumps


def _listed(frames: list[int]) -> str:
    """Frames in words, runs as `4 to 9`, at most some eight of them."""
    runs: list[list[int]] = []
    for frame in frames:
        if runs and frame == runs[-1][1] + 1:
            runs[-1][1] = frame
        else:
            runs.append([frame, frame])
    words = [f"{a}" if a == b else f"{a} to {b}" for a, b in runs[:8]]
    return ("frame " if len(frames) == 1 else "frames ") + ", ".join(words) + (", …" if len(runs) > 8 else "")
