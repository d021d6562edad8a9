"""Videos of textured balls that fly and spin, by a ray tracer of NumPy: nothing of the product moves or draws.

    x(t) = x₀ + v t + g t²/2,   R(t) = exp([ω t]) R₀          a ball of uniform density in a vacuum
    I = B (1 − s) (1 − α) + α T(Rᵀ n) (a + d max(0, n · l))   α: coverage, s: soft shadow on the floor

Rays of a pinhole meet the sphere in closed form, `FINE`² of them in each pixel, and are averaged in linear light. Then come the
exposure of the frame, which drifts and flickers, gamma (sRGB), the noise of the sensor, 8 bits, and h264.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

from gradsim_reproduction.clips.videos import encode

SIZE, FPS = (480, 360), 60
FINE = 4  # rays along each side of a pixel
RADIUS, GRAVITY = 0.11, 9.81
TEXTURES = ("patches", "sectors", "dots", "waves")
PALETTE = np.array([[0.9, 0.88, 0.82], [0.75, 0.1, 0.08], [0.08, 0.2, 0.6], [0.85, 0.6, 0.05], [0.05, 0.05, 0.06]])
EMPTY = 8  # frames of the empty scene before the ball comes


@dataclass(frozen=True, eq=False)
class SpinTruth:
    """A ball, its motion, and how it is filmed.

    Attributes:
        texture: One of `TEXTURES`, or "plain".
        position: Of the center in frame 0 [m].
        velocity: In frame 0 [m/s].
        spin: Angular velocity ω in the world [rad/s].
        frames: Number of frames.
        focal: [px].
        eye: Place of the camera [m]; it looks along +y, with z up.
        noise: Standard deviation of the sensor, of values in [0, 1].
        crf: Constant rate factor of the encoder.
        light: Direction to the light.
        flicker: Relative standard deviation of a frame's exposure.
        seed: Of the pattern, the start, the background and the noise.
    """

    texture: str
    position: tuple[float, float, float]
    velocity: tuple[float, float, float]
    spin: tuple[float, float, float]
    frames: int
    focal: float
    eye: tuple[float, float, float]
    noise: float
    crf: int
    light: tuple[float, float, float]
    flicker: float
    seed: int


def draw_spin(number: int, seed: int, texture: str | None = None) -> SpinTruth:
    """A random ball that flies across the image of a level camera."""
    rng = np.random.default_rng([seed, number, 7])
    direction = rng.standard_normal(3)
    spin = rng.uniform(4, 24) * direction / np.linalg.norm(direction)
    light = np.array([rng.uniform(-0.8, 0.8), rng.uniform(-1, -0.3), rng.uniform(0.4, 1.2)])
    distance, frames = rng.uniform(2.2, 2.8), 26
    time = (frames - 1) / FPS
    across = rng.choice([-1, 1]) * rng.uniform(1.1, 1.5) * distance / 2.5
    rise = GRAVITY * time / 2 * rng.uniform(0.85, 1.15)
    return SpinTruth(
        texture or TEXTURES[number % len(TEXTURES)],
        (float(-across / 2), 0.0, float(1.0 - rise * time / 4 + rng.uniform(-0.05, 0.05))),
        (float(across / time), 0.0, float(rise)),
        tuple(spin.tolist()),
        frames,
        rng.uniform(560, 680),
        (0.0, -distance, 1.0),
        rng.uniform(0.004, 0.01),
        int(rng.integers(16, 25)),
        tuple((light / np.linalg.norm(light)).tolist()),
        rng.uniform(0.0, 0.03),
        int(rng.integers(2**31)),
    )


def albedo(truth: SpinTruth, n: np.ndarray) -> np.ndarray:
    """Color (..., 3) in linear light at directions (..., 3) of the body's frame."""
    rng = np.random.default_rng([truth.seed, 1])
    if truth.texture == "plain":
        return np.broadcast_to(PALETTE[1], n.shape)
    if truth.texture == "patches":  # the nearest of some centers
        centers = rng.standard_normal((24, 3))
        centers /= np.linalg.norm(centers, axis=1, keepdims=True)
        return PALETTE[rng.integers(0, len(PALETTE), len(centers))][(n @ centers.T).argmax(-1)]
    if truth.texture == "sectors":  # a beach ball
        longitude = np.arctan2(n[..., 1], n[..., 0])
        colors = PALETTE[np.floor((longitude + np.pi) / (2 * np.pi) * 6).astype(int) % 6 % len(PALETTE)]
        return np.where((np.abs(n[..., 2]) > 0.93)[..., None], PALETTE[0], colors)
    if truth.texture == "dots":
        centers = rng.standard_normal((14, 3))
        centers /= np.linalg.norm(centers, axis=1, keepdims=True)
        inside = (n @ centers.T > np.cos(rng.uniform(0.12, 0.3, len(centers)))).any(-1)
        return np.where(inside[..., None], PALETTE[4], PALETTE[3])
    waves = 0.45 + 0 * n
    for _ in range(10):
        k, phase, color = rng.standard_normal(3) * 4, rng.uniform(0, 2 * np.pi), rng.standard_normal(3)
        waves = waves + 0.09 * color * np.sin(n @ k + phase)[..., None]
    return waves.clip(0.03, 0.97)


def render(truth: SpinTruth) -> np.ndarray:
    """8-bit frames (frames, height, width, 3) before the encoder."""
    rng = np.random.default_rng([truth.seed, 2])
    back = _background(rng)
    start = Rotation.random(random_state=rng.integers(2**31))  # pyright: ignore[reportCallIssue]  `rng` before SciPy 1.15
    exposure = 1 + 0.05 * np.sin(2 * np.pi * np.arange(truth.frames) / rng.uniform(20, 60))
    exposure = exposure * (1 + truth.flicker * rng.standard_normal(truth.frames))
    images = []
    for k in range(truth.frames):
        t = k / FPS
        center = np.array(truth.position) + t * np.array(truth.velocity) - [0, 0, GRAVITY * t * t / 2]
        turn = Rotation.from_rotvec(t * np.array(truth.spin)) * start
        image = _composed(truth, back, center, turn) * exposure[k]
        images.append(_developed(image, truth.noise, rng))
    return np.stack(images)


def empty(truth: SpinTruth) -> np.ndarray:
    """8-bit frames of the empty scene, before the encoder."""
    back = _background(np.random.default_rng([truth.seed, 2]))
    rng = np.random.default_rng([truth.seed, 3])
    return np.stack([_developed(back, truth.noise, rng) for _ in range(EMPTY)])


def write_spin(truth: SpinTruth, path: Path) -> Path:
    """Write the video as h264 (yuv420p); a file that exists stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        encode(path, render(truth), FPS, truth.crf, left_sited=False)
    return path


def _background(rng: np.random.Generator) -> np.ndarray:
    """Smooth clutter (height, width, 3) in linear light, greenish gray."""
    width, height = SIZE
    image = np.array([0.32, 0.4, 0.34]) + rng.uniform(-0.04, 0.04, 3)
    for scale, amplitude in ((height / 10, 0.05), (height / 80, 0.02)):
        waves = gaussian_filter(rng.standard_normal((height, width, 3)), (scale, scale, 0), mode="wrap")
        image = image + amplitude * waves / waves.std()
    return image.clip(0.02, 0.9)


def _composed(truth: SpinTruth, back: np.ndarray, center: np.ndarray, turn: Rotation) -> np.ndarray:
    """Image (height, width, 3) in linear light: background, shadow, ball."""
    width, height = SIZE
    to_center = center - np.array(truth.eye)
    depth = to_center[1]
    column, row = width / 2 + truth.focal * to_center[0] / depth, height / 2 - truth.focal * to_center[2] / depth
    reach = truth.focal * RADIUS / depth
    image = back * (1 - 0.35 * _shadow(column + 0.8 * reach, row + 2.6 * reach, reach))[..., None]
    low = np.maximum(np.floor([column - 1.1 * reach - 2, row - 1.1 * reach - 2]).astype(int), 0)
    high = np.minimum(np.ceil([column + 1.1 * reach + 2, row + 1.1 * reach + 2]).astype(int), [width, height])
    if (high <= low).any():
        return image
    u, v = (low[axis] + (np.arange((high[axis] - low[axis]) * FINE) + 0.5) / FINE for axis in (0, 1))
    u, v = np.meshgrid(u, v)
    rays = np.stack([(u - width / 2) / truth.focal, np.ones_like(u), -(v - height / 2) / truth.focal], -1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    along = rays @ to_center
    inside = along**2 - to_center @ to_center + RADIUS**2
    hit = inside > 0
    n = (rays[hit] * (along[hit] - np.sqrt(inside[hit]))[:, None] - to_center) / RADIUS
    lit = 0.45 + 0.55 * np.maximum(0, n @ np.array(truth.light))
    layer = np.zeros((*hit.shape, 4))
    layer[hit, :3] = albedo(truth, turn.inv().apply(n)) * lit[:, None]
    layer[hit, 3] = 1
    mean = layer.reshape(high[1] - low[1], FINE, high[0] - low[0], FINE, 4).mean((1, 3))
    patch = image[low[1] : high[1], low[0] : high[0]]
    image[low[1] : high[1], low[0] : high[0]] = mean[..., :3] + (1 - mean[..., 3:]) * patch
    return image


def _shadow(column: float, row: float, reach: float) -> np.ndarray:
    """Soft, flat shadow (height, width) on what is behind the ball."""
    y, x = np.mgrid[: SIZE[1], : SIZE[0]] + 0.5
    distance = np.hypot((x - column) / (1.1 * reach), (y - row) / (0.5 * reach))
    return 1 / (1 + np.exp((distance - 1) / 0.12).clip(0, 1e9))


def _developed(image: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Linear light → sRGB, noise, 8 bits."""
    light = image.clip(0, 1)
    coded = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.rint(255 * (coded + noise * rng.standard_normal(coded.shape))).clip(0, 255).astype(np.uint8)
