"""The demo, and experiments of ours and the paper's that anybody can run again."""

import importlib
from pathlib import Path

from gradsim.errors import InputError

EXPERIMENTS = {  # name on the command line: module, function
    "joint": ("gradsim.experiments.joint", "joint"),
    "mismatch": ("gradsim.experiments.mismatch", "mismatch"),
    "no-push": ("gradsim.experiments.no_push", "no_push"),
    "table3": ("gradsim.experiments.table3", "table3"),
    "gradients": ("gradsim.experiments.gradients", "gradients"),
    "fig7": ("gradsim.experiments.fig7", "fig7"),
    "independent-target": ("gradsim.experiments.independent_target", "independent_target"),
    "renderers": ("gradsim.experiments.renderers", "renderers"),
    "real-pendulum": ("gradsim.experiments.real_pendulum", "real_pendulum"),
    "real-cube": ("gradsim.experiments.real_cube", "real_cube"),
    "articulated": ("gradsim.experiments.articulated", "articulated"),
    "fig6": ("gradsim.experiments.fig6", "fig6"),
    "table6": ("gradsim.experiments.table6", "table6"),
    "pile": ("gradsim.experiments.pile", "pile"),
    "collisions": ("gradsim.experiments.collisions", "collisions"),
    "real-beam": ("gradsim.experiments.real_beam", "real_beam"),
    "smoke": ("gradsim.experiments.smoke", "smoke"),
    "pendula": ("gradsim.experiments.pendula", "pendula"),
}
FOREIGN = ("joint",)  # those whose targets may come from another renderer and finer steps


def reproduce(name: str, out: Path, quick: bool = False, seed: int = 0, progress=None, foreign: bool = False) -> dict:
    """Run an experiment by name into a folder; returns the content of its `result.json`.

    Raises:
        InputError: If there is no such experiment, or it has no form with foreign targets.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    if foreign and name not in FOREIGN:
        raise InputError(f"{name!r} has no foreign targets; {', '.join(FOREIGN)} has.")
    module, function = EXPERIMENTS[name]
    options = {"quick": quick, "seed": seed, "progress": progress, **({"foreign": True} if foreign else {})}
    return getattr(importlib.import_module(module), function)(Path(out), **options)


def demo(out: Path, seed: int = 0, progress=None) -> dict:
    """The demo; see `gradsim.experiments.demo`."""
    return importlib.import_module("gradsim.experiments.demo").demo(Path(out), seed=seed, progress=progress)
