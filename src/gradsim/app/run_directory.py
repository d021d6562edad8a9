"""Run directories: exclusive lock, checkpoint, resume."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradsim.app.job import RECORD, RunArguments, abbreviate, read_record
from gradsim.app.run_files import WAY_OUT, read_result
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write, drafts, remove_draft
from gradsim.runtime.checkpoint import CheckpointFolder, digest
from gradsim.scene.node import Node

try:
    import fcntl
except ImportError:  # not POSIX: no locking on this platform
    fcntl = None

CHECKPOINT, LOCK = "checkpoint", "lock"


@dataclass(frozen=True)
class RunDirectory:
    """The output folder of one run.

    Args:
        path: The folder; created by `open`.
    """

    path: Path

    @property
    def is_unfinished(self) -> bool:
        """True if it holds a checkpoint of a run that did not end."""
        files = (self.path / CHECKPOINT).glob("*")
        return any(not p.name.startswith(".") and p.name != LOCK for p in files)

    @property
    def is_finished(self) -> bool:
        """True if it holds a run that ended."""
        files = (self.path / RECORD, self.path / "result.json")
        return all(p.is_file() for p in files) and not (self.path / CHECKPOINT).is_dir()

    def result(self) -> dict:
        """Content of result.json.

        Raises:
            InputError: If it is damaged, or does not say how the run ended.
        """
        content = read_result(self.path)
        if not content.get("status"):
            raise InputError(f"{self.path / 'result.json'} is damaged (it has no `status`); {WAY_OUT}.")
        return content

    def recorded_argument(self, name: str) -> str:
        """Text of an argument as it was given when the run was started; "" without a record."""
        record = read_record(self.path)
        return record["arguments"][name] if record else ""

    @contextlib.contextmanager
    def open(self, arguments: RunArguments, subject: Node, resume: bool) -> Iterator[CheckpointFolder]:
        """Lock the folder for this process, and return the checkpoint, which the caller clears at the end.

        Args:
            arguments: Arguments of the run.
            subject: The loaded scene or task.
            resume: Continue an interrupted run.

        Raises:
            InputError: If the folder holds an unfinished run and `resume` is False, or a run with other inputs, or if
                another process has locked it.
        """
        inputs, is_unfinished = arguments.inputs(subject), self.is_unfinished
        if resume:
            self.require_same_inputs(arguments, subject)
        if is_unfinished and not resume:
            record = read_record(self.path) or {"command": arguments.command}
            noun = arguments.noun if record["command"] == arguments.command else "run"
            raise InputError(
                f"{self.path} holds an unfinished {noun}. Resume it: gradsim {record['command']} --resume {self.path}. "
                "Or choose another --out, or remove the folder."
            )
        (self.path / CHECKPOINT).mkdir(parents=True, exist_ok=True)
        with self._lock():
            if not is_unfinished:
                for name in arguments.outputs:  # of an earlier run
                    (self.path / name).unlink(missing_ok=True)
                with atomic_write(self.path / RECORD, fsync=True) as file:
                    file.write(json.dumps(arguments.record(subject), indent=1).encode())
            yield CheckpointFolder(self.path / CHECKPOINT, digest(inputs))

    def require_same_inputs(self, arguments: RunArguments, subject: Node) -> None:
        """Refuse to resume a run that was started with other inputs; a folder without a run passes.

        Raises:
            InputError: Lists the inputs that differ.
        """
        record = read_record(self.path)
        if record is None:
            return
        if record["command"] != arguments.command:
            raise InputError(f"{self.path} holds a run of `gradsim {record['command']}`; choose another --out.")
        old, new = dict(_flatten(record["inputs"])), dict(_flatten(arguments.inputs(subject)))
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if not names:
            return
        differences = "\n".join(f"  {_difference(name, old.get(name), new.get(name))}" for name in names)
        raise InputError(
            f"the {arguments.noun} in {self.path} was started with other inputs:\n{differences}\n"
            "Use the same inputs, or choose another --out."
        )

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Exclusive lock; the system releases it when the process ends."""
        with (self.path / CHECKPOINT / LOCK).open("w") as file:
            if fcntl:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise InputError(
                        f"another process is using {self.path}; wait for it, or choose another --out."
                    ) from None
                for draft in [*drafts(self.path), *drafts(self.path / CHECKPOINT)]:  # of a run that was killed
                    remove_draft(draft)
            yield


def _flatten(content: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Leaves of nested mappings, with dotted names."""
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from _flatten(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, content


def _difference(name: str, then: object, now: object) -> str:
    if any(str(value).startswith("file ") for value in (then, now)):
        return f"{name}: another file"
    return f"{name}: {abbreviate(then)} then, {abbreviate(now)} now"
