"""Detection of a sheet of paper: the largest bright quadrilateral, its outline at half brightness."""

import numpy as np

from gradsim.runtime.optional import require_extra
from gradsim.video.calibration.estimate import View
from gradsim.video.calibration.outline import fit_outline
from gradsim.video.calibration.target import Target

MIN_AREA_SHARE = 0.01  # of the image
LEVELS = (0.0, 0.15, -0.15, 0.3)  # of the range of brightness, about Otsu's threshold
MIN_FILL = 0.9  # area of a contour over that of its quadrilateral, at least


def detect_sheet(gray: np.ndarray, target: Target, frame: int, label: str) -> View | None:
    """Corners of the sheet, clockwise from the left top as seen in the image; None if there is none.

    Which side of the paper is the long one is decided with the camera (`start`).

    Args:
        gray: (height, width) uint8.
        target: The sheet.
        frame: Index of the frame.
        label: Name of the frame.
    """
    for corners in _quadrilaterals(gray):
        outline = fit_outline(gray, corners)
        if outline is not None:
            w, h = target.width / 2, target.height / 2
            points = target.in_world(np.array([[-w, h], [w, h], [w, -h], [-w, -h]]))
            return View(frame, points, outline.corners, outline.covariance, 0.1, label)
    return None


def _quadrilaterals(gray: np.ndarray) -> list[np.ndarray]:
    """Corners (4, 2) of bright convex quadrilaterals, largest first, clockwise from the left top."""
    cv2 = require_extra("cv2", "gradsim capture", "capture")
    smooth = cv2.GaussianBlur(gray, (5, 5), 0)
    otsu, _ = cv2.threshold(smooth, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    results: list[tuple[float, np.ndarray]] = []
    for shift in LEVELS:
        _, mask = cv2.threshold(smooth, otsu + shift * 255, 255, cv2.THRESH_BINARY)
        contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
        for contour in contours:
            area = cv2.contourArea(contour)
            if not MIN_AREA_SHARE * gray.size < area < 0.95 * gray.size:
                continue
            hull = cv2.convexHull(contour)
            polygon = cv2.approxPolyDP(hull, 0.03 * cv2.arcLength(hull, True), True)
            if len(polygon) != 4 or area < MIN_FILL * cv2.contourArea(hull):
                continue
            corners = polygon.reshape(4, 2).astype(np.float64) + 0.5
            edge = np.abs(corners - [gray.shape[1] / 2, gray.shape[0] / 2]) > [
                gray.shape[1] / 2 - 3,
                gray.shape[0] / 2 - 3,
            ]
            if not edge.any():
                results.append((area, _clockwise(corners)))
        if results:
            break
    return [corners for _, corners in sorted(results, key=lambda pair: -pair[0])]


def _clockwise(corners: np.ndarray) -> np.ndarray:
    """Corners clockwise as seen in the image (rows go down), beginning at the left top."""
    rel = corners - corners.mean(0)
    order = np.argsort(np.arctan2(rel[:, 1], rel[:, 0]))
    ring = corners[order]
    return np.roll(ring, -int((ring - corners.min(0)).sum(1).argmin()), 0)
