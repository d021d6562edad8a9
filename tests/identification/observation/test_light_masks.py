"""Masks that follow γ and gain: derivatives against differences, in bins and parts of a clip, and what they tell."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from wavy_ball import HEIGHT, NAMES, WIDTH, centres, masks, scene

import gradsim as gs
from gradsim.errors import InputError
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.light_masks import LightMasks
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video.background import subtract_background

FRAMES, TRUTH, GAMMA, GAIN = 12, (1.0, 4.0, -9.81), 2.2, 1.25
EXPOSURE, INSTANTS = 0.02, 6
DARK, BRIGHT = np.array([0.08, 0.06, 0.15]), np.array([0.75, 0.7, 0.6])
RESPONSE = ("camera.gamma:1.2:3.2", "camera.gain:0.8:1.6")


def responsive(**camera) -> Scene:
    content = scene(FRAMES).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    content["camera"] |= camera
    return Scene.parse(content)


def frames() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """8-bit frames of a dark ball that motion blurs in front of a bright plane, its picture at a gain of 1, and where the ball is."""
    shares = EXPOSURE * ((np.arange(INSTANTS) + 0.5) / INSTANTS - 0.5)
    still = np.zeros((FRAMES, 256))
    alpha = torch.stack([masks(centres(FRAMES, TRUTH, late=s), still).masks for s in shares]).mean(0).numpy()
    rng, ramp = np.random.default_rng(4), np.linspace(0.9, 1.1, WIDTH)[:, None]
    plate = np.broadcast_to(ramp * BRIGHT, (HEIGHT, WIDTH, 3))
    light = alpha[..., None] * DARK**GAMMA + (1 - alpha[..., None]) * GAIN * plate**GAMMA
    values = light ** (1 / GAMMA) + 0.004 * rng.standard_normal(light.shape)
    return np.rint(255 * values).clip(0, 255).astype(np.uint8), plate, alpha > 0.5


def observed(gamma: float = GAMMA, gain: float = GAIN) -> tuple[Scene, LightMasks]:
    """A scene that states a response, and masks measured with it."""
    video, plate, bodies = frames()
    one = responsive(exposure=EXPOSURE, gamma=gamma, gain=gain)
    s = subtract_background(video, gain ** (1 / gamma) * plate, None, True, bodies, EXPOSURE * 30, gamma)
    plain = Masks(torch.tensor(s.masks), 0.3, Silhouettes.of(one), torch.tensor(s.weight))
    plain.outline_noise = True
    assert s.edges is not None
    return one, LightMasks(plain, s.edges.at_gain(gamma, gain), gamma, gain)


def problem_of(one: Scene, data: Masks, *more: str) -> Problem:
    space = Space(one, [*NAMES, *more])
    return Problem(model_for(one, space), data, space)


@pytest.mark.parametrize("part", ["whole", "bins", "frames"])
def test_derivatives_by_gamma_and_gain_match_central_differences(part):
    one, data = observed()
    change = {"whole": lambda d: d, "bins": lambda d: d.binned(2), "frames": lambda d: d.slice_frames(3, 9)}[part]
    problem = problem_of(one, change(data), *RESPONSE)
    u = problem.space.inner(torch.tensor([1.02, 3.95, -9.7, 2.0, 1.2]).double())
    count = problem.frames
    J = torch.cat([J for _, J in problem.jacobian(u[None], count)], 1)[0]
    for k, h in ((3, 1e-4), (4, 1e-4)):
        step = h * torch.eye(5).double()[k]
        ends = [problem.residuals(u[None] + sign * step, count)[0] for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * h)
        # second order: h²/6 times third derivatives of about the size of the first
        assert (J[:, k] - slope).norm() < 1e-6 * slope.norm() and slope.norm() > 0.1
    cost, A, g = problem.linearize(u[None], count)
    r = problem.residuals(u[None], count)[0]
    torch.testing.assert_close(g[0], J.T @ r, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(A[0], J.T @ J, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(problem.cost(u[None], count), cost)


def test_gradients_by_gamma_flow_through_residuals():
    one, data = observed()
    trajectory = gs.Model(one).rollout({})
    gamma = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    trajectory.values["camera.gamma"] = gamma
    next(data.residuals(trajectory, FRAMES, "pixels")).square().sum().backward()
    cost = lambda g: data.cost(_with(trajectory, g), FRAMES, "pixels").item()
    assert gamma.grad is not None
    assert gamma.grad.item() == pytest.approx((cost(2.0 + 1e-4) - cost(2.0 - 1e-4)) / 2e-4, rel=1e-6)


def _with(trajectory, gamma: float):
    values = trajectory.values | {"camera.gamma": torch.tensor([gamma], dtype=torch.float64)}
    return replace(trajectory, values=values)


def test_masks_of_another_response_are_those_that_it_measures():
    """Masks measured with γ = 1.6 and moved to 2.2 are those measured with 2.2; which pixels count is that of values."""
    _, right = observed()
    _, other = observed(1.6, 1.25 ** (1.6 / 2.2))
    values = {"camera.gamma": torch.tensor([GAMMA]).double(), "camera.gain": torch.tensor([GAIN]).double()}
    counted = (right.weight > 0) & (other.weight > 0)
    assert ((other.masks - right.masks)[counted].abs() > 0.02).sum() > 100
    torch.testing.assert_close(other.masks_of(values)[counted], right.masks[counted], rtol=0, atol=1e-6)


@pytest.mark.parametrize("change", [lambda d: d.binned(2), lambda d: d.slice_frames(3, 9)], ids=["bins", "frames"])
def test_parts_follow_a_response_as_the_whole_does(change):
    _, data = observed()
    values = {"camera.gamma": torch.tensor([1.7]).double()}
    followed = change(data).masks_of(values)
    torch.testing.assert_close(followed, change(data.at_values(values)).masks)
    assert (followed - change(data).masks).abs().max() > 0.02


def test_a_response_is_refused_where_no_edge_is_measured():
    one = responsive(gamma=2.2)
    drawn = masks(centres(FRAMES, TRUTH), np.zeros((FRAMES, 256)))
    with pytest.raises(
        InputError, match=r"`camera\.gamma` cannot be found .* which measures no edges: give --background"
    ):
        gs.identify(one, [NAMES[0], "camera.gamma:1.5:3"], observation=drawn)
    with pytest.raises(InputError, match=r"write `gain: 1` into that camera"):
        Space(one, ["camera.gain:0.5:2"])


@pytest.mark.slow
def test_a_prior_of_gamma_is_in_the_error_bars():
    """A response with a prior is an unknown, whose prior has a share of the variance of the answer."""
    one, data = observed(1.9, GAIN ** (1.9 / 2.2))
    fit = gs.identify(one, NAMES, observation=data, starts=2, priors="camera.gamma=1.9±0.03")
    open_to = fit.unknowns["ball.velocity.x"]
    assert fit.unknowns["camera.gamma"].std < 0.03 and fit.priors["shares"]["ball.velocity.x"]["camera.gamma"] > 1e-6
    assert fit.status != "ok"  # the film has γ = 2.2 and another gain, which is taken as known here and holds γ
    assert abs(open_to.value - TRUTH[0]) < 3 * open_to.std
