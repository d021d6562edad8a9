"""Rods that yield: the cycle of an elastic and perfectly plastic element, spring-back, hardening, rigid motions, gradients and tangents."""

import math

import pytest
import torch
from checks import central_difference, dot_product_errors, error, weights
from torch import Tensor

from gradsim.physics.forces import rod_bending
from gradsim.physics.model import Model
from gradsim.physics.soft.relaxing import RESPONSE
from gradsim.scene import Scene

HALF = 0.5  # length of both edges [m], and of the rod at the vertex between them
BENDING, YIELD = 0.02, 0.01  # [N m²], [N m]
STIFFNESS = BENDING / HALF  # [N m]
TWISTING = 1e-2  # [N m²]
ELASTIC = YIELD / STIFFNESS  # strain up to which it is elastic
LARGEST = 0.6  # strain
FPS = 400
RATE = LARGEST * 2 * math.pi  # largest rate of the strain [1/s]


def _model(frames: int, substeps: int = 1, fps: float = FPS, **keys) -> Model:
    body = {
        "kind": "rod",
        "shape": {"line": {"length": 2 * HALF, "segments": 2}},
        "density": 0.05,
        "stretching": 500,
        "bending": BENDING,
        "twisting": TWISTING,
        "radius": 0.004,
        "roll": 0.4,
        "plasticity": {"yield_moment": YIELD, "time": 0.004},
        **keys,
    }
    timing = {"fps": fps, "frames": frames, "substeps": substeps}
    return Model(Scene.parse({"bodies": {"rod": body}, "gravity": [0, 0, 0], "timing": timing}))


def _cycle(cycles: float, **plasticity) -> tuple[Model, Tensor]:
    """A vertex bent to the strain κ_max sin(2π t), and the strain of each frame."""
    frames = round(cycles * FPS) + 1
    time = torch.arange(frames + 1).double() / FPS
    wanted = LARGEST * torch.sin(2 * math.pi * time)
    turn = 2 * torch.atan(wanted / 2)
    still = torch.zeros_like(turn)
    ends = [torch.stack([still - HALF, still, still], 1), torch.stack([still, still, still], 1)]
    ends.append(HALF * torch.stack([turn.cos(), still, turn.sin()], 1))
    motion = {"vertices": [0, 1, 2], "times": time.tolist(), "positions": torch.stack(ends, 1).tolist()}
    plasticity = {"yield_moment": YIELD, "time": 0.004, **plasticity}
    return _model(frames, substeps=8, motion=motion, plasticity=plasticity), wanted[:-1]


def _strain_and_moment(model: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    """Strain and elastic moment along the bend (worlds, frames)."""
    index = model.systems[0].matter.plastic.index
    s = rod_bending.strains(x[:, :, index[:, :5]])[:, :, 0]
    along = s[:, FPS // 4] / s[:, FPS // 4].norm(dim=-1, keepdim=True)
    off = s - x[:, :, index[0, 5]]
    return (s * along[:, None]).sum(-1), STIFFNESS * (off * along[:, None]).sum(-1)


def _ideal(strain: Tensor) -> Tensor:
    """Moment of an elastic and perfectly plastic element: the plastic strain is that within which κ has no play."""
    plastic, moments = 0.0, []
    for kappa in strain.tolist():
        plastic = min(max(plastic, kappa - ELASTIC), kappa + ELASTIC)
        moments.append(STIFFNESS * (kappa - plastic))
    return torch.tensor(moments, dtype=torch.float64)


@pytest.mark.slow
def test_a_cycle_is_that_of_perfect_plasticity_but_for_the_time():
    """|M - M_ideal| ≤ k T κ'_max, and area 4 M_y (κ_max - M_y/k), to first order in T; residual strain κ_max - M_y/k, to second."""
    model, wanted = _cycle(1.25)
    times = torch.tensor([0.004, 0.002]).double()
    x = model.rollout({"rod.plasticity.time": times})["rod"]["x"].detach()
    strain, moment = _strain_and_moment(model, x)
    torch.testing.assert_close(strain[0], wanted, rtol=0, atol=1e-6)
    ideal = _ideal(wanted)
    assert ideal.max().item() == pytest.approx(YIELD, rel=1e-12)
    off = (moment - ideal).abs().amax(1)
    bound = STIFFNESS * times * RATE
    assert (off < bound).all()
    assert (off > 0.9 * bound).all()
    assert 1.9 < off[0] / off[1] < 2.1
    first = FPS // 4
    area = torch.trapezoid(moment[:, first:], strain[:, first:])
    exact = 4 * YIELD * (LARGEST - ELASTIC)
    assert ((area - exact).abs() < 4 * LARGEST * bound).all()
    assert 1.9 < (area - exact)[0] / (area - exact)[1] < 2.1
    residual = strain[:, first] - moment[:, first] / STIFFNESS
    late = times**2 * (2 * math.pi) ** 2 * LARGEST  # T² κ'': the rate is 0 at the peak
    assert ((residual - (LARGEST - ELASTIC)).abs() < 1.1 * late).all()


@pytest.mark.slow
def test_hardening_has_the_slope_of_both_in_series():
    """M = M_y + k H/(k + H) (κ - M_y/k) at the first peak, where the rate is 0."""
    model, _ = _cycle(0.25)
    values = {"rod.plasticity.hardening": torch.tensor([0.0, 0.5 * BENDING, 2 * BENDING]).double()}
    values["rod.plasticity.time"] = torch.tensor(0.001).double().expand(3)
    strain, moment = _strain_and_moment(model, model.rollout(values)["rod"]["x"].detach())
    ratio = torch.tensor([0.0, 0.5, 2.0]).double()
    exact = YIELD + STIFFNESS * ratio / (1 + ratio) * (strain[:, -1] - ELASTIC)
    assert (moment[:, -1] / exact - 1).abs().max() < 2 * 0.001 * RATE


@pytest.mark.slow
def test_a_held_twist_falls_to_the_torque_of_yield():
    """|M3| → T_y at the rate w k3/(k1 T), w = (M_y/T_y)², of a rod that is twisted at rest and clamped flat."""
    torque, time, natural = 0.004, 0.02, 1.2
    plasticity = {"yield_moment": YIELD, "yield_torque": torque, "time": time}
    model = _model(20, 100, 400.0, natural_twist=natural, pinned=[{"vertices": [0, 1, 2]}], plasticity=plasticity)
    point = int(model.systems[0].matter.plastic.index[0, 5])
    twist = model.rollout()["rod"]["x"][0, :, point].detach()
    stiffness = TWISTING / HALF
    moment = stiffness * (HALF * natural + twist[:, 2])
    rate = (YIELD / torque) ** 2 * stiffness / STIFFNESS / time
    first = stiffness * HALF * natural
    theta = RESPONSE * time  # p = |M3| - T_y: θ p'' + p' + rate p = 0 from rest
    root = math.sqrt(1 - 4 * theta * rate)
    slow, fast = (1 - root) / (2 * theta), (1 + root) / (2 * theta)
    t = torch.arange(20).double() / 400
    exact = torque + (first - torque) * (fast * torch.exp(-slow * t) - slow * torch.exp(-fast * t)) / (fast - slow)
    assert (moment - exact).abs().max() < 1e-3 * first  # steps of 1/16 of θ, of second order
    assert moment[-1] < 1.01 * torque
    assert twist[:, :2].abs().max() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("share", "residual"), [(0.8, 0.0), (2.0, 1.0)])
def test_a_bent_rod_springs_back_by_the_elastic_strain(share, residual):
    """Bent at the start, held back by viscosity that is slow beside T: κ → κ₀ - M_y/k beyond yield, 0 below it."""
    turn = 2 * math.atan(share * ELASTIC / 2)
    points = [[0, 0, 0], [HALF, 0, 0], [HALF * (1 + math.cos(turn)), 0, HALF * math.sin(turn)]]
    slow = 5.0
    model = _model(
        120, 100, 2.0, shape={"points": points}, pinned=[{"vertices": [0, 1]}], bending_time=slow, stretching_time=0.1
    )
    x = model.rollout()["rod"]["x"].detach()
    index = model.systems[0].matter.plastic.index
    s = rod_bending.strains(x[:, :, index[:, :5]])[0, :, 0].norm(dim=-1)
    assert s[0] == pytest.approx(share * ELASTIC)
    plastic = x[0, -1, index[0, 5]].norm()
    assert s[-1] == pytest.approx(residual * ELASTIC, abs=5 * 0.004 / slow * ELASTIC)
    assert plastic == pytest.approx(residual * ELASTIC, abs=5 * 0.004 / slow * ELASTIC)
    if share < 1:
        assert plastic == 0


@pytest.mark.slow
def test_a_rigid_motion_loses_nothing_and_leaves_no_strain():
    """A rod, curved at rest, that turns and flies for two turns."""
    model = _model(
        40, 50, 20.0, curvature1=0.0, angular_velocity=[0.5, 3.0, 2.0], velocity=[0.3, 0.2, 0.1], stretching=5e4
    )
    trajectory = model.rollout()
    x, v = (trajectory["rod"][key][0].detach() for key in ("x", "v"))
    system = model.systems[0]
    mass = system.mass(model.values())[0, : system.count].detach()
    kinetic = 0.5 * (v[:, : system.count].square().sum(-1) * mass).sum(1)
    assert (kinetic / kinetic[0] - 1).abs().max() < 2e-3  # stretch and bending by the spin, which start at 0
    assert x[:, system.count :].abs().max() == 0


def test_plastic_numbers_are_parameters_and_points_those_behind_the_ones_of_branches():
    """No kernels: each point belongs to one element of one law, and lies next to its vertex in the line of the banded Jacobian."""
    branches = [{"ratio": 0.4, "time": 0.02}, {"ratio": 0.2, "time": 0.2}]
    model = _model(2, shape={"line": {"length": 1, "segments": 6}}, relaxation=branches)
    system = model.systems[0]
    n, bends = system.count, 5
    groups = {group.force.name: group.index for group in system.matter.groups}
    assert set(groups) == {"spring", "rod_plasticity", "rod_frame", "rod_relaxation"}
    points = [group.index[:, 5] for group in system.matter.groups if group.force.nodes == 6]
    assert torch.cat(points).sort().values.tolist() == list(range(n, n + 3 * bends))
    assert groups["rod_plasticity"][:, 5].tolist() == list(range(n + 2 * bends, n + 3 * bends))
    place = system.matter.place
    assert sorted(place) == list(range(n + 3 * bends))
    for index in points:
        assert all(abs(place[a] - place[k]) <= 5 for k, a in zip(range(1, 6), index.tolist(), strict=True))
    values = model.values()
    start = system.inputs(values)[0][0].detach()
    assert start[n + 2 * bends :].abs().max() == 0
    assert system.mass(values).shape == (1, n + 3 * bends)
    assert len(system.inputs(values)) == len(system.program(2, 1, 0.1).names) - 1
    assert {f"rod.plasticity.{key}" for key in ("yield_moment", "time", "hardening")} <= set(model.kinds)
    assert "rod.plasticity.yield_torque" not in model.kinds
    elastic = _model(2, plasticity=None)
    assert not any("plasticity" in name for name in elastic.kinds)


@pytest.mark.slow
def test_gradients_are_those_of_the_closed_form_in_every_world():
    """A = κ - M_y/k - T κ' of a steady bend: dA/dM_y = -1/k at the peak, forwards and backwards; in two worlds."""
    model, _ = _cycle(0.25, time=0.001)
    point = int(model.systems[0].matter.plastic.index[0, 5])
    name = "rod.plasticity.yield_moment"
    base = model.get_parameter(name).detach() * torch.tensor([1.0, 1.3]).double()
    value = base.clone().requires_grad_()
    size = model.rollout({name: value})["rod"]["x"][:, -1, point].norm(dim=-1)
    (slope,) = torch.autograd.grad(size.sum(), value)
    assert (slope * STIFFNESS + 1).abs().max() < 0.01  # what is left of the rate at the end
    values = model.values({name: base})
    frames = model.scene.timing.frames
    now, moving = (t["rod"]["x"][:, -1, point] for t in model.tangent(values, {name: base}, frames))
    along = (moving * now).sum(-1) / now.norm(dim=-1) / base
    torch.testing.assert_close(along, slope, rtol=1e-6, atol=0)


@pytest.mark.slow
def test_gradients_and_tangents_are_those_of_differences():
    """Of all inputs of the steps, among them torque of yield and hardening, of a rod some of whose vertices yield."""
    plasticity = {"yield_moment": 0.004, "yield_torque": 0.003, "hardening": 0.005, "time": 0.01}
    keys = {"shape": {"line": {"length": 1, "segments": 6}}, "pinned": [{"vertices": [0, 1]}], "bending_ratio": 1.4}
    model = _model(4, 4, 100.0, plasticity=plasticity, **keys)
    system = model.systems[0]
    program = system.program(4, 4, 0.0025)
    inputs = [y.detach().clone() for y in system.inputs(model.values())]
    generator = torch.Generator().manual_seed(1)
    n = system.count
    inputs[0][:, :n] += 8e-3 * torch.randn(1, n, 3, generator=generator, dtype=torch.float64) * system.free[:n, None]
    inputs.append(inputs[0].new_zeros(1, 0))
    leaves = [y.requires_grad_() for y in inputs]
    outputs = program.run(*leaves)
    plastic = outputs[0][0, -1, system.matter.plastic.index[:, 5]]
    assert (plastic.norm(dim=-1) > 1e-3).any()
    adjoints = weights([y.detach() for y in outputs], seed=5)
    gradient = torch.autograd.grad(outputs, leaves, adjoints, materialize_grads=True)
    constants = [y.detach() for y in leaves]
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, constants, adjoints, seed=6)) < 1e-7
    along = [
        1e-3 * y.abs().mean() * torch.randn(y.shape, generator=generator, dtype=torch.float64) for y in constants[:-1]
    ]
    along.append(constants[-1])
    slopes = tangent(constants, along)
    wanted = central_difference(lambda *y: program.forward(y), constants, along, 1e-3)
    assert max(error(a, b) for a, b in zip(slopes, wanted, strict=True)) < 1e-5
