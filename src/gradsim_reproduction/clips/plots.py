"""Plots of `reproduce clips`: errors by kind, and one frame of every kind with the outline of its mask."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim import video
from gradsim.errors import InputError, Status
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.clip import Clip
from gradsim_reproduction.clips.scenes import KINDS, recording
from gradsim_reproduction.plotting import SAFE, image_grid, new_figure, unit_normal, write_figures

BINS = np.linspace(-5, 5, 26)
LINE = "#ffe000"


def draw(out: Path, records: Sequence[Mapping], seed: int) -> list[dict[str, str]]:
    """Write the plots; returns their entries for `result.json`."""
    return write_figures(
        out,
        {
            "scores": (
                lambda: _scores(records),
                "Errors over error bars",
                "Right models by kind, against the unit normal; fits that say mismatch in orange.",
            ),
            "videos": (
                lambda: _videos(out, records, seed),
                "Videos",
                "A frame of the first video of each kind, with the outline at which its mask is one half.",
            ),
        },
    )


def _scores(records: Sequence[Mapping]) -> Figure:
    figure, columns = new_figure(9.2, 6.4), 3
    axes = figure.subplots(-(-len(KINDS) // columns), columns, sharex=True, squeeze=False)
    for spare in axes.flat[len(KINDS) :]:
        spare.remove()
    for ax, kind in zip(axes.flat, KINDS, strict=False):
        for statuses, color in (({Status.OK, Status.UNIDENTIFIABLE}, SAFE[0]), ({Status.MISMATCH}, SAFE[1])):
            part = [r for r in records if r["kind"] == kind and not r["fault"] and r["status"] in statuses]
            z = np.nan_to_num([u["z"] for r in part for u in r["unknowns"].values()], nan=5.0)
            if len(z):
                ax.hist(z.clip(-4.99, 4.99), BINS.tolist(), density=True, color=color, alpha=0.7)
        unit_normal(ax)
        ax.set(title=kind, yticks=[])
    figure.supxlabel("error / standard deviation", fontsize=9)
    return figure


def _videos(out: Path, records: Sequence[Mapping], seed: int) -> Figure:
    figure, cells = image_grid(len(KINDS), 4, 9.2, 1.8)
    for ax, kind in zip(cells, KINDS, strict=False):
        numbers = [r["number"] for r in records if r["kind"] == kind and not r["fault"] and r["unknowns"]]
        if not numbers:
            continue
        image, mask = _frame(out, kind, min(numbers), seed)
        ax.imshow(image)
        ax.contour(mask, [0.5], colors=LINE, linewidths=0.8)
        ax.set_title(f"{kind} {min(numbers)}", fontsize=8)
    return figure


def _frame(out: Path, kind: str, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The middle frame of a video, and its mask."""
    one = recording(kind, number, seed)
    path, empty = (out / "videos" / f"{one.name}{suffix}.mp4" for suffix in ("", " empty"))
    try:
        masks = Clip(path, background="median", noise="auto").observe(one.scene)
    except InputError:
        masks = Clip(path, background=empty, noise="auto").observe(one.scene)
    k = len(one.times) // 2
    assert isinstance(masks, Masks)
    wide = masks.silhouettes.binning
    return video.read(path).frames[k], masks.masks[k].numpy().repeat(wide, 0).repeat(wide, 1)
