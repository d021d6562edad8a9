"""docs/developer/architecture.md and docs/reference/glossary.md say what is true of the code."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from floor_plan import FLOORS
from source_trees import nodes

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "developer" / "architecture.md").read_text(encoding="utf-8")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
HOMES = [ROOT / folder for folder in (".", "src", "src/gradsim", "src/gradsim_reproduction", "tests", "tests/physics")]
FILES = {path.name for folder in ("src", "tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.*")}
LIMIT = 25  # files in a folder


def rows(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its head."""
    section = PAGE.split(f"## {heading}", 1)[1]
    lines = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@cache
def definitions(name: str) -> set[str]:
    """Functions, methods, classes and constants of a source file."""
    path = next(home / name for home in HOMES if (home / name).exists())
    names = set()
    for node in nodes(path):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_source_file_that_a_page_names_exists(page):
    """A path below one of the homes, or a bare name that some file has."""
    folders = r"|[\w/]+/" if page.name == "architecture.md" else ""  # elsewhere they may be folders of a run
    names = re.findall(rf"`([\w/.-]+\.(?:py|j2){folders})`", page.read_text(encoding="utf-8"))
    there = lambda name: any((home / name).exists() for home in HOMES) or ("/" not in name and name in FILES)
    assert [name for name in names if not there(name)] == []


def test_the_table_of_places_has_thirty_rows():
    assert len(rows("Where is …")) >= 30


def test_the_functions_of_the_table_of_places_are_in_its_files():
    named = [
        (re.findall(r"`([\w/]+\.py)`", files), re.findall(r"`(\w+)`", names)) for _, files, names in rows("Where is …")
    ]
    lost = [name for files, names in named for name in names if not any(name in definitions(file) for file in files)]
    assert lost == []


def test_the_floors_of_the_page_are_those_that_the_imports_keep():
    table = {int(floor): tuple(re.findall(r"`(\w+)`", packages)) for floor, packages, _ in rows("Floors")}
    assert table == dict(enumerate(FLOORS))


def test_no_folder_has_more_files_than_a_reader_takes_in():
    folders = {path.parent for path in (ROOT / "src").rglob("*.py")}
    sizes = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: size for folder, size in sizes.items() if size > LIMIT} == {}


def test_the_glossary_is_sorted_and_names_each_term_once():
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    terms = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][1:]
    assert terms == sorted(set(terms), key=str.lower) and len(terms) >= 30


def test_contributing_names_every_recipe_for_something_new():
    """The first cells of the table at the top of docs/developer/extend.md."""
    table = (ROOT / "docs" / "developer" / "extend.md").read_text(encoding="utf-8").split("\n## ")[0]
    seams = re.findall(r"^\| \[([\w ]+?)(?: on soft bodies)?\]", table, re.MULTILINE)
    page = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    assert len(seams) >= 7 and [seam for seam in seams if f"a {seam}" not in page and f"an {seam}" not in page] == []
