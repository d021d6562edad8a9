"""The viewer: what its server holds is the motion, its cameras and their films, at the instant of the slider."""

import json
import math
import sys
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fit_cases import throw
from run_cases import write_inputs

from gradsim.app.cli import main
from gradsim.app.viewer import viewer
from gradsim.app.viewer.content import ViewContent, view_content
from gradsim.app.viewer.viewer import Viewer
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.physics.model import Model
from gradsim.render.camera import Camera, from_scene
from gradsim.scene import Scene

pytest.importorskip("viser")


def placed_by(node) -> np.ndarray:
    """Vertices (n, 3) of a mesh node in the world."""
    w, axis = node.wxyz[0], np.asarray(node.wxyz[1:])
    rest = np.asarray(node.vertices, np.float64)
    return rest + 2 * np.cross(axis, np.cross(axis, rest) + w * rest) + node.position


@pytest.fixture(scope="module")
def scene():
    content = throw().model_dump(exclude_none=True)
    content["timing"]["substeps"] = 64  # a ground is stiff
    look = {"eye": [3, -1, 1], "target": [0, 0, 0.8], "fov": 0.8}
    more = {"cameras": {"side": {"size": [32, 24], "look_at": look}}, "grounds": {"floor": {}}}
    return Scene.parse({**content, **more, "obstacles": {"post": {"radius": 0.1, "position": [0.9, 0, 0.2]}}})


@pytest.fixture(scope="module")
def motion(scene):
    with torch.no_grad():
        return Model(scene).rollout()


@pytest.fixture(scope="module")
def page(scene, motion):
    video = np.random.default_rng(0).integers(0, 255, (8, 24, 24, 3), np.uint8)
    running = Viewer(ViewContent(scene, "thrown", motion, motion, {"camera": video}), port=0)
    yield running
    running.stop()


def test_the_page_answers_at_its_url(page):
    with urllib.request.urlopen(page.url, timeout=5) as answer:
        assert answer.status == 200 and b"<html" in answer.read().lower()
    assert f"-L {page.port}:localhost:{page.port} " in page.tunnel


def test_the_slider_moves_every_body_to_where_the_motion_has_it(page, motion):
    vertices = motion.scene_surface.vertices[0].detach().numpy()
    for frame in (5, 2):
        page.frame.value = frame
        for part in motion.scene_surface.parts:
            assert np.abs(placed_by(page.actors[part.name].mesh) - vertices[frame, part.vertices]).max() < 1e-6
        assert np.abs(placed_by(page.truth["cube"].mesh) - placed_by(page.actors["cube"].mesh)).max() < 1e-6
    assert np.abs(vertices[5] - vertices[2]).max() > 0.1
    assert list(page.actors) == ["cube", "post"]


def test_a_camera_stands_where_it_is_and_shows_its_video_or_what_it_would_see(page, scene, motion):
    for name, frustum in page.frusta.items():
        camera = from_scene(scene.view(name))
        assert np.abs(frustum.node.position - camera.centre.numpy()).max() < 1e-9
        assert math.tan(frustum.node.fov / 2) == pytest.approx(camera.height / 2 / camera.K[1, 1].item())
    page.frame.value = 3
    assert (page.frusta["camera"].node.image == page.content.videos["camera"][3]).all()
    rendered = (synthetic.render_video(scene, motion, "side")[3].numpy() * 255).round().astype(np.uint8)
    assert (page.frusta["side"].node.image == rendered).all() and np.ptp(rendered) > 50


def test_a_image_stands_about_the_optical_axis_where_the_lens_does_not(page):
    K = torch.tensor([[20.0, 0, 4], [0, 20, 15], [0, 0, 1]], dtype=torch.float64)
    camera = Camera(K, torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64), 16, 18)
    frustum = page.frusta["camera"]
    one = type(frustum)(page._server.scene, "/odd", camera, SimpleNamespace(centre=np.ones(3)), 100)
    image = np.zeros((18, 16, 3), np.uint8)
    image[14:16, 3:5] = 200  # round the principal point
    framed = one.framed(image)
    assert framed.shape == (30, 24, 3)
    assert (framed[14:16, 11:13] == 200).all() and (framed == 200).sum() == 12
    one.node.remove()


def test_looking_through_a_camera_is_standing_there_with_its_lens(page, scene):
    eye = SimpleNamespace(aspect=0.5)  # a window narrower than the picture
    page._place_viewpoint(eye, "side")
    camera = from_scene(scene.view("side"))
    assert np.abs(eye.position - camera.centre.numpy()).max() < 1e-9
    assert 0.5 * math.tan(eye.fov / 2) == pytest.approx(16 / camera.K[0, 0].item())  # all of its width
    page.look_through("side")
    assert not page.frusta["side"].node.visible and page.frusta["camera"].node.visible
    page.look_through(None)
    assert page.frusta["side"].node.visible


def test_time_passes_at_the_chosen_speed_and_begins_anew(page):
    page.frame.value, page._speed.value = 0, "0.5"
    for _ in range(10):
        page.tick(0.04)  # 0.2 s of the motion at 20 frames a second
    assert page.frame.value == 4
    page.tick(0.5)  # to 0.05 s after the 0.4 s of 8 frames
    assert page.frame.value == 1
    page._speed.value = "1"


def test_a_run_folder_shows_the_fit_its_video_and_the_truth(tmp_path):
    write_inputs(tmp_path)
    mass = {"value": 3.0, "std": 0.01, "unit": "kg", "truth": 3.1}
    (tmp_path / "result.json").write_text(json.dumps({"title": "a fit", "unknowns": {"cube.mass": mass}}))
    content = view_content(tmp_path)
    assert content.title == "a fit" and content.truth is not None
    assert [m.values["cube.mass"].item() for m in (content.trajectory, content.truth)] == [3.0, 3.1]
    assert content.videos["camera"].shape == (8, 24, 24, 3)
    assert content.notes == ("cube.mass: 3.000 ± 0.010 kg", "truth of cube.mass: 3.1")


def test_a_folder_without_a_run_is_refused_and_says_what_would_do(tmp_path):
    with pytest.raises(InputError, match="holds no scene.yaml; give a folder made by"):
        view_content(tmp_path)


def test_without_viser_it_says_what_to_install(scene, motion, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(InputError, match=r'pip install "gradsim\[viewer\]"'):
        Viewer(ViewContent(scene, "thrown", motion), port=0)


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 8080), ("127.0.0.1", 70000)], ids=["host", "port"])
def test_an_address_that_is_not_of_this_machine_is_refused(scene, motion, host, port):
    with pytest.raises(InputError, match="cannot listen at 203.0.113.7|port is 70000"):
        Viewer(ViewContent(scene, "thrown", motion), host, port)


def test_the_command_says_where_the_page_is_until_ctrl_c(tmp_path, monkeypatch, capsys):
    throw().save(tmp_path / "scene.yaml")

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(viewer.Viewer, "serve", interrupted)
    assert main.main(["view", str(tmp_path / "scene.yaml"), "--port", "0"]) == 0
    out = capsys.readouterr().out
    assert "http://localhost:" in out and "ssh -L " in out and "viser" not in out
