"""The page of `gradsim new --view`: what its fields, buttons, gizmos and clicks do to the scene, through the server."""

import math
import sys
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from wavy_ball import ANGLES, DISTANCE, FOCAL, RADIUS, WIDTH, centres, masks

from gradsim import video
from gradsim.app.cli import main
from gradsim.app.commands.new import draft_scene, edit
from gradsim.app.viewer import editor_page
from gradsim.app.viewer.editor_page import EditorPage
from gradsim.errors import InputError
from gradsim.scene import Scene

viser = pytest.importorskip("viser")


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    coverage = masks(centres(12, (1.0, 3.2, -9.81)), np.zeros((12, ANGLES))).masks.numpy()
    path = tmp_path_factory.mktemp("clip") / "ball.webm"
    video.write(path, (255 * coverage[..., None].clip(0, 1)).round().astype(np.uint8).repeat(3, -1), 30)
    return path


@pytest.fixture
def page(clip, tmp_path):
    editor = draft_scene(clip, mask=clip, size=2 * RADIUS, focal=FOCAL, distance=DISTANCE)
    running = EditorPage(editor, tmp_path / "my.yaml", port=0)
    yield running
    running.stop()


def press(button) -> None:
    """Call what a click on a button of the panel calls."""
    for callback in button._impl.update_cb:
        callback(SimpleNamespace(client=None))


def drop(page, name: str, position, wxyz=(1, 0, 0, 0)) -> None:
    """Call what letting a gizmo go calls."""
    node = page.gizmos[name]
    node.position, node.wxyz = position, wxyz
    for callback in node._impl_aux.update_cb:
        callback(SimpleNamespace(phase="end"))


def click(page, column: float, row: float, aside=(0, 0, 0)) -> None:
    """Call what a click in the image calls: with the ray of a pixel, written out."""
    K, R, t = page.editor.scene.camera.matrices()
    ray = R.T @ np.linalg.solve(K, [column, row, 1.0])
    page.click(SimpleNamespace(ray_origin=tuple(-R.T @ t + aside), ray_direction=tuple(ray / np.linalg.norm(ray))))


def test_the_page_answers_and_fields_show_the_scene(page):
    with urllib.request.urlopen(page.url, timeout=5) as answer:
        assert answer.status == 200
    assert page.numbers["size"].value == pytest.approx(2 * RADIUS, abs=1e-3)
    assert page.numbers["distance"].value == pytest.approx(DISTANCE, rel=0.01)
    assert set(page.gizmos) == {"body", "camera", "ground"} and page.message.content.startswith("Drag the gizmos")
    assert page.gizmos["body"].position == pytest.approx(page.editor.position(0))


def test_gizmos_move_body_ground_and_camera(page):
    goal = page.editor.position(0) + [0.2, 0, 0.3]
    drop(page, "body", goal, (math.cos(0.2), 0, math.sin(0.2), 0))
    assert page.editor.position(0) == pytest.approx(goal, abs=1e-5)
    assert page.editor.rotation(0)[0, 2] == pytest.approx(math.sin(0.4), abs=1e-5)
    assert "as placed by hand" in page.message.content
    drop(page, "ground", (0, 0, -0.2))
    assert page.editor.ground_height == pytest.approx(-0.2) == page.numbers["ground"].value
    eye, wxyz = page.editor.camera.centre.numpy() + [0.1, -0.5, 0], page.gizmos["camera"].wxyz
    drop(page, "camera", eye, wxyz)
    assert page.editor.camera.centre.numpy() == pytest.approx(eye, abs=1e-5)
    assert page.editor.camera.R[2].tolist() == pytest.approx([0, 1, 0], abs=1e-6)
    assert page.numbers["distance"].value == pytest.approx(DISTANCE + 0.5, rel=0.01)


def test_a_later_frame_is_shown_and_a_drag_there_changes_the_velocity(page):
    page.frame.value = 6
    assert page.gizmos["body"].position == pytest.approx(page.editor.position(6))
    goal = page.editor.position(6) + [0.2, 0, 0]
    drop(page, "body", goal)
    assert page.editor.position(6) == pytest.approx(goal, abs=1e-4)


def test_fields_change_the_scene(page):
    page.numbers["size"].value = 0.5
    page.numbers["fov"].value = 50.0
    page.angles["pan"].value = 3.0
    editor = page.editor
    assert (editor.size, editor.field_of_view) == pytest.approx((0.5, 50), rel=1e-4)
    assert math.degrees(math.asin(editor.camera.R[2, 0])) == pytest.approx(3, abs=1e-3)
    assert page.angles["pan"].value == 0  # it turns by, not to


def test_two_clicks_and_a_length_set_the_scale(page):
    before = page.editor.size
    click(page, 20, 30)
    click(page, 60, 30)
    assert np.array(page.points) == pytest.approx(np.array([[20, 30], [60, 30]]), abs=1e-6)
    page.meters.value = 2.0
    press(page.apply)
    assert page.editor.size / before == pytest.approx(2.0 / (40 * DISTANCE / FOCAL), rel=0.01)
    assert "2 m apart" in page.message.content


@pytest.mark.slow
def test_refine_and_write(page, tmp_path):
    drop(page, "body", page.editor.position(0) + [0.25, 0, 0.2])
    assert not page.parts["distance"].value  # it is known
    press(page.refine)
    assert (
        page.editor.distance == pytest.approx(DISTANCE)
        and page.editor.refinement.error < 0.2
        and "px apart" in page.message.content
    )
    press(page.write)
    assert Scene.load(tmp_path / "my.yaml").camera == page.editor.scene.camera and (tmp_path / "my.png").is_file()
    assert "gradsim fit" in page.message.content and "next: gradsim fit" in page.written
    press(page.write)
    assert "**Not done**" in page.message.content and "exists already" in page.message.content


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda page: (click(page, 20, 30), click(page, 20, 30), press(page.apply)), "0 px apart"),
        (lambda page: (click(page, 20, 30), press(page.apply)), "click two points"),
        (lambda page: click(page, 20, 30, aside=(0, -1, 0)), "look through the camera first"),
        (lambda page: click(page, -5, 30), "outside the image"),
        (lambda page: click(page, WIDTH + 5, 30), "outside the image"),
        (lambda page: drop(page, "ground", (0, 0, 5.0)), "inside `ground`"),
        (lambda page: setattr(page.numbers["size"], "value", -1.0), "must be above 0"),
        (lambda page: setattr(page.numbers["fov"], "value", 200.0), "between 0.1 and 179"),
        (lambda page: drop(page, "camera", page.editor.position(0)), "in front of the camera"),
    ],
)
def test_what_is_refused_is_said_on_the_page_and_changes_nothing(page, action, words):
    scene = page.editor.scene
    action(page)
    assert "**Not done**" in page.message.content and words in page.message.content
    assert page.editor.scene == scene
    assert page.gizmos["ground"].position[2] == pytest.approx(page.editor.ground_height)
    assert page.numbers["size"].value == pytest.approx(page.editor.size, abs=1e-4)


def test_points_at_the_horizon_of_the_ground_are_refused_on_the_page(page):
    page.plane.value = "the ground"
    click(page, 20, 10)
    click(page, 60, 10)
    press(page.apply)
    assert "**Not done**" in page.message.content and "horizon" in page.message.content


def test_a_clip_without_a_region_opens_with_a_message_and_does_not_refine(tmp_path):
    path = tmp_path / "still.webm"
    video.write(path, np.full((5, 48, 64, 3), 128, np.uint8), 30)
    page = edit(path, tmp_path / "my.yaml", port=0)
    try:
        assert page.message.content.startswith("**No region was found**")
        press(page.refine)
        assert "no masks to refine on" in page.message.content
    finally:
        page.stop()


def test_a_client_looks_through_the_camera_until_it_turns_away(page):
    eye = SimpleNamespace(aspect=2.0, on_update=lambda callback: None)
    client = SimpleNamespace(camera=eye, atomic=page._server.atomic)
    page._welcome(client)
    assert eye.position == pytest.approx(page.editor.camera.centre.numpy())
    assert math.tan(eye.fov / 2) == pytest.approx(math.tan(math.radians(page.editor.field_of_view / 2)))
    page._placed = -10.0
    page._followed(client)
    assert page._through and not page.gizmos["camera"].visible
    eye.position = eye.position + [0.5, 0, 0]
    page._followed(client)
    assert not page._through and page.gizmos["camera"].visible
    press(page.look)
    assert page._through


def test_the_page_opens_at_the_first_frame_that_counts(clip, tmp_path):
    page = edit(clip, tmp_path / "my.yaml", port=0, mask=clip, frames="3:")
    page.stop()
    assert page.frame.value == 3
    assert page.gizmos["body"].position == pytest.approx(page.editor.position(3))


def test_without_viser_it_says_what_to_install(clip, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(InputError, match=r'pip install "gradsim\[viewer\]"'):
        edit(clip, tmp_path / "my.yaml", port=0, mask=clip)


def test_the_command_serves_until_ctrl_c_and_says_what_was_written(clip, tmp_path, monkeypatch, capsys):
    def interrupted(self):
        press(self.write)
        raise KeyboardInterrupt

    monkeypatch.setattr(editor_page.EditorPage, "serve", interrupted)
    out = tmp_path / "my.yaml"
    arguments = ["new", str(clip), "--out", str(out), "--mask", str(clip), "--view", "--port", "0"]
    assert main.main(arguments) == 0 and out.is_file()
    text = capsys.readouterr().out
    assert "http://localhost:" in text and "next: gradsim fit" in text
    assert main.main(arguments) == 2
    assert "exists already" in " ".join(capsys.readouterr().err.replace("│", " ").split())
