"""Tutorials, pages of the Python API and the README: run from top to bottom in an empty folder, they print what they say."""

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import gradsim as gs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SPEC = importlib.util.spec_from_file_location("pages", DOCS / "pages.py")
assert SPEC and SPEC.loader
pages = importlib.util.module_from_spec(SPEC)
sys.modules["pages"] = pages
SPEC.loader.exec_module(pages)

API = [path for path in sorted((DOCS / "reference" / "api").glob("*.md")) if path.stem != "index"]
RUN = [*pages.pages(), *API, ROOT / "README.md", DOCS / "index.md"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("path", RUN, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_runs_from_nothing_and_prints_what_it_says(path, tmp_path):
    for step, printed in pages.outputs(path.read_text(encoding="utf-8"), tmp_path):
        if step.printed is not None:
            assert pages.matches(printed.replace(str(tmp_path), "..."), step.printed), f"{step.code}\n{printed}"


@pytest.mark.parametrize("path", [*pages.pages(), *API], ids=lambda path: path.stem)
def test_every_block_that_prints_says_what(path):
    """So that a change of an output is noticed; blocks without one make something that later ones read."""
    for step in pages.steps(path.read_text(encoding="utf-8")):
        says = "print(" in step.code or re.search(r"^gradsim (fit|control|new|render)\b", step.code, re.MULTILINE)
        assert bool(says) == bool(step.printed), step.code


def test_a_tutorial_is_short():
    words = {path.stem: len(pages.BLOCK.sub("", path.read_text(encoding="utf-8")).split()) for path in pages.pages()}
    assert len(words) == 6 and all(250 <= count <= 900 for count in words.values()), words


@pytest.mark.parametrize("path", pages.pages(), ids=lambda path: path.stem)
def test_a_notebook_is_that_of_its_page(path):
    stored = json.loads((pages.NOTEBOOKS / f"{path.stem}.ipynb").read_text(encoding="utf-8"))
    assert stored == pages.notebook(path.read_text(encoding="utf-8")), "run: python docs/pages.py notebooks"
    code = "".join("".join(cell["source"]) for cell in stored["cells"] if cell["cell_type"] == "code")
    assert all(
        step.code.splitlines()[0].removeprefix("gradsim ") in code
        for step in pages.steps(path.read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize("wheels", [[], ["gradsim-0.1.0-py3-none-any.whl", "gradsim-0.2.0-py3-none-any.whl"]])
def test_the_first_cell_of_a_notebook_installs_an_uploaded_wheel(wheels, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "gradsim", None)  # not installed
    for name in wheels:
        (tmp_path / name).touch()
    lines = []
    shell = SimpleNamespace(run_line_magic=lambda magic, line: lines.append(f"{magic} {line}"))
    (tmp_path / "cell.py").write_text(pages.INSTALL, encoding="utf-8")
    run = lambda: runpy.run_path("cell.py", {"get_ipython": lambda: shell})
    if wheels:
        run()
        assert lines == [f"pip install --quiet {wheels[-1]}"]
    else:
        with pytest.raises(AssertionError, match="upload the wheel"):
            run()


def test_every_public_name_has_an_entry_with_an_example():
    """A section with its docstring, and a block of code below that uses the name."""
    sections = {}
    for path in API:
        for section in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            sections[section.split("`")[1]] = section
    assert sections.keys() == set(gs.__all__)
    plain = {"Trajectory": "trajectory", "Fit": "fit", "FieldFit": "masses", "Explanation": "explanation"}  # results
    used = {name: plain.get(name, f"gs.{name}") for name in sections}
    lost = [n for n, s in sections.items() if f":: gradsim.{n}\n" not in s or used[n] not in s.split("```python")[-1]]
    assert lost == []


def test_every_example_is_in_the_gallery_with_a_picture():
    examples = [path for path in sorted((ROOT / "examples").iterdir()) if path.suffix in (".py", ".yaml")]
    index = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    for path in examples:
        page = (DOCS / "gallery" / f"{path.stem}.md").read_text(encoding="utf-8")
        picture = re.search(r"!\[[^\]]+\]\(\.\./images/([\w.]+)\)", page)
        assert picture and (DOCS / "images" / picture[1]).stat().st_size < 3e5, path.name
        assert f"{{literalinclude}} ../../examples/{path.name}\n" in page and f":link: {path.stem}\n" in index
    assert len(list((DOCS / "gallery").glob("*.md"))) == len(examples) + 1


def test_ellipses_match_what_is_not_the_same_in_every_run():
    assert pages.matches("took 3.2 s\nreport: /x/report.html\n", "took ... s\nreport: ...\n")
    assert not pages.matches("took 3.2 s\n", "took 4 s\n")
