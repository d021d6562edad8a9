"""Checkpoints: what an interrupted job needs to continue to the same result, bit for bit.

A state is stored in one way: a line of JSON with the digest of the rest, then the state as JSON. Tensors are stored as
their bytes, so floats come back to the last bit, and reading executes nothing.

`CheckpointFolder` keeps states by name, a file for each save: `search.000007.json`. The save before it is kept too, so a
file that a crash of the machine tore counts as missing, as does one of another job.

`CheckpointFile` keeps the last state in one file that the user names, so it refuses what it cannot resume.

`Ledger` appends finished items to a file of JSON lines, after a first line with the settings they depend on.
"""

import base64
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions

SCHEMA = "gradsim.checkpoint/1"
GENERATIONS = 2  # files of a name that are kept: the newest, and the one that counts if it is torn
REMEDY = "remove it to start again, or choose another file."


def digest(content: object, default: Callable[[Any], Any] | None = None) -> str:
    """SHA-256 of JSON content; `default` converts what JSON cannot hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=default).encode()).hexdigest()


def differences(stored: Mapping, current: Mapping) -> str:
    """Entries that differ, as "name: value then, value now"; empty if none does."""
    names = [name for name in {**stored, **current} if stored.get(name) != current.get(name)]
    return "; ".join(f"{name}: {stored.get(name)!r} then, {current.get(name)!r} now" for name in names)


class CheckpointFolder:
    """A `CheckpointStore` in a folder.

    Args:
        folder: Created at the first save.
        job: Digest of everything that determines the result; states of another job are ignored.
    """

    def __init__(self, folder: str | Path, job: str = ""):
        self.folder, self.job = Path(folder), job

    def load(self, part: str) -> dict | None:
        """The newest intact state of this name, or None."""
        for path in reversed(self._files(part)):
            content = _read_state(path)
            if content is not None and content[0].get("job") == self.job:
                return content[1]
        return None

    def save(self, part: str, state: dict) -> None:
        """Add a state of this name; it is on disk when this returns."""
        previous = self._files(part)
        number = 1 + (_number(previous[-1]) if previous else 0)
        _write_state(self.folder / f"{part}.{number:06d}.json", state, job=self.job)
        for path in previous[: 1 - GENERATIONS]:
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self, part: str) -> list[Path]:
        """Files of a name, oldest first."""
        return sorted((p for p in self.folder.glob(f"{part}.*.json") if _number(p)), key=_number)


class CheckpointFile:
    """The last state of a search, in one file.

    Args:
        path: The file.
        job: Digest of everything that determines the result; a file of another job is refused.
        interval: Iterations between two writes.
    """

    def __init__(self, path: str | Path, job: str = "", interval: int = 1):
        self.path, self.job, self.interval = Path(path), job, interval

    def load(self, search: str | None = None) -> dict[str, Any] | None:
        """The last state; None if nothing was saved.

        Args:
            search: Description of the search, compared with the one that saved; None accepts any.

        Raises:
            InputError: If the file is not a checkpoint, or of another job or search.
        """
        if not self.path.is_file():
            return None
        content = _read_state(self.path)
        if content is None:
            raise InputError(f"{self.path} is not a checkpoint of a search; {REMEDY}")
        head, state = content
        if head.get("job") != self.job:
            raise InputError(f"{self.path} is the checkpoint of another job; {REMEDY}")
        if search is not None and head.get("search") != search:
            raise InputError(
                f"{self.path} is the checkpoint of another search: it has {head.get('search')}, this is {search}; {REMEDY}"
            )
        return state

    def save(self, search: str, state: dict[str, Any]) -> None:
        """Replace the state, atomically: tensors, numbers, text, lists and dictionaries."""
        _write_state(self.path, state, job=self.job, search=search)


class Ledger:
    """Finished items of a long run by key, appended to a file of JSON lines.

        ledger = Ledger(out / "finished.jsonl", {"seed": seed, "quick": quick})
        rows = [ledger.once(f"scene {k}", solve, k) for k in range(20)]

    A line is written and synced in one go; one that a crash tore is ignored, so its item is made again.

    Args:
        path: The file; made with its folder where it is missing.
        settings: All that an item depends on in addition to its key, as JSON holds it; versions are added.
        progress: Receives the key of each item that `once` computes.

    Raises:
        InputError: If the file was made with other settings.
    """

    def __init__(self, path: str | Path, settings: Mapping | None = None, progress: Progress | None = None):
        self.path, self.progress, self._items = Path(path), progress or NullProgress(), {}
        current = _from_json({**(settings or {}), "versions": versions()})
        lines = self._read()
        if not lines:
            self._append({"settings": current})
        for line in lines:
            if "settings" in line:
                self._compare(line["settings"], current)
            else:
                self._items[line["key"]] = line["item"]

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: str) -> dict | None:
        """The item, or None where it is not finished."""
        return self._items.get(key)

    def put(self, key: str, item: Mapping) -> dict:
        """Append an item; it is on disk when this returns.

        Returns:
            The item as it will be read again (lists for tuples, text for keys), so that a resumed run computes with
            the same values as one that was never interrupted.
        """
        line = _from_json({"key": key, "item": item})
        self._append(line)
        self._items[key] = line["item"]
        return line["item"]

    def once(self, key: str, make: Callable[..., Mapping], *args: Any) -> dict:
        """The item; computed now as `make(*args)` if it is not finished."""
        item = self.get(key)
        if item is None:
            self.progress.stage(key)
            item = self.put(key, make(*args))
        return item

    def _read(self) -> list[dict]:
        if not self.path.is_file():
            return []
        lines = []
        for text in self.path.read_bytes().splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # torn
                continue
            if isinstance(line, dict) and ("settings" in line or {"key", "item"} <= line.keys()):
                lines.append(line)
        return lines

    def _append(self, line: Mapping) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            # begins a line of its own, whatever the last crash left
            file.write(b"\n" + json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _compare(self, stored: Mapping, current: Mapping) -> None:
        if other := differences(stored, current):
            raise InputError(
                f"{self.path} holds items of other settings ({other}); choose another folder or remove it."
            )


def _number(path: Path) -> int:
    match = re.fullmatch(r".+\.(\d{6,})\.json", path.name)
    return int(match[1]) if match else 0


def _write_state(path: Path, state: dict, **entries: str) -> None:
    """Write a state below a head with these entries, atomically; it is on disk when this returns."""
    body = json.dumps(_to_json(state)).encode()
    head = {"schema": SCHEMA, **entries, "sha256": hashlib.sha256(body).hexdigest()}
    with atomic_write(path, fsync=True) as file:
        file.write(json.dumps(head).encode() + b"\n" + body)


def _read_state(path: Path) -> tuple[dict, dict] | None:
    """Head and state of a file; None if it is not a checkpoint, or torn."""
    line, _, body = path.read_bytes().partition(b"\n")
    try:
        head = json.loads(line)
    except ValueError:
        return None
    if not isinstance(head, dict) or head.get("schema") != SCHEMA:
        return None
    if head.get("sha256") != hashlib.sha256(body).hexdigest():
        return None
    return head, json.loads(body, object_hook=_restore)


def _to_json(value: Any) -> Any:
    """JSON for a state: of tensors their bytes, of mappings with other keys than text, as optimizers have, their items."""
    if isinstance(value, torch.Tensor):
        array = value.detach().cpu().numpy()
        return {
            "~tensor": base64.b64encode(array.tobytes()).decode(),
            "dtype": str(array.dtype),
            "shape": array.shape,
        }
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _to_json(entry) for key, entry in value.items()}
        return {"~items": [[_to_json(key), _to_json(entry)] for key, entry in value.items()]}
    if isinstance(value, list | tuple):
        return [_to_json(entry) for entry in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a state holds tensors, numbers, text, lists and dictionaries, not a {type(value).__name__}.")


def _restore(content: dict) -> Any:
    """A tensor or mapping from its JSON."""
    if "~items" in content:
        return dict(content["~items"])
    if "~tensor" not in content:
        return content
    flat = np.frombuffer(base64.b64decode(content["~tensor"]), content["dtype"])
    return torch.tensor(flat.reshape(content["shape"]))


def _from_json(content: object):
    """As JSON gives it back. Infinite numbers stay."""
    return json.loads(json.dumps(content, default=lambda value: value.tolist()))
