"""Random scenes of `reproduce twin`: bodies that fly and spin, chains, boxes that drop and slide, and what is filmed."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.scene import Scene

SHAPES = ("box", "sphere", "cylinder", "capsule", "cone")
KINDS = ("revolute", "prismatic", "ball")
CAMERA = {"look_at": {"eye": [0.0, -5.0, 1.5], "target": [0.3, 0.0, 0.6], "fov": "40 deg"}, "size": [96, 72]}
SECONDS = 2.0
COLOUR = [0.9, 0.4, 0.1]  # of all links of a filmed arm, since masks go by one color
FREE, CHAIN, DROP, SLIDE, ARM = range(5)  # streams of random numbers


@dataclass(frozen=True)
class TwinFilm:
    """A film of another engine's motion.

    Args:
        scene: Scene of the fit; its values of the unknowns are not the true ones.
        unknowns: With their ranges.
        truth: True values.
    """

    scene: Scene
    unknowns: tuple[str, ...]
    truth: dict[str, float]


def stream(kind: int, number: int, seed: int) -> np.random.Generator:
    """Random numbers of one scene."""
    return np.random.default_rng([seed, kind, number])


def free_body(number: int, seed: int) -> Scene:
    """A body of any shape that flies and spins, without contact."""
    rng = stream(FREE, number, seed)
    start = {
        "position": rng.uniform(-1, 1, 3).tolist(),
        "velocity": rng.uniform(-2, 2, 3).tolist(),
        "angular_velocity": rng.uniform(-8, 8, 3).tolist(),
    }
    return _scene({"body": _body(rng, SHAPES[number % len(SHAPES)]) | start}, {})


def chain(number: int, seed: int, kinds: tuple[str, ...] = KINDS) -> Scene:
    """Two to four links on joints of random axes, with dampers and springs."""
    rng, bodies, joints = stream(CHAIN, number, seed), {}, {}
    parent = "world"
    for k in range(int(rng.integers(2, 5))):
        name, kind = f"link{k}", kinds[int(rng.integers(len(kinds)))]
        bodies[name] = _body(rng, SHAPES[int(rng.integers(len(SHAPES)))])
        joint = {"kind": kind, "between": [parent, name], "damping": float(rng.uniform(0, 0.05))}
        joint["parent_point"] = rng.uniform(-0.2, 0.2, 3).tolist()
        joint["child_point"] = rng.uniform(-0.2, 0.2, 3).tolist()
        if kind != "ball":
            joint["axis"] = rng.standard_normal(3).tolist()
            joint["stiffness"] = float(rng.uniform(5, 20))
        if kind == "revolute":
            joint["angle"] = float(rng.uniform(-1, 1))
        joints[f"joint{k}"], parent = joint, name
    return _scene(bodies, joints)


def drop(number: int, seed: int, law: str = "paper") -> Scene:
    """A box that falls on a ground of a law, `paper` or `continuous`, with a sideways speed, bounces, slides and comes to rest."""
    rng = stream(DROP, number, seed)
    body = {
        "shape": {"box": {"size": rng.uniform(0.15, 0.3, 3).tolist()}},
        "mass": float(rng.uniform(0.5, 4)),
        "position": [-0.8, 0.0, float(rng.uniform(0.3, 0.8))],
        "velocity": [float(rng.uniform(0.5, 2)), 0.0, 0.0],
        "quat_xyzw": Rotation.from_rotvec(rng.uniform(-0.4, 0.4, 3)).as_quat().tolist(),
    }
    ground = {"stiffness": float(rng.uniform(5e3, 3e4)), "friction": float(rng.uniform(0.2, 0.6))}
    ground |= {"law": law, "friction_stiffness": 100.0}
    ground |= (
        {"damping": float(rng.uniform(20, 80))} if law == "paper" else {"dissipation": float(rng.uniform(0.1, 0.5))}
    )
    return _scene({"box": body}, {}, ground)


def film(number: int, seed: int) -> TwinFilm:
    """In turn a box that is pushed and slides (mass, friction), and an arm (mass of its first link, armature and dry friction of its first joint)."""
    kind = (SLIDE, ARM)[number % 2]
    rng = stream(kind, number, seed)
    if kind == SLIDE:
        scene = drop(1000 + number, seed)
        content = scene.model_dump(exclude_unset=True)
        content["bodies"]["box"] |= {"pushes": [{"impulse": [float(rng.uniform(0.5, 2)), 0.0, 0.0], "at": 0}]}
        unknowns = {"box.mass": (0.5, 4.0), "ground.friction": (0.2, 0.6)}
        scene = Scene.parse(content)
    else:
        content = Scene.library("arm").model_dump(exclude_unset=True)
        for body in content["bodies"].values():
            body["colour"] = COLOUR
        content["joints"]["shoulder"] |= {"armature": 0.05, "friction": 0.2}
        scene = Scene.parse(content)
        unknowns = {
            "upper.mass": (0.6, 2.0),
            "joints.shoulder.armature": (0.01, 0.2),
            "joints.shoulder.friction": (0.05, 0.5),
        }
    truth = {name: float(rng.uniform(*ends)) for name, ends in unknowns.items()}
    return TwinFilm(scene, tuple(f"{name}:{low}:{high}" for name, (low, high) in unknowns.items()), truth)


def _body(rng: np.random.Generator, shape: str) -> dict:
    size = rng.uniform(0.1, 0.4, 3)
    if shape == "box":
        form = {"size": size.tolist()}
    elif shape == "sphere":
        form = {"radius": float(size[0])}
    else:
        form = {"radius": float(size[0] / 2), "height": float(size[1] + size[0])}
    rotation = Rotation.random(random_state=int(rng.integers(2**31)))  # pyright: ignore[reportCallIssue]  `rng` before SciPy 1.15
    turn = rotation.as_quat().tolist()
    return {"shape": {shape: form}, "mass": float(rng.uniform(0.3, 3)), "quat_xyzw": turn, "collision": "none"}


def _scene(bodies: dict, joints: dict, ground: dict | None = None) -> Scene:
    timing = {"fps": 30, "frames": round(30 * SECONDS) + 1, "substeps": 32}
    content = {"bodies": bodies, "joints": joints, "camera": CAMERA, "timing": timing}
    return Scene.parse(content | ({"ground": ground} if ground else {}))
