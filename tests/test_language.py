"""No turns of phrase and names in the source that have a plain term."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from source_trees import nodes

SOURCE = Path(__file__).parents[1] / "src"
TURNS = {  # what, and what we write in its place
    r"\bis no\b": "is not a, has no",
    r"\bso many\b": "a number, or the name of it",
    r"\b(is|are|be|being) told\b": "receives, takes, is called with",
    r"\basked (for|of|to)\b": "requested, given",
    r"\bstands? (in|on|for|beside|by|there)\b": "is",
    r"\bbeside\b": "next to, with",
    r"\bgo(es)? on with\b": "continues",
    r"\bfar-seeing\b": "wide basin of attraction",
    r"\bof one's own\b": "user-defined",
    r"\bleftovers?\b(?!:)": "residuals",  # but the key of `gradsim dataset verify --json`
}
PATTERN = re.compile("|".join(TURNS), re.IGNORECASE)
OPENINGS = r"(What|Where|Whether|How|Of|Is told)\b"  # of a docstring: say what it is
NAMES = {
    "found",
    "told",
    "own",
    "some",
    "every",
    "here",
    "there",
    "each",
    "moved",
    "given",
    "kept",
    "placed",
    "shown",
    "drawn",
    "settled",
    "asked",
    "seen",
}
FILES = sorted(SOURCE.rglob("*.py"))


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Line numbers and lines of comments and strings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from ((token.start[0] + k, line) for k, line in enumerate(token.string.splitlines()))


def offenders(rule) -> list[str]:
    """Places, as file:line, that break a rule."""
    return [f"{path.relative_to(SOURCE)}:{line}" for path in FILES for line in sorted(rule(path))]


def turns(path: Path) -> Iterator[int]:
    text = path.read_text(encoding="utf-8")
    if PATTERN.search(text):  # most files need no look at what is code and what is prose
        yield from (line for line, words in prose(text) if PATTERN.search(words))


def openings(path: Path) -> Iterator[int]:
    for node in nodes(path):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and re.match(OPENINGS, ast.get_docstring(node) or ""):
            yield getattr(node, "lineno", 1)


def participles(path: Path) -> Iterator[int]:
    functions = (node for node in nodes(path) if isinstance(node, ast.FunctionDef))
    yield from (node.lineno for node in functions if node.name.strip("_") in NAMES)


def vague(path: Path) -> Iterator[int]:
    names = (node for node in nodes(path) if isinstance(node, ast.Name))
    yield from (node.lineno for node in names if isinstance(node.ctx, ast.Store) and node.id in NAMES)


def test_turns_of_phrase_that_have_a_plain_term():
    assert offenders(turns) == []


def test_docstrings_open_with_what_a_thing_is():
    assert offenders(openings) == []


def test_functions_are_verbs_or_quantities():
    assert offenders(participles) == []


def test_variables_say_their_quantity():
    assert offenders(vague) == []
