"""Pictures of the experiment on joints: arms and their fits, errors, and the chain beside Newton's."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.identification import synthetic
from gradsim.identification.api import placed
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene
from gradsim.visualization import overlay_video

STYLE: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
COLOURS = {"float": "#1d5fd0", "8bit": "#c2410c", "foreign": "#15803d"}
TITLES = {"float": "silhouettes, float", "8bit": "8-bit film with noise", "foreign": "other renderer and steps"}
PEERS = {"newton": ("Newton to exact", "#c2410c", "s"), "gradsim": ("gradsim to exact", "#1d5fd0", "o"),
         "apart": ("one to the other", "#444444", "^")}  # fmt: skip
SHOWN, EVERY = 10, 5  # arms on the sheet; frames that are blended
FLOOR = 1e-16


def draw(out: Path, records: Sequence[Mapping], scenes: Mapping[int, Scene], peer: Mapping) -> dict[str, list[dict]]:
    """Write pictures and films; what a result lists of them."""
    sheets = {
        "arms": (lambda: _arms(records, scenes), "Arms",
                 "The first arms at their true parameters, frames blended, later ones stronger."),
        "errors": (lambda: _errors(records), "Errors", "One mark a number of an arm, by what the fit sees."),
    }  # fmt: skip
    if peer:
        text = (
            "Largest distance of a centre of mass in half a second by step; the exact one is a rollout of fourth order."
        )
        sheets["chain"] = lambda: _chain(peer), "A chain of four links beside Newton", text
    for name, (picture, _, _) in sheets.items():
        with mpl.rc_context(STYLE), atomic_path(out / f"{name}.png") as draft:
            picture().savefig(draft, dpi=150, format="png")
    _films(out, records, scenes)
    pictures = [{"file": f"{name}.png", "title": title, "caption": text} for name, (_, title, text) in sheets.items()]
    shown = [
        {"file": "side_by_side.webm", "text": "The first arm on 8-bit film, left, and its fit, right."},
        {"file": "overlay.webm", "text": "Outline of the fit over the film."},
    ]
    return {"pictures": pictures, "films": shown}


def _moving(scene: Scene, values: Mapping[str, float]):
    with torch.no_grad():
        return Model(scene).rollout(placed(scene, dict(values)))


def _films(out: Path, records: Sequence[Mapping], scenes: Mapping[int, Scene]) -> None:
    record = next(r for r in records if r["sight"] == "8bit")
    scene = scenes[record["number"]]
    true, fitted = (_moving(scene, record[key]) for key in ("truth", "values"))
    seen = synthetic.noisy_8bit(synthetic.film(scene, true), synthetic.NOMINAL, record["number"])
    again = np.clip(np.rint(synthetic.film(scene, fitted).numpy() * 255), 0, 255).astype(np.uint8)
    with torch.no_grad():
        mask = Silhouettes.of(scene).union(fitted.surface, fitted.values)[0]
    overlay_video.write_films(out, seen, again, mask.numpy(), scene.timing.fps)


def _arms(records: Sequence[Mapping], scenes: Mapping[int, Scene]) -> Figure:
    chosen = [r for r in records if r["sight"] == "float"][:SHOWN]
    columns = min(5, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(1.8 * columns, 1.9 * rows), layout="constrained")
    for ax in (spots := figure.subplots(rows, columns, squeeze=False)).flat:
        ax.axis("off")
    for ax, r in zip(spots.flat, chosen, strict=False):
        scene = scenes[r["number"]]
        frames = synthetic.film(scene, _moving(scene, r["truth"])).numpy()[::EVERY]
        background = np.array(scene.background)
        weight = np.linspace(0.3, 1, len(frames))[:, None, None, None]
        ax.imshow(np.clip(background + ((frames - background) * weight).min(0), 0, 1), interpolation="nearest")
        ax.set_title(scene.name, fontsize=7)
    return figure


def _errors(records: Sequence[Mapping]) -> Figure:
    names = list(records[0]["errors"])
    figure, rng = Figure(figsize=(8.6, 3.4), layout="constrained"), np.random.default_rng(0)
    ax = figure.subplots()
    for j, (sight, title) in enumerate(TITLES.items()):
        for k, name in enumerate(names):
            found = [r["errors"][name] for r in records if r["sight"] == sight]
            x = k + 0.26 * (j - 1) + rng.uniform(-0.08, 0.08, len(found))
            ax.plot(x, np.maximum(found, FLOOR), "o", color=COLOURS[sight], ms=3.5, alpha=0.7, mew=0)
        ax.plot([], [], "o", color=COLOURS[sight], ms=4, mew=0, label=title)
    labels = [name.removeprefix("joints.").replace(".", "\n", 1) for name in names]
    ax.set(yscale="log", ylabel="relative error", xticks=range(len(names)), xticklabels=labels)
    ax.tick_params(axis="x", labelsize=7)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _chain(peer: Mapping) -> Figure:
    figure = Figure(figsize=(5.4, 3.2), layout="constrained")
    ax, steps = figure.subplots(), np.array(peer["step"])
    for key, (label, colour, marker) in PEERS.items():
        ax.plot(steps, peer[key], marker=marker, ms=4, color=colour, label=label)
    ax.plot(steps, 0.6 * peer["apart"][-1] * steps / steps[-1], "--", color="black", lw=1, label="∝ step")
    ax.set(xscale="log", yscale="log", xlabel="step [s]", ylabel="largest distance [m]")
    ax.legend(fontsize=8)
    return figure
