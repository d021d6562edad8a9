"""Pictures of Fig. 7: three curves for each rasteriser, with a logarithmic inset, and the films."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from torch import Tensor

from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim_reproduction.plotting import BLUE, GREEN, ORANGE, new_figure, write_figures

COLOURS = {"colour": ORANGE, "shading": BLUE, "texture": GREEN}
NAMES = {"colour": "only colour", "shading": "shading", "texture": "texture"}
TITLES = {
    "softras": "SoftRas",
    "softras, rgb": "SoftRas without opacity",
    "aa": "exact coverage",
    "adam": "Adam",
    "sgd": "momentum",
}
SHOWN = 6  # objects on the sheet


def draw(out: Path, records: Sequence[dict], scenes: Sequence, truths: Sequence[Tensor]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    curve_text = "Mean over objects and starts; band: its standard error over objects. Inset: logarithmic."
    video_text = "At the true mass, every fourth frame, later ones stronger; by exact coverage."
    return write_figures(
        out,
        {
            "curves": (lambda: _curves(records), "Error of the mass", curve_text),
            "films": (lambda: _videos(scenes[:SHOWN], truths), "Videos", video_text),
        },
    )


def _curves(records: Sequence[dict]) -> Figure:
    kinds = list(dict.fromkeys((r["view"], r["optimiser"]) for r in records))
    columns = min(3, len(kinds))
    figure = new_figure(8.6, 0.5 + 2.6 * -(-len(kinds) // columns))
    spots = figure.subplots(-(-len(kinds) // columns), columns, sharey=True, squeeze=False)
    for ax in spots.flat[len(kinds) :]:
        ax.axis("off")
    for ax, kind in zip(spots.flat, kinds, strict=False):
        inset = ax.inset_axes((0.5, 0.62, 0.48, 0.36))  # above all curves
        own = [r for r in records if (r["view"], r["optimiser"]) == kind]
        for variant, colour in COLOURS.items():
            errors = np.array([r["errors"] for r in own if r["variant"] == variant]).mean(2)
            mean, spread = errors.mean(0), errors.std(0) / np.sqrt(max(1, len(errors) - 1))
            steps = np.arange(len(mean))
            ax.plot(steps, mean, color=colour, label=NAMES[variant])
            ax.fill_between(steps, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
            inset.plot(steps, mean, color=colour, lw=1)
        inset.set_yscale("log")
        inset.yaxis.set_minor_formatter(NullFormatter())
        inset.tick_params(labelsize=7)
        ax.set_title(", ".join(TITLES[name] for name in kind), fontsize=9)
        ax.set_xlabel("iterations")
        ax.set_ylim(0, 1.3)
    for ax in spots[:, 0]:
        ax.set_ylabel("relative error of the mass")
    figure.legend(*spots[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _videos(scenes: Sequence, truths: Sequence[Tensor]) -> Figure:
    figure = new_figure(8.6, 1.1 * len(COLOURS))
    spots = figure.subplots(len(COLOURS), len(scenes), squeeze=False)
    for ax in spots.flat:
        ax.axis("off")
    for column, (scene, truth) in zip(spots.T, zip(scenes, truths, strict=False), strict=True):
        with torch.no_grad():
            surface = Model(scene).rollout({"body.mass": truth}).surface
            for ax, variant in zip(column, COLOURS, strict=True):
                frames = Renderer.of(scene, shading=Shading.paper(variant)).picture(surface)
                image, seen = _blended(frames.rgb[0, ::4], frames.alpha[0, ::4]), frames.alpha[0].amax(0) > 0
                rows, columns = (seen.any(k).nonzero()[:, 0].tolist() for k in (1, 0))
                ax.imshow(image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], interpolation="nearest")
    for row, variant in zip(spots, COLOURS, strict=True):
        row[0].set_title(NAMES[variant], fontsize=8, loc="left")
    return figure


def _blended(rgb: Tensor, alpha: Tensor) -> np.ndarray:
    """Frames one over another (height, width, 3), early ones faint."""
    image = rgb[0] * 0 + 1
    for k, (colours, share) in enumerate(zip(rgb, alpha, strict=True)):
        strength = share * (0.3 + 0.7 * k / max(1, len(rgb) - 1))
        image = image + strength * (colours - image)
    return image.permute(1, 2, 0).clamp(0, 1).numpy()
