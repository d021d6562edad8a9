"""Sheets, springs and anchors together in a rollout: one physics in every mapping and precision."""

import pytest
import sheet_cases as cases
import torch
import warp as wp
from checks import dot_product_errors, error, gradients, weights

from gradsim.engine.lanes import Lane, native_width
from gradsim.engine.mapping import InElements, Threads, Worlds
from gradsim.physics.forces.assembly import assemble

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

WIDE = {dtype: native_width(dtype) for dtype in ("float64", "float32")}
name = lambda mapping: f"{mapping.name} {mapping.lane.name}"
slow = lambda mapping: pytest.param(mapping, marks=pytest.mark.slow, id=name(mapping))  # each has modules to build
ELEMENTS, WORLDS = InElements(Lane("float64", WIDE["float64"])), Worlds(Lane("float64", WIDE["float64"]))
MAPPINGS = [
    pytest.param(ELEMENTS, id=name(ELEMENTS)),
    slow(WORLDS),
    slow(Threads(Lane("float64", 1))),
    slow(InElements(Lane("float32", WIDE["float32"]))),
    slow(Worlds(Lane("float32", WIDE["float32"]))),
]
WITHIN = {"float64": 1e-12, "float32": 1e-5}


@pytest.mark.parametrize("shared", [False, True], ids=["own parameters", "one for all elements"])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_rollout_and_gradients_are_those_of_the_definitions(mapping, shared):
    cast = lambda ys: [y.to(getattr(torch, mapping.lane.dtype)) for y in ys]
    given = [y.double() for y in cast(cases.inputs(2, seed=2, shared=shared))]
    leaves = [y.clone().requires_grad_() for y in given]
    expected = cases.plain(leaves)
    adjoints = weights(expected, seed=3)
    slopes = torch.autograd.grad(expected, leaves, adjoints)
    assert all(slope.any() for slope in slopes), "a state that shows nothing"
    run = cases.program(mapping).run
    within = WITHIN[mapping.lane.dtype]
    assert max(error(a, b) for a, b in zip(run(*cast(given)), expected, strict=True)) < within
    found = gradients(run, cast(given), cast(adjoints))
    assert max(error(a, b) for a, b in zip(found, slopes, strict=True)) < within


@pytest.mark.parametrize("mapping", MAPPINGS[:2])
def test_adjoint_is_the_transpose_of_the_tangent(mapping):
    given, program = cases.inputs(3, seed=4), cases.program(mapping)
    adjoints = weights(program.forward(given), seed=5)
    gradient = program.backward(given, program.forward(given), adjoints)
    tangent = lambda x, v: [t for _, t in program.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, seed=6)) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("lane", [Lane("float32"), Lane("float64")], ids=str)
def test_kernels_compile_for_cuda(lane, tmp_path):
    if not wp.get_cuda_toolkit_version():
        pytest.skip("this build of Warp has no CUDA compiler")
    forces = assemble(tuple(group.force for group in cases.groups()), lane, "threads")
    (file,) = wp.compile_aot_module(forces, arch=80, module_dir=tmp_path, use_ptx=True)
    text = file.read_text()
    assert all(f".entry {key}" in text for key in wp.get_module(forces.__name__).kernels)
