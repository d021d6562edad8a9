"""Initial focal length and poses: from the planes of the targets, and by OpenCV's solver of poses.

A plane seen with the homography H = K [r_1 r_2 t] has h_1ᵀ ω h_2 = 0 and h_1ᵀ ω h_1 = h_2ᵀ ω h_2 with ω = (K Kᵀ)⁻¹, which is
linear in 1/f² where the center is known and pixels are square (Zhang 2000).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.video.calibration.estimate import View
from gradsim.video.calibration.lens import Lens, project, undistort

GUESSES = (0.5, 0.8, 1.2, 2.0, 3.5)  # of the width of the image: focal lengths to try in addition
RANGE = 0.2, 20.0  # of the width: focal lengths that a camera may have


def initial_poses(
    views: Sequence[View], lens: Lens, width: int, is_sheet: bool = False
) -> tuple[list[View], Lens, tuple[np.ndarray, np.ndarray]]:
    """Views with their points in order, the lens with its initial focal length, and R (views, 3, 3) and t (views, 3).

    Args:
        views: Corners.
        lens: The lens.
        width: Of the image [px].
        is_sheet: True if the order of the four corners is open: a sheet of paper looks alike, turned by half a turn.

    Raises:
        InputError: If no pose explains a view.
    """
    is_free = any(".focal" in name for name in lens.names) and not len(lens.prior_root)
    focals = [lens.numbers(lens.start)[0]]
    if is_free:
        focals = [f for f in [_plane_focal(views, lens), *(g * width for g in GUESSES)] if f is not None]
    best = None
    for focal in focals:
        trial = lens.starting_at(focal) if is_free else lens
        poses = [_place(view, trial, is_sheet) for view in views]
        cost = np.median([error for *_, error in poses])
        if best is None or cost < 0.9 * best[0]:
            best = cost, trial, poses
    if best is None or not np.isfinite(best[0]):
        raise InputError("no camera sees the targets like this; check their sizes and places (--target).")
    _, lens, poses = best
    ordered = [view for view, *_ in poses]
    return ordered, lens, (np.array([R for _, R, _, _ in poses]), np.array([t for _, _, t, _ in poses]))


def _plane_focal(views: Sequence[View], lens: Lens) -> float | None:
    """Focal length [px] from the planes of all views; None if they do not determine it."""
    rows, values = [], []
    centre = lens.numbers(lens.start)[2:4]
    for view in views:
        flat = _in_plane(view.points)
        if flat is None:
            continue
        H = _homography(flat, view.pixels - centre)
        H = H / np.linalg.norm(H[:, :2], axis=0).mean()
        a, b = H[:, 0], H[:, 1]
        rows += [a[0] * b[0] + a[1] * b[1], a[0] ** 2 + a[1] ** 2 - b[0] ** 2 - b[1] ** 2]
        values += [-a[2] * b[2], b[2] ** 2 - a[2] ** 2]
    square = np.dot(rows, rows) / np.dot(rows, values) if rows and np.dot(rows, values) > 0 else 0.0
    return float(np.sqrt(square)) if square > 0 else None


def _in_plane(points: np.ndarray) -> np.ndarray | None:
    """Coordinates (n, 2) in the plane of the points; None if they are not in one."""
    rel = points - points.mean(0)
    _, size, axes = np.linalg.svd(rel)
    return rel @ axes[:2].T if size[2] < 1e-9 * size[0] and size[1] > 1e-6 * size[0] else None


def _homography(flat: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Plane → image by the direct linear transform with normalized coordinates (Hartley 1997)."""
    scale = [np.abs(array).max() for array in (flat, pixels)]
    x, u = flat / scale[0], pixels / scale[1]
    one, zero = np.ones(len(x)), np.zeros((len(x), 3))
    X = np.column_stack([x, one])
    A = np.concatenate([np.hstack([X, zero, -u[:, :1] * X]), np.hstack([zero, X, -u[:, 1:] * X])])
    H = np.linalg.svd(A)[2][-1].reshape(3, 3)
    return np.diag([scale[1], scale[1], 1]) @ H @ np.diag([1 / scale[0], 1 / scale[0], 1])


def _place(view: View, lens: Lens, is_sheet: bool) -> tuple[View, np.ndarray, np.ndarray, float]:
    """View with its points in order, R, t, and the RMS distance of the corners [px]."""
    orders = [0, 1] if is_sheet else [0]
    results = [_pose(replace(view, points=np.roll(view.points, k, 0)), lens) for k in orders]
    best = min(results, key=lambda result: result[-1])
    if is_sheet:  # of the two half turns, the one whose right side is on the right in the image
        turned = _pose(replace(best[0], points=np.roll(best[0].points, 2, 0)), lens)
        x_axis = view.points[1] - view.points[0]
        if (turned[1] @ x_axis)[0] > (best[1] @ x_axis)[0]:
            best = turned
    return best


def _pose(view: View, lens: Lens) -> tuple[View, np.ndarray, np.ndarray, float]:
    cv2 = require_extra("cv2", "gradsim capture", "capture")
    numbers = lens.numbers(lens.start)
    rays = undistort(lens.model, numbers, view.pixels)
    method = cv2.SOLVEPNP_IPPE if _in_plane(view.points) is not None else cv2.SOLVEPNP_SQPNP
    best = view, np.eye(3), np.array([0.0, 0.0, 1.0]), float("inf")
    middle = view.points.mean(0)
    try:
        _, turns, shifts, _ = cv2.solvePnPGeneric(view.points - middle, rays[:, None], np.eye(3), None, flags=method)
    except cv2.error:
        return best
    for turn, shift in zip(turns, shifts, strict=True):
        R = cv2.Rodrigues(turn)[0]
        t = shift.ravel() - R @ middle
        if ((view.points @ R.T + t)[:, 2] <= 0).any():
            continue
        error = float(np.sqrt(((project(lens.model, numbers, R, t, view.points) - view.pixels) ** 2).sum(1).mean()))
        if error < best[-1]:
            best = view, R, t, error
    return best
