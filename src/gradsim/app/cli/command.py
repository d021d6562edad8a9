"""Base of the commands: exit codes, progress, printing of results. Imports nothing heavy."""

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from gradsim.errors import InputError, Status

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAILED, BAD_INPUT = Status.OK.exit_code, Status.FAILED.exit_code, 2
INCONCLUSIVE, STOPPED = Status.UNIDENTIFIABLE.exit_code, Status.INTERRUPTED.exit_code


@dataclass(kw_only=True)
class Command:
    """Options of all commands."""

    debug: bool = False
    """Show the traceback of an error."""

    def run(self, out: "Console", err: "Console") -> int:
        """Run the command; results go to `out`, progress to `err`. Returns the exit code."""
        raise NotImplementedError


@dataclass(kw_only=True)
class ThreadedCommand(Command):
    """Options of commands that move bodies, draw them or fit them."""

    threads: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: all cores)")] = None
    """Number of threads; does not change the result."""


@contextlib.contextmanager
def working(err: "Console"):
    """Progress for a block of work; its stdout is redirected to stderr, as stdout belongs to the result."""
    from gradsim.app.cli.console import progress
    from gradsim.runtime.progress import show_reading

    reporter = progress(err)
    with contextlib.redirect_stdout(sys.stderr), show_reading(reporter):
        try:
            yield reporter
        finally:
            reporter.done()


def show(result: dict, folder: Path, out: "Console") -> None:
    """Print tables, verdict and path of the report."""
    from gradsim.app.cli.console import show_result

    show_result(out, result)
    out.print(f"report: {(folder / 'report.html').resolve()}", highlight=False, soft_wrap=True, markup=False)


def flatten(groups: list[list[str]]) -> list[str]:
    """Values of an option that may be listed and repeated."""
    return [text for group in groups for text in group]


def run_folder(command: str, out: Path | None, resume: bool = False) -> Path:
    """The run folder: `out`, or runs/COMMAND unless it holds a result already, which would be lost.

    Raises:
        InputError: If it does.
    """
    folder = out or Path("runs") / command
    if out is None and not resume and (folder / "result.json").exists():
        raise InputError(
            f"{folder}, the folder of `gradsim {command}` without --out, holds a result; give --out DIR to keep it, or "
            f"--out {folder} to replace it."
        )
    return folder
