"""Rollouts of soft bodies: one physics in every mapping and precision, with exact adjoints and sensitivities."""

import gc
import weakref
from itertools import pairwise

import particle_cases as cases
import pytest
import torch
import warp as wp
from checks import central_difference, directions, dot_product_errors, error, gradients, taylor_slope, weights

from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.mapping import InElements, Threads, Worlds, mapping_for
from gradsim.physics.forces import neo_hookean
from gradsim.physics.forces.assembly import assemble
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft import gpu_rollout
from gradsim.physics.soft.rollout import Particles

WIDE = {dtype: native_width(dtype) for dtype in ("float64", "float32")}
name = lambda mapping: f"{mapping.name} {mapping.lane.name}"
slow = lambda mapping: pytest.param(mapping, marks=pytest.mark.slow, id=name(mapping))  # to compile
DOUBLE = [
    slow(Worlds(Lane("float64", 1))),
    Worlds(Lane("float64", WIDE["float64"])),
    InElements(Lane("float64", WIDE["float64"])),
    Threads(Lane("float64", 1)),
]
MAPPINGS = [*DOUBLE, slow(Worlds(Lane("float32", WIDE["float32"]))), InElements(Lane("float32", WIDE["float32"]))]
OF_CPU = DOUBLE[:3]  # the launches of the other are vectorised as their arrays lie
WITHIN = {"float64": 1e-12, "float32": 1e-4}  # float32: roundings of x over 15 steps; stiffness × 1e-8 m in the forces
ARCHITECTURE = 80  # the oldest that CUDA 13 and current PyTorch both serve well


@pytest.mark.parametrize("shared", [False, True], ids=["own parameters", "one for all elements"])
@pytest.mark.parametrize("mapping", MAPPINGS, ids=name)
def test_rollout_and_gradients_are_those_of_the_definitions(mapping, shared):
    given = cases.inputs(3, seed=2, shared=shared)
    leaves = [y.clone().requires_grad_() for y in given]
    expected = cases.plain(cases.groups(), leaves)
    adjoints = weights(expected, seed=3)
    slopes = torch.autograd.grad(expected, leaves, adjoints)
    assert all(slope.any() for slope in slopes), "a state that shows nothing"
    cast = lambda ys: [y.to(getattr(torch, mapping.lane.dtype)) for y in ys]
    run = cases.program(mapping).run
    within = WITHIN[mapping.lane.dtype]
    assert max(error(a, b) for a, b in zip(run(*cast(given)), expected, strict=True)) < within
    found = gradients(run, cast(given), cast(adjoints))
    assert max(error(a, b) for a, b in zip(found, slopes, strict=True)) < within


@pytest.mark.parametrize("mapping", DOUBLE, ids=name)
def test_adjoint_is_the_transpose_of_the_tangent(mapping):
    given, program = cases.inputs(3, seed=4), cases.program(mapping)
    adjoints = weights(program.forward(given), seed=5)
    gradient = program.backward(given, program.forward(given), adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-12


@pytest.mark.parametrize("mapping", DOUBLE, ids=name)
def test_a_step_of_no_length_has_the_slope_by_its_length_of_the_forces(mapping):
    """As the first of a film whose clock may be late has; its gain of velocity, 0, says nothing of the forces."""
    given, program = cases.inputs(3, seed=4), cases.program(mapping)
    given[-1][:, 1], given[-1][1, 2] = 0.0, 1e-9
    adjoints = weights(program.forward(given), seed=5)
    gradient = program.backward(given, program.forward(given), adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert gradient[-1][:, 1].all()
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-12


def test_tangent_of_a_long_rollout_is_that_of_central_differences():
    given, program = cases.inputs(2, seed=7), cases.program(frames=5, substeps=30)
    given[-1] = given[-1].new_full((2, 4), 3e-4)
    program = cases.program(frames=5, substeps=30)
    along = [0.01 * d for d in directions(given, seed=8)]
    found = [t for _, t in program.tangent(given, along)]
    # no contact opens or closes within the secants of these steps: the tangents agree at both
    for step in (1e-5, 2e-5):
        wanted = central_difference(program.run, given, along, step)
        assert max(error(a, b) for a, b in zip(found, wanted, strict=True)) < 1e-7


def test_taylor_remainder_falls_with_the_square_of_the_step():
    given = cases.inputs(1, seed=9)
    along = [0.1 * d for d in directions(given, seed=10)]
    slope = taylor_slope(cases.program().run, given, along, [1e-3 * 2**-k for k in range(10)])
    assert abs(slope - 2) < 0.02


@pytest.mark.parametrize("mapping", OF_CPU, ids=name)
def test_gradient_is_the_same_bit_for_bit_whatever_is_kept(mapping):
    given = cases.inputs(2, seed=11)
    results = []
    for segment in (1, 2, 3):
        program = cases.program(mapping, segment=segment)
        outputs = program.forward(given)
        results.append(program.backward(given, outputs, weights(outputs, seed=12)))
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("mapping", OF_CPU, ids=name)
def test_a_world_of_a_batch_moves_as_it_does_alone(mapping):
    given, program = cases.inputs(11, seed=13), cases.program(mapping)
    together, alone = program.forward(given), program.forward([y[4:5] for y in given])
    assert all(torch.equal(a[4:5], b) for a, b in zip(together, alone, strict=True))


def test_threads_have_an_element_each_on_the_way_back_too(monkeypatch):
    launched = []
    noted = lambda kernel, dim, *rest: launched.append((kernel.key, dim))
    monkeypatch.setattr(gpu_rollout, "replay", noted)
    given, program = cases.inputs(2, seed=17), cases.program(Threads(Lane("float64", 1)))
    program.backward(given, outputs := program.forward(given), outputs)
    sizes = {dim for kernel, dim in launched if kernel.startswith("adjoints_of")}
    assert sizes == {(2, len(group.index)) for group in cases.groups()}


def test_few_worlds_go_by_elements_and_many_by_worlds():
    """One world leaves most of a register of worlds empty, as many as it has places leave none."""
    width = native_width("float64")
    names = [mapping_for(n, torch.float64, torch.device("cpu"), False).name for n in (1, width, 64)]
    assert names == ["elements", "worlds", "worlds"]


def test_pinned_vertices_keep_their_velocity_and_tell_nothing_about_their_mass():
    given, program = cases.inputs(2, seed=14), cases.program()
    x, v = program.forward(given)
    for k in cases.PINNED:
        assert torch.equal(v[:, :, k], given[1][:, None, k].expand_as(v[:, :, k]))
    gradient = program.backward(given, [x, v], weights([x, v], seed=15))
    assert not gradient[2][:, list(cases.PINNED)].any()


def test_free_fall_is_that_of_the_method_and_tells_nothing_about_the_mass():
    """Acceptance A1: z_n = z₀ + n h v₀ − g h² n (n + 1)/2."""
    group = cases.groups()[:1]
    given = cases.inputs(2, seed=16)[:8]
    given[0], given[7] = cases.rest_positions().expand_as(given[0]).clone(), torch.zeros_like(given[7])
    given[1] = torch.tensor([0.4, 0.3, 2.0]).double().expand_as(given[1]).clone()
    n, h = 50, 1e-3
    program = Particles(group, 2, n, h)
    x, v = program.run(*given, given[0].new_zeros(2, 0))
    expected = given[0] + n * h * given[1] + given[3][:, None] * h**2 * n * (n + 1) / 2
    assert error(x[:, 1], expected) < 1e-13
    slopes = gradients(program.run, [*given, given[0].new_zeros(2, 0)], [torch.ones_like(x), torch.ones_like(v)])
    assert slopes[2].abs().max() < 1e-13  # m ∂z/∂m, of 2 m: forces of the rest shape are rounded, not zero


def test_momentum_is_kept_in_free_flight():
    """Linear and angular momentum change by gravity alone; forces here are elastic and viscous."""
    group = cases.groups()[:1]
    given = cases.inputs(1, seed=17)[:8]
    given[3].zero_()
    mass = 1 / given[2][..., None]
    steps = 200
    program = Particles(group, 2, steps, 1e-4)
    x, v = program.forward([*given, given[0].new_zeros(1, 0)])
    before, after = ((mass * v[:, k]).sum(1) for k in range(2))
    assert error(after, before) < 1e-13 * steps
    before, after = ((mass * torch.linalg.cross(x[:, k], v[:, k])).sum(1) for k in range(2))
    assert error(after, before) < 1e-13 * steps


def test_order_of_convergence_is_one():
    given = cases.inputs(1, seed=18)[:8]
    group, time = cases.groups()[:1], 0.01
    at = lambda n: Particles(group, 2, n, time / n).forward([*given, given[0].new_zeros(1, 0)])[0][:, 1]
    finest = [at(n) for n in (400, 800, 1600, 3200)]
    differences = [(a - b).norm().item() for a, b in pairwise(finest)]
    orders = [torch.tensor(a / b).log2().item() for a, b in pairwise(differences)]
    assert all(abs(order - 1) < 0.05 for order in orders)


def test_a_program_that_is_gone_leaves_nothing_behind():
    program = cases.program()
    program.forward(cases.inputs(1, seed=2))
    elements = weakref.ref(program.groups[0])
    del program
    gc.collect()
    assert elements() is None


def test_counts_that_do_not_agree_are_named():
    given, program = cases.inputs(2, seed=19), cases.program()
    with pytest.raises(ValueError, match=r"`inverse_mass` has shape \(2, 5\); expected \(2, 24\)"):
        program.forward([*given[:2], given[2][:, :5], *given[3:]])
    with pytest.raises(ValueError, match=r"`0.mu` has 7 entries for 30 elements of neo_hookean"):
        program.forward([*given[:4], given[4][:, :7], *given[5:]])
    with pytest.raises(ValueError, match="`step` has 1 intervals; 4 frames need 3, or 0"):
        program.forward([*given[:-1], given[-1][:, :1]])
    with pytest.raises(ValueError, match=r"`index` of neo_hookean has shape \(5, 3\)"):
        Elements(neo_hookean.FORCE, torch.zeros(5, 3, dtype=torch.long))


@pytest.mark.parametrize("lane", [Lane("float32"), pytest.param(Lane("float64"), marks=pytest.mark.slow)], ids=str)
def test_kernels_compile_for_cuda(lane, tmp_path):
    if not wp.get_cuda_toolkit_version():
        pytest.skip("this build of Warp has no CUDA compiler")
    forces = assemble(tuple(group.force for group in cases.groups()), lane, "threads")
    for code in (forces, gpu_rollout._code(lane)):
        (file,) = wp.compile_aot_module(code, arch=ARCHITECTURE, module_dir=tmp_path, use_ptx=True)
        text = file.read_text()
        for key in wp.get_module(code.__name__).kernels:
            assert f".entry {key}" in text


@pytest.mark.parametrize("mapping", OF_CPU, ids=name)
def test_arrays_that_are_used_again_hold_the_numbers_of_the_last_call(mapping):
    one, other = (cases.inputs(3, seed=seed) for seed in (5, 6))
    program = cases.program(mapping)
    outputs, adjoints = program.forward(one), weights(program.forward(one), seed=7)
    between = program.forward(other)  # a forward pass and its backward pass
    gradient = program.backward(one, outputs, adjoints)
    fresh = cases.program(mapping)
    assert all(torch.equal(x, y) for x, y in zip(between, fresh.forward(other), strict=True))
    expected = cases.program(mapping).forward(one)
    assert all(torch.equal(x, y) for x, y in zip(outputs, expected, strict=True))
    assert all(torch.equal(x, y) for x, y in zip(program.forward(one), expected, strict=True))
    slopes = fresh.backward(one, expected, adjoints)
    assert all(torch.equal(x, y) for x, y in zip(gradient, slopes, strict=True))
    assert all(torch.equal(x, y) for x, y in zip(program.backward(one, outputs, adjoints), slopes, strict=True))
