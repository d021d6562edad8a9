"""Multiple shooting (Bock & Plitt 1984): a long or chaotic clip as windows whose start states are unknowns too.

    cost(u, s) = Σ_j χ²_j(u, s_j) + κ Σ_j |gap_j(u, s_{j-1}, s_j)|² + prior(u)            gap: see `shooting_windows.py`

Trajectories of a tumbling body diverge, so over a long clip the cost of one shot is jagged; over a window it is not. With a
small κ every window follows the data, and the gaps take up what the unknowns have wrong. As κ grows they close, and the
windows become one motion. The start states are eliminated from the Gauss–Newton system by a Schur complement
(`clip_ensemble.eliminate`); every window of every start is a world of one batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from gradsim.identification.observation.base import Observation, Residual, Sensitivity
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.clip_ensemble import eliminate
from gradsim.identification.solvers.levenberg_marquardt import (
    DAMPING_FACTORS,
    Iterates,
    Stopping,
    damped_step,
    minimize,
)
from gradsim.identification.solvers.shooting_windows import Windows, part
from gradsim.numerics import rotation
from gradsim.physics.trajectory import Trajectory

NODE_REACH = 0.5  # most that a start state moves in a step, in units of D
PATIENCE = 2  # idle iterations after which a start rests


@dataclass
class Segments(Iterates):
    """Iterates: shared unknowns and start states of the windows.

    Args:
        u: Shared unknowns (starts, n).
        nodes: Start states of the windows but the first (starts, windows − 1, size).
        data: Σ r² against the data, and the prior (starts,).
        gaps: (starts, windows − 1, size), in units of D.
        cost: (starts,).
    """

    u: Tensor
    nodes: Tensor
    data: Tensor
    gaps: Tensor
    cost: Tensor


class ShootingProblem:
    """Problem with its clip divided into windows.

    Args:
        problem: The problem in one shot.
        window: Frames from one start to the next.

    Raises:
        InputError: As `Windows`.
    """

    def __init__(self, problem: Problem, window: int):
        self.problem, self.space, self.effort = problem, problem.space, problem.effort
        self.windows = Windows(problem.model, problem.space, problem.frames, window)
        self._cuts = {}

    def at(self, u: Tensor, nodes: Tensor, stiffness: float, frames: int, residual: Residual = "pixels") -> Segments:
        """Cost of unknowns and start states on the first frames; infinite where a rollout diverges.

        Args:
            u: (starts, n).
            nodes: (starts, windows of these frames − 1, size).
            stiffness: κ.
            frames: Frames that count.
            residual: Which residuals: "pixels", "cdf" (wide basin) or an image loss.
        """
        with torch.no_grad():
            trajectory = self.windows.move(u, nodes, frames)
            self.effort.rollouts += len(u)  # windows of a clip are as long as the clip
            data = self.problem.prior_cost(u)
            for piece, observation, length in self._parts(trajectory, frames, 1):
                data = data + observation.cost(piece, length, residual)
            gaps = self._gaps(trajectory, frames, nodes)
        data = torch.where(torch.isfinite(data), data, torch.inf)
        gaps = gaps.nan_to_num(torch.inf, torch.inf, torch.inf)
        return Segments(u, nodes, data, gaps, data + stiffness * gaps.square().sum((1, 2)))

    def normal(
        self, segments: Segments, stiffness: float, frames: int, residual: Residual = "pixels"
    ) -> tuple[Tensor, Tensor]:
        """Jᵀ J (starts, N, N) and Jᵀ r (starts, N) with N = n + size (windows − 1)."""
        u, nodes = segments.u, segments.nodes
        n, size, inner = len(self.space), self.windows.size, nodes.shape[1]
        lanes, N = n + size, n + size * inner
        with torch.no_grad():
            trajectories, tangents, along = self.windows.tangent(u, nodes, frames)
            self.effort.rollouts += len(u) * lanes
            A, g = torch.zeros(len(u), N, N).double(), torch.zeros(len(u), N).double()
            A[:, :n, :n] += self.problem.prior_precision
            g[:, :n] += self.problem.prior_gradient(u)
            count = inner + 1
            for j, (trajectory, observation, length) in enumerate(self._parts(trajectories, frames, lanes)):
                rows = _rows(j, count, lanes, len(u))
                turned = {name: y[rows] for name, y in along.items()}
                s = Sensitivity(trajectory, part(tangents, rows, length), turned, lanes)
                _, gradient, matrix = observation.normal(s, length, residual)
                columns = _places(n, size, j)
                used = slice(None) if j else slice(n)  # window 0 begins in the state of the scene
                g[:, columns] += gradient[:, used]
                A[:, columns[:, None], columns] += matrix[:, used, used]
            if inner:
                self._add_gaps(A, g, trajectories, tangents, along, stiffness, frames, (len(u), count, lanes))
        return A, g

    def linearized(self, segments: Segments) -> Iterator[tuple[Trajectory, Observation, list[tuple[Tensor, Tensor]]]]:
        """For each window of one start: its frames, what was observed in them, and blocks of residuals and derivatives.

        Residuals (1, m), derivatives (1, m, n + size) by the unknowns and the window's own start state.
        """
        frames, lanes = self.problem.frames, len(self.space) + self.windows.size
        with torch.no_grad():
            trajectories, tangents, along = self.windows.tangent(segments.u, segments.nodes, frames)
            self.effort.rollouts += lanes
            for j, (trajectory, observation, length) in enumerate(self._parts(trajectories, frames, lanes)):
                rows = _rows(j, segments.nodes.shape[1] + 1, lanes, 1)
                turned = {name: y[rows] for name, y in along.items()}
                s = Sensitivity(trajectory, part(tangents, rows, length), turned, lanes)
                blocks = list(observation.linearize(s, length, "pixels"))
                yield part(trajectory, slice(0, 1), length), observation, blocks

    def reduced(self, segments: Segments, stiffness: float) -> tuple[Tensor, Tensor]:
        """Information (starts, n, n) and gradient (starts, n) of the shared unknowns, the start states eliminated.

        NaN of all starts if derivatives of one are not finite.
        """
        A, g = self.normal(segments, stiffness, self.problem.frames)
        if not (torch.isfinite(A).all() and torch.isfinite(g).all()):
            return torch.full_like(A[:, : len(self.space), : len(self.space)], torch.nan), g[
                :, : len(self.space)
            ] * torch.nan
        schur, gradient, _, _ = eliminate(A[:, None], g[:, None], len(self.space), torch.zeros(len(A)))
        return schur[:, 0], gradient[:, 0]

    def with_finer_steps(self, factor: int) -> Self:
        """The same with `factor` times the steps; it counts the same effort."""
        return type(self)(self.problem.with_finer_steps(factor), self.windows.window)

    def grown(self, segments: Segments, frames: int) -> Tensor:
        """Start states for `frames` frames: a new window begins where the one before ends."""
        nodes = segments.nodes
        while nodes.shape[1] < self.windows.count(frames) - 1:
            reached = (nodes.shape[1] + 1) * self.windows.window + 1
            with torch.no_grad():
                trajectory = self.windows.move(segments.u, nodes, reached)
                last = part(trajectory, slice(nodes.shape[1], None, nodes.shape[1] + 1), self.windows.window + 1)
                nodes = torch.cat([nodes, self.windows.end(last, self.windows.window)[:, None]], 1)
        return nodes

    def _parts(self, trajectory: Trajectory, frames: int, lanes: int):
        """For each window its worlds, the data of its frames, and their number."""
        spans = self.windows.spans(frames)
        starts = len(next(iter(trajectory.values.values()))) // (len(spans) * lanes)
        for j, (first, last) in enumerate(spans):
            if (first, last) not in self._cuts:
                self._cuts[first, last] = self.problem.observation.slice_frames(first, last)
            rows = _rows(j, len(spans), lanes, starts)
            yield part(trajectory, rows, last - first), self._cuts[first, last], last - first

    def _gaps(self, trajectory: Trajectory, frames: int, nodes: Tensor) -> Tensor:
        """(starts, windows − 1, size)."""
        starts, inner = nodes.shape[:2]
        if not inner:
            return nodes.new_zeros(starts, 0, self.windows.size)
        ends, begins = self._borders(trajectory, (starts, inner + 1))
        return self.windows.gap(ends, begins).unflatten(0, (starts, inner))

    def _borders(self, trajectory: Trajectory, shape: tuple[int, ...]):
        """States at the ends of all windows but the last, and at the starts of all but the first."""
        ends, begins = (self.windows.states(trajectory, frame) for frame in (self.windows.window, 0))
        pick = lambda states, which: [
            {key: y.unflatten(0, shape)[:, which].flatten(0, len(shape) - 1) for key, y in state.items()}
            for state in states
        ]
        return pick(ends, slice(None, -1)), pick(begins, slice(1, None))

    def _add_gaps(self, A: Tensor, g: Tensor, own, moved, along, stiffness: float, frames: int, shape) -> None:
        """Add κ |gap|² to the normal equations."""
        starts, count, lanes = shape
        n, size = len(self.space), self.windows.size

        def borders(states, values):
            lively = Trajectory(own.times, states, {**own.values, **values}, own.systems)
            return self._borders(lively, shape)

        turned = {name: own.values[name] for name in along}
        (ends, begins), (d_ends, d_begins) = torch.func.jvp(borders, (own.states, turned), (moved.states, dict(along)))[
            :2
        ]
        still = lambda states: [{key: torch.zeros_like(y) for key, y in s.items()} for s in states]
        gap, by_begin = torch.func.jvp(self.windows.gap, (ends, begins), (still(ends), d_begins))[:2]
        _, by_end = torch.func.jvp(self.windows.gap, (ends, begins), (d_ends, still(begins)))[:2]
        # (starts, windows − 1, lanes, size) → (starts, windows − 1, size, lanes)
        gap = gap.unflatten(0, (starts, count - 1, lanes))[:, :, 0]
        by_begin, by_end = (y.unflatten(0, (starts, count - 1, lanes)).mT for y in (by_begin, by_end))
        for j in range(count - 1):
            J = torch.zeros(starts, size, A.shape[1]).double()
            J[..., :n] = by_begin[:, j, :, :n] + by_end[:, j, :, :n]
            J[..., _places(n, size, j + 1)[n:]] = by_begin[:, j, :, n:]
            if j:
                J[..., _places(n, size, j)[n:]] = by_end[:, j, :, n:]
            A += stiffness * J.mT @ J
            g += stiffness * (J.mT @ gap[:, j, :, None])[..., 0]


def _rows(j: int, count: int, lanes: int, starts: int):
    """Worlds of window j, of starts × windows × lanes."""
    worlds = torch.arange(starts * count * lanes).unflatten(0, (starts, count, lanes))
    return worlds[:, j].flatten()


def _places(n: int, size: int, j: int) -> Tensor:
    """Columns of the shared unknowns and of the start state of window j."""
    shared, first = torch.arange(n), n + size * (j - 1)
    return shared if j == 0 else torch.cat([shared, torch.arange(first, first + size)])


def descend(
    problem: ShootingProblem,
    start: Segments,
    stiffness: float,
    frames: int,
    iterations: int,
    residual: Residual = "pixels",
    rtol: float = 1e-3,
    target_cost: float = 0.0,
) -> Segments:
    """Levenberg–Marquardt on unknowns and start states.

    Args:
        problem: The problem.
        start: Where to begin; not changed.
        stiffness: κ.
        frames: First frames that count.
        iterations: Largest number of linearizations.
        residual: Which residuals: "pixels", "cdf" (wide basin) or an image loss.
        rtol: Relative decrease at or below which an iteration is idle.
        target_cost: Cost at which a start rests.
    """
    factors = torch.tensor(DAMPING_FACTORS).double()

    def linearize(now: Segments, rows: Tensor):
        return [y.nan_to_num(0.0, 0.0, 0.0) for y in problem.normal(now, stiffness, frames, residual)]

    def step(now: Segments, linear, damping: Tensor) -> tuple[Segments, Tensor]:
        A, g = linear
        trials = [_trial(problem, now, A, g, damping * factor) for factor in DAMPING_FACTORS]
        u, nodes = (torch.cat(y) for y in zip(*trials, strict=True))
        tried = problem.at(u, nodes, stiffness, frames, residual)
        k = tried.cost.unflatten(0, (len(factors), -1)).min(0).indices
        return tried[k * len(now.u) + torch.arange(len(now.u))], factors[k]

    current = problem.at(start.u, start.nodes, stiffness, frames, residual)[slice(None)]
    return minimize(current, linearize, step, iterations, Stopping(rtol, target_cost=target_cost, patience=PATIENCE))[0]


def _trial(problem: ShootingProblem, now: Segments, A: Tensor, g: Tensor, damping: Tensor) -> tuple[Tensor, Tensor]:
    """Trial of one λ: unknowns (rows, n) and start states (rows, windows − 1, size)."""
    n = now.u.shape[1]
    schur, gradient, back_A, back_g = (y[:, 0] for y in eliminate(A[:, None], g[:, None], n, damping))
    u = damped_step(problem.space, now.u, schur, gradient, damping)
    shift = back_g + (back_A @ (u - now.u)[..., None])[..., 0]
    limit = NODE_REACH * problem.windows.scale
    return u, now.nodes - shift.unflatten(1, now.nodes.shape[1:]).clamp(-limit, limit)


def jumps(problem: ShootingProblem, segments: Segments) -> list[dict[str, float]]:
    """Gaps of one start between the windows, in SI units: frame, position, angle, velocity, angular velocity.

    Of several bodies, the largest.
    """
    sizes = problem.windows.by_quantity(segments.gaps[0] * problem.windows.scale)
    rows = zip(*(size.tolist() for size in sizes.values()), strict=True)
    return [
        {"frame": (j + 1) * problem.windows.window, **dict(zip(sizes, row, strict=True))} for j, row in enumerate(rows)
    ]


def measured_starts(problem: ShootingProblem, states: Sequence) -> Tensor:
    """Start states (windows − 1, size) from `States` of every body: measured places, and straight lines for speeds."""
    frames, fps, starts = problem.problem.frames, problem.problem.model.scene.timing.fps, []
    for first, _ in problem.windows.spans(frames)[1:]:
        parts = []
        for observed, name in zip(states, problem.windows.bodies, strict=True):
            near = slice(max(0, first - 1), min(frames, first + 2))
            times = torch.arange(near.start - first, near.stop - first).double() / fps
            line = torch.linalg.pinv(torch.stack([torch.ones_like(times), times], 1))
            base = torch.tensor(problem.problem.model.scene.bodies[name].quat_xyzw).double()
            back = rotation.conjugate(observed.q[first : first + 1])
            turned = rotation.logarithm(rotation.multiply(observed.q[near], back))
            place = rotation.logarithm(rotation.multiply(observed.q[first], rotation.conjugate(base)))
            parts += [observed.x[first], place, line[1] @ observed.x[near], line[1] @ turned]
        starts.append(torch.cat(parts))
    return torch.stack(starts)
