"""Turns of phrase and names that have a plain term: they become fewer, package by package, and no new ones come."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

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
    r"\bleftovers?\b": "residuals",
    r"\bwhereabouts\b": "position",
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
# offenders that are left, by package
TURNS_LEFT = {
    "app": 15,
    "control": 37,
    "dataset": 7,
    "engine": 3,
    "errors.py": 1,
    "losses": 2,
    "physics": 1,
    "runtime": 3,
}
OPENINGS_LEFT = {"app": 8, "control": 21, "dataset": 7, "engine": 1, "physics": 16, "runtime": 3}
PARTICIPLES_LEFT = {
    "control": 2,
    "dataset": 2,
    "engine": 2,
    "identification": 5,
    "physics": 17,
    "render": 1,
    "wrong_models": 1,
}
VAGUE_LEFT = {
    "app": 2,
    "baselines": 1,
    "control": 86,
    "dataset": 20,
    "engine": 8,
    "identification": 173,
    "landscapes": 1,
    "physics": 193,
    "real": 1,
    "render": 33,
    "runtime": 2,
    "scene": 28,
}
FILES = sorted(SOURCE.rglob("*.py"))


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Line numbers and lines of comments and strings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from ((token.start[0] + k, line) for k, line in enumerate(token.string.splitlines()))


def counts(rule) -> dict[str, int]:
    """How many places of each package break a rule."""
    places = Counter(
        path.relative_to(SOURCE).parts[1] for path in FILES for _ in rule(path.read_text(encoding="utf-8"))
    )
    return dict(places)


def more_than(left: dict[str, int], rule) -> dict[str, int]:
    """Packages with more offenders than are left there; lower a number when it falls."""
    return {package: count for package, count in counts(rule).items() if count > left.get(package, 0)}


def turns(text: str) -> Iterator[int]:
    yield from (line for line, words in prose(text) if PATTERN.search(words))


def openings(text: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and re.match(OPENINGS, ast.get_docstring(node) or ""):
            yield getattr(node, "lineno", 1)


def participles(text: str) -> Iterator[int]:
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    yield from (node.lineno for node in functions if node.name.strip("_") in NAMES)


def vague(text: str) -> Iterator[int]:
    names = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))
    yield from (node.lineno for node in names if isinstance(node.ctx, ast.Store) and node.id in NAMES)


def test_turns_of_phrase_that_have_a_plain_term():
    assert more_than(TURNS_LEFT, turns) == {}


def test_docstrings_open_with_what_a_thing_is():
    assert more_than(OPENINGS_LEFT, openings) == {}


def test_functions_are_verbs_or_quantities():
    assert more_than(PARTICIPLES_LEFT, participles) == {}


def test_variables_say_their_quantity():
    assert more_than(VAGUE_LEFT, vague) == {}
