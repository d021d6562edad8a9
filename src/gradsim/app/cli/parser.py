"""Commands and options of `gradsim`, parsed. Imports nothing heavy."""

from collections.abc import Sequence
from typing import Annotated, get_args

import tyro
from tyro.conf import FlagCreatePairsOff, subcommand

from gradsim.app.cli.analysis import Camera, Explain, Landscape
from gradsim.app.cli.capture import Capture
from gradsim.app.cli.command import Command
from gradsim.app.cli.control import Control
from gradsim.app.cli.dataset import Dataset
from gradsim.app.cli.experiments import Demo, Doctor, Reproduce
from gradsim.app.cli.fit import Compare, Fit
from gradsim.app.cli.overview import EXAMPLES
from gradsim.app.cli.plan import Plan
from gradsim.app.cli.scene import Examples, Export, Import, New, Render, Scenes, Simulate, View
from gradsim.app.cli.track import Track

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


def parse(words: Sequence[str]) -> Command:
    """The command of these words.

    Raises:
        SystemExit: After `--help` (0) and on wrong usage (2).
    """
    if words[:1] == ["reproduce"]:
        Reproduce.name_experiments()
    if "--help" in words or "-h" in words:
        _add_example(words[0])
    return tyro.cli(
        _Commands,
        prog="gradsim",
        description="Physical parameters from video: differentiable physics and rendering, with error bars.",
        args=words,
        config=(FlagCreatePairsOff,),
    )


def _add_example(name: str) -> None:
    """Put the example of a command into its help."""
    for kind, *marks in map(get_args, get_args(_Commands)):
        is_named = isinstance(kind, type) and any(getattr(mark, "name", None) == name for mark in marks)
        if is_named and EXAMPLES[name] not in (kind.__doc__ or ""):
            kind.__doc__ = f"{(kind.__doc__ or '').rstrip()}\n\nExample: {EXAMPLES[name]}"
