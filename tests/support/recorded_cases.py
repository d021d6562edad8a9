"""Scenes of rigid bodies and joints that follow recordings, for the tests."""

from typing import Any

import numpy as np

BOX = {"box": {"size": [0.4, 0.1, 0.08]}}


def recording(seed: int, samples: int = 5, end: float = 0.08, turns: bool = True) -> dict[str, Any]:
    """A smooth motion through generic poses, up to a time [s]."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0, end, samples) + np.r_[0, rng.uniform(-0.2, 0.2, samples - 2), 0] * end / samples
    positions = rng.normal(size=3) * 0.3 + np.cumsum(rng.normal(size=(samples, 3)) * 0.02, 0)
    q = rng.normal(size=4) + np.cumsum(rng.normal(size=(samples, 4)) * 0.05, 0)
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    motion = {"times": times.tolist(), "positions": positions.tolist()}
    return motion | ({"quats_xyzw": q.tolist()} if turns else {})


def gripper(**timing) -> dict[str, Any]:
    """A body that follows a recording and carries another on a hinge; a base that moves, with a chain of a ball joint and a slide; a
    ball at the first, which it pushes."""
    hand = recording(1)
    at = np.array(hand["positions"][0])
    return {
        "gravity": 9.81,
        "timing": {"integrator": "rk4", "fps": 60, "frames": 4, "substeps": 4, **timing},
        "bodies": {
            "hand": {"shape": {"sphere": {"radius": 0.1}}, "mass": 2.0, "motion": hand},
            "tool": {"shape": BOX, "mass": 1.0, "collision": "none", "pushes": [{"impulse": [0.1, -0.2, 0.3]}]},
            "upper": {"shape": BOX, "mass": 0.7},
            "lower": {"shape": BOX, "mass": 0.4, "inertia": [0.01, 0.02, 0.025]},
            "ball": {
                "shape": {"sphere": {"radius": 0.1}},
                "mass": 0.3,
                "position": (at + [0.0, 0.12, 0.16]).tolist(),
                "velocity": [0.1, 0.0, -1.0],
            },
        },
        "joints": {
            "wrist": {
                "kind": "revolute",
                "between": ["hand", "tool"],
                "axis": [1, 2, 3],
                "parent_point": [0.2, 0.05, 0],
                "child_point": [-0.2, 0, 0],
                "rate": 2.0,
                "damping": 0.02,
            },
            "shoulder": {
                "kind": "ball",
                "between": ["world", "upper"],
                "parent_point": [0.2, 0.1, 0.3],
                "child_point": [-0.2, 0.01, 0],
                "rotation_vector": [0.3, 0.4, 0.5],
                "angular_velocity": [1.0, 2.0, 3.0],
                "motion": recording(2),
            },
            "rail": {
                "kind": "prismatic",
                "between": ["upper", "lower"],
                "axis": [0, 1, 1],
                "parent_point": [0.2, 0.05, 0],
                "stiffness": 40.0,
                "damping": 0.3,
                "speed": 0.6,
            },
        },
        "contacts": {"touch": {"between": ["hand", "ball"], "stiffness": 3000.0, "dissipation": 0.3, "friction": 0.5}},
    }
