"""Soft solids that relax: vibrations against the closed form of a generalized Maxwell solid, energy, and gradients."""

import math

import pytest
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.forces import neo_hookean, relaxation
from gradsim.physics.model import Model
from gradsim.physics.soft.relaxing import RESPONSE
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

RATIO, TIME = 0.6, 0.05  # of the branch; the first mode turns at 13 rad/s
BRANCH = {"relaxation": [{"ratio": RATIO, "time": TIME}]}


def _model(frames: int = 60, substeps: int = 64, fps: float = 100.0, integrator: str = "verlet", **keys) -> Model:
    solid = {"kind": "solid", "shape": {"box": {"size": [0.1, 0.1, 0.2], "cells": [1, 1, 2]}}, "density": 1000}
    solid |= {"young": 2e4, "poisson": 0.3, "pinned": [{"box": [[-1, -1, -0.101], [1, 1, -0.099]]}]}
    timing = {"fps": fps, "frames": frames, "substeps": substeps, "integrator": integrator}
    content = {"bodies": {"bar": solid | BRANCH | keys}, "gravity": [0, 0, 0], "timing": timing}
    return Model(Scene.parse(content))


def _first_mode(model: Model) -> tuple[float, Tensor]:
    """ω [rad/s] and shape (n, 3) of the slowest small vibration of the elasticity that lasts."""
    system = model.systems[0]
    values, group = model.values(), system.matter.groups[0]
    start = system.inputs(values)[0][0, : system.count].detach()
    mu, lam = (y[0].detach() for y in system.matter.moduli(values))
    none = torch.zeros_like(mu)

    def energy(x: Tensor) -> Tensor:
        return neo_hookean.energy(
            x.reshape(-1, 3)[group.index], **group.rest, mu=mu, lam=lam, damping=none, activation=none
        ).sum()

    K = torch.autograd.functional.hessian(energy, start.flatten())
    free = system.free[: system.count].repeat_interleave(3) > 0
    root = system.mass(values)[0, : system.count].detach().sqrt().repeat_interleave(3)[free]
    squares, shapes = torch.linalg.eigh(K[free][:, free] / root[:, None] / root)
    shape = torch.zeros(len(free), dtype=K.dtype)
    shape[free] = shapes[:, 0] / root
    return squares[0].sqrt().item(), shape.reshape(-1, 3)


@pytest.mark.slow
def test_small_vibration_is_that_of_a_maxwell_solid():
    """q̈ + ω² (q + g (q - a)) = 0,  θ ä + ȧ = (q - a)/τ: the strains of a mode keep its shape."""
    model = _model()
    omega, shape = _first_mode(model)
    assert 0.3 < omega * TIME < 3  # where a branch loses most
    speed = 1e-5 / shape.abs().max()
    trajectory = model.rollout({"bar.vertex_velocity": (speed * shape)[None]})["bar"]["x"][0].detach()
    moved = trajectory[:, : len(shape)] - trajectory[0, : len(shape)]
    q = (moved * shape).sum((1, 2)) / shape.square().sum()
    theta = RESPONSE * TIME
    A = torch.zeros(4, 4).double()
    A[0, 2] = A[1, 3] = 1.0
    A[2, 0], A[2, 1] = -(omega**2) * (1 + RATIO), omega**2 * RATIO
    A[3, 0], A[3, 1], A[3, 3] = 1 / (TIME * theta), -1 / (TIME * theta), -1 / theta
    start = torch.tensor([0.0, 0.0, speed, 0.0]).double()
    exact = torch.stack([(torch.linalg.matrix_exp(A * k / 100) @ start)[0] for k in range(len(q))])
    assert abs(q[-10:]).max() < 0.6 * abs(q[:10]).max()
    torch.testing.assert_close(
        q, exact, rtol=0, atol=2e-4 * exact.abs().max().item()
    )  # strains of 1e-4, steps of 0.16 ms


def test_energy_never_grows():
    """Kinetic and elastic energy, Ψ, and that of Ȧ, in a large motion; semi-implicit steps of 16 µs."""
    dt, frames = 1 / 64000, 1200
    model = _model(frames, 1, 1 / dt, "semi-implicit", pinned=[])
    generator = torch.Generator().manual_seed(3)
    system, values = model.systems[0], model.values()
    kick = torch.randn(1, system.count, 3, generator=generator).double()
    state = model.rollout({"bar.vertex_velocity": kick})["bar"]
    x, v = (state[key][0].detach() for key in ("x", "v"))
    solid, branch = system.matter.groups
    inputs = dict(zip(system.program(frames, 1, dt).names[:-1], system.inputs(values), strict=True))
    of = lambda g, name: inputs[f"{g}.{name}"][0].detach()
    elastic = {name: of(0, name) for name in ("mu", "lam", "damping", "activation")}
    total = neo_hookean.energy(x[:, solid.index], **solid.rest, **elastic).sum(1)
    total = total - neo_hookean.energy(system.rest[solid.index], **solid.rest, **elastic).sum()
    total = total + 0.5 * (v[:, : system.count].square().sum(-1) * system.mass(values)[0, : system.count].detach()).sum(
        1
    )
    psi = relaxation.energy(x[:, branch.index], **branch.rest, mu=of(1, "mu"), lam=of(1, "lam")).sum(1)
    creep = v[:, branch.index][..., 4:, :].mT
    moving = relaxation.form(creep, branch.rest["volume"], of(1, "mu"), of(1, "lam")).sum(1)
    total = total + psi + TIME * RESPONSE * TIME * moving
    assert psi.max() > 0.02 * total[0]
    assert total.diff().max() < 1e-5 * total[0]  # the error of first-order steps, which comes and goes
    assert total[-1] < 0.99 * total[0]


@pytest.mark.parametrize("name", ["bar.relaxation.0.time", "bar.relaxation.0.ratio", "bar.young", "bar.density"])
def test_gradients_and_tangents_are_those_of_differences(name):
    model = _model(frames=6, substeps=32)
    base = model.values()[name].detach()
    velocity = torch.zeros(1, model.systems[0].count, 3).double()
    velocity[..., 0] = 0.5

    def final(value: Tensor) -> Tensor:
        return model.rollout({name: value, "bar.vertex_velocity": velocity})["bar"]["x"][:, -1, -40:].square().sum()

    value = base.clone().requires_grad_()
    (slope,) = torch.autograd.grad(final(value), value)
    h = 1e-5 * base
    central = ((final(base + h) - final(base - h)) / (2 * h)).detach()
    torch.testing.assert_close(slope, central, rtol=1e-6, atol=0)
    values = model.values({"bar.vertex_velocity": velocity})
    states, tangents = model.tangent(values, {name: torch.ones_like(base)}, 6)
    along = 2 * (states["bar"]["x"][:, -1, -40:] * tangents["bar"]["x"][:, -1, -40:]).sum()
    torch.testing.assert_close(along[None], slope, rtol=1e-9, atol=0)


def test_falling_body_tells_nothing_of_its_relaxation():
    """Points of strains feel no gravity, and are no part of the center of mass."""
    model = _model(frames=10, pinned=[], angular_velocity=[0, 0, 0])
    free = {"gravity": torch.tensor([[0.0, 0, -9.81]]).double()}
    x = model.rollout(free)["bar"]["x"].detach()
    system = model.systems[0]
    fallen = system.center_of_mass({"x": x}, model.values())[0, -1, 2].item()
    assert fallen == pytest.approx(-9.81 / 2 * 0.09**2, rel=5e-3)
    torch.testing.assert_close(x[:, -1, system.count :], x[:, 0, system.count :], rtol=0, atol=1e-12)


def test_scale_keeps_a_relaxed_body_at_rest():
    """With a scale the rest shape is a parameter."""
    model = _model(frames=5, scale=1.0)
    twin = _model(frames=5)
    velocity = {"bar.vertex_velocity": torch.ones(1, model.systems[0].count, 3).double()}
    torch.testing.assert_close(
        model.rollout(velocity)["bar"]["x"], twin.rollout(velocity)["bar"]["x"], rtol=0, atol=1e-12
    )
    still = model.rollout({"bar.scale": 1.3})["bar"]["x"].detach()
    torch.testing.assert_close(still[:, -1], still[:, 0], rtol=0, atol=1e-12)


def test_loss_factor_of_a_hysteresis_hardly_depends_on_frequency():
    model = _model(substeps=6400, relaxation=[], hysteresis={"loss_factor": 0.1, "shortest": 1e-4, "longest": 10.0})
    pairs = model.systems[0].matter.branches.series.numbers(model.values())
    assert [t.item() for _, t in pairs] == pytest.approx([1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])
    ratio = {g.item() for g, _ in pairs}.pop()
    omega = torch.logspace(0.5, 2.5, 50).double()
    loss = sum(ratio * omega * t.item() / (1 + (omega * t.item()) ** 2) for _, t in pairs)
    assert (loss / 0.1 - 1).abs().max() < 0.08
    assert math.isclose(loss.mean().item(), 0.1, rel_tol=0.03)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"hysteresis": {"loss_factor": 0.1, "shortest": 1.0, "longest": 0.5}}, "expected more than `shortest`"),
        ({"relaxation": [{"ratio": 0.1, "time": 0.0}]}, "relaxation"),
        ({"relaxation": [{"time": 0.1}]}, "ratio"),
    ],
)
def test_wrong_relaxation_is_refused(keys, words):
    with pytest.raises(InputError, match=words):
        _model(**keys)
