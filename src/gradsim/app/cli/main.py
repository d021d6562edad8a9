"""Entry point of the command `gradsim`; exit codes:

    0 done   1 failed   2 bad input   3 approximate, unidentifiable, unconverged, model mismatch, or a missed goal   130 stopped by Ctrl-C

Results go to stdout, everything else to stderr. PyTorch, Warp and matplotlib are imported by the commands that need
them, and the parser where a command is named, so that `--help` answers at once.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradsim.app.cli.overview import overview
from gradsim.errors import InputError, Status

if TYPE_CHECKING:
    from rich.console import Console

BAD_INPUT = 2
QUICK = ("Scenes", "Examples", "Import")  # commands that need neither PyTorch nor Warp
_BAD_PATHS = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Command-line arguments; those of the process by default.

    Returns:
        Exit code.

    Raises:
        SystemExit: After `--help` (0) and on wrong usage (2).
    """
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # before the command runs, which says more itself
        print("stopped", file=sys.stderr)
        return Status.INTERRUPTED.exit_code
    except BrokenPipeError:  # who reads the output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.OK.exit_code


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in ([], ["-h"], ["--help"]):
        print(overview())
        return Status.OK.exit_code
    from gradsim.app.cli.parser import parse
    from gradsim.runtime.allocator import collect_rarely, freed_memory_reused
    from gradsim.runtime.parallel import default_to_one_thread

    collect_rarely()
    with freed_memory_reused():
        default_to_one_thread()
        if words == ["--version"]:
            from gradsim.runtime.provenance import versions

            print(f"gradsim {versions()['gradsim']}")
            return Status.OK.exit_code
        return _answer(parse(words))


def _answer(command) -> int:
    """Run a command, and print its error if it has one."""
    from rich.console import Console

    from gradsim.app.cli.border import check_arguments
    from gradsim.app.cli.command import ThreadedCommand
    from gradsim.app.cli.input_paths import require_inputs
    from gradsim.runtime.threads import set_threads

    out, err = Console(), Console(stderr=True)
    try:
        check_arguments(command)
        require_inputs(command)
        if isinstance(command, ThreadedCommand):
            set_threads(command.threads)
        if type(command).__name__ not in QUICK:
            err.print("loading PyTorch and Warp", style="dim")
        return command.run(out, err)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        err.print("stopped")
        return Status.INTERRUPTED.exit_code
    except Exception as error:  # noqa: BLE001 -- the border to the user
        return print_error(error, err, command.debug)


def print_error(error: Exception, err: "Console", debug: bool) -> int:
    """Print one panel for an error; returns the exit code."""
    from pydantic import ValidationError

    from gradsim.app.cli.console import error_panel

    if debug:
        traceback.print_exception(error)
    if isinstance(error, (InputError, ValidationError, *_BAD_PATHS)):
        err.print(error_panel("bad input", str(error)))
        return BAD_INPUT
    hint = "" if debug else "Run again with --debug for the traceback."
    err.print(error_panel("failed", f"{type(error).__name__}: {error}", hint))
    return Status.FAILED.exit_code


if __name__ == "__main__":
    sys.exit(main())
