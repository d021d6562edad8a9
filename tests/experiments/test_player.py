"""The page that plays the motion: it stands alone, and what it plays is the motion."""

import re
import sys

import numpy as np
import pytest
import torch
from fit_cases import throw

from gradsim.experiments import player, synthetic
from gradsim.physics.model import Model


def turned(vertices: np.ndarray, wxyz: np.ndarray) -> np.ndarray:
    """Vertices (n, 3) turned by one quaternion."""
    w, axis = wxyz[0], wxyz[1:]
    return vertices + 2 * np.cross(axis, np.cross(axis, vertices) + w * vertices)


@pytest.fixture(scope="module")
def motion():
    scene = throw()
    with torch.no_grad():
        return scene, Model(scene).rollout()


def test_poses_bring_the_first_frame_to_every_other(motion):
    vertices = motion[1].surface.vertices[0].detach().numpy()
    poses = player._poses(vertices)
    assert poses is not None
    rest = vertices[0] - vertices[0].mean(0)
    for here, wxyz in zip(vertices, poses, strict=True):
        assert np.abs(turned(rest, wxyz) + here.mean(0) - here).max() < 1e-9
    assert np.abs(poses[-1] - poses[0]).max() > 0.1  # it turns


def test_what_deforms_has_no_pose(motion):
    vertices = motion[1].surface.vertices[0].detach().numpy().copy()
    vertices[3, 0] += 0.01
    assert player._poses(vertices) is None


def test_the_page_refers_to_nothing_outside_itself(motion, tmp_path, capsys):
    scene, trajectory = motion
    film = (synthetic.film(scene, trajectory).numpy() * 255).round().astype("uint8")
    page = player.write_player(tmp_path / "player.html", scene, trajectory.surface, film, trajectory.surface)
    assert page is not None
    text = page.read_text()
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']([^"']+)""", text)
    assert all(address.startswith(("data:", "#", "blob:")) for address in addresses)
    assert "__VISER_EMBED_DATA__" in text and len(text) < 3_000_000
    assert capsys.readouterr().out == ""


def test_without_viser_there_is_no_page(motion, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    assert player.write_player(tmp_path / "player.html", motion[0], motion[1].surface) is None
    assert not list(tmp_path.iterdir())
