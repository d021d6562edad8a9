"""What a result says of its making."""

import subprocess
from pathlib import Path

from gradsim.experiments import provenance


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
