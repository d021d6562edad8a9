"""Tetrahedra in files come back bit for bit, and what is none is refused by its line or its index."""

import sys

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.geometry import tet_grid, tet_io
from gradsim.geometry.tet_mesh import TetMesh


@pytest.fixture
def mesh():
    """A ball, turned and moved, with coordinates that have many digits."""
    ball = tet_grid.ball(0.7, 4)
    rng = np.random.default_rng(8)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return TetMesh(ball.vertices @ turn * np.linalg.det(turn) + rng.normal(size=3), ball.tets)


@pytest.fixture
def meshio():
    return pytest.importorskip("meshio")


@pytest.mark.parametrize("suffix", [".tet", ".msh", ".vtu", ".mesh", ".TET"])
def test_files_give_back_the_same_bits(tmp_path, mesh, suffix):
    if suffix.lower() != ".tet":
        pytest.importorskip("meshio")
    path = tmp_path / "new" / f"ball{suffix}"
    tet_io.save(mesh, path)
    found = tet_io.load(path)
    assert (found.vertices == mesh.vertices).all()
    assert (found.tets == mesh.tets).all()
    assert tet_io.load(path, scale=0.001).vertices == pytest.approx(mesh.vertices / 1000, rel=1e-15)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_text_with_comments_is_read(tmp_path):
    path = tmp_path / "one.tet"
    path.write_text("# a corner\nv 0 0 0\nv 1 0 0  # x\n\nv 0 1 0\nv 0 0 1e0\nt 0 1 2 3\n")
    assert tet_io.load(path).volumes == pytest.approx([1 / 6])


@pytest.mark.parametrize("line", ["v 0 0", "t 0 1 2 3.5", "t 0 1 2", "f 0 1 2", "v 0 0 zero", "v 0 0 0 0"])
def test_a_line_that_is_wrong_is_named(tmp_path, line):
    path = tmp_path / "wrong.tet"
    path.write_text(f"v 0 0 0\n{line}\n")
    with pytest.raises(InputError, match=rf"wrong.tet, line 2: got '{line}'; expected `v x y z` or `t i j k l`"):
        tet_io.load(path)


def test_what_fills_no_solid_is_refused(tmp_path, mesh):
    (tmp_path / "inverted.tet").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nt 0 2 1 3\n")
    with pytest.raises(InputError, match=r"inverted.tet: tetrahedron 0 has rest volume -0.1667 m³: it is inside out"):
        tet_io.load(tmp_path / "inverted.tet")
    (tmp_path / "empty.tet").write_text("")
    with pytest.raises(InputError, match="empty.tet has no tetrahedron"):
        tet_io.load(tmp_path / "empty.tet")
    with pytest.raises(InputError, match="mesh file .*missing.tet does not exist"):
        tet_io.load(tmp_path / "missing.tet")
    with pytest.raises(
        InputError, match="ball.stl has an unknown suffix; convert it to one of .tet, .msh, .vtu, .mesh"
    ):
        tet_io.save(mesh, tmp_path / "ball.stl")


def test_the_surface_and_centers_of_arcs_in_a_file_are_left_out(tmp_path, meshio):
    points = np.array([[9.0, 9.0, 9.0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    cells = [("vertex", [[0]]), ("triangle", [[1, 3, 2]]), ("tetra", [[1, 2, 3, 4]]), ("tetra", [[2, 5, 3, 4]])]
    meshio.Mesh(points, cells).write(tmp_path / "two.msh", file_format="gmsh22")
    found = tet_io.load(tmp_path / "two.msh")
    assert (found.vertices == points[1:]).all()
    assert found.tets.tolist() == [[0, 1, 2, 3], [1, 4, 2, 3]]


def test_cells_of_other_kinds_are_named(tmp_path, meshio):
    points = np.random.default_rng(0).normal(size=(10, 3))
    for kind, count in (("tetra10", 10), ("hexahedron", 8)):
        meshio.Mesh(points, [(kind, [list(range(count))])]).write(tmp_path / "other.vtu")
        with pytest.raises(InputError, match=rf"cells of kind {kind}; export tetrahedra with four vertices"):
            tet_io.load(tmp_path / "other.vtu")
    meshio.Mesh(points, [("triangle", [[0, 1, 2]])]).write(tmp_path / "skin.vtu")
    with pytest.raises(InputError, match="skin.vtu has no tetrahedra; export the solid, not its surface"):
        tet_io.load(tmp_path / "skin.vtu")


@pytest.mark.parametrize("suffix", [".msh", ".vtu", ".mesh"])
def test_a_broken_file_is_refused(tmp_path, meshio, mesh, suffix):
    path = tmp_path / f"cut{suffix}"
    path.write_bytes(b"\x00not a mesh")
    with pytest.raises(InputError, match=rf"cut{suffix} cannot be read as a mesh|has no tetrahedra"):
        tet_io.load(path)


def test_without_meshio_the_extra_is_named_and_nothing_is_written(tmp_path, mesh, monkeypatch):
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(InputError, match=r'ball.vtu needs meshio .*: pip install "gradsim\[tet\]"'):
        tet_io.save(mesh, tmp_path / "ball.vtu")
    assert not list(tmp_path.iterdir())
    (tmp_path / "ball.vtu").write_text("")
    with pytest.raises(InputError, match=r'pip install "gradsim\[tet\]"'):
        tet_io.load(tmp_path / "ball.vtu")
