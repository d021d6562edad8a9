"""Beams and bars of tetrahedra against textbook answers (acceptance A15, A16), values and gradients, at small strains.

Constant strain locks: an element that bends stores shear that a beam does not. The flexibility that is missing falls as
the square of the size of the cells, and what is left at no size is beam theory.
"""

import math

import pytest
import torch
from checks import slope
from torch import Tensor

from gradsim.geometry.tet_grid import box
from gradsim.physics.forces import anchor, neo_hookean
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

SIDE, YOUNG, DENSITY = 0.125, 1e5, 1000.0
SPEED = math.sqrt(YOUNG / DENSITY)  # of axial waves [m/s]
AREA, INERTIA = SIDE**2, SIDE**4 / 12  # of the section [m²], [m⁴]


class Bar:
    """A bar along x of square section, held at its lower end; of cubes, `across` of them across.

    Args:
        across: Cells across.
        length: A multiple of the side [m].
        poisson: ν. Where it is 0, the clamp holds nothing that beam theory lets go.
    """

    def __init__(self, across: int, length: float = 1.0, poisson: float = 0.0):
        mesh = box((length, SIDE, SIDE), (round(length / SIDE) * across, across, across))
        self.x, tets = torch.tensor(mesh.vertices), torch.tensor(mesh.tets)
        self.along, self.poisson = self.x[:, 0] / length + 0.5, torch.tensor(poisson).double()
        rest = neo_hookean.rest_shape(self.x, tets)
        share = (DENSITY / 4 * rest["volume"]).repeat_interleave(4)
        self.mass = torch.zeros(len(self.x)).double().index_add(0, tets.flatten(), share)
        self.held = (self.along < 1e-9).nonzero().flatten().tolist()
        self.tip = (self.along > 1 - 1e-9).nonzero().flatten()
        anchors = [Elements(anchor.FORCE, k[:, None]) for k in (torch.arange(len(self.x)), self.tip)]
        self.groups, self.step = (Elements(neo_hookean.FORCE, tets, rest), *anchors), 0.2 * SIDE / across / SPEED

    def run(self, frames: int, time: float, young: Tensor, v=0.0, gravity=0.0, drag=0.0, load=0.0) -> Tensor:
        """Displacements (frames, n, 3) [m] from rest, with velocities v (n, 3) at the start.

        Gravity acts along -z, a drag [1/s] on all mass, a load [N] along -z on the tip: soft springs pull from far away.
        """
        one = lambda value: torch.tensor([[value]], dtype=torch.float64)
        substeps, far = math.ceil(time / (frames - 1) / self.step), 1e6
        program = Particles(self.groups, frames, substeps, time / (frames - 1) / substeps, self.held)
        material = [*(y.expand(1, 1) for y in neo_hookean.lame(young, self.poisson)), one(0.0), one(0.0)]
        slowed = [torch.zeros(1, 1, 3).double(), one(0.0), drag * self.mass[None]]
        pulled = [torch.tensor([[[0.0, 0, -far]]]).double(), one(load / len(self.tip) / far), one(0.0)]
        start = [self.x, v * torch.ones_like(self.x), 1 / self.mass, torch.tensor([0, 0, -gravity]).double()]
        given = [*(y[None] for y in start), *material, *slowed, *pulled, self.x.new_zeros(1, 0)]
        return program.run(*given)[0][0] - self.x

    def frequency(self, shape: Tensor, time: float, young: Tensor) -> Tensor:
        """ω [rad/s] of a vibration that begins with velocities of this shape (n, 3), from 9 frames within `time`.

        Of the part along the shape, where other vibrations are left to second order. u(t+T) + u(t−T) = 2 cos ωT u(t).
        """
        u = (self.run(9, time, young, v=1e-4 * shape) * shape * self.mass[:, None]).sum((1, 2))
        cosine = (u[1:-1] * (u[2:] + u[:-2])).sum() / (2 * u[1:-1].square().sum())
        return torch.acos(cosine) / (time / 8)


def young() -> Tensor:
    return torch.tensor(YOUNG, dtype=torch.float64, requires_grad=True)


SHEAR = 5 / 6 * AREA * YOUNG / 2  # κ G A [N] (Timoshenko), ν = 0
SWING = 1.8751**2 * math.sqrt(YOUNG * INERTIA / (DENSITY * AREA))  # ω₁ [rad/s], L = 1 m
LOADS = {
    "weight": ({"gravity": 1e-3}, DENSITY * AREA * 1e-3 * (1 / (8 * YOUNG * INERTIA) + 1 / (2 * SHEAR))),
    "tip load": ({"load": 2e-3}, 2e-3 * (1 / (3 * YOUNG * INERTIA) + 1 / SHEAR)),
}


def _sags(across: int) -> dict[str, float]:
    """Sags of a beam of so many cells across, over those of beam theory."""
    bar, found = Bar(across), {}
    for name, (acting, wanted) in LOADS.items():
        sag = -bar.run(2, 14 / SWING, young().detach(), drag=2 * SWING, **acting)[-1, bar.tip, 2].mean().item()
        found[name] = sag / wanted
    return found


@pytest.fixture(scope="module")
def sags() -> dict[int, dict[str, float]]:
    """By cells across, then load: sag over that of beam theory. Steps of 14/ω₁ at critical drag leave 1e-5."""
    return {across: _sags(across) for across in (1, 2, 3)}


@pytest.mark.parametrize("name", LOADS)
def test_cantilever_reaches_beam_theory_as_its_cells_shrink(name, sags):
    """A15: ρ g A L⁴/(8 E I) + ρ g A L²/(2 κ G A), F L³/(3 E I) + F L/(κ G A). Too stiff by 2.2/n² for n cells across."""
    stiffer = {across: 1 / sags[across][name] - 1 for across in sags}
    assert abs(slope([3, 2], [stiffer[2], stiffer[3]]) - 2) < 0.05
    limit = (9 * stiffer[3] - 4 * stiffer[2]) / 5  # without the term in 1/n²
    assert abs(limit) < 3e-3
    assert [sags[n][name] for n in (1, 2, 3)] == pytest.approx(
        [0.325, 0.642, 0.80], abs=2e-3
    )  # as in docs/guides/soft.md


def test_cantilever_swings_at_the_frequency_of_beam_theory_as_its_cells_shrink():
    """A15: f₁ = 1.8751²/(2π L²) √(E I/(ρ A)); shear and the turning of sections slow it by 1 % at this slenderness."""
    bend = lambda s: s**2 * (6 - 4 * s + s**2) / 3  # under a uniform load, near enough to the vibration
    squares = {}
    for across in (2, 3):
        bar = Bar(across)
        shape = torch.zeros_like(bar.x)
        shape[:, 2] = bend(bar.along)
        squares[across] = (bar.frequency(shape, 2 * math.pi / SWING, young().detach()).item() / SWING) ** 2
    limit = (9 * squares[3] - 4 * squares[2]) / 5
    # Dunkerley (1894), with ω = π/2 √(κ G/ρ)/L of shear alone; ∫ φ'² = 4.65 ∫ φ² for the section's turning
    slower = (SWING / (math.pi / 2)) ** 2 * DENSITY * AREA / SHEAR + 4.65 * INERTIA / AREA
    assert abs(math.sqrt(limit * (1 + slower)) - 1) < 3e-3


def test_axial_wave_crosses_a_bar_at_its_speed():
    """A16: first mode c/(4 L), c = √(E/ρ), to 1 %; its derivative by E is f/(2 E)."""
    bar, modulus = Bar(1, length=2.0, poisson=0.3), young()
    shape, wanted = torch.zeros_like(bar.x), math.pi / 2 * SPEED / 2
    shape[:, 0] = torch.sin(math.pi / 2 * bar.along)
    omega = bar.frequency(shape, 2 * math.pi / wanted, modulus)
    assert abs(omega.item() / wanted - 1) < 0.01
    assert torch.autograd.grad(omega, modulus)[0].item() == pytest.approx(omega.item() / (2 * YOUNG), rel=1e-3)
