"""Cloth, ropes and nets: what is given once, twice or not at all, and the names of their numbers."""

import numpy as np
import pytest
from tolerances import ROUNDING, assert_near

from gradsim.scene import Scene, parameters

FLAG = {"kind": "cloth", "shape": {"grid": {"size": [0.6, 0.4], "cells": [3, 2]}}, "density": 0.2, "mu": 30, "lam": 40}
ROPE = {"kind": "springs", "shape": {"rope": {"length": 2, "segments": 4}}, "mass": 1, "stiffness": 50, "radius": 0.01}


@pytest.fixture
def wrong(mistake):
    """The one line about a scene with such a body, changed."""

    def find(body, **changes):
        return mistake({"bodies.it": {k: v for k, v in (body | changes).items() if v is not None}})

    return find


@pytest.fixture
def numbers(scene):
    """The parameters of such a body, by name."""

    def find(body, **changes):
        found = parameters(scene({"bodies.it": body | changes}))
        return {name.removeprefix("it."): p for name, p in found.items() if name.startswith("it.")}

    return find


@pytest.mark.parametrize(
    ("body", "key", "value", "words"),
    [
        (FLAG, "mu", None, "got `lam` without `mu`; give `young` and `poisson` and `thickness` or `mu` and `lam`."),
        (FLAG, "young", 5, "got `young` and `mu` and `lam`; give either"),
        (FLAG, "density", "3 kg/m^3", "expected a quantity in kg/m^2."),
        (FLAG, "density", -1, "got -1; expected a number above 0 [kg/m^2]."),
        (FLAG, "bending_damping", 1, "is given without `bending`; give `bending` too"),
        (FLAG, "bending", -1, "expected a number of at least 0 [N m]."),
        (FLAG, "air", {"drag": -1}, "expected a number of at least 0."),
        (FLAG, "activation", 2, "got 2; expected a number from -1 to 1."),
        (FLAG, "anchors", [{"region": "-x"}], "is missing; give the stiffness of each spring in N/m."),
        (FLAG, "anchors", [{"region": {"box": [[5, 5, 5], [6, 6, 6]]}, "stiffness": 1}], "contains no vertex"),
        (FLAG, "shape", {"grid": {"size": [1, 1]}}, "is missing; give the number of cells along x and y."),
        (FLAG, "shape", {"cells": {"pattern": ["#", "x#"], "cell": 1}}, "got the sign 'x'; expected `#` for a cell"),
        (FLAG, "shape", {"cells": {"pattern": [" ", ".."], "cell": 1}}, "without a cell; put a `#` where one is."),
        (FLAG, "shape", {"cells": {"pattern": "###", "cell": 1}}, "expected a list, such as ['###']."),
        (FLAG, "shape", {"cells": {"pattern": ["#"]}}, "is missing; give the edge length of a cell in m."),
        (
            FLAG,
            "shape",
            {"bell": {"radius": 1, "height": 1, "rings": [6, 2]}},
            "expected a whole number from 3 to 4096.",
        ),
        (FLAG, "shape", {"bell": {"radius": 1}}, "is missing; give the height in m."),
        (ROPE, "density", 3, "got `mass` and `density`; give exactly one of `mass`, `density`."),
        (ROPE, "mass", None, "got none; give exactly one of `mass`, `density`."),
        (ROPE, "stiffness", 0, "expected a number above 0 [N/m]."),
        (ROPE, "radius", None, "is missing; give the radius of the rendered tubes in m."),
        (ROPE, "shape", {"rope": {"length": 1, "segments": 0}}, "expected a whole number from 1 to 4096."),
        (
            ROPE,
            "shape",
            {"rope": {"length": 1}, "net": {"size": [1, 1], "cells": [1, 1]}},
            "got `rope` and `net`; give exactly one of",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_was_expected(wrong, body, key, value, words):
    assert words in wrong(body, **{key: value})


@pytest.mark.parametrize(
    ("faces", "words"),
    [
        ("f 1 2 3\nf 1 2 4\nf 2 1 5\n", "belongs to triangles 0, 1, 2"),
        ("f 1 2 3\nf 1 2 6\n", "has no area"),
    ],
)
def test_a_file_that_is_no_sheet_is_refused_by_its_place(wrong, tmp_path, faces, words):
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 0 -1 0\nv 0.5 0 0\n"
    (tmp_path / "a.obj").write_text(corners + faces)
    line = wrong(FLAG, shape={"mesh": {"file": str(tmp_path / "a.obj")}})
    assert line.startswith("bodies.it.shape: ") and words in line


def test_a_sheet_may_come_from_an_open_mesh(scene, tmp_path):
    (tmp_path / "a.obj").write_text("v 10 0 0\nv 13 0 0\nv 10 30 0\nf 1 2 3\n")
    flag = scene({"bodies.it": FLAG | {"shape": {"mesh": {"file": str(tmp_path / "a.obj"), "scale": 0.1}}}}).bodies[
        "it"
    ]
    assert_near(np.sort(flag.rest.vertices, 0), [[-0.1, -1, 0], [-0.1, -1, 0], [0.2, 2, 0]], ROUNDING, scale=1.0)


def test_numbers_of_cloth_have_names(numbers):
    found = numbers(FLAG)
    start = ["position", "rotation_vector", "velocity", "angular_velocity"]
    arrays = ["vertex_mass_factor", "vertex_velocity", "mu_factor", "lam_factor"]
    assert list(found) == ["density", "mu", "lam", "damping", "activation", *start, *arrays]
    more = numbers(FLAG, bending=0.1, air={"drag": 1}, anchors=[{"region": "+x", "stiffness": 3}])
    assert set(more) - set(found) == {
        *("bending", "bending_damping", "bending_activation"),
        *(f"air.{key}" for key in ("density", "drag", "lift", "wind")),
        *(f"anchors.0.{key}" for key in ("stiffness", "damping", "offset")),
    }
    assert more["air.density"].value == 1.2 and more["air.drag"].positive
    elements = {name: p.elements for name, p in more.items() if p.elements}
    assert elements.pop("bending") == elements.pop("bending_damping") == elements.pop("bending_activation") == 13
    assert set(elements.values()) == {12}


def test_numbers_of_ropes_and_nets_have_names(numbers):
    found = numbers(ROPE, rotation_vector=[0.1, 0, 0])
    assert {"mass", "stiffness", "damping", "rest_length_factor", "radius", "rotation_vector"} < set(found)
    assert found["stiffness_factor"].value.shape == (4,) and found["stiffness_factor"].row_of == "spring"
    net = {"net": {"size": [1, 1], "cells": [2, 3]}}
    assert numbers(ROPE, shape=net)["stiffness_factor"].value.shape == (2 * 4 + 3 * 3 + 2 * 6,)


def test_strands_run_along_the_springs_of_a_net(scene):
    net = scene({"bodies.it": ROPE | {"shape": {"net": {"size": [1, 2], "cells": [2, 3], "diagonals": False}}}}).bodies[
        "it"
    ]
    pairs = {
        tuple(sorted(pair))
        for s in net.shape.value.strands()
        for pair in zip(s[:-1].tolist(), s[1:].tolist(), strict=True)
    }
    assert pairs == {tuple(sorted(edge)) for edge in net.rest.edges.tolist()}


@pytest.mark.parametrize("body", [FLAG | {"bending": 1e-3, "air": {"wind": [1, 0, 0]}}, ROPE])
def test_what_is_saved_loads_as_the_same(scene, tmp_path, body):
    ours = scene({"bodies.it": body})
    ours.save(tmp_path / "a.yaml")
    assert Scene.load(tmp_path / "a.yaml").bodies == ours.bodies
