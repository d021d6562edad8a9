"""`gradsim camera --refine`, through the command line, on a clip of a disc that other code draws."""

import re

import numpy as np
import pytest
from wavy_ball import ANGLES, DISTANCE, FOCAL, HEIGHT, RADIUS, START, WIDTH, centres, masks

from gradsim import video
from gradsim.app.cli import main
from gradsim.scene import Scene

FRAMES, TRUTH = 12, (1.0, 3.2, -9.81)


@pytest.fixture
def files(tmp_path):
    """A clip, and a scene whose camera is 10 % too near and whose ball is 0.1 m off."""
    coverage = masks(centres(FRAMES, TRUTH), np.zeros((FRAMES, ANGLES))).masks.numpy()
    frames = (255 * coverage[..., None].clip(0, 1)).round().astype(np.uint8).repeat(3, -1)
    video.write(tmp_path / "clip.webm", frames, 30)
    scene = Scene.parse(
        {
            "timing": {"fps": 30, "frames": FRAMES},
            "bodies": {
                "ball": {
                    "shape": {"sphere": {"radius": RADIUS}},
                    "mass": 1.0,
                    "position": [START[0] + 0.1, 0, START[1] - 0.1],
                    "velocity": [0.6, 0, 2.9],
                }
            },
            "camera": {
                "size": [WIDTH, HEIGHT],
                "focal": FOCAL,
                "look_at": {"eye": [0, -0.9 * DISTANCE, 0.6], "target": [0, 0, 0.6]},
            },
        }
    )
    scene.save(tmp_path / "rough.yaml")
    (tmp_path / "rough.yaml").write_text("# mine\n" + (tmp_path / "rough.yaml").read_text())
    return tmp_path


def test_camera_and_ball_come_to_where_the_outlines_are(files, capsys):
    arguments = [str(files / "rough.yaml"), "--refine", str(files / "clip.webm"), "--mask", str(files / "clip.webm")]
    assert main.main(["camera", *arguments, "--out", str(files / "fine.yaml")]) == 0
    out = capsys.readouterr().out
    scene = Scene.load(files / "fine.yaml")
    body = scene.bodies["ball"]
    assert -scene.camera.look_at.eye[1] == pytest.approx(DISTANCE, rel=0.01)
    assert (body.position[0], body.position[2]) == pytest.approx(START, abs=0.01)
    assert (body.velocity[0], body.velocity[2]) == pytest.approx(TRUTH[:2], abs=0.05)
    before, after = re.search(r"frames 0 to 7: ([\d.]+) px apart before, ([\d.]+) px after", out).groups()
    assert float(before) > 1 and float(after) < 0.2
    text = (files / "fine.yaml").read_text(encoding="utf-8")
    assert text.startswith("# mine\n#   refined: place, motion, string, distance by least squares on clip.webm")
    assert "next: gradsim fit" in out and f"--unknown ball.position.x:{START[0] - 0.2:.2f}:" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--length", "1", "--points", "1,2,30,4"], "give either --length and --points, or --refine"),
        (["--parts", "lens"], "choose from place, motion"),
        (["--frames", "9:4"], "expected A:B"),
    ],
)
def test_mistakes_are_named(files, capsys, options, words):
    arguments = [str(files / "rough.yaml"), "--refine", str(files / "clip.webm"), "--mask", str(files / "clip.webm")]
    assert main.main(["camera", *arguments, "--out", str(files / "fine.yaml"), *options]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (files / "fine.yaml").exists()
