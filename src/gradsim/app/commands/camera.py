"""`gradsim camera`: camera calibration from a known length, or from the outlines of a clip's first frames."""

import itertools
import math
from pathlib import Path

from gradsim.app.clip import read_clip
from gradsim.app.job import open_scene
from gradsim.app.viewer.first_scene_file import fit_command
from gradsim.errors import InputError
from gradsim.identification.camera_calibration import camera_from_length
from gradsim.identification.scene_refinement import DISTANCE, FOCAL, FRAMES, SIZE, refine_scene
from gradsim.numerics.formatting import with_error
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.progress import Progress
from gradsim.scene import yaml_io
from gradsim.video.read import check_video


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


def refine_camera(
    scene_path: Path,
    out: Path,
    video: Path,
    parts: str,
    mask: Path | None = None,
    background: str = "median",
    category: str = "",
    frames: str = "",
    progress: Progress | None = None,
) -> str:
    """Write a scene whose body and camera lie on the outlines of a clip's first frames; see `refine_scene`.

    Args:
        scene_path: The scene.
        out: Scene file to write.
        video: The clip.
        parts: Names of parts to refine, separated by commas.
        mask: Masks, as for `read_clip`.
        background: Of the masks, as for `read_clip`.
        category: Of the masks, as for `read_clip`.
        frames: "A:B": the frames that count; "": the first 8 in which the body is whole.
        progress: Shown meanwhile.

    Returns:
        Each number before and after, how far outlines are apart, and the next command.

    Raises:
        InputError: If an argument is wrong, or outlines do not tell the parts from one another.
    """
    scene = open_scene(Path(scene_path))
    if scene.camera is None:
        raise InputError(f"{scene_path} has no `camera`; add one with a guessed focal length and position.")
    clip = read_clip(video, mask, background, category, frames, progress)
    check_video(clip.video, *scene.camera.size, scene.timing.fps, video, scene.timing.stamps)
    names = [part.strip() for part in parts.split(",") if part.strip()]
    if clip.regions is None:
        raise InputError(clip.problem)
    count = len(clip.regions.frames) if frames else FRAMES
    result = refine_scene(scene, clip.coverage, clip.regions, names, count)
    used = f"{result.frames[0]} to {result.frames[-1]}"
    error = f"outlines of frames {used}: {result.before:.2g} px apart before, {result.error:.2g} px after"
    comment = f"#   refined: {', '.join(names)} by least squares on {video.name}; {error}."
    text = yaml_io.as_text(result.scene, out.absolute().parent, brief=True)
    if not out.absolute().parent.is_dir():
        raise InputError(f"the folder {out.absolute().parent} for {out.name} does not exist; create it first.")
    with atomic_write(out, "w") as file:
        file.write("\n".join([*_comments(Path(scene_path)), comment, text]))
    lines = [f"{name}: {before:.6g} → {after:.6g}" for name, (before, after) in result.changes.items()]
    known = {SIZE, FOCAL, DISTANCE} - set(names)
    return "\n".join([*lines, error, f"next: {fit_command(result.scene, clip, out, known)}"])


def _comments(path: Path) -> list[str]:
    """Comments at the top of a scene file; none of a library scene."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return list(itertools.takewhile(lambda line: line.startswith("#"), lines))


def _numbers(text: str, count: int, option: str, meaning: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise InputError(f"{option} is {text!r}; it needs {count} numbers separated by commas, {meaning}.")
    return numbers
