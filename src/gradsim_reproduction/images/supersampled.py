"""Masks by point samples, from another renderer: is the centre of a sub-pixel in a triangle?

Nothing of `gradsim.render` is used. A pixel has `side` × `side` samples, 256 as a rule; its share is the number of those
that any triangle covers. Samples form a regular grid, or are drawn in the cells of one (stratified; Cook
1986). An edge that crosses a pixel is off by about 1/(2 side) in the regular grid where it runs along a row, and by
about side^-1.5 / 3 in any direction with random places.
"""

import numpy as np

from gradsim.errors import InputError

EDGE = 1e-12  # of a triangle's area: a sample on an edge counts for both sides, so that no seam opens


def masks(
    vertices,
    faces,
    K,
    R,
    t,
    size: tuple[int, int],
    side: int = 16,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Share of the samples of every pixel that a body covers, (frames, height, width) float64 in [0, 1].

    Args:
        vertices: World positions (frames, n, 3) [m].
        faces: Triangles (m, 3), in any orientation.
        K: Intrinsic matrix [px], (3, 3), OpenCV's convention, see `gradsim.render.camera`.
        R: Rotation world → camera, (3, 3).
        t: Translation world → camera [m], (3).
        size: Width and height of the image [px].
        side: Samples along each edge of a pixel.
        rng: Draws the place of each sample in its cell, anew in each frame; None takes the middle.

    Raises:
        InputError: If a vertex is not in front of the camera.
    """
    K, R, t = (np.asarray(a, np.float64) for a in (K, R, t))
    in_camera = np.asarray(vertices, np.float64) @ R.T + t
    if not (in_camera[..., 2] > 0).all():
        raise InputError("a vertex is not in front of the camera; move the camera back or shorten the clip.")
    pixels = ((in_camera / in_camera[..., 2:]) @ K.T)[..., :2] * side  # in units of cells
    return np.stack([_shares(p[np.asarray(faces)], *size, side, rng) for p in pixels])


def _shares(triangles: np.ndarray, width: int, height: int, side: int, rng) -> np.ndarray:
    """One frame from triangles (m, 3, 2) in units of cells."""
    limit = np.array([width, height]) * side
    low = np.clip(np.floor(triangles.min(1)), 0, limit).astype(int)
    high = np.clip(np.ceil(triangles.max(1)), 0, limit).astype(int)
    corner = low.min(0) // side * side  # of the part of the image that the body can be seen in, in whole pixels
    columns, rows = -(-high.max(0) // side) * side - corner
    place = np.full((rows, columns, 2), 0.5) if rng is None else rng.random((rows, columns, 2))
    place += np.stack(np.meshgrid(corner[0] + np.arange(columns), corner[1] + np.arange(rows)), -1)
    hit = np.zeros((rows, columns), bool)
    for corners, (left, top), (right, bottom) in zip(triangles, low - corner, high - corner, strict=True):
        cells = slice(top, bottom), slice(left, right)
        hit[cells] |= _within(place[cells], corners)
    image, (j, i) = np.zeros((height, width)), corner // side
    image[i : i + rows // side, j : j + columns // side] = hit.reshape(rows // side, side, columns // side, side).mean(
        (1, 3)
    )
    return image


def _within(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Which points (..., 2) a triangle (3, 2) covers, whichever way it turns."""
    edges = np.roll(corners, -1, 0) - corners
    area = edges[0, 0] * edges[1, 1] - edges[0, 1] * edges[1, 0]
    if area == 0:
        return np.zeros(points.shape[:-1], bool)
    away = points[..., None, :] - corners
    sides = (edges[:, 0] * away[..., 1] - edges[:, 1] * away[..., 0]) / area
    return (sides >= -EDGE).all(-1)
