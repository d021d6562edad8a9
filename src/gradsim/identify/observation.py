"""What was seen: silhouettes in a video, or states of a body, each with its noise.

An observation turns a trajectory into whitened residuals r = (model − data)/σ, in chunks of frames so that the memory
stays bounded, and says which residuals carry information.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gradsim import rotation
from gradsim.losses import cdf, cdf_of_sums_tangent, cdf_tangent
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.misfit import misfit, profiles, target
from gradsim.render.silhouettes import Silhouettes
from gradsim.surface import Surface

CLEAR = 4.0  # a pixel this many σ from 0 and from 1 is on an outline
CHUNK = 2**25  # numbers in one block of an image Jacobian: 256 MB


@dataclass(frozen=True)
class Sensitivity:
    """A trajectory of worlds × unknowns rollouts with its derivatives, one unknown in each.

    Args:
        trajectory: The rollouts; every `unknowns`-th is another world.
        tangent: Derivatives of its states.
        along: The directions, by parameter.
        unknowns: Number of unknowns.
    """

    trajectory: Trajectory
    tangent: Trajectory
    along: Values
    unknowns: int


class Observation(Protocol):
    """Data that a trajectory is compared with."""

    frames: int

    def residuals(self, trajectory: Trajectory, frames: int, coarse: bool) -> Iterator[Tensor]:
        """Blocks (worlds, n) of whitened residuals of the first `frames` frames; differentiable."""
        ...

    def linearised(self, s: Sensitivity, frames: int, coarse: bool) -> Iterator[tuple[Tensor, Tensor]]:
        """Blocks (worlds, n) and their derivatives (worlds, n, unknowns)."""
        ...

    def cost(self, trajectory: Trajectory, frames: int, coarse: bool) -> Tensor:
        """Σ r² (worlds,), not differentiable."""
        ...

    def normal(self, s: Sensitivity, frames: int, coarse: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Σ r² (worlds,), Jᵀ r (worlds, unknowns) and Jᵀ J (worlds, unknowns, unknowns)."""
        ...

    def floor(self, frames: int) -> tuple[float, float, float]:
        """Σ r² that no parameters remove, the number of residuals that carry information, and χ²/N of the noise in
        the others: 1 where σ is right, 0 for float frames, infinite where nothing tells."""
        ...


def summed(blocks: Iterator[Tensor]) -> Tensor:
    """Σ r² (worlds,) over blocks (worlds, n)."""
    return torch.stack([r.square().sum(1) for r in blocks]).sum(0)


def normal_equations(blocks: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Σ r², Jᵀ r and Jᵀ J over blocks of residuals and derivatives."""
    parts = [(r.square().sum(1), (J.mT @ r[..., None])[..., 0], J.mT @ J) for r, J in blocks]
    cost, gradient, matrix = (torch.stack(part).sum(0) for part in zip(*parts, strict=True))
    return cost, gradient, matrix


class Masks:
    """Coverage of pixels by the bodies, from a video.

    Args:
        masks: (frames, height, width), the share of each pixel that the bodies cover, in about [0, 1].
        sigma: Standard deviation of its noise.
        silhouettes: The renderer of the same size.
        weight: Optional (frames, height, width) in {0, 1}: pixels that count.
    """

    def __init__(self, masks: Tensor, sigma: float, silhouettes: Silhouettes, weight: Tensor | None = None):
        self.masks, self.sigma, self.silhouettes = masks.double(), float(sigma), silhouettes
        self.frames = len(masks)
        self.weight = torch.ones_like(self.masks) if weight is None else weight.double()
        self._cdf = cdf(self.masks * self.weight)
        self._target = target(self.masks, self.weight / self.sigma**2)

    def residuals(self, trajectory: Trajectory, frames: int, coarse: bool) -> Iterator[Tensor]:
        image = self._union(self.silhouettes.masks(trajectory.surface, trajectory.values))[:, :frames]
        image = image * self.weight[:frames]
        if coarse:
            yield ((cdf(image) - self._cdf[:frames]) / self.sigma).flatten(1)
        else:
            yield ((image - (self.masks * self.weight)[:frames]) / self.sigma).flatten(1)

    def linearised(self, s: Sensitivity, frames: int, coarse: bool) -> Iterator[tuple[Tensor, Tensor]]:
        surface, moving, values, along = self._separated(s)
        worlds, (height, width) = len(surface.vertices), self.masks.shape[1:]
        step = max(1, CHUNK // (worlds * height * width * s.unknowns * len(surface.parts)))
        for first in range(0, frames, step):
            last = min(first + step, frames)
            part = Surface(surface.vertices[:, first:last], surface.parts)
            image, slope = self.silhouettes.masks_tangent(part, moving[:, :, first:last], values, along)
            image, slope = _union_tangent(image, slope)
            image, slope = image * self.weight[first:last], slope * self.weight[first:last, ..., None]
            target = (self.masks * self.weight)[first:last]
            if coarse:
                image, slope = cdf_tangent(image, slope)
                target = self._cdf[first:last]
            r, slope = (image - target) / self.sigma, slope / self.sigma
            yield r.flatten(1), slope.flatten(1, slope.ndim - 2)

    @torch.no_grad()  # with it the renderer is a custom operation, whose first use imports for seconds
    def cost(self, trajectory: Trajectory, frames: int, coarse: bool) -> Tensor:
        surface = trajectory.surface
        if coarse or not _single_convex(surface):
            return summed(self.residuals(trajectory, frames, coarse))
        screen = self.silhouettes.screen(surface, trajectory.values)
        still = screen.new_empty(len(screen), 0, *screen.shape[1:])
        return misfit(screen, still, surface.parts[0].faces, self._target)[0]

    def normal(self, s: Sensitivity, frames: int, coarse: bool) -> tuple[Tensor, Tensor, Tensor]:
        surface, moving, values, along = self._separated(s)
        if not _single_convex(surface):
            return normal_equations(self.linearised(s, frames, coarse))
        screen, slope = self.silhouettes.screen_tangent(surface, moving, values, along)
        faces = surface.parts[0].faces
        if coarse:
            sums, slopes = profiles(screen, slope, faces, self.weight[:frames])
            value, slopes = cdf_of_sums_tangent(sums, slopes, self.masks.shape[1])
            r, slopes = (value - self._cdf[:frames]) / self.sigma, slopes / self.sigma
            return normal_equations(iter([(r.flatten(1), slopes.flatten(1, 2))]))
        return misfit(screen, slope, faces, self._target)

    def floor(self, frames: int) -> tuple[float, float, float]:
        masks, counted = self.masks[:frames], self.weight[:frames] > 0
        off = torch.minimum(masks.abs(), (1 - masks).abs()) / self.sigma
        near = counted & (off < CLEAR)
        # half of the clear pixels are off by less than this; 0.6745 σ for Gaussian noise
        level = (off[near].median() / 0.6745).square().item() if near.any() else 1.0
        clear = counted & (off < CLEAR * max(level, 1e-16) ** 0.5)
        return off[clear].square().sum().item(), float((counted & ~clear).sum()), level

    def _separated(self, s: Sensitivity) -> tuple[Surface, Tensor, Values, Values]:
        """Surface and parameters of each world once, and their derivatives (worlds, unknowns, ...)."""
        surface, moving = s.trajectory.surface_tangent(s.tangent, s.along)
        values = {name: v[:: s.unknowns] for name, v in s.trajectory.values.items()}
        along = {name: v.unflatten(0, (-1, s.unknowns)) for name, v in s.along.items()}
        return (
            Surface(surface.vertices[:: s.unknowns], surface.parts),
            moving.unflatten(0, (-1, s.unknowns)),
            values,
            along,
        )

    def _union(self, masks: Tensor) -> Tensor:
        """One mask of all parts (worlds, frames, height, width): 1 − Π (1 − α)."""
        return masks[:, :, 0] if masks.shape[2] == 1 else 1 - (1 - masks).prod(2)


def _single_convex(surface: Surface) -> bool:
    return len(surface.parts) == 1 and surface.parts[0].convex


def _union_tangent(masks: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    if masks.shape[2] == 1:
        return masks[:, :, 0], slopes[:, :, 0]
    clear, change = 1 - masks[:, :, 0], -slopes[:, :, 0]
    for k in range(1, masks.shape[2]):
        change = change * (1 - masks[:, :, k, ..., None]) - clear[..., None] * slopes[:, :, k]
        clear = clear * (1 - masks[:, :, k])
    return 1 - clear, -change


class States:
    """Position and orientation of a rigid body at each frame, as from motion capture (the paper's 3-D supervision).

    Args:
        body: Its name.
        x: Positions of the centre of mass (frames, 3) [m].
        quat_xyzw: Orientations (frames, 4), or None for positions alone.
        sigma_x: Noise of each coordinate [m].
        sigma_angle: Noise of the orientation about each axis [rad].
    """

    def __init__(self, body: str, x: Tensor, quat_xyzw: Tensor | None, sigma_x: float, sigma_angle: float = 1.0):
        self.body, self.x, self.q = body, x.double(), None if quat_xyzw is None else quat_xyzw.double()
        self.sigma_x, self.sigma_angle, self.frames = sigma_x, sigma_angle, len(x)

    def residuals(self, trajectory: Trajectory, frames: int, coarse: bool) -> Iterator[Tensor]:
        states = trajectory[self.body]
        yield self._compare([states["x"][:, :frames], states["q"][:, :frames]]).flatten(1)

    def linearised(self, s: Sensitivity, frames: int, coarse: bool) -> Iterator[tuple[Tensor, Tensor]]:
        states, tangent = s.trajectory[self.body], s.tangent[self.body]
        primal = [states[k][:, :frames] for k in ("x", "q")]
        along = [tangent[k][:, :frames] for k in ("x", "q")]
        r, slope = torch.func.jvp(self._compare, (primal,), (along,))  # pyright: ignore[reportAssignmentType]
        yield r[:: s.unknowns].flatten(1), slope.flatten(1).unflatten(0, (-1, s.unknowns)).transpose(1, 2)

    def cost(self, trajectory: Trajectory, frames: int, coarse: bool) -> Tensor:
        return summed(self.residuals(trajectory, frames, coarse))

    def normal(self, s: Sensitivity, frames: int, coarse: bool) -> tuple[Tensor, Tensor, Tensor]:
        return normal_equations(self.linearised(s, frames, coarse))

    def floor(self, frames: int) -> tuple[float, float, float]:
        return 0.0, float(frames * (3 if self.q is None else 6)), float("inf")

    def _compare(self, states: list[Tensor]) -> Tensor:
        """(worlds, frames, 3 or 6)."""
        x, q = states
        frames = x.shape[1]
        shift = (x - self.x[:frames]) / self.sigma_x
        if self.q is None:
            return shift
        turn = rotation.logarithm(rotation.multiply(q, rotation.conjugate(self.q[:frames]).expand_as(q)))
        return torch.cat([shift, turn / self.sigma_angle], -1)
