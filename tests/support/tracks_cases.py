"""A cube in free flight in closed form, seen by a pinhole that is not ours, and files of its tracks."""

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.scene import Scene

FPS, FRAMES, FOCAL, SIZE = 60, 30, 500.0, (640, 480)
EYE, TARGET = np.array([0.3, -3.0, 1.2]), np.array([0.0, 0.0, 1.0])
START, VELOCITY, SPIN = np.array([-0.4, 0.1, 1.0]), np.array([1.2, -0.2, 2.5]), np.array([2.0, 5.0, -3.0])
CORNERS = {"a": [0.05, 0.05, 0.05], "b": [-0.05, 0.05, 0.05], "c": [0.05, -0.05, 0.05], "d": [0.02, -0.05, -0.03]}
TRUTH = {"gravity.z": -9.81, "cube.velocity.x": 1.2, "cube.velocity.z": 2.5, "cube.angular_velocity.y": 5.0}
UNKNOWNS = ("gravity.z:-20:-5", "cube.velocity.x:-3:3", "cube.velocity.z:-1:5", "cube.angular_velocity.y:-8:8")


def scene(markers=None, **changes):
    """A cube, whose moments of inertia are alike, so that it spins at a constant rate."""
    cube = {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": 1.0, "position": START.tolist()}
    cube |= {"velocity": VELOCITY.tolist(), "angular_velocity": SPIN.tolist()}
    look = {"eye": EYE.tolist(), "target": TARGET.tolist()}
    return Scene.parse(
        {
            "timing": {"fps": FPS, "frames": FRAMES},
            "bodies": {"cube": cube},
            "markers": markers or {name: {"body": "cube", "point": point} for name, point in CORNERS.items()},
            "camera": {"size": list(SIZE), "focal": FOCAL, "look_at": look},
            **changes,
        }
    )


def thrown(frames=FRAMES):
    """Positions (frames, markers, 3) [m] of the corners in free fall, in closed form."""
    t = np.arange(frames) / FPS
    center = START + VELOCITY * t[:, None] - np.array([0, 0, 9.81 / 2]) * t[:, None] ** 2
    turns = Rotation.from_rotvec(SPIN * t[:, None])
    return np.stack([center + turns.apply(point) for point in CORNERS.values()], 1)


def seen_from(points):
    """Pixels of points by a pinhole at EYE that looks at TARGET, z up."""
    forward = (TARGET - EYE) / np.linalg.norm(TARGET - EYE)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    place = (points - EYE) @ np.stack([right, np.cross(forward, right), forward]).T
    return FOCAL * place[..., :2] / place[..., 2:] + np.array(SIZE) / 2


def table(path, positions, columns="frame,name,u,v,sd", sd="0.4"):
    """A file of tracks, without the rows that are NaN."""
    rows = [
        ",".join([str(k), name, *map(repr, map(float, position)), sd])
        for k, frame in enumerate(positions)
        for name, position in zip(CORNERS, frame, strict=True)
        if np.isfinite(position).all()
    ]
    path.write_text("\n".join([columns, *rows]) + "\n")
    return path
