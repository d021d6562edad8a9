"""Several rigid bodies in one rollout: with nothing in between each moves as it does alone."""

import pytest
import torch
import warp as wp
from checks import dot_product_errors, error, gradients, weights
from rigid_cases import WINDOWS, tumbling, with_clock
from torch.nn.functional import pad

from gradsim.engine.lanes import FORWARD, Lane
from gradsim.physics.rigid import multibody
from gradsim.physics.rigid.many.batching import NO_CONTACT_DEPTH
from gradsim.physics.rigid.multibody import BODY, Bodies
from gradsim.physics.rigid.rollout import Loads, RigidRollout

FRAMES, SUBSTEPS, DT = 5, 6, 1.5e-3
INTEGRATORS = ("semi-implicit", "rk4")
briefly = pytest.mark.parametrize("integrator", ["semi-implicit", pytest.param("rk4", marks=pytest.mark.slow)])


def cases(worlds: int):
    """Inputs of two unlike bodies, the second with fewer contact points, by one clock."""
    first, second = (with_clock(tumbling(worlds, seed), FRAMES - 1, DT, 5) for seed in (1, 2))
    second["points"], second["radius"] = second["points"][:, :3], second["radius"][:, :3]
    second["step"] = first["step"]
    return first, second


def inputs(worlds: int):
    """Those of both: each push has a column, and points that are missing never touch."""
    first, second = cases(worlds)
    missing = first["points"].shape[1] - 3
    second = {**second, "points": pad(second["points"], (0, 0, 0, missing))}
    second["radius"] = pad(second["radius"], (0, missing), value=-NO_CONTACT_DEPTH)
    for name in ("impulse", "push_point"):
        count = len(WINDOWS)
        first[name], second[name] = pad(first[name], (0, 0, 0, count)), pad(second[name], (0, 0, count, 0))
    return [*(torch.stack([first[name], second[name]], 1) for name in BODY), first["step"]]


def program(integrator: str, **given) -> Bodies:
    return Bodies(FRAMES, SUBSTEPS, DT, (WINDOWS, WINDOWS), integrator=integrator, **given)


def alone(integrator: str):
    rollout = RigidRollout(FRAMES, SUBSTEPS, DT, WINDOWS, integrator=integrator)

    def both(*given):
        *together, step = given
        outputs = []
        for k, points in ((0, slice(None)), (1, slice(3))):
            own = dict(zip(BODY, (y[:, k] for y in together), strict=True))
            own |= {name: own[name][:, points] for name in ("points", "radius")}
            pushes = slice(k * len(WINDOWS), (k + 1) * len(WINDOWS))
            own |= {name: own[name][:, pushes] for name in ("impulse", "push_point")}
            outputs.append(rollout.run(*own.values(), step))
        return [torch.stack(y, 2) for y in zip(*outputs, strict=True)]

    return both


@briefly
def test_bodies_without_anything_in_between_move_as_alone(integrator):
    given = inputs(3)
    for got, expected in zip(program(integrator).run(*given), alone(integrator)(*given), strict=True):
        assert error(got, expected) < 1e-13


@pytest.mark.slow
@briefly
def test_gradients_are_those_of_each_body_alone(integrator):
    given = inputs(3)
    adjoints = weights(program(integrator).run(*given), 3)
    found = gradients(program(integrator, segment=3).run, given, adjoints)
    expected = gradients(alone(integrator), given, adjoints)
    for name, got, want in zip(program(integrator).names, found, expected, strict=True):
        if name == "impulse":  # a push of the other body would move this one, too
            got[:, 0, len(WINDOWS) :], got[:, 1, : len(WINDOWS)] = 0.0, 0.0
        assert error(got, want) < 1e-11, name


@briefly
def test_adjoint_and_forward_sensitivity_agree(integrator):
    given, own = inputs(3), program(integrator)
    adjoints = weights(own.run(*given), 4)
    gradient = gradients(own.run, given, adjoints)
    tangent = lambda x, v: [t for _, t in own.tangent(x, v)]
    assert max(dot_product_errors(tangent, gradient, given, adjoints, 6)) < 1e-12


def test_inputs_that_do_not_fit_are_refused():
    given = inputs(1)
    with pytest.raises(ValueError, match=f"expected {len(BODY) + 1}"):
        program("rk4").run(*given[:-1])
    few = [x[:, :, :1] if name == "impulse" else x for name, x in zip(program("rk4").names, given, strict=True)]
    with pytest.raises(ValueError, match=f"`impulse` has 1 pushes for {2 * len(WINDOWS)} windows"):
        program("rk4").run(*few)
    with pytest.raises(ValueError, match="`mass` has 1 bodies; expected 2"):
        program("rk4").run(
            *(x[:, :1] if name == "mass" else x for name, x in zip(program("rk4").names, given, strict=True))
        )


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_kernels_with_joints_compile_for_cuda(integrator, tmp_path):
    if not wp.get_cuda_toolkit_version():
        pytest.skip("this build of Warp has no CUDA compiler")
    code, *_ = multibody._code(Lane("float32"), (), True, Loads("continuous", False, False, False), integrator)
    for name in (code.__name__, code.__name__ + FORWARD):
        (file,) = wp.compile_aot_module(wp.get_module(name), arch=80, module_dir=tmp_path, use_ptx=True)
        text = file.read_text()
        keys = wp.get_module(name).kernels
        assert keys and all(f".entry {key}" in text for key in keys)
