"""Videos of `reproduce clips`: exact coverage in front of a textured background, with shading, shadow, noise and h264.

    I = B (1 − s) (1 − α) + α F + noise,     F = color (1 + shading)         s: soft shadow on a ground, α: coverage

Backgrounds are smooth random textures; shading is a gradient across the body whose direction turns a little. Nothing of the
product draws: coverage is `foreign.area_coverage`, and the encoder is x264 (yuv420p), as cameras have.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np

from gradsim.runtime.atomic import atomic_path
from gradsim.video.h264 import write_h264
from gradsim_reproduction.clips.motion import Motion, Truth, surface
from gradsim_reproduction.clips.scenes import AIR, DRAG, LOOK, NOISE, RATE, RATE_OFF, Recording, from_camera, stream
from gradsim_reproduction.foreign.area_coverage import coverage, project

COLORS = ((0.75, 0.16, 0.12), (0.1, 0.25, 0.6), (0.1, 0.42, 0.2), (0.15, 0.14, 0.16), (0.55, 0.12, 0.45))
SIGMA = 0.005, 0.015  # range of the sensor's noise
CRF = 18, 31  # range of the encoder's constant rate factor, the last one exclusive
BT601 = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])  # Y, U, V of RGB
PLATE_FRAMES = 8  # of the video of the empty scene
SUN = np.array([0.35, 0.5, -1.0])  # direction of the light that casts shadows
SHADOWED = 0.5  # share of the videos with a ground that have a shadow


def coverage_of(one: Recording, truth: Truth, drag: float = 0.0) -> np.ndarray:
    """Exact coverage (frames, height, width) of the motion with these values of the unknowns."""
    return _covered(one, surface(one, truth, drag))


def write_clip(one: Recording, seed: int, folder: Path, fault: str = "") -> tuple[Path, Path]:
    """Video, and that of the empty scene, as a stranger would hand them over; each is made once.

    Args:
        one: The recording.
        seed: Of the run.
        folder: Folder of the videos.
        fault: `DRAG` moves the body through air; `RATE` writes the same frames with a clock that is off; others change nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    suffix = f" {fault}" if fault in (DRAG, RATE) else ""
    path, plate = folder / f"{one.name}{suffix}.mp4", folder / f"{one.name} empty.mp4"
    fps, crf = one.scene.timing.fps * (RATE_OFF if fault == RATE else 1), quality(one, seed)
    if not path.exists():
        encode(path, frames(one, seed, AIR if fault == DRAG else 0.0), fps, crf, from_camera(one.number))
    if not plate.exists():
        encode(plate, empty(one, seed), fps, crf, from_camera(one.number))
    return path, plate


def quality(one: Recording, seed: int) -> int:
    """Constant rate factor of the encoder."""
    return int(stream(one.kind, one.number, seed, LOOK).integers(*CRF))


def frames(
    one: Recording, seed: int, drag: float = 0.0, alpha: np.ndarray | None = None, dark: np.ndarray | None = None
) -> np.ndarray:
    """8-bit frames (frames, height, width, 3) before the encoder.

    Args:
        one: The recording.
        seed: Of the run.
        drag: Linear drag [1/s].
        alpha: Coverage (frames, height, width) in place of that of the motion.
        dark: Share of the background's light that a shadow takes (frames, height, width), besides that on a ground.
    """
    look = stream(one.kind, one.number, seed, LOOK)
    _, sigma, background = look.integers(*CRF), look.uniform(*SIGMA), texture(one.scene.camera.size, look)
    motion = surface(one, one.truth, drag)
    alpha = _covered(one, motion) if alpha is None else alpha
    color, lit = np.array(COLORS[look.integers(len(COLORS))]), _shading(alpha, look)
    image = np.broadcast_to(background, (*alpha.shape, 3))
    if one.scene.grounds and look.uniform() < SHADOWED:
        image = image * (1 - look.uniform(0.15, 0.35) * _shadow(one, motion))[..., None]
    if dark is not None:
        image = image * (1 - dark)[..., None]
    image = image + alpha[..., None] * (color * lit[..., None] - image)
    return _exposed(image, sigma, stream(one.kind, one.number, seed, NOISE))


def texture(size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Smooth random background (height, width, 3) of two scales about a light color."""
    from scipy.ndimage import gaussian_filter

    width, height = size
    image = np.array([0.72, 0.7, 0.66]) + rng.uniform(-0.08, 0.08, 3)
    for scale, amplitude in ((height / 8, 0.06), (height / 50, 0.025)):
        waves = gaussian_filter(rng.standard_normal((height, width, 3)), (scale, scale, 0), mode="wrap")
        image = image + amplitude * waves / waves.std()
    return image


def encode(path: Path, images: np.ndarray, fps: float, crf: int, left_sited: bool) -> None:
    """Write an h264 video, from planes whose chroma is left-sited or from RGB as PyAV converts it."""
    frames = np.stack([planes(image) for image in images]) if left_sited else images
    with atomic_path(path) as draft:
        write_h264(draft, frames, Fraction(fps).limit_denominator(1000), {"crf": str(crf)}, left_sited)


def planes(image: np.ndarray) -> np.ndarray:
    """Y, then U and V at half the size, below one another (3/2 height, width) uint8, of BT.601 in the limited range.

    Chroma is at even columns (weights 1/4, 1/2, 1/4) and between two rows, which H.264 takes where nothing else is said.
    """
    from scipy.ndimage import convolve1d

    y, u, v = np.moveaxis(image / 255 @ BT601.T, -1, 0)
    halves = [convolve1d(c, [0.25, 0.5, 0.25], 1, mode="nearest")[:, ::2] for c in (u, v)]
    u, v = ((c[::2] + c[1::2]) / 2 for c in halves)
    flat = np.concatenate([16 + 219 * y.ravel(), 128 + 224 * u.ravel(), 128 + 224 * v.ravel()])
    return np.rint(flat).clip(0, 255).astype(np.uint8).reshape(-1, image.shape[1])


def empty(one: Recording, seed: int) -> np.ndarray:
    """8-bit frames (frames, height, width, 3) of the empty scene before the encoder."""
    look = stream(one.kind, one.number, seed, LOOK)
    _, sigma, background = look.integers(*CRF), look.uniform(*SIGMA), texture(one.scene.camera.size, look)
    noise = np.random.default_rng(stream(one.kind, one.number, seed, NOISE).integers(2**32))
    return _exposed(np.broadcast_to(background, (PLATE_FRAMES, *background.shape)), sigma, noise)


def _exposed(image: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    return np.rint((image + sigma * rng.standard_normal(image.shape)) * 255).clip(0, 255).astype(np.uint8)


def _covered(one: Recording, motion: Motion) -> np.ndarray:
    vertices, faces = motion
    points = on_image(one, vertices)
    return np.stack([coverage(frame, faces, one.scene.camera.size) for frame in points])


def on_image(one: Recording, vertices: np.ndarray) -> np.ndarray:
    """Column and row (..., 2) [px] of points (..., 3) [m]."""
    look = one.scene.camera.look_at
    return project(vertices, look.eye, look.target, look.fov, one.scene.camera.size)


def _shading(alpha: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Relative brightness (frames, height, width) of the body: a gradient across it that turns and flickers a little."""
    count, height, width = alpha.shape
    strength, first, turn = rng.uniform(0.05, 0.2), rng.uniform(0, 2 * np.pi), rng.uniform(-1, 1)
    y, x = np.mgrid[:height, :width] + 0.5
    lit = []
    for k, image in enumerate(alpha):
        weight = max(image.sum(), 1e-9)
        angle, radius = first + turn * k / count, max(np.sqrt(weight / np.pi), 1.0)
        right, down = x - (x * image).sum() / weight, y - (y * image).sum() / weight
        across = ((np.cos(angle) * right + np.sin(angle) * down) / radius).clip(-1.5, 1.5)
        lit.append(1 + strength * across + 0.03 * np.sin(0.2 * k))
    return np.array(lit)


def _shadow(one: Recording, motion: Motion) -> np.ndarray:
    """Soft shadow (frames, height, width) of the body on its ground."""
    from scipy.ndimage import gaussian_filter

    vertices, faces = motion
    ground = one.scene.grounds["ground"]
    up = np.array(ground.normal) / np.linalg.norm(ground.normal)
    height = one.truth.get("ground.height", ground.height)
    assert height is not None
    flat = vertices + ((height - vertices @ up) / (SUN @ up))[..., None] * SUN
    size = one.scene.camera.size
    both = np.concatenate([faces, faces[:, ::-1]])  # either side of what is flat may be in front
    shadows = np.stack([coverage(frame, both, size) for frame in on_image(one, flat)])
    return gaussian_filter(shadows, (0, size[1] / 60, size[1] / 60))
