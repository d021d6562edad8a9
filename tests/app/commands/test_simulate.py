"""`gradsim simulate`: the trajectory in its run folder."""

import json

import numpy as np
from fit_cases import throw
from run_cases import write_inputs

from gradsim.app.commands.simulate import simulate
from gradsim.physics.model import Model
from gradsim.runtime.progress import NullProgress
from gradsim.scene import Scene


def test_simulate_writes_the_trajectory(tmp_path):
    inputs = write_inputs(tmp_path)
    content = simulate(inputs / "scene.yaml", tmp_path / "run")
    with np.load(tmp_path / "run" / "trajectory.npz", allow_pickle=False) as arrays:
        assert arrays["time"].shape == (8,) and arrays["cube.x"].shape == (8, 3)
        expected = Model(throw()).rollout()["cube"]["x"][0].detach()
        assert np.array_equal(arrays["cube.x"], expected)
        assert content["final"]["cube.x"] == arrays["cube.x"][-1].tolist()
    assert json.loads((tmp_path / "run" / "result.json").read_text())["substeps"] == 8
    assert Scene.load(tmp_path / "run" / "scene.yaml") == Scene.load(inputs / "scene.yaml")


class Stages(NullProgress):
    """Keeps what it is told."""

    def __init__(self):
        self.texts: list[str] = []

    def stage(self, text: str) -> None:
        self.texts.append(text)


def test_the_number_that_shortens_steps_is_named(tmp_path):
    box = {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": 0.3, "position": [0, 0, 0.2]}
    content = {
        "timing": {"fps": 30, "frames": 3},
        "bodies": {"box": box},
        "ground": {"stiffness": 2000, "friction": 0.3},
    }
    Scene.parse(content).save(tmp_path / "box.yaml")
    progress = Stages()
    simulate(tmp_path / "box.yaml", tmp_path / "run", progress)
    (words,) = [text for text in progress.texts if "ground.friction_stiffness" in text]
    assert "(50 N s/m): a tenth of it would take" in words
    fewer = int(words.rpartition(" ")[2])
    content["ground"]["friction_stiffness"] = 5.0
    assert (
        Model(Scene.parse(content)).substeps
        == fewer
        < Model(Scene.parse(content | {"ground": {"stiffness": 2000}})).substeps
    )
