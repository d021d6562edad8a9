"""Soft samples: solids and cloths, thrown at a ground with a known impulse.

Shape, size, start, impulse and ground are sampled independently of the truth, and known. The impulse is spread over all
vertices in proportion to their masses: it gives the body a velocity, and makes its mass observable, which gravity does
not. The unknown is the density instead of the mass, with a range that corresponds to 2 to 12 kg for every size; its
relative error is that of the mass.
"""

import math

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.dataset.scene_sampling import SampleScene
from gradsim.scene import Scene
from gradsim.scene.solid_shape import SolidShape

SOLIDS, CLOTHS = ("box", "beam", "ball", "cylinder"), ("square", "strip")
MASS = 2.0, 12.0  # [kg]
SIZES = 0.3, 1.0  # [m] largest extent of solids; of balls 0.7 of it, which keeps their steps as long
SIDES = 0.5, 1.0  # [m] longer side of cloths
DROP = 0.02, 0.3  # [m] height of the lowest vertex over the ground
SOLID_MODULI = {"mu": (1e4, 5e4), "lam": (2e4, 1e5)}  # the paper's μ and λ [Pa]: sags by some per cent
CLOTH_MODULI = {"mu": (500.0, 2000.0), "lam": (500.0, 2000.0)}  # [N/m]
VISCOSITY = 5.0, 20.0  # [Pa s] of solids
GROUND = {  # per contact vertex, of which soft bodies have few and light ones
    "stiffness": (2e3, 4e3),
    "damping": (1.0, 6.0),
    "friction_stiffness": (5.0, 20.0),
    "friction": (0.2, 1.0),
}
FPS, FRAMES = 30, 60  # 2 s
PIXELS = 64
DIGITS = 6  # decimals of sampled values: the last bits of cosines and sums differ between machines
SUBSTEPS = {"solid": 128, "cloth": 96}  # per frame: stable in every corner of the ranges
ELEVATION = {"solid": 0.25, "cloth": 0.8}  # [rad] of the camera: cloths end flat on the ground


def deformable(rng: np.random.Generator, number: int) -> SampleScene:
    """The `number`-th scene of a solid."""
    name = SOLIDS[rng.integers(len(SOLIDS))]
    size = rng.uniform(*SIZES)
    across = size * rng.uniform(0.4, 1.0, 2)
    if name == "ball":
        shape = {"ball": {"radius": round(0.35 * size, DIGITS), "cells": 3}}
    elif name == "cylinder":
        shape = {"cylinder": {"radius": round(0.4 * across[0], DIGITS), "height": round(size, DIGITS), "cells": [2, 2]}}
    elif name == "beam":
        shape = {"box": {"size": _rounded([size, *(0.4 * across)]), "cells": [4, 1, 1]}}
    else:
        shape = {"box": {"size": _rounded([size, *across]), "cells": [2, 2, 2]}}
    body = {"kind": "solid", "shape": shape, "damping": round(rng.uniform(*VISCOSITY), DIGITS)}
    volume = float(SolidShape.model_validate(shape).mesh().volumes.sum())
    return _thrown(rng, name, number, body, {"density": _between(MASS, volume), **SOLID_MODULI}, size)


def cloth(rng: np.random.Generator, number: int) -> SampleScene:
    """The `number`-th scene of a cloth."""
    name = CLOTHS[rng.integers(len(CLOTHS))]
    size = rng.uniform(*SIDES)
    across, cells = (rng.uniform(0.7, 1.0), [6, 6]) if name == "square" else (rng.uniform(0.3, 0.5), [8, 3])
    sides = _rounded([size, size * across])
    body = {
        "kind": "cloth",
        "shape": {"grid": {"size": sides, "cells": cells}},
        "damping": round(rng.uniform(0.5, 2), DIGITS),
        "bending": round(rng.uniform(0.2, 1), DIGITS),
        "bending_damping": round(rng.uniform(2e-3, 1e-2), DIGITS),
    }
    ranges = {"density": _between(MASS, sides[0] * sides[1]), **CLOTH_MODULI}
    return _thrown(rng, name, number, body, ranges, size)


def _thrown(rng, name: str, number: int, body: dict, ranges: dict, size: float) -> SampleScene:
    """The body with a start, on its ground, before its camera."""
    axis = rng.standard_normal(3)
    turn = axis / np.linalg.norm(axis) * rng.uniform(0.2, 0.8)
    heading = rng.uniform(-0.5, 0.5)
    along = np.array([math.cos(heading), math.sin(heading), 0.0])
    x, drop = rng.uniform(-1.0, -0.6), rng.uniform(*DROP)
    body |= {key: (low + high) / 2 for key, (low, high) in ranges.items()}
    body |= {
        "rotation_vector": _rounded(turn),
        "velocity": _rounded(along * rng.uniform(0.0, 1.0)),
        "angular_velocity": _rounded(rng.uniform(-2, 2, 3)),
        "pushes": [{"impulse": _rounded(along * rng.uniform(4, 6) + np.array([0, 0, rng.uniform(-1, 1)]))}],
        "colour": [0.16, 0.28, 0.62],
    }
    content = {
        "name": f"{body['kind']} {number}, {name}",
        "gravity": 9.81,
        "timing": {"fps": FPS, "frames": FRAMES, "substeps": SUBSTEPS[body["kind"]], "integrator": "semi-implicit"},
        "bodies": {"body": body},
        "ground": {"law": "paper", **{key: round(rng.uniform(*ends), DIGITS) for key, ends in GROUND.items()}},
        "camera": _camera(size, ELEVATION[body["kind"]]),
        "background": [0.88, 0.88, 0.86],
    }
    rest = Scene.parse(content).bodies["body"].rest_vertices  # pyright: ignore[reportAttributeAccessIssue] -- soft
    low = (rest @ Rotation.from_rotvec(body["rotation_vector"]).as_matrix()[2]).min()
    body["position"] = _rounded([x, 0.0, drop - low])
    unknowns = tuple(f"body.{key}:{low:.12g}:{high:.12g}" for key, (low, high) in ranges.items())
    return SampleScene(name, Scene.parse(content), unknowns)


def _camera(size: float, elevation: float) -> dict:
    away = 2.6 + 2.4 * size
    eye = _rounded([0.3, -away * math.cos(elevation), away * math.sin(elevation)])
    look = {"eye": eye, "target": _rounded([0.3, 0.0, 0.3 * size + 0.1]), "fov": "45 deg"}
    return {"size": [PIXELS, PIXELS], "look_at": look}


def _between(mass: tuple[float, float], bulk: float) -> tuple[float, float]:
    """Densities [kg/m³ or kg/m²] of bodies of these masses, from a volume or an area."""
    low, high = (float(f"{m / bulk:.{DIGITS}g}") for m in mass)
    return low, high


def _rounded(numbers) -> list[float]:
    return np.asarray(numbers).round(DIGITS).tolist()
