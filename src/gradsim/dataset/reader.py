"""Random access to the videos of a data set: images, labels, trajectories and scenes."""

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.dataset import labels
from gradsim.dataset.layout import DamagedError, DatasetLayout, DatasetSettings, UnitManifest
from gradsim.dataset.render import RenderedVideo
from gradsim.dataset.zarr_shard import file_fingerprint
from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene


class DatasetReader:
    """Reader of the finished videos of a data set.

        recordings = DatasetReader("D")
        recordings.frames(17, 64)      # (60, 64, 64, 3) uint8
        recordings.truth(17)           # {"body.mass": 7.4, ...}

    A pickled copy opens its own files, so each process has its own.

    Each file is compared with its stored hash when it is first read (once in a process), so that changed bytes and
    missing files are errors, never black images.

    Args:
        folder: Folder of the data set.
        check: False leaves the hashes out, for a caller that has compared them.

    Raises:
        InputError: If the folder holds no data set; the methods raise it for a file that is missing or was changed.
    """

    def __init__(self, folder: str | Path, check: bool = True):
        self.layout, self._is_checked = DatasetLayout.open(folder), check
        self._intact = lru_cache(None)(self._compare_file)
        self._arrays: dict[str, Any] = {}
        self._unit, self._finished = lru_cache(4)(self._read_unit), lru_cache(None)(self._count_videos)

    def __reduce__(self):
        return DatasetReader, (self.layout.folder, self._is_checked)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def settings(self) -> DatasetSettings:
        """Kind, seed, sizes, frames and fps."""
        return self.layout.settings

    @cached_property
    def _count(self) -> int:
        return self.layout.count

    @cached_property
    def numbers(self) -> list[int]:
        """Numbers of the finished videos, ascending."""
        units, step = self.layout.units(self.layout.count), self.settings.unit
        return [number for unit in units for number in range(unit * step, unit * step + self._finished(unit))]

    def require_videos(self) -> None:
        """Raise `InputError` if no video is finished."""
        if not self.numbers:
            raise InputError(
                f"{self.layout.folder} has no finished videos; run gradsim dataset verify to see what it holds."
            )

    def frames(self, number: int, size: int, indices: slice | list[int] = slice(None)) -> np.ndarray:
        """Images (frames, size, size, 3) uint8, RGB, row 0 on top.

        Args:
            number: Number of the video.
            size: One of `settings.sizes` [px].
            indices: Frames; all by default.

        Raises:
            InputError: If the video or the size does not exist.
        """
        return self._images("frames", number, size)[indices]

    def masks(self, number: int, size: int, indices: slice | list[int] = slice(None)) -> np.ndarray:
        """Coverage by the bodies (frames, size, size) uint8, 255 for the whole pixel; arguments as for `frames`."""
        return self._images("masks", number, size)[indices]

    def label(self, number: int) -> dict[str, Any]:
        """Labels of a video (see `labels`), without its trajectory."""
        return self._row(number)[0]

    def truth(self, number: int) -> dict[str, float]:
        """True values of the unknowns by name [SI units]."""
        return labels.truth_of(self.label(number))

    def states(self, number: int) -> dict[str, np.ndarray]:
        """Trajectory by "body.quantity", (frames, ...) float64, see `Trajectory`."""
        return self._row(number)[1]

    def scene(self, number: int, size: int | None = None) -> Scene:
        """Scene known to a fit, with a camera of this size [px]; None: the scene's own size."""
        return labels.scene_of(self.label(number), size)

    def video(self, number: int) -> RenderedVideo:
        """All images and the trajectory."""
        sizes = self.settings.sizes
        frames, masks = ({s: read(number, s) for s in sizes} for read in (self.frames, self.masks))
        return RenderedVideo(frames, masks, self.states(number))

    def table(self, columns: list[str] | None = None) -> Iterator[Mapping[str, Any]]:
        """Rows of all videos in order, with these columns of the labels; None: all but the trajectories."""
        parquet = require_extra("pyarrow.parquet", "files of a data set", "data")
        for unit in [unit for unit in self.layout.units(self.layout.count) if self._finished(unit)]:
            path = self.layout.files(unit)["labels"]
            self._intact(unit, "labels")
            known = parquet.read_schema(path).names
            selected = [name for name in known if not name.startswith(labels.STATES)]
            selected = selected if columns is None else [name for name in columns if name in known]
            for row in parquet.read_table(path, columns=selected).to_pylist():
                yield {key: value for key, value in row.items() if value is not None}

    def _images(self, kind: str, number: int, size: int) -> np.ndarray:
        if size not in self.settings.sizes:
            raise InputError(f"size: got {size}; {self.layout.folder} has {self.settings.sizes}.")
        self._check(number)
        name = f"{kind}_{size}"
        self._intact(number // self.settings.unit, name)
        if name not in self._arrays:
            self._arrays[name] = require_extra("zarr", "files of a data set", "data").open_array(
                self.layout.images / name, mode="r"
            )
        return np.asarray(self._arrays[name][number])

    def _row(self, number: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        self._check(number)
        unit, k = divmod(number, self.settings.unit)
        rows, states = self._unit(unit)
        return rows[k], states[k]

    def _read_unit(self, unit: int) -> tuple[list[dict[str, Any]], list[dict[str, np.ndarray]]]:
        self._intact(unit, "labels")
        return labels.read(self.layout.files(unit)["labels"], self.settings.frames)

    def _count_videos(self, unit: int) -> int:
        """Number of finished videos of a unit."""
        try:
            return len(UnitManifest.read(self.layout.manifest(unit)).videos)
        except FileNotFoundError:
            return 0
        except DamagedError as error:
            raise InputError(
                f"{self.layout.manifest(unit)} is damaged ({error}); repair it: gradsim dataset repair {self.layout.folder}."
            ) from None

    def _compare_file(self, unit: int, name: str) -> None:
        """Compare a file of a unit with its stored size and hash.

        Raises:
            InputError: If it is missing or was changed.
        """
        path, manifest = self.layout.files(unit)[name], UnitManifest.read(self.layout.manifest(unit))
        wrong = "is missing" if not path.is_file() else ""
        if not wrong and self._is_checked and file_fingerprint(path) != manifest.files.get(name):
            wrong = "was changed: it has other bytes than were written"
        if wrong:
            raise InputError(f"{path} {wrong}; repair it: gradsim dataset repair {self.layout.folder}.")

    def _check(self, number: int) -> None:
        unit, k = divmod(number, self.settings.unit)
        if not 0 <= number < self._count or k >= self._finished(unit):
            raise InputError(
                f"{self.layout.folder} has no video {number}; it has {len(self)} of {self.layout.count} "
                "(gradsim dataset verify lists what is missing)."
            )
