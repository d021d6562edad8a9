"""Bias of lossy codecs: the fitted model is encoded again, and the same fit says how far the answer moves (parametric bootstrap).

A codec predicts blocks of a frame from earlier and later ones by translation, and writes what is left only where it is large. A texture that
turns is so dragged along: spins are about a percent too small, alike in all frames, which no residual shows. The model has
the pixels inside of outlines; all others are those of the video. With the noise of a sensor, written at the size of the file
(constant rate factor by secants), and read again, it moves the answer by b; the answer is corrected by the mean b of some replicas, and b counts
once more as an error, since this encoder is like that of the file, and not the same (Efron & Tibshirani 1993, chapter 10). It counts along b, and as noise of colors that explains
its size: what a codec does to a texture that is not quite the model's has that size, and not that direction. Where colors inform with I, and colors and outlines
together with K, noise of colors of variance s moves the answer with covariance s K⁻¹ I K⁻¹, and bᵀ K b is s tr(I K⁻¹) in the mean, so

    C = b bᵀ + s K⁻¹ I K⁻¹          s = bᵀ K b / tr(I K⁻¹)

The trace is the number of unknowns that colors decide: of eight of a textured ball, 7.5 to 7.9.
"""

import itertools
import math
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch
from torch import Tensor

from gradsim import video as videos
from gradsim.identification.colors.errors import inverted
from gradsim.identification.colors.film import Film
from gradsim.identification.colors.interior import InteriorColors, LinearColors, interior_colors
from gradsim.identification.colors.response import mean_of_blocks
from gradsim.identification.colors.surface_points import body_named, pose_of, surface_points, visible_faces
from gradsim.identification.colors.texture import Texture
from gradsim.identification.colors.texture_parts import Pixels
from gradsim.identification.problem import Problem
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes
from gradsim.video.h264 import write_h264

COUNT = 4  # replicas
SENSOR = 0.006  # standard deviation of the noise before the encoder, at least: codecs hide it
RATES = (10, 38)  # constant rate factors that are tried
HALVED = 6.0  # rise of the rate factor that halves the size of a file
TRIES = 3  # encodings to match the size
SHARP = 40.0  # [px] radius of a body up to which its texture is fitted to all pixels for a replica
CELL = 0.7  # [px] cells of that texture


@dataclass(frozen=True)
class Encoding:
    """Compression of a video file.

    Args:
        size: Of its video, per frame [bytes].
        interval: Largest distance of key frames.
        fps: Frames per second.
        reordered: Whether frames are predicted from later ones.
    """

    size: float
    interval: int
    fps: float
    reordered: bool

    @classmethod
    def of(cls, path: Path) -> "Encoding":
        """That of a file."""
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            packets = [packet for packet in container.demux(stream) if packet.size]
            keys = [k for k, packet in enumerate(packets) if packet.is_keyframe]
            stamps = [packet.pts for packet in packets if packet.pts is not None]
            interval = max((b - a for a, b in itertools.pairwise(keys)), default=250)
            size = sum(packet.size for packet in packets) / max(1, len(packets))
            return cls(size, interval, float(stream.average_rate or 30), stamps != sorted(stamps))


@dataclass(frozen=True)
class CodecBias:
    """Shift of an answer by a codec like that of the file.

    Args:
        bias: Mean over replicas (unknowns,), in solver coordinates.
        covariance: Of that mean and of its size as an error (unknowns, unknowns).
        rate_factor: Of the encoder.
        noise: Root mean square of residuals of the replicas, over those of the video.
    """

    bias: Tensor
    covariance: Tensor
    rate_factor: float
    noise: float


def codec_bias(
    problem: Problem,
    colors: InteriorColors,
    film: Film,
    u: Tensor,
    information: Tensor,
    rng: np.random.Generator,
    count: int = COUNT,
) -> CodecBias:
    """Bias of an answer by the codec of a video.

    Args:
        problem: Its priors are what outlines say.
        colors: At the answer.
        film: The video.
        u: The answer (unknowns,).
        information: Curvature of the cost of colors there (unknowns, unknowns).
        rng: Of the noise.
        count: Number of replicas.
    """
    s = problem.sensitivity(u[None], colors.frames)
    trajectory = _one_world(s.trajectory)
    base, encoding = _model_frames(problem, colors, film, trajectory), Encoding.of(film.path)
    noise = max(SENSOR, _temporal_noise(film.frames))
    noisy = lambda: np.rint(base + 255 * noise * rng.standard_normal(base.shape)).clip(0, 255).astype(np.uint8)
    inverse = inverted(information + problem.prior_precision)
    reference, _ = _step(colors, s, base, inverse)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replica.mp4"
        rate = _matched_rate(noisy(), encoding, path)
        steps, levels = [], []
        for _ in range(count):
            _encode(path, noisy(), encoding, rate)
            step, rms = _step(colors, s, videos.read(path).frames, inverse)
            steps.append(step - reference)
            levels.append(rms)
    moves = torch.stack(steps)
    bias = moves.mean(0)
    scatter = torch.cov(moves.mT).reshape(len(u), len(u)) / count
    original = colors.linear(s, colors.frames)
    covariance = scatter + covariance_of_bias(bias, information, problem.prior_precision)
    return CodecBias(bias, covariance, rate, float(np.mean(levels)) / _rms(original))


def covariance_of_bias(bias: Tensor, information: Tensor, prior: Tensor) -> Tensor:
    """C (unknowns, unknowns) of a bias b (unknowns,), with what colors inform, I, and what is known without them (unknowns, unknowns)."""
    total = information + prior
    inverse = inverted(total)
    decided = torch.trace(information @ inverse).clamp(min=1e-12)  # in number of unknowns
    return torch.outer(bias, bias) + bias @ total @ bias / decided * (inverse @ information @ inverse)


def _one_world(trajectory: Trajectory) -> Trajectory:
    states = {body: {key: y[:1] for key, y in state.items()} for body, state in trajectory.states.items()}
    values = {name: v[:1] for name, v in trajectory.values.items()}
    return Trajectory(trajectory.times, states, values, trajectory.systems, trajectory.scenery)


def _step(colors: InteriorColors, s, frames: np.ndarray, inverse: Tensor) -> tuple[Tensor, float]:
    """Newton step (unknowns,) that other frames of the same motion ask for, and their RMS residual."""
    factor = colors.silhouettes.binning
    image = frames / 255.0
    if factor > 1:
        image = mean_of_blocks(image, factor, colors.gamma_of(s.trajectory.values))
    sampled = []
    for body in colors.bodies:
        column, row = body.pixels.place.floor().long().numpy().T
        sampled.append(image[body.pixels.frame.numpy(), row, column])
    parts = colors.with_colors(sampled).linear(s, colors.frames)
    g = torch.stack([part.gradient for part in parts]).sum(0)
    return -inverse @ g, _rms(parts)


def _rms(parts: list[LinearColors]) -> float:
    return math.sqrt(float(np.mean([part.residual.square().mean().item() for part in parts])))


@torch.no_grad()
def _model_frames(problem: Problem, colors: InteriorColors, film: Film, trajectory: Trajectory) -> np.ndarray:
    """Frames (frames, height, width, 3), 255 is white, of the video with the model inside of outlines."""
    camera = problem.model.scene
    silhouettes = Silhouettes.of(camera, colors.silhouettes.lens.removeprefix("cameras."))
    names, images = [body.name for body in colors.bodies], film.frames / 255.0
    full = interior_colors(images, film.used, trajectory, names, silhouettes, 1, CELL, subsampled=film.subsampled)
    textures, values = colors.textures(trajectory, colors.frames), {k: v[:1] for k, v in trajectory.values.items()}
    for body, coarse in zip(full.bodies, textures, strict=True):
        system, pose = body_named(trajectory, body.name), pose_of(trajectory, body.name, silhouettes)
        faces = visible_faces(system, pose, values, body.pixels, silhouettes)
        points = surface_points(system, pose, body.pixels, silhouettes, faces).points.numpy()
        pixels: Pixels = body.first(full.frames, coarse.pixels.gamma)[1]
        radius = math.sqrt(np.bincount(pixels.frame).max() / math.pi)
        if radius <= SHARP and coarse.known is None:
            texture = Texture(body.grid, points, pixels, start=coarse.exposure, steps=1)
        else:
            texture = Texture(coarse.grid, points, pixels, coarse.all_nodes(), coarse.exposure, 0)
        column, row = body.pixels.place.floor().long().numpy().T
        images[pixels.frame, row, column] = texture.predicted_values
    return 255 * images


def _temporal_noise(frames: np.ndarray) -> float:
    """Noise of a channel in [0, 1] from differences of frames, of the pixels that change least."""
    sampled = frames[:: max(1, len(frames) // 8)].astype(np.float32)
    return float(np.median(np.abs(np.diff(sampled, axis=0)))) / 255 / 0.6745 / math.sqrt(2)


def _matched_rate(frames: np.ndarray, encoding: Encoding, path: Path) -> float:
    """Rate factor at which frames take as many bytes as those of the file."""
    rate = 23.0
    for _ in range(TRIES):
        size = _encode(path, frames, encoding, rate)
        rate = min(max(rate + HALVED * math.log2(size / encoding.size), RATES[0]), RATES[1])
    return rate


def _encode(path: Path, frames: np.ndarray, encoding: Encoding, rate: float) -> float:
    """Write h264, and return its bytes per frame."""
    options = {"crf": f"{rate:.2f}", "g": str(encoding.interval)} | ({} if encoding.reordered else {"bf": "0"})
    return write_h264(path, frames, Fraction(encoding.fps).limit_denominator(1001), options) / len(frames)
