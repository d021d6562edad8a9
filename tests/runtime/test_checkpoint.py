"""Checkpoints on disk: exact, whole or not at all, and never another job's."""

import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from fit_cases import thrown

from gradsim.errors import InputError
from gradsim.identification.solvers.multistart import MultistartConfig, search
from gradsim.runtime.checkpoint import CheckpointFile, CheckpointFolder

PLAN = MultistartConfig(starts=4, first=4, grow=2)


def test_a_state_comes_back_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(3)
    rng.random(7)
    state = {
        "u": torch.rand(3, 4, dtype=torch.float64) * 1e-300,
        "empty": [torch.zeros(0, 2), torch.tensor(math.nan)],
        "who": torch.tensor([[0, -1]]).T,
        "won": torch.tensor([True, False]),
        "rng": rng.bit_generator.state,
        "numbers": [0.1 + 0.2, math.inf, 2**127, None, True, "text"],
    }
    CheckpointFolder(tmp_path / "deep" / "folder").save("search", state)
    again = CheckpointFolder(tmp_path / "deep" / "folder").load("search") or {}
    for name in ("u", "who", "won"):
        assert again[name].dtype == state[name].dtype and torch.equal(again[name], state[name])
    assert again["empty"][0].shape == (0, 2) and again["empty"][1].isnan()
    assert again["rng"] == state["rng"] and again["numbers"] == state["numbers"]
    assert (
        CheckpointFolder(tmp_path).load("search") is None
        and CheckpointFolder(tmp_path / "nowhere").load("search") is None
    )


def test_the_state_of_an_optimizer_comes_back_from_a_file(tmp_path):
    """Its moments are numbered: JSON would make text of the numbers."""
    theta = torch.nn.Parameter(torch.tensor([0.1, 0.2], dtype=torch.float64))
    adam = torch.optim.Adam([theta])
    theta.square().sum().backward()
    adam.step()
    CheckpointFile(tmp_path / "search").save("adam", adam.state_dict())
    again = CheckpointFile(tmp_path / "search").load("adam") or {}
    other = torch.optim.Adam([theta])
    other.load_state_dict(again)
    moments = adam.state[theta]
    assert all(torch.equal(other.state[theta][name], value) for name, value in moments.items()) and len(moments) == 3


def test_a_file_of_pytorch_is_refused_as_a_checkpoint(tmp_path):
    torch.save({"schema": "gradsim.control/1", "state": {}}, tmp_path / "search.pt")
    with pytest.raises(InputError, match="search.pt is not a checkpoint of a search; remove it to start again"):
        CheckpointFile(tmp_path / "search.pt").load()


def test_what_is_no_state_is_refused(tmp_path):
    with pytest.raises(TypeError, match="not a set"):
        CheckpointFolder(tmp_path).save("search", {"x": {1}})
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("harm", ("cut", "flip", "empty", "draft"))
def test_a_torn_file_counts_as_not_there(tmp_path, harm):
    checkpoint = CheckpointFolder(tmp_path)
    for k in range(4):
        checkpoint.save("search", {"k": k, "x": torch.arange(20.0) + k})
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2  # no more are kept
    content = files[-1].read_bytes()
    spoilt = {"cut": content[:-40], "flip": content[:-9] + b"3" + content[-8:], "empty": b"", "draft": content[:90]}[
        harm
    ]
    if harm == "draft":
        (tmp_path / ".search.000005.json.part").write_bytes(spoilt)
    else:
        files[-1].write_bytes(spoilt)
    assert (checkpoint.load("search") or {})["k"] == (3 if harm == "draft" else 2)
    checkpoint.save("search", {"k": 9})
    assert CheckpointFolder(tmp_path).load("search") == {"k": 9}


def test_another_job_or_part_is_not_mixed_in(tmp_path):
    CheckpointFolder(tmp_path, "one").save("search", {"k": 1})
    assert CheckpointFolder(tmp_path, "other").load("search") is None
    assert CheckpointFolder(tmp_path, "one").load("sample") is None
    assert CheckpointFolder(tmp_path, "one").load("search") == {"k": 1}


class Plug(CheckpointFolder):
    """Stops the job at its second save."""

    saves = 0

    def save(self, part, state):
        super().save(part, state)
        self.saves += 1
        if self.saves == 2:
            raise KeyboardInterrupt


def test_a_search_goes_on_from_disk_to_the_same_answer_bit_for_bit(tmp_path):
    whole = search(thrown(), PLAN, np.random.default_rng(5))
    with pytest.raises(KeyboardInterrupt):
        search(thrown(), PLAN, np.random.default_rng(5), checkpoint=Plug(tmp_path))
    again = search(thrown(), PLAN, np.random.default_rng(99), checkpoint=CheckpointFolder(tmp_path))
    assert torch.equal(again.best, whole.best) and torch.equal(again.cost, whole.cost)
    assert again.history == whole.history and again.iterations == whole.iterations


SAVING = """
import sys, torch
from gradsim.runtime.checkpoint import CheckpointFolder
keeper, k = CheckpointFolder(sys.argv[1]), 0
while True:
    k += 1
    keeper.save("search", {"k": k, "x": torch.full((20_000,), float(k), dtype=torch.float64)})
"""


def test_a_process_killed_while_it_writes_leaves_a_whole_state(tmp_path):
    """The state is a third of a megabyte, so most kills come while it is written."""
    process = subprocess.Popen([sys.executable, "-c", SAVING, str(tmp_path)], env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        until = time.monotonic() + 240
        while len(list(tmp_path.glob("search.*.json"))) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.0137)
    finally:
        process.kill()
        process.wait()
    state = CheckpointFolder(tmp_path).load("search")
    assert state is not None and (state["x"] == state["k"]).all()
