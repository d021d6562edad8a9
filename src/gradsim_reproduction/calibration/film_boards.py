"""Calibration of a camera from videos of boards: lens from a chessboard in the hand, pose from one at a known place of the scene.

Both are drawn by the lens of the film (`board_images`), encoded as the film is, and go through `gradsim capture` as a user runs it.
"""

from pathlib import Path

import cv2
import numpy as np

from gradsim.app.commands.capturing.capture import capture
from gradsim.app.commands.capturing.files import CaptureOptions
from gradsim_reproduction.calibration.board_images import Look, board_image
from gradsim_reproduction.calibration.film_images import OPTICS_BLUR, FilmCamera
from gradsim_reproduction.calibration.film_scenes import CRF, FPS, SIGMA, SIZE
from gradsim_reproduction.clips.videos import encode

SQUARES = 10, 7  # columns and rows
VIEWS, HAND_SQUARE, STAND_SQUARE = 10, 0.025, 0.07  # [m]
STAND = (0.0, 0.0, 0.4)  # center of the board in the scene [m], facing −y


def calibrated(camera: FilmCamera, rng: np.random.Generator, scene: Path, folder: Path) -> tuple[Path, dict]:
    """Scene of a film with the camera of `gradsim capture`.

    Args:
        camera: The true camera.
        rng: Of the views and their noise.
        scene: Scene file whose camera has to be measured.
        folder: Folder of the boards and of the calibrations.

    Returns:
        The scene file, and the content of its capture's result.json.
    """
    rays, sigma = camera.lens.rays(), rng.uniform(*SIGMA)
    look = Look(OPTICS_BLUR, sigma)
    hand = [
        board_image(camera.lens, rays, SQUARES, HAND_SQUARE, turn, shift, rng, look)
        for turn, shift in _views(camera, rng)
    ]
    board = np.column_stack([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])  # x right, y down, z into the board, in the world
    turn, shift = cv2.Rodrigues(camera.R @ board)[0].ravel(), camera.R @ STAND + camera.t
    standing = [board_image(camera.lens, rays, SQUARES, STAND_SQUARE, turn, shift, rng, look) for _ in range(2)]
    for name, images in (("hand", hand), ("stand", standing)):
        encode(folder / f"{name}.mp4", np.repeat(np.array(images)[..., None], 3, -1), FPS, CRF, True)
    size = "x".join(map(str, SQUARES))
    options = CaptureOptions(targets=(f"chessboard:{size}:{HAND_SQUARE}",))
    capture(folder / "hand.mp4", folder / "lens", options)
    target = f"chessboard:{size}:{STAND_SQUARE}@{','.join(map(str, STAND))},90,0,0"
    options = CaptureOptions(targets=(target,), scene=scene, intrinsics=folder / "lens" / "capture.json")
    result, _ = capture(folder / "stand.mp4", folder / "camera", options)
    return folder / "camera" / "scene.yaml", result


def _views(camera: FilmCamera, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rotation vectors and translations (OpenCV) of a board that is moved all over the image and tilted."""
    K, size = camera.lens.K, np.array(SIZE)
    columns, rows = np.meshgrid(np.arange(SQUARES[0] + 1), np.arange(SQUARES[1] + 1))
    flat = np.stack([columns.ravel(), rows.ravel()], -1) - np.array(SQUARES) / 2
    points = HAND_SQUARE * np.column_stack([flat, 0 * flat[:, 0]])
    views: list[tuple[np.ndarray, np.ndarray]] = []
    while len(views) < VIEWS:
        turn = rng.uniform(-0.6, 0.6, 3)
        z = K[0, 0] * 0.25 / size[0] * rng.uniform(1.1, 2.0)
        shift = np.array([*(rng.uniform(-0.35, 0.35, 2) * z * size / K[0, 0]), z])
        pixels = cv2.projectPoints(points, turn, shift, K, camera.lens.distortion)[0][:, 0]
        if (pixels > 6).all() and (pixels < size - 6).all():
            views.append((turn, shift))
    return views
