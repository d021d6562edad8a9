"""What `gradsim view` shows: the motion of a scene, or that of a run folder beside what it was fitted to."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.app.commands.fit import open_scene
from gradsim.app.controls_file import controls
from gradsim.app.job import Job, record
from gradsim.errors import InputError
from gradsim.identification.api import model_for, placed
from gradsim.identification.multi_clip import of_clip
from gradsim.identification.unknowns import Space, Unknown
from gradsim.numerics.formatting import with_error
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import Camera
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video.timing import align_frames

KINDS = (".webm", ".mp4", ".gif", "")  # of films that `gradsim render` makes


@dataclass(frozen=True)
class Viewable:
    """A motion to look at.

    Args:
        scene: Its scene.
        title: Of the page.
        motion: That of the scene; of a fit, with its estimates.
        truth: The true motion, where it is known.
        films: What was observed, by the camera's name: (frames, height, width, 3) uint8.
        words: What there is to say about it, line by line (Markdown).
    """

    scene: Scene
    title: str
    motion: Trajectory
    truth: Trajectory | None = None
    films: Mapping[str, np.ndarray] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    @property
    def frames(self) -> int:
        return len(self.motion.times)

    def camera(self, name: str) -> Camera:
        """A camera with the values that the motion was made with."""
        return camera_of(self.scene, name, self.motion.values)


def camera_of(scene: Scene, name: str, values: Values) -> Camera:
    """A camera of a scene with given values of its parameters."""
    silhouettes = Silhouettes.of(scene, name)
    sight, own = silhouettes.sight(values), silhouettes.camera
    return Camera(sight.K[0].detach(), sight.R, sight.t[0].detach(), own.width, own.height)


def viewable(target: Path, clip: int = 1) -> Viewable:
    """Of a run folder, a scene file, or a scene of the library by its name.

    Args:
        target: The folder, file or name.
        clip: Of a fit of several clips, which one, from 1.

    Raises:
        InputError: If it is none of these, or there is no such clip.
    """
    target = Path(target)
    if target.is_dir():
        return of_run(target, clip)
    scene = open_scene(target)
    return Viewable(scene, scene.name, _motion(Model(scene), {}, scene.timing.frames))


def of_run(folder: Path, clip: int = 1) -> Viewable:
    """Of a folder made by `gradsim simulate`, `fit`, `demo` or `control`: of the last, as the best policy moves it.

    Raises:
        InputError: If it holds no scene, or there is no such clip.
    """
    result, scene = read_result(folder), scene_of(folder, clip)
    model, values, truth = model_of(folder, scene, clip), *(known(folder, scene, k, clip) for k in ("value", "truth"))
    films, lost = _films(folder, scene, result, clip)
    frames = max((len(film) for film in films.values()), default=scene.timing.frames)
    fitted = {n: u for n, u in _unknowns(result).items() if u.get("value") is not None}
    words = [f"{n}: {with_error(u['value'], u['std'])} {u['unit']}".strip() for n, u in fitted.items()]
    words += [f"truth of {name}: {value:.6g}" for name, value in truth.items()]
    words += [f"the film {path} is not where it was" for path in lost]
    return Viewable(
        scene,
        str(result.get("title") or scene.name),
        _motion(model, placed(scene, values) | controls(folder), frames),
        _motion(model, placed(scene, truth), frames) if truth else None,
        films,
        tuple(words),
    )


def scene_of(folder: Path, clip: int = 1) -> Scene:
    """The scene of a run folder.

    Args:
        folder: The folder.
        clip: Of a fit of several clips, which one, from 1.

    Raises:
        InputError: If it holds no scene, or there is no such clip.
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


def known(folder: Path, scene: Scene, key: str = "value", clip: int = 1) -> dict[str, float]:
    """Of a run folder that is a fit, its estimates by name, or another `key` of its unknowns; of others, nothing."""
    result = read_result(folder)
    values = {name: u[key] for name, u in _unknowns(result).items() if u.get(key) is not None}
    return of_clip(scene, values, clip) if len(result.get("clips") or ()) > 1 else values


def model_of(folder: Path, scene: Scene, clip: int = 1) -> Model:
    """The model of a run folder's motion; of a fit, with the steps that it took."""
    low, high = (known(folder, scene, key, clip) for key in ("low", "high"))
    if not low:
        return Model(scene)
    return model_for(scene, Space(scene, [Unknown(name, low[name], high[name]) for name in low]))


def read_result(folder: Path) -> dict:
    """The content of result.json; empty if there is none."""
    path = folder / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _unknowns(result: Mapping) -> Mapping:
    return result.get("unknowns_8bit") or result.get("unknowns") or {}


def _motion(model: Model, values: Values, frames: int) -> Trajectory:
    with torch.no_grad():
        return model.rollout(values, frames=frames)


def _films(folder: Path, scene: Scene, result: Mapping, clip: int) -> tuple[dict[str, np.ndarray], list[Path]]:
    """What was observed by the camera's name, a picture for each instant, and films that are gone."""
    if (record(folder) or {}).get("command") == Job.command:
        job = Job.of(folder, {})
        paths, choice = {"camera": job.video}, job.frames
    elif result.get("clips"):
        paths, choice = {name: Path(film) for name, film in result["clips"][clip - 1]["videos"].items()}, ""
    else:
        paths, choice = _rendered(folder, scene), None
    films = {}
    for name, path in paths.items():
        if path.exists() and name in scene.views:
            film = videos.read(path, scene.timing.fps if path.is_dir() else None)
            films[name] = (
                film.frames if choice is None else film.frames[align_frames(film, scene.timing.fps, choice).index]
            )
    return films, [path for path in paths.values() if not path.exists()]


def _rendered(folder: Path, scene: Scene) -> dict[str, Path]:
    """Films of a demo, or of a simulation that was rendered."""
    stems = {name: "video" if name == "camera" else name for name in scene.views}
    candidates = {name: [folder / f"{stem}{kind}" for kind in KINDS] for name, stem in stems.items()}
    found = {name: [path for path in paths if path.exists()] for name, paths in candidates.items()}
    return {name: paths[0] for name, paths in found.items() if paths}
