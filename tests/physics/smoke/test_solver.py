"""Smoke against closed forms and conservation laws, and its gradients against differences."""

import math

import pytest
import torch
from checks import (
    central_difference,
    directions,
    dot_product_errors,
    error,
    gradients,
    slope,
    taylor_slope,
    weights,
)
from torch.autograd import forward_ad

from gradsim.errors import InputError
from gradsim.physics.model import Divergence
from gradsim.physics.smoke.solver import Smoke

DOUBLE = torch.float64
NAMES = ("velocity", "density", "forces", "sources", "viscosity", "buoyancy")


def rock(shape) -> torch.Tensor:
    solid = torch.zeros(shape, dtype=torch.bool)
    solid[tuple(slice(2, 4) for _ in shape)] = True
    return solid


def inputs(shape, frames: int, worlds: int = 2, seed: int = 0) -> list[torch.Tensor]:
    """Random ones of every kind, forces and sources changing from frame to frame."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *size: torch.randn(*size, generator=generator, dtype=DOUBLE)
    d, viscosity = len(shape), torch.linspace(0.01, 0.03, worlds, dtype=DOUBLE)
    start = [normal(worlds, d, *shape), normal(worlds, *shape)]
    acting = [normal(worlds, frames - 1, d, *shape), normal(worlds, frames - 1, *shape)]
    return [*start, *acting, viscosity, normal(worlds, d)]


def runs(smoke: Smoke, frames: int, **options):
    """A function of the inputs, for the shared checks."""

    def run(*given):
        plume = smoke.rollout(**dict(zip(NAMES, given, strict=True)), frames=frames, **options)
        return [plume.velocity, plume.density]

    return run


def walled(shape=(7, 9), **options) -> Smoke:
    """Walls on one axis, and a rock."""
    boundary = ("periodic", "walled", "walled")[: len(shape)]
    return Smoke(shape, 0.1, 0.02, boundary=boundary, obstacles=rock(shape), dtype=DOUBLE, **options)


@pytest.mark.parametrize("name", ["viscosity", "buoyancy"])
def test_tangent_of_a_zero_is_refused_and_not_lost(name):
    """What is 0 is left out of the steps, though motion changes along it."""
    given = dict(zip(NAMES, inputs((7, 9), 3), strict=True))
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="has no forward-mode derivative"):
        given[name] = forward_ad.make_dual(torch.zeros_like(given[name]), torch.ones_like(given[name]))
        walled().rollout(**given, frames=3)


def test_converted_smoke_rolls_out_in_its_dtype():
    given, single = inputs((7, 9), 3), Smoke((7, 9), 0.1, 0.02, boundary="walled", obstacles=rock((7, 9)))
    smoke = Smoke((7, 9), 0.1, 0.02, boundary="walled", obstacles=rock((7, 9)), dtype=DOUBLE)
    other = [x.float() for x in given]
    ours, wanted = runs(smoke.float(), 3)(*other), runs(single, 3)(*other)
    assert all(x.dtype == torch.float32 and torch.equal(x, y) for x, y in zip(ours, wanted, strict=True))
    assert all(y.dtype == DOUBLE for y in runs(smoke.double(), 3)(*given))
    with pytest.raises(InputError, match="got torch.float16; expected torch.float32 or torch.float64"):
        smoke.half()


# ---- closed forms and conservation


def vortices(n: int, dtype=DOUBLE) -> torch.Tensor:
    """Of Taylor and Green, on n² cells of a box of 1 m (1, 2, n, n)."""
    face, centre = (2 * math.pi * (torch.arange(n, dtype=dtype) + at) / n for at in (0.0, 0.5))
    return torch.stack([face[:, None].sin() * centre.cos(), -centre[:, None].cos() * face.sin()])[None]


@pytest.mark.parametrize("advection", ["bilinear", "maccormack"])
def test_vortices_of_taylor_and_green_decay_to_first_order(advection):
    """u(t) = u(0) exp(−2 ν k² t), k = 2 π/m, with cells refined as steps are (acceptance A19)."""
    nu, duration, errors = 5e-3, 0.4, []
    for n in (16, 32, 64):
        steps = n // 2
        smoke = Smoke((n, n), 1 / n, duration / steps, viscosity=nu, advection=advection, dtype=DOUBLE)
        last = smoke.rollout(vortices(n), frames=steps + 1).velocity[:, -1]
        expected = vortices(n) * math.exp(-2 * nu * (2 * math.pi) ** 2 * duration)
        errors.append(error(last, expected))
    assert errors[-1] < 0.1
    assert slope([1 / 16, 1 / 32, 1 / 64], errors) == pytest.approx(1, abs=0.15)  # advection's part turns with it


def test_viscous_decay_is_of_first_order_in_the_step():
    """So slow that nothing is carried; on cells whose Laplacian is λ = 2 (2 − 2 cos 2π/n) n²."""
    n, nu, duration, errors = 12, 0.01, 1.0, []
    rate = 2 * (2 - 2 * math.cos(2 * math.pi / n)) * n**2
    counts = (100, 200, 400)
    for steps in counts:
        smoke = Smoke((n, n), 1 / n, duration / steps, viscosity=nu, dtype=DOUBLE)
        last = smoke.rollout(1e-9 * vortices(n), frames=2, substeps=steps).velocity[:, -1]
        errors.append(error(last, 1e-9 * vortices(n) * math.exp(-nu * rate * duration)))
    assert slope([1 / s for s in counts], errors) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("shape", [(16, 12), (5, 6, 7)])
def test_every_velocity_is_free_of_divergence(shape):
    plume = walled(shape, advection="maccormack").rollout(*inputs(shape, 6)[:2], frames=6)
    assert plume.divergence.abs().max() < 1e-10  # [1/s]
    assert plume.velocity.abs().max() > 0.5


def test_a_uniform_force_moves_all_smoke_alike():
    """v = n dt f after n steps, in a box without walls; at rest in one with walls."""
    force = torch.tensor([3.0, -2.0], dtype=DOUBLE).view(1, 2, 1, 1).expand(1, 2, 8, 8)
    for boundary, moves in (("periodic", 1), ("walled", 0)):
        smoke = Smoke((8, 8), 0.5, 0.01, boundary=boundary, dtype=DOUBLE)
        last = smoke.rollout(forces=force, frames=4, substeps=5).velocity[:, -1]
        assert (last - moves * 15 * 0.01 * force).abs().max() < 1e-13


def test_light_smoke_rises_in_still_air():
    """In a box without walls all air gets the mean of the force; the smoke gets more."""
    density = torch.zeros(16, 16, dtype=DOUBLE)
    density[6:10, 6:10] = 1
    smoke = Smoke((16, 16), 0.1, 0.01, buoyancy=(-2.0, 0.0), dtype=DOUBLE)
    last = smoke.rollout(density=density, frames=2).velocity[0, -1]
    assert last[0].mean() == pytest.approx(-2.0 * 0.01 / 16, abs=1e-15)
    assert last[0, 8, 8] < 3 * last[0].mean() and last[1].abs().max() > 1e-3


def test_sources_add_their_mass():
    source = torch.zeros(2, 3, 7, 9, dtype=DOUBLE)  # worlds, intervals
    source[0, 1, 5, 5], source[1, :, 3, 3] = 2.0, 7.0  # the second inside the rock
    plume = walled().rollout(sources=source, frames=4, substeps=5)
    assert torch.allclose(plume.density.sum((2, 3))[0], torch.tensor([0, 0, 0.2, 0.2], dtype=DOUBLE))
    assert (plume.density[1] == 0).all()


def test_smoke_keeps_out_of_rocks():
    plume = walled().rollout(*inputs((7, 9), 5)[:2], frames=5)
    assert (plume.density[:, :, rock((7, 9))] == 0).all()


# ---- gradients


def differences(smoke: Smoke, given: list[torch.Tensor], frames: int, **options) -> list[float]:
    """Errors of the adjoint, input by input, against differences of fourth order."""
    run = runs(smoke, frames, **options)
    adjoints = weights(run(*given), 3)
    tangent = lambda at, along: central_difference(run, at, along, 1e-6)
    return dot_product_errors(tangent, gradients(run, given, adjoints), given, adjoints, 5)


@pytest.mark.slow
@pytest.mark.parametrize("advection", ["bilinear", "maccormack"])
def test_adjoint_of_a_hundred_steps_matches_central_differences(advection):
    given = inputs((6, 5), 21, worlds=1)
    smoke = Smoke((6, 5), (0.1, 0.13), 2e-3, advection=advection, dtype=DOUBLE)
    assert max(differences(smoke, given, 21, substeps=5)) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("advection", ["bilinear", "maccormack"])
def test_adjoint_between_walls_and_around_a_rock_matches_central_differences(advection):
    assert max(differences(walled(advection=advection), inputs((7, 9), 4), 4, substeps=2)) < 1e-7


def test_adjoint_in_three_dimensions_matches_central_differences():
    assert max(differences(walled((5, 6, 7)), inputs((5, 6, 7), 3), 3)) < 1e-7


def test_taylor_remainder_is_of_second_order():
    """By velocity and viscosity; smoke enters linearly."""
    given = inputs((6, 5), 4, worlds=1)
    smoke = Smoke((6, 5), 0.1, 0.01, dtype=DOUBLE)

    def run(velocity, viscosity):
        plume = smoke.rollout(velocity, given[1], viscosity=viscosity, frames=4)
        return [plume.velocity, plume.density]

    at = [given[0], given[4]]
    steps = [1e-3 * 10 ** (-k / 2) for k in range(7)]
    assert taylor_slope(run, at, directions(at, 1), steps) == pytest.approx(2, abs=0.02)


def test_checkpointed_gradients_are_the_plain_ones_bit_for_bit():
    given, smoke = inputs((7, 9), 6), walled(advection="maccormack")
    found = {}
    for segment in (None, 1, 2):
        run = runs(smoke, 6, segment=segment)
        outputs = run(*given)
        found[segment] = [*outputs, *gradients(run, given, weights(outputs, 3))]
    for segment in (1, 2):
        assert all(torch.equal(a, b) for a, b in zip(found[segment], found[None], strict=True))


@pytest.mark.parametrize("smoke", [walled(), Smoke((7, 9), 0.1, 0.02, dtype=DOUBLE)], ids=["walled", "periodic"])
def test_a_world_of_a_batch_is_the_same_alone_bit_for_bit(smoke):
    given = inputs((7, 9), 4, worlds=3)
    run = runs(smoke, 4)
    adjoints = weights(run(*given), 3)
    together = [*run(*given), *gradients(run, given, adjoints)]
    for k in range(3):
        own = [x[k : k + 1] for x in given]
        alone = [*run(*own), *gradients(run, own, [w[k : k + 1] for w in adjoints])]
        assert all(torch.equal(a, b[k : k + 1]) for a, b in zip(alone, together, strict=True))


def test_parameters_of_the_module_get_the_gradients_of_what_is_given():
    given, smoke = inputs((7, 9), 4, worlds=1), walled(viscosity=0.01, buoyancy=(0.3, -0.2))
    smoke.requires_grad_()
    smoke.rollout(*given[:2], frames=4).density[:, -1].square().sum().backward()
    viscosity, buoyancy = (p.detach()[None].requires_grad_() for p in (smoke.viscosity, smoke.buoyancy))
    plume = walled().rollout(*given[:2], viscosity=viscosity, buoyancy=buoyancy, frames=4)
    plume.density[:, -1].square().sum().backward()
    for own, other in ((smoke.viscosity, viscosity), (smoke.buoyancy, buoyancy)):
        assert own.grad is not None and other.grad is not None
        assert torch.equal(own.grad, other.grad[0]) and own.grad.abs().min() > 0


def test_single_precision_is_near_double():
    given = inputs((6, 5), 5, worlds=1)
    double = runs(Smoke((6, 5), 0.1, 0.005, dtype=DOUBLE), 5)(*given)
    single = runs(Smoke((6, 5), 0.1, 0.005), 5)(*[x.float() for x in given])
    assert single[0].dtype == torch.float32
    assert max(error(s.double(), d) for s, d in zip(single, double, strict=True)) < 1e-4


@pytest.mark.parametrize("seed", range(6))
def test_no_storm_leaves_the_finite_numbers(seed):
    """Random scenes whose particles come from many boxes away: smoke keeps its range, gradients are finite."""
    generator = torch.Generator().manual_seed(seed)
    advection = ("bilinear", "maccormack")[seed % 2]
    smoke = walled(advection=advection) if seed < 3 else Smoke((6, 5), 0.1, 0.02, advection=advection, dtype=DOUBLE)
    velocity, density, *_ = inputs(smoke.grid.shape, 9, seed=seed)
    velocity = (velocity * 10 ** (4 * torch.rand(1, generator=generator, dtype=DOUBLE) - 1)).requires_grad_()
    plume = smoke.rollout(velocity, density, frames=9)
    low, high = density.amin().clamp(max=0), density.amax().clamp(min=0)  # rocks hold 0
    assert (plume.density >= low - 1e-12).all() and (plume.density <= high + 1e-12).all()
    plume.density[:, -1].square().sum().backward()
    assert velocity.grad is not None and velocity.grad.isfinite().all()


# ---- mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (8,)}, "shape: got (8,)"),
        ({"shape": 8}, "shape: got 8"),
        ({"shape": (8, 3)}, "at least 4"),
        ({"spacing": -0.1}, "spacing"),
        ({"spacing": (0.1, 0.1, 0.1)}, "spacing"),
        ({"dt": 0.0}, "dt: got 0.0"),
        ({"boundary": "open"}, "boundary: got 'open'"),
        ({"boundary": ("walled",)}, "boundary"),
        ({"obstacles": torch.zeros(8, 8)}, "obstacles: got torch.float32"),
        ({"obstacles": torch.ones(8, 8, dtype=torch.bool)}, "every cell is solid"),
        ({"viscosity": -1.0}, "viscosity: got -1"),
        ({"buoyancy": (1.0,)}, "buoyancy: got shape (1,)"),
        ({"advection": "cubic"}, "bilinear or maccormack"),
        ({"dtype": torch.float16}, "torch.float32 or torch.float64"),
    ],
)
def test_a_box_that_cannot_be_is_refused(options, message):
    with pytest.raises(InputError) as caught:
        Smoke(**{"shape": (8, 8), "spacing": 0.1, "dt": 0.01, **options})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"density": torch.zeros(8, 9)}, "density: got shape (8, 9)"),
        ({"density": torch.zeros(8, 8, dtype=DOUBLE)}, "torch.float64"),
        ({"density": [0.0]}, "density: got list"),
        ({"density": torch.full((8, 8), math.nan)}, "not finite"),
        ({"velocity": torch.zeros(8, 8)}, "velocity: got shape (8, 8)"),
        ({"forces": torch.zeros(1, 3, 2, 8, 8)}, "(worlds, 4, ...)"),
        ({"velocity": torch.zeros(2, 2, 8, 8), "density": torch.zeros(3, 8, 8)}, "worlds differ"),
        ({"viscosity": torch.tensor([-0.1])}, "at least 0"),
        ({"frames": 0}, "frames: got 0"),
        ({"substeps": 1.5}, "substeps: got 1.5"),
        ({"segment": -1}, "segment: got -1"),
    ],
)
def test_a_rollout_that_cannot_be_is_refused(given, message):
    smoke = Smoke((8, 8), 0.1, 0.01)
    with pytest.raises(InputError) as caught:
        smoke.rollout(**{"frames": 5, **given})
    assert message in str(caught.value)


def test_smoke_that_leaves_the_finite_numbers_says_when():
    forces = torch.zeros(1, 6, 2, 8, 8)
    forces[:, 3, 0, 2] = 3e38
    smoke = Smoke((8, 8), 0.1, 10.0)
    with pytest.raises(Divergence, match="velocity of the smoke becomes non-finite at frame 4"):
        smoke.rollout(density=torch.ones(8, 8), forces=forces, frames=7)


@pytest.mark.parametrize(("name", "inner"), [("forces", (2, 6, 6)), ("sources", (6, 6))])
def test_forces_of_intervals_are_not_taken_for_those_of_worlds(name, inner):
    smoke, acting = Smoke((6, 6), 0.1, 0.02, dtype=DOUBLE), torch.ones(3, *inner, dtype=DOUBLE)
    with pytest.raises(
        InputError, match=rf"{name}: got shape .*Give \(1, 3, .*\) for the intervals, or \(3, 3, .*for worlds"
    ):
        smoke.rollout(frames=4, **{name: acting})
    assert len(smoke.rollout(frames=4, **{name: acting[None]}).density) == 1
    assert len(smoke.rollout(frames=4, **{name: acting[None].expand(3, *acting.shape)}).density) == 3
    assert len(smoke.rollout(frames=5, **{name: acting}).density) == 3
    start = torch.zeros(3, 6, 6, dtype=DOUBLE)  # says how many worlds there are
    assert len(smoke.rollout(density=start, frames=4, **{name: acting}).density) == 3
