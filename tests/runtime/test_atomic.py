"""Files and folders appear complete or not at all."""

import json
import math
import os
import subprocess
import sys

import pytest

from gradsim.errors import InputError
from gradsim.runtime.atomic import (
    atomic_path,
    atomic_write,
    drafts,
    remove_abandoned_drafts,
    remove_draft,
    write_json,
)


def test_a_draft_becomes_the_file_and_its_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "c.txt"
    with atomic_path(path) as draft:
        draft.write_text("x")
        assert not path.exists()
    assert path.read_text() == "x"
    assert [p.name for p in path.parent.iterdir()] == ["c.txt"]


@pytest.mark.parametrize("fsync", [False, True])
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path, fsync):
    path = tmp_path / "file"
    for before in (None, b"old"):
        if before:
            path.write_bytes(before)
        with pytest.raises(RuntimeError), atomic_write(path, fsync=fsync) as file:
            file.write(b"half")
            raise RuntimeError
        assert [p.read_bytes() for p in tmp_path.iterdir()] == ([before] if before else [])


def test_of_two_writers_of_a_file_the_last_one_stays(tmp_path):
    with atomic_write(tmp_path / "file", "w", fsync=True) as one:
        with atomic_write(tmp_path / "file", "w", fsync=True) as other:
            other.write("other")
        one.write("one")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "one")]


def test_a_draft_in_progress_is_listed_and_can_be_removed(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "deep" / "file") as file:
        file.write(b"half")
        (found,) = drafts(tmp_path, recursive=True)
        assert drafts(tmp_path / "deep", "file") == [found] and not drafts(tmp_path / "deep", "other")
        remove_draft(found)
    assert not list((tmp_path / "deep").iterdir())


KILLED = """
import os, signal
from gradsim.runtime.atomic import atomic_path
with atomic_path("below/film.webm") as draft:
    draft.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks of files are POSIX's")
def test_drafts_of_killed_writers_are_removed_and_those_of_others_are_not(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False)
    (abandoned,) = drafts(tmp_path, recursive=True)
    remove_abandoned_drafts(tmp_path)
    assert abandoned.exists()  # so young that its writer may not have locked it yet
    with atomic_path(tmp_path / "below" / "other.webm") as draft:
        draft.write_text("half")
        for folder in (abandoned, draft.parent):
            os.utime(folder, (1.0, 1.0))
        remove_abandoned_drafts(tmp_path)
        assert not abandoned.exists() and draft.exists()
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["other.webm"]


def test_a_folder_with_files_and_a_parent_that_is_a_file_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("")
    with pytest.raises(InputError, match="folder with files"), atomic_write(tmp_path / "folder"):
        pass
    with pytest.raises(InputError, match="is a file"), atomic_write(tmp_path / "folder" / "file" / "x"):
        pass


def test_json_has_null_for_numbers_that_are_not_finite(tmp_path):
    path = write_json(tmp_path / "a.json", {"x": (1, math.nan, {2: -math.inf}), "ok": True})
    assert json.loads(path.read_text()) == {"x": [1, None, {"2": None}], "ok": True}
