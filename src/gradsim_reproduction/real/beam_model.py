"""A clamped beam of tetrahedra, quadratic or linear: its places at rest, its pitch, and its swing after it is let go.

    Σ ∂E/∂x = m g + F b,   c · x = h            at rest, held at height h by a force F on the end face (F = 0: free)
    (K − ω² M) φ = 0                            small vibrations about a place at rest
    h c + h² ω²/2 < 2                           stable steps of semi-implicit Euler, ω² and c the largest eigenvalues
                                                of M⁻¹K and of M⁻¹C, which those of single elements bound

Up is +x and the beam runs along +z from its clamp. Energy and stiffness are in proportion to Young's modulus E, so that
places at rest depend on g/E alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor

from gradsim.geometry.tet_grid import box
from gradsim.geometry.tet_mesh import quadratic as quadratic_mesh
from gradsim.physics.forces import neo_hookean, neo_hookean_quadratic
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

WIDTH, LENGTH, DENSITY = 0.03, 0.1, 1070.0  # [m], [m], [kg/m³]
GRAVITY = 9.80665  # [m/s²]
SAFE = 0.8  # of the largest stable step
FPS = 400  # of the simulated tracks [Hz]
MARKERS = ((0.021, 0.0, LENGTH), (0.009, 0.021, LENGTH), (-0.009, -0.021, LENGTH))  # centres of balls on the tip [m]
EVEN = torch.zeros(3, 3, 3, dtype=torch.float64)  # ε_ijk
for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    EVEN[i, j, k], EVEN[i, k, j] = 1, -1
ITERATIONS, CLOSE = 30, 1e-8  # of Newton's method; last step [m]


@dataclass(frozen=True, eq=False)
class Beam:
    """Mesh and masses of the beam.

    Args:
        cells: Across each side of the square section, and along.
        poisson: ν.
        linear: Whether strain is constant in an element, which locks: only to compare with.
        load_at: Where on its upper side a load hangs [m] from the clamp.
    """

    cells: tuple[int, int]
    poisson: float
    linear: bool = False
    load_at: float = LENGTH

    @property
    def law(self) -> ModuleType:
        """`forces.neo_hookean_quadratic` or `forces.neo_hookean`."""
        return neo_hookean if self.linear else neo_hookean_quadratic

    @cached_property
    def mesh(self) -> tuple[Tensor, Tensor]:
        """Vertices (n, 3) [m] and elements (m, 10), or (m, 4) if linear."""
        across, along = self.cells
        mesh = box((WIDTH, WIDTH, LENGTH), (across, across, along))
        x, tets = (mesh.vertices, mesh.tets) if self.linear else quadratic_mesh(mesh)
        return torch.tensor(x) + torch.tensor([0, 0, LENGTH / 2], dtype=torch.float64), torch.tensor(tets)

    @cached_property
    def rest(self) -> dict[str, Tensor]:
        """Constants of the elements."""
        return self.law.rest_shape(*self.mesh)

    @cached_property
    def share(self) -> Tensor:
        """Share of an element's mass on each of its vertices."""
        return torch.tensor([0.25] * 4 if self.linear else neo_hookean_quadratic.MASSES, dtype=torch.float64)

    @cached_property
    def clamped(self) -> Tensor:
        """True for clamped vertices (n,)."""
        return self.mesh[0][:, 2] < 1e-9

    def masses(self, load: float) -> Tensor:
        """Vertex masses (n,), with a load along the upper edge of the tip [kg]."""
        x, elements = self.mesh
        element_masses = DENSITY * self.rest["volume"][:, None] * self.share
        mass = torch.zeros(len(x), dtype=torch.float64).index_add(0, elements.flatten(), element_masses.flatten())
        place = x[(x[:, 2] - self.load_at).abs().argmin(), 2]
        edge = ((x[:, 2] - place).abs() < 1e-9) & (x[:, 0] > WIDTH / 2 - 1e-9)
        return mass + load * edge / edge.sum()

    @cached_property
    def markers(self) -> Tensor:
        """W (3, n): each marker moves with the affine motion that fits the last layer of vertices best."""
        x = self.mesh[0]
        layer = x[:, 2] > LENGTH * (1 - 0.55 / self.cells[1])
        one = torch.ones(len(x), 1, dtype=torch.float64)
        corners = torch.cat([one, x], 1)[layer]
        at = torch.tensor(MARKERS).double()
        weights = torch.zeros(len(at), len(x)).double()
        weights[:, layer] = torch.cat([torch.ones(len(at), 1).double(), at], 1) @ torch.linalg.pinv(corners)
        return weights

    def lame(self, young: float | Tensor) -> tuple[Tensor, Tensor]:
        """μ and λ of the law [Pa]."""
        return neo_hookean.lame(torch.as_tensor(young).double(), torch.tensor(self.poisson).double())

    def stiffness(self, x: Tensor) -> tuple[Tensor, scipy.sparse.csc_matrix]:
        """Forces (n, 3) [m³/s² kg/Pa] and their negative slope (3n, 3n), per unit of Young's modulus."""
        gradient, hessian = self._element_slopes(x)
        elements = self.mesh[1]
        f = torch.zeros_like(x).index_add(0, elements.flatten(), -gradient.reshape(-1, 3))
        place = (3 * elements[:, :, None] + torch.arange(3)).flatten(1)
        k = place.shape[1]
        rows = place[:, :, None].expand(-1, -1, k).flatten()
        columns = place[:, None, :].expand(-1, k, -1).flatten()
        shape = (3 * len(x), 3 * len(x))
        return f, scipy.sparse.csc_matrix((hessian.flatten().numpy(), (rows.numpy(), columns.numpy())), shape)

    @cached_property
    def gradients(self) -> tuple[Tensor, Tensor]:
        """∂N/∂X of the vertices at the Gauss points (m, points, k, 3) [1/m], and the points' volumes (m,) [m³]."""
        corners = torch.eye(4, dtype=torch.float64)[None]  # of the tetrahedron that a point sees, from the vertices
        if not self.linear:
            one_by_one = torch.eye(10, dtype=torch.float64)[:, :, None].expand(10, 10, 3)
            corners = torch.stack([y[..., 0].T for y in neo_hookean_quadratic.gauss(one_by_one)])
        edges = corners[:, 1:] - corners[:, :1]
        return torch.einsum("pkn,mkj->mpnj", edges, self.rest["rest"]), self.rest["volume"] / len(corners)

    def _element_slopes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """First (m, 3k) and second (m, 3k, 3k) derivatives of each element's energy by its vertices, for E = 1.

        The second derivative of Ψ (see `solid`) by F is μ (1 − 1/(I + 1)) 1 + 2 μ/(I + 1)² F ⊗ F + λ cof F ⊗ cof F
        + λ (J − α) ∂cof F/∂F.
        """
        G, volume = self.gradients
        mu, lam = self.lame(1.0)
        F = torch.einsum("mni,mpnj->mpij", x[self.mesh[1]], G)
        cof = torch.einsum("ikl,jab,mpka,mplb->mpij", EVEN, EVEN, F, F) / 2
        slope = torch.einsum("ikl,jab,mpka->mpijlb", EVEN, EVEN, F)  # ∂cof_ij/∂F_lb
        J, I = (F * cof).sum((-2, -1)) / 3, F.square().sum((-2, -1))
        wide = lambda y: y[..., None, None]
        spherical = lam * (J - 1) - 0.75 * mu
        P = wide(mu * (1 - 1 / (I + 1))) * F + wide(spherical) * cof
        one = torch.eye(3, dtype=torch.float64)
        A = wide(wide(mu * (1 - 1 / (I + 1)))) * torch.einsum("il,jb->ijlb", one, one) + wide(wide(spherical)) * slope
        A += wide(wide(2 * mu / (I + 1) ** 2)) * torch.einsum("mpij,mplb->mpijlb", F, F)
        A += lam * torch.einsum("mpij,mplb->mpijlb", cof, cof)
        first = torch.einsum("m,mpij,mpnj->mni", volume, P, G)
        return first.flatten(1), self._assembled(A)

    def _assembled(self, A: Tensor) -> Tensor:
        """Matrices of elements (m, 3k, 3k) from the second derivatives by F at the points (..., 3, 3, 3, 3)."""
        G, volume = self.gradients
        half = torch.einsum("mpijlb,mpnj->mpnilb", A.expand(*G.shape[:2], 3, 3, 3, 3), G)
        return torch.einsum("m,mpnilb,mpob->mniol", volume, half, G).flatten(3).flatten(1, 2)

    def at_rest(self, young: float, load: float, height: float | None = None, near: Tensor | None = None) -> Tensor:
        """Vertices (n, 3) at rest: free, or held by the tip.

        Args:
            young: E [Pa].
            load: On the tip [kg].
            height: Mean height at which the markers are held, over those of a straight beam [m]; None leaves them free.
            near: Where the search begins; straight by default.
        """
        straight = self.mesh[0]
        x = straight if near is None else near
        weight = torch.zeros_like(x)
        weight[:, 0] = -GRAVITY / young * self.masses(load)
        free = np.repeat(~self.clamped.numpy(), 3)
        lift, over = torch.zeros_like(x), torch.zeros_like(x)
        lift[:, 0] = (straight[:, 2] > LENGTH - 1e-9).double()
        over[:, 0] = self.markers.mean(0)
        b, c = (y.flatten().numpy()[free] for y in (lift / lift.sum(), over))
        force = 0.0
        for _ in range(ITERATIONS):
            f, K = self.stiffness(x)
            residual = (f + weight).flatten().numpy()[free] + force * b
            solve = scipy.sparse.linalg.factorized(K[free][:, free])
            move = solve(residual)
            if height is not None:
                reach = solve(b)
                missing = height - float((over * (x - straight)).sum()) - c @ move
                push = missing / (c @ reach)
                move, force = move + push * reach, force + push
            step = np.zeros(len(free))
            step[free] = move
            x = x + torch.tensor(step).reshape(-1, 3)
            if abs(move).max() < CLOSE:
                return x
        raise ArithmeticError(f"the beam finds no rest within {ITERATIONS} steps of Newton's method.")

    def sag(self, young: float, load: float) -> float:
        """Mean fall of the markers from where the beam is held level to rest [m]."""
        return -float((self.markers @ (self.at_rest(young, load) - self.mesh[0])).mean(0)[0])

    def frequency(self, young: float, load: float) -> float:
        """Lowest of small vertical vibrations about the place at rest [Hz]."""
        free = np.repeat(~self.clamped.numpy(), 3)
        K = self.stiffness(self.at_rest(young, load))[1][free][:, free] * young
        M = scipy.sparse.diags(self.masses(load).repeat_interleave(3).numpy()[free])
        squares, shapes = scipy.sparse.linalg.eigsh(K, k=2, M=M, sigma=0)
        up = np.abs(shapes.reshape(-1, 3, 2)[:, 0]).sum(0)
        return float(np.sqrt(squares[up.argmax()]) / (2 * np.pi))

    @cached_property
    def _rates(self) -> tuple[float, float]:
        """Largest eigenvalues of M⁻¹K for E = 1 Pa [1/s²] and of M⁻¹C for η = 1 Pa s [1/s]."""
        one = torch.eye(3, dtype=torch.float64)
        # of the dissipation at F = 1: ½ |Ḟ + Ḟᵀ|² / 2 + ½ (tr Ḟ)²
        strain, volume = torch.einsum("il,jb->ijlb", one, one), torch.einsum("ij,lb->ijlb", one, one)
        viscous = self._assembled(strain + torch.einsum("ib,jl->ijlb", one, one) + volume)
        mass = (DENSITY * self.rest["volume"][:, None] * self.share).repeat_interleave(3, 1)
        scaled = lambda A: mass.rsqrt()[:, :, None] * A * mass.rsqrt()[:, None]
        largest = [torch.linalg.eigvalsh(scaled(A)).max() for A in (self._element_slopes(self.mesh[0])[1], viscous)]
        return float(largest[0]), float(largest[1])

    def largest_step(self, young: float, damping: float) -> float:
        """Largest stable step of the semi-implicit Euler method for small motions [s]."""
        square, c = young * self._rates[0], damping * self._rates[1]
        return float((np.sqrt(c**2 + 4 * square) - c) / square)

    def swings(
        self, young: Sequence[float], damping: Sequence[float], load: Sequence[float], start: Tensor, seconds: float
    ) -> Tensor:
        """Tracks of the markers (worlds, frames, 3, 3) [m] at `FPS`, let go at rest at `start` (worlds, n, 3)."""
        elements = self.mesh[1]
        worlds = len(young)
        limit = min(self.largest_step(E, d) for E, d in zip(young, damping, strict=True))
        substeps = int(np.ceil(1 / (SAFE * limit * FPS)))
        frames = round(seconds * FPS) + 1
        pinned = self.clamped.nonzero().flatten().tolist()
        program = Particles(
            (Elements(self.law.FORCE, elements, self.rest),), frames, substeps, 1 / (FPS * substeps), pinned
        )
        column = lambda values: torch.tensor(values).double()[:, None]
        mu, lam = self.lame(column(young))
        inputs = [
            start,
            torch.zeros_like(start),
            torch.stack([1 / self.masses(m) for m in load]),
            torch.tensor([-GRAVITY, 0, 0]).double().expand(worlds, 3).contiguous(),
            mu,
            lam,
            column(damping),
            torch.zeros(worlds, 1).double(),
            torch.zeros(worlds, 0).double(),
        ]
        return self.markers @ program.forward(inputs)[0]
