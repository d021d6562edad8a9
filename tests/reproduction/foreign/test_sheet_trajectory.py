"""The independent sheet against the product, which shares no code with it, and against itself."""

from typing import Any

import numpy as np
import pytest
import torch

from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim_reproduction.foreign.rigid_trajectory import rotation_of
from gradsim_reproduction.foreign.sheet_trajectory import Sheet, trajectory

FPS, FRAMES, TILT = 30, 5, [0.7, 0.2, 0.1]
LAW = {"mu": 40.0, "lam": 60.0, "density": 0.9, "damping": 0.2, "bending": 0.05}


@pytest.fixture(scope="module")
def sheet():
    """A sheet on one edge that swings and folds, its scene, and its vertices over time."""
    node = {"kind": "cloth", "shape": {"grid": {"size": [0.4, 0.5], "cells": [2, 3]}}, "pinned": ["+y"], **LAW}
    node |= {"rotation_vector": TILT, "angular_velocity": [2.0, 0.5, 1.0]}
    scene: Any = Scene.parse({"timing": {"fps": FPS, "frames": FRAMES}, "bodies": {"sheet": node}})
    rest = scene.bodies["sheet"].rest
    pinned = np.flatnonzero(rest.vertices[:, 1] > rest.vertices[:, 1].max() - 1e-9)
    arms = rest.vertices @ rotation_of(TILT).T
    start = arms, np.cross([2.0, 0.5, 1.0], arms)
    one = Sheet(rest.vertices, rest.faces, *LAW.values(), pinned=pinned)
    return scene, one, start, trajectory(one, *start, np.arange(FRAMES) / FPS)


def test_the_product_converges_to_it(sheet):
    """Steps of second order: half the step, a quarter of the difference."""
    scene, _, _, path = sheet
    off = []
    for substeps in (60, 120):
        with torch.no_grad():
            off.append(np.abs(Model(scene, substeps=substeps).rollout()["sheet"]["x"][0].numpy() - path).max())
    assert 3.5 < off[0] / off[1] < 4.5 and off[1] < 1e-4


def test_without_damping_it_keeps_its_energy(sheet):
    """Kinetic and elastic energy and weight, in closed form from its own positions: half a wave of bending goes and comes."""
    _, one, start, _ = sheet
    free = Sheet(**vars(one) | {"damping": 0.0})
    times = np.linspace(0, 0.1, 201)
    x = trajectory(free, *start, times)
    v = np.gradient(x, times, axis=0, edge_order=2)[1:-1]
    from gradsim_reproduction.foreign.sheet_trajectory import _Law

    law = _Law(free, 9.81)
    energy = [
        (law.mass * a**2).sum() / 2 + law._energy(torch.tensor(b)).item() + 9.81 * (law.mass[:, 0] * b[:, 2]).sum()
        for a, b in zip(v, x[1:-1], strict=True)
    ]
    assert np.ptp(energy) < 2e-3 * np.abs(energy).max()
