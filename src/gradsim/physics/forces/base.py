"""Forces on elements of soft bodies: their files, vertices per element, and arrays by name.

A force file is a template (see `engine.lanes`) with a function `forces`, whose arguments are the positions x0, x1, ...
and velocities v0, v1, ... of the vertices of one element, then the constants of its rest shape, then its parameters; it
returns the force on each vertex. It also has `energy`, the same physics in plain PyTorch, and a `Force`. A file may
also have `power`, the forces' virtual power in fewer operations than Σ f · w, and `active` (of some of the arguments of
`forces`): where it holds in no lane, there are no forces.

`check_formula` refuses functions that cannot be compiled for scalars, SIMD registers and CUDA, and differentiated. They
would fail in the compiler, with messages about generated code, or lose digits silently: Warp takes a bare number for one
of single precision.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import numpy as np
from torch import Tensor

from gradsim.engine.lanes import Lane
from gradsim.engine.user_template import load_template
from gradsim.errors import InputError

WAYS_OUT = {
    ast.If: "`if`; write where(less(a, b), c, d)",
    ast.IfExp: "`if`; write where(less(a, b), c, d)",
    ast.Compare: "a comparison; write less(a, b)",
    ast.BoolOp: "`and` or `or`; write where(less(a, b), c, d)",
    ast.For: "a loop; write its terms out",
    ast.While: "a loop; write its terms out",
    ast.Pow: "a power; write products, or sqrt",
}


def check_formula(function: Callable, known: set[str], path: Path) -> None:
    """Raise `InputError` if a function has branches or loops, inexact numbers, or undefined names.

    Args:
        function: The plain function of a file.
        known: Names of its file.
        path: The file, for the message.
    """
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    body = [node for statement in getattr(tree, "body", ()) for node in ast.walk(statement)]
    assigned = {node.id for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    known = known | assigned | set(inspect.signature(function).parameters) | set(dir(builtins))
    exact = {id(x) for node in body if _called(node) == "Scalar" for x in ast.walk(node)}
    for node in body:
        wrong = next((words for kind, words in WAYS_OUT.items() if isinstance(getattr(node, "op", node), kind)), None)
        if isinstance(node, ast.Name) and node.id not in known:
            wrong = f"`{node.id}`, which is not an operator of gradsim.engine.lanes, an argument or a name of the file"
        elif _inexact(node) and id(node) not in exact:
            wrong = (
                f"{ast.unparse(node)}, which single precision does not hold; write spread(Scalar({ast.unparse(node)}))"
            )
        if wrong:
            line = first + getattr(node, "lineno", 1) - 1
            raise InputError(f"`{function.__name__}` of {path}, line {line}, has {wrong}.")


def _called(node: ast.AST) -> str:
    """Name of the function that a node calls; "" if it calls none."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _inexact(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Constant) else 0.0
    return isinstance(value, float) and float(np.float32(value)) != value


@dataclass(frozen=True)
class Force:
    """Forces on the vertices of elements of one kind.

    Args:
        name: Its file in `gradsim.physics.forces`, or the dotted name of a module elsewhere.
        nodes: Vertices of one element.
        rest: Constants of each element, the same in all worlds, as name: "Real", "Vec3" or "Mat3".
        parameters: Arrays with gradients, as name: kind; of each element, or one for all elements of a world.
        bind: Names that the file leaves open, for a lane type.
        body_nodes: How many nodes, the last ones, are rows of a rigid body (see `coupled/kernels.py`).
    """

    name: str
    nodes: int
    rest: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    bind: Callable[[Lane], Mapping[str, object]] | None = None
    body_nodes: int = 0

    @classmethod
    def load(cls, path: str | Path) -> "Force":
        """The force of a user's file, from the signature of its function `forces`.

        Its arguments are x0, x1, ... and v0, v1, ..., a position [m] and a velocity [m/s] of each vertex of an element,
        all of kind Vec3; then the parameters, of kind Real, Vec3 or Mat3. It returns the force on each vertex [N].

        Args:
            path: A Python file. It is run.

        Raises:
            InputError: If the file or the function does not exist, or the function is not a formula.
        """
        path = Path(path)
        module = load_template(path)
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
        return cls(module.__name__, nodes, {}, {key: kind for key, kind in kinds.items() if key not in places})

    @property
    def with_rest(self) -> "Force":
        """The same, with the rest shape among the parameters: it has gradients, and may differ between worlds."""
        return replace(self, rest={}, parameters={**self.rest, **self.parameters})

    @property
    def module(self) -> str:
        """Dotted name of its file."""
        return self.name if "." in self.name else f"gradsim.physics.forces.{self.name}"

    @property
    def title(self) -> str:
        """Name in messages: without the digest of a user's file."""
        if self.name.startswith("own."):
            return self.name.removeprefix("own.").rpartition("_")[0]
        return self.name.rpartition(".")[2]

    def __hash__(self) -> int:
        return hash((self.name, self.nodes))


def _signature(module: ModuleType, path: Path) -> dict[str, str]:
    """Arguments of `forces` by name: their kinds."""
    function = getattr(getattr(module, "forces", None), "func", None)
    if function is None:
        raise InputError(f"{path} has no function `forces` with @wp.func(inline=True).")
    kinds = {vars(module).get(kind): kind for kind in ("Real", "Vec3", "Mat3")}
    parameters = {key: kinds.get(x.annotation, "") for key, x in inspect.signature(function).parameters.items()}
    for key, kind in parameters.items():
        if not kind:
            raise InputError(f"`{key}` of `forces` in {path} has no kind; write {key}: Real, Vec3 or Mat3.")
    check_formula(function, set(vars(module)), path)
    return parameters


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements of one kind.

    Args:
        force: The force on each element.
        index: Their vertices (m, nodes).
        rest: Constants of their rest shapes by name, (m, ...).

    Raises:
        ValueError: If shapes or names are not those of the force.
    """

    force: Force
    index: Tensor
    rest: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self):
        if self.index.ndim != 2 or self.index.shape[1] != self.force.nodes:
            raise ValueError(
                f"`index` of {self.force.title} has shape {tuple(self.index.shape)}; expected (m, {self.force.nodes})."
            )
        if set(self.rest) != set(self.force.rest):
            raise ValueError(f"{self.force.title} needs rest {', '.join(self.force.rest)}; got {', '.join(self.rest)}.")
        for name, value in self.rest.items():
            if len(value) != len(self.index):
                raise ValueError(
                    f"`{name}` of {self.force.title} has {len(value)} items for {len(self.index)} elements."
                )
