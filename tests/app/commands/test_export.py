"""`gradsim export` of a scene and of runs."""

import csv
import json

import numpy as np
import pytest

from gradsim.app.cli import main
from gradsim.scene import Scene
from gradsim.video.read import read

UNKNOWN = {
    "value": 5.31,
    "std": 0.02,
    "interval95": [5.27, 5.35],
    "unit": "kg",
    "low": 2,
    "high": 12,
    "identifiable": True,
}


@pytest.fixture
def run(tmp_path):
    """A run folder of a fit with some status."""

    def make(status="ok", directions=()):
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        Scene.library("cube").save(folder / "scene.yaml")
        (tmp_path / "clip.webm").write_bytes(b"video")
        directions = [{"combination": {}, "explanation": words, "bound": 1.0} for words in directions]
        content = {"status": status, "unknowns": {"cube.mass": UNKNOWN}, "video": str(tmp_path / "clip.webm")}
        content["posterior"] = {"covariance": [[(0.02 / 5.31) ** 2]], "logarithmic": [True]}
        (folder / "result.json").write_text(json.dumps(content | {"null_directions": directions}))
        return folder

    return make


def test_a_fit_is_exported_at_its_estimates_with_its_provenance(run, tmp_path, capsys):
    assert main.main(["export", str(run()), "--to", "mjcf", "--out", str(tmp_path / "out")]) == 0
    text, record = (
        (tmp_path / "out" / "model.xml").read_text(),
        json.loads((tmp_path / "out" / "export.json").read_text()),
    )
    assert 'mass="5.31"' in text and "5.310 ± 0.020 kg" in text
    assert (
        record["provenance"]["video sha256"].startswith("1de7d1de") or len(record["provenance"]["video sha256"]) == 64
    )
    assert record["status"] == "ok" and str(tmp_path / "out" / "model.xml") in capsys.readouterr().out.replace("\n", "")


def test_an_unidentifiable_fit_needs_anyway_and_carries_its_word(run, tmp_path, capsys):
    folder, out = run("unidentifiable", ["only mass over stiffness is known"]), tmp_path / "out"
    assert main.main(["export", str(folder), "--to", "mjcf", "--out", str(out)]) == 2
    assert "--anyway" in capsys.readouterr().err and not out.exists()
    assert main.main(["export", str(folder), "--to", "mjcf", "--out", str(out), "--anyway"]) == 0
    text = (out / "model.xml").read_text()
    assert "unidentifiable" in text and "only mass over stiffness is known" in text


def test_bad_input_has_exit_code_2(run, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert main.main(["export", str(tmp_path / "empty"), "--to", "mjcf", "--out", str(tmp_path / "out")]) == 2
    assert "result.json" in capsys.readouterr().err
    assert main.main(["export", "cube", "--to", "mjcf", "--out", str(tmp_path / "file")]) == 2
    with pytest.raises(SystemExit, match="2"):
        main.main(["export", "cube", "--to", "sdf", "--out", str(tmp_path / "out")])


def test_samples_are_models_of_draws_from_the_posterior(run, tmp_path):
    out = tmp_path / "out"
    assert main.main(["export", str(run()), "--to", "mjcf", "--out", str(out), "--samples", "40", "--seed", "1"]) == 0
    with (out / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    masses = np.array([float(row["cube.mass"]) for row in rows])
    assert len(rows) == 40 and masses.std() == pytest.approx(0.02, rel=0.5) and abs(masses.mean() - 5.31) < 0.02
    texts = [(out / "samples" / f"{k:03}" / "model.xml").read_text() for k in (0, 39)]
    assert f'mass="{float(masses[0])!r}"' in texts[0] and f'mass="{float(masses[39])!r}"' in texts[1]
    assert "sample" in texts[0] and 'mass="5.31"' in (out / "model.xml").read_text()
    assert json.loads((out / "export.json").read_text())["samples"] == {"count": 40, "seed": 1, "file": "samples.csv"}


def test_samples_that_cannot_be_are_refused_before_anything_is_written(run, tmp_path, capsys):
    out = tmp_path / "out"
    assert main.main(["export", "cube", "--to", "mjcf", "--out", str(out), "--samples", "4"]) == 2
    assert "posterior of a fit" in capsys.readouterr().err and not out.exists()
    assert main.main(["export", str(run()), "--to", "mjcf", "--out", str(out), "--samples", "1"]) == 2
    assert not out.exists()
    (out / "samples").mkdir(parents=True)
    assert main.main(["export", str(run()), "--to", "mjcf", "--out", str(out), "--samples", "4"]) == 2
    assert "another folder" in capsys.readouterr().err and not (out / "model.xml").exists()


def test_matched_contact_is_printed_recorded_and_filmed(tmp_path, capsys, monkeypatch):
    pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')
    from gradsim.identification.engines import contact_match

    monkeypatch.setattr(contact_match, "TRIES_PER_SPREAD", 1)
    monkeypatch.setattr(contact_match, "EVALUATIONS", 1)
    monkeypatch.setattr(contact_match, "SECONDS", 1.0)
    box = {"shape": {"box": {"size": [0.2, 0.3, 0.1]}}, "mass": 2, "position": [0, 0, 0.5]}
    Scene.parse({"bodies": {"box": box}, "ground": {"dissipation": 0.3}}).save(tmp_path / "box.yaml")
    words = ["export", str(tmp_path / "box.yaml"), "--to", "mjcf", "--out", str(tmp_path / "out"), "--match-contact"]
    assert main.main(words) == 0
    assert "box on ground, bounce" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "out" / "export.json").read_text())["contact"]
    assert row["body"] == "box" and set(row["factors"]) == {"stiffness", "damping", "sliding", "friction"}
    frames = read(tmp_path / "out" / "contact_box.webm").frames
    left, right = np.split(frames, 2, axis=2)
    assert np.array_equal(left[0], right[0])  # both start alike, and are not the same film
    assert not np.array_equal(left, right)


def test_contact_is_matched_for_mujoco_alone(tmp_path, capsys):
    assert main.main(["export", "cube", "--to", "urdf", "--out", str(tmp_path / "out"), "--match-contact"]) == 2
    assert "--match-contact" in " ".join(capsys.readouterr().err.split())


def test_contact_of_a_fit_in_mujoco_is_kept(run, tmp_path, capsys):
    folder = run()
    content = json.loads((folder / "result.json").read_text()) | {"engine": "MuJoCo 4.0.0 (RK4)"}
    (folder / "result.json").write_text(json.dumps(content))
    assert main.main(["export", str(folder), "--to", "mjcf", "--out", str(tmp_path / "out"), "--match-contact"]) == 2
    assert "made in MuJoCo 4.0.0" in " ".join(capsys.readouterr().err.split())
    assert main.main(["export", str(folder), "--to", "mjcf", "--out", str(tmp_path / "out")]) == 0


def test_a_scene_is_exported_as_usd(tmp_path):
    assert main.main(["export", "cube", "--to", "usd", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "model.usda").read_text().startswith("#usda 1.0")
