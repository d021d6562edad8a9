"""Scenes of `reproduce foreign`, drawn from seeds: bodies on a ground, soft solids, pendulums and arms.

What a fit may know is the scene, with the unknowns' ranges; truths are uniform over the ranges, from a stream of their own.
Scenes leave integrator and steps open, so that the defaults of `gradsim fit` are what is tested.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.identification.unknowns import Space
from gradsim.scene import Scene
from gradsim.scene.shape import Shape
from gradsim_reproduction.foreign.rigid_trajectory import Body, rotation_of

SCENE, TRUTH, NOISE, STARTS = range(4)  # streams of random numbers
BLUE, BACKGROUND = [0.16, 0.28, 0.62], [0.88, 0.88, 0.86]
SIZE, FPS = 64, 30
CUBE = 5  # one rigid recording in this number is of the library's cube as it is
MASS, STIFFNESS, FRICTION = "cube.mass:2:12", "ground.stiffness:3e4:3e5", "ground.friction:0.2:1"
THREE = (MASS, STIFFNESS, FRICTION)
FIVE = (*THREE, "ground.dissipation:0.2:2", "ground.friction_stiffness:20:200")


@dataclass(frozen=True)
class Recording:
    """One video to come: what a fit may know, and the truth, which it may not."""

    kind: str
    number: int
    scene: Any  # a Scene, whose nodes are of the kind that was drawn
    unknowns: tuple[str, ...]
    truth: dict[str, float]

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    def number_of(self, name: str) -> float:
        """A number of the scene by its dotted name, true where it is unknown."""
        if name in self.truth:
            return self.truth[name]
        first, _, key = name.partition(".")
        if first == "joints":
            joint, _, key = key.partition(".")
            return getattr(self.scene.joints[joint], key)
        return getattr({**self.scene.bodies, **self.scene.grounds}[first], key)


@dataclass(frozen=True)
class Kind:
    """A kind of recording: how many, which one the quick form has, and how scene and unknowns are drawn."""

    title: str
    count: int
    quick: int
    draw: Callable[[int, np.random.Generator], tuple[dict, tuple[str, ...]]]


def recording(kind: str, number: int, seed: int) -> Recording:
    """The recording of this kind and number."""
    content, unknowns = KINDS[kind].draw(number, stream(kind, number, seed, SCENE))
    scene = Scene.parse({"name": f"{kind} {number}", "gravity": 9.81, "background": BACKGROUND, **content})
    space, hidden = Space(scene, unknowns), stream(kind, number, seed, TRUTH)
    truth = {name: float(hidden.uniform(*space.range(k))) for k, name in enumerate(space.names)}
    return Recording(kind, number, scene, unknowns, truth)


def stream(kind: str, number: int, seed: int, purpose: int) -> np.random.Generator:
    """Random numbers of one recording for one purpose."""
    return np.random.default_rng([seed, list(KINDS).index(kind), number, purpose])


def _three(number: int, rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """Every fifth is the library's cube itself; the others are varied bodies and pushes."""
    return (_cube() if number % CUBE == 0 else _tossed(rng)), THREE


def _five(number: int, rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    return (_cube() if number % CUBE == 0 else _tossed(rng)), FIVE


def _cube() -> dict:
    return {key: value for key, value in Scene.library("cube").model_dump(exclude_unset=True).items() if key != "name"}


def _tossed(rng: np.random.Generator) -> dict:
    """A convex body with few corners, which is struck, drops, tumbles and slides."""
    across, high = rng.uniform(0.36, 0.6), rng.uniform(0.3, 0.45)
    prism = {"radius": across / 2, "height": high, "segments": 6}
    shapes = (
        {"box": {"size": [across, rng.uniform(0.35, 0.5), high]}},
        {"cylinder": prism},
        {"cone": {**prism, "height": 1.3 * high}},
        {"tetrahedron": {"vertices": (_TETRAHEDRON * across * 0.5).tolist()}},
    )
    shape = shapes[int(rng.integers(len(shapes)))]
    tilt = [*(rng.uniform(0.05, 0.35, 2) * rng.choice([-1, 1], 2)).tolist(), rng.uniform(-1.5, 1.5)]
    corners = Body.of_hull(Shape.model_validate(shape).mesh().vertices, 1.0).points @ rotation_of(tilt).T
    above = rng.uniform(0.02, 0.12) - corners[:, 2].min()
    push = {
        "impulse": [rng.uniform(3, 6), rng.uniform(-1, 1), rng.uniform(0, 3)],
        "point": [-across / 3, *rng.uniform(-0.08, 0.08, 2)],
    }
    body = {"shape": shape, "mass": 5.0, "position": [-0.7, 0.0, above], "rotation_vector": tilt}
    body |= {"colour": BLUE, "pushes": [push]}
    ground = {"stiffness": 1e5, "dissipation": rng.uniform(0.4, 1.5), "friction_stiffness": 100, "friction": 0.5}
    eye = [rng.uniform(-1.2, 1.2), -4.2, rng.uniform(0.8, 1.8)]
    return {
        "timing": {"fps": FPS, "frames": 16},
        "bodies": {"cube": body},
        "ground": ground,
        "camera": _camera(eye, [0.2, 0.0, 0.4], math.pi / 4),
    }


_TETRAHEDRON = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], float)


def _soft(number: int, rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """Clamped beams that swing, and every third time a block that is thrown at the ground."""
    unknowns = ("body.density:200:1000",) if number % 5 == 4 else ("body.mu:3e4:2e5", "body.lam:2e5:1e6")
    known = {"kind": "solid", "mu": 1e5, "lam": 5e5, "density": 400.0, "damping": 20, "colour": BLUE}
    turn, up = rng.uniform(-0.4, 0.4), rng.uniform(0.1, 0.4)
    toward = np.array([math.sin(turn), -math.cos(turn) * math.cos(up), math.sin(up)])
    timing = {"fps": FPS, "frames": 12}
    if number % 3 == 2:
        edges = rng.uniform(0.2, 0.26, 3)
        body = known | {
            "shape": {"box": {"size": edges.tolist(), "cells": [2, 2, 2]}},
            "position": [rng.uniform(-0.2, 0.0), 0.0, float(np.linalg.norm(edges) / 2 + rng.uniform(0.01, 0.06))],
            "rotation_vector": rng.uniform(-1, 1, 3).tolist(),
            "velocity": [rng.uniform(0.1, 0.6), 0.0, rng.uniform(-2.5, -1.5)],
            "angular_velocity": rng.uniform(-3, 3, 3).tolist(),
        }
        ground = {"stiffness": 4000, "dissipation": 0.1, "friction_stiffness": 20, "friction": 0.5}
        target = np.array([0.05, 0.0, 0.25])
        camera = _camera((target + 1.8 * toward).tolist(), target.tolist(), 0.6)
        return {"timing": timing, "bodies": {"body": body}, "ground": ground, "camera": camera}, unknowns
    length, width = rng.uniform(0.35, 0.5), rng.uniform(0.09, 0.12)
    body = known | {
        "shape": {"box": {"size": [length, width, width], "cells": [5, 1, 1], "per_cell": 6}},
        "rotation_vector": [0.0, rng.uniform(-0.25, 0.25), 0.0],
        "pinned": ["-x"],
        "angular_velocity": [rng.uniform(-1, 1), rng.uniform(-2, 2), 0.0],
    }
    target = np.array([0.0, 0.0, -0.15 * length])
    camera = _camera((target + 2.4 * length * toward).tolist(), target.tolist(), 0.6)
    return {"timing": timing, "bodies": {"body": body}, "camera": camera}, unknowns


def _linkage(number: int, rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """Balls on strings, two points on rods, and arms of three links on hinges, in turn."""
    return (_pendulum, _double, _arm)[number % 3](rng)


def _pendulum(rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    bob = {"kind": "pendulum", "pivot": [0, 0, 1.0], "string_length": 0.5, "radius": rng.uniform(0.06, 0.1)}
    bob |= {"angle": 1.0, "damping": 0.1, "drag": rng.uniform(0.02, 0.1), "colour": BLUE}
    camera = _camera([rng.uniform(-1, 1), -3.4, rng.uniform(0.8, 1.3)], [0, 0, 0.9], 0.6)
    unknowns = ("bob.string_length:0.3:0.8", "bob.damping:0.02:0.3", "bob.angle:-2:2", "bob.rate:-3:3")
    return {"timing": {"fps": 15, "frames": 13}, "bodies": {"bob": bob}, "camera": camera}, unknowns


def _double(rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    arms = {"kind": "double_pendulum", "pivot": [0, 0, 0], "first_length": 0.5, "second_length": 0.4}
    arms |= {"first_angle": rng.uniform(-1.6, 1.6), "second_angle": rng.uniform(-1.6, 1.6)}
    arms |= {"first_rate": rng.uniform(-2, 2), "damping": 0.05, "first_radius": 0.09, "second_radius": 0.08}
    arms |= {"colour": BLUE, "second_colour": BLUE}
    camera = _camera([rng.uniform(-1, 1), -3.6, rng.uniform(-0.2, 0.5)], [0, 0, -0.3], 0.7)
    unknowns = (
        "arms.first_length:0.4:0.7",
        "arms.second_length:0.3:0.6",
        "arms.second_mass:0.4:2",
        "arms.damping:0.01:0.1",
    )
    return {"timing": {"fps": 20, "frames": 13}, "bodies": {"arms": arms}, "camera": camera}, unknowns


def _arm(rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    content = Scene.library("arm").model_dump(exclude_unset=True)
    for name, reach in (("shoulder", 1.4), ("elbow", 0.9), ("wrist", 1.2)):
        content["joints"][name] |= {"angle": rng.uniform(-reach, reach), "rate": rng.uniform(-2, 2)}
    for link in content["bodies"].values():
        link["colour"] = BLUE
    eye = [rng.uniform(-1, 1), -3.0, rng.uniform(0.6, 1.4)]
    unknowns = (
        "lower.mass:0.3:2",
        "hand.mass:0.1:1",
        "joints.shoulder.damping:0.02:0.2",
        "joints.elbow.stiffness:0.5:5",
    )
    return {
        "timing": {"fps": 20, "frames": 12},
        "bodies": content["bodies"],
        "joints": content["joints"],
        "camera": _camera(eye, [0, 0, 0.75], 0.75),
    }, unknowns


def _camera(eye: list, target: list, fov: float) -> dict:
    return {"size": [SIZE, SIZE], "look_at": {"eye": eye, "target": target, "fov": fov}}


KINDS = {
    "three": Kind("rigid, three unknowns", 30, 3, _three),
    "five": Kind("rigid, five unknowns", 30, 1, _five),
    "soft": Kind("soft solids", 15, 1, _soft),
    "linkage": Kind("pendulums and arms", 15, 4, _linkage),
}
