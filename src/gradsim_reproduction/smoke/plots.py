"""Pictures of the smoke that forms pictures: what each is after some iterations, how it moves, and mean squares."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from gradsim import video as videos
from gradsim.runtime.atomic import atomic_path

COLOURS = {"ring": "#1d5fd0", "letter": "#c2410c", "blobs": "#15803d"}
STYLE: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
SMOKE = mpl.colormaps["magma"]
INSTANTS = 8  # of a strip
HEIGHT, FPS, REST = 256, 25, 25  # [px], [1/s], frames for which films stand at the end
ORIGINAL = ((0, 1.0), (30, 0.036), (49, 0.031))  # iterations, share of the first mean square


def draw(out: Path, records: Sequence[dict]) -> dict:
    """Write pictures and films into the folder; returns what a report lists."""
    pictures, films = [], []
    with mpl.rc_context(STYLE):
        pictures.append(_saved(out, "curves", _curves(records), "Mean squares", (
            "Raw, of every forward and backward pass, line searches included, over that of the disc at the start. Crosses: the "
            "original, on its own picture at 110 x 110."
        )))  # fmt: skip
        for n in dict.fromkeys(r["cells"] for r in records):
            names = [r["target"] for r in records if r["cells"] == n]
            kept = {name: np.load(out / f"{name}_{n}.npz") for name in names}
            text = "Left: the picture. Then the smoke after 99 steps, by the best velocity of so many iterations."
            pictures.append(_saved(out, f"iterations_{n}", _iterations(kept), f"{n} x {n} cells", text))
            text = "From the disc to the picture, by the best velocity."
            pictures.append(_saved(out, f"motion_{n}", _motion(kept), f"Motion, {n} x {n} cells", text))
            videos.write_preview(out / f"smoke_{n}.webm", _film(list(kept.values())), FPS)
            films.append(
                {"file": f"smoke_{n}.webm", "text": f"{', '.join(names)}: picture and smoke, {n} x {n} cells."}
            )
    return {"pictures": pictures, "films": films}


def _saved(out: Path, name: str, figure: Figure, title: str, caption: str) -> dict:
    with atomic_path(out / f"{name}.png") as draft:
        figure.savefig(draft, dpi=150, format="png")
    return {"file": f"{name}.png", "title": title, "caption": caption}


def _curves(records: Sequence[dict]) -> Figure:
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    axes = figure.subplots()
    sizes = list(dict.fromkeys(r["cells"] for r in records))
    for r in records:
        line = "-" if r["cells"] == sizes[0] else "--"
        share = np.array(r["curve"]) / r["first"]
        label = f"{r['target']}, {r['cells']}²"
        axes.plot(np.arange(1, len(share) + 1), share, line, color=COLOURS[r["target"]], lw=1.3, label=label)
    axes.plot(*zip(*ORIGINAL, strict=True), "x", color="#111111", ms=7, label="original")
    axes.set(yscale="log", xlabel="iterations", ylabel="mean square over that of the disc")
    axes.grid(alpha=0.2)
    axes.legend(ncols=2)
    return figure


def _iterations(kept: dict) -> Figure:
    counts = sorted(
        {int(k.removeprefix("after_")) for own in kept.values() for k in own.files if k.startswith("after_")}
    )
    columns = ["picture", "disc", *(f"{k} iterations" if k > 1 else "1 iteration" for k in counts)]
    figure = Figure(figsize=(1.45 * len(columns), 1.5 * len(kept) + 0.2), layout="constrained")
    for row, own in zip(figure.subplots(len(kept), len(columns), squeeze=False), kept.values(), strict=True):
        images = [own["picture"], own["start"], *(own[f"after_{k}"] for k in counts)]
        _row(row, images)
    for axes, title in zip(figure.axes, columns, strict=False):
        axes.set_title(title, fontsize=8)
    return figure


def _motion(kept: dict) -> Figure:
    figure = Figure(figsize=(1.45 * INSTANTS, 1.5 * len(kept) + 0.2), layout="constrained")
    for row, own in zip(figure.subplots(len(kept), INSTANTS, squeeze=False), kept.values(), strict=True):
        film = own["film"]
        steps = np.linspace(0, len(film) - 1, INSTANTS).round().astype(int)
        _row(row, film[steps])
    for axes, step in zip(figure.axes, steps, strict=False):
        axes.set_title(f"step {step}", fontsize=8)
    return figure


def _row(row: Sequence, images: Sequence[np.ndarray]) -> None:
    for axes, image in zip(row, images, strict=True):
        axes.imshow(image, cmap=SMOKE, vmin=0, vmax=1, interpolation="nearest")
        axes.axis("off")


def _film(kept: Sequence) -> np.ndarray:
    """Pictures above, smoke below (frames, height, width, 3) uint8."""
    times = max(1, HEIGHT // len(kept[0]["picture"]))
    columns = []
    for own in kept:
        film = own["film"]
        film = np.concatenate([film, film[-1:].repeat(REST, 0)])
        above = own["picture"][None].repeat(len(film), 0)
        columns.append(np.pad(np.concatenate([above, film], 1), ((0, 0), (1, 1), (1, 1)), constant_values=1.0))
    frames = np.concatenate(columns, 2).repeat(times, 1).repeat(times, 2)
    return (SMOKE(frames.clip(0, 1))[..., :3] * 255).round().astype(np.uint8)
