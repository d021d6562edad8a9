"""`gradsim capture --target body`: focal length or distance from the outline of a body of known size, drawn by OpenCV."""

import json

import cv2
import numpy as np
import pytest

import gradsim as gs
from gradsim import video as videos
from gradsim.app.cli import main

SIZE, FOCAL, SIDE, DISTANCE = (160, 120), 210.0, 0.3, 1.5
FINE = 8


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A box that rests in front of a plain wall, 1.5 m from a camera, and scenes that have its focal length or distance wrong."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    K = np.array([[FOCAL, 0, SIZE[0] / 2], [0, FOCAL, SIZE[1] / 2], [0, 0, 1]])
    corners = SIDE / 2 * np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    R = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # looks along +y
    pixels = cv2.projectPoints(corners, cv2.Rodrigues(R)[0], np.array([0.02, 0.01, DISTANCE]), K, None)[0].reshape(
        -1, 2
    )
    hull = cv2.convexHull((FINE * pixels - 0.5).round().astype(np.int32))
    body = cv2.fillConvexPoly(np.zeros((FINE * SIZE[1], FINE * SIZE[0]), np.float32), hull, 1.0)
    alpha = cv2.resize(body, SIZE, interpolation=cv2.INTER_AREA)[..., None]
    wall = np.array([150.0, 160, 140])
    still = alpha * np.array([190.0, 50, 40]) + (1 - alpha) * wall
    noisy = lambda image: np.clip(image + rng.standard_normal((*SIZE[::-1], 3)), 0, 255).astype(np.uint8)
    videos.write(folder / "clip.webm", np.stack([noisy(still) for _ in range(4)]), 30)
    videos.write(folder / "empty.webm", np.stack([noisy(wall * np.ones_like(still)) for _ in range(8)]), 30)
    for name, focal, distance in (("focal", 150.0, DISTANCE), ("distance", FOCAL, 2.0)):
        scene = {
            "timing": {"fps": 30, "frames": 4},
            "bodies": {"box": {"shape": {"box": {"size": [SIDE] * 3}}, "mass": 1.0}},
            "camera": {"size": list(SIZE), "focal": focal, "R": R.tolist(), "t": [0, 0, distance]},
        }
        gs.Scene.parse(scene).save(folder / f"{name}.yaml")
    return folder


def run(inputs, out, scene, *more):
    words = [
        "capture",
        str(inputs / "clip.webm"),
        "--target",
        "body",
        "--scene",
        str(inputs / scene),
        "--out",
        str(out),
    ]
    return main.main([*words, "--background", str(inputs / "empty.webm"), *more])


@pytest.mark.parametrize(
    "scene, more, name, truth",
    [
        ("focal.yaml", (), "camera.focal", FOCAL),
        ("distance.yaml", ("--focal", str(FOCAL)), "camera.translation.z", DISTANCE),
    ],
)
def test_the_outline_of_a_body_of_known_size_gives_focal_length_or_distance(inputs, tmp_path, scene, more, name, truth):
    assert run(inputs, tmp_path, scene, *more) == 0
    content = json.loads((tmp_path / "capture.json").read_text())
    assert content["names"] == [name]
    sd = content["sd"][0]
    assert abs(content["mean"][0] - truth) < 3 * sd and 0.002 < sd / truth < 0.02
    camera = gs.Scene.load(tmp_path / "scene.yaml").camera
    assert camera is not None
    K, _, t = camera.matrices()
    assert {"camera.focal": K[0, 0], "camera.translation.z": t[2]}[name] == pytest.approx(content["mean"][0], rel=1e-4)
    assert (
        "assumes the shape, size and place of the body"
        in json.loads((tmp_path / "result.json").read_text())["notes"][0]
    )


@pytest.mark.parametrize(
    "scene, more, words",
    [
        ("focal.yaml", ("--frame", "9"), "--frame is 9; the body has to be whole in 3 frames"),
        ("focal.yaml", ("--focal", "-2"), "--focal is -2"),
        ("focal.yaml", ("--target", "a4"), "several targets"),
    ],
)
def test_mistakes_are_refused_with_the_way_out(inputs, tmp_path, capsys, scene, more, words):
    assert run(inputs, tmp_path / "out", scene, *more) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_a_lens_that_bends_outlines_is_refused(inputs, tmp_path, capsys):
    scene = gs.Scene.load(inputs / "focal.yaml").model_dump(exclude_unset=True, by_alias=True)
    scene["camera"]["distortion"] = [-0.2, 0, 0, 0, 0]
    gs.Scene.parse(scene).save(inputs / "bent.yaml")
    assert run(inputs, tmp_path / "out", "bent.yaml") == 2
    assert "has a lens that bends outlines" in " ".join(capsys.readouterr().err.replace("│", " ").split())
