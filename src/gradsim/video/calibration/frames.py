"""Frames of calibration images and videos: read one at a time, and the sharp and spread ones chosen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import image_io
from gradsim.video.calibration.estimate import View
from gradsim.video.read import CONTAINERS, stream_frames

CANDIDATES = 120  # frames of a video that are looked at
MIN_SHARPNESS_SHARE = 0.5  # of the median sharpness, below which a view is not chosen


@dataclass(frozen=True, eq=False)
class Frame:
    """One image.

    Attributes:
        index: Number of the image, or of the frame of the video.
        label: Name for messages.
        color: (height, width, 3) uint8.
    """

    index: int
    label: str
    color: np.ndarray

    @property
    def gray(self) -> np.ndarray:
        """(height, width) uint8 by the weights of BT.601."""
        return (self.color @ np.array([0.299, 0.587, 0.114]) + 0.5).astype(np.uint8)


def read_frames(path: Path) -> Iterator[Frame]:
    """Frames of a video (at most about `CANDIDATES`, evenly spaced), an image, or a folder of images, all of one size.

    Raises:
        InputError: If there is none, one cannot be read, or sizes differ.
    """
    size = None
    for frame in _frames(Path(path)):
        if size is None:
            size = frame.color.shape
        if frame.color.shape != size:
            (h, w), (height, width) = frame.color.shape[:2], size[:2]
            raise InputError(
                f"{path}: {frame.label} has {w} × {h} px, the first has {width} × {height}; use images of one camera and size."
            )
        yield frame


def check_path(path: Path) -> None:
    """Require a video, an image, or a folder with images.

    Raises:
        InputError: If it is none of these.
    """
    if path.is_dir():
        if not _images(path):
            raise InputError(f"{path} holds no images; put the frames there as .png or .jpg, or give a video.")
    elif not path.exists():
        raise InputError(f"{path} does not exist; give a video, an image, or a folder of images.")
    elif path.suffix.lower() not in (*CONTAINERS, *image_io.FORMATS):
        kinds = ", ".join((*CONTAINERS, *image_io.FORMATS))
        raise InputError(f"{path} has suffix `{path.suffix}`; expected one of {kinds}, or a folder of images.")


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in image_io.FORMATS and not p.name.startswith("."))


def _frames(path: Path) -> Iterator[Frame]:
    check_path(path)
    if path.is_dir() or path.suffix.lower() in image_io.FORMATS:
        for k, file in enumerate(_images(path) if path.is_dir() else [path]):
            pixels = np.moveaxis(image_io.read(file), 0, -1)
            yield Frame(k, file.name, np.ascontiguousarray((255 * pixels + 0.5).astype(np.uint8)))
        return
    for k, color in stream_frames(path, CANDIDATES):
        yield Frame(k, f"frame {k}", color)


def sharpness(frame: Frame, view: View) -> float:
    """Variance of the Laplacian around the corners, over that of the brightness; larger is sharper."""
    low = np.floor(view.pixels.min(0)).astype(int).clip(0)
    high = np.ceil(view.pixels.max(0)).astype(int) + 1
    part = frame.gray[low[1] : high[1], low[0] : high[0]].astype(np.float64)
    if min(part.shape) < 5:
        return 0.0
    laplacian = part[1:-1, 2:] + part[1:-1, :-2] + part[2:, 1:-1] + part[:-2, 1:-1] - 4 * part[1:-1, 1:-1]
    return float(laplacian.var() / (part.var() + 1e-9))


def choose(views: Sequence[View], sharp: Sequence[float], count: int, size: tuple[int, int]) -> list[int]:
    """Indices of at most `count` views, sharp and spread over the image and over tilts, the first among them.

    The next view is the one farthest from those chosen, by where its corners' box is, how large it is, and how it is bent.

    Args:
        views: Candidates.
        sharp: Sharpness of each.
        count: Largest number.
        size: Width and height [px].
    """
    least = MIN_SHARPNESS_SHARE * float(np.median(sharp))
    good = [k for k in range(len(views)) if sharp[k] >= least]
    if len(good) <= count:
        return good
    features = np.array([_features(views[k], size) for k in good])
    chosen = [0]
    distance = np.linalg.norm(features - features[0], axis=1)
    while len(chosen) < count:
        k = int(distance.argmax())
        chosen.append(k)
        distance = np.minimum(distance, np.linalg.norm(features - features[k], axis=1))
    return sorted(good[k] for k in chosen)


def _features(view: View, size: tuple[int, int]) -> np.ndarray:
    """Mean, spread, and shear of the corners over the size of the image: like for views that show the same."""
    rel = view.pixels / np.max(size)
    first, last = rel[: max(1, len(rel) // 3)], rel[-max(1, len(rel) // 3) :]
    spread = np.cov(rel.T)
    size_of = np.sqrt(np.trace(spread)) + 1e-9
    asymmetry = ((rel - rel.mean(0)) ** 3).mean(0) / size_of**3
    return np.array(
        [
            *rel.mean(0),
            2 * size_of,
            *(0.3 * (last.mean(0) - first.mean(0)) / size_of),
            0.5 * spread[0, 1] / size_of**2,
            *(0.3 * asymmetry),
        ]
    )
