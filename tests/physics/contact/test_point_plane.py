"""Contact laws: the lanes against their definitions in plain PyTorch, and what a contact must not do."""

import pytest
import rigid_reference
import torch
from checks import error
from rigid_cases import body, simulate, tumbling
from torch import Tensor, linalg
from torch.nn.functional import normalize

from gradsim.physics.contact import constant_restitution, hunt_crossley, kelvin_voigt, point_plane
from gradsim.physics.contact.laws import LAWS
from gradsim.physics.rigid.rollout import RigidRollout

MODULES = {"continuous": hunt_crossley, "constant-restitution": constant_restitution, "paper": kelvin_voigt}
SINGLES = ("stiffness", "damping", "friction_stiffness", "friction")
STATES = 256


def random_contacts(law: str = "continuous") -> dict[str, Tensor]:
    """Gap, velocity, normal and parameters of contacts, near and far, pressing and leaving, sticking and slipping."""
    generator = torch.Generator().manual_seed(1)
    normal = lambda *shape: torch.randn(STATES, *shape, generator=generator, dtype=torch.float64)
    uniform = lambda: torch.rand(STATES, generator=generator, dtype=torch.float64)
    return {
        "gap": 0.02 * normal(),
        "u": 3 * normal(3) * 10 ** -(2 * uniform())[:, None],
        "normal": normalize(normal(3), dim=-1),
        "stiffness": 500 + 1000 * uniform(),
        "damping": (0.1 + 2 * uniform()) * (1 if law == "continuous" else 10),
        "friction_stiffness": 5 + 20 * uniform(),
        "friction": 0.1 + 0.5 * uniform(),
    }


def lane_force(given: dict[str, Tensor], law: str, dtype=torch.float64) -> Tensor:
    """Force [N] on a body of 1 kg that is one contact point: its change of velocity over one step of 1 s."""
    at, normal = given["gap"][:, None] * given["normal"], given["normal"][:, None]
    case = body(len(at), x=at, v=given["u"], points=[[0.0, 0, 0]], normal=normal)
    case |= {name: given[name][:, None] for name in SINGLES}
    states = RigidRollout(2, 1, 1.0, law=law).run(*[x.to(dtype) for x in case.values()])
    return states[2][:, 1] - states[2][:, 0]


def defined_force(given: dict[str, Tensor], law: str) -> Tensor:
    gap, rate = given["gap"], (given["u"] * given["normal"]).sum(-1)
    stiffness, damping, friction_stiffness, friction = (given[name] for name in SINGLES)
    if law == "paper-adhesive":
        f_n = torch.where(gap < 0, -(stiffness * gap + damping * rate), torch.zeros_like(gap))
    else:
        f_n = MODULES[law].reference(gap, rate, stiffness, damping)
    return point_plane.reference(given["u"], given["normal"], f_n, friction_stiffness, friction)


def partials(force: Tensor, given: dict[str, Tensor]) -> list[Tensor]:
    """∂(force · probe)/∂x of every state, for each of the given tensors."""
    probe = torch.randn(force.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return list(torch.autograd.grad((force * probe).sum(), list(given.values())))


@pytest.mark.parametrize(
    ("law", "dtype", "within"), [*((law, torch.float64, 1e-12) for law in LAWS), ("continuous", torch.float32, 1e-5)]
)
def test_lane_force_and_its_derivatives_are_those_of_the_definition(law, dtype, within):
    given = {n: x.to(dtype).double().requires_grad_() for n, x in random_contacts(law).items()}
    given["normal"].requires_grad_(False)  # in `lane_force` it also places the body
    wanted = {n: x for n, x in given.items() if x.requires_grad}
    lanes, defined = lane_force(given, law, dtype).double(), defined_force(given, law)
    assert error(lanes, defined) < within
    assert max(map(error, partials(lanes, wanted), partials(defined, wanted))) < within


@pytest.mark.parametrize("law", LAWS)
def test_no_touch_means_no_force_and_no_derivative(law):
    given = {n: x.requires_grad_() for n, x in random_contacts(law).items()}
    force = lane_force(given, law)
    away = given["gap"] > 0  # in most registers beside worlds that touch
    assert 50 < away.sum() < STATES - 50
    assert not force[away].any()
    assert force[~away].any(1).sum() > 50
    assert not any(g[away].any() for g in partials(force, given))


@pytest.mark.parametrize("law", MODULES)
def test_undamped_frictionless_force_and_torque_are_minus_the_gradient_of_the_energy(law):
    case = tumbling(64, seed=3)
    for name in ("v", "l", "gravity", "damping", "friction", "friction_stiffness", "impulse"):
        case[name] = torch.zeros_like(case[name])
    case["mass"] = torch.ones_like(case["mass"])
    case["height"] = case["height"] + 0.1
    states = simulate(case, 2, 1.0, windows=((0.0, 0.0),) * 2, law=law)

    moved = torch.zeros(64, 6, dtype=torch.float64, requires_grad=True)
    turned = torch.linalg.matrix_exp(_skew(moved[:, 3:])) @ rigid_reference.matrix(case["q"])
    at = (case["x"] + moved[:, :3])[:, None] + case["points"] @ turned.mT
    gap = at @ case["normal"].mT - case["height"][:, None] - case["radius"][..., None]
    (slope,) = torch.autograd.grad(MODULES[law].energy(gap, case["stiffness"][:, None]).sum(), moved)
    assert (gap < 0).sum() > 50
    assert error(states["v"][:, 1], -slope[:, :3]) < 1e-12
    assert error(states["l"][:, 1], -slope[:, 3:]) < 1e-12


def _skew(w: Tensor) -> Tensor:
    return torch.linalg.cross(w[:, :, None].expand(-1, 3, 3), torch.eye(3).double().expand(len(w), 3, 3), dim=1)


@pytest.mark.parametrize("law", LAWS)
def test_friction_is_the_same_in_every_direction_and_never_exceeds_its_limits(law):
    given = random_contacts(law)
    force = lane_force(given, law)
    n = given["normal"]
    f_n = (force * n).sum(-1)
    u_t = given["u"] - (given["u"] * n).sum(-1, keepdim=True) * n
    f_t, speed = force - f_n[:, None] * n, linalg.vector_norm(u_t, dim=-1)
    limit = torch.minimum(given["friction"] * f_n.abs(), given["friction_stiffness"] * speed)
    assert ((f_n != 0) & (limit < given["friction_stiffness"] * speed)).sum() > 30  # some slip,
    assert ((f_n != 0) & (limit < given["friction"] * f_n.abs())).sum() > 30  # some stick
    # the axes of u_t are random, so a clamp for each axis would turn the force and exceed the limit by up to √2
    assert error(f_t, -limit[:, None] * u_t / speed[:, None]) < 1e-12


@pytest.mark.parametrize("law", LAWS)
def test_friction_and_damping_never_add_energy(law):
    given = random_contacts(law)
    axes = torch.cat([torch.eye(3), -torch.eye(3)]).double()
    given["normal"] = axes[torch.arange(STATES) % 6]  # along an axis nothing is rounded, so the sign is exact
    f, u, n = defined_force(given, law), given["u"], given["normal"]
    f_n, rate = (f * n).sum(-1), (u * n).sum(-1)
    friction, sliding = f - f_n[:, None] * n, u - rate[:, None] * n
    elastic = -given["stiffness"] * given["gap"].clamp(max=0)
    assert ((friction * sliding).sum(-1) <= 0).all()
    assert ((f_n - elastic) * rate <= 0).all()
    assert ((friction * sliding).sum(-1) < -1e-3).sum() > 30
    assert ((f_n - elastic) * rate < -1e-3).sum() > 30


@pytest.mark.parametrize(("law", "pulls"), [
    ("continuous", False), ("constant-restitution", False), ("paper", False), ("paper-adhesive", True)
])  # fmt: skip
def test_ground_pulls_only_where_the_law_says_so(law, pulls):
    given = random_contacts(law)
    f_n = (lane_force(given, law) * given["normal"]).sum(-1)
    assert (f_n < -1e-9).any() == pulls
    assert (f_n > 1).any()


@pytest.mark.parametrize(("law", "jump"), [
    ("continuous", 0.0), ("constant-restitution", 0.0), ("paper", 3.0 * 20)
])  # fmt: skip
def test_force_at_touch_is_continuous_or_jumps_by_the_damping_of_the_paper(law, jump):
    given = random_contacts(law)
    n = given["normal"]
    given |= {"gap": torch.full((STATES,), -1e-12).double(), "u": -3.0 * n, "damping": torch.full((STATES,), 20.0)}
    assert error(lane_force(given, law), jump * n) < 1e-7  # k_e C = 1e-9 N


def test_friction_is_linear_through_rest():
    given = random_contacts()
    given |= {"gap": -given["gap"].abs() - 1e-3, "u": torch.zeros(STATES, 3).double().requires_grad_()}
    force = lane_force(given, "continuous")
    n, k_f = given["normal"], given["friction_stiffness"]
    assert error(force.detach(), -given["stiffness"][:, None] * given["gap"][:, None] * n) < 1e-12
    for axis in torch.eye(3).double():
        (slope,) = torch.autograd.grad(force @ axis, given["u"], torch.ones(STATES).double(), retain_graph=True)
        along = (axis * n).sum(-1, keepdim=True) * n
        damped = given["stiffness"] * given["damping"] * given["gap"]  # −a k_e C
        assert error(slope, damped[:, None] * along - k_f[:, None] * (axis - along)) < 1e-12


@pytest.mark.parametrize("law", MODULES)
def test_damping_rate_is_the_slope_of_the_definition(law):
    given = random_contacts(law)
    rate = torch.zeros(STATES, dtype=torch.float64, requires_grad=True)
    depth = given["gap"].abs() + 1e-3
    force = MODULES[law].reference(-depth, rate, given["stiffness"], given["damping"])
    (slope,) = torch.autograd.grad(force.sum(), rate)
    assert error(-slope, MODULES[law].damping_rate(given["damping"], given["stiffness"], depth)) < 1e-13


def test_sphere_touches_under_its_centre_however_it_is_turned():
    generator = torch.Generator().manual_seed(4)
    n = normalize(torch.randn(32, 3, generator=generator).double(), dim=-1)
    q = normalize(torch.randn(32, 4, generator=generator).double(), dim=-1)
    case = body(32, x=0.29 * n, q=q, points=[[0.0, 0, 0]], radius=0.3, normal=n[:, None], stiffness=1e3)
    case |= {"friction_stiffness": torch.full((32, 1), 2.0).double(), "friction": torch.ones(32, 1).double()}
    case["v"] = linalg.cross(n, torch.randn(32, 3, generator=generator).double())
    states = simulate(case, 2, 1.0)
    friction = -2.0 * case["v"]
    assert error(states["v"][:, 1] - case["v"], 10 * n + friction) < 1e-12  # k_e C, C = 0.01
    assert error(states["l"][:, 1], linalg.cross(-0.3 * n, friction)) < 1e-12
