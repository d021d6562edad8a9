"""Atomic file writes: a file or folder appears complete or not at all."""

import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from gradsim.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

SETTLING = 1.0  # [s] in which a writer locks the draft that it has made


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a draft to write, which replaces `path` when the block ends and is removed when it fails.

    For libraries that write a file, or a folder, by its name; otherwise see `atomic_write`. Missing parent folders are
    made. Each writer has its own draft, so of two at the same time the last one stays.

    Raises:
        InputError: If `path` is a non-empty folder, a parent is a file, or a folder was written where a file exists.
    """
    path = Path(path)
    if path.is_dir() and any(path.iterdir()):
        raise InputError(f"{path} is a folder with files in it; remove it or choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{path} cannot be made: {error.filename} is a file; choose another name.") from error
    with tempfile.TemporaryDirectory(".part", f".{path.name}.", path.parent) as folder, _locked(folder):
        draft = Path(folder) / path.name
        yield draft
        if draft.is_dir() and path.is_file():
            raise InputError(f"{path} is a file, a folder is to be written; remove it or choose another name.")
        draft.replace(path)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Lock on a folder, which the system releases when the process ends."""
    if fcntl is None:
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # of file systems without locks
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(place)


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb", fsync: bool = False) -> Iterator[IO[Any]]:
    """Open a file that replaces `path` when the block ends and is removed when it fails.

    Args:
        path: The file; missing parent folders are made.
        mode: As for `open`; text is UTF-8.
        fsync: Flush file and folder to the disk, so that the content survives a power failure.

    Raises:
        InputError: As `atomic_path`.
    """
    path = Path(path)
    with atomic_path(path) as draft, draft.open(mode, encoding=None if "b" in mode else "utf-8") as file:
        yield file
        if fsync:
            file.flush()
            os.fsync(file.fileno())
    if fsync and hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def drafts(folder: Path, name: str = "*", recursive: bool = False) -> list[Path]:
    """Drafts of files of this name in a folder, left by writers that were killed or are still running."""
    return sorted((folder.rglob if recursive else folder.glob)(f".{name}.*.part"))


def remove_draft(path: Path) -> None:
    """Delete one of `drafts`."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_abandoned_drafts(folder: Path) -> None:
    """Delete the drafts in a folder, and in those below it, whose writers were killed; of others that write there, none."""
    if fcntl is None:
        return
    for draft in drafts(folder, recursive=True):
        try:
            place = os.open(draft, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            if time.time() - os.fstat(place).st_mtime > SETTLING:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_draft(draft)
        except OSError:
            pass  # its writer is at work, or there are no locks
        finally:
            os.close(place)


def write_json(path: str | Path, content: Mapping) -> Path:
    """Write `jsonable(content)` atomically."""
    with atomic_write(path, "w") as file:
        file.write(json.dumps(jsonable(content), indent=1) + "\n")
    return Path(path)


def jsonable(value: object) -> object:
    """A value with text keys, lists for tuples, floats for other numbers and None for infinities and NaN."""
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    number: Any = value
    number = float(number)
    return number if math.isfinite(number) else None
