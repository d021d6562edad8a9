"""Refusal of a background that shows the body, as a median over time does of one that rests."""

import numpy as np

from gradsim.errors import InputError
from gradsim.video.connected_regions import box_of, connected_regions

MAX_COVERED = 0.4  # fraction of the frames in which a body may cover a pixel, for the median to be the background
MIN_SOLIDITY = 0.6  # fraction of its convex hull that a body fills; the median cuts holes into one that hardly moves
SPECKLE = 0.1  # of a body's area: pixels that may differ without a body
MIN_GHOST_SHARE = 0.25  # of the largest region, from which one can be a ghost of the body
GHOST_EDGE = 1.25  # of the edges of the video about it, from which on one in the background is a ghost's: both have the edges of what stands still


def check_background(frames: np.ndarray, B: np.ndarray, bodies: np.ndarray, name: str) -> None:
    """Refuse a median, or another `name`, that shows the body, as where the body covers a pixel in half of the frames or more.

    While the body is there, only its edges differ; after it has left, its image in the median does, as a ghost, whose
    outline is in B and not in the frame.
    """
    shares, area = bodies.mean(0), np.median(bodies.sum((1, 2)))
    speckle = int(SPECKLE * area)  # a codec changes a few pixels of any texture again and again
    covered = np.sort(shares, axis=None)[-1 - speckle]
    solidity = _solidity(bodies)
    ghosts = np.mean([is_ghost(frame, B, body) for frame, body in zip(frames, bodies, strict=True) if body.any()])
    if ghosts > 0.1:
        why = f"in {ghosts:.0%} of the frames it shows a body that is not there"
    elif covered > MAX_COVERED:
        why = f"a body covers a pixel in {covered:.0%} of the frames"
    elif solidity < MIN_SOLIDITY:
        why = f"the moving region fills only {solidity:.0%} of its convex hull, as for a body that hardly moves"
    else:
        return
    raise InputError(
        f"the {name} of this video is not the background: {why}. It shows a body that covers a pixel for half of the "
        "video. Give an image of the empty scene (--background FILE)."
    )


def _solidity(bodies: np.ndarray) -> float:
    """Fraction of its convex hull that the largest region of a body fills, the median over frames."""
    from scipy.spatial import ConvexHull

    fractions = []
    for body in bodies:
        labels, _ = connected_regions(body)
        size = np.bincount(labels.ravel(), minlength=2)[1:]
        rows, columns = np.nonzero(labels == 1 + int(size.argmax()))
        if len(rows) >= 12:
            corners = np.concatenate([np.stack([rows + i, columns + j], 1) for i in (0, 1) for j in (0, 1)])
            fractions.append(len(rows) / ConvexHull(corners).volume)
    return float(np.median(fractions)) if fractions else 1.0


def is_ghost(frame: np.ndarray, B: np.ndarray, body: np.ndarray) -> bool:
    """True if a large region of the difference has its outline in the background rather than in the frame."""
    from scipy import ndimage

    box = box_of(body, 3)
    frame, B, body = frame[box], B[box], body[box]
    labels, count = connected_regions(body)
    wide = ndimage.grey_dilation(labels, (3, 3))
    ring = np.where(ndimage.grey_erosion(labels, (3, 3)) != wide, wide, 0)
    edges = [np.square(np.gradient(image, axis=(0, 1))).sum(0).sum(-1) ** 0.5 for image in (frame / 255, B)]
    front, behind = (ndimage.mean(edge, ring, np.arange(1, count + 1)) for edge in edges)
    size = np.bincount(labels.ravel())[1:]
    large = size >= MIN_GHOST_SHARE * size.max()  # a body as bright as the background behind it falls into pieces
    return bool((np.asarray(behind) > GHOST_EDGE * np.asarray(front))[large].any())
