"""The page that plays the motion: it stands alone, and what it plays is the motion."""

import re
import sys

import pytest
import torch
from fit_cases import throw

from gradsim.identification import synthetic
from gradsim.physics.model import Model
from gradsim.visualization import player


@pytest.fixture(scope="module")
def motion():
    scene = throw()
    with torch.no_grad():
        return scene, Model(scene).rollout()


def test_the_page_refers_to_nothing_outside_itself(motion, tmp_path, capsys):
    scene, trajectory = motion
    video = (synthetic.render_video(scene, trajectory).numpy() * 255).round().astype("uint8")
    page = player.write_player(tmp_path / "player.html", scene, trajectory.surface, video, trajectory.surface)
    assert page is not None
    text = page.read_text()
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']([^"']+)""", text)
    assert all(address.startswith(("data:", "#", "blob:")) for address in addresses)
    assert "__VISER_EMBED_DATA__" in text and len(text) < 3_000_000
    assert "darkMode:matchMedia" in text
    assert capsys.readouterr().out == ""


def test_without_viser_there_is_no_page(motion, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    assert player.write_player(tmp_path / "player.html", motion[0], motion[1].surface) is None
    assert not list(tmp_path.iterdir())
