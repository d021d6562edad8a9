"""A ball that rolls and slows down, filmed by NumPy from a closed form as h264: friction against rolling, and what its lack looks like."""

import numpy as np
import pytest

import gradsim as gs
from gradsim import video
from gradsim.errors import Status

WIDTH, HEIGHT, FPS, FRAMES = 320, 240, 30, 50
RADIUS, SPEED, LEVER, PIXELS = 0.11, 1.4, 0.004, 100  # m, m/s, m, px/m
UNKNOWNS = ["ball.position.x:-1.4:-1", "ball.velocity.x:0.8:2", "ball.angular_velocity.y:5:20"]


def film(path) -> None:
    """x = v t - ½ a t²,   a = 5/7 δ g/r."""
    rng = np.random.default_rng(0)
    column, row = np.meshgrid(np.arange(WIDTH) + 0.5, np.arange(HEIGHT) + 0.5)
    wall = np.repeat((150 + 20 * np.sin(column / 17) * np.cos(row / 23))[..., None], 3, 2)
    frames = []
    for t in np.arange(FRAMES) / FPS:
        x = -1.2 + SPEED * t - 0.5 * (5 / 7 * LEVER * 9.81 / RADIUS) * t**2
        away = np.hypot(column - WIDTH / 2 - PIXELS * x, row - HEIGHT / 2 - 0.5 * PIXELS)
        disc = np.clip(PIXELS * RADIUS + 0.5 - away, 0, 1)[..., None]
        image = wall * (1 - disc) + np.array([200, 40, 30]) * disc + rng.normal(0, 2, wall.shape)
        frames.append(image.round().clip(0, 255).astype(np.uint8))
    video.write_preview(path, np.stack(frames), FPS)


def scene(ground: dict) -> gs.Scene:
    ball = {"shape": {"sphere": {"radius": RADIUS}}, "mass": 1, "position": [-1.2, 0, -0.5], "velocity": [SPEED, 0, 0]}
    camera = {"size": [WIDTH, HEIGHT], "look_at": {"eye": [0, -8, 0], "target": [0, 0, 0]}, "focal": 800}
    timing = {"fps": FPS, "frames": FRAMES}
    ground = {"height": -0.5 - RADIUS, **ground}
    return gs.Scene.parse({"timing": timing, "bodies": {"ball": ball}, "camera": camera, "ground": ground})


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_friction_against_rolling_is_found_and_missed(tmp_path):
    path = str(tmp_path / "roll.mp4")
    film(path)
    fit = lambda ground, more: gs.identify(
        scene(ground), [*UNKNOWNS, *more], gs.Clip(path, background="median"), starts=4
    )
    plain = fit({}, [])
    assert plain.status == Status.MISMATCH and plain.residual_diagnostics is not None
    assert "if it rolls, `rolling_friction: 0.001` under `ground:`" in plain.residual_diagnostics.words
    resisted = fit({"rolling_friction": 1e-3}, ["ground.rolling_friction:1e-4:0.05"])
    lever = resisted.unknowns["ground.rolling_friction"]
    assert resisted.status == Status.OK
    assert abs(lever.value - LEVER) < 3 * lever.std and lever.std < 0.02 * LEVER
