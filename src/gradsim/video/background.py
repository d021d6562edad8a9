"""Masks by background subtraction: what covers a still, textured background, and how noisy that is.

    I = α F + (1 − α) B   ⇒   α = (I − B)·(F − B) / |F − B|²,      standard deviation σ / |F − B|

pixel by pixel, so that a pixel whose background is like the body tells less, and one whose background is the body's
colour nothing. B is a picture of the empty scene, or the median over the film. F is the body's colour where it is known.
Otherwise the body is what differs clearly from B and hangs together (hysteresis), and F of a pixel at its edge is the
colour a little further inside.

σ comes from the film itself: the scatter of I − B where nothing moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.errors import InputError

STRONG, WEAK = 8.0, 4.0  # [σ] difference that makes a body, and that still belongs to one
LEVEL = 1 / 255  # grey level
QUANTISED = LEVEL / 12**0.5  # noise that 8 bits leave at least
SHAKE = 0.25  # [px] by which a still camera may seem to move
ROOM = 0.4  # share of the frames in which a body may cover a pixel for the median to be believed
SOLID = 0.6  # share of its own hull that a body fills at least; the median eats holes into one that stays
CORE = 2  # [px] inside the edge, where a body's own colour is seen


@dataclass(frozen=True, eq=False)
class Subtraction:
    """Masks with their noise.

    Attributes:
        masks: Coverage (T, height, width), not clipped: noise keeps its mean of 0.
        sigma: Standard deviation of a mask pixel of the usual contrast.
        weight: (T, height, width) of each squared residual: (contrast / usual contrast)², 0 where there is none.
        background: (height, width, 3) in [0, 1].
        noise: Standard deviation of a channel of the film, of 1.
    """

    masks: np.ndarray
    sigma: float
    weight: np.ndarray
    background: np.ndarray
    noise: float


def subtract(
    frames: np.ndarray, background: np.ndarray | None = None, colour: Sequence[float] | np.ndarray | None = None
) -> Subtraction:
    """Masks of what moves in front of a still background.

    Args:
        frames: (T, height, width, 3) uint8.
        background: (height, width, 3) in [0, 1], of the empty scene; None: the median over time.
        colour: RGB in [0, 1] of a flat body; None: whatever differs from the background.

    Raises:
        InputError: If the camera moves, nothing differs from the background, the body has its colour, or it covers
            some pixels for too long for the median.
    """
    median = background is None
    B = np.median(frames, axis=0) / 255 if background is None else background
    if B.shape != frames.shape[1:]:
        raise InputError(
            f"the background is {B.shape[1]} × {B.shape[0]} px, the film {frames.shape[2]} × {frames.shape[1]}; make "
            "them equal."
        )
    noise, bodies = _different(frames, B)
    if not bodies.any():
        raise InputError(
            f"nothing in the film differs from the background by more than {STRONG:g} times the noise of {noise:.2g}; "
            "the body never shows, or the median has taken it in because it never moves: give a picture of the empty "
            "scene (--background FILE)."
        )
    if median:
        _check_median(frames, B, bodies)
        # where a body passed, the median of all frames leans to its colour
        B = np.nanmedian(np.where(_near(bodies)[..., None], np.nan, frames), axis=0) / 255
        noise, bodies = _different(frames, B)
    difference = frames / 255 - B
    F = _inner_colours(frames, bodies) if colour is None else np.asarray(colour, np.float64)
    contrast = ((F - B) ** 2).sum(-1)  # squared
    usable = contrast > (4 * noise) ** 2
    if colour is not None and not np.broadcast_to(usable, bodies.shape)[bodies].mean() > 0.5:
        raise InputError(
            f"the background has the body's colour {_rounded(colour)} behind more than half of it; give a mask video "
            "(--mask)."
        )
    masks = np.where(usable, (difference * (F - B)).sum(-1) / np.where(usable, contrast, 1), 0.0)
    near, core = _near(bodies), _core(bodies) & np.broadcast_to(usable, bodies.shape)
    if colour is not None and core.any() and abs(np.median(masks[core]) - 1) > 0.2:
        raise InputError(
            f"what moves is not of the colour {_rounded(colour)}: inside it the coverage is {np.median(masks[core]):.2f}, "
            "not 1. Set the bodies' `colour`, or leave it out of the scene."
        )
    usual = float(np.median(np.broadcast_to(contrast, masks.shape)[near & np.broadcast_to(usable, masks.shape)]))
    weight = np.broadcast_to(np.where(usable, contrast / usual, 0.0), masks.shape).copy()
    if colour is None:
        masks, weight = np.where(near, masks, 0.0), np.where(near, weight, 1.0)
    # the median of T frames has a variance of π/(2 T) of theirs
    own = (1 + np.pi / (2 * len(frames))) ** 0.5 if median else 1.0
    return Subtraction(masks, noise * own / usual**0.5, weight, B, noise)


def picture(path: str | Path) -> np.ndarray:
    """A background (height, width, 3) in [0, 1] from a png or jpg, or from a film of the empty scene: its median.

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
        raise InputError(f"there is no background {path}; give a picture or a film, or `median`.") from None
    except (OSError, SyntaxError, UnidentifiedImageError) as error:
        raise InputError(f"{path} cannot be read as a picture ({error}); save it again.") from error


def _rounded(colour: Sequence[float] | np.ndarray) -> list[float]:
    return [round(float(c), 3) for c in colour]


def _different(frames: np.ndarray, B: np.ndarray) -> tuple[float, np.ndarray]:
    """The noise of a channel, and the pixels (T, height, width) that differ from the background by more."""
    difference = frames / 255 - B
    noise = max(1.4826 * float(np.median(np.abs(difference))), QUANTISED)  # of a Gaussian; half of a film is still
    for _ in range(2):  # once more without the bodies
        size = np.sqrt((difference**2).mean(-1)) / noise  # 1 for noise
        bodies = np.stack([_hysteresis(s) for s in size])
        still = ~_near(bodies)
        if still.any():
            noise = max(1.4826 * float(np.median(np.abs(difference[still]))), QUANTISED)
    _check_camera(B, difference, size)
    return noise, bodies


def _hysteresis(size: np.ndarray) -> np.ndarray:
    """What is weakly different and hangs together with something strongly different, holes filled."""
    from scipy import ndimage

    square = np.ones((3, 3), bool)
    labels, _ = ndimage.label(size > WEAK, square)
    strong = size > STRONG
    # one strong pixel is a defect; a body has some together
    kept = np.flatnonzero(np.bincount(labels[strong], minlength=labels.max() + 1) >= 4)
    return ndimage.binary_fill_holes(np.isin(labels, kept[kept > 0]))


def _inner_colours(frames: np.ndarray, bodies: np.ndarray) -> np.ndarray:
    """Colour of the nearest pixel inside the body (T, height, width, 3), smoothed; where no pixel of a frame lies deep
    enough inside, the median colour of all that do."""
    from scipy import ndimage

    cores = _core(bodies)
    everywhere = np.median(frames[cores if cores.any() else bodies], axis=0) / 255
    colours = np.empty(frames.shape)
    for image, core, found in zip(frames / 255, cores, colours, strict=True):
        if not core.any():
            found[:] = everywhere
            continue
        share = np.maximum(ndimage.uniform_filter(core.astype(float), 3), 1e-9)
        smooth = np.stack([ndimage.uniform_filter(image[..., c] * core, 3) / share for c in range(3)], -1)
        row, column = ndimage.distance_transform_edt(~core, return_distances=False, return_indices=True)
        found[:] = smooth[row, column]
    return colours


def _core(bodies: np.ndarray) -> np.ndarray:
    """What lies inside a body, away from its edge, which may also run along the border of the picture."""
    from scipy import ndimage

    return np.stack([ndimage.binary_erosion(b, np.ones((3, 3), bool), CORE) for b in bodies])


def _near(bodies: np.ndarray) -> np.ndarray:
    """Bodies and one pixel around them, where an edge may cover a little."""
    from scipy import ndimage

    return ndimage.binary_dilation(bodies, np.ones((1, 3, 3), bool))


def _check_camera(B: np.ndarray, difference: np.ndarray, size: np.ndarray) -> None:
    """A camera that moves shifts the whole background: I − B = −d·∇B with one d [px] for all pixels of a frame."""
    slope = np.stack([np.gradient(B, axis=axis) for axis in (1, 0)], -1)  # (height, width, 3, 2)
    textured = (slope**2).sum((2, 3)) ** 0.5 > 4 * LEVEL
    if textured.mean() < 0.02:
        return  # on a flat background a motion of the camera does not show, and does not matter
    shifts = []
    for d, s in zip(difference, size, strict=True):
        weight = textured / (1 + (s / 3) ** 2)  # a body in front is no shift
        A = np.einsum("ij,ijca,ijcb->ab", weight, slope, slope)
        shifts.append(np.linalg.norm(np.linalg.lstsq(A, -np.einsum("ij,ijca,ijc->a", weight, slope, d))[0]))
    worst = int(np.argmax(shifts))
    # a body that covers much of a frame may look like a shift of that frame; a camera moves in many
    if np.mean(np.array(shifts) > SHAKE) > 0.2:
        raise InputError(
            f"the camera moves: frame {worst} is shifted by about {shifts[worst]:.1f} px against the background; "
            "subtraction needs a camera that stands still. Steady the film, or give a mask video (--mask)."
        )


def _check_median(frames: np.ndarray, B: np.ndarray, bodies: np.ndarray) -> None:
    """The median is the background where a body covers a pixel in fewer than half of the frames.

    Where it stays longer, the median shows the body: while it is there only its edges differ, and once it is gone its place
    does, as a ghost, whose outline is in B and not in the frame.
    """
    share, holes = bodies.mean(0).max(), _filled(bodies)
    ghosts = np.mean([_is_ghost(frame, B, body) for frame, body in zip(frames, bodies, strict=True) if body.any()])
    if ghosts > 0.1:
        why = f"in {ghosts:.0%} of the frames the median shows a body that is not there"
    elif share > ROOM:
        why = f"something covers a pixel in {share:.0%} of the frames"
    elif holes < SOLID:
        why = f"what moves fills only {holes:.0%} of its own outline, as a body does that hardly leaves its place"
    else:
        return
    raise InputError(
        f"the median of this film is no background: {why}, and where a body stays for half of the film the median shows "
        "the body. Give a picture of the empty scene (--background FILE)."
    )


def _filled(bodies: np.ndarray) -> float:
    """Share of its convex hull that a body fills, the median over frames."""
    from scipy.spatial import ConvexHull

    filled = []
    for body in bodies:
        rows, columns = np.nonzero(body)
        if len(rows) >= 12:
            corners = np.concatenate([np.stack([rows + i, columns + j], 1) for i in (0, 1) for j in (0, 1)])
            filled.append(len(rows) / ConvexHull(corners).volume)
    return float(np.median(filled)) if filled else 1.0


def _is_ghost(frame: np.ndarray, B: np.ndarray, body: np.ndarray) -> bool:
    """Whether a part of what differs has its outline in the background rather than in the frame."""
    from scipy import ndimage

    labels, count = ndimage.label(body, np.ones((3, 3), bool))
    wide = ndimage.grey_dilation(labels, (3, 3))
    ring = np.where(ndimage.grey_erosion(labels, (3, 3)) != wide, wide, 0)
    edges = [sum(g**2 for g in np.gradient(image, axis=(0, 1))).sum(-1) ** 0.5 for image in (frame / 255, B)]
    seen, behind = (ndimage.mean(edge, ring, np.arange(1, count + 1)) for edge in edges)
    return bool((np.asarray(behind) > np.asarray(seen)).any())
