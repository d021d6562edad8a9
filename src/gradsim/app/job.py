"""What a fit was asked to do.

What a command was asked to do: kept beside its answer, so that it can go on and be compared.

Everything that determines the answer is in `RunArguments.inputs`: the subject (a scene, a task), the content of the files, the
options, and the versions and source of what computes.

What `gradsim control` was asked to do.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import ClassVar, Self

from gradsim.control.task.task import Task
from gradsim.errors import InputError
from gradsim.runtime.atomic import jsonable
from gradsim.runtime.provenance import versions
from gradsim.scene.node import Node

SCHEMA = "gradsim.job/1"
RECORD = "job.json"


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """The arguments of a command. A file or folder is a `Path`, so that its content counts and not its name.

    Attributes:
        command: Its name.
        noun: What it makes.
        subject: Name of the argument whose content is loaded and counts instead of its words.
        answer: Files in its run folder that it makes.
    """

    command: ClassVar[str]
    noun: ClassVar[str]
    subject: ClassVar[str]
    answer: ClassVar[tuple[str, ...]]

    def inputs(self, subject: Node) -> dict:
        """All that determines the answer, as JSON holds it.

        Args:
            subject: What was loaded.
        """
        content = {f.name: _content(getattr(self, f.name)) for f in fields(self)}
        content[self.subject] = _content(subject.model_dump(by_alias=True, exclude_none=True))
        return json.loads(json.dumps(jsonable(content | {"versions": versions() | {"source": _source()}})))

    def record(self, subject: Node) -> dict:
        """The content of job.json."""
        given = asdict(self)
        files = [name for name, value in given.items() if isinstance(value, Path)]
        arguments = {name: str(value) if name in files else value for name, value in given.items()}
        here = {"folder": str(Path.cwd()), "files": files}
        return {
            "schema": SCHEMA,
            "command": self.command,
            "arguments": arguments,
            **here,
            "inputs": self.inputs(subject),
        }

    @classmethod
    def of(cls, folder: Path, given: Mapping) -> Self:
        """What was asked in a run folder; its files are where they were.

        Args:
            folder: The folder.
            given: What was said again, by name of the argument; it may not differ.

        Raises:
            InputError: If the folder holds no run of this command, or something that was given differs.
        """
        kept = record(folder)
        if kept is None or kept["command"] != cls.command:
            held = f"a run of `gradsim {kept['command']}`" if kept else f"no {RECORD}"
            raise InputError(
                f"{folder} holds {held}, so no {cls.noun} to go on with; start one with `gradsim {cls.command}`."
            )
        here, old = Path(kept["folder"]), kept["arguments"]
        places = {name: here / old[name] for name in kept["files"]}
        files = {name: path if path.exists() else Path(old[name]) for name, path in places.items()}
        lists = {name: tuple(value) for name, value in old.items() if isinstance(value, list)}
        asked = cls(**{**old, **files, **lists})
        defaults = {f.name: () if f.name in lists else f.default for f in fields(cls)}
        for name, value in given.items():
            is_said = value is not None and value != defaults[name]
            if is_said and value != getattr(asked, name) and str(value) != str(old[name]):
                raise InputError(
                    f"the {cls.noun} in {folder} has {name} {short(old[name])}, not {value}; leave it out."
                )
        return asked


def record(folder: Path) -> dict | None:
    """Content of a folder's job.json; None if there is none."""
    path = Path(folder) / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the files of a folder, by name; "missing" if there is none."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    if not path.exists():
        return "missing"
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            total.update(f"{file.relative_to(path)} ".encode())
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def short(value: object) -> str:
    """A value as a message quotes it."""
    text = "nothing" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def _content(value: object) -> object:
    """JSON that stands for the content of a value: of a file, its digest."""
    if isinstance(value, Path):
        return f"file {_digest(value)}"
    if isinstance(value, Mapping):
        return {str(k): _content(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_content(v) for v in value]
    return value


def _source() -> str:
    """Digest of the code that computes: a version says little about a working copy."""
    root, total = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(p for p in root.rglob("*.py") if p.relative_to(root).parts[0] not in ("app", "visualization")):
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


READING = ("robust", "ignore", "frames", "background")
FILMS = ("side_by_side.webm", "overlay.webm", "residuals.webm")


@dataclass(frozen=True, kw_only=True)
class Job(RunArguments):
    """A fit as asked for.

    Args:
        scene: The scene; its values of the unknowns are not used.
        video: The video.
        mask: A mask video, or None to take silhouettes from the colours.
        unknowns: NAME or NAME:LOW:HIGH.
        seed: Of the starts.
        starts: Their number.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        robust: Loss of a residual, as in `from_video`.
        ignore: Film whose bright pixels do not count.
        frames: Which to use.
        background: The empty scene, or "median".
        profile: Whether to add profile likelihoods along the two weakest directions.
    """

    command: ClassVar = "fit"
    noun: ClassVar = "fit"
    subject: ClassVar = "scene"
    answer: ClassVar = (
        *("result.json", "history.json", "report.html", "player.html", "residuals.png", "profiles.png"),
        *FILMS,
    )

    scene: Path
    video: Path
    unknowns: tuple[str, ...]
    mask: Path | None = None
    seed: int = 0
    starts: int = 16
    noise: float | None = None
    robust: str = "gaussian"
    ignore: Path | None = None
    frames: str = ""
    background: Path | str | None = None
    profile: bool = False

    def __post_init__(self):
        if self.background is not None and self.background != "median":
            object.__setattr__(self, "background", Path(self.background))

    @property
    def reading(self) -> dict:
        """How the film is read: further arguments of `from_video`."""
        return {name: getattr(self, name) for name in READING}


def video_as_given(folder: Path) -> str:
    """How the video was named when the job of this folder was begun."""
    kept = record(folder)
    return kept["arguments"]["video"] if kept else ""


METHODS = ("gradient", "mpc", "diffphysics", "random", "cma", "reinforce", "ppo")
NAMES = ("first", "middle", "best", "last")  # of the policies that are kept and filmed


@dataclass(frozen=True, kw_only=True)
class ControlJob(RunArguments):
    """A controller as asked for.

    Args:
        task: Name of a task of the library, or its file.
        goal: A picture in place of the task's.
        method: One of `METHODS`.
        iterations: Instead of the task's.
        quick: Whether to take the trial that the task describes.
        seed: Of the goal that is drawn, of the policy's start, and of everything else random.
    """

    command: ClassVar = "control"
    noun: ClassVar = "search"
    subject: ClassVar = "task"
    answer: ClassVar = (
        *("result.json", "history.json", "report.html", "player.html", "convergence.png", "stages.png"),
        *("policy.pt", "controls.npz"),
        *(f"{name}.webm" for name in NAMES),
    )

    task: Path | str
    goal: Path | None = None
    method: str = "gradient"
    iterations: int | None = None
    quick: bool = False
    seed: int = 0

    def load(self) -> Task:
        """The task."""
        return Task.load(self.task)
