import json
import os
from typing import Any

import pytest
from typing_extensions import TypedDict

from gradsim.errors import InputError
from gradsim.runtime.input_file import check_path, read_json, regular_file


class Record(TypedDict):
    command: str
    arguments: dict[str, Any]


def test_a_named_pipe_is_refused_without_opening_it(tmp_path):
    os.mkfifo(tmp_path / "scene.yaml")
    with pytest.raises(InputError, match="is a named pipe"):
        regular_file(tmp_path / "scene.yaml")


@pytest.mark.parametrize(
    ("path", "words"), [("/dev/zero", "is a device"), ("a\0b", "NUL character"), ("a" * 5000, "name is too long")]
)
def test_paths_that_cannot_be_files_are_refused_with_their_reason(path, words):
    with pytest.raises(InputError, match=words):
        check_path(path)


def test_a_loop_of_symbolic_links_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="loop of symbolic links"):
        check_path(tmp_path / "loop")


def test_a_path_that_does_not_exist_yet_passes(tmp_path):
    check_path(tmp_path / "new")


def test_a_file_larger_than_its_limit_is_refused(tmp_path):
    (tmp_path / "text").write_bytes(bytes(11))
    assert regular_file(tmp_path / "text", largest=11)
    with pytest.raises(InputError, match="at most"):
        regular_file(tmp_path / "text", largest=10)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 10_000, "\xff\x00", "null", "[1]"])
def test_a_damaged_json_file_is_named_with_the_way_out(tmp_path, text):
    (tmp_path / "job.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="job.json is damaged .*; run it again"):
        read_json(tmp_path / "job.json", Record, "run it again")


def test_a_wrong_key_of_a_json_file_is_named(tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"command": 3, "arguments": {}}))
    with pytest.raises(InputError, match="`command`"):
        read_json(tmp_path / "job.json", Record, "run it again")
