"""Decoded frames in RGB, of which only what changed since the frame before is converted.

Most of the time of reading a film is not its decoder's but that of the conversion to RGB. A codec repeats blocks in which nothing moves bit
by bit, and equal planes make equal colors, so pixels outside of boxes about what changed are those of the frame before. The boxes are
converted with more pixels about them than the filters of chroma reach, so colors are the same bits as those of a whole conversion.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from av.video.reformatter import Interpolation

PLANAR = (
    "yuv420p",
    "yuvj420p",
    "yuv422p",
    "yuv444p",
    "gbrp",
)  # formats of 8 bits a sample, with a plane for each component
WORD = 8  # bytes that are compared at once
FILTER_REACH = 32  # [px] about what changed, beyond all filters of chroma
GRID = 16  # [px] of which corners of boxes are multiples, so that chroma keeps its phase
GAP_CELLS, MAX_CUTS = 6, 3  # cells of the grid between two boxes; cuts along rows, columns, and rows again
MAX_CHANGED_SHARE = 0.5  # share of a frame above which all of it is converted


class Conversion:
    """Conversion of the frames of one video, one after the other, to (height, width, 3) uint8 RGB."""

    def __init__(self):
        self._before: VideoFrame | None = None
        self._image = np.empty(0, np.uint8)

    def __call__(self, frame: "VideoFrame") -> np.ndarray:
        """The next frame, as an array that must not change: the one after it is made of it."""
        boxes = None if self._before is None else _changed(self._before, frame)
        if boxes is None:
            image = _whole(frame)
        else:
            image = self._image.copy()
            for box in boxes:
                outer, inner = zip(*map(_surrounded, box, image.shape[:2]), strict=True)
                image[box] = _whole(_part(frame, *outer))[inner]
        image.flags.writeable = False
        self._before, self._image = frame, image
        return image


def exact_conversion() -> "Interpolation":
    """Conversion to RGB: swscale's default is a fast path that is 2 to 3 grey levels off on flat colours."""
    from av.video.reformatter import Interpolation

    return Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT


def _whole(frame: "VideoFrame") -> np.ndarray:
    if frame.format.name == "gbrp":  # RGB already, in planes
        green, blue, red = (part[:, : frame.width] for part in _samples(frame))
        return np.stack([red, green, blue], -1)
    return frame.to_ndarray(format="rgb24", interpolation=exact_conversion())


def _samples(frame: "VideoFrame") -> list[np.ndarray]:
    """Bytes (rows, bytes of a row in memory) of each plane."""
    return [
        np.frombuffer(plane, np.uint8)[: plane.height * plane.line_size].reshape(plane.height, plane.line_size)  # pyright: ignore[reportArgumentType, reportCallIssue] -- has a buffer
        for plane in frame.planes
    ]


def _steps(frame: "VideoFrame") -> list[tuple[int, int]]:
    """Pixels of the image in a row and in a column of samples of each plane."""
    return [(frame.height // part.height, frame.width // part.width) for part in frame.format.components]


def _changed(before: "VideoFrame", frame: "VideoFrame") -> list[tuple[slice, slice]] | None:
    """Rows and columns of boxes outside of which a frame is the one before; None where all of it is to be converted."""
    alike = lambda f: (f.format.name, f.width, f.height, f.colorspace, f.color_range)
    if frame.format.name not in PLANAR or alike(before) != alike(frame) or frame.width % 2 or frame.height % 2:
        return None
    cells = np.zeros((-(-frame.height // GRID), -(-frame.width // GRID)), bool)
    for old, new, (down, right), plane in zip(
        _samples(before), _samples(frame), _steps(frame), frame.planes, strict=True
    ):
        words = -(-plane.width // WORD)
        if old.shape != new.shape or new.shape[1] % WORD:
            return None
        old, new = (samples.view(np.uint64)[:, :words] for samples in (old, new))
        if np.mean(old[::GRID] != new[::GRID]) > MAX_CHANGED_SHARE:  # noise that is left in all of the frame
            return None
        different = old != new
        rows, columns = np.divmod(np.flatnonzero(different), words)
        cells[rows * down // GRID, columns * WORD * right // GRID] = True
    wide = np.pad(cells, 1)  # chroma of a cell changes the colors next to it
    wide[1:] |= wide[:-1]
    wide[:-1] |= wide[1:]
    wide[:, 1:] |= wide[:, :-1]
    wide[:, :-1] |= wide[:, 1:]
    pixels = lambda ends, most: slice(GRID * ends[0], min(GRID * ends[1], most))
    boxes = [
        (pixels(rows, frame.height), pixels(columns, frame.width))
        for rows, columns in _boxes(wide[1:-1, 1:-1], MAX_CUTS)
    ]
    area = sum((rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in boxes)
    return None if area > MAX_CHANGED_SHARE * frame.width * frame.height else boxes


def _boxes(cells: np.ndarray, cuts: int, axis: int = 0) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Ends along both axes of boxes that hold all cells (rows, columns) that are True, cut where a wide gap lies between them.

    Args:
        cells: The cells.
        cuts: How many times, along one axis and then the other.
        axis: Along which the first cuts are.
    """
    lines = np.flatnonzero(cells.any(1 - axis))
    if not len(lines):
        return []
    if not cuts:
        across = np.flatnonzero(cells.any(axis))
        along, other = (int(lines[0]), int(lines[-1]) + 1), (int(across[0]), int(across[-1]) + 1)
        return [(along, other) if axis == 0 else (other, along)]
    boxes = []
    for part in np.split(lines, np.flatnonzero(np.diff(lines) > GAP_CELLS) + 1):
        first, last = int(part[0]), int(part[-1]) + 1
        inner = cells[first:last] if axis == 0 else cells[:, first:last]
        shift = (first, 0) if axis == 0 else (0, first)
        for (top, bottom), (left, right) in _boxes(inner, cuts - 1, 1 - axis):
            boxes.append(((top + shift[0], bottom + shift[0]), (left + shift[1], right + shift[1])))
    return boxes


def _surrounded(side: slice, length: int) -> tuple[slice, slice]:
    """A range of rows or columns with more about it, and where in that it is."""
    outer = slice(max(0, side.start - FILTER_REACH), min(length, side.stop + FILTER_REACH))
    return outer, slice(side.start - outer.start, side.stop - outer.start)


def _part(frame: "VideoFrame", rows: slice, columns: slice) -> "VideoFrame":
    """A part of a frame, with the properties of the frame, such as where its chroma lies."""
    from av.filter import Graph

    graph = Graph()
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base)
    size = f"{columns.stop - columns.start}:{rows.stop - rows.start}:{columns.start}:{rows.start}:exact=1"
    crop, sink = graph.add("crop", size), graph.add("buffersink")
    source.link_to(crop)
    crop.link_to(sink)
    graph.configure()
    graph.push(frame)
    return graph.pull()  # pyright: ignore[reportReturnType] -- a frame of a video
