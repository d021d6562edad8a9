"""Images of flat targets through a lens, by OpenCV: its own textures, `undistortPoints` and `remap`, then blur and noise."""

import cv2
import numpy as np
from scipy.spatial.transform import Rotation

FINE = 3  # samples per pixel and axis
TABLE = 90.0  # grey level around a target


def look(turn, shift) -> tuple[np.ndarray, np.ndarray]:
    """R and t of a camera in front of a target: turned by Euler angles xyz [deg] from looking straight at its face."""
    R = Rotation.from_euler("xyz", [180 + turn[0], turn[1], turn[2]], degrees=True).as_matrix()
    return R, np.array(shift, float)


def picture(texture, width, height, K, distortion, R, t, size, seed=0, blur=0.6, noise=1.5) -> np.ndarray:
    """Image (height, width) uint8 of a texture of a size [m], centered, x right and y up.

    K has pixel centers at +0.5; `distortion` is (k1, k2, p1, p2, k3), or None.
    """
    w, h = size
    x, y = (np.arange(FINE * n) / FINE + 0.5 / FINE for n in (w, h))
    pixels = np.stack(np.meshgrid(x, y), -1).reshape(-1, 1, 2)
    rays = cv2.undistortPoints(pixels, K, distortion, criteria=(3, 60, 1e-12)).reshape(FINE * h, FINE * w, 2)
    to_plane = np.linalg.inv(np.column_stack([R[:, 0], R[:, 1], t]))
    p = np.concatenate([rays, np.ones((*rays.shape[:2], 1))], -1) @ to_plane.T
    u = (p[..., 0] / p[..., 2] / width + 0.5) * texture.shape[1] - 0.5
    v = (0.5 - p[..., 1] / p[..., 2] / height) * texture.shape[0] - 0.5
    border = {"borderMode": cv2.BORDER_CONSTANT, "borderValue": TABLE}
    fine = cv2.remap(texture.astype(np.float32), u.astype(np.float32), v.astype(np.float32), cv2.INTER_LINEAR, **border)
    fine = cv2.GaussianBlur(fine, (0, 0), blur * FINE)
    image = fine.reshape(h, FINE, w, FINE).mean((1, 3)) + np.random.default_rng(seed).normal(0, noise, (h, w))
    return image.clip(0, 255).round().astype(np.uint8)


def chessboard(columns: int, rows: int, square: int = 60) -> np.ndarray:
    """Texture of a board with a border of a square; the square on the left top is dark."""
    dark = np.add.outer(np.arange(rows), np.arange(columns)) % 2 == 0
    board = np.where(dark, 30, 225).astype(np.uint8).repeat(square, 0).repeat(square, 1)
    return np.pad(board, square, constant_values=225)


def marker(dictionary: int, number: int, side: int = 480) -> np.ndarray:
    """Texture of a marker with a white border of a quarter of its side."""
    image = cv2.aruco.generateImageMarker(cv2.aruco.getPredefinedDictionary(dictionary), number, side)
    return np.pad(image, side // 4, constant_values=255)


def charuco(columns: int, rows: int, square: int = 60) -> np.ndarray:
    """Texture of a ChArUco board of DICT_4X4_50 with markers of 3/4 of a square, and a border of a square."""
    words = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_50)
    board = cv2.aruco.CharucoBoard((columns, rows), 1.0, 0.75, words)
    return np.pad(board.generateImage((columns * square, rows * square)), square, constant_values=255)
