"""RGB video as an observation: residuals of every channel of every pixel against rendered images.

    r = (image − video)/σ,      dr = (image(s + ε ds) − image(s − ε ds))/(2 ε σ)

Unlike masks, textures carry information from inside of the outline. The renderer has only an adjoint, so derivatives along
a direction are central differences of the rendering alone, in double precision, along the exact forward sensitivities of
the states. CDF residuals are those of images averaged over blocks of pixels.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.identification.observation import optical_flow
from gradsim.identification.observation.base import (
    OUTLINE_SIGMAS,
    NoiseFloor,
    Observation,
    Residual,
    Sensitivity,
    normal_equations,
    sum_squares,
)
from gradsim.losses import CDF
from gradsim.numerics.robust import GAUSSIAN, RobustLoss, robust_loss
from gradsim.physics.trajectory import Trajectory
from gradsim.render.renderer import Renderer

STEP = 1e-6  # of central differences, in sizes of the scene: rounding 1e-10, truncation 1e-12 of the derivative
MAX_DIFFERENCED_UNKNOWNS = 8  # number of unknowns above which optical flow is cheaper than central differences
BLOCK = 8  # [px] size of the blocks of CDF residuals
CHUNK = 2**23  # elements of one batch of images: some hundred MB with the buffers of the rasterizer


class Images(Observation):
    """RGB images of a video: an `Observation`.

    Args:
        video: (frames, 3, height, width) in [0, 1].
        sigma: Noise of each channel of a pixel.
        renderer: Renderer of such images; `Renderer.of(scene, camera=NAME)`.
        loss: "gaussian", or "huber" or "cauchy" against outlier pixels.

    Raises:
        InputError: If the shape of the video is not that of the renderer's images, or the noise is not above 0.
    """

    def __init__(self, video: Tensor, sigma: float, renderer: Renderer, loss: str | RobustLoss = "huber"):
        size = (3, renderer.camera.height, renderer.camera.width)
        if video.ndim != 4 or video.shape[1:] != size:
            raise InputError(
                f"the video has shape {tuple(video.shape)}; this camera needs (frames, {size[0]}, {size[1]}, {size[2]})."
            )
        if not sigma > 0:
            raise InputError(f"sigma, the noise of the video, is {sigma}; it must be above 0, such as 1/255.")
        self.video, self.sigma, self.renderer = video.double(), float(sigma), renderer
        self.frames, self.loss = len(video), robust_loss(loss)

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        for first, last in self._chunks(frames, len(next(iter(trajectory.values.values())))):
            image = self._image(trajectory, first, last)
            yield self._whiten((image - self.video[first:last]) / self.sigma, residual)

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        for r, J in self._linear(s, frames, residual):
            yield (r, J) if residual != "pixels" else self.loss.winsorize(r, J)

    @torch.no_grad()
    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        return sum_squares(self.residuals(trajectory, frames, residual))

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        if (
            residual != "pixels"
            or s.unknowns < MAX_DIFFERENCED_UNKNOWNS
            or not optical_flow.supports_flow(self.renderer, s)
        ):
            return normal_equations(self._linear(s, frames, residual), GAUSSIAN if residual != "pixels" else self.loss)
        parts = []
        for first, last in self._chunks(frames, s.unknowns):
            video = self.video[first:last]
            parts.append(optical_flow.normal(self.renderer, s, video, self.sigma, self.loss, first, last))
        cost, gradient, matrix = (torch.stack(part).sum(0) for part in zip(*parts, strict=True))
        return cost, gradient, matrix

    def noise_floor(self, frames: int) -> NoiseFloor:
        background = torch.as_tensor(self.renderer.background, dtype=torch.float64)
        background = background[:, None, None] if background.ndim == 1 else background
        off = (self.video[:frames] - background).abs() / self.sigma
        near = off[off < OUTLINE_SIGMAS]
        level = (near.median() / 0.6745).square().item() if len(near) else 1.0
        clear = off < OUTLINE_SIGMAS * max(level, 1e-16) ** 0.5
        return NoiseFloor(off[clear].square().sum().item(), float((~clear).sum()), level)

    def slice_frames(self, first: int, last: int) -> "Images":
        return Images(self.video[first:last], self.sigma, self.renderer, self.loss)

    @torch.no_grad()
    def _linear(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        lanes = len(next(iter(s.trajectory.values.values())))
        step = _steps(s)
        ahead, behind = _perturbed(s, step), _perturbed(s, -step)
        once = _stride(s.trajectory, s.unknowns)
        for first, last in self._chunks(frames, lanes):
            center = self._image(once, first, last)
            r = (center - self.video[first:last]) / self.sigma
            ends = [self._image(end, first, last) for end in (behind, ahead)]
            centers = center.repeat_interleave(s.unknowns, 0)
            slope = (
                optical_flow.central_difference(ends[0], centers, ends[1], step[:, None, None, None, None]) / self.sigma
            )
            J = s.by_world(self._whiten(slope, residual, plain=True)).mT
            yield self._whiten(r, residual, plain=residual != "pixels" or self.loss.kind != 0), J

    def _whiten(self, r: Tensor, residual: Residual, plain: bool = False) -> Tensor:
        """Whitened differences (worlds, frames, 3, h, w) as residuals (worlds, n)."""
        if residual == "cdf" or isinstance(residual, CDF):
            block = min(BLOCK, *r.shape[3:])
            return avg_pool2d(r.flatten(0, 1), block).unflatten(0, r.shape[:2]).flatten(1)
        if residual != "pixels":
            raise InputError(
                "`Images` do not support image losses; use residuals 'pixels' or 'cdf', or fit `Masks` instead."
            )
        return r.flatten(1) if plain else self.loss.root(r.flatten(1))

    def _image(self, trajectory: Trajectory, first: int, last: int) -> Tensor:
        """Rendered images (worlds, frames, 3, h, w); NaN for diverged worlds."""
        part = trajectory.at(slice(first, last))
        surface = part.scene_surface
        diverged = ~torch.isfinite(surface.vertices).flatten(1).all(1)
        if not diverged.any():
            return self.renderer(surface, part.values)
        ahead = Surface(torch.where(torch.isfinite(surface.vertices), surface.vertices, 0.0), surface.parts)
        return torch.where(diverged[:, None, None, None, None], torch.nan, self.renderer(ahead, part.values))

    def _chunks(self, frames: int, worlds: int) -> Iterator[tuple[int, int]]:
        _, _, height, width = self.video.shape
        step = max(1, CHUNK // (worlds * 3 * height * width))
        for first in range(0, frames, step):
            yield first, min(first + step, frames)


def _steps(s: Sensitivity) -> Tensor:
    """ε of each world, which moves the surface by `STEP` of its size, or else the parameters by `STEP`."""
    surface, moving = s.trajectory.surface_tangent(s.tangent, s.direction)
    size = (surface.vertices.amax((0, 1, 2)) - surface.vertices.amin((0, 1, 2))).norm()
    fastest = moving.flatten(1).abs().amax(1)
    return torch.where(fastest > 0, STEP * size / fastest.clamp(min=1e-300), STEP)


def _perturbed(s: Sensitivity, step: Tensor) -> Trajectory:
    """Trajectories perturbed by ε along their tangents."""
    by: Any = lambda y: step.reshape(-1, *[1] * (y.ndim - 1))
    at, along = s.trajectory, s.tangent.states
    states = {b: {k: y + by(y) * along[b][k] for k, y in state.items()} for b, state in at.states.items()}
    values = {name: v + by(v) * s.direction[name] if name in s.direction else v for name, v in at.values.items()}
    return Trajectory(at.times, states, values, at.systems, at.scenery)


def _stride(trajectory: Trajectory, step: int) -> Trajectory:
    """Every `step`-th world."""
    states = {b: {k: y[::step] for k, y in state.items()} for b, state in trajectory.states.items()}
    values = {name: v[::step] for name, v in trajectory.values.items()}
    return Trajectory(trajectory.times, states, values, trajectory.systems, trajectory.scenery)
