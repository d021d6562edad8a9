"""Tosses of a real cube: poses from markers, the noise in them, and clips of them.

12 tosses of a 10.48 cm acrylic cube on a table, at 148 Hz (ContactNets: Pfrommer, Halm & Posa, CoRL 2020). The data are
no part of gradsim; see `recordings`.

The noise of the poses is taken from the tosses that are fitted. In flight it is what a parabola and a steady spin
leave. From the first touch of a clip on, where cube and table meet is known no better than a cube at rest shows, whose
lower face should lie on the table and is a millimetre and half a degree off.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.solvers.clip_ensemble import PoseClip
from gradsim.numerics import rotation

FPS = 148.0  # [Hz]
SIDE = 0.1048  # [m]
FEWEST = 9  # tosses: 8 that are fitted, and one to predict
SHORTEST = 30  # frames of a file
TOUCH = 0.005  # [m] height of the lowest corner below which the cube may touch the table
REST = 15  # frames without motion that end a toss
FLOWN = 16  # most frames of a flight for its noise: over longer ones the poses drift


@dataclass(frozen=True)
class Toss:
    """One recording.

    Args:
        name: Name of its file.
        x: Positions of the centre (frames, 3) [m].
        q: Orientations (frames, 4), x, y, z, w.
    """

    name: str
    x: Tensor
    q: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, frames: slice) -> "Toss":
        return Toss(self.name, self.x[frames], self.q[frames])

    @property
    def corners(self) -> Tensor:
        """Heights of the corners above the table, lowest first (frames, 8) [m]."""
        corner = torch.cartesian_prod(*[torch.tensor([-SIDE / 2, SIDE / 2], dtype=torch.float64)] * 3)
        return (rotation.rotate(self.q[:, None], corner) + self.x[:, None])[..., 2].sort(1).values

    @property
    def flight(self) -> int:
        """Number of frames before the first touch."""
        return int((self.corners[:, 0] < TOUCH).double().argmax())

    def until_rest(self) -> "Toss":
        """Without what follows once it has lain still for 0.1 s (in one file a hand pushes the cube back)."""
        for k in range(self.flight, len(self) - REST):
            shift = torch.linalg.vector_norm(self.x[k + REST] - self.x[k])
            if shift < 1e-3 and angle(self.q[k + REST], self.q[k]) < 5e-3:
                return self[: k + REST]
        return self


@dataclass(frozen=True)
class Noise:
    """Noise of the poses; see the module docstring.

    Args:
        flight: Flight of each coordinate in flight [m].
        spin: Spin of the orientation about each axis in flight [rad].
        height: Height of each coordinate in contact: rms height of the lower corners of a cube at rest [m].
        tilt: Tilt of the orientation about each axis in contact: rms tilt of a cube at rest [rad].
    """

    flight: float
    spin: float
    height: float
    tilt: float


def recordings() -> Path:
    """The folder of real recordings: GRADSIM_REAL_DATA, or ../shared/data/real from the project's root.

    Raises:
        InputError: If it is not there.
    """
    default = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "real"
    folder = Path(os.environ.get("GRADSIM_REAL_DATA") or default).resolve()
    if not folder.is_dir():
        raise InputError(
            f"the real recordings are not in {folder}; set GRADSIM_REAL_DATA to the folder that holds cube_tosses/ "
            f"and pendulum/. They are not part of gradsim."
        )
    return folder


def load() -> list[Toss]:
    """All tosses, up to rest.

    Raises:
        InputError: If they are missing, or do not hold poses at 148 Hz.
    """
    folder = recordings() / "cube_tosses"
    paths = sorted(folder.glob("toss_*.csv"))
    if len(paths) < FEWEST:
        raise InputError(f"{folder} holds {len(paths)} files toss_*.csv; there have to be {FEWEST} or more.")
    return [_read(path) for path in paths]


def _read(path: Path) -> Toss:
    try:
        rows = torch.tensor(np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2))
    except ValueError as error:
        raise InputError(f"{path} is not a table of numbers: {error}") from None
    if rows.shape[1] < 8 or len(rows) < SHORTEST or not torch.isfinite(rows).all():
        raise InputError(f"{path} has shape {tuple(rows.shape)}; a toss has time, x y z and qx qy qz qw in each row.")
    if not torch.allclose(rows[:, 0].diff(), torch.tensor(1 / FPS).double(), rtol=1e-3):
        raise InputError(f"{path} is not sampled at {FPS:g} Hz.")
    q = torch.nn.functional.normalize(rows[:, 4:8], dim=1)
    return Toss(path.stem.removeprefix("toss_"), rows[:, 1:4], q).until_rest()


def noise(tosses: Sequence[Toss]) -> Noise:
    """Noise of the poses, as these tosses show it."""
    shifts, turns, heights, tilts = [], [], [], []
    for toss in tosses:
        n = min(toss.flight, FLOWN)
        times, flown = torch.arange(n).double() / FPS, toss[:n]
        turned = rotation.logarithm(rotation.multiply(flown.q, rotation.conjugate(flown.q[n // 2])))
        shifts += [_left(flown.x[:, :2], times, 1), _left(flown.x[:, 2:], times, 2)]
        turns.append(_left(turned, times, 1))
        heights.append(toss.corners[-1, :4])
        down = rotation.to_matrix(toss.q[-1])[2]  # the vertical in the body's frame, along a face's normal but for tilt
        tilts.append(down.abs().sort().values[:2].asin())
    rms = lambda parts: torch.cat([p.flatten() for p in parts]).square().mean().sqrt().item()
    return Noise(rms(shifts), rms(turns), rms(heights), rms(tilts))


def clips(tosses: Sequence[Toss], sigma: Noise, frames: int) -> list[PoseClip]:
    """Tosses cut into clips of `frames` frames that share their end frames, each with its noise."""
    cut = []
    for toss in tosses:
        for first in range(0, len(toss) - frames + 1, frames - 1):
            part = toss[first : first + frames]
            touched = (part.corners[:, 0] < TOUCH).cummax(0).values[:, None].double()
            shift = sigma.flight + touched * (sigma.height - sigma.flight)
            turn = sigma.spin + touched * (sigma.tilt - sigma.spin)
            cut.append(PoseClip(part.x, part.q, shift.expand(-1, 3), turn.expand(-1, 3), toss.name, first))
    return cut


def _left(y: Tensor, times: Tensor, degree: int) -> Tensor:
    """Residual of a polynomial fit to y (frames, k), scaled for the degrees of freedom."""
    powers = times[:, None] ** torch.arange(degree + 1)
    rest = y - powers @ torch.linalg.pinv(powers) @ y
    return rest * math.sqrt(len(times) / max(1, len(times) - degree - 1))


def angle(p: Tensor, q: Tensor) -> Tensor:
    """Angle between orientations [rad]."""
    return torch.linalg.vector_norm(rotation.logarithm(rotation.multiply(p, rotation.conjugate(q))), dim=-1)
