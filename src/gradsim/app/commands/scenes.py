"""`gradsim scenes`: the scenes of the library, the text of one, and the JSON schema of scene files."""

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from gradsim.errors import InputError
from gradsim.scene import Scene, yaml_io
from gradsim.scene.reference.schema import json_schema

_SENTENCE = re.compile(r".*?[.!?](?=\s|$)")


@dataclass(frozen=True)
class LibraryScene:
    """Entry of the list.

    Attributes:
        name: Name in the library.
        moves: Number of bodies by kind.
        shows: One line.
        frames: Number of frames.
        fps: Frames per second [1/s].
    """

    name: str
    moves: dict[str, int]
    shows: str
    frames: int
    fps: float

    @property
    def kinds(self) -> str:
        """Kinds of bodies in one line, such as "3 rigid"."""
        return ", ".join(f"{count} {kind}" for kind, count in self.moves.items())


def library_scenes() -> list[LibraryScene]:
    """All scenes of the library, by name."""
    return [describe(path) for path in yaml_io.library_files()]


def describe(path: Path) -> LibraryScene:
    """Entry of one scene file."""
    scene = Scene.load(path)
    moves = dict(Counter(body.kind for body in scene.bodies.values()))
    shows = first_comment(path.read_text(encoding="utf-8")) or f"A scene of {', '.join(scene.bodies)}."
    return LibraryScene(path.stem, moves, shows, scene.timing.frames, scene.timing.fps)


def first_comment(text: str) -> str:
    """First sentence of the comment at the top of a file; empty without one."""
    lines = re.match(r"(?:#.*\n)*", text)
    comment = " ".join(line.lstrip("# ") for line in (lines[0] if lines else "").splitlines())
    sentence = _SENTENCE.match(comment)
    return sentence[0] if sentence else comment


def as_text(name: str | None = None, *, as_json: bool = False, schema: bool = False) -> str:
    """Output for files and machines: the file of a scene, the list or one entry as JSON, or the schema.

    Raises:
        InputError: If the library has no scene of this name, or the schema is requested together with a name.
    """
    if schema:
        if name is not None:
            raise InputError(f"got {name} and --schema, which is the same for all scenes; give one of them.")
        return _dump(json_schema())
    if name is None:
        return _dump([asdict(scene) for scene in library_scenes()])
    path = yaml_io.library(name)
    text = path.read_text(encoding="utf-8")
    return _dump({**asdict(describe(path)), "text": text}) if as_json else text


def table(scenes: list[LibraryScene]) -> Table:
    """List for a terminal."""
    grid = Table("name", "moves", "frames", "fps", "shows", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for scene in scenes:
        grid.add_row(scene.name, scene.kinds, str(scene.frames), f"{scene.fps:g}", scene.shows)
    return grid


def _dump(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
