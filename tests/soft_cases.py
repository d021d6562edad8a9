"""Small scenes of soft bodies for the tests."""

from gradsim.scene import Scene

GROUND = {"normal": [0.1, -0.05, 1.0], "stiffness": 300, "dissipation": 0.5, "friction_stiffness": 2, "friction": 0.4}
POST = {"radius": 0.1, "position": [0.12, 0.02, -0.12], "stiffness": 200, "friction_stiffness": 0.2}


def solid(**changes) -> Scene:
    """A turned beam of two materials, pinned along an edge, which swings onto a ground and a ball; 6 frames of 20 steps."""
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [0.3, 0.12, 0.1], "cells": [2, 1, 1]}},
        "density": 900,
        "young": 4000,
        "poisson": 0.3,
        "damping": 3.0,
        "activation": 0.05,
        "position": [0.02, -0.01, 0.1],
        "rotation_vector": [0.3, 0.2, 0.1],
        "velocity": [0.5, 0.2, -1.5],
        "angular_velocity": [2.0, 1.0, -3.0],
        "pinned": ["-x-z"],
        "pushes": [{"impulse": [0.2, 0.1, -0.3]}, {"impulse": [0.0, 0.3, 0.1], "region": "+x"}],
        "regions": {"tip": {"box": [[0, -1, -1], [1, 1, 1]], "density": 600, "young": 2500, "damping": 2}},
        "contact": {"friction": 0.3},
        **changes,
    }
    return _scene({"beam": {key: value for key, value in body.items() if value is not None}})


def _scene(bodies) -> Scene:
    camera = {"size": [24, 20], "look_at": {"eye": [0.2, -1.2, 0.3], "target": [0.0, 0, 0.05], "fov": 0.5}}
    timing = {"fps": 50, "frames": 6, "substeps": 20}
    return Scene.parse(
        {
            "gravity": [0.3, -0.2, -9.81],
            "timing": timing,
            "bodies": bodies,
            "ground": GROUND,
            "obstacles": {"post": POST},
            "camera": camera,
        }
    )
