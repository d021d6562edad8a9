"""Observed vertices of a soft body: supervision in three dimensions (the paper's "DiffPhysics" column)."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.observation.base import Coordinates, NoiseFloor, Residual, Sensitivity
from gradsim.numerics.robust import GAUSSIAN, RobustLoss, robust_loss
from gradsim.physics.trajectory import Trajectory


class Vertices(Coordinates):
    """Positions of vertices of a soft body at each frame: an `Observation`.

    Args:
        body: Name of the body.
        x: Positions (frames, n, 3) [m]; NaN for missing coordinates.
        sigma: Noise of each coordinate [m].
        index: Indices of the vertices (n,); None: all, in order.
        loss: "gaussian", or "huber" or "cauchy" against outlier coordinates.

    Raises:
        InputError: If the shape does not match, the noise is not above 0, or the loss is unknown.
    """

    def __init__(
        self, body: str, x: Tensor, sigma: float, index: Sequence[int] | None = None, loss: str | RobustLoss = GAUSSIAN
    ):
        if x.ndim != 3 or x.shape[2] != 3 or (index is not None and len(index) != x.shape[1]):
            count = "n" if index is None else len(index)
            raise InputError(f"positions of vertices have shape {tuple(x.shape)}; expected (frames, {count}, 3).")
        if not sigma > 0:
            raise InputError(f"sigma is {sigma}; expected a length above 0 [m].")
        self.body, self.sigma, self.frames, self.loss = body, float(sigma), len(x), robust_loss(loss)
        self.x, self.index = x.double(), None if index is None else list(index)
        self._seen = torch.isfinite(self.x)
        self._data = self.x.nan_to_num(0.0)

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        yield self.loss.root(self._compare(self._chosen(trajectory, frames)))

    def noise_floor(self, frames: int) -> NoiseFloor:
        return NoiseFloor(0.0, float(self._seen[:frames].sum()), float("inf"))

    def slice_frames(self, first: int, last: int) -> "Vertices":
        return Vertices(self.body, self.x[first:last], self.sigma, self.index, self.loss)

    def _linear(self, s: Sensitivity, frames: int) -> tuple[Tensor, Tensor]:
        r = self._compare(self._chosen(s.trajectory, frames)[:: s.unknowns])
        slope = self._chosen(s.tangent, frames) * self._seen[:frames] / self.sigma
        return r, s.by_world(slope.flatten(1)).transpose(1, 2)

    def _chosen(self, trajectory: Trajectory, frames: int) -> Tensor:
        """Positions, or their derivatives, of the vertices that are seen (worlds, frames, n, 3)."""
        x = trajectory[self.body]["x"][:, :frames]
        if self.index is not None:
            x = x[:, :, self.index]
        if x.shape[2:] != self.x.shape[1:]:
            raise InputError(
                f"`{self.body}` has {x.shape[2]} vertices, the observation {self.x.shape[1]}; give their indices: "
                "index=[...]."
            )
        return x

    def _compare(self, x: Tensor) -> Tensor:
        frames = x.shape[1]
        return ((x - self._data[:frames]) * self._seen[:frames] / self.sigma).flatten(1)
