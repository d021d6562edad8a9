"""Scenes of `reproduce clips`, drawn from seeds: bodies in flight, on inclines and grounds, pendulums, arms, beams and sheets.

A fit may know the scene with the ranges of its unknowns; truths are uniform over the ranges, from a stream of their own. Scenes
state no colors and leave integrator and steps open. Every clip has one fault: a model in which one thing is wrong, and which other
values of the unknowns cannot make up for exactly (where gravity is unknown, a clock that is off does not count, for one).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.identification.unknowns import Space
from gradsim.scene import Scene
from gradsim_reproduction.foreign.rigid_trajectory import Body, rotation_of

SCENE, TRUTH, LOOK, NOISE, STARTS = range(5)  # streams of random numbers
GRAVITY = 9.81
RATE, SIZE, DRAG, FORCE = "rate", "size", "drag", "force"  # faults
RATE_OFF, SIZE_OFF = 1.03, 1.05  # clock and length of a faulty model over the true ones
AIR = 0.6  # linear drag v' = ... - AIR v of videos whose model has none [1/s]
SMALL, MIDDLE, LARGE, LARGEST = (160, 120), (240, 180), (320, 240), (640, 480)


@dataclass(frozen=True)
class Recording:
    """One video to come: what a fit may know, and the truth, which it may not.

    Args:
        kind, number: Of the recording.
        scene: Of the right model, with arbitrary values of the unknowns.
        unknowns: With their ranges.
        truth: Values by name.
        fault: What is wrong in the faulty model.
    """

    kind: str
    number: int
    scene: Any  # a Scene, whose nodes are of the kind that was drawn
    unknowns: tuple[str, ...]
    truth: dict[str, float]
    fault: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    @property
    def times(self) -> np.ndarray:
        """Instants of the frames [s]."""
        return np.arange(self.scene.timing.frames) / self.scene.timing.fps


@dataclass(frozen=True)
class Kind:
    """A kind of recording.

    Args:
        title: In words.
        count: Recordings of the whole experiment.
        draw: Scene and unknowns from a size of the image and random numbers.
        faults: Of the recordings, in turn.
    """

    title: str
    count: int
    draw: Callable[[tuple[int, int], np.random.Generator], tuple[dict, tuple[str, ...]]]
    faults: tuple[str, ...]


def recording(kind: str, number: int, seed: int) -> Recording:
    """The recording of this kind and number."""
    content, unknowns = KINDS[kind].draw(size_of(kind, number), stream(kind, number, seed, SCENE))
    scene = Scene.parse({"name": f"{kind} {number}", "gravity": GRAVITY, **content})
    space, hidden = Space(scene, unknowns), stream(kind, number, seed, TRUTH)
    truth = {name: float(hidden.uniform(*space.range(k))) for k, name in enumerate(space.names)}
    faults = KINDS[kind].faults
    return Recording(kind, number, scene, unknowns, truth, faults[number % len(faults)])


def stream(kind: str, number: int, seed: int, purpose: int) -> np.random.Generator:
    """Random numbers of one recording for one purpose."""
    return np.random.default_rng([seed, list(KINDS).index(kind), number, purpose])


def size_of(kind: str, number: int) -> tuple[int, int]:
    """Width and height of the image: most are small, a quarter is larger."""
    if number % 12 == 11:
        return LARGEST if kind in ("ball", "incline") else LARGE
    return {3: MIDDLE, 7: LARGE}.get(number % 12, SMALL)


def from_camera(number: int) -> bool:
    """True of every other recording: chroma is left-sited, as H.264 says; of others a library encodes RGB, and centers it."""
    return number % 2 == 1


def wrong_model(one: Recording) -> tuple[Scene, tuple[str, ...]]:
    """Scene and unknowns of the faulty model; drag is a fault of the video, whose model is the right one without it."""
    content, unknowns = one.scene.model_dump(exclude_unset=True), one.unknowns
    if one.fault == RATE:
        content["timing"]["fps"] *= RATE_OFF
    elif one.fault == SIZE:
        for body in content["bodies"].values():
            _enlarge(body)
        if one.kind == "incline":  # the larger box rests on the incline, too
            box, up = content["bodies"]["box"], np.array(content["grounds"]["ground"]["normal"])
            raised = (1 - 1 / SIZE_OFF) * box["shape"]["box"]["size"][2] / 2
            box["position"] = (np.array(box["position"]) + raised * up).tolist()
    elif one.fault == FORCE:
        left_out, unknowns = LEFT_OUT[one.kind], tuple(u for u in unknowns if u.split(":")[0] != LEFT_OUT[one.kind])
        _set(content, left_out, 0.0)
    return Scene.parse(content), unknowns


def _enlarge(body: dict) -> None:
    if "radius" in body:  # of a pendulum
        body["radius"] *= SIZE_OFF
    elif "grid" in body["shape"]:
        grid = body["shape"]["grid"]
        grid["size"] = [SIZE_OFF * edge for edge in grid["size"]]
    elif "sphere" in body["shape"]:
        body["shape"]["sphere"]["radius"] *= SIZE_OFF
    else:
        box = body["shape"]["box"]
        box["size"] = [SIZE_OFF * edge for edge in box["size"]]


def _set(content: dict, dotted: str, value: float) -> None:
    *place, key = dotted.split(".")
    node = content if place == [] or place[0] == "joints" else content["bodies"]
    for name in place:
        node = node[name]
    node[key] = value


LEFT_OUT = {"pendulum": "bob.damping", "arm": "joints.elbow.stiffness", "beam": "gravity"}


def _ball(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """In flight, up and down again."""
    radius, z = rng.uniform(0.2, 0.32), rng.uniform(0.4, 0.6)
    ball = {"shape": {"sphere": {"radius": radius, "subdivisions": 3}}, "mass": 1.0, "position": [-1.1, 0.0, z]}
    ball["velocity"] = [2.3, 0.0, 4.3]
    unknowns = ("ball.velocity.x:1.8:2.8", "ball.velocity.z:3.8:4.8", "gravity.z:-12:-8")
    frames = int(rng.integers(26, 31))
    return _content(size, frames, {"ball": ball}, [0.0, -3.6, rng.uniform(0.6, 1.2)], [0.1, 0.0, 0.9], 0.75), unknowns


def _pair(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """Two balls in flight that do not meet, in one mask."""
    low, high = rng.uniform(0.16, 0.24, 2)
    shape = lambda radius: {"sphere": {"radius": radius, "subdivisions": 3}}
    first = {"shape": shape(low), "mass": 1.0, "position": [-1.2, 0.0, 0.2], "velocity": [2.2, 0.0, 3.6]}
    second = {"shape": shape(high), "mass": 1.0, "position": [1.2, 0.0, 1.2], "velocity": [-2.2, 0.0, 3.8]}
    unknowns = ("first.velocity.x:1.8:2.6", "first.velocity.z:3.4:4.0", "second.velocity.x:-2.6:-1.8")
    unknowns += ("second.velocity.z:3.4:4.0",)
    eye = [0.0, -3.8, rng.uniform(0.6, 1.2)]
    return _content(size, 26, {"first": first, "second": second}, eye, [0.0, 0.0, 0.9], 0.75), unknowns


def _toss(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """A box that tumbles in flight."""
    edges = [rng.uniform(0.5, 0.7), rng.uniform(0.3, 0.45), rng.uniform(0.25, 0.4)]
    box = {"shape": {"box": {"size": edges}}, "mass": 1.0, "position": [-1.1, 0.0, 0.5], "velocity": [2.2, 0.0, 4.3]}
    box |= {"rotation_vector": rng.uniform(-0.6, 0.6, 3).tolist()}
    unknowns = ("box.velocity.x:1.8:2.6", "box.velocity.z:3.8:4.8")
    unknowns += tuple(f"box.angular_velocity.{axis}:-4:4" for axis in "xyz")
    frames = int(rng.integers(26, 31))
    return _content(size, frames, {"box": box}, [0.3, -3.6, rng.uniform(0.6, 1.5)], [0.1, 0.0, 0.9], 0.75), unknowns


def _incline(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """A box that begins to slide down from rest."""
    tilt = rng.uniform(0.5, 0.65)
    edges = [rng.uniform(0.4, 0.55), rng.uniform(0.3, 0.4), rng.uniform(0.25, 0.35)]
    up, down = np.array([math.sin(tilt), 0.0, math.cos(tilt)]), np.array([math.cos(tilt), 0.0, -math.sin(tilt)])
    place = -1.1 * down + edges[2] / 2 * up
    box = {"shape": {"box": {"size": edges}}, "mass": 2.0, "position": place.tolist()}
    box["rotation_vector"] = [0.0, tilt, 0.0]
    ground = {"stiffness": 1e5, "dissipation": 1.0, "friction_stiffness": 500, "friction": 0.2, "normal": up.tolist()}
    eye = [rng.uniform(-0.5, 0.5), -3.4, rng.uniform(0.6, 1.4)]
    frames = int(rng.integers(28, 33))
    content = _content(size, frames, {"box": box}, eye, [0.0, 0.0, 0.05], 0.75)
    return content | {"ground": ground}, ("ground.friction:0.05:0.3",)


def _bounce(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """A box that lands, tumbles and slides."""
    edges = [rng.uniform(0.45, 0.6), rng.uniform(0.35, 0.45), rng.uniform(0.3, 0.4)]
    tilt = [*(rng.uniform(0.1, 0.35, 2) * rng.choice([-1, 1], 2)).tolist(), rng.uniform(-0.6, 0.6)]
    shape = {"box": {"size": edges}}
    corners = _corners(edges) @ rotation_of(tilt).T
    above = rng.uniform(0.5, 0.7) - corners[:, 2].min()
    box = {"shape": shape, "mass": 2.0, "position": [-1.1, 0.0, above], "rotation_vector": tilt}
    box |= {"velocity": [2.0, 0.0, 0.5], "angular_velocity": rng.uniform(-2, 2, 3).tolist()}
    ground = {"stiffness": 2e4, "dissipation": 0.6, "friction_stiffness": 100, "friction": 0.4}
    unknowns = ("box.velocity.x:1.5:2.5", "box.velocity.z:0:1", "ground.friction:0.2:0.8", "ground.dissipation:0.3:1.2")
    content = _content(size, 32, {"box": box}, [0.3, -3.6, rng.uniform(0.9, 1.6)], [0.1, 0.0, 0.5], 0.75)
    return content | {"ground": ground}, unknowns


def _rebound(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """A ball that bounces, and keeps the same share of its speed each time; the contact lasts 1.6 ms, and in the video no time."""
    radius, above = rng.uniform(0.16, 0.24), rng.uniform(0.5, 0.8)
    ball = {"shape": {"sphere": {"radius": radius, "subdivisions": 3}}, "mass": 1.0}
    ball |= {"position": [-1.1, 0.0, radius + above], "velocity": [1.7, 0.0, 0.5]}
    ground = {"law": "constant-restitution", "stiffness": 4e6, "damping": 400, "friction": 0, "friction_stiffness": 0}
    unknowns = ("ball.velocity.x:1.3:2.1", "ball.velocity.z:0:1", "gravity.z:-12:-8", "ground.damping:150:1000")
    frames = int(rng.integers(32, 37))
    content = _content(size, frames, {"ball": ball}, [0.0, -3.6, rng.uniform(0.6, 1.2)], [0.0, 0.0, 0.6], 0.75)
    return content | {"ground": ground}, unknowns


def _pendulum(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """A ball on a string that is too thin to see."""
    bob = {"kind": "pendulum", "pivot": [0, 0, 1.0], "string_length": 0.5, "radius": rng.uniform(0.1, 0.16)}
    bob |= {"angle": 1.0, "damping": 0.1, "drag": 0.0}
    eye = [rng.uniform(-0.6, 0.6), -2.8, rng.uniform(0.7, 1.1)]
    unknowns = ("bob.string_length:0.4:0.65", "bob.damping:0.15:0.6", "bob.angle:0.7:1.3", "bob.rate:-1:1")
    return _content(size, 28, {"bob": bob}, eye, [0, 0, 0.65], 0.6, fps=25), unknowns


def _arm(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """Two links on hinges, the upper one held by the world."""
    upper = {"shape": {"box": {"size": [0.24, 0.2, 0.6]}}, "mass": 1.2, "collision": "none"}
    lower = {"shape": {"box": {"size": [0.2, 0.16, 0.5]}}, "mass": 0.8, "collision": "none"}
    shoulder = {"kind": "revolute", "between": ["world", "upper"], "parent_point": [0.0, 0.0, 1.0]}
    shoulder |= {"child_point": [0.0, 0.0, 0.28], "axis": [0.2, 1.0, 0.0], "angle": rng.uniform(0.6, 1.4)}
    shoulder |= {"rate": rng.uniform(-2, 2), "damping": 0.1}
    elbow = {"kind": "revolute", "between": ["upper", "lower"], "parent_point": [0.0, 0.0, -0.28]}
    elbow |= {"child_point": [0.0, 0.0, 0.22], "axis": [0.0, 1.0, 0.1], "angle": rng.uniform(-1.2, 0.2)}
    elbow |= {"rate": rng.uniform(-2, 2), "stiffness": 2.0, "damping": 0.05}
    eye = [rng.uniform(-0.6, 0.6), -3.2, rng.uniform(0.5, 1.0)]
    content = _content(size, 30, {"upper": upper, "lower": lower}, eye, [0.1, 0.0, 0.6], 0.8)
    unknowns = ("lower.mass:0.3:2", "joints.shoulder.damping:0.05:0.4", "joints.elbow.stiffness:1:6")
    return content | {"joints": {"shoulder": shoulder, "elbow": elbow}}, unknowns


def _beam(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """A soft beam, clamped at its left end, that swings under its weight."""
    length, width = rng.uniform(0.4, 0.5), rng.uniform(0.1, 0.13)
    beam = {"kind": "solid", "mu": 8e4, "lam": 4e5, "density": 600.0, "damping": 20}
    beam |= {"shape": {"box": {"size": [length, width, width], "cells": [5, 1, 1], "per_cell": 6}}, "pinned": ["-x"]}
    beam |= {"rotation_vector": [0.0, rng.uniform(-0.3, 0.0), 0.0]}
    eye = [rng.uniform(-0.2, 0.2), -1.0, rng.uniform(-0.1, 0.25)]
    content = _content(size, 26, {"beam": beam}, eye, [0.0, 0.0, -0.07], 0.65)
    return content, ("beam.mu:4e4:2e5", "beam.angular_velocity.y:-1.5:1.5")


def _cloth(size: tuple[int, int], rng: np.random.Generator) -> tuple[dict, tuple[str, ...]]:
    """A rubber sheet that hangs on one edge, swings and stretches."""
    width, length, lean = rng.uniform(0.35, 0.5), rng.uniform(0.4, 0.5), rng.uniform(0.5, 0.9)
    cloth = {"kind": "cloth", "mu": 40.0, "lam": 40.0, "density": 0.9, "damping": 0.2, "bending": 0.01}
    cloth |= {"shape": {"grid": {"size": [width, length], "cells": [4, 5]}}, "pinned": ["+y"]}
    cloth |= {"rotation_vector": [math.pi / 2 - lean, 0.0, 0.0]}
    eye = [rng.uniform(-0.4, 0.4), -1.1, rng.uniform(0.1, 0.35)]
    unknowns = ("cloth.mu:20:80", "cloth.angular_velocity.x:-1.5:1.5")
    return _content(size, 26, {"cloth": cloth}, eye, [0.0, 0.0, -0.05], 0.75), unknowns


def _corners(edges: list[float]) -> np.ndarray:
    signs = np.array(np.meshgrid(*[[-0.5, 0.5]] * 3)).reshape(3, -1).T
    return Body.of_hull(signs * edges, 1.0).points


def _content(size, frames: int, bodies: dict, eye: list, target: list, fov: float, fps: int = 30) -> dict:
    camera = {"size": list(size), "look_at": {"eye": eye, "target": target, "fov": fov}}
    return {"timing": {"fps": fps, "frames": frames}, "bodies": bodies, "camera": camera}


KINDS = {
    "ball": Kind("ball in flight", 12, _ball, (DRAG, SIZE)),
    "pair": Kind("two balls in flight", 10, _pair, (RATE, DRAG, SIZE)),
    "toss": Kind("box in flight", 12, _toss, (RATE, DRAG, SIZE)),
    "incline": Kind("box on an incline", 12, _incline, (DRAG, SIZE)),
    "bounce": Kind("box that lands", 10, _bounce, (RATE, SIZE)),
    "pendulum": Kind("pendulum", 12, _pendulum, (RATE, FORCE, SIZE)),
    "arm": Kind("arm of two links", 10, _arm, (RATE, FORCE, SIZE)),
    "beam": Kind("soft beam", 10, _beam, (RATE, FORCE, SIZE)),
    "rebound": Kind("ball that bounces", 10, _rebound, (DRAG, SIZE)),
    "cloth": Kind("sheet that hangs", 10, _cloth, (RATE, SIZE)),
}
