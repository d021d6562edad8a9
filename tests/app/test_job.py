"""Arguments of runs: scenes by name, and what job.json holds."""

from pathlib import Path

import pytest

from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.scene import Scene


def test_a_scene_of_the_library_goes_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_scene(Path("cube")) == Scene.library("cube")
    (tmp_path / "cube").mkdir()  # as `gradsim simulate cube --out cube` leaves one
    assert open_scene(Path("cube")) == Scene.library("cube")
    with pytest.raises(InputError, match="cube"):
        open_scene(Path("cub"))
    with pytest.raises(InputError, match=r"cube\.yaml"):
        open_scene(Path("cube.yaml"))
