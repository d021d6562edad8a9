"""Noise of a static camera before its background, and what differs from the background by more.

σ = max(q₀.₅ / 0.67, q₀.₉ / 1.64)      quantiles of |I − B| over channels and pixels without bodies
d = |I − B| / (√3 σ)                   of a pixel; bodies are regions with d > 4 that have pixels with d > 8
"""

from statistics import NormalDist

import numpy as np

from gradsim.errors import InputError
from gradsim.video.connected_regions import box_of, connected_regions, grown
from gradsim.video.masks import LUMA

UPPER_THRESHOLD, LOWER_THRESHOLD = 8.0, 4.0  # [σ] upper and lower threshold of the hysteresis
LEVEL = 1 / 255  # grey level
QUANTIZATION_NOISE = LEVEL / 12**0.5  # quantization noise of 8 bits
# Noise by which bodies are detected in films of a lossy codec, at least. It leaves most pixels as they were in the frame before, so that the noise of
# all is small, and changes blocks by some levels: of nine films (x264, crf 18 to 28, noise of 1 to 4 levels) eight were refused without it
CODEC_NOISE = 2 * LEVEL
MAX_SHAKE = 0.25  # [px] apparent motion of a static camera
# [px] by which chroma of half the resolution may be off luma, in all frames alike: at the first of the pixels that it covers, or between them
CHROMA_OFFSET = 0.5
FIRST_FRAMES = 3  # whose median tells it: one alone may be jolted
MIN_EDGES = 0.02  # share of the background's pixels with edges, from which a motion of the camera is visible
SATURATION = 2.5 * LEVEL  # from black or white, within which noise is cut off
MAX_NOISE = 0.04  # of a channel of a camera; more is a body
MIN_UNSATURATED = 0.02  # share of the background's channels that tell the noise
# Frames, spread over the video, that tell what differs most: of 27 films in H.264 (crf 18 to 33) the lower noise is that of all 48 frames to 5 %, and
# masks overlap with what is there as well, to 0.011
SAMPLED_FRAMES = 16
SAMPLED_PIXELS = 300_000  # pixels of the video that tell noise and shake: a quantile to some 0.2 %


def noise_and_bodies(frames: np.ndarray, B: np.ndarray, lossy: bool = False) -> tuple[float, np.ndarray]:
    """Noise of a channel, and pixels (T, height, width) that differ from the background by more.

    Args:
        frames: (T, height, width, 3) uint8.
        B: Background (height, width, 3) in [0, 1].
        lossy: True for frames of a lossy codec, with chroma at half the resolution: bodies are detected by a noise of `CODEC_NOISE` or
            more then, or of a part of what differs most, if that is less, and motions of the camera by luma.

    Raises:
        InputError: If the camera moves.
    """
    pixels, behind = frames[..., 0].size, (255 * B).astype(np.float32)
    sample = np.arange(0, pixels, max(1, pixels // SAMPLED_PIXELS))
    values, backgrounds = frames.reshape(-1, 3)[sample] / 255, B.reshape(-1, 3)[sample % B[..., 0].size]
    difference = _unsaturated(values, backgrounds)
    noise = _scale(difference, 0.75)  # assumes that bodies cover less than a quarter of the video
    if noise > MAX_NOISE:  # of what is neither black nor white they cover more
        noise = _scale(values - backgrounds, 0.75)
    bodies, least = np.zeros(frames.shape[:3], bool), 0.0
    if lossy:  # a body that differs by little is still to be seen
        spread = np.unique(np.linspace(0, len(frames) - 1, SAMPLED_FRAMES).round().astype(int))
        largest = np.median([_largest(_distance(frames[k], behind)) for k in spread])
        least = min(CODEC_NOISE, float(largest) / (2 * UPPER_THRESHOLD))
    for _ in range(2):  # the second time without the bodies
        relative = max(noise, least)
        for frame, body in zip(frames, bodies, strict=True):
            body[:] = _hysteresis(_distance(frame, behind) / relative)
        static = ~grown(bodies).reshape(-1)[sample]
        if np.isfinite(difference[static]).any():
            noise = _scale(difference[static], 0.9)
    _check_camera(frames, B, relative, lossy)
    return noise, bodies


def noise_without(frames: np.ndarray, B: np.ndarray, bodies: np.ndarray, subsampled: bool = False) -> float:
    """Noise of a channel where no body is, of a camera that does not move.

    Args:
        frames: (T, height, width, 3) uint8.
        B: Background (height, width, 3) in [0, 1].
        bodies: (T, height, width) bool.
        subsampled: True for a codec with chroma at half the resolution: motions of the camera are detected by luma.

    Raises:
        InputError: If the camera moves.
    """
    step, count, differences, backgrounds = max(1, bodies.size // SAMPLED_PIXELS), 0, [], []
    for frame, near in zip(frames, map(grown, bodies), strict=True):
        static = np.flatnonzero(~near)
        sample = static[-count % step :: step]
        count += len(static)
        differences.append(frame.reshape(-1, 3)[sample] / 255)
        backgrounds.append(B.reshape(-1, 3)[sample])
    noise = _scale(_unsaturated(np.concatenate(differences), np.concatenate(backgrounds)), 0.9)
    _check_camera(frames, B, noise, subsampled)
    return noise


def _largest(distance: np.ndarray) -> float:
    """Largest mean over 3 × 3 pixels of an image (height, width)."""
    from scipy import ndimage

    return float(ndimage.uniform_filter(distance, 3).max())


def _distance(frame: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """Root mean square (…) over the channels of pixels (…, 3) of their differences from the background in levels, in [0, 1]."""
    levels = frame - behind
    return np.sqrt(np.einsum("...c,...c->...", levels, levels) / 3) / 255


def _unsaturated(values: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """Differences of values (n, 3) from the background behind them; NaN where that is black or white, and hides noise.

    All of them are left where the background has hardly anything else.
    """
    difference = values - behind
    saturated = (behind < SATURATION) | (behind > 1 - SATURATION)
    return difference if saturated.mean() > 1 - MIN_UNSATURATED else np.where(saturated, np.nan, difference)


def _scale(difference: np.ndarray, quantile: float) -> float:
    """Standard deviation from quantiles of magnitudes, the larger of two: compression leaves most pixels as they were."""
    size = np.abs(difference[np.isfinite(difference)])
    scales = [float(np.quantile(size, q)) / NormalDist().inv_cdf((1 + q) / 2) for q in (0.5, quantile)]
    return max(*scales, QUANTIZATION_NOISE)


def _hysteresis(size: np.ndarray) -> np.ndarray:
    """Regions above the lower threshold that contain pixels above the upper one, holes filled."""
    from scipy import ndimage

    labels, _ = connected_regions(size > LOWER_THRESHOLD)
    strong = size > UPPER_THRESHOLD
    # a single strong pixel is a defect of the sensor
    often = np.bincount(labels[strong], minlength=labels.max() + 1) >= 4
    often[0] = False
    body = often[labels]
    if body.any():
        box = box_of(body)
        body[box] = ndimage.binary_fill_holes(body[box])
    return body


def _check_camera(frames: np.ndarray, B: np.ndarray, noise: float, subsampled: bool) -> None:
    """Refuse a moving camera, which shifts the whole background: I − B = −d·∇B, one d [px] per frame.

    Chroma of half the resolution is shifted by up to half a pixel against an image of the empty scene, so luma tells d. In front of a background without edges in luma all
    channels do, and up to half a pixel that the first frames are shifted by are no motion.
    """
    of_luma = subsampled and _edges(_luma(B)).mean() >= MIN_EDGES
    if of_luma:
        B = _luma(B)
    textured = _edges(B)
    if textured.mean() < MIN_EDGES:
        return  # a motion of the camera is invisible, and harmless, on a flat background
    rows, columns = np.nonzero(textured)
    step = max(1, len(rows) * len(frames) // SAMPLED_PIXELS)
    rows, columns = rows[::step], columns[::step]
    slope, behind = _slope(B)[rows, columns].reshape(-1, 2), B[rows, columns]
    levels, vectors = (255 * behind).astype(np.float32), []
    for frame in frames:
        pixels = frame[rows, columns]
        pixels = _luma(pixels) if of_luma else pixels
        size = _distance(pixels, levels)
        weight = 1 / (1 + (size / (3 * noise)) ** 2)  # robust against bodies in front
        weighted = slope * np.repeat(weight, 3)[:, None]
        difference = (pixels / 255 - behind).reshape(-1)
        vectors.append(np.linalg.lstsq(weighted.T @ slope, -weighted.T @ difference)[0])
    offset = np.zeros(2)
    if subsampled and not of_luma:
        offset = np.clip(np.median(vectors[:FIRST_FRAMES], axis=0), -CHROMA_OFFSET, CHROMA_OFFSET)
    shifts = np.linalg.norm(vectors - offset, axis=1)
    worst = int(np.argmax(shifts))
    # a body that covers much of a frame may look like a shift of that frame; a moving camera shifts many
    if np.mean(shifts > MAX_SHAKE) > 0.2:
        raise InputError(
            f"the camera moves: frame {worst} is shifted by about {np.linalg.norm(vectors[worst]):.1f} px against the background; "
            "background subtraction needs a static camera. Stabilize the video, or give a mask video (--mask)."
        )


def _luma(values: np.ndarray) -> np.ndarray:
    """Luma of values (…, 3), in each of three channels."""
    return np.repeat((values @ LUMA)[..., None], 3, -1)


def _slope(B: np.ndarray) -> np.ndarray:
    """∇B [1/px] of an image (height, width, 3), along columns and rows: (height, width, 3, 2)."""
    return np.stack([np.gradient(B, axis=axis) for axis in (1, 0)], -1)


def _edges(B: np.ndarray) -> np.ndarray:
    """Pixels of an image (height, width, 3) that differ from their neighbors."""
    return (_slope(B) ** 2).sum((2, 3)) ** 0.5 > 4 * LEVEL
