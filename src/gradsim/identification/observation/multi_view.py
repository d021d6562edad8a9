"""Several observations of one trajectory, such as the videos of several cameras, with one cost.

cost = Σ_k Σ r_k²           r_k whitened by the noise of part k
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.observation.base import NoiseFloor, Observation, Residual, Sensitivity, combined_noise_floor
from gradsim.physics.trajectory import Trajectory


class MultiView(Observation):
    """Observations of one trajectory at the same instants: an `Observation`.

    Args:
        parts: Observations by name, such as the camera's, with equal numbers of frames.

    Raises:
        InputError: If there are no parts, or their numbers of frames differ.
    """

    def __init__(self, parts: Mapping[str, Observation]):
        lengths = {name: part.frames for name, part in parts.items()}
        if not lengths:
            raise InputError("got no observation; give at least one.")
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"`{name}` {frames}" for name, frames in lengths.items())
            raise InputError(f"the views have different numbers of frames ({counts}); trim them to the same instants.")
        self._parts, self.frames, self.notes = dict(parts), min(lengths.values()), {}

    @property
    def parts(self) -> Mapping[str, Observation]:
        return self._parts

    @property
    def sigma(self) -> float:
        """Root mean square of the parts' noise."""
        return rms_sigma(list(self.parts.values()))

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        for part in self.parts.values():
            yield from part.residuals(trajectory, frames, residual)

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        for part in self.parts.values():
            yield from part.linearize(s, frames, residual)

    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        return torch.stack([part.cost(trajectory, frames, residual) for part in self.parts.values()]).sum(0)

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        sums = zip(*(part.normal(s, frames, residual) for part in self.parts.values()), strict=True)
        cost, gradient, matrix = (torch.stack(terms).sum(0) for terms in sums)
        return cost, gradient, matrix

    def noise_floor(self, frames: int) -> NoiseFloor:
        return combined_noise_floor([(part, frames) for part in self.parts.values()])

    @property
    def pose_noise(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if a camera of a part moves."""
        return any(part.pose_noise for part in self.parts.values())

    @property
    def growth(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The least of the parts'."""
        return min(part.growth for part in self.parts.values())

    def linearized_at(self, trajectory: Trajectory) -> "MultiView":
        return self._with({name: part.linearized_at(trajectory) for name, part in self.parts.items()})

    def within(self, ranges: Mapping[str, tuple[float, float]]) -> "MultiView":
        return self._with({name: part.within(ranges) for name, part in self.parts.items()})

    def slice_frames(self, first: int, last: int) -> "MultiView":
        return self._with({name: part.slice_frames(first, last) for name, part in self.parts.items()})

    def _with(self, parts: Mapping[str, Observation]) -> "MultiView":
        """The same notes of other parts."""
        other = MultiView(parts)
        other.notes = self.notes
        return other


def rms_sigma(parts: Sequence[Observation]) -> float:
    """Root mean square of the noise of observations."""
    return math.sqrt(sum(part.sigma**2 for part in parts) / len(parts))
