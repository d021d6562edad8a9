"""`gradsim examples`: the example scripts and scenes that come with gradsim, and copies of them."""

import ast
import re
from pathlib import Path

from rich.table import Table

from gradsim.app.commands.scenes import first_comment
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write
from gradsim.scene.node import did_you_mean

# Of a wheel, and of a checkout
FOLDERS = Path(__file__).parent / "example_files", Path(__file__).parents[3] / "examples"


def example_files() -> dict[str, Path]:
    """Files by name, in order.

    Raises:
        InputError: If this installation has none.
    """
    folder = next((folder for folder in FOLDERS if folder.is_dir()), None)
    files = sorted(path for path in folder.iterdir() if path.suffix in (".py", ".yaml")) if folder else []
    if not files:
        raise InputError("this installation of gradsim has no examples; install it from a wheel, or from a checkout.")
    return {path.name: path for path in files}


def title(path: Path) -> str:
    """First paragraph of the docstring of a script; first sentence of the comment on a scene, or its name."""
    text = path.read_text(encoding="utf-8")
    first = (ast.get_docstring(ast.parse(text)) or "") if path.suffix == ".py" else first_comment(text)
    name = re.match(r"name: (.*)", text)
    return first.split("\n\n")[0].replace("\n", " ") or (name[1] if name else path.stem.replace("_", " "))


def table() -> Table:
    """List for a terminal."""
    grid = Table("file", "shows", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, path in example_files().items():
        grid.add_row(name, title(path))
    return grid


def find(name: str) -> Path:
    """One file, by its name with or without suffix.

    Raises:
        InputError: If none has that name.
    """
    files = example_files()
    names = {path.stem: path for path in reversed(files.values())} | files
    if name not in names:
        hint = did_you_mean(name, list(names)) or f"; choose one of {', '.join(files)}."
        raise InputError(f"the examples have no `{name}`{hint}")
    return names[name]


def copy(out: Path, name: str | None = None) -> list[Path]:
    """Copy one example, or all, into a folder; returns the new paths.

    Raises:
        InputError: If none has that name, or a file is there already.
    """
    sources = [find(name)] if name else list(example_files().values())
    targets = [Path(out) / path.name for path in sources]
    if existing := [str(path) for path in targets if path.exists()]:
        raise InputError(f"{', '.join(existing)} exists already; remove it, or choose another folder (--out).")
    for source, target in zip(sources, targets, strict=True):
        with atomic_write(target) as file:
            file.write(source.read_bytes())
    return targets
