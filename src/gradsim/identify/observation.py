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
from gradsim.losses import cdf, cdf_tangent
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes

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
        """Blocks (worlds, n) of whitened residuals of the first `frames` frames."""
        ...

    def linearised(self, s: Sensitivity, frames: int, coarse: bool) -> Iterator[tuple[Tensor, Tensor]]:
        """Blocks (worlds, n) and their derivatives (worlds, n, unknowns)."""
        ...

    def floor(self, frames: int) -> tuple[float, float]:
        """Σ r² that no parameters can remove, and the number of residuals that carry information."""
        ...


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

    def residuals(self, trajectory: Trajectory, frames: int, coarse: bool) -> Iterator[Tensor]:
        image = self._union(self.silhouettes.masks(trajectory.surface, trajectory.values))[:, :frames]
        image = image * self.weight[:frames]
        if coarse:
            yield self._coarse(cdf(image) - self._cdf[:frames]).flatten(1)
        else:
            yield ((image - (self.masks * self.weight)[:frames]) / self.sigma).flatten(1)

    def linearised(self, s: Sensitivity, frames: int, coarse: bool) -> Iterator[tuple[Tensor, Tensor]]:
        surface, moving = s.trajectory.surface_tangent(s.tangent, s.along)
        values = {name: v[:: s.unknowns] for name, v in s.trajectory.values.items()}
        along = {name: v.unflatten(0, (-1, s.unknowns)) for name, v in s.along.items()}
        vertices = surface.vertices[:: s.unknowns]
        moving = moving.unflatten(0, (-1, s.unknowns))
        worlds, (height, width) = len(vertices), self.masks.shape[1:]
        step = max(1, CHUNK // (worlds * height * width * s.unknowns * max(1, len(surface.parts))))
        for first in range(0, frames, step):
            last = min(first + step, frames)
            part = type(surface)(vertices[:, first:last], surface.parts)
            image, slope = self.silhouettes.masks_tangent(part, moving[:, :, first:last], values, along)
            image, slope = _union_tangent(image, slope)
            seen = self.weight[first:last]
            image, slope = image * seen, slope * seen[..., None] if self._weighted else slope
            if coarse:
                value, slope = cdf_tangent(image, slope)
                yield (
                    self._coarse(value - self._cdf[first:last]).flatten(1),
                    self._coarse(slope).flatten(1, 3 - 1),
                )
            else:
                target = (self.masks * self.weight)[first:last]
                yield ((image - target) / self.sigma).flatten(1), (slope / self.sigma).flatten(1, 3)

    def floor(self, frames: int) -> tuple[float, float]:
        masks = self.masks[:frames]
        clear = torch.minimum(masks.abs(), (1 - masks).abs()) < 4 * self.sigma
        noise = torch.minimum(masks.abs(), (1 - masks).abs()) / self.sigma
        counted = self.weight[:frames] > 0
        return (noise[clear & counted] ** 2).sum().item(), float((~clear & counted).sum())

    @property
    def _weighted(self) -> bool:
        return bool((self.weight != 1).any())

    def _coarse(self, difference: Tensor) -> Tensor:
        """CDF differences have no simple noise; the scale keeps costs near those of pixels."""
        return difference / self.sigma

    def _union(self, masks: Tensor) -> Tensor:
        """One mask of all parts (worlds, frames, height, width): 1 − Π (1 − α)."""
        return masks[:, :, 0] if masks.shape[2] == 1 else 1 - (1 - masks).prod(2)


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
        r, slope = torch.func.jvp(self._compare, (primal,), (along,))
        yield r[:: s.unknowns].flatten(1), slope.flatten(1).unflatten(0, (-1, s.unknowns)).transpose(1, 2)

    def floor(self, frames: int) -> tuple[float, float]:
        return 0.0, float(frames * (3 if self.q is None else 6))

    def _compare(self, states: list[Tensor]) -> Tensor:
        """(worlds, frames, 3 or 6)."""
        x, q = states
        frames = x.shape[1]
        shift = (x - self.x[:frames]) / self.sigma_x
        if self.q is None:
            return shift
        turn = rotation.logarithm(rotation.multiply(q, rotation.conjugate(self.q[:frames]).expand_as(q)))
        return torch.cat([shift, turn / self.sigma_angle], -1)
