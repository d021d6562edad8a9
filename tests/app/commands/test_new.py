"""`gradsim new`, on a clip that other code moves and draws."""

import numpy as np
import pytest
from wavy_ball import ANGLES, DISTANCE, FOCAL, HEIGHT, RADIUS, START, WIDTH, centres, masks

from gradsim import video
from gradsim.app.commands.new import new
from gradsim.errors import InputError
from gradsim.scene import Scene

TRUTH = (1.0, 3.2, -9.81)
FRAMES = 14


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A red ball before a textured background, with noise of the sensor."""
    rng = np.random.default_rng(5)
    coverage = masks(centres(FRAMES, TRUTH), np.zeros((FRAMES, ANGLES))).masks.numpy()[..., None]
    behind = rng.uniform(0.3, 0.7, (HEIGHT // 6, WIDTH // 6, 3)).repeat(6, 0).repeat(6, 1)
    image = (
        behind * (1 - coverage) + np.array([0.8, 0.1, 0.1]) * coverage + rng.normal(0, 0.01, (*coverage.shape[:3], 3))
    )
    path = tmp_path_factory.mktemp("clip") / "ball.webm"
    frames = (image.clip(0, 1) * 255).round().astype(np.uint8)
    video.write(path, frames, 30)
    empty = path.with_name("empty.png")
    from PIL import Image

    Image.fromarray((behind * 255).round().astype(np.uint8)).save(empty)
    return path, empty


def test_a_scene_and_its_picture_are_written(clip, tmp_path):
    path, empty = clip
    out = tmp_path / "my.yaml"
    text = new(path, out, background=str(empty), size=2 * RADIUS, focal=FOCAL, distance=DISTANCE)
    scene = Scene.load(out)
    body = scene.bodies["ball"]
    assert body.position[0] == pytest.approx(START[0], abs=0.03)
    assert body.velocity[0] == pytest.approx(TRUTH[0], abs=0.1) and body.velocity[2] == pytest.approx(TRUTH[1], abs=0.3)
    assert (scene.camera.size, scene.timing.frames, scene.timing.fps) == ((WIDTH, HEIGHT), FRAMES, 30)
    first = out.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("#") and "ball.webm" in first
    assert "codec vp9" in text and "# codec vp9." in out.read_text(encoding="utf-8").splitlines()
    assert (tmp_path / "my.png").stat().st_size > 1000
    command = text.splitlines()[-1]
    assert command.startswith("next: gradsim fit") and "--noise auto" in command and "ball.position.x" in command


def test_masks_by_a_rectangle_reach_the_scene_and_the_next_command(clip, tmp_path):
    path, _ = clip
    column, row = WIDTH / 2 + FOCAL * START[0] / DISTANCE, HEIGHT / 2 - FOCAL * (START[1] - 0.6) / DISTANCE
    half = round(FOCAL * RADIUS / DISTANCE) + 2
    mask = f"color:{round(column) - half},{round(row) - half},{2 * half},{2 * half}"
    text = new(path, tmp_path / "my.yaml", mask=mask, size=2 * RADIUS, focal=FOCAL, distance=DISTANCE)
    body = Scene.load(tmp_path / "my.yaml").bodies["ball"]
    assert body.position[0] == pytest.approx(START[0], abs=0.03) and body.velocity[2] == pytest.approx(
        TRUTH[1], abs=0.3
    )
    assert f"--mask {mask}" in text.splitlines()[-1] and "--background" not in text


def test_masks_that_cannot_be_right_are_named_and_shown(clip, tmp_path):
    frames = video.read(clip[0]).frames
    mask = ((frames[..., :1] > 1.5 * frames[..., 1:2].clip(1)) * np.uint8(255)).repeat(3, -1)
    mask[4] = 0
    video.write(tmp_path / "mask.webm", mask, 30)
    text = new(clip[0], tmp_path / "my.yaml", mask=tmp_path / "mask.webm")
    (line,) = [line for line in text.splitlines() if line.startswith("masks: ")]
    assert "the mask is empty in frame 4" in line and "my_masks.png. Try " in line
    assert (tmp_path / "my_masks.png").stat().st_size > 1000


def test_nothing_is_overwritten(clip, tmp_path):
    out = tmp_path / "my.yaml"
    out.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        new(clip[0], out)
    assert out.read_text() == "mine"


def test_a_clip_in_which_nothing_moves_is_refused(tmp_path):
    path = tmp_path / "still.webm"
    video.write(path, np.full((5, 32, 32, 3), 128, np.uint8), 30)
    with pytest.raises(InputError):
        new(path, tmp_path / "my.yaml")
    assert not (tmp_path / "my.yaml").exists()
