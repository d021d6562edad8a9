"""A least-squares problem whose unknowns are whole arrays.

    cost = ‖r‖² + ‖B (u − mean)‖²,   A = JᵀJ + BᵀB,   g = Jᵀ r + BᵀB (u − mean)

J is exact: its columns are forward sensitivities, computed in batches of worlds; J v is one such world; Jᵀ w is the adjoint
of rollout and rendering. B is the square root of the precision of the prior (`Smooth`), 0 without prior.
"""

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.identification.fields.fields import FieldSpace, Piece
from gradsim.identification.observation.base import Observation, Residual, Sensitivity
from gradsim.identification.problem import Effort, Problem
from gradsim.physics.dependencies import require_dependency
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory

WORLDS = 64  # columns of J per batch


class FieldProblem(Problem):
    """Least-squares problem of one model, one observation and some fields.

    Args:
        model: The model.
        observation: The observation.
        space: The unknowns.
    """

    space: FieldSpace

    def __init__(self, model: Model, observation: Observation, space: FieldSpace):
        self.model, self.observation, self.space = model, observation, space
        require_dependency(model, (p.field.name for p in space.pieces))
        self.effort = Effort()
        self.mean = space.start().clone()
        roots = []
        for p in space.pieces:
            root, mean = _root(p)
            roots.append(root)
            if mean is not None:
                self.mean[p.columns] = mean
        self.root = sparse.block_diag(roots, format="csr")
        self.has_prior = self.root.nnz > 0

    def linearize(self, u: Tensor, frames: int, residual: Residual = "pixels") -> tuple[Tensor, Tensor, Tensor]:
        """Cost (starts,), A (starts, n, n) and g (starts, n)."""
        costs, matrices, gradients = [], [], []
        prior = torch.tensor((self.root.T @ self.root).toarray())
        for one in u[:, None]:
            with torch.no_grad():
                cost, g, A = self.observation.normal(self.sensitivity(one, frames), frames, residual)
            costs.append(cost + self.prior_cost(one))
            matrices.append(A + prior)
            gradients.append(g + (one - self.mean) @ prior)
        cost, A, g = torch.cat(costs), torch.cat(matrices), torch.cat(gradients)
        bad = ~torch.isfinite(cost) | ~torch.isfinite(A).flatten(1).all(1) | ~torch.isfinite(g).all(1)
        return torch.where(bad, torch.inf, cost), A, g

    def prior_product(self, v: Tensor) -> Tensor:
        """BᵀB v (unknowns,)."""
        return torch.tensor(self.root.T @ (self.root @ v.numpy()))

    def at(self, u: Tensor, frames: int, residual: Residual = "pixels") -> "Linear":
        """Residuals at u (unknowns,), and the products with their derivative."""
        return Linear(self, u, frames, residual)

    def sensitivity(self, u: Tensor, frames: int) -> Sensitivity:
        """Sensitivity of one start (1, unknowns)."""
        n, parts = u.shape[1], []
        for first in range(0, n, WORLDS):
            parts.append(self.sensitivity_along(u, torch.eye(n, dtype=u.dtype)[first : first + WORLDS], frames))
        tangents = {
            body: {key: torch.cat([p.tangent.states[body][key] for p in parts]) for key in states}
            for body, states in parts[0].tangent.states.items()
        }
        along = {name: torch.cat([p.direction[name] for p in parts]) for name in parts[0].direction}
        one = parts[0].trajectory
        repeated = lambda y: y[:1].expand(n, *y.shape[1:]).contiguous()  # derivatives refuse memory that is shared
        states = {body: {key: repeated(y) for key, y in state.items()} for body, state in one.states.items()}
        values = {name: repeated(v) for name, v in one.values.items()}
        whole = lambda group: Trajectory(one.times, group, values, one.systems, one.scenery)
        return Sensitivity(whole(states), whole(tangents), along, n)

    def sensitivity_along(self, u: Tensor, directions: Tensor, frames: int) -> Sensitivity:
        """Rollout at u (1, unknowns) with its derivatives along directions (k, unknowns)."""
        lanes = u.expand(len(directions), -1).contiguous()
        self.effort.rollouts += len(lanes)
        names = [p.field.name for p in self.space.pieces]
        of = lambda some: list(self.space.values(some["u"]).values())
        values, slopes = derivative(of, {"u": lanes}, {"u": directions.contiguous()})
        along = dict(zip(names, slopes, strict=True))
        touched = self.model.values(dict(zip(names, values, strict=True)))
        along = {name: t.to(self.model.dtype) for name, t in along.items() if t is not None}
        trajectory, tangent = self.model.tangent(touched, along, frames)
        return Sensitivity(trajectory, tangent, along, len(directions))

    def prior_cost(self, u: Tensor) -> Tensor:
        return torch.tensor(np.square(self.root @ (u.detach() - self.mean).numpy().T).sum(0))


class Linear:
    """Linearization at u: residuals r and matrix-free products J v and Jᵀ w.

    Args:
        problem: The problem.
        u: Point of linearization (unknowns,).
        frames: Number of first frames.
        residual: Type of residuals, as for `Problem.cost`.
    """

    def __init__(self, problem: FieldProblem, u: Tensor, frames: int, residual: Residual = "pixels"):
        self.problem, self.frames = problem, frames
        self.residual: Residual = residual
        self.u = u.detach().clone().requires_grad_()
        trajectory = problem.model.rollout(problem.space.values(self.u[None]), frames)
        problem.effort.rollouts += 1
        self._r = torch.cat([block[0] for block in problem.observation.residuals(trajectory, frames, residual)])
        self.r = self._r.detach()

    def jvp(self, v: Tensor) -> Tensor:
        """J v, from v (unknowns,)."""
        with torch.no_grad():
            sensitivity = self.problem.sensitivity_along(self.u.detach()[None], v[None], self.frames)
            blocks = self.problem.observation.linearize(sensitivity, self.frames, self.residual)
            return torch.cat([J[0, :, 0] for _, J in blocks])

    def vjp(self, w: Tensor) -> Tensor:
        """Jᵀ w, from w like r."""
        self.problem.effort.rollouts += 1
        return torch.autograd.grad(self._r, self.u, w, retain_graph=True)[0]

    @property
    def cost(self) -> float:
        """‖r‖² with the prior."""
        return (self.r.square().sum() + self.problem.prior_cost(self.u.detach()[None])[0]).item()

    def gradient(self) -> Tensor:
        """Half the derivative of the cost (unknowns,)."""
        return self.vjp(self.r) + self.problem.prior_product(self.u.detach() - self.problem.mean)


def _root(p: Piece) -> tuple[sparse.csr_array, Tensor | float | None]:
    """B of a field's unknowns, and their mean in u."""
    prior, n = p.field.prior, len(p.entries)
    if prior is None:
        return sparse.csr_array((n, n)), None
    rows = p.rows
    place = np.full(len(p.places), -1)
    place[rows] = np.arange(len(rows))
    edges = place[p.edges]
    factor = prior.factor(p.places[rows], edges[(edges >= 0).all(1)], p.dimension)
    mean = None if prior.mean is None else float(np.log(prior.mean)) if p.kind.positive else prior.mean / p.scale
    return sparse.csr_array(sparse.kron(factor, sparse.eye_array(p.width)) * p.scale), mean
