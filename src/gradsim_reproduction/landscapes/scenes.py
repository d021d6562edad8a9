"""The scenes whose loss landscapes are drawn: a cube of 1 kg with a known push, and a beam with both Lamé parameters at 1000.

The paper gives neither scene. The cubes differ in what the push does to them:

    drift       weightless, through its centre: half its edge in 2 s. Its curves are nearly those of the paper's release
    slide       it rests on the ground, slides on by two edges, and friction stops it
    tumble      it drops tilted and is pushed off centre, which makes all contact parameters observable
    tumble, continuous     the same with forces that do not jump at touch

The rate of steps is that of the most demanding mass of the range, and the same for all.
"""

from gradsim.physics.model import Model
from gradsim.scene import Scene

RIGID = ("drift", "slide", "tumble", "tumble, continuous")
MASS = (0.1, 5.0)  # [kg], the paper's range
TRUE_MASS = 1.0  # [kg]
SECONDS = 2.0
EDGE = 0.5  # [m] of the cube
LAME = (200.0, 2000.0)  # [Pa] of μ and of λ, about the range of the released curves (210 to 2000)
TRUE_LAME = 1000.0  # [Pa]
BELOW = -9.0  # [m] a ground that nothing meets: PyBullet's baseline asks for one
GRID_STEP = 0.01  # [kg] of the finest curves; the truth is one of their masses


def cube(kind: str, fps: int = 30, seconds: float = SECONDS) -> Scene:
    """A cube that moves, at its true mass.

    Args:
        kind: A member of `RIGID`.
        fps: Frames per second.
        seconds: How long.
    """
    body: dict = {"shape": {"box": {"size": [EDGE] * 3}}, "mass": TRUE_MASS, "colour": [0.16, 0.28, 0.62]}
    content = {
        "name": f"cube, {kind}",
        "gravity": 0.0 if kind == "drift" else 9.81,
        "timing": {"fps": fps, "frames": round(seconds * fps) + 1, "substeps": "auto", "integrator": "semi-implicit"},
        "bodies": {"cube": body},
        "ground": {"stiffness": 1e4, "friction_stiffness": 20, "friction": 0.3},
        "camera": {"size": [64, 64], "look_at": {"eye": [0, -4.2, 1.1], "target": [0, 0, 0.4], "fov": "45 deg"}},
        "background": [0.88, 0.88, 0.86],
    }
    if kind == "drift":
        start = {"position": [-0.9, 0, 0.4], "rotation_vector": [0.06, 0.15, 0.3]}
        push = {"impulse": [0.13, 0, 0], "point": [0, 0, 0]}
    elif kind == "slide":
        start = {"position": [-0.9, 0, EDGE / 2], "rotation_vector": [0, 0, 0.3]}
        push = {"impulse": [2.4, 0, 0], "point": [0, 0, 0]}
    else:
        start = {"position": [-0.9, 0, 0.5], "rotation_vector": [0.06, 0.15, 0.3]}
        push = {"impulse": [2.0, 0.1, 0], "point": [-0.25, -0.03, 0.1]}
    body |= start | {"pushes": [{**push, "at": 0}]}
    law = {"law": "continuous", "dissipation": 0.3} if "continuous" in kind else {"law": "paper", "damping": 2.0}
    content["ground"] |= law | {"height": BELOW if kind == "drift" else 0.0}
    return Scene.parse(content)


def beam() -> Scene:
    """A beam of 160 tetrahedra that swings down from its clamp for 1 s, at its true Lamé parameters, the paper's (μ, λ)."""
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [2, EDGE, EDGE], "cells": [8, 2, 2]}},
        "mu": TRUE_LAME,
        "lam": TRUE_LAME,
        "density": 1.0,
        "damping": 1.0,
        "pinned": ["-x"],
        "colour": [0.16, 0.28, 0.62],
    }
    look = {"eye": [0.3, -5.5, 0.4], "target": [0, 0, -0.3], "fov": "40 deg"}
    content = {
        "name": "beam",
        "gravity": 9.81,
        "timing": {"fps": 30, "frames": 31, "substeps": "auto", "integrator": "semi-implicit"},
        "bodies": {"body": body},
        "camera": {"size": [64, 64], "look_at": look},
        "background": [0.88, 0.88, 0.86],
    }
    return Scene.parse(content)


def over(scene: Scene, grid) -> Model:
    """The model of a scene with steps that are fine enough for all of these parameters (worlds, ...) by name."""
    coarse = Model(scene)
    return Model(scene, substeps=coarse.recommended_substeps(coarse.values(grid)))
