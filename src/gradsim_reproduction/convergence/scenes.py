"""Scenes of Fig. 3: a thrown body of unknown mass, one that slides with unknown friction, a beam of unknown elasticity."""

import math
from dataclasses import dataclass

import numpy as np

from gradsim.scene import Scene
from gradsim_reproduction.soft.scenes import RANGES

SIZE, FPS = 64, 30
THROWN = ("duck", "airplane", "mug", "pear", "cat")
SLIDING = ("stapler", "box", "airplane", "cylinder", "duck")
KNOWN = {"mass": 7.0, "friction": 0.6}  # where they are known: the middle of their ranges
GROUND = {"stiffness": 1e5, "dissipation": 0.1, "friction_stiffness": 200}


@dataclass(frozen=True)
class DescentTask:
    """One of the three.

    Attributes:
        name: As figures call it.
        unknown: Name and range; truths and starts are uniform over it.
        iterations: Largest number of descent iterations; a goal of ours, since the paper names none.
        stages: Number of first frames, iterations, and first rate of Adam per step of
            the logarithm. Early frames, before anything is touched, make a loss without second minima.
    """

    name: str
    unknown: str
    iterations: int
    stages: tuple[tuple[int, int, float], ...]

    @property
    def stream(self) -> int:
        """Which of the streams of random numbers are its own."""
        return tuple(TASKS).index(self.name)

    def scene(self, number: int, seed: int) -> Scene:
        """The `number`-th scene; it holds the middle of the range in the place of the truth."""
        rng = np.random.default_rng([seed, number, self.stream])
        content = {"mass": _thrown, "friction": _sliding, "beam": _beam}[self.name](number, rng)
        timing = {"fps": FPS, "frames": self.stages[-1][0], "substeps": "auto" if self.name == "beam" else 64}
        timing["integrator"] = "semi-implicit"
        return Scene.parse({"gravity": 9.81, "background": [0.9, 0.9, 0.88], **content, "timing": timing})


def _thrown(number: int, rng: np.random.Generator) -> dict:
    """With spin, and a known off-centre push: the mass shows in how fast it goes."""
    size = rng.uniform(0.4, 0.8)
    axis = rng.standard_normal(3)
    body = {
        "shape": {"object": {"name": THROWN[number % len(THROWN)], "size": (size * rng.uniform(0.6, 1.0, 3)).tolist()}},
        "mass": KNOWN["mass"],
        "position": [-0.6, 0.0, 0.9 + 0.3 * size],
        "rotation_vector": (axis / np.linalg.norm(axis) * rng.uniform(0.2, 1.0)).tolist(),
        "angular_velocity": rng.uniform(-2, 2, 3).tolist(),
        "pushes": [{"impulse": [rng.uniform(4, 6), 0, rng.uniform(0, 2)], "point": _arm(size, rng), "at": 0}],
        "colour": [0.16, 0.28, 0.62],
    }
    ground = {**GROUND, "friction": KNOWN["friction"]}
    return {"bodies": {"body": body}, "ground": ground, "camera": _camera([0.4, 0, 0.65], 3.6)}


def _sliding(number: int, rng: np.random.Generator) -> dict:
    """Upright and low, so that it slides to rest and does not roll."""
    size = np.array([rng.uniform(0.6, 1.0), rng.uniform(0.5, 0.8), rng.uniform(0.3, 0.35)])
    body = {
        "shape": {"object": {"name": SLIDING[number % len(SLIDING)], "size": size.tolist()}},
        "mass": KNOWN["mass"],
        "position": [-0.9, 0.0, float(size[2]) / 2 + 0.01],
        "rotation_vector": [0, 0, rng.uniform(-0.6, 0.6)],
        "velocity": [rng.uniform(2.2, 2.8), rng.uniform(-0.3, 0.3), 0.0],
        "angular_velocity": [0, 0, rng.uniform(-1, 1)],
        "colour": [0.62, 0.2, 0.16],
    }
    ground = {**GROUND, "friction": KNOWN["friction"]}
    return {"bodies": {"body": body}, "ground": ground, "camera": _camera([0.1, 0, 0.2], 3.2)}


def _beam(number: int, rng: np.random.Generator) -> dict:
    """Clamped at its root, it sinks and swings under its weight."""
    length, width = rng.uniform(0.35, 0.5), rng.uniform(0.08, 0.1)
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [length, width, width], "cells": [6, 2, 2]}},
        "mu": sum(RANGES["mu"]) / 2,
        "lam": 6e5,
        "density": 300.0,
        "damping": 20,
        "rotation_vector": [0, rng.uniform(-0.25, 0.25), 0],
        "pinned": ["-x"],
        "colour": [0.2, 0.45, 0.25],
    }
    return {"bodies": {"body": body}, "camera": _camera([0, 0, -0.15 * length], 1.5 * length)}


def _arm(size: float, rng: np.random.Generator) -> list[float]:
    return (size * rng.uniform(-0.1, 0.1, 3)).tolist()


def _camera(target: list[float], extent: float) -> dict:
    """Sees `extent` [m] about a place, from in front and a little above."""
    fov = 0.6
    away = extent / 2 / math.tan(fov / 2)
    eye = [target[0], -away, target[2] + 0.25 * away]
    return {"size": [SIZE, SIZE], "look_at": {"eye": eye, "target": target, "fov": fov}}


TASKS = {
    "mass": DescentTask("mass", "body.mass:2:12", 100, ((8, 60, 0.2), (40, 40, 0.005))),
    "friction": DescentTask("friction", "ground.friction:0.2:1", 100, ((16, 70, 0.25), (40, 30, 0.002))),
    "beam": DescentTask("beam", f"body.mu:{RANGES['mu'][0]:g}:{RANGES['mu'][1]:g}", 200, ((14, 120, 0.15),)),
}
