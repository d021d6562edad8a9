"""`gradsim dataset`: the same words again change nothing, what is wrong is told."""

import json

import pytest

from gradsim.app.cli import main

GENERATE = ("dataset", "generate", "rigid", "--n", "2", "--sizes", "32", "--out")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "D"
    assert main([*GENERATE, str(path)]) == 0
    return path


def verdict(folder, capsys):
    code = main(["dataset", "verify", str(folder), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_verify_counts_and_hashes(folder, capsys):
    code, found = verdict(folder, capsys)
    assert (code, found["count"], found["whole"]) == (0, 2, True)
    assert len(found["content_hash"]) == 64


def test_a_harmed_data_set_fails_and_is_repaired(folder, capsys):
    _, before = verdict(folder, capsys)
    path = folder / "labels" / "000000.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    code, found = verdict(folder, capsys)
    assert code == 1
    assert [bad["file"] for bad in found["bad"]] == ["labels/000000.parquet"]
    assert main(["dataset", "repair", str(folder)]) == 0
    capsys.readouterr()
    assert verdict(folder, capsys)[1]["content_hash"] == before["content_hash"]


@pytest.mark.parametrize("words", [("--seed", "1"), ("--shard", "2"), ("--shard", "3/2"), ("--workers", "2")])
def test_what_does_not_go_is_bad_input(folder, words):
    assert main([*GENERATE, str(folder), *words]) == 2
