import json

import pytest

from gradsim.app.run_directory import RunDirectory
from gradsim.app.run_files import read_history, read_result
from gradsim.errors import InputError

UNKNOWN = {"value": 4.0, "low": 1.0, "high": 9.0}


def write(folder, content, name="result.json"):
    (folder / name).write_text(json.dumps(content))


def test_a_folder_without_results_has_an_empty_one(tmp_path):
    assert read_result(tmp_path) == read_history(tmp_path) == {}


def test_keys_that_readers_use_have_defaults(tmp_path):
    write(tmp_path, {"unknowns": {"cube.mass": UNKNOWN}, "further": 1})
    content = read_result(tmp_path)
    assert content["further"] == 1
    assert content["unknowns"]["cube.mass"]["std"] is None


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ([1], "dictionary"),
        ({"unknowns": [1]}, "unknowns"),
        ({"unknowns": {"cube.mass": {**UNKNOWN, "value": "x"}}}, "unknowns.*cube.mass.*value"),
        ({"unknowns": {"cube.mass": {"low": 1.0}}}, "unknowns.*cube.mass.*value"),
        ({"command": [3]}, "command"),
        ({"status": "fine"}, "status"),
        ({"clips": 3}, "clips"),
    ],
)
def test_a_damaged_result_names_its_key(tmp_path, content, key):
    write(tmp_path, content)
    with pytest.raises(InputError, match=f"result.json is damaged .*{key}"):
        read_result(tmp_path)


def test_a_damaged_history_names_its_key(tmp_path):
    write(tmp_path, {"stages": 3}, "history.json")
    with pytest.raises(InputError, match="history.json is damaged .*stages"):
        read_history(tmp_path)


@pytest.mark.parametrize("content", [{"a": 1}, {"unknowns": {"cube.mass": UNKNOWN}}, {"status": None}])
def test_a_finished_run_says_how_it_ended(tmp_path, content):
    """A run that is resumed and is finished ends with the exit code of its status."""
    write(tmp_path, content)
    with pytest.raises(InputError, match="result.json is damaged .it has no `status`.; run the command"):
        RunDirectory(tmp_path).result()
    write(tmp_path, content | {"status": "ok"})
    assert RunDirectory(tmp_path).result()["status"] == "ok"
