"""`timing.integrator: auto` takes implicit steps for stiff bodies that touch nothing, and for no others."""

import pytest
from checks import error

from gradsim.physics.model import IMPLICIT_SUBSTEPS, STIFF_SUBSTEPS, Model
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
GROUND = {"ground": {"stiffness": 1000, "friction_stiffness": 5, "friction": 0.3}}


def _scene(timing: dict | None = None, beam: dict | None = None, **given) -> Scene:
    bodies = {"beam": STIFF["bodies"]["beam"] | (beam or {})}
    return Scene.parse({"timing": STIFF["timing"] | (timing or {}), "bodies": bodies, **given})


def _verlet_steps(scene: Scene) -> int:
    timing = scene.timing.model_copy(update={"integrator": "verlet"})
    return Model(scene.model_copy(update={"timing": timing})).substeps


def test_auto_takes_midpoint_steps_where_explicit_ones_would_be_many():
    model = Model(_scene())
    assert _verlet_steps(_scene()) > STIFF_SUBSTEPS
    assert (model.scene.timing.integrator, model.substeps) == ("midpoint", IMPLICIT_SUBSTEPS)
    assert model.with_substeps(16).scene.timing.integrator == "midpoint"


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(_scene(beam={"young": "0.2 MPa"}), id="soft"),
        pytest.param(_scene(**GROUND), id="ground"),
        pytest.param(_scene({"substeps": 20_000}), id="steps that are stated"),
    ],
)
def test_others_keep_verlet(scene):
    model = Model(scene)
    assert model.scene.timing.integrator == "auto"
    assert model.scene.integrator_of("beam") == "verlet"


@pytest.mark.parametrize("name", ["beam", "flag", "soft_ball"])
def test_scenes_of_the_library_keep_their_steps(name):
    scene = Scene.library(name)
    assert Model(scene).scene is scene


def test_motion_is_that_of_verlet_steps():
    explicit = Model(_scene({"integrator": "verlet"})).rollout().states["beam"]["x"]
    implicit = [Model(_scene()).with_substeps(n).rollout().states["beam"]["x"] for n in (128, 256)]
    fall = lambda x: x[:, -1] - x[:, 0]
    errors = [error(fall(x), fall(explicit)) for x in implicit]
    assert errors[1] < 0.02
    assert errors[1] < 0.4 * errors[0]  # second order: a quarter
