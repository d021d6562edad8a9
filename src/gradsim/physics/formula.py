"""Whether a function of one's own is a formula that can be compiled for numbers, packs and CUDA, and differentiated.

What is not would fail in the compiler, in words about generated code, or lose digits in silence: Warp takes a bare number
for one of single precision.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np

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
    """Raise `InputError` if a function has branches or loops, inexact numbers, or names that nobody defines.

    Args:
        function: The plain function of a file.
        known: Names of its file.
        path: The file, for the message.
    """
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    body = [node for statement in getattr(tree, "body", ()) for node in ast.walk(statement)]
    own = {node.id for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    known = known | own | set(inspect.signature(function).parameters) | set(dir(builtins))
    exact = {id(x) for node in body if _called(node) == "Scalar" for x in ast.walk(node)}
    for node in body:
        wrong = next((words for kind, words in WAYS_OUT.items() if isinstance(getattr(node, "op", node), kind)), None)
        if isinstance(node, ast.Name) and node.id not in known:
            wrong = f"`{node.id}`, which is no operator of gradsim.engine.lanes, argument or name of the file"
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
