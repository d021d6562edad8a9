"""Soft bodies through the commands: simulate, render and fit."""

import json

import numpy as np
import pytest
import soft_cases

from gradsim.app.commands import fit, render
from gradsim.app.commands.render import Shot
from gradsim.app.job import Job
from gradsim.runtime.progress import NullProgress
from gradsim.scene import Scene

KINDS = {"solid": soft_cases.solid, "cloth": soft_cases.cloth, "net": soft_cases.net}


@pytest.mark.parametrize("kind", KINDS)
def test_a_soft_body_is_simulated_and_filmed(tmp_path, kind):
    scene = KINDS[kind]()
    scene.save(tmp_path / "a.yaml")
    made = render.render(tmp_path / "a.yaml", Shot(frame=3, renderer="aa", shading="lambert"), tmp_path / "run")
    assert made.files["frame"].is_file()
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "ok" and Scene.load(tmp_path / "run" / "scene.yaml").bodies == scene.bodies
    (name,) = scene.bodies
    with np.load(tmp_path / "run" / "trajectory.npz") as arrays:
        assert arrays[f"{name}.x"].shape == (6, 12, 3) and np.isfinite(arrays[f"{name}.v"]).all()


class Stages(NullProgress):
    def __init__(self):
        self.said = []

    def stage(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(("stiffness", "said"), [("400", False), ("4e7", True)])
def test_the_body_that_needs_very_many_steps_is_named(tmp_path, stiffness, said):
    rope = f"""
timing: {{fps: 20, frames: 2, substeps: auto}}
bodies:
  ball: {{shape: {{sphere: {{radius: 0.1}}}}, mass: 1}}
  rope: {{kind: springs, shape: {{rope: {{length: 1, segments: 4}}}}, mass: 0.1, radius: 0.01, stiffness: {stiffness}}}
"""
    (tmp_path / "a.yaml").write_text(rope)
    told = Stages()
    steps = fit.simulate(tmp_path / "a.yaml", tmp_path / "run", told)["substeps"]
    assert any(f"2 frames of {steps} steps" in text for text in told.said)
    assert any("`rope`, or what it touches, is stiff" in text for text in told.said) == said == (steps >= fit.MANY)


@pytest.mark.slow
def test_a_fit_to_the_film_of_a_soft_body_gives_its_own_values(tmp_path):
    """8-bit colours quantise, so that σ = 1/255 is generous: within three bars."""
    scene = soft_cases.solid(collision="none").model_copy(update={"obstacles": {}})
    assert scene.camera is not None
    camera = scene.camera.model_copy(update={"size": (64, 48)})
    scene.model_copy(update={"camera": camera}).save(tmp_path / "a.yaml")
    render.render(tmp_path / "a.yaml", Shot(), tmp_path / "run")
    unknowns = ("beam.young:2000:9000", "beam.density:500:1500")
    job = Job(scene=tmp_path / "a.yaml", video=tmp_path / "run" / "video.webm", unknowns=unknowns, starts=3)
    result = fit.fit(job, tmp_path / "fit")
    assert result["status"] == "ok"
    for name, truth in (("beam.young", 4000), ("beam.density", 900)):
        found = result["unknowns"][name]
        assert abs(found["value"] - truth) < 3 * found["std"] and found["std"] < 0.01 * truth
    assert (tmp_path / "fit" / "report.html").is_file()
