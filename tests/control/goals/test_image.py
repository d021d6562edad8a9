"""Goals that are seen: zero where the picture is, with right gradients, drawn where they must be alone; mistakes."""

import math

import goal_cases
import numpy as np
import pytest
import torch
from checks import error
from goal_cases import numbers
from PIL import Image
from tolerances import ROUNDING, near

from gradsim.control.goals.image import ImageGoal, silhouette, target_image
from gradsim.control.task.setup import render_empty_scene
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.losses import Schedule, blur_to_sharp, stage
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes

MODEL = goal_cases.model()
SCENE = MODEL.scene
FRONT, SIDE = Silhouettes.of(SCENE), Silhouettes.of(SCENE, "side")


def mask(sees: Silhouettes, x: float = 0.03):
    seen, _ = goal_cases.at(MODEL, x, 0.02, 0.12)
    return sees.union(seen.surface, seen.values)[0, 0]


def seen_by(sees: Silhouettes, frames: int = 4, frame: int = -1):
    episode = goal_cases.episode(MODEL, numbers(0.1), frames)
    return sees.union(episode.trajectory.surface, episode.trajectory.values)[0, frame].detach()


@pytest.mark.parametrize("loss", ["cdf", "mse", "moments", "pyramid", "distance"])
def test_the_loss_is_least_for_the_episode_that_the_image_shows(loss):
    goal = ImageGoal(FRONT, seen_by(FRONT), loss=loss)
    losses = goal.loss(goal_cases.episode(MODEL, numbers(-0.1, 0.1, 0.3)))
    assert losses[1] < 1e-20 and (losses[[0, 2]] > 1e-8).all()


def test_the_gradient_matches_central_differences():
    """Of the whole chain: activation, motion, silhouettes of two cameras, loss. O(h²) of them and rounding 1e-16/h."""
    goal = ImageGoal([FRONT, SIDE], [mask(FRONT), mask(SIDE)], [-1, 2], loss="moments")
    activation = numbers(0.1).requires_grad_()
    (gradient,) = torch.autograd.grad(goal.loss(goal_cases.episode(MODEL, activation)).sum(), activation)
    ends = goal.loss(goal_cases.episode(MODEL, numbers(0.1 - 1e-5, 0.1 + 1e-5))).detach()
    assert gradient.item() == pytest.approx((ends[1] - ends[0]).item() / 2e-5, rel=1e-5)
    assert abs(gradient.item()) > 1e-6


def test_several_images_count_alike():
    images, episode = [mask(FRONT), mask(SIDE)], goal_cases.episode(MODEL, numbers(0.1, -0.2))
    alone = [ImageGoal(s, p, f, "mse").loss(episode) for s, p, f in zip((FRONT, SIDE), images, (1, 3), strict=True)]
    both = ImageGoal([FRONT, SIDE], images, [1, 3], "mse").loss(episode)
    assert error(both, (alone[0] + alone[1]) / 2) < 1e-15


def test_only_frames_with_a_image_are_drawn(monkeypatch):
    drawn, union = [], Silhouettes.union
    goal = ImageGoal([FRONT, FRONT], [mask(FRONT)] * 2, [2, -1])
    monkeypatch.setattr(Silhouettes, "union", lambda *args: drawn.append(args[1].vertices.shape[1]) or union(*args))
    goal.loss(goal_cases.episode(MODEL, numbers(0.1)))
    assert drawn == [1, 1]


def test_a_image_beyond_a_short_episode_waits():
    """A horizon that grows: what is not there yet does not count, but something has to be."""
    goal = ImageGoal(FRONT, [mask(FRONT), mask(FRONT, 0.1)], [3, 1], "mse")
    short = goal_cases.episode(MODEL, numbers(0.1), frames=3)
    assert torch.equal(goal.loss(short), ImageGoal(FRONT, mask(FRONT, 0.1), 1, "mse").loss(short))
    with pytest.raises(InputError, match="the goal is in frame 3; the episode has frames 0 to 2"):
        ImageGoal(FRONT, mask(FRONT), 3).loss(short)


def test_the_loss_changes_with_the_iteration():
    schedule = Schedule(stage("cdf", 2), *blur_to_sharp("mse", (6, 2), 2), stage("iou", 1))
    goal, episode = ImageGoal(FRONT, mask(FRONT), loss=schedule), goal_cases.episode(MODEL, numbers(0.1))
    found = [goal.loss(episode, k).item() for k in range(6)]
    assert found[0] == found[1] and found[4] == found[5] and len(set(found)) == 4
    assert [goal.stage(k) for k in (0, 2, 9)] == ["cdf", "mse blurred by 6 px", "iou"]


def test_colors_are_compared_as_the_renderer_makes_them():
    """The paper's loss: the mean over pixels and channels of squared differences, grounds and posts included."""
    renderer = Renderer.of(SCENE)
    seen, _ = goal_cases.at(MODEL, 0.03, 0.02, 0.12)
    goal_image = renderer(seen.scene_surface, seen.values)[0, 0].detach().clamp(0, 1)
    episode = goal_cases.episode(MODEL, numbers(0.1))
    goal = ImageGoal(renderer, goal_image, loss="mse", colors=True)
    image = renderer(episode.trajectory.at([-1]).scene_surface, episode.trajectory.values)[0, 0]
    assert goal.loss(episode).item() == near((image - goal_image).square().mean().item(), ROUNDING)
    with pytest.raises(
        InputError, match="the loss 'cdf' compares silhouettes; colours are compared by mse, l1, pyramid"
    ):
        ImageGoal(renderer, goal_image, loss="cdf", colors=True)


def test_a_silhouette_is_told_from_the_empty_scene(tmp_path):
    """From a png in colours, above a ground: |Δα| ≤ √3 · ½/255 / |F − B| by rounding, and as much by that of F."""
    seen, _ = goal_cases.at(MODEL, -0.12, 0.0, 0.25)
    goal_image = Renderer.of(SCENE, law="colour")(seen.scene_surface, seen.values)[0, 0].detach()
    path = tmp_path / "goal.png"
    Image.fromarray(np.moveaxis(to_bytes(goal_image), 0, -1)).save(path)
    (behind,) = render_empty_scene(MODEL, ["camera"])
    found = target_image(path, FRONT, colors=False, background=behind)
    contrast = math.dist((0.2, 0.3, 0.7), goal_cases.BACKGROUND)
    expected = Renderer.of(SCENE).alpha(seen.surface, seen.values)[0, 0]
    assert expected.sum() > 20
    assert (found - expected).abs().max() <= 2 * 3**0.5 / 510 / contrast + 1e-9


def test_a_grey_image_is_a_silhouette(tmp_path):
    path = tmp_path / "goal.png"
    Image.fromarray(to_bytes(mask(FRONT).detach())).save(path)
    assert (target_image(path, FRONT, colors=False) - mask(FRONT)).abs().max() <= 0.5 / 255 + 1e-9


def test_a_grey_photograph_and_a_silhouette_turned_round_are_refused(tmp_path):
    path = tmp_path / "goal.png"
    for goal_image in (1 - mask(FRONT).detach(), 0.7 - 0.4 * mask(FRONT).detach()):
        Image.fromarray(to_bytes(goal_image)).save(path)
        with pytest.raises(InputError, match="is not a silhouette: most of it is not black, but .* bright on black"):
            target_image(path, FRONT, colors=False)


def saved(path, mode: str, size=(48, 40)):
    Image.new(mode, size, 255 if mode == "L" else tuple([200] * len(mode))).save(path)
    return path


@pytest.mark.parametrize(
    ("mode", "size", "words"),
    [
        ("RGB", (40, 48), r"is 40 × 48 px; the camera `camera` makes 48 × 40. Scale one of them"),
        ("RGBA", (48, 40), r"has 4 channels, R, G, B, A; expected 3"),
        ("LA", (48, 40), r"has 2 channels, L, A; expected 3"),
        ("L", (24, 20), r"is 24 × 20 px"),
        ("RGB", (48, 40), r"differs from the empty scene in most pixels"),
    ],
)
def test_a_image_file_that_does_not_fit_is_refused(tmp_path, mode, size, words):
    with pytest.raises(InputError, match=words):
        ImageGoal(FRONT, saved(tmp_path / "goal.png", mode, size))


@pytest.mark.parametrize(
    ("goal_image", "words"),
    [
        (torch.zeros(2, 40, 48), r"has shape \(2, 40, 48\); expected \(3, height, width\) in colours, or a silhouette"),
        (torch.zeros(4, 40, 48), r"has shape \(4, 40, 48\)"),
        (torch.zeros(40, 48), "an empty silhouette"),
        (torch.full((40, 48), 255.0), r"values from 255 to 255; it needs \[0, 1\]"),
        (torch.full((40, 48), torch.nan), "it needs"),
        (torch.zeros(40, 48, dtype=torch.uint8), "divide by 255"),
        (torch.ones(20, 24), "is 24 × 20 px"),
        (numbers(*goal_cases.BACKGROUND)[:, None, None].expand(3, 40, 48), "shows nothing but the background"),
        ("missing.png", "the goal image missing.png does not exist"),
        (np.zeros((40, 48)), "is ndarray; expected a path, or a tensor"),
    ],
)
def test_a_image_that_is_none_is_refused(goal_image, words):
    with pytest.raises(InputError, match=words):
        ImageGoal(FRONT, goal_image)


def test_other_numbers_of_images_and_cameras_are_refused():
    with pytest.raises(InputError, match="the goal has 2 images and 3 frames; give one for each, or one for all"):
        ImageGoal(FRONT, [mask(FRONT)] * 2, [0, 1, 2])
    with pytest.raises(InputError, match="the goal has no image"):
        ImageGoal(FRONT, [])
    with pytest.raises(InputError, match="colours are compared with 3"):
        ImageGoal(Renderer.of(SCENE), mask(FRONT), colors=True)


def test_a_silhouette_of_a_float_image_is_exact_in_flat_colors():
    """α (F − B) is divided by a colour F found inside the body, which is the body's own: rounding alone."""
    alpha = torch.zeros(40, 48, dtype=torch.float64)
    alpha[10:24, 8:30], alpha[9, 8:30] = 1, 0.37
    F, B = numbers(0.2, 0.3, 0.7)[:, None, None], numbers(*goal_cases.BACKGROUND)[:, None, None].expand(3, 40, 48)
    assert (silhouette(B + alpha * (F - B), B) - alpha).abs().max() < 1e-12
