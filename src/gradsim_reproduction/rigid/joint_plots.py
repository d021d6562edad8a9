"""Plots of joint identification: errors next to the paper's, error bars, effort, and the scenes themselves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import (
    BLUE,
    ORANGE,
    blended_frames,
    dots,
    image_grid,
    new_figure,
    write_figures,
    z_histogram,
)
from gradsim_reproduction.rigid.joint_scenes import case
from gradsim_reproduction.rigid.table1_plots import z_by_smoothness

SYMBOLS = {"mass": "m", "stiffness": "$k_e$", "damping": "$k_d$", "friction_stiffness": "$k_f$", "friction": "μ"}
COLORS = {"continuous": BLUE, "paper": ORANGE}
MARKERS = {"convex": ("o", "convex"), "other": ("^", "not convex")}
TITLES = {"float": "float frames", "8bit": "8-bit frames", "foreign": "another renderer, finer steps"}
SHOWN = 12  # scenes on the sheet


def draw(out: Path, records: Sequence[Mapping], paper: Mapping[str, float], seed: int) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    known = [r for r in records if r["identifiable"]]
    figures = {
        "errors": (lambda: _errors(known, paper), "Errors of the identifiable scenes",
                   "One mark per scene; the bar is gradSim as reported in the paper."),
        "effort": (lambda: _effort(records), "Effort and starts",
                   "CPU time of a fit with 16 starts, and the share of starts that converged on their own."),
        "scenes": (lambda: _scenes(records, seed, out / "meshes"), "Scenes",
                   "The first scenes at their true parameters; frames are blended, later ones stronger."),
    }  # fmt: skip
    if noisy := [r for r in known if r["frames"] == "8bit"]:
        draw_z = lambda: z_histogram(z_by_smoothness(noisy))
        figures["error_bars"] = draw_z, "Errors over error bars, 8-bit frames", "Against the normal distribution."
    return write_figures(out, figures)


def _errors(records: Sequence[Mapping], paper: Mapping[str, float]) -> Figure:
    kinds = list(dict.fromkeys(r["frames"] for r in records))
    figure = new_figure(8.6, 3.6)
    spots, rng = np.atleast_1d(figure.subplots(1, max(1, len(kinds)), sharey=True)), np.random.default_rng(0)
    for ax, kind in zip(spots, kinds, strict=False):
        for r in (r for r in records if r["frames"] == kind):
            for k, error in enumerate(r["errors"].values()):
                dots(ax, k, [error], rng, 0.28, COLORS[r["law"]], marker=MARKERS[r["group"]][0])
        for k, value in enumerate(paper.values()):
            ax.plot([k - 0.38, k + 0.38], [value, value], color="black", lw=2)
        ax.set(yscale="log", title=TITLES[kind], xticks=range(len(SYMBOLS)), xticklabels=SYMBOLS.values())
    spots[0].set_ylabel("relative error")
    for law, colour in COLORS.items():
        for marker, group in MARKERS.values():
            spots[0].plot([], [], marker, color=colour, ms=4, mew=0, label=f"{law} law, {group}")
    spots[0].plot([], [], color="black", lw=2, label="gradSim, paper")
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _effort(records: Sequence[Mapping]) -> Figure:
    figure = new_figure(8.6, 2.8)
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


def _scenes(records: Sequence[Mapping], seed: int, folder: Path) -> Figure:
    chosen = [r for r in records if r["frames"] == records[0]["frames"]][:SHOWN]
    figure, cells = image_grid(len(chosen), 4, 8.6, 2.3)
    for ax, r in zip(cells, chosen, strict=False):
        scene = case(r["law"], r["shape"], r["number"], seed, folder).scene
        ax.imshow(blended_frames(scene, r["truth"], 4), interpolation="nearest")
        ax.set_title(f"{r['shape']} {r['number']}, {r['law']}", fontsize=7)
    return figure
