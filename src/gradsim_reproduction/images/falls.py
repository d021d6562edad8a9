"""A body that falls before a camera, and what of its fall is to be found: a problem for `least_squares.descend`.

    z(t) = height + speed t − ½ gravity t²            in closed form, so that nothing but images is tried

The alphas that are compared draw it; the losses say what its images differ by.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry.mesh import Mesh
from gradsim.geometry.surface import Surface
from gradsim.losses import ImageLoss
from gradsim.render.camera import look_at
from gradsim.render.coverage.coverage import coverage_tangent
from gradsim.render.silhouettes import Silhouettes

FPS = 30.0
FRAMES = 12
SIZE = 64  # [px] edge of the images
AWAY, FIELD = 5.0, np.pi / 4  # [m], [rad]: camera and its field of view
PER_METRE = SIZE / 2 / np.tan(FIELD / 2) / AWAY  # [px/m] in the plane of the fall
NAMES = ("height", "speed", "gravity")  # [m], [m/s] upward, [m/s²] downward
STEP = 1e-4  # [m] of the central differences of alphas that have no forward derivatives: 2e-3 px

CAMERA = look_at((0.0, -AWAY, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), FIELD, SIZE, SIZE)
Alpha = Callable[[Surface], Tensor]  # opacity (worlds, frames, height, width) of a surface in front of CAMERA
Tangent = Callable[[Surface, Tensor], tuple[Tensor, Tensor]]  # the same with derivatives, from those of the vertices


@dataclass(frozen=True)
class UniformSpace:
    """Bounds of the unknowns, (n,) each."""

    low: Tensor
    high: Tensor

    @property
    def logarithmic(self) -> list[bool]:
        """No unknown is a logarithm."""
        return [False] * len(self.low)

    def draw(self, rng: np.random.Generator, count: int) -> Tensor:
        """Places (count, n), uniformly."""
        return self.low + (self.high - self.low) * torch.tensor(rng.random((count, len(self.low))))


def heights(fall: Tensor, frames: int = FRAMES) -> Tensor:
    """z (worlds, frames) [m] of falls (worlds, 3): height, speed, gravity."""
    t = torch.arange(frames, dtype=torch.float64) / FPS
    height, speed, gravity = fall[..., None].unbind(-2)
    return height + speed * t - gravity * t * t / 2


def surface_at(body: Mesh, z: Tensor) -> Surface:
    """A body at (0, 0, z), z (worlds, frames) [m]."""
    rest = torch.tensor(body.vertices)
    vertices = rest + torch.nn.functional.pad(z[..., None, None], (2, 0))
    return Surface.of(vertices, body.faces, convex=body.convex)


def exact_coverage(surface: Surface, vertex_tangent: Tensor) -> tuple[Tensor, Tensor]:
    """Exact coverage and its derivatives."""
    screen, slope = Silhouettes(CAMERA).screen_tangent(surface, vertex_tangent)
    return coverage_tangent(screen, slope, surface.faces, SIZE, SIZE, surface.convex)


def central_differences(alpha: Alpha) -> Tangent:
    """Derivatives of an alpha by central differences along each unknown."""

    def tangent(surface: Surface, vertex_tangent: Tensor) -> tuple[Tensor, Tensor]:
        slopes = []
        for along in vertex_tangent.unbind(1):
            size = along.abs().max().clamp(min=1e-300) / STEP
            ends = [alpha(Surface(surface.vertices + sign * along / size, surface.parts)) for sign in (1, -1)]
            slopes.append((ends[0] - ends[1]) * size / 2)
        image = alpha(surface)
        return image, torch.stack(slopes, -1) if slopes else image.new_empty(*image.shape, 0)

    return tangent


class FallProblem:
    """Least-squares problem of a fall: rendered images against a target.

    Args:
        body: Falling body.
        target: (frames, height, width).
        tangent: Draws it.
        known: Values of the known ones of `NAMES`, which come last.
        space: Of those that are, the first ones.
    """

    def __init__(self, body: Mesh, target: Tensor, tangent: Tangent, known: Sequence[float], space: UniformSpace):
        self.body, self.target, self.tangent, self.space = body, target, tangent, space
        self.known = torch.tensor(known, dtype=torch.float64)
        self.frames = len(target)

    def _fall(self, u: Tensor) -> Tensor:
        return torch.cat([u, self.known.expand(len(u), -1)], 1)

    def cost(self, u: Tensor, frames: int, loss: ImageLoss) -> Tensor:
        """Σ r² (starts,) of u (starts, n)."""
        surface = surface_at(self.body, heights(self._fall(u), frames))
        nothing = surface.vertices.new_empty(len(u), 0, *surface.vertices.shape[1:])
        return loss.residual(self.tangent(surface, nothing)[0], self.target[:frames]).square().flatten(1).sum(1)

    def linearize(self, u: Tensor, frames: int, loss: ImageLoss) -> tuple[Tensor, Tensor, Tensor]:
        """Σ r² (starts,), Jᵀ J (starts, n, n) and Jᵀ r (starts, n)."""
        surface = surface_at(self.body, heights(self._fall(u), frames))
        along = heights(torch.eye(len(NAMES), dtype=torch.float64)[: u.shape[1]], frames)
        along = torch.nn.functional.pad(along[None, ..., None, None], (2, 0)).expand(
            len(u), -1, -1, surface.vertices.shape[2], -1
        )
        r, J = loss.tangent(*self.tangent(surface, along.contiguous()), self.target[:frames])
        r, J = r.flatten(1), J.flatten(1, -2)
        return r.square().sum(1), J.mT @ J, (J.mT @ r[..., None])[..., 0]
