"""Small scenes of soft bodies for the tests."""

from gradsim.scene import Scene

GROUND = {
    "height": 0.01,
    "margin": 0.004,
    "normal": [0.1, -0.05, 1.0],
    "stiffness": 300,
    "dissipation": 0.5,
    "friction_stiffness": 2,
    "friction": 0.4,
}
POST = {"radius": 0.1, "position": [0.12, 0.02, -0.11], "stiffness": 200, "friction_stiffness": 0.2}


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
        "pushes": [
            {"impulse": [0.2, 0.1, -0.3], "point": [0.02, 0.01, -0.01]},
            {"impulse": [0.0, 0.3, 0.1], "region": "+x"},
        ],
        "regions": {"tip": {"box": [[0, -1, -1], [1, 1, 1]], "density": 600, "young": 2500, "damping": 2}},
        "contact": {"friction": 0.3},
        **changes,
    }
    return _scene({"beam": {key: value for key, value in body.items() if value is not None}})


def cloth(**changes) -> Scene:
    """A turned sheet, pinned at a corner and held at another, in the wind; it falls onto a ground and a ball."""
    body = {
        "kind": "cloth",
        "shape": {"grid": {"size": [0.3, 0.2], "cells": [3, 2]}},
        "density": 0.5,
        "mu": 30,
        "lam": 40,
        "damping": 0.05,
        "activation": 0.04,
        "bending": 2e-3,
        "bending_damping": 1e-5,
        "bending_activation": 0.1,
        "air": {"drag": 1.3, "lift": 0.6, "wind": [1.0, -2.0, 0.5]},
        "position": [0.05, -0.01, 0.04],
        "rotation_vector": [0.2, 0.1, 0.3],
        "velocity": [0.3, 0.2, -1.5],
        "angular_velocity": [2.0, 1.0, -3.0],
        "pinned": ["-x-y"],
        "anchors": [
            {"region": "+x+y", "stiffness": 5, "damping": 0.02, "offset": [0.02, 0.0, 0.03]},
            {"along": [0.2, -0.5, 1.0], "stiffness": 2, "damping": 0.01, "offset": [0.0, 0.0, -0.01]},
        ],
        "pushes": [{"impulse": [0.02, 0.01, -0.03], "region": "+x"}],
        "contact": {"friction": 0.3},
        **changes,
    }
    return _scene({"flag": {key: value for key, value in body.items() if value is not None}}, softer=0.05)


def net(**changes) -> Scene:
    """A turned net of springs, shorter at rest than drawn, pinned at a corner; it falls onto a ground and a ball."""
    body = {
        "kind": "springs",
        "shape": {"net": {"size": [0.3, 0.2], "cells": [3, 2]}},
        "mass": 0.05,
        "stiffness": 25,
        "damping": 0.02,
        "rest_length_factor": 0.9,
        "radius": 0.01,
        "position": [0.05, -0.01, 0.04],
        "rotation_vector": [0.2, 0.1, 0.3],
        "velocity": [0.3, 0.2, -1.5],
        "angular_velocity": [2.0, 1.0, -3.0],
        "pinned": ["-x-y"],
        "anchors": [{"region": "+x+y", "stiffness": 5, "damping": 0.02}],
        "pushes": [{"impulse": [0.02, 0.01, -0.03]}],
        **changes,
    }
    return _scene({"net": {key: value for key, value in body.items() if value is not None}}, softer=0.05)


def _scene(bodies, softer: float = 1.0) -> Scene:
    camera = {"size": [24, 20], "look_at": {"eye": [0.2, -1.2, 0.3], "target": [0.0, 0, 0.05], "fov": 0.5}}
    timing = {"fps": 50, "frames": 6, "substeps": 20}
    soft = lambda contact: {
        key: value * softer if key in ("stiffness", "friction_stiffness") else value for key, value in contact.items()
    }
    return Scene.parse(
        {
            "gravity": [0.3, -0.2, -9.81],
            "timing": timing,
            "bodies": bodies,
            "ground": soft(GROUND),
            "obstacles": {"post": soft(POST)},
            "camera": camera,
        }
    )
