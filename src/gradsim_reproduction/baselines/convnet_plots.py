"""The ConvNet's losses over the epochs, and what it says of the mass."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import BLUE, GREY, ORANGE, new_figure, write_figures

MIDDLE = 1 / 3  # mean square of a label, uniform in [-1, 1]: the loss of the middle of every range


def draw(out: Path, curves: Sequence[dict], rows: Sequence[dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    caption = (
        "Labels are parameters scaled to [-1, 1] over their ranges. The backbone is frozen after the shaded epochs."
    )
    return write_figures(
        out, {"convnet": (lambda: _training(curves, rows), "Training of the ConvNet, and its masses", caption)}
    )


def _training(curves: Sequence[dict], rows: Sequence[dict]) -> Figure:
    figure = new_figure(8.0, 3.2)
    left, right = figure.subplots(1, 2)
    epochs = np.arange(1, len(curves) + 1)
    for key, label, color in (("train", "training", BLUE), ("test", "test", ORANGE)):
        left.plot(epochs, [c[key] for c in curves], color=color, label=label, marker="." * (len(curves) < 30))
    left.axhline(MIDDLE, color=GREY, linestyle=":", label="middle of the ranges")
    left.axvspan(0.5, 0.5 + sum(c["whole"] for c in curves), color="#e5e7eb", label="whole network")
    left.set(xlabel="epoch", ylabel="mean square of labels", ylim=(0, None))
    left.legend()
    truth, predicted = (np.array([r[key]["body.mass"] for r in rows]) for key in ("truth", "values"))
    right.plot(truth, predicted, ".", color=ORANGE)
    ends = [truth.min(), truth.max()]
    right.plot(ends, ends, color=GREY, linestyle=":")
    right.set(xlabel="true mass [kg]", ylabel="predicted [kg]", title="test samples")
    return figure
