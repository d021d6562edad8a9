"""`gradsim camera`: camera calibration from a known length."""

import math
from pathlib import Path

from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.identification.camera_calibration import camera_from_length
from gradsim.numerics.formatting import with_error


def calibrate_camera(
    scene_path: Path, out: Path, *, length: float, points: str, solve: str, at: str | None, tilt: float, click: float
) -> str:
    """Write a scene whose camera is calibrated from a known length; see `camera_from_length`.

    Args:
        scene_path: The scene.
        out: Scene file to write.
        length: Distance between two points of the image [m].
        points: "x1,y1,x2,y2" [px].
        solve: "focal" or "distance".
        at: "x,y,z" [m], or None.
        tilt: Angle between the length and the image plane [deg].
        click: Standard deviation of a point's coordinate [px].

    Returns:
        The estimate with its error and assumptions, in words.

    Raises:
        InputError: If an argument is wrong.
    """
    scene, ends = open_scene(Path(scene_path)), _numbers(points, 4, "--points", "x1,y1,x2,y2 in px")
    position = None if at is None else _numbers(at, 3, "--at", "x,y,z in m")
    if scene.camera is None:
        raise InputError(f"{scene_path} has no `camera`; add one with a guessed focal length and position.")
    result = camera_from_length(scene.camera, [ends[:2], ends[2:]], length, solve, position, math.radians(tilt), click)
    scene.model_copy(update={"camera": result.camera}).save(out)
    unit = "px" if result.name == "focal" else "m"
    return f"{result.name}: {with_error(result.value, result.std)} {unit}\n{result.assumes}"


def _numbers(text: str, count: int, option: str, meaning: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise InputError(f"{option} is {text!r}; it needs {count} numbers separated by commas, {meaning}.")
    return numbers
