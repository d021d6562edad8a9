"""Detection of boards and markers by OpenCV, then sub-pixel corners by our fits.

OpenCV counts pixel centers as whole numbers; here they are at +0.5.
"""

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.video.calibration.corners import fit_corners
from gradsim.video.calibration.estimate import View
from gradsim.video.calibration.outline import fit_outline
from gradsim.video.calibration.sheet import detect_sheet
from gradsim.video.calibration.target import Target

MIN_CORNERS = 6  # corners of a board in a view that counts
DISC_RADIUS_SHARE = 0.42  # of the distance to the next corner: radius of the disc in which a corner is fitted
MIN_OUTLINE_DISTANCE = 0.03  # of its perimeter: distance of one outline of a marker from another
FLOOR = 0.003  # [px] added to the noise of fitted corners: shape of the blur, bent edges


def opencv() -> ModuleType:
    """OpenCV, with its markers.

    Raises:
        InputError: If it is not installed, or too old.
    """
    cv2 = require_extra("cv2", "gradsim capture", "capture")
    if not hasattr(cv2, "aruco") or not hasattr(cv2.aruco, "CharucoDetector"):
        raise InputError(f'OpenCV {cv2.__version__} is too old for gradsim capture: pip install "gradsim[capture]".')
    return cv2


def dictionary(target: Target):
    """OpenCV's dictionary of a target's markers.

    Raises:
        InputError: If OpenCV has none of this name.
    """
    aruco = opencv().aruco
    if not hasattr(aruco, target.dictionary):
        known = [name.removeprefix("DICT_").lower() for name in dir(aruco) if name.startswith("DICT_")]
        raise InputError(
            f"--target {target.text}: OpenCV has no dictionary {target.dictionary.removeprefix('DICT_')}; "
            f"choose one of {', '.join(sorted(set(known)))} (without `apriltag_` for apriltag:)."
        )
    names = aruco.getPredefinedDictionary(getattr(aruco, target.dictionary))
    if target.kind == "marker" and target.identifier >= len(names.bytesList):
        raise InputError(
            f"--target {target.text}: the dictionary has the markers 0 to {len(names.bytesList) - 1}, not {target.identifier}."
        )
    return names


def marker_detector(words):
    """OpenCV's detector of the markers of a dictionary, which also takes one whose white border ends on a dark table.

    By default the outline of the border and that of the marker are too near one another, and the outer one, no marker, stays.
    """
    aruco = opencv().aruco
    settings = aruco.DetectorParameters()
    settings.minMarkerDistanceRate = MIN_OUTLINE_DISTANCE
    return aruco.ArucoDetector(words, settings)


def detect(gray: np.ndarray, targets: Sequence[Target], frame: int = 0, label: str = "") -> View | None:
    """Corners of the targets in a frame; None if they are not in it.

    Args:
        gray: (height, width) uint8.
        targets: One board, one sheet, or markers.
        frame: Index of the frame.
        label: Name of the frame.
    """
    kind = targets[0].kind
    if kind == "marker":
        return _markers(gray, targets, frame, label)
    if kind == "sheet":
        return detect_sheet(gray, targets[0], frame, label)
    return (_chessboard if kind == "chessboard" else _charuco)(gray, targets[0], frame, label)


def explain_absence(gray: np.ndarray, targets: Sequence[Target]) -> str:
    """Sentence about what a frame shows in place of the targets; "" for nothing."""
    target = targets[0]
    if target.kind == "chessboard":
        size = _largest_board(gray)
        if size is None or set(size) == {target.columns, target.rows}:
            return ""
        columns, rows = max(size), min(size)
        return (
            f"a chessboard of {columns}x{rows} squares is in view, {columns - 1} × {rows - 1} inner corners (count squares, "
            f"not inner corners): --target chessboard:{columns}x{rows}:{target.square * 1000:g}mm."
        )
    if target.kind in ("marker", "charuco"):
        _, identifiers, _ = marker_detector(dictionary(target)).detectMarkers(gray)
        if identifiers is not None:
            numbers = sorted(int(k) for k in np.ravel(identifiers))
            text = ", ".join(map(str, numbers[:12])) + ("…" if len(numbers) > 12 else "")
            count = target.columns * target.rows // 2
            if target.kind == "charuco" and numbers[-1] >= count:
                return (
                    f"markers {text} of this dictionary are in view; a board of {target.columns}x{target.rows} squares has "
                    f"{count} only: count its squares again."
                )
            return f"markers {text} of this dictionary are in view."
        return _other_dictionaries(gray, target)
    return ""


def _largest_board(gray: np.ndarray) -> tuple[int, int] | None:
    """Columns and rows of squares of a chessboard of any size; None without one."""
    cv2 = opencv()
    flags = cv2.CALIB_CB_NORMALIZE_IMAGE | cv2.CALIB_CB_LARGER
    ok, corners, meta = cv2.findChessboardCornersSBWithMeta(gray, (3, 3), flags)
    if not ok:
        return None
    grid = corners.reshape(*meta.shape, 2).astype(np.float64) + 0.5
    along = np.stack([np.gradient(grid, axis=1), np.gradient(grid, axis=0)], -2)
    spacing = np.linalg.norm(along, axis=-1).min(-1)
    fitted = fit_corners(gray, grid.reshape(-1, 2), along.reshape(-1, 2, 2), DISC_RADIUS_SHARE * spacing.ravel())
    good = fitted.is_good.reshape(meta.shape)
    # OpenCV may go on into the border, where no squares cross
    rows, columns = (good.mean(axis) > 0.5 for axis in (1, 0))
    return int(columns.sum()) + 1, int(rows.sum()) + 1


def _other_dictionaries(gray: np.ndarray, target: Target) -> str:
    aruco = opencv().aruco
    for name in (
        "DICT_4X4_1000",
        "DICT_5X5_1000",
        "DICT_6X6_1000",
        "DICT_7X7_1000",
        "DICT_APRILTAG_36h11",
        "DICT_ARUCO_ORIGINAL",
    ):
        _, identifiers, _ = marker_detector(aruco.getPredefinedDictionary(getattr(aruco, name))).detectMarkers(gray)
        if identifiers is not None and name != target.dictionary:
            words = name.removeprefix("DICT_").lower()
            return f"markers of the dictionary {words} are in view, not of {target.dictionary.removeprefix('DICT_').lower()}."
    return ""


def grid_points(columns: int, rows: int, square: float) -> np.ndarray:
    """Inner corners (rows - 1, columns - 1, 2) of a board about its center [m]: x right, y up, first row on top."""
    x = (np.arange(columns - 1) - (columns - 2) / 2) * square
    y = ((rows - 2) / 2 - np.arange(rows - 1)) * square
    return np.stack(np.meshgrid(x, y), -1)


def _chessboard(gray: np.ndarray, target: Target, frame: int, label: str) -> View | None:
    cv2 = opencv()
    size = (target.columns - 1, target.rows - 1)
    ok, corners = cv2.findChessboardCornersSB(gray, size, flags=cv2.CALIB_CB_NORMALIZE_IMAGE)
    if not ok:
        ok, corners = cv2.findChessboardCorners(gray, size)
    if not ok:
        return None
    grid = corners.reshape(size[1], size[0], 2).astype(np.float64) + 0.5
    grid = _oriented(gray, grid, target)
    along_x, along_y = np.gradient(grid, axis=1), np.gradient(grid, axis=0)
    spacing = np.minimum(np.linalg.norm(along_x, axis=-1), np.linalg.norm(along_y, axis=-1)).ravel()
    edges = np.stack([along_x, along_y], -2).reshape(-1, 2, 2)
    points = grid_points(target.columns, target.rows, target.square).reshape(-1, 2)
    return _refined(
        gray, grid.reshape(-1, 2), edges, DISC_RADIUS_SHARE * spacing, target.in_world(points), frame, label
    )


def _oriented(gray: np.ndarray, grid: np.ndarray, target: Target) -> np.ndarray:
    """Grid (rows, columns, 2) as seen from the front, with the dark corner square, if only one of two is, on the left top."""
    x, y = (grid[:, -1] - grid[:, 0]).mean(0), (grid[-1] - grid[0]).mean(0)
    if x[0] * y[1] - x[1] * y[0] < 0:
        grid = grid[::-1]
    if (target.columns + target.rows) % 2:
        centres = (grid[:-1, :-1] + grid[1:, 1:]) / 2
        levels = np.array([[_level(gray, centre) for centre in row] for row in centres])
        is_even = (
            np.add.outer(range(len(levels)), range(levels.shape[1])) % 2 == 0
        )  # of one color, as the first of the board
        return grid if levels[is_even].mean() < levels[~is_even].mean() else grid[::-1, ::-1]
    return grid if (grid[:, -1] - grid[:, 0]).mean(0)[0] >= 0 else grid[::-1, ::-1]


def _level(gray: np.ndarray, at: np.ndarray) -> float:
    column, row = np.clip(np.floor(at).astype(int), 1, [gray.shape[1] - 2, gray.shape[0] - 2])
    return float(gray[row - 1 : row + 2, column - 1 : column + 2].mean())


def _charuco(gray: np.ndarray, target: Target, frame: int, label: str) -> View | None:
    aruco = opencv().aruco
    best = None
    for is_legacy in (False, True):  # boards made before OpenCV 4.6 begin with another color where the rows are even
        board = aruco.CharucoBoard((target.columns, target.rows), target.square, target.marker, dictionary(target))
        board.setLegacyPattern(is_legacy)
        corners, identifiers, _, _ = aruco.CharucoDetector(board).detectBoard(gray)
        if identifiers is not None and (best is None or len(identifiers) > len(best[1])):
            best = np.reshape(corners, (-1, 2)).astype(np.float64) + 0.5, np.ravel(identifiers)
    if best is None or len(best[1]) < MIN_CORNERS:
        return None
    pixels, numbers = best
    points = grid_points(target.columns, target.rows, target.square).reshape(-1, 2)[numbers]
    H, _ = opencv().findHomography(points, pixels, opencv().RANSAC, 3.0)
    if H is None:
        return None
    step = 0.5 * target.square
    around = [_apply(H, points + d) for d in ([step, 0], [-step, 0], [0, step], [0, -step])]
    edges = np.stack([around[0] - around[1], around[2] - around[3]], 1)
    spacing = np.linalg.norm(edges, axis=2).min(1)
    gap = (target.square - target.marker) / 2 / target.square  # nothing else is so near: the border of the markers
    return _refined(
        gray, pixels, edges, min(DISC_RADIUS_SHARE, 0.9 * gap) * spacing, target.in_world(points), frame, label
    )


def _apply(H: np.ndarray, points: np.ndarray) -> np.ndarray:
    mapped = np.concatenate([points, np.ones((len(points), 1))], 1) @ H.T
    return mapped[:, :2] / mapped[:, 2:]


def _refined(
    gray: np.ndarray,
    pixels: np.ndarray,
    edges: np.ndarray,
    radius: np.ndarray,
    world: np.ndarray,
    frame: int,
    label: str,
) -> View | None:
    """View of the corners that could be fitted; all, as OpenCV has them, if few could."""
    fitted = fit_corners(gray, pixels, edges, radius)
    good = fitted.is_good
    if good.sum() < max(MIN_CORNERS, 0.5 * len(pixels)):
        return View(frame, world, pixels, None, 0.2, label)
    covariance = fitted.covariance[good] + FLOOR**2 * np.eye(2)
    n = int(good.sum())
    blocks = np.zeros((2 * n, 2 * n))
    for k in range(n):
        blocks[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = covariance[k]
    return View(frame, world[good], fitted.pixels[good], blocks, 0.1, label)


def _markers(gray: np.ndarray, targets: Sequence[Target], frame: int, label: str) -> View | None:
    points, pixels, blocks = [], [], []
    detected: dict[str, dict[int, np.ndarray]] = {}
    for target in targets:
        if target.dictionary not in detected:
            corners, numbers, _ = marker_detector(dictionary(target)).detectMarkers(gray)
            listed = [] if numbers is None else np.ravel(numbers).tolist()
            detected[target.dictionary] = {k: c.reshape(4, 2) + 0.5 for k, c in zip(listed, corners, strict=False)}
        corners = detected[target.dictionary].get(target.identifier)
        if corners is None:
            continue
        outline = fit_outline(gray, corners.astype(np.float64))
        half = target.square / 2
        points.append(target.in_world(half * np.array([[-1, 1], [1, 1], [1, -1], [-1, -1]], float)))
        pixels.append(outline.corners if outline else corners)
        blocks.append(outline.covariance if outline else 0.3**2 * np.eye(8))
    if not points:
        return None
    n = 8 * len(points)
    covariance = np.zeros((n, n))
    for k, block in enumerate(blocks):
        covariance[8 * k : 8 * k + 8, 8 * k : 8 * k + 8] = block
    return View(frame, np.concatenate(points), np.concatenate(pixels), covariance, 0.1, label)
