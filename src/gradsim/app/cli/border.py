"""Checks of a command's arguments before anything is imported or read: paths, and numbers that bound the work."""

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from gradsim.errors import InputError
from gradsim.runtime.input_file import check_path
from gradsim.runtime.threads import MOST_THREADS

RANGES = {  # of options, inclusive; further checks are where they are used
    "seed": (0, 2**63 - 1),
    "noise": (None, 1e6),
    "starts": (None, 100_000),
    "points": (None, 1_000_000),
    "scenes": (1, 100_000),
    "workers": (1, 100_000),
    "threads": (1, MOST_THREADS),
    "epochs": (1, 1_000_000),
    "iterations": (None, 10_000_000),
    "turntable": (None, 10_000),
    "spp": (1, 65_536),
    "port": (0, 65_535),
    "window": (None, 100_000),
    "radius": (None, 10_000),
    "batch": (1, 100),
    "samples": (2, 1000),
    "budget": (0, math.inf),
}
WRITES_A_FILE = ("Camera", "Import", "New")  # commands whose `--out` is a file


def check_arguments(command) -> None:
    """Refuse impossible paths, pipes and devices, and numbers outside `RANGES`.

    Args:
        command: A command, or a group of its options: a dataclass whose fields are options.

    Raises:
        InputError: It names the option.
    """
    for field in fields(command):
        value = getattr(command, field.name)
        if is_dataclass(value):
            check_arguments(value)  # a group of options
        if field.name in RANGES and isinstance(value, int | float):
            _check_range(field.name, value)
        for text in _texts(value):
            if "\0" in text:
                raise InputError(f"{field.name}: got {text[:60]!r}, which contains a NUL character; remove it.")
            check_path(text)
            check_path(text.partition("=")[2] or text)  # CAMERA=VIDEO
    out = getattr(command, "out", None)
    if isinstance(out, Path) and type(command).__name__ not in WRITES_A_FILE:
        _check_folder(out)


def _check_folder(out: Path) -> None:
    for path in (out, *out.parents):
        if path.exists() and not path.is_dir():
            raise InputError(f"--out is {out}, and {path} is a file; expected a folder: choose another name.")


def _check_range(name: str, value: float) -> None:
    low, high = RANGES[name]
    if math.isnan(value) or value > high or (low is not None and value < low):
        ends = f"from {low} to {high:g}" if low is not None else f"of at most {high:g}"
        raise InputError(f"--{name} is {value:g}; expected a number {ends}.")


def _texts(value: object) -> Iterator[str]:
    """All texts and paths in an option's value."""
    if isinstance(value, Path | str):
        yield str(value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
