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
BARE = set(  # adjectives and the like, which say a bound or a share, but not of what
    """
    least most fewest few many more less larger largest smaller smallest small large tiny long longer longest short
    shorter shortest higher highest lower lowest near nearer nearest far farther farthest wide wider widest narrow
    narrower narrowest fine finer finest coarse coarser coarsest rough rougher roughest sharp sharper smooth steep flat
    faint dim dark darker darkest bright close closed clear open loose tight dense sparse full empty exact precise equal
    same alike like likely unlikely usual unusual typical nominal notable negligible slight hidden visible plain still
    steady slow slower slowest fast faster fastest early earlier earliest late later latest first second last next best
    better worst worse good bad enough worth sure every each all any nothing never always nowhere alone apart around along
    aside away beyond after before ahead together reach share shares steps tries part turned settled polished converged
    arrived fitted sampled averaged explained confirmed kept lost met named listed
    """.upper().split()
)
UNCHANGED = (  # for now
    "gradsim/app/report/",  # others work on these files,
    "gradsim/identification/colors/",
    "gradsim/identification/uncertainty/",
    "gradsim/identification/verdict.py",
    "gradsim/identification/observation/from_video.py",  # which import `FEWEST`
    "gradsim/identification/solvers/multistart.py",  # and `EXACT`
    "gradsim_reproduction/",  # numbers of the paper's tables
)
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


def bare_constants(path: Path) -> Iterator[int]:
    """Lines of constants that say a bound or a share, but not of what: `LEAST`, where `MIN_SUBSTEPS` says it."""
    if str(path.relative_to(SOURCE)).startswith(UNCHANGED):
        return
    statements = list(ast.parse(path.read_text(encoding="utf-8")).body)
    for statement in statements:
        if isinstance(statement, ast.If):  # a template that leaves out what it has no derivatives of
            statements += [*statement.body, *statement.orelse]
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            yield from (node.lineno for node in names if isinstance(node.ctx, ast.Store) and node.id.strip("_") in BARE)


def test_turns_of_phrase_that_have_a_plain_term():
    assert offenders(turns) == []


def test_docstrings_open_with_what_a_thing_is():
    assert offenders(openings) == []


def test_functions_are_verbs_or_quantities():
    assert offenders(participles) == []


def test_variables_say_their_quantity():
    assert offenders(vague) == []


def test_constants_say_of_what_they_are_a_bound():
    assert offenders(bare_constants) == []
