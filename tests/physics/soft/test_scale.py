"""The size of soft bodies: a scale is another mesh, a factor of rest lengths is the mesh that it is of at rest."""

import pytest
import soft_cases
import torch
from tolerances import ROUNDING, assert_near, near

from gradsim.physics.model import Model
from gradsim.scene import Scene

SIZES = {
    "solid": {"shape": {"box": {"size": [0.27, 0.108, 0.09], "cells": [2, 1, 1]}}},
    "cloth": {"shape": {"grid": {"size": [0.27, 0.18], "cells": [3, 2]}}},
    "net": {"shape": {"net": {"size": [0.27, 0.18], "cells": [3, 2]}}},
}
SCENES = {"solid": soft_cases.solid, "cloth": soft_cases.cloth, "net": soft_cases.net}
MOVED = {"position": [0.03, -0.01, 0.12]}


def path(scene: Scene) -> torch.Tensor:
    (states,) = Model(scene).rollout().states.values()
    return states["x"]


@pytest.mark.parametrize("kind", SCENES)
def test_scaled_body_is_that_of_the_smaller_mesh(kind):
    """Masses, rest shapes, places and steps: 100 steps with contact, to rounding."""
    regions = {"regions": {}} if kind == "solid" else {}  # their boxes count before the scale
    smaller = SCENES[kind](**SIZES[kind], **regions, **MOVED)
    scaled = SCENES[kind](scale=0.9, **regions, **MOVED)
    assert_near(path(scaled), path(smaller), ROUNDING, scale=1.0)
    a, b = Model(scaled), Model(smaller)
    assert a.groups[0].stable_step(a.values()) == near(b.groups[0].stable_step(b.values()), ROUNDING)


@pytest.mark.parametrize("kind", ["solid", "cloth"])
def test_body_that_is_given_its_size_is_the_same_as_without(kind):
    given = SCENES[kind](scale=1, rest_length_factor=1, **MOVED)
    assert_near(path(given), path(SCENES[kind](**MOVED)), ROUNDING, scale=1.0)


@pytest.mark.parametrize("kind", ["solid", "cloth"])
def test_body_springs_back_to_its_rest_lengths(kind):
    """Nothing else acts: it is still at its own size, and grows where its rest lengths are longer."""
    still = {"velocity": [0, 0, 0], "angular_velocity": [0, 0, 0], "pushes": [], "pinned": [], "activation": 0}
    loose = [{"region": "+x+y", "stiffness": 0}, {"along": [0.2, -0.5, 1.0], "stiffness": 0}]
    more = (
        {"regions": {}}
        if kind == "solid"
        else {"bending_activation": 0, "air": {"drag": 0, "lift": 0}, "anchors": loose}
    )

    def distances(factor):
        scene = SCENES[kind](**still, **more, position=[0, 0, 1], rest_length_factor=factor, scale=0.8)
        content = scene.model_dump(exclude_unset=True) | {"gravity": 0}
        x = path(Scene.parse(content))[0]
        return (x - x.mean(1, keepdim=True)).norm(dim=(1, 2))

    own, longer = distances(1.0), distances(1.25)
    torch.testing.assert_close(own, own[:1].expand(6), rtol=0, atol=1e-13)
    assert longer[0] == own[0] and longer[1:].min() > 1.01 * own[0]


def test_size_has_no_name_where_the_scene_gives_none():
    assert not [name for name in Model(soft_cases.cloth()).kinds if name.endswith((".scale", ".rest_length_factor"))]
    assert "net.rest_length_factor" in Model(soft_cases.net()).kinds
