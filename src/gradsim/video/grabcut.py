"""A body cut out along its edges from a rectangle around it on, from frame to frame (OpenCV's GrabCut).

In the frame of the rectangle, mixtures of Gaussians for the colors of body and surroundings, and the cut between them that is
cheapest where neighbouring pixels differ. In the next frames the cut is made with these mixtures near where the body was: within
its diameter of where its last step leads.

C. Rother, V. Kolmogorov, A. Blake, "GrabCut", SIGGRAPH 2004.
"""

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.video.color_model import MIN_BODY_AREA, Rectangle
from gradsim.video.connected_regions import label_regions

ROUNDS = 5  # of cut and mixtures in the first frame
SEARCH_DIAMETERS = 1.0  # diameters around the expected place within which the body is searched
MARGIN = 8  # [px] of surroundings beyond


def grabcut_masks(frames: np.ndarray, rectangle: Rectangle) -> np.ndarray:
    """Masks (T, height, width) bool of the body in a rectangle, before and after the frame that it is drawn in.

    Where the body is lost, masks are empty from there on.

    Args:
        frames: (T, height, width, 3) uint8.
        rectangle: Around the whole body, in one frame.

    Raises:
        InputError: If OpenCV is not installed, the rectangle is not within the video, or no body is in it.
    """
    cv2 = require_extra("cv2", "a mask by `grabcut`", "masks")
    box, first = rectangle.inside(frames), rectangle.frame
    behind, front, labels = np.zeros((1, 65)), np.zeros((1, 65)), np.zeros(box.shape, np.uint8)
    sides = (rectangle.x, rectangle.y, rectangle.width, rectangle.height)
    cv2.setRNGSeed(0)
    image = np.ascontiguousarray(frames[first])
    cv2.grabCut(image, labels, sides, behind, front, ROUNDS, cv2.GC_INIT_WITH_RECT)
    body = _largest(labels % 2 == 1)
    if body.sum() < MIN_BODY_AREA:
        raise InputError(
            f"GrabCut sees no body in the rectangle {','.join(map(str, sides))} of frame {first}; draw it a few pixels around "
            "the whole body."
        )
    masks = np.zeros(frames.shape[:3], bool)
    masks[first] = body
    for step in (1, -1):
        before, last, velocity = body, _centre(body), np.zeros(2)
        for k in range(first + step, len(frames) if step > 0 else -1, step):
            near = _search_region(before, velocity)
            masks[k] = before = _cut(cv2, frames[k], near, behind, front)
            if before.sum() < MIN_BODY_AREA:
                masks[k] = False
                break
            centre = _centre(before)
            velocity, last = centre - last, centre
    return masks


def _cut(cv2, frame: np.ndarray, near: np.ndarray, behind: np.ndarray, front: np.ndarray) -> np.ndarray:
    """The body (height, width) within a region, by mixtures that stay as they are."""
    rows, columns = (np.flatnonzero(near.any(axis)) for axis in (1, 0))
    box = tuple(slice(max(0, at[0] - MARGIN), at[-1] + 1 + MARGIN) for at in (rows, columns))
    labels = np.where(near[box], cv2.GC_PR_FGD, cv2.GC_BGD).astype(np.uint8)
    image = np.ascontiguousarray(frame[box])
    cv2.grabCut(image, labels, None, behind.copy(), front.copy(), 1, cv2.GC_EVAL_FREEZE_MODEL)
    body = np.zeros(near.shape, bool)
    body[box] = _largest(labels == cv2.GC_PR_FGD)
    return body


def _search_region(body: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Pixels (height, width) in which the body may be in the next frame."""
    from scipy import ndimage

    far = SEARCH_DIAMETERS * 2 * (body.sum() / np.pi) ** 0.5
    distance = ndimage.distance_transform_edt(np.logical_not(ndimage.shift(body, velocity, order=0)))
    region = distance <= far
    return region if region.any() else body


def _largest(body: np.ndarray) -> np.ndarray:
    """The largest region of a mask (height, width), holes filled."""
    from scipy import ndimage

    labels, regions = label_regions(body)
    return np.asarray(ndimage.binary_fill_holes(labels == regions[0].label)) if regions else body


def _centre(body: np.ndarray) -> np.ndarray:
    """Row and column of the center of a mask [px]."""
    return np.array(np.nonzero(body)).mean(1)
