"""The demo: its pieces, and as a whole."""

import json

import numpy as np
import pytest
import torch

from gradsim import video as videos
from gradsim.app.commands.demo import NOISE, UNKNOWNS, demo, save
from gradsim.identification import MultistartConfig, least_squares, synthetic
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene
from gradsim.visualization.overlay_video import overlay, side_by_side

pytestmark = pytest.mark.usefixtures("blank_plots")


def test_truths_are_within_their_ranges_and_differ_from_the_starts():
    scene = Scene.library("cube")
    space = Space(scene, UNKNOWNS)
    truths = [list(synthetic.draw_truth(scene, UNKNOWNS, seed).values()) for seed in range(50)]
    low, high = (np.array([space.range(k)[end] for k in range(3)]) for end in (0, 1))
    assert (np.array(truths) > low).all() and (np.array(truths) < high).all()
    starts = space.numbers(space.draw(np.random.default_rng(0), 16))
    assert not np.isclose(starts[:, None], np.array(truths)[None], rtol=1e-6).all(-1).any()
    assert synthetic.draw_truth(scene, UNKNOWNS, 3) == synthetic.draw_truth(scene, UNKNOWNS, 3)


def test_noise_has_its_standard_deviation_before_it_is_rounded():
    frames = synthetic.noisy_8bit(torch.full((4, 40, 40, 3), 0.5), NOISE, seed=1) / 255
    assert frames.mean() == pytest.approx(0.5, abs=1e-4)
    assert frames.std() == pytest.approx(np.hypot(NOISE, 1 / 255 / np.sqrt(12)), rel=0.02)


@pytest.fixture(scope="module")
def cube():
    scene = Scene.library("cube")
    truth = synthetic.draw_truth(scene, UNKNOWNS, 0)
    return scene, truth, *synthetic.simulate(scene, UNKNOWNS, truth)


def test_the_cube_meets_the_floor_and_slides(cube):
    *_, trajectory = cube
    x, v = trajectory["cube"]["x"][0], trajectory["cube"]["v"][0]
    assert trajectory.surface.vertices[0, :, :, 2].min() < 0
    assert x[-1, 0] - x[0, 0] > 0.1 and v[:, 2].max() > 0


def test_the_video_holds_the_truth_at_its_noise(cube, tmp_path):
    """χ²/N of the 8-bit video at the truth is 1 within 5 standard errors, and all three unknowns are determined."""
    scene, truth, model, trajectory = cube
    noisy = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory), NOISE, 0)
    path = synthetic.write_video(tmp_path / "deep" / "video.webm", noisy, scene.timing.fps)
    assert np.array_equal(videos.read(path).frames, noisy)
    problem = Problem(model, from_video(scene, path, noise=NOISE), Space(scene, UNKNOWNS))
    inner = problem.space.inner(torch.tensor([list(truth.values())], dtype=torch.float64))
    r = problem.residuals(inner)[0].reshape(len(noisy), *noisy.shape[1:3])
    outline = (problem.observation.masks > 0.05) & (problem.observation.masks < 0.95)  # pyright: ignore
    chi2 = r[outline].square().mean().item()
    assert chi2 == pytest.approx(1, abs=5 * (2 / outline.sum().item()) ** 0.5)
    _, fisher, _ = problem.linearize(inner, problem.frames)
    assert torch.linalg.inv(fisher[0]).diagonal().sqrt().max() < 0.1


def test_both_fits_are_saved(cube, tmp_path, monkeypatch):
    scene, truth, *_ = cube
    scene = scene.model_copy(update={"timing": scene.timing.model_copy(update={"frames": 14})})
    model, trajectory = synthetic.simulate(scene, UNKNOWNS, truth)
    frames = (synthetic.render_video(scene, trajectory).numpy() * 255).round().astype("uint8")
    synthetic.write_video(tmp_path / "video.webm", frames, scene.timing.fps)
    names = [*UNKNOWNS[:1], f"ground.friction:{0.9 * truth['ground.friction']}:{1.1 * truth['ground.friction']}"]
    seen = synthetic.float_masks(scene, trajectory)
    fit = least_squares(scene, seen, names, MultistartConfig(starts=1, curriculum=False), model=model).against(truth)
    rollout, gradients = model.rollout, []
    monkeypatch.setattr(
        model, "rollout", lambda values: (gradients.append(torch.is_grad_enabled()), rollout(values))[1]
    )
    result = save(tmp_path, scene, model, seen, fit, fit)
    assert gradients == [False, False]  # these have kernels of their own, which nothing else of a demo needs
    on_disk = json.loads((tmp_path / "result.json").read_text())
    assert on_disk["unknowns"] == on_disk["unknowns_8bit"] == result["unknowns"]
    assert on_disk["command"] == "demo" and on_disk["unknowns"]["cube.mass"]["truth"] == truth["cube.mass"]
    assert set(on_disk["z_8bit"]) == {"cube.mass", "ground.friction"}
    for name in ("scene.yaml", "history.json", "side_by_side.webm", "overlay.webm"):
        assert (tmp_path / name).stat().st_size > 0


def test_videos_put_the_fit_beside_and_over_the_video():
    observed, fitted = np.zeros((2, 64, 64, 3), np.uint8), np.full((2, 64, 64, 3), 200, np.uint8)
    both = side_by_side(observed, fitted)
    assert both.shape == (2, 320, 5 * (64 + 2 + 64), 3)
    assert (both[:, :, :320] == 0).all() and (both[:, :, -320:] == 200).all()
    mask = np.zeros((2, 64, 64))
    mask[:, 20:30, 30:50] = 1
    drawn = np.any(overlay(observed, mask), axis=-1, keepdims=True)[..., 0]
    assert drawn[:, 99, 150:250].all() and drawn[:, 150, 150:250].all() and not drawn[:, 110:140, 160:240].any()


@pytest.mark.slow
def test_the_demo_finds_the_cube(tmp_path):
    result = demo(tmp_path)
    assert result["status"] == result["status_8bit"] == "ok"
    assert result["worst_relative_error"] < 1e-6
    for name, e in result["unknowns_8bit"].items():
        assert e["interval95"][0] <= e["truth"] <= e["interval95"][1], name
        assert abs(result["z_8bit"][name]) < 3
    assert result["chi2_per_n_8bit"] == pytest.approx(1, abs=0.2)
