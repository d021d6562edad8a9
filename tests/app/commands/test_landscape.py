"""Landscapes of runs and scenes, with their marks."""

import json

import pytest
from fit_cases import THROW_TRUTH
from run_cases import write_inputs

from gradsim.app.commands.landscape import run_case, write_landscape
from gradsim.errors import InputError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder as `gradsim demo` leaves it, with made-up estimates: 3 starts, the second of which was dropped."""
    folder = write_inputs(tmp_path_factory.mktemp("run"))
    ends = {"cube.mass": (1.0, 8.0), "cube.velocity.x": (-1.0, 3.0)}
    unknowns = {
        name: {"value": value * 1.001, "truth": value, "low": ends[name][0], "high": ends[name][1]}
        for name, value in THROW_TRUTH.items()
    }
    starts = {"names": list(ends), "initial": [[2.0, 1.0], [7.0, 2.0], [5.0, 0.0]]}
    starts["final"] = [[3.1, 0.9], [None, None], [3.1, 0.9]]
    history = {"stages": [{"values": {"cube.mass": 3.0, "cube.velocity.x": 0.8}}], "starts": starts}
    (folder / "result.json").write_text(json.dumps({"title": "a throw", "unknowns": unknowns}))
    (folder / "history.json").write_text(json.dumps(history))
    return folder


def test_a_run_brings_its_marks(run):
    marks = run_case(run).marks
    assert marks["truth"] == [THROW_TRUTH] and marks["estimate"][0]["cube.mass"] == pytest.approx(3.1031)
    assert marks["starts"][1] == {"cube.mass": 7.0, "cube.velocity.x": 2.0} and marks["ends"][1] == {}
    assert len(marks["starts"]) == 3 and len(marks["path"]) == 1


def test_a_plane_is_drawn_and_kept_as_numbers(run, tmp_path):
    content = write_landscape(run, ["cube.mass", "cube.velocity.x:0:2"], tmp_path / "out", points=7)
    stored = json.loads((tmp_path / "out" / "landscape.json").read_text())
    assert stored["grids"]["cube.mass"][::6] == [1.0, 8.0] and stored["grids"]["cube.velocity.x"][::6] == [0.0, 2.0]
    lowest = content["landscape"]["pixels"]
    assert lowest["cost"] == min(map(min, stored["pixels"]))
    assert lowest["lowest"] == {"cube.mass": pytest.approx(1 + 7 / 6 * 2), "cube.velocity.x": 1.0}  # next to the truth
    assert lowest["valleys"] >= 1 and 0 < lowest["downhill_share"] <= 1
    assert (tmp_path / "out" / "landscape.png").stat().st_size > 10_000
    assert "Landscape of cube.mass and cube.velocity.x" in (tmp_path / "out" / "report.html").read_text()


def test_a_scene_without_a_video_is_its_own_truth(run, tmp_path):
    content = write_landscape(run / "scene.yaml", ["cube.mass:1:7"], tmp_path, points=7)
    assert content["landscape"]["pixels"]["lowest"] == {"cube.mass": 4.0}  # the scene's own
    assert content["landscape"]["pixels"]["cost"] < 1e-12


@pytest.mark.parametrize(
    ("unknowns", "options", "message"),
    [
        ([], {}, "one or two axes"),
        (["cube.mass", "cube.velocity.x", "gravity.z:-12:-8"], {}, "got 3 unknowns"),
        (["cube.mas"], {}, "did you mean"),
        (["cube.velocity:-1:1"], {}, "several components"),
        (["cube.mass"], {"points": 2}, "at least 3"),
        (["cube.mass"], {"noise": -1.0}, "noise"),
    ],
)
def test_bad_input_is_named_before_work(run, tmp_path, unknowns, options, message):
    with pytest.raises(InputError, match=message):
        write_landscape(run, unknowns, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no scene.yaml"):
        write_landscape(tmp_path, ["cube.mass"], tmp_path / "out")
