"""Where a job is done: a run folder that one process works in, with how far it came."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from gradsim.app.job import RECORD, RunArguments, record, short
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.checkpoint import CheckpointFolder, digest
from gradsim.scene.node import Node

try:
    import fcntl
except ImportError:  # not POSIX: nobody watches over two at once
    fcntl = None

KEPT, LOCK = "checkpoint", "lock"


def unfinished(folder: Path) -> bool:
    """Whether a job in this folder got somewhere and has not come to its end."""
    return any(not p.name.startswith(".") and p.name != LOCK for p in (Path(folder) / KEPT).glob("*"))


def finished(folder: Path) -> bool:
    """Whether a job in this folder has come to its end."""
    folder = Path(folder)
    return (folder / RECORD).is_file() and (folder / "result.json").is_file() and not (folder / KEPT).is_dir()


@contextlib.contextmanager
def desk(folder: Path, job: RunArguments, subject: Node, resume: bool) -> Iterator[CheckpointFolder]:
    """Where a job is done: a folder of its own, and how far it came; the job clears that when it is done.

    Args:
        folder: The run folder.
        job: The job.
        subject: Its scene or task.
        resume: Whether to go on with what was interrupted there.

    Raises:
        InputError: If the folder holds an unfinished job and `resume` is False, or another one than this, or one that
            another process works on.
    """
    inputs, going_on = job.inputs(subject), unfinished(folder)
    if resume:
        compare(folder, job, subject)
    if going_on and not resume:
        kept = record(folder) or {"command": job.command}
        raise InputError(
            f"{folder} holds a {job.noun if kept['command'] == job.command else 'run'} that has not come to its end. "
            f"Go on with it: gradsim {kept['command']} --resume {folder}. Or choose another --out, or remove the folder."
        )
    (folder / KEPT).mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if not going_on:
            for name in job.answer:  # of a run before this one
                (folder / name).unlink(missing_ok=True)
            with atomic_write(folder / RECORD, fsync=True) as file:
                file.write(json.dumps(job.record(subject), indent=1).encode())
        yield CheckpointFolder(folder / KEPT, digest(inputs))


def compare(folder: Path, job: RunArguments, subject: Node) -> None:
    """Refuse to go on with a job of other input. A folder without a job is none.

    Raises:
        InputError: It names what differs.
    """
    kept = record(folder)
    if kept is None:
        return
    if kept["command"] != job.command:
        raise InputError(f"{folder} holds a run of `gradsim {kept['command']}`; choose another --out.")
    old, new = dict(_flat(kept["inputs"])), dict(_flat(job.inputs(subject)))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if not names:
        return
    told = "\n".join(f"  {_difference(name, old.get(name), new.get(name))}" for name in names)
    raise InputError(
        f"the {job.noun} in {folder} was begun with other input:\n{told}\nGive the same, or choose another --out."
    )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second process out; the lock ends with the process, however it ends."""
    with (folder / KEPT / LOCK).open("w") as file:
        if fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"another process is at work in {folder}; wait for it, or choose another --out."
                ) from None
        yield


def _flat(content: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Leaves with dotted names."""
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, content


def _difference(name: str, then: object, now: object) -> str:
    if any(str(value).startswith("file ") for value in (then, now)):
        return f"{name}: another file"
    return f"{name}: {short(then)} then, {short(now)} now"
