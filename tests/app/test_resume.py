"""A fit that is stopped by Ctrl-C, then killed, then resumed ends as one that never was."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
import warp as wp
from fit_cases import THROW
from run_cases import write_inputs

from gradsim.app.cli import main
from gradsim.app.commands.fit import fit
from gradsim.app.job import FitArguments
from gradsim.app.run_directory import RunDirectory
from gradsim.errors import InputError
from gradsim.runtime.checkpoint import CheckpointFolder
from gradsim.runtime.progress import NullProgress
from gradsim.scene import Scene

pytestmark = pytest.mark.timeout(1200)  # two processes that start from nothing, on a machine that may be busy
TIMES = ("cpu_seconds", "wall_seconds")
COMMAND = f"""
import signal, sys
import warp as wp
wp.config.cpu_compiler_flags = {wp.config.cpu_compiler_flags!r}  # those of the tests, whose kernels are built
from gradsim.app.cli import main as cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where Ctrl-C is ignored, as under nohup
sys.exit(cli.main())
"""


class Stages(NullProgress):
    """Remembers the stages."""

    def __init__(self):
        self.stages = []

    def stage(self, text):
        self.stages.append(text)


def words(job: FitArguments, out: Path) -> list[str]:
    return ["fit", str(job.scene), "--video", str(job.video), "--unknown", *job.unknowns, "--out", str(out)] + [
        "--starts",
        str(job.starts),
        "--seed",
        str(job.seed),
    ]


class Killed(BaseException):
    """Ends a run at once, as a signal does that cannot be caught."""


def in_this_process(kill: signal.Signals, out: Path, words: list[str]) -> tuple[int, str]:
    """Run a command that receives a signal when it has saved; its exit code and what it printed.

    Of SIGKILL, which would end the tests, what it leaves on the disk.
    """
    save, printed = CheckpointFolder.save, io.StringIO()

    def struck(self, part, state):
        save(self, part, state)
        if kill == signal.SIGKILL:
            raise Killed
        signal.raise_signal(kill)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
            patch.setattr(CheckpointFolder, "save", struck)
            return main.main(words), printed.getvalue()
    except Killed:
        return -kill, printed.getvalue()
    finally:
        signal.signal(signal.SIGINT, before)


def in_its_own_process(kill: signal.Signals, out: Path, words: list[str]) -> tuple[int, str]:
    """The same with a process that the signal is sent to."""
    before = set((out / "checkpoint").glob("*.json"))
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        while process.poll() is None and not set((out / "checkpoint").glob("*.json")) - before:
            time.sleep(0.002)
        process.send_signal(kill)
        printed, _ = process.communicate(timeout=600)
        return process.returncode, printed
    finally:
        process.kill()
        process.wait()


def answer(out: Path) -> tuple[dict, dict]:
    """result.json but for times, and history.json."""
    result, history = (json.loads((out / name).read_text()) for name in ("result.json", "history.json"))
    return {k: v for k, v in result.items() if k not in TIMES}, history


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> FitArguments:
    folder = write_inputs(tmp_path_factory.mktemp("inputs"))
    return FitArguments(
        scene=folder / "scene.yaml", video=folder / "video.webm", unknowns=tuple(THROW), starts=2, seed=5
    )


@pytest.fixture(scope="module", params=[in_this_process, pytest.param(in_its_own_process, marks=pytest.mark.slow)])
def strike(request):
    """Runs a command and ends it by a signal."""
    return request.param


@pytest.fixture(scope="module")
def stopped(strike, job, tmp_path_factory) -> tuple[Path, int, str]:
    """A run after Ctrl-C, its exit code and words."""
    out = tmp_path_factory.mktemp("runs") / "stopped"
    return out, *strike(signal.SIGINT, out, words(job, out))


def test_ctrl_c_leaves_a_run_that_says_what_it_knows_and_how_to_go_on(stopped):
    out, code, printed = stopped
    assert code == 130 and f"resume: gradsim fit --resume {out}" in " ".join(printed.split())
    result = json.loads((out / "result.json").read_text())
    assert result["status"] == "interrupted" and result["stages"] >= 1
    assert all(1 > abs(u["value"] / {"cube.mass": 3.1}.get(n, 0.9) - 1) for n, u in result["unknowns"].items())
    assert all(u["std"] is None and not u["identifiable"] for u in result["unknowns"].values())
    page = (out / "report.html").read_text()
    assert "Stopped before the end" in page and f"gradsim fit --resume {out}" in page and "± ∞" not in page
    assert RunDirectory(out).is_unfinished and not RunDirectory(out).is_finished


def test_stopped_then_killed_then_resumed_is_as_never_stopped(strike, job, stopped, tmp_path):
    out = stopped[0]
    with pytest.raises(InputError, match=f"gradsim fit --resume {out}"):
        fit(job, out)
    with pytest.raises(InputError, match=r"seed: 5 then, 6 now"):
        fit(replace(job, seed=6), out, resume=True)
    code, _ = strike(signal.SIGKILL, out, ["fit", "--resume", str(out)])
    assert code == -signal.SIGKILL and RunDirectory(out).is_unfinished

    progress = Stages()
    again = fit(FitArguments.load(out), out, resume=True, progress=progress)
    assert any("on from" in stage for stage in progress.stages)
    fit(job, tmp_path / "whole")
    assert answer(out) == answer(tmp_path / "whole")
    assert again["status"] == "ok" and again["video"] == str(job.video)
    assert RunDirectory(out).is_finished and not (out / "checkpoint").exists()

    written = (out / "result.json").stat().st_mtime_ns
    assert fit(job, out, resume=True) == again  # is done, and says so
    assert (out / "result.json").stat().st_mtime_ns == written


def test_another_video_or_scene_is_named(job, tmp_path):
    kept = json.dumps(
        {"folder": "", "files": [], "command": "fit", "inputs": job.inputs(Scene.load(job.scene)), "arguments": {}}
    )
    (tmp_path / "job.json").write_text(kept)
    (tmp_path / "other.webm").write_bytes(b"other")
    scene = Scene.load(job.scene)
    changed = scene.model_copy(update={"gravity": (0.0, 0.0, -1.6)})
    RunDirectory(tmp_path).require_same_inputs(job, scene)
    with pytest.raises(InputError, match="video: another file"):
        RunDirectory(tmp_path).require_same_inputs(replace(job, video=tmp_path / "other.webm"), scene)
    with pytest.raises(InputError, match=r"scene.gravity: .*9\.8.* then, .*1\.6.* now"):
        RunDirectory(tmp_path).require_same_inputs(job, changed)
    with pytest.raises(InputError, match="starts: 2 then, 4 now"):
        RunDirectory(tmp_path).require_same_inputs(replace(job, starts=4), scene)


def test_two_at_once_in_one_folder_are_refused(job, tmp_path):
    scene = Scene.load(job.scene)
    with (
        RunDirectory(tmp_path).open(job, scene, False),
        pytest.raises(InputError, match="another process"),
        RunDirectory(tmp_path).open(job, scene, False),
    ):
        pass


def test_drafts_of_a_killed_run_go_when_its_folder_is_free(job, tmp_path):
    scene, draft = Scene.load(job.scene), tmp_path / ".best.webm.k2x.part" / "best.webm"
    with RunDirectory(tmp_path).open(job, scene, False):
        draft.parent.mkdir()
        draft.write_bytes(b"half")
        with pytest.raises(InputError, match="another process"), RunDirectory(tmp_path).open(job, scene, False):
            pass
        assert draft.exists()  # of the process that has the folder
    with RunDirectory(tmp_path).open(job, scene, False):
        assert not draft.parent.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit"], "SCENE, --video VIDEO"),
        (["fit", "cube", "--out", "x"], "--video VIDEO, --unknown"),
        (["fit", "--resume"], "runs/fit holds no job.json"),
        (["fit", "--resume", "."], "holds no job.json"),
    ],
)
def test_what_is_missing_is_named(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err
    assert not os.listdir(tmp_path)
