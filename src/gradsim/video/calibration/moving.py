"""Poses of a camera that moves, from a target in view in each frame, with a known lens.

Each frame is a maximum-likelihood fit of its own (`estimate.py`). A plane seen from far has two poses that explain it nearly alike; of
these the one that continues the frame before is taken.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from gradsim.errors import InputError
from gradsim.video.calibration.estimate import Calibration, View, calibrate
from gradsim.video.calibration.lens import Lens
from gradsim.video.calibration.start import initial_poses

MAX_RMS_RATIO = 2.0  # ratio of the corners' RMS up to which the pose that continues the frame before is taken
# [px] of a corner: boards that are not flat, blur of motion, corners of one frame that are off alike
LEAST_NOISE = 0.03
MIN_CORNERS = 4  # corners of a pose
JUMP = 10.0  # times the usual change between frames, and
LEAST_JUMP = 0.05  # [rad], above which a turn is another pose of the same plane


def pose_of(view: View, lens: Lens, width: int, before: tuple[np.ndarray, np.ndarray] | None) -> Calibration | None:
    """Pose of a view with a lens without unknowns; None if no pose explains it.

    Args:
        view: Corners of the frame.
        lens: The lens.
        width: Of the image [px].
        before: R (3, 3) and t (3,) of the frame before; None: none.
    """
    candidates = []
    try:
        _, _, (R, t) = initial_poses([view], lens, width)
        candidates.append(calibrate([view], lens, (R, t), correlated=False))
    except InputError:
        pass
    if before is not None:
        try:
            candidates.append(calibrate([view], lens, (before[0][None], before[1][None]), correlated=False))
        except InputError:
            pass
    if not candidates:
        return None
    best = min(candidates, key=lambda c: c.corner_rms)
    continued = candidates[-1]
    pose = continued if before is not None and continued.corner_rms < MAX_RMS_RATIO * best.corner_rms else best
    factor = max(1.0, LEAST_NOISE / float(pose.noise[0]))
    return replace(pose, covariance=factor**2 * pose.covariance)


def smooth_enough(R: Sequence[np.ndarray], frames: Sequence[int]) -> np.ndarray:
    """(n,) False for poses that turn away from both their neighbours by far more than is usual.

    Args:
        R: Rotations of the poses.
        frames: Their frames.
    """
    if len(R) < 3:
        return np.ones(len(R), bool)
    turns = np.array([_angle(a, b) for a, b in pairwise(R)]) / np.diff(frames)
    limit = max(JUMP * float(np.median(turns)), LEAST_JUMP)
    before, after = np.append(turns[:1], turns), np.append(turns, turns[-1:])
    return (before <= limit) | (after <= limit)


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.arccos(np.clip((np.trace(a.T @ b) - 1) / 2, -1, 1)))
