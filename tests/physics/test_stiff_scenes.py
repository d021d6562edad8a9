"""A stiff scene by implicit steps, which take the place of many explicit ones."""

import pytest
from checks import error

from gradsim.physics.model import Model
from gradsim.scene import Scene

STIFF = {
    "timing": {"fps": 30, "frames": 2},
    "bodies": {
        "beam": {
            "kind": "solid",
            "shape": {"box": {"size": [0.1, 0.01, 0.004], "cells": [8, 1, 1]}},
            "density": 1000,
            "young": "20 MPa",
            "poisson": 0.3,
            "position": [0, 0, 1],
            "pinned": ["-x"],
        }
    },
}


def _scene(integrator: str) -> Scene:
    return Scene.parse(STIFF | {"timing": STIFF["timing"] | {"integrator": integrator}})


def _fall(model: Model):
    x = model.rollout().states["beam"]["x"]
    return x[:, -1] - x[:, 0]


def test_midpoint_steps_come_to_the_motion_of_many_more_verlet_steps():
    explicit, implicit = Model(_scene("verlet")), Model(_scene("midpoint"))
    assert explicit.substeps > 4000
    exact = _fall(explicit)
    errors = [error(_fall(implicit.with_substeps(n)), exact) for n in (128, 512)]
    assert errors[1] < 0.01
    assert errors[1] < 0.25 * errors[0]


@pytest.mark.parametrize("integrator", ["midpoint", "implicit"])
def test_stiffness_sets_no_implicit_step(integrator):
    assert Model(_scene(integrator)).substeps == 8


def test_auto_follows_every_motion():
    assert Model(_scene("auto")).substeps == Model(_scene("verlet")).substeps
