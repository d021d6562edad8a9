"""Run folders: what `gradsim simulate`, `render` and `fit` read and write.

Everything that can be wrong with the input is found before a folder is made, and every file in it appears whole.
"""

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.app.interrupted import write_interrupted
from gradsim.app.job import Job, compare, desk, finished, video_as_given
from gradsim.app.path_traced import mitsuba_frames
from gradsim.app.report import write_report
from gradsim.errors import InputError
from gradsim.experiments import synthetic
from gradsim.experiments.films import HEIGHT, write_films
from gradsim.experiments.player import write_player
from gradsim.experiments.residual_film import write_residuals
from gradsim.identify.checkpoint import Checkpoint
from gradsim.identify.estimate import least_squares, model_for, placed
from gradsim.identify.evidence import from_video
from gradsim.identify.fit import SCHEMA, versions, write_json
from gradsim.identify.known_length import camera_from_length
from gradsim.identify.multistart import Search
from gradsim.identify.problem import Problem
from gradsim.identify.profile import profiled
from gradsim.identify.progress import Progress, Silent, reporting
from gradsim.identify.unknowns import Space, Unknown
from gradsim.physics.model import Model
from gradsim.rounding import with_error
from gradsim.scene import Scene
from gradsim.video.frames import align

FORMATS = ("webm", "mp4", "gif", "png")


def simulate(scene_path: Path, out: Path, progress: Progress | None = None) -> dict:
    """Move a scene through time; writes scene.yaml, trajectory.npz and result.json.

    Raises:
        InputError: If the scene is wrong.
        Divergence: If the rollout leaves the finite numbers.
    """
    progress = progress or Silent()
    scene = open_scene(Path(scene_path))
    progress.stage(f"simulating {scene.timing.frames} frames")
    model = Model(scene)
    with torch.no_grad():
        trajectory = model.rollout()
    arrays = {f"{body}.{k}": y[0].numpy() for body, states in trajectory.states.items() for k, y in states.items()}
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scene.save(out / "scene.yaml")
    with videos.whole(out / "trajectory.npz") as draft, draft.open("wb") as file:
        np.savez(file, **{"time": trajectory.times.numpy(), **arrays})  # pyright: ignore[reportArgumentType]
    content = {
        "schema": SCHEMA,
        "command": "simulate",
        "status": "ok",
        "frames": scene.timing.frames,
        "substeps": model.substeps,
        "time_step": model.dt,
        "final": {name: a[-1].tolist() for name, a in arrays.items()},
        "versions": versions(),
    }
    write_json(out / "result.json", content)
    progress.done()
    return content


def render(
    run: Path,
    camera: str = "camera",
    format: str = "webm",
    preview: bool = False,
    renderer: str = "silhouettes",
    spp: int = 64,
    progress: Progress | None = None,
) -> dict:
    """Film a run: writes video.webm and mask.webm beside its scene.yaml.

    Args:
        run: Its folder.
        camera: Which camera of the scene films it; the files of a further one are side.webm and side_mask.webm.
        format: "webm", "mp4" or "gif", or "png" for folders of them; bit-exact, so that they can be fitted. A gif
            whose frames have more than 256 colours is not.
        preview: Write preview.FORMAT alone, to look at: smaller, not exact, and every player shows it.
        renderer: "silhouettes" (flat colours), or "mitsuba" (path traced).
        spp: Samples per pixel of Mitsuba.
        progress: Is told what happens.

    Returns:
        Paths of `video` and `mask`, number of `frames`, and whether they are `lossless`.

    Raises:
        InputError: If the folder holds no run, the scene has no such camera, there is no such format, or Mitsuba is
            asked for and not installed.
    """
    run, progress = Path(run), progress or Silent()
    if format not in FORMATS or (preview and format == "png"):
        raise InputError(f"format is {format!r}; use one of {', '.join(FORMATS[: -1 if preview else None])}.")
    if not (run / "scene.yaml").is_file():
        raise InputError(f"{run} holds no scene.yaml; make a run with `gradsim simulate SCENE --out {run}`.")
    scene = Scene.load(run / "scene.yaml")
    scene.view(camera)
    progress.stage(f"rendering {scene.timing.frames} frames")
    with torch.no_grad():
        trajectory = Model(scene).rollout()
    if renderer == "mitsuba":
        frames = _bytes(mitsuba_frames(scene, trajectory, camera, spp, progress))
    else:
        frames = _bytes(synthetic.film(scene, trajectory, camera))
    fps = scene.timing.fps
    stem, suffix = "" if camera == "camera" else f"{camera}_", "" if format == "png" else f".{format}"
    if preview:
        path = run / f"{stem}preview{suffix}"
        videos.write_preview(path, _enlarged(frames), fps)
        progress.done()
        return {"video": str(path), "frames": len(frames), "lossless": False}
    mask = _bytes(synthetic.float_masks(scene, trajectory, camera).masks[..., None].expand(-1, -1, -1, 3))
    video, keys = run / f"{stem.removesuffix('_') or 'video'}{suffix}", run / f"{stem}mask{suffix}"
    exact = [_write(path, film, fps) for path, film in ((video, frames), (keys, mask))]
    progress.done()
    return {"video": str(video), "mask": str(keys), "frames": len(frames), "lossless": all(exact)}


def _write(path: Path, frames: np.ndarray, fps: float) -> bool:
    """Write a film, bit-exact where its kind can; whether it is."""
    most = max(len(np.unique(frame.reshape(-1, 3), axis=0)) for frame in frames) if path.suffix == ".gif" else 0
    if most > 256:
        videos.write_preview(path, frames, fps)
        return False
    videos.write(path, frames, fps)
    return True


def _enlarged(frames: np.ndarray) -> np.ndarray:
    """Small frames at about the height of those in a report."""
    factor = max(1, round(HEIGHT / frames.shape[1]))
    return frames.repeat(factor, 1).repeat(factor, 2)


def open_scene(path: Path) -> Scene:
    """A scene file, or one of the library by its bare name."""
    is_name = not path.exists() and not path.suffix and len(path.parts) == 1
    return Scene.library(str(path)) if is_name else Scene.load(path)


def fit(job: Job, out: Path, resume: bool = False, progress: Progress | None = None) -> dict:
    """Identify unknowns of a scene from a video; writes job.json, result.json, report.html, films and pictures.

    Ctrl-C leaves a folder with what is known so far, status "interrupted".

    Args:
        job: What to do.
        out: The run folder.
        resume: Go on with an unfinished run there; its answer is that of a run that was never interrupted.
        progress: Is told what happens.

    Returns:
        The content of result.json. That of a finished run if it is to be resumed.

    Raises:
        InputError: If anything that was given is wrong, or the folder holds an unfinished run and `resume` is False,
            or one of other input and `resume` is True.
    """
    progress, out = progress or Silent(), Path(out)
    scene = open_scene(job.scene)
    if job.starts < 1:
        raise InputError(f"starts is {job.starts}; it has to be at least 1.")
    space = Space(scene, [Unknown.parse(text) for text in job.unknowns])
    evidence = from_video(scene, job.video, job.mask, job.noise, **job.reading)
    if resume and finished(out):
        compare(out, job, scene)
        progress.stage(f"{out} is finished already")
        return json.loads((out / "result.json").read_text(encoding="utf-8"))
    progress.stage("building the model")
    model = model_for(scene, space)
    with desk(out, job, scene, resume) as keeper:
        scene.save(out / "scene.yaml")
        try:
            search = partial(least_squares, scene, evidence, job.unknowns, Search(starts=job.starts), job.seed)
            progress.stage(f"fitting {', '.join(space.names)} to {len(evidence.masks)} frames{_going_on(keeper)}")
            found = search(report=reporting(progress), model=model, keeper=keeper)
            if job.profile and found.status != "failed":
                progress.stage("profile likelihood of the two weakest directions")
                found = profiled(found, Problem(model, evidence, space))
            progress.stage("writing the report")
            fitted = model.rollout(placed(scene, found.values), frames=evidence.frames)
            frames, outline = _bytes(synthetic.film(scene, fitted)), synthetic.float_masks(scene, fitted).masks.numpy()
            film = videos.read(job.video)
            observed = film.frames[align(film, scene.timing.fps, job.frames).picture]
            write_films(out, observed, frames, outline, scene.timing.fps)
            write_residuals(out, evidence, outline, scene.timing.fps)
            write_player(out / "player.html", scene, fitted.drawn, observed)
            found.save(out)
            content = {**found.result(), "command": "fit", "title": scene.name, "video": video_as_given(out)}
            write_json(out / "result.json", content)
            write_report(out)
            keeper.clear()
        except KeyboardInterrupt:
            content = write_interrupted(out, scene.name, job.seed, space, keeper)
    progress.done()
    return content


def camera(
    scene_path: Path, out: Path, *, length: float, points: str, solve: str, at: str | None, tilt: float, click: float
) -> str:
    """Write a scene whose camera is completed from a known length (`gradsim.identify.known_length`).

    Args:
        scene_path: The scene.
        out: File to write.
        length: Between two points of the picture [m].
        points: "x1,y1,x2,y2" [px].
        solve: "focal" or "distance".
        at: "x,y,z" [m], or None.
        tilt: Of the length to the image [deg].
        click: Standard deviation of a point's coordinate [px].

    Returns:
        What was found, with its error and assumptions, in words.

    Raises:
        InputError: If anything that was given is wrong.
    """
    scene, ends = open_scene(Path(scene_path)), _numbers(points, 4, "--points", "x1,y1,x2,y2 in px")
    place = None if at is None else _numbers(at, 3, "--at", "x,y,z in m")
    pairs = [ends[:2], ends[2:]]
    if scene.camera is None:
        raise InputError(f"{scene_path} has no camera to complete; give it one with a guessed lens and place.")
    found = camera_from_length(scene.camera, pairs, length, solve, place, math.radians(tilt), click)
    scene.model_copy(update={"camera": found.camera}).save(out)
    unit = "px" if found.name == "focal" else "m"
    return f"{found.name}: {with_error(found.value, found.std)} {unit}\n{found.assumes}"


def _numbers(text: str, count: int, option: str, what: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise InputError(f"{option} is {text!r}; it needs {count} numbers with commas between, {what}.")
    return numbers


def _going_on(keeper: Checkpoint) -> str:
    state = keeper.load("search")
    return f", on from {state['history'][-1]['frames']} frames" if state else ""


def _bytes(frames: torch.Tensor) -> np.ndarray:
    return (frames.clamp(0, 1).numpy() * 255).round().astype(np.uint8)
