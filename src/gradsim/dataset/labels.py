"""Labels of the videos, as a table: one parquet file per unit, one row per video.

number, object, split, fps           identification
unknowns, body.mass, ...             unknowns of a fit, and their true values [SI units]
impulse, impulse_point               known push [N s], and its point in the body's frame [m]
K_64, K_256, R, t                    camera matrix of each size, row by row [px], and world → camera [m]
scene                                scene known to a fit, as JSON, which is also YAML
states.body.x, ...                   trajectory, row by row: reshape(frames, -1)
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.dataset.render import RenderedVideo, visible_scene
from gradsim.dataset.sample import Sample
from gradsim.identification.unknowns import Unknown
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene

STATES = "states."  # prefix of the columns of the trajectory


def label(sample: Sample, sizes: Sequence[int]) -> dict[str, Any]:
    """Row of a sample, without its trajectory."""
    scene = visible_scene(sample.scene)
    pushes = [push for pushes in scene.pushes.values() for push in pushes if push.impulse]
    _, R, t = scene.view().matrices()
    return {
        "number": sample.number,
        "object": sample.object,
        "split": sample.split,
        "fps": float(scene.timing.fps),
        "unknowns": list(sample.unknowns),
        **sample.truth,
        "impulse": list(pushes[0].impulse or ()) if pushes else [],
        "impulse_point": list(pushes[0].point) if pushes else [],
        **{f"K_{size}": visible_scene(scene, size).view().matrices()[0].ravel().tolist() for size in sizes},
        "R": R.ravel().tolist(),
        "t": t.tolist(),
        "scene": json.dumps(scene.model_dump(mode="json", by_alias=True, exclude_none=True)),
    }


def truth_of(row: Mapping[str, Any]) -> dict[str, float]:
    """True values of a row by the names of the unknowns."""
    return {name: row[name] for name in (Unknown.parse(text).name for text in row["unknowns"])}


def scene_of(row: Mapping[str, Any], size: int | None = None) -> Scene:
    """Scene known to a fit, with a camera of this size [px]; None: as in the row."""
    scene = Scene.parse(json.loads(row["scene"]))
    return scene if size is None else visible_scene(scene, size)


def digest(row: Mapping[str, Any], video: RenderedVideo) -> str:
    """SHA-256 of the content of a video, independent of compression."""
    total = hashlib.sha256(json.dumps(row, sort_keys=True).encode())
    states = {name: array.reshape(len(array), -1) for name, array in video.states.items()}
    groups = {"frames": video.frames, "masks": video.masks, "states": states}
    for name, arrays in groups.items():
        for key in sorted(arrays):
            array = np.ascontiguousarray(arrays[key])
            total.update(f"{name} {key} {array.dtype.str} {array.shape}".encode())
            total.update(array.data)
    return total.hexdigest()


def write(path: Path, rows: Sequence[dict[str, Any]], states: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Write the table of a unit, atomically.

    Args:
        path: Path that ends in .parquet.
        rows: Rows from `label`.
        states: Trajectories of the same videos.
    """
    pa, parquet = (
        require_extra("pyarrow", "files of a data set", "data"),
        require_extra("pyarrow.parquet", "files of a data set", "data"),
    )
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    columns = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(name) for row in rows]
        first = next(value for value in values if value is not None)
        item = pa.string() if name == "unknowns" else pa.float64()
        columns[name] = pa.array(values, pa.list_(item) if isinstance(first, list) else kinds[type(first)])
    for name in dict.fromkeys(key for trajectory in states for key in trajectory):
        values = [trajectory[name].ravel() if name in trajectory else None for trajectory in states]
        columns[STATES + name] = pa.array(values, pa.list_(pa.float64()))
    with atomic_write(path, fsync=True) as file:
        parquet.write_table(pa.table(columns), file, compression="zstd")


def read(path: Path, frames: int) -> tuple[list[dict[str, Any]], list[dict[str, np.ndarray]]]:
    """Rows and trajectories of a unit.

    Args:
        path: Path of the table.
        frames: Frames of each video. States of one number a frame are returned as (frames, 1).
    """
    table = require_extra("pyarrow.parquet", "files of a data set", "data").read_table(path)
    moving = [name for name in table.column_names if name.startswith(STATES)]
    rows = table.drop_columns(moving).to_pylist()
    rows = [{key: value for key, value in row.items() if value is not None} for row in rows]
    states = [{} for _ in rows]
    for name in moving:
        for trajectory, values in zip(states, table[name], strict=True):
            if values.is_valid:
                trajectory[name.removeprefix(STATES)] = values.values.to_numpy().reshape(frames, -1)
    return rows, states
