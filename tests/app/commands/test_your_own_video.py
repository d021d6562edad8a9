"""The example of docs/guides/your_own_video.md: a ball and its shadow as h264, through `gradsim new` and the command that it prints."""

import json
import shlex

import av
import numpy as np
import pytest
from scipy import ndimage

from gradsim.app.cli.main import main

WIDTH, HEIGHT, COUNT, FPS = 160, 120, 18, 30
FOCAL, DISTANCE, RADIUS = 120.0, 2.4, 0.11  # [px], [m], [m]
GRAVITY = 9.81
FINE = 6  # samples along a pixel


def disc(x: float, y: float) -> np.ndarray:
    """Coverage (HEIGHT, WIDTH, 1) by the ball."""
    column, row = ((np.arange(n * FINE) + 0.5) / FINE for n in (WIDTH, HEIGHT))
    inside = (column - x) ** 2 + (row[:, None] - y) ** 2 < (FOCAL * RADIUS / DISTANCE) ** 2
    return inside.reshape(HEIGHT, FINE, WIDTH, FINE).mean((1, 3))[..., None]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    rng = np.random.default_rng(4)
    clutter = ndimage.gaussian_filter(rng.standard_normal((HEIGHT, WIDTH, 3)), (3, 3, 0))
    floor = np.clip([0.6, 0.58, 0.55] + 0.05 * clutter / clutter.std(), 0, 1)
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "20"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for t in np.arange(COUNT) / FPS:
            x = WIDTH / 2 + FOCAL / DISTANCE * (-1.15 + 3.8 * t)
            y = HEIGHT / 2 - FOCAL / DISTANCE * (2.6 * t - GRAVITY / 2 * t**2)
            lit, ball = floor * (1 - 0.4 * disc(x + 3, y + 18)), disc(x, y)
            image = lit * (1 - ball) + np.array([0.8, 0.2, 0.1]) * ball + 0.008 * rng.standard_normal(floor.shape)
            pixels = np.clip(np.rint(255 * image), 0, 255).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "mask", "sd"),
    [
        ("--background", "mog2", 0.03),
        ("--mask", "grabcut:40,32,18,18@4", 0.06),
        ("--mask", "color:40,32,18,18@4", 0.04),
    ],
)
def test_gravity_is_in_its_interval(clip, tmp_path, monkeypatch, capsys, option, mask, sd):
    """Which is no wider than the page says."""
    if "color" not in mask:
        pytest.importorskip("cv2")
    monkeypatch.chdir(tmp_path)
    lengths = ["--size", str(2 * RADIUS), "--focal", str(FOCAL), "--distance", str(DISTANCE), "--no-ground"]
    assert main(["new", str(clip), "--out", "ball.yaml", *lengths, option, mask]) == 0
    command = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("next: gradsim "))
    assert main([*shlex.split(command)[2:], "--json"]) == 0  # ok
    result = json.loads(capsys.readouterr().out)
    gravity = result["unknowns"]["gravity.z"]
    low, high = gravity["interval95"]
    assert low < -GRAVITY < high and gravity["std"] < sd


def test_the_shadow_is_named_where_the_median_takes_it_for_a_body(clip, tmp_path, capsys):
    assert main(["new", str(clip), "--out", str(tmp_path / "ball.yaml"), "--focal", str(FOCAL), "--no-ground"]) == 0
    assert "masks: the mask is in more pieces than there are bodies" in capsys.readouterr().out
    assert (tmp_path / "ball_masks.png").is_file()
