"""Poses over a textured plane: tracks made by OpenCV's projection, and images of a plane drawn by OpenCV."""

import json

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from gradsim import video as videos
from gradsim.app.cli import main
from gradsim.errors import InputError
from gradsim.geometry.camera_poses import read_poses
from gradsim.scene import Scene
from gradsim.video.calibration.ground import Plane, Reference, ground_poses
from gradsim.video.calibration.ground_tracks import GroundTracks, ground_tracks
from gradsim.video.calibration.lens import COEFFICIENTS, make_lens

SIZE, FRAMES = (640, 480), 20
K = np.array([[600.0, 0, 319.5], [0, 600.0, 239.5], [0, 0, 1]])
DISTORTION = np.array([-0.2, 0.05, 1e-3, -5e-4, 0.0])
LENS = make_lens("pinhole", [600, 600, 320, 240, *DISTORTION], ("focal", "centre", *COEFFICIENTS["pinhole"]))
GROUND = Plane.of(np.zeros(3), np.array([0.0, 0.0, 1.0]))


def shaking(seed, frames=FRAMES, size=1.0):
    """R (frames, 3, 3) and t (frames, 3) of a camera in a hand, 2.5 m from the plane's middle."""
    rng = np.random.default_rng(seed)
    forward = np.array([0.0, 2.2, -1.2]) / np.hypot(2.2, 1.2)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    time = np.arange(frames)[:, None] / 30
    wave = size * np.sin(rng.uniform(3, 9, 6) * time + rng.uniform(0, 6, 6)) * [0.03, 0.03, 0.03, 0.04, 0.04, 0.04]
    R = Rotation.from_rotvec(wave[:, :3] - wave[0, :3]).as_matrix() @ np.stack(
        [right, np.cross(forward, right), forward]
    )
    eye = np.array([0.0, -2.2, 1.2]) + wave[:, 3:] - wave[0, 3:]
    return R, -np.einsum("nij,nj->ni", R, eye)


def project(points, R, t):
    return cv2.projectPoints(points, cv2.Rodrigues(R)[0], t, K, DISTORTION)[0].reshape(-1, 2) + 0.5


def tracks_of(points, R, t, noise, rng):
    """Observations of points (frames, n, 3) in all frames, with noise."""
    rows = [(k, j, *pixels) for k in range(len(R)) for j, pixels in enumerate(project(points[k], R[k], t[k]))]
    table = np.array(rows)
    pixels = table[:, 2:] + noise * rng.standard_normal((len(table), 2))
    return GroundTracks(table[:, 0].astype(int), table[:, 1].astype(int), pixels, np.full(len(table), max(noise, 0.01)))


def flat_points(rng, count=60, frames=FRAMES):
    places = np.column_stack([rng.uniform(-0.8, 0.8, (count, 2)), np.zeros(count)])
    return np.tile(places, (frames, 1, 1))


def errors(poses, R, t):
    """(frames, 6) of ω and t."""
    turn = lambda i, k: Rotation.from_matrix(R[k] @ poses.R[i].T).as_rotvec()
    return np.array([np.concatenate([turn(i, k), t[k] - poses.t[i]]) for i, k in enumerate(poses.frames)])


def test_exact_tracks_give_exact_poses():
    R, t = shaking(0)
    tracks = tracks_of(flat_points(np.random.default_rng(1)), R, t, 0.0, np.random.default_rng(2))
    poses = ground_poses(tracks, LENS, GROUND, {0: Reference(R[0], t[0])})
    assert list(poses.frames) == list(range(FRAMES))
    assert np.abs(errors(poses, R, t)).max() < 1e-8


def test_errors_of_noisy_tracks_are_as_large_as_their_covariance_says():
    """Squared Mahalanobis distances over 6 numbers, mean over 3 × 19 poses: not above 1.2; shared errors that cannot be excluded lower it."""
    squares = []
    for seed in range(3):
        rng = np.random.default_rng(10 + seed)
        R, t = shaking(seed)
        poses = ground_poses(tracks_of(flat_points(rng), R, t, 0.2, rng), LENS, GROUND, {0: Reference(R[0], t[0])})
        e = errors(poses, R, t)
        squares += [e[i] @ np.linalg.solve(poses.covariance[i], e[i]) / 6 for i in range(1, len(e))]
    assert 0.5 < np.mean(squares) < 1.2


def test_a_body_that_moves_and_a_wall_do_not_count():
    rng = np.random.default_rng(3)
    R, t = shaking(4)
    points = flat_points(rng, 90)
    points[:, :20] += np.linspace(0, 1, FRAMES)[:, None, None] * [0.3, 0.1, 0.4]  # a body in motion
    points[:, 20:35, 2] = rng.uniform(0.05, 0.6, 15)  # on a wall
    poses = ground_poses(tracks_of(points, R, t, 0.1, rng), LENS, GROUND, {0: Reference(R[0], t[0])})
    e = errors(poses, R, t)
    assert poses.point_count <= 60 and np.abs(e[:, :3]).max() < 2e-3 and np.abs(e[:, 3:]).max() < 4e-3
    squares = [e[i] @ np.linalg.solve(poses.covariance[i], e[i]) / 6 for i in range(1, len(e))]
    assert np.mean(squares) < 1.6


def test_a_marker_in_a_later_frame_puts_all_poses_into_its_world():
    """The pose of frame 12 with errors of 2 mrad and 3 mm: all others are off by about as much, and their covariance holds it."""
    rng = np.random.default_rng(5)
    R, t = shaking(6)
    tracks = tracks_of(flat_points(rng), R, t, 0.1, rng)
    covariance = np.diag([0.002**2] * 3 + [0.003**2] * 3)
    error = np.sqrt(np.diag(covariance)) * rng.standard_normal(6)
    reference = Reference(Rotation.from_rotvec(error[:3]).as_matrix() @ R[12], t[12] + error[3:], covariance)
    poses = ground_poses(tracks, LENS, GROUND, {12: reference})
    sd = np.sqrt(np.diagonal(poses.covariance, axis1=1, axis2=2))
    assert len(poses.frames) == FRAMES
    assert (sd[:, :3] > 0.001).all() and (np.abs(errors(poses, R, t)) < 4 * sd).all()


def test_a_plane_at_a_height_and_tilted():
    rng = np.random.default_rng(7)
    R, t = shaking(8)
    plane = Plane.of(np.array([0.0, 0.0, -0.1]), np.array([0.1, -0.2, 1.0]))
    points = np.tile(plane.points(rng.uniform(-0.7, 0.7, (60, 2))), (FRAMES, 1, 1))
    poses = ground_poses(tracks_of(points, R, t, 0.0, rng), LENS, plane, {0: Reference(R[0], t[0])})
    assert np.abs(errors(poses, R, t)).max() < 1e-8


def test_too_few_points_are_refused():
    rng = np.random.default_rng(9)
    R, t = shaking(9)
    tracks = tracks_of(flat_points(rng, 6), R, t, 0.1, rng)
    with pytest.raises(InputError, match="fewer than 10 points of the ground"):
        ground_poses(tracks, LENS, GROUND, {0: Reference(R[0], t[0])})


def drawn_plane(R, t, texture, scale=250.0):
    """Images (frames, height, width, 3) of a plane, without distortion, by OpenCV's warp of a texture at four times the size."""
    half = texture.shape[0] / 2
    to_plane = np.array([[1 / scale, 0, -half / scale], [0, 1 / scale, -half / scale], [0, 0, 1]])
    fine = np.diag([2, 2, 1.0]) @ np.array(
        [[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]]
    )  # samples in the middle of half pixels
    images = []
    for turn, shift in zip(R, t, strict=True):
        H = (
            np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
            @ fine
            @ K
            @ np.column_stack([turn[:, 0], turn[:, 1], shift])
            @ to_plane
        )
        image = cv2.warpPerspective(texture, H, (2 * SIZE[0], 2 * SIZE[1]), flags=cv2.INTER_CUBIC, borderValue=0.5)
        images.append(cv2.resize(image, SIZE, interpolation=cv2.INTER_AREA))
    return np.repeat((255 * np.stack(images)).round().astype(np.uint8)[..., None], 3, -1)


def texture(rng):
    """Brightness (1400, 1400) of a ground with spots of several sizes."""
    image = np.full((1400, 1400), 0.5, np.float32)
    for size, amplitude in ((4, 0.12), (12, 0.12), (40, 0.12)):
        noise = cv2.GaussianBlur(rng.standard_normal(image.shape).astype(np.float32), (0, 0), size)
        image += amplitude * noise / noise.std()
    return image.clip(0.05, 0.95)


def test_images_of_a_textured_plane_give_the_poses():
    """Within 0.3 mrad and 1 mm at 2.5 m."""
    R, t = shaking(12, 8)
    tracks = ground_tracks(drawn_plane(R, t, texture(np.random.default_rng(11))))
    lens = make_lens("pinhole", [600, 600, 320, 240, 0, 0, 0, 0, 0], ("focal", "centre", *COEFFICIENTS["pinhole"]))
    poses = ground_poses(tracks, lens, GROUND, {0: Reference(R[0], t[0])})
    e = errors(poses, R, t)
    assert len(e) == 8 and np.abs(e[:, :3]).max() < 3e-4 and np.abs(e[:, 3:]).max() < 1e-3


def test_points_that_leave_the_image_are_replaced():
    """A camera that moves 12 cm to the right in each frame: later frames have about as many points as the first."""
    R, t = shaking(12, 16, size=0.0)
    t = t - np.arange(16)[:, None] * (R[0] @ [0.12, 0, 0])
    tracks = ground_tracks(drawn_plane(R, t, texture(np.random.default_rng(12))))
    counts = np.bincount(tracks.frame)
    assert len(np.unique(tracks.point)) > counts[0] and counts.min() > 60


def test_images_without_texture_are_refused():
    with pytest.raises(InputError, match="no frame has texture"):
        ground_tracks(np.full((3, 120, 160, 3), 90, np.uint8))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A clip of a textured ground from a camera in a hand, and a scene with the first pose and its prior."""
    folder = tmp_path_factory.mktemp("ground")
    R, t = shaking(13, 6)
    videos.write(folder / "clip.webm", drawn_plane(R, t, texture(np.random.default_rng(13))), 30)
    camera = {"size": list(SIZE), "focal": 600, "R": R[0].tolist(), "t": t[0].tolist(), "prior": "capture.json"}
    prior = {
        "schema": "gradsim.capture/1",
        "names": ["camera.translation.x"],
        "mean": [float(t[0, 0])],
        "covariance": [[1e-6]],
    }
    (folder / "capture.json").write_text(json.dumps(prior))
    cube = {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": 1.0}
    content = {"timing": {"fps": 30, "frames": 6}, "bodies": {"cube": cube}, "camera": camera}
    (folder / "scene.yaml").write_text(json.dumps(content))
    two = {"grounds": {"floor": {}, "table": {"height": 0.4}}}
    (folder / "two.yaml").write_text(json.dumps(content | two))
    return folder, R, t


def capture(folder, out, *more):
    return main.main(["capture", str(folder / "clip.webm"), "--out", str(out), *more])


def test_the_command_writes_poses_and_a_scene_with_the_prior_of_the_first_pose(inputs, tmp_path, capsys):
    folder, R, t = inputs
    assert capture(folder, tmp_path, "--poses", "--target", "ground", "--scene", str(folder / "scene.yaml")) == 0
    poses = read_poses(tmp_path / "poses.json")
    assert len(poses.times) == 6 and np.abs(poses.t - t).max() < 3e-3 and np.abs(poses.R - R).max() < 1e-3
    camera = Scene.load(tmp_path / "scene.yaml").camera
    assert camera.motion == (tmp_path / "poses.json").resolve()
    assert camera.prior == (folder / "capture.json").resolve()
    assert "points count" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more, words",
    [
        (
            ("--poses", "--target", "ground", "--focal", "600"),
            "a ground alone does not tell where the camera is; give --scene",
        ),
        (("--target", "ground"), "add --poses"),
        (
            ("--poses", "--target", "ground", "--target", "ground@0,0,1", "--scene", "{}/scene.yaml"),
            "two targets are a ground",
        ),
        (("--poses", "--target", "ground", "--scene", "{}/two.yaml"), "the scene has 2 grounds (floor, table)"),
        (("--poses", "--target", "ground@0,0", "--scene", "{}/scene.yaml"), "its place is '0,0'"),
    ],
)
def test_mistakes_are_refused_with_the_way_out(inputs, tmp_path, capsys, more, words):
    folder = inputs[0]
    assert capture(folder, tmp_path / "out", *(text.format(folder) for text in more)) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_a_clip_that_is_too_long_is_refused_before_any_work(inputs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gradsim.app.commands.tracking.poses.MAX_FRAMES", 5)
    assert (
        capture(inputs[0], tmp_path / "out", "--poses", "--target", "ground", "--scene", str(inputs[0] / "scene.yaml"))
        == 2
    )
    assert "has 6 frames; poses over a ground are for 5 at most" in " ".join(
        capsys.readouterr().err.replace("│", " ").split()
    )
