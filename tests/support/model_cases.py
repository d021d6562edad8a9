"""Small scenes for the tests of models: a box that tumbles over a ground or between obstacles, and a pendulum."""

from gradsim.scene import Scene

GROUND = {"stiffness": 2000, "dissipation": 0.5, "friction_stiffness": 20, "friction": 0.4}
PAPER = {"law": "paper", "stiffness": 2000, "damping": 10, "friction_stiffness": 20, "friction": 0.4}
CAMERA = {"size": [24, 20], "look_at": {"eye": [0.2, -1.5, 0.5], "target": [0.1, 0, 0.15], "fov": 0.7}}


def cube(weight=("mass", 2.0), ground=GROUND, gravity=(0.3, -0.2, -9.81), **changes) -> Scene:
    """A box that is pushed, falls 2 cm on a soft ground and tumbles over its corners; 6 frames of 20 steps."""
    body = {
        "shape": {"box": {"size": [0.3, 0.24, 0.18]}},
        weight[0]: weight[1],
        "scale": 0.9,
        "position": [0.01, -0.02, 0.21],
        "rotation_vector": [0.3, 0.4, 0.1],
        "velocity": [1.0, 0.2, -1.5],
        "angular_velocity": [2.0, 1.0, -3.0],
        "pushes": [
            {"impulse": [0.5, 0.2, -0.1], "point": [-0.1, 0.02, 0.03], "at": 0},
            {"force": [3.0, -2.0, 1.0], "point": [0.05, 0.02, 0.03], "window": [0.013, 0.047]},
        ],
        **changes,
    }
    grounds = {"ground": {"height": 0.01, "normal": [0.1, -0.05, 1.0], **ground}} if ground else {}
    content = {
        "gravity": gravity if isinstance(gravity, float) else list(gravity),
        "timing": {"fps": 50, "frames": 6, "substeps": 20, "integrator": "semi-implicit"},
    }
    return Scene.parse({**content, "bodies": {"cube": body}, "grounds": grounds, "camera": CAMERA})


def pendulum() -> Scene:
    bob = {"kind": "pendulum", "pivot": [0.1, 0.2, 1.0], "string_length": 0.5, "radius": 0.06, "angle": 1.1}
    bob |= {"rate": -0.7, "damping": 0.2, "drag": 0.1, "plane": [1.0, 0.5, 0.0], "rod_radius": 0.01}
    bob |= {"force_per_mass": [0.8, -0.5, 0.3]}
    return Scene.parse({"timing": {"fps": 20, "frames": 6, "substeps": 20}, "bodies": {"bob": bob}})


def cluttered() -> Scene:
    """The box with a friction of its own, between a ground with a margin, a ball and a box, by a clock that is off."""
    content = cube(ground={**GROUND, "margin": 0.01}, friction=0.3, stiffness=2500).model_dump(exclude_unset=True)
    content["timing"] |= {"rate": 1.1, "offset": 0.013}
    content["bodies"]["cube"]["pushes"] = content["bodies"]["cube"]["pushes"][:1]
    contact = {"stiffness": 3000, "dissipation": 0.4, "friction_stiffness": 15, "margin": 0.004}
    content["obstacles"] = {
        "post": {"radius": 0.1, "position": [0.2, 0.03, 0.02], **contact},
        "step": {
            "size": [0.2, 0.3, 0.1],
            "position": [-0.1, -0.1, 0.06],
            "rotation_vector": [0.2, -0.1, 0.4],
            **contact,
        },
    }
    return Scene.parse(content)
