"""Soft bodies through the commands: simulate, render and fit."""

import json

import numpy as np
import pytest
import soft_cases

from gradsim.app.commands.fit import fit
from gradsim.app.commands.render import render
from gradsim.app.commands.render_options import RenderOptions
from gradsim.app.commands.simulate import MANY_SUBSTEPS, simulate
from gradsim.app.job import FitArguments
from gradsim.runtime.progress import NullProgress
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("blank_plots")

KINDS = {"solid": soft_cases.solid, "cloth": soft_cases.cloth, "net": soft_cases.net}


@pytest.mark.parametrize("kind", KINDS)
def test_a_soft_body_is_simulated_and_recorded(tmp_path, kind):
    scene = KINDS[kind]()
    scene.save(tmp_path / "a.yaml")
    rendered = render(tmp_path / "a.yaml", RenderOptions(frame=3, renderer="aa", shading="lambert"), tmp_path / "run")
    assert rendered.files["frame"].is_file()
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "ok" and Scene.load(tmp_path / "run" / "scene.yaml").bodies == scene.bodies
    (name,) = scene.bodies
    with np.load(tmp_path / "run" / "trajectory.npz") as arrays:
        assert arrays[f"{name}.x"].shape == (6, 12, 3) and np.isfinite(arrays[f"{name}.v"]).all()


class Stages(NullProgress):
    def __init__(self):
        self.stages = []

    def stage(self, text: str) -> None:
        self.stages.append(text)


@pytest.mark.parametrize(("stiffness", "is_named"), [("400", False), ("4e7", True)])
def test_the_body_that_needs_very_many_steps_is_named(tmp_path, stiffness, is_named):
    rope = f"""
timing: {{fps: 20, frames: 2, substeps: auto}}
bodies:
  ball: {{shape: {{sphere: {{radius: 0.1}}}}, mass: 1}}
  rope: {{kind: springs, shape: {{rope: {{length: 1, segments: 4}}}}, mass: 0.1, radius: 0.01, stiffness: {stiffness}}}
"""
    (tmp_path / "a.yaml").write_text(rope)
    progress = Stages()
    steps = simulate(tmp_path / "a.yaml", tmp_path / "run", progress)["substeps"]
    assert any(f"2 frames of {steps} steps" in text for text in progress.stages)
    named = any("most for `rope.stiffness` (4e+07 N/m): a tenth of it would take" in text for text in progress.stages)
    assert named == is_named == (steps >= MANY_SUBSTEPS)


@pytest.mark.slow
def test_a_fit_to_the_video_of_a_soft_body_gives_its_own_values(tmp_path):
    """8-bit colours quantise, so that σ = 1/255 is generous: within three bars."""
    scene = soft_cases.solid(collision="none").model_copy(update={"obstacles": {}})
    assert scene.camera is not None
    camera = scene.camera.model_copy(update={"size": (64, 48)})
    scene.model_copy(update={"camera": camera}).save(tmp_path / "a.yaml")
    render(tmp_path / "a.yaml", RenderOptions(), tmp_path / "run")
    unknowns = ("beam.young:2000:9000", "beam.density:500:1500")
    arguments = FitArguments(
        scene=tmp_path / "a.yaml", video=tmp_path / "run" / "video.webm", unknowns=unknowns, starts=3
    )
    result = fit(arguments, tmp_path / "fit")
    assert result["status"] == "ok"
    for name, truth in (("beam.young", 4000), ("beam.density", 900)):
        estimate = result["unknowns"][name]
        assert abs(estimate["value"] - truth) < 3 * estimate["std"] and estimate["std"] < 0.01 * truth
    assert (tmp_path / "fit" / "report.html").is_file()
