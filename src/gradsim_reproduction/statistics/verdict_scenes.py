"""Small scenes of the designed verdicts, each with what its two forms differ in as an argument."""

from collections.abc import Mapping

from gradsim.scene import Scene
from gradsim_reproduction.rigid import no_push

BLUE, BACKGROUND = [0.16, 0.28, 0.62], [0.88, 0.88, 0.86]
DOWN = [0.0, 0.0, -9.81]  # [m/s²]


def _scene(
    name: str, content: Mapping, frames: int, substeps: int | str, eye: list, target: list, fov="45 deg"
) -> Scene:
    camera = {"size": [64, 64], "look_at": {"eye": eye, "target": target, "fov": fov}}
    timing = {
        "fps": 30,
        "frames": frames,
        "substeps": substeps,
        "integrator": "semi-implicit",
        **content.get("timing", {}),
    }
    return Scene.parse(
        {"name": name, "gravity": DOWN, "background": BACKGROUND, "camera": camera, **content, "timing": timing}
    )


def box(body: Mapping | None = None, ground: Mapping | None = None, gravity: list | None = None) -> Scene:
    """A box that flies, or bounces and slides on a ground if one is given."""
    thrown = {
        "shape": {"box": {"size": [0.5, 0.4, 0.3]}},
        "mass": 6.0,
        "position": [-0.7, 0.0, 0.6],
        "rotation_vector": [0.2, 0.4, 0.1],
        "velocity": [1.2, 0.0, 0.0],
        "angular_velocity": [0.5, 1.0, -0.5],
        "colour": BLUE,
        **(body or {}),
    }
    content = {"bodies": {"body": thrown}, "gravity": gravity or DOWN}
    if ground is not None:
        floor = {"stiffness": 3e4, "dissipation": 0.2, "friction_stiffness": 60, "friction": 0.5, **ground}
        content["ground"] = {key: value for key, value in floor.items() if value is not None}
    height = thrown["position"][2]
    return _scene("box", content, 18, 64, [0.1, -4.2, height + 0.3], [0.1, 0.0, max(0.2, height - 0.3)])


def paper_box(push: bool) -> Scene:
    """The library's cube in the paper's law, with its push or with a start velocity."""
    known, free = no_push.scenes()
    content = (known if push else free).model_dump(exclude_unset=True)
    content["bodies"] = {"body": content["bodies"]["cube"]}
    return Scene.parse(content)


def pendulum(angle: float = 1.2, lossless: bool = False) -> Scene:
    """A ball on a string, let go at an angle."""
    bob = {
        "kind": "pendulum",
        "pivot": [0.0, 0.0, 1.0],
        "string_length": 0.5,
        "radius": 0.08,
        "angle": angle,
        "damping": 0.0 if lossless else 0.2,
        "drag": 0.0 if lossless else 0.3,
        "rod_radius": 0.0,
        "colour": BLUE,
    }
    return _scene("pendulum", {"bodies": {"bob": bob}}, 14, 8, [0, -2.6, 0.7], [0, 0, 0.7])


def double() -> Scene:
    """A double pendulum without friction, seen from the side."""
    scene = Scene.library("double_pendulum").model_dump(exclude_unset=True)
    scene["bodies"]["arms"] |= {"damping": 0.0}
    scene["timing"] |= {"frames": 16}
    scene["camera"]["size"] = [64, 64]
    return Scene.parse(scene)


def rope(body: Mapping | None = None) -> Scene:
    """A rope of springs that swings down from one end, or falls where nothing pins it."""
    content = {
        "kind": "springs",
        "shape": {"rope": {"length": 0.8, "segments": 6}},
        "mass": 0.2,
        "stiffness": 200,
        "damping": 0.0,
        "radius": 0.03,
        "pinned": ["-x"],
        "colour": [0.55, 0.38, 0.16],
        **(body or {}),
    }
    return _scene("rope", {"bodies": {"rope": content}}, 14, 60, [0.0, -2.6, -0.3], [0.0, 0.0, -0.3])


def beam(body: Mapping | None = None) -> Scene:
    """A soft beam that swings down from its clamped root, or falls where nothing clamps it."""
    content = {
        "kind": "solid",
        "shape": {"box": {"size": [0.4, 0.1, 0.1], "cells": [3, 1, 1]}},
        "density": 1000.0,
        "young": 2e5,
        "poisson": 0.4,
        "damping": 0.0,
        "pinned": ["-x"],
        "colour": BLUE,
        **(body or {}),
    }
    return _scene("beam", {"bodies": {"beam": content}}, 9, "auto", [0.2, -1.3, -0.1], [0.2, 0.0, -0.15])


def cloth(air: bool = True) -> Scene:
    """A sheet that falls, turned a little, through still air or a vacuum."""
    content = {
        "kind": "cloth",
        "shape": {"grid": {"size": [0.5, 0.4], "cells": [3, 3]}},
        "density": 0.2,
        "mu": 60,
        "lam": 60,
        "damping": 0.02,
        "bending": 1e-3,
        "bending_damping": 1e-6,
        "rotation_vector": [0.3, 0.2, 0.0],
        "colour": [0.2, 0.45, 0.25],
        **({"air": {"density": 1.2, "drag": 1.0, "lift": 0.0}} if air else {}),
    }
    return _scene("cloth", {"bodies": {"cloth": content}}, 12, "auto", [0.0, -2.6, -0.1], [0.0, 0.0, -0.3])


def dangle(angle: float) -> Scene:
    """A link that hangs from a hinge, at rest or let go at an angle."""
    return _hinged(angle, {"damping": 0.2}, DOWN)


def arm() -> Scene:
    """A link on a hinge with a spring, without weight."""
    return _hinged(0.8, {"stiffness": 2.0, "target": 0.0}, [0.0, 0.0, 0.0])


def _hinged(angle: float, hinge: Mapping, gravity: list) -> Scene:
    link = {"shape": {"box": {"size": [0.1, 0.08, 0.5]}}, "mass": 1.0, "colour": BLUE, "collision": "none"}
    joint = {
        "kind": "revolute",
        "between": ["world", "link"],
        "parent_point": [0.0, 0.0, 1.0],
        "child_point": [0.0, 0.0, 0.25],
        "axis": [0.0, 1.0, 0.0],
        "angle": angle,
        **hinge,
    }
    content = {
        "bodies": {"link": link},
        "joints": {"hinge": joint},
        "gravity": gravity,
        "timing": {"integrator": "rk4"},
    }
    return _scene("link", content, 14, 8, [0.3, -2.0, 0.8], [0.0, 0.0, 0.8])


def far() -> Scene:
    """A small ball that falls across the view of a distant camera, at one distance from it."""
    ball = {
        "shape": {"sphere": {"radius": 0.12, "subdivisions": 2}},
        "mass": 1.0,
        "position": [-0.4, 0.0, 0.2],
        "velocity": [1.0, 0.0, 1.0],
        "colour": BLUE,
    }
    return _scene("far ball", {"bodies": {"body": ball}}, 10, 4, [0.0, -40.0, 0.0], [0.0, 0.0, 0.0], "2 deg")
