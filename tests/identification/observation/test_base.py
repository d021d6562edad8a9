"""What is observed: masks of one and of several bodies, and states, as whitened residuals."""

import math

import pytest
import torch
from checks import central_difference
from fit_cases import swing, thrown, tossed
from tolerances import SOLVED, assert_near, near

from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.observation.base import Masks, States
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim.render import Silhouettes
from gradsim.render.camera import look_at
from gradsim.scene import Scene

TOSS = ["ground.friction:0.1:0.9", "cube.velocity.x:0.5:2.5"]
EPS = torch.finfo(torch.float64).eps


def rounding(problem: Problem, u: torch.Tensor, steps: int) -> float:
    """Σ r² that rounding may leave: every step of the rollout moves the unknowns by a rounding, r = J δu."""
    return sum((steps * EPS * J).square().sum().item() for _, J in problem.jacobian(u, problem.frames))


def measured(sigma_x=1e-3, sigma_angle=1e-2) -> tuple[Problem, torch.Tensor]:
    """A fit of a sliding box to its own states, and the truth as the solver moves it."""
    model = tossed()
    states = model.rollout()["cube"]
    observation = States("cube", states["x"][0].detach(), states["q"][0].detach(), sigma_x, sigma_angle)
    space = Space(model.scene, TOSS)
    return Problem(model, observation, space), space.inner(torch.tensor([[0.3, 1.5]], dtype=torch.float64))


def test_frames_after_the_body_left_the_image_have_residuals_without_slopes():
    """Fits to such films ended in an error: parts of images that have no rows were drawn."""
    problem = thrown()
    masks, n = problem.observation, len(problem.space)
    assert isinstance(masks, Masks)
    corners = torch.tensor([[-9.0, -9], [-7, -9], [-7, -7], [-9, -7]]).double()
    screen = corners.expand(1, problem.frames, 4, 2)
    slope = torch.ones(1, n, problem.frames, 4, 2).double()
    faces, count = torch.tensor([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]), 0
    for convex in (True, False):
        for r, J in masks.linear(screen, slope, faces, convex, problem.frames, "pixels"):
            assert J.shape == (*r.shape, n) and (J == 0).all()
            count += r.shape[1]
    assert count == 2 * masks.masks.numel()


def test_states_cost_nothing_at_the_truth():
    problem, truth = measured()
    assert problem.cost(truth, 12).item() < rounding(problem, truth, steps=11 * 40)  # 2e-21


def test_masks_of_another_shape_are_refused():
    silhouettes = Silhouettes.of(Scene.library("cube"))
    with pytest.raises(InputError, match=r"masks have shape \(9, 1, 64, 64\); expected \(frames, 64, 64\)"):
        Masks(torch.zeros(9, 1, 64, 64), 1 / 255, silhouettes)


def test_states_are_whitened_by_their_noise():
    """A shift of 3 σ in x of every frame, and a turn of 2 σ about z, cost 9 + 4 a frame."""
    problem, _ = measured()
    states = problem.model.rollout()["cube"]
    turned = rotation.multiply(rotation.exponential(torch.tensor([0, 0, -0.02]).double()), states["q"][0].detach())
    shifted = states["x"][0].detach() - torch.tensor([3e-3, 0, 0]).double()
    observation = States("cube", shifted, turned, 1e-3, 1e-2)
    trajectory = problem.model.rollout()
    (r,) = observation.residuals(trajectory, 12, "pixels")
    assert r.reshape(12, 6).mean(0).tolist() == pytest.approx([3, 0, 0, 0, 0, 2], abs=1e-6)
    assert observation.cost(trajectory, 12, "pixels").item() == pytest.approx(12 * 13, rel=1e-6)


def test_states_without_orientation_compare_positions_alone():
    problem, _ = measured()
    trajectory = problem.model.rollout()
    observation = States("cube", trajectory["cube"]["x"][0] + 1e-3, None, 1e-3)
    (r,) = observation.residuals(trajectory, 5, "pixels")
    assert r.shape == (1, 15) and observation.noise_floor(5).informative == 15
    assert torch.allclose(r, -torch.ones(1, 15).double())


def test_jacobian_of_states_matches_central_differences():
    problem, truth = measured()
    u = truth + 0.1

    def residuals(u):
        trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u)), 12)
        return list(problem.observation.residuals(trajectory, 12, "pixels"))

    ((_, J),) = problem.jacobian(u, 12)
    for k in range(2):
        along = torch.zeros_like(u)
        along[:, k] = 1
        (secant,) = central_difference(residuals, [u], [along], 1e-5)
        assert (J[..., k] - secant).abs().max() < 1e-6 * J[..., k].abs().max()


def test_masks_without_weight_count_every_pixel_once():
    problem = thrown()
    masks = problem.observation
    assert isinstance(masks, Masks)
    u = 0.5 * (problem.space.low + problem.space.high)[None]
    trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u)), masks.frames)
    image = masks.silhouettes.masks(trajectory.surface, trajectory.values)[0, :, 0]
    expected = ((image - masks.masks) * 255).square().sum().item()
    assert masks.cost(trajectory, masks.frames, "pixels").item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("residual", ["pixels", "cdf"])
def test_cost_of_masks_builds_no_graph(residual):
    """A graph would make an operation of PyTorch of the renderer, which takes seconds the first time."""
    problem = thrown()
    trajectory = problem.model.rollout()
    assert trajectory.surface.vertices.requires_grad
    assert not problem.observation.cost(trajectory, 8, residual).requires_grad


def test_pixels_of_weight_zero_do_not_count():
    problem = thrown()
    masks = problem.observation
    assert isinstance(masks, Masks)
    half = torch.ones_like(masks.masks)
    half[..., : half.shape[-1] // 2] = 0
    wrong = torch.where(half > 0, masks.masks, 0.77)
    weighted = Masks(wrong, masks.sigma, masks.silhouettes, half)
    u = problem.space.inner(torch.tensor([[3.1, 0.9]], dtype=torch.float64))
    bound = rounding(problem, u, steps=7 * 8) + masks.masks.numel() * (10 * EPS / masks.sigma) ** 2  # and of each pixel
    for residual in ("pixels", "cdf"):
        trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u)), masks.frames)
        assert weighted.cost(trajectory, masks.frames, residual).item() < bound  # ~1e-20


def test_a_ball_and_its_rod_are_one_mask():
    """1 − Π (1 − α) of the parts: the same problem through two bodies has the derivative of its residuals."""
    content = swing().model_dump(exclude_unset=True)
    content["bodies"]["other"] = {**content["bodies"]["bob"], "angle": -0.4, "radius": 0.08}
    scene = Scene.parse(content)
    names = ["bob.angle:0.5:1.2", "other.angle:-1:0.2"]
    truth = {"bob.angle": 0.9, "other.angle": -0.3}
    model, trajectory = synthetic.simulate(scene, names, truth)
    problem = Problem(model, synthetic.float_masks(scene, trajectory), Space(scene, names))
    u = torch.tensor([[0.31, 0.1]]).double()  # the balls overlap in some frames

    def residuals(u):
        trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u)), 4)
        return list(problem.observation.residuals(trajectory, 4, "pixels"))

    ((r, J),) = problem.jacobian(u, 4)
    assert_near(r, residuals(u)[0], SOLVED, scale=1.0)
    (secant,) = central_difference(residuals, [u], [torch.tensor([[0.6, -0.8]]).double()], 1e-6)
    assert ((J @ torch.tensor([0.6, -0.8]).double()) - secant).abs().max() < 1e-5 * secant.abs().max()
    cost, A, g = problem.linearize(u, 4)
    assert torch.allclose(A, J.mT @ J, rtol=1e-9) and torch.allclose(g, (J.mT @ r[..., None])[..., 0], rtol=1e-9)
    assert cost.item() == near(r.square().sum().item(), SOLVED)


def test_states_do_not_know_the_noise_of_what_is_left():
    problem, _ = measured()
    assert problem.observation.noise_floor(12) == (0.0, 72.0, math.inf)


def disk(across, height=48, width=64):
    """Masks of 3 frames of a disk, by 8 × 8 points a pixel."""
    at = (torch.arange(8 * width).double() + 0.5) / 8, (torch.arange(8 * height).double() + 0.5) / 8
    covered = [(at[0] - 20 - 5 * k).square() + (at[1][:, None] - 24).square() < across**2 / 4 for k in range(3)]
    return torch.stack([c.double().unflatten(0, (-1, 8)).unflatten(2, (-1, 8)).mean((1, 3)) for c in covered])


def test_binned_masks_are_means_of_pixels_that_are_not_excluded():
    masks, weight = disk(16), torch.ones(3, 48, 64).double()
    weight[0, 20, 20], weight[1, 20:22, 20:22] = 0, 0  # a sixteenth of one pixel, a quarter of another
    weight[2, 20:24, 20:24] = 0.25
    view = Silhouettes(look_at((0.0, -4.0, 0.0), (0.0, 0.0, 0.0), (0, 0, 1), 0.7, 64, 48))
    observed = Masks(masks, 0.1, view, weight).binned(4)
    assert observed.silhouettes.binning == 4 and observed.sigma == 0.1
    mean = masks.unflatten(1, (-1, 4)).unflatten(3, (-1, 4)).mean((2, 4))
    assert (observed.masks[2] - mean[2]).abs().max() < 1e-14 and observed.weight[2, 5, 5] == pytest.approx(0.25)
    assert observed.weight[1, 5, 5] == 0 and observed.weight[0, 5, 5] == 1
    rest = [masks[0, i, j].item() for i in range(20, 24) for j in range(20, 24) if (i, j) != (20, 20)]
    assert observed.masks[0, 5, 5] == pytest.approx(sum(rest) / 15)


@pytest.mark.parametrize(("across", "finest", "factor"), [(16, 8, 2), (17, 4, 4), (16, 20, 1), (30, 4, 4), (30, 5, 4)])
def test_the_largest_bin_divides_the_image_and_leaves_the_body_its_pixels(across, finest, factor):
    view = Silhouettes(look_at((0.0, -4.0, 0.0), (0.0, 0.0, 0.0), (0, 0, 1), 0.7, 64, 48))
    assert Masks(disk(across), 0.1, view).largest_bin(finest) == factor


def test_the_search_is_content_with_outlines_that_are_a_pixel_off():
    """χ²/N of a disk against the same, a pixel to the right, is about that of the noise floor; half a pixel is far below."""
    view = Silhouettes(look_at((0.0, -4.0, 0.0), (0.0, 0.0, 0.0), (0, 0, 1), 0.7, 64, 48))
    masks = Masks(disk(16), 0.2, view)
    masks.outline_noise = True
    floor, informative, level = masks.noise_floor(3)
    shifted = (disk(16)[:, :, 1:] - disk(16)[:, :, :-1]).square().sum().item() / 0.2**2
    assert 0.3 < (shifted - floor) / (level * informative) < 3
