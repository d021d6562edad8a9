"""Sheets and rods that relax: vibrations against the closed form of a generalized Maxwell solid, energy, gradients and tangents."""

import math

import pytest
import torch
from checks import central_difference, dot_product_errors, error, weights
from torch import Tensor

from gradsim.physics.forces import (
    bending,
    bending_relaxation,
    membrane,
    membrane_relaxation,
    rod_bending,
    rod_frame,
    rod_relaxation,
    spring,
)
from gradsim.physics.model import Model
from gradsim.physics.soft.relaxing import RESPONSE
from gradsim.scene import Scene

RATIO = 0.6
EDGE = {"box": [[-1, -1, -1], [-0.0749, 1, 1]]}  # the first two columns of vertices


def _model(kind: str, time: float, frames: int, fps: float, substeps: int, integrator: str, **keys) -> Model:
    bodies = {
        "sheet": {
            "kind": "cloth",
            "shape": {"grid": {"size": [0.2, 0.1], "cells": [4, 2]}},
            "density": 0.2,
            "mu": 60.0,
            "lam": 40.0,
            "bending": 1e-3,
            "pinned": [EDGE],
        },
        "rod": {
            "kind": "rod",
            "shape": {"line": {"length": 1, "segments": 8}},
            "density": 0.05,
            "stretching": 500,
            "bending": 2e-2,
            "twisting": 1e-2,
            "radius": 0.004,
            "pinned": [{"vertices": [0, 1]}],
        },
    }
    body = bodies[kind] | {"relaxation": [{"ratio": RATIO, "time": time}]} | keys
    timing = {"fps": fps, "frames": frames, "substeps": substeps, "integrator": integrator}
    return Model(Scene.parse({"bodies": {"body": body}, "gravity": [0, 0, 0], "timing": timing}))


def _inputs(model: Model) -> dict[str, Tensor]:
    """Inputs of the program by name, of one world."""
    system = model.systems[0]
    names = system.program(2, 1, 0.1).names[:-1]
    return {k: y[0].detach() for k, y in zip(names, system.inputs(model.values()), strict=True)}


def _elastic_energy(model: Model, x: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Of the elasticity that lasts [J] (frames,), at x (frames, all points, 3)."""
    of = lambda k, force: {name: inputs[f"{k}.{name}"] for name in force.parameters if "damping" not in name}
    total = x.new_zeros(len(x))
    for k, group in enumerate(model.systems[0].matter.groups):
        laws = {
            "membrane": membrane,
            "bending": bending,
            "spring": spring,
            "rod_bending": rod_bending,
            "rod_frame": rod_frame,
        }
        if group.force.name in laws:
            energy = laws[group.force.name].energy(x[:, group.index], **group.rest, **of(k, group.force))
            total = total + energy.sum(1)
    return total


def _mode(model: Model, axis: int) -> tuple[float, Tensor]:
    """ω [rad/s] and shape (n, 3) of the slowest small vibration that is mostly along an axis."""
    system, inputs = model.systems[0], _inputs(model)
    start, n = inputs["x"], system.count

    def energy(x: Tensor) -> Tensor:
        full = torch.cat([x.reshape(-1, 3), start[n:]])
        return _elastic_energy(model, full[None], inputs).sum()

    K = torch.autograd.functional.hessian(energy, start[:n].flatten())
    free = system.free[:n].repeat_interleave(3) > 0
    root = system.mass(model.values())[0, :n].detach().sqrt().repeat_interleave(3)[free]
    squares, shapes = torch.linalg.eigh(K[free][:, free] / root[:, None] / root)
    for square, mode in zip(squares, shapes.T, strict=True):
        shape = torch.zeros(len(free), dtype=K.dtype)
        shape[free] = mode / root
        shape = shape.reshape(-1, 3)
        if square > 1 and shape[:, axis].square().sum() > 0.6 * shape.square().sum():
            return square.sqrt().item(), shape
    raise AssertionError("no such mode")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "axis"), [("sheet", 2), ("sheet", 0), ("rod", 1)])
def test_small_vibration_is_that_of_a_maxwell_solid(kind, axis):
    """q̈ + ω² (q + g (q - a)) = 0,  θ ä + ȧ = (q - a)/τ: all that a mode strains relaxes alike."""
    integrator = "midpoint" if kind == "rod" else "verlet"
    omega, shape = _mode(_model(kind, 1.0, 2, 1e5, 1, integrator), axis)
    time, fps, frames = 1 / omega, 8 * omega, 80
    substeps = 32 if kind == "rod" else 256
    model = _model(kind, time, frames, fps, substeps, integrator)
    speed = 1e-4 * 0.025 * omega / shape.abs().max()
    x = model.rollout({"body.vertex_velocity": (speed * shape)[None]})["body"]["x"][0].detach()
    q = ((x[:, : len(shape)] - x[0, : len(shape)]) * shape).sum((1, 2)) / shape.square().sum()
    theta = RESPONSE * time
    A = torch.zeros(4, 4).double()
    A[0, 2] = A[1, 3] = 1.0
    A[2, 0], A[2, 1] = -(omega**2) * (1 + RATIO), omega**2 * RATIO
    A[3, 0], A[3, 1], A[3, 3] = 1 / (time * theta), -1 / (time * theta), -1 / theta
    start = torch.tensor([0.0, 0.0, speed, 0.0]).double()
    exact = torch.stack([(torch.linalg.matrix_exp(A * k / fps) @ start)[0] for k in range(frames)])
    assert abs(q[-25:]).max() < 0.6 * abs(q[:25]).max()
    # steps of 1/256 of 1/ω, of second order; frame points of a rod carry 1/1000 of its mass
    assert (q - exact).abs().max() < (4e-3 if kind == "rod" else 1e-3) * exact.abs().max()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sheet", "rod"])
def test_energy_never_grows(kind):
    """Kinetic and elastic energy, Ψ, and that of Ȧ, in a large motion."""
    time = 0.02
    rate, frames = (4000, 200) if kind == "rod" else (32000, 800)
    lossless = {"stretching_time": 0.0, "twisting_time": 0.0} if kind == "rod" else {}
    model = _model(kind, time, frames, rate, 1, "midpoint" if kind == "rod" else "verlet", pinned=[], **lossless)
    system, inputs = model.systems[0], _inputs(model)
    n = system.count
    kick = torch.zeros(1, n, 3).double()
    generator = torch.Generator().manual_seed(3)
    kick[:, : len(system.body.rest_vertices)] = torch.randn(
        1, len(system.body.rest_vertices), 3, generator=generator, dtype=torch.float64
    )
    if kind == "rod":
        kick[:, 9:] = (kick[:, :8] + kick[:, 1:9]) / 2
    state = model.rollout({"body.vertex_velocity": kick})["body"]
    x, v = (state[key][0].detach() for key in ("x", "v"))
    elastic = _elastic_energy(model, x, inputs)
    total = (elastic - elastic[0]) + 0.5 * (
        v[:, :n].square().sum(-1) * system.mass(model.values())[0, :n].detach()
    ).sum(1)
    psi = torch.zeros_like(total)
    for k, group in enumerate(system.matter.groups):
        law = {"membrane_relaxation": membrane_relaxation, "bending_relaxation": bending_relaxation}.get(
            group.force.name
        )
        law = rod_relaxation if group.force.name == "rod_relaxation" else law
        if law is None:
            continue
        of = {name: inputs[f"{k}.{name}"] for name in group.force.parameters}
        psi = psi + law.energy(x[:, group.index], **group.rest, **of).sum(1)
        # Ψ is a quadratic form of D, and that of Ȧ in its place has the factor τθ: as Ψ at strains that are 0 + Ȧ
        still = x[:, group.index].clone()
        still[:, :, -1] = 0.0
        base = x[:, group.index].clone()
        base[:, :, -1] = v[:, group.index[:, -1]]
        moving = law.energy(base, **group.rest, **of) + law.energy(
            torch.cat([base[:, :, :-1], -base[:, :, -1:]], 2), **group.rest, **of
        )
        moving = moving / 2 - law.energy(still, **group.rest, **of)  # Ψ(D - Ȧ) and Ψ(D + Ȧ) without the cross term
        total = total + time * RESPONSE * time * moving.sum(1)
    total = total + psi
    assert psi.max() > 0.02 * total[0]
    assert total.diff().max() < 2e-4 * total[0]  # the error of the steps, which comes and goes
    assert total[-1] < 0.98 * total[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sheet", "rod"])
@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_and_tangents_are_those_of_differences(kind, scaled):
    keys = {"scale": 1.0} if scaled else {}
    model = _model(kind, 0.02, 4, 100.0, 4 if kind == "rod" else 64, "midpoint" if kind == "rod" else "verlet", **keys)
    system = model.systems[0]
    program = system.program(4, 4 if kind == "rod" else 64, 0.01 / (4 if kind == "rod" else 64))
    inputs = [y.detach().clone() for y in system.inputs(model.values())]
    generator = torch.Generator().manual_seed(1)
    inputs[0][:, : system.count] += (
        2e-3
        * torch.randn(1, system.count, 3, generator=generator, dtype=torch.float64)
        * system.free[: system.count, None]
    )
    inputs.append(inputs[0].new_zeros(1, 0))
    leaves = [y.requires_grad_() for y in inputs]
    outputs = program.run(*leaves)
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
    wanted = central_difference(lambda *y: program.forward(y), constants, along, 1e-2)
    assert max(error(a, b) for a, b in zip(slopes, wanted, strict=True)) < 1e-5


@pytest.mark.parametrize(
    "kind", ["sheet", pytest.param("rod", marks=pytest.mark.slow)]
)  # kernels of rods compile longest
def test_a_relaxed_body_stays_at_rest_at_any_scale(kind):
    keys = {} if kind == "rod" else {"scale": 1.0}
    model = _model(
        kind, 0.02, 4, 50.0, 2 if kind == "rod" else 64, "midpoint" if kind == "rod" else "verlet", pinned=[], **keys
    )
    values = {} if kind == "rod" else {"body.scale": 1.3}
    x = model.rollout(values)["body"]["x"].detach()
    torch.testing.assert_close(x[:, -1], x[:, 0], rtol=0, atol=1e-10)


def test_a_hysteresis_of_a_rod_has_one_branch_a_decade():
    model = _model(
        "rod",
        1.0,
        2,
        10.0,
        1,
        "midpoint",
        relaxation=[],
        hysteresis={"loss_factor": 0.1, "shortest": 0.01, "longest": 1.0},
    )
    pairs = model.systems[0].matter.branches.series.numbers(model.values())
    assert [t.item() for _, t in pairs] == pytest.approx([0.01, 0.1, 1.0])
    assert pairs[0][0].item() == pytest.approx(0.1 * 2 / math.pi * math.log(10))
    names = set(model.values())
    assert "body.hysteresis.loss_factor" in names
