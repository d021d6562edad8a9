"""Faults at random instants: what is left can be resumed, and ends as if nothing had been.

    killed      SIGKILL, as by a power failure or a lack of memory
    asked       SIGTERM or SIGINT
    full disk   no file may grow beyond a random size

A job is struck in a process of its own, up to three times one after the other, and then resumed to its end; its files are compared with those of a job
that was left alone, but for times. GRADSIM_FAULT_TRIALS and GRADSIM_FUZZ_SEED choose others.
"""

import json
import os
import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import fuzz_harness
import numpy as np
import pytest
import torch
from run_cases import write_inputs

TRIALS = int(os.environ.get("GRADSIM_FAULT_TRIALS", "200"))
SEED = int(os.environ.get("GRADSIM_FUZZ_SEED", "0"))
OUT = "out"
STRIKES = 3  # at most, one after the other
LARGEST_FILE = 60_000  # [bytes] of a full disk's last file
MEMORY, SECONDS = 16 << 30, 600
MEASURED = (
    "seconds",
    "seal",  # of a unit: a digest of its times, too
    "made_by",
    "versions",
    "created",
    "rate",
    "cpu",
    "wall",
)  # parts of keys whose values are times or machines
COMPARED = (".jsonl", ".parquet", ".csv", ".yaml", ".md", ".npz")
PICTURES, RUNS = (
    "pictures",
    "runs",
)  # folders of a data set: files without an ending, and one named by the time of each run


@dataclass(frozen=True)
class Job:
    """A command that takes seconds.

    Attributes:
        words: Command line.
        resume: What is added to go on.
    """

    words: tuple[str, ...]
    resume: tuple[str, ...] = ()


FIT = (
    "fit",
    "scene.yaml",
    "--video",
    "video.webm",
    "--unknown",
    "cube.mass:1:9",
    "--starts",
    "2",
    "--no-known-numbers",
)
JOBS = {
    "fit": Job((*FIT, "--out", OUT), ("--resume",)),
    "control": Job(("control", "throw", "--quick", "--iterations", "4", "--out", OUT), ("--resume",)),
    "dataset": Job(("dataset", "generate", "rigid", "--n", "4", "--sizes", "32", "--out", OUT)),
    "reproduce": Job(("reproduce", "no-push", "--quick", "--out", OUT)),
}


def left_behind(folder: Path) -> dict[str, object]:
    """Content of a run's files by their names, without times."""
    unlike = {"checkpoint", RUNS}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not unlike & set(path.parts)]
    content = {}
    for path in files:
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            content[name] = _untimed(json.loads(path.read_text()))
        elif path.suffix == ".pt":  # an archive with times
            content[name] = _numbers(torch.load(path, weights_only=True))
        elif path.suffix in COMPARED or PICTURES in path.parts:
            content[name] = path.read_bytes()
        else:
            content[name] = None  # its presence
    return content


def _numbers(value):
    if isinstance(value, dict):
        return {k: _numbers(x) for k, x in value.items()}
    return value.tolist() if isinstance(value, torch.Tensor) else value


def _untimed(value):
    if isinstance(value, dict):
        return {k: _untimed(x) for k, x in value.items() if not any(part in k for part in MEASURED)}
    return [_untimed(x) for x in value] if isinstance(value, list) else value


def strike(words, folder: Path, rng: np.random.Generator, whole: float) -> tuple[str, fuzz_harness.Outcome]:
    """A run that is struck at a random instant of the time that a whole one takes."""
    kind = ("killed", "asked", "full disk")[rng.integers(3)]
    if kind == "full disk":
        return kind, fuzz_harness.run(
            words, folder, SECONDS, MEMORY, SECONDS, largest_file=int(rng.integers(1, LARGEST_FILE))
        )
    number = signal.SIGKILL if kind == "killed" else (signal.SIGTERM, signal.SIGINT)[rng.integers(2)]
    return kind, fuzz_harness.run(words, folder, SECONDS, MEMORY, SECONDS, strike=(number, rng.uniform(0, whole)))


@pytest.mark.slow
@pytest.mark.timeout(14400)
def test_jobs_that_were_struck_end_as_if_nothing_had_been(tmp_path, capsys):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_inputs(corpus)
    fuzz_harness.warm_up()
    whole, expected, folder = {}, {}, tmp_path / "case"
    for name, job in JOBS.items():
        for _ in range(2):  # the first builds kernels
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(corpus, folder)
            outcome = fuzz_harness.run(job.words, folder, SECONDS, MEMORY, SECONDS)
            assert outcome.code in (0, 3), outcome.text[-500:]
        whole[name], expected[name] = outcome.seconds, left_behind(folder / OUT)
    counts, bad = Counter(), []
    for k in range(TRIALS):
        name, rng = list(JOBS)[k % len(JOBS)], np.random.default_rng((SEED, k))
        job = JOBS[name]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(corpus, folder)
        kinds = []
        for _ in range(rng.integers(1, STRIKES + 1)):
            words = (*job.words, *(job.resume if (folder / OUT).is_dir() else ()))
            kind, outcome = strike(words, folder, rng, whole[name])
            kinds.append(kind)
            if "Traceback" in outcome.text:
                bad.append(f"{k} {name} {kind}: {outcome.text[-400:]}")
        words = (*job.words, *(job.resume if (folder / OUT).is_dir() else ()))
        last = fuzz_harness.run(words, folder, SECONDS, MEMORY, SECONDS)
        same = last.code in (0, 3) and left_behind(folder / OUT) == expected[name]
        counts[name, "as if nothing had been" if same else "otherwise"] += 1
        if not same:
            after = left_behind(folder / OUT) if (folder / OUT).is_dir() else {}
            differ = [file for file in {*after, *expected[name]} if after.get(file, 0) != expected[name].get(file, 0)]
            bad.append(f"{k} {name} {kinds}: exit code {last.code}, differ: {differ}, {last.text[-300:]}")
    with capsys.disabled():
        print(f"\n{TRIALS} trials: {dict(counts)}")
        print("\n".join(bad))
    assert not bad
