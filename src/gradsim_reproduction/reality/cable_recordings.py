"""Recordings of real cables that two arms move: markers on their vertices, at 100 Hz over 5 s.

From DEFORM (Chen et al., CoRL 2024), three cables, for each some runs `train_*` and four `eval_*`. No licence is stated, so
the files are no part of gradsim: put files cable1.npz, cable2.npz and cable3.npz with arrays (500, vertices, 3) [m] into
`cables/` of the folder that GRADSIM_REAL_DATA names. z points up.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.errors import InputError

FPS = 100.0  # [Hz]
ENDS = 2  # vertices at each end that are given
GIVEN = 2  # first frames that are given
GRAVITY = (0.0, 0.0, -9.81)  # [m/s²]


@dataclass(frozen=True, eq=False)
class Recording:
    """One run of a cable.

    Args:
        name: Such as "eval_104".
        x: Vertices (frames, n, 3) [m].
    """

    name: str
    x: np.ndarray

    @property
    def free(self) -> np.ndarray:
        """Vertices that are predicted, in the frames that are predicted (frames - 2, n - 4, 3) [m]."""
        return self.x[GIVEN:, ENDS:-ENDS]

    @property
    def held(self) -> list[int]:
        """Vertices that are given in all frames."""
        n = self.x.shape[1]
        return [*range(ENDS), *range(n - ENDS, n)]


def load(cable: int) -> dict[str, list[Recording]]:
    """Runs of a cable in order of their names, as "train" and "eval".

    Raises:
        InputError: If the file is not there, or is not of such arrays.
    """
    folder = Path(os.environ.get("GRADSIM_REAL_DATA", "../shared/data/real"))
    path = folder / "cables" / f"cable{cable}.npz"
    if not path.is_file():
        raise InputError(
            f"the file {path} does not exist; set GRADSIM_REAL_DATA to the folder with `cables/cable{cable}.npz`."
        )
    runs: dict[str, list[Recording]] = {"train": [], "eval": []}
    with np.load(path, allow_pickle=False) as content:
        for name in sorted(content.files):
            x = np.asarray(content[name], np.float64)
            kind = name.partition("_")[0]
            if kind not in runs or x.ndim != 3 or x.shape[2] != 3 or len(x) <= GIVEN or not np.isfinite(x).all():
                raise InputError(
                    f"`{name}` of {path} has shape {x.shape}; expected train_* or eval_* (frames, n, 3) in m."
                )
            runs[kind].append(Recording(name, x))
    return runs


def still(recording: Recording, frames: int) -> np.ndarray:
    """The vertices as they were in the last given frame (frames - 2, n - 4, 3) [m]."""
    x = recording.x[GIVEN - 1, ENDS:-ENDS]
    return np.repeat(x[None], min(frames, len(recording.x)) - GIVEN, 0)


def straight(recording: Recording, frames: int) -> np.ndarray:
    """The vertices on a straight line between the given ones, at the shares of length of the first frame."""
    x = recording.x
    s = np.cumsum(np.linalg.norm(np.diff(x[0], axis=0), axis=1))
    share = ((s[1:-2] - s[0]) / (s[-2] - s[0]))[:, None]
    first, last = (x[GIVEN:frames, k, None] for k in (ENDS - 1, -ENDS))
    return first + share * (last - first)
