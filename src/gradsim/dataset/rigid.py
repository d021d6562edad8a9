"""Rigid samples: an object, stretched along its axes, is dropped on a ground with spin and a known push.

The scene does not depend on the truth. Mass, stiffness, damping and both frictions are observable because every scene
has a known off-centre push (the mass is observable from a known force only), a tilted start, a drop from a low height,
and spin.

Steps per frame of a rigid body on a ground, from the stability bound at the worst corner of the ranges.

Where a set T of contact points touches a plane of normal n, a small motion y = (x, θ) of the body obeys

    M ÿ + D ẏ + K y = 0,   K = k_e Σ (Jᵢᵀ n)(Jᵢᵀ n)ᵀ,   D = Σ Jᵢᵀ (k_d n nᵀ + k_f (1 − n nᵀ)) Jᵢ,   Jᵢ = (1, −[rᵢ]×)

by the paper's law. Explicit steps h of it are stable below

    λ(M⁻¹K) h² + 2 λ(M⁻¹D) h = 4

with the largest eigenvalues λ; for n points that only move along a normal, λ is n k_e/m and n k_d/m. It is evaluated over
planes all around the body, each with all points that are in it when the body has sunk in by `STOPPING_DEPTH`.
"""

import math

import numpy as np
import torch

from gradsim.dataset.scene_sampling import SampleScene
from gradsim.geometry import mesh as meshes
from gradsim.geometry.mesh import Mesh
from gradsim.numerics import rotation
from gradsim.scene import Object, Scene

PLANES = 128  # normals evenly over the sphere, in addition to those of the faces
# [m] depth at which the lightest body, on one of its points, stops from 3.5 m/s on the stiffest ground
STOPPING_DEPTH = 0.007
LONGEST_STEP = 0.7  # longest step over the largest stable one


def substeps(
    mesh: Mesh,
    inertia: np.ndarray,
    mass: float,
    stiffness: float,
    damping: float,
    friction_stiffness: float,
    fps: float,
) -> int:
    """Steps per frame, a multiple of 8.

    Args:
        mesh: The body about its centre of mass.
        inertia: About the centre of mass, for a mass of 1 (3, 3) [m²].
        mass: Smallest [kg].
        stiffness: Largest [N/m].
        damping: Largest [N s/m].
        friction_stiffness: Largest [N s/m].
        fps: Frames per second.
    """
    spring, drag = _eigenvalues(mesh, inertia, stiffness, damping, friction_stiffness)
    a, b = spring / mass, 2 * drag / mass
    step = 8 / (b + np.sqrt(b**2 + 16 * a)).max()  # the positive root
    return 8 * math.ceil(1 / (fps * LONGEST_STEP * step) / 8)


def _eigenvalues(mesh: Mesh, inertia: np.ndarray, stiffness: float, damping: float, friction: float) -> tuple:
    """Largest eigenvalues of M⁻¹K and M⁻¹D for a mass of 1, one each for all planes (planes,)."""
    points = mesh.vertices
    normals = np.concatenate([_sphere(PLANES), _normals(mesh)])
    height = points @ normals.T
    touching = (height < height.min(0) + STOPPING_DEPTH).T.astype(float)  # (planes, points)
    root = np.linalg.inv(np.linalg.cholesky(inertia))
    cross = np.zeros((len(points), 3, 3))
    cross[:, [2, 0, 1], [1, 2, 0]] = points
    cross[:, [1, 2, 0], [2, 0, 1]] = -points
    J = np.concatenate([np.broadcast_to(np.eye(3), cross.shape), -cross @ root.T], 2)  # in units of √mass
    along = np.einsum("pi,vij->pvj", normals, J)
    K = np.einsum("pv,pvi,pvj->pij", touching, along, along)
    total = np.einsum("pv,vki,vkj->pij", touching, J, J)
    D = damping * K + friction * (total - K)
    return tuple(np.linalg.eigvalsh(x)[:, -1] for x in (stiffness * K, D))


def _normals(mesh: Mesh) -> np.ndarray:
    """Inward normals of the faces (faces, 3), without duplicates."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    n = np.cross(c - a, b - a)
    return np.unique((n / np.linalg.norm(n, axis=1, keepdims=True)).round(9), axis=0)


def _sphere(count: int) -> np.ndarray:
    """Directions evenly over the sphere (count, 3), on a golden spiral."""
    k = np.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, math.pi * (3 - math.sqrt(5)) * k
    rho = np.sqrt(1 - z**2)
    return np.stack([rho * np.cos(angle), rho * np.sin(angle), z], 1)


OBJECTS = (
    *("box", "cylinder", "cone", "capsule", "torus"),
    *("pear", "banana", "pepper"),
    *("duck", "cat", "fish"),
    *("mug", "stapler", "airplane"),
)
SIZES = 0.3, 1.0  # [m] extent along each axis of the object
FPS, FRAMES = 30, 60  # 2 s
PIXELS = 64
DIGITS = 6  # decimals of sampled values: the last bits of cosines and sums differ between machines
RANGES = {  # the paper prints its ranges without units; these are ours
    "body.mass": (2.0, 12.0),  # [kg]
    "ground.stiffness": (2e4, 5e5),  # of each contact vertex, as the next two [N/m]
    "ground.damping": (1.0, 200.0),  # [N s/m]
    "ground.friction_stiffness": (1.0, 200.0),  # [N s/m]
    "ground.friction": (0.2, 1.0),
}
UNKNOWNS = tuple(f"{name}:{low:g}:{high:g}" for name, (low, high) in RANGES.items())
RANGE_MIDDLES = {name.partition(".")[2]: (low + high) / 2 for name, (low, high) in RANGES.items()}


def rigid(rng: np.random.Generator, number: int) -> SampleScene:
    """The `number`-th rigid scene; objects come in turn."""
    name = OBJECTS[number % len(OBJECTS)]
    size = rng.uniform(*SIZES, 3).round(DIGITS)
    axis = rng.standard_normal(3)
    turn = (axis / np.linalg.norm(axis) * rng.uniform(0.3, 2.5)).round(DIGITS)
    heading = rng.uniform(-0.5, 0.5)
    along = np.array([math.cos(heading), math.sin(heading), 0.0])
    impulse = along * rng.uniform(4, 5.5) + np.array([0, 0, rng.uniform(-2.0, 0.5)])
    arm = rng.uniform(-0.25, 0.25, 3) * size
    x, drop = rng.uniform(-0.8, -0.4), rng.uniform(0.02, 0.3)
    solid, inertia = _centered(name, size)
    low = rotation.rotate(
        rotation.exponential(torch.tensor(turn)).expand(len(solid.vertices), 4), torch.tensor(solid.vertices)
    )
    body = {
        "shape": {"object": {"name": name, "size": size.tolist()}},
        "mass": RANGE_MIDDLES["mass"],
        "rotation_vector": turn.tolist(),
        "velocity": _rounded(along * rng.uniform(-0.3, 0.5)),
        "angular_velocity": _rounded(rng.uniform(-3, 3, 3)),
        "pushes": [{"impulse": _rounded(impulse), "point": _rounded(arm), "at": 0}],
        "colour": [0.16, 0.28, 0.62],
    }
    content = {
        "name": f"rigid {number}, {name}",
        "gravity": 9.81,
        "timing": {"fps": FPS, "frames": FRAMES, "substeps": _substeps(solid, inertia), "integrator": "semi-implicit"},
        "bodies": {"body": {**body, "position": _rounded([x, 0.0, drop - low[:, 2].min().item()])}},
        "ground": {"law": "paper", **{key: middle for key, middle in RANGE_MIDDLES.items() if key != "mass"}},
        "camera": _camera(float(size.max())),
        "background": [0.88, 0.88, 0.86],
    }
    return SampleScene(name, Scene.parse(content), UNKNOWNS)


def _rounded(numbers) -> list[float]:
    return np.asarray(numbers).round(DIGITS).tolist()


def _camera(size: float) -> dict:
    away = round(3.3 + 2.4 * size, DIGITS)
    look = {"eye": [0.45, -away, 0.25 * away], "target": [0.45, 0.0, 0.3 * size + 0.1], "fov": "45 deg"}
    return {"size": [PIXELS, PIXELS], "look_at": look}


def _centered(name: str, size: np.ndarray) -> tuple[meshes.Mesh, np.ndarray]:
    """An object about its centre of mass, and its inertia (3, 3) for a mass of 1 [m²]."""
    mesh = Object(name=name, size=tuple(size.tolist())).mesh()
    solid = mesh.solid
    return meshes.Mesh(mesh.vertices - solid.centre.numpy(), mesh.faces), (solid.inertia / solid.mass).numpy()


def _substeps(solid: meshes.Mesh, inertia: np.ndarray) -> int:
    """From the worst corner of the ranges."""
    of = lambda key, end: RANGES[key][end]
    return substeps(
        solid,
        inertia,
        of("body.mass", 0),
        of("ground.stiffness", 1),
        of("ground.damping", 1),
        of("ground.friction_stiffness", 1),
        FPS,
    )
