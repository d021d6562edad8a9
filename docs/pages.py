"""Tutorials as programs: run their blocks, renew what they print, and write them as notebooks.

    python docs/pages.py run docs/tutorials/first_fit.md            # in an empty folder; stops where the output differs
    python docs/pages.py run docs/tutorials/first_fit.md --write    # puts the output into the page
    python docs/pages.py notebooks                                  # docs/tutorials/notebooks/*.ipynb

Blocks are fenced: `python` is executed, each line of `sh` that begins with `gradsim` is a command, and a `text` block that
follows is what they print. `...` in it matches anything, such as seconds, and lines may be broken elsewhere.
"""

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TUTORIALS = Path(__file__).parent / "tutorials"
NOTEBOOKS = TUTORIALS / "notebooks"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
NOISE = ("Warp ", "Module ", "   ")  # lines of the kernel compiler, where a first call prints them
INSTALL = """\
# On Colab, or wherever gradsim is not installed: upload the wheel of `python -m build` beside the notebook, and run this first.
from glob import glob
from importlib.util import find_spec

if find_spec("gradsim") is None:
    wheels = sorted(glob("gradsim-*.whl"))
    assert wheels, "upload the wheel of gradsim (`python -m build` makes it in dist/), and run this cell again"
    get_ipython().run_line_magic("pip", f"install --quiet {wheels[-1]}")"""


@dataclass(frozen=True)
class Step:
    """A block of a page.

    Args:
        language: "python" or "sh".
        code: Text of the block.
        printed: What the page says that it prints; None where it says nothing.
        start, end: Place of the block, with its output, in the page.
    """

    language: str
    code: str
    printed: str | None
    start: int
    end: int


def steps(text: str) -> list[Step]:
    """Blocks of a page in order."""
    return [Step(m[1], m[2], m[3], m.start(), m.end()) for m in BLOCK.finditer(text)]


def outputs(text: str, folder: Path) -> Iterator[tuple[Step, str]]:
    """Blocks of a page and what each prints, run one after the other in a folder.

    Raises:
        RuntimeError: If a command ends with another code than 0 (done) or 3 (open).
    """
    names: dict = {"__name__": "__main__"}
    for step in steps(text):
        with contextlib.chdir(folder):
            yield step, _python(step.code, names) if step.language == "python" else _commands(step.code)


def _python(code: str, names: dict) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, "page", "exec"), names)  # noqa: S102 -- it is our own
    return "".join(line for line in said.getvalue().splitlines(True) if not line.startswith(NOISE[:2]))


def _commands(code: str) -> str:
    said = ""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] != ["gradsim"]:
            continue
        target = words[words.index(">") + 1] if ">" in words else None
        arguments = words[1 : words.index(">")] if ">" in words else words[1:]
        environment = {**os.environ, "COLUMNS": "88", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "gradsim", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{line}\n{done.stdout}{done.stderr}")
        if target:
            Path(target).write_text(done.stdout, encoding="utf-8")
        else:
            said += done.stdout
    return "".join(f"{line.rstrip()}\n" for line in said.splitlines())


def matches(printed: str, expected: str) -> bool:
    """Whether output is the expected one, in which `...` is anything, and lines may be broken elsewhere."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(expected, printed, flags)


def notebook(text: str) -> dict:
    """A page as a notebook (nbformat 4.5): prose, code with its output, and commands with `!`."""
    cells = [_cell("code", INSTALL, 0)]
    at = 0
    for step in steps(text):
        cells.append(_cell("markdown", _prose(text[at : step.start]), len(cells)))
        code = step.code.rstrip("\n")
        if step.language == "sh":
            code = re.sub(r"^(?=gradsim )", "!", code, flags=re.MULTILINE)
        cell = _cell("code", code, len(cells))
        if step.printed:
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": step.printed.splitlines(True)}]
        cells.append(cell)
        at = step.end
    cells.append(_cell("markdown", _prose(text[at:]), len(cells)))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cells = [cell for cell in cells if cell["source"]]
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, source: str, number: int) -> dict:
    cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source.splitlines(True)}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def _prose(text: str) -> str:
    """Markdown of a page without what only Sphinx reads; images and pages are at their places in the repository."""
    text = re.sub(r"^:::.*?^:::\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^```\{.*?^```\n", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\]\((?![a-z]+:|#)", "](../", text).strip("\n")


def pages() -> list[Path]:
    """Tutorials in order of their names."""
    return [path for path in sorted(TUTORIALS.glob("*.md")) if path.stem != "index"]


def renew(path: Path, write: bool) -> bool:
    """Run a page in an empty folder and print what it takes; returns whether it prints what it says, or has been renewed."""
    text, same = path.read_text(encoding="utf-8"), True
    with tempfile.TemporaryDirectory() as folder:
        renewed, at, begin = "", 0, time.perf_counter()
        for step, printed in outputs(text, Path(folder)):
            took = time.perf_counter() - begin
            equal = step.printed is None or matches(printed, step.printed)
            print(
                f"{took:6.1f} s  {'as the page says' if equal else 'differs'}\n{printed if not equal else ''}", end=""
            )
            block, printed = text[step.start : step.end], printed.replace(folder, "...")
            if not equal and write:
                block = block[: block.index("\n```text\n") + 9] + printed + "```\n"
            renewed, at, same = renewed + text[at : step.start] + block, step.end, same and equal
            begin = time.perf_counter()
        if write:
            path.write_text(renewed + text[at:], encoding="utf-8")
    return same or write


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["notebooks"]:
        NOTEBOOKS.mkdir(exist_ok=True)
        for page in pages():
            content = json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
            (NOTEBOOKS / f"{page.stem}.ipynb").write_text(content + "\n", encoding="utf-8")
        return 0
    if arguments[:1] == ["run"] and len(arguments) > 1:
        names = [name for name in arguments[1:] if name != "--write"]
        results = [renew(Path(name), "--write" in arguments) for name in names]
        return 0 if all(results) else 1
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
