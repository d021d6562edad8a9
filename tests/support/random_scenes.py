"""Random legal scenes of all kinds of bodies, over many powers of ten: each is given by its number and a seed."""

import numpy as np

PLACED = ("position", "rotation_vector", "velocity", "angular_velocity")  # of a body, by its joint
AXES = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])


class Draw:
    """Random numbers of a scene.

    Args:
        rng: Their source.
    """

    def __init__(self, rng: np.random.Generator):
        self.rng = rng

    def log(self, low: float, high: float) -> float:
        """A positive number, uniform in its logarithm."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def maybe(self, value, other=0.0, chance: float = 0.5):
        """A value, or another one."""
        return value if self.rng.random() < chance else other

    def vector(self, size: float) -> list[float]:
        """Three numbers of up to a size, each of which may be 0."""
        return [self.maybe(float(x), 0.0, 0.8) for x in self.rng.uniform(-size, size, 3)]

    def one(self, *of):
        return of[self.rng.integers(len(of))]


def random_scene(number: int, seed: int = 0) -> dict:
    """Content of a scene file.

    Args:
        number: Of the scene.
        seed: Of all scenes.
    """
    draw = Draw(np.random.default_rng((seed, number)))
    size = draw.log(0.01, 10.0)
    kind = KINDS[number % len(KINDS)]
    content = {
        "timing": {"fps": draw.log(5, 240), "frames": int(draw.rng.integers(2, 6))},
        "gravity": draw.one(9.81, 0, draw.vector(20.0)),
        "bodies": {},
    }
    if draw.rng.random() < 0.3:
        content["timing"]["substeps"] = int(draw.log(1, 64))
    for k in range(int(draw.rng.integers(1, 3))):
        content["bodies"][f"body_{k}"] = kind(draw, size, 3 * k * size)
    if kind is not pendulum and kind is not double_pendulum and draw.rng.random() < 0.6:
        content["ground"] = contact(draw) | {"height": -draw.log(0.9, 3.0) * size * 2}
        if kind is rigid:
            content["ground"] |= rolling(draw, size)
    if kind is rigid and draw.rng.random() < 0.3:
        content["obstacles"] = {"block": obstacle(draw, size, content.get("ground"))}
    if kind is rigid and len(content["bodies"]) == 2 and draw.rng.random() < 0.6:
        content["joints"] = {"joint": joint(draw)}
        for key in PLACED:
            content["bodies"]["body_1"].pop(key)
    return content


def contact(draw: Draw) -> dict:
    law = draw.one("continuous", "constant-restitution", "paper")
    key = "dissipation" if law == "continuous" else "damping"
    return {
        "law": law,
        "stiffness": draw.log(10, 1e6),
        key: draw.maybe(draw.log(1e-3, 10)),
        "friction": draw.maybe(draw.log(0.01, 2)),
        "friction_stiffness": draw.maybe(draw.log(0.1, 1e3)),
    }


def rolling(draw: Draw, size: float) -> dict:
    """Friction of rigid bodies against rolling and spinning on a surface."""
    return {
        name: draw.maybe(size * draw.log(1e-5, 0.1), chance=0.3) for name in ("rolling_friction", "spinning_friction")
    }


def obstacle(draw: Draw, size: float, ground: dict | None) -> dict:
    """A ball or a box far enough below for most bodies to begin outside of it, with the law of the ground."""
    shape = draw.one({"radius": size * draw.log(0.1, 1)}, {"size": [size * draw.log(0.1, 1) for _ in range(3)]})
    law = ground or contact(draw) | rolling(draw, size)
    return (
        {k: y for k, y in law.items() if k != "height"} | shape | {"position": [0.0, 0.0, -size * draw.log(2.0, 6.0)]}
    )


def moving(draw: Draw, size: float, x: float) -> dict:
    return {
        "position": [x, 0.0, 0.0],
        "rotation_vector": draw.vector(3.0),
        "velocity": draw.vector(draw.one(0.0, size, 10 * size)),
        "angular_velocity": draw.vector(draw.one(0.0, 1.0, 30.0)),
    }


def rigid(draw: Draw, size: float, x: float) -> dict:
    shape = draw.one(
        {"box": {"size": [size * draw.log(0.05, 1) for _ in range(3)]}},
        {"sphere": {"radius": size / 2, "subdivisions": 1}},
        {"cylinder": {"radius": size * draw.log(0.05, 0.5), "height": size * draw.log(0.05, 1), "segments": 8}},
        {"cone": {"radius": size * draw.log(0.05, 0.5), "height": size * draw.log(0.05, 1), "segments": 8}},
        {"capsule": {"radius": size / 4, "height": size / 2, "segments": 8, "rings": 2}},
    )
    weight = draw.one({"mass": draw.log(1e-3, 1e3)}, {"density": draw.log(10, 1e4)})
    push = {"impulse": draw.vector(1.0), "point": draw.vector(size / 4)}
    drag = draw.maybe(draw.log(1e-6, 10), chance=0.3)
    return {"shape": shape, **weight, **moving(draw, size, x), "drag": drag, "pushes": draw.maybe([push], [])}


def joint(draw: Draw) -> dict:
    kind = draw.one("revolute", "prismatic", "ball", "fixed")
    content = {"kind": kind, "between": ["body_0", "body_1"]}
    if kind in ("revolute", "prismatic"):
        content |= {"axis": draw.one(*AXES, [1.0, 1.0, 0.0])}
    if kind == "revolute":
        content |= {"angle": draw.maybe(float(draw.rng.uniform(-3, 3))), "damping": draw.maybe(draw.log(1e-4, 1))}
    return content


def pendulum(draw: Draw, size: float, x: float) -> dict:
    return {
        "kind": "pendulum",
        "pivot": [x, 0.0, 0.0],
        "string_length": size,
        "radius": size * draw.log(0.01, 1),
        "angle": draw.maybe(float(draw.rng.uniform(-6, 6))),
        "rate": draw.maybe(float(draw.rng.uniform(-20, 20))),
        "damping": draw.maybe(draw.log(1e-3, 100)),
        "drag": draw.maybe(draw.log(1e-3, 10)),
    }


def double_pendulum(draw: Draw, size: float, x: float) -> dict:
    return {
        "kind": "double_pendulum",
        "masses": draw.one("points", "rods"),
        "pivot": [x, 0.0, 0.0],
        "first_length": size,
        "second_length": size * draw.log(0.1, 10),
        "first_mass": draw.log(1e-2, 1e2),
        "second_mass": draw.log(1e-2, 1e2),
        "first_angle": draw.maybe(float(draw.rng.uniform(-6, 6))),
        "second_angle": draw.maybe(float(draw.rng.uniform(-6, 6))),
        "first_rate": draw.maybe(float(draw.rng.uniform(-20, 20))),
        "damping": draw.maybe(draw.log(1e-4, 1)),
    }


def soft(draw: Draw, size: float, x: float) -> dict:
    return moving(draw, size, x) | {"pinned": draw.maybe(["-x"], [])}


def solid(draw: Draw, size: float, x: float) -> dict:
    box = {"size": [size * draw.log(0.1, 1) for _ in range(3)], "cells": [int(n) for n in draw.rng.integers(1, 3, 3)]}
    return {
        "kind": "solid",
        "shape": {"box": box},
        "density": draw.log(10, 1e4),
        "young": draw.log(1e3, 1e8),
        "poisson": float(draw.rng.uniform(0, 0.49)),
        "damping": draw.maybe(draw.log(0.1, 1e3)),
        **soft(draw, size, x),
    }


def cloth(draw: Draw, size: float, x: float) -> dict:
    return {
        "kind": "cloth",
        "shape": {
            "grid": {"size": [size, size * draw.log(0.2, 1)], "cells": [int(n) for n in draw.rng.integers(1, 4, 2)]}
        },
        "density": draw.log(0.01, 10),
        "mu": draw.log(1, 1e5),
        "lam": draw.log(1, 1e5),
        "damping": draw.maybe(draw.log(1e-3, 10)),
        "bending": draw.maybe(draw.log(1e-6, 1)),
        "air": draw.maybe({"drag": draw.log(0.01, 2), "lift": draw.maybe(draw.log(0.01, 2))}, {"drag": 0.0}),
        **soft(draw, size, x),
    }


def rope(draw: Draw, size: float, x: float) -> dict:
    return {
        "kind": "springs",
        "shape": {"rope": {"length": size, "segments": int(draw.rng.integers(1, 6))}},
        "mass": draw.log(1e-3, 10),
        "radius": size * draw.log(1e-3, 0.1),
        "stiffness": draw.log(1, 1e5),
        "damping": draw.maybe(draw.log(1e-3, 10)),
        **soft(draw, size, x),
    }


def rod(draw: Draw, size: float, x: float) -> dict:
    return {
        "kind": "rod",
        "shape": {"line": {"length": size, "segments": int(draw.rng.integers(2, 7))}},
        "mass": draw.log(1e-3, 10),
        "radius": size * draw.log(1e-3, 0.1),
        "stretching": draw.log(1, 1e5),
        "bending": draw.log(1e-6, 1),
        "twisting": draw.log(1e-6, 1),
        "curvature1": draw.maybe(float(draw.rng.uniform(-3, 3)) / size),
        "natural_twist": draw.maybe(float(draw.rng.uniform(-3, 3)) / size),
        **soft(draw, size, x),
    }


KINDS = (rod, rigid, solid, rigid, cloth, pendulum, rope, rigid, double_pendulum, solid)
