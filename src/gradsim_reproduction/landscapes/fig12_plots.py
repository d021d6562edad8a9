"""Pictures of Fig. 12: curves by length and by rate, and what length and rate do to curvature, basin and bound."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import FAINT, SAFE, new_figure, write_figures

MARKS: dict[str, tuple[str, str]] = dict(zip(("drift", "slide", "tumble"), zip(SAFE, "os^", strict=False), strict=True))
CURVES_WORDS = (
    "Mean squared difference of pixels, by exact coverage, over the mass; the truth is 1 kg. Above: films of 30 Hz by length. "
    "Below: 2 s by rate, and the first and last frame alone. Dots: minima other than the truth's."
)
TREND_WORDS = (
    "By length, for films of 15, 30, 60 and 120 Hz (fainter to stronger) and for the first and last frame alone (dotted). A "
    "longer film of a moving body is steeper at the truth, tells the mass better, and has a narrower basin."
)


def draw(out: Path, films: Mapping[str, dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    return write_figures(
        out,
        {
            "lengths": (lambda: _curves(films), "Curves by length and rate", CURVES_WORDS),
            "trends": (lambda: _trends(films), "Influence of length and rate", TREND_WORDS),
        },
    )


def _parsed(films: Mapping[str, dict]) -> dict[str, dict[tuple[int, str], dict]]:
    """Curves by motion, then by (milliseconds, rate in words)."""
    split = lambda key: (int(key.split("ms_")[0]), key.split("ms_")[1].replace("hz", " Hz").replace("_", " "))
    return {kind: {split(key): curve for key, curve in part["films"].items()} for kind, part in films.items()}


def _curves(films: Mapping[str, dict]) -> Figure:
    figure = new_figure(8.6, 6.0)
    panels = figure.subplots(2, len(films), sharex=True, sharey="col")
    for column, (kind, curves) in zip(panels.T, _parsed(films).items(), strict=True):
        mass = np.array(films[kind]["mass"])
        spans = sorted({span for span, _ in curves})
        by_span = {f"{span / 1000:.2f} s": curves[span, "30 Hz"] for span in spans}
        by_rate = {rate: curve for (span, rate), curve in curves.items() if span == spans[-1]}
        for ax, some in zip(column, (by_span, by_rate), strict=True):
            ax.axvline(1, color=FAINT, lw=1, zorder=0)
            shades = mpl.colormaps["viridis"](np.linspace(0, 0.85, len(some)))
            for shade, (label, curve) in zip(shades, some.items(), strict=True):
                style = ":" if "last" in label else "-"
                ax.plot(mass, curve["loss"], style, color=shade, lw=1.2, label=label)
                others = [o for o in curve["minima"] if not o["end"] and o["place"] != curve["lowest"]]
                height = [o["loss"] * curve["largest"] for o in others]
                ax.plot([o["place"] for o in others], height, ".", color=shade, ms=3)
        column[0].set_title(kind, loc="left", fontsize=10, fontweight="bold")
        column[1].set_xlabel("mass [kg]")
    for ax, title in zip(panels[:, 0], ("30 Hz, by length", "2 s, by rate"), strict=True):
        ax.set_ylabel(f"{title}\nmean squared difference")
    for ax in panels[:, 0]:
        ax.legend(fontsize=7, loc="upper right")
    return figure


def _trends(films: Mapping[str, dict]) -> Figure:
    figure = new_figure(8.6, 3.4)
    panels = figure.subplots(1, 3)
    for kind, curves in _parsed(films).items():
        rates = dict.fromkeys(rate for _, rate in curves)
        for ax, (key, scale) in zip(panels, (("curvature", 1), ("share", 100), ("bound", 1000)), strict=True):
            for k, rate in enumerate(rates):
                some = {span / 1000: scale * c[key] for (span, r), c in curves.items() if r == rate}
                colour, mark = MARKS[kind]
                last = "last" in rate
                style = {"ls": ":" if last else "-", "alpha": 1.0 if last else 0.3 + 0.23 * k, "marker": mark, "ms": 3}
                ax.plot(list(some), list(some.values()), color=colour, label=kind if rate == "30 Hz" else None, **style)
    titles = ("curvature at the truth [1/kg²]", "basin [% of the range]", "bound on the mass [g]")
    for ax, title in zip(panels, titles, strict=True):
        ax.set(xlabel="length of the film [s]", yscale="linear" if "basin" in title else "log")
        ax.set_title(title, fontsize=9)
    panels[0].legend(fontsize=8)
    return figure
