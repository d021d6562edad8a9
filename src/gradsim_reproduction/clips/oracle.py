"""Error bars of an oracle that knows the true errors of outlines, which `reproduce clips` compares those of fits with.

It sees the masks m that the fit takes, the exact coverage c and its derivative D by the unknowns, from central differences of the
independent motion and renderer. With the length b of the outline in each pixel, displacements are measured in each frame by
least squares,

    m − c = X y,  D = X G,      X = b (1, cos kθ, sin kθ),  k ≤ 6,

and each harmonic y has the variance and the correlation from frame to frame that the true displacements show. The covariance of
the generalized least squares of all unknowns and one offset of all outlines is then

    (Σ_j G_jᵀ (d_j ρ_j^|s−t|)⁻¹ G_j)⁻¹

It takes nothing of what is independent in each pixel, and knows one video's displacements, not their law.
"""

import numpy as np

from gradsim.identification.unknowns import Space
from gradsim_reproduction.clips.scenes import Recording
from gradsim_reproduction.clips.videos import coverage_of

HARMONICS = 6
STEP = 1e-3  # of central differences, of an unknown's range
FAINT = 1e-3  # smallest over largest eigenvalue of XᵀX in a frame in which harmonics can be measured


def oracle(
    one: Recording, masks: np.ndarray, exact: np.ndarray, binning: int = 1
) -> tuple[dict[str, float], dict[str, float]]:
    """Standard deviations of the unknowns, and the RMS error of the masks' outlines, their mean offset and mean shift [px].

    Args:
        one: The recording.
        masks: Masks of the fit (frames, height, width).
        exact: Exact coverage at the truth, in pixels of the video.
        binning: Pixels of the video in a row of each pixel of the masks.

    Returns:
        Both empty where harmonics can be measured in fewer frames than there are unknowns and an offset.
    """
    space, slopes = Space(one.scene, one.unknowns), []
    for k, name in enumerate(space.names):
        low, high = space.range(k)
        h = STEP * (high - low)
        after, before = (coverage_of(one, one.truth | {name: one.truth[name] + s * h}) for s in (1, -1))
        slopes.append(binned((after - before) / (2 * h), binning))
    exact = binned(exact, binning)
    shift, by_unknown = displacements(exact, [masks - exact, *slopes])
    if len(shift) <= len(space) + 1:
        return {}, {}
    std = np.sqrt(np.diag(np.linalg.pinv(information(shift, by_unknown))))[: len(space)]
    squares, means = (shift**2).mean(0), shift.mean(0)
    px = {"rms": np.sqrt((squares[0] + squares.sum()) / 2), "offset": means[0]}
    px |= {"right": means[1], "down": means[1 + HARMONICS]}
    error = {key: float(binning * length) for key, length in px.items()}
    return dict(zip(space.names, std.tolist(), strict=True)), error


def binned(images: np.ndarray, factor: int) -> np.ndarray:
    """Means (frames, height/factor, width/factor) of squares of pixels."""
    frames, height, width = images.shape
    return images.reshape(frames, height // factor, factor, width // factor, factor).mean((2, 4))


def displacements(exact: np.ndarray, images: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Harmonics (frames, 13) of the first image, and of the others (frames, 13, n), where they can be measured."""
    first, others = [], []
    for k, mask in enumerate(exact):
        X = waves(mask)
        square = X.T @ X
        eigenvalues = np.linalg.eigvalsh(square)
        if eigenvalues[0] <= FAINT * eigenvalues[-1]:
            continue
        y = np.linalg.solve(square, X.T @ np.stack([smooth(image[k]).ravel() for image in images], 1))
        first.append(y[:, 0])
        others.append(y[:, 1:])
    return np.array(first), np.array(others)


def waves(mask: np.ndarray) -> np.ndarray:
    """Changes of a smoothed mask (pixels, 13) by unit harmonics of its outline."""
    down, right = np.gradient(smooth(mask))
    y, x = np.mgrid[: mask.shape[0], : mask.shape[1]] + 0.5
    weight = max(mask.sum(), 1e-9)
    angle = np.arctan2(y - (y * mask).sum() / weight, x - (x * mask).sum() / weight)
    k = np.arange(1, HARMONICS + 1)[:, None, None]
    parts = np.concatenate([np.ones((1, *mask.shape)), np.cos(k * angle), np.sin(k * angle)])
    return (np.hypot(right, down) * parts).reshape(len(parts), -1).T


def smooth(image: np.ndarray) -> np.ndarray:
    """Image after a binomial filter of 3 × 3."""
    from scipy.ndimage import convolve1d

    return convolve1d(convolve1d(image, [0.25, 0.5, 0.25], 0), [0.25, 0.5, 0.25], 1)


def information(shift: np.ndarray, by_unknown: np.ndarray) -> np.ndarray:
    """Fisher information of unknowns and offset (n + 1, n + 1) from displacements and their derivatives."""
    count = len(shift)
    shift = shift - np.eye(1, shift.shape[1]) * shift[:, 0].mean()
    total = 0.0
    for k in range(shift.shape[1]):
        # cosine and sine of one harmonic are of one law
        pair = shift[:, [k, (k + HARMONICS) if k <= HARMONICS else (k - HARMONICS)]] if k else shift[:, :1]
        power = max((pair**2).mean(), 1e-300)
        correlation = np.clip((pair[1:] * pair[:-1]).mean() / power, 0, 0.95)
        C = power * correlation ** np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
        G = np.concatenate([by_unknown[:, k], np.full((count, 1), float(k == 0))], 1)
        total = total + G.T @ np.linalg.solve(C, G)
    return np.asarray(total)
