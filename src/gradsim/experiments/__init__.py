"""The demo, and experiments of ours and the paper's that anybody can run again."""

import importlib
from pathlib import Path

from gradsim.errors import InputError

EXPERIMENTS = {  # name on the command line: module, function
    "no-push": ("gradsim.experiments.no_push", "no_push"),
    "real-pendulum": ("gradsim.experiments.real_pendulum", "real_pendulum"),
    "real-cube": ("gradsim.experiments.real_cube", "real_cube"),
}


def reproduce(name: str, out: Path, quick: bool = False, seed: int = 0, progress=None) -> dict:
    """Run an experiment by name into a folder; returns the content of its `result.json`.

    Raises:
        InputError: If there is no such experiment.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    module, function = EXPERIMENTS[name]
    return getattr(importlib.import_module(module), function)(Path(out), quick=quick, seed=seed, progress=progress)


def demo(out: Path, seed: int = 0, progress=None) -> dict:
    """The demo; see `gradsim.experiments.demo`."""
    return importlib.import_module("gradsim.experiments.demo").demo(Path(out), seed=seed, progress=progress)
