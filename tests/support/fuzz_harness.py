"""Runs a command line of gradsim in a forked process, under limits of time and memory, and judges how it ended.

The libraries are imported once, in the parent, so that a case costs a fork. A case is judged by what a user sees:

    answered    exit code 0, 2, 3 or 130, and for 2 a message with a reason
    crash       exit code 1 of an error that no code expected, or a signal
    hang        not done within the limit of CPU time
    half        bad input, and files that were not there before
    silent      exit code 0 on data that were corrupted
"""

import os
import re
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_SECONDS = 20
MEMORY = 6 << 30  # [bytes] of addresses, of which the libraries take 3
FAILED = re.compile(r"─ failed ─|Traceback \(most recent call last\)")


@dataclass(frozen=True)
class Outcome:
    """End of a command.

    Attributes:
        code: Exit code; minus the number of a signal.
        text: What it printed, on both streams.
        seconds: Wall time [s].
        new: Files and folders that were not there before.
    """

    code: int
    text: str
    seconds: float
    new: tuple[str, ...]

    def verdict(self, corrupt: bool = False) -> str:
        """One of the words above; `corrupt`: exit code 0 would be silence."""
        if -self.code in (signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM):
            return "hang"
        if self.code < 0 or FAILED.search(self.text) or self.code not in (0, 1, 2, 3, 130):
            return "crash"
        if self.code == 2 and self.new:
            return "half"
        if self.code == 2 and len(self.text.strip()) < 20:
            return "crash"
        return "silent" if self.code == 0 and corrupt else "answered"


def warm_up() -> None:
    """Import what the commands import."""
    import torch

    torch.set_num_threads(1)
    import av  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import PIL.Image  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import trimesh  # noqa: F401
    import zarr  # noqa: F401

    import gradsim
    from gradsim.app.cli import main  # noqa: F401
    from gradsim.app.commands import camera, control, dataset, explain, fit, landscape, new, render, simulate  # noqa: F401
    from gradsim.app.report import report  # noqa: F401

    gradsim.identify  # noqa: B018 -- names are imported at first use


def run(
    arguments: Sequence[str],
    folder: Path,
    cpu_seconds: float = CPU_SECONDS,
    memory: int = MEMORY,
    wall: float = 120,
    largest_file: int | None = None,
    strike: tuple[int, float] | None = None,
) -> Outcome:
    """Run one command in a folder.

    Args:
        arguments: Command line, without the program.
        folder: Its working folder, in which new files are counted.
        cpu_seconds: CPU time after which it is stopped [s].
        memory: Largest address space [bytes].
        wall: Wall time after which it is stopped, for what sleeps [s].
        largest_file: Size beyond which writes end in an error, as on a full disk [bytes].
        strike: A signal, and the time after which it is sent [s].
    """
    before, log, start = contents(folder), folder.parent / f"{folder.name}.log", time.monotonic()
    child = os.fork()
    if child == 0:
        _child(arguments, folder, log, cpu_seconds, memory, wall, largest_file)
    status = _ended(child, start + strike[1]) if strike else None
    if strike and status is None:
        os.kill(child, strike[0])
    if status is None:
        _, status = os.waitpid(child, 0)
    text = log.read_text(encoding="utf-8", errors="replace")
    log.unlink()
    new = tuple(sorted(contents(folder) - before))
    return Outcome(os.waitstatus_to_exitcode(status), text, time.monotonic() - start, new)


def _ended(child: int, until: float) -> int | None:
    """Status of a process that ends before a time; None if it does not."""
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    return None


def contents(folder: Path) -> set[str]:
    """Files and folders below a folder, by their relative names."""
    return {str(Path(root, name).relative_to(folder)) for root, _, files in os.walk(folder) for name in (*files, ".")}


def _child(arguments, folder, log, cpu_seconds, memory, wall, largest_file) -> None:
    """Never returns: the process ends with the exit code of the command."""
    code = 70
    try:
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.chdir(folder)
        signal.setitimer(signal.ITIMER_REAL, wall)
        used = sum(os.times()[:2])
        seconds = int(used + cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also where Ctrl-C is ignored, as under nohup
        if largest_file is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write ends in an error
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115 -- pytest has replaced it
        sys.stderr = open(2, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
        from gradsim.app.cli.main import main

        code = main(list(arguments))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 -- the harness reports it as a crash
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
