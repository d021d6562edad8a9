"""Plots of the experiment on joints: arms and their fits, errors, and the chain compared with Newton's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.identification import synthetic
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.visualization import overlay_video
from gradsim_reproduction.plotting import (
    BLUE,
    GREEN,
    ORANGE,
    blended_frames,
    dots,
    image_grid,
    new_figure,
    true_rollout,
    write_figures,
)

TITLES = {"float": "silhouettes, float", "8bit": "8-bit film with noise", "foreign": "other renderer and steps"}
COLORS = {"float": BLUE, "8bit": ORANGE, "foreign": GREEN}
PEERS = {"newton": ("Newton to exact", ORANGE, "s"), "gradsim": ("gradsim to exact", BLUE, "o"),
         "apart": ("one to the other", "#444444", "^")}  # fmt: skip
SHOWN, EVERY = 10, 5  # arms on the sheet; frames that are blended


def draw(out: Path, records: Sequence[Mapping], scenes: Mapping[int, Scene], peer: Mapping) -> dict[str, list[dict]]:
    """Write plots and videos; returns their entries for `result.json`."""
    figures = {
        "arms": (lambda: _arms(records, scenes), "Arms",
                 "The first arms at their true parameters; frames are blended, later ones stronger."),
        "errors": (lambda: _errors(records), "Errors", "One mark per unknown of an arm, by observation."),
    }  # fmt: skip
    if peer:
        text = "Largest distance of a centre of mass within half a second by step; exact is a fourth-order rollout."
        figures["chain"] = lambda: _chain(peer), "A chain of four links compared with Newton", text
    _write_videos(out, records, scenes)
    videos = [
        {"file": "side_by_side.webm", "text": "The first arm in 8-bit video (left) and its fit (right)."},
        {"file": "overlay.webm", "text": "Outline of the fit over the video."},
    ]
    return {"images": write_figures(out, figures), "videos": videos}


def _write_videos(out: Path, records: Sequence[Mapping], scenes: Mapping[int, Scene]) -> None:
    record = next(r for r in records if r["sight"] == "8bit")
    scene = scenes[record["number"]]
    true, fitted = (true_rollout(scene, record[key]) for key in ("truth", "values"))
    observed = synthetic.noisy_8bit(synthetic.render_video(scene, true), synthetic.NOMINAL_NOISE, record["number"])
    again = np.clip(np.rint(synthetic.render_video(scene, fitted).numpy() * 255), 0, 255).astype(np.uint8)
    with torch.no_grad():
        mask = Silhouettes.of(scene).union(fitted.surface, fitted.values)[0]
    overlay_video.write_videos(out, observed, again, mask.numpy(), scene.timing.fps)


def _arms(records: Sequence[Mapping], scenes: Mapping[int, Scene]) -> Figure:
    chosen = [r for r in records if r["sight"] == "float"][:SHOWN]
    columns = min(5, len(chosen))
    figure, cells = image_grid(len(chosen), columns, 1.8 * columns, 1.9)
    for ax, r in zip(cells, chosen, strict=False):
        scene = scenes[r["number"]]
        ax.imshow(blended_frames(scene, r["truth"], EVERY), interpolation="nearest")
        ax.set_title(scene.name, fontsize=7)
    return figure


def _errors(records: Sequence[Mapping]) -> Figure:
    names = list(records[0]["errors"])
    figure, rng = new_figure(8.6, 3.4), np.random.default_rng(0)
    ax = figure.subplots()
    for j, (sight, title) in enumerate(TITLES.items()):
        for k, name in enumerate(names):
            errors = [r["errors"][name] for r in records if r["sight"] == sight]
            dots(ax, k + 0.26 * (j - 1), errors, rng, 0.08, COLORS[sight])
        ax.plot([], [], "o", color=COLORS[sight], ms=4, mew=0, label=title)
    labels = [name.removeprefix("joints.").replace(".", "\n", 1) for name in names]
    ax.set(yscale="log", ylabel="relative error", xticks=range(len(names)), xticklabels=labels)
    ax.tick_params(axis="x", labelsize=7)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _chain(peer: Mapping) -> Figure:
    figure = new_figure(5.4, 3.2)
    ax, steps = figure.subplots(), np.array(peer["step"])
    for key, (label, colour, marker) in PEERS.items():
        ax.plot(steps, peer[key], marker=marker, ms=4, color=colour, label=label)
    ax.plot(steps, 0.6 * peer["apart"][-1] * steps / steps[-1], "--", color="black", lw=1, label="∝ step")
    ax.set(xscale="log", yscale="log", xlabel="step [s]", ylabel="largest distance [m]")
    ax.legend(fontsize=8)
    return figure
