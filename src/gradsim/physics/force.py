"""What a file of forces says about itself: on how many vertices they act, and which arrays they read by name.

A force file is a template (see `engine.lanes`) with a function `forces`, whose arguments are the positions x0, x1, ...
and velocities v0, v1, ... of the vertices of one element, then the constants of its rest shape, then its parameters; it
returns the force on each vertex. Beside it stand `energy`, the same physics in plain PyTorch, and a `Force`. A file may
also have `power`, the forces' virtual power in fewer operations than Σ f · w, and `active` (of some of the arguments of
`forces`): where it holds in no lane, there are no forces.
"""

import hashlib
import importlib.util
import inspect
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType

from gradsim.engine.lanes import Lane
from gradsim.errors import InputError
from gradsim.physics.formula import check_formula


@dataclass(frozen=True)
class Force:
    """Forces on the vertices of elements of one kind.

    Args:
        name: Its file in `gradsim.physics`, or the dotted name of a module elsewhere.
        nodes: Vertices of one element.
        rest: Constants of each element, the same in all worlds, as name: "Real", "Vec3" or "Mat3".
        parameters: Arrays with gradients, as name: kind; of each element, or one for all elements of a world.
        bind: Names that the file leaves open, for a lane type.
    """

    name: str
    nodes: int
    rest: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    bind: Callable[[Lane], Mapping[str, object]] | None = None

    @classmethod
    def load(cls, path: str | Path) -> "Force":
        """The force of a file of one's own, as its function `forces` states it.

        Its arguments are x0, x1, ... and v0, v1, ..., a position [m] and a velocity [m/s] of each vertex of an element,
        all of kind Vec3; then the parameters, of kind Real, Vec3 or Mat3. It returns the force on each vertex [N].

        Args:
            path: A Python file. It is run.

        Raises:
            InputError: If there is no such file, or it has no such function, or that is no formula.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"there is no file {path}.")
        content = path.read_bytes()
        name = f"own.{path.stem}_{hashlib.sha256(content).hexdigest()[:8]}"  # an edited file is another
        module = sys.modules.get(name) or _run(name, path, content)
        kinds = _signature(module, path)
        nodes = 0
        while f"x{nodes}" in kinds:
            nodes += 1
        places = [f"{y}{k}" for y in "xv" for k in range(nodes)]
        if not nodes or list(kinds)[: 2 * nodes] != places or any(kinds[y] != "Vec3" for y in places):
            got = ", ".join(f"{key}: {kind}" for key, kind in kinds.items()) or "no arguments"
            raise InputError(
                f"`forces` of {path} has {got}; expected x0: Vec3, ..., v0: Vec3, ... and then the parameters."
            )
        return cls(name, nodes, {}, {key: kind for key, kind in kinds.items() if key not in places})

    @property
    def with_rest(self) -> "Force":
        """The same, with the rest shape among the parameters: it has gradients, and may differ between worlds."""
        return replace(self, rest={}, parameters={**self.rest, **self.parameters})

    @property
    def module(self) -> str:
        """Dotted name of its file."""
        return self.name if "." in self.name else f"gradsim.physics.{self.name}"

    @property
    def title(self) -> str:
        """As messages call it: without what tells an edited file from the first."""
        return self.name.removeprefix("own.").rpartition("_")[0] if self.name.startswith("own.") else self.name

    def __hash__(self) -> int:
        return hash((self.name, self.nodes))


@cache
def _copies() -> tempfile.TemporaryDirectory:
    """Forces are compiled when they are first used: from these copies, since the file may be another by then."""
    return tempfile.TemporaryDirectory(prefix="gradsim-forces-")


def _run(name: str, path: Path, content: bytes) -> ModuleType:
    copy = Path(_copies().name) / f"{name}{path.suffix}"
    copy.write_bytes(content)
    spec = importlib.util.spec_from_file_location(name, copy)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python file; its name has to end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where `specialise` and Warp look it up
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise InputError(f"{path}, line {error.lineno}: {error.msg}.") from None
        raise
    return module


def _signature(module: ModuleType, path: Path) -> dict[str, str]:
    """Arguments of `forces` by name: their kinds."""
    function = getattr(getattr(module, "forces", None), "func", None)
    if function is None:
        raise InputError(f"{path} has no function `forces` with @wp.func(inline=True).")
    kinds = {vars(module).get(kind): kind for kind in ("Real", "Vec3", "Mat3")}
    found = {key: kinds.get(x.annotation, "") for key, x in inspect.signature(function).parameters.items()}
    for key, kind in found.items():
        if not kind:
            raise InputError(f"`{key}` of `forces` in {path} has no kind; write {key}: Real, Vec3 or Mat3.")
    check_formula(function, set(vars(module)), path)
    return found
