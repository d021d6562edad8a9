"""Plots of the audit of gradients."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import DATA, FAINT, FIT, INK, WIDTH, new_figure, write_figures

COLOR = {"continuous": FIT, "paper": DATA}


def draw(out: Path, laws: dict, widths: Sequence[float], wide: float, sawteeth: dict) -> list[dict[str, str]]:
    """Write the images into a folder.

    Args:
        out: The folder.
        laws: By law: adjoint (by shape), difference (steps, worlds, widths), step [s].
        widths: Half widths of the secants.
        wide: Half width used as the trend.
        sawteeth: By law: shift, height and slope of one ball that bounces.

    Returns:
        File, title and caption of each image.
    """
    count = next(iter(laws.values()))["difference"].shape[1]
    return write_figures(
        out,
        {
            "steps": (
                lambda: _steps(laws, widths, wide),
                "Tangent against the trend",
                STEPS_TEXT.format(100 * wide, count),
            ),
            "sawteeth": (lambda: _sawteeth(sawteeth), "Why: one ball, one bounce", SAWTEETH_TEXT),
            "widths": (lambda: _widths(laws, widths), "On what scale a tangent holds", WIDTHS_TEXT),
            "adjoint": (lambda: _adjoint(laws), "Adjoint against forward sensitivities", ADJOINT_TEXT),
        },
    )


STEPS_TEXT = (
    "Relative difference of the tangent and the secant over ± {:g} % in a random direction of all parameters "
    "and the start, at the last of ten frames; {} random scenes with contact for each law. Lines: medians; "
    "bands: quartiles. In the paper's law the tangent differs from the trend at every step; in the continuous law it "
    "approaches the trend, down to the curvature of the trajectory over that width."
)
WIDTHS_TEXT = (
    "The same difference for secants of all widths. Where it is near 1, the tangent carries no information about the trend. "
    "In the paper's law it rises at the width of a tooth, which is the distance of one step, so a smaller step moves the "
    "tooth without removing it. In the continuous law narrow and wide secants agree better the smaller the step."
)
SAWTEETH_TEXT = (
    "A ball of 2 kg meets the ground at 3 m/s; 1920 steps a second, no gravity. Where in a step it touches decides how much "
    "of the paper's damping it feels, so the end is a sawtooth of the start, and its tangent (dashed) that of a tooth."
)
ADJOINT_TEXT = (
    "|⟨J v, w⟩ − ⟨v, Jᵀ w⟩| over the sizes of the terms, for every parameter of every scene over 24 frames: forward "
    "sensitivities and adjoint are two programs that compute the same derivative, to rounding."
)


def _quartiles(difference: torch.Tensor) -> np.ndarray:
    """(3, ...) over worlds, which are in the middle."""
    return torch.quantile(difference, torch.tensor([0.25, 0.5, 0.75]).double(), 1).numpy()


def _steps(laws: dict, widths: Sequence[float], wide: float) -> Figure:
    k = int(np.abs(np.log(np.array(widths) / wide)).argmin())
    figure = new_figure(WIDTH, 3.4)
    axes = figure.subplots()
    for law, data in laws.items():
        low, middle, high = _quartiles(data["difference"][:, :, k])
        axes.fill_between(data["step"], low, high, color=COLOR[law], alpha=0.18, lw=0)
        axes.plot(data["step"], middle, "o-", color=COLOR[law], ms=5)
        axes.annotate(
            f"law: {law}",
            (data["step"][-1], middle[-1]),
            (8, 0),
            textcoords="offset points",
            color=COLOR[law],
            va="center",
        )
    axes.set(xscale="log", yscale="log", xlabel="time step h [s]", ylabel="|secant − tangent| / the larger")
    axes.invert_xaxis()
    axes.margins(x=0.14)
    return figure


def _widths(laws: dict, widths: Sequence[float]) -> Figure:
    figure = new_figure(WIDTH, 3.4)
    panels = figure.subplots(1, len(laws), sharey=True)
    for axes, (law, data) in zip(panels, laws.items(), strict=True):
        shades = mpl.colormaps["viridis"](np.linspace(0.85, 0.05, len(data["step"])))
        _, middle, _ = _quartiles(data["difference"])
        for shade, step, row in zip(shades, data["step"], middle, strict=True):
            axes.plot(widths, row, ".-", color=shade, label=f"h = {1e6 * step:.0f} µs")
        axes.axhline(1, color=FAINT, lw=1, zorder=0)
        axes.set(xscale="log", yscale="log", xlabel="half width of the secant", ylim=(1e-8, 3))
        axes.set_title(f"law: {law}", loc="left", fontweight="bold", fontsize=10, color=COLOR[law])
    panels[0].set_ylabel("|secant − tangent| / the larger (median)")
    panels[-1].legend(fontsize=8, loc="lower right")
    return figure


def _sawteeth(sawteeth: dict) -> Figure:
    figure = new_figure(WIDTH, 3.2)
    panels = figure.subplots(1, len(sawteeth), sharey=True)
    for axes, (law, one) in zip(panels, sawteeth.items(), strict=True):
        shift, height, slope = (one[key].numpy() for key in ("shift", "height", "slope"))
        middle = len(shift) // 2
        axes.plot(1e3 * shift, 1e3 * height, color=COLOR[law], lw=1)
        near = np.abs(shift) < 0.012
        axes.plot(1e3 * shift[near], 1e3 * (height[middle] + slope[middle] * shift[near]), "--", color=INK, lw=1.3)
        axes.plot(0, 1e3 * height[middle], "o", color=INK, ms=4)
        trend = (height[-1] - height[0]) / (shift[-1] - shift[0])
        axes.set_title(
            f"law: {law}\ntangent {slope[middle]:.2f}, trend {trend:.2f}", loc="left", fontsize=10, color=COLOR[law]
        )
        axes.set(xlabel="start height, shifted by [mm]")
    panels[0].set_ylabel("height after the bounce [mm]")
    return figure


def _adjoint(laws: dict) -> Figure:
    shapes = list(next(iter(laws.values()))["adjoint"])
    figure = new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    rng = np.random.default_rng(0)
    for side, (law, data) in zip((-0.18, 0.18), laws.items(), strict=True):
        for k, shape in enumerate(shapes):
            y = data["adjoint"][shape].flatten().clamp(min=1e-19).numpy()
            x = k + side + 0.1 * rng.uniform(-1, 1, len(y))
            axes.plot(x, y, ".", color=COLOR[law], ms=2.5, alpha=0.6, label=f"law: {law}" if k == 0 else None)
    axes.axhline(1e-9, color=INK, lw=1, ls=(0, (4, 3)))
    axes.text(len(shapes) - 0.5, 1.3e-9, "goal", ha="right", va="bottom", fontsize=8)
    axes.set(
        yscale="log", xticks=range(len(shapes)), xticklabels=shapes, ylabel="relative difference", ylim=(1e-18, 1e-7)
    )
    axes.legend(markerscale=4, loc="upper left", ncols=2)
    return figure
