"""Run folders: what `gradsim simulate`, `render` and `fit` read and write.

Everything that can be wrong with the input is found before a folder is made, and every file in it appears whole.
"""

import math
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.app.report import write_report
from gradsim.errors import InputError
from gradsim.experiments import synthetic
from gradsim.experiments.films import write_films
from gradsim.experiments.residual_film import write_residuals
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


def simulate(scene_path: Path, out: Path, progress: Progress | None = None) -> dict:
    """Move a scene through time; writes scene.yaml, trajectory.npz and result.json.

    Raises:
        InputError: If the scene is wrong.
        Divergence: If the rollout leaves the finite numbers.
    """
    progress = progress or Silent()
    scene = Scene.load(scene_path)
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


def render(run: Path, camera: str = "camera", progress: Progress | None = None) -> dict:
    """Film a run: writes video.webm and mask.webm (lossless) beside its scene.yaml.

    Args:
        run: Its folder.
        camera: Which camera of the scene films it; the files of a further one are side.webm and side_mask.webm.
        progress: Is told what happens.

    Raises:
        InputError: If the folder holds no run, or the scene has no such camera.
    """
    run, progress = Path(run), progress or Silent()
    if not (run / "scene.yaml").is_file():
        raise InputError(f"{run} holds no scene.yaml; make a run with `gradsim simulate SCENE --out {run}`.")
    scene = Scene.load(run / "scene.yaml")
    scene.view(camera)
    progress.stage(f"rendering {scene.timing.frames} frames")
    with torch.no_grad():
        trajectory = Model(scene).rollout()
    frames = synthetic.film(scene, trajectory, camera)
    mask = synthetic.float_masks(scene, trajectory, camera).masks
    video, keys = ("video.webm", "mask.webm") if camera == "camera" else (f"{camera}.webm", f"{camera}_mask.webm")
    videos.write(run / video, _bytes(frames), scene.timing.fps)
    videos.write(run / keys, _bytes(mask[..., None].expand(-1, -1, -1, 3)), scene.timing.fps)
    progress.done()
    return {"video": str(run / video), "mask": str(run / keys), "frames": len(frames)}


def fit(
    scene_path: Path,
    video: Path,
    mask: Path | None,
    unknowns: list[str],
    out: Path,
    seed: int = 0,
    starts: int = 16,
    noise: float | None = None,
    progress: Progress | None = None,
    profile: bool = False,
    **reading,
) -> dict:
    """Identify unknowns of a scene from a video; writes result.json, report.html, films and pictures.

    Args:
        scene_path: The scene; its values of the unknowns are not used.
        video: The video.
        mask: A mask video, or None to take silhouettes from the colours.
        unknowns: NAME or NAME:LOW:HIGH.
        out: The run folder.
        seed: Of the starts.
        starts: Their number.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        progress: Is told what happens.
        profile: Whether to add profile likelihoods along the two weakest directions.
        **reading: How the film is read: further arguments of `from_video`.

    Raises:
        InputError: If anything that was given is wrong.
    """
    progress = progress or Silent()
    scene = Scene.load(scene_path)
    if starts < 1:
        raise InputError(f"starts is {starts}; it has to be at least 1.")
    space = Space(scene, [Unknown.parse(text) for text in unknowns])
    evidence = from_video(scene, video, mask, noise, **reading)
    progress.stage("building the model")
    model = model_for(scene, space)
    progress.stage(f"fitting {', '.join(space.names)} to {len(evidence.masks)} frames")
    found = least_squares(
        scene, evidence, unknowns, Search(starts=starts), seed, report=reporting(progress), model=model
    )
    if profile and found.status != "failed":
        progress.stage("profile likelihood of the two weakest directions")
        found = profiled(found, Problem(model, evidence, space))
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scene.save(out / "scene.yaml")
    progress.stage("writing the report")
    fitted = model.rollout(placed(scene, found.values), frames=evidence.frames)
    frames, outline = _bytes(synthetic.film(scene, fitted)), synthetic.float_masks(scene, fitted).masks.numpy()
    film = videos.read(video)
    shown = film.frames[align(film, scene.timing.fps, reading.get("frames", "")).picture]
    write_films(out, shown, frames, outline, scene.timing.fps)
    write_residuals(out, evidence, outline, scene.timing.fps)
    found.save(out)
    content = {**found.result(), "command": "fit", "title": scene.name, "video": str(video)}
    write_json(out / "result.json", content)
    write_report(out)
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
    scene, ends = Scene.load(scene_path), _numbers(points, 4, "--points", "x1,y1,x2,y2 in px")
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


def _bytes(frames: torch.Tensor) -> np.ndarray:
    return (frames.clamp(0, 1).numpy() * 255).round().astype(np.uint8)
