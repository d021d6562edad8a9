"""Tracks of markers from C3D files of motion capture (extra `c3d`).

A point is a gap where its residual is below 0, as the format says, or a coordinate is not finite. Units are those of the file (POINT:UNITS), and
the vertical axis is that of POINT:Y_SCREEN, which is turned to z.
"""

import warnings
from pathlib import Path

import numpy as np
import torch

from gradsim.errors import InputError
from gradsim.identification.observation.points import Points
from gradsim.numerics.robust import GAUSSIAN, RobustLoss
from gradsim.runtime.input_file import regular_file
from gradsim.runtime.optional import require_extra
from gradsim.scene.scene import Scene

UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "": 1e-3}  # [m]; the format's usual unit where a file states none
UPWARD = {  # rows of the turn of the file's axes to z up, by the upward axis
    "+Z": np.eye(3),
    "+Y": np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]),
    "+X": np.array([[0.0, 0, -1], [0, 1, 0], [1, 0, 0]]),
    "": np.eye(3),
}
MAX_BYTES = 2**31  # [bytes]
SAME_RATE = 1e-3  # relative difference of two rates


def read_c3d(scene: Scene, path: str | Path, sigma: float | None, loss: str | RobustLoss = GAUSSIAN) -> Points:
    """Tracks in the world of the scene's markers that a C3D file has by the same label; others of the file are not used.

    Args:
        scene: Scene with the markers.
        path: C3D file. Its rate is `timing.fps`, or a whole multiple of it: then frames between are left out.
        sigma: Noise of each coordinate [m]; the file has none.
        loss: As for `Points`.

    Raises:
        InputError: If the file cannot be read, has another rate or an unknown unit or axis, no label is that of a marker, a marker has less than two
            frames, or the noise is not stated.
    """
    path = Path(path)
    if sigma is None:
        raise InputError(f"the noise of the tracks in {path} is not stated; give it (--noise) in m, such as 0.0005.")
    if not scene.markers:
        raise InputError(
            "the scene has no `markers`; add those of the tracks, by their labels, such as {LFT1: {body: cube, point: [0.05, 0, 0]}}."
        )
    c3d = require_extra("c3d", "reading C3D files", "c3d")
    try:
        with regular_file(path, "C3D file", MAX_BYTES).open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that there are no analog data
            reader = c3d.Reader(file)
            labels = [label.strip() for label in reader.point_labels]
            rate, units, up = float(reader.point_rate), _text(reader, "POINT:UNITS"), _text(reader, "POINT:Y_SCREEN")
            frames = np.array([points[:, :4] for _, points, _ in reader.read_frames()], np.float64)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 -- the library raises many kinds on damaged files
        raise InputError(f"cannot read {path} as C3D ({type(error).__name__}: {error}); export it again.") from None
    if units.lower() not in UNITS or up.upper() not in UPWARD:
        raise InputError(
            f"{path} has the unit {units!r} and the upward axis {up!r}; expected mm, cm or m, and +X, +Y or +Z (POINT:UNITS, POINT:Y_SCREEN)."
        )
    names = [name for name in scene.markers if name in labels]
    if not names:
        raise InputError(
            f"{path} has no marker of the scene ({', '.join(scene.markers)}); it has {', '.join(labels[:20]) or 'none'}: rename the scene's `markers`."
        )
    frames = frames[:: _stride(rate, scene.timing.fps, path), [labels.index(name) for name in names]]
    positions = UNITS[units.lower()] * frames[..., :3] @ UPWARD[up.upper()].T
    positions[(frames[..., 3] < 0) | ~np.isfinite(positions).all(-1)] = np.nan
    count = np.isfinite(positions).all(-1).sum(0)
    if count.min() < 2:
        short = names[int(count.argmin())]
        raise InputError(
            f"{path} has `{short}` in less than two frames; a track of one frame tells nothing of a motion: remove the marker from the scene."
        )
    return Points({name: scene.markers[name] for name in names}, torch.tensor(positions), sigma, loss=loss)


def _text(reader, name: str) -> str:
    parameter = reader.get(name)
    return "" if parameter is None else parameter.string_value.strip().strip("\0")


def _stride(rate: float, fps: float, path: Path) -> int:
    """Frames of the file for one of the scene."""
    stride = round(rate / fps) if rate > 0 else 0
    if stride < 1 or abs(rate / fps / stride - 1) > SAME_RATE:
        raise InputError(
            f"{path} has {rate:g} frames per second, and `timing.fps` is {fps:g}; give the rate of the file, or one of which it is a multiple."
        )
    return stride
