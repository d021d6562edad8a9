"""A ball in closed-form flight, drawn by rays, with an outline that is off: wide everywhere, and wavy, alike in frames."""

import numpy as np
import torch

import gradsim as gs
from gradsim.identification.observation.base import Masks
from gradsim.render.silhouettes import Silhouettes

WIDTH, HEIGHT, FPS, RADIUS, DISTANCE, HALF_ANGLE = 96, 72, 30, 0.4, 3.0, 0.35
FOCAL = HEIGHT / 2 / np.tan(HALF_ANGLE)
START = np.array([-0.6, 0.3])  # right, up [m]
NAMES = ("ball.velocity.x:0:2", "ball.velocity.z:1:5", "gravity.z:-15:-5")
ANGLES = 256
SAMPLES = 4  # along each side of a pixel


def scene(frames: int = 24) -> gs.Scene:
    look = {"eye": [0, -DISTANCE, 0.6], "target": [0, 0, 0.6], "fov": 2 * HALF_ANGLE}
    ball = {"shape": {"sphere": {"radius": RADIUS}}, "mass": 1, "position": [-0.6, 0, 0.3], "velocity": [1, 0, 4]}
    camera = {"size": [WIDTH, HEIGHT], "look_at": look}
    return gs.Scene.parse({"timing": {"fps": FPS, "frames": frames}, "camera": camera, "bodies": {"ball": ball}})


def waves(frames: int, length: float, correlation: float, rng: np.random.Generator) -> np.ndarray:
    """Unit displacements (frames, angles): a Gaussian process of some correlation length [px] on the circle, AR(1) in time."""
    angle = 2 * np.pi * np.arange(ANGLES) / ANGLES
    kernel = np.exp(-((np.minimum(angle, 2 * np.pi - angle) * FOCAL * RADIUS / DISTANCE / length) ** 2) / 2)
    root = np.sqrt(
        np.fft.fft(kernel).real.clip(0)
    )  # of the circulant covariance: unlike eigenvectors, the same everywhere
    draw = lambda: np.fft.ifft(root * np.fft.fft(rng.standard_normal(ANGLES))).real
    displacement = [draw()]
    for _ in range(frames - 1):
        displacement.append(correlation * displacement[-1] + np.sqrt(1 - correlation**2) * draw())
    return np.array(displacement)


def centres(frames: int, truth, drag: float = 0.0, late: float = 0.0, rate: float = FPS) -> np.ndarray:
    """Right and up (frames, 2) [m] of truth (velocity right, velocity up, gravity), with linear drag [1/s], `late` [s] after stamps of a rate [1/s]."""
    t = np.arange(frames) / rate + late
    fall, time = (t, t) if not drag else ((t - (1 - np.exp(-drag * t)) / drag) / drag, (1 - np.exp(-drag * t)) / drag)
    drop = truth[2] * (t**2 / 2 if not drag else fall)
    return START + np.stack([truth[0] * time, truth[1] * time + drop], 1)


def masks(places: np.ndarray, displacement: np.ndarray) -> Masks:
    """Masks (frames, HEIGHT, WIDTH) of outlines that are displaced outward (frames, angles) [px]."""
    right = ((np.arange(WIDTH * SAMPLES) + 0.5) / SAMPLES - WIDTH / 2) / FOCAL
    up = -((np.arange(HEIGHT * SAMPLES) + 0.5) / SAMPLES - HEIGHT / 2) / FOCAL
    rays = np.stack(np.broadcast_arrays(right, 1.0, up[:, None]), -1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    images = []
    for (x, z), wave in zip(places, displacement, strict=True):
        centre = np.array([x, DISTANCE, z - 0.6])
        away = np.sqrt((centre @ centre - (rays @ centre) ** 2).clip(0))
        angle = np.arctan2(up[:, None] - centre[2] / DISTANCE, right - centre[0] / DISTANCE) % (2 * np.pi)
        outward = np.interp(angle, 2 * np.pi * np.arange(ANGLES + 1) / ANGLES, np.append(wave, wave[0]))
        inside = (away < RADIUS + outward * DISTANCE / FOCAL).astype(float)
        images.append(inside.reshape(HEIGHT, SAMPLES, WIDTH, SAMPLES).mean((1, 3)))
    seen = Masks(torch.tensor(np.array(images)), 0.1, Silhouettes.of(scene(len(places))))
    seen.outline_noise = True
    return seen
