"""Sheets whose hinges yield: the cycle of an elastic and perfectly plastic hinge, gradients and tangents, and what is refused."""

import math

import pytest
import torch
from checks import central_difference, dot_product_errors, error, weights
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim.scene.exporters.export import export

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

SIDE = 0.1  # [m], of a square of two triangles with one hinge across
EDGE, WEIGHT = math.sqrt(2) * SIDE, 1.0  # its length [m], and w = |E|²/(|N1| + |N2|)
BENDING, YIELD = 1e-3, 2e-3  # [N m], [N]
STIFFNESS = WEIGHT * BENDING / 2  # [N m]
ELASTIC = 2 * math.asin(YIELD * EDGE / (WEIGHT * BENDING))  # angle up to which it is elastic
LARGEST = 1.6  # angle 2 α
FPS = 2000
RATE = LARGEST * 2 * math.pi


def _model(frames: int, substeps: int, integrator: str, fps: float = FPS, **keys) -> Model:
    body = {
        "kind": "cloth",
        "shape": {"grid": {"size": [SIDE, SIDE], "cells": [1, 1]}},
        "density": 0.2,
        "mu": 60.0,
        "lam": 40.0,
        "bending": BENDING,
        "plasticity": {"yield_moment": YIELD, "time": 0.004},
        **keys,
    }
    timing = {"fps": fps, "frames": frames, "substeps": substeps, "integrator": integrator}
    return Model(Scene.parse({"bodies": {"sheet": body}, "gravity": [0, 0, 0], "timing": timing}))


def _cycle(cycles: float, substeps: int, integrator: str, **keys) -> tuple[Model, Tensor]:
    """A hinge that is held flat while its activation folds it by κ_max sin(2π t), and 2 α after each interval."""
    frames = round(cycles * FPS) + 1
    model = _model(frames, substeps, integrator, pinned=[{"vertices": [0, 1, 2, 3]}], **keys)
    return model, LARGEST * torch.sin(2 * math.pi * (torch.arange(frames - 1).double() + 0.5) / FPS)


def _rollout(model: Model, angle: Tensor, **numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Plastic angle and moment after each interval (worlds, intervals)."""
    worlds = max(len(y) for y in numbers.values())
    alpha = (0.5 * angle)[None, :, None].expand(worlds, -1, -1)
    x = model.rollout({"sheet.bending_activation": alpha, **numbers})["sheet"]["x"]
    plastic = x[:, 1:, 4, 0]
    return plastic, WEIGHT * BENDING * torch.sin((angle - plastic) / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("integrator", "substeps"), [("verlet", 16), ("midpoint", 1)])
def test_a_cycle_is_that_of_perfect_plasticity_but_for_the_time(integrator, substeps):
    """|M - M_ideal| ≤ ½ w k T φ'_max, of first order in T; area of the loop 4 M_y (φ_max - φ_y), but for the sine."""
    model, angle = _cycle(1.25, substeps, integrator)
    times = torch.tensor([0.008, 0.004]).double()
    _, moment = _rollout(model, angle, **{"sheet.plasticity.time": times})
    moment = moment.detach()
    plastic, ideal = 0.0, []
    for phi in angle.tolist():
        plastic = min(max(plastic, phi - ELASTIC), phi + ELASTIC)
        ideal.append(WEIGHT * BENDING * math.sin((phi - plastic) / 2))
    ideal = torch.tensor(ideal, dtype=torch.float64)
    assert ideal.max().item() == pytest.approx(YIELD * EDGE, rel=1e-9)
    off, bound = (moment - ideal).abs().amax(1), STIFFNESS * times * RATE
    assert (off < 1.01 * bound).all()
    assert (off > 0.9 * bound).all()
    first = FPS // 4
    area = torch.trapezoid(moment[:, first:], angle[first:].expand(2, -1))
    exact = torch.trapezoid(ideal[first:], angle[first:])
    assert exact == pytest.approx(4 * YIELD * EDGE * (LARGEST - ELASTIC), rel=1e-3)
    assert ((area - exact).abs() < 4 * LARGEST * bound).all()
    assert 1.9 < (area - exact)[0] / (area - exact)[1] < 2.1


def test_gradients_are_those_of_the_closed_form_in_every_world():
    """A = 2 α - 2 asin(|E| M_y/(w k)) at a peak, with the length of a scaled edge; with hardening M = M_y + H A."""
    model, angle = _cycle(0.25, 16, "verlet", scale=1.0)
    name = "sheet.plasticity.yield_moment"
    base = torch.tensor([1.0, 1.3, 1.0]).double() * YIELD
    value = base.clone().requires_grad_()
    scale = torch.tensor([1.0, 1.0, 1.4]).double()
    plastic = _rollout(model, angle, **{name: value, "sheet.scale": scale})[0][:, -1]
    sine = base * EDGE * scale / (WEIGHT * BENDING)
    late = 0.004**2 * (2 * math.pi) ** 2 * LARGEST  # T² φ'': the rate is 0 at the peak
    assert (plastic - (angle[-1] - 2 * torch.asin(sine))).abs().max() < 1.5 * late
    (slope,) = torch.autograd.grad(plastic.sum(), value)
    exact = -2 * EDGE * scale / (WEIGHT * BENDING) / (1 - sine**2).sqrt()
    assert (slope / exact - 1).abs().max() < 1e-3
    alpha = (0.5 * angle)[None, :, None].expand(3, -1, -1)
    values = model.values({name: base, "sheet.scale": scale, "sheet.bending_activation": alpha})
    moving = model.tangent(values, {name: torch.ones_like(base)}, len(angle) + 1)[1]["sheet"]["x"]
    torch.testing.assert_close(moving[:, -1, 4, 0], slope, rtol=1e-9, atol=0)
    hard = torch.tensor([0.0, 0.5, 2.0]).double()
    bent = _rollout(model, 0.6 * angle, **{"sheet.plasticity.hardening": hard * BENDING})[0][:, -1].detach()
    moment = WEIGHT * BENDING * torch.sin((0.6 * angle[-1] - bent) / 2)
    assert (moment - YIELD * EDGE - STIFFNESS * hard * bent).abs().max() < 1.5 * STIFFNESS * 0.6 * late
    assert bent.min() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("relaxation", [[], [{"ratio": 0.4, "time": 0.02}]], ids=["alone", "relaxing"])
def test_gradients_and_tangents_are_those_of_differences(relaxation):
    """Of all inputs of the steps of a free sheet some of whose hinges yield."""
    plasticity = {"yield_moment": 5e-3, "time": 0.01, "hardening": 3e-4}
    keys = {"shape": {"grid": {"size": [0.2, 0.1], "cells": [4, 2]}}, "scale": 1.0, "bending_damping": 1e-6}
    model = _model(4, 96, "verlet", 100.0, plasticity=plasticity, relaxation=relaxation, **keys)
    system = model.systems[0]
    program = system.program(4, 96, 0.01 / 96)
    inputs = [y.detach().clone() for y in system.inputs(model.values())]
    generator = torch.Generator().manual_seed(1)
    inputs[0][:, : system.count] += 4e-3 * torch.randn(1, system.count, 3, generator=generator, dtype=torch.float64)
    inputs.append(inputs[0].new_zeros(1, 0))
    leaves = [y.requires_grad_() for y in inputs]
    outputs = program.run(*leaves)
    plastic = outputs[0][0, -1, system.matter.plastic.index[:, 4]].detach()
    yields = plastic[:, 0].abs() > 0
    assert yields.any() and not yields.all()
    assert plastic[:, 1:].abs().max() == 0
    adjoints = weights([y.detach() for y in outputs], seed=5)
    gradient = torch.autograd.grad(outputs, leaves, adjoints, materialize_grads=True)
    constants = [y.detach() for y in leaves]
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, constants, adjoints, seed=6)) < 1e-10
    along = [
        1e-3 * y.abs().mean() * torch.randn(y.shape, generator=generator, dtype=torch.float64) for y in constants[:-1]
    ]
    along.append(constants[-1])
    slopes = tangent(constants, along)
    wanted = central_difference(
        lambda *y: program.forward(y), constants, along, 1e-4
    )  # wider ones cross a kink of yield
    assert max(error(a, b) for a, b in zip(slopes, wanted, strict=True)) < 1e-7


def test_a_sheet_at_rest_stays_there_and_has_no_plastic_strain():
    model = _model(4, 16, "verlet", plasticity={"yield_moment": 1e-9, "time": 0.004}, velocity=[0.1, 0.2, 0.3])
    x = model.rollout()["sheet"]["x"].detach()
    assert x[0, :, 4:].abs().max() < 1e-12
    torch.testing.assert_close(
        x[0, -1, :4] - x[0, 0, :4], torch.tensor([0.1, 0.2, 0.3]).double().expand(4, 3) * 3 / FPS
    )


def test_plasticity_without_bending_is_refused_and_exports_name_it(tmp_path):
    with pytest.raises(InputError, match="plasticity: is given without a bending stiffness"):
        _model(2, 1, "verlet", bending=0.0)
    scene = _model(2, 16, "verlet").scene
    notes = export(scene, "mjcf", tmp_path).notes
    assert any("folds that yield at 0.002 N" in note for note in notes)
