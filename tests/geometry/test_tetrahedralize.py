"""Tetrahedra from surfaces: by wildmeshing where it is installed, and by stand-ins that do what it should not."""

import importlib.util
import textwrap

import numpy as np
import pytest

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.geometry import tet_mesh
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.tetrahedralize import tetrahedralize

STAND_IN = """
import numpy as np
class Tetrahedralizer:
    def __init__(self, epsilon, edge_length_r, max_threads): print("chatter")
    def set_log_level(self, level): pass
    def set_mesh(self, vertices, faces): self.vertices, self.faces = vertices, faces
    def tetrahedralize(self): {work}
    def get_tet_mesh(self): return self.vertices * {scale}, np.array([{tet}]), None
"""
CORNERS = [[0.1, 0.0, 0.0], [1.0, 0.2, 0.0], [0.0, 1.0, 0.1], [0.2, 0.1, 1.0]]


@pytest.fixture
def corner():
    return meshes.tetrahedron(CORNERS)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Puts a package in the place of wildmeshing."""

    def put(text=STAND_IN, work="pass", scale=1.0, tet="[0, 1, 2, 3]"):
        (tmp_path / "wildmeshing.py").write_text(textwrap.dedent(text).format(work=work, scale=scale, tet=tet))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return put


@pytest.mark.skipif(importlib.util.find_spec("wildmeshing") is None, reason="the extra `tet` is not installed")
@pytest.mark.parametrize("name", ["box", "torus"])
def test_a_surface_is_filled(name):
    surface = {"box": meshes.box((0.5, 0.3, 0.2)), "torus": meshes.torus(0.25, 0.1, 16, 8)}[name]
    surface = Mesh(surface.vertices + (3.0, -1.0, 0.5), surface.faces)
    solid = tetrahedralize(surface, 0.1)
    tet_mesh.check(solid, "solid")
    assert solid.volumes.sum() == pytest.approx(surface.volume, rel=0.01)
    assert solid.quality.min() > 0.1
    assert 0.03 < np.median(solid.edge_lengths) < 0.2


def test_what_is_filled_comes_back_and_nothing_else(stand_in, corner, capfd, tmp_path, monkeypatch):
    """As wildmeshing does, the stand-in prints, and leaves a file in the folder it runs in."""
    monkeypatch.chdir(tmp_path)
    stand_in(work="open('__tracked_surface.stl', 'w').close()")
    solid = tetrahedralize(corner, 0.1)
    assert (solid.vertices == corner.vertices).all()
    assert solid.volumes.sum() == pytest.approx(corner.volume)
    assert "chatter" not in capfd.readouterr().out
    assert not (tmp_path / "__tracked_surface.stl").exists()


def test_inverted_and_degenerate_tetrahedra_are_named(stand_in, corner):
    stand_in(tet="[0, 2, 1, 3]")
    with pytest.raises(InputError, match=r"tetrahedron 0 has rest volume -0\.\d+ m³: it is inside out"):
        tetrahedralize(corner, 0.1)
    stand_in(scale="[1, 1, 0]")
    with pytest.raises(InputError, match=r"tetrahedron 0 has rest volume .* m³: it is degenerate; remesh"):
        tetrahedralize(corner, 0.1)


def test_a_solid_of_another_volume_is_refused(stand_in, corner):
    stand_in(scale=0.9)
    with pytest.raises(InputError, match=r"filled 0\.\d+ m³ of a surface that holds 0\.\d+ m³"):
        tetrahedralize(corner, 0.1)
    assert tetrahedralize(corner, 0.1, tolerance=0.05).volumes.sum() == pytest.approx(0.9**3 * corner.volume)


def test_a_crash_and_an_absence_are_told_apart(stand_in, corner):
    stand_in(work="import os; os.abort()")
    with pytest.raises(InputError, match="wildmeshing stopped with exit code -6 .*try another edge_length"):
        tetrahedralize(corner, 0.1)
    stand_in(text="raise ImportError('no wheel')")
    with pytest.raises(InputError, match=r'need wildmeshing \(no wheel\): pip install "gradsim\[tet\]"'):
        tetrahedralize(corner, 0.1)


def test_what_cannot_be_filled_is_refused_before_any_work(corner):
    with pytest.raises(InputError, match="mesh is not watertight"):
        tetrahedralize(Mesh(corner.vertices, corner.faces[:3]), 0.1)
    with pytest.raises(InputError, match="edge_length: got 0.0; expected a length above 0"):
        tetrahedralize(corner, 0.0)
    with pytest.raises(InputError, match="tolerance: got -1.0; expected a length above 0"):
        tetrahedralize(corner, 0.1, tolerance=-1.0)
