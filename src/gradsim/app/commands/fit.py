"""What a fit leaves behind that was stopped: a page with what is known so far, and how to go on.

Run folders: what `gradsim simulate` and `fit` read and write.

Everything that can be wrong with the input is found before a folder is made, and every file in it appears whole.
"""

import json
import math
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import torch

from gradsim import video as videos
from gradsim.app.job import Job, video_as_given
from gradsim.app.report.report import write_report
from gradsim.app.run_directory import compare, desk, finished
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares, model_for, placed
from gradsim.identification.camera_calibration import camera_from_length
from gradsim.identification.fit import SCHEMA
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.uncertainty.profile_likelihood import profiled
from gradsim.identification.unknowns import Space, Unknown
from gradsim.numerics.formatting import with_error
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_write, write_json
from gradsim.runtime.checkpoint import CheckpointFolder
from gradsim.runtime.progress import NullProgress, Progress, reporting
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene
from gradsim.video.timing import align_frames
from gradsim.visualization.overlay_video import write_films
from gradsim.visualization.player import write_player
from gradsim.visualization.residual_video import write_residuals


def write_interrupted(out: Path, title: str, seed: int, space: Space, keeper: CheckpointFolder) -> dict:
    """Write result.json (status "interrupted"), history.json and report.html from the last checkpoint.

    Args:
        out: The run folder.
        title: Of the page.
        seed: Of the job.
        space: Its unknowns.
        keeper: Knows how far it came.

    Returns:
        The content of result.json: the values of the best start so far, without error bars.
    """
    state = keeper.load("search") or {}
    stages = state.get("history", [])
    effort = (keeper.load("sample") or state).get("effort", {})
    write_json(out / "history.json", {"stages": stages, "starts": {}})
    content = {
        "schema": SCHEMA,
        "command": "fit",
        "title": title,
        "video": video_as_given(out),
        "status": "interrupted",
        "resume": f"gradsim fit --resume {shlex.quote(str(out))}",
        "unknowns": _so_far(space, stages[-1]["values"] if stages else {}),
        "stages": len(stages),
        "iterations": stages[-1]["iteration"] if stages else 0,
        **{key: effort.get(key, 0) for key in ("rollouts", "cpu_seconds", "wall_seconds")},
        "seed": seed,
        "versions": versions(),
    }
    write_json(out / "result.json", content)
    write_report(out)
    return content


def _so_far(space: Space, values: dict[str, float]) -> dict[str, dict]:
    unknown = {"std": None, "interval95": None, "identifiable": False, "truth": None}
    found = {}
    for k, (name, unit) in enumerate(zip(space.names, space.units, strict=True)):
        low, high = space.range(k)
        found[name] = {"value": values.get(name), **unknown, "unit": unit, "low": low, "high": high}
    return found


MANY = 1000  # steps in a frame, from which on a reason is given


def simulate(scene_path: Path, out: Path, progress: Progress | None = None) -> dict:
    """Move a scene through time; writes scene.yaml, trajectory.npz and result.json.

    Raises:
        InputError: If the scene is wrong.
        Divergence: If the rollout leaves the finite numbers.
    """
    progress = progress or NullProgress()
    scene = open_scene(Path(scene_path))
    progress.stage("building the model")
    model = Model(scene)
    progress.stage(f"simulating {scene.timing.frames} frames of {model.substeps} steps{_needed(model)}")
    with torch.no_grad():
        trajectory = model.rollout()
    arrays = {f"{body}.{k}": y[0].numpy() for body, states in trajectory.states.items() for k, y in states.items()}
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scene.save(out / "scene.yaml")
    with atomic_write(out / "trajectory.npz") as file:
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


def _needed(model: Model) -> str:
    """Which body makes automatic steps so many, where they are."""
    if model.scene.timing.substeps != "auto" or model.substeps < MANY:
        return ""
    values = model.values()
    name = min(model.systems, key=lambda system: system.recommended_step(values)).name
    return f": `{name}`, or what it touches, is stiff or much damped for its mass"


def open_scene(path: Path) -> Scene:
    """A scene file, or one of the library by its bare name."""
    is_name = not path.is_file() and not path.suffix and len(path.parts) == 1
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
    progress, out = progress or NullProgress(), Path(out)
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
            search = partial(
                least_squares, scene, evidence, job.unknowns, MultistartConfig(starts=job.starts), job.seed
            )
            progress.stage(f"fitting {', '.join(space.names)} to {len(evidence.masks)} frames{_going_on(keeper)}")
            found = search(report=reporting(progress), model=model, keeper=keeper)
            if job.profile and found.status != "failed":
                progress.stage("profile likelihood of the two weakest directions")
                found = profiled(found, Problem(model, evidence, space))
            progress.stage("writing the report")
            fitted = model.rollout(placed(scene, found.values), frames=evidence.frames)
            frames, outline = (
                to_bytes(synthetic.film(scene, fitted)),
                synthetic.float_masks(scene, fitted).masks.numpy(),
            )
            film = videos.read(job.video)
            observed = film.frames[align_frames(film, scene.timing.fps, job.frames).index]
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
    """Write a scene whose camera is completed from a known length (`gradsim.identification.camera_calibration`).

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


def _going_on(keeper: CheckpointFolder) -> str:
    state = keeper.load("search")
    return f", on from {state['history'][-1]['frames']} frames" if state else ""
