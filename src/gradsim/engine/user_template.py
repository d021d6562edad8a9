"""Templates from a user's file: forces and contact laws that are not part of gradsim."""

import hashlib
import importlib.util
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

from gradsim.errors import InputError


def load_template(path: str | Path) -> ModuleType:
    """Load a Python file as a module for `specialize`; different content makes a different module.

    Args:
        path: Python file, which is executed.

    Raises:
        InputError: If the file does not exist, or is not Python.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"the file {path} does not exist.")
    content = path.read_bytes()
    name = f"own.{path.stem}_{hashlib.sha256(content).hexdigest()[:8]}"
    return sys.modules.get(name) or _run(name, path, content)


@cache
def _copies() -> tempfile.TemporaryDirectory:
    """Copies of templates: they are compiled at first use, when the file may have changed."""
    return tempfile.TemporaryDirectory(prefix="gradsim-templates-")


def _run(name: str, path: Path, content: bytes) -> ModuleType:
    copy = Path(_copies().name) / f"{name}{path.suffix}"
    copy.write_bytes(content)
    spec = importlib.util.spec_from_file_location(name, copy)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where `specialize` and Warp look it up
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise InputError(f"{path}, line {error.lineno}: {error.msg}.") from None
        raise
    return module
