"""A vertex against a triangle: the nearest point, the law, and what no inner force may do."""

import pytest
import torch
from checks import error
from law_cases import (
    WITHIN,
    energy_slope,
    imbalance,
    lane_errors,
    lane_forces,
    lane_gradients,
    power,
    random_normal,
    random_positive,
    rigid_velocity,
)
from torch import Tensor

from gradsim.physics.contact import vertex_triangle

FORCE, N = vertex_triangle.touch_face("continuous"), 96


@pytest.fixture
def state() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Random triangles, all within the thickness of a vertex that is near a face, an edge or a corner of each."""
    singles = {"stiffness": 100.0, "damping": 0.1, "friction_stiffness": 5.0, "friction": 0.5}
    arrays = {name: size * random_positive(N, seed=k) for k, (name, size) in enumerate(singles.items())}
    x = random_normal(N, 4, 3, seed=11)
    x[: N // 3, 0] = 0.2 * x[: N // 3, 0] + x[: N // 3, 1:].mean(1)
    at = vertex_triangle.weights(x)
    distance = (x[:, 0] - (at[..., None] * x[:, 1:]).sum(1)).norm(dim=1)
    arrays["thickness"] = distance * (1.1 + random_positive(N, seed=9))
    return x, random_normal(N, 4, 3, seed=12), arrays


def test_the_nearest_point_is_nearer_than_all_others(state):
    """In each region: face, edges, corners."""
    x = state[0]
    at = vertex_triangle.weights(x)
    distance = lambda w: (x[:, :1] - w @ x[:, 1:]).norm(dim=-1)
    others = torch.distributions.Dirichlet(torch.ones(3).double() / 2)
    torch.manual_seed(1)
    drawn = others.sample((N, 4000))
    found, seen = distance(at[:, None])[:, 0], distance(drawn).amin(1)
    assert (found <= seen + 1e-14).all()
    assert error(found, seen) < 0.05  # of 4000 points, one is near
    assert set((at == 0).sum(1).tolist()) == {0, 1, 2}


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_lanes_and_their_derivatives_are_those_of_the_definition(state, dtype):
    x, v, arrays = state
    within = WITHIN[dtype] * (1 if dtype == torch.float64 else 30)  # small triangles: cancellation in the edges
    assert max(lane_errors(FORCE, x, v, arrays, dtype).values()) < within


def test_undamped_force_is_minus_the_gradient_of_the_energy(state):
    x, v, arrays = state
    arrays |= {name: torch.zeros(N).double() for name in ("damping", "friction_stiffness")}
    assert error(lane_forces(FORCE, x, v, arrays), energy_slope(FORCE, x, arrays)) < 1e-12


def test_rigid_motion_makes_no_friction(state):
    """Velocity and spin: the normal part alone is left."""
    x, _, arrays = state
    f = lane_forces(FORCE, x, rigid_velocity(x, seed=5), arrays)
    arrays["friction_stiffness"] = torch.zeros(N).double()
    assert error(f, lane_forces(FORCE, x, torch.zeros_like(x), arrays)) < 1e-12


def test_forces_balance_with_friction_and_damping(state):
    x, v, arrays = state
    arrays["damping"] *= 0.1  # else what parts fast has no force
    assert imbalance(lane_forces(FORCE, x, v, arrays), x) < 1e-12


def test_friction_and_damping_never_add_energy(state):
    x, v, arrays = state
    none = torch.zeros(N).double()
    elastic = lane_forces(FORCE, x, v, arrays | {"damping": none, "friction_stiffness": none})
    lost = power(lane_forces(FORCE, x, v, arrays) - elastic, v)
    assert (lost < 0).all()


def test_force_is_continuous_across_the_edges_of_a_triangle():
    """On a line across face, edge and corner the force changes by less than the stiffness times the step, times 2."""
    t = torch.linspace(-1, 2, 3001).double()[:, None]
    path = torch.cat([t, 0.3 * t - 0.1, 0 * t + 0.05], 1)
    corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0.0]]).double().expand(3001, 3, 3)
    x = torch.cat([path[:, None], corners], 1)
    arrays = {name: torch.full((3001,), 0.0).double() for name in FORCE.parameters}
    arrays["thickness"] += 0.3
    arrays["stiffness"] += 100.0
    f = lane_forces(FORCE, x, torch.zeros_like(x), arrays)[:, 0]
    steps = (path[1:] - path[:-1]).norm(dim=1)
    assert ((f[1:] - f[:-1]).norm(dim=1) <= 100.0 * 6 * steps).all()  # slope k r / d of the direction, r / d = 6
    assert f[:, 2].max() > 24  # k (r - d) = 25 N over the face


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_a_vertex_on_the_surface_and_a_triangle_without_area_have_finite_derivatives(state, dtype):
    x, v, arrays = state
    x[:32, 0] = x[:32, 1:].mean(1)
    x[32:64, 3] = x[32:64, 2]
    x[64:] = x[64:, :1]
    out = lane_gradients(FORCE, x, v, arrays, v, dtype)
    assert all(y.isfinite().all() for y in [lane_forces(FORCE, x, v, arrays, dtype), *out.values()])
