"""Images of a chessboard through a lens, by OpenCV's own projection.

A grid of `SUBSAMPLES`² samples per pixel goes through OpenCV's undistortPoints to rays and to the plane of the board, where a
sample is white, black, or, within a sample of an edge, the share of it; then the blur of the optics, the mean over pixels,
the noise of the sensor, and 8 bits. Nothing here uses our lens.
"""

from dataclasses import dataclass

import cv2
import numpy as np

SUBSAMPLES = 4  # per pixel and axis; edges are exact to a sample squared
NODE = 8  # [px] between pixels whose rays are computed; cubic interpolation between them is exact to 1e-6 px
BLACK, WHITE, TABLE = 0.12, 0.88, 0.5


@dataclass(frozen=True, eq=False)
class CameraTruth:
    """A camera in OpenCV's convention: pixel centers at whole numbers.

    Attributes:
        size: Width and height [px].
        K: (3, 3).
        distortion: (5,) k1, k2, p1, p2, k3.
    """

    size: tuple[int, int]
    K: np.ndarray
    distortion: np.ndarray

    def rays(self) -> np.ndarray:
        """(X/Z, Y/Z) of all samples, (SUBSAMPLES height, SUBSAMPLES width, 2)."""
        width, height = self.size
        x = np.arange(-NODE, width + 2 * NODE, NODE, dtype=np.float64)
        y = np.arange(-NODE, height + 2 * NODE, NODE, dtype=np.float64)
        grid = np.stack(np.meshgrid(x, y), -1).reshape(-1, 1, 2)
        criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-14)
        rays = cv2.undistortPoints(grid, self.K, self.distortion, criteria=criteria).reshape(len(y), len(x), 2)
        at = lambda count: ((np.arange(count * SUBSAMPLES) + 0.5) / SUBSAMPLES - 0.5 + NODE) / NODE
        across, down = _cubic(at(width), len(x)), _cubic(at(height), len(y))
        return np.stack([down @ rays[..., k] @ across.T for k in range(2)], -1)


def _cubic(at: np.ndarray, nodes: int) -> np.ndarray:
    """Weights (samples, nodes) of a cubic spline through nodes, dense."""
    from scipy.interpolate import CubicSpline

    return CubicSpline(np.arange(nodes), np.eye(nodes))(at)


@dataclass(frozen=True)
class Look:
    """Optics and sensor.

    Attributes:
        blur: Standard deviation of the optics' blur [px].
        noise: Of the sensor, in [0, 1].
    """

    blur: float = 0.6
    noise: float = 2 / 255


def board_image(
    camera: CameraTruth,
    rays: np.ndarray,
    squares: tuple[int, int],
    square: float,
    turn: np.ndarray,
    shift: np.ndarray,
    rng: np.random.Generator,
    look: Look | None = None,
) -> np.ndarray:
    """Image (height, width) uint8 of a board with its first, dark, square on the left top and a white border of a square.

    Args:
        camera: The camera.
        rays: Its `rays`.
        squares: Columns and rows.
        square: Side of one [m].
        turn, shift: Rotation vector and translation of OpenCV, board → camera, the board with x right and y down, about its center.
        rng: Of the noise.
        look: Blur and noise.
    """
    look = look or Look()
    (left, top), (right, bottom) = _box_of(camera, squares, square, turn, shift, look.blur)
    width, height = camera.size
    image = np.full((height, width), TABLE)
    if left < right and top < bottom:
        part = rays[SUBSAMPLES * top : SUBSAMPLES * bottom, SUBSAMPLES * left : SUBSAMPLES * right]
        fine = _samples(part, squares, square, turn, shift)
        fine = cv2.GaussianBlur(fine, (0, 0), look.blur * SUBSAMPLES, borderType=cv2.BORDER_REPLICATE)
        image[top:bottom, left:right] = fine.reshape(bottom - top, SUBSAMPLES, right - left, SUBSAMPLES).mean((1, 3))
    image = image + rng.normal(0, look.noise, image.shape)
    return np.clip(255 * image, 0, 255).round().astype(np.uint8)


def _samples(
    rays: np.ndarray, squares: tuple[int, int], square: float, turn: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """Brightness of samples with these rays (rows, columns, 2)."""
    R = cv2.Rodrigues(np.asarray(turn, np.float64))[0]
    to_board = np.linalg.inv(np.column_stack([R[:, 0], R[:, 1], shift]))  # of rays (x, y, 1)
    h = rays[..., 0, None] * to_board[:, 0] + rays[..., 1, None] * to_board[:, 1] + to_board[:, 2]
    x, y = (h[..., k] / h[..., 2] / square + squares[k] / 2 for k in range(2))
    across, down = _size(x), _size(y)
    white = 0.5 - 0.5 * _stripes(x, across) * _stripes(y, down)  # dark where column and row are both even
    inside = _box(x, squares[0], across) * _box(y, squares[1], down)
    paper = _box(x + 1, squares[0] + 2, across) * _box(y + 1, squares[1] + 2, down)
    board = BLACK + (WHITE - BLACK) * (inside * white + 1 - inside)
    return TABLE + paper * (board - TABLE)


def _box_of(camera: CameraTruth, squares, square: float, turn, shift, blur: float) -> tuple[np.ndarray, np.ndarray]:
    """First and last pixel (2,) of the part of the image that the paper and its blur are in."""
    ends = [np.linspace(-n / 2 - 1, n / 2 + 1, 20) * square for n in squares]
    x, y = np.meshgrid(*ends)
    points = np.stack([x, y, 0 * x], -1).reshape(-1, 3)
    pixels = cv2.projectPoints(points, np.asarray(turn, float), np.asarray(shift, float), camera.K, camera.distortion)[
        0
    ]
    margin = 3 + 5 * blur
    low, high = pixels.min((0, 1)) - margin, pixels.max((0, 1)) + margin
    return np.clip(np.floor(low), 0, camera.size).astype(int), np.clip(np.ceil(high), 0, camera.size).astype(int)


def _size(x: np.ndarray) -> np.ndarray:
    """Change of a coordinate over one sample."""
    return np.abs(np.gradient(x, axis=0)) + np.abs(np.gradient(x, axis=1)) + 1e-12


def _stripes(x: np.ndarray, size: np.ndarray) -> np.ndarray:
    """+1 in even squares, -1 in odd ones, linear over the sample, of this size, at an edge."""
    nearest = np.rint(x)
    side = np.clip(2 * (x - nearest) / size, -1, 1)
    return side * np.where(nearest % 2 == 0, 1.0, -1.0)


def _box(x: np.ndarray, count: float, size: np.ndarray) -> np.ndarray:
    """1 between 0 and `count`, 0 outside, linear over the sample, of this size, at an end."""
    return np.clip(x / size + 0.5, 0, 1) * np.clip((count - x) / size + 0.5, 0, 1)
