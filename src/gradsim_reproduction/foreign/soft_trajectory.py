"""A soft solid of tetrahedra by steps of second order in NumPy: shares no code with the product.

    F = D_s D_m⁻¹,   J = det F,   I = tr FᵀF
    P = μ (1 − 1/(I + 1)) F + (λ (J − 1) − ¾ μ) cof F + η (F C' + J' cof F),   C' = FᵀF' + F'ᵀF,   J' = cof F : F'
    (f₁ f₂ f₃) = −V P D_m⁻ᵀ,   f₀ = −Σ f_k                      stable neo-Hookean (Smith et al. 2018), objective damping

A quarter of each tetrahedron's mass is on each of its vertices. A vertex below the ground is pushed by the law of
`rigid_trajectory.py`. Velocity Verlet, with the force at the end of a step at a predicted velocity, as damping depends on it:

    x⁺ = x + h v + ½ h² a,   a* = a(x⁺, v + h a),   v⁺ = v + ½ h (a + a*)

which is of second order in both; the next step begins with a(x⁺, v⁺) itself.
"""

from dataclasses import dataclass

import numpy as np

from gradsim_reproduction.foreign.rigid_trajectory import NOWHERE, Ground


@dataclass(frozen=True)
class Solid:
    """A soft solid at rest.

    Args:
        vertices: (n, 3) [m].
        tets: (m, 4), of positive volume.
        mu, lam: μ, λ [Pa], of all tetrahedra or each (m,).
        density: [kg/m³].
        damping: η [Pa s].
        pinned: Vertices that do not move.
        touching: Vertices that the ground pushes.
    """

    vertices: np.ndarray
    tets: np.ndarray
    mu: float | np.ndarray
    lam: float | np.ndarray
    density: float
    damping: float
    pinned: np.ndarray
    touching: np.ndarray


def trajectory(
    solid: Solid,
    x: np.ndarray,
    v: np.ndarray,
    fps: float,
    frames: int,
    steps: int,
    ground: Ground = NOWHERE,
    gravity: float = 9.81,
) -> np.ndarray:
    """Vertices (frames, n, 3) from a start x [m], v [m/s], with this many steps between frames."""
    law = _Law(solid, ground, gravity)
    h = 1 / (fps * steps)
    x, v, path = x.copy(), v * law.free, [x.copy()]
    for _ in range(frames - 1):
        for _ in range(steps):
            a = law.acceleration(x, v)
            x = x + h * v + 0.5 * h * h * a
            v = v + 0.5 * h * (a + law.acceleration(x, v + h * a))
        path.append(x.copy())
    return np.array(path)


class _Law:
    """Accelerations of vertices; matrices of all tetrahedra are 9 arrays, which NumPy multiplies faster than small ones."""

    def __init__(self, solid: Solid, ground: Ground, gravity: float):
        corners = solid.vertices[solid.tets]
        edges = np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2)
        volume = np.linalg.det(edges) / 6
        rest = np.linalg.inv(edges)
        self.solid, self.ground, self.weight = solid, ground, np.array([0.0, 0.0, -gravity])
        count = len(solid.vertices)
        mass = np.bincount(solid.tets.ravel(), np.repeat(solid.density * volume / 4, 4), count)
        self.free = np.ones((count, 1))
        self.free[solid.pinned] = 0
        self.inverse_mass = self.free / mass[:, None]
        # F = Σ x_a g_aᵀ with g_a the gradients of the shape functions; f_a = −V P g_a
        slopes = np.concatenate([-rest.sum(1, keepdims=True), rest], 1)
        gather = np.zeros((len(volume), 3, count))
        for a in range(4):
            gather[np.arange(len(volume)), :, solid.tets[:, a]] += slopes[:, a]
        self.gather = gather.reshape(-1, count)
        self.scatter = -(gather * volume[:, None, None]).reshape(-1, count).T.copy()

    def acceleration(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """(n, 3) [m/s²]; 0 of pinned vertices."""
        f = self.scatter @ self._stress(x, v)
        self._push(x, v, f)
        return f * self.inverse_mass + self.free * self.weight

    def _stress(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Pᵀ of all tetrahedra, (3 m, 3)."""
        s = self.solid
        # rows are columns of F: Fᵀ (m, 3, 3), and so all below is transposed
        both = self.gather @ np.concatenate([x, v], 1)
        F, rate = both[:, :3].reshape(-1, 3, 3), both[:, 3:].reshape(-1, 3, 3)
        cofactor = np.empty_like(F)
        for k in range(3):
            a, b = F[:, (k + 1) % 3], F[:, (k + 2) % 3]
            cofactor[:, k, 0] = a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1]
            cofactor[:, k, 1] = a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2]
            cofactor[:, k, 2] = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
        volume = np.einsum("mi,mi->m", F[:, 0], cofactor[:, 0])
        stretch = np.einsum("mij,mij->m", F, F)
        swelling = np.einsum("mij,mij->m", cofactor, rate)
        G = F @ rate.swapaxes(1, 2)
        strain_rate = G + G.swapaxes(1, 2)
        spherical = s.lam * (volume - 1) - 0.75 * s.mu + s.damping * swelling
        P = (s.mu - s.mu / (stretch + 1))[:, None, None] * F + spherical[:, None, None] * cofactor
        return (P + s.damping * (strain_rate @ F)).reshape(-1, 3)

    def _push(self, x: np.ndarray, v: np.ndarray, f: np.ndarray) -> None:
        """Add the forces of the ground."""
        g, rows = self.ground, self.solid.touching
        rows = rows[x[rows, 2] < g.height]
        if not len(rows):
            return
        u = v[rows]
        normal = (g.stiffness * (g.height - x[rows, 2]) * (1 - g.dissipation * u[:, 2])).clip(0)
        speed = np.hypot(u[:, 0], u[:, 1])
        drag = np.minimum(g.friction * normal / np.where(speed > 0, speed, 1), g.friction_stiffness)
        f[rows, 2] += normal
        f[rows, :2] -= drag[:, None] * u[:, :2]
