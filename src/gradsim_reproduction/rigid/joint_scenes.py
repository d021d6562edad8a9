"""Random scenes for joint identification: a thrown body, a known push, a ground, a camera.

Shape, size, start and push are drawn without regard to the true parameters. What makes a scene tell something about all
of mass, stiffness, damping and both frictions is the recipe, the same for all: a known off-centre push, a tilted start,
a drop from a low height, and spin.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gradsim.geometry import mesh as meshes
from gradsim.numerics import rotation
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene
from gradsim.scene.body import Rigid

CONVEX = ("box", "sphere", "cylinder", "cone", "capsule")
OTHER = ("torus", "mesh")
LAWS = ("continuous", "paper")
SIZES = 0.3, 1.0  # [m] largest extent of a body
FPS = 30
SUBSTEPS = 64  # per frame; targets of `--foreign` take four times as many
# Equal loss: a bounce at 1.5 m/s of the mean mass on the mean stiffness loses as much with dissipation a as with
# damping k_d, to first order (1 − e = π k_d / (2 √(k m)) and 2/3 a v).
DAMPING = {"paper": "ground.damping:1:200", "continuous": "ground.dissipation:1e-3:0.2"}
BRACKET = ((0, 0), (1, 0), (1, 0.35), (0.35, 0.35), (0.35, 1), (0, 1))  # outline of the L that comes from a mesh file


@dataclass(frozen=True)
class Case:
    """One scene to be identified.

    Args:
        name: Law, shape and number.
        scene: All that the fit knows.
        unknowns: Unknowns, NAME:LOW:HIGH.
    """

    name: str
    scene: Scene
    unknowns: tuple[str, ...]


def case(law: str, shape: str, number: int, seed: int, folder: Path) -> Case:
    """The `number`-th scene of a law and a shape; a mesh file goes into `folder`."""
    kinds = (*CONVEX, *OTHER)
    rng = np.random.default_rng([seed, number, LAWS.index(law), kinds.index(shape)])
    size = rng.uniform(*SIZES)
    axis = rng.standard_normal(3)
    turn = axis / np.linalg.norm(axis) * rng.uniform(0.3, 2.5)
    heading = rng.uniform(-0.5, 0.5)
    along = np.array([math.cos(heading), math.sin(heading), 0.0])
    body = {
        "shape": _shape(shape, size, rng, folder),
        "mass": 7.0,
        "rotation_vector": turn.tolist(),
        "velocity": (along * rng.uniform(0.0, 1.0)).tolist(),
        "angular_velocity": rng.uniform(-3, 3, 3).tolist(),
        "colour": [0.16, 0.28, 0.62],
    }
    drop, x = rng.uniform(0.02, 0.3), rng.uniform(-1.0, -0.6)
    impulse = along * rng.uniform(4, 6) + np.array([0, 0, rng.uniform(-2.0, 0.5)])
    arm = rng.uniform(-0.25, 0.25, 3) * size
    body["pushes"] = [{"impulse": impulse.tolist(), "point": arm.tolist(), "at": 0}]
    damping = {"damping": 50} if law == "paper" else {"dissipation": 0.05}
    content = {
        "name": f"{shape} {number}, {law}",
        "gravity": 9.81,
        "timing": {
            "fps": FPS,
            "frames": int(rng.integers(30, 46)),
            "substeps": SUBSTEPS,
            "integrator": "semi-implicit",
        },
        "bodies": {"body": {**body, "position": [x, 0, 0]}},
        "ground": {"law": law, "stiffness": 1e5, **damping, "friction_stiffness": 50, "friction": 0.5},
        "camera": _camera(size),
        "background": [0.88, 0.88, 0.86],
    }
    height = drop - _lowest(Scene.parse(content))
    content["bodies"]["body"]["position"] = [x, 0.0, height]
    unknowns = (
        "body.mass:2:12",
        "ground.stiffness:2e4:5e5",
        DAMPING[law],
        "ground.friction_stiffness:1:200",
        "ground.friction:0.2:1",
    )
    return Case(f"{law} {shape} {number}", Scene.parse(content), unknowns)


def _shape(kind: str, size: float, rng: np.random.Generator, folder: Path) -> dict:
    """A shape whose largest extent is `size`; coarse, since every vertex is a contact point."""
    if kind == "box":
        return {"box": {"size": (size * np.array([1.0, *rng.uniform(0.5, 0.9, 2)])).tolist()}}
    if kind == "sphere":
        return {"sphere": {"radius": size / 2, "subdivisions": 2}}
    if kind == "cylinder":
        return {"cylinder": {"radius": size * rng.uniform(0.25, 0.45), "height": size, "segments": 16}}
    if kind == "cone":
        return {"cone": {"radius": size * rng.uniform(0.3, 0.5), "height": size, "segments": 16}}
    if kind == "capsule":
        radius = size * rng.uniform(0.2, 0.35)
        return {"capsule": {"radius": radius, "height": size - 2 * radius, "segments": 12, "rings": 3}}
    if kind == "torus":
        tube = size * rng.uniform(0.1, 0.2)
        ring = {"radius": size / 2 - tube, "tube_radius": tube, "segments": 16, "tube_segments": 8}
        return {"torus": ring}
    path = folder / "bracket.obj"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as draft:
            draft.write_text(bracket())
    return {"mesh": {"file": str(path), "scale": size}}


def bracket(thickness: float = 0.5) -> str:
    """An L of unit length as the text of an obj file."""
    n = len(BRACKET)
    lines = [f"v {x} {y} {z}" for z in (0, thickness) for x, y in BRACKET]
    caps = ((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5))  # seen from +z, counter-clockwise
    faces = [(c, b, a) for a, b, c in caps] + [tuple(n + k for k in cap) for cap in caps]
    for k in range(n):
        j = (k + 1) % n
        faces += [(k, j, n + j), (k, n + j, n + k)]
    return "\n".join([*lines, *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces)]) + "\n"


def _camera(size: float) -> dict:
    away = 2.6 + 2.4 * size
    look = {"eye": [0.3, -away, 0.25 * away], "target": [0.3, 0.0, 0.3 * size + 0.1], "fov": "45 deg"}
    return {"size": [64, 64], "look_at": look}


def _lowest(scene: Scene) -> float:
    """Height of the lowest vertex over the centre of mass [m], as the body is turned at the start."""
    body = scene.bodies["body"]
    assert isinstance(body, Rigid)
    mesh = body.shape.mesh()
    one = torch.tensor(1.0).double()
    centre = meshes.mass_properties(torch.tensor(mesh.vertices), torch.tensor(mesh.faces), one).centre
    turn = rotation.exponential(torch.tensor(body.rotation_vector).double())
    low = rotation.rotate(turn.expand(len(mesh.vertices), 4), torch.tensor(mesh.vertices) - centre)[:, 2].min().item()
    return min(low, -body.shape.sphere.radius) if body.shape.sphere else low
