"""Clips of the scenes of the library, and what notebooks show of a scene, a model and a trajectory."""

import subprocess
import sys

import numpy as np
import pytest

import gradsim as gs
from gradsim import video


def test_a_clip_shows_the_scene_with_the_noise_that_was_given(tmp_path):
    scene = gs.Scene.library("pendulum")
    clean = video.read(gs.examples.clip("pendulum", tmp_path / "clean.webm", noise=0)).frames
    noisy = video.read(gs.examples.clip("pendulum", tmp_path / "noisy.webm", noise=4 / 255)).frames
    assert len(clean) == scene.timing.frames
    difference = noisy.astype(float) - clean
    assert np.std(difference) == pytest.approx(
        4, rel=0.02
    )  # rounding adds 1/√12 to both: 0.3 %; some pixels are clipped


def test_the_seed_gives_the_same_clip_again(tmp_path):
    first, again, other = (
        video.read(gs.examples.clip("pendulum", tmp_path / f"{k}.webm", seed=seed)).frames
        for k, seed in enumerate((3, 3, 4))
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize(("name", "noise"), [("cubes", 0.1), ("cube", -0.1), ("cube", 2)])
def test_a_scene_or_noise_that_is_none_is_refused(tmp_path, name, noise):
    with pytest.raises(gs.InputError):
        gs.examples.clip(name, tmp_path / "clip.webm", noise=noise)


def test_notebooks_show_names_and_escape_them():
    content = gs.Scene.library("throw").model_dump(by_alias=True, exclude_unset=True) | {"name": "<b>throw</b>"}
    scene = gs.Scene.parse(content)
    model = gs.Model(scene)
    assert "&lt;b&gt;throw" in scene._repr_html_() and "<td>ball</td><td>rigid</td>" in scene._repr_html_()
    assert "<td>ball.mass</td><td>()</td><td>2.0</td>" in model._repr_html_()
    assert "x (1, 2, 3)" in model.rollout(frames=2)._repr_html_()


def test_the_package_is_the_command_too():
    said = subprocess.run([sys.executable, "-m", "gradsim", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"gradsim {gs.__version__}\n"
