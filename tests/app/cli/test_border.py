import os

import pytest

from gradsim.app.cli.main import main

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
