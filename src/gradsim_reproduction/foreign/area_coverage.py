"""Exact coverage of pixels by the union of triangles, in slabs: shares no code with `gradsim.render`.

A row of pixels is cut at every height y where an outline has a corner, crosses another or crosses the border of a pixel.
Between two cuts each end of each covered interval is linear in y, in one pixel, and ends keep their order: the length
that is covered within a pixel is linear in y, and its value in the middle times the height of the slab is the area, up to
rounding. (Silhouettes of `render/coverage` add up integrals along edges instead, with signs.)
"""

import numpy as np

EDGE = 1e-12  # [px] slabs that are thinner hold no area


def project(points: np.ndarray, eye, target, fov: float, size: tuple[int, int]) -> np.ndarray:
    """Pixels (..., 2), column and row, of world points (..., 3): a pinhole at `eye` that looks at `target`, z up.

    Args:
        points: [m].
        eye, target: [m].
        fov: Vertical field of view [rad].
        size: Width and height of the image [px].
    """
    eye = np.asarray(eye, float)
    ahead = np.asarray(target, float) - eye
    ahead /= np.linalg.norm(ahead)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    down = np.cross(ahead, right)
    width, height = size
    away = points - eye
    scale = height / 2 / np.tan(fov / 2) / (away @ ahead)
    return np.stack([width / 2 + scale * (away @ right), height / 2 + scale * (away @ down)], -1)


def coverage(points: np.ndarray, faces: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Share of each pixel that any triangle covers (height, width).

    Args:
        points: Projected vertices (n, 2) [px].
        faces: Triangles (m, 3) of closed surfaces, each turned outward counter-clockwise.
        size: Width and height [px].
    """
    width, height = size
    corners = points[faces]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    front = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0] < 0  # rows count down
    triangles = corners[front]
    image = np.zeros((height, width))
    if not len(triangles):
        return image
    cuts = _cuts(points, _outline(faces[front]), size)
    cuts = cuts[(cuts >= 0) & (cuts <= height)]
    thick = np.diff(cuts)
    keep = thick > EDGE
    middle, thick = (cuts[:-1] + cuts[1:])[keep] / 2, thick[keep]
    for rows in np.array_split(np.arange(len(middle)), max(1, len(middle) * len(triangles) // 200_000)):
        slab, left, right = _intervals(triangles, middle[rows])
        _add(image, middle[rows][slab], thick[rows][slab], left, right)
    return image


def _outline(front: np.ndarray) -> np.ndarray:
    """Edges (k, 2) of one front face only: the union of all front faces ends nowhere else."""
    edges = front[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    count = int(edges.max()) + 1
    key, back = edges[:, 0] * count + edges[:, 1], edges[:, 1] * count + edges[:, 0]
    return edges[~np.isin(key, back)]


def _cuts(points: np.ndarray, edges: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Heights of corners, of crossings of outlines, and of crossings of outlines with pixel borders, sorted."""
    width, height = size
    p, d = points[edges[:, 0]], points[edges[:, 1]] - points[edges[:, 0]]
    with np.errstate(divide="ignore", invalid="ignore"):
        # p_i + s d_i = p_j + t d_j
        cross = d[:, None, 0] * d[None, :, 1] - d[:, None, 1] * d[None, :, 0]
        away = p[None] - p[:, None]
        s = (away[..., 0] * d[None, :, 1] - away[..., 1] * d[None, :, 0]) / cross
        t = (away[..., 0] * d[:, None, 1] - away[..., 1] * d[:, None, 0]) / cross
        i, j = np.nonzero((s > 0) & (s < 1) & (t > 0) & (t < 1))
        borders = (np.arange(width + 1) - p[:, :1]) / d[:, :1]
        k, column = np.nonzero((borders > 0) & (borders < 1))
    crossings = p[i, 1] + s[i, j] * d[i, 1]
    at_borders = p[k, 1] + borders[k, column] * d[k, 1]
    return np.sort(np.concatenate([points[edges].reshape(-1, 2)[:, 1], crossings, at_borders, np.arange(height + 1.0)]))


def _intervals(triangles: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of the height, left and right end of each interval of the union of triangles (m, 3, 2) at heights y."""
    begin, end = triangles, np.roll(triangles, -1, 1)
    rise = end[..., 1] - begin[..., 1]
    away = y[:, None, None] - begin[..., 1]
    share = away / np.where(rise == 0, 1, rise)
    hit = (rise != 0) & (share >= 0) & (share <= 1)
    x = begin[..., 0] + share * (end[..., 0] - begin[..., 0])
    left, right = np.where(hit, x, np.inf).min(2), np.where(hit, x, -np.inf).max(2)
    slab, which = np.nonzero(left < right)
    left, right = left[slab, which], right[slab, which]
    order = np.lexsort((left, slab))
    slab, left, right = slab[order], left[order], right[order]
    # farthest end so far within the slab: slabs are lifted far apart for one running maximum
    lift = slab * (4.0 * (np.abs(triangles).max() + 1))
    reach = np.maximum.accumulate(right + lift)
    first = np.ones(len(slab), bool)
    first[1:] = left[1:] + lift[1:] > reach[:-1]
    last = np.append(first, True)[1:]
    return slab[first], left[first], (reach - lift)[last]


def _add(image: np.ndarray, y: np.ndarray, thick: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Add slabs of intervals to the pixels of a row."""
    width = image.shape[1]
    row = np.floor(y).astype(int)
    # coverage up to x, summed over columns, is the integral of a ramp: its difference is what each pixel has
    up_to = lambda x: (x[:, None] - np.arange(width)).clip(0, 1)
    np.add.at(image, row, (up_to(right) - up_to(left)) * thick[:, None])
