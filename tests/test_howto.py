"""Headings of the how-to pages that quote the program are what it says."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from source_trees import nodes

ROOT = Path(__file__).parents[1]
HEADINGS = [
    pytest.param(quote, id=f"{page.stem}: {quote}")
    for page in sorted((ROOT / "docs" / "howto").glob("*.md"))
    for quote in re.findall(r"^## (?:`` (.*) ``|`(.*)`)", page.read_text(encoding="utf-8"), re.MULTILINE)
    for quote in [max(quote)]
]


@cache
def texts() -> str:
    """All literal parts of strings of the source; a value that is put into a text is an ellipsis."""
    parts = []
    for path in sorted((ROOT / "src" / "gradsim").rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.JoinedStr):
                parts.append("".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts.append(node.value)
    return "\n".join(parts)


@pytest.mark.parametrize("quote", HEADINGS)
def test_a_message_in_a_heading_is_one_of_the_program(quote):
    pieces = [piece.strip() for piece in quote.split("…") if piece.strip(" `.:;,()")]
    assert pieces and [piece for piece in pieces if piece not in texts()] == []
