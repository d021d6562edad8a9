"""`gradsim scenes`: the list, a file as it is, entries for machines, and the schema."""

import json

import pytest

from gradsim.app.cli import main
from gradsim.app.commands import scenes
from gradsim.scene import Scene, yaml_io

NAMES = [path.stem for path in yaml_io.library_files()]


def test_the_list_names_every_scene_and_what_moves_in_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main.main(["scenes"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == NAMES
    rows = {line.split()[0]: line for line in lines}
    assert rows["arm"].split()[1:5] == ["3", "rigid", "31", "30"]
    assert "A box with a known push from behind" in rows["cube"]


def test_the_list_for_machines_says_what_the_scenes_do(capsys):
    assert main.main(["scenes", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert list(listed) == NAMES
    for name in ("beam", "soft_ball"):
        timing = Scene.library(name).timing
        assert (listed[name]["frames"], listed[name]["fps"]) == (timing.frames, timing.fps)
        assert listed[name]["moves"] == {"solid": 1}
    assert all(entry["shows"].endswith(".") for entry in listed.values())


def test_a_scene_is_printed_as_it_is_so_that_it_is_a_start(capsys, tmp_path):
    assert main.main(["scenes", "cube"]) == 0
    printed = capsys.readouterr().out
    assert printed == yaml_io.library("cube").read_text(encoding="utf-8")
    (tmp_path / "my.yaml").write_text(printed, encoding="utf-8")
    assert Scene.load(tmp_path / "my.yaml") == Scene.library("cube")


def test_one_scene_for_machines_has_its_text(capsys):
    assert main.main(["scenes", "rope", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["moves"] == {"springs": 1} and entry["text"] == yaml_io.library("rope").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "hint"), [("cubee", "`cube`"), ("Rope", "`rope`"), ("xyz", "arm, ball, beam")])
def test_an_unknown_scene_is_bad_input_that_names_others(capsys, name, hint):
    assert main.main(["scenes", name]) == 2
    out, err = capsys.readouterr()
    assert out == "" and f"no scene `{name}`" in err and hint in err


def test_the_schema_is_json_and_of_all_scenes(capsys):
    assert main.main(["scenes", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].startswith("https://json-schema.org/") and "bodies" in schema["required"]
    assert main.main(["scenes", "cube", "--schema"]) == 2
    assert "give one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# A box of cube.yaml falls\n# down. Then it stops.\nname: x\n", "A box of cube.yaml falls down."),
        ("# A rope\nname: x\n", "A rope"),
        ("name: x # not at the top\n", ""),
    ],
)
def test_the_first_sentence_of_the_comment_at_the_top(text, sentence):
    assert scenes.first_comment(text) == sentence


def test_a_file_without_a_comment_is_described_by_its_bodies(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text("bodies: {stone: {mass: 1, shape: {sphere: {radius: 1}}}}\n", encoding="utf-8")
    assert scenes.describe(path) == scenes.LibraryScene("plain", {"rigid": 1}, "A scene of stone.", 60, 30.0)
