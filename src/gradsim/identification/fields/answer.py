"""Answer of a fit of fields on one time step: its minimum, its evidence, and what half the step would change.

    Δ = −A⁻¹ (g_{h/2}(u) − g_h(u)),    A = JᵀJ + BᵀB        g by adjoints; A⁻¹ by the matrix, or by conjugate gradients

Shifts are in units of the standard deviations that the fit states. An unknown that has none moves by the part of Δ along the
directions of the effective rank, in standard deviations of that part.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from gradsim.identification.fields import gauss_newton_cg, lbfgs
from gradsim.identification.fields.problem import FieldProblem, Linear
from gradsim.identification.fields.resolution import Spectrum, of_matrix, of_products, with_prior
from gradsim.identification.solvers.levenberg_marquardt import Population
from gradsim.identification.solvers.levenberg_marquardt import descend as by_matrix
from gradsim.identification.uncertainty.discretization import ITERATIONS, Answer, Bounds
from gradsim.identification.uncertainty.residual_diagnostics import OUTLIER_SIGMA
from gradsim.physics.model import Divergence

MAX_DENSE_UNKNOWNS = 1000  # number of unknowns up to which JᵀJ is computed in full
NOISELESS_TARGET = 1e-14  # χ²/N at which a fit without noise ends
LBFGS_STEPS_PER_LINEARIZATION = 20  # of L-BFGS per linearization of the other methods
PRODUCTS, ACCURACY = 200, 1e-3  # of the solve for Δ: products with JᵀJ at most, relative residual


@dataclass(frozen=True, eq=False)
class Evidence:
    """Information of the data at an answer.

    Args:
        spectrum: Directions with their bounds.
        chi2: Σ r² of the residuals that carry information or contradict the model.
        count: Their number.
        fisher: JᵀJ (unknowns, unknowns); None where it is too large.
    """

    spectrum: Spectrum
    chi2: float
    count: float
    fisher: Tensor | None


class FieldAnswer(Answer):
    """Answer of `identify_fields`.

    Args:
        problem, u, factor: As for `Answer`.
        method: Minimizer: "dense", "cg" or "lbfgs".
        cost: Cost, if it is known.
    """

    problem: FieldProblem

    def __init__(self, problem: FieldProblem, u: Tensor, method: str, cost: float | None = None, factor: int = 1):
        super().__init__(problem, u, factor)
        self.method, self._cost = method, cost

    @cached_property
    def _linearization(self) -> Linear | None:
        """None where the motion is not finite."""
        try:
            return self.problem.at(self.u, self.problem.frames)
        except Divergence:
            return None

    @property
    def cost(self) -> float:
        if self._cost is not None:
            return self._cost
        return self._linearization.cost if self._linearization else torch.inf

    @cached_property
    def gradient(self) -> Tensor:
        return self._linearization.gradient() if self._linearization else torch.full_like(self.u, torch.nan)

    @cached_property
    def evidence(self) -> Evidence:
        """Information of the data."""
        return (_by_matrix if len(self.u) <= MAX_DENSE_UNKNOWNS else _by_products)(self.problem, self.u)

    def bounds(self) -> Bounds:
        spectrum, fisher = self.evidence.spectrum, self.evidence.fisher
        solve = self._by_products(spectrum) if fisher is None else _inverse(self.problem, fisher)
        return Bounds(solve, self.shifts)

    def shifts(self, displacement: Tensor) -> dict[str, float]:
        """Largest shift of each field's unknowns by a displacement (unknowns,), in standard deviations."""
        in_units = self.evidence.spectrum.in_units(displacement)
        largest = lambda part: part[part.abs().argmax()].item()
        return {p.field.name: largest(in_units[p.columns]) for p in self.problem.space.pieces}

    def doubled(self) -> Self:
        return type(self)(self.problem.with_finer_steps(2), self.u, self.method, None, 2 * self.factor)

    def descend(self) -> Self:
        problem = self.problem
        target_cost = NOISELESS_TARGET * problem.observation.noise_floor(problem.frames).informative
        u, cost, count = minimize_fields(problem, self.u, problem.frames, self.method, ITERATIONS, 1e-9, target_cost)
        return self.arrived(type(self)(problem, u, self.method, cost, self.factor), count)

    def _by_products(self, spectrum: Spectrum):
        linear, axes = self._linearization, spectrum.axes[:, : spectrum.rank]
        assert linear is not None  # an answer has a finite cost

        def solve(b: Tensor) -> Tensor:
            solution = gauss_newton_cg.solve(self.problem, linear, b, 0.0, ACCURACY, PRODUCTS)
            return solution if self.problem.has_prior else axes @ (axes.T @ solution)

        return solve


def minimize_fields(
    problem: FieldProblem, u: Tensor, frames: int, method: str, iterations: int, rtol: float, target_cost: float
) -> tuple[Tensor, float, int]:
    """Minimize the cost of fields from one start, by the method of its name.

    Args:
        problem: The problem.
        u: Start (unknowns,).
        frames: Number of first frames.
        method: "dense", "cg" or "lbfgs".
        iterations: Maximum number of linearizations.
        rtol: Relative decrease of the cost at which to stop.
        target_cost: Cost at which to stop.

    Returns:
        u, its cost, and the number of linearizations.
    """
    if method == "cg":
        return gauss_newton_cg.descend(problem, u, frames, "pixels", iterations, target_cost=target_cost, rtol=rtol)
    if method == "lbfgs":
        return lbfgs.descend(problem, u, frames, "pixels", LBFGS_STEPS_PER_LINEARIZATION * iterations, rtol)
    iterates, count = by_matrix(problem, Population.at(u[None]), frames, "pixels", iterations, target_cost, rtol=rtol)
    return iterates.u[0], iterates.cost[0].item(), count


def _by_matrix(problem: FieldProblem, u: Tensor) -> Evidence:
    fisher, chi2, count = torch.zeros(len(u), len(u), dtype=u.dtype), 0.0, 0.0
    for r, J in problem.jacobian(u[None], problem.frames):
        fisher += J[0].T @ J[0]
        used = (J[0].abs().amax(1) > 1e-9 * J[0].abs().max().clamp(min=1e-300)) | (r[0].abs() > OUTLIER_SIGMA)
        chi2, count = chi2 + r[0][used].square().sum().item(), count + used.sum().item()
    return Evidence(of_matrix(problem, fisher), chi2, count, fisher)


def _by_products(problem: FieldProblem, u: Tensor) -> Evidence:
    linearization = problem.at(u, problem.frames)
    least, count, _ = problem.observation.noise_floor(problem.frames)
    chi2 = max(0.0, linearization.r.square().sum().item() - least)
    return Evidence(of_products(problem, linearization), chi2, count, None)


def _inverse(problem: FieldProblem, fisher: Tensor):
    """b → A⁻¹ b along the directions that are determined."""
    known, vectors, lost = with_prior(problem, fisher)
    known, vectors = known[~lost], vectors[:, ~lost]
    return lambda b: vectors @ ((vectors.T @ b) / known)
