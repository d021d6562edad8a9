"""Entry point of the command `gradsim`; exit codes:

    0 done   1 failed   2 bad input   3 approximate, unidentifiable, unconverged, model mismatch, or a missed goal   130 stopped by Ctrl-C

Results go to stdout, everything else to stderr. PyTorch, Warp and matplotlib are imported by the commands that need
them, so that `--help` answers at once.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, subcommand

from gradsim.app.cli.analysis import Camera, Explain, Landscape
from gradsim.app.cli.border import check_arguments
from gradsim.app.cli.capture import Capture
from gradsim.app.cli.command import BAD_INPUT, DONE, FAILED, STOPPED
from gradsim.app.cli.control import Control
from gradsim.app.cli.dataset import Dataset
from gradsim.app.cli.experiments import Demo, Doctor, Reproduce
from gradsim.app.cli.fit import Compare, Fit
from gradsim.app.cli.plan import Plan
from gradsim.app.cli.scene import Examples, Export, Import, New, Render, Scenes, Simulate, View
from gradsim.app.cli.track import Track
from gradsim.errors import InputError
from gradsim.runtime.allocator import freed_memory_reused
from gradsim.runtime.parallel import default_to_one_thread

if TYPE_CHECKING:
    from rich.console import Console

_Commands = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Scenes, subcommand("scenes")]
    | Annotated[Examples, subcommand("examples")]
    | Annotated[New, subcommand("new")]
    | Annotated[Import, subcommand("import")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Simulate, subcommand("simulate")]
    | Annotated[Render, subcommand("render")]
    | Annotated[Fit, subcommand("fit")]
    | Annotated[Explain, subcommand("explain")]
    | Annotated[Plan, subcommand("plan")]
    | Annotated[Camera, subcommand("camera")]
    | Annotated[Capture, subcommand("capture")]
    | Annotated[Track, subcommand("track")]
    | Annotated[Compare, subcommand("compare")]
    | Annotated[Control, subcommand("control")]
    | Dataset
    | Annotated[Landscape, subcommand("landscape")]
    | Annotated[Reproduce, subcommand("reproduce")]
    | Annotated[View, subcommand("view")]
    | Annotated[Doctor, subcommand("doctor")]
)
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
    except BrokenPipeError:  # who reads the output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


@freed_memory_reused()
def _run(arguments: Sequence[str] | None) -> int:
    default_to_one_thread()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["reproduce"]:
        Reproduce.name_experiments()
    if words == ["--version"]:
        from gradsim.runtime.provenance import versions

        print(f"gradsim {versions()['gradsim']}")
        return 0
    command = tyro.cli(
        _Commands,
        prog="gradsim",
        description="Physical parameters from video: differentiable physics and rendering, with error bars. "
        "`gradsim --version` prints the version.",
        args=arguments,
        config=(FlagCreatePairsOff,),
    )
    from rich.console import Console

    out, err = Console(), Console(stderr=True)
    try:
        check_arguments(command)
        return command.run(out, err)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        err.print("stopped")
        return STOPPED
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
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
