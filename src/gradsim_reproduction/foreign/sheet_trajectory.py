"""A sheet of triangles by SciPy's integrator, with forces as derivatives of energies by torch: shares no code with the product.

    F = (x₁ − x₀, x₂ − x₀) D⁻¹,   I = |f₁|² + |f₂|²,   J = |f₁ × f₂|
    Ψ = A (½ μ (I − 2) + ½ λ (J − α)² − ½ μ ln(I + 1)),   α = 1 + 2 μ / 3 λ             stable neo-Hookean (Smith et al. 2018)
    R = ½ A η (½ C':C' + J'²),   C' = FᵀF' + F'ᵀF                                        viscous, objective
    B = 4 w k sin²((φ − φ₀) / 4),   w = |e|² / (|N₁| + |N₂|)                              bending of inner edges (Bridson et al. 2003)
    M x″ = M g − ∂(Ψ + B)/∂x − ∂R/∂x'

A third of each triangle's mass is on each of its vertices. Angles φ are computed by an arc tangent, as the product's are not.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

TOLERANCE = 1e-7  # of the integrator, relative; absolute in m and m/s


@dataclass(frozen=True)
class Sheet:
    """A sheet at rest.

    Args:
        vertices: (n, 3) [m], in the plane z = 0.
        faces: (m, 3).
        mu, lam: μ, λ times the thickness [N/m].
        density: Mass by area [kg/m²].
        damping: η times the thickness [N s/m].
        bending: k [N m].
        pinned: Vertices that do not move.
    """

    vertices: np.ndarray
    faces: np.ndarray
    mu: float
    lam: float
    density: float
    damping: float
    bending: float
    pinned: np.ndarray


def trajectory(sheet: Sheet, x: np.ndarray, v: np.ndarray, times: np.ndarray, gravity: float = 9.81) -> np.ndarray:
    """Vertices (frames, n, 3) at these instants [s] from a start x [m], v [m/s]."""
    law = _Law(sheet, gravity)
    start = np.concatenate([x.ravel(), (v * law.free).ravel()])
    path = solve_ivp(law.slope, (times[0], times[-1]), start, "DOP853", times, rtol=TOLERANCE, atol=TOLERANCE)
    if not path.success:
        raise ArithmeticError(path.message)
    return path.y[: x.size].T.reshape(len(times), *x.shape)


class _Law:
    def __init__(self, sheet: Sheet, gravity: float):
        self.sheet, self.faces = sheet, torch.tensor(sheet.faces)
        corners = torch.tensor(sheet.vertices)[self.faces]
        edges = (corners[:, 1:] - corners[:, :1])[..., :2].transpose(1, 2)
        self.inverse, self.area = torch.linalg.inv(edges), torch.linalg.det(edges).abs() / 2
        self.alpha = 1 + 2 * sheet.mu / (3 * sheet.lam)
        thirds = np.repeat(sheet.density * self.area.numpy() / 3, 3)
        self.mass = np.bincount(sheet.faces.ravel(), thirds, len(sheet.vertices))[:, None]
        self.free = np.ones((len(sheet.vertices), 1))
        self.free[sheet.pinned] = 0
        self.weight = np.array([0.0, 0.0, -gravity])
        self.hinges = torch.as_tensor(_hinges(sheet.faces))
        rest = torch.tensor(sheet.vertices)
        e, first, second = self._normals(rest)
        self.width = (e**2).sum(-1) / (first.norm(dim=-1) + second.norm(dim=-1))
        self.angle = self._angles(rest)

    def slope(self, _: float, state: np.ndarray) -> np.ndarray:
        x, v = (torch.as_tensor(half.reshape(-1, 3)).requires_grad_() for half in np.split(state, 2))
        (elastic,) = torch.autograd.grad(self._energy(x), x)
        (viscous,) = torch.autograd.grad(self._dissipation(x.detach(), v), v)
        a = self.free * (self.weight - (elastic + viscous).numpy() / self.mass)
        return np.concatenate([state[state.size // 2 :], a.ravel()])

    def _gradients(self, x: Tensor) -> tuple[Tensor, Tensor]:
        corners = x[self.faces]
        F = (corners[:, 1:] - corners[:, :1]).transpose(1, 2) @ self.inverse
        return F[..., 0], F[..., 1]

    def _energy(self, x: Tensor) -> Tensor:
        s, (f1, f2) = self.sheet, self._gradients(x)
        stretch, area = (f1**2 + f2**2).sum(-1), torch.linalg.cross(f1, f2).norm(dim=-1)
        density = s.mu / 2 * (stretch - 2) + s.lam / 2 * (area - self.alpha) ** 2 - s.mu / 2 * torch.log(stretch + 1)
        fold = 4 * s.bending * self.width * torch.sin((self._angles(x) - self.angle) / 4) ** 2
        return (self.area * density).sum() + fold.sum()

    def _dissipation(self, x: Tensor, v: Tensor) -> Tensor:
        (f1, f2), (g1, g2) = self._gradients(x), self._gradients(v)
        normal = torch.linalg.cross(f1, f2)
        swelling = (normal * (torch.linalg.cross(g1, f2) + torch.linalg.cross(f1, g2))).sum(-1) / normal.norm(dim=-1)
        c11, c22, c12 = 2 * (f1 * g1).sum(-1), 2 * (f2 * g2).sum(-1), (f1 * g2 + f2 * g1).sum(-1)
        return (self.sheet.damping / 2 * self.area * ((c11**2 + c22**2) / 2 + c12**2 + swelling**2)).sum()

    def _normals(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b, i, j = x[self.hinges.T]
        return j - i, torch.linalg.cross(i - a, j - a), torch.linalg.cross(j - b, i - b)

    def _angles(self, x: Tensor) -> Tensor:
        e, first, second = self._normals(x)
        across = (torch.linalg.cross(first, second) * e).sum(-1) / e.norm(dim=-1)
        return torch.atan2(across, (first * second).sum(-1))


def _hinges(faces: np.ndarray) -> np.ndarray:
    """Inner edges (k, 4): the two opposite vertices, then the two of the edge."""
    opposite = {(face[k], face[(k + 1) % 3]): face[(k + 2) % 3] for face in faces.tolist() for k in range(3)}
    pairs = [(a, opposite[j, i], i, j) for (i, j), a in opposite.items() if i < j and (j, i) in opposite]
    return np.array(pairs)
