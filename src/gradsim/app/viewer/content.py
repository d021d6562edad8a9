"""Trajectories of scenes and run folders, for `gradsim view` and `gradsim render`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.app.controls_file import read_controls
from gradsim.app.job import FitArguments, open_scene, read_record
from gradsim.app.run_files import read_result
from gradsim.errors import InputError
from gradsim.identification.multi_clip import clip_values
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space, Unknown
from gradsim.numerics.formatting import with_error
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import Camera
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video.timing import align_frames

FORMATS = (".webm", ".mp4", ".gif", "")  # of videos that `gradsim render` writes


@dataclass(frozen=True)
class ViewContent:
    """Content of the viewer.

    Args:
        scene: The scene.
        title: Title of the page.
        trajectory: Trajectory of the scene; of a fit, at its estimates.
        truth: True trajectory of synthetic data, where it is known.
        videos: Observed videos by camera: (frames, height, width, 3) uint8.
        notes: Lines of Markdown.
    """

    scene: Scene
    title: str
    trajectory: Trajectory
    truth: Trajectory | None = None
    videos: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.trajectory.times)

    def camera(self, name: str) -> Camera:
        """A camera, with the parameter values of the trajectory."""
        return calibrated_camera(self.scene, name, self.trajectory.values)


def view_content(target: Path, clip: int = 1) -> ViewContent:
    """Content for a run folder, a scene file, or the name of a library scene.

    Args:
        target: Folder, file or name.
        clip: Number of the clip in a fit of several, from 1.

    Raises:
        InputError: If it is none of these, or the clip does not exist.
    """
    target = Path(target)
    if target.is_dir():
        return run_content(target, clip)
    scene = open_scene(target)
    return ViewContent(scene, scene.name, _rollout(Model(scene), {}, scene.timing.frames))


def run_content(folder: Path, clip: int = 1) -> ViewContent:
    """Content for a folder made by `gradsim simulate`, `fit`, `demo` or `control` (there with the best policy).

    Raises:
        InputError: If it holds no scene, or the clip does not exist.
    """
    result, scene = read_result(folder), load_scene(folder, clip)
    model = run_model(folder, scene, clip)
    values, truth = (estimates(folder, scene, key, clip) for key in ("value", "truth"))
    observed, missing = _videos(folder, scene, result, clip)
    frames = max((len(video) for video in observed.values()), default=scene.timing.frames)
    fitted = {n: u for n, u in _unknowns(result).items() if u.get("value") is not None}
    notes = [f"{n}: {with_error(u['value'], u['std'])} {u['unit']}".strip() for n, u in fitted.items()]
    notes += [f"truth of {name}: {value:.6g}" for name, value in truth.items()]
    notes += [f"the video {path} no longer exists" for path in missing]
    return ViewContent(
        scene,
        str(result.get("title") or scene.name),
        _rollout(model, parameter_values(scene, values) | read_controls(folder), frames),
        _rollout(model, parameter_values(scene, truth), frames) if truth else None,
        observed,
        tuple(notes),
    )


def load_scene(folder: Path, clip: int = 1) -> Scene:
    """Scene of a run folder.

    Args:
        folder: Run folder.
        clip: Number of the clip in a fit of several, from 1.

    Raises:
        InputError: If it holds no scene, or the clip does not exist.
    """
    count = len(read_result(folder).get("clips") or ())
    path = folder / (f"scene_{clip}.yaml" if count > 1 else "scene.yaml")
    if count > 1 and not path.is_file():
        raise InputError(f"{folder} is a fit of {count} clips; --clip is {clip}.")
    if not path.is_file():
        raise InputError(
            f"{folder} holds no scene.yaml; give a folder made by `gradsim simulate`, `fit` or `demo`, a scene file, "
            "or the name of a library scene, such as cube."
        )
    return Scene.load(path)


def estimates(folder: Path, scene: Scene, key: str = "value", clip: int = 1) -> dict[str, float]:
    """Estimates of a fit by name, or another `key` of its unknowns; empty for other runs."""
    result = read_result(folder)
    values = {name: u[key] for name, u in _unknowns(result).items() if u.get(key) is not None}
    return clip_values(scene, values, clip) if len(result.get("clips") or ()) > 1 else values


def run_model(folder: Path, scene: Scene, clip: int = 1) -> Model:
    """Model of a run folder; of a fit, with the substeps of the fit."""
    low, high = (estimates(folder, scene, key, clip) for key in ("low", "high"))
    if not low:
        return Model(scene)
    return model_for(scene, Space(scene, [Unknown(name, low[name], high[name]) for name in low]))


def calibrated_camera(scene: Scene, name: str, values: Values) -> Camera:
    """A camera of a scene with given values of its parameters."""
    silhouettes = Silhouettes.of(scene, name)
    projection, camera = silhouettes.projection_camera(values), silhouettes.camera
    optics = camera.optics
    if optics is not None:
        numbers, like = silhouettes.optics_values(optics, values, camera.K), lambda x: x[0].detach()
        name = "distortion" if optics.fisheye is None else "fisheye"
        lens = {} if numbers.coefficients is None else {name: like(numbers.coefficients)}
        times = {
            key: like(getattr(numbers, key)).item()
            for key in ("readout", "exposure", "delay")
            if getattr(optics, key) is not None
        }
        optics = replace(optics, **lens, **times)
    return Camera(
        projection.K[0].detach(),
        projection.R[0].detach(),
        projection.t[0].detach(),
        camera.width,
        camera.height,
        optics,
        camera.poses,
    )


def _unknowns(result: Mapping) -> Mapping:
    return result.get("unknowns_8bit") or result.get("unknowns") or {}


def _rollout(model: Model, values: Values, frames: int) -> Trajectory:
    with torch.no_grad():
        return model.rollout(values, frames=frames)


def _videos(folder: Path, scene: Scene, result: Mapping, clip: int) -> tuple[dict[str, np.ndarray], list[Path]]:
    """Observed videos by camera, one image for each instant; and those that do not exist any more."""
    if (read_record(folder) or {}).get("command") == FitArguments.command:
        arguments = FitArguments.load(folder)
        paths, choice = {"camera": arguments.video} if arguments.video else {}, arguments.frames
    elif result.get("clips"):
        paths, choice = {name: Path(path) for name, path in result["clips"][clip - 1]["videos"].items()}, ""
    else:
        paths, choice = _rendered_videos(folder, scene), None
    observed = {}
    for name, path in paths.items():
        if path.exists() and name in scene.views:
            video = videos.read_with_clock(path, scene.timing.fps)
            aligned = (
                slice(None)
                if choice is None
                else align_frames(video, scene.timing.fps, choice, scene.timing.stamps).index
            )
            observed[name] = video.frames[aligned]
    return observed, [path for path in paths.values() if not path.exists()]


def _rendered_videos(folder: Path, scene: Scene) -> dict[str, Path]:
    """Videos of a demo, or of a simulation that was rendered."""
    stems = {name: "video" if name == "camera" else name for name in scene.views}
    candidates = {name: [folder / f"{stem}{suffix}" for suffix in FORMATS] for name, stem in stems.items()}
    existing = {name: [path for path in paths if path.exists()] for name, paths in candidates.items()}
    return {name: paths[0] for name, paths in existing.items() if paths}
