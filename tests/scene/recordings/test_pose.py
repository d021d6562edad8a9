"""Recordings of poses in scene files."""

import numpy as np
import pytest
from recorded_cases import gripper

from gradsim import InputError, Scene
from gradsim.scene.parameters import parameters, resolve
from gradsim.scene.recordings.pose import MAX_SAMPLES, PoseMotion


def test_a_scene_with_recordings_is_saved_and_loaded_as_it_is(tmp_path):
    scene = Scene.parse(gripper())
    scene.save(tmp_path / "scene.yaml")
    assert Scene.load(tmp_path / "scene.yaml") == scene
    assert scene.recorded == {"hand": scene.bodies["hand"].motion}
    assert {"hand"} in scene.links


def test_quaternions_are_of_length_1_and_take_the_short_way():
    quats = [[0, 0, 0, 1], [0, 0, -0.1, -0.995], [0, 0, 0.2, 0.9799]]
    motion = PoseMotion.model_validate({"times": [0, 1, 2], "positions": [[0, 0, 0]] * 3, "quats_xyzw": quats})
    unit = motion.unit_quats
    assert np.abs(np.linalg.norm(unit, axis=1) - 1).max() < 1e-15
    assert (unit[:, 3] > 0).all()


def test_a_recording_that_is_too_long_is_refused():
    count = MAX_SAMPLES + 1
    content = {"bodies": {"a": {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}}}
    content["bodies"]["a"]["motion"] = {"times": list(range(count)), "positions": [[0, 0, 0]] * count}
    with pytest.raises(InputError, match=f"are {count}; expected at most {MAX_SAMPLES}"):
        Scene.parse(content)


def test_a_recorded_body_has_no_start_but_offsets_of_its_samples():
    scene = Scene.parse(gripper())
    known = parameters(scene)
    assert known["hand.motion_offset"].value.shape == known["hand.motion_rotation"].value.shape == (5, 3)
    assert known["joints.shoulder.motion_offset"].unit == "m" and known["joints.shoulder.motion_rotation"].unit == "rad"
    with pytest.raises(InputError, match=r"follows its `motion`; use `hand.motion_offset`"):
        resolve(scene, "hand.velocity.x")


def test_contact_of_recorded_bodies_with_soft_ones_is_refused():
    content = gripper()
    content["timing"]["integrator"] = "auto"
    content["bodies"]["flag"] = {
        "kind": "cloth",
        "shape": {"grid": {"size": [0.1, 0.1], "cells": [1, 1]}},
        "density": 0.1,
        "mu": 60,
        "lam": 60,
    }
    content["contacts"]["meet"] = {"between": ["hand", "flag"], "stiffness": 100.0, "thickness": 0.01}
    with pytest.raises(InputError, match="`hand` has a `motion`; contact of such bodies with soft"):
        Scene.parse(content)
