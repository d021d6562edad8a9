"""Poses of a camera that moves: times, rotations, translations and their covariance, in a file of `gradsim capture --poses`.

x_c = R(t) x + t(t). Between two poses the rotation turns at a constant rate (slerp) and the position moves at a constant speed; before
the first and after the last they stay.
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import (
    Any,
    NotRequired,  # of `typing` pydantic takes it from Python 3.12 on
)

import numpy as np
from typing_extensions import TypedDict

from gradsim.errors import InputError
from gradsim.runtime.atomic import write_json
from gradsim.runtime.input_file import read_json

SCHEMA = "gradsim.poses/1"
MAX_STAMP_DISTANCE = 0.02  # of the usual interval: distance of a frame from a pose, up to which it has one
ROTATION_TOLERANCE = 1e-5  # tolerance of R Rᵀ = 1
WAY_OUT = "make it again by `gradsim capture --poses`"


class PosesRecord(TypedDict):
    """Keys of a file of poses; further ones are not read."""

    schema: str
    times: list[float]
    R: list[list[list[float]]]
    t: list[list[float]]
    covariance: list[list[list[float]]]
    correlation_time: NotRequired[float]


@dataclass(frozen=True, eq=False)
class CameraPoses:
    """Poses of a camera.

    Attributes:
        times: (n,), increasing, after the first frame of the video [s].
        R: World → camera (n, 3, 3).
        t: (n, 3) [m].
        covariance: (n, 6, 6) of ω and t, where R = exp(ω) R [rad, m].
        correlation_time: Time [s] over which the correlation of errors of two poses falls to 1/e; 0: errors are independent.

    Raises:
        InputError: If shapes, times, rotations or covariances are wrong.
    """

    times: np.ndarray
    R: np.ndarray
    t: np.ndarray
    covariance: np.ndarray
    correlation_time: float = 0.0

    def __post_init__(self):
        n = len(self.times)
        shapes = {"times": (n,), "R": (n, 3, 3), "t": (n, 3), "covariance": (n, 6, 6)}
        for name, shape in shapes.items():
            value = np.asarray(getattr(self, name), np.float64)
            if value.shape != shape or not np.isfinite(value).all():
                raise InputError(f"`{name}` of poses has shape {value.shape}; expected {shape} and finite numbers.")
            object.__setattr__(self, name, value)
        if n < 2 or (np.diff(self.times) <= 0).any():
            raise InputError(
                "poses need two or more `times` that increase; a camera that stands still has `R` and `t`."
            )
        if (
            np.abs(self.R @ np.swapaxes(self.R, 1, 2) - np.eye(3)).max() > ROTATION_TOLERANCE
            or (np.linalg.det(self.R) < 0).any()
        ):
            raise InputError("`R` of poses is not a rotation (R Rᵀ = 1, det R = +1) everywhere.")
        if np.linalg.eigvalsh((self.covariance + np.swapaxes(self.covariance, 1, 2)) / 2).min() < 0:
            raise InputError("`covariance` of poses is not positive semidefinite everywhere.")
        if not 0 <= self.correlation_time < float("inf"):
            raise InputError(f"`correlation_time` of poses is {self.correlation_time!r}; expected seconds, 0 or more.")

    def at(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """R (m, 3, 3) and t (m, 3) at some times (m,) [s]."""
        times = np.clip(times, self.times[0], self.times[-1])
        from scipy.spatial.transform import Rotation, Slerp

        R = Slerp(self.times, Rotation.from_matrix(self.R))(times).as_matrix()
        centers = -np.einsum("nji,nj->ni", self.R, self.t)
        center = np.stack([np.interp(times, self.times, c) for c in centers.T], -1)
        return R, -np.einsum("nij,nj->ni", R, center)

    def covers(self, times: np.ndarray) -> np.ndarray:
        """(m,) True for the times of frames that have a pose."""
        return np.abs(times[:, None] - self.times).min(1) <= MAX_STAMP_DISTANCE * np.median(np.diff(self.times))

    def covariance_at(self, times: np.ndarray) -> np.ndarray:
        """Covariance (m, 6, 6) of the nearest pose."""
        return self.covariance[np.abs(times[:, None] - self.times).argmin(1)]

    def correlation_at(self, times: np.ndarray) -> np.ndarray:
        """Correlation (m, m) of the errors of the poses at some times (m,) [s]."""
        if not self.correlation_time:
            return np.eye(len(times))
        return np.exp(-np.abs(times[:, None] - times) / self.correlation_time)

    def save(self, path: Path, more: dict[str, Any] | None = None) -> None:
        """Write the file, with further keys."""
        arrays = {name: getattr(self, name).tolist() for name in ("times", "R", "t", "covariance")}
        if self.correlation_time:
            arrays["correlation_time"] = self.correlation_time
        write_json(path, {"schema": SCHEMA, **arrays, **(more or {})})


def read_poses(path: str | Path) -> CameraPoses:
    """Poses from a file.

    Raises:
        InputError: If it is missing, damaged, or has another schema.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist; expected a file of poses: {WAY_OUT}.")
    return _read(path, os.stat(path).st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, changed: int) -> CameraPoses:
    content = read_json(path, PosesRecord, WAY_OUT)
    if content["schema"] != SCHEMA:
        raise InputError(f"{path} has the schema {content['schema']!r}; expected {SCHEMA}: {WAY_OUT}.")
    try:
        arrays = {name: np.array(content[name], np.float64) for name in ("times", "R", "t", "covariance")}
        return CameraPoses(**arrays, correlation_time=content.get("correlation_time", 0.0))
    except (InputError, ValueError) as error:
        raise InputError(f"{path}: {error} {WAY_OUT.capitalize()}.") from None
