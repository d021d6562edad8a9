"""Colours of a film as an observation: every channel of every pixel, as a renderer makes it.

    r = (picture − film)/σ,     dr = (picture(s + ε ds) − picture(s − ε ds))/(2 ε σ)

Texture shows points inside the outline, which masks cannot. Derivatives along a direction are central differences of the
picture alone, in double precision, about the states and their exact forward sensitivities: the renderer has only an
adjoint. CDF residuals are those of pictures whose pixels are averaged in blocks.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.identification.observation import optical_flow
from gradsim.identification.observation.base import CLEAR, NoiseFloor, Residual, Sensitivity, normal_equations, summed
from gradsim.losses import CDF
from gradsim.numerics.robust import GAUSSIAN, RobustLoss, robust_loss
from gradsim.physics.trajectory import Trajectory
from gradsim.render.renderer import Renderer

STEP = 1e-6  # of central differences, in sizes of what is seen: rounding 1e-10, truncation 1e-12 of the derivative
FEW = 8  # unknowns from which the flow is cheaper than central differences for each
BLOCK = 8  # pixels across averaged by CDF residuals
CHUNK = 2**23  # numbers in one batch of pictures: with what rasterising needs, some hundred MB


class Images:
    """RGB of a film: an `Observation`.

    Args:
        film: (frames, 3, height, width) in [0, 1].
        sigma: Noise of each channel of a pixel.
        renderer: Makes such pictures; `Renderer.of(scene, camera=NAME)`.
        loss: "gaussian", or "huber" or "cauchy" where pixels may be outliers.

    Raises:
        InputError: If the film has another shape than the renderer's pictures, or no noise.
    """

    def __init__(self, film: Tensor, sigma: float, renderer: Renderer, loss: str | RobustLoss = "huber"):
        size = (3, renderer.camera.height, renderer.camera.width)
        if film.ndim != 4 or film.shape[1:] != size:
            raise InputError(
                f"the film has shape {tuple(film.shape)}; this camera needs (frames, {size[0]}, {size[1]}, {size[2]})."
            )
        if not sigma > 0:
            raise InputError(f"the noise of the film is {sigma}; it has to be above 0, such as 1/255.")
        self.film, self.sigma, self.renderer = film.double(), float(sigma), renderer
        self.frames, self.loss = len(film), robust_loss(loss)

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        for first, last in self._chunks(frames, len(next(iter(trajectory.values.values())))):
            picture = self._picture(trajectory, first, last)
            yield self._told((picture - self.film[first:last]) / self.sigma, residual)

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        for r, J in self._linear(s, frames, residual):
            yield (r, J) if residual != "pixels" else self.loss.winsorize(r, J)

    @torch.no_grad()
    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        return summed(self.residuals(trajectory, frames, residual))

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        if residual != "pixels" or s.unknowns < FEW or not optical_flow.carries(self.renderer, s):
            return normal_equations(self._linear(s, frames, residual), GAUSSIAN if residual != "pixels" else self.loss)
        parts = []
        for first, last in self._chunks(frames, s.unknowns):
            film = self.film[first:last]
            parts.append(optical_flow.normal(self.renderer, s, film, self.sigma, self.loss, first, last))
        cost, gradient, matrix = (torch.stack(part).sum(0) for part in zip(*parts, strict=True))
        return cost, gradient, matrix

    def noise_floor(self, frames: int) -> NoiseFloor:
        background = torch.as_tensor(self.renderer.background, dtype=torch.float64)
        background = background[:, None, None] if background.ndim == 1 else background
        off = (self.film[:frames] - background).abs() / self.sigma
        near = off[off < CLEAR]
        level = (near.median() / 0.6745).square().item() if len(near) else 1.0
        clear = off < CLEAR * max(level, 1e-16) ** 0.5
        return NoiseFloor(off[clear].square().sum().item(), float((~clear).sum()), level)

    def slice_frames(self, first: int, last: int) -> "Images":
        return Images(self.film[first:last], self.sigma, self.renderer, self.loss)

    @torch.no_grad()
    def _linear(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        lanes = len(next(iter(s.trajectory.values.values())))
        step = _steps(s)
        there, back = _shifted(s, step), _shifted(s, -step)
        once = _every(s.trajectory, s.unknowns)
        for first, last in self._chunks(frames, lanes):
            here = self._picture(once, first, last)
            r = (here - self.film[first:last]) / self.sigma
            ends = [self._picture(end, first, last) for end in (back, there)]
            lanes_here = here.repeat_interleave(s.unknowns, 0)
            slope = optical_flow.steady(ends[0], lanes_here, ends[1], step[:, None, None, None, None]) / self.sigma
            J = s.by_world(self._told(slope, residual, plain=True)).mT
            yield self._told(r, residual, plain=residual != "pixels" or self.loss.kind != 0), J

    def _told(self, r: Tensor, residual: Residual, plain: bool = False) -> Tensor:
        """Whitened differences (worlds, frames, 3, h, w) as residuals (worlds, n)."""
        if residual == "cdf" or isinstance(residual, CDF):
            block = min(BLOCK, *r.shape[3:])
            return avg_pool2d(r.flatten(0, 1), block).unflatten(0, r.shape[:2]).flatten(1)
        if residual != "pixels":
            raise InputError("pictures have no residuals by a loss of images; fit masks by it, or pictures by pixels.")
        return r.flatten(1) if plain else self.loss.root(r.flatten(1))

    def _picture(self, trajectory: Trajectory, first: int, last: int) -> Tensor:
        """What the camera sees (worlds, frames, 3, h, w); NaN of worlds that left the finite numbers."""
        part = trajectory.at(slice(first, last))
        surface = part.drawn
        lost = ~torch.isfinite(surface.vertices).flatten(1).all(1)
        if not lost.any():
            return self.renderer(surface, part.values)
        there = Surface(torch.where(torch.isfinite(surface.vertices), surface.vertices, 0.0), surface.parts)
        return torch.where(lost[:, None, None, None, None], torch.nan, self.renderer(there, part.values))

    def _chunks(self, frames: int, worlds: int) -> Iterator[tuple[int, int]]:
        _, _, height, width = self.film.shape
        step = max(1, CHUNK // (worlds * 3 * height * width))
        for first in range(0, frames, step):
            yield first, min(first + step, frames)


def _steps(s: Sensitivity) -> Tensor:
    """ε of each lane: so that the surface moves by `STEP` of its size, or the parameters by `STEP` of theirs."""
    surface, moving = s.trajectory.surface_tangent(s.tangent, s.along)
    size = (surface.vertices.amax((0, 1, 2)) - surface.vertices.amin((0, 1, 2))).norm()
    fastest = moving.flatten(1).abs().amax(1)
    return torch.where(fastest > 0, STEP * size / fastest.clamp(min=1e-300), STEP)


def _shifted(s: Sensitivity, step: Tensor) -> Trajectory:
    """The trajectories ε away along their tangents."""
    by: Any = lambda y: step.reshape(-1, *[1] * (y.ndim - 1))
    at, along = s.trajectory, s.tangent.states
    states = {b: {k: y + by(y) * along[b][k] for k, y in own.items()} for b, own in at.states.items()}
    values = {name: v + by(v) * s.along[name] if name in s.along else v for name, v in at.values.items()}
    return Trajectory(at.times, states, values, at.systems, at.scenery)


def _every(trajectory: Trajectory, step: int) -> Trajectory:
    """Each `step`-th world."""
    states = {b: {k: y[::step] for k, y in own.items()} for b, own in trajectory.states.items()}
    values = {name: v[::step] for name, v in trajectory.values.items()}
    return Trajectory(trajectory.times, states, values, trajectory.systems, trajectory.scenery)
