"""Images of a cube in motion through a real camera: OpenCV's lens, rows at their own times, blur by averaging, a cast shadow.

Each of `LINES` lines of a pixel is filled, at the time at which its row is exposed, between the outermost crossings with each face's
outline (exact along the line); a frame is the mean over `SHARES` instants of the exposure. Nothing here is the product's.

    t = stamp + readout (y/height − 1/2) + exposure s,      −1/2 < s < 1/2
"""

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from gradsim_reproduction.calibration.board_images import CameraTruth

LINES, SHARES, PIECES = 4, 6, 6  # per pixel, per exposure, per edge (which a lens bends)
KNOTS = 33  # times in the readout of a body between which its outline moves linearly, to 1e-4 px
SUN = np.array([0.25, 0.3, -1.0])  # direction of the light that casts shadows on the floor z = 0
SHADOW_BLUR = 4.0  # [px] of the edge of a shadow
OPTICS_BLUR = 0.5  # [px]
QUADS = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])  # outward
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float) / 2  # of a unit cube

Pose = Callable[
    [np.ndarray], tuple[np.ndarray, np.ndarray]
]  # times (n,) [s] → centers (n, 3) [m] and rotations (n, 3, 3)


@dataclass(frozen=True, eq=False)
class FilmCamera:
    """A camera and where it is.

    Attributes:
        lens: Size, K and distortion.
        R: World → camera (3, 3).
        t: World → camera (3) [m].
        exposure: Time that the shutter is open [s].
        readout: Time from the first row to the last [s].
    """

    lens: CameraTruth
    R: np.ndarray
    t: np.ndarray
    exposure: float
    readout: float

    def project(self, points: np.ndarray) -> np.ndarray:
        """Column and row (..., 2) of points (..., 3) [m], from the corner of the image [px]."""
        turn = cv2.Rodrigues(self.R)[0]
        flat = np.ascontiguousarray(points.reshape(-1, 1, 3))
        pixels = cv2.projectPoints(flat, turn, self.t, self.lens.K, self.lens.distortion)[0]
        return pixels.reshape(*points.shape[:-1], 2) + 0.5


def frame(
    camera: FilmCamera,
    pose: Pose,
    side: float,
    stamp: float,
    background: np.ndarray,
    color: np.ndarray,
    darkness: float,
) -> np.ndarray:
    """One image (height, width, 3) in [0, 1] before the noise.

    Args:
        camera: The camera.
        pose: Motion of the cube.
        side: Of the cube [m].
        stamp: Middle of the exposure of the middle row [s].
        background: (height, width, 3).
        color: RGB of the cube.
        darkness: Share of the light that the shadow takes.
    """
    shadow = _average(camera, pose, side, stamp, _shadow_faces)[0].sum(0).clip(0, 1)
    shadow = cv2.GaussianBlur(shadow, (0, 0), SHADOW_BLUR)
    alpha, light = _average(camera, pose, side, stamp, _front_faces)
    image = background * (1 - darkness * shadow)[..., None]
    image = image * (1 - alpha.sum(0))[..., None] + np.einsum("fhw,f,c->hwc", alpha, light, color)
    return cv2.GaussianBlur(image, (0, 0), OPTICS_BLUR)


def _average(camera: FilmCamera, pose: Pose, side: float, stamp: float, choose) -> tuple[np.ndarray, np.ndarray]:
    """Coverage (faces, height, width) by the faces that `choose` selects, and their brightness (faces,)."""
    width, height = camera.lens.size
    total = np.zeros((len(QUADS), height, width))
    reach = camera.exposure / 2 + abs(camera.readout) / 2
    ends, _, light = _outlines(camera, pose, side, stamp + np.linspace(-reach, reach, 5), choose)
    low, high = np.floor(ends.min((0, 1, 2))).astype(int) - 1, np.ceil(ends.max((0, 1, 2))).astype(int) + 1
    (left, top), (right, bottom) = np.maximum(low, 0), np.minimum(high, (width, height))
    if left >= right or top >= bottom:
        return total, light
    lines = top + (np.arange((bottom - top) * LINES) + 0.5) / LINES
    columns = np.arange(left, right)
    for share in (np.arange(SHARES) + 0.5) / SHARES - 0.5:
        t = stamp + camera.readout * (lines / height - 0.5) + camera.exposure * share
        knots = np.linspace(t[0], t[-1], KNOTS)
        points, facing, _ = _outlines(camera, pose, side, knots, choose)
        at = (t - t[0]) / (t[-1] - t[0]) * (KNOTS - 1) if camera.readout else 0 * t
        before = np.minimum(at.astype(int), KNOTS - 2)
        share_after = (at - before)[:, None, None, None]
        points = (1 - share_after) * points[before] + share_after * points[before + 1]
        facing = facing[np.rint(at).astype(int)]
        after = np.roll(points, -1, 2)
        y = lines[:, None, None]
        crosses = (points[..., 1] <= y) != (after[..., 1] <= y)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = points[..., 0] + (y - points[..., 1]) / (after - points)[..., 1] * (after - points)[..., 0]
        first = np.where(crosses, x, np.inf).min(2)[..., None]
        last = np.where(crosses, x, -np.inf).max(2)[..., None]
        covered = np.clip(np.minimum(last, columns + 1) - np.maximum(first, columns), 0, 1) * facing[..., None]
        mean = covered.reshape(bottom - top, LINES, len(QUADS), len(columns)).mean(1)
        total[:, top:bottom, left:right] += mean.transpose(1, 0, 2) / SHARES
    return total, light


def _outlines(camera: FilmCamera, pose: Pose, side: float, t: np.ndarray, choose):
    """Outlines (times, faces, points, 2) [px], which count (times, faces), and brightness (faces,)."""
    centers, turns = pose(t)
    corners = centers[:, None] + side * CORNERS @ turns.transpose(0, 2, 1)
    faces = corners[:, QUADS]
    normals = np.cross(faces[:, :, 1] - faces[:, :, 0], faces[:, :, 2] - faces[:, :, 1])
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    faces, facing = choose(camera, faces, normals)
    along = np.arange(PIECES)[:, None] / PIECES
    after = np.roll(faces, -1, 2)
    points = faces[:, :, :, None] + along * (after - faces)[:, :, :, None]
    light = 0.72 + 0.28 * (normals[len(t) // 2] @ (-SUN / np.linalg.norm(SUN)))
    return camera.project(points.reshape(*faces.shape[:2], -1, 3)), facing, light


def _front_faces(camera: FilmCamera, faces: np.ndarray, normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    eye = -camera.R.T @ camera.t
    return faces, ((faces[:, :, 0] - eye) * normals).sum(-1) < 0


def _shadow_faces(camera: FilmCamera, faces: np.ndarray, normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Faces cast on the floor by the sun."""
    return faces - faces[..., 2:] / SUN[2] * SUN, normals @ SUN < 0
