"""Cast shadows: pixels of the background that are darker by about one factor in all channels.

A pixel I in front of the background B is in a shadow if it is B times a brightness a:

    a = I·B / |B|²,    MIN_BRIGHTNESS ≤ a < 1,    |I − a B| < tint

(in `shadow_shares` a < MAX_BRIGHTNESS), both smoothed over 3 × 3 pixels. The tint follows from pixels that show background, since codecs bring chroma late into a shadow.

T. Horprasert et al., A statistical approach for real-time robust background subtraction and shadow detection, ICCV Frame-Rate Workshop 1999.
A. Prati et al., Detecting moving shadows, PAMI 25 (2003).
"""

from collections.abc import Sequence

import numpy as np

from gradsim.video.connected_regions import box_of

MIN_BRIGHTNESS = 0.5  # brightness of a shadow over that of the background
MAX_BRIGHTNESS = 0.95  # of one that a mask holds: edges of bodies and noise are brighter
TINT = 0.03  # of a shadow, at least: the light of the sky is bluer than that of the sun
TAIL, TAIL_FACTOR = 0.99, 2.0  # a tint up to this factor times this quantile of the background's is that of a shadow
# difference of channels of a background: in front of a gray one any darker body is like a shadow
LEAST_CHROMA = 2 / 255
MARGIN, EDGE = 16, 3  # [px] about a mask in which the background tells tints, and next to it, where it does not
# [px] of a square that fits into a shadow: edges of dark bodies, a mean of body and background, are narrower
NARROWEST_SHADOW = 5


def smoothed(image: np.ndarray) -> np.ndarray:
    """Means over 3 × 3 pixels of an image (height, width, 3)."""
    from scipy import ndimage

    return ndimage.uniform_filter(image, (3, 3, 0))  # pyright: ignore[reportArgumentType] -- one size for each axis


def brightness_and_tint(frame: np.ndarray, behind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a and |I − a B| (height, width) of a frame (height, width, 3) uint8 before its smoothed background in [0, 1]."""
    image = smoothed(frame / 255)
    brightness = (image * behind).sum(-1) / np.maximum((behind**2).sum(-1), 1e-6)
    return brightness, np.linalg.norm(image - brightness[..., None] * behind, axis=-1)


def tint_limit(static: np.ndarray) -> float:
    """Tint below which a pixel may be in a shadow, by tints (n,) of pixels that show background."""
    return max(TINT, TAIL_FACTOR * float(np.quantile(static, TAIL))) if static.size else TINT


def shadow_shares(
    frames: Sequence[np.ndarray] | np.ndarray, backgrounds: Sequence[np.ndarray], masks: np.ndarray
) -> np.ndarray:
    """Share (T,) of each mask that looks like a cast shadow; 0 of an empty one, and in front of a background without colors.

    Args:
        frames: T of them, (height, width, 3) uint8.
        backgrounds: Those of frames (height, width, 3) in [0, 1].
        masks: (T, height, width) bool.
    """
    from scipy import ndimage

    parts, static = [], []
    for frame, behind, mask in zip(frames, backgrounds, masks, strict=True):
        box = box_of(mask, MARGIN) if mask.any() else None
        if box is None or not _has_colors(behind[box]):
            parts.append((mask[:0], np.empty((0, mask.shape[1])), 0))
            continue
        brightness, tint = brightness_and_tint(frame[box], smoothed(behind[box]))
        tint = tint.astype(np.float32)  # of all frames at once
        dark = mask[box] & (brightness >= MIN_BRIGHTNESS) & (brightness < MAX_BRIGHTNESS)
        parts.append((dark, tint, int(mask.sum())))
        near = np.asarray(ndimage.binary_dilation(mask[box], iterations=EDGE), bool)
        static.append(tint[~near])
    limit = tint_limit(np.concatenate(static) if static else np.empty(0))
    square = np.ones((NARROWEST_SHADOW, NARROWEST_SHADOW), bool)
    return np.array(
        [ndimage.binary_opening(dark & (tint < limit), square).sum() / max(1, n) for dark, tint, n in parts]
    )


def _has_colors(image: np.ndarray) -> bool:
    return float(np.quantile(np.ptp(image, axis=-1), TAIL)) > LEAST_CHROMA
