"""`gradsim landscape`: the cost of a fit along one or two unknowns, of a run folder or of a scene and its video."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from gradsim.app.commands.fit import open_scene
from gradsim.app.job import Job, record
from gradsim.app.report import landscape_plot, plots
from gradsim.app.report.report import write_report
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.api import model_for, placed
from gradsim.identification.fit import SCHEMA
from gradsim.identification.landscape import Axis, Landscape, landscape, valleys
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space, Unknown
from gradsim.runtime.atomic import atomic_path, write_json
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene
from gradsim.scene.parameters import parameters

POINTS = {1: 201, 2: 41}  # along each axis


@dataclass
class Case:
    """What is looked at.

    Args:
        scene: The scene.
        title: Of the page.
        video: What was seen; None: silhouettes of the true motion.
        mask: Its mask video.
        noise: Of its pixels.
        reading: How else it is read, as in `Job.reading`.
        unknowns: Of its fit: name, low, high.
        marks: Points by name of the unknown, for the picture.
    """

    scene: Scene
    title: str
    video: Path | None = None
    mask: Path | None = None
    noise: float | None = None
    reading: dict = field(default_factory=dict)
    unknowns: dict[str, tuple[float, float]] = field(default_factory=dict)
    marks: dict[str, list[dict[str, float]]] = field(
        default_factory=lambda: {key: [] for key in ("truth", "estimate", "starts", "ends", "path")}
    )


def draw_landscape(
    target: Path,
    unknowns: Sequence[str],
    out: Path,
    video: Path | None = None,
    mask: Path | None = None,
    noise: float | None = None,
    points: int | None = None,
    progress: Progress | None = None,
) -> dict:
    """Write landscape.png, landscape.json, result.json and report.html.

    Args:
        target: A run folder of `fit`, `demo` or `reproduce`, whose other unknowns are held at their estimates, or a
            scene file, whose other parameters are held at their values there.
        unknowns: One or two: NAME, or NAME:LOW:HIGH for another range than the run's.
        out: The folder for it.
        video: Instead of the run's. Without any, the data are silhouettes of the scene's own motion.
        mask: A mask video, or None.
        noise: Of a pixel in [0, 1]; None: 1/255.
        points: Along each axis.
        progress: Is told what happens.

    Raises:
        InputError: If anything that was given is wrong, before work starts.
    """
    progress = progress or NullProgress()
    asked = [Unknown.parse(text) for text in unknowns]
    if len(asked) not in POINTS:
        raise InputError(f"got {len(asked)} unknowns; a landscape has one or two axes: --unknown A --unknown B.")
    points = POINTS[len(asked)] if points is None else points
    if points < 3:
        raise InputError(f"points is {points}; a landscape needs at least 3 along each axis.")
    case = of_run(Path(target)) if Path(target).is_dir() else of_scene(Path(target), video is None)
    case.video, case.mask = (video, mask) if video is not None else (case.video, case.mask)
    case.noise = case.noise if noise is None else noise
    progress.stage("building the model")
    problem, base = _problem(case, asked)
    axes = [Axis.along(problem, unknown.name, points) for unknown in asked]
    count = points ** len(axes)
    progress.stage(f"{count} rollouts along {' and '.join(axis.name for axis in axes)}")
    found = landscape(problem, base, axes, lambda done, cost: progress.update(done, cost, {}))
    progress.stage("writing the report")
    content = _write(Path(out), case, found, problem)
    progress.done()
    return content


def of_scene(path: Path, is_made_up: bool) -> Case:
    """A scene file; without a video its own values are the truth."""
    scene = open_scene(path)
    case = Case(scene, scene.name)
    if is_made_up:
        case.marks["truth"] = [_own_values(scene)]
    return case


def of_run(folder: Path) -> Case:
    """A run folder, with its estimates, truths and starts.

    Raises:
        InputError: If it holds no scene.
    """
    if not (folder / "scene.yaml").is_file():
        raise InputError(
            f"{folder} holds no scene.yaml; give a run folder of `gradsim fit` or `demo`, or a scene file."
        )
    scene, result, history = (
        Scene.load(folder / "scene.yaml"),
        _read(folder / "result.json"),
        _read(folder / "history.json"),
    )
    fitted = result.get("unknowns_8bit") or result.get("unknowns") or {}
    case = Case(scene, str(result.get("title") or scene.name))
    case.unknowns = {name: (u["low"], u["high"]) for name, u in fitted.items()}
    case.marks["estimate"] = [{n: u["value"] for n, u in fitted.items() if u["value"] is not None}] if fitted else []
    truth = {n: u["truth"] for n, u in fitted.items() if u["truth"] is not None}
    case.marks["truth"] = [truth] if truth else [] if fitted else [_own_values(scene)]
    population = history.get("starts") or {}
    names = population.get("names", [])
    named = lambda row: {n: x for n, x in zip(names, row, strict=True) if x is not None}
    case.marks["starts"], case.marks["ends"] = (
        [named(row) for row in population.get(key, [])] for key in ("initial", "final")
    )
    case.marks["path"] = [stage["values"] for stage in history.get("stages", []) if stage.get("values")]
    if record(folder):
        job = Job.of(folder, {})
        case.video, case.mask, case.noise, case.reading = job.video, job.mask, job.noise, job.reading
    elif (folder / "video.webm").is_file():
        case.video = folder / "video.webm"
    elif not case.marks["truth"]:
        raise InputError(f"{folder} holds neither a video nor the truth; give the video: --video V.")
    return case


def _problem(case: Case, asked: Sequence[Unknown]) -> tuple[Problem, torch.Tensor]:
    """The fit, and where its unknowns are held, as the solver moves them."""
    kinds = parameters(case.scene)
    ranges: dict[str, tuple[float | None, float | None]] = dict(case.unknowns)
    for name in (name for unknown in asked for name in unknown.names):
        if name in kinds and kinds[name].value.ndim:
            raise InputError(f"`{name}` has several components; name one of them, such as {name}.x.")
    for unknown in asked:
        if unknown.low is not None or unknown.name not in ranges:
            ranges[unknown.name] = (unknown.low, unknown.high)
    space = Space(case.scene, [Unknown(name, *ends) for name, ends in ranges.items()])
    if case.video is not None:
        observation, model = (
            from_video(case.scene, case.video, case.mask, case.noise, **case.reading),
            model_for(case.scene, space),
        )
    else:
        truth = {name: value for name, value in case.marks["truth"][0].items() if name in case.unknowns}
        model = model_for(case.scene, space)
        with torch.no_grad():
            observation = synthetic.float_masks(case.scene, model.rollout(placed(case.scene, truth)))
    held = {**_own_values(case.scene), **(case.marks["estimate"][0] if case.marks["estimate"] else {})}
    base = torch.tensor([_held(name, held) for name in space.names], dtype=torch.float64)
    return Problem(model, observation, space), space.inner(base)


def _held(name: str, held: dict[str, float]) -> float:
    return held[name] if name in held else held[Unknown(name).names[0]]  # tied ones have one value


def _own_values(scene: Scene) -> dict[str, float]:
    """Every number of a scene by dotted name."""
    found = {}
    for name, kind in parameters(scene).items():
        if kind.value.ndim == 0:
            found[name] = float(kind.value)
        elif not kind.each:
            for axis, value in zip("xyz", kind.value, strict=False):
                found[f"{name}.{axis}"] = float(value)
    return found


def _write(out: Path, case: Case, found: Landscape, problem: Problem) -> dict:
    out.mkdir(parents=True, exist_ok=True)
    case.scene.save(out / "scene.yaml")
    names = [axis.name for axis in found.axes]
    grids = {axis.name: axis.values.tolist() for axis in found.axes}
    costs = {kind: getattr(found, kind) for kind in ("pixels", "cdf")}
    write_json(
        out / "landscape.json", {"grids": grids, **{k: c.tolist() for k, c in costs.items()}, "marks": case.marks}
    )
    with atomic_path(out / "landscape.png") as draft:
        draft.write_bytes(plots.png(lambda: landscape_plot.draw(found, case.marks)))
    summary = {}
    for kind, cost in costs.items():
        lowest = np.unravel_index(cost.argmin(), cost.shape)
        count, share = valleys(cost)
        at = {name: axis.values[k].item() for name, axis, k in zip(names, found.axes, lowest, strict=True)}
        summary[kind] = {"lowest": at, "cost": cost.min().item(), "valleys": count, "downhill_share": share}
    words = "; ".join(
        f"{landscape_plot.TITLES[kind]}: {s['valleys']} {'valley' if s['valleys'] == 1 else 'valleys'} on the grid, and "
        f"{100 * s['downhill_share']:.0f} % of it leads downhill to the lowest"
        for kind, s in summary.items()
    )
    held = "Other unknowns are held at their estimates. " if case.marks["estimate"] else ""
    content = {
        "schema": SCHEMA,
        "command": "landscape",
        "title": f"Landscape of {' and '.join(names)}: {case.title}",
        "status": "ok",
        "landscape": summary,
        "pictures": [
            {
                "file": "landscape.png",
                "title": "Cost",
                "caption": f"{words}. {held}Σ r²: squares of residuals in units of the noise.",
            }
        ],
        "rollouts": problem.effort.rollouts,
        "cpu_seconds": problem.effort.cpu_seconds,
        "wall_seconds": problem.effort.wall_seconds,
        "versions": versions(),
    }
    write_json(out / "result.json", content)
    write_report(out)
    return content


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
