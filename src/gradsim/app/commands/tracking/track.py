"""`gradsim track`: tracks of points in a video, for `gradsim fit --tracks`."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.identification.observation.marker_placement import place_markers
from gradsim.identification.observation.points import Points
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import Scene
from gradsim.scene.body import Rigid
from gradsim.scene.interactions import Marker
from gradsim.video.clip_properties import variable_stamps
from gradsim.video.tracking.tracker import RADIUS, FeatureTracks, gray_frames, textured_points, track
from gradsim.visualization.overlay_video import mark_points

TRACKS, VIDEO, SCENE = "tracks.csv", "overlay.webm", "scene.yaml"
RADII = 4, 40  # [px] of patches
CLICK = 0.5  # [px] standard deviation of a coordinate that a person clicked
MAX_CLICK = 20.0  # [px]


@dataclass(frozen=True, kw_only=True)
class TrackOptions:
    """Options of `track_video`.

    Attributes:
        points: Points NAME=U,V in the first frame [px].
        auto: Number of points that are chosen by their texture.
        region: X,Y,W,H [px] of the points that are chosen; "": the image.
        scene: Scene whose markers are tracked, or on whose bodies chosen points are put.
        frame: First frame.
        radius: Of patches [px].
        click: Standard deviation [px] of the places of `points`: priors of the scene's markers of these names, or a part of the drift.
    """

    points: tuple[str, ...] = ()
    auto: int | None = None
    region: str = ""
    scene: Path | None = None
    frame: int = 0
    radius: int = RADIUS
    click: float = CLICK


def track_video(path: Path, out: Path, options: TrackOptions, progress: Progress | None = None) -> str:
    """Track points; writes tracks.csv, overlay.webm, and with chosen points and a scene scene.yaml with their markers.

    Args:
        path: Video.
        out: Output folder.
        options: Points and options.
        progress: Receives stages.

    Returns:
        The tracks in words.

    Raises:
        InputError: If an option or the video is wrong, or no point can be tracked.
    """
    progress = progress or NullProgress()
    _check(options)
    scene = open_scene(options.scene) if options.scene else None
    progress.stage(f"reading {path}")
    video = videos.read(path)
    if scene and tuple(scene.view().size) != (video.width, video.height):
        w, h = scene.view().size
        raise InputError(
            f"the frames are {video.width} × {video.height} px, `camera.size` of {options.scene} is {w} × {h}; resize them, or change `camera.size`."
        )
    if not 0 <= options.frame < len(video.frames) - 1:
        raise InputError(
            f"--frame is {options.frame}; the video has {len(video.frames)} frames: choose one of 0 to {len(video.frames) - 2}."
        )
    points = _points(options, scene, video.frames[options.frame])
    markers = {}
    if scene and options.auto is not None:
        points, markers = _on_bodies(scene, points)
    progress.stage(f"tracking {', '.join(points)} through {len(video.frames) - options.frame} frames")
    tracks = track(video.frames, points, options.frame, options.radius)
    priors = {} if scene is None or not options.points else _click_priors(scene, tracks.names, options.click)
    clicked = [j for j, name in enumerate(tracks.names) if options.points and f"markers.{name}.point.x" not in priors]
    tracks.drift[:, clicked] = np.hypot(tracks.drift[:, clicked], options.click)
    out.mkdir(parents=True, exist_ok=True)
    _write_table(out / TRACKS, tracks, _frame_numbers(video))
    videos.write_preview(
        out / VIDEO, mark_points(video.frames, tracks.positions, np.empty((len(video.frames), 0, 2))), video.fps
    )
    if scene and (markers or priors):
        places = {name: markers[name] for name in tracks.names if name in markers}
        content = scene.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
        content["markers"] = {
            **content.get("markers", {}),
            **{k: m.model_dump(exclude_none=True) for k, m in places.items()},
        }
        content["priors"] = {**priors, **content.get("priors", {})}
        Scene.parse(
            content if content["priors"] else {k: v for k, v in content.items() if k != "priors"}, folder=out
        ).save(out / SCENE)
    progress.done()
    return "\n".join(
        [
            *_words(tracks),
            *([f"markers: {out / SCENE}"] if markers else []),
            *([f"scene to fit, with priors of the clicks: {out / SCENE}"] if priors else []),
        ]
    )


def _click_priors(scene: Scene, names: Sequence[str], click: float) -> dict[str, str]:
    """Priors of the places of clicked markers on rigid bodies: a click that is off by a pixel is a marker at another place of the body.

    Args:
        scene: The scene; the distance of a marker from the camera is that at its start.
        names: Of the tracks.
        click: Standard deviation of a click [px].
    """
    clicked = [name for name in names if name in scene.markers and scene.markers[name].point is not None]
    if not clicked or not click:
        return {}
    K, R, t = scene.view().matrices()
    priors = {}
    for name in clicked:
        marker = scene.markers[name]
        body = scene.bodies[marker.body]
        assert isinstance(body, Rigid) and marker.point is not None  # no other body has markers at a `point`
        depth = float((R @ np.array(body.position) + t)[2])
        sd = click * abs(depth) / float(K[0, 0]) / body.scale
        priors |= {
            f"markers.{name}.point.{axis}": f"{x:.6g} ± {sd:.3g}" for axis, x in zip("xyz", marker.point, strict=True)
        }
    return priors


def _check(options: TrackOptions) -> None:
    if options.points and options.auto is not None:
        raise InputError("got --points and --auto; give one of them.")
    if not options.points and options.auto is None and options.scene is None:
        raise InputError(
            "no points to track; give --points corner=212.5,301 (u and v in px in the first frame), --auto 12 --region X,Y,W,H, or --scene SCENE "
            "with markers."
        )
    if options.auto is not None and not 1 <= options.auto <= 500:
        raise InputError(f"--auto is {options.auto}; expected a number of points from 1 to 500.")
    if options.region and options.auto is None:
        raise InputError("--region is for --auto; give both, or points alone.")
    if not RADII[0] <= options.radius <= RADII[1]:
        raise InputError(f"--radius is {options.radius}; expected {RADII[0]} to {RADII[1]} px.")
    if not 0 <= options.click <= MAX_CLICK:
        raise InputError(
            f"--click is {options.click:g}; expected 0 to {MAX_CLICK:g} px, such as 0.5 for a careful click."
        )


def _points(options: TrackOptions, scene: Scene | None, frame: np.ndarray) -> dict[str, np.ndarray]:
    """Points [px] in the first frame by name."""
    if options.points:
        return _stated(options.points)
    if options.auto is not None:
        region = _numbers(options.region, 4, "--region", "X,Y,W,H in px") if options.region else None
        places = textured_points(gray_frames(frame), options.auto, region, options.radius)  # pyright: ignore[reportArgumentType]
        prefix = "f"
        while scene and any(name.startswith(prefix) for name in scene.markers):
            prefix += "_"
        return {f"{prefix}{k}": place for k, place in enumerate(places)}
    assert scene is not None
    if not scene.markers:
        raise InputError(
            f"{options.scene} has no `markers`; add them, such as {{corner: {{body: cube, point: [0.05, 0, 0]}}}}, or give --points or --auto."
        )
    if options.frame:
        raise InputError("--frame is for --points and --auto; the markers of a scene are at its start, in frame 0.")
    blank = torch.zeros(1, len(scene.markers), 2)
    with torch.no_grad():
        places = Points(scene.markers, blank, 1.0, Silhouettes.of(scene)).predict(Model(scene).rollout(frames=2))[0, 0]
    return dict(zip(scene.markers, places.numpy(), strict=True))


def _stated(texts: Sequence[str]) -> dict[str, np.ndarray]:
    points = {}
    for text in texts:
        name, equals, place = text.rpartition("=")
        if not (equals and name.strip()):
            raise InputError(f"--points {text}: expected NAME=U,V in px, such as corner=212.5,301.")
        if name in points:
            raise InputError(f"--points names `{name}` twice; give each point once.")
        points[name] = np.array(_numbers(place, 2, f"--points {name}", "U,V in px"))
    return points


def _numbers(text: str, count: int, option: str, expected: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise InputError(f"{option} is {text!r}; expected {expected}.")
    return numbers


def _on_bodies(scene: Scene, points: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Marker]]:
    """The points whose rays meet a body of the scene at its start, and their markers."""
    markers = place_markers(scene, points)
    if not markers:
        raise InputError(
            "no chosen point is on a body of the scene at its start; give --region X,Y,W,H around the body, or correct the scene's start or camera."
        )
    return {name: points[name] for name in markers}, markers


def _frame_numbers(video: videos.Video) -> np.ndarray:
    """Number of each frame by the video's clock; missing frames have no number."""
    if variable_stamps(video.times, video.fps) is not None:
        return np.arange(len(video.frames))
    return np.rint((video.times - video.times[0]) * video.fps).astype(int)


def _write_table(path: Path, tracks: FeatureTracks, numbers: np.ndarray) -> None:
    with atomic_write(path, "w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["frame", "name", "u", "v", "sd", "drift"])
        for k, j in np.argwhere(tracks.tracked):
            numbers_of_row = *tracks.positions[k, j], tracks.sd[k, j], tracks.drift[k, j]
            rows.writerow([numbers[k], tracks.names[j], *(f"{x:.4f}" for x in numbers_of_row)])


def _words(tracks: FeatureTracks) -> list[str]:
    words = []
    for j, name in enumerate(tracks.names):
        rows = np.flatnonzero(tracks.tracked[:, j])
        span = rows[-1] - rows[0] + 1
        gaps = f", {span - len(rows)} of them missing" if span > len(rows) else ""
        noise, drift = np.median(tracks.sd[rows, j]), tracks.drift[rows[-1], j]
        words.append(
            f"{name}: frames {rows[0]} to {rows[-1]}{gaps}; noise {noise:.2g} px, drift {drift:.2g} px at the end"
        )
    if tracks.lost:
        words.append(
            f"lost at once: {', '.join(tracks.lost)} (too little texture, or several surfaces around the point)"
        )
    return words
