"""Result of an identification: estimates with error bars, verdict, effort."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Protocol

import numpy as np

from gradsim.errors import UNTRUSTED, Status
from gradsim.identification.problem import Effort
from gradsim.identification.solvers.multistart import Outcome
from gradsim.identification.uncertainty.discretization import Discretization
from gradsim.identification.uncertainty.draws import draws
from gradsim.identification.uncertainty.fisher import Uncertainty
from gradsim.identification.uncertainty.profile_likelihood import Profile
from gradsim.identification.uncertainty.residual_diagnostics import ResidualDiagnostics
from gradsim.identification.unknowns import Ranges
from gradsim.numerics.formatting import UNDETERMINED, interval_in_range, is_open, with_error
from gradsim.runtime.atomic import jsonable, write_json
from gradsim.runtime.html import table
from gradsim.runtime.provenance import versions

SCHEMA = "gradsim.result/3"


@dataclass(frozen=True)
class Estimate:
    """One unknown.

    Args:
        value: In SI units.
        std: Standard deviation; inf where the data say nothing.
        interval95: 95 % interval.
        unit: SI unit.
        low: Lower end of its range.
        high: Upper end.
        identifiable: True if its relative bound is below 10 %.
        truth: For made-up data, to compare with; never used in a fit.
    """

    value: float
    std: float
    interval95: tuple[float, float]
    unit: str
    low: float
    high: float
    identifiable: bool
    truth: float | None = None

    @property
    def z(self) -> float | None:
        """Error over standard deviation, where the truth is known."""
        return None if self.truth is None else (self.value - self.truth) / self.std

    @property
    def number(self) -> str:
        """Value ± standard deviation with unit; `undetermined` where that is infinite."""
        return UNDETERMINED if is_open(self.std) else f"{with_error(self.value, self.std)} {self.unit}".rstrip()

    @property
    def interval(self) -> str:
        """95 % interval; the range where the data say nothing."""
        return interval_in_range(self.interval95, self.low, self.high, self.std)


class Solvable(Protocol):
    """Problem that counts its effort."""

    @property
    def space(self) -> Ranges: ...

    @property
    def effort(self) -> Effort: ...


@dataclass(frozen=True)
class Fit:
    """Result of `gradsim.identify`.

    Args:
        status: OK, APPROXIMATE, UNIDENTIFIABLE, UNCONVERGED, MISMATCH or FAILED.
        unknowns: Estimates by name.
        sigma_reference: Noise that errors and verdict refer to (images: of one pixel in [0, 1]).
        chi2_per_n: Mean square of the whitened residuals that carry information.
        informative: Their number.
        rank: Number of identified directions.
        null_directions: The others: combination, explanation, bound.
        starts: Starts drawn, and how many came to the answer on their own.
        iterations: Linearisations of the population.
        rollouts: Worlds simulated, forward sensitivities counted one for each unknown.
        cpu_seconds: CPU time.
        wall_seconds: Time.
        seed: Random seed of the starts.
        history: Stages with frames, cost and the best values.
        population: Starts: names, initial and final values, costs.
        command: Command that made it.
        nonsmooth: Whether contact kinks the likelihood at the scale of the noise, so that error bars are
            from samples of the posterior.
        residual_diagnostics: Whether the residuals are white, and if not, where and when.
        outline: Errors of the outlines of masks, where the noise is estimated from them (`--noise auto`); χ²/N is then the mean
            square of the outline's shifts over what its parts let expect.
        discretization: How far the answer depends on the time step; None where that was not examined.
        shooting: Multiple shooting: windows, which of one shot and windows is the answer, jumps between windows.
        notes: Warnings, such as that the motion forgets its parameters within the clip.
        evidence: How the video was read: frames used and dropped, loss.
        profiles: Profile likelihoods along weak directions or unknowns, where requested.
        estimator: Name of the estimator that searched.
        priors: What each prior contributes to the error bars, and how far the answer is from it; empty without priors.
        known_numbers: What an error of each known number would do to the unknowns; empty where that was not examined.
        next_video: The one change of a next video that would tell most of what is open; empty where nothing is.
        discrepancy: Error bars of a model with a discrepancy, where requested (`uncertainty.discrepancy`).
        posterior: Covariance (unknowns, unknowns) of the unknowns, and which of them are `logarithmic`: of these it is that of
            logarithms. Where error bars are from samples, it is theirs.
    """

    status: Status
    unknowns: dict[str, Estimate]
    sigma_reference: float
    chi2_per_n: float
    informative: int
    rank: int
    null_directions: list
    starts: dict[str, int]
    iterations: int
    rollouts: int
    cpu_seconds: float
    wall_seconds: float
    seed: int
    history: list[dict] = field(default_factory=list)
    population: dict = field(default_factory=dict)
    command: str = "identify"
    nonsmooth: bool = False
    residual_diagnostics: ResidualDiagnostics | None = None
    discretization: Discretization | None = None
    outline: dict = field(default_factory=dict)
    shooting: dict = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    evidence: dict = field(default_factory=dict)
    profiles: list[Profile] = field(default_factory=list)
    estimator: str = "least-squares"
    priors: dict = field(default_factory=dict)
    known_numbers: dict = field(default_factory=dict)
    next_video: dict = field(default_factory=dict)
    discrepancy: dict = field(default_factory=dict)
    posterior: dict = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        problem: Solvable,
        outcome: Outcome | None = None,
        *,
        status: Status,
        unknowns: dict[str, Estimate],
        uncertainty: Uncertainty,
        sigma_reference: float,
        chi2_per_n: float,
        informative: float,
        seed: int = 0,
        **others,
    ) -> "Fit":
        """Collect the result of a solved problem.

        Args:
            problem: Its effort so far goes into the result.
            outcome: Starts, iterations, history and population; None: `others` gives them, or there was no search.
            uncertainty: Rank and null directions.
            **others: Further fields; they take precedence.
        """
        search = {"starts": {}, "iterations": 0} if outcome is None else search_record(problem.space, outcome)
        fields = {
            "status": status,
            "unknowns": unknowns,
            "sigma_reference": sigma_reference,
            "chi2_per_n": chi2_per_n,
            "informative": int(informative),
            "rank": uncertainty.rank,
            "null_directions": uncertainty.null,
            "posterior": {
                "covariance": uncertainty.posterior.tolist(),
                "logarithmic": list(map(bool, problem.space.logarithmic)),
            },
            "seed": seed,
        }
        return cls(**(fields | problem.effort.state() | search | others))

    def with_table(self, known_numbers: dict) -> "Fit":
        """The same fit with the table of its known numbers."""
        return replace(self, known_numbers=known_numbers)

    @property
    def values(self) -> dict[str, float]:
        """Estimated value by name."""
        return {name: e.value for name, e in self.unknowns.items()}

    def draws(self, count: int, seed: int = 0) -> dict[str, np.ndarray]:
        """Draws (count,) of each unknown from the posterior, in SI units, for domain randomization.

        Raises:
            InputError: If the count is not between 1 and a million, or the fit failed.
        """
        return draws(self.result(), count, seed)

    def against(self, truth: Mapping[str, float]) -> "Fit":
        """The same fit with the true values in its estimates."""
        return replace(self, unknowns={n: replace(e, truth=truth.get(n)) for n, e in self.unknowns.items()})

    def result(self) -> dict:
        """Content of `result.json`: plain numbers, None for what is infinite or unknown."""
        unknowns = {
            name: {
                "value": e.value,
                "std": e.std,
                "interval95": list(e.interval95),
                "unit": e.unit,
                "low": e.low,
                "high": e.high,
                "identifiable": e.identifiable and self.status not in UNTRUSTED,
                "truth": e.truth,
            }
            for name, e in self.unknowns.items()
        }
        directions = [
            {"combination": d.combination, "explanation": d.explanation, "bound": d.bound} for d in self.null_directions
        ]
        content = jsonable(
            {
                "schema": SCHEMA,
                "command": self.command,
                "status": self.status,
                "unknowns": unknowns,
                "sigma_reference": self.sigma_reference,
                "chi2_per_n": self.chi2_per_n,
                "informative": self.informative,
                "rank": self.rank,
                "nonsmooth": self.nonsmooth,
                "notes": self.notes,
                **self.evidence,
                "null_directions": directions,
                "posterior": self.posterior,
                "residual_diagnostics": self.residual_diagnostics.result() if self.residual_diagnostics else None,
                "discretization": self.discretization.result() if self.discretization else None,
                "profiles": [p.result() for p in self.profiles],
                "estimator": self.estimator,
                "starts": self.starts,
                "iterations": self.iterations,
                "rollouts": self.rollouts,
                "cpu_seconds": self.cpu_seconds,
                "wall_seconds": self.wall_seconds,
                "seed": self.seed,
                "versions": versions(),
                **({"outline": self.outline} if self.outline else {}),
                **({"shooting": self.shooting} if self.shooting else {}),
                **({"priors": self.priors} if self.priors else {}),
                **({"known_numbers": self.known_numbers} if self.known_numbers else {}),
                **({"next_video": self.next_video} if self.next_video else {}),
                **({"discrepancy": self.discrepancy} if self.discrepancy else {}),
            }
        )
        assert isinstance(content, dict)
        return content

    @property
    def table(self) -> str:
        """Value ± standard deviation, 95 % interval, unit and verdict, one line for each unknown."""
        lines = []
        width = max(len(name) for name in self.unknowns)
        for name, e in self.unknowns.items():
            verdict = "" if e.identifiable else "   not identifiable"
            lines.append(f"{name:<{width}}  {e.number:<32} 95 %: {e.interval}{verdict}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Status and table, for notebooks."""
        rows = ((name, e.number, e.interval) for name, e in self.unknowns.items())
        status = f"<p><b>{escape(self.status)}</b>: {escape(Status(self.status).message)}</p>"
        return status + table(("unknown", "value", "95 % interval"), rows)

    def save(self, folder: str | Path, extra: Mapping | None = None) -> Path:
        """Write `result.json` and `history.json` into a folder; each file appears whole or not at all.

        Args:
            folder: Where to.
            extra: Further entries of `result.json`; they take precedence.

        Returns:
            Path of `result.json`.
        """
        folder = Path(folder)
        write_json(folder / "history.json", {"stages": self.history, "starts": self.population})
        return write_json(folder / "result.json", {**self.result(), **(extra or {})})


def search_record(space: Ranges, outcome: Outcome) -> dict:
    """Fields of a `Fit` about the search: starts, iterations, history and population."""
    return {
        "starts": {"count": len(outcome.initial), "converged": outcome.converged()},
        "iterations": outcome.iterations,
        "history": outcome.history,
        "population": {
            "names": space.names,
            "initial": space.numbers(outcome.initial).tolist(),
            "final": space.numbers(outcome.final).tolist(),
            "cost": outcome.cost.tolist(),
        },
    }
