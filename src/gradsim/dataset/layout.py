"""Where things are in the folder of a data set.

    dataset.json                      what it is: kind, seed, sizes
    pictures/                         a group of arrays for any reader of zarr v3:
    pictures/frames_64, masks_64      (videos, frames, 64, 64[, 3]) uint8, one file a unit, one chunk a video
    labels/000003.parquet             everything else that is known of the videos of a unit
    units/000003.json                 says that a unit is whole: hashes of its videos and files; written last
    runs/                             what each run took

A unit is so many videos in a row, 50 by default, whoever makes them. No file is shared by two units, so that any number of processes and
machines write into one folder.

The statement that a unit is whole: hashes of its videos and of its files, and what it took.

It ends with a hash of itself, so that a changed byte in it is found like one in any other file.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from gradsim.dataset.labels import label
from gradsim.dataset.render import check_sizes
from gradsim.dataset.sample import sample
from gradsim.dataset.zarr_shard import LEVEL
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write
from gradsim.runtime.checkpoint import differences, digest
from gradsim.runtime.optional import require_extra
from gradsim.runtime.provenance import versions

UNIT = 50  # videos of a unit: a crash loses seconds, and a million are 20 000 units
TRIED = 14  # samples whose labels stand for the recipe: one of each object
FORMAT = 1
AXES = ("video", "frame", "row", "column", "colour")


@dataclass(frozen=True)
class Settings:
    """What determines every bit of a data set.

    Attributes:
        kind, seed: See `sample`.
        sizes: Of the pictures [px], ascending.
        frames, fps: Of each video.
        unit: Videos of one unit.
        recipe: SHA-256 of the labels of some samples, which another way to draw samples changes.
        versions: Of what computes.
        format: Of the folder.
    """

    kind: str
    seed: int
    sizes: tuple[int, ...]
    frames: int
    fps: float
    unit: int
    recipe: str
    versions: Mapping[str, str]
    format: int = FORMAT

    @classmethod
    def of(cls, kind: str, seed: int = 0, sizes: Sequence[int] = (64, 256), unit: int = UNIT) -> "Settings":
        """Those of a data set that is made here and now.

        Raises:
            InputError: On a kind, seed, size or unit that cannot be.
        """
        check_sizes(sizes)
        if unit < 1:
            raise InputError(f"unit: got {unit}; expected at least 1 video.")
        timing = sample(kind, 0, seed).scene.timing
        some = [label(sample(kind, number), ()) for number in range(TRIED)]
        recipe = digest(some)[:16]
        return cls(kind, seed, tuple(sorted(sizes)), timing.frames, float(timing.fps), unit, recipe, versions())

    @property
    def digest(self) -> str:
        """Short name of the settings, kept with each unit."""
        return digest(asdict(self))[:16]


@dataclass(frozen=True)
class Layout:
    """A data set's folder.

    Attributes:
        folder: The folder.
        settings: What is in it.
    """

    folder: Path
    settings: Settings

    @classmethod
    def open(cls, folder: str | Path) -> "Layout":
        """That of a folder that holds a data set.

        Raises:
            InputError: If it holds none, or one of another format.
        """
        path = Path(folder) / "dataset.json"
        try:
            content = json.loads(path.read_text())
            settings = Settings(**{**content, "sizes": tuple(content["sizes"])})
        except FileNotFoundError:
            raise InputError(
                f"{folder} holds no data set; make one: gradsim dataset generate rigid --n 1000 --out {folder}."
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged ({error}); the command that made the folder writes it anew.") from None
        if settings.format != FORMAT:
            raise InputError(f"{path} is of format {settings.format}; this version of gradsim reads {FORMAT}.")
        return cls(Path(folder), settings)

    @classmethod
    def begin(cls, folder: str | Path, settings: Settings) -> "Layout":
        """That of a folder to write into: a new one, or one of the same settings.

        Raises:
            InputError: If it holds a data set of other settings.
        """
        folder = Path(folder)
        if (folder / "dataset.json").is_file():
            there = cls.open(folder)
            there.compare(settings)
            return there
        layout = cls(folder, settings)
        with atomic_write(folder / "dataset.json", fsync=True) as file:
            file.write(json.dumps(asdict(settings), indent=1).encode())
        return layout

    def compare(self, wanted: Settings) -> None:
        """Refuse to write videos of other settings.

        Raises:
            InputError: Naming what differs.
        """
        if other := differences(asdict(self.settings), asdict(wanted)):
            raise InputError(f"{self.folder} holds a data set of other settings ({other}); choose another folder.")

    def units(self, count: int) -> range:
        """The units of so many videos."""
        return range(-(-count // self.settings.unit))

    def members(self, unit: int, count: int) -> range:
        """The videos of a unit, of `count` in all."""
        return range(unit * self.settings.unit, min((unit + 1) * self.settings.unit, count))

    @property
    def arrays(self) -> dict[str, tuple[int, ...]]:
        """Shapes of one video in each array of pictures, by name."""
        sizes, frames = self.settings.sizes, self.settings.frames
        shapes = {f"frames_{size}": (frames, size, size, 3) for size in sizes}
        return shapes | {f"masks_{size}": (frames, size, size) for size in sizes}

    def files(self, unit: int) -> dict[str, Path]:
        """The files of a unit by what is in them: the arrays, and "labels"."""
        shards = {
            name: self.pictures / name / ".".join(["c", str(unit), *"0" * len(one)])
            for name, one in self.arrays.items()
        }
        return {**shards, "labels": self.folder / "labels" / f"{unit:06d}.parquet"}

    def entry(self, unit: int) -> Path:
        """The file that says that a unit is whole."""
        return self.folder / "units" / f"{unit:06d}.json"

    @property
    def pictures(self) -> Path:
        """The group of arrays."""
        return self.folder / "pictures"

    @property
    def count(self) -> int:
        """How many videos it is meant to have, by most of the arrays."""
        found = []
        for name in self.arrays:
            with suppress(OSError, ValueError, KeyError, TypeError):
                found.append(int(json.loads((self.pictures / name / "zarr.json").read_text())["shape"][0]))
        return statistics.mode(found) if found else 0

    def grow(self, count: int) -> None:
        """Have room for so many videos; never less than before."""
        for path, content in self.headers(max(count, self.count)):
            if not path.is_file() or path.read_bytes() != content:
                with atomic_write(path, fsync=True) as file:
                    file.write(content)

    def runs(self) -> list[dict]:
        """Records of the runs that made units, oldest first."""
        found = []
        for path in sorted((self.folder / "runs").glob("*.json")):
            with suppress(ValueError):  # a record is no part of the content
                found.append(json.loads(path.read_text()))
        return found

    def headers(self, count: int) -> Iterator[tuple[Path, bytes]]:
        """The files that describe the arrays, and what has to be in them for so many videos."""
        yield self.pictures / "zarr.json", self._group()
        yield from ((self.pictures / name / "zarr.json", self._array(name, count)) for name in self.arrays)

    def _group(self) -> bytes:
        about = {"kind": self.settings.kind, "seed": self.settings.seed, "made by": "gradsim dataset"}
        return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": about}, indent=1).encode()

    def _array(self, name: str, count: int) -> bytes:
        one = self.arrays[name]
        array = require_extra("zarr", "files of a data set", "data").create_array(
            store={},
            shape=(count, *one),
            shards=(self.settings.unit, *one),
            chunks=(1, *one),
            dtype="u1",
            compressors=require_extra("zarr.codecs", "files of a data set", "data").ZstdCodec(level=LEVEL),
            chunk_key_encoding={"name": "default", "separator": "."},
            dimension_names=AXES[: 1 + len(one)],
        )
        return json.dumps(array.metadata.to_dict(), indent=1).encode()


class Damaged(ValueError):
    """A file is not what was written; the message says how."""


@dataclass(frozen=True)
class Entry:
    """One whole unit.

    Attributes:
        unit: Its number.
        settings: `Settings.digest` of the data set that it belongs to.
        videos: `labels.digest` of each of its videos, in order.
        files: By name as in `Layout.files`, "bytes" and "sha256".
        cpu_s, wall_s: What it took [s].
    """

    unit: int
    settings: str
    videos: tuple[str, ...]
    files: dict[str, dict]
    cpu_s: float
    wall_s: float

    def write(self, path: Path) -> None:
        """Keep it; from then on the unit counts."""
        content = asdict(self)
        with atomic_write(path, fsync=True) as file:
            file.write(json.dumps({**content, "seal": digest(content)}, indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> "Entry":
        """That of a file.

        Raises:
            FileNotFoundError: If there is none.
            Damaged: If it is not as it was written.
        """
        try:
            content = json.loads(path.read_bytes())
            seal = content.pop("seal")
            if seal != digest(content):
                raise Damaged("its content was changed")
            return cls(**{**content, "videos": tuple(content["videos"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged(str(error)) from None
