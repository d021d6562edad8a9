"""The paper's estimation tasks for pendula, springs and a bouncing ball (its C.3 and A.1), from videos.

The paper reports rod lengths and initial angles found from videos with uniformly random guesses, and gives no numbers.
Here the rates, damping, gravity and the ratio of the masses are unknown too, and videos last 5 s, over which a double
pendulum makes up to 10⁶ of a small change. Targets come from the renderer and the steps that fit them: float frames show
that the search finds what there is to be found, and nothing of accuracy on videos of others; the videos with noise are
held against the Cramér–Rao bound.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.identification import synthetic
from gradsim.identification.scene_models import model_for
from gradsim.scene import restitution
from gradsim_reproduction.pendulums.fits import CLOSE, float_fit, mass_scale, noisy_fit
from gradsim_reproduction.pendulums.tasks import VideoTask, rollout_of, tasks
from gradsim_reproduction.plotting import BLUE, ERROR_FLOOR, GREY, ORANGE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment

VIDEOS = {"double": 12, "simple": 8, "chain": 4, "rope": 4, "ball": 6, "net": 1}
NOISY = {"double": 3, "simple": 3}
STARTS, LONE = 8, 2
QUICK = {"double": 1, "simple": 1, "chain": 1, "ball": 1}
IMPACT = 4.0  # [m/s] at which the restitution of the ball's ground is reported


@experiment("pendula", "Pendula, springs and a bouncing ball")
def pendula(run: Run) -> Outcome:
    """Fit the videos of all tasks; writes fits.jsonl and plots. Quick: one video of four tasks, four starts, no noise."""
    counts, noisy = (QUICK, {}) if run.quick else (VIDEOS, NOISY)
    starts, lone = (4, 1) if run.quick else (STARTS, LONE)
    settings = {"starts": starts, "lone": lone}
    known, ledger = tasks(), run.ledger("fits.jsonl", **settings)
    records: list[dict] = []
    for name, count in counts.items():
        for k in range(count):
            record = ledger.once(f"{name} {k}", float_fit, known[name], k, run.seed, starts, lone)
            records.append(record | {"noise": False})
    for name, count in noisy.items():
        for k in range(count):
            record = ledger.once(f"{name} {k} noisy", noisy_fit, known[name], k, run.seed, starts)
            records.append(record | {"noise": True})
    scale = ledger.once("mass scale", mass_scale, known["double"], run.seed)
    result = {**settings, "images": draw(run.out, [known[name] for name in counts], records)}
    result |= {"mass_scale": scale, "ranges": {name: list(known[name].unknowns) for name in counts}}
    return {**result, "records": records}, summary(known, records, scale)


def summary(known: dict[str, VideoTask], records: list[dict], scale: dict) -> dict[str, dict]:
    """Worst over unknowns of the median over videos, worst case, and what shares are solved."""
    figures: dict[str, dict] = {}
    for name in dict.fromkeys(r["task"] for r in records):
        part = [r for r in records if r["task"] == name and not r["noise"]]
        errors = np.array([list(r["errors"].values()) for r in part])
        figures[f"{name}_rel_err"] = figure(float(np.median(errors, 0).max()), goal=CLOSE)
        figures[f"{name}_worst"] = figure(float(errors.max()))
        figures[f"{name}_videos_solved"] = figure(float((errors.max(1) < CLOSE).mean()))
        figures[f"{name}_lone_starts_solved"] = figure(float(np.mean([r["alone"] for r in part])))
        z = np.array([list(r["z"].values()) for r in records if r["task"] == name and r["noise"]])
        if z.size:
            figures[f"{name}_z_rms"] = figure(float(np.sqrt(np.mean(z**2))), goal=1.2)
            figures[f"{name}_z_95"] = figure(float(np.quantile(np.abs(z), 0.95)), goal=2.3)
    if "ball" in known:
        space, part = known["ball"].space(), [r for r in records if r["task"] == "ball"]
        at = space.names.index("ground.dissipation")
        restitution_errors = [_restitution(r["truth"][at], r["errors"]["ground.dissipation"]) for r in part]
        if restitution_errors:
            figures["ball_restitution_err"] = figure(float(np.max(restitution_errors)), goal=CLOSE)
    flagged = scale["rank"] == 2 and len(scale["null"]) == 1
    figures["mass_scale_flagged"] = figure(float(flagged), goal=1, ok=flagged)
    return figures


def _restitution(dissipation: float, error: float) -> float:
    """Error of the restitution at `IMPACT` that an error of the dissipation, relative, makes."""
    return abs(
        restitution.of_dissipation(dissipation * (1 + error), IMPACT) - restitution.of_dissipation(dissipation, IMPACT)
    )


SHOWN = 8  # frames of a video on the sheet


def draw(out: Path, tasks: Sequence[VideoTask], records: Sequence[dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    error_text = (
        "One dot per video of float frames; angles, rates and velocities as shares of their range, all else relative "
        "to the truth. Line: the goal."
    )
    figures = {
        "videos": (lambda: _videos(tasks, records), "Videos", "First video of each task at its truth, evenly spaced."),
        "errors": (lambda: _errors(tasks, records), "Errors of every unknown", error_text),
    }
    noisy = [task for task in tasks if any(r["noise"] and r["task"] == task.name for r in records)]
    if noisy:
        text = "8-bit frames with noise of σ = 1/255: errors over the Cramér–Rao bound; two in three within ± 1."
        figures["noise"] = (lambda: _noise(noisy, records), "Errors with noise", text)
    return write_figures(out, figures)


def _videos(tasks: Sequence[VideoTask], records: Sequence[dict]) -> Figure:
    sheet = new_figure(9, 1.25 * len(tasks) + 0.2)
    spots = sheet.subplots(len(tasks), SHOWN, squeeze=False)
    for row, task in zip(spots, tasks, strict=True):
        truth = next(r["truth"] for r in records if r["task"] == task.name)
        space, frames = task.space(), task.scene.timing.frames
        model = model_for(task.scene, space)
        trajectory = rollout_of(model, space, space.inner(torch.tensor(truth, dtype=torch.float64)), frames)
        indices = np.linspace(0, frames - 1, SHOWN).round().astype(int).tolist()
        for ax, image, k in zip(row, synthetic.render_video(task.scene, trajectory.at(indices)), indices, strict=True):
            ax.imshow(image.clamp(0, 1).numpy(), interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.set_xlabel(f"{k / task.scene.timing.fps:.2f} s", fontsize=7, labelpad=1)
        row[0].set_ylabel(task.name, fontsize=8)
    return sheet


def _errors(tasks: Sequence[VideoTask], records: Sequence[dict]) -> Figure:
    return _by_unknown(tasks, [r for r in records if not r["noise"]], "errors")


def _noise(tasks: Sequence[VideoTask], records: Sequence[dict]) -> Figure:
    return _by_unknown(tasks, [r for r in records if r["noise"]], "z")


def _by_unknown(tasks: Sequence[VideoTask], records: Sequence[dict], key: str) -> Figure:
    """One column of dots for each unknown of each task: "errors" (logarithmic) or "z"."""
    figure = new_figure(9, 4.2)
    ax, labels = figure.subplots(), []
    for k, task in enumerate(tasks):
        part = [r[key] for r in records if r["task"] == task.name]
        for name in task.space().names:
            values = np.array([r[name] for r in part])
            x = len(labels) + (np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else np.zeros(1))
            y = np.maximum(values, ERROR_FLOOR) if key == "errors" else values
            ax.plot(x, y, ".", ms=4, color=(BLUE, ORANGE)[k % 2], alpha=0.7)
            labels.append(f"{task.name}: {_short(name)}")
    if key == "errors":
        ax.axhline(CLOSE, lw=0.8, color=GREY)
        ax.set_yscale("log")
    else:
        ax.axhspan(-1, 1, color="#e5e7eb", lw=0, zorder=0)
    ax.set_xticks(range(len(labels)), labels, rotation=60, ha="right", rotation_mode="anchor", fontsize=7)
    ax.set_ylabel("error" if key == "errors" else "error / bound")
    return figure


def _short(name: str) -> str:
    """An unknown without the body it belongs to."""
    owner, _, key = name.partition(".")
    return "gravity" if owner == "gravity" else key.replace("_", " ")
