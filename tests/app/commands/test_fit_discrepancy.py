"""`gradsim fit --discrepancy`: a second answer, whose error bars count what the model misses, next to a verdict that stays."""

import json

import pytest
from fit_cases import THROW, THROW_TRUTH
from run_cases import write_inputs

from gradsim.app.cli import main
from gradsim.app.commands.fit_multi import MultiClipFit, parse_clips
from gradsim.errors import InputError
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("blank_plots")


def fitted(inputs, out, capsys, *options) -> dict:
    video = str(inputs / "video.webm")
    files = [str(inputs / "scene.yaml"), "--video", video, "--out", str(out), "--unknown", *THROW, "--starts", "2"]
    main.main(["fit", *files, *options, "--no-known-numbers", "--no-plan", "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_wrong_model_stays_a_mismatch_with_error_bars_that_say_how_wrong(tmp_path, capsys):
    """With a gravity that is 3 % off, mass and speed are many plain standard deviations off; those of the discrepancy are wider."""
    inputs = write_inputs(tmp_path)
    right = fitted(inputs, tmp_path / "right", capsys, "--discrepancy")
    scene = Scene.load(inputs / "scene.yaml")
    scene.model_copy(update={"gravity": (0.0, 0.0, -9.81 * 1.03)}).save(inputs / "scene.yaml")
    plain, wrong = (
        fitted(inputs, tmp_path / name, capsys, *more) for name, more in (("a", ()), ("b", ["--discrepancy"]))
    )
    assert plain["status"] == wrong["status"] == "mismatch" and right["status"] == "ok"
    assert "discrepancy" not in plain and plain["unknowns"] == wrong["unknowns"]
    for name, truth in THROW_TRUTH.items():
        answer, bare = wrong["discrepancy"]["unknowns"][name], wrong["unknowns"][name]
        assert answer["value"] == pytest.approx(bare["value"], rel=1e-12) and answer["std"] > 2 * bare["std"]
        good = right["discrepancy"]["unknowns"][name]
        assert abs(good["value"] - truth) < 4 * good["std"]
        assert good["std"] == pytest.approx(right["unknowns"][name]["std"], rel=0.7)  # of 8 frames
    assert wrong["discrepancy"]["recordings"] == 1 and "One recording" in wrong["discrepancy"]["words"]
    page = (tmp_path / "b" / "report.html").read_text()
    assert "With a discrepancy" in page and wrong["discrepancy"]["words"] in page


def test_windows_have_no_discrepancy(tmp_path):
    inputs = write_inputs(tmp_path)
    clips = parse_clips([inputs / "scene.yaml"], [inputs / "video.webm"])
    with pytest.raises(InputError, match="remove --window or --discrepancy"):
        MultiClipFit(clips, THROW, window=4, discrepancy=True)
