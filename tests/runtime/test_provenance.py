"""What a result says of its making."""

import platform
import subprocess
from pathlib import Path

from gradsim.app import experiments
from gradsim.runtime import provenance


def test_a_result_names_the_commit_that_is_checked_out():
    here = Path(provenance.__file__).parent
    asked = subprocess.run(["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    commit = provenance.provenance()["commit"]
    if asked.returncode:
        assert commit is None
    else:
        assert asked.stdout.startswith(str(commit).removesuffix("+"))


def test_no_commit_is_named_outside_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_SOURCE", tmp_path)
    assert provenance._commit() is None


def test_the_commit_is_that_of_the_source_when_the_run_began(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_commit", lambda: "begun")
    provenance.provenance.cache_clear()

    def long_run(out, quick, seed, progress):
        monkeypatch.setattr(provenance, "_commit", lambda: "meanwhile")
        return provenance.provenance()

    monkeypatch.setattr(experiments, "load_experiment", lambda name: long_run)
    try:
        assert experiments.reproduce("long", tmp_path)["commit"] == "begun"
    finally:
        provenance.provenance.cache_clear()


def test_a_result_names_the_system_and_not_the_kernel_of_the_host():
    system = provenance.provenance()["system"]
    assert system.startswith(platform.system()) and platform.release() not in system
