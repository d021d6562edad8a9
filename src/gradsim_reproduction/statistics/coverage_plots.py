"""Pictures of coverage: errors over error bars against the unit normal, and coverage by nominal level."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
from matplotlib.figure import Figure

from gradsim_reproduction.plotting import SAFE, image_grid, new_figure, unit_normal, write_figures
from gradsim_reproduction.statistics.coverage_families import FAMILIES

BINS = np.linspace(-4, 4, 33)
GROUPS = {"no contact": False, "contact": True}
COLOURS = dict(zip(GROUPS, SAFE, strict=False))
FINE = np.linspace(0.5, 0.99, 50)


def draw(out: Path, records: Sequence[Mapping]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    level_text = "All unknowns of all fits. Levels: intervals of the normal distribution."
    return write_figures(
        out,
        {
            "coverage": (lambda: _calibration(records), "Errors over error bars, and coverage", level_text),
            "parameters": (
                lambda: _by_parameter(records),
                "Errors over error bars by unknown",
                "With the share of 95 % intervals that contain the truth.",
            ),
        },
    )


def _calibration(records: Sequence[Mapping]) -> Figure:
    figure, normal = new_figure(9.5, 3.8), NormalDist()
    density, level_axes = figure.subplots(1, 2)
    for name, contact in GROUPS.items():
        values = _z(records, contact)
        if not len(values):
            continue
        label = f"{name} ({len(values)} numbers)"
        density.hist(
            values.clip(-4, 4), BINS.tolist(), density=True, histtype="step", color=COLOURS[name], label=label, lw=1.6
        )
        shares = [np.mean(np.abs(values) <= normal.inv_cdf((1 + level) / 2)) for level in FINE]
        level_axes.plot(FINE, shares, color=COLOURS[name], label=name, lw=1.6)
    unit_normal(density, ls="--")
    density.set(xlabel="error / standard deviation (outer bins hold all beyond)", ylabel="density")
    density.legend(fontsize=8)
    level_axes.plot([0.5, 1], [0.5, 1], "k--", lw=1, label="exact")
    level_axes.axvline(0.95, color="0.8", lw=1, zorder=0)
    level_axes.set(
        xlabel="nominal level of the interval", ylabel="share that contain the truth", xlim=(0.5, 1), ylim=(0.4, 1.01)
    )
    level_axes.legend(fontsize=8)
    return figure


def _by_parameter(records: Sequence[Mapping]) -> Figure:
    """A histogram for each unknown of each family."""
    keys = list(dict.fromkeys((r["family"], key) for r in records for key in r["unknowns"]))
    figure, cells = image_grid(len(keys), 4, 10, 1.9)
    for ax, (family, key) in zip(cells, keys, strict=False):
        ax.axis("on")
        part = [r["unknowns"][key] for r in records if r["family"] == family]
        z = np.array([u["z"] for u in part])
        share = np.mean([u["inside"] for u in part])
        color = COLOURS["contact" if FAMILIES[family].contact else "no contact"]
        ax.hist(z.clip(-4, 4), BINS[::2].tolist(), density=True, color=color, alpha=0.5)
        unit_normal(ax, ls="--", lw=0.8)
        ax.set_title(f"{family}: {key.partition('.')[2]}, {100 * share:.0f} % of {len(part)}", fontsize=8)
        ax.tick_params(labelsize=7)
    return figure


def _z(records: Sequence[Mapping], contact: bool) -> np.ndarray:
    part = [r for r in records if FAMILIES[r["family"]].contact == contact]
    return np.array([u["z"] for r in part for u in r["unknowns"].values()])
