"""Tracks of markers from files: a table with a row for each marker in each frame."""

import csv
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from gradsim.errors import InputError
from gradsim.identification.observation.motion_capture import read_c3d
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.observation.points import Points
from gradsim.numerics.robust import GAUSSIAN, RobustLoss
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.input_file import TEXT_BYTES, regular_file
from gradsim.scene.node import did_you_mean
from gradsim.scene.scene import Scene

IMAGE, WORLD = ("u", "v"), ("x", "y", "z")
ON_A_FRAME = 1e-3  # of a frame that a time may be off one


def read_tracks(
    scene: Scene,
    path: str | Path,
    sigma: float | None = None,
    camera: str = "camera",
    loss: str | RobustLoss = GAUSSIAN,
    frames: int | None = None,
) -> Points:
    """Tracks of the scene's markers in a CSV file, in an image or in the world.

    Columns in any order: `name`; `frame`, counted from 0, or `time` [s]; `u` and `v` [px], where the middle of the first pixel is
    (0.5, 0.5), or `x`, `y` and `z` [m]; and optionally `sd`, the noise of each coordinate, and `drift`, the standard deviation of the part
    of the error that all later rows of a name share, too (0 where it is empty). Rows that are missing, and coordinates that are empty or
    nan, were not tracked. A file that ends in .c3d is read by `read_c3d`.

    Args:
        scene: Scene with the markers, and the camera of `u` and `v`.
        path: CSV file.
        sigma: Noise of each coordinate [px or m] where the file has no `sd`.
        camera: Name of the camera.
        loss: As for `Points`.
        frames: Least number of frames; the last ones may have no track.

    Raises:
        InputError: If the file is missing or not such a table, a name is none of a marker, a row is there twice, a time is not that
            of a frame, the noise is stated nowhere, or a marker was tracked in one frame only.
    """
    if Path(path).suffix.lower() == ".c3d":
        return read_c3d(scene, path, sigma, loss)
    rows, columns = _read(Path(path))
    world = set(WORLD) <= columns
    axes = WORLD if world else IMAGE
    known = {"name", "frame", "time", "sd", "drift", *axes}
    if not {"name", *axes} <= columns or not columns & {"frame", "time"} or columns - known:
        raise InputError(
            f"{path} has the columns {', '.join(sorted(columns)) or 'none'}; expected name, frame (or time), u and v in px (or x, y "
            "and z in m), and optionally sd and drift."
        )
    if "sd" not in columns and sigma is None:
        raise InputError(
            f"the noise of the tracks in {path} is not stated; add a column sd, or give it (--noise) in {'m' if world else 'px'}."
        )
    if not scene.markers:
        raise InputError(
            "the scene has no `markers`; add those of the tracks, such as {corner: {body: cube, point: [0.05, 0, 0]}}."
        )
    entries = _entries(scene, path, rows, axes, sigma)
    names = [name for name in scene.markers if any(key[1] == name for key in entries)]
    count = {name: sum(key[1] == name for key in entries) for name in names}
    if not names or min(count.values()) < 2:
        short = f"`{min(count, key=count.__getitem__)}` in one frame only" if names else "no marker in two frames"
        raise InputError(
            f"{path} has {short}; a track of one frame tells nothing of a motion: remove its rows, or track it further."
        )
    shape = (max(1 + max(frame for frame, _ in entries), frames or 0), len(names))
    positions, noise, drift = np.full((*shape, len(axes)), np.nan), np.ones(shape), np.zeros(shape)
    for (frame, name), entry in entries.items():
        at = frame, names.index(name)
        positions[at], noise[at], drift[at] = entry
    silhouettes = None if world else Silhouettes.of(scene, camera)
    if silhouettes is not None and silhouettes.camera.poses is not None:
        times = np.array([scene.timing.time(frame) for frame in range(shape[0])])
        positions[~silhouettes.camera.poses.covers(times)] = np.nan
    markers = {name: scene.markers[name] for name in names}
    walk = torch.tensor(drift) if drift.any() else None
    return Points(markers, torch.tensor(positions), torch.tensor(noise), silhouettes, loss, walk)


def read_tracks_of_cameras(
    scene: Scene, paths: Mapping[str, str | Path], sigma: float | None = None, loss: str | RobustLoss = GAUSSIAN
) -> MultiView:
    """Tracks that several cameras of a scene saw at the same frames.

    Args:
        scene: As for `read_tracks`.
        paths: CSV files by the name of the camera.
        sigma, loss: As for `read_tracks`.

    Raises:
        InputError: As `read_tracks`.
    """
    parts = {camera: read_tracks(scene, path, sigma, camera, loss) for camera, path in paths.items()}
    longest = max(part.frames for part in parts.values())
    for camera, part in parts.items():
        if part.frames < longest:
            parts[camera] = read_tracks(scene, paths[camera], sigma, camera, loss, longest)
    return MultiView(parts)


def _entries(
    scene: Scene, path: str | Path, rows: list[dict[str, str]], axes: tuple[str, ...], sigma: float | None
) -> dict[tuple[int, str], tuple[list[float], float, float]]:
    """Position, noise and drift by frame and name.

    Raises:
        InputError: Of a row, see `read_tracks`.
    """
    entries = {}
    for line, row in enumerate(rows, 2):
        place = f"{path}, line {line}"
        frame, name = _frame(row, scene.timing.fps, place), row["name"].strip()
        if name not in scene.markers:
            hint = did_you_mean(name, list(scene.markers)) or f"; it has {', '.join(scene.markers)}."
            raise InputError(f"{place}: the scene has no marker `{name}`{hint}")
        if (frame, name) in entries:
            raise InputError(f"{place}: `{name}` is in frame {frame} twice; leave one out.")
        position = [_number(row, axis, place) for axis in axes]
        sd = _number(row, "sd", place) if row.get("sd") else sigma
        if all(map(math.isfinite, position)):
            if sd is None or not (math.isfinite(sd) and sd > 0):
                raise InputError(f"{place}: sd is {row.get('sd') or sd}; expected a number above 0.")
            entries[frame, name] = position, sd, _drift(row, place)
    return entries


def _read(path: Path) -> tuple[list[dict[str, str]], set[str]]:
    """Rows by column, and the columns."""
    try:
        with regular_file(path, "file of tracks", TEXT_BYTES).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows, columns = list(reader), {str(name).strip() for name in reader.fieldnames or ()}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read tracks from {path}: {error}.") from None
    if not rows:
        raise InputError(f"{path} has no rows; expected a header, and a row for each marker in each frame.")
    broken = next((k for k, row in enumerate(rows, 2) if None in row or None in row.values()), None)
    if broken is not None:
        raise InputError(f"{path}, line {broken}: expected {len(columns)} cells, as the header has.")
    return [{name.strip(): cell for name, cell in row.items()} for row in rows], columns


def _number(row: dict[str, str], column: str, place: str) -> float:
    """A cell; NaN where it is empty."""
    try:
        return float(row[column]) if row[column].strip() else math.nan
    except ValueError:
        raise InputError(f"{place}: {column} is {row[column]!r}; expected a number.") from None


def _drift(row: dict[str, str], place: str) -> float:
    value = _number(row, "drift", place) if (row.get("drift") or "").strip() else 0.0
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{place}: drift is {row['drift']!r}; expected a number of at least 0.")
    return value


def _frame(row: dict[str, str], fps: float, place: str) -> int:
    column = "frame" if "frame" in row else "time"
    value = _number(row, column, place) * (1 if column == "frame" else fps)
    if not (math.isfinite(value) and value > -0.5) or abs(value - round(value)) > ON_A_FRAME:
        way = "a whole number of at least 0" if column == "frame" else f"a multiple of 1/{fps:g} s, by `timing.fps`"
        raise InputError(f"{place}: {column} is {row[column]!r}; expected {way}.")
    return round(value)
