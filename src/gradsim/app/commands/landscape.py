"""`gradsim landscape`: cost along one or two unknowns of a run folder, or of a scene and its video."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from gradsim.app.job import FitArguments, open_scene, read_record
from gradsim.app.report import landscape_plot, plots
from gradsim.app.report.report import write_report
from gradsim.app.run_files import read_history, read_result
from gradsim.errors import InputError, Status
from gradsim.identification import synthetic
from gradsim.identification.fit import SCHEMA
from gradsim.identification.landscape import Axis, Landscape, landscape, valleys
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.priors import Prior, priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space, Unknown
from gradsim.runtime.atomic import atomic_path, write_json
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene
from gradsim.scene.parameters import parameters

POINTS = {1: 201, 2: 41}  # per axis, for one and two axes


@dataclass
class Case:
    """Scene, observation and marks of a landscape.

    Args:
        scene: The scene.
        title: Title of the page.
        video: Observed video; None: silhouettes of the true trajectory.
        mask: Mask video, or a method, as in `from_video`.
        noise: Standard deviation of a pixel's noise, or "auto".
        video_options: Further options of the video, as in `FitArguments.video_options`.
        unknowns: Range by name of the fit's unknowns.
        priors: Of the fit, or of the scene.
        marks: Points by name of the unknown, for the plot.
    """

    scene: Scene
    title: str
    video: Path | None = None
    mask: Path | str | None = None
    noise: float | str | None = None
    video_options: dict = field(default_factory=dict)
    unknowns: dict[str, tuple[float, float]] = field(default_factory=dict)
    priors: list[Prior] = field(default_factory=list)
    marks: dict[str, list[dict[str, float]]] = field(
        default_factory=lambda: {key: [] for key in ("truth", "estimate", "starts", "ends", "path")}
    )


def write_landscape(
    target: Path,
    unknowns: Sequence[str],
    out: Path,
    video: Path | None = None,
    mask: Path | str | None = None,
    noise: float | str | None = None,
    points: int | None = None,
    reading: Mapping | None = None,
    progress: Progress | None = None,
) -> dict:
    """Write landscape.png, landscape.json, result.json and report.html.

    Args:
        target: Run folder of `fit`, `demo` or `reproduce` (the other unknowns are held at their estimates), or a scene
            file (the other parameters are held at their values).
        unknowns: One or two: NAME, or NAME:LOW:HIGH for another range than that of the run.
        out: Output folder.
        video: Video that replaces the run's. Without a video, the data are silhouettes of the scene's own trajectory.
        mask: Masks, as in `from_video`, or None.
        noise: Standard deviation of a pixel's noise in [0, 1], as in `from_video`; None: that of the run, or 1/255.
        points: Number of points per axis.
        reading: Further arguments of `from_video`, in place of those of the run.
        progress: Receives stages and points.

    Raises:
        InputError: If an argument is wrong, before work starts.
    """
    progress = progress or NullProgress()
    axis_unknowns = [Unknown.parse(text) for text in unknowns]
    if len(axis_unknowns) not in POINTS:
        raise InputError(
            f"got {len(axis_unknowns)} unknowns; a landscape has one or two axes: --unknown A --unknown B."
        )
    points = POINTS[len(axis_unknowns)] if points is None else points
    if points < 3:
        raise InputError(f"points is {points}; a landscape needs at least 3 per axis.")
    target = Path(target)
    case = run_case(target) if target.is_dir() else scene_case(target, is_synthetic=video is None)
    if video is not None:
        case.video, case.mask = video, None
    case.mask = case.mask if mask is None else mask
    case.video_options |= reading or {}
    case.noise = case.noise if noise is None else noise
    progress.stage("building the model")
    problem, base = _problem(case, axis_unknowns)
    axes = [Axis.along(problem, unknown.name, points) for unknown in axis_unknowns]
    count = points ** len(axes)
    progress.stage(f"{count} rollouts along {' and '.join(axis.name for axis in axes)}")
    costs = landscape(problem, base, axes, lambda done, cost: progress.fraction(done, count))
    progress.stage("writing the report")
    content = _write(Path(out), case, costs, problem)
    progress.done()
    return content


def scene_case(path: Path, is_synthetic: bool) -> Case:
    """Case of a scene file; without a video its values are the truth."""
    scene = open_scene(path)
    case = Case(scene, scene.name, priors=priors_of([scene], None)[0])
    if is_synthetic:
        case.marks["truth"] = [_scene_values(scene)]
    return case


def run_case(folder: Path) -> Case:
    """Case of a run folder, with its estimates, truths and starts.

    Raises:
        InputError: If it holds no scene.
    """
    if not (folder / "scene.yaml").is_file():
        raise InputError(
            f"{folder} holds no scene.yaml; give a run folder of `gradsim fit` or `demo`, or a scene file."
        )
    scene, result = Scene.load(folder / "scene.yaml"), read_result(folder)
    history = read_history(folder)
    fitted = result.get("unknowns_8bit") or result.get("unknowns") or {}
    case = Case(scene, str(result.get("title") or scene.name), priors=priors_of([scene], None)[0])
    case.unknowns = {name: (u["low"], u["high"]) for name, u in fitted.items()}
    case.marks["estimate"] = [{n: u["value"] for n, u in fitted.items() if u["value"] is not None}] if fitted else []
    truth = {n: u["truth"] for n, u in fitted.items() if u["truth"] is not None}
    case.marks["truth"] = [truth] if truth else [] if fitted else [_scene_values(scene)]
    population = history.get("starts") or {}
    names = population.get("names", [])
    by_name = lambda row: {n: x for n, x in zip(names, row, strict=True) if x is not None}
    case.marks["starts"], case.marks["ends"] = (
        [by_name(row) for row in population.get(key, [])] for key in ("initial", "final")
    )
    case.marks["path"] = [stage["values"] for stage in history.get("stages", []) if stage.get("values")]
    if read_record(folder):
        arguments = FitArguments.load(folder)
        case.video, case.mask, case.noise = arguments.video, arguments.mask, arguments.noise
        case.video_options = arguments.video_options
        case.priors = priors_of([scene], arguments.stated_priors)[0]
    elif (folder / "video.webm").is_file():
        case.video = folder / "video.webm"
    elif not case.marks["truth"]:
        raise InputError(f"{folder} holds neither a video nor the truth; add --video VIDEO.")
    return case


def _problem(case: Case, axis_unknowns: Sequence[Unknown]) -> tuple[Problem, torch.Tensor]:
    """The problem, and the values at which its unknowns are held, in solver coordinates."""
    kinds = parameters(case.scene)
    ranges: dict[str, tuple[float | None, float | None]] = dict(case.unknowns)
    for name in (name for unknown in axis_unknowns for name in unknown.names):
        if name in kinds and kinds[name].value.ndim:
            raise InputError(f"`{name}` has several components; name one of them, such as {name}.x.")
    for unknown in axis_unknowns:
        if unknown.low is not None or unknown.name not in ranges:
            ranges[unknown.name] = (unknown.low, unknown.high)
    named = {part for name in ranges for part in Unknown(name).names} | set(ranges)
    priors = [prior for p in case.priors if (prior := p.of(name for name in p.names if name in named))]
    space = Space(case.scene, [Unknown(name, *ends) for name, ends in ranges.items()], priors=priors)
    if case.video is not None:
        observation = from_video(case.scene, case.video, case.mask, case.noise, **case.video_options)
        model = model_for(case.scene, space)
    else:
        truth = {name: value for name, value in case.marks["truth"][0].items() if name in case.unknowns}
        model = model_for(case.scene, space)
        with torch.no_grad():
            observation = synthetic.float_masks(case.scene, model.rollout(parameter_values(case.scene, truth)))
    values = {**_scene_values(case.scene), **(case.marks["estimate"][0] if case.marks["estimate"] else {})}
    base = torch.tensor([_value(name, values) for name in space.names], dtype=torch.float64)
    return Problem(model, observation, space), space.inner(base)


def _value(name: str, values: dict[str, float]) -> float:
    return values[name] if name in values else values[Unknown(name).names[0]]  # tied ones have one value


def _scene_values(scene: Scene) -> dict[str, float]:
    """Scalars of a scene by dotted name."""
    values = {}
    for name, kind in parameters(scene).items():
        if kind.value.ndim == 0:
            values[name] = float(kind.value)
        elif not kind.row_of:
            for axis, value in zip("xyz", kind.value, strict=False):
                values[f"{name}.{axis}"] = float(value)
    return values


def _write(out: Path, case: Case, grid: Landscape, problem: Problem) -> dict:
    out.mkdir(parents=True, exist_ok=True)
    case.scene.save(out / "scene.yaml")
    names = [axis.name for axis in grid.axes]
    grids = {axis.name: axis.values.tolist() for axis in grid.axes}
    costs = {kind: getattr(grid, kind) for kind in ("pixels", "cdf")}
    write_json(
        out / "landscape.json", {"grids": grids, **{k: c.tolist() for k, c in costs.items()}, "marks": case.marks}
    )
    with atomic_path(out / "landscape.png") as draft:
        draft.write_bytes(plots.png(lambda: landscape_plot.draw(grid, case.marks)))
    summary = {}
    for kind, cost in costs.items():
        lowest = np.unravel_index(cost.argmin(), cost.shape)
        count, share = valleys(cost)
        at = {name: axis.values[k].item() for name, axis, k in zip(names, grid.axes, lowest, strict=True)}
        summary[kind] = {"lowest": at, "cost": cost.min().item(), "valleys": count, "downhill_share": share}
    words = "; ".join(
        f"{landscape_plot.TITLES[kind]}: {s['valleys']} {'valley' if s['valleys'] == 1 else 'valleys'} on the grid, and "
        f"{100 * s['downhill_share']:.0f} % of it lead downhill to the lowest"
        for kind, s in summary.items()
    )
    note = "Other unknowns are held at their estimates. " if case.marks["estimate"] else ""
    content = {
        "schema": SCHEMA,
        "command": "landscape",
        "title": f"Landscape of {' and '.join(names)}: {case.title}",
        "status": Status.OK,
        "landscape": summary,
        "images": [
            {
                "file": "landscape.png",
                "title": "Cost",
                "caption": f"{words}. {note}Σ r²: sum of squared residuals in units of the noise.",
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
