"""Small problems for the tests of `identify`: a swinging ball and a pushed box, filmed by few pixels."""

from collections.abc import Mapping, Sequence

import torch

from gradsim.identification import synthetic
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.scene import Scene

SWING = ("bob.string_length:0.35:0.6", "bob.angle:0.5:1.2")
SWING_TRUTH = {"bob.string_length": 0.47, "bob.angle": 0.83}
THROW = ("cube.mass:1:8", "cube.velocity.x:-1:3")
THROW_TRUTH = {"cube.mass": 3.1, "cube.velocity.x": 0.9}


def swing(frames: int = 8, size: int = 24) -> Scene:
    """A ball on a thread that is not drawn, from the side."""
    bob = {"kind": "pendulum", "pivot": [0, 0, 1], "string_length": 0.5, "radius": 0.12, "angle": 1.0, "rod_radius": 0}
    look = {"eye": [0.2, -2.5, 0.7], "target": [0.2, 0, 0.7], "fov": 0.6}
    return Scene.parse(
        {
            "timing": {"fps": 10, "frames": frames, "substeps": 16},
            "bodies": {"bob": bob},
            "camera": {"size": [size, size], "look_at": look},
            "background": [1, 1, 1],
        }
    )


def throw(frames: int = 8, size: int = 24, **changes) -> Scene:
    """A box in free flight that a known blow turns and speeds up."""
    box = {
        "shape": {"box": {"size": [0.5, 0.4, 0.3]}},
        "mass": 4.0,
        "position": [-0.4, 0, 0.6],
        "colour": [0.1, 0.2, 0.6],
        "pushes": [{"impulse": [2.0, 0.5, 6.0], "point": [-0.2, 0.1, 0.05], "at": 0}],
        **changes,
    }
    look = {"eye": [0.2, -4.0, 0.8], "target": [0.2, 0, 0.8], "fov": 0.7}
    return Scene.parse(
        {
            "timing": {"fps": 20, "frames": frames, "substeps": 8},
            "bodies": {"cube": box},
            "camera": {"size": [size, size], "look_at": look},
            "background": [1, 1, 1],
        }
    )


def recorded(scene: Scene, unknowns: Sequence[str], truth: Mapping[str, float]) -> Problem:
    """The fit of these unknowns to float silhouettes of the motion with their true values."""
    model, trajectory = synthetic.simulate(scene, unknowns, truth)
    return Problem(model, synthetic.float_masks(scene, trajectory), Space(scene, unknowns))


def true_inner(problem: Problem, truth: Mapping[str, float]) -> torch.Tensor:
    """What the solver moves, at the truth (1, unknowns)."""
    return problem.space.inner(torch.tensor([[truth[n] for n in problem.space.names]], dtype=torch.float64))


def swinging() -> Problem:
    return recorded(swing(), SWING, SWING_TRUTH)


def thrown() -> Problem:
    return recorded(throw(), THROW, THROW_TRUTH)


def tossed() -> Model:
    """A box that slides on a soft ground, without a camera that sees it."""
    box = {"shape": {"box": {"size": [0.3, 0.24, 0.18]}}, "mass": 2.0, "position": [0, 0, 0.1], "velocity": [1.5, 0, 0]}
    ground = {"stiffness": 4000, "dissipation": 0.5, "friction_stiffness": 40, "friction": 0.3}
    timing = {"fps": 50, "frames": 12, "substeps": 40}
    return Model(Scene.parse({"gravity": 9.81, "timing": timing, "bodies": {"cube": box}, "ground": ground}))
