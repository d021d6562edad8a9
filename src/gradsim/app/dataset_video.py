"""One video of a data set in a folder of its own: to look at, and to fit."""

import json
from pathlib import Path

import numpy as np

from gradsim import picture
from gradsim import video as videos
from gradsim.dataset.recordings import Recordings
from gradsim.video.sheet import evenly
from gradsim.video.strip import strip

INSTANTS = 8  # of the strip


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
    bare = np.take_along_axis(frames, masks.argmin(0)[None, ..., None], 0)[0] / 255  # where the body is least
    some = evenly(len(frames), INSTANTS)
    picture.write(out / "strip.png", np.moveaxis(strip(list(frames[some] / 255), list(masks[some] / 255), bare), -1, 0))
    return recordings.label(number)


def fit_command(out: Path, unknowns: list[str]) -> str:
    """What fits the video in a folder made by `unpack`."""
    asked = " ".join(f"--unknown {name}" for name in unknowns)
    files = f"{out / 'scene.yaml'} --video {out / 'film.webm'} --mask {out / 'mask.webm'}"
    return f"gradsim fit {files} {asked} --out {out / 'fit'}"
