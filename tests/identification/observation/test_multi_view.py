"""Two cameras on one motion: sums of what each says, the camera's own parameters, and films by the camera's name."""

import pytest
import torch
from checks import central_difference, error
from fit_cases import THROW, THROW_TRUTH, throw, true_inner

from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.api import identify
from gradsim.identification.observation.base import Masks, States
from gradsim.identification.observation.clip import Clip
from gradsim.identification.observation.multi_view import MultiView, combined_noise_floor
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

SIDE = {"size": [20, 28], "look_at": {"eye": [4.0, 0.3, 0.9], "target": [0.2, 0, 0.8], "fov": 0.7}}


def two(frames: int = 6) -> Scene:
    """The thrown box with a second camera."""
    return Scene.parse({**throw(frames).model_dump(by_alias=True, exclude_none=True), "cameras": {"side": SIDE}})


def problem(scene: Scene, unknowns=THROW, truth=THROW_TRUTH, sigma: float = 1 / 255) -> Problem:
    model, trajectory = synthetic.simulate(scene, unknowns, truth)
    parts = {name: synthetic.float_masks(scene, trajectory, name) for name in scene.views}
    parts["side"] = Masks(parts["side"].masks, sigma, parts["side"].silhouettes)
    return Problem(model, MultiView(parts), Space(scene, unknowns))


def alone(both: Problem, name: str) -> Problem:
    return Problem(both.model, both.observation.parts[name], both.space)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("residual", ["pixels", "cdf"])
def test_cost_gradient_and_matrix_are_the_sums_over_cameras(residual):
    both = problem(two(), sigma=0.02)
    u = true_inner(both, THROW_TRUTH) + torch.tensor([[0.1, -0.2], [-0.05, 0.1]]).double()
    views = [alone(both, name) for name in ("camera", "side")]
    assert error(both.cost(u, 5, residual), torch.stack([v.cost(u, 5, residual) for v in views]).sum(0)) < 1e-12
    sums = zip(*(v.linearize(u, 5, residual) for v in views), strict=True)
    for own, parts in zip(both.linearize(u, 5, residual), sums, strict=True):
        assert error(own, torch.stack(parts).sum(0)) < 1e-12
    assert both.residuals(u).shape[1] == 6 * (24 * 24 + 20 * 28)


def test_noise_of_a_view_is_its_weight():
    """Twice the noise, a quarter of the cost."""
    u = torch.tensor([[1.0, 0.2]]).double()
    one, half = (alone(problem(two(), sigma=s), "side").cost(u, 6) for s in (0.01, 0.02))
    assert error(one, 4 * half) < 1e-12


def test_parameters_of_the_second_camera_move_its_image_and_not_the_first_one():
    names = ["cameras.side.focal:20:60", "cameras.side.translation.y:-2:2"]
    truth = {"cameras.side.focal": 38.0, "cameras.side.translation.y": 0.9}
    both = problem(two(), names, truth)
    u = true_inner(both, truth) + torch.tensor([[0.05, 0.03]]).double()
    assert alone(both, "camera").cost(u, 6).item() < 1e-18 < alone(both, "side").cost(u, 6).item()
    (_, J) = (torch.cat(part, 1) for part in zip(*both.jacobian(u, 6), strict=True))
    for k in range(2):
        along = torch.eye(2).double()[k][None]
        (secant,) = central_difference(lambda u: [both.residuals(u)], [u], [along], 1e-6)
        assert (J[..., k] - secant).abs().max() < 1e-5 * J[..., k].abs().max()


def test_the_side_camera_shows_what_the_front_one_hardly_does():
    """A speed along the line of sight only changes the size of the picture."""
    names, truth = ["cube.velocity.y:-1:1"], {"cube.velocity.y": 0.3}
    both = problem(two(), names, truth)
    u = true_inner(both, truth)
    bounds = [alone(both, name).linearize(u, 6)[1].item() ** -0.5 for name in ("camera", "side")]
    assert bounds[0] > 3 * bounds[1]
    assert both.linearize(u, 6)[1].item() ** -0.5 == pytest.approx((bounds[0] ** -2 + bounds[1] ** -2) ** -0.5)


def test_floor_adds_up_and_believes_the_stated_noise_of_those_who_do_not_tell():
    masks = problem(two()).observation.parts["camera"]  # pyright: ignore[reportAttributeAccessIssue]
    states = States("cube", torch.zeros(6, 3), None, 0.1)
    least, count, level = masks.noise_floor(6)
    assert combined_noise_floor([(masks, 6), (masks, 6)]) == pytest.approx((2 * least, 2 * count, level))
    assert combined_noise_floor([(states, 6)])[2] == float("inf")
    assert combined_noise_floor([(masks, 6), (states, 6)]) == pytest.approx(
        (least, count + 18, (count * level + 18) / (count + 18))
    )


def test_views_of_unlike_length_are_refused():
    with pytest.raises(InputError, match=r"different numbers of frames \(`a` 6, `b` 5\)"):
        MultiView({"a": States("cube", torch.zeros(6, 3), None, 1), "b": States("cube", torch.zeros(5, 3), None, 1)})


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """8-bit films of both cameras."""
    scene, folder = two(), tmp_path_factory.mktemp("videos")
    _, trajectory = synthetic.simulate(scene, THROW, THROW_TRUTH)
    paths = {}
    for name in scene.views:
        frames = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory, name), 1 / 255, 0)
        paths[name] = synthetic.write_video(folder / f"{name}.webm", frames, scene.timing.fps)
    return scene, paths


@pytest.mark.slow
def test_a_fit_to_two_videos_finds_the_truth(videos):
    scene, paths = videos
    fit = identify(scene, THROW, paths, starts=4)
    assert fit.status == "ok"
    for name, value in THROW_TRUTH.items():
        assert abs(fit.values[name] - value) < 4 * fit.unknowns[name].std
    assert fit.unknowns["cube.mass"].std < identify(scene, THROW, paths["camera"], starts=4).unknowns["cube.mass"].std


def test_a_camera_that_the_scene_lacks_is_refused(videos):
    scene, paths = videos
    with pytest.raises(InputError, match=r"no camera `sid`; did you mean `side`\?"):
        Clip({"sid": paths["side"]}).observe(scene)
    with pytest.raises(InputError, match=r"side.webm has frames of 20 × 28|28"):
        Clip({"camera": paths["side"]}).observe(scene)
    with pytest.raises(InputError, match="mask video and no video"):
        Clip({"camera": paths["camera"]}, {"side": paths["side"]}).observe(scene)


def test_an_observation_is_its_own_part_and_has_defaults():
    both = problem(two()).observation
    (part,) = both.parts["camera"].parts.values()
    assert part is both.parts["camera"] and list(both.parts) != [""]
    states = States("ball", torch.zeros(3, 3), None, 1e-3)
    assert (states.sigma, states.outline_noise, dict(states.notes)) == (1.0, False, {})
