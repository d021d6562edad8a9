"""Scenes of rigid bodies and joints for the tests."""

import copy
from typing import Any

BOX = {"box": {"size": [0.4, 0.1, 0.08]}}
TREE: dict[str, Any] = {
    "bodies": {
        "hand": {"shape": BOX, "mass": 0.5},
        "base": {
            "shape": BOX,
            "mass": 2.0,
            "position": [0.1, -0.2, 1.0],
            "rotation_vector": [0.3, 0.2, -0.4],
            "velocity": [1.0, 0.2, 0.3],
            "angular_velocity": [0.5, -1.0, 0.7],
        },
        "arm": {"shape": BOX, "mass": 1.0, "scale": 1.3, "quat_xyzw": [0.5, 0.5, 0.5, 0.5]},
        "slider": {"shape": BOX, "density": 300.0},
        "plate": {"shape": BOX, "mass": 1.0, "inertia": [0.01, 0.02, 0.025], "centre_of_mass": [0.01, 0.02, 0.03]},
    },
    "joints": {
        "wrist": {
            "kind": "ball",
            "between": ["arm", "hand"],
            "parent_point": [0.2, 0, 0],
            "child_point": [-0.2, 0.01, 0],
            "rotation_vector": [0.3, 0.4, 0.5],
            "angular_velocity": [1.0, 2.0, 3.0],
            "damping": 0.02,
        },
        "elbow": {
            "kind": "revolute",
            "between": ["base", "arm"],
            "axis": [1, 2, 3],
            "parent_point": [0.2, 0.05, 0],
            "child_point": [-0.2, 0, 0],
            "angle": "200 deg",
            "rate": -2.0,
            "stiffness": 1.0,
            "target": 0.1,
            "upper": 1.0,
            "limit_stiffness": 10.0,
        },
        "rail": {
            "kind": "prismatic",
            "between": ["base", "slider"],
            "axis": [0, 1, 1],
            "parent_point": [0.2, 0.05, 0],
            "child_point": [-0.2, 0, 0],
            "displacement": 0.3,
            "speed": 0.6,
        },
        "weld": {"kind": "fixed", "between": ["slider", "plate"], "parent_point": [0.2, 0.05, 0]},
    },
}


FOUR_BAR = {
    "gravity": 9.81,
    "bodies": {n: {"shape": BOX, "mass": 1.0} for n in ("crank", "rod", "rocker")},
    "joints": {
        "a": {"kind": "revolute", "between": ["world", "crank"], "axis": [0, 1, 0], "child_point": [-0.2, 0, 0]},
        "b": {
            "kind": "revolute",
            "between": ["crank", "rod"],
            "axis": [0, 1, 0],
            "parent_point": [0.2, 0, 0],
            "child_point": [-0.2, 0, 0],
            "angle": "90 deg",
        },
        "c": {
            "kind": "revolute",
            "between": ["rod", "rocker"],
            "axis": [0, 1, 0],
            "parent_point": [0.2, 0, 0],
            "child_point": [-0.2, 0, 0],
            "angle": "90 deg",
        },
        "d": {
            "kind": "revolute",
            "between": ["world", "rocker"],
            "axis": [0, 1, 0],
            "child_point": [0.2, 0, 0],
            "parent_point": [0.0, 0.0, -0.4],
            "stiffness": 2.0,
        },
    },
}


def tree(**timing) -> dict:
    """Every kind of joint on a free base, with springs, dampers, motors and a limit that is met."""
    content = copy.deepcopy(TREE)
    content |= {"gravity": 9.81, "timing": {"integrator": "rk4", "substeps": 1, "frames": 2, **timing}}
    content["joints"]["elbow"] |= {"damping": 0.03, "torque": 0.2, "angle": 1.1, "limit_stiffness": 30.0}
    rail = {"stiffness": 40.0, "target": 0.1, "force": 2.0, "damping": 0.3, "lower": 0.35, "limit_stiffness": 500.0}
    content["joints"]["rail"] |= rail
    return content


def four_bar(**timing) -> dict:
    """A loop that turns, of more rows than the motion needs."""
    content = copy.deepcopy(FOUR_BAR)
    for name, rate in (("a", 1.5), ("b", -1.5), ("c", 1.5)):
        content["joints"][name]["rate"] = rate
    return content | {"gravity": 9.81, "timing": {"integrator": "rk4", "substeps": 1, "frames": 2, **timing}}
