"""Pictures of coverage: errors over error bars against the unit normal, and coverage by nominal level."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

from matplotlib.figure import Figure

from gradsim_reproduction.statistics.coverage_families import FAMILIES

BINS = np.linspace(-4, 4, 33)
GROUPS = {"no contact": False, "contact": True}
COLOURS = {"no contact": "#0072B2", "contact": "#D55E00"}  # safe for the colour-blind (Okabe and Ito)
FINE = np.linspace(0.5, 0.99, 50)


def draw(out: Path, records: Sequence[Mapping]) -> list[dict]:
    """Write the pictures; returns what a report lists."""
    z = {name: _of(records, contact, "z") for name, contact in GROUPS.items()}
    z = {name: values for name, values in z.items() if len(values)}
    figure = Figure(figsize=(9.5, 3.8), layout="constrained")
    axes = figure.subplots(1, 2)
    normal = NormalDist()
    places = np.linspace(-4, 4, 200)
    for name, values in z.items():
        label = f"{name} ({len(values)} numbers)"
        axes[0].hist(values.clip(-4, 4), BINS, density=True, histtype="step", color=COLOURS[name], label=label, lw=1.6)
        shares = [np.mean(np.abs(values) <= normal.inv_cdf((1 + level) / 2)) for level in FINE]
        axes[1].plot(FINE, shares, color=COLOURS[name], label=name, lw=1.6)
    axes[0].plot(places, [normal.pdf(x) for x in places], "k--", lw=1, label="unit normal")
    axes[0].set(xlabel="error / standard deviation (the ends hold all beyond)", ylabel="density")
    axes[0].legend(fontsize=8, frameon=False)
    axes[1].plot([0.5, 1], [0.5, 1], "k--", lw=1, label="exact")
    axes[1].axvline(0.95, color="0.8", lw=1, zorder=0)
    axes[1].set(
        xlabel="nominal level of the interval", ylabel="share that hold the truth", xlim=(0.5, 1), ylim=(0.4, 1.01)
    )
    axes[1].legend(fontsize=8, frameon=False)
    figure.savefig(Path(out) / "coverage.png", dpi=130)
    _by_parameter(out, records)
    return [
        {
            "file": "coverage.png",
            "title": "Errors over error bars, and coverage",
            "caption": "Of all unknowns of all fits. Levels: intervals of as many standard deviations as the normal has.",
        },
        {
            "file": "parameters.png",
            "title": "Errors over error bars by unknown",
            "caption": "With the share of 95 % intervals that hold the truth.",
        },
    ]


def _by_parameter(out: Path, records: Sequence[Mapping]) -> None:
    """A histogram for each unknown of each family."""
    seen = {(r["family"], key): None for r in records for key in r["unknowns"]}
    columns = 4
    rows = -(-len(seen) // columns)
    figure = Figure(figsize=(10, 1.9 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    places, normal = np.linspace(-4, 4, 100), NormalDist()
    for axis in axes.flat[len(seen) :]:
        axis.axis("off")
    for axis, (family, key) in zip(axes.flat, seen, strict=False):
        some = [r["unknowns"][key] for r in records if r["family"] == family]
        z = np.array([u["z"] for u in some])
        share = np.mean([u["inside"] for u in some])
        colour = COLOURS["contact" if FAMILIES[family].contact else "no contact"]
        axis.hist(z.clip(-4, 4), BINS[::2], density=True, color=colour, alpha=0.5)
        axis.plot(places, [normal.pdf(x) for x in places], "k--", lw=0.8)
        axis.set_title(f"{family}: {key.partition('.')[2]}, {100 * share:.0f} % of {len(some)}", fontsize=8)
        axis.tick_params(labelsize=7)
    figure.savefig(Path(out) / "parameters.png", dpi=130)


def _of(records: Sequence[Mapping], contact: bool, key: str) -> np.ndarray:
    rows = [r for r in records if FAMILIES[r["family"]].contact == contact]
    return np.array([u[key] for r in rows for u in r["unknowns"].values()])
