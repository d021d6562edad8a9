"""Kinds of fits whose error bars are checked: scenes, unknowns, search.

Every truth is uniform over its range, from a stream of its own, and every start is uniform over the same range. Names with
"contact" are scenes of the data set in the paper's law, cut to the frames in which the trajectory depends on its start: what
is not an unknown is known.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradsim.dataset import sample
from gradsim.dataset.sample import with_parameters
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

SCENE, TRUTH = 0, 1  # streams of random numbers
BACKGROUND = [0.88, 0.88, 0.86]
BLUE = [0.16, 0.28, 0.62]
CONTACT_FRAMES = 24  # most bodies land in the first ten
MASS, FRICTION = "body.mass:2:12", "ground.friction:0.2:1"
FIVE = (MASS, "ground.stiffness:2e4:5e5", "ground.damping:1:200", "ground.friction_stiffness:1:200", FRICTION)


@dataclass(frozen=True)
class Draw:
    """One video to come: what a fit may know, and the truth, which it may not."""

    scene: Scene
    unknowns: tuple[str, ...]
    truth: dict[str, float]


@dataclass(frozen=True)
class Family:
    """One kind of fit.

    Args:
        title: In words.
        count: How many of the full 1000.
        quick: How many of the quick form.
        plan: How each is searched.
        unknowns: NAME:LOW:HIGH.
        content: Draws a scene; None for a scene of the data set.
    """

    title: str
    count: int
    quick: int
    plan: MultistartConfig
    unknowns: tuple[str, ...]
    content: Callable[[np.random.Generator], dict] | None = None

    @property
    def contact(self) -> bool:
        """True if something touches the ground."""
        return self.content is None


def draw(name: str, number: int, seed: int) -> Draw:
    """The `number`-th video of a family."""
    family, index = FAMILIES[name], list(FAMILIES).index(name)
    if family.content is None:
        return _landing(family, 1000 * index + number, seed)
    known, hidden = (np.random.default_rng([seed, index, number, stream]) for stream in (SCENE, TRUTH))
    scene = Scene.parse(family.content(known))
    space = Space(scene, family.unknowns)
    truth = {name: float(hidden.uniform(*space.range(k))) for k, name in enumerate(space.names)}
    return Draw(scene, family.unknowns, truth)


def _landing(family: Family, number: int, seed: int) -> Draw:
    """A rigid sample of the data set, where all but the unknowns are known."""
    landing = sample("rigid", number, seed)
    names = [text.partition(":")[0] for text in family.unknowns]
    scene = with_parameters(landing.scene, {name: value for name, value in landing.truth.items() if name not in names})
    timing = scene.timing.model_copy(update={"frames": CONTACT_FRAMES})
    truth = {name: landing.truth[name] for name in names}
    return Draw(scene.model_copy(update={"timing": timing}), family.unknowns, truth)


def _flight(rng: np.random.Generator) -> dict:
    """A box that flies and spins, with a known push and unknown mass and start velocity."""
    size = rng.uniform(0.2, 0.5, 3)
    body = {
        "shape": {"box": {"size": size.tolist()}},
        "mass": 7.0,
        "position": [-1.2, 0.0, 1.2],
        "rotation_vector": rng.uniform(-1, 1, 3).tolist(),
        "velocity": [2.0, 0.0, 1.0],
        "angular_velocity": rng.uniform(-3, 3, 3).tolist(),
        "pushes": [{"impulse": [0.0, 0.0, rng.uniform(4, 6)], "point": rng.uniform(-0.1, 0.1, 3).tolist(), "at": 0.2}],
        "colour": BLUE,
    }
    return _content("flight", {"body": body}, 16, 4, [0.3, -5.5, 1.6], [0.3, 0.0, 1.6], "45 deg")


def _pendulum(rng: np.random.Generator) -> dict:
    """A ball on a string."""
    bob = {
        "kind": "pendulum",
        "pivot": [0.0, 0.0, 1.0],
        "string_length": 0.5,
        "radius": rng.uniform(0.05, 0.09),
        "angle": 1.0,
        "rate": 0.0,
        "damping": 0.05,
        "rod_radius": 0.0,
        "colour": BLUE,
    }
    content = _content("pendulum", {"bob": bob}, 16, 16, [0, -3.6, 1.0], [0, 0, 1.0], "35 deg")
    return {**content, "timing": {"fps": 15, "frames": 16, "substeps": 16, "integrator": "semi-implicit"}}


def _beam(rng: np.random.Generator) -> dict:
    """A clamped soft beam that falls under its own weight."""
    length, width = rng.uniform(0.35, 0.5), rng.uniform(0.09, 0.12)
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [length, width, width], "cells": [3, 1, 1]}},
        "mu": 1e5,
        "lam": 4e5,
        "density": 600.0,
        "damping": 20,
        "pinned": ["-x"],
        "rotation_vector": [0, rng.uniform(-0.25, 0.25), 0],
        "angular_velocity": [0, rng.uniform(-2, 2), 0],
        "colour": BLUE,
    }
    content = _content("beam", {"body": body}, 10, 1, [0.3, -1.1, 0.1], [0.2, 0.0, -0.1], "40 deg")
    return {**content, "timing": {"fps": 30, "frames": 10, "substeps": "auto", "integrator": "semi-implicit"}}


def _content(name: str, bodies: dict, frames: int, substeps: int, eye: list, target: list, fov: str) -> dict:
    camera = {"size": [64, 64], "look_at": {"eye": eye, "target": target, "fov": fov}}
    timing = {"fps": 30, "frames": frames, "substeps": substeps, "integrator": "semi-implicit"}
    return {
        "name": name,
        "gravity": 9.81,
        "timing": timing,
        "bodies": bodies,
        "camera": camera,
        "background": BACKGROUND,
    }


DIRECT = MultistartConfig(starts=4, curriculum=False)
FAMILIES = {
    "flight": Family(
        "free flight, a push: mass, start velocity",
        588,
        4,
        DIRECT,
        (MASS, "body.velocity.x:1:4", "body.velocity.z:0:3"),
        _flight,
    ),
    "pendulum": Family(
        "pendulum: string, damping, angle, rate",
        22,
        1,
        MultistartConfig(starts=6, curriculum=False),
        ("bob.string_length:0.3:0.8", "bob.damping:0.02:0.3", "bob.angle:-2:2", "bob.rate:-3:3"),
        _pendulum,
    ),
    "beam": Family("soft beam: μ, λ", 220, 2, DIRECT, ("body.mu:3e4:3e5", "body.lam:2e5:2e6"), _beam),
    "mass": Family("contact: mass", 80, 2, MultistartConfig(starts=8, grow=6), (MASS,)),
    "friction": Family("contact: mass, μ", 30, 1, MultistartConfig(starts=10, grow=6), (MASS, FRICTION)),
    "five": Family("contact: mass, k_e, k_d, k_f, μ", 60, 0, MultistartConfig(starts=16, grow=4), FIVE),
}
