"""The ConvNet's losses over the epochs, and what it says of the mass."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from gradsim.runtime.atomic import atomic_path

STYLE: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 9, "legend.frameon": False}
BLUE, ORANGE = "#1d5fd0", "#c2410c"
MIDDLE = 1 / 3  # mean square of a label, uniform in [-1, 1]: the loss of the middle of every range


def draw(out: Path, curves: Sequence[dict], rows: Sequence[dict]) -> list[dict]:
    """Write the picture; returns what a report lists."""
    with mpl.rc_context(STYLE):
        page = Figure(figsize=(8.0, 3.2), layout="constrained")
        left, right = page.subplots(1, 2)
        epochs = np.arange(1, len(curves) + 1)
        left.plot(epochs, [c["train"] for c in curves], color=BLUE, label="training", marker="." * (len(curves) < 30))
        left.plot(epochs, [c["test"] for c in curves], color=ORANGE, label="test", marker="." * (len(curves) < 30))
        left.axhline(MIDDLE, color="#6b7280", linestyle=":", label="middle of the ranges")
        left.axvspan(0.5, 0.5 + sum(c["whole"] for c in curves), color="#e5e7eb", label="whole network")
        left.set(xlabel="epoch", ylabel="mean square of labels", ylim=(0, None))
        left.legend()
        truth, said = (np.array([r[key]["body.mass"] for r in rows]) for key in ("truth", "values"))
        right.plot(truth, said, ".", color=ORANGE)
        ends = [truth.min(), truth.max()]
        right.plot(ends, ends, color="#6b7280", linestyle=":")
        right.set(xlabel="true mass [kg]", ylabel="predicted [kg]", title="test samples")
        with atomic_path(Path(out) / "convnet.png") as draft:
            page.savefig(draft, dpi=150, format="png")
    caption = (
        "Labels are parameters scaled to [-1, 1] over their ranges. After the first part, the backbone stays as it is."
    )
    return [{"file": "convnet.png", "title": "Training of the ConvNet, and its masses", "caption": caption}]
