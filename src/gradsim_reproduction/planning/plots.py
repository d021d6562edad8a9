"""Plot of predicted against achieved standard deviations."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from gradsim_reproduction.plotting import SAFE, new_figure, write_figures


def draw(out: Path, records: Sequence[Mapping]) -> list[dict]:
    """Write the plot; returns its entry for `result.json`."""
    caption = f"{len(records)} plans: standard deviation that each predicts for its design at a truth, and the RMS error of fits of noisy videos of it."
    return write_figures(out, {"predicted": (lambda: _scatter(records), "Predicted and achieved", caption)})


def _scatter(records: Sequence[Mapping]) -> Figure:
    figure = new_figure(6.0, 5.0)
    axes = figure.subplots()
    families = list(dict.fromkeys(r["family"] for r in records))
    for k, family in enumerate(families):
        part = [r for r in records if r["family"] == family]
        x, y = ([100 * r[key] for r in part] for key in ("achieved", "predicted"))
        axes.plot(x, y, "o", color=SAFE[k % len(SAFE)], label=family, ms=5)
    both = [100 * r[key] for r in records for key in ("achieved", "predicted")]
    ends = [0.7 * min(both), 1.4 * max(both)]
    axes.plot(ends, ends, "-", color="0.4", lw=0.8)
    for factor in (0.7, 1.4):
        axes.plot(ends, [factor * x for x in ends], ":", color="0.6", lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="RMS error of refits [%]", ylabel="predicted standard deviation [%]")
    axes.legend(fontsize=8)
    return figure
