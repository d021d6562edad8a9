"""`gradsim plan` from the command line."""

import json
from pathlib import Path

import pytest
from plan_cases import pendulum

from gradsim.app.cli.main import main
from gradsim.runtime.atomic import write_json

CHOICES = ["--choose", "bob.angle=0.3,1.0", "--choose", "camera.distance=2.4:3", "--samples", "2"]
WANTED = ["--want", "bob.string_length:1%", "--unknown", "bob.string_length:0.4:0.6"]


@pytest.fixture
def folder(tmp_path):
    """A folder with a scene and the run of a fit."""
    pendulum().save(tmp_path / "bob.yaml")
    (tmp_path / "run").mkdir()
    pendulum().save(tmp_path / "run" / "scene.yaml")
    unknown = {"value": 0.52, "std": 0.004, "low": 0.4, "high": 0.6, "unit": "m", "interval95": [0.51, 0.53]}
    write_json(tmp_path / "run" / "result.json", {"status": "mismatch", "unknowns": {"bob.string_length": unknown}})
    return tmp_path


def test_a_plan_leaves_words_designs_films_and_a_page(folder, capsys):
    assert main(["plan", str(folder / "bob.yaml"), *WANTED, *CHOICES, "--out", str(folder / "out")]) == 0
    result = json.loads((folder / "out" / "result.json").read_text())["plan"]
    assert result["best"]["gain"] > 1
    assert result["best"]["sd"]["bob.string_length"] < result["present"]["sd"]["bob.string_length"]
    assert result["map"]["names"] == ["camera.distance", "bob.angle"]
    assert {"best.webm", "present.webm", "report.html", "gains.png", "map.png"} <= {
        p.name for p in (folder / "out").iterdir()
    }
    assert result["words"][0] in capsys.readouterr().out.replace("\n", " ")
    assert "What to film next" in (folder / "out" / "report.html").read_text()


def test_a_plan_on_a_mismatch_says_that_first_and_takes_the_unknowns_of_the_run(folder):
    arguments = ["plan", str(folder / "run"), "--want", "bob.string_length", "--choose", "bob.angle=0.3,1.0"]
    assert main([*arguments, "--samples", "2", "--out", str(folder / "out")]) == 0
    result = json.loads((folder / "out" / "result.json").read_text())["plan"]
    assert "mismatch" in result["words"][0]
    assert "about the answer" in " ".join(result["assumptions"])


def test_recordings_are_ranked_by_what_they_tell(folder):
    """Of pendulums that swing from different angles."""
    scenes = folder / "clips"
    scenes.mkdir()
    for angle in (0.0, 0.4, 1.1):
        scene = pendulum()
        bob = scene.bodies["bob"].model_copy(update={"angle": angle})
        scene.model_copy(update={"bodies": {"bob": bob}}).save(scenes / f"swing_{angle}.yaml")
    arguments = [
        "plan",
        str(folder / "bob.yaml"),
        "--want",
        "gravity.z",
        "--unknown",
        "gravity.z:-12:-8",
        "--among",
        str(scenes),
    ]
    assert main([*arguments, "--batch", "2", "--samples", "2", "--out", str(folder / "out")]) == 0
    result = json.loads((folder / "out" / "result.json").read_text())["plan"]
    assert [row["label"] for row in result["designs"]] == ["swing_1.1", "swing_0.4", "swing_0.0"]
    assert [row["label"] for row in result["batch"]] == ["swing_1.1", "swing_0.4"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--want", "bob.string_lenght", "--choose", "bob.angle=0:1"], "string_length"),
        (["--want", "bob.string_length", "--choose", "bob.angle"], "NAME=LOW:HIGH"),
        (["--want", "bob.string_length", "--among", "missing"], "missing does not exist"),
        (["--want", "bob.string_length", "--among", __file__], "not a folder"),
        (
            ["--want", "bob.string_length", "--after", str(Path(__file__).parent), "--choose", "bob.angle=0:1"],
            "holds no fit",
        ),
        (
            ["--want", "bob.string_length", "--choose", "bob.angle=0:1", "--map", "bob.angle", "timing.fps"],
            "the map is over",
        ),
    ],
)
def test_wrong_arguments_are_refused(folder, more, words, capsys):
    assert main(["plan", str(folder / "bob.yaml"), *more, "--out", str(folder / "out")]) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (folder / "out").exists()
