"""Coverage of pixels by bodies in front of a known background, from the stated color of a body or the color inside it.

    α = (I − B)ᵀ M (F − B) / (F − B)ᵀ M (F − B)      M: weights of differences of color; contrast² = (F − B)ᵀ M (F − B)

of light I = value^γ, contrast of values. F is the stated color, or that a few pixels further inside, with its shading continued to the edge; B is
the background, as bright as next to the body where shadows may be.
"""

from collections.abc import Sequence

import numpy as np

from gradsim.video.camera_noise import LEVEL
from gradsim.video.circle_outline import centroids
from gradsim.video.connected_regions import EIGHT_CONNECTED, box_of
from gradsim.video.soft_edges import CORE, continued_color, light, nearest_color

# [px] of the weights of the light next to a body; pixels that would show a slope of 0
LIGHT_RADIUS, PRIOR_PIXELS = 4.0, 0.5
LUMA = np.array([0.299, 0.587, 0.114]) / 0.6686  # direction of luma in RGB (ITU-R BT.601)
COLOR_WEIGHTS = 0.05 * np.eye(3) + 0.95 * np.outer(LUMA, LUMA)  # chroma counts a twentieth
# [px] from the edge of a mask, which is in the middle of a blurred edge, to pixels that a body does not cover
PENUMBRA = 2

Images = Sequence[np.ndarray] | np.ndarray  # T of them, of one size


def alpha_of_color(
    frames: Images,
    backgrounds: Images,
    color: np.ndarray,
    metric: np.ndarray,
    gamma: float,
    near: np.ndarray,
    colors: list,
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage by a body of one color, and its squared contrast of values (T, height, width).

    Args:
        frames: T of them, (height, width, 3) uint8.
        backgrounds: Those of frames (height, width, 3) in [0, 1].
        color: RGB in [0, 1] of the body.
        metric: Weights (3, 3) of differences of color.
        gamma: γ of the camera's response.
        near: Pixels (T, height, width) that bodies may cover.
        colors: To these are added, for each frame, the pixels near bodies (in all frames, flat), and colors of the image, the background and the body there.
    """
    alpha, contrast, B = np.empty(near.shape), [], backgrounds[0]
    lit, weight, apart = _unmixing(B, color, metric, gamma)
    for k, (frame, behind, where) in enumerate(zip(frames, backgrounds, near, strict=True)):
        if behind is not B:
            B = behind
            lit, weight, apart = _unmixing(B, color, metric, gamma)
        np.einsum("ijc,ijc->ij", light(frame / 255, gamma) - lit, weight, out=alpha[k])
        contrast.append(apart)
        (at,) = np.nonzero(where.ravel())
        side = frame.reshape(-1, 3)[at] / 255
        colors.append((k * where.size + at, side, B.reshape(-1, 3)[at], np.broadcast_to(color, side.shape)))
    is_one = all(part is contrast[0] for part in contrast)
    return alpha, np.broadcast_to(contrast[0], alpha.shape) if is_one else np.stack(contrast)


def _unmixing(
    B: np.ndarray, color: np.ndarray, metric: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Light of a background (height, width, 3), weights of the light before it in coverage by a color, and squared contrast (height, width) of values."""
    lit = light(B, gamma)
    across = light(color.astype(np.float64), gamma) - lit
    along = across @ metric
    square = (across * along).sum(-1)
    weight = along / np.where(square > 0, square, 1)[..., None]
    return lit, weight, ((color - B) @ metric * (color - B)).sum(-1)


def alpha_in_front(
    frames: Images,
    backgrounds: Images,
    cores: np.ndarray,
    colored: np.ndarray,
    near: np.ndarray,
    metric: np.ndarray,
    shaded: bool,
    gamma: float,
    stated: Images | None,
    colors: list,
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage near the bodies, of the color that is inside of them, and its squared contrast (T, height, width); else 0.

    Args:
        frames, backgrounds, metric, gamma, near, colors: As in `alpha_of_color`.
        cores: Pixels (T, height, width) inside of bodies.
        colored: Pixels (T, height, width) whose median is the color of bodies, or frames, without a core.
        shaded: True if the background is as bright as next to the bodies, where shadows may be.
        stated: Colors inside, T of (height, width, 3), where they are not NaN.
    """
    alpha, contrast = np.zeros(near.shape), np.zeros(near.shape)
    median_color = np.median(np.concatenate([frame[c] for frame, c in zip(frames, colored, strict=True)]), axis=0) / 255
    for k, (frame, B, core, where, a, c) in enumerate(
        zip(frames, backgrounds, cores, near, alpha, contrast, strict=True)
    ):
        if not where.any():
            continue
        box = box_of(where, 2 * CORE)
        image, behind = frame[box] / 255, B[box]
        if shaded and not where[box].all():
            behind = behind * _light(image, behind, ~where[box])[..., None]
        inside = _inner_color(image, core[box], median_color)
        if stated is not None:
            inside = np.where(np.isnan(stated[k][box]), inside, stated[k][box])
        row, column = np.nonzero(where[box])
        place = (k * where.shape[0] + box[0].start + row) * where.shape[1] + box[1].start + column
        colors.append((place, *(np.broadcast_to(y, image.shape)[row, column] for y in (image, behind, inside))))
        across = inside - behind
        c[box] = np.where(where[box], (across * (across @ metric)).sum(-1), 0.0)
        image, behind, inside = (light(y, gamma) for y in (image, behind, inside))
        weighted = (inside - behind) @ metric
        square = ((inside - behind) * weighted).sum(-1)
        a[box] = np.where(where[box] & (square > 0), ((image - behind) * weighted).sum(-1), 0.0) / np.where(
            square > 0, square, 1
        )
    return alpha, contrast


def _light(image: np.ndarray, behind: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Brightness of an image over that of the background (height, width), continued linearly from the pixels outside of bodies.

    A shadow is darkest at the body that casts it, where no pixel shows it. So a plane is fitted to the ratios about each pixel, with
    Gaussian weights (local linear regression: Cleveland 1979), whose slope is shrunk where few pixels determine it.
    """
    from scipy import ndimage

    luma = LUMA / LUMA.sum()
    lit, empty = image @ luma, np.maximum(behind @ luma, LEVEL)
    near = nearest_color((lit / empty)[..., None].repeat(3, -1), outside)[..., 0]
    rest = np.where(outside, lit / empty - near, 0.0)  # near the body, `near` is constant along lines from it
    radius = int(3 * LIGHT_RADIUS)
    offsets = np.arange(-radius, radius + 1)
    bell = np.exp(-0.5 * (offsets / LIGHT_RADIUS) ** 2)
    kernels = [bell * offsets**k for k in range(3)]
    # of a pixel at x, moments of the offsets y − x
    moment = lambda values, down, across: ndimage.correlate1d(
        ndimage.correlate1d(values, kernels[down], 0, mode="constant"), kernels[across], 1, mode="constant"
    )
    weight = outside.astype(np.float64)
    normal = np.empty((*outside.shape, 3, 3))
    right = np.empty((*outside.shape, 3))
    powers = ((0, 0), (1, 0), (0, 1))
    for i, (a, b) in enumerate(powers):
        right[..., i] = moment(rest, a, b)
        for j, (c, d) in enumerate(powers[: i + 1]):
            normal[..., i, j] = normal[..., j, i] = moment(weight, a + c, b + d)
    normal += np.diag([LEVEL, PRIOR_PIXELS * LIGHT_RADIUS**2, PRIOR_PIXELS * LIGHT_RADIUS**2])
    return np.maximum(near + np.linalg.solve(normal, right[..., None])[..., 0, 0], 0.0)


def _inner_color(image: np.ndarray, core: np.ndarray, median_color: np.ndarray) -> np.ndarray:
    """Color of the core, continued to its surroundings (height, width, 3); the median color where there is none."""
    return continued_color(image, core) if core.any() else np.broadcast_to(median_color, image.shape)


def strongest(frames: Images, backgrounds: Images, bodies: np.ndarray) -> np.ndarray:
    """The fifth of the pixels of bodies (T, height, width) that differs most from the background: edges are mixtures with it."""
    differences = [
        np.linalg.norm(frame[body] / 255 - B[body], axis=-1)
        for frame, B, body in zip(frames, backgrounds, bodies, strict=True)
    ]
    least, strong = np.quantile(np.concatenate(differences), 0.8), np.zeros_like(bodies)
    for part, body, difference in zip(strong, bodies, differences, strict=True):
        part[body] = difference >= least
    return strong


def cores_of(bodies: np.ndarray, passed: np.ndarray) -> np.ndarray:
    """Pixels that a body covers while it passes rows and columns (T, 2), and those next to them, or as many as there are, away from the border."""
    from scipy import ndimage

    cores = np.zeros_like(bodies)
    for body, core, way in zip(bodies, cores, passed, strict=True):
        if not body.any():
            continue
        box = box_of(body, CORE)
        inner = ndimage.binary_erosion(body[box], EIGHT_CONNECTED, CORE)
        for share in (1.0, 0.5, 0.0):
            core[box] = np.all(_shifts(inner, share * way), 0)
            if core.any():
                break
    return cores


def passage(bodies: np.ndarray, blur: float) -> np.ndarray:
    """Rows and columns (T, 2) [px] that the middle of the bodies passes in a share of the time between frames; 0 where there is none."""
    at, frames = np.flatnonzero(bodies.any((1, 2))), np.arange(len(bodies))
    if not blur or len(at) < 2:
        return np.zeros((len(bodies), 2))
    velocity = np.gradient(centroids(bodies[at])[:, ::-1], at, axis=0)
    passed = np.stack([np.interp(frames, at, velocity[:, axis]) for axis in (0, 1)], -1)
    return blur * passed * np.any(bodies, (1, 2))[:, None]


def sweep(bodies: np.ndarray, passed: np.ndarray, margin: int) -> np.ndarray:
    """Pixels that bodies (T, height, width) cover while they pass rows and columns (T, 2) [px], dilated by a margin [px]."""
    from scipy import ndimage

    near = np.zeros_like(bodies)
    for body, way, image in zip(bodies, passed, near, strict=True):
        if body.any():
            box = box_of(body, margin + int(np.ceil(np.abs(way).max())) + 1)
            image[box] = ndimage.binary_dilation(np.any(_shifts(body[box], way), 0), EIGHT_CONNECTED, margin)
    return near


def _shifts(body: np.ndarray, passed: np.ndarray) -> list[np.ndarray]:
    """A mask (height, width) at the pixels that its passage (2,), of which it is the middle, leads over."""
    steps = int(np.ceil(np.abs(passed).max() / 2))
    places = {tuple(np.rint(k / (2 * max(1, steps)) * passed).astype(int)) for k in range(-steps, steps + 1)}
    return [_shift(body, *place) for place in sorted(places)]


def _shift(body: np.ndarray, down: int, right: int) -> np.ndarray:
    """A mask (height, width) moved by whole pixels."""
    image, (height, width) = np.zeros_like(body), body.shape
    if abs(down) < height and abs(right) < width:
        target = (slice(max(0, down), height + min(0, down)), slice(max(0, right), width + min(0, right)))
        source = (slice(max(0, -down), height + min(0, -down)), slice(max(0, -right), width + min(0, -right)))
        image[target] = body[source]
    return image
