"""Priors of a fit on the command line: what they do, what is written, and what resumes."""

import json

import pytest
from fit_cases import THROW
from run_cases import write_inputs

from gradsim.app.cli import main
from gradsim.app.job import FitArguments
from gradsim.app.run_directory import RunDirectory
from gradsim.errors import InputError
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("blank_plots")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """scene.yaml and a noisy video.webm of a thrown box, and a file of its camera."""
    folder = write_inputs(tmp_path_factory.mktemp("inputs"))
    focal = float(Scene.load(folder / "scene.yaml").view().matrices()[0][0, 0])
    content = {
        "schema": "gradsim.capture/1",
        "names": ["camera.focal", "camera.k1"],
        "mean": [focal, 0],
        "sd": [0.3, 0.1],
    }
    (folder / "capture.json").write_text(json.dumps(content))
    return folder


def run(inputs, out, *words) -> int:
    scene, video = str(inputs / "scene.yaml"), str(inputs / "video.webm")
    return main.main(["fit", scene, "--video", video, "--out", str(out), "--starts", "2", *words])


def test_priors_of_the_command_line_are_unknowns_on_page_and_in_result(inputs, tmp_path, capsys):
    path = str(inputs / "capture.json")
    assert run(inputs, tmp_path / "run", "--unknown", THROW[1], "--prior", "cube.mass=3.1+-5%", path) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert set(result["unknowns"]) == {"cube.velocity.x", "cube.mass", "camera.focal"}
    numbers = {row["name"]: row for row in result["priors"]["numbers"]}
    assert numbers["camera.focal"]["source"] == path and numbers["cube.mass"]["sd"] == pytest.approx(0.155)
    assert all(sum(parts.values()) == pytest.approx(1) for parts in result["priors"]["shares"].values())
    assert any("camera.k1" in note for note in result["notes"])
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<h2>Priors</h2>" in page and "<h2>Known numbers</h2>" in page and "cube.pushes.0.impulse.z" in page
    assert "known numbers:" in capsys.readouterr().out


def test_a_run_with_another_prior_does_not_resume(inputs, tmp_path):
    arguments = lambda **more: FitArguments(
        scene=inputs / "scene.yaml", video=inputs / "video.webm", unknowns=(THROW[1],), starts=1, **more
    )
    directory = RunDirectory(tmp_path / "run")
    scene = Scene.load(inputs / "scene.yaml")
    other = tmp_path / "capture.json"
    other.write_text((inputs / "capture.json").read_text())
    first = arguments(priors=("cube.mass=3±0.1",), prior_files=(other,))
    with directory.open(first, scene, False) as checkpoint:
        checkpoint.save("search", {})
    loaded = FitArguments.load(directory.path)
    assert (loaded.priors, loaded.prior_files) == (first.priors, (other,))
    directory.require_same_inputs(loaded, scene)
    with pytest.raises(InputError, match="priors"):
        directory.require_same_inputs(arguments(priors=("cube.mass=3±0.2",), prior_files=(other,)), scene)
    other.write_text(other.read_text().replace("0.3", "0.4"))
    with pytest.raises(InputError, match="prior_files"):
        directory.require_same_inputs(loaded, scene)


def test_a_wrong_prior_is_refused_before_a_folder_is_made(inputs, tmp_path, capsys):
    assert run(inputs, tmp_path / "run", "--unknown", THROW[1], "--prior", "cube.mess=3±1") == 2
    assert not (tmp_path / "run").exists() and "cube.mess" in capsys.readouterr().err


def test_a_fit_of_priors_alone_needs_no_unknown_and_may_leave_out_the_table(inputs, tmp_path):
    assert (
        run(inputs, tmp_path / "run", "--prior", "cube.mass=3.1±0.4", "cube.velocity.x=0.9±0.5", "--no-known-numbers")
        == 0
    )
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["unknowns"]["cube.mass"]["std"] < 0.1 and "known_numbers" not in result


def test_several_clips_take_priors(inputs, tmp_path):
    scene, video = str(inputs / "scene.yaml"), str(inputs / "video.webm")
    words = ["fit", scene, "--video", video, video, "--out", str(tmp_path / "run"), "--starts", "1", "--noise", "0.004"]
    assert main.main([*words, "--unknown", THROW[1], "--prior", "cube.mass=3.1±0.1"]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [row["name"] for row in result["priors"]["numbers"]] == ["cube.mass"]
    assert result["known_numbers"]["numbers"]
