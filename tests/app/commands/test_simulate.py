"""`gradsim simulate`: the trajectory in its run folder."""

import json

import numpy as np
from fit_cases import throw
from run_cases import write_inputs

from gradsim.app.commands.simulate import simulate
from gradsim.physics.model import Model
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
