"""A rigid body and a ground plane by SciPy's DOP853, restarted at every kink of the law: shares no code with the product.

    m v' = Σ f + m g,   L' = Σ r × f,   x' = v,   q' = ½ (ω, 0) q,   ω = R I⁻¹ Rᵀ L             r = R p
    C = −gap,  gap = z + r_z − height,   u = v + ω × r,   C' = −u_z,   u_t = u − u_z e_z
    f_n = k C (1 + a C')                     while C > 0 and 1 + a C' > 0, else 0               (Hunt & Crossley 1975)
    f = f_n e_z − k_f u_t                    while k_f |u_t| < μ f_n                            (sticks, viscous)
    f = f_n e_z − μ f_n u_t / |u_t|          else                                               (slides)

p are the vertices of a convex body about its centre of mass. f is continuous where a vertex begins or ends to touch, to pull
or to slide, but its derivative jumps there, so no step may cross: each vertex has a regime, which is kept until one of its
switches changes sign; the instant is found on the dense output and the integrator starts anew. Between switches the right
side is analytic, and errors are those of DOP853 at the tolerances below.
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import DOP853
from scipy.optimize import brentq
from scipy.spatial import ConvexHull

RTOL, ATOL = 1e-12, 1e-13
LONGEST = 1 / 240  # [s] of a step: the looks at the switches are at most an eighth of that apart
LOOKS = np.linspace(0, 1, 9)[1:]  # of each step, where switches are looked at
NOISE = 1e-13  # a switch that is nearer to 0 has just been passed
ROOT = np.float64(1e-15)
RESTARTS = 100_000
OPEN, PULL, STICK = range(3)  # switches: gap > 0;  1 + a C' < 0;  k_f |u_t| < μ f_n


@dataclass(frozen=True)
class Ground:
    """A plane z = height, with the numbers of each contact point."""

    stiffness: float  # k [N/m]
    dissipation: float  # a [s/m]
    friction_stiffness: float  # k_f [N s/m]
    friction: float  # μ
    height: float = 0.0  # [m]


NOWHERE = Ground(0.0, 0.0, 0.0, 0.0, -1e9)  # in the way of nothing


@dataclass(frozen=True)
class Body:
    """A convex body.

    Args:
        points: Vertices about the centre of mass (n, 3) [m], that touch.
        mass: [kg].
        inertia: About the centre of mass, in the axes of the points (3, 3) [kg m²].
    """

    points: np.ndarray
    mass: float
    inertia: np.ndarray

    @classmethod
    def of_hull(cls, vertices: np.ndarray, mass: float) -> "Body":
        """The convex hull of some points, of uniform density: its tetrahedra about an inner point, added up."""
        hull = ConvexHull(vertices)
        inner = vertices.mean(0)
        corners = vertices[hull.simplices] - inner
        volume = np.abs(np.linalg.det(corners)) / 6
        whole = volume.sum()
        centre = (volume[:, None] * corners.sum(1) / 4).sum(0) / whole
        # ∫ x xᵀ over a tetrahedron with a corner at 0 is V/20 (s sᵀ + Σ c cᵀ), s the sum of its corners c
        s = corners.sum(1)
        second = np.einsum("k,ki,kj->ij", volume, s, s) + np.einsum("k,kci,kcj->ij", volume, corners, corners)
        second = second / 20 / whole - np.outer(centre, centre)
        return cls(vertices - inner - centre, mass, mass * (np.trace(second) * np.eye(3) - second))


def trajectory(
    body: Body, ground: Ground, start: tuple, times: np.ndarray, gravity: float = 9.81, longest: float = LONGEST
) -> tuple[np.ndarray, np.ndarray]:
    """Places and rotation matrices at some times.

    Args:
        body: The body.
        ground: What it falls on, perhaps `NOWHERE`.
        start: x [m], R (3, 3), v [m/s], ω [rad/s], all in the world, at the first time.
        times: [s], increasing.
        gravity: Downwards [m/s²].
        longest: Longest step [s].

    Returns:
        x (times, 3) and R (times, 3, 3) of the centre of mass and of the axes of its points.
    """
    x, R, v, spin = (np.asarray(part, float) for part in start)
    law = _Law(body, ground, gravity)
    y = np.concatenate([x, _quaternion(R), v, R @ body.inertia @ R.T @ spin])
    states, t, regime = [y], times[0], law.regime(y)
    for _ in range(RESTARTS):
        solver = DOP853(
            lambda _, y, regime=regime: law.rates(y, regime), t, y, times[-1], rtol=RTOL, atol=ATOL, max_step=longest
        )
        crossed = None
        while solver.status == "running" and crossed is None:
            before = solver.t
            solver.step()
            path = solver.dense_output()
            crossed = law.first_crossing(path, before, solver.t, regime)
            end = solver.t if crossed is None else crossed[0]
            while len(states) < len(times) and times[len(states)] <= end:
                at = times[len(states)]
                states.append(solver.y if at == solver.t else path(at))
        if solver.status == "failed":
            raise ArithmeticError(f"DOP853 fails at {solver.t:.6g} s: the step is below rounding.")
        if crossed is None:
            break
        t, y = crossed[0], path(crossed[0])
        regime = law.switched(y, regime, crossed[1:])
    else:
        raise ArithmeticError(f"more than {RESTARTS} contact switches before {t:.6g} s.")
    states = np.array(states)
    return states[:, :3], np.array([_matrix(q) for q in states[:, 3:7]])


class _Law:
    """Rates of the state (x, q, v, L), and the switches of its vertices."""

    def __init__(self, body: Body, ground: Ground, gravity: float):
        self.body, self.ground = body, ground
        self.inverse = np.linalg.inv(body.inertia)
        self.weight = np.array([0.0, 0.0, -gravity])

    def rates(self, y: np.ndarray, regime: np.ndarray) -> np.ndarray:
        """y' where each vertex is in its regime (switches, points), whatever its switches say now."""
        v, momentum = y[7:10], y[10:]
        R = _matrix(y[3:7])
        spin = R @ (self.inverse @ (R.T @ momentum))
        f, torque = np.zeros(3), np.zeros(3)
        touching = np.flatnonzero(~regime[OPEN] & ~regime[PULL])
        if len(touching):
            r, _, u, normal = self._contacts(y, R, spin, touching)
            slide = u[:, :2]
            speed = np.linalg.norm(slide, axis=1)
            sticks = regime[STICK, touching]
            speed = np.where(sticks | (speed == 0), 1, speed)  # a vertex that slides has begun to, but for rounding
            drag = np.where(sticks, self.ground.friction_stiffness, self.ground.friction * normal / speed)
            force = np.column_stack([-drag[:, None] * slide, normal])
            f, torque = force.sum(0), cross(r, force).sum(0)
        x, y_, z, w = y[3:7]
        a, b, c = spin
        turning = 0.5 * np.array(
            [a * w + b * z - c * y_, -a * z + b * w + c * x, a * y_ - b * x + c * w, -a * x - b * y_ - c * z]
        )
        return np.concatenate([v, turning, f / self.body.mass + self.weight, torque])

    def switches(self, y: np.ndarray) -> np.ndarray:
        """Each positive where its switch is on (3, points); those of a vertex that is open mean nothing."""
        R = _matrix(y[3:7])
        spin = R @ (self.inverse @ (R.T @ y[10:]))
        _, depth, u, normal = self._contacts(y, R, spin, slice(None))
        g = self.ground
        stick = g.friction * normal - g.friction_stiffness * np.hypot(u[:, 0], u[:, 1])
        return np.stack([-depth, g.dissipation * u[:, 2] - 1, stick])

    def regime(self, y: np.ndarray) -> np.ndarray:
        """From the switches alone, as at the start."""
        on = self.switches(y) > 0
        on[OPEN] |= np.abs(self.switches(y)[OPEN]) < NOISE
        return on

    def switched(self, y: np.ndarray, regime: np.ndarray, which: tuple[int, int]) -> np.ndarray:
        """The regime after one switch of one vertex; where it begins to touch, it slides, and does not pull inwards."""
        new = regime.copy()
        new[which] = ~new[which]
        if which[0] == OPEN and not new[which]:
            new[PULL, which[1]] = self.switches(y)[PULL, which[1]] > 0
            new[STICK, which[1]] = False
        if which[0] == PULL and not new[which]:
            new[STICK, which[1]] = False
        return new

    def first_crossing(self, path, begin: float, end: float, regime: np.ndarray) -> tuple[float, int, int] | None:
        """Instant, switch and vertex of the first change of regime in a step; None if there is none."""
        sign = np.where(regime, 1.0, -1.0)
        before = begin
        for at in begin + LOOKS * (end - begin):
            off = sign * self.switches(path(at)) < -NOISE
            off[1:] &= ~regime[OPEN]  # of a vertex in the air only the gap counts
            off[STICK] &= ~regime[PULL]
            if off.any():
                roots = [
                    (self._root(path, before, at, k, j, sign[k, j].item()), k, j) for k, j in np.argwhere(off).tolist()
                ]
                return min(roots)
            before = at
        return None

    def _root(self, path, low: float, high: float, k: int, j: int, sign: float) -> float:
        value = lambda t: sign * self.switches(path(t))[k, j]
        return low if value(low) <= 0 else brentq(value, low, high, xtol=1e-15, rtol=ROOT)  # pyright: ignore[reportReturnType] -- not full_output

    def _contacts(self, y, R, spin, rows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Arm, depth, velocity and normal force of some vertices, without its clamps."""
        r = self.body.points[rows] @ R.T
        depth = self.ground.height - y[2] - r[:, 2]
        u = y[7:10] + cross(spin, r)
        return r, depth, u, self.ground.stiffness * depth * (1 - self.ground.dissipation * u[:, 2])


def struck(body: Body, start: tuple, impulse, point) -> tuple:
    """The start after a blow [N s] at a point of the body [m]."""
    x, R, v, spin = start
    turn = R @ np.linalg.inv(body.inertia) @ R.T @ cross(R @ np.asarray(point), np.asarray(impulse))
    return x, R, np.asarray(v) + np.asarray(impulse) / body.mass, np.asarray(spin) + turn


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a × b along the last axis; ten times faster than `numpy.cross` on few vectors."""
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    u, v, w = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], -1)


def rotation_of(vector) -> np.ndarray:
    """Rodrigues: the matrix that turns by |vector| [rad] about it."""
    angle = np.linalg.norm(vector)
    if angle == 0:
        return np.eye(3)
    a, b, c = np.asarray(vector) / angle
    K = np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * (K @ K)


def _matrix(q: np.ndarray) -> np.ndarray:
    x, y, z, w = q / np.sqrt(q @ q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _quaternion(R: np.ndarray) -> np.ndarray:
    """(x, y, z, w): the eigenvector of Davenport's matrix, whatever the turn."""
    skew = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    K = np.zeros((4, 4))
    K[:3, :3] = R + R.T - np.trace(R) * np.eye(3)
    K[:3, 3] = K[3, :3] = skew
    K[3, 3] = np.trace(R)
    return np.linalg.eigh(K)[1][:, -1]
