"""`gradsim dataset show`: one video of a data set in a folder of its own, or several on one sheet."""

import json
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.dataset.reader import DatasetReader
from gradsim.errors import InputError
from gradsim.geometry import image_io
from gradsim.visualization.sheets import evenly, sheet, strip

INSTANTS = 8  # in the strip
SHEET_VIDEOS = 14  # one of each object


def unpack(folder: Path, number: int, out: Path, size: int | None = None) -> dict:
    """Write film.webm and mask.webm (both lossless), scene.yaml, truth.json and strip.png.

    Args:
        folder: The data set.
        number: Number of the video.
        out: Output folder.
        size: Width and height of the images [px]; None: the smallest.

    Returns:
        Label of the video.

    Raises:
        InputError: If the data set, the video or the size does not exist.
    """
    recordings = DatasetReader(folder)
    size = recordings.settings.sizes[0] if size is None else size
    frames, masks = recordings.frames(number, size), recordings.masks(number, size)
    label, scene = recordings.label(number), recordings.scene(number, size)
    out.mkdir(parents=True, exist_ok=True)
    fps = recordings.settings.fps
    videos.write(out / "film.webm", frames, fps)
    videos.write(out / "mask.webm", np.repeat(masks[..., None], 3, -1), fps)
    scene.save(out / "scene.yaml")
    (out / "truth.json").write_text(json.dumps(recordings.truth(number), indent=1))
    image_io.write(out / "strip.png", np.moveaxis(_strip(frames, masks, INSTANTS), -1, 0))
    return label


def overview(folder: Path, out: Path) -> int:
    """Write a sheet of the first videos (png, five instants of each in one image); returns their number.

    Raises:
        InputError: If the folder holds no finished videos.
    """
    recordings = DatasetReader(folder)
    numbers, size = recordings.numbers[:SHEET_VIDEOS], recordings.settings.sizes[-1]
    if not numbers:
        raise InputError(f"{folder} has no finished videos; run gradsim dataset verify to see what it holds.")
    strips = [_strip(recordings.frames(k, size), recordings.masks(k, size), 5) for k in numbers]
    page = sheet([image_io.to_bytes(image) for image in strips], 7, [recordings.label(k)["object"] for k in numbers])
    image_io.write(out, np.moveaxis(page / 255, -1, 0))
    return len(numbers)


def fit_command(out: Path, unknowns: list[str]) -> str:
    """Command that fits the video in a folder made by `unpack`."""
    options = " ".join(f"--unknown {name}" for name in unknowns)
    files = f"{out / 'scene.yaml'} --video {out / 'film.webm'} --mask {out / 'mask.webm'}"
    return f"gradsim fit {files} {options} --out {out / 'fit'}"


def _strip(frames: np.ndarray, masks: np.ndarray, instants: int) -> np.ndarray:
    """Some instants in one image (size, size, 3) in [0, 1]."""
    empty = np.take_along_axis(frames, masks.argmin(0)[None, ..., None], 0)[0] / 255  # where the mask is smallest
    indices = evenly(len(frames), instants)
    return strip(list(frames[indices] / 255), list(masks[indices] / 255), empty)
