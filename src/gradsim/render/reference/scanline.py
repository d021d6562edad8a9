"""Independent scanline renderer of masks, so that synthetic targets do not come from the renderer that fits them.

It shares no code with the rest of `gradsim.render`: no outlines, no orientation of faces, no mixing. Every pixel row is
crossed by `lines` equidistant horizontal lines. On each the triangles of all bodies cover intervals of x, and the length of
their union inside a pixel is exact. Only y is sampled: a pixel is off by at most 1/(2 lines), where an edge runs along a
row; areas are off by far less.
"""

from collections.abc import Sequence

import numpy as np

from gradsim.errors import InputError


def masks(
    vertices: Sequence | np.ndarray, faces: Sequence, K, R, t, size: tuple[int, int], lines: int = 64, block: int = 8
) -> np.ndarray:
    """Coverage of every pixel by all bodies together, (frames, height, width) float64 in [0, 1].

    Where several bodies share a pixel this is the true union, which 1 − Π(1 − α) of the bodies' own masks only estimates.

    Args:
        vertices: World positions (frames, n, 3) [m] of each body, all with the same number of frames.
        faces: Triangles (m, 3) of each body, in any orientation.
        K: Intrinsic matrix [px], (3, 3), OpenCV's convention, see `gradsim.render.camera`.
        R: Rotation world → camera, (3, 3).
        t: Translation world → camera [m], (3).
        size: Width and height of the image [px].
        lines: Lines across each row of pixels.
        block: Frames drawn at once: memory against speed.

    Raises:
        InputError: If the bodies disagree in frames, or a vertex is not finite or not in front of the camera.
    """
    K, R, t = (np.asarray(a, np.float64) for a in (K, R, t))
    bodies = [(np.asarray(x, np.float64), np.asarray(f, np.int64)) for x, f in zip(vertices, faces, strict=True)]
    frames = {len(x) for x, _ in bodies}
    if len(frames) != 1:
        raise InputError(f"bodies have {sorted(frames)} frames; give all the same number, and at least one body.")
    triangles = np.concatenate([_screen(x, K, R, t, k)[:, f] for k, (x, f) in enumerate(bodies)], 1)
    blocks = [_covered(triangles[k : k + block], *size, lines) for k in range(0, len(triangles), block)]
    return np.concatenate(blocks)


def _screen(x: np.ndarray, K: np.ndarray, R: np.ndarray, t: np.ndarray, body: int) -> np.ndarray:
    """Pixels (frames, n, 2) of one body."""
    points = x @ R.T + t
    outside = ~(np.isfinite(points).all((1, 2)) & (points[..., 2] > 0).all(1))
    if outside.any():
        raise InputError(
            f"body {body} reaches behind the camera, or is not finite, in frame {int(outside.argmax())}; "
            "move the camera back or shorten the clip."
        )
    return ((points / points[..., 2:]) @ K.T)[..., :2]


def _covered(triangles: np.ndarray, width: int, height: int, lines: int) -> np.ndarray:
    """The mean over the lines of each row: (frames, height, width), from triangles (frames, m, 3, 2) [px]."""
    frames, rows = len(triangles), height * lines
    corners = triangles.reshape(-1, 3, 2)
    line, left, right = _intervals(corners, np.repeat(np.arange(frames), triangles.shape[1]), rows, lines)
    line, left, right = _union(line, np.clip(left, 0, width), np.clip(right, 0, width))
    image = _deposit(line // lines, right, frames * height, width)
    image -= _deposit(line // lines, left, frames * height, width)
    return np.clip(image / lines, 0, 1).reshape(frames, height, width)  # the clip takes rounding off


def _intervals(
    corners: np.ndarray, frame: np.ndarray, rows: int, lines: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Line (counted over all frames), begin and end in x [px] of every crossing of a triangle (m, 3, 2) with a line."""
    y = corners[..., 1] * lines - 0.5  # in lines, line k at k
    first = np.clip(np.ceil(y.min(1)), 0, rows).astype(np.int64)
    count = np.clip(np.floor(y.max(1)) + 1, first, rows).astype(np.int64) - first
    which = np.repeat(np.arange(len(corners)), count)
    row = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + first[which]
    begin, end = np.full(len(which), np.inf), np.full(len(which), -np.inf)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        y_i, y_j = y[which, i], y[which, j]
        crosses = (np.minimum(y_i, y_j) <= row) & (row <= np.maximum(y_i, y_j)) & (y_i != y_j)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = corners[which, i, 0] + (row - y_i) / (y_j - y_i) * (corners[which, j, 0] - corners[which, i, 0])
        np.minimum(begin, x, out=begin, where=crosses)
        np.maximum(end, x, out=end, where=crosses)
    valid = end > begin
    return (frame[which] * rows + row)[valid], begin[valid], end[valid]


def _union(line: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Disjoint intervals with the same union: each loses what earlier ones on its line cover."""
    order = np.lexsort((left, line))
    line, left, right = line[order], left[order], right[order]
    if not len(line):
        return line, left, right
    # Shift every line beyond the one before, so that one running maximum serves all of them.
    shift = line * (right.max() - min(left.min(), 0.0) + 1.0)
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(right + shift)[:-1]]) - shift
    left = np.maximum(left, reached)
    valid = right > left
    return line[valid], left[valid], right[valid]


def _deposit(row: np.ndarray, x: np.ndarray, rows: int, width: int) -> np.ndarray:
    """Lengths that the intervals [0, x] cover in each pixel, summed by row: (rows, width)."""
    pixel = np.minimum(x.astype(np.int64), width - 1)
    place, cells = row * width + pixel, rows * width
    whole = np.bincount(place, minlength=cells).reshape(rows, width)  # pixels left of `pixel` are covered entirely
    part = np.bincount(place, x - pixel, cells).reshape(rows, width)
    return np.cumsum(whole[:, ::-1], 1)[:, ::-1] - whole + part
