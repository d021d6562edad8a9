"""Tracks of points with texture all over a video, for poses from a textured ground.

Optical flow takes all points of a frame to the next at once (pyramidal Lucas–Kanade, flow and back); the place is then that of the
patch with which the point began (`tracking/match.py`), whose error does not grow. Where points leave the image or are lost, others begin.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.video.tracking.match import Image, Patch, match
from gradsim.video.tracking.tracker import RADIUS, gray_frames, textured_points

POINT_COUNT = 100  # points in view that are aimed at
RENEWED_SHARE = 0.7  # of them, below which others begin
NEW_DISTANCE = 2.0 * RADIUS  # [px] of a new point from those that are flow
MAX_RETURN_ERROR = 0.5  # [px] between a point and where the flow flow and back takes it
MIN_CORRELATION = 0.9  # of a patch, below which its point is lost
MAX_FLOW_ERROR = 4.0  # [px] between the flow and the match
NOISE_FLOOR = 0.03  # [px] of a match: interpolation, blur
FLOW = {"winSize": (21, 21), "maxLevel": 4}


@dataclass(frozen=True, eq=False)
class GroundTracks:
    """Observations of points, one row each.

    Attributes:
        frame: (n,) of the observation.
        point: (n,) which point.
        pixels: (n, 2), pixel centers at +0.5.
        sd: (n,) of a coordinate [px].
    """

    frame: np.ndarray
    point: np.ndarray
    pixels: np.ndarray
    sd: np.ndarray

    def select(self, used: np.ndarray) -> "GroundTracks":
        """The rows (n,) that are used."""
        return GroundTracks(self.frame[used], self.point[used], self.pixels[used], self.sd[used])


@dataclass(eq=False)
class _Live:
    """A point in view."""

    number: int
    place: np.ndarray
    patch: Patch
    deformation: np.ndarray


def ground_tracks(frames: np.ndarray, report: Callable[[int], None] = lambda frame: None) -> GroundTracks:
    """Track points with texture through a video.

    Args:
        frames: (frames, height, width, 3) uint8.
        report: Is called with the number of each frame.

    Raises:
        InputError: If no frame has texture.
    """
    cv2 = require_extra("cv2", "gradsim capture --target ground", "capture")
    live: list[_Live] = []
    rows: list[tuple[int, int, float, float, float]] = []
    count, gray8 = 0, None
    for k, colors in enumerate(frames):
        report(k)
        image = Image(gray_frames(colors))
        before, gray8 = gray8, np.clip(image.gray + 0.5, 0, 255).astype(np.uint8)
        if live and before is not None:
            live = _advanced(cv2, live, before, gray8, image, k, rows)
        if len(live) < RENEWED_SHARE * POINT_COUNT:
            for place in _new_places(image.gray, live):
                patch = Patch.cut(image, place, RADIUS)
                if patch is not None:
                    live.append(_Live(count, place, patch, np.eye(2)))
                    rows.append((k, count, *place, NOISE_FLOOR))
                    count += 1
    if not count:
        raise InputError(
            "no frame has texture that can be tracked; a ground needs a pattern: a carpet, boards, gravel, or sheets of print laid on it."
        )
    table = np.array(rows)
    frame, point, sd = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 4]
    return GroundTracks(frame, point, table[:, 2:4], _with_first(point, sd))


def _with_first(point: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """The standard deviations, with that of each first observation: all later ones share the noise of its patch, so that it is as uncertain."""
    first = np.unique(point, return_index=True)[1]
    is_later = np.ones(len(point), bool)
    is_later[first] = False
    total = np.bincount(point[is_later], sd[is_later], point.max() + 1)
    count = np.bincount(point[is_later], minlength=point.max() + 1)
    out = sd.copy()
    out[first] = np.where(count > 0, total / np.maximum(count, 1), sd[first])
    return out


def _advanced(cv2, live: list[_Live], before, after, image: Image, k: int, rows: list) -> list[_Live]:
    """Points that are in the next frame too; their rows are added."""
    start = np.array([p.place for p in live], np.float32)[:, None] - 0.5
    flow, ok, _ = cv2.calcOpticalFlowPyrLK(before, after, start, None, **FLOW)
    back, ok_back, _ = cv2.calcOpticalFlowPyrLK(after, before, flow, None, **FLOW)
    returns = np.linalg.norm(back - start, axis=-1)[:, 0] < MAX_RETURN_ERROR
    good = (ok & ok_back)[:, 0].astype(bool) & returns
    live_points = []
    for point, place, is_good in zip(live, flow[:, 0].astype(float) + 0.5, good, strict=True):
        result = match(image, point.patch, place, point.deformation) if is_good else None
        if result is None or result.correlation < MIN_CORRELATION:
            continue
        if np.linalg.norm(result.place - place) > MAX_FLOW_ERROR:
            continue
        point.place, point.deformation = result.place, result.deformation
        variance = float(np.linalg.eigvalsh(result.covariance)[-1]) / 2 + NOISE_FLOOR**2
        rows.append((k, point.number, *result.place, float(np.sqrt(variance))))
        live_points.append(point)
    return live_points


def _new_places(gray: np.ndarray, live: list[_Live]) -> np.ndarray:
    """Places (n, 2) of new points, away from those that are flow."""
    try:
        places = textured_points(gray, 2 * POINT_COUNT)
    except InputError:
        return np.zeros((0, 2))
    if live:
        distance = np.linalg.norm(places[:, None] - np.array([p.place for p in live]), axis=-1).min(1)
        places = places[distance > NEW_DISTANCE]
    return places[: POINT_COUNT - len(live)]
