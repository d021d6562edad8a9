"""`gradsim capture`, through the command line, on images of targets by OpenCV."""

import json
import sys

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from target_images import chessboard, look, marker, picture

from gradsim import video
from gradsim.app.cli import main
from gradsim.scene import Scene

K = np.array([[330.0, 0, 163.0], [0, 332.0, 118.0], [0, 0, 1]])
DISTORTION = np.array([-0.2, 0.05, 1e-3, -5e-4, 0.0])
TRUTH = [330, 332, 163, 118, *DISTORTION]
SIZE = (320, 240)
TURNS = [(25, -20, 10), (-25, 15, -5), (20, 25, 0), (-15, -25, 5), (5, 30, -10)]
BOARD = "chessboard:8x5:20mm"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Five images of a board."""
    folder = tmp_path_factory.mktemp("boards")
    for k, turn in enumerate(TURNS):
        R, t = look(turn, (0.012 * (k - 2), 0.008 * (k % 3 - 1), 0.25))
        image = picture(chessboard(8, 5), 0.2, 0.14, K, DISTORTION, R, t, SIZE, k)
        cv2.imwrite(str(folder / f"{k}.png"), image)
    return folder


@pytest.fixture(scope="module")
def calibrated(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    assert main.main(["capture", str(images), "--target", BOARD, "--out", str(folder)]) == 0
    return folder


def run(*words):
    return main.main(["capture", *map(str, words)])


@pytest.mark.slow
def test_lens_and_pose_are_within_their_errors(calibrated):
    content = json.loads((calibrated / "capture.json").read_text())
    assert content["schema"] == "gradsim.capture/1" and content["size"] == [320, 240] and content["views"] == 5
    names = ["camera.focal.x", "camera.focal.y", "camera.centre.x", "camera.centre.y"]
    names += [f"camera.distortion.{k}" for k in ("k1", "k2", "p1", "p2", "k3")]
    assert content["names"][:9] == names
    R, t = look(TURNS[0], (-0.024, -0.008, 0.25))
    z = (np.array(content["mean"][:9]) - TRUTH) / content["sd"][:9]
    assert np.abs(z).max() < 4
    assert np.abs(np.array(content["position"]) + R.T @ t).max() < 5 * max(content["position_sd"])
    covariance = np.array(content["covariance"])
    assert np.sqrt(np.diag(covariance)) == pytest.approx(content["sd"])


def test_the_error_of_the_position_is_that_of_draws_from_the_covariance(calibrated):
    """-Rᵀ t with R = exp(ω) R of the file, 4000 draws: their sd is off by 1.1 %."""
    content = json.loads((calibrated / "capture.json").read_text())
    draws = np.random.default_rng(0).multivariate_normal(
        content["mean"][-6:], np.array(content["covariance"])[-6:, -6:], 4000
    )
    R = Rotation.from_rotvec(draws[:, :3]).as_matrix() @ np.array(content["R"])
    assert np.einsum("nji,nj->ni", R, draws[:, 3:]).std(0) == pytest.approx(content["position_sd"], rel=0.06)


def test_the_page_shows_the_numbers_and_the_pictures(calibrated):
    page = (calibrated / "report.html").read_text()
    assert "camera.distortion.k1" in page and page.count("data:image/png") == 2


def test_the_camera_is_written_into_a_scene(images, tmp_path):
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0}
    content = {
        "timing": {"fps": 30, "frames": 3},
        "bodies": {"ball": ball},
        "camera": {"size": list(SIZE), "focal": 300.0},
    }
    content["camera"]["look_at"] = {"eye": [0, -2, 1], "target": [0, 0, 0]}
    Scene.parse(content).save(tmp_path / "rough.yaml")
    (tmp_path / "rough.yaml").write_text("# mine\n" + (tmp_path / "rough.yaml").read_text())
    assert (
        run(images, "--target", f"{BOARD}@0.1,0.2,0", "--out", tmp_path / "run", "--scene", tmp_path / "rough.yaml")
        == 0
    )
    scene = Scene.load(tmp_path / "run" / "scene.yaml")
    _, R, t = scene.camera.matrices()
    R0, t0 = look(TURNS[0], (-0.024, -0.008, 0.25))
    assert -R.T @ t == pytest.approx(-R0.T @ t0 + [0.1, 0.2, 0], abs=2e-3)
    text = (tmp_path / "run" / "scene.yaml").read_text()
    assert text.startswith("# mine\n") and "centre.x" in text and "±" in text
    assert scene.timing.fps == 30


def test_a_marker_of_known_place_gives_the_pose_with_the_lens_of_the_board(calibrated, tmp_path):
    R, t = look((30, 10, 20), (0.0, 0.01, 0.3))
    texture = marker(cv2.aruco.DICT_4X4_50, 7)
    cv2.imwrite(str(tmp_path / "m.png"), picture(texture, 0.15, 0.15, K, DISTORTION, R, t, SIZE))
    words = ("--target", "aruco:4x4_50:7:10cm@1,0,0.5,90,0,0", "--intrinsics", calibrated / "capture.json")
    assert run(tmp_path / "m.png", *words, "--out", tmp_path / "run") == 0
    content = json.loads((tmp_path / "run" / "capture.json").read_text())
    turn = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # target → world
    expected = turn @ (-R.T @ t) + [1, 0, 0.5]
    assert np.abs(np.array(content["position"]) - expected).max() < 4 * max(content["position_sd"])
    assert max(content["position_sd"]) < 2e-3


def test_a_sheet_of_paper_gives_the_pose_from_one_view(calibrated, tmp_path):
    R, t = look((35, 10, 8), (0.0, 0.01, 0.5))
    paper = np.full((420, 594), 230, np.uint8)
    cv2.imwrite(str(tmp_path / "p.png"), picture(paper, 0.297, 0.21, K, DISTORTION, R, t, SIZE))
    words = ("--target", "a4", "--intrinsics", calibrated / "capture.json", "--out", tmp_path / "run")
    assert run(tmp_path / "p.png", *words) == 0
    content = json.loads((tmp_path / "run" / "capture.json").read_text())
    assert np.abs(np.array(content["position"]) + R.T @ t).max() < 4 * max(content["position_sd"])


@pytest.mark.slow
def test_a_video_is_read_and_frames_are_chosen(images, tmp_path):
    frames = [cv2.imread(str(images / f"{k}.png")) for k in (0, 1, 1, 2, 3, 3, 4)]
    video.write(tmp_path / "clip.webm", np.stack(frames), 30)
    assert run(tmp_path / "clip.webm", "--target", BOARD, "--views", 5, "--out", tmp_path / "run") == 0
    frames = json.loads((tmp_path / "run" / "capture.json").read_text())["frames"]
    assert len(frames) == 5 and not {1, 2} <= set(frames) and not {4, 5} <= set(frames)


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "none").mkdir()
    return tmp_path / "none"


def refused(capsys, *words):
    assert run(*words) == 2
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_bad_input_is_refused_with_the_way_out(images, empty, calibrated, tmp_path, capsys, monkeypatch):
    out = ("--out", tmp_path / "run")
    assert "a chessboard of 8x5 squares is in view" in refused(capsys, images, "--target", "chessboard:7x6:2cm", *out)
    assert "in none of the 5 frames" in refused(capsys, images, "--target", "aruco:4x4_50:7:1cm", *out)
    assert "holds no images" in refused(capsys, empty, "--target", BOARD, *out)
    assert "--intrinsics capture.json" in refused(capsys, images / "0.png", "--target", BOARD, *out)
    assert "OpenCV has no dictionary 9X9_50" in refused(capsys, images, "--target", "aruco:9x9_50:7:1cm", *out)
    assert "no target" in refused(capsys, images, *out)
    small = tmp_path / "small.png"
    cv2.imwrite(str(small), np.zeros((60, 80), np.uint8))
    words = (small, "--target", BOARD, "--intrinsics", calibrated / "capture.json", *out)
    assert "the frames are 80 × 60 px, those of the calibration" in refused(capsys, *words)
    assert not (tmp_path / "run").exists()
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert 'pip install "gradsim[capture]"' in refused(capsys, images, "--target", BOARD, *out)


def test_a_folder_of_two_sizes_is_refused(images, tmp_path, capsys):
    for name, shape in (("a.png", (240, 320)), ("b.png", (120, 160))):
        cv2.imwrite(str(tmp_path / name), np.zeros(shape, np.uint8))
    assert "use images of one camera and size" in refused(
        capsys, tmp_path, "--target", BOARD, "--out", tmp_path / "run"
    )


@pytest.fixture
def rough(tmp_path):
    """A scene whose camera is 2 m from the origin and looks along y, with a guessed focal length."""
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0}
    view = {"eye": [0, -2, 0], "target": [0, 0, 0]}
    camera = {"size": list(SIZE), "focal": 300.0, "look_at": view}
    Scene.parse({"timing": {"fps": 30, "frames": 3}, "bodies": {"ball": ball}, "camera": camera}).save(
        tmp_path / "r.yaml"
    )
    return tmp_path / "r.yaml"


@pytest.mark.parametrize(("words", "focal", "distance"), [((), 330.0, 2.0), (("--focal", "165"), 165.0, 1.0)])
def test_a_known_length_gives_focal_length_or_distance(words, focal, distance, rough, images, tmp_path):
    """0.4 m at 2 m are 66 px at f = 330 px; at f = 165 px the same 66 px are at 1 m."""
    target = ("--target", "length:40cm:100,120,166,120")
    assert run(images / "0.png", *target, "--scene", rough, *words, "--out", tmp_path / "run") == 0
    K, R, t = Scene.load(tmp_path / "run" / "scene.yaml").camera.matrices()
    assert K[0, 0] == pytest.approx(focal) and (R.T @ t)[1] == pytest.approx(distance)
    content = json.loads((tmp_path / "run" / "capture.json").read_text())
    assert content["names"] == ["camera.translation.z" if words else "camera.focal"]
    assert content["sd"][0] / (distance if words else focal) == pytest.approx(0.5 * np.sqrt(2) / 66)


def test_a_length_without_a_scene_is_refused(images, tmp_path, capsys):
    words = (images / "0.png", "--target", "length:40cm:100,120,166,120", "--out", tmp_path / "run")
    assert "needs --scene SCENE" in refused(capsys, *words)
