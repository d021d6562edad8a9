"""Background subtraction: soft masks, with their noise, in front of a static textured background.

    I = α F + (1 − α) B   ⇒   α = (I − B)·(F − B) / |F − B|²,      standard deviation σ / |F − B|

per pixel, so a pixel holds less information the closer its background is to the body's color, and none where they are
equal. B is an image of the empty scene, or the median over time. F is the body's color where it is known. Otherwise the
body is the connected region that differs from B (hysteresis threshold), and F of a pixel at its edge is the color a few
pixels further inside. σ is estimated from I − B outside of the body.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from gradsim.errors import InputError

STRONG, WEAK = 8.0, 4.0  # [σ] upper and lower threshold of the hysteresis
LEVEL = 1 / 255  # grey level
QUANTIZED = LEVEL / 12**0.5  # quantization noise of 8 bits
MAX_SHAKE = 0.25  # [px] apparent motion of a static camera
MAX_COVERED = 0.4  # fraction of the frames in which a body may cover a pixel, for the median to be the background
MIN_SOLIDITY = 0.6  # fraction of its convex hull that a body fills; the median cuts holes into one that hardly moves
CORE = 2  # [px] inside the edge, where pixels have the body's color


@dataclass(frozen=True, eq=False)
class Subtraction:
    """Masks with their noise.

    Attributes:
        masks: Coverage (T, height, width), not clipped, so that the noise has mean 0.
        sigma: Standard deviation of a mask pixel of median contrast.
        weight: (T, height, width) of each squared residual: (contrast / median contrast)², 0 without contrast.
        background: (height, width, 3) in [0, 1].
        noise: Standard deviation of a channel of the video, in [0, 1].
    """

    masks: np.ndarray
    sigma: float
    weight: np.ndarray
    background: np.ndarray
    noise: float


def subtract_background(
    frames: np.ndarray, background: np.ndarray | None = None, color: Sequence[float] | np.ndarray | None = None
) -> Subtraction:
    """Masks of moving bodies in front of a static background.

    Args:
        frames: (T, height, width, 3) uint8.
        background: (height, width, 3) in [0, 1], of the empty scene; None: the median over time.
        color: RGB in [0, 1] of a flat body; None: everything that differs from the background.

    Raises:
        InputError: If the camera moves, nothing differs from the background, the body has the background's color, or
            it covers a pixel in too many frames for the median.
    """
    median = background is None
    B = np.median(frames, axis=0) / 255 if background is None else background
    if B.shape != frames.shape[1:]:
        raise InputError(
            f"the background is {B.shape[1]} × {B.shape[0]} px, the video {frames.shape[2]} × {frames.shape[1]}; give a "
            "background of the video's size (--background)."
        )
    noise, bodies = _noise_and_bodies(frames, B)
    if not bodies.any():
        raise InputError(
            f"nothing in the video differs from the background by more than {STRONG:g} times the noise of {noise:.2g}: "
            "the body is not visible, or it never moves and is part of the median. Give an image of the empty scene "
            "(--background FILE)."
        )
    if median:
        _check_median(frames, B, bodies)
        # where a body passed, the median of all frames is biased towards its color
        B = np.nanmedian(np.where(_near(bodies)[..., None], np.nan, frames), axis=0) / 255
        noise, bodies = _noise_and_bodies(frames, B)
    difference = frames / 255 - B
    F = _inner_colors(frames, bodies) if color is None else np.asarray(color, np.float64)
    contrast = ((F - B) ** 2).sum(-1)  # squared
    usable = contrast > (4 * noise) ** 2
    if color is not None and not np.broadcast_to(usable, bodies.shape)[bodies].mean() > 0.5:
        raise InputError(
            f"more than half of the background behind the body has the body's colour {_rounded(color)}; give a mask "
            "video (--mask)."
        )
    masks = np.where(usable, (difference * (F - B)).sum(-1) / np.where(usable, contrast, 1), 0.0)
    near, core = _near(bodies), _core(bodies) & np.broadcast_to(usable, bodies.shape)
    if color is not None and core.any() and abs(np.median(masks[core]) - 1) > 0.2:
        raise InputError(
            f"the moving body is not of the colour {_rounded(color)}: inside it the coverage is "
            f"{np.median(masks[core]):.2f}, not 1. Correct `colour` of the bodies, or remove it from the scene."
        )
    median_contrast = float(
        np.median(np.broadcast_to(contrast, masks.shape)[near & np.broadcast_to(usable, masks.shape)])
    )
    weight = np.broadcast_to(np.where(usable, contrast / median_contrast, 0.0), masks.shape).copy()
    if color is None:
        masks, weight = np.where(near, masks, 0.0), np.where(near, weight, 1.0)
    # the median of T frames has a variance of π/(2 T) of theirs
    median_factor = (1 + np.pi / (2 * len(frames))) ** 0.5 if median else 1.0
    return Subtraction(masks, noise * median_factor / median_contrast**0.5, weight, B, noise)


def read_background(path: str | Path) -> np.ndarray:
    """Read a background (height, width, 3) in [0, 1]: an image, or the median of a video of the empty scene.

    Raises:
        InputError: If the file is missing or cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    from gradsim.video.read import read

    path = Path(path)
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        return np.median(read(path, fps=1.0).frames, axis=0) / 255
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB")) / 255
    except FileNotFoundError:
        raise InputError(
            f"the background {path} does not exist; give an image or a video of the empty scene, or `median` "
            "(--background)."
        ) from None
    except (OSError, SyntaxError, UnidentifiedImageError) as error:
        raise InputError(f"{path} cannot be read as an image ({error}); save it again.") from error


def _rounded(color: Sequence[float] | np.ndarray) -> list[float]:
    return [round(float(c), 3) for c in color]


def _noise_and_bodies(frames: np.ndarray, B: np.ndarray) -> tuple[float, np.ndarray]:
    """Noise of a channel, and pixels (T, height, width) that differ from the background by more."""
    difference = frames / 255 - B
    noise = _scale(difference, 0.75)  # assumes that bodies cover less than a quarter of the video
    for _ in range(2):  # the second time without the bodies
        size = np.sqrt((difference**2).mean(-1)) / noise  # 1 for noise
        bodies = np.stack([_hysteresis(s) for s in size])
        static = ~_near(bodies)
        if static.any():
            noise = _scale(difference[static], 0.9)
    _check_camera(B, difference, size)
    return noise, bodies


def _scale(difference: np.ndarray, quantile: float) -> float:
    """Standard deviation from quantiles of magnitudes, the larger of two: compression leaves most pixels as they were."""
    size = np.abs(difference)
    scales = [float(np.quantile(size, q)) / NormalDist().inv_cdf((1 + q) / 2) for q in (0.5, quantile)]
    return max(*scales, QUANTIZED)


def _hysteresis(size: np.ndarray) -> np.ndarray:
    """Regions above the lower threshold that contain pixels above the upper one, holes filled."""
    from scipy import ndimage

    square = np.ones((3, 3), bool)
    labels, _ = ndimage.label(size > WEAK, square)
    strong = size > STRONG
    # a single strong pixel is a defect of the sensor
    regions = np.flatnonzero(np.bincount(labels[strong], minlength=labels.max() + 1) >= 4)
    return ndimage.binary_fill_holes(np.isin(labels, regions[regions > 0]))


def _inner_colors(frames: np.ndarray, bodies: np.ndarray) -> np.ndarray:
    """Color of the nearest pixel inside the body (T, height, width, 3), smoothed.

    A frame without pixels deep enough inside takes the median color over all frames.
    """
    from scipy import ndimage

    cores = _core(bodies)
    median_color = np.median(frames[cores if cores.any() else bodies], axis=0) / 255
    colors = np.empty(frames.shape)
    for image, core, color in zip(frames / 255, cores, colors, strict=True):
        if not core.any():
            color[:] = median_color
            continue
        fraction = np.maximum(ndimage.uniform_filter(core.astype(float), 3), 1e-9)
        smooth = np.stack([ndimage.uniform_filter(image[..., c] * core, 3) / fraction for c in range(3)], -1)
        row, column = ndimage.distance_transform_edt(~core, return_distances=False, return_indices=True)
        color[:] = smooth[row, column]
    return colors


def _core(bodies: np.ndarray) -> np.ndarray:
    """Pixels inside a body, away from its edge and from the border of the image."""
    from scipy import ndimage

    return np.stack([ndimage.binary_erosion(b, np.ones((3, 3), bool), CORE) for b in bodies])


def _near(bodies: np.ndarray) -> np.ndarray:
    """Bodies dilated by one pixel, which the edge may cover in part."""
    from scipy import ndimage

    return ndimage.binary_dilation(bodies, np.ones((1, 3, 3), bool))


def _check_camera(B: np.ndarray, difference: np.ndarray, size: np.ndarray) -> None:
    """Refuse a moving camera, which shifts the whole background: I − B = −d·∇B, one d [px] per frame."""
    slope = np.stack([np.gradient(B, axis=axis) for axis in (1, 0)], -1)  # (height, width, 3, 2)
    textured = (slope**2).sum((2, 3)) ** 0.5 > 4 * LEVEL
    if textured.mean() < 0.02:
        return  # a motion of the camera is invisible, and harmless, on a flat background
    shifts = []
    for d, s in zip(difference, size, strict=True):
        weight = textured / (1 + (s / 3) ** 2)  # robust against bodies in front
        A = np.einsum("ij,ijca,ijcb->ab", weight, slope, slope)
        shifts.append(np.linalg.norm(np.linalg.lstsq(A, -np.einsum("ij,ijca,ijc->a", weight, slope, d))[0]))
    worst = int(np.argmax(shifts))
    # a body that covers much of a frame may look like a shift of that frame; a moving camera shifts many
    if np.mean(np.array(shifts) > MAX_SHAKE) > 0.2:
        raise InputError(
            f"the camera moves: frame {worst} is shifted by about {shifts[worst]:.1f} px against the background; "
            "background subtraction needs a static camera. Stabilize the video, or give a mask video (--mask)."
        )


def _check_median(frames: np.ndarray, B: np.ndarray, bodies: np.ndarray) -> None:
    """Refuse a median that shows the body, as it does where the body covers a pixel in half of the frames or more.

    While the body is there, only its edges differ; after it has left, its image in the median does, as a ghost, whose
    outline is in B and not in the frame.
    """
    covered, solidity = bodies.mean(0).max(), _solidity(bodies)
    ghosts = np.mean([_is_ghost(frame, B, body) for frame, body in zip(frames, bodies, strict=True) if body.any()])
    if ghosts > 0.1:
        why = f"in {ghosts:.0%} of the frames the median shows a body that is not there"
    elif covered > MAX_COVERED:
        why = f"a body covers a pixel in {covered:.0%} of the frames"
    elif solidity < MIN_SOLIDITY:
        why = f"the moving region fills only {solidity:.0%} of its convex hull, as for a body that hardly moves"
    else:
        return
    raise InputError(
        f"the median of this video is not the background: {why}. It shows a body that covers a pixel for half of the "
        "video. Give an image of the empty scene (--background FILE)."
    )


def _solidity(bodies: np.ndarray) -> float:
    """Fraction of its convex hull that a body fills, the median over frames."""
    from scipy.spatial import ConvexHull

    fractions = []
    for body in bodies:
        rows, columns = np.nonzero(body)
        if len(rows) >= 12:
            corners = np.concatenate([np.stack([rows + i, columns + j], 1) for i in (0, 1) for j in (0, 1)])
            fractions.append(len(rows) / ConvexHull(corners).volume)
    return float(np.median(fractions)) if fractions else 1.0


def _is_ghost(frame: np.ndarray, B: np.ndarray, body: np.ndarray) -> bool:
    """True if a region of the difference has its outline in the background rather than in the frame."""
    from scipy import ndimage

    labels, count = ndimage.label(body, np.ones((3, 3), bool))
    wide = ndimage.grey_dilation(labels, (3, 3))
    ring = np.where(ndimage.grey_erosion(labels, (3, 3)) != wide, wide, 0)
    edges = [sum(g**2 for g in np.gradient(image, axis=(0, 1))).sum(-1) ** 0.5 for image in (frame / 255, B)]
    front, behind = (ndimage.mean(edge, ring, np.arange(1, count + 1)) for edge in edges)
    return bool((np.asarray(behind) > np.asarray(front)).any())
