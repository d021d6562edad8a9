"""`gradsim compare`: several models of one video in one run folder."""

import json

import pytest
from fit_cases import THROW, THROW_TRUTH
from run_cases import write_inputs

from gradsim.app.cli import main
from gradsim.app.commands.compare import ModelComparison, read_candidates
from gradsim.app.commands.fit_multi import parse_clips
from gradsim.errors import InputError
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("blank_plots")


def test_the_result_is_that_of_the_chosen_model(tmp_path, capsys):
    inputs, out = write_inputs(tmp_path), tmp_path / "run"
    scene = Scene.load(inputs / "scene.yaml")
    timing = scene.timing.model_copy(update={"integrator": "semi-implicit"})  # which the candidate `rk4` changes
    scene.model_copy(update={"timing": timing}).save(inputs / "scene.yaml")
    files = [str(inputs / "scene.yaml"), "--video", str(inputs / "video.webm"), "--out", str(out)]
    assert (
        main.main(
            ["compare", *files, "--unknown", *THROW, "--model", "rk4", "--starts", "2", "--frames", "!2", "--json"]
        )
        == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((out / "result.json").read_text())
    assert (result["command"], result["video"]) == ("compare", str(inputs / "video.webm"))
    candidates = {row["name"]: row for row in result["comparison"]["candidates"]}
    assert list(candidates) == ["as given", "rk4"]
    chosen = candidates[result["comparison"]["chosen"]]
    assert chosen["delta"] == 0 and chosen["unknowns"] == result["unknowns"]
    for name, truth in THROW_TRUTH.items():
        assert abs(result["unknowns"][name]["value"] - truth) < 4 * result["unknowns"][name]["std"]
    names = {"scene.yaml", "history.json", "report.html", "side_by_side.webm", "overlay.webm", "residuals.webm"}
    assert names <= {p.name for p in out.iterdir()}
    assert "job.json" not in {p.name for p in out.iterdir()}


def test_a_comparison_without_another_model_is_refused(tmp_path):
    inputs = write_inputs(tmp_path)
    with pytest.raises(InputError, match="no model to compare with; add --without friction"):
        ModelComparison(parse_clips([inputs / "scene.yaml"], [inputs / "video.webm"]), THROW)


def test_a_comparison_needs_a_noise_that_all_models_share(tmp_path):
    clips = parse_clips([tmp_path / "scene.yaml"], [tmp_path / "video.webm"])
    with pytest.raises(InputError, match="--noise auto follows from the residuals of one model"):
        ModelComparison(clips, THROW, ["rk4"], noise="auto")


@pytest.mark.slow
def test_several_clips_are_predicted_by_folds_and_the_page_says_what_a_law_buys(tmp_path, capsys):
    """Without gravity a throw is predicted worse; the candidate is of a file, and the report has words and table."""
    inputs, out = write_inputs(tmp_path), tmp_path / "run"
    models = inputs / "models.yaml"
    models.write_text("without gravity: {gravity: 0}\n")
    video = str(inputs / "video.webm")
    files = [str(inputs / "scene.yaml"), "--video", video, video, "--out", str(out), "--candidates", str(models)]
    unknown = ["--unknown", "cube.mass:2:12", "cube.velocity.x@each:-1:3"]
    options = ["--starts", "2", "--folds", "2", "--first-frames", "3", "--json"]
    assert main.main(["compare", *files, *unknown, *options]) == 0
    result = json.loads(capsys.readouterr().out)
    prediction = result["comparison"]["prediction"]
    assert prediction["best"] == "as given" and sorted(map(len, prediction["folds"])) == [1, 1]
    assert prediction["mean_errors"]["as given"] < 1.5 < prediction["mean_errors"]["without gravity"]
    (law,) = prediction["laws"]
    assert law["words"].startswith("gravity: prediction of recordings not fitted") and law["gain"] > 0.5
    page = (out / "report.html").read_text()
    assert "Prediction of recordings that were not fitted" in page and law["words"] in page
    assert {"scene_1.yaml", "scene_2.yaml", "overlay_1.webm", "overlay_2.webm"} <= {p.name for p in out.iterdir()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- gravity\n", "are not a mapping of names to changes"),
        ("drag: {}\n", "are not a mapping of names to changes"),
        ("drag: {unknowns: cube.drag}\n", "`unknowns` of the candidate `drag`"),
        ("", "is empty"),
    ],
)
def test_files_that_hold_no_candidates_are_refused(tmp_path, text, words):
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_candidates(tmp_path / "models.yaml")


def test_numbers_of_candidates_are_read_as_those_of_scenes(tmp_path):
    (tmp_path / "models.yaml").write_text("soft: {ground.stiffness: 1e5, unknowns: [cube.mass:2:12]}\n")
    assert read_candidates(tmp_path / "models.yaml") == {
        "soft": {"ground.stiffness": 1e5, "unknowns": ["cube.mass:2:12"]}
    }
