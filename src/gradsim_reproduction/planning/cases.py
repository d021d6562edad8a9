"""Questions of five families (contact, beams, pendulums, arms), with wide choices, drawn by number."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradsim.scene import Scene
from gradsim_reproduction.statistics.verdict_scenes import beam, box, dangle, pendulum

AZIMUTH, ELEVATION = "camera.azimuth=-3:0", "camera.elevation=0.05:1.4"


@dataclass(frozen=True)
class PlanFamily:
    """A kind of question.

    Args:
        scene: Makes the present scene from random numbers in [0, 1].
        body: Whose color masks go by.
        unknowns: NAME:LOW:HIGH.
        want: Name of the wanted one.
        choose: Choices.
    """

    scene: Callable[[np.ndarray], Scene]
    body: str
    unknowns: tuple[str, ...]
    want: str
    choose: tuple[str, ...]


def _longer(scene: Scene, frames: int = 30) -> Scene:
    return scene.model_copy(update={"timing": scene.timing.model_copy(update={"frames": frames})})


def _sliding(x: np.ndarray) -> Scene:
    start = {
        "velocity": [0.3 + 0.5 * x[0], 0.0, 0.0],
        "position": [-0.9, 0.0, 0.2],
        "rotation_vector": [0.1 * x[1], 0.1 * x[2], 0.0],
    }
    return _longer(box({**start, "angular_velocity": [0.0, 0.0, 0.0]}, ground={}))


def _bouncing(x: np.ndarray) -> Scene:
    start = {
        "position": [-0.3, 0.0, 0.4 + 0.2 * x[0]],
        "velocity": [0.3, 0.0, 0.0],
        "angular_velocity": [x[1], 2 * x[2], 0.0],
    }
    return _longer(box(start, ground={"friction": 0.3}))


def _beam(x: np.ndarray) -> Scene:
    return _longer(beam({"damping": 20.0, "young": 2e5 * (1 + x[0])}), 20)


FAMILIES = {
    "sliding box": PlanFamily(
        _sliding, "body", ("ground.friction:0.2:0.8", "ground.stiffness:1e4:1e5"), "ground.friction",
        (AZIMUTH, "camera.distance=2:8", "body.velocity.x=0.3:3"),
    ),
    "bouncing box": PlanFamily(
        _bouncing, "body", ("ground.dissipation:0.05:0.5", "ground.stiffness:1e4:1e5"), "ground.dissipation",
        (AZIMUTH, "camera.distance=2:8", "body.position.z=0.3:1.2"),
    ),
    "beam": PlanFamily(
        _beam, "beam", ("beam.young:1e5:4e5", "beam.damping:10:100"), "beam.damping",
        (AZIMUTH, ELEVATION, "camera.distance=0.8:4"),
    ),
    "pendulum": PlanFamily(
        lambda x: _longer(pendulum(0.3 + 0.3 * x[0])), "bob", ("bob.damping:0.05:0.5", "gravity.z:-12:-8"), "bob.damping",
        (AZIMUTH, "camera.distance=1.5:6", "bob.angle=0.1:1.5"),
    ),
    "arm": PlanFamily(
        lambda x: _longer(dangle(0.3 + 0.3 * x[0])), "link", ("joints.hinge.damping:0.05:0.5", "gravity.z:-12:-8"), "joints.hinge.damping",
        (AZIMUTH, "camera.distance=1.5:6", "joints.hinge.angle=0.1:1.5"),
    ),
}  # fmt: skip
