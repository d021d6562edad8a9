"""Result of `identify_fields`: arrays with error bars, effective rank and cost, with JSON and figure output."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import Status
from gradsim.identification.fields.fields import FieldSpace, Piece
from gradsim.identification.fields.resolution import DETERMINED_BOUND, Spectrum
from gradsim.identification.uncertainty.discretization import Discretization
from gradsim.runtime.atomic import atomic_path, atomic_write, jsonable, write_json
from gradsim.runtime.provenance import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "gradsim.fields/1"


@dataclass(frozen=True)
class Errors:
    """Relative errors against a known truth: of positive quantities to the truth, of others to their scale.

    Args:
        subspace: Root mean square over the directions with a bound below 1 %; NaN without any.
        full: Mean absolute error over all unknown entries (the paper's measure).
        worst: Largest absolute error.
        z: Root mean square of error over bound, over the same directions as `subspace`.
    """

    subspace: float
    full: float
    worst: float
    z: float


@dataclass(frozen=True, eq=False)
class FieldFit:
    """Result of `gradsim.identify_fields`.

    Args:
        status: OK, PARTIAL (the bound of some direction is above 1 %), MISMATCH or FAILED (no start could be simulated).
        values: Estimated arrays by name, SI units; known entries have the scene's values.
        std: Standard deviations; 0 for known entries, infinite for undetermined ones.
        unknowns: Number of unknown entries.
        spectrum: Directions with their bounds.
        sigma_reference: Noise that error bars refer to.
        chi2_per_n: Mean square of the whitened residuals that carry information.
        informative: Number of residuals that carry information.
        cost: Σ r² at the solution, prior included.
        starts: Final costs of the starts.
        method: "dense", "cg" or "lbfgs".
        iterations: Number of linearizations.
        rollouts: Number of simulated worlds, one per direction for forward sensitivities.
        cpu_seconds, wall_seconds: Time [s].
        seed: Seed of the starts.
        history: Stages with frames and cost.
        space: The unknowns.
        u: Solution in the variables of the solver (unknowns,).
        errors: Errors against a truth; see `against`.
        discretization: How far the answer depends on the time step, by field; None where that was not examined.
    """

    status: Status
    values: dict[str, np.ndarray]
    std: dict[str, np.ndarray]
    unknowns: int
    spectrum: Spectrum
    sigma_reference: float
    chi2_per_n: float
    informative: int
    cost: float
    starts: list[float]
    method: str
    iterations: int
    rollouts: int
    cpu_seconds: float
    wall_seconds: float
    seed: int
    space: FieldSpace
    u: Tensor
    history: list[dict] = field(default_factory=list)
    errors: Errors | None = None
    discretization: Discretization | None = None

    @property
    def rank(self) -> int:
        """Effective rank: number of directions with a bound below 1 %."""
        return self.spectrum.rank

    @property
    def null_directions(self) -> list[str]:
        """Directions that the data leave undetermined, as text."""
        return self.spectrum.silent

    def against(self, truth: Mapping[str, np.ndarray]) -> "FieldFit":
        """Copy of the fit with its errors against a truth, arrays by name."""
        values = {name: torch.as_tensor(np.asarray(value, np.float64))[None] for name, value in truth.items()}
        true = self.space.inner(values)[0]
        off = self.u - true
        logarithmic = torch.tensor(self.space.logarithmic)
        share = torch.where(logarithmic, torch.expm1(off), off).abs()
        along = self.spectrum.sharp(off)
        rms = lambda x: x.square().mean().sqrt().item() if len(x) else math.nan
        z = rms(along / self.spectrum.bounds[: self.rank])
        return replace(self, errors=Errors(rms(along), share.mean().item(), share.max().item(), z))

    def result(self) -> dict:
        """Content of `result.json`; the arrays are in `fields.npz`."""
        bounds = self.spectrum.bounds
        content = jsonable(
            {
                "schema": SCHEMA,
                "status": self.status,
                "fields": {name: {"shape": list(v.shape), "unit": self._unit(name)} for name, v in self.values.items()},
                "unknowns": self.unknowns,
                "effective_rank": self.rank,
                "effective_bound": DETERMINED_BOUND,
                "bounds": bounds.tolist(),
                "null_directions": self.null_directions,
                "errors": vars(self.errors) if self.errors else None,
                "discretization": self.discretization.result() if self.discretization else None,
                "sigma_reference": self.sigma_reference,
                "chi2_per_n": self.chi2_per_n,
                "informative": self.informative,
                "cost": self.cost,
                "starts": self.starts,
                "method": self.method,
                "iterations": self.iterations,
                "rollouts": self.rollouts,
                "cpu_seconds": self.cpu_seconds,
                "wall_seconds": self.wall_seconds,
                "seed": self.seed,
                "history": self.history,
                "versions": versions(),
            }
        )
        assert isinstance(content, dict)
        return content

    @property
    def table(self) -> str:
        """The verdict in a few lines."""
        lines = [f"{self.rank} of {self.unknowns} directions are known to 1 % at σ = {self.sigma_reference:.3g}"]
        for name, value in self.values.items():
            std = self.std[name]
            known = np.isfinite(std) & (std > 0)
            typical = f"{np.median(std[known]):.2g}" if known.any() else "unknown"
            unit = f" {self._unit(name)}" if self._unit(name) else ""
            lines.append(
                f"{name}: {value.min():.4g} to {value.max():.4g}{unit}, median standard deviation {typical}{unit}"
            )
        if self.errors:
            lines.append(
                f"error {self.errors.subspace:.2g} on these directions, {self.errors.full:.2g} on average of all"
            )
        if self.discretization:
            lines.append(self.discretization.words)
        return "\n".join([*lines, *self.null_directions])

    def save(self, folder: str | Path) -> Path:
        """Write `result.json`, `fields.npz` (NAME and NAME.std) and `fields.png`, each atomically."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {**self.values, **{f"{name}.std": std for name, std in self.std.items()}}
        with atomic_write(folder / "fields.npz") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
        with atomic_path(folder / "fields.png") as draft:
            draw(self).savefig(draft, dpi=130, format="png")
        return write_json(folder / "result.json", self.result())

    def _unit(self, name: str) -> str:
        return next(p.kind.unit for p in self.space.pieces if p.field.name == name)


LINES = 4000  # maximum number of mesh edges in a figure


def draw(fit: FieldFit) -> "Figure":
    """Figure of a fit: values and standard deviations of each field on its mesh, and the spectrum of bounds."""
    pieces = fit.space.pieces
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6 * len(pieces) + 2.6), layout="constrained")
    rows = figure.add_gridspec(len(pieces) + 1, 2, height_ratios=[3.6] * len(pieces) + [2.6])
    for k, p in enumerate(pieces):
        name, unit = p.field.name, f" [{p.kind.unit}]" if p.kind.unit else ""
        value, std = fit.values[name], fit.std[name]
        _on_mesh(figure, rows[k, 0], p, value, f"{name}{unit}", "viridis")
        _on_mesh(figure, rows[k, 1], p, std, f"standard deviation{unit}", "magma")
    axes = figure.add_subplot(rows[-1, :])
    bounds = fit.spectrum.bounds.numpy()
    finite = np.isfinite(bounds)
    axes.semilogy(np.arange(1, len(bounds) + 1)[finite], 100 * bounds[finite], ".", ms=4, color="#1d5fd0")
    axes.axhline(100 * DETERMINED_BOUND, color="#c2410c", lw=1)
    axes.annotate(
        "1 %", (1, 100 * DETERMINED_BOUND), xytext=(0, 3), textcoords="offset points", color="#c2410c", fontsize=8
    )
    axes.set(xlabel="direction, sharpest first", ylabel="bound [%]", xlim=(0, max(2, fit.unknowns + 1)))
    axes.set_title(f"{fit.rank} of {fit.unknowns} directions are known to 1 %", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    if fit.discretization:
        figure.supxlabel("\n".join(textwrap.wrap(fit.discretization.words, 120)), fontsize=8)
    return figure


def _on_mesh(figure: "Figure", spot, p: Piece, value: np.ndarray, title: str, shades: str) -> None:
    axes = figure.add_subplot(spot, projection="3d")
    places, size = p.places, np.ptp(p.places, 0)
    edges = p.edges[:: max(1, len(p.edges) // LINES)]
    ends = np.concatenate([places[edges], np.full((len(edges), 1, 3), np.nan)], 1).reshape(-1, 3)
    axes.plot(*ends.T, color="#c8c8c8", lw=0.4)
    rows = value.reshape(len(value), -1)
    number = np.linalg.norm(rows, axis=1) if p.width > 1 else rows[:, 0]
    free = np.isin(np.arange(len(places)), p.rows)
    finite = free & np.isfinite(number)
    points = axes.scatter(*places[finite].T, c=number[finite], cmap=shades, s=22, depthshade=False)
    axes.scatter(*places[~free].T, c="#c8c8c8", s=8, marker="s", depthshade=False)
    axes.scatter(*places[free & ~finite].T, c="#c2410c", s=22, marker="x", depthshade=False)
    if p.width == 3 and title.startswith(p.field.name):
        longest = max(np.linalg.norm(rows, axis=1).max(), 1e-300)
        axes.quiver(*places[finite].T, *rows[finite].T, length=0.15 * size.max() / longest, color="#404040", lw=0.6)
    axes.set_box_aspect(np.maximum(size, 0.2 * size.max()))
    axes.set_title(f"|{title}|" if p.width > 1 and not title.startswith("standard") else title, fontsize=9)
    axes.tick_params(labelsize=6)
    axes.locator_params(nbins=3)
    figure.colorbar(points, ax=axes, shrink=0.6, pad=0.12).ax.tick_params(labelsize=7)
