"""Tasks on videos of pendula, springs and a bouncing ball: scenes, unknowns, observations.

Truths and starts are uniform over the ranges in this file, from different streams. All else of a scene is known: the
camera, radii as drawn, where things hang, and the masses that no video shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.identification import synthetic
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import NOMINAL_NOISE, QUANTIZATION_NOISE, colors
from gradsim.identification.observation.labelled_masks import LabelledMasks, color_shares
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene


@dataclass(frozen=True)
class VideoTask:
    """Unknowns to identify from videos of a scene.

    Args:
        name: Name of the task.
        scene: With any values of the unknowns.
        unknowns: NAME:LOW:HIGH.
        title: In words.
    """

    name: str
    scene: Scene
    unknowns: tuple[str, ...]
    title: str

    def space(self) -> Space:
        """The unknowns."""
        return Space(self.scene, self.unknowns)

    def errors(self, values: Sequence[float], truth: Sequence[float]) -> dict[str, float]:
        """Errors of each unknown: relative to the truth, or to the range where that holds 0 (angles, rates, velocities)."""
        space, errors = self.space(), {}
        for k, (x, y) in enumerate(zip(values, truth, strict=True)):
            low, high = space.range(k)
            errors[space.names[k]] = abs(x - y) / (high - low if low <= 0 <= high else abs(y))
        return errors


def tasks() -> dict[str, VideoTask]:
    """All of them by name."""
    all_tasks = (simple(), double(), *springs(), ball())
    return {task.name: task for task in all_tasks}


def simple() -> VideoTask:
    """A ball on a string, 5 s at 64²."""
    content = Scene.library("pendulum").model_dump()
    content["timing"] |= {"frames": 151, "substeps": 8}
    content["bodies"]["bob"] |= {"rod_radius": 0.0, "drag": 0.0}
    content["camera"] = {
        "size": [64, 64],
        "look_at": {"eye": [0, -3.6, 1.0], "target": [0, 0, 1.0], "fov": "35 deg"},
    }
    bounds = {"string_length": "0.3:0.8", "angle": "-2:2", "rate": "-3:3", "damping": "0.02:0.3"}
    names = tuple(f"bob.{key}:{ends}" for key, ends in bounds.items())
    return VideoTask("simple", Scene.parse(content), (*names, "gravity.z:-12:-8"), "Simple pendulum, 5 s")


def double() -> VideoTask:
    """The double pendulum of the library, 5 s at 96², its first mass known."""
    bounds = {"first_length": "0.35:0.6", "second_length": "0.3:0.5", "second_mass": "0.4:1.5", "damping": "0.002:0.05"}
    bounds |= {"first_angle": "-2.5:2.5", "second_angle": "-2.5:2.5", "first_rate": "-3:3", "second_rate": "-3:3"}
    names = tuple(f"arms.{key}:{ends}" for key, ends in bounds.items())
    scene = Scene.library("double_pendulum")
    return VideoTask("double", scene, (*names, "gravity.z:-12:-8"), "Double pendulum, 5 s")


def springs() -> list[VideoTask]:
    """Two masses on a chain of two springs, a rope and a net: stiffness, damping and rest lengths, from 2 s at 64²."""
    hung = {"rotation_vector": ["0 deg", "90 deg", "0 deg"], "velocity": [0.6, 0.0, 0.0]}
    chain = {"shape": {"rope": {"length": 0.5, "segments": 2}}, "mass": 0.4, "pinned": ["-x"], "radius": 0.05, **hung}
    rope = {"shape": {"rope": {"length": 0.8, "segments": 8}}, "mass": 0.2, "pinned": ["-x"], "radius": 0.03}
    net = {"shape": {"net": {"size": [0.7, 0.4], "cells": [4, 3]}}, "mass": 0.2, "pinned": ["-x"], "radius": 0.02}
    ends = {
        "chain": ("10:60", "0.02:0.3", "0.6:1.1", 0.55, chain, "Two masses on springs"),
        "rope": ("100:400", "0.05:0.5", "0.85:1.1", 0.6, rope, "Rope"),
        "net": ("60:300", "0.02:0.3", "0.85:1.1", 0.6, net, "Net"),
    }
    spring_tasks = []
    for name, (stiffness, damping, rest, down, body, title) in ends.items():
        body = {"kind": "springs", "stiffness": 100, "damping": 0.1, "colour": [0.55, 0.38, 0.16], **body}
        camera = {
            "size": [64, 64],
            "look_at": {"eye": [0, -3.4, 0.3 - down], "target": [0, 0, -down], "fov": "40 deg"},
        }
        content = {"name": name, "gravity": 9.81, "bodies": {name: body}, "camera": camera, "background": [0.88] * 3}
        scene = Scene.parse({**content, "timing": {"fps": 30, "frames": 61, "substeps": "auto"}})
        bounds = (f"{name}.stiffness:{stiffness}", f"{name}.damping:{damping}", f"{name}.rest_length_factor:{rest}")
        spring_tasks.append(VideoTask(name, scene, bounds, f"{title}, 2 s"))
    return spring_tasks


def ball() -> VideoTask:
    """A ball that bounces in a plane: its velocity, gravity, and what a bounce leaves."""
    bounds = ("ball.velocity.x:0.8:2.4", "ball.velocity.z:-0.5:2", "gravity.z:-12:-8", "ground.dissipation:0.03:0.25")
    return VideoTask("ball", Scene.library("ball"), bounds, "Bouncing ball, 1.5 s")


def observe_video(scene: Scene, trajectory: Trajectory, noise: int | None = None) -> Masks | LabelledMasks:
    """Camera observation of a trajectory: exact shares of pixels, or those of an 8-bit video with noise of σ = 1/255.

    Args:
        scene: The scene.
        trajectory: Trajectory of one world.
        noise: Seed of the noise; None: float frames, with a nominal σ of 1/255.
    """
    silhouettes, kinds = Silhouettes.of(scene), colors(scene)
    names, many = list(kinds.values()), len(kinds) > 1
    with torch.no_grad():
        if noise is None:
            if not many:
                return synthetic.float_masks(scene, trajectory)
            exact = silhouettes.shares(trajectory.surface, trajectory.values)[0]
            index = [[p.name for p in trajectory.parts].index(part) for (part,) in names]
            return LabelledMasks(exact[:, index], [NOMINAL_NOISE] * len(names), names, silhouettes, noisy=False)
        if not many:
            return synthetic.noisy_masks(scene, trajectory, next(iter(scene.bodies)), noise)
        video = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory), NOMINAL_NOISE, noise)
    alpha, factors, _ = color_shares(video, list(kinds), scene.background)
    sigma = float(np.hypot(NOMINAL_NOISE, QUANTIZATION_NOISE))
    return LabelledMasks(torch.tensor(alpha), (sigma * factors).tolist(), names, silhouettes)


def rollout_of(model: Model, space: Space, u: torch.Tensor, frames: int) -> Trajectory:
    """The motion of unknowns u (unknowns,)."""
    with torch.no_grad():
        return model.rollout_unchecked(model.values(space.values(u[None])), frames)
