"""Materials, masses and start velocities of soft bodies from video (the paper's Table 3, from honest starts).

Truths and starts are drawn from the same ranges, from different streams: see `soft/scenes.py`. Unknowns of solids are μ and λ
with their density known, for their density with μ and λ known, and for the mass of every vertex; cloths for one start
velocity of all vertices, and for that of every vertex. Each is fitted to

    float     silhouettes in double precision: what is lost on the way there and back
    states    the vertices themselves, as 3-D supervision has them (the paper's "diffphysics")
    8bit      silhouettes from 8-bit video with noise: whether the error bars are right
    foreign   exact areas by another renderer (`foreign.area_coverage`), of a motion with 64 times the steps
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import solve
from gradsim.identification.observation.base import Masks, Observation
from gradsim.identification.observation.vertices import Vertices
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.progress import NullProgress, Progress, progress_callback
from gradsim.scene import Scene
from gradsim_reproduction.foreign import area_coverage
from gradsim_reproduction.plotting import (
    BLUE,
    ERROR_FLOOR,
    GREEN,
    ORANGE,
    blended_frames,
    dots,
    image_grid,
    new_figure,
    write_figures,
    z_histogram,
)
from gradsim_reproduction.rigid.joint import outcome
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.soft import fields as table3_fields
from gradsim_reproduction.soft.scenes import KINDS, Instance, instance
from gradsim_reproduction.tables import write_table

INSTANCES, QUICK = 100, 3  # of the quick ones a cloth has noise and a beam its masses: they cost least
DEEPER = (
    0.06  # share of the instances, the first ones, that are also fitted to video with noise and to another renderer's,
)
# and whose masses or velocities are unknowns at every vertex
QUANTITIES = {"beam": ("lame", "density"), "ball": ("lame", "density"), "cloth": ("velocity",)}
MODES = ("float", "states", "8bit", "foreign")
STARTS = {"float": 8, "states": 8, "8bit": 4, "foreign": 4}
STAGES: dict[str, Any] = {"first": 8, "grow": 6}  # two: soft bodies have no jagged cost that needs more
FINER = 64  # times more steps in the targets of `foreign`: converged, and none that halving the steps of a fit comes to
PAPER = {"mu": 0.0054, "lam": 0.0056, "density": None, "velocity": 0.026}
PAPER_STATES = {"mu": 0.0025, "lam": 0.0024, "density": None, "velocity": 0.127}
PAPERS = {"float": PAPER, "states": PAPER_STATES}
GOAL = 1e-5
SOLVED = 1e-3  # largest error of a fit that counts as a success
NOTES = "Medians over the bodies of mean absolute errors, over the value or, for velocities, the largest of the range. Float frames."
MARK = 1e-3  # [m] nominal noise of a vertex that is known in 3-D


@experiment("table3", "Soft bodies from video", parallel=True)
def table3(run: Run) -> Outcome:
    """Fit all instances; writes fits.jsonl, table.md and plots. Quick: 3 instances instead of 100."""
    instances = run.scenes or (QUICK if run.quick else INSTANCES)
    deeper = range(math.ceil(DEEPER * instances))
    noisy, fields_of = ((2,), (0,)) if run.quick and not run.scenes else (deeper, deeper)
    jobs = {
        f"{KINDS[number % len(KINDS)]} {number} {quantity} {mode} seed {run.seed}": (
            number, quantity, mode, run.seed, str(run.out)
        )
        for number, quantity, mode in _plan(instances, noisy, fields_of)
    }  # fmt: skip
    records = run.records(run.ledger("fits.jsonl"), jobs, fit_one)
    fields = [r for r in records if r["quantity"] in table3_fields.QUANTITIES]
    few = [r for r in records if r["quantity"] not in table3_fields.QUANTITIES]
    figures = summary(few) | table3_fields.summary(fields)
    result: dict = {"records": few, "fields": fields, "images": draw(run.out, few, fields, run.seed)}
    result["table"] = write_table(run.out, "Table 3: soft bodies from video", _rows(figures), NOTES)
    return result, figures


def _rows(figures: dict[str, dict]) -> list[dict]:
    """The rows of the paper's table that ours has a figure for."""
    pairs = (
        ("mass of each particle, solid", "particle_mass_full_median", (0.048, 0.032)),
        ("μ, solid", "mu_median", (0.0054, 0.0025)),
        ("λ, solid", "lam_median", (0.0056, 0.0024)),
        ("velocity of each particle, cloth", "cloth_velocity_particle_full_median", (0.026, 0.127)),
    )
    rows = []
    for (label, way), k in ((("", "∇Sim"), 0), (("states_", "DiffPhysics, 3-D supervision"), 1)):
        for what, key, paper in pairs:
            if label + key in figures:
                rows.append({"name": f"{way}: {what}", "paper": paper[k], "ours": figures[label + key]["value"]})
    return rows


def fit_one(job: tuple[int, str, str, int, str]) -> dict:
    """The record of one fit: number, quantity, sight, seed, and the folder of the run."""
    number, quantity, mode, seed, out = job
    one, truth_seed = instance(number, seed), 100 * seed + number
    named = {"number": number, "kind": one.kind, "quantity": quantity, "sight": mode}
    if quantity in table3_fields.QUANTITIES:
        return named | table3_fields.fit(one, quantity, mode, truth_seed, NullProgress(), Path(out))
    return named | fit_few(one, quantity, mode, truth_seed, NullProgress())


def _plan(instances: int, noisy: Container[int], fields_of: Container[int]) -> Iterator[tuple[int, str, str]]:
    """Number, quantity and sight of every fit; noise, and quantities of every vertex, for some numbers."""
    for number in range(instances):
        kind = KINDS[number % len(KINDS)]
        for quantity in QUANTITIES[kind]:
            for mode in MODES if number in noisy else MODES[:2]:
                yield number, quantity, mode
        if number in fields_of:
            yield from table3_fields.plan(number, kind)


def fit_few(one: Instance, quantity: str, mode: str, seed: int, progress: Progress) -> dict:
    """Fit the few numbers of one instance; its result and the truth."""
    steps = synthetic.default_steps if mode == "foreign" else synthetic.own_steps
    one = replace(one, scene=steps(one.scene))
    unknowns = one.unknowns(quantity)
    space = Space(one.scene, unknowns, decades=True)
    model = model_for(one.scene, space)
    truth = draw_truth(space, seed)
    problem = Problem(model, observe(one, truth, model, mode, seed), space)
    fit = solve(problem, MultistartConfig(STARTS[mode], **STAGES), seed, report=progress_callback(progress))
    return outcome(fit, truth) | {"errors": errors(space, fit.values, truth), "tets": _elements(model)}


def draw_truth(space: Space, seed: int) -> dict[str, float]:
    """Values of the unknowns, drawn as the starts are, from another stream."""
    rng = np.random.default_rng(synthetic.TRUTH_STREAM + seed)
    return dict(zip(space.names, space.numbers(space.draw(rng, 1))[0].tolist(), strict=True))


def errors(space: Space, values: dict[str, float], truth: dict[str, float]) -> dict[str, float]:
    """Relative for positive quantities; of others over the largest that the range holds."""
    scale = {n: abs(truth[n]) if log else space.range(k)[1] for k, (n, log) in enumerate(zip(space.names, space.logarithmic, strict=True))}  # fmt: skip
    return {n: abs(values[n] - truth[n]) / scale[n] for n in space.names}


def observe(one: Instance, truth: dict[str, float], model: Model, mode: str, seed: int) -> Observation:
    """Observation of this instance in a mode."""
    source = Model(one.scene, substeps=FINER * model.substeps) if mode == "foreign" else model
    with torch.no_grad():
        trajectory = source.rollout(parameter_values(one.scene, truth))
    if mode == "float":
        return synthetic.float_masks(one.scene, trajectory)
    if mode == "states":
        return Vertices("body", trajectory["body"]["x"][0], MARK)
    if mode == "8bit":
        return synthetic.noisy_masks(one.scene, trajectory, "body", seed)
    return _foreign_masks(one.scene, trajectory)


def _foreign_masks(scene: Scene, trajectory: Trajectory) -> Masks:
    """Silhouettes by the renderer of `reproduce foreign`, which shares no code with the product's."""
    assert scene.camera is not None
    K, R, t = (np.asarray(a, np.float64) for a in scene.camera.matrices())
    surface = trajectory.surface
    points = surface.vertices[0].detach().numpy() @ R.T + t
    screens = ((points / points[..., 2:]) @ K.T)[..., :2]
    faces = surface.faces.numpy()
    if scene.bodies["body"].kind == "cloth":
        faces = np.concatenate([faces, faces[:, ::-1]])  # a sheet has two sides, and no volume
    images = [area_coverage.coverage(screen, faces, scene.camera.size) for screen in screens]
    return Masks(torch.tensor(np.stack(images)), synthetic.NOMINAL_NOISE, Silhouettes.of(scene))


def _elements(model: Model) -> int:
    """Tetrahedra or triangles of the body."""
    return len(model.systems[0].matter.groups[0].index)  # pyright: ignore[reportAttributeAccessIssue] -- soft bodies


def summary(records: list[dict]) -> dict[str, dict]:
    """Medians and shares by sight, and whether the error bars are right."""
    figures = {}
    for mode in MODES:
        part = [r for r in records if r["sight"] == mode]
        label = "" if mode == "float" else f"{mode}_"
        for key in PAPER:
            values = [e for r in part for name, e in r["errors"].items() if name.split(".")[1] == key]
            if not values:
                continue
            paper = PAPERS.get(mode, {}).get(key)
            name = "cloth_velocity_common" if key == "velocity" else key
            goal = GOAL if mode == "float" else None
            figures[f"{label}{name}_median"] = figure(float(np.median(values)), paper=paper, goal=goal)
            figures[f"{label}{name}_worst"] = figure(float(np.max(values)))
        if part:
            solved = np.mean([max(r["errors"].values()) < SOLVED for r in part])
            exact = {"goal": 1.0, "ok": bool(solved == 1)} if mode == "float" else {}
            figures[f"{label}solved"] = figure(float(solved), **exact)
            figures[f"{label}starts_converged"] = figure(float(np.mean([r["converged"] for r in part])))
    exact = [r for r in records if r["sight"] == "float"]
    figures["cpu_seconds_median"] = figure(float(np.median([r["cpu_seconds"] for r in exact])))
    noisy = [r for r in records if r["sight"] == "8bit"]
    smooth = np.abs(
        [z for r in noisy if not r["kinked"] and r["status"] == Status.OK for z in r["z"].values()] or [math.nan]
    )
    inside = [i for r in noisy for i in r["inside"].values()]
    figures["z_rms"] = figure(float(np.sqrt(np.mean(smooth**2))), goal=1.2)
    figures["z_95"] = figure(float(np.quantile(smooth, 0.95)), goal=2.3)
    figures["z_count"] = figure(len(smooth))
    figures["covered_by_95"] = figure(float(np.mean(inside)) if inside else math.nan)
    return figures


COLORS = {"beam": BLUE, "ball": ORANGE, "cloth": GREEN}
TITLES = {"float": "silhouettes, float", "states": "vertices in 3-D", "8bit": "8-bit film", "foreign": "other renderer and steps"}  # fmt: skip
COLUMNS = {"mu": "μ", "lam": "λ", "density": "ρ", "velocity": "v"}
SHOWN = 12  # bodies on the sheet


def draw(out: Path, records: Sequence[Mapping], fields: Sequence[Mapping], seed: int) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    z = [z for r in records if r["sight"] == "8bit" for z in r["z"].values()]
    figures = {
        "errors": (lambda: _errors(records), "Errors of few unknowns",
                   "One mark per unknown; the bar is reported in the paper."),
        "bodies": (lambda: _bodies(records, seed), "Bodies",
                   "The first instances at their true parameters; frames are blended, later ones stronger."),
        "error_bars": (lambda: z_histogram([("8-bit video", BLUE, z)], 6), "Errors over error bars, 8-bit video",
                       "Against the normal distribution."),
    }  # fmt: skip
    if fields:
        figures["fields"] = (
            lambda: _fields(fields),
            "Masses and velocities vertex by vertex",
            "Errors on the part that the data determine to 1 %, and over all vertices, and the paper's.",
        )
    return write_figures(out, figures)


def _errors(records: Sequence[Mapping]) -> Figure:
    figure, rng = new_figure(9.2, 3.4), np.random.default_rng(0)
    spots = figure.subplots(1, len(TITLES), sharey=True)
    for ax, (mode, title) in zip(spots, TITLES.items(), strict=True):
        for k, key in enumerate(COLUMNS):
            for kind, colour in COLORS.items():
                values = [
                    e
                    for r in records
                    if r["sight"] == mode and r["kind"] == kind
                    for name, e in r["errors"].items()
                    if name.split(".")[1] == key
                ]
                dots(ax, k, values, rng, 0.28, colour, ms=3)
            paper = PAPERS.get(mode, {}).get(key)
            if paper:
                ax.plot([k - 0.38, k + 0.38], [paper, paper], color="black", lw=2)
        ax.set(yscale="log", title=title, xticks=range(len(COLUMNS)), xticklabels=COLUMNS.values())
    spots[0].set_ylabel("relative error")
    for kind, colour in COLORS.items():
        spots[0].plot([], [], "o", color=colour, ms=4, mew=0, label=kind)
    spots[0].plot([], [], color="black", lw=2, label="paper")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _bodies(records: Sequence[Mapping], seed: int) -> Figure:
    chosen = list({r["number"]: r for r in records if r["sight"] == "float"}.values())[:SHOWN]
    figure, cells = image_grid(len(chosen), 6, 9.2, 1.75)
    for ax, r in zip(cells, chosen, strict=False):
        body = instance(r["number"], seed)
        ax.imshow(blended_frames(body.scene, r["truth"], 3), interpolation="nearest")
        ax.set_title(body.name, fontsize=7)
    return figure


def _fields(fields: Sequence[Mapping]) -> Figure:
    figure, rng = new_figure(8, 3.2), np.random.default_rng(0)
    kinds = list(dict.fromkeys((r["quantity"], r["sight"]) for r in fields))
    ax = figure.subplots()
    for k, (quantity, mode) in enumerate(kinds):
        part = [r for r in fields if (r["quantity"], r["sight"]) == (quantity, mode)]
        for key, marker, shift in (("error", "o", -0.17), ("full_error", "x", 0.17)):
            x = k + shift + rng.uniform(-0.12, 0.12, len(part))
            colors = [COLORS[r["kind"]] for r in part]
            ax.scatter(x, np.maximum([r[key] for r in part], ERROR_FLOOR), c=colors, s=14, marker=marker)
    for kind, colour in COLORS.items():
        ax.scatter([], [], c=colour, s=14, marker="s", label=kind)
    ax.scatter([], [], c="black", s=14, marker="o", label="on what is determined to 1 %")
    ax.scatter([], [], c="black", s=14, marker="x", label="over all vertices")
    labels = [f"{quantity.replace('_', ' ')}\n{TITLES.get(mode, 'three films, textured')}" for quantity, mode in kinds]
    ax.set(yscale="log", ylabel="relative error", xticks=range(len(kinds)), xticklabels=labels)
    ax.legend(fontsize=8)
    return figure
