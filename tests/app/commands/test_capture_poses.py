"""`gradsim capture --poses`: files of poses and scenes that use them, and what is refused."""

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import gradsim as gs
from gradsim import video as videos
from gradsim.app.cli import main
from gradsim.geometry.camera_poses import read_poses

SIZE, FOCAL, FRAMES, SIDE = (320, 240), 380.0, 4, 0.4
TARGET = f"aruco:4x4_50:7:{SIDE}m@0,0,0.5,90,0,0"  # upright, faces -y


def pose(k):
    forward = Rotation.from_euler("xyz", [0.02 * k, 0.35, 0.01 * k]).as_matrix() @ np.array(
        [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
    )
    return forward, np.array([0.02 * k, 0.5, 1.2 - 0.01 * k])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A marker on a wall, drawn by OpenCV from a camera that moves, and a scene with a camera that stands still."""
    folder = tmp_path_factory.mktemp("inputs")
    words = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_50)
    marker = np.pad(cv2.aruco.generateImageMarker(words, 7, 240), 60, constant_values=255)
    half, side = SIDE / 2 * 360 / 240, 360
    corners = np.array([[-half, 0, half], [half, 0, half], [half, 0, -half], [-half, 0, -half]]) + [0, 0, 0.5]
    K = np.array([[FOCAL, 0, SIZE[0] / 2 - 0.5], [0, FOCAL, SIZE[1] / 2 - 0.5], [0, 0, 1]])
    frames = []
    for k in range(FRAMES):
        R, t = pose(k)
        pixels = cv2.projectPoints(corners, cv2.Rodrigues(R)[0], t, K, None)[0].reshape(-1, 2)
        source = np.array([[0, 0], [side, 0], [side, side], [0, side]], np.float32) - 0.5
        H = cv2.getPerspectiveTransform(source, (4 * pixels + 1.5).astype(np.float32))
        image = cv2.warpPerspective(
            cv2.GaussianBlur(marker, (0, 0), 1.0), H, (4 * SIZE[0], 4 * SIZE[1]), borderValue=110
        )
        frames.append(cv2.resize(image, SIZE, interpolation=cv2.INTER_AREA))
    videos.write(folder / "clip.webm", np.repeat(np.stack(frames)[..., None], 3, -1), 30)
    videos.write(folder / "blank.webm", np.full((3, SIZE[1], SIZE[0], 3), 90, np.uint8), 30)
    R, t = pose(0)
    gs.Scene.parse(
        {
            "timing": {"fps": 30, "frames": FRAMES},
            "bodies": {"cube": {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": 1.0}},
            "camera": {"size": list(SIZE), "focal": FOCAL, "R": R.tolist(), "t": t.tolist(), "readout": 0.01},
        }
    ).save(folder / "scene.yaml")
    return folder


def run(inputs, out, *more, clip="clip.webm"):
    return main.main(["capture", str(inputs / clip), "--poses", "--out", str(out), *more])


def test_poses_of_a_marker_in_view_are_those_of_the_camera(inputs, tmp_path, capsys):
    """Within 20 mrad and 2 cm, and five standard deviations; the scene keeps its shutter."""
    more = ("--target", TARGET, "--focal", str(FOCAL), "--scene", str(inputs / "scene.yaml"))
    assert run(inputs, tmp_path, *more) == 0
    poses = read_poses(tmp_path / "poses.json")
    assert np.allclose(poses.times, np.arange(FRAMES) / 30, atol=1e-3)
    for k in range(FRAMES):
        R, t = pose(k)
        error = np.concatenate([Rotation.from_matrix(R @ poses.R[k].T).as_rotvec(), t - poses.t[k]])
        assert np.abs(error).max() < 0.02
        assert (np.abs(error) < 5 * np.sqrt(np.diag(poses.covariance[k])) + 2e-3).all()
    scene = gs.Scene.load(tmp_path / "scene.yaml")
    assert scene.camera.motion == (tmp_path / "poses.json").resolve() and scene.camera.readout == 0.01
    assert f"{FRAMES} of {FRAMES} frames have a pose" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more, words",
    [
        (("--target", TARGET), "need a known lens: give --intrinsics"),
        (("--target", TARGET, "--focal", "-3"), "--focal is -3"),
        (("--target", "a4", "--focal", "380"), "--poses need a board or markers"),
        (("--target", TARGET, "--focal", "380", "--frame", "1"), "are not for --poses"),
        (("--focal", "380"), "no target; give --target"),
    ],
)
def test_mistakes_are_refused_with_the_way_out(inputs, tmp_path, capsys, more, words):
    assert run(inputs, tmp_path / "out", *more) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_a_clip_without_the_target_is_refused(inputs, tmp_path, capsys):
    assert run(inputs, tmp_path / "out", "--target", TARGET, "--focal", "380", clip="blank.webm") == 2
    assert "has a pose in 0 of 3 frames" in " ".join(capsys.readouterr().err.replace("│", " ").split())
