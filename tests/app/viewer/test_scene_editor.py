"""Editing a first scene by hand, against closed forms of pinhole cameras; no browser is involved."""

import math

import numpy as np
import pytest
from wavy_ball import ANGLES, DISTANCE, FOCAL, HEIGHT, RADIUS, START, WIDTH, centres, masks

from gradsim import video
from gradsim.app.commands.new import draft_scene
from gradsim.app.viewer.first_scene_file import write_scene
from gradsim.app.viewer.scene_editor import CAMERA, GROUND
from gradsim.errors import InputError
from gradsim.scene import Scene

TRUTH, FRAMES = (1.0, 3.2, -9.81), 12
SIZES = {"size": 2 * RADIUS, "focal": FOCAL, "distance": DISTANCE}


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A white ball before black, which is its own mask."""
    coverage = masks(centres(FRAMES, TRUTH), np.zeros((FRAMES, ANGLES))).masks.numpy()
    path = tmp_path_factory.mktemp("clip") / "ball.webm"
    video.write(path, (255 * coverage[..., None].clip(0, 1)).round().astype(np.uint8).repeat(3, -1), 30)
    return path


@pytest.fixture(scope="module")
def ball(clip):
    return draft_scene(clip, mask=clip, **SIZES)


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """In the middle of the image: nothing moves in the clip."""
    path = tmp_path_factory.mktemp("still") / "still.webm"
    video.write(path, np.full((5, HEIGHT, WIDTH, 3), 128, np.uint8), 30)
    return draft_scene(path, "pendulum", by_hand=True)


def pixel(editor, point) -> np.ndarray:
    """Column and row of a world point, written out."""
    K, R, t = editor.scene.camera.matrices()
    x = K @ (R @ np.asarray(point, float) + t)
    return x[:2] / x[2]


def middle_of(mask) -> np.ndarray:
    """Centroid of a mask [px]."""
    rows, columns = np.indices(mask.shape) + 0.5
    return np.array([(columns * mask).sum(), (rows * mask).sum()]) / mask.sum()


def sphere(editor, frame=0) -> tuple[np.ndarray, float]:
    """Center (2,) [px] and area [px²] of the ellipse that a ball of radius r at (x, y, z) is seen as, by a level camera.

    The cone of its tangents meets the image at u = f (x z ± r √(x² + z² − r²))/(z² − r²), and v alike.
    """
    K, R, t = editor.scene.camera.matrices()
    x, y, z = R @ editor.position(frame) + t
    r, f = editor.size / 2, K[0, 0]
    deep = z**2 - r**2
    area = math.pi * (f * r) ** 2 * math.sqrt(x**2 + y**2 + deep) / deep**1.5
    return K[:2, 2] + f * z / deep * np.array([x, y]), area


def test_the_outline_is_where_the_ball_projects_to_and_as_large(ball):
    """Its mesh of 320 triangles is 2 % smaller than the ball."""
    centre, area = sphere(ball)
    assert middle_of(ball.mask(0)) == pytest.approx(centre, abs=0.05)
    assert ball.mask(0).sum() == pytest.approx(area, rel=0.025)
    assert ball.position(0)[0] == pytest.approx(START[0], abs=0.03)


def test_a_pixel_and_the_point_in_the_plane_of_the_motion_that_it_shows_belong_together(ball):
    turned = ball.turn_camera(pan=7, tilt=-4, roll=3)
    for editor in (ball, turned):
        point = editor.point((0.3 * WIDTH, 0.7 * HEIGHT))
        assert point[1] == pytest.approx(0, abs=1e-9)
        assert pixel(editor, point) == pytest.approx([0.3 * WIDTH, 0.7 * HEIGHT])


def test_a_ball_that_is_dragged_is_seen_where_it_was_dropped(ball):
    dropped = ball.point((0.6 * WIDTH, 0.4 * HEIGHT))
    editor = ball.move_body(dropped)
    assert pixel(editor, editor.position(0)) == pytest.approx([0.6 * WIDTH, 0.4 * HEIGHT], abs=1e-3)
    assert middle_of(editor.mask(0)) == pytest.approx(sphere(editor)[0], abs=0.05)
    assert ball.scene.bodies["ball"].position != editor.scene.bodies["ball"].position  # the first is as it was


def test_a_ball_that_is_dragged_in_a_later_frame_flies_there(ball):
    """In free flight a change of velocity by Δ moves it by Δ t."""
    free = draft_scene(ball.clip.path, mask=ball.clip.path, **SIZES, ground=False)
    goal = free.position(6) + [0.2, 0, 0.1]
    editor = free.move_body(goal, frame=6)
    assert editor.position(6) == pytest.approx(goal, abs=1e-5)
    change = np.subtract(editor.scene.bodies["ball"].velocity, free.scene.bodies["ball"].velocity)
    assert change == pytest.approx(np.array([0.2, 0, 0.1]) / (6 / 30), abs=1e-5)
    assert editor.scene.bodies["ball"].position == free.scene.bodies["ball"].position


def test_a_body_that_is_turned_has_that_orientation(clip):
    cube = draft_scene(clip, "cube", mask=clip, **SIZES)
    quat = [0, math.sin(0.3), 0, math.cos(0.3)]
    editor = cube.move_body(cube.position(0) + [0, 0, 0.3], quat)
    expected = [[math.cos(0.6), 0, math.sin(0.6)], [0, 1, 0], [-math.sin(0.6), 0, math.cos(0.6)]]
    assert editor.rotation(0) == pytest.approx(np.array(expected), abs=1e-5)
    assert next(reversed(editor.sources)) == "place"
    assert "quat_xyzw" not in cube.move_body(cube.position(0), (0, 0, 0, 1)).body.model_fields_set  # it has it already


def test_two_points_whose_distance_is_known_scale_everything_and_the_image_stays(ball):
    """A level camera sees L meters at distance d as f L/d pixels."""
    a, b = (40.0, 30.0), (90.0, 30.0)
    editor = ball.set_distance(a, b, 1.0)
    assert np.linalg.norm(editor.point(b) - editor.point(a)) == pytest.approx(1, rel=1e-5)
    ratio = 1.0 / (50 * ball.distance / ball.scene.camera.focal)
    assert editor.size / ball.size == pytest.approx(ratio, rel=1e-5)
    assert editor.distance / ball.distance == pytest.approx(ratio, rel=1e-5)
    assert np.abs(editor.mask(0) - ball.mask(0)).max() < 1e-3
    assert "1 m apart" in editor.sources["scale"] and editor.known >= {"size", "distance"}


@pytest.mark.parametrize("turn", [(0, 0, 0), (5, -6, 2)])
def test_two_points_whose_distance_is_known_move_the_camera_and_the_ball_keeps_its_size(ball, turn):
    rough = ball.turn_camera(*turn)
    a, b = (30.0, 40.0), (90.0, 55.0)
    editor = rough.set_distance(a, b, 1.3, changes=CAMERA)
    assert np.linalg.norm(editor.point(b) - editor.point(a)) == pytest.approx(1.3, rel=1e-5)
    assert editor.size == rough.size and editor.camera.R.numpy() == pytest.approx(rough.camera.R.numpy(), abs=1e-6)
    if not any(turn):
        assert editor.distance == pytest.approx(ball.scene.camera.focal * 1.3 / math.hypot(60, 15), rel=1e-5)


def test_two_points_on_the_ground_are_measured_there(ball):
    """A level camera at height h sees the ground in row v below the middle at depth f h/(v − c)."""
    row = HEIGHT - 3.0
    depth = FOCAL * ball.height / (row - HEIGHT / 2)
    a, b = ball.point((40, row), GROUND), ball.point((90, row), GROUND)
    assert a[2] == pytest.approx(ball.ground_height, abs=1e-9)
    assert np.linalg.norm(b - a) == pytest.approx(50 * depth / FOCAL)


def test_fields_set_what_they_say(ball):
    assert ball.set_size(0.5).size == pytest.approx(0.5, rel=1e-5)
    assert ball.set_height(1.7).height == pytest.approx(1.7, abs=1e-5)
    assert ball.set_camera_distance(3.3).distance == pytest.approx(3.3, abs=1e-5)
    assert ball.set_field_of_view(40).field_of_view == pytest.approx(40, abs=1e-3)
    assert ball.move_ground(-0.25).ground_height == -0.25
    wide = ball.set_field_of_view(90)
    assert wide.scene.camera.focal == pytest.approx(HEIGHT / 2)  # tan 45° = 1


def test_a_camera_that_pans_to_the_right_shows_things_further_left(ball):
    """By f tan(angle) from the middle; upwards, lower; clockwise, turned against the clock."""
    ahead = [0, 0, ball.camera.centre[2].item()]
    shift = FOCAL * math.tan(math.radians(5))
    middle = np.array([WIDTH / 2, HEIGHT / 2])
    assert pixel(ball.turn_camera(pan=5), ahead) == pytest.approx(middle - [shift, 0], abs=1e-3)
    assert pixel(ball.turn_camera(tilt=5), ahead) == pytest.approx(middle + [0, shift], abs=1e-3)
    right = pixel(ball.turn_camera(roll=10), np.add(ahead, [0.3, 0, 0])) - middle
    assert math.degrees(math.atan2(-right[1], right[0])) == pytest.approx(10, abs=1e-3)
    moved = ball.move_camera((0.5, -4, 1.2))
    assert moved.camera.centre.numpy() == pytest.approx([0.5, -4, 1.2], abs=1e-5)


def test_the_ground_is_drawn_where_it_meets_the_plane_of_the_motion(ball):
    """A level camera sees the line z = height, y = 0 in the row c + f h/d."""
    (line, width), *_ = ball.ground_lines()
    assert line[:, 1] == pytest.approx(HEIGHT / 2 + ball.scene.camera.focal * ball.height / ball.distance)
    assert width == 2 and np.ptp(line[:, 0]) > WIDTH
    image = ball.move_ground(ball.ground_height - 0.1).picture(0)
    assert (image != ball.picture(0)).any()
    assert not draft_scene(ball.clip.path, mask=ball.clip.path, ground=False).ground_lines()


def test_refinement_brings_a_ball_back_that_was_dragged_away(ball):
    """To a tenth of a pixel, from 15 px off and a camera 15 % too far."""
    away = ball.move_body(ball.position(0) + [0.25, 0, 0.2]).set_camera_distance(1.15 * DISTANCE)
    editor = away.refine(("place", "motion", "distance"))
    assert editor.sources["distance"].endswith("m, refined") and next(reversed(editor.sources)) == "refined"
    tenth = 0.1 * DISTANCE / FOCAL
    assert pixel(editor, editor.position(0)) == pytest.approx(
        [WIDTH / 2 + FOCAL * START[0] / DISTANCE, HEIGHT / 2 - FOCAL * (START[1] - 0.6) / DISTANCE], abs=0.15
    )
    assert editor.distance == pytest.approx(DISTANCE, rel=0.01)
    assert editor.scene.bodies["ball"].velocity[0] == pytest.approx(TRUTH[0], abs=tenth * 30 / 7 * 3)
    assert editor.refinement.error < 0.2 < away.refine(("motion",)).refinement.before
    assert "px apart" in editor.sources["refined"]
    assert next(reversed(editor.move_body(editor.position(0)).sources)) == "place"  # the last change is last


def test_a_scene_is_written_with_where_its_numbers_are_from(ball, tmp_path):
    edited = ball.set_distance((40, 30), (90, 30), 1.0).move_body(ball.position(0))
    text = write_scene(edited, tmp_path / "my.yaml")
    written = (tmp_path / "my.yaml").read_text(encoding="utf-8")
    assert "# A first scene of ball.webm" in written and "as placed by hand" in written and "1 m apart" in written
    again = Scene.load(tmp_path / "my.yaml")
    assert again.model_copy(update={"name": ""}) == edited.scene.model_copy(update={"name": ""})
    assert (tmp_path / "my.png").stat().st_size > 1000 and text.splitlines()[-1].startswith("next: gradsim fit")


def test_both_files_or_none_are_written_and_nothing_is_overwritten(ball, tmp_path):
    (tmp_path / "my.png").write_text("mine")
    with pytest.raises(InputError, match=r"my\.png exists already"):
        write_scene(ball, tmp_path / "my.yaml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.png"]
    sunk = ball.move_ground(5.0)
    with pytest.raises(InputError, match="ground"):
        write_scene(sunk, tmp_path / "other.yaml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.png"]
    with pytest.raises(InputError, match="does not exist"):
        write_scene(ball, tmp_path / "nowhere" / "my.yaml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: e.set_distance((40, 30), (40, 30), 1.0), "0 px apart"),
        (lambda e: e.set_distance((40, 30), (90, 30), 0.0), "must be above 0"),
        (lambda e: e.set_distance((40, 30), (90, 30), math.nan), "finite"),
        (lambda e: e.set_distance((40, 2), (90, 2), 1.0, GROUND), "horizon"),
        (lambda e: e.set_distance((40, HEIGHT / 2), (90, HEIGHT / 2), 1.0, GROUND), "horizon"),
        (lambda e: e.set_distance((-4, 2), (90, 2), 1.0), "outside the image"),
        (lambda e: e.set_distance((40, 2), (90, 2), 1.0, "wall"), "motion or ground"),
        (lambda e: e.set_distance((40, 2), (90, 2), 1.0, changes="lens"), "scale or camera"),
        (lambda e: e.turn_camera(pan=-80).point((2, 30)), "does not meet that plane"),
        (lambda e: e.turn_camera(pan=180), "in front of the camera"),
        (lambda e: e.move_camera(e.position(0)), "in front of the camera"),
        (lambda e: e.set_size(-1), "must be above 0"),
        (lambda e: e.set_field_of_view(180), "between 0.1 and 179"),
        (lambda e: e.move_body((0, math.inf, 0)), "finite"),
        (lambda e: e.move_pivot((0, 0, 0)), "not a pendulum"),
        (lambda e: e.refine(()), "choose from"),
        (lambda e: e.move_ground(9.0).picture(0), "ground"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(ball, change, words):
    with pytest.raises(InputError, match=words):
        change(ball)


def test_a_pendulum_is_dragged_by_its_pivot_and_by_its_ball(pendulum):
    assert pendulum.clip.regions is None and pendulum.clip.problem
    hung = pendulum.move_pivot((0.1, 0, 1.0))
    assert hung.position(0) - pendulum.position(0) == pytest.approx(np.subtract((0.1, 0, 1.0), pendulum.body.pivot))
    editor = hung.move_body((0.1 + 0.4 * math.sin(0.6), 0, 1.0 - 0.4 * math.cos(0.6)))
    body = editor.body
    assert body.angle == pytest.approx(0.6, abs=1e-5)
    assert body.string_length + body.radius == pytest.approx(0.4, abs=1e-5)
    with pytest.raises(InputError, match="frame 0"):
        hung.move_body((0, 0, 0), frame=3)
    with pytest.raises(InputError, match="no masks to refine on"):
        hung.refine()
    larger = editor.set_size(0.2)
    assert larger.position(0) == pytest.approx(editor.position(0), abs=1e-5) and larger.size == pytest.approx(0.2)
    row, column = np.floor(pixel(editor, editor.position(0))).astype(int)[::-1]
    assert editor.mask(0)[row, column] > 0.999


def test_a_clip_without_a_region_can_be_placed_by_hand(tmp_path):
    path = tmp_path / "still.webm"
    video.write(path, np.full((5, 48, 64, 3), 128, np.uint8), 30)
    editor = draft_scene(path, by_hand=True)
    assert editor.clip.problem and "GUESS" in editor.sources["place"]
    assert middle_of(editor.mask(0)) == pytest.approx([32, 24], abs=1.5)
    text = write_scene(editor, tmp_path / "my.yaml")
    assert "whole in 0" in text and Scene.load(tmp_path / "my.yaml").timing.frames == 5
    with pytest.raises(InputError):
        draft_scene(path)


def test_frames_that_do_not_count_are_left_out(clip):
    editor = draft_scene(clip, mask=clip, **SIZES, frames="3:9")
    assert editor.clip.regions.frames.tolist() == [3, 4, 5, 6, 7, 8]
    assert list(editor.clip.options[-2:]) == ["--frames", "3:9"]
    assert editor.position(0)[0] == pytest.approx(START[0], abs=0.03)
