"""A pile of ten bodies: gradients through a thousand steps of contact, in a hundred random scenes.

Boxes, balls, capsules and convex meshes of random size, mass, friction and motion fall into a pit and lie on one another.
The loss weighs places and orientations of all bodies in the end by random numbers, and the direction is random in all
parameters of all bodies and of the contact. Adjoint and forward sensitivity of every scene are compared with one another,
and with secants.

What touches, slips or sticks changes by whole steps, and where it does, a rollout is not smooth: within such a change a
secant does not approximate the derivative. A pile grows a perturbation by thousands, so that only narrow secants stay on one
side; rounding bounds them from below. A scene counts with the widest one that changes nothing in any step.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from torch import linalg

from gradsim import video
from gradsim.app.figures import figure
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim_reproduction.contact import pile_checks, pile_scenes
from gradsim_reproduction.plotting import BLUE, ORANGE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment

SCENES, QUICK, TOGETHER = 100, 8, 20
WIDTHS = (2e-10, 1e-9)  # of directions of about a centimetre: rounding is 1e-14 of those
AGREES = 1e-3
FINER = 8  # times as many steps, for the energy


@experiment("pile", "A pile of ten bodies")
def pile(run: Run) -> Outcome:
    """Check gradients in random piles; writes scenes.jsonl, a video and plots. Quick: 8 scenes."""
    count = QUICK if run.quick else SCENES
    ledger, records = run.ledger("scenes.jsonl", experiment="pile"), []
    model = Model(pile_scenes.scene())
    for first in range(0, count, min(TOGETHER, count)):
        numbers = list(range(first, min(first + TOGETHER, count)))
        records += ledger.once(f"{numbers[0]} to {numbers[-1]}", _batch, model, numbers, run.seed)["records"]
    finer = ledger.once("finer", lambda: {"rises": finer_rises(run.seed)})["rises"]
    drift = ledger.once("momentum", lambda: {"drift": momentum_drift(run.seed)})["drift"]
    run.progress.stage("plots")
    result = {"scenes": count, "images": draw(run.out, model, records, run.seed)}
    result["videos"] = [{"file": "pile.webm", "text": "One of the piles, at half the speed."}]
    result["widest_unchanged"] = {f"{w:g}": sum(f"{w:g}" == _widest(r) for r in records) for w in WIDTHS}
    result["records"] = [{k: v for k, v in r.items() if k != "energy"} for r in records]
    return result, summary(records, finer, drift)


def _batch(model: Model, numbers: list[int], seed: int) -> dict:
    start = time.process_time()
    values = pile_scenes.random_pile(model, numbers, seed)
    records = pile_checks.check_gradients(model, values, seed + 7919 * (1 + numbers[0]), WIDTHS)
    spent = (time.process_time() - start) / len(numbers)
    return {"records": [{"number": n, "cpu_seconds": spent, **r} for n, r in zip(numbers, records, strict=True)]}


def finer_rises(seed: int) -> list[float]:
    """The largest rise of energy in eight scenes with finer steps, over the largest energy."""
    model = Model(pile_scenes.scene(substeps=FINER))
    values = model.values(pile_scenes.random_pile(model, list(range(8)), seed))
    with torch.no_grad():
        energy = pile_checks.energy(model, model.rollout_unchecked(values, pile_scenes.STEPS + 1), values)
    return [pile_checks.rise(e) for e in energy]


def momentum_drift(seed: int) -> float:
    """Change of both momenta without a pit and weight, where bodies fly into one another, over the sizes of their parts."""
    model = Model(pile_scenes.scene(walls=False))
    values = pile_scenes.random_pile(model, list(range(8)), seed)
    middle = torch.stack([values[f"{name}.position"] for name in pile_scenes.SHAPES]).mean(0)
    for name in pile_scenes.SHAPES:
        values[f"{name}.velocity"] = values[f"{name}.velocity"] - 3 * (values[f"{name}.position"] - middle)
    states = model.rollout_unchecked(model.values(values), pile_scenes.STEPS + 1).states
    linear = {name: values[f"{name}.mass"][:, None, None] * state["v"] for name, state in states.items()}
    angular = {name: state["l"] + linalg.cross(state["x"], linear[name]) for name, state in states.items()}
    worst = 0.0
    for parts in (list(linear.values()), list(angular.values())):
        total = torch.stack(parts).sum(0)
        worst = max(worst, ((total - total[:, :1]).abs().max() / torch.stack(parts).abs().max()).item())
    return worst


def _widest(record: dict) -> str | None:
    """The widest secant across which nothing changes."""
    return max(record["secants"], key=float, default=None)


def summary(records: list[dict], finer: list[float], drift: float) -> dict[str, dict]:
    """The figures."""
    same = [r["secants"][_widest(r)] for r in records if r["secants"]]
    agree = float(np.mean([off < AGREES for off in same])) if same else 0.0
    share = len(same) / len(records)
    finite = float(np.mean([r["finite"] for r in records]))
    worst = max(r["adjoint_sensitivity"] for r in records)
    return {
        "finite_share": figure(finite, goal=1, ok=finite == 1),
        "adjoint_sensitivity_worst": figure(worst, goal=1e-9),
        "gradient_agrees_share": figure(agree, goal=1, ok=agree == 1),
        "unchanged_share": figure(share),
        "secant_error_median": figure(float(np.median(same)) if same else np.nan),
        "secant_error_worst": figure(float(np.max(same)) if same else np.nan),
        "growth_median": figure(float(np.median([r["growth"] for r in records]))),
        "touching_mean": figure(float(np.mean([r["touching"] for r in records]))),
        "energy_rise_worst": figure(max(r["energy_rise"] for r in records)),
        f"energy_rise_worst_{FINER}_times_finer": figure(max(finer)),
        "momentum_drift": figure(drift, goal=1e-12),
        "cpu_seconds_per_scene": figure(float(np.mean([r["cpu_seconds"] for r in records]))),
    }


MOMENTS, SHOWN = (0, 450, 600, 1000), 4  # frames of the first pile, and how many others
EVERY = 16  # steps between two frames of the video


def draw(out: Path, model: Model, records: Sequence[dict], seed: int) -> list[dict]:
    """Write video and plots; returns the entries of the plots for `result.json`."""
    values = pile_scenes.random_pile(model, list(range(1 + SHOWN)), seed)
    trajectory = model.rollout_unchecked(model.values(values), pile_scenes.STEPS + 1)
    surface, render = trajectory.surface, Renderer.of(model.scene, shading=Shading.paper("shading"))

    def frames(world: int, rows: Sequence[int]) -> np.ndarray:
        part = Surface(surface.vertices[world : world + 1, list(rows)], surface.parts)
        return to_bytes(render(part)[0].movedim(1, -1))

    with torch.no_grad():
        frames_of_first = np.concatenate([frames(0, [k]) for k in range(0, pile_scenes.STEPS + 1, EVERY)])
        rows = [np.concatenate(list(frames(0, MOMENTS)), 1)]
        rows.append(np.concatenate([frames(k, [pile_scenes.STEPS])[0] for k in range(1, 1 + SHOWN)], 1))
    video.write_preview(out / "pile.webm", frames_of_first, 1 / (pile_scenes.STEP * EVERY) / 2)  # at half the speed
    texts = {
        "piles": "Top: one pile from start to end. Bottom: the ends of others. The pit is not drawn.",
        "checks": "Left: energy over time, one line per scene. Right: secants without contact changes; the widest one counts.",
    }
    return write_figures(
        out,
        {
            "piles": (lambda: _piles(rows), "Piles", texts["piles"]),
            "checks": (lambda: _checks(records), "Checks", texts["checks"]),
        },
    )


def _piles(rows: Sequence[np.ndarray]) -> Figure:
    figure = new_figure(8.6, 4.4)
    for ax, row in zip(figure.subplots(len(rows)), rows, strict=True):
        ax.imshow(row, interpolation="nearest")
        ax.axis("off")
    return figure


def _checks(records: Sequence[dict]) -> Figure:
    figure = new_figure(8.6, 2.8)
    left, right = figure.subplots(1, 2)
    for record in records:
        energy = np.array(record["energy"])
        left.plot(
            np.linspace(0, pile_scenes.STEPS * pile_scenes.STEP, len(energy)), energy, color=BLUE, alpha=0.3, lw=0.7
        )
    left.set_xlabel("time in s")
    left.set_ylabel("energy in J")
    left.set_ylim(bottom=0)
    points = [(float(w), off, record["growth"]) for record in records for w, off in record["secants"].items()]
    if points:
        width, off, _ = np.array(points).T
        jitter = np.exp(0.12 * np.random.default_rng(0).standard_normal(len(width)))
        right.loglog(width * jitter, off, ".", color=ORANGE, ms=4, alpha=0.6)
        ends = np.array([width.min() / 1.5, width.max() * 1.5])
        right.loglog(ends, np.median(off * width) / ends, color="0.4", lw=1, label="rounding / width")
        right.legend()
    right.xaxis.set_minor_formatter(NullFormatter())
    right.axhline(1e-3, color="0.7", lw=1, ls="--")
    right.set_xlabel("width of the secant")
    right.set_ylabel("relative error")
    return figure
