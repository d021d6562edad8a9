"""Resolution of many unknowns: orthogonal directions with Cramér–Rao bounds, effective rank, null directions.

    F = JᵀJ = Σ_k λ_k a_k a_kᵀ,    bound along a_k: 1/√λ_k              (Cramér–Rao, without the prior)

All in units where one is 100 %: logarithms of positive quantities, shares of the scale of others. The effective rank is
the number of directions whose bound is below 1 %.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh, splu
from torch import Tensor

from gradsim.identification.fields.fields import FieldSpace
from gradsim.identification.fields.problem import FieldProblem, Linear
from gradsim.identification.uncertainty.fisher import KNOWN

DETERMINED_BOUND = 0.01  # bound below which a direction counts as determined
ROUNDING = 1e-11  # relative to the largest eigenvalue: rounding error
NEGLIGIBLE_INFORMATION = 1e-12  # information of a bound of 1e6, treated as none
INITIAL_DIRECTIONS = 32  # initial number of directions of the Lanczos iteration


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Directions, sharpest first.

    Args:
        bounds: Relative standard deviation along each direction (k,); infinite if undetermined.
        axes: Unit vectors (unknowns, k).
        std: Relative standard deviation of each unknown (unknowns,), prior included; infinite if undetermined.
        silent: Directions that the data leave undetermined, as text.
    """

    bounds: Tensor
    axes: Tensor
    std: Tensor
    silent: list[str]

    @property
    def rank(self) -> int:
        """Number of directions whose bound is below 1 %."""
        return int((self.bounds < DETERMINED_BOUND).sum())

    def sharp(self, v: Tensor) -> Tensor:
        """The part of v (unknowns,) along these directions, by direction (rank,)."""
        return self.axes[:, : self.rank].T @ v

    def in_units(self, displacement: Tensor) -> Tensor:
        """Displacement (unknowns,) in standard deviations.

        Of an unknown that has none, its part along the directions of `rank`, in standard deviations of that part; 0 of what
        the data do not determine.
        """
        axes, bounds = self.axes[:, : self.rank], self.bounds[: self.rank]
        part, spread = axes @ (axes.T @ displacement), (axes * bounds).square().sum(1).sqrt()
        shift = torch.where(torch.isfinite(self.std), displacement / self.std, part / spread)
        return shift.nan_to_num(0.0, torch.inf, -torch.inf)

    def widened(self, displacement: Tensor) -> "Spectrum":
        """The same with an error of the size and direction of a displacement (unknowns,) added; all is lost if infinite."""
        if not torch.isfinite(displacement).all():
            lost = lambda y: torch.full_like(y, torch.inf)
            return replace(self, bounds=lost(self.bounds), std=lost(self.std))
        bounds, order = torch.hypot(self.bounds, self.axes.T @ displacement).sort()
        return replace(self, bounds=bounds, axes=self.axes[:, order], std=torch.hypot(self.std, displacement))


def of_matrix(problem: FieldProblem, fisher: Tensor) -> Spectrum:
    """From F of the data alone (unknowns, unknowns)."""
    values, axes = (x.flip(-1) for x in torch.linalg.eigh(fisher))
    floor = (ROUNDING * values[0]).clamp(min=NEGLIGIBLE_INFORMATION)
    bounds = torch.where(values > floor, torch.maximum(values, floor).rsqrt(), torch.inf)
    known, vectors, lost = with_prior(problem, fisher)
    variance = (vectors[:, ~lost].square() / known[~lost]).sum(1)
    variance[(vectors[:, lost].abs() > 1e-3).any(1)] = torch.inf
    patterns = _patterns(problem.space)
    heard = {text: c @ fisher @ c for text, c in patterns.items()}
    return Spectrum(bounds, axes, variance.sqrt(), _words(problem.space, heard, variance.sqrt()))


def with_prior(problem: FieldProblem, fisher: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues and eigenvectors (columns) of the information with the prior, and which of them are rounding."""
    known, vectors = torch.linalg.eigh(fisher + torch.tensor((problem.root.T @ problem.root).toarray()))
    return known, vectors, known <= (ROUNDING * known.max()).clamp(min=NEGLIGIBLE_INFORMATION)


def of_products(problem: FieldProblem, linearization: Linear) -> Spectrum:
    """From products with J alone, by Lanczos' method: the directions whose bound is below 1 %.

    What it leaves out counts as not known, so that standard deviations are rather too large.
    """
    n = len(linearization.u)
    times = lambda v: linearization.vjp(linearization.jvp(torch.tensor(v.ravel()))).numpy()
    count, operator = min(INITIAL_DIRECTIONS, n - 1), LinearOperator((n, n), matvec=times, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    while True:
        values, axes = eigsh(operator, count, v0=np.random.default_rng(0).standard_normal(n), tol=1e-6)  # pyright: ignore[reportArgumentType]
        if values.min() < DETERMINED_BOUND**-2 or count == n - 1:
            break
        count = min(2 * count, n - 1)
    order = np.argsort(-values)
    keep = order[values[order] > 0]
    values, axes = torch.tensor(values[keep].copy()), torch.tensor(axes[:, keep].copy())
    heard = {text: linearization.jvp(c).square().sum() for text, c in _patterns(problem.space).items()}
    std = _covered(problem, values, axes).clamp(min=0).sqrt()
    return Spectrum(values.rsqrt(), axes, std, _words(problem.space, heard, std))


def _covered(problem: FieldProblem, values: Tensor, axes: Tensor) -> Tensor:
    """Variances (unknowns,) where F = V Λ Vᵀ: by Woodbury's identity with a prior."""
    if not problem.has_prior:
        variance = (axes.square() / values).sum(1)
        return torch.where(axes.square().sum(1) < 1 - 1e-6, torch.inf, variance)
    n = len(axes)
    Q = sparse.csc_array(problem.root.T @ problem.root + 1e-12 * sparse.eye_array(n))
    solved = splu(Q)
    prior, spread = torch.tensor(np.diag(solved.solve(np.eye(n))).copy()), torch.tensor(solved.solve(axes.numpy()))
    inner = torch.linalg.inv(torch.diag(1 / values) + axes.T @ spread)
    return prior - ((spread @ inner) * spread).sum(1)


def _patterns(space: FieldSpace) -> dict[str, Tensor]:
    """Simple directions, unit vectors by what they do."""
    patterns, scales = {}, torch.zeros(len(space), dtype=torch.float64)
    for p in space.pieces:
        name, pattern = p.field.name, torch.zeros(len(space), dtype=torch.float64)
        if p.kind.positive:
            pattern[p.columns] = scales[p.columns] = 1.0
            patterns[f"one common factor of all of {name}"] = pattern
        for axis in range(p.width if not p.kind.positive else 0):
            pattern = pattern.clone().zero_()
            pattern[p.columns.start + axis : p.columns.stop : p.width] = 1.0
            where = f" along {'xyz'[axis]}" if p.width == 3 else ""
            patterns[f"what all of {name}{where} have in common"] = pattern
    names = [p.field.name for p in space.pieces if p.kind.positive]
    if len(names) > 1:
        patterns[f"one common factor of all of {', '.join(names[:-1])} and {names[-1]}"] = scales
    return {text: c / c.norm() for text, c in patterns.items()}


def _words(space: FieldSpace, heard: dict[str, Tensor], std: Tensor) -> list[str]:
    """Directions that the data do not determine: simple directions, then entries."""
    texts = []
    for text, information in heard.items():
        if information < KNOWN**-2:
            fix = (
                "A known force, such as a blow, would fix it."
                if "factor" in text
                else "It has no effect on what was seen."
            )
            texts.append(f"The data leave open {text}. {fix}")
    for p in space.pieces:
        rows = sorted({int(k) // p.width for k in p.entries[(std[p.columns] > KNOWN)]})
        if rows:
            listed = ", ".join(map(str, rows[:12])) + (", …" if len(rows) > 12 else "")
            texts.append(
                f"{len(rows)} of {len(p.rows)} entries of {p.field.name} are not known to 10 % each ({listed}); record "
                "more of the motion, or from more sides, or give a prior."
            )
    return texts
