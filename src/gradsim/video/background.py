"""Background subtraction: soft masks, with their noise, in front of a static textured background.

    I = α F + (1 − α) B   ⇒   α = (I − B)·(F − B) / |F − B|²,      standard deviation σ / |F − B|

per pixel, of light I = value^γ (a pixel on an edge is a mean of light, not of values), so a pixel holds less information the closer its background is to the body's color, and none where they are
equal. B is an image of the empty scene, the median over time, or that of a mixture of Gaussians (`gradsim.video.mog2`). F is the
body's color where it is known. Otherwise the body is the connected region that differs from B (hysteresis threshold), and F of
a pixel at its edge is the color a few pixels further inside, with the shading of the body continued to the edge. σ is estimated from I − B outside of the body.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from gradsim.errors import InputError
from gradsim.video.circle_outline import centroids
from gradsim.video.connected_regions import EIGHT_CONNECTED, connected_regions
from gradsim.video.masks import median_background
from gradsim.video.mog2 import mixture_background
from gradsim.video.response import Edges, edges_of
from gradsim.video.soft_edges import CORE, continued_color, light, nearest_color

UPPER_THRESHOLD, LOWER_THRESHOLD = 8.0, 4.0  # [σ] upper and lower threshold of the hysteresis
MOG2 = "mog2"  # background that is a mixture of Gaussians
LEVEL = 1 / 255  # grey level
QUANTIZATION_NOISE = LEVEL / 12**0.5  # quantization noise of 8 bits
MAX_SHAKE = 0.25  # [px] apparent motion of a static camera
MAX_COVERED = 0.4  # fraction of the frames in which a body may cover a pixel, for the median to be the background
MIN_SOLIDITY = 0.6  # fraction of its convex hull that a body fills; the median cuts holes into one that hardly moves
SPECKLE = 0.1  # of a body's area: pixels that may differ without a body
MIN_GHOST_SHARE = 0.25  # of the largest region, from which one can be a ghost of the body
GHOST_EDGE = 1.25  # of the edges of the video about it, from which on one in the background is a ghost's: both have the edges of what stands still
SATURATION = 2.5 * LEVEL  # from black or white, within which noise is cut off
MAX_NOISE = 0.04  # of a channel of a camera; more is a body
MIN_UNSATURATED = 0.02  # share of the background's channels that tell the noise
SAMPLED_PIXELS = 300_000  # pixels of the video that tell noise and shake: a quantile to some 0.2 %
# [px] from the edge of a mask, which is in the middle of a blurred edge, to pixels that a body does not cover
PENUMBRA = 2
# [px] of the weights of the light next to a body; pixels that would show a slope of 0
LIGHT_RADIUS, PRIOR_PIXELS = 4.0, 0.5
LUMA = np.array([0.299, 0.587, 0.114]) / 0.6686  # direction of luma in RGB (ITU-R BT.601)
COLOR_WEIGHTS = 0.05 * np.eye(3) + 0.95 * np.outer(LUMA, LUMA)  # chroma counts a twentieth


@dataclass(frozen=True, eq=False)
class Subtraction:
    """Masks with their noise.

    Attributes:
        masks: Coverage (T, height, width), not clipped, so that the noise has mean 0.
        sigma: Standard deviation of a mask pixel of median contrast.
        weight: (T, height, width) of each squared residual: (contrast / median contrast)², 0 without contrast.
        background: (height, width, 3) in [0, 1].
        noise: Standard deviation of a channel of the video, in [0, 1].
        edges: Colors from which coverage follows, of the pixels that bodies may cover.
    """

    masks: np.ndarray
    sigma: float
    weight: np.ndarray
    background: np.ndarray
    noise: float
    edges: Edges | None = None


def subtract_background(
    frames: np.ndarray,
    background: np.ndarray | str | None = None,
    color: Sequence[float] | np.ndarray | None = None,
    subsampled: bool = False,
    bodies: np.ndarray | None = None,
    blur: float = 0.0,
    gamma: float = 1.0,
    inside: np.ndarray | None = None,
) -> Subtraction:
    """Masks of moving bodies in front of a static background.

    Args:
        frames: (T, height, width, 3) uint8.
        background: (height, width, 3) in [0, 1], of the empty scene; None: the median over time; "mog2": a mixture of Gaussians
            per pixel, whose shadows are not bodies.
        color: RGB in [0, 1] of a flat body; None: everything that differs from the background.
        subsampled: True for a codec with chroma at half the resolution: coverage is mostly from luma then, which is as sharp as the
            pixels and not shifted.
        bodies: (T, height, width) bool, where bodies are, to half a pixel or half the blur; None: where the video differs from the
            background. What else differs, such as a shadow, is not a body then.
        blur: Share of the time between frames in which the shutter is open: what a body passes in it is covered in part, and its color
            is that further inside.
        gamma: γ of the camera's response: light is a value to this power. What differs, and the noise, are of values.
        inside: (T, height, width, 3) in [0, 1], colors of `bodies` at the pixels about their edges; NaN where it is that further inside.

    Raises:
        InputError: If the camera moves, nothing differs from the background, the body has the background's color, or
            it covers a pixel in too many frames for the median or the mixture.
    """
    if bodies is not None and not isinstance(background, str):
        near = _sweep(bodies, _passed(bodies, blur), PENUMBRA)
        B = background_behind(frames, bodies, blur) if background is None else background
        _check_size(frames, B)
        if background is None and np.isnan(B).any():
            raise InputError(
                "bodies cover a part of the background in all frames; give an image or a video of the empty scene (--background FILE)."
            )
        noise = _noise_without(frames, B, near)
        return _subtraction(
            frames, B, bodies, noise, color, subsampled, confined=True, blur=blur, near=near, gamma=gamma, inside=inside
        )
    if isinstance(background, str):
        B, bodies = mixture_background(frames)
        _check_background(frames, B, bodies, "mixture of Gaussians")
        noise = _noise_without(frames, B, bodies)
        return _subtraction(frames, B, bodies, noise, color, subsampled, confined=True, blur=blur, gamma=gamma)
    median = background is None
    B = median_background(frames) if background is None else background
    _check_size(frames, B)
    noise, bodies = _noise_and_bodies(frames, B)
    if not bodies.any():
        raise InputError(
            f"nothing in the video differs from the background by more than {UPPER_THRESHOLD:g} times the noise of {noise:.2g}: "
            "the body is not visible, or it never moves and is part of the median. Give an image of the empty scene "
            "(--background FILE)."
        )
    if median:
        _check_background(frames, B, bodies, "median")
        # where a body passed, the median of all frames is biased towards its color
        B = _median_without(frames, B, _near(bodies))
        noise, bodies = _noise_and_bodies(frames, B)
    # the median of T frames has a variance of π/(2 T) of theirs
    scale = (1 + np.pi / (2 * len(frames))) ** 0.5 if median else 1.0
    return _subtraction(
        frames, B, bodies, noise, color, subsampled, scale, blur=2 * blur, gamma=gamma
    )  # all of which differs


def background_behind(frames: np.ndarray, bodies: np.ndarray, blur: float = 0.0) -> np.ndarray:
    """Median (height, width, 3) in [0, 1] over the frames in which a pixel is not near a body; NaN where it always is.

    Args:
        frames: (T, height, width, 3) uint8.
        bodies: (T, height, width) bool.
        blur: As in `subtract_background`.
    """
    near = _sweep(bodies, _passed(bodies, blur), PENUMBRA)
    return _median_without(frames, median_background(frames), near)


def _check_size(frames: np.ndarray, B: np.ndarray) -> None:
    if B.shape != frames.shape[1:]:
        raise InputError(
            f"the background is {B.shape[1]} × {B.shape[0]} px, the video {frames.shape[2]} × {frames.shape[1]}; give a "
            "background of the video's size (--background)."
        )


def _passed(bodies: np.ndarray, blur: float) -> np.ndarray:
    """Rows and columns (T, 2) [px] that the middle of the bodies passes in a share of the time between frames; 0 where there is none."""
    at, frames = np.flatnonzero(bodies.any((1, 2))), np.arange(len(bodies))
    if not blur or len(at) < 2:
        return np.zeros((len(bodies), 2))
    velocity = np.gradient(centroids(bodies[at])[:, ::-1], at, axis=0)
    passed = np.stack([np.interp(frames, at, velocity[:, axis]) for axis in (0, 1)], -1)
    return blur * passed * np.any(bodies, (1, 2))[:, None]


def _sweep(bodies: np.ndarray, passed: np.ndarray, margin: int) -> np.ndarray:
    """Pixels that bodies (T, height, width) cover while they pass rows and columns (T, 2) [px], dilated by a margin [px]."""
    from scipy import ndimage

    return np.stack(
        [
            ndimage.binary_dilation(np.any(_shifts(b, d), 0), EIGHT_CONNECTED, margin)
            for b, d in zip(bodies, passed, strict=True)
        ]
    )


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


def _subtraction(
    frames: np.ndarray,
    B: np.ndarray,
    bodies: np.ndarray,
    noise: float,
    color: Sequence[float] | np.ndarray | None,
    subsampled: bool,
    scale: float = 1.0,
    confined: bool = False,
    blur: float = 0.0,
    near: np.ndarray | None = None,
    gamma: float = 1.0,
    inside: np.ndarray | None = None,
) -> Subtraction:
    """Coverage, of the stated color or of that inside the bodies.

    Args:
        frames: (T, height, width, 3) uint8.
        B: Background (height, width, 3).
        bodies: (T, height, width) bool.
        noise: Of a channel.
        color: As in `subtract_background`.
        subsampled: As there.
        scale: Of the noise, by that of the background.
        confined: Whether coverage by a stated color is 0 away from the bodies: there may be shadows.
        blur: As there.
        near: Pixels that a body may cover (T, height, width); None: the bodies and the pixels next to them.
        gamma: As there.
        inside: As there.

    Raises:
        InputError: If the background has the body's color, or the body another than stated.
    """
    shaded = near is not None
    near = _near(bodies) if near is None else near
    cores = _cores(bodies, _passed(bodies, blur))
    metric, colors = COLOR_WEIGHTS if subsampled else np.eye(3), []
    colored = cores if cores.any() or color is not None else _strongest(frames, B, bodies)
    masks, contrast = (
        _alpha_in_front(frames, B, cores, colored, near, metric, shaded, gamma, inside, colors)
        if color is None
        else _alpha_of_color(frames, B, np.asarray(color), metric, gamma, near, colors)
    )
    if confined:
        masks[~near] = 0.0
    usable = contrast > (4 * noise) ** 2
    if color is not None and not usable[bodies].mean() > 0.5:
        raise InputError(
            f"more than half of the background behind the body has the body's colour {_rounded(color)}; give a mask "
            "video (--mask)."
        )
    masks[~usable] = 0.0
    if color is not None and (core := cores & usable).any() and abs(np.median(masks[core]) - 1) > 0.2:
        raise InputError(
            f"the moving body is not of the colour {_rounded(color)}: inside it the coverage is "
            f"{np.median(masks[core]):.2f}, not 1. Correct `colour` of the bodies, or remove it from the scene."
        )
    median_contrast = float(np.median(contrast[near & usable]))
    weight = np.where(usable, contrast / median_contrast, 0.0)
    if color is None or confined:
        weight[~near] = 1.0
    edges = None
    if colors:
        places, image, behind, inner = (np.concatenate(part) for part in zip(*colors, strict=True))
        clear = usable.reshape(-1)[places]
        edges = edges_of(places[clear], image[clear], behind[clear], inner[clear], metric)
    return Subtraction(masks, noise * scale / median_contrast**0.5, weight, B, noise, edges)


def _median_without(frames: np.ndarray, B: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Median over the frames in which a pixel is not near a body (T, height, width); B where it never is."""
    B, passed = B.copy(), near.any(0)
    values = np.where(near[:, passed, None], np.int16(256), frames[:, passed])  # behind all that count
    count = (~near[:, passed]).sum(0)[:, None]
    values = np.sort(values, axis=0)
    at = lambda k: np.take_along_axis(values, np.maximum(k, 0)[None].repeat(3, -1), 0)[0]
    middle = (at((count - 1) // 2) + at(count // 2)) / 2 / 255
    B[passed] = np.where(count > 0, middle, np.nan)
    return B


def _alpha_of_color(
    frames: np.ndarray,
    B: np.ndarray,
    color: np.ndarray,
    metric: np.ndarray,
    gamma: float,
    near: np.ndarray,
    colors: list,
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage by a body of one color, and its squared contrast of values (T, height, width).

    `metric` (3, 3) weighs differences of color. To `colors` are added, for each frame, the pixels that are near bodies (in all frames, flat), and of the image, the background and the body.
    """
    across, behind = light(color.astype(np.float64), gamma) - light(B, gamma), light(B, gamma)
    along = across @ metric
    square = (across * along).sum(-1)
    weight = along / np.where(square > 0, square, 1)[..., None]
    alpha = np.stack([np.einsum("ijc,ijc->ij", light(frame / 255, gamma) - behind, weight) for frame in frames])
    contrast = ((color - B) @ metric * (color - B)).sum(-1)
    for k, (frame, where) in enumerate(zip(frames, near, strict=True)):
        (at,) = np.nonzero(where.ravel())
        side = frame.reshape(-1, 3)[at] / 255
        colors.append((k * where.size + at, side, B.reshape(-1, 3)[at], np.broadcast_to(color, side.shape)))
    return alpha, np.broadcast_to(contrast, alpha.shape)


def _alpha_in_front(
    frames: np.ndarray,
    B: np.ndarray,
    cores: np.ndarray,
    colored: np.ndarray,
    near: np.ndarray,
    metric: np.ndarray,
    shaded: bool,
    gamma: float,
    stated: np.ndarray | None,
    colors: list,
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage near the bodies, of the color that is inside of them, and its squared contrast (T, height, width); else 0.

    `colored`: pixels (T, height, width) whose median is the color of bodies, or frames, without a core. `metric` (3, 3) weighs
    differences of color. `shaded`: the background is as bright as next to the bodies, where shadows may be. `stated`: colors inside (T, height, width, 3), where they are not NaN. `colors` as in `_alpha_of_color`.
    """
    alpha, contrast = np.zeros(near.shape), np.zeros(near.shape)
    median_color = np.median(frames[colored], axis=0) / 255
    for k, (frame, core, where, a, c) in enumerate(zip(frames, cores, near, alpha, contrast, strict=True)):
        if not where.any():
            continue
        box = _box(where, 2 * CORE)
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


def read_background(path: str | Path) -> np.ndarray:
    """Read a background (height, width, 3) in [0, 1]: an image, or the median of a video of the empty scene.

    Raises:
        InputError: If the file is missing or cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    from gradsim.video.read import read

    path = Path(path)
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        return median_background(read(path, fps=1.0).frames)
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
    size, behind = np.empty(frames.shape[:3], np.float32), (255 * B).astype(np.float32)
    for frame, rms in zip(frames, size, strict=True):
        levels = frame - behind
        rms[:] = np.sqrt(np.einsum("ijc,ijc->ij", levels, levels) / 3) / 255
    sample = np.arange(0, size.size, max(1, size.size // SAMPLED_PIXELS))
    values, backgrounds = frames.reshape(-1, 3)[sample] / 255, B.reshape(-1, 3)[sample % B[..., 0].size]
    difference = _unsaturated(values, backgrounds)
    noise = _scale(difference, 0.75)  # assumes that bodies cover less than a quarter of the video
    if noise > MAX_NOISE:  # of what is neither black nor white they cover more
        noise = _scale(values - backgrounds, 0.75)
    for _ in range(2):  # the second time without the bodies
        bodies = np.stack([_hysteresis(rms / noise) for rms in size])
        static = ~_near(bodies).reshape(-1)[sample]
        relative = noise
        if np.isfinite(difference[static]).any():
            noise = _scale(difference[static], 0.9)
    _check_camera(frames, B, size, relative)
    return noise, bodies


def _noise_without(frames: np.ndarray, B: np.ndarray, bodies: np.ndarray) -> float:
    """Noise of a channel where no body is, of a camera that does not move."""
    size = np.stack([(((frame / 255 - B) ** 2).mean(-1) ** 0.5).astype(np.float32) for frame in frames])
    static = np.flatnonzero(~_near(bodies))[:: max(1, size.size // SAMPLED_PIXELS)]
    noise = _scale(_unsaturated(frames.reshape(-1, 3)[static] / 255, B.reshape(-1, 3)[static % B[..., 0].size]), 0.9)
    _check_camera(frames, B, size, noise)
    return noise


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
        box = _box(body)
        body[box] = ndimage.binary_fill_holes(body[box])
    return body


def _box(region: np.ndarray, margin: int = 1) -> tuple[slice, slice]:
    """Rows and columns of a region (height, width), and a margin."""
    sides = []
    for axis in (1, 0):
        (at,) = np.nonzero(region.any(axis))
        sides.append(slice(max(0, at[0] - margin), at[-1] + 1 + margin))
    return sides[0], sides[1]


def _inner_color(image: np.ndarray, core: np.ndarray, median_color: np.ndarray) -> np.ndarray:
    """Color of the core, continued to its surroundings (height, width, 3); the median color where there is none."""
    return continued_color(image, core) if core.any() else np.broadcast_to(median_color, image.shape)


def _strongest(frames: np.ndarray, B: np.ndarray, bodies: np.ndarray) -> np.ndarray:
    """The fifth of the pixels of bodies (T, height, width) that differs most from the background: edges are mixtures with it."""
    difference = np.linalg.norm(frames / 255 - B, axis=-1)
    return bodies & (difference >= np.quantile(difference[bodies], 0.8))


def _cores(bodies: np.ndarray, passed: np.ndarray) -> np.ndarray:
    """Pixels that a body covers while it passes rows and columns (T, 2), and those next to them, or as many as there are, away from the border."""
    from scipy import ndimage

    cores = np.zeros_like(bodies)
    for body, core, way in zip(bodies, cores, passed, strict=True):
        if not body.any():
            continue
        box = _box(body, CORE)
        inner = ndimage.binary_erosion(body[box], EIGHT_CONNECTED, CORE)
        for share in (1.0, 0.5, 0.0):
            core[box] = np.all(_shifts(inner, share * way), 0)
            if core.any():
                break
    return cores


def _near(bodies: np.ndarray) -> np.ndarray:
    """Bodies dilated by one pixel, which the edge may cover in part."""
    tall = bodies.copy()
    tall[:, 1:] |= bodies[:, :-1]
    tall[:, :-1] |= bodies[:, 1:]
    near = tall.copy()
    near[..., 1:] |= tall[..., :-1]
    near[..., :-1] |= tall[..., 1:]
    return near


def _check_camera(frames: np.ndarray, B: np.ndarray, size: np.ndarray, noise: float) -> None:
    """Refuse a moving camera, which shifts the whole background: I − B = −d·∇B, one d [px] per frame."""
    slope = np.stack([np.gradient(B, axis=axis) for axis in (1, 0)], -1)  # (height, width, 3, 2)
    textured = (slope**2).sum((2, 3)) ** 0.5 > 4 * LEVEL
    if textured.mean() < 0.02:
        return  # a motion of the camera is invisible, and harmless, on a flat background
    rows, columns = np.nonzero(textured)
    step = max(1, len(rows) * len(frames) // SAMPLED_PIXELS)
    rows, columns = rows[::step], columns[::step]
    slope, behind, shifts = slope[rows, columns].reshape(-1, 2), B[rows, columns], []
    for frame, s in zip(frames, size, strict=True):
        weight = 1 / (1 + (s[rows, columns] / (3 * noise)) ** 2)  # robust against bodies in front
        weighted = slope * np.repeat(weight, 3)[:, None]
        difference = (frame[rows, columns] / 255 - behind).reshape(-1)
        shifts.append(np.linalg.norm(np.linalg.lstsq(weighted.T @ slope, -weighted.T @ difference)[0]))
    worst = int(np.argmax(shifts))
    # a body that covers much of a frame may look like a shift of that frame; a moving camera shifts many
    if np.mean(np.array(shifts) > MAX_SHAKE) > 0.2:
        raise InputError(
            f"the camera moves: frame {worst} is shifted by about {shifts[worst]:.1f} px against the background; "
            "background subtraction needs a static camera. Stabilize the video, or give a mask video (--mask)."
        )


def _check_background(frames: np.ndarray, B: np.ndarray, bodies: np.ndarray, name: str) -> None:
    """Refuse a median, or another `name`, that shows the body, as where the body covers a pixel in half of the frames or more.

    While the body is there, only its edges differ; after it has left, its image in the median does, as a ghost, whose
    outline is in B and not in the frame.
    """
    shares, area = bodies.mean(0), np.median(bodies.sum((1, 2)))
    speckle = int(SPECKLE * area)  # a codec changes a few pixels of any texture again and again
    covered = np.sort(shares, axis=None)[-1 - speckle]
    solidity = _solidity(bodies)
    ghosts = np.mean([_is_ghost(frame, B, body) for frame, body in zip(frames, bodies, strict=True) if body.any()])
    if ghosts > 0.1:
        why = f"in {ghosts:.0%} of the frames it shows a body that is not there"
    elif covered > MAX_COVERED:
        why = f"a body covers a pixel in {covered:.0%} of the frames"
    elif solidity < MIN_SOLIDITY:
        why = f"the moving region fills only {solidity:.0%} of its convex hull, as for a body that hardly moves"
    else:
        return
    raise InputError(
        f"the {name} of this video is not the background: {why}. It shows a body that covers a pixel for half of the "
        "video. Give an image of the empty scene (--background FILE)."
    )


def _solidity(bodies: np.ndarray) -> float:
    """Fraction of its convex hull that the largest region of a body fills, the median over frames."""
    from scipy.spatial import ConvexHull

    fractions = []
    for body in bodies:
        labels, _ = connected_regions(body)
        size = np.bincount(labels.ravel(), minlength=2)[1:]
        rows, columns = np.nonzero(labels == 1 + int(size.argmax()))
        if len(rows) >= 12:
            corners = np.concatenate([np.stack([rows + i, columns + j], 1) for i in (0, 1) for j in (0, 1)])
            fractions.append(len(rows) / ConvexHull(corners).volume)
    return float(np.median(fractions)) if fractions else 1.0


def _is_ghost(frame: np.ndarray, B: np.ndarray, body: np.ndarray) -> bool:
    """True if a large region of the difference has its outline in the background rather than in the frame."""
    from scipy import ndimage

    box = _box(body, 3)
    frame, B, body = frame[box], B[box], body[box]
    labels, count = connected_regions(body)
    wide = ndimage.grey_dilation(labels, (3, 3))
    ring = np.where(ndimage.grey_erosion(labels, (3, 3)) != wide, wide, 0)
    edges = [np.square(np.gradient(image, axis=(0, 1))).sum(0).sum(-1) ** 0.5 for image in (frame / 255, B)]
    front, behind = (ndimage.mean(edge, ring, np.arange(1, count + 1)) for edge in edges)
    size = np.bincount(labels.ravel())[1:]
    large = size >= MIN_GHOST_SHARE * size.max()  # a body as bright as the background behind it falls into pieces
    return bool((np.asarray(behind) > GHOST_EDGE * np.asarray(front))[large].any())
