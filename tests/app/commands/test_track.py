"""`gradsim track`: tables that `gradsim fit --tracks` reads, markers on bodies, and what is refused."""

import csv
import json

import cv2
import numpy as np
import pytest

import gradsim as gs
from gradsim import video as videos
from gradsim.app.cli import main

SIZE, FOCAL, FRAMES, HALF = (160, 120), 200.0, 12, 0.15
VELOCITY = np.array([0.35, 0.0, 0.5])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A textured cube in free flight, whose front face OpenCV draws, and its scene; the camera is 1 m away and looks along +y."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    layers = [cv2.GaussianBlur(rng.standard_normal((96, 96)), (0, 0), s) for s in (1.5, 3, 6)]
    texture = np.clip(128 + 30 * sum(layer / layer.std() for layer in layers), 0, 255).astype(np.float32)
    K = np.array([[FOCAL, 0, SIZE[0] / 2 - 0.5], [0, FOCAL, SIZE[1] / 2 - 0.5], [0, 0, 1]])
    frames = []
    for k in range(FRAMES):
        t = k / 60
        x, z = VELOCITY[[0, 2]] * t - np.array([0, 9.81 / 2]) * t * t
        corners = np.array(
            [[x + a * HALF, -(z + b * HALF), 1.0 - HALF] for a, b in ((-1, 1), (1, 1), (1, -1), (-1, -1))]
        )
        pixels = cv2.projectPoints(corners, np.zeros(3), np.zeros(3), K, None)[0].reshape(-1, 2).astype(np.float32)
        source = np.array([[0, 0], [96, 0], [96, 96], [0, 96]], np.float32) - 0.5
        H = np.diag([4.0, 4, 1]) @ cv2.getPerspectiveTransform(source, pixels + 0.375)
        image = cv2.warpPerspective(texture, H, (640, 480), borderValue=60.0)
        image = cv2.resize(image, SIZE, interpolation=cv2.INTER_AREA) + 1.5 * rng.standard_normal(SIZE[::-1])
        frames.append(np.clip(image, 0, 255).astype(np.uint8))
    videos.write(folder / "clip.webm", np.repeat(np.stack(frames)[..., None], 3, -1), 60)
    cube = {"shape": {"box": {"size": [2 * HALF] * 3}}, "mass": 1.0, "velocity": VELOCITY.tolist()}
    gs.Scene.parse(
        {
            "timing": {"fps": 60, "frames": FRAMES},
            "bodies": {"cube": cube},
            "markers": {
                "a": {"body": "cube", "point": [0.05, -HALF, 0.04]},
                "b": {"body": "cube", "point": [-0.06, -HALF, 0]},
            },
            "camera": {"size": list(SIZE), "focal": FOCAL, "look_at": {"eye": [0, -1, 0], "target": [0, 0, 0]}},
        }
    ).save(folder / "scene.yaml")
    return folder


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def run(inputs, out, *more):
    return main.main(["track", str(inputs / "clip.webm"), "--out", str(out), *more])


def test_markers_of_a_scene_are_tracked_and_fitted(inputs, tmp_path, blank_plots):
    """From film to gravity and velocity: within four standard deviations, and better than 1 %."""
    scene = str(inputs / "scene.yaml")
    assert run(inputs, tmp_path, "--scene", scene) == 0
    table = rows(tmp_path / "tracks.csv")
    assert {row["name"] for row in table} == {"a", "b"} and len(table) == 2 * FRAMES
    assert all(0.01 < float(row["sd"]) < 0.3 for row in table) and (tmp_path / "overlay.webm").is_file()
    arguments = [
        "--unknown",
        "gravity.z:-20:-5",
        "cube.velocity.z:-1:2",
        "--starts",
        "2",
        "--out",
        str(tmp_path / "fit"),
    ]
    assert main.main(["fit", scene, "--tracks", str(tmp_path / "tracks.csv"), *arguments]) == 0
    unknowns = json.loads((tmp_path / "fit" / "result.json").read_text())["unknowns"]
    for name, truth in (("gravity.z", -9.81), ("cube.velocity.z", 0.5)):
        assert abs(unknowns[name]["value"] - truth) < 4 * unknowns[name]["std"] < 0.04 * abs(truth)


def test_chosen_points_become_markers_on_the_body(inputs, tmp_path):
    """Their rays meet the front face, y = -0.15 m, where OpenCV's projection of the markers gives the pixels back."""
    assert run(inputs, tmp_path, "--scene", str(inputs / "scene.yaml"), "--auto", "5") == 0
    scene, table = gs.Scene.load(tmp_path / "scene.yaml"), rows(tmp_path / "tracks.csv")
    first = {row["name"]: [float(row["u"]), float(row["v"])] for row in table if row["frame"] == "0"}
    assert first and set(first) <= set(scene.markers) and {"a", "b"} <= set(scene.markers)
    for name, pixel in first.items():
        x, y, z = scene.markers[name].point
        assert abs(y + HALF) < 1e-9
        assert np.allclose([FOCAL * x / (1 + y) + SIZE[0] / 2, -FOCAL * z / (1 + y) + SIZE[1] / 2], pixel, atol=1e-3)


def test_clicks_on_markers_become_priors_of_their_places(inputs, tmp_path, capsys):
    """0.8 px at 1 m and a focal length of 200 px are 4 mm; the drift is that of the patch alone."""
    u, v = 80 + 200 * 0.05 / 0.85, 60 - 200 * 0.04 / 0.85
    more = ("--points", f"a={u},{v}", "--scene", str(inputs / "scene.yaml"), "--click", "0.8")
    assert run(inputs, tmp_path, *more) == 0
    scene = gs.Scene.load(tmp_path / "scene.yaml")
    assert scene.priors["markers.a.point.x"] == (0.05, 0.004) and scene.priors["markers.a.point.z"] == (0.04, 0.004)
    assert not any("markers.b" in name for name in scene.priors)
    assert "scene to fit, with priors of the clicks" in capsys.readouterr().out
    assert float(rows(tmp_path / "tracks.csv")[0]["drift"]) == 0


def test_clicks_without_a_scene_are_a_drift_of_the_whole_track(inputs, tmp_path):
    assert run(inputs, tmp_path, "--points", "p=91,50", "--click", "0.8") == 0
    assert all(float(row["drift"]) >= 0.8 for row in rows(tmp_path / "tracks.csv"))


def test_stated_points_need_no_scene(inputs, tmp_path, capsys):
    assert run(inputs, tmp_path, "--points", "spot=80,60", "--radius", "6", "--frame", "2") == 0
    table = rows(tmp_path / "tracks.csv")
    assert table[0]["frame"] == "2" and (table[0]["u"], table[0]["v"]) == ("80.0000", "60.0000")
    assert "spot: frames 2 to 11" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more, words",
    [
        ((), "no points to track; give --points"),
        (("--points", "a=80,60", "--auto", "3"), "got --points and --auto"),
        (("--points", "80,60"), "expected NAME=U,V in px"),
        (("--points", "a=80"), "expected U,V in px"),
        (("--points", "a=80,60", "a=81,60"), "names `a` twice"),
        (("--points", "a=80,60", "--frame", "11"), "--frame is 11; the video has 12 frames"),
        (("--points", "a=80,60", "--radius", "1"), "--radius is 1; expected 4 to 40 px"),
        (("--points", "a=80,60", "--region", "1,1,5,5"), "--region is for --auto"),
        (("--points", "p=91,50", "--click", "-1"), "--click is -1; expected 0 to 20 px"),
        (("--auto", "0"), "--auto is 0"),
        (("--auto", "3", "--region", "1,2"), "expected X,Y,W,H in px"),
        (("--points", "a=10,10"), "has no texture"),
    ],
)
def test_mistakes_are_refused_with_the_way_out(inputs, tmp_path, capsys, more, words):
    assert run(inputs, tmp_path / "out", *more) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "out").exists()
