"""Syntax trees of source files, parsed once and walked once in a process for all tests that read the source."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    """The tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file, in the order of `ast.walk`."""
    return tuple(ast.walk(tree(path)))
