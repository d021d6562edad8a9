"""`gradsim compare`: several models of one video in one run folder."""

import json

import pytest
from fit_cases import THROW, THROW_TRUTH
from run_cases import write_inputs

from gradsim.app.cli import main
from gradsim.app.commands.compare import ModelComparison
from gradsim.errors import InputError
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("blank_plots")


def test_the_result_is_that_of_the_chosen_model(tmp_path, capsys):
    inputs, out = write_inputs(tmp_path), tmp_path / "run"
    scene = Scene.load(inputs / "scene.yaml")
    timing = scene.timing.model_copy(update={"integrator": "semi-implicit"})  # which the candidate `rk4` changes
    scene.model_copy(update={"timing": timing}).save(inputs / "scene.yaml")
    files = [str(inputs / "scene.yaml"), "--video", str(inputs / "video.webm"), "--out", str(out)]
    assert main.main(["compare", *files, "--unknown", *THROW, "--model", "rk4", "--starts", "2", "--json"]) == 0
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
        ModelComparison(inputs / "scene.yaml", inputs / "video.webm", None, THROW, [])
