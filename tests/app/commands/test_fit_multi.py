"""`gradsim fit` of several clips and cameras: which video belongs to which, and the run folder."""

import json
from pathlib import Path

import pytest
from fit_cases import throw

from gradsim.app.cli import main
from gradsim.app.commands import fit, fit_job, fit_multi
from gradsim.app.commands.fit_multi import ClipFiles, parse_clips
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("blank_plots")

A, B = Path("a.yaml"), Path("b.yaml")
MASS = "cube.mass:1:8"


@pytest.mark.parametrize(
    ("scenes", "videos", "expected"),
    [
        ([A], ["a.webm"], [(A, {"camera": "a.webm"})]),
        ([A], ["a.webm", "side=s.webm"], [(A, {"camera": "a.webm", "side": "s.webm"})]),
        ([A, B], ["a.webm", "b.webm"], [(A, {"camera": "a.webm"}), (B, {"camera": "b.webm"})]),
        ([A], ["1.webm", "2.webm"], [(A, {"camera": "1.webm"}), (A, {"camera": "2.webm"})]),
        (
            [A, B],
            ["a.webm", "side=as.webm", "b.webm", "side=bs.webm"],
            [(A, {"camera": "a.webm", "side": "as.webm"}), (B, {"camera": "b.webm", "side": "bs.webm"})],
        ),
    ],
)
def test_a_video_of_a_camera_that_has_one_begins_the_next_clip(scenes, videos, expected):
    clips = parse_clips(scenes, videos)
    assert [(c.scene, {name: str(path) for name, path in c.videos.items()}) for c in clips] == expected


def test_a_file_with_an_equals_sign_in_its_name_is_a_file(tmp_path):
    odd = tmp_path / "mu=0.3.webm"
    odd.touch()
    assert parse_clips([A], [odd]) == [ClipFiles(A, {"camera": odd})]


def test_clips_without_a_scene_or_video_are_refused():
    with pytest.raises(InputError, match="2 scenes, videos of 3 clips"):
        parse_clips([A, B], ["a.webm", "b.webm", "c.webm"])
    with pytest.raises(InputError, match="no video"):
        parse_clips([A], [])


@pytest.mark.parametrize(
    ("words", "count", "window"),
    [
        (["a.yaml", "b.yaml", "--video", "a.webm", "b.webm"], 2, None),
        (["a.yaml", "--video", "front.webm", "--video", "side=side.webm"], 1, None),
        (["a.yaml", "--video", "long.webm", "--window", "20"], 1, 20),
    ],
)
def test_the_command_line_tells_clips_and_cameras(monkeypatch, answered, words, count, window, tmp_path, capsys):
    calls = []
    assert fit.run_fit is fit_job.run_fit  # a module that is first loaded under the patch would keep it
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml", *(f"{video}.webm" for video in ("a", "b", "front", "side", "long"))):
        (tmp_path / name).touch()
    monkeypatch.setattr(fit_multi, "MultiClipFit", lambda *arguments, **options: (arguments, options))
    monkeypatch.setattr(fit_job, "run_fit", lambda job, out, **_: calls.append((*job, out)) or answered)
    assert main.main(["fit", *words, "--unknown", MASS, "--out", "run"]) == 0
    ((clips, unknowns), options, out) = calls[0]
    assert len(clips) == count and unknowns == [MASS] and out == Path("run") and options["window"] == window


def test_an_estimator_is_checked_before_any_video_is_read():
    clips = parse_clips([A], ["long.webm"])
    with pytest.raises(InputError, match="did you mean 'gradient-descent'"):
        fit_multi.MultiClipFit(clips, [MASS], estimator="gradient-decent")
    with pytest.raises(InputError, match="--window or --estimator gradient-descent"):
        fit_multi.MultiClipFit(clips, [MASS], window=20, estimator="gradient-descent")
    with pytest.raises(InputError, match="--frames is for fits in one shot"):
        fit_multi.MultiClipFit(clips, [MASS], window=20, reading={"frames": "0:30"})


def test_a_fit_of_two_clips_leaves_a_whole_run_folder(tmp_path, capsys):
    """Two throws of one box with other speeds: one mass, two speeds."""
    truth = {"cube.mass": 3.1}
    words = ["fit"]
    for k, speed in enumerate((0.9, 0.2)):
        scene = throw(6, velocity=[speed, 0, 0])
        scene.save(tmp_path / f"{k}.yaml")
        _, motion = synthetic.simulate(scene, [MASS], truth)
        frames = synthetic.noisy_8bit(synthetic.render_video(scene, motion), 1 / 255, k)
        synthetic.write_video(tmp_path / f"{k}.webm", frames, scene.timing.fps)
        words.append(str(tmp_path / f"{k}.yaml"))
    words += ["--video", str(tmp_path / "0.webm"), str(tmp_path / "1.webm"), "--out", str(tmp_path / "run")]
    words += ["--unknown", MASS, "cube.velocity.x@each:-3:3", "--starts", "3", "--json"]
    assert main.main(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["unknowns"]) == ["cube.mass", "cube.velocity.x@1", "cube.velocity.x@2"]
    for name, value in {**truth, "cube.velocity.x@1": 0.9, "cube.velocity.x@2": 0.2}.items():
        assert abs(result["unknowns"][name]["value"] - value) < 4 * result["unknowns"][name]["std"]
    folder = tmp_path / "run"
    page = (folder / "report.html").read_text()
    assert [clip["file"] for clip in result["videos"]] == [
        "side_by_side_1.webm",
        "overlay_1.webm",
        "side_by_side_2.webm",
        "overlay_2.webm",
    ]
    assert all((folder / video["file"]).is_file() and video["text"] in page for video in result["videos"])
    assert Scene.load(folder / "scene_2.yaml").bodies["cube"].velocity == (0.2, 0, 0)
