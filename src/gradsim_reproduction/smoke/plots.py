"""Pictures of the smoke that forms pictures: what each is after some iterations, how it moves, and mean squares."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from gradsim.video import write_preview
from gradsim_reproduction.plotting import BLUE, GREEN, ORANGE, Draw, new_figure, write_figures

COLOURS = {"ring": BLUE, "letter": ORANGE, "blobs": GREEN}
SMOKE = mpl.colormaps["magma"]
INSTANTS = 8  # of a strip
HEIGHT, FPS, REST = 256, 25, 25  # [px], [1/s], frames for which films stand at the end
ORIGINAL = ((0, 1.0), (30, 0.036), (49, 0.031))  # iterations, share of the first mean square


def draw(out: Path, records: Sequence[dict]) -> dict:
    """Write plots and videos; returns their entries for `result.json`."""
    curve_text = (
        "Every forward and backward pass, line searches included, relative to the mean square of the initial disc. "
        "Crosses: the original, on its own image at 110 x 110."
    )
    figures: dict[str, tuple[Draw, str, str]] = {"curves": (lambda: _curves(records), "Mean squares", curve_text)}
    videos = []
    for n in dict.fromkeys(r["cells"] for r in records):
        names = [r["target"] for r in records if r["cells"] == n]
        arrays = {name: np.load(out / f"{name}_{n}.npz") for name in names}
        text = "Left: the image. Then the smoke after 99 steps, by the best velocity after this many iterations."
        figures[f"iterations_{n}"] = (lambda a=arrays: _iterations(a), f"{n} x {n} cells", text)
        text = "From the disc to the image, by the best velocity."
        figures[f"motion_{n}"] = (lambda a=arrays: _motion(a), f"Motion, {n} x {n} cells", text)
        write_preview(out / f"smoke_{n}.webm", _video(list(arrays.values())), FPS)
        videos.append({"file": f"smoke_{n}.webm", "text": f"{', '.join(names)}: image and smoke, {n} x {n} cells."})
    return {"pictures": write_figures(out, figures), "films": videos}


def _curves(records: Sequence[dict]) -> Figure:
    figure = new_figure(8.6, 4.2)
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
    figure = new_figure(1.45 * len(columns), 1.5 * len(kept) + 0.2)
    for row, own in zip(figure.subplots(len(kept), len(columns), squeeze=False), kept.values(), strict=True):
        images = [own["picture"], own["start"], *(own[f"after_{k}"] for k in counts)]
        _row(row, images)
    for axes, title in zip(figure.axes, columns, strict=False):
        axes.set_title(title, fontsize=8)
    return figure


def _motion(kept: dict) -> Figure:
    figure = new_figure(1.45 * INSTANTS, 1.5 * len(kept) + 0.2)
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


def _video(kept: Sequence) -> np.ndarray:
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
