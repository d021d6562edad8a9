"""Videos of a data set to look at: one of them in a folder of its own, which can be fitted, or many on one sheet."""

import json
from pathlib import Path

import numpy as np

from gradsim import video as videos
from gradsim.dataset.reader import Recordings
from gradsim.errors import InputError
from gradsim.geometry import image_io
from gradsim.visualization.sheets import evenly, sheet, strip

INSTANTS = 8  # of the strip
SHOWN = 14  # videos of the sheet: one of each object


def unpack(folder: Path, number: int, out: Path, size: int | None = None) -> dict:
    """Write film.webm, mask.webm (both without loss), scene.yaml, truth.json and strip.png.

    Args:
        folder: The data set.
        number: Of the video.
        out: Where they go.
        size: Width and height of the pictures [px]; None: the smallest there is.

    Returns:
        The label of the video.

    Raises:
        InputError: If there is no such data set, video or size.
    """
    recordings = Recordings(folder)
    size = recordings.settings.sizes[0] if size is None else size
    frames, masks = recordings.frames(number, size), recordings.masks(number, size)
    out.mkdir(parents=True, exist_ok=True)
    fps = recordings.settings.fps
    videos.write(out / "film.webm", frames, fps)
    videos.write(out / "mask.webm", np.repeat(masks[..., None], 3, -1), fps)
    recordings.scene(number, size).save(out / "scene.yaml")
    (out / "truth.json").write_text(json.dumps(recordings.truth(number), indent=1))
    image_io.write(out / "strip.png", np.moveaxis(_strip(frames, masks, INSTANTS), -1, 0))
    return recordings.label(number)


def overview(folder: Path, out: Path) -> int:
    """Write a sheet of the first videos as a png, five instants of each in one picture; returns how many.

    Raises:
        InputError: If the folder holds no finished videos.
    """
    recordings = Recordings(folder)
    numbers, size = recordings.numbers[:SHOWN], recordings.settings.sizes[-1]
    if not numbers:
        raise InputError(f"{folder} has no finished videos; gradsim dataset verify says what is there.")
    strips = [_strip(recordings.frames(k, size), recordings.masks(k, size), 5) for k in numbers]
    page = sheet([image_io.to_bytes(image) for image in strips], 7, [recordings.label(k)["object"] for k in numbers])
    image_io.write(out, np.moveaxis(page / 255, -1, 0))
    return len(numbers)


def fit_command(out: Path, unknowns: list[str]) -> str:
    """What fits the video in a folder made by `unpack`."""
    asked = " ".join(f"--unknown {name}" for name in unknowns)
    files = f"{out / 'scene.yaml'} --video {out / 'film.webm'} --mask {out / 'mask.webm'}"
    return f"gradsim fit {files} {asked} --out {out / 'fit'}"


def _strip(frames: np.ndarray, masks: np.ndarray, instants: int) -> np.ndarray:
    """Some instants in one picture (size, size, 3) in [0, 1]."""
    bare = np.take_along_axis(frames, masks.argmin(0)[None, ..., None], 0)[0] / 255  # where the body is least
    some = evenly(len(frames), instants)
    return strip(list(frames[some] / 255), list(masks[some] / 255), bare)
