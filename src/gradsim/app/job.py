"""Arguments of a run, stored with its result so that it can be resumed and compared.

`RunArguments.inputs` holds everything that determines the result: the scene or task, the content of the files, the
options, the versions, and a digest of the source.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from typing_extensions import TypedDict  # of `typing` pydantic takes it from Python 3.12 on

from gradsim.errors import InputError
from gradsim.runtime.atomic import jsonable
from gradsim.runtime.input_file import read_json, validated
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene
from gradsim.scene.node import Node
from gradsim.video.background import MOG2
from gradsim.video.mask_input import is_method

if TYPE_CHECKING:
    from gradsim.control.task.task import Task

SCHEMA = "gradsim.job/1"
RECORD = "job.json"
VIDEO_OPTIONS = ("robust", "ignore", "frames", "background", "category")
BACKGROUNDS = ("median", MOG2)  # that are no files
VIDEOS = ("side_by_side.webm", "overlay.webm", "residuals.webm")
METHODS = ("gradient", "mpc", "diffphysics", "random", "cma", "reinforce", "ppo")
POLICIES = ("first", "middle", "best", "last")  # iterations whose policies are stored and rendered


class JobRecord(TypedDict):
    """Content of job.json.

    Attributes:
        command: Name of the command.
        arguments: Its arguments.
        folder: Folder in which it was started.
        files: Names of the arguments that are files.
        inputs: See `RunArguments.inputs`.
    """

    command: str
    arguments: dict[str, Any]
    folder: str
    files: list[str]
    inputs: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """Arguments of a command. Files and folders are `Path`s: their content counts, not their names.

    Attributes:
        command: Name of the command.
        noun: What the command computes, for messages.
        subject: Name of the argument that is loaded (scene, task); its content counts, not its text.
        outputs: Files that the command writes into its run folder.
    """

    command: ClassVar[str]
    noun: ClassVar[str]
    subject: ClassVar[str]
    outputs: ClassVar[tuple[str, ...]]

    def inputs(self, subject: Node) -> dict:
        """Everything that determines the result, as JSON.

        Args:
            subject: The loaded scene or task.
        """
        content = {f.name: _content(getattr(self, f.name)) for f in fields(self)}
        content[self.subject] = _content(subject.model_dump(by_alias=True, exclude_none=True))
        return json.loads(json.dumps(jsonable(content | {"versions": versions() | {"source": _source_digest()}})))

    def record(self, subject: Node) -> dict:
        """Content of job.json."""
        values = asdict(self)
        files = [name for name, value in values.items() if isinstance(value, Path)]
        path_lists = [name for name, value in values.items() if isinstance(value, tuple) and any(_paths(value))]
        return {
            "schema": SCHEMA,
            "command": self.command,
            "arguments": {name: str(v) if name in files else _as_text(v) for name, v in values.items()},
            "folder": str(Path.cwd()),
            "files": files,
            "lists_of_files": path_lists,
            "inputs": self.inputs(subject),
        }

    @classmethod
    def load(cls, folder: Path, overrides: Mapping | None = None) -> Self:
        """Arguments of the run in a folder; relative files are looked up where the run was started.

        Args:
            folder: The run folder.
            overrides: Arguments that were given again, by name; they may not differ.

        Raises:
            InputError: If the folder holds no run of this command, or an argument differs.
        """
        record = read_record(folder)
        if record is None or record["command"] != cls.command:
            content = f"a run of `gradsim {record['command']}`" if record else f"no {RECORD}"
            raise InputError(
                f"{folder} holds {content}, and no {cls.noun} to resume; start one with `gradsim {cls.command}`."
            )
        started_in, old = Path(record["folder"]), record["arguments"]
        cls._check_names(folder, record)
        resolved = {name: started_in / old[name] for name in record["files"]}
        files = {name: path if path.exists() else Path(old[name]) for name, path in resolved.items()}
        lists = {name: tuple(value) for name, value in old.items() if isinstance(value, list)}
        for name in record.get("lists_of_files", ()):
            lists[name] = tuple(started_in / path if (started_in / path).exists() else Path(path) for path in old[name])
        arguments = validated(
            {**old, **files, **lists}, cls, f"{folder / RECORD}, `arguments`", "start the run again in another folder"
        )
        defaults = {f.name: () if f.name in lists else f.default for f in fields(cls)}
        for name, value in (overrides or {}).items():
            is_set = value is not None and value != defaults[name]
            if is_set and value != getattr(arguments, name) and str(value) != str(old[name]):
                raise InputError(
                    f"the {cls.noun} in {folder} has {name} {abbreviate(old[name])}, not {value}; leave it out."
                )
        return arguments

    @classmethod
    def _check_names(cls, folder: Path, record: "JobRecord") -> None:
        """Raise `InputError` if a record has other arguments than this command, or names files that are not arguments."""
        known, names = {f.name for f in fields(cls)}, record["arguments"]
        other = sorted((names.keys() - known) | (set(record["files"]) - names.keys()))
        if wrong := other + [name for name in record["files"] if not isinstance(names.get(name), str)]:
            raise InputError(
                f"{folder / RECORD} is damaged (`{wrong[0]}` is not an argument of `gradsim {cls.command}`, or not a path); start "
                "the run again in another folder."
            )


@dataclass(frozen=True, kw_only=True)
class FitArguments(RunArguments):
    """Arguments of `gradsim fit` for one clip of one camera.

    Args:
        scene: Scene file; its values of the unknowns are not used.
        video: Video file; None: tracks alone.
        unknowns: NAME or NAME:LOW:HIGH.
        tracks: Tracks of markers (CSV) that are fitted in place of masks; of several cameras those of the first one stated.
        more_tracks: Tracks of further cameras.
        track_cameras: Names of the cameras of all tracks, where there are several, or it is not the scene's first.
        log: Log of the scene's channels, fitted alone or with the video.
        mask: Mask video, COCO annotations, or a method with a rectangle, as in `from_video`; None: silhouettes from the colors.
        seed: Seed of the starts.
        starts: Number of starts.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255; "auto": estimated from the outlines.
        robust: Loss of the residuals, as in `from_video`.
        ignore: Video whose bright pixels do not count.
        frames: Frames to use, as in `gradsim.video.timing.align_frames`.
        background: Image or video of the empty scene, "median" or "mog2".
        category: Categories of COCO annotations that are bodies, as in `from_video`.
        profile: Add profile likelihoods along the two weakest directions.
        estimator: Name of the estimator, as for `identify`.
        priors: NAME=MEAN±SD of numbers that are known with an uncertainty.
        prior_files: Files of such numbers with their covariance.
        known_numbers: Examine what errors of known numbers would do.
        discrepancy: Add error bars of a model with a discrepancy.
        plan: Name the one change of a next video that would tell most of what is open.
        observe: "outlines", or "pictures": outlines and the colors inside of them.
        engine: What moves the bodies, as for `identify`.
    """

    command: ClassVar = "fit"
    noun: ClassVar = "fit"
    subject: ClassVar = "scene"
    outputs: ClassVar = (
        *(
            "result.json",
            "history.json",
            "report.html",
            "player.html",
            "residuals.png",
            "profiles.png",
            "masks.png",
            "tracks.png",
            "log.png",
            "texture.png",
            "colors.webm",
        ),
        *VIDEOS,
    )

    scene: Path
    video: Path | None = None
    unknowns: tuple[str, ...]
    tracks: Path | None = None
    more_tracks: tuple[Path, ...] = ()
    track_cameras: tuple[str, ...] = ()
    log: Path | None = None
    mask: Path | str | None = None
    seed: int = 0
    starts: int = 16
    noise: float | str | None = None
    robust: str = "gaussian"
    ignore: Path | None = None
    frames: str = ""
    background: Path | str | None = None
    category: str = ""
    profile: bool = False
    estimator: str = "least-squares"
    priors: tuple[str, ...] = ()
    prior_files: tuple[Path, ...] = ()
    known_numbers: bool = True
    discrepancy: bool = False
    plan: bool = True
    observe: str = "outlines"
    engine: str = "gradsim"

    def __post_init__(self):
        if self.background is not None and self.background not in BACKGROUNDS:
            object.__setattr__(self, "background", Path(self.background))
        if self.mask is not None:
            object.__setattr__(self, "mask", (str if is_method(self.mask) else Path)(self.mask))

    @property
    def stated_priors(self) -> list[str | Path]:
        """Priors as `identify` takes them."""
        return [*self.priors, *self.prior_files]

    @property
    def video_options(self) -> dict:
        """Further arguments of `from_video`."""
        return {name: getattr(self, name) for name in VIDEO_OPTIONS}


@dataclass(frozen=True, kw_only=True)
class ControlArguments(RunArguments):
    """Arguments of `gradsim control`.

    Args:
        task: Name of a library task, or a task file.
        goal: Goal image that replaces the task's.
        method: One of `METHODS`.
        iterations: Number of iterations that replaces the task's.
        quick: Run the task's small version.
        seed: Seed of the sampled goal, of the policy's start and of all else random.
    """

    command: ClassVar = "control"
    noun: ClassVar = "search"
    subject: ClassVar = "task"
    outputs: ClassVar = (
        *("result.json", "history.json", "report.html", "player.html", "convergence.png", "stages.png"),
        *("policy.pt", "controls.npz"),
        *(f"{name}.webm" for name in POLICIES),
    )

    task: Path | str
    goal: Path | None = None
    method: str = "gradient"
    iterations: int | None = None
    quick: bool = False
    seed: int = 0

    def load_task(self) -> "Task":
        """The task."""
        from gradsim.control.task.task import Task

        return Task.load(self.task)


def open_scene(path: Path) -> Scene:
    """Load a scene file, or a library scene by its bare name."""
    is_name = not path.is_file() and not path.suffix and len(path.parts) == 1
    return Scene.library(str(path)) if is_name else Scene.load(path)


def read_record(folder: Path) -> "JobRecord | None":
    """Content of a folder's job.json; None if there is none."""
    path = Path(folder) / RECORD
    if not path.exists():
        return None
    return read_json(path, JobRecord, "start the run again in another folder")


def _paths(values: tuple) -> list[bool]:
    return [isinstance(value, Path) for value in values]


def _as_text(value: object) -> object:
    """A tuple of paths as a list of texts; others as they are."""
    return [str(v) for v in value] if isinstance(value, tuple) and any(_paths(value)) else value


def abbreviate(value: object) -> str:
    """A value in at most 60 characters, for messages."""
    text = "nothing" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def _content(value: object) -> object:
    """JSON for a value; for a file, the digest of its content."""
    if isinstance(value, Path):
        return f"file {_digest(value)}"
    if isinstance(value, Mapping):
        return {str(k): _content(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_content(v) for v in value]
    return value


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder with their names; "missing" if it does not exist."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    if not path.exists():
        return "missing"
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            total.update(f"{file.relative_to(path)} ".encode())
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def _source_digest() -> str:
    """Digest of the library's source: the version number does not identify a working copy."""
    root, total = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(p for p in root.rglob("*.py") if p.relative_to(root).parts[0] not in ("app", "visualization")):
        total.update(path.read_bytes())
    return total.hexdigest()[:12]
