from typing import Any

import numpy as np
import pytest
import torch

from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.foreign.rigid_trajectory import Ground, rotation_of
from gradsim_reproduction.foreign.soft_trajectory import Solid, trajectory

FPS, FRAMES = 30, 4
GROUND = {"stiffness": 4000, "dissipation": 0.1, "friction_stiffness": 20, "friction": 0.5}


@pytest.fixture(scope="module")
def block():
    """A soft block that spins and strikes the ground, and its scene."""
    node = {
        "kind": "solid",
        "shape": {"box": {"size": [0.25, 0.2, 0.2], "cells": [2, 1, 1]}},
        "mu": 6e4,
        "lam": 3e5,
        "density": 400,
        "damping": 20,
        "position": [0, 0, 0.2],
        "rotation_vector": [0.3, 0.2, 0.1],
        "velocity": [0.5, 0, -2],
        "angular_velocity": [1, -2, 3],
    }
    scene: Any = Scene.parse({"timing": {"fps": FPS, "frames": FRAMES}, "bodies": {"body": node}, "ground": GROUND})
    rest = scene.bodies["body"].rest
    every = np.arange(len(rest.vertices))
    solid = Solid(rest.vertices, rest.tets, 6e4, 3e5, 400, 20, every[:0], every)
    arms = rest.vertices @ rotation_of([0.3, 0.2, 0.1]).T
    start = arms + [0, 0, 0.2], np.array([0.5, 0, -2]) + np.cross([1, -2, 3], arms)
    return scene, lambda steps: trajectory(solid, *start, FPS, FRAMES, steps, Ground(*GROUND.values()))


def test_its_order_is_two(block):
    """Richardson: each halving of the step leaves a quarter; contact begins within steps, hence not exactly."""
    _, at = block
    x = [at(100 * 2**k) for k in range(3)]
    ratio = np.abs(x[0] - x[1]).max() / np.abs(x[1] - x[2]).max()
    assert 3 < ratio < 5.5


def test_the_product_converges_to_it(block):
    """Semi-implicit Euler is of first order: a quarter of the step, a quarter of the difference."""
    scene, at = block
    mine, off = at(400), []
    for substeps in (200, 800):
        with torch.no_grad():
            off.append(np.abs(Model(scene, substeps=substeps).rollout()["body"]["x"][0].numpy() - mine).max())
    assert 3.5 < off[0] / off[1] < 4.5 and off[1] < 1e-4


def test_pinned_vertices_stay():
    beam: Any = Scene.library("beam").bodies["beam"]
    rest = beam.rest
    pinned = np.flatnonzero(rest.vertices[:, 0] < rest.vertices[:, 0].min() + 1e-9)
    solid = Solid(rest.vertices, rest.tets, 1e5, 5e5, 1000, 15, pinned, pinned[:0])
    x = trajectory(solid, rest.vertices, np.ones_like(rest.vertices), FPS, 2, 200)
    assert np.array_equal(x[1][pinned], rest.vertices[pinned]) and not np.array_equal(x[1], x[0])
