"""Pendulums and hinged arms in their angles, by SciPy's DOP853: shares no code with the product.

A ball of radius r on a string s, L = s + r, per mass; g down, c and d linear and quadratic damping:

    (L² + 2/5 r²) (θ'' + c θ' + d |θ'| θ') = −g L sin θ

Two points m₁, m₂ on massless rods, from their positions in the plane, with J_k = ∂x_k/∂θ:

    Σ m_k J_kᵀ J_k θ'' = Σ m_k J_kᵀ (g − J_k' θ') − k (2 θ₁' − θ₂',  θ₂' − θ₁')

A chain of links on hinges, in the angles φ (Featherstone 2008, § 3.3, by projection): with the axes n_i through P_i, link k has

    ω_k = Σ n_i φ_i',   v_k = Σ n_i × (x_k − P_i) φ_i'     (i ≤ k; the columns of J_ω and J_v)
    Σ (m J_vᵀ J_v + J_ωᵀ I J_ω) φ'' = τ + Σ (J_vᵀ m (g − a⁰) − J_ωᵀ (I α⁰ + ω × I ω))

with a⁰, α⁰ the accelerations at φ'' = 0 and τ_i = −k (φ − target) − c φ' + torque. The product holds joints by multipliers on
free bodies instead, and writes Lagrange's equations of the two points out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from gradsim_reproduction.foreign.rigid_trajectory import cross, rotation_of

RTOL, ATOL = 1e-12, 1e-13


def pendulum(
    times: np.ndarray,
    angle: float,
    rate: float,
    string: float,
    radius: float,
    damping: float,
    drag: float,
    gravity=9.81,
) -> np.ndarray:
    """θ [rad] at some times; the integrator starts anew where θ' changes sign, a kink of the drag's slope."""
    length = string + radius
    pull = gravity * length / (length**2 + 0.4 * radius**2)
    y, t, angles = np.array([angle, rate], float), times[0], [angle]
    while len(angles) < len(times):
        sign = np.sign(y[1]) or -np.sign(np.sin(y[0])) or 1.0
        rates = lambda _, y, s=sign: [y[1], -pull * np.sin(y[0]) - damping * y[1] - drag * s * y[1] ** 2]
        turns = lambda _, y: y[1]
        turns.terminal, turns.direction = True, -sign
        rest = times[len(angles) :]
        path = solve_ivp(rates, (t, times[-1]), y, "DOP853", rest, True, turns, rtol=RTOL, atol=ATOL)
        angles += path.y[0].tolist() if len(path.t) else []  # none between two turns
        if path.status != 1:
            break
        t, y = path.t_events[0][0], path.sol(path.t_events[0][0])
        y[1] = 0.0
    return np.array(angles)


def double_pendulum(
    times: np.ndarray, angles: ArrayLike, rates: ArrayLike, lengths, masses, damping: float, gravity=9.81
) -> np.ndarray:
    """Angles (times, 2) [rad] of two point masses [kg], both from hanging straight down; damping [N m s] of both hinges."""
    mass = np.asarray(masses, float)

    def accelerations(_, y):
        angle, rate = y[:2], y[2:]
        along, inward = np.cos(angle) * lengths, np.sin(angle) * lengths
        J = np.zeros((2, 2, 2))  # of each mass: (x, z) by angle
        J[0, :, 0] = J[1, :, 0] = along[0], inward[0]
        J[1, :, 1] = along[1], inward[1]
        bent = np.stack([-inward * rate**2, along * rate**2])  # J' θ' of each arm
        bias = np.stack([bent[:, 0], bent.sum(1)])
        inertia = np.einsum("k,kia,kib->ab", mass, J, J)
        f = np.einsum("k,kia,ki->a", mass, J, np.array([0.0, -gravity]) - bias)
        f -= damping * np.array([2 * rate[0] - rate[1], rate[1] - rate[0]])
        return np.concatenate([rate, np.linalg.solve(inertia, f)])

    y = np.concatenate([np.asarray(angles, float), np.asarray(rates, float)])
    return solve_ivp(accelerations, (times[0], times[-1]), y, "DOP853", times, rtol=RTOL, atol=ATOL).y[:2].T


@dataclass(frozen=True)
class Link:
    """A link and the hinge that holds it to the one before, or to the world.

    Args:
        size: Edges of the box [m].
        mass: [kg].
        parent_point, child_point: The hinge, from both centres of mass (of the first: in the world) [m].
        axis: In the frame of the one before, of any length.
        angle, rate: At the start [rad, rad/s].
        stiffness, target, damping, torque: Of the hinge.
    """

    size: Sequence[float]
    mass: float
    parent_point: Sequence[float]
    child_point: Sequence[float]
    axis: Sequence[float]
    angle: float = 0.0
    rate: float = 0.0
    stiffness: float = 0.0
    target: float = 0.0
    damping: float = 0.0
    torque: float = 0.0


class Chain:
    """Links on hinges, one after another."""

    def __init__(self, links: Sequence[Link], gravity: float = 9.81):
        self.links, self.weight = links, np.array([0.0, 0.0, -gravity])
        self.axes = [np.asarray(link.axis) / np.linalg.norm(link.axis) for link in links]
        self.inertias = [link.mass / 12 * np.diag(np.square(link.size).sum() - np.square(link.size)) for link in links]

    def trajectory(self, times: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """x (times, 3) and R (times, 3, 3) of each link."""
        y = [*(link.angle for link in self.links), *(link.rate for link in self.links)]
        path = solve_ivp(self.rates, (times[0], times[-1]), y, "DOP853", times, rtol=RTOL, atol=ATOL)
        poses = [self._poses(angles) for angles in path.y[: len(self.links)].T]
        return [
            (np.array([pose[2][k] for pose in poses]), np.array([pose[3][k] for pose in poses]))
            for k in range(len(self.links))
        ]

    def rates(self, _, y: np.ndarray) -> np.ndarray:
        """φ' and φ''."""
        n = len(self.links)
        angle, rate = y[:n], y[n:]
        axes, hinges, centers, turns = self._poses(angle)
        inertia, f = np.zeros((n, n)), np.zeros(n)
        spin, turning, at, carried = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
        for k, link in enumerate(self.links):
            # of the hinge, a point of the link before: its acceleration at φ'' = 0
            arm = hinges[k] - at
            carried = carried + cross(turning, arm) + cross(spin, cross(spin, arm)) if k else np.zeros(3)
            turning = turning + cross(spin, axes[k]) * rate[k]
            spin = spin + axes[k] * rate[k]
            arm, at = centers[k] - hinges[k], centers[k]
            carried = carried + cross(turning, arm) + cross(spin, cross(spin, arm))
            J_w = np.zeros((3, n))
            J_w[:, : k + 1] = axes[: k + 1].T
            J_v = np.zeros((3, n))
            J_v[:, : k + 1] = cross(axes[: k + 1], at - hinges[: k + 1]).T
            I = turns[k] @ self.inertias[k] @ turns[k].T
            inertia += link.mass * J_v.T @ J_v + J_w.T @ I @ J_w
            f += J_v.T @ (link.mass * (self.weight - carried)) - J_w.T @ (I @ turning + cross(spin, I @ spin))
            f[k] += link.torque - link.damping * rate[k] - link.stiffness * (angle[k] - link.target)
        return np.concatenate([rate, np.linalg.solve(inertia, f)])

    def _poses(self, angles) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Axes and hinges in the world, centres and rotation matrices of the links."""
        x, R = np.zeros(3), np.eye(3)
        axes, hinges, centers, turns = [], [], [], []
        for link, axis, angle in zip(self.links, self.axes, angles, strict=True):
            axes.append(R @ axis)
            hinges.append(x + R @ np.asarray(link.parent_point))
            R = R @ rotation_of(axis * angle)
            x = hinges[-1] - R @ np.asarray(link.child_point)
            centers.append(x)
            turns.append(R)
        return np.array(axes), np.array(hinges), np.array(centers), np.array(turns)
