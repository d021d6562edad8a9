"""Experiments by name, from every installed package that registers some.

A package registers experiments by an entry point of the group `gradsim.experiments` that is a mapping from the name on
the command line to "module:function". A function takes the folder, and `quick`, `seed` and `progress` by keyword, with
its own options after them; it writes `result.json` into the folder and returns its content.
"""

import difflib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from gradsim.errors import InputError
from gradsim.runtime import provenance

GROUP = "gradsim.experiments"


@cache
def experiments() -> dict[str, str | Callable]:
    """Name on the command line: "module:function" of every installed package, or a function added in this process."""
    return {name: target for point in entry_points(group=GROUP) for name, target in point.load().items()}


def experiment(name: str):
    """The function that runs an experiment.

    Raises:
        InputError: If there is none of this name.
    """
    names = experiments()
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise InputError(f"no experiment {name!r};{hint} there are {', '.join(names) or 'none: reinstall gradsim'}.")
    target = names[name]
    return pkgutil.resolve_name(target) if isinstance(target, str) else target


def reproduce(name: str, out: Path, quick: bool = False, seed: int = 0, progress=None, **options) -> dict:
    """Run an experiment by name into a folder; returns the content of its `result.json`.

    Args:
        name: Of `experiments()`; "all" runs those of the paper.
        out: The folder.
        quick: Its small form.
        seed: Of everything random.
        progress: `gradsim.runtime.progress.Progress` that shows how far the run is.
        options: Options of single experiments: `scenes` (how many), `engine` and `workers` (see `gradsim.runtime.parallel`),
            `foreign`, `epochs` and `weights` (convnet), and such. None and False count as not given.

    Raises:
        InputError: If there is no such experiment, or it does not take an option.
    """
    provenance.provenance()  # now: the source may be another one when the run ends
    function = experiment(name)
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    unknown = given.keys() - inspect.signature(function).parameters.keys()
    if unknown:
        takers = [other for other in experiments() if unknown <= inspect.signature(experiment(other)).parameters.keys()]
        hint = f"; {', '.join(takers)} {'do' if len(takers) > 1 else 'does'}" if takers else ""
        raise InputError(f"{name!r} takes no {' or '.join(f'--{key}' for key in sorted(unknown))}{hint}.")
    return function(Path(out), quick=quick, seed=seed, progress=progress, **given)
