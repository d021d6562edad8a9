"""A textured ball in a small h264 video of another renderer, from the file to its spin."""

import numpy as np
import pytest

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.observation.clip import Clip
from gradsim.scene import Scene
from gradsim_reproduction.calibration import spin_videos
from gradsim_reproduction.calibration.spin_videos import FPS, RADIUS, SpinTruth, write_spin

SIZE, FRAMES, FOCAL, DISTANCE = (160, 96), 16, 300.0, 2.0
SPIN = np.array([4.0, -9.0, 6.0])
TRUTH = SpinTruth(
    *("patches", (-0.28, 0.0, 0.98), (2.3, 0.0, 1.0), tuple(SPIN.tolist()), FRAMES, FOCAL, (0.0, -DISTANCE, 1.0)),
    *(0.004, 16, (0.5, -0.6, 0.6), 0.01, 5),
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_spin_and_motion_come_from_a_file(tmp_path, monkeypatch):
    """Errors of the codec are within what is stated, which no single ball tests closer than 4 standard deviations."""
    monkeypatch.setattr(spin_videos, "SIZE", SIZE)
    path = write_spin(TRUTH, tmp_path / "ball.mp4")
    ball = {"kind": "rigid", "shape": {"sphere": {"radius": RADIUS}}, "mass": 0.4}
    look = {"eye": list(TRUTH.eye), "target": [0, 0, 1]}
    scene = Scene.parse(
        {
            "timing": {"fps": FPS, "frames": FRAMES},
            "gravity": [0, 0, -9.81],
            "camera": {"size": list(SIZE), "look_at": look, "focal": f"{FOCAL} px"},
            "bodies": {"ball": ball},
        }
    )
    ranges = {"position.x": (-0.4, -0.1), "position.z": (0.9, 1.1), "velocity.x": (1.5, 3.0), "velocity.z": (0.2, 2.0)}
    ranges |= {f"angular_velocity.{axis}": (-15.0, 15.0) for axis in "xyz"}
    unknowns = [f"ball.{name}:{low}:{high}" for name, (low, high) in ranges.items()]
    clip = Clip(path, background="mog2", noise="auto")
    fit = gs.identify(scene, unknowns, clip, starts=4, seed=0, known_numbers=False, observe="pictures")
    assert fit.status == Status.OK and fit.outline["size"] < 0.6
    errors = [fit.unknowns[f"ball.angular_velocity.{axis}"] for axis in "xyz"]
    off = np.array([e.value for e in errors]) - SPIN
    assert np.linalg.norm(off) < 0.05 * np.linalg.norm(SPIN)
    assert (np.abs(off) < 4 * np.array([e.std for e in errors])).all()
