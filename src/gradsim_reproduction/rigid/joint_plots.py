"""Pictures of joint identification: errors beside the paper's, error bars, effort, and the scenes themselves."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.identification import synthetic
from gradsim.identification.api import placed
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_path
from gradsim_reproduction.rigid.joint_scenes import case

SYMBOLS = {"mass": "m", "stiffness": "$k_e$", "damping": "$k_d$", "friction_stiffness": "$k_f$", "friction": "μ"}
COLOURS = {"continuous": "#1d5fd0", "paper": "#c2410c"}
MARKERS = {"convex": "o", "other": "^"}
TITLES = {"float": "float frames", "8bit": "8-bit frames", "foreign": "another renderer, finer steps"}
STYLE = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
SHOWN = 12  # scenes on the sheet
FLOOR = 1e-16  # errors below are drawn there


def draw(out: Path, records: Sequence[Mapping], paper: Mapping[str, float], seed: int) -> list[dict]:
    """Write the pictures; returns what a report lists."""
    known = [r for r in records if r["identifiable"]]
    sheets = {
        "errors": (lambda: _errors(known, paper), "Errors of the identifiable scenes",
                   "One mark a scene; the bar is what the paper reports for gradSim."),
        "effort": (lambda: _effort(records), "Effort and starts",
                   "CPU time of a fit with 16 starts, and the share of starts that came to the answer on their own."),
        "scenes": (lambda: _scenes(records, seed, out / "meshes"), "Scenes",
                   "The first scenes at their true parameters, all frames blended, later ones stronger."),
    }  # fmt: skip
    if any(r["frames"] == "8bit" for r in known):
        figure = lambda: _bars([r for r in known if r["frames"] == "8bit"])
        sheets["error_bars"] = figure, "Errors over error bars, 8-bit frames", "Against the normal distribution."
    for name, (figure, _, _) in sheets.items():
        _save(out / f"{name}.png", figure)
    return [{"file": f"{name}.png", "title": title, "caption": text} for name, (_, title, text) in sheets.items()]


def _save(path: Path, figure: Callable[[], Figure]) -> None:
    with mpl.rc_context(STYLE), atomic_path(path) as draft:
        figure().savefig(draft, dpi=150, format="png")


def _errors(records: Sequence[Mapping], paper: Mapping[str, float]) -> Figure:
    kinds = list(dict.fromkeys(r["frames"] for r in records))
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    spots, rng = np.atleast_1d(figure.subplots(1, max(1, len(kinds)), sharey=True)), np.random.default_rng(0)
    for ax, kind in zip(spots, kinds, strict=False):
        for r in (r for r in records if r["frames"] == kind):
            errors = np.maximum(list(r["errors"].values()), FLOOR)
            x = np.arange(len(errors)) + rng.uniform(-0.28, 0.28, len(errors))
            ax.plot(x, errors, MARKERS[r["group"]], color=COLOURS[r["law"]], ms=3.5, alpha=0.65, mew=0)
        for k, value in enumerate(paper.values()):
            ax.plot([k - 0.38, k + 0.38], [value, value], color="black", lw=2)
        ax.set(yscale="log", title=TITLES[kind], xticks=range(len(SYMBOLS)), xticklabels=SYMBOLS.values())
    spots[0].set_ylabel("relative error")
    for law, colour in COLOURS.items():
        for group, marker in MARKERS.items():
            spots[0].plot([], [], marker, color=colour, ms=4, mew=0, label=f"{law} law, {_named(group)}")
    spots[0].plot([], [], color="black", lw=2, label="gradSim, paper")
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _named(group: str) -> str:
    return {"convex": "convex", "other": "not convex"}[group]


def _effort(records: Sequence[Mapping]) -> Figure:
    figure = Figure(figsize=(8.6, 2.8), layout="constrained")
    seconds, share = figure.subplots(1, 2)
    for k, (kind, title) in enumerate((kind, t) for kind, t in TITLES.items()):
        part = [r for r in records if r["frames"] == kind]
        if not part:
            continue
        values = np.sort([r["cpu_seconds"] for r in part])
        seconds.step(values, np.linspace(0, 1, len(values)), where="post", color=f"C{k}", label=title)
        values = np.sort([r["converged"] for r in part])
        share.step(values, np.linspace(0, 1, len(values)), where="post", color=f"C{k}", label=title)
    seconds.set(xscale="log", xlabel="CPU time of a fit [s]", ylabel="share of fits")
    share.set(xlabel="starts that converged on their own", xlim=(0, 1))
    seconds.legend()
    return figure


def _bars(records: Sequence[Mapping]) -> Figure:
    figure = Figure(figsize=(8.6, 2.8), layout="constrained")
    ax = figure.subplots()
    grid = np.linspace(-4, 4, 200)
    for nonsmooth, colour in ((False, "#1d5fd0"), (True, "#c2410c")):
        z = [z for r in records if r["kinked"] == nonsmooth for z in r["z"].values()]
        if z:
            label = "kinked likelihood" if nonsmooth else "smooth likelihood"
            bins = np.linspace(-4, 4, 33)
            ax.hist(np.clip(z, -4, 4), bins=bins, density=True, histtype="step", color=colour, label=label, lw=1.6)
    ax.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1, label="normal")
    ax.set(xlabel="error / standard deviation", ylabel="density")
    ax.legend()
    return figure


def _scenes(records: Sequence[Mapping], seed: int, folder: Path) -> Figure:
    chosen = [r for r in records if r["frames"] == records[0]["frames"]][:SHOWN]
    figure = Figure(figsize=(8.6, 2.3 * -(-len(chosen) // 4)), layout="constrained")
    for ax in (spots := figure.subplots(-(-len(chosen) // 4), 4, squeeze=False)).flat:
        ax.axis("off")
    for ax, r in zip(spots.flat, chosen, strict=False):
        one = case(r["law"], r["shape"], r["number"], seed, folder)
        with torch.no_grad():
            trajectory = Model(one.scene).rollout(placed(one.scene, r["truth"]))
        frames = synthetic.film(one.scene, trajectory).numpy()
        background = np.array(one.scene.background)
        weight = np.linspace(0.25, 1, len(frames))[:, None, None, None]
        ax.imshow(np.clip(background + ((frames - background) * weight)[::4].min(0), 0, 1), interpolation="nearest")
        ax.set_title(f"{r['shape']} {r['number']}, {r['law']}", fontsize=7)
    return figure
