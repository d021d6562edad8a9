"""Springs, sheets and air against textbook answers, values and gradients (acceptance A2, A17, A18)."""

import math

import pytest
import torch
from checks import error, slope
from torch import Tensor

from gradsim.geometry import network, sheet
from gradsim.physics.forces import aerodynamics, anchor, bending, membrane, spring
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

G = 9.81


def number(value: float) -> Tensor:
    """A parameter that all elements of one world share."""
    return torch.tensor([[value]], dtype=torch.float64)


def fall(mass: Tensor, drag: Tensor, steps: int, time: float) -> Tensor:
    """Height [m] of a triangle of 0.02 m² that was let go face-on at 0, in air of 1.2 kg/m³."""
    x = torch.tensor([[[0.0, 0, 0], [0.2, 0, 0], [0, 0.2, 0]]]).double()
    program = Particles((Elements(aerodynamics.FORCE, torch.tensor([[0, 1, 2]])),), 2, steps, time / steps)
    gravity, still = torch.tensor([[0.0, 0, -G]]).double(), torch.zeros(1, 1, 3).double()
    each = (3 / mass).expand(1, 3)
    given = [x, torch.zeros_like(x), each, gravity, number(1.2), drag, number(0.5), still]
    return program.run(*given, x.new_zeros(1, 0))[0][0, 1, :, 2].mean()


def test_fall_with_quadratic_drag():
    """A2: z = -(v_t²/g) ln cosh(g t/v_t), v_t = √(2 m g/(ρ C_D A)); so are its derivatives by mass and drag."""
    mass, drag, time = number(0.05), number(1.1), 1.0
    m, c = (y.clone().requires_grad_() for y in (mass, drag))
    v_t = (2 * m * G / (1.2 * c * 0.02)).sqrt()
    z = -(v_t.square() / G) * torch.log(torch.cosh(G * time / v_t))
    wanted = torch.cat([z.flatten(), *(y.flatten() for y in torch.autograd.grad(z.sum(), (m, c)))]).detach()
    assert 1.0 < G * time / v_t.item() < 3.0  # neither free fall nor the end of it
    errors = []
    for steps in (1000, 2000, 4000, 10000):
        m, c = (y.clone().requires_grad_() for y in (mass, drag))
        height = fall(m, c, steps, time)
        found = torch.stack([height, *(y.squeeze() for y in torch.autograd.grad(height, (m, c)))]).detach()
        errors.append(((found - wanted) / wanted).abs())
    assert (errors[-1] < 1e-3).all()  # h = 1e-4
    for one in torch.stack(errors[:3]).T:
        assert abs(slope([1, 0.5, 0.25], one.tolist()) - 1) < 0.05


def frequency(k: Tensor, c: Tensor, mass: float, h: float) -> Tensor:
    """ω_d [rad/s] of a mass on a damped spring that swings along it, from six frames: no fit is exact to O(h)."""
    frames, substeps = 6, round(0.05 / h)
    x = torch.tensor([[[0.0, 0, 0], [0, 1.1, 0]]]).double()
    group = Elements(spring.FORCE, torch.tensor([[0, 1]]))
    program = Particles((group,), frames, substeps, h, pinned=[0])
    inverse = torch.full((1, 2), 1 / mass, dtype=torch.float64)
    given = [x, torch.zeros_like(x), inverse, torch.zeros(1, 3).double(), number(1.0), k, c]
    u = program.run(*given, x.new_zeros(1, 0))[0][0, :, 1, 1] - 1
    # e^{-γt} cos(ω t + ...) at equal intervals T: u_{n+1} = a u_n - b u_{n-1}, a = 2 e^{-γT} cos ωT, b = e^{-2γT}
    a, b = torch.linalg.lstsq(torch.stack([u[1:-1], -u[:-2]], 1), u[2:]).solution
    return torch.acos(a / (2 * b.sqrt())) / (substeps * h)


def test_damped_spring_swings_at_its_frequency():
    """A17: ω_d = √(k/m - c²/(4 m²)), and its derivatives by k and c. The method is of first order: h -> 0 by its errors."""
    mass = 0.5
    k, c = (number(y).requires_grad_() for y in (40.0, 1.5))
    exact = (k / mass - (c / (2 * mass)).square()).sqrt()
    wanted = torch.cat([exact.flatten(), *(y.flatten() for y in torch.autograd.grad(exact.sum(), (k, c)))]).detach()
    found = []
    for h in (2e-4, 1e-4, 5e-5):
        omega = frequency(k, c, mass, h)
        found.append(torch.stack([omega, *(y.squeeze() for y in torch.autograd.grad(omega, (k, c)))]).detach())
    first = [((y - wanted) / wanted).abs() for y in found]
    for one in torch.stack(first).T:
        assert abs(slope([4, 2, 1], one.tolist()) - 1) < 0.05
    limit = (8 * found[2] - 6 * found[1] + found[0]) / 3  # without the terms in h and h²
    assert ((limit - wanted) / wanted).abs().max() < 1e-6


def test_hanging_strip_is_stretched_by_its_weight():
    """A18: ΔL = ρ g L²/(2 E) of a bar, here E = 4 μ' (λ' + μ')/(λ' + 2 μ') with ν = λ'/(λ' + 2 μ') in the plane."""
    length, width, density = 1.0, 0.03, 0.2  # [m], [m], [kg/m²]; narrow: its top is held in width too, as bars are not
    gravity = 2.0  # [m/s²]: strains below 1e-3, since the textbook is linear
    mesh = sheet.grid((width, length), (2, 40))
    x, faces = torch.tensor(mesh.vertices)[None], torch.tensor(mesh.faces)
    shape = membrane.rest_shape(x[0], faces)
    mass = (
        torch.zeros(x.shape[1]).double().index_add(0, faces.flatten(), shape["area"].repeat_interleave(3) * density / 3)
    )
    mu, lam = (number(y).requires_grad_() for y in (450.0, 500.0))
    small_mu, small_lam = mu * 2 / 3, lam - mu * 4 / 9
    young = 4 * small_mu * (small_lam + small_mu) / (small_lam + 2 * small_mu)
    wanted = density * gravity * length**2 / (2 * young)

    top = (x[0, :, 1] > length / 2 - 1e-9).nonzero().flatten()
    vertices = torch.arange(x.shape[1])[:, None]
    groups = (Elements(membrane.FORCE, faces, shape), Elements(anchor.FORCE, vertices))
    program = Particles(groups, 2, 4000, 1e-4, pinned=top.tolist())
    slowed = [torch.zeros(1, 1, 3).double(), number(0.0), 150 * mass[None]]  # an anchor that only slows down
    given = [x, torch.zeros_like(x), 1 / mass[None], torch.tensor([[0.0, -gravity, 0]]).double()]
    states = program.run(*given, mu, lam, number(0.0), number(0.0), *slowed, x.new_zeros(1, 0))
    bottom = x[0, :, 1] < -length / 2 + 1e-9
    stretch = -(states[0][0, 1, bottom, 1].mean() + length / 2)
    assert states[1][0, 1].abs().max() < 1e-6
    assert error(stretch, wanted.squeeze()) < 0.01
    mu_slope, lam_slope = torch.autograd.grad(stretch, (mu, lam))
    assert error(mu * mu_slope + lam * lam_slope, -wanted) < 0.01  # ΔL ~ 1/E, ν kept


def test_hanging_rope_is_a_catenary():
    """A18: points of an inextensible rope at arc length s from its middle lie at (a asinh(s/a), √(a² + s²))."""
    length, span, mass, segments = 1.5, 1.0, 1.0, 30
    rope = network.rope(length, segments)
    at = torch.tensor(rope.vertices)[:, 0]  # arc length from the middle
    low, high = 1e-3, 10.0
    for _ in range(60):
        a = 0.5 * (low + high)
        low, high = (a, high) if 2 * a * math.sinh(span / (2 * a)) > length else (low, a)
    wanted = torch.stack([a * torch.asinh(at / a), 0 * at, (a**2 + at.square()).sqrt() - math.hypot(a, length / 2)], 1)

    weights = torch.full((segments + 1,), mass / segments).double()
    start = wanted * torch.tensor([1.0, 1, 0.6]).double()  # not the answer
    springs = torch.tensor(rope.edges)
    groups = (Elements(spring.FORCE, springs), Elements(anchor.FORCE, torch.arange(segments + 1)[:, None]))
    program = Particles(groups, 2, 12000, 4e-4, pinned=[0, segments])
    slowed = [torch.zeros(1, 1, 3).double(), number(0.0), 8 * weights[None]]
    stiffness = number(1e5)  # stretched by 1e-4
    own = [spring.rest_length(torch.tensor(rope.vertices), springs)[None], stiffness, number(5.0)]
    given = [
        start[None],
        torch.zeros(1, segments + 1, 3).double(),
        1 / weights[None],
        torch.tensor([[0.0, 0, -G]]).double(),
    ]
    x, v = program.forward([*given, *own, *slowed, start.new_zeros(1, 0)])
    assert v[0, 1].abs().max() < 1e-6
    sag = wanted[:, 2].abs().max()
    assert (x[0, 1] - wanted).norm(dim=-1).max() < 0.01 * sag
    lengths = (x[0, 1, 1:] - x[0, 1, :-1]).norm(dim=-1)
    tension = 1e5 * (lengths - own[0][0])
    middle = (at[:-1] + at[1:]) / 2
    assert (
        error(tension, mass / length * G * (a**2 + middle.square()).sqrt()) < 0.01
    )  # its weight per length times height


@pytest.mark.parametrize("lift", [0.4, 1.1])
def test_a_sheet_falls_face_on_at_its_terminal_velocity(lift):
    """A18: √(2 σ g/(ρ C_D)), and it stays flat. With more lift than drag it would be carried away sideways."""
    x, v = sink(drag=1.2, lift=lift, inclined=0.0)
    wanted = torch.tensor([0.0, 0, -math.sqrt(2 * 0.15 * G / (1.2 * 1.2))]).double()
    assert error(v, wanted.expand_as(v)) < 1e-6
    assert x[:, 2].max() - x[:, 2].min() < 1e-9


def test_an_inclined_sheet_glides_where_lift_and_drag_balance_its_weight():
    """A18: down at γ with tan γ = C_D sin²β/(C_L sin β cos β), at the speed m g cos γ = ½ ρ A C_L sin β cos β |u|²."""
    path, attack = math.radians(65.0), math.radians(50.0)  # the other answer, a path of 40°, is not stable
    lift = 0.9
    drag = lift * math.tan(path) / math.tan(attack)
    _, v = sink(drag, lift, inclined=path - attack)
    speed = math.sqrt(2 * 0.15 * G * math.cos(path) / (1.2 * lift * math.sin(attack) * math.cos(attack)))
    wanted = speed * torch.tensor([math.cos(path), 0, -math.sin(path)]).double()
    assert error(v, wanted.expand_as(v)) < 1e-6


def sink(drag: float, lift: float, inclined: float) -> tuple[Tensor, Tensor]:
    """Vertices and velocities of a sheet of 0.15 kg/m², nose down by an angle, after 12 s in air of 1.2 kg/m³."""
    mesh = sheet.grid((0.6, 0.4), (4, 3))
    c, s = math.cos(inclined), math.sin(inclined)
    x = torch.tensor(mesh.vertices) @ torch.tensor([[c, 0, -s], [0, 1, 0], [s, 0, c]], dtype=torch.float64)
    faces, hinges = torch.tensor(mesh.faces), torch.tensor(sheet.hinges(mesh.faces))
    shape = membrane.rest_shape(x, faces)
    mass = torch.zeros(len(x)).double().index_add(0, faces.flatten(), shape["area"].repeat_interleave(3) * 0.15 / 3)
    groups = (
        Elements(membrane.FORCE, faces, shape),
        Elements(bending.FORCE, hinges, bending.rest_shape(x, hinges)),
        Elements(aerodynamics.FORCE, faces),
    )
    program = Particles(groups, 2, 24000, 5e-4)
    given = [x[None], torch.zeros(1, len(x), 3).double(), 1 / mass[None], torch.tensor([[0.0, 0, -G]]).double()]
    given += [number(y) for y in (300.0, 300.0, 0.05, 0.0, 0.01, 1e-4, 0.0, 1.2, drag, lift)]
    x, v = program.forward([*given, torch.zeros(1, 1, 3).double(), x.new_zeros(1, 0)])
    return x[0, 1], v[0, 1]
