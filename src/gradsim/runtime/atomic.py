"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradsim.errors import InputError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield where to write; it becomes `path` in one step when the block ends well, and vanishes when it fails.

    Raises:
        InputError: If `path` is a folder that is not empty, or its parent is a file, or what was written is a folder
            and `path` a file.
    """
    if path.is_dir() and any(path.iterdir()):
        raise InputError(f"{path} is a folder with files in it; remove it or choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{path} cannot be made: {error.filename} is a file; choose another name.") from error
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        draft = Path(folder) / path.name
        yield draft
        if draft.is_dir() and path.is_file():
            raise InputError(f"{path} is a file, a folder is to be written; remove it or choose another name.")
        os.replace(draft, path)
