"""Registry of experiments from all installed packages.

An entry point of the group `gradsim.experiments` is a mapping from names on the command line to "module:function". A
function takes the output folder, the keywords `quick`, `seed` and `progress`, and its own options; it writes result.json
and returns its content.
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
from gradsim.runtime.parallel import check_engine

EXTRAS = {"cv2": "capture"}  # of packages that modules of experiments import
GROUP = "gradsim.experiments"


@cache
def experiments() -> dict[str, str | Callable]:
    """Mapping from name to "module:function" of all installed packages, or to a function added in this process."""
    return {name: target for point in entry_points(group=GROUP) for name, target in point.load().items()}


def load_experiment(name: str) -> Callable:
    """Function of an experiment.

    Raises:
        InputError: If the experiment is unknown, or needs a package of an extra that is not installed.
    """
    names = experiments()
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        hint = f" did you mean {near[0]!r}?" if near else ""
        raise InputError(f"no experiment {name!r};{hint} there are {', '.join(names) or 'none: reinstall gradsim'}.")
    target = names[name]
    try:
        return pkgutil.resolve_name(target) if isinstance(target, str) else target
    except ModuleNotFoundError as error:
        if (extra := EXTRAS.get(error.name or "")) is None:
            raise
        raise InputError(f'the experiment {name!r} needs {error.name}: pip install "gradsim[{extra}]".') from None


def reproduce(name: str, out: Path, quick: bool = False, seed: int = 0, progress=None, **options) -> dict:
    """Run an experiment; returns the content of its result.json.

    Args:
        name: Name in `experiments()`; "all" runs those of the paper.
        out: Output folder.
        quick: Run the small version.
        seed: Seed of everything random.
        progress: A `gradsim.runtime.progress.Progress`.
        options: Options of single experiments: `scenes` (their number), `engine` and `workers` (see
            `gradsim.runtime.parallel`), `foreign`, `epochs` and `weights` (convnet), `rows` (reality). None and False count as not given.

    Raises:
        InputError: If the experiment or an option is unknown, or a number out of range.
    """
    check_engine(options.get("engine") or "serial", options.get("workers"))
    if (scenes := options.get("scenes")) is not None and scenes < 1:
        raise InputError(f"scenes: got {scenes}; expected at least 1.")
    if seed < 0:
        raise InputError(f"seed: got {seed}; expected at least 0.")
    provenance.provenance()  # now: the source may change during the run
    function = load_experiment(name)
    options = {key: value for key, value in options.items() if value is not None and value is not False}
    unknown = options.keys() - inspect.signature(function).parameters.keys()
    if unknown:
        takers = [
            other for other in experiments() if unknown <= inspect.signature(load_experiment(other)).parameters.keys()
        ]
        hint = f"; {', '.join(takers)} {'do' if len(takers) > 1 else 'does'}" if takers else ""
        raise InputError(f"{name!r} takes no {' or '.join(f'--{key}' for key in sorted(unknown))}{hint}.")
    return function(Path(out), quick=quick, seed=seed, progress=progress, **options)
