"""Soft solids and their regions: what is given once, twice or not at all, and what has no meaning for the shape."""

import itertools

import numpy as np
import pytest
import trimesh

from gradsim.errors import InputError
from gradsim.geometry import tet_io
from gradsim.geometry.tet_mesh import TetMesh
from gradsim.scene import Scene, parameters, resolve
from gradsim.scene.region import Region
from gradsim.scene.solid import Solid

BEAM = "bodies.beam"
BOX = {"box": {"size": [0.4, 0.2, 0.1], "cells": [4, 2, 1]}}
SOLID = {"kind": "solid", "shape": BOX, "density": 1000, "young": "20 kPa", "poisson": 0.3}


@pytest.fixture
def beam(scene):
    """Make the small scene with a soft beam, changed at dotted places."""
    return lambda **changes: scene({BEAM: SOLID | changes})


@pytest.fixture
def wrong(mistake):
    """The one line about such a scene."""

    def find(**changes):
        return mistake({BEAM: {k: v for k, v in (SOLID | changes).items() if v is not None}})

    return find


def test_moduli_are_given_as_one_pair(wrong):
    assert (
        wrong(mu=5)
        == f"{BEAM}: got `young` and `poisson` and `mu`; give either `young` and `poisson` or `mu` and `lam`."
    )
    assert wrong(young=None, poisson=None).endswith("no elastic moduli; give `young` and `poisson` or `mu` and `lam`.")
    assert (
        wrong(poisson=None) == f"{BEAM}: got `young` without `poisson`; give `young` and `poisson` or `mu` and `lam`."
    )


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("poisson", 0.5, "got 0.5; expected a number from 0 to 0.4999."),
        ("poisson", -0.1, "expected a number from 0 to 0.4999."),
        ("density", -3, "got -3; expected a number above 0 [kg/m^3]."),
        ("density", "3 kg", "expected a quantity in kg/m^3."),
        ("young", 0, "expected a number above 0 [Pa]."),
        ("activation", 1.5, "got 1.5; expected a number from -1 to 1."),
        ("damping", -1, "expected a number of at least 0 [Pa s]."),
        ("collision", "sphere", "expected 'vertices' or 'none'."),
        ("shape", {"box": {"size": [1, 1, 1]}}, "is missing; give the number of bricks along x, y and z."),
        ("shape", {"ball": {"radius": 1, "cells": 1}}, "expected a whole number from 2 to 4096."),
        ("shape", {"gear": {"bore": 2}}, "they must increase in this order"),
        ("pinned", ["-w"], "expected a side such as -x, an edge such as -x+y, or a corner -x+y-z."),
        ("pinned", ["-x", {"side": "+x", "box": [[0, 0, 0], [1, 1, 1]]}], "got `side` and `box`; give exactly one of"),
        ("pinned", [{"box": [[1, 0, 0], [0, 1, 1]]}], "give the lower corner first"),
        (
            "pinned",
            [{"box": [[1, 0, 0], [2, 1, 1]]}],
            "contains no vertex; choose one within (-0.2, -0.1, -0.05) to",
        ),
        ("pinned", [{"vertices": [99]}], "names vertex 99; the body has 30 vertices, counted from 0."),
        ("pushes", [{"region": "-x"}], "is missing; give the impulse [x, y, z] in N s."),
        ("pushes", [{"impulse": [1, 0, 0], "at": 1}], "unknown key"),
        ("regions", {"tip": {"box": [[1, 0, 0], [2, 1, 1]]}}, "contains the center of no tetrahedron"),
        (
            "regions",
            {"tip": {"box": [[0, -1, -1], [1, 1, 1]], "mu": 3}},
            "the body is given by `young` and `poisson`; give those of the region.",
        ),
        ("regions", {"a.b": {"box": [[0, -1, -1], [1, 1, 1]]}}, "has a dot"),
        ("contact", {"damping": 3}, "the law `continuous` has no `damping`; give `dissipation`."),
    ],
)
def test_what_is_wrong_is_said_with_what_was_expected(wrong, key, value, words):
    line = wrong(**{key: value})
    assert line.startswith(f"{BEAM}.{key}") and words in line


def test_a_region_is_a_side_an_edge_a_corner_a_box_or_some_vertices():
    x = np.stack(np.meshgrid([0.0, 1.0, 2.0], [0.0, 1.0], [5.0, 6.0], indexing="ij"), -1).reshape(-1, 3)
    of = lambda **region: x[Region(**region).of(x)].tolist()
    assert {p[0] for p in of(side="+x")} == {2.0} and len(of(side="+x")) == 4
    assert of(side="-x+y") == [[0, 1, 5], [0, 1, 6]]
    assert of(side="+x-y-z") == [[2, 0, 5]]
    assert of(box=[[0.5, 0, 5], [1, 1, 5.5]]) == [[1, 0, 5], [1, 1, 5]]
    assert of(vertices=[3, 1, 3]) == x[[1, 3]].tolist()


def test_the_text_of_a_side_alone_is_a_region(beam):
    assert beam(pinned=["-x", "+x - y"]).bodies["beam"].pinned == (Region(side="-x"), Region(side="+x-y"))


def test_coordinates_count_from_the_centre_of_the_volume():
    mesh = Solid.model_validate(SOLID).rest
    centre = np.average(mesh.vertices[mesh.tets].mean(1), 0, mesh.volumes)
    np.testing.assert_allclose(centre, 0, atol=1e-16)


def test_quadratic_elements_have_a_vertex_in_the_middle_of_every_edge(beam):
    linear, bent = (beam(elements=e, pinned=["-x"]).bodies["beam"] for e in ("linear", "quadratic"))
    edges = {tuple(sorted(pair)) for tet in linear.rest.tets.tolist() for pair in itertools.combinations(tet, 2)}
    assert len(bent.rest_vertices) == len(linear.rest_vertices) + len(edges)
    assert bent.arrays["vertex_velocity"][0] == (len(bent.rest_vertices), 3)
    assert bent.arrays["mu_factor"] == linear.arrays["mu_factor"]


def test_of_two_regions_that_overlap_the_later_counts(beam):
    boxes = {"left": {"box": [[-1, -1, -1], [0.1, 1, 1]]}, "right": {"box": [[0, -1, -1], [1, 1, 1]]}}
    body = beam(regions=boxes).bodies["beam"]
    x = body.rest.vertices[body.rest.tets].mean(1)[:, 0]
    assert (body.region_of() == np.where(x >= 0, 2, 1)).all()


def test_what_is_saved_loads_as_the_same(beam, tmp_path):
    ours = beam(
        regions={"tip": {"box": [[0, -1, -1], [1, 1, 1]], "young": "1 kPa"}},
        pinned=["-x", {"box": [[0, 0, 0], [1, 1, 1]]}],
        pushes=[{"impulse": [1, 2, 3], "region": "+x"}],
        contact={"friction": 0.1},
        rotation_vector=[0.1, 0.2, 0.3],
    )
    ours.save(tmp_path / "a.yaml")
    assert Scene.load(tmp_path / "a.yaml").bodies == ours.bodies


def test_tetrahedra_come_from_a_file_in_its_own_coordinates(beam, wrong, tmp_path):
    corners = np.array([[10.0, 0, 0], [13, 0, 0], [10, 30, 0], [10, 0, 3]])
    file = tmp_path / "a.tet"
    tet_io.save(TetMesh(corners, np.array([[0, 1, 2, 3]])), file)
    body = beam(shape={"mesh": {"file": str(file), "scale": 0.1}}).bodies["beam"]
    np.testing.assert_allclose(body.rest.vertices, 0.1 * (corners - corners.mean(0)), atol=1e-15)
    file.write_text(file.read_text().replace("t 0 1 2 3", "t 1 0 2 3"))
    again = tmp_path / "b.tet"
    file.rename(again)
    line = wrong(shape={"mesh": {"file": str(again)}})
    assert line.startswith(f"{BEAM}.shape: ") and "tetrahedron 0 has rest volume -45 m³: it is inside out" in line


def test_a_surface_is_filled_with_tetrahedra(beam, tmp_path):
    pytest.importorskip("wildmeshing")
    trimesh.creation.box((1, 1, 1)).export(tmp_path / "a.stl")
    surface = {"file": str(tmp_path / "a.stl"), "edge_length": 0.06, "scale": 0.1}
    body = beam(shape={"surface": surface}).bodies["beam"]
    assert body.rest.volumes.sum() == pytest.approx(1e-3, rel=1e-6)
    assert body.rest is body.rest


def test_its_numbers_and_arrays_have_names(beam):
    ours = beam(regions={"tip": {"box": [[0, -1, -1], [1, 1, 1]], "young": 5}}, pushes=[{"impulse": [1, 2, 3]}])
    found = {name.removeprefix("beam."): p for name, p in parameters(ours).items() if name.startswith("beam.")}
    numbers = ["density", "young", "poisson", "damping", "activation"]
    start = ["position", "rotation_vector", "velocity", "angular_velocity"]
    arrays = ["vertex_mass_factor", "vertex_velocity", "mu_factor", "lam_factor"]
    assert list(found) == [*numbers, *start, "pushes.0.impulse", "regions.tip.young", *arrays]
    assert [found[name].elements for name in numbers] == [40] * 5
    assert found["regions.tip.young"].value == 5 and found["regions.tip.young"].positive
    assert [(found[n].value.shape, found[n].row_of) for n in arrays] == [
        ((30,), "vertex"), ((30, 3), "vertex"), ((40,), "tetrahedron"), ((40,), "tetrahedron")
    ]  # fmt: skip
    assert (found["mu_factor"].value == 1).all() and (found["vertex_velocity"].value == 0).all()
    assert found["mu_factor"].positive and not found["vertex_velocity"].positive


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("beam.yung", "did you mean `beam.young`?"),
        ("beam.mu", "the scene gives `young` and `poisson` of `beam`; use those"),
        ("beam.vertex_velocity.x", "`beam.vertex_velocity` is an array with one row per vertex."),
        ("beam.contact", "the scene has no parameter `beam.contact`"),
    ],
)
def test_names_that_mean_nothing_are_answered_with_what_there_is(beam, name, words):
    with pytest.raises(InputError) as error:
        resolve(beam(), name)
    assert words in str(error.value)


def test_soft_bodies_have_no_runge_kutta_steps(scene, mistake):
    line = mistake({BEAM: SOLID, "timing.integrator": "rk4"})
    assert (
        line
        == "timing.integrator: got 'rk4'; the soft body `beam` needs semi-implicit, verlet, nystrom, implicit or midpoint."
    )


def test_each_body_has_the_integrator_that_suits_it(scene):
    """Also a rigid body beside soft ones; what touches a soft body moves with it, by semi-implicit steps."""
    assert Scene.library("rope").integrator_of("rope") == "nystrom"
    both = scene({BEAM: SOLID, "bodies.ball": {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}})
    assert (both.integrator_of("beam"), both.integrator_of("ball")) == ("verlet", "rk4")
    alike = {"bodies.ball": {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}, "bodies.other": SOLID}
    contact = {"contacts": {"a": {"between": ["beam", "ball"]}}}
    met = scene({BEAM: SOLID, **alike, **contact})
    assert [met.integrator_of(name) for name in ("beam", "ball", "other")] == [
        "semi-implicit",
        "semi-implicit",
        "verlet",
    ]
    named = scene({BEAM: SOLID, **alike, "timing.integrator": "semi-implicit"})
    assert {named.integrator_of(name) for name in named.bodies} == {"semi-implicit"}


@pytest.mark.parametrize("integrator", ["verlet", "nystrom"])
def test_integrators_of_soft_bodies_are_for_them_alone(mistake, integrator):
    ball = {"bodies.ball": {"shape": {"sphere": {"radius": 0.1}}, "mass": 1}}
    line = mistake({**ball, BEAM: SOLID, "timing.integrator": integrator})
    assert f"got '{integrator}', which supports soft bodies only" in line and line.endswith("choose auto.")
