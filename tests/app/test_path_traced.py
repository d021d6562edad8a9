"""Films by Mitsuba."""

import sys

import pytest
import torch

from gradsim.app import runs
from gradsim.app.path_traced import mitsuba_frames
from gradsim.errors import InputError
from gradsim.physics import Model
from gradsim.scene import Scene
from gradsim.video.read import read

CONTENT = {
    "timing": {"fps": 30, "frames": 2},
    "bodies": {
        "ball": {"shape": {"sphere": {"radius": 0.3}}, "mass": 1, "position": [0, 0, 0.5], "velocity": [9, 0, 0]}
    },
    "ground": {"visible": {"size": 4, "colour": [0.6, 0.6, 0.6]}},
    "lights": {"sun": {"kind": "directional", "direction": [0, 0, -1], "colour": [2, 0.5, 0]}},
    "camera": {"size": [24, 18], "look_at": {"eye": [0, -3, 2], "target": [0, 0, 0.2], "fov": "45 deg"}},
    "background": [0.0, 0.0, 1.0],
    "shading": "lambert",
}


class Told:
    """Progress that keeps what it is told."""

    def __init__(self):
        self.texts = []

    def stage(self, text):
        self.texts.append(text)

    def update(self, iteration, loss, values):
        pass

    def done(self):
        pass


def test_frames_show_lights_floor_and_shadow_of_the_scene():
    pytest.importorskip("mitsuba", reason='Mitsuba is not installed: pip install "gradsim[mitsuba]"')
    scene, told = Scene.parse(CONTENT), Told()
    with torch.no_grad():
        trajectory = Model(scene).rollout()
    frames = mitsuba_frames(scene, trajectory, spp=16, progress=told)
    assert frames.shape == (2, 18, 24, 3)
    assert told.texts == ["path tracing frame 1 of 2", "path tracing frame 2 of 2"]
    assert frames[0, 0, 0].tolist() == [0, 0, 1]  # sky
    assert frames[0, -1, 0].tolist() == pytest.approx([1, 0.3, 0], rel=1e-3)  # floor 0.6 · (2, 0.5, 0), cut off at 1
    dark = (frames[..., 0] < 0.2) & (frames[..., 2] < 0.01)  # light that the blue-grey ball sends down is not much
    columns = torch.arange(24).expand(18, 24)
    assert dark.sum() > 4
    assert (columns * dark[1]).sum() / dark[1].sum() > (columns * dark[0]).sum() / dark[0].sum() + 0.5  # it moves along


def test_a_run_is_filmed_by_mitsuba(tmp_path):
    pytest.importorskip("mitsuba", reason='Mitsuba is not installed: pip install "gradsim[mitsuba]"')
    Scene.parse(CONTENT).save(tmp_path / "scene.yaml")
    film = runs.render(tmp_path, renderer="mitsuba", spp=4)
    frames = read(film["video"]).frames
    assert film["lossless"] and frames.shape == (2, 18, 24, 3)
    assert (frames[0, 0, 0] == [0, 0, 255]).all()


def test_without_mitsuba_it_is_said_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    Scene.parse(CONTENT).save(tmp_path / "scene.yaml")
    with pytest.raises(InputError, match=r'Mitsuba cannot be imported .*pip install "gradsim\[mitsuba\]"'):
        runs.render(tmp_path, renderer="mitsuba")
    assert not (tmp_path / "video.webm").exists()
