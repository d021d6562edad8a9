"""Rotations of a scene's bodies and surfaces."""

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation


def orientation_of(node: Any) -> Rotation:
    """Orientation of a node of a scene, exp(rotation_vector) quat_xyzw."""
    turn = Rotation.from_quat(node.quat_xyzw)
    return Rotation.from_rotvec(node.rotation_vector) * turn if any(node.rotation_vector) else turn


def turn_to(normal: np.ndarray) -> Rotation:
    """Shortest rotation that turns z to a unit vector; half a turn about x for −z."""
    axis = np.array([-normal[1], normal[0], 0.0])
    sine = float(np.linalg.norm(axis))
    if sine == 0:
        return Rotation.from_rotvec([np.pi if normal[2] < 0 else 0.0, 0, 0])
    return Rotation.from_rotvec(axis / sine * np.arctan2(sine, normal[2]))
