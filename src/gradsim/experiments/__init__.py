"""The demo, and experiments of ours and the paper's that anybody can run again."""

import difflib
import importlib
import inspect
from pathlib import Path

from gradsim.errors import InputError
from gradsim.experiments import provenance

EXPERIMENTS = {  # name on the command line: module, function
    "all": ("gradsim.experiments.everything", "everything"),
    "joint": ("gradsim.experiments.joint", "joint"),
    "mismatch": ("gradsim.experiments.mismatch", "mismatch"),
    "no-push": ("gradsim.experiments.no_push", "no_push"),
    "table1": ("gradsim.experiments.table1", "table1"),
    "table2": ("gradsim.experiments.table2", "table2"),
    "table3": ("gradsim.experiments.table3", "table3"),
    "convnet": ("gradsim.experiments.baselines.convnet", "convnet"),
    "pybullet": ("gradsim.experiments.baselines.pybullet", "pybullet"),
    "table4": ("gradsim.experiments.table4", "table4"),
    "gradients": ("gradsim.experiments.gradients", "gradients"),
    "fig7": ("gradsim.experiments.fig7", "fig7"),
    "independent-target": ("gradsim.experiments.independent_target", "independent_target"),
    "renderers": ("gradsim.experiments.renderers", "renderers"),
    "real-pendulum": ("gradsim.experiments.real_pendulum", "real_pendulum"),
    "real-cube": ("gradsim.experiments.real_cube", "real_cube"),
    "articulated": ("gradsim.experiments.articulated", "articulated"),
    "fig6": ("gradsim.experiments.fig6", "fig6"),
    "fig3": ("gradsim.experiments.fig3", "fig3"),
    "fig4": ("gradsim.experiments.fig4", "fig4"),
    "table4-rates": ("gradsim.experiments.table4_rates", "table4_rates"),
    "fig12": ("gradsim.experiments.fig12", "fig12"),
    "fig11": ("gradsim.experiments.fig11", "fig11"),
    "table6": ("gradsim.experiments.table6", "table6"),
    "pile": ("gradsim.experiments.pile", "pile"),
    "collisions": ("gradsim.experiments.collisions", "collisions"),
    "real-beam": ("gradsim.experiments.real_beam", "real_beam"),
    "smoke": ("gradsim.experiments.smoke", "smoke"),
    "coverage": ("gradsim.experiments.coverage", "coverage"),
    "verdicts": ("gradsim.experiments.verdicts", "verdicts"),
    "pendula": ("gradsim.experiments.pendula", "pendula"),
}


def reproduce(name: str, out: Path, quick: bool = False, seed: int = 0, progress=None, **options) -> dict:
    """Run an experiment by name into a folder; returns the content of its `result.json`.

    Args:
        name: Of `EXPERIMENTS`, or "all" for those of the paper.
        out: The folder.
        quick: Its small form.
        seed: Of everything random.
        progress: Is told what happens.
        options: What not every experiment takes: `scenes` (how many), `engine` and `workers` (see `gradsim.jobs`),
            `foreign`, `epochs` and `weights` (convnet), and such. None and False are as good as not given.

    Raises:
        InputError: If there is no such experiment, or it does not take an option.
    """
    provenance.provenance()  # now: the source may be another one when the run ends
    function = experiment(name)
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    unknown = given.keys() - inspect.signature(function).parameters.keys()
    if unknown:
        some = [other for other in EXPERIMENTS if unknown <= inspect.signature(experiment(other)).parameters.keys()]
        takers = f"; {', '.join(some)} {'do' if len(some) > 1 else 'does'}" if some else ""
        raise InputError(f"{name!r} takes no {' or '.join(f'--{key}' for key in sorted(unknown))}{takers}.")
    return function(Path(out), quick=quick, seed=seed, progress=progress, **given)


def experiment(name: str):
    """The function that runs an experiment.

    Raises:
        InputError: If there is none of this name.
    """
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, 1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise InputError(f"no experiment {name!r};{hint} there are {', '.join(EXPERIMENTS)}.")
    module, function = EXPERIMENTS[name]
    return getattr(importlib.import_module(module), function)


def demo(out: Path, seed: int = 0, progress=None) -> dict:
    """The demo; see `gradsim.experiments.demo`."""
    return importlib.import_module("gradsim.experiments.demo").demo(Path(out), seed=seed, progress=progress)
