"""Cameras that are not synchronised: motion in closed form, seen by a pinhole that is not ours, at other times."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from tracks_cases import CORNERS, FOCAL, FPS, FRAMES, SIZE, SPIN, START, VELOCITY, scene, seen_from

import gradsim as gs
from gradsim.errors import InputError
from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes

EYE, TARGET = [0.3, -3.0, 1.2], [0.0, 0.0, 1.0]


def late_scene(delay, frames=FRAMES, size=SIZE, focal=FOCAL, **camera):
    look = {"size": list(size), "focal": focal, "look_at": {"eye": EYE, "target": TARGET}, "delay": delay, **camera}
    return scene(camera=look, timing={"fps": FPS, "frames": frames})


def later(delay, frames=FRAMES):
    """Pixels (frames, markers, 2) of the corners, `delay` after each stamp."""
    t = np.arange(frames) / FPS + delay
    center = START + VELOCITY * t[:, None] - np.array([0, 0, 9.81 / 2]) * t[:, None] ** 2
    turns = Rotation.from_rotvec(SPIN * t[:, None])
    return seen_from(np.stack([center + turns.apply(point) for point in CORNERS.values()], 1))


def points(world, pixels, sigma=1.0):
    return gs.Points(world.markers, torch.tensor(pixels), sigma, Silhouettes.of(world))


@pytest.mark.parametrize("delay", [0.0, 0.004, -0.008, 0.0371, 0.11])
def test_a_delayed_camera_sees_the_scene_at_its_own_times(delay):
    """Between instants h = 1/240 s apart paths are parabolas: off by at most |x'''| h³/15.6, here 1e-4 px; before the first h/2 more."""
    world = late_scene(delay)
    with torch.no_grad():
        predicted = points(world, later(delay)).predict(Model(world).rollout())[0].numpy()
    assert np.abs(predicted - later(delay)).max() < (3e-3 if delay < 0 else 5e-4)


@pytest.mark.parametrize("name", ["camera.delay:-0.008:0.1", "cube.velocity.x:-3:3", "camera.focal:300:900"])
def test_derivatives_through_a_delay_are_those_of_differences(name):
    """Central differences of 1e-6 of the range are exact to about 1e-8; adjoints agree with tangents to 1e-9."""
    world = late_scene(0.0, frames=8)
    space = Space(world, ["camera.delay:-0.008:0.1", name] if "delay" not in name else [name])
    problem = Problem(model_for(world, space), points(world, later(0.02, 8), 0.7), space)
    at = [0.0231] + ([] if len(space) == 1 else [1.1 if "velocity" in name else 480.0])
    u = space.inner(torch.tensor([at], dtype=torch.float64))
    ((_, J),) = problem.jacobian(u, 8)
    step = 1e-6 * (space.high - space.low)[-1] * torch.eye(len(space), dtype=torch.float64)[-1]
    expected = (problem.residuals(u + step) - problem.residuals(u - step)) / (2 * step[-1])
    assert (J[0, :, -1] - expected[0]).abs().max() < 1e-6 * expected.abs().max()
    u = u.requires_grad_()
    (gradient,) = torch.autograd.grad(problem.sum_of_squares(u)[0].sum(), u)
    forward = 2 * problem.linearize(u.detach(), 8)[2]
    assert (gradient - forward).abs().max() < 1e-9 * forward.abs().max()


def test_silhouettes_through_a_delay_have_the_derivatives_of_differences():
    world = late_scene(0.0, frames=4, size=(64, 48), focal=50.0, readout=0.012)
    space = Space(world, ["camera.delay:-0.008:0.1", "cube.velocity.x:-3:3"])
    masks = torch.rand(4, 48, 64, generator=torch.Generator().manual_seed(0)).double()
    problem = Problem(model_for(world, space), Masks(masks, 0.1, Silhouettes.of(world)), space)
    u = space.inner(torch.tensor([[0.0231, 1.1]], dtype=torch.float64))
    _, _, gradient = problem.linearize(u, 4)
    for k in range(2):
        step = 1e-5 * torch.eye(2, dtype=torch.float64)[k]
        costs = [problem.cost(u + c * step, 4).item() for c in (-2, -1, 1, 2)]
        expected = (costs[0] - 8 * costs[1] + 8 * costs[2] - costs[3]) / 12e-5
        assert abs(2 * gradient[0, k].item() - expected) < 1e-6 * abs(expected)
    u = u.requires_grad_()
    (adjoint,) = torch.autograd.grad(problem.sum_of_squares(u)[0].sum(), u)
    assert (adjoint - 2 * gradient).abs().max() < 1e-9 * adjoint.abs().max()


def test_the_camera_of_the_clock_is_as_without_the_other():
    """Masks of a camera without delay are the same bits where the other has one, at the same steps."""
    alone, both = (
        scene(timing={"fps": FPS, "frames": 5, "substeps": 8}, cameras=cameras)
        for cameras in ({}, {"side": late_scene(0.05).camera.model_dump(exclude_none=True)})
    )
    with torch.no_grad():
        masks = [Silhouettes.of(world).union(Model(world).rollout().surface) for world in (alone, both)]
    assert torch.equal(*masks)


def two_cameras(delay, seed, unknown):
    """Fit of two cameras, the second one `delay` late; noise of 0.4 px."""
    rng = np.random.default_rng(seed)
    side = {"size": list(SIZE), "focal": FOCAL, "look_at": {"eye": EYE, "target": TARGET}}
    world = scene(cameras={"side": side | ({"delay": 0} if unknown else {})})
    noisy = lambda pixels: torch.tensor(pixels + 0.4 * rng.standard_normal(pixels.shape))
    parts = {
        "camera": gs.Points(world.markers, noisy(later(0.0)), 0.4, Silhouettes.of(world)),
        "side": gs.Points(world.markers, noisy(later(delay)), 0.4, Silhouettes.of(world, "side")),
    }
    from gradsim.identification.observation.multi_view import MultiView

    names = ["gravity.z:-20:-5", "cube.velocity.x:-3:3", "cube.angular_velocity.y:-8:8"]
    names += ["cameras.side.delay:0:0.05"] if unknown else []
    return gs.identify(world, names, observation=MultiView(parts), starts=2, known_numbers=False)


@pytest.mark.slow
def test_an_unknown_delay_is_estimated_and_an_ignored_one_is_a_mismatch():
    """17 ms, one frame of 60: within four standard deviations, which are below 0.2 ms."""
    fit = two_cameras(0.017, 0, unknown=True)
    delay = fit.unknowns["cameras.side.delay"]
    assert fit.status == "ok" and abs(delay.value - 0.017) < 4 * delay.std < 8e-4
    assert abs(fit.unknowns["gravity.z"].value + 9.81) < 4 * fit.unknowns["gravity.z"].std
    assert two_cameras(0.017, 0, unknown=False).status == "mismatch"


def test_delays_before_the_start_are_refused():
    with pytest.raises(InputError, match="`camera.delay` comes down to -0.05 s: .*let the clock be that of the camera"):
        Model(late_scene(-0.05))
    with pytest.raises(InputError, match="camera.delay"):
        Space(late_scene(0.0), ["camera.delay:-0.2:0.1"])
    with pytest.raises(InputError, match="write `delay: 0` into that camera first"):
        Space(scene(), ["camera.delay:0:0.1"])
