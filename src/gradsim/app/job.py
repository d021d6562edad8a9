"""What a fit was asked to do: kept beside its answer, compared when it goes on.

Everything that determines the answer is in `Job.inputs`: the scene, the content of the files, the options, and the
versions and source of what computes.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gradsim.errors import InputError
from gradsim.identify.checkpoint import Checkpoint, write_synced
from gradsim.identify.fit import plain, versions

try:
    import fcntl
except ImportError:  # not POSIX: nobody watches over two at once
    fcntl = None

SCHEMA = "gradsim.job/1"
READING = ("robust", "ignore", "frames", "background")
RECORD, KEPT = "job.json", "checkpoint"
FILMS = ("side_by_side.webm", "overlay.webm", "residuals.webm")
ANSWER = ("result.json", "history.json", "report.html", "player.html", "leftover.png", "profiles.png", *FILMS)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A fit as asked for. A file or folder is a `Path`, so that its content counts and not its name.

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

    def inputs(self, scene) -> dict:
        """All that determines the answer, as JSON holds it.

        Args:
            scene: The content of the scene file.
        """
        content = {f.name: _content(getattr(self, f.name)) for f in fields(self)}
        content |= {"scene": _content(scene.model_dump(by_alias=True, exclude_none=True))}
        return json.loads(json.dumps(plain(content | {"versions": versions() | {"source": _source()}})))

    @classmethod
    def of(cls, folder: Path, given: Mapping) -> "Job":
        """The job of a run folder; its files are where they were.

        Args:
            folder: The folder.
            given: What was said again, by name of the argument; it may not differ.

        Raises:
            InputError: If the folder holds no job, or something that was given differs.
        """
        kept = record(folder)
        if kept is None:
            raise InputError(f"{folder} holds no {RECORD}, so no fit to go on with; start one with `gradsim fit`.")
        here, old = Path(kept["folder"]), kept["arguments"]
        places = {name: here / old[name] for name in kept["files"]}
        files = {name: path if path.exists() else Path(old[name]) for name, path in places.items()}
        job = cls(**{**old, **files, "unknowns": tuple(old["unknowns"])})
        defaults = {f.name: f.default for f in fields(cls)} | {"unknowns": ()}
        for name, value in given.items():
            is_said = value is not None and value != defaults[name]
            if is_said and value != getattr(job, name) and str(value) != str(old[name]):
                raise InputError(f"the fit in {folder} has {name} {_short(old[name])}, not {value}; leave it out.")
        return job


def record(folder: Path) -> dict | None:
    """Content of a folder's job.json; None if there is none."""
    path = Path(folder) / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def video_as_given(folder: Path) -> str:
    """How the video was named when the job of this folder was begun."""
    kept = record(folder)
    return kept["arguments"]["video"] if kept else ""


def unfinished(folder: Path) -> bool:
    """Whether a fit in this folder got somewhere and has not come to its end."""
    return any((Path(folder) / KEPT).glob("*.json"))


def finished(folder: Path) -> bool:
    """Whether a fit in this folder has come to its end."""
    folder = Path(folder)
    return (folder / RECORD).is_file() and (folder / "result.json").is_file() and not (folder / KEPT).is_dir()


@contextlib.contextmanager
def desk(folder: Path, job: Job, scene, resume: bool) -> Iterator[Checkpoint]:
    """Where a job is done: a folder of its own, and how far it came; the job clears that when it is done.

    Args:
        folder: The run folder.
        job: The job.
        scene: The content of its scene file.
        resume: Whether to go on with what was interrupted there.

    Raises:
        InputError: If the folder holds an unfinished job and `resume` is False, or another one than this, or one that
            another process works on.
    """
    inputs, going_on = job.inputs(scene), unfinished(folder)
    if resume:
        compare(folder, job, scene)
    if going_on and not resume:
        raise InputError(
            f"{folder} holds a fit that has not come to its end. Go on with it: gradsim fit --resume {folder}. Or "
            "choose another --out, or remove the folder."
        )
    (folder / KEPT).mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if not going_on:
            for name in ANSWER:  # of a run before this one
                (folder / name).unlink(missing_ok=True)
            write_synced(folder / RECORD, json.dumps(_record(job, inputs), indent=1).encode())
        yield Checkpoint(folder / KEPT, hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest())


def compare(folder: Path, job: Job, scene) -> None:
    """Refuse to go on with a job of other input. A folder without a job is none.

    Raises:
        InputError: It names what differs.
    """
    kept = record(folder)
    if kept is None:
        return
    old, new = dict(_flat(kept["inputs"])), dict(_flat(job.inputs(scene)))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if not names:
        return
    told = "\n".join(f"  {_difference(name, old.get(name), new.get(name))}" for name in names)
    raise InputError(
        f"the fit in {folder} was begun with other input:\n{told}\nGive the same, or choose another --out."
    )


def _record(job: Job, inputs: dict) -> dict:
    given = asdict(job)
    files = [name for name, value in given.items() if isinstance(value, Path)]
    arguments = {name: str(value) if name in files else value for name, value in given.items()}
    here = {"folder": str(Path.cwd()), "files": files}
    return {"schema": SCHEMA, "command": "fit", "arguments": arguments, **here, "inputs": inputs}


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second process out; the lock ends with the process, however it ends."""
    with (folder / KEPT / "lock").open("w") as file:
        if fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"another process is at work in {folder}; wait for it, or choose another --out."
                ) from None
        yield


def _content(value: object) -> object:
    """JSON that stands for the content of a value: of a file, its digest."""
    if isinstance(value, Path):
        return f"file {digest_of(value)}"
    if isinstance(value, Mapping):
        return {str(k): _content(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_content(v) for v in value]
    return value


def digest_of(path: Path) -> str:
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


def _source() -> str:
    """Digest of the code that computes: a version says little about a working copy."""
    root, total = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(p for p in root.rglob("*.py") if p.relative_to(root).parts[0] not in ("app", "experiments")):
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


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
    return f"{name}: {_short(then)} then, {_short(now)} now"


def _short(value: object) -> str:
    text = "nothing" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:57]}..."
