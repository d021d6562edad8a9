"""Tracks of points by their texture: pyramidal Lucas–Kanade from frame to frame, then a match with the patch that the track began with.

From frame to frame errors add up (drift). So OpenCV's flow (Bouguet 2001) is a prediction only, checked by the flow back, and the place
is that of the first patch in the frame (`match.py`), whose error does not grow. A patch that turns away, or changes its size, no longer
matches: it is then cut anew from the frame before. Every position has two standard deviations,

    sd       of the noise of its own frame: independent from frame to frame
    drift    of what all later positions share, too: the noise of the patch, and the place where it was cut anew, which add up

A codec copies blocks from frame to frame and moves them by quarters of a pixel, which a patch cannot see. So where tracks are rougher from
frame to frame than their noise, by differences of fifth order, which the motion of a body hardly has, all standard deviations are multiplied
by the ratio.

A point that is lost (it leaves the image, the flow back comes elsewhere, the patch does not match) has a gap; it is searched again for
some frames where a constant velocity takes it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.video.tracking.match import Image, Match, Patch, match

RADIUS = 8  # [px] of a patch: 17 × 17 px
LEVELS, WINDOW = 3, (17, 17)  # of the pyramid of optical flow [px]
MAX_RETURN_ERROR = 1.0  # [px] between a point and where the flow there and back takes it, above which it is lost
TEXTURE = 2.0  # times the noise, below which a patch shows nothing else
MIN_CORRELATION = 0.9  # correlation, without the noise, below which a patch is another
FRESH_CORRELATION = 0.97  # below which it is cut anew
ONE_SURFACE = 0.95  # below which a patch of the frame before shows several surfaces, or an edge of the body
# Standard deviations, and px, between matches of the patch and of its middle, above which it does, too
MAX_DISAGREEMENT = (4.0, 0.1)
STRETCH = 1.25  # ratio of lengths in a patch and in the image, above which it is cut anew
# Frames that a patch has to match, before another is cut: it turns away, or shows several surfaces
MIN_PATCH_FRAMES = 3
MIN_TRACK_FRAMES = 5  # frames of a track
PATIENCE = 10  # frames in which a lost point is searched
ORDER, MAX_NOISE_RATIO = 5, 10.0  # of the differences; largest ratio
FEW_DIFFERENCES = 20  # of all tracks, below which they say nothing
FLOOR = 0.02  # [px] of a match: interpolation, and the shape of the surface in the patch
MIN_POINT_DISTANCE = 2.0  # radii between two points that are chosen automatically
QUALITY = 0.05  # of the best texture, below which no point is chosen


@dataclass(frozen=True, eq=False)
class FeatureTracks:
    """Tracks of points.

    Attributes:
        names: Of the points.
        positions: (frames, n, 2) [px], pixel centers at +0.5; NaN where a point is lost.
        sd: Noise of each coordinate (frames, n) [px].
        drift: Standard deviation (frames, n) [px] of the part of the error that all later positions of the track share.
        lost: Names of points that were lost at once, and are left out.
    """

    names: list[str]
    positions: np.ndarray
    sd: np.ndarray
    drift: np.ndarray
    lost: tuple[str, ...] = ()

    @property
    def tracked(self) -> np.ndarray:
        """(frames, n) True where a point was tracked."""
        return np.all(np.isfinite(self.positions), 2)


class _Frame(Image):
    """A frame with what is computed of it once."""

    @cached_property
    def gray8(self) -> np.ndarray:
        """Brightness (height, width) uint8, for optical flow."""
        return np.clip(self.gray + 0.5, 0, 255).astype(np.uint8)

    @cached_property
    def noise(self) -> float:
        """Standard deviation of the pixels' noise, by the median of a mask that edges do not pass (Immerkær 1996)."""
        second = lambda y: y[:-2] - 2 * y[1:-1] + y[2:]
        return float(np.median(np.abs(second(second(self.gray).T))) / 6 / 0.6745)


@dataclass(eq=False)
class _Track:
    """State of one point while it is tracked.

    Attributes:
        place: Last position (2,) [px].
        frame: Number of its frame.
        image: Its frame.
        velocity: [px/frame].
        patch: Patch that is matched.
        deformation: A of the last match (2, 2).
        cut: Frame of the patch.
        noise: Noise of the last match, variance [px²].
        drift: Variance [px²].
    """

    place: np.ndarray
    frame: int
    image: _Frame
    velocity: np.ndarray
    patch: Patch
    deformation: np.ndarray
    cut: int
    noise: float = 0.0
    drift: float = 0.0


def gray_frames(frames: np.ndarray) -> np.ndarray:
    """Brightness (..., height, width) float32 of colors (..., height, width, 3) uint8, by the weights of BT.601."""
    return frames.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)


def textured_points(
    gray: np.ndarray, count: int, region: tuple[float, float, float, float] | None = None, radius: int = RADIUS
) -> np.ndarray:
    """Points with the best texture, by the smaller eigenvalue of the structure tensor (Shi and Tomasi 1994).

    Args:
        gray: (height, width).
        count: Largest number of points.
        region: Left, top, width and height [px] to which points are restricted; None: the image.
        radius: Of patches [px].

    Returns:
        (n, 2) [px].

    Raises:
        InputError: If there is none.
    """
    cv2 = _opencv()
    height, width = gray.shape
    x, y, w, h = region or (0, 0, width, height)
    mask = np.zeros(gray.shape, np.uint8)
    edge = radius + 1
    mask[max(int(y), edge) : min(int(y + h), height - edge), max(int(x), edge) : min(int(x + w), width - edge)] = 255
    corners = cv2.goodFeaturesToTrack(
        gray.astype(np.float32), count, QUALITY, MIN_POINT_DISTANCE * radius, mask=mask, blockSize=2 * radius + 1
    )
    if corners is None:
        where = "the region" if region else "the image"
        raise InputError(
            f"no point in {where} has a texture that can be tracked; give another region, or points (--points)."
        )
    return corners.reshape(-1, 2).astype(np.float64) + 0.5


def track(
    frames: np.ndarray, points: Mapping[str, Sequence[float] | np.ndarray], first: int = 0, radius: int = RADIUS
) -> FeatureTracks:
    """Track points through a video.

    Args:
        frames: (frames, height, width, 3) uint8.
        points: Positions (u, v) [px] in the first frame by name.
        first: Frame of these positions; earlier ones have gaps.
        radius: Of patches [px].

    Raises:
        InputError: If there are no points, a frame is not one of the video, or a point has no texture or is too near the border.
    """
    if not points:
        raise InputError("no points to track; give some, such as --points corner=212.5,301.")
    if not 0 <= first < len(frames) - 1:
        raise InputError(
            f"the first frame is {first}; the video has {len(frames)}: choose one of 0 to {len(frames) - 2}."
        )
    image = _Frame(gray_frames(frames[first]))
    tracks = [_begin(image, name, np.array(place, float), first, radius) for name, place in points.items()]
    shape = (len(frames), len(tracks))
    result = FeatureTracks(list(points), np.full((*shape, 2), np.nan), np.full(shape, np.nan), np.full(shape, np.nan))
    for k in range(first, len(frames)):
        image = image if k == first else _Frame(gray_frames(frames[k]))
        for j, state in enumerate(tracks):
            if k == first or _advance(state, image, k, radius):
                sd = np.sqrt(state.noise + FLOOR**2) if k > first else FLOOR
                result.positions[k, j], result.sd[k, j] = state.place, sd
                result.drift[k, j] = np.sqrt(state.drift)
    return _with_roughness(_long_enough(result, first))


def _begin(image: _Frame, name: str, place: np.ndarray, frame: int, radius: int) -> _Track:
    patch = Patch.cut(image, place, radius)
    if patch is None:
        height, width = image.gray.shape
        raise InputError(
            f"`{name}` is at {place[0]:g},{place[1]:g} px; a patch of {2 * radius + 1} px around it is not in the image of "
            f"{width} × {height} px. Choose a point farther inside, or another --frame."
        )
    if patch.values.std() < TEXTURE * image.noise or match(image, patch, place, np.eye(2)) is None:
        raise InputError(
            f"`{name}` at {place[0]:g},{place[1]:g} px has no texture that fixes a point (an even surface, or an edge alone); choose a corner or a spot."
        )
    return _Track(place, frame, image, np.zeros(2), patch, np.eye(2), frame)


def _advance(state: _Track, image: _Frame, k: int, radius: int) -> bool:
    """Move a track to frame k; False where it is lost there."""
    if k - state.frame > PATIENCE:
        return False
    predicted = _flow(state.image, image, state.place, state.place + state.velocity * (k - state.frame))
    if predicted is None:
        return False
    result = match(image, state.patch, predicted, state.deformation)
    likeness = _likeness(result, state.patch, image.noise)
    if result is None or likeness < FRESH_CORRELATION or _stretch(result.deformation) > STRETCH:
        renewed = _renew(state, radius)
        fresh = renewed and match(image, renewed.patch, predicted, renewed.deformation)
        if renewed and fresh and _likeness(fresh, renewed.patch, image.noise) > likeness:
            likeness, result = _likeness(fresh, renewed.patch, image.noise), fresh
            state.patch, state.cut, state.drift = renewed.patch, renewed.cut, renewed.drift
    least = ONE_SURFACE if k - state.cut == 1 else MIN_CORRELATION
    if result is None or likeness < least or np.linalg.norm(result.place - predicted) > radius:
        return False
    if not _is_one_surface(image, state.patch, result, radius):
        return False
    state.velocity = (result.place - state.place) / (k - state.frame)
    if state.drift == 0:  # the noise of the first patch, half of what two images make
        state.drift = _variance(result) / 2
    state.noise = _variance(result) / 2
    state.place, state.frame, state.image, state.deformation = result.place, k, image, result.deformation
    return True


def _likeness(result: Match | None, patch: Patch, pixel_noise: float) -> float:
    """Correlation of a match as it would be without the noise of the pixels; 0 of none."""
    if result is None:
        return 0.0
    variance = patch.values.var()
    return min(1.0, result.correlation * variance / max(variance - pixel_noise**2, 0.25 * variance))


def _is_one_surface(image: Image, patch: Patch, result: Match, radius: int) -> bool:
    """True if the middle of the patch comes to the same place as the whole."""
    half = radius // 2
    part = slice(half, -half)
    middle = match(image, Patch(patch.values[part, part], patch.offsets[part, part]), result.place, result.deformation)
    if middle is None:
        return True  # too little texture to say
    times, least = MAX_DISAGREEMENT
    return bool(np.linalg.norm(middle.place - result.place) < times * np.sqrt(_variance(middle)) + least)


def _renew(state: _Track, radius: int) -> _Track | None:
    """The track with a patch from its last frame; None where the patch is about as new, or not in the image."""
    if state.frame - state.cut < MIN_PATCH_FRAMES:
        return None
    patch = Patch.cut(state.image, state.place, radius)
    if patch is None:
        return None
    # the place where it is cut is as wrong as the last position, and the new patch has the noise of that frame
    drift = state.drift + 2 * (state.noise + FLOOR**2)
    return replace(state, patch=patch, deformation=np.eye(2), cut=state.frame, drift=drift)


def _variance(result: Match) -> float:
    """Variance of a coordinate in the worse direction [px²]."""
    return float(np.linalg.eigvalsh(result.covariance)[-1])


def _stretch(A: np.ndarray) -> float:
    sizes = np.linalg.svd(A, compute_uv=False)
    return float(max(sizes[0], 1 / sizes[-1]))


def _flow(before: _Frame, after: _Frame, place: np.ndarray, guess: np.ndarray) -> np.ndarray | None:
    """Place in the image after, by pyramidal Lucas–Kanade there and back; None where these disagree."""
    cv2 = _opencv()
    options = {"winSize": WINDOW, "maxLevel": LEVELS, "flags": cv2.OPTFLOW_USE_INITIAL_FLOW}
    start, begin = ((x - 0.5).astype(np.float32).reshape(1, 1, 2) for x in (place, guess))
    forward, ok, _ = cv2.calcOpticalFlowPyrLK(before.gray8, after.gray8, start, begin, **options)
    if not ok.all():
        return None
    back, ok, _ = cv2.calcOpticalFlowPyrLK(after.gray8, before.gray8, forward, start.copy(), **options)
    if not ok.all() or np.linalg.norm(back - start) > MAX_RETURN_ERROR:
        return None
    return forward.reshape(2).astype(np.float64) + 0.5


def _with_roughness(tracks: FeatureTracks) -> FeatureTracks:
    """The tracks with standard deviations that are no smaller than their roughness.

    Of independent noise, differences of order n have the variance (2n)!/(n!)² of it. The median is over all differences, so that
    impacts, which disturb few of them, do not count. One factor is that of all tracks; a track that is rougher than the others has its
    own, drawn towards the common one as far as it has few differences.
    """
    differences = np.diff(tracks.positions, ORDER, axis=0) / math.sqrt(math.comb(2 * ORDER, ORDER))
    windows = np.lib.stride_tricks.sliding_window_view(tracks.sd**2, ORDER + 1, axis=0).mean(-1)
    ratios = differences / np.sqrt(windows)[..., None]
    values = ratios[np.isfinite(ratios)]
    if len(values) < FEW_DIFFERENCES:
        return tracks
    common = _factor(values)
    factors = np.full(len(tracks.names), common)
    for j in range(len(tracks.names)):
        of_track = ratios[:, j][np.isfinite(ratios[:, j])]
        if len(of_track):
            count = len(of_track)
            square = (FEW_DIFFERENCES * common**2 + count * _factor(of_track) ** 2) / (FEW_DIFFERENCES + count)
            factors[j] = max(common, math.sqrt(square))
    return replace(tracks, sd=factors * tracks.sd, drift=factors * tracks.drift)


def _factor(ratios: np.ndarray) -> float:
    """Scale of differences over what they should be, at least 1, by their median."""
    return float(np.clip(np.median(np.abs(ratios)) / 0.6745, 1.0, MAX_NOISE_RATIO))


def _long_enough(tracks: FeatureTracks, first: int) -> FeatureTracks:
    """The tracks without those of fewer than `MIN_TRACK_FRAMES` frames: such patches are no texture of one surface.

    Raises:
        InputError: If none is left.
    """
    count = tracks.tracked.sum(0)
    used = count >= min(MIN_TRACK_FRAMES, len(tracks.positions) - first)
    if not used.any():
        raise InputError(
            f"all points ({', '.join(tracks.names)}) were lost within {MIN_TRACK_FRAMES} frames after frame {first}, and a track of so few tells nothing of a "
            "motion: choose points with texture around them, on one face, that stay in view; or a smaller --radius."
        )
    lost = tuple(name for name, is_used in zip(tracks.names, used, strict=True) if not is_used)
    names = [name for name in tracks.names if name not in lost]
    return FeatureTracks(names, tracks.positions[:, used], tracks.sd[:, used], tracks.drift[:, used], lost)


def _opencv():
    return require_extra("cv2", "gradsim track", "capture")
