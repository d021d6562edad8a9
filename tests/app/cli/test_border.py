import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradsim.app.cli.fit import Fit
from gradsim.app.cli.input_paths import NOT_FILES, require_inputs
from gradsim.app.cli.main import main
from gradsim.app.cli.video_options import VideoOptions
from gradsim.app.job import BACKGROUNDS
from gradsim.video.mask_input import METHODS

FIT = ("fit", "scene.yaml", "--video", "clip.webm", "--unknown", "cube.mass:1:9", "--out", "run")


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_pipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    (tmp_path / "file").touch()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "pipe"), "named pipe"),
        (("view", "pipe"), "named pipe"),
        (("explain", "pipe", "--out", "run"), "named pipe"),
        (("fit", "scene.yaml", "--tracks", "pipe", *FIT[4:]), "named pipe"),
        ((*FIT, "--mask", "camera=pipe"), "named pipe"),
        ((*FIT, "--background", "pipe"), "named pipe"),
        (("control", "throw", "--goal", "pipe", "--out", "run"), "named pipe"),
        (("simulate", "/dev/zero"), "device"),
        (("simulate", "cube", "--out", "a" * 5000), "too long"),
        (("simulate", "cube", "--out", "a\0b"), "NUL"),
        (("simulate", "cube", "--out", "file"), "is a file"),
        (("simulate", "cube", "--out", "file/run"), "is a file"),
        ((*FIT, "--seed", "-1"), "--seed is -1"),
        ((*FIT, "--noise", "nan"), "--noise is nan"),
        ((*FIT, "--noise", "1e300"), "--noise is 1e"),
        ((*FIT, "--starts", "1000000000"), "--starts is 1e"),
        (("reproduce", "table1", "--scenes", "0", "--out", "run"), "--scenes is 0"),
        (("reproduce", "table1", "--workers", "0", "--out", "run"), "--workers is 0"),
        (("simulate", "cube", "--threads", "0", "--out", "run"), "--threads is 0"),
        (("render", "cube", "--turntable", "1000000"), "--turntable is 1e"),
    ],
)
def test_impossible_arguments_are_refused_before_anything_is_written(arguments, words, capsys, tmp_path):
    assert main(arguments) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "file"}


@pytest.mark.parametrize("name", ["dt", "substeps", "values"])
def test_a_body_named_like_a_part_of_the_model_is_refused(name, tmp_path, capsys):
    scene = "bodies: {NAME: {shape: {box: {size: [1, 1, 1]}}, mass: 1}}\ntiming: {frames: 2}\n"
    (tmp_path / "scene.yaml").write_text(scene.replace("NAME", name))
    assert main(["simulate", "scene.yaml", "--out", "run"]) == 2
    assert "rename it in the scene" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_folder_with_markup_in_its_name_is_printed_as_it_is(tmp_path, capsys):
    (tmp_path / "scene.yaml").write_text(
        "bodies: {cube: {shape: {box: {size: [1, 1, 1]}}, mass: 1}}\ntiming: {frames: 2}\n"
    )
    assert main(["simulate", "scene.yaml", "--out", "run[/b][red]"]) == 0
    assert "run: run[/b][red]" in capsys.readouterr().out


UNKNOWN = ("--unknown", "cube.mass:1:9", "--out", "run")


MISSING = [
    (("fit", "gone.yaml", "--video", "file", *UNKNOWN), "the scene file gone.yaml does not exist"),
    (("fit", "cube.yaml", "--video", "file", *UNKNOWN), 'Scene.library("cube")'),
    (("fit", "cubes", "--video", "file", *UNKNOWN), "the library has no scene `cubes`; did you mean `cube`"),
    (("fit", "cube", "--video", "file", "side=gone.mp4", *UNKNOWN), "gone.mp4 does not exist; give a video file"),
    (("fit", "cube", "--video", "file", "--mask", "gone.webm", *UNKNOWN), "gone.webm does not exist; give a mask"),
    (("compare", "cube", "--video", "file", "--background", "gone.png", *UNKNOWN), "the background gone.png does"),
    (
        ("explain", "runs/gone"),
        "runs/gone does not exist; give a scene file (YAML), the name of a library scene, or",
    ),
    (("landscape", "cube", "--ignore", "gone.webm", "--video", "file", *UNKNOWN), "gone.webm does not exist"),
    (("plan", "cube", "--want", "cube.mass", "--after", "gone"), "gone does not exist; give the folder of a fit"),
    (("capture", "gone.mp4", "--target", "a4", "sheet:30cmx20cm"), "gone.mp4 does not exist; give a video, an image"),
    (("control", "gone.yaml"), "the task file gone.yaml does not exist"),
    (("fit", "cube", "--video", "file", "--prior", "gone.json", *UNKNOWN), "gone.json does not exist; give NAME=MEAN"),
    (("reproduce", "convnet", "--weights", "gone.pt"), "gone.pt does not exist; give a state dictionary"),
    (("dataset", "show", "gone"), "gone holds no data set; give the folder"),
    (("dataset", "export", ".", "--to", "lerobot", "--out", "new"), ". holds no data set; give the folder"),
]


def test_files_that_do_not_exist_are_named_before_anything_heavy_is_imported(tmp_path):
    program = f"""
import sys
from gradsim.app.cli.main import main
for arguments in {[arguments for arguments, _ in MISSING]!r}:
    assert main(arguments) == 2
    print("<end>", file=sys.stderr)
assert "torch" not in sys.modules and "warp" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    panels = [" ".join(panel.split()) for panel in done.stderr.replace("│", " ").split("<end>")]
    assert [words for (_, words), panel in zip(MISSING, panels, strict=False) if words not in panel] == []
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "file"}


@pytest.mark.parametrize("mask", ["grabcut:1,2,3,4@5", "side=color:1,2,3,4", "side=file", "a=b"])
def test_methods_cameras_and_names_with_an_equals_sign_pass(mask, tmp_path):
    (tmp_path / "a=b").touch()
    for background in ("median", "mog2", "file"):
        reading = VideoOptions(mask=[[mask]], background=background)
        require_inputs(Fit(scene=Path("cube"), video=[["file", "side=file"]], reading=reading))


def test_ways_to_make_masks_are_those_of_the_reader():
    assert all(NOT_FILES.fullmatch(f"{name}:1,2,3,4") for name in METHODS)
    assert all(NOT_FILES.fullmatch(name) for name in BACKGROUNDS)
