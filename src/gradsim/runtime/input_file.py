"""Files that a user names: regular, of bounded size, and JSON of a stated shape.

A FIFO or a device in the place of a file would be read for ever. What is opened by its name passes `regular_file` first.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, TypeVar

from gradsim.errors import InputError

T = TypeVar("T")

TEXT_BYTES = 1 << 28  # [bytes] of a text file; larger ones take minutes to parse
BAD_NAMES = {errno.ENAMETOOLONG: "its name is too long", errno.ELOOP: "it is a loop of symbolic links"}
KINDS = {
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def check_path(path: str | Path) -> None:
    """Refuse a path that cannot be read or written as file or folder; a path that does not exist passes.

    Raises:
        InputError: If its name is impossible, or it is a named pipe, a device or a socket.
    """
    text = os.fspath(path)
    if "\0" in text:
        raise InputError(f"the path {text[:60]!r} contains a NUL character; remove it.")
    try:
        mode = os.stat(text).st_mode
    except OSError as error:
        if error.errno in BAD_NAMES:
            raise InputError(f"the path {_short(text)}: {BAD_NAMES[error.errno]}; choose another.") from None
        return
    if kind := KINDS.get(stat.S_IFMT(mode)):
        raise InputError(f"{_short(text)} is {kind}; expected a regular file or a folder: copy its content to a file.")


def regular_file(path: str | Path, label: str = "file", largest: int | None = None) -> Path:
    """Path of an existing regular file.

    Args:
        path: The path.
        label: What it should be, for the message.
        largest: Largest size [bytes]; None: any.

    Raises:
        FileNotFoundError: If it does not exist.
        InputError: If it is not a regular file, or larger.
    """
    check_path(path)
    path = Path(path)
    size = path.stat().st_size
    if not path.is_file():
        raise InputError(f"{path} is a folder; expected a {label}.")
    if largest is not None and size > largest:
        raise InputError(
            f"{path} has {size / 1e6:.0f} MB; a {label} has at most {largest / 1e6:.0f} MB: is it the right file?"
        )
    return path


def read_json(path: str | Path, shape: type[T], way_out: str) -> T:
    """Content of a JSON file, validated.

    Args:
        path: The file.
        shape: Its type: a TypedDict, or `dict` for any mapping.
        way_out: What the user can do about a damaged file; ends the message.

    Raises:
        FileNotFoundError: If the file does not exist.
        InputError: If it is not JSON, or a key is missing or of another type; the message names the key.
    """
    path = regular_file(path, "JSON file", TEXT_BYTES)
    try:
        content = json.loads(path.read_bytes())
    except RecursionError:
        raise InputError(f"{path} is damaged (it is nested too deeply); {way_out}.") from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, numbers of thousands of digits
        raise InputError(f"{path} is damaged ({str(error).partition(';')[0]}); {way_out}.") from None
    return validated(content, shape, str(path), way_out)


def validated(content: Any, shape: type[T], name: str, way_out: str) -> T:
    """Content read from a file, if it has a shape.

    Args:
        content: Mappings, lists, texts and numbers.
        shape: Type of it, as for `read_json`.
        name: The file, for the message.
        way_out: As for `read_json`.

    Raises:
        InputError: It names each key that is wrong.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(shape).validate_python(content)
    except ValidationError as error:
        wrong = [
            f"`{'.'.join(map(str, e['loc']))}`: {e['msg']}" if e["loc"] else e["msg"]
            for e in error.errors(include_url=False, include_input=False, include_context=False)[:5]
        ]
    raise InputError(f"{name} is damaged ({'; '.join(wrong)}); {way_out}.")


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
