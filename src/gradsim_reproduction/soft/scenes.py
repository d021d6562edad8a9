"""Soft bodies to be identified, one after another: beams that swing under their weight, balls that bounce, falling cloths.

Size, place and start are drawn without regard to the true parameters; the ranges of the parameters are the same for all
instances, and truths and starts are both drawn from them.
"""

import math
from dataclasses import dataclass

import numpy as np

from gradsim.scene import Scene

KINDS = ("beam", "ball", "cloth")
RANGES = {  # one decade each, log-uniform; velocities uniform
    "mu": (3e4, 3e5),  # [Pa]; λ − μ/8 > 0 throughout: the material is stable
    "lam": (2e5, 2e6),  # [Pa]
    "density": (100.0, 1000.0),  # [kg/m³]
    "vertex_mass_factor": (10**-0.5, 10**0.5),  # of each vertex
    "velocity": (-1.5, 1.5),  # of each component [m/s]
    "vertex_velocity": (-0.5, 0.5),  # of each component at each vertex [m/s]
}
KNOWN = {"mu": 1e5, "lam": 6e5, "density": 300.0}  # where they are known: the middle of their ranges
FPS, FRAMES, SIZE = 30, 14, 64


@dataclass(frozen=True)
class Instance:
    """One body with all that a fit may know.

    Args:
        number: Which.
        kind: A member of `KINDS`.
        scene: Its scene, with `KNOWN` as values of the unknowns.
    """

    number: int
    kind: str
    scene: Scene

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    def unknowns(self, quantity: str) -> tuple[str, ...]:
        """Unknowns with their ranges, for "lame", "density" (solids) or "velocity" (cloths)."""
        keys = {"lame": ("mu", "lam"), "density": ("density",), "velocity": ("velocity",)}[quantity]
        return tuple(f"body.{key}:{RANGES[key][0]:.12g}:{RANGES[key][1]:.12g}" for key in keys)


def instance(number: int, seed: int) -> Instance:
    """The instance of this number: beams, balls and cloths in turn."""
    kind = KINDS[number % len(KINDS)]
    rng = np.random.default_rng([seed, number])
    content = {"beam": _beam, "ball": _ball, "cloth": _cloth}[kind](rng)
    content |= {"name": f"{kind} {number}", "gravity": 9.81, "background": [0.9, 0.9, 0.88]}
    content["timing"] = {"fps": FPS, "frames": FRAMES, "substeps": "auto", "integrator": "semi-implicit"}
    return Instance(number, kind, Scene.parse(content))


def _beam(rng) -> dict:
    """Clamped at its root, level or nearly so at the start, seen from the side."""
    length, width = rng.uniform(0.35, 0.5), rng.uniform(0.08, 0.1)
    turn = rng.uniform(-0.25, 0.25)
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [length, width, width], "cells": [6, 2, 2]}},
        **KNOWN,
        "damping": 20,
        "rotation_vector": [0, turn, 0],
        "pinned": ["-x"],
        "angular_velocity": [rng.uniform(-1, 1), rng.uniform(-2, 2), 0],
        "colour": [0.16, 0.28, 0.62],
    }
    return {"bodies": {"body": body}, "camera": _camera([0, 0, -0.15 * length], 1.5 * length, rng)}


def _ball(rng) -> dict:
    """Thrown at the ground, whose stiffness is known."""
    radius = rng.uniform(0.1, 0.15)
    body = {
        "kind": "solid",
        "shape": {"ball": {"radius": radius, "cells": 3}},
        **KNOWN,
        "damping": 20,
        "position": [rng.uniform(-0.2, 0.0), 0, radius + rng.uniform(0.02, 0.1)],
        "rotation_vector": rng.uniform(-1, 1, 3).tolist(),
        "velocity": [rng.uniform(0.1, 0.6), 0, rng.uniform(-2.5, -1.5)],
        "angular_velocity": rng.uniform(-3, 3, 3).tolist(),
        "colour": [0.62, 0.2, 0.16],
    }
    ground = {"stiffness": 1500, "dissipation": 0.1, "friction_stiffness": 10, "friction": 0.5}
    return {"bodies": {"body": body}, "ground": ground, "camera": _camera([0.05, 0, 0.22], 0.95, rng)}


def _cloth(rng) -> dict:
    """Free in still air, thrown; the unknown start velocity carries it."""
    side = rng.uniform(0.4, 0.6)
    body = {
        "kind": "cloth",
        "shape": {"grid": {"size": [side, side], "cells": [5, 5]}},
        "density": 0.3,
        "mu": 40,
        "lam": 60,
        "damping": 0.02,
        "bending": 2e-3,
        "bending_damping": 1e-5,
        "air": {"density": 1.2, "drag": 1.0, "lift": 0.6},
        "rotation_vector": rng.uniform(-0.8, 0.8, 3).tolist(),
        "angular_velocity": rng.uniform(-1, 1, 3).tolist(),
        "position": [0, 0, 0.3],
        "colour": [0.2, 0.45, 0.25],
    }
    return {"bodies": {"body": body}, "camera": _camera([0, 0, -0.2], 3.4, rng)}


def _camera(target, extent: float, rng) -> dict:
    """Sees `extent` [m] about a place, from somewhere in front and a little above."""
    fov, turn, up = 0.6, rng.uniform(-0.4, 0.4), rng.uniform(0.1, 0.4)
    away = extent / 2 / math.tan(fov / 2)
    eye = np.array(target) + away * np.array([math.sin(turn), -math.cos(turn) * math.cos(up), math.sin(up)])
    return {"size": [SIZE, SIZE], "look_at": {"eye": eye.tolist(), "target": list(target), "fov": fov}}
