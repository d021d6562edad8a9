"""`gradsim dataset`: the same command again changes nothing, faults are reported."""

import json

import numpy as np
import pytest

from gradsim import video
from gradsim.app.cli.main import main
from gradsim.dataset import DatasetReader
from gradsim.geometry import image_io
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

GENERATE = ("dataset", "generate", "rigid", "--n", "2", "--sizes", "32", "--out")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "D"
    assert main([*GENERATE, str(path)]) == 0
    return path


def verdict(folder, capsys):
    code = main(["dataset", "verify", str(folder), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_verify_counts_and_hashes(folder, capsys):
    code, found = verdict(folder, capsys)
    assert (code, found["count"], found["whole"]) == (0, 2, True)
    assert len(found["content_hash"]) == 64


def test_a_harmed_data_set_fails_and_is_repaired(folder, capsys):
    _, before = verdict(folder, capsys)
    path = folder / "labels" / "000000.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    code, found = verdict(folder, capsys)
    assert code == 1
    assert [bad["file"] for bad in found["bad"]] == ["labels/000000.parquet"]
    assert main(["dataset", "repair", str(folder)]) == 0
    capsys.readouterr()
    assert verdict(folder, capsys)[1]["content_hash"] == before["content_hash"]


@pytest.mark.parametrize("words", [("--seed", "1"), ("--shard", "2"), ("--shard", "3/2"), ("--workers", "2")])
def test_what_does_not_go_is_bad_input(folder, words):
    assert main([*GENERATE, str(folder), *words]) == 2


def test_a_video_is_unpacked_for_a_fit(folder, tmp_path, capsys):
    """The film is that of the data set to the bit, and the scene one that its unknowns belong to."""
    assert main(["dataset", "show", str(folder), "1", "--out", str(tmp_path)]) == 0
    printed, recordings = capsys.readouterr().out, DatasetReader(folder)
    np.testing.assert_array_equal(video.read(tmp_path / "film.webm").frames, recordings.frames(1, 32))
    np.testing.assert_array_equal(video.read(tmp_path / "mask.webm").frames[..., 0], recordings.masks(1, 32))
    scene = Scene.load(tmp_path / "scene.yaml")
    assert scene.camera.size == (32, 32)
    assert Space(scene, recordings.label(1)["unknowns"]).names == list(recordings.truth(1))
    assert json.loads((tmp_path / "truth.json").read_text()) == recordings.truth(1)
    assert "--unknown body.mass:2:12" in printed


def test_a_sheet_shows_the_first_videos(folder, tmp_path):
    assert main(["dataset", "show", str(folder), "--out", str(tmp_path)]) == 0
    page = image_io.read(tmp_path / "sheet.png")
    assert page.shape[2] > 2 * 32  # side by side
    blue = (page[2] > page[0] + 0.2).sum()
    assert blue > (DatasetReader(folder).masks(0, 32)[-1] > 200).sum() / 2


def test_a_plan_is_told(folder, capsys):
    assert main(["dataset", "plan", str(folder), "--n", "1000000", "--cores", "64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 80_000  # 20 000 units: frames, masks, labels, entry
    assert main(["dataset", "plan", str(folder), "--n", "1000"]) == 0
    assert "32 px" in capsys.readouterr().out


@pytest.mark.parametrize("to", ["webdataset", "lerobot"])
def test_exports_are_written(folder, tmp_path, to):
    assert main(["dataset", "export", str(folder), "--to", to, "--out", str(tmp_path / "E")]) == 0
    assert any((tmp_path / "E").iterdir())
