"""Description of the residuals of a predicted run: shares of their squares.

roll, numbers    that the best roll of this run would take away, or the best numbers, to first order: r - Σ J_k x_k
offset           mean over time of each coordinate
shift            mean over the markers, in each frame
delay            r = -v t with one time t for the whole run, v of the recording
shapes           two patterns of the markers, each times a course in time (of greatest singular values)
"""

import numpy as np
from torch import Tensor

from gradsim_reproduction.reality.cable_recordings import FPS

SHAPES = 2


def shares(residual: np.ndarray, slopes: Tensor, recorded: np.ndarray) -> dict[str, float]:
    """Shares of the squares of residuals.

    Args:
        residual: Prediction minus recording (frames, n, 3) [m].
        slopes: Derivatives of the prediction by the numbers and the roll (numbers + 1, frames, n, 3).
        recorded: The recording (frames, n, 3) [m].
    """
    r = np.nan_to_num(residual)
    square, J = max(float((r**2).sum()), np.finfo(float).tiny), slopes.nan_to_num().flatten(1).numpy()
    velocity = np.gradient(recorded, 1 / FPS, axis=0)
    singular = np.linalg.svd(r.reshape(len(r), -1), compute_uv=False)
    return {
        "roll": _explained(r.ravel(), J[-1:]) / square,
        "numbers": _explained(r.ravel(), J[:-1]) / square,
        "offset": float(len(r) * (r.mean(0) ** 2).sum()) / square,
        "shift": float(r.shape[1] * (r.mean(1) ** 2).sum()) / square,
        "delay": _explained(r.ravel(), velocity.reshape(1, -1)) / square,
        "shapes": float((singular[:SHAPES] ** 2).sum()) / square,
    }


def _explained(r: np.ndarray, rows: np.ndarray) -> float:
    """Squares of r that the best combination of rows (k, len(r)) takes away."""
    left = r - rows.T @ np.linalg.lstsq(rows.T, r, rcond=None)[0]
    return float(r @ r - left @ left)
