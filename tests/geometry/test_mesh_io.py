"""Solids in files come back, and what is none is refused."""

import numpy as np
import pytest
import trimesh
from tolerances import ROUNDING, SINGLE, near

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.geometry import mesh_io, sheet
from gradsim.geometry.mesh import Mesh

CORNERS = [[0.1, 0.0, 0.0], [1.0, 0.2, 0.0], [0.0, 1.0, 0.1], [0.2, 0.1, 1.0]]
PRIMITIVES = {
    "box": meshes.box([0.6, 0.48, 0.36]),
    "torus": meshes.torus(0.5, 0.2, 8, 6),
    "cone": meshes.cone(0.3, 0.5, 5),
    "sphere": meshes.sphere(0.7, 1),
}


def exported(mesh, path, **options):
    trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(path, **options)
    return path


@pytest.mark.parametrize("suffix", [".obj", ".stl", ".ply", ".glb", ".STL"])
@pytest.mark.parametrize("name", ["box", "torus"])
def test_files_give_back_the_solid(tmp_path, suffix, name):
    """In single precision at least; an stl file has every corner of every face apart."""
    mesh = PRIMITIVES[name]
    found = mesh_io.load(exported(mesh, tmp_path / f"solid{suffix}", file_type=suffix[1:].lower()), scale=0.5)
    assert found.vertices.shape == mesh.vertices.shape
    assert found.faces.shape == mesh.faces.shape
    assert found.volume == near(mesh.volume / 8, SINGLE)
    assert found.convex == mesh.convex


def test_text_stl_is_read_as_well(tmp_path):
    mesh = PRIMITIVES["cone"]
    found = mesh_io.load(exported(mesh, tmp_path / "cone.stl", file_type="stl_ascii"))
    assert found.volume == near(mesh.volume, SINGLE)


def test_seams_of_a_texture_do_not_open_a_mesh(tmp_path):
    mesh = meshes.tetrahedron(CORNERS)
    lines = [f"v {x} {y} {z}" for x, y, z in mesh.vertices] + [f"vt {k / 20} 0.5" for k in range(12)]
    lines += ["mtllib missing.mtl", "usemtl wood"]
    for k, face in enumerate(mesh.faces):
        lines.append("f " + " ".join(f"{v + 1}/{3 * k + corner + 1}" for corner, v in enumerate(face)))
    (tmp_path / "seams.obj").write_text("\n".join(lines))
    found = mesh_io.load(tmp_path / "seams.obj")
    assert len(found.vertices) == 4
    assert found.volume == near(mesh.volume, ROUNDING)


def test_placements_inside_a_glb_count(tmp_path):
    scene = trimesh.Scene()
    for shift in (0.0, 5.0):
        box = trimesh.creation.box([1, 1, 1])
        scene.add_geometry(box, transform=trimesh.transformations.translation_matrix([shift, 0, 0]))
    scene.export(tmp_path / "two.glb")
    found = mesh_io.load(tmp_path / "two.glb")
    assert found.volume == near(2, SINGLE)
    assert np.ptp(found.vertices[:, 0]) == near(6, SINGLE)


def test_files_with_holes_are_refused_by_name(tmp_path):
    mesh = meshes.box([1, 1, 1])
    path = exported(Mesh(mesh.vertices, mesh.faces[1:]), tmp_path / "open.ply")
    with pytest.raises(InputError, match=r"open\.ply is not watertight"):
        mesh_io.load(path)


@pytest.mark.parametrize("suffix", [".obj", ".stl", ".ply", ".glb"])
@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9])
def test_files_cut_off_are_refused(tmp_path, suffix, part):
    path = exported(PRIMITIVES["sphere"], tmp_path / f"solid{suffix}")
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(InputError, match="solid"):
        mesh_io.load(path)


@pytest.mark.parametrize("suffix", [".obj", ".stl", ".ply", ".glb"])
def test_files_of_something_else_are_refused(tmp_path, suffix):
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(np.random.default_rng(0).bytes(2000))
    with pytest.raises(InputError, match="noise"):
        mesh_io.load(path)


def test_missing_files_and_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match="mesh file .* does not exist"):
        mesh_io.load(tmp_path / "none.obj")
    with pytest.raises(InputError, match=r"convert it to one of \.obj"):
        mesh_io.load(tmp_path / "scan.xyz")


@pytest.mark.parametrize("suffix", [".obj", ".stl", ".ply", ".glb"])
def test_a_file_gives_back_a_sheet_without_closing_it(tmp_path, suffix):
    cloth = sheet.grid((1.5, 1.0), (4, 3))
    rng = np.random.default_rng(2)
    cloth = Mesh(cloth.vertices + 0.05 * rng.normal(size=cloth.vertices.shape), cloth.faces)
    path = exported(cloth, tmp_path / f"cloth{suffix}", file_type=suffix[1:])
    found = mesh_io.load_sheet(path, scale=2.0)
    assert found.vertices.shape == cloth.vertices.shape
    assert len(sheet.hinges(found.faces)) == len(sheet.hinges(cloth.faces))
    assert found.vertices.min(0) == near(2 * cloth.vertices.min(0), SINGLE)
    with pytest.raises(InputError, match="is not watertight"):
        mesh_io.load(path)


def test_what_is_no_sheet_is_refused_with_its_file(tmp_path):
    (tmp_path / "book.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for x, y, z in [*CORNERS, (1, 1, 1)]) + "f 1 2 3\nf 2 1 4\nf 1 2 5\n"
    )
    with pytest.raises(
        InputError, match=r"book.obj: the edge from vertex \d to \d belongs to triangles 0, 1, 2; two can share"
    ):
        mesh_io.load_sheet(tmp_path / "book.obj")
