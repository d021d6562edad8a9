"""Errors of wrong models, and their detection (the paper's Table 4, left).

Objects of three kinds (rigid, deformable, cloth) are thrown with a known push and filmed for a second; the mass is
unknown, with starts uniform over 2 to 12 kg, and everything else is known to be what it is, or believed to be what it is
not:

    perfect                the model that made the video
    friction               collisions without friction
    elasticity             collisions that lose nothing
    rigid_as_deformable    a rigid body taken for a soft one, and the other way round (`wrong_models/models.py`)
    deformable_as_rigid
    photorealistic         the right model, foreground masks by Mitsuba

Videos are 8-bit with noise of σ = 1/255. Every wrong model is judged by its χ²/N, and then compared with one that has
what it lacks: all of the contact's numbers unknown, or the other type of body. What the comparison chooses is our answer.
"""

import importlib.util
import math
import time
from collections.abc import Mapping, Sequence
from itertools import count as count_up
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gradsim.app.figures import figure
from gradsim.dataset import Sample, sample, test_numbers
from gradsim.dataset.sample import KINDS
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.comparison.folds import GIVEN_MODEL
from gradsim.identification.model_selection import compare
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import NOMINAL_NOISE, QUANTIZATION_NOISE
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim_reproduction.plotting import SAFE, new_figure, true_rollout, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table
from gradsim_reproduction.wrong_models.models import SWAPS, bulk, fillable, mass_in, model_setup, scene_and_mass

PAPER = {  # mean relative error of the mass; paper, Table 4, left
    "friction": 0.1866,
    "elasticity": 0.2281,
    "rigid_as_deformable": 0.3462,
    "deformable_as_rigid": 0.4974,
    "photorealistic": 0.1793,
    "perfect": 0.1071,
}
ROWS = ("perfect", "friction", "elasticity", "rigid_as_deformable", "deformable_as_rigid", "photorealistic")
GOALS = {"perfect": 1e-4, "photorealistic": 0.02}
FLAGGED = {"friction": 0.95, "elasticity": 0.95, "rigid_as_deformable": 1.0, "deformable_as_rigid": 1.0}
ALARMS = {"perfect": 0.05, "photorealistic": 0.05}  # most of the right models that may be flagged
AFTER = 0.05  # mean error of the mass that model selection is to leave
OBJECTS, QUICK = 90, 3
SHORT = {"friction": ("rigid",), "elasticity": ("cloth",)}  # kinds of the quick form
SAMPLES = 64  # of Mitsuba in each pixel
# Starts follow the clip as it grows: before contact only the push determines the mass, and every stage narrows it. A tumbling
# polyhedron, whose cost is cut by its contacts, takes smaller stages. What noise hides is not searched for.
SOFT = MultistartConfig(starts=2, first=6, grow=12, rounds=0, explore=False, polish=0, rtol=1e-4)
RIGID = MultistartConfig(starts=2, first=4, grow=4, rounds=0, explore=False, polish=1, rtol=1e-5)
# Where none of the models explains the video, which may be the search's fault, it is made again with care.
CAREFUL = MultistartConfig(starts=4, first=4, grow=2, rounds=1, explore=False, polish=2, rtol=1e-6)
SWAPPED = MultistartConfig(starts=2, first=6, grow=24, rounds=0, explore=False, polish=0, rtol=1e-4)
NOTES = (
    "Means over objects, 8-bit frames with noise of σ = 1/255. Flagged: χ²/N far above 1. After: what is left when the model "
    "is compared with one that has what it lacks. Rigid bodies that are taken for deformable ones are those that a fan of "
    "tetrahedra fills. Masks of Mitsuba state more noise than they have, so that they are hardly flagged."
)


@experiment("table4", "Wrong models", parallel=True)
def table4(run: Run) -> Outcome:
    """Fit all rows of the table; writes table.md, fits.jsonl and plots.

    Quick: one object of each kind, and of one kind where friction or losses are left out. `scenes`: number of objects, a
    third of each kind, instead of 90.
    """
    count = math.ceil((run.scenes or (QUICK if run.quick else OBJECTS)) / 3)
    jobs = {
        f"{row} {kind} {number}": (row, kind, number, run.seed, str(run.out / "meshes"))
        for row, kind, number in _plan(count, run.seed)
        if not run.quick or kind in SHORT.get(row, KINDS)
    }
    records = run.records(run.ledger("fits.jsonl", experiment="table4"), jobs, solve)
    figures = summary(records)
    result: dict = {"records": records, "images": draw(run.out, records, PAPER)}
    result["table"] = write_table(run.out, "Table 4, left: relative error of the mass", _rows(figures), NOTES)
    return result, figures


def _plan(count: int, seed: int) -> list[tuple[str, str, int]]:
    """Row, kind and number of every fit, for `count` objects of each kind; those of fewer objects come first."""
    rows = [row for row in ROWS if row != "photorealistic" or importlib.util.find_spec("mitsuba")]
    numbers, filled = test_numbers(count), star_shaped(count, seed)
    return [
        (row, kind, filled[k] if row == "rigid_as_deformable" else numbers[k])
        for k in range(count)
        for row in rows
        for kind in ([SWAPS[row]] if row in SWAPS else KINDS)
    ]


def star_shaped(count: int, seed: int) -> list[int]:
    """The first `count` test objects that a fan of tetrahedra fills."""
    numbers = (test_numbers(k)[-1] for k in count_up(1))
    return list(islice((n for n in numbers if fillable(sample("rigid", n, seed))), count))


def solve(job: tuple[str, str, int, int, str]) -> dict:
    """Fit one object by the model of one row, and compare it with what it lacks; errors are next to the truth."""
    row, kind, number, seed, folder = job
    begun = time.process_time()
    one = sample(kind, number, seed)
    wrong = model_setup(row, one, Path(folder))
    scene, _ = scene_and_mass(one)
    noise_seed = 1000 * seed + number
    observation = observe(row, scene, true_trajectory(one, scene), noise_seed)
    plan = SWAPPED if row in SWAPS else RIGID if kind == "rigid" else SOFT
    models = {"observation": observation, "candidates": wrong.candidates, "seed": noise_seed, "sampled": False}
    comparison = compare(synthetic.own_steps(wrong.scene), wrong.unknowns, plan=plan, **models)
    if comparison.best.fit.status == Status.MISMATCH:
        again = compare(synthetic.own_steps(wrong.scene), wrong.unknowns, plan=CAREFUL, **models)
        comparison = min(comparison, again, key=lambda candidate: candidate.best.chi2)
    truth = next(iter(one.truth.values())) * bulk(scene)
    fits = {}
    for name, c in comparison.candidates.items():
        error = abs(mass_in(c.scene, c.fit.values) / truth - 1)
        fits[name] = {"status": c.fit.status, "chi2_per_n": c.fit.chi2_per_n, "error": error, "values": c.fit.values}
        fits[name] |= {"bic_above_best": c.delta}
    named = {"row": row, "kind": kind, "number": number, "seed": seed, "object": one.object, "mass": truth}
    return {**named, "fits": fits, "chosen": comparison.chosen, "cpu_seconds": time.process_time() - begun}


def true_trajectory(one: Sample, scene: Scene) -> Trajectory:
    """The true motion."""
    mass, truth = next(iter(one.truth.items()))
    with torch.no_grad():
        return Model(scene).rollout(parameter_values(scene, {mass: truth}))


def observe(row: str, scene: Scene, trajectory: Trajectory, seed: int) -> Masks:
    """Observation of a fit: silhouettes from 8-bit video with noise, or masks of Mitsuba.

    A pixel of Mitsuba's masks is the share of n samples that hit the body: its variance is at most that of the share of n
    independent ones, plus that of rounding to 8 bits. Outliers do not pull (Huber).
    """
    if row != "photorealistic":
        return synthetic.noisy_masks(scene, trajectory, "body", seed)
    from gradsim.render.mitsuba.renderer import Mitsuba

    with torch.no_grad():
        alpha = Mitsuba.of(scene, spp=SAMPLES, seed=seed).alpha(trajectory.surface)[0].double()
    share = (alpha * SAMPLES + 0.5) / (SAMPLES + 1)  # neither 0 nor 1, which would claim to be certain
    variance = QUANTIZATION_NOISE**2 + share * (1 - share) / SAMPLES
    rounded = (alpha * 255).round() / 255
    return Masks(rounded, NOMINAL_NOISE, Silhouettes.of(scene), NOMINAL_NOISE**2 / variance, "huber")


def summary(records: Sequence[dict]) -> dict[str, dict]:
    """The figures of all rows that were run."""
    figures = {}
    for row in ROWS:
        part = [r for r in records if r["row"] == row]
        if not part:
            continue
        before = [r["fits"][GIVEN_MODEL]["error"] for r in part]
        after = [r["fits"][r["chosen"]]["error"] for r in part]
        flagged = float(np.mean([r["fits"][GIVEN_MODEL]["status"] == Status.MISMATCH for r in part]))
        figures[row] = figure(float(np.mean(before)), paper=PAPER[row], goal=GOALS.get(row))
        figures[f"{row}_median"] = figure(float(np.median(before)))
        least = FLAGGED.get(row)
        is_met = None if least is None else flagged >= least
        figures[f"{row}_flagged"] = figure(flagged, goal=least or ALARMS[row], ok=is_met)
        figures[f"{row}_count"] = figure(len(part))
        if row in FLAGGED:
            figures[f"{row}_after"] = figure(float(np.mean(after)), goal=AFTER)
            figures[f"{row}_after_median"] = figure(float(np.median(after)))
            right = float(np.mean([r["chosen"] != GIVEN_MODEL for r in part]))
            figures[f"{row}_right_model_chosen"] = figure(right)
        for kind in dict.fromkeys(r["kind"] for r in part) if row not in SWAPS else ():
            errors = [r["fits"][GIVEN_MODEL]["error"] for r in part if r["kind"] == kind]
            figures[f"{row}_{kind}"] = figure(float(np.mean(errors)))
    figures["cpu_seconds_mean"] = figure(float(np.mean([r["cpu_seconds"] for r in records])))
    return figures


def _rows(figures: dict[str, dict]) -> list[dict]:
    """Rows of the table: the paper's measure, the share flagged, and the error after model selection."""
    names = {"perfect": "perfect model", "photorealistic": "photorealistic render"}
    names |= {row: f"unmodelled {row}" for row in ("friction", "elasticity")}
    rows = []
    for row in ROWS:
        if row in figures:
            note = f"{figures[f'{row}_count']['value']} fits, {figures[f'{row}_flagged']['value']:.0%} flagged"
            if f"{row}_after" in figures:
                note += f"; {figures[f'{row}_after']['value']:.2g} after model selection"
            name = names.get(row, row.replace("_", " "))
            rows.append({"name": name, "paper": PAPER[row], "ours": figures[row]["value"], "note": note})
    return rows


OURS, PAPERS, LEFT = SAFE[0], "#b0b0b0", "#e69f00"
COLUMNS = 8  # frames of a strip


def draw(out: Path, records: Sequence[dict], paper: Mapping[str, float]) -> list[dict]:
    """Write the images into a folder; returns their files and captions."""
    left_text = (
        "Best fit of a wrong model minus the video: red where only the fit covers, blue where only the video does."
    )
    return write_figures(
        out,
        {
            "table4": (lambda: _bars(records, paper), "Errors of the mass", "Mean relative error; one dot per object."),
            "left": (lambda: _strips(records, out / "meshes"), "Residuals of wrong models", left_text),
        },
    )


def _bars(records: Sequence[dict], paper: Mapping[str, float]) -> Figure:
    rows = [row for row in paper if any(r["row"] == row for r in records)]
    figure = new_figure(8, 0.75 * len(rows) + 1.3)
    axes = figure.subplots()
    for k, row in enumerate(rows):
        part = [r for r in records if r["row"] == row]
        parts = {OURS: [r["fits"][GIVEN_MODEL]["error"] for r in part]}
        if any(len(r["fits"]) > 1 for r in part):
            parts[LEFT] = [r["fits"][r["chosen"]]["error"] for r in part]
        axes.barh(k - 0.27, paper[row], 0.25, color=PAPERS)
        for place, (colour, errors) in enumerate(parts.items()):
            y = k + 0.27 * place
            axes.barh(y, np.mean(errors), 0.25, color=colour)
            axes.plot(np.maximum(errors, 1e-8), [y] * len(errors), ".", color="black", ms=2.5, alpha=0.5)
    axes.set_xscale("log")
    axes.set_xlim(1e-8, 3)
    axes.set_yticks(range(len(rows)), [row.replace("_", " ") for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("relative error of the mass")
    names = {PAPERS: "paper", OURS: "ours, the model as given", LEFT: "ours, the model that is chosen"}
    handles = [Patch(color=colour, label=name) for colour, name in names.items()]
    axes.legend(handles=handles, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def _strips(records: Sequence[dict], meshes: Path) -> Figure:
    """One wrong model of each sort: the video less the fit, frame by frame."""
    wrong = {r["row"]: r for r in reversed(records) if len(r["fits"]) > 1}
    figure = new_figure(1.35 * COLUMNS, 1.5 * len(wrong))
    axes = figure.subplots(len(wrong), COLUMNS, squeeze=False)
    image = None
    for line, (row, record) in zip(axes, sorted(wrong.items()), strict=True):
        video, model = _masks(record, meshes)
        for ax, k in zip(line, np.linspace(0, len(video) - 1, COLUMNS).round().astype(int), strict=True):
            image = ax.imshow(model[k] - video[k], cmap="RdBu_r", vmin=-1, vmax=1)
            ax.contour(video[k], [0.5], colors="0.4", linewidths=0.6)
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"frame {k}", fontsize=7)
        line[0].set_ylabel(f"{row.replace('_', ' ')}\n({record['object']})", fontsize=7)
    if image is not None:
        figure.colorbar(image, ax=axes, shrink=0.6, label="fit − film")
    return figure


def _masks(record: dict, meshes: Path) -> tuple[np.ndarray, np.ndarray]:
    """Silhouettes of the truth and of the wrong model at its best."""
    one = sample(record["kind"], record["number"], record["seed"])
    scene, _ = scene_and_mass(one)
    mass, truth = next(iter(one.truth.items()))
    wrong = model_setup(record["row"], one, meshes)
    pairs = ((scene, {mass: truth}), (wrong.scene, record["fits"][GIVEN_MODEL]["values"]))
    masks = [synthetic.float_masks(s, true_rollout(s, values)).masks.detach().numpy() for s, values in pairs]
    return masks[0], masks[1]
