"""Backward Euler: against dense matrices, with exact adjoints and sensitivities, and at steps no explicit one survives."""

import implicit_cases as cases
import pytest
import torch
from checks import central_difference, directions, dot_product_errors, error, slope, weights

from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.mapping import InElements, Worlds
from gradsim.geometry import tet_grid
from gradsim.physics.model import Divergence, Model
from gradsim.physics.soft import implicit
from gradsim.physics.soft.implicit import ImplicitParticles
from gradsim.physics.soft.rollout import Particles
from gradsim.scene import Scene

WORLDS = Worlds(Lane("float64", native_width("float64")))
MAPPINGS = [
    pytest.param(WORLDS, marks=pytest.mark.slow, id="worlds"),  # its adjoint takes as long again to compile
    pytest.param(InElements(Lane("float64", native_width("float64"))), id="elements"),
]


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_steps_and_gradients_are_those_of_dense_matrices(mapping):
    given, program = cases.inputs(2, seed=2), cases.program(mapping)
    found = program.forward(given)
    adjoints = weights(found, seed=3)
    gradient = program.backward(given, found, adjoints)
    for world in range(2):
        leaves = [y[world : world + 1].clone().requires_grad_() for y in given]
        expected = cases.dense(leaves)
        slopes = torch.autograd.grad(expected, leaves, [w[world : world + 1] for w in adjoints])
        assert all(y.any() for y in slopes), "a state that shows nothing"
        # ten times the tolerance of a step, for four steps
        assert max(error(a[world : world + 1], b) for a, b in zip(found, expected, strict=True)) < 1e-10
        assert max(error(a[world : world + 1], b) for a, b in zip(gradient, slopes, strict=True)) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("mapping", [Worlds, InElements], ids=lambda kind: kind.name)
def test_float32_agrees_to_its_tolerance(mapping):
    given, program = cases.inputs(2, seed=2), cases.program()
    expected = program.forward(given)
    adjoints = weights(expected, seed=3)
    slopes = program.backward(given, expected, adjoints)
    single = cases.program(mapping(Lane("float32", native_width("float32"))))
    cast = lambda ys: [y.float() for y in ys]
    found = single.forward(cast(given))
    gradient = single.backward(cast(given), found, cast(adjoints))
    # four steps to 1e-5 each; a gradient has second derivatives of the forces times that
    assert max(error(a, b) for a, b in zip(found, expected, strict=True)) < 4e-5
    assert max(error(a, b) for a, b in zip(gradient, slopes, strict=True)) < 1e-3


def test_other_devices_are_refused():
    with pytest.raises(ValueError, match="implicit steps run on a CPU; got tensors on meta"):
        cases.program().forward([y.to("meta") for y in cases.inputs(1, seed=2)])


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_adjoint_is_the_transpose_of_the_tangent(mapping):
    given, program = cases.inputs(2, seed=4), cases.program(mapping)
    outputs = program.forward(given)
    adjoints = weights(outputs, seed=5)
    gradient = program.backward(given, outputs, adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-10  # linear solves end at 1e-11


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_step_of_no_length_has_the_slope_by_its_length_of_the_forces(mapping):
    given, program = cases.inputs(2, seed=4), cases.program(mapping)
    given[-1][:, 0] = 0.0
    outputs = program.forward(given)
    adjoints = weights(outputs, seed=5)
    gradient = program.backward(given, outputs, adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert gradient[-1][:, 0].all()
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-10


def test_tangent_by_every_input_is_that_of_central_differences():
    given, program = cases.inputs(1, seed=7), cases.program()
    for k, d in enumerate(directions(given, seed=8)):
        along = [0.01 * d if j == k else torch.zeros_like(y) for j, y in enumerate(given)]
        found = [t for _, t in program.tangent(given, along)]
        wanted = central_difference(program.run, given, along, 1e-3)
        assert max(error(a, b) for a, b in zip(found, wanted, strict=True)) < 1e-7, program.names[k]


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_gradient_is_the_same_bit_for_bit_whatever_is_kept(mapping):
    given, results = cases.inputs(2, seed=9), []
    for segment in (1, 2):
        program = cases.program(mapping, segment=segment)
        outputs = program.forward(given)
        results.append(program.backward(given, outputs, weights(outputs, seed=10)))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.slow
def test_a_world_of_a_batch_moves_as_it_does_alone():
    given, program = cases.inputs(11, seed=11), cases.program(WORLDS)
    together, alone = program.forward(given), program.forward([y[4:5] for y in given])
    # the register goes on until its last world is done, so this one may be solved further than alone
    assert max(error(a[4:5], b) for a, b in zip(together, alone, strict=True)) < 1e-10


def test_pinned_vertices_keep_their_velocity_and_tell_nothing_about_their_mass():
    given, program = cases.inputs(1, seed=12), cases.program()
    x, v = program.forward(given)
    for k in cases.PINNED:
        assert torch.equal(v[:, :, k], given[1][:, None, k].expand_as(v[:, :, k]))
    gradient = program.backward(given, [x, v], weights([x, v], seed=13))
    assert not gradient[2][:, list(cases.PINNED)].any()


def test_from_a_state_far_from_rest_it_starts_with_a_share_of_the_step():
    """Newton's method from the velocity before is stuck in one of these worlds, squeezed by vertices that move on."""
    given = cases.inputs(8, seed=14)
    given[-1] = given[-1].new_full(given[-1].shape, 0.05)
    states = cases.program().forward(given)
    assert all(y.isfinite().all() for y in states)


def _beam(young: float, frames: int, dt: float, damping: float = 0.0, kind: type = ImplicitParticles):
    """A beam of 9 × 1 × 1 cm, held at one end, which falls under its weight; its program and inputs."""
    mesh = tet_grid.box((0.09, 0.01, 0.01), (6, 1, 1))
    x, tets = torch.tensor(mesh.vertices), torch.tensor(mesh.tets)
    groups = cases.groups(x, tets)
    volume = groups[0].rest["volume"] * 1000 / 4
    mass = torch.zeros(len(x)).double().index_add(0, tets.flatten(), volume.repeat_interleave(4))
    one = lambda size: torch.full((1, 1), size).double()
    mu, lam = young / 2.6 * 4 / 3, young * 0.3 / (1.3 * 0.4) + 0.625 * young / 2.6 * 4 / 3
    ground = [torch.tensor([[[0.0, 0, 1]]]).double(), *map(one, (-9.0, 1e3, 0.5, 5.0, 0.3))]
    given = [x[None], torch.zeros_like(x)[None], 1 / mass[None], torch.tensor([[0.0, 0, -9.81]]).double()]
    given += [one(mu), one(lam), one(damping), one(0.0), *ground, x.new_zeros(1, 0)]
    pinned = (x[:, 0] == x[:, 0].min()).nonzero()[:, 0].tolist()
    return kind(groups, frames, 1, dt, pinned), given


def test_a_stiff_beam_takes_twenty_times_the_step_that_ends_an_explicit_one():
    limit = 5.25e-5  # of the explicit step at 10 MPa [s]
    for factor, stands in ((0.95, True), (1.05, False)):
        program, given = _beam(1e7, 2001, factor * limit, kind=Particles)
        assert program.forward(given)[0].isfinite().all().item() is stands
    program, given = _beam(1e7, 101, 20 * limit)
    x = program.forward(given)[0]
    assert (x - x[:, :1]).abs().max() < 0.02


def test_error_falls_with_the_first_power_of_the_step():
    """Against steps of 1/64 of the first by the semi-implicit method."""
    given, time = _beam(1e5, 2, 1.0)[1], 0.02
    at = lambda kind, n: _beam(1e5, n + 1, time / n, kind=kind)[0].forward(given)[0][:, -1]
    exact = 2 * at(Particles, 3200) - at(Particles, 1600)
    counts = [50, 100, 200]
    errors = [(at(ImplicitParticles, n) - exact).norm().item() for n in counts]
    assert abs(slope(counts, errors) + 1) < 0.1


def test_big_steps_reach_the_equilibrium_whatever_their_size():
    ends = []
    for dt in (0.5, 2.0):
        program, given = _beam(1e6, 41, dt)
        ends.append(program.forward(given)[0][:, -1])
    assert error(ends[0] - given[0], ends[1] - given[0]) < 1e-9
    push, given = _beam(1e6, 2, 1.0, kind=Particles)
    _, v = push.forward([ends[1], *given[1:]])
    assert v[:, 1].abs().max() < 1e-6 * 9.81  # of one step of 1 s: gravity and forces balance


def test_a_world_whose_step_is_not_solved_is_nan_from_there_on(monkeypatch):
    given, program = cases.inputs(2, seed=16), cases.program(WORLDS)
    given[0][0], given[1][0], given[3][0] = cases.rest_positions() + 1.0, 0.0, 0.0  # at rest, which is no work
    given[4:8] = [y[:, :1] for y in given[4:8]]
    given[7][0] = 0.0
    monkeypatch.setattr(implicit, "NEWTONS", 1)
    x, _ = program.forward(given)
    assert x[0].isfinite().all() and x[1, 0].isfinite().all() and x[1, 1:].isnan().all()


SCENE = {
    "timing": {"fps": 30, "frames": 4, "substeps": 4, "integrator": "implicit"},
    "bodies": {
        "beam": {
            "kind": "solid",
            "shape": {"box": {"size": [0.09, 0.01, 0.01], "cells": [6, 1, 1]}},
            "density": 1000,
            "young": "10 MPa",
            "poisson": 0.3,
            "position": [0, 0, 1],
            "pinned": ["-x"],
        }
    },
    "ground": {"stiffness": 1000, "friction_stiffness": 5, "friction": 0.3},
}


def test_a_scene_takes_it_by_name_at_steps_that_semi_implicit_refuses(monkeypatch):
    trajectory = Model(Scene.parse(SCENE)).rollout()
    fine = Model(Scene.parse(SCENE), substeps=32).rollout()
    sag = lambda t: (t.states["beam"]["x"][0, -1] - t.states["beam"]["x"][0, 0]).norm().item()
    assert 0.8 < sag(trajectory) / sag(fine) < 1.2
    with pytest.raises(ValueError, match="too large for the stiffness"):
        Model(Scene.parse(SCENE | {"timing": SCENE["timing"] | {"integrator": "semi-implicit"}}))
    monkeypatch.setattr(implicit, "NEWTONS", 1)
    with pytest.raises(Divergence, match=r"`beam` diverges: x .* from step 1 on"):
        Model(Scene.parse(SCENE)).rollout()


def test_rigid_bodies_refuse_it():
    rigid = {"shape": {"sphere": {"radius": 0.1}}, "density": 100, "position": [0, 0, 2]}
    with pytest.raises(ValueError, match="got 'implicit', which supports soft bodies only; `box` is not soft"):
        Scene.parse(SCENE | {"bodies": SCENE["bodies"] | {"box": rigid}})
