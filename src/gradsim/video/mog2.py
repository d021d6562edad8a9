"""Background as a mixture of Gaussians per pixel (OpenCV's MOG2), with shadows apart from bodies.

Unlike the median, a pixel may have several background colors (leaves, a lamp that flickers, blocks of a codec), each with its
variance. A pixel that is the background times a brightness is in a shadow, and not of a body (`gradsim.video.shadows`). OpenCV's own rule has the variance of the pixel
in place of the tint. Most pixels of a compressed video stay as they were, so it is far too small for chroma, which comes late into a shadow. The tint follows from all pixels
that show background.

Z. Zivkovic, Improved adaptive Gaussian mixture model for background subtraction, ICPR 2004.
"""

import numpy as np

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra
from gradsim.video.connected_regions import connected_regions, label_regions, remove_flashes
from gradsim.video.shadows import MIN_BRIGHTNESS, brightness_and_tint, smoothed, tint_limit

BACKGROUND = 0.6  # share of the frames in which a pixel shows background: a body covers it in fewer than 0.4
PASSES = 3  # over the video, in random order: a single one in time would begin with the body as background
VARIANCE = 36.0  # [grey level²] of a Gaussian, at least: of what a codec changes while it writes h264 at crf 23
THRESHOLD = 16.0  # squared distance from a Gaussian, in variances, up to which a pixel belongs to it
# Of the median contrast of the bodies, below which a pixel is a trace that a codec leaves around them
MIN_CONTRAST_SHARE = 0.25
# share of a body that is background, and quantile over frames: ≤ 0.07 of 15 clips whose bodies move on, 0.3 to 16 of 12 whose
# bodies rest, slide from rest or hang on a joint (the clips of `gradsim reproduce clips`)
MAX_HIDDEN_SHARE, HIDDEN_QUANTILE = 0.15, 0.9
MIN_REGION_AREA = 4  # [px²] of a region: smaller ones are defects of the sensor
MIN_REGION_SHARE = 0.1  # of the largest region of a frame, below which one is not a body


def mixture_background(frames: np.ndarray, shadows: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Background and moving bodies of a video of a static camera.

    Args:
        frames: (T, height, width, 3) uint8.
        shadows: Whether pixels in a shadow are left out. A body that is a darker shade of the background behind it is a shadow
            then.

    Returns:
        Background (height, width, 3) in [0, 1], and bodies (T, height, width) bool: without regions of one frame alone, holes
        filled.

    Raises:
        InputError: If OpenCV is not installed, nothing moves, or bodies rest so long that they are background in part.
    """
    cv2 = require_extra("cv2", "the background `mog2`", "masks")
    model = cv2.createBackgroundSubtractorMOG2(PASSES * len(frames), THRESHOLD, False)
    model.setBackgroundRatio(BACKGROUND)
    model.setVarMin(VARIANCE)
    model.setVarInit(VARIANCE)
    model.setVarMax(4 * VARIANCE)
    rng, count = np.random.default_rng(0), 0
    for _ in range(PASSES):
        for k in rng.permutation(len(frames)):
            count += 1
            model.apply(np.ascontiguousarray(frames[k]), learningRate=1 / count)
    front, contrast = np.empty(frames.shape[:3], bool), np.empty(frames.shape[:3], np.float32)
    for frame, mask in zip(frames, front, strict=True):
        mask[:] = model.apply(np.ascontiguousarray(frame), learningRate=0) > 0
    background = model.getBackgroundImage() / 255
    shade = _shadows(frames, background, front) if shadows else np.zeros_like(front)
    for frame, size in zip(frames, contrast, strict=True):
        size[:] = np.linalg.norm(frame / 255 - background, axis=-1)
    raw = front & ~shade
    clear = contrast > MIN_CONTRAST_SHARE * (np.median(contrast[raw]) if raw.any() else np.inf)
    bodies = remove_flashes(np.stack([clean_region(mask) for mask in raw & clear]))
    if not bodies.any():
        raise InputError(
            "nothing moves in the video by its mixture of Gaussians"
            + (", but shadows: the body may be a darker shade of its background" if (shade & front).any() else "")
            + ". Give an image of the empty scene (--background FILE), or start from a rectangle (--mask grabcut:X,Y,W,H)."
        )
    _check_hidden(bodies, clear & ~front & ~shade)
    return background, bodies


def clean_region(body: np.ndarray) -> np.ndarray:
    """Mask (height, width) of the large regions of a noisy one: a majority of 3 × 3 pixels, holes filled."""
    from scipy import ndimage

    smooth = np.asarray(ndimage.binary_fill_holes(ndimage.uniform_filter(body.astype(np.float32), 3) > 0.5))
    labels, regions = label_regions(smooth)
    large = [r.label for r in regions if r.area >= max(MIN_REGION_AREA, MIN_REGION_SHARE * regions[0].area)]
    return np.isin(labels, large)


def _check_hidden(bodies: np.ndarray, second: np.ndarray) -> None:
    """Refuse bodies that go on into pixels of a second background color, as where a body rests, or moves little.

    Args:
        bodies: (T, height, width) bool.
        second: Pixels that are background of another than the most frequent color (T, height, width).
    """

    shares = []
    for body, other in zip(bodies, second, strict=True):
        labels, _ = connected_regions(body | other)
        connected = np.isin(labels, np.unique(labels[body])) & other
        shares.append(connected.sum() / max(1, body.sum()))
    if (share := float(np.quantile(shares, HIDDEN_QUANTILE))) > MAX_HIDDEN_SHARE:
        raise InputError(
            f"the mixture of Gaussians of this video is not the background: bodies go on into pixels, {share:.0%} of their area, that "
            "have the same color in many frames. A body rests, or moves little. Give an image of the empty scene (--background "
            "FILE), or start from a rectangle (--mask grabcut:X,Y,W,H)."
        )


def _shadows(frames: np.ndarray, background: np.ndarray, front: np.ndarray) -> np.ndarray:
    """Pixels (T, height, width) that are the background but darker; see `gradsim.video.shadows`."""
    behind, dark, tint = smoothed(background), np.zeros(front.shape, bool), np.zeros(front.shape, np.float32)
    for frame, darker, distance in zip(frames, dark, tint, strict=True):
        brightness, distance[:] = brightness_and_tint(frame, behind)
        darker[:] = (brightness >= MIN_BRIGHTNESS) & (brightness < 1)
    return dark & (tint < tint_limit(tint[~front]))
