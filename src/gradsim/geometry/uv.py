"""Texture coordinates (uv) of the primitives: u to the right and v up in the image, not mirrored seen from outside.

Each function returns uv (k, 2) and, for the corners of each face, rows of it (m, 3). Round a solid, u is the longitude
from −x over −y, x and y back to −x; faces that cross that seam have u beyond 1, where the texture repeats.
"""

import math

import numpy as np

Places = tuple[np.ndarray, np.ndarray]
AXIS = 1e-9  # of the size: nearer to the z axis, a vertex has no longitude


def box(vertices: np.ndarray, faces: np.ndarray) -> Places:
    """Six tiles, three in a row: the faces at −x, −y, −z below and those at x, y, z above, each as seen with z up.

    The lower face is seen with −y up, the upper one with y up, both with x to the right. Triangles of other solids belong
    to the face that they are nearest to in direction.

    Args:
        vertices: (n, 3), each coordinate from −1/2 to 1/2.
        faces: Triangles (m, 3).
    """
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    axis = np.abs(normals).argmax(1)
    side = np.sign(np.take_along_axis(normals, axis[:, None], 1))
    upper = side[:, 0] > 0
    ups = np.where((axis == 2)[:, None], side * [0.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    right = np.einsum("fi,fci->fc", np.cross(ups, side * np.eye(3)[axis]), corners)
    up = np.einsum("fi,fci->fc", ups, corners)
    return _shared(np.stack([(axis[:, None] + right + 0.5) / 3, (upper[:, None] + up + 0.5) / 2], -1))


def turned(vertices: np.ndarray, faces: np.ndarray, v: np.ndarray) -> Places:
    """Longitude around z, and the given v of each vertex (n,); on the axis, the longitude of the middle of each face."""
    x, y = vertices[:, 0], vertices[:, 1]
    off = np.hypot(x, y) > AXIS * np.abs(vertices).max()
    u = np.where(off, _turns(y, x), np.nan)[faces]
    middle = _turns(*vertices[faces].mean(1)[:, 1::-1].T)[:, None]
    ahead = _short_way(u - middle)
    u = middle + np.where(np.isfinite(ahead), ahead, np.nanmean(ahead, 1, keepdims=True))
    return _shared(np.stack([_from_0(u), v[faces]], -1))


def sphere(vertices: np.ndarray, faces: np.ndarray) -> Places:
    """Longitude and latitude: the lower edge of the image is the pole at −z."""
    z = vertices[:, 2] / np.linalg.norm(vertices, axis=1)
    return turned(vertices, faces, 0.5 + np.arcsin(np.clip(z, -1, 1)) / math.pi)


def lathe(vertices: np.ndarray, faces: np.ndarray, along: np.ndarray) -> Places:
    """A solid of revolution around z.

    Without lids the whole image is wrapped around it. With lids the lower half of the image is wrapped around, and the
    discs of radius 1/4 in the upper half are the lower lid (left) and the upper lid (right), seen with x to the right.

    Args:
        vertices: (n, 3).
        faces: (m, 3).
        along: Position of each vertex along the profile (n,), from 0 to 1.
    """
    at = along[faces]
    lid = (at == at[:, :1]).all(1)
    if not lid.any():
        return turned(vertices, faces, along)
    side, side_faces = turned(vertices, faces[~lid], along / 2)
    upper = at[lid, 0] > 0.5
    flat = vertices[faces[lid], :2] / (4 * np.hypot(vertices[:, 0], vertices[:, 1])[faces[lid]].max())
    flat[~upper, :, 1] *= -1
    discs, disc_faces = _shared(flat + np.where(upper[:, None, None], [0.75, 0.75], [0.25, 0.75]))
    rows = np.empty_like(faces)
    rows[~lid], rows[lid] = side_faces, disc_faces + len(side)
    return np.concatenate([side, discs]), rows


def torus(vertices: np.ndarray, faces: np.ndarray, radius: float) -> Places:
    """Longitude, and the angle round the tube: the inner equator is both lower and upper edge of the image."""
    x, y, z = vertices.T
    both = np.stack([_turns(y, x), _turns(z, np.hypot(x, y) - radius)], -1)[faces]
    both = both[:, :1] + _short_way(both - both[:, :1])
    return _shared(_from_0(both))


def tiled(faces: np.ndarray) -> Places:
    """One tile for every face: the lower left half of a square of a grid."""
    grid = math.ceil(math.sqrt(len(faces)))
    tiles = np.stack(np.divmod(np.arange(len(faces)), grid)[::-1], -1)
    return _shared((tiles[:, None] + [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]) / grid)


def _turns(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Angle of (x, y) in turns, from 0 at −x to 1."""
    return 0.5 + np.arctan2(y, x) / (2 * math.pi)


def _short_way(turns: np.ndarray) -> np.ndarray:
    return (turns + 0.5) % 1.0 - 0.5


def _from_0(turns: np.ndarray) -> np.ndarray:
    """The turns of the corners of each face (m, 3, ...), shifted as one so that the least lies in [0, 1)."""
    return turns - np.floor(turns.min(1, keepdims=True).round(12))


def _shared(corners: np.ndarray) -> Places:
    """Unique coordinates of all corners (m, 3, 2), rounded so that equal ones match, and their rows."""
    uv, rows = np.unique(corners.reshape(-1, 2).round(12) + 0.0, axis=0, return_inverse=True)
    return uv, rows.reshape(-1, 3)
