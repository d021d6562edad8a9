"""Each shape of a file is the mesh of its numbers."""

import numpy as np
import pytest
import trimesh
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.scene import Rigid, Scene
from gradsim.scene.shape import object_names

SHAPE = "bodies.cube.shape"
CORNERS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
SHAPES = [
    ({"box": {"size": ["10 cm", 0.2, 0.3]}}, meshes.box([0.1, 0.2, 0.3])),
    ({"sphere": {"radius": 2}}, meshes.sphere(2, 3)),
    ({"sphere": {"radius": 2, "subdivisions": 1}}, meshes.sphere(2, 1)),
    ({"cylinder": {"radius": 1, "height": 2, "segments": 8}}, meshes.cylinder(1, 2, 8)),
    ({"cone": {"radius": 1, "height": 2, "segments": 8}}, meshes.cone(1, 2, 8)),
    ({"capsule": {"radius": 1, "height": 2, "segments": 8, "rings": 3}}, meshes.capsule(1, 2, 8, 3)),
    ({"torus": {"radius": 2, "tube_radius": 1, "segments": 8, "tube_segments": 6}}, meshes.torus(2, 1, 8, 6)),
    ({"tetrahedron": {"vertices": CORNERS}}, meshes.tetrahedron(CORNERS)),
]


def same(a, b):
    np.testing.assert_array_equal(a.vertices, b.vertices)
    np.testing.assert_array_equal(a.faces, b.faces)


@pytest.mark.parametrize(("shape", "expected"), SHAPES)
def test_a_shape_is_the_mesh_of_its_numbers(scene, shape, expected):
    same(scene({SHAPE: shape}).bodies["cube"].shape.mesh(), expected)


@pytest.mark.parametrize("name", object_names())
def test_an_object_is_a_solid_of_the_extents_it_is_given(scene, name):
    mesh = scene({SHAPE: {"object": {"name": name, "size": [0.3, "40 cm", 0.9]}}}).bodies["cube"].shape.mesh()
    meshes.check(mesh, name)
    assert_near(mesh.vertices.max(0), [0.15, 0.2, 0.45], ROUNDING)
    assert_near(mesh.vertices.min(0), [-0.15, -0.2, -0.45], ROUNDING)


def test_an_unknown_object_gets_the_names_that_there_are(mistake):
    place = f"{SHAPE}.object.name"
    expected = f"{place}: got 'spoon'; choose one of {', '.join(object_names())}."
    assert mistake({SHAPE: {"object": {"name": "spoon", "size": [1, 1, 1]}}}) == expected
    assert (
        mistake({SHAPE: {"object": {"name": "Cone", "size": [1, 1, 1]}}})
        == f"{place}: got 'Cone'; did you mean `cone`?"
    )


@pytest.fixture
def folder(tmp_path):
    solid = meshes.cone(0.3, 0.5, 5)
    (tmp_path / "meshes").mkdir()
    trimesh.Trimesh(solid.vertices, solid.faces).export(tmp_path / "meshes" / "rock.ply")
    return tmp_path


def content(file):
    return {"bodies": {"rock": {"shape": {"mesh": {"file": file, "scale": "10 %"}}, "density": 1000}}}


@pytest.mark.parametrize("absolute", [True, False])
def test_mesh_files_count_from_the_folder_of_the_scene(folder, absolute):
    file = str(folder / "meshes/rock.ply") if absolute else "meshes/rock.ply"
    rock = Scene.parse(content(file), folder=folder).bodies["rock"]
    assert isinstance(rock, Rigid)
    assert rock.shape.mesh().volume == pytest.approx(meshes.cone(0.03, 0.05, 5).volume, rel=1e-6)


def test_missing_mesh_files_get_a_suggestion(folder):
    with pytest.raises(
        InputError,
        match=r"rock\.shape\.mesh\.file: the file .*rok\.ply does not exist; did you mean meshes/rock\.ply\?",
    ):
        Scene.parse(content("meshes/rok.ply"), folder=folder)
    with pytest.raises(InputError, match=r"the file .* does not exist; paths are relative to the scene file"):
        Scene.parse(content("elsewhere/cat.obj"), folder=folder)


@pytest.mark.parametrize("file", ["rock.fbx", 5, "", ["a.ply"]])
def test_what_is_no_mesh_file_is_refused(folder, file):
    with pytest.raises(InputError, match=r"rock\.shape\.mesh\.file: got .*; expected"):
        Scene.parse(content(file), folder=folder)


def test_a_shape_is_exactly_one(mistake):
    expected = (
        "give exactly one of `box`, `sphere`, `cylinder`, `cone`, `capsule`, `torus`, `tetrahedron`, `object`, `mesh`."
    )
    assert mistake({SHAPE: {}}) == f"{SHAPE}: got none; {expected}"
    two = {"sphere": {"radius": 1}, "box": {"size": [1, 1, 1]}}
    assert mistake({SHAPE: two}) == f"{SHAPE}: got `box` and `sphere`; {expected}"


@pytest.mark.parametrize(
    ("shape", "place"),
    [
        ({"box": {"size": [1, 0, 1]}}, "box.size.1"),
        ({"sphere": {"radius": 1, "subdivisions": 7}}, "sphere.subdivisions"),
        ({"cylinder": {"radius": 1, "height": -1}}, "cylinder.height"),
        ({"cylinder": {"radius": 1, "height": 1, "segments": 2}}, "cylinder.segments"),
        ({"cone": {"radius": 1}}, "cone.height"),
        ({"torus": {"radius": 1, "tube_radius": 1}}, "torus.tube_radius"),
        ({"tetrahedron": {"vertices": CORNERS[:3]}}, "tetrahedron.vertices"),
        ({"tetrahedron": {"vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]}}, "tetrahedron.vertices"),
    ],
)
def test_impossible_shapes_are_refused_by_their_place(mistake, shape, place):
    assert mistake({SHAPE: shape}).startswith(f"{SHAPE}.{place}: ")
