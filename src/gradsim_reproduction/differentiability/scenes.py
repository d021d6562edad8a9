"""Small scenes in generic states for the differentiability table: tilted, spinning, pushed, in contact, unlike in all."""

from typing import Any

from gradsim.scene import Scene

GRAVITY = [0.3, -0.2, -9.81]
TIMING = {"fps": 50, "frames": 6, "substeps": 20, "integrator": "semi-implicit"}
# scales are parameters of the forces' kernels: solids and sheets that all have them share those, whatever their moduli
SCALED = {"scale": 0.95, "rest_length_factor": 1.03}
LEVEL = {"height": 0.01, "normal": [0.1, -0.05, 1.0]}
TURNED = {"rotation_vector": [0.3, 0.2, 0.1], "velocity": [1.0, 0.2, -1.5], "angular_velocity": [2.0, 1.0, -3.0]}
HARD = {"stiffness": 2000, "friction_stiffness": 20, "friction": 0.4}
CAMERA = {"size": [24, 20], "look_at": {"eye": [0.2, -1.2, 0.5], "target": [0.05, 0, 0.15], "fov": 0.6}}
LIGHTS = {
    "sky": {"kind": "ambient", "colour": [0.3, 0.35, 0.4]},
    "sun": {"kind": "directional", "direction": [0.3, 0.8, -0.9], "colour": [0.5, 0.45, 0.4]},
    "lamp": {"kind": "point", "position": [0.5, -0.9, 0.9], "colour": [0.3, 0.3, 0.35], "falloff": "inverse-square"},
}


def rigid(law: str = "continuous", weight: str = "mass", **changes) -> Scene:
    """A box that is pushed, falls 2 cm on a soft ground and tumbles over its corners."""
    loss = {"continuous": {"dissipation": 0.5}, "paper": {"damping": 10}}[law]
    body = {
        "shape": {"box": {"size": [0.3, 0.24, 0.18]}},
        weight: {"mass": 2.0, "density": 300.0}[weight],
        "scale": 0.9,
        "position": [0.01, -0.02, 0.21],
        **TURNED,
        "pushes": [
            {"impulse": [0.5, 0.2, -0.1], "point": [-0.1, 0.02, 0.03], "at": 0},
            {"force": [3.0, -2.0, 1.0], "point": [0.05, 0.02, 0.03], "window": [0.013, 0.047]},
        ],
        **changes,
    }
    return _scene({"body": body}, {**HARD, "law": law, **loss})


def ball(weight: str = "mass", **levers: float) -> Scene:
    """A ball that spins, bounces and rolls: one contact of a sphere, with a ground and a post, with levers of friction on both."""
    inertia = {weight: {"mass": 1.5, "density": 400.0}[weight]}
    body = {
        "shape": {"sphere": {"radius": 0.1, "subdivisions": 1}},
        **inertia,
        "position": [0.0, -0.02, 0.13],
        **TURNED,
    }
    pushes = [{"impulse": [0.3, 0.2, -0.4], "point": [-0.03, 0.02, 0.05]}]
    post = {"radius": 0.06, "position": [0.2, 0.01, 0.1], **HARD, "dissipation": 0.4, **levers}
    return _scene({"body": {**body, "pushes": pushes}}, {**HARD, "dissipation": 0.5, **levers}, post)


def pendulum() -> Scene:
    """A pendulum in a plane askew, far from the bottom, damped, dragged and pushed."""
    bob = {"kind": "pendulum", "pivot": [0.0, 0.1, 0.55], "string_length": 0.35, "radius": 0.1, "angle": 1.1}
    bob |= {"rate": -0.7, "damping": 0.2, "drag": 0.1, "plane": [1.0, 0.5, 0.0], "force_per_mass": [0.8, -0.5, 0.3]}
    return _scene({"body": bob})


def double_pendulum() -> Scene:
    """Two unlike arms in a plane askew, far from the bottom, with damped hinges and a force on the far end."""
    arms = {"kind": "double_pendulum", "pivot": [0.0, 0.1, 0.6], "plane": [1.0, 0.5, 0.0], "damping": 0.05}
    arms |= {"first_length": 0.3, "first_mass": 1.2, "first_angle": 1.1, "first_rate": -0.7, "first_radius": 0.06}
    arms |= {"second_length": 0.22, "second_mass": 0.8, "second_angle": -0.6, "second_rate": 1.5}
    return _scene({"body": {**arms, "rod_radius": 0.02, "force": [0.8, -0.5, 0.3]}})


def solid(elastic: str = "young", **changes: float) -> Scene:
    """A turned beam of two materials, pinned along an edge and held by springs, which swings onto a ground and a ball."""
    moduli = {"young": {"young": 4000, "poisson": 0.3}, "mu": {"mu": 2000, "lam": 3000}}[elastic]
    body = {
        "kind": "solid",
        "shape": {"box": {"size": [0.3, 0.12, 0.1], "cells": [2, 1, 1]}},
        "density": 900,
        **moduli,
        **SCALED,
        "damping": 3.0,
        "activation": 0.05,
        "position": [0.02, -0.01, 0.1],
        **TURNED,
        "pinned": ["-x-z"],
        "anchors": [{"region": "+x+y", "stiffness": 40, "damping": 0.3, "offset": [0.02, 0.0, 0.03]}],
        "pushes": [{"impulse": [0.2, 0.1, -0.3]}, {"impulse": [0.0, 0.3, 0.1], "region": "+x"}],
        "regions": {"tip": {"box": [[0, -1, -1], [1, 1, 1]], "density": 600, "damping": 2}},
        **changes,
    }
    return _scene({"body": body}, *_soft(1.0))


def cloth(elastic: str = "mu", **changes: float) -> Scene:
    """A turned sheet, pinned at a corner and held at another, in the wind; it falls onto a ground and a ball."""
    moduli = {"mu": {"mu": 30, "lam": 40}, "young": {"young": 2e4, "poisson": 0.3, "thickness": 2e-3}}[elastic]
    body = {
        "kind": "cloth",
        "shape": {"grid": {"size": [0.3, 0.2], "cells": [3, 2]}},
        "density": 0.5,
        **moduli,
        **SCALED,
        "damping": 0.05,
        "activation": 0.04,
        "bending": 2e-3,
        "bending_damping": 1e-5,
        "bending_activation": 0.1,
        "air": {"drag": 1.3, "lift": 0.6, "wind": [1.0, -2.0, 0.5]},
        "position": [0.05, -0.01, 0.06],
        **TURNED,
        "pinned": ["-x-y"],
        "anchors": [
            {"region": "+x+y", "stiffness": 5, "damping": 0.02, "offset": [0.02, 0.0, 0.03]},
            {"along": [0.2, -0.5, 1.0], "stiffness": 0.1, "damping": 0.01, "offset": [0.0, 0.0, -0.01]},
        ],
        "pushes": [{"impulse": [0.02, 0.01, -0.03], "region": "+x"}],
        **changes,
    }
    return _scene({"body": body}, *_soft(0.05))


def springs(weight: str = "mass", **changes: object) -> Scene:
    """A turned net of springs, shorter at rest than drawn, pinned at a corner; it falls onto a ground and a ball."""
    body = {
        "kind": "springs",
        "shape": {"net": {"size": [0.3, 0.2], "cells": [3, 2]}},
        weight: {"mass": 0.05, "density": 0.02}[weight],
        "stiffness": 25,
        "damping": 0.02,
        "rest_length_factor": 0.9,
        "radius": 0.01,
        "position": [0.05, -0.01, 0.06],
        **TURNED,
        "pinned": ["-x-y"],
        "anchors": [{"region": "+x+y", "stiffness": 5, "damping": 0.02, "offset": [0.02, 0.0, 0.03]}],
        "pushes": [{"impulse": [0.02, 0.01, -0.03]}],
        **changes,
    }
    return _scene({"body": body}, *_soft(0.05))


def driven_springs() -> Scene:
    """The same net, whose pinned corner moves with a gripper instead, late by a part of a step."""
    poses = [
        {"position": [0.1, 0.05, 0.02]},
        {"position": [0.13, 0.05, 0.03], "quat_xyzw": [0.05, 0.1, 0.0, 0.9937303]},
        {"position": [0.18, 0.03, 0.03], "quat_xyzw": [0.1, 0.2, 0.1, 0.9695360]},
    ]
    gripper = {"region": {"vertices": [0, 1, 4]}, "times": [0.0, 0.05, 0.1], "poses": poses, "delay": 0.0123}
    return springs(pinned=[], motion=gripper)


def rod(weight: str = "mass") -> Scene:
    """A curved rod, thicker in one direction, pinned at an end and held by an anchor at the other; it falls onto a ground and a ball."""
    body = {
        "kind": "rod",
        "shape": {
            "points": [
                [-0.16, 0, 0],
                [-0.1, 0.02, 0],
                [-0.03, 0.03, 0.01],
                [0.04, 0.03, 0.02],
                [0.1, 0.01, 0.02],
                [0.15, -0.02, 0.01],
            ]
        },
        weight: {"mass": 0.05, "density": 0.15}[weight],
        "stretching": 8,
        "bending": 4e-3,
        "bending_ratio": 0.7,
        "twisting": 3e-4,
        "stretching_time": 5e-4,
        "bending_time": 2e-3,
        "twisting_time": 4e-4,
        "curvature1": 2.0,
        "curvature2": -1.5,
        "natural_twist": 1.5,
        "scale": 0.95,
        "radius": 0.01,
        "position": [0.05, -0.01, 0.06],
        **TURNED,
        "pinned": ["-x"],
        "anchors": [{"region": "+x", "stiffness": 5, "damping": 0.02, "offset": [0.02, 0.0, 0.03]}],
        "pushes": [{"impulse": [0.02, 0.01, -0.03]}],
    }
    return _scene({"body": body}, *_soft(0.05), timing={**TIMING, "substeps": 60})


def linkage() -> Scene:
    """An arm on a hinge, with a hand on a ball joint that hits the ground, and a weight that slides along it."""
    hinge = {
        "between": ["world", "body"],
        "axis": [0.2, 1, 0.1],
        "parent_point": [0, 0, 0.36],
        "child_point": [-0.15, 0, 0.01],
    }
    hinge |= {
        "angle": 0.9,
        "rate": 2.0,
        "stiffness": 1.5,
        "target": 0.2,
        "damping": 0.02,
        "torque": 0.1,
        "friction": 0.02,
        "friction_rate": 0.4,
        "armature": 0.004,
        "backlash": 0.1,
    }
    hinge |= {"lower": -0.1, "upper": 0.8, "limit_stiffness": 30}
    wrist = {"between": ["body", "hand"], "parent_point": [0.15, 0, 0], "child_point": [-0.1, 0.01, 0], "damping": 5e-3}
    wrist |= {"rotation_vector": [0.2, 0.3, -0.2], "angular_velocity": [1.0, -2.0, 0.5]}
    wrist |= {"friction": 0.01, "friction_rate": 2.0}
    rail = {
        "between": ["body", "weight"],
        "axis": [1, 0.1, 0],
        "parent_point": [0, 0, 0.05],
        "child_point": [0, 0, -0.02],
    }
    rail |= {
        "displacement": 0.03,
        "speed": 0.6,
        "stiffness": 30,
        "target": 0.01,
        "damping": 0.2,
        "force": 0.5,
        "friction": 0.05,
        "friction_speed": 0.2,
        "armature": 0.1,
        "backlash": 0.004,
    }
    box = lambda *size: {"shape": {"box": {"size": size}}}
    bodies = {
        "body": {**box(0.3, 0.05, 0.04), "mass": 0.8, "centre_of_mass": [0.01, 0.004, -0.003]},
        "hand": {**box(0.2, 0.06, 0.05), "mass": 0.5, "scale": 0.9, "pushes": [{"impulse": [0.05, 0.1, -0.1]}]},
        "weight": {**box(0.06, 0.06, 0.06), "density": 900},
    }
    joints = {
        "hinge": {"kind": "revolute", **hinge},
        "wrist": {"kind": "ball", **wrist},
        "rail": {"kind": "prismatic", **rail},
    }
    ground = {"stiffness": 2000, "dissipation": 0.5, "friction_stiffness": 6, "friction": 0.4, "height": -0.04}
    return _scene(bodies, ground, joints=joints)


def pile() -> Scene:
    """A box that falls on a slab next to a ball, which it pushes away; all of them lie, roll or land on the ground."""
    ball = {"shape": {"sphere": {"radius": 0.07, "subdivisions": 1}}, "mass": 0.6, "position": [0.2, 0.03, 0.1]}
    bodies = {
        "body": {"shape": {"box": {"size": [0.2, 0.14, 0.1]}}, "mass": 1.0, "position": [0.03, -0.01, 0.22]},
        "slab": {"shape": {"box": {"size": [0.24, 0.2, 0.06]}}, "density": 400, "position": [-0.03, 0.01, 0.067]},
        "ball": {**ball, "velocity": [-1.5, 0.1, 0.2], "angular_velocity": [1, 2, 3]},
    }
    bodies["body"] |= {**TURNED, "pushes": [{"impulse": [0.3, 0.1, -0.2], "point": [0.02, 0.03, 0.01]}]}
    bodies["slab"] |= {"rotation_vector": [0.1, -0.05, 0.2], "velocity": [0.3, 0.1, -0.4]}
    touch = {"between": "all", "stiffness": 3000, "dissipation": 0.3, "friction_stiffness": 15, "friction": 0.35}
    return _scene(bodies, {**HARD, "dissipation": 0.5}, contacts={"touch": touch})


def meeting() -> Scene:
    """A soft block, held by a box at one end, falls onto a ball; another lands on it; all is in the air."""
    block = {"kind": "solid", "shape": {"box": {"size": [0.2, 0.1, 0.1], "cells": [2, 1, 1]}}, "density": 500}
    block |= {"young": 5000, "poisson": 0.3, "damping": 4.0, "activation": 0.05}
    ball = {"shape": {"sphere": {"radius": 0.08, "subdivisions": 1}}, "mass": 0.7, "position": [0.02, 0.01, 0.015]}
    ball["angular_velocity"] = [3, -2, 1]
    box = {"shape": {"box": {"size": [0.06, 0.08, 0.1]}}, "mass": 0.4, "position": [-0.15, 0, 0.16]}
    lower = {"position": [0, 0, 0.16], "rotation_vector": [0.1, 0.2, 0.3], "velocity": [0, 0, -2]}
    upper = {"position": [0.04, 0.02, 0.285], "velocity": [0.1, 0, -3.5], "pushes": [{"impulse": [0.1, 0.05, -0.1]}]}
    contacts = {
        "hit": {"between": ["body", "ball"], "stiffness": 800, "dissipation": 1.0, "thickness": 0.004},
        "pile": {"between": ["upper", "body"], "thickness": 0.02, "stiffness": 1000, "dissipation": 0.6},
    }
    grip = {"body": "body", "to": "box", "region": "-x", "stiffness": 300, "damping": 0.5}
    bodies = {"body": {**block, **lower}, "upper": {**block, **upper}, "ball": ball, "box": box}
    timing = {**TIMING, "frames": 4, "substeps": 60}
    return _scene(bodies, timing=timing, contacts=contacts, attachments={"grip": grip})


def shutter() -> Scene:
    """A box in flight, through a lens with distortion, a rolling shutter and an exposure."""
    optics = {"distortion": [-0.2, 0.05, 1e-3, -2e-3, 0.01], "readout": 0.02, "exposure": 0.015, "instants": 3}
    return _filmed(**optics, delay=0.01)


def fisheye() -> Scene:
    """The same box through a fisheye lens."""
    near = {"eye": [0.15, -0.65, 0.4], "target": [0.05, 0, 0.2], "fov": 1.3}
    return _filmed(fisheye=[-0.05, 0.02, -0.01, 0.005], look_at=near)


def response() -> Scene:
    """The same box by a camera with a response and a gain, with motion blur."""
    return _filmed(exposure=0.015, instants=3, gamma=2.0, gain=1.2)


def _filmed(**camera) -> Scene:
    body = {"shape": {"box": {"size": [0.3, 0.24, 0.18]}}, "mass": 2.0, "position": [0.01, -0.02, 0.21], **TURNED}
    return _scene({"body": {**body, "velocity": [0.8, 0.3, 0.4]}}, camera={**CAMERA, **camera})


def _soft(share: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ground and post for light bodies."""
    ground = {"margin": 0.004, "stiffness": 300 * share, "dissipation": 0.5, "friction_stiffness": 2 * share}
    post = {"radius": 0.1, "position": [0.12, 0.02, -0.11], "stiffness": 200 * share, "friction_stiffness": 0.7 * share}
    return {**ground, "friction": 0.4}, post


def _scene(bodies, ground=None, post=None, **more) -> Scene:
    content = {"gravity": GRAVITY, "timing": TIMING, "bodies": bodies, "camera": CAMERA, "lights": LIGHTS, **more}
    content |= {"ground": {**LEVEL, **ground}} if ground else {}
    content |= {"obstacles": {"post": post}} if post else {}
    return Scene.parse(content)
