"""Small scenes of which the information of a video is known, for tests of plans."""

from gradsim.planning import VideoNoise, Weighing
from gradsim.planning.choices import read_choices
from gradsim.planning.question import ask
from gradsim.planning.search import Judge
from gradsim.scene import Scene

SPEED = "ball.velocity.x:0.5:1.5"
LENGTH = "bob.string_length:0.4:0.6"


def flight(distance: float = 4.0, size: int = 64) -> Scene:
    """A ball that flies without weight across the view."""
    return Scene.parse(
        {
            "gravity": [0, 0, 0],
            "timing": {"fps": 10, "frames": 8, "substeps": 4},
            "bodies": {
                "ball": {
                    "shape": {"sphere": {"radius": 0.3, "subdivisions": 3}},
                    "mass": 1.0,
                    "position": [-0.35, 0.013, 0.017],
                    "velocity": [1.0, 0.0, 0.0],
                    "colour": [0, 0, 0],
                }
            },
            "camera": {"size": [size, size], "look_at": {"eye": [0, -distance, 0], "target": [0, 0, 0], "fov": 0.6}},
            "background": [1, 1, 1],
        }
    )


def pendulum() -> Scene:
    return Scene.parse(
        {
            "timing": {"fps": 10, "frames": 12, "substeps": 16},
            "bodies": {
                "bob": {"kind": "pendulum", "pivot": [0, 0, 1], "string_length": 0.5, "radius": 0.12, "angle": 1.0}
            },
            "camera": {"size": [32, 32], "look_at": {"eye": [0.2, -2.5, 0.7], "target": [0.2, 0, 0.7], "fov": 0.6}},
            "background": [1, 1, 1],
        }
    )


def judge(scene: Scene, choices, unknowns, want, weigh=(), noise=None, criterion="sd") -> Judge:
    weighings = [one for one in weigh if isinstance(one, Weighing)]
    question = ask(scene, [want], unknowns, [], weighings, 4, 0)
    return Judge(question, read_choices(scene, choices), list(weigh), noise or VideoNoise(), criterion)
