"""Export as tar files for the library `webdataset`, for sequential reading over a network.

    train-000000.tar, ..., test-000000.tar, ...
        00000017.npz     frames, masks, and the trajectory, such as body.x
        00000017.json    the label: truth, camera, push, scene

Exports are identical bit for bit: files of a tar have no dates and no owners, and are in order.
"""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from gradsim.dataset.reader import DatasetReader
from gradsim.runtime.atomic import atomic_path

VIDEOS = 500  # of a tar file


def export_webdataset(
    folder: str | Path,
    out: str | Path,
    size: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> list[str]:
    """Write the finished videos of a data set as tar files.

    Args:
        folder: Folder of the data set.
        out: New folder.
        size: Width and height of the images [px]; None: the smallest available.
        report: Called with the numbers of finished and of all videos.

    Returns:
        Names of the tar files.

    Raises:
        InputError: If the folder holds no data set, or no such size, or `out` is not empty.
    """
    recordings = DatasetReader(folder)
    size = recordings.settings.sizes[0] if size is None else size
    recordings.require_videos()
    splits: dict[str, list[int]] = {"train": [], "test": []}
    for row in recordings.table(["number", "split"]):
        splits[row["split"]].append(row["number"])
    names, finished = [], 0
    with atomic_path(Path(out)) as draft:
        draft.mkdir()
        for split, numbers in splits.items():
            for first in range(0, len(numbers), VIDEOS):
                names.append(f"{split}-{first // VIDEOS:06d}.tar")
                with tarfile.open(draft / names[-1], "w") as tar:
                    for number in numbers[first : first + VIDEOS]:
                        _add(tar, f"{number:08d}.npz", _arrays(recordings, number, size))
                        _add(tar, f"{number:08d}.json", json.dumps(recordings.label(number)).encode())
                        finished += 1
                        report(finished, len(recordings))
    return names


def _arrays(recordings: DatasetReader, number: int, size: int) -> bytes:
    """Images and trajectory of a video as an npz file."""
    images = {"frames": recordings.frames(number, size), "masks": recordings.masks(number, size)}
    return _npz(images | recordings.states(number))


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """As `np.savez_compressed`, but without time stamps."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content.getvalue())
    return file.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # dated 1970, owned by nobody
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
