"""Every k-th frame of masks, compared with the same trajectories: what a search and a cloud of samples look at while frames are close in time.

Frames between which bodies hardly move tell the same, but for their noise. Both need to know where valleys are, not where their last digits
are, so they compare a part of such frames; the answer descends, and samples are drawn, on all of them.
"""

from copy import copy
from dataclasses import replace

from gradsim.identification.observation.base import Masks, NoiseFloor, Observation
from gradsim.identification.observation.projection import Sensitivity
from gradsim.physics.trajectory import Trajectory


class EveryNth(Observation):
    """Every k-th frame of masks; numbers of frames count all of them.

    Args:
        whole: The masks.
        stride: k: frames 0, k, 2k, … are compared.
    """

    def __init__(self, whole: Masks, stride: int):
        self.stride, self.first, self.frames, self.sigma = stride, 0, whole.frames, whole.sigma
        self.outline_noise, self.notes = whole.outline_noise, whole.notes
        self.thinned = whole.stride_frames(stride)

    def _count(self, frames: int) -> int:
        """Number of the first frames that are compared."""
        return max(0, -((self.first - frames) // self.stride))

    def _states(self, trajectory: Trajectory, frames: int) -> Trajectory:
        return trajectory.at(slice(self.first, frames, self.stride))

    def _sensitivity(self, s: Sensitivity, frames: int) -> Sensitivity:
        trajectory, tangent = (self._states(one, frames) for one in (s.trajectory, s.tangent))
        return replace(s, trajectory=trajectory, tangent=tangent)

    def residuals(self, trajectory, frames, residual):
        return self.thinned.residuals(self._states(trajectory, frames), self._count(frames), residual)

    def linearize(self, s, frames, residual):
        return self.thinned.linearize(self._sensitivity(s, frames), self._count(frames), residual)

    def cost(self, trajectory, frames, residual):
        return self.thinned.cost(self._states(trajectory, frames), self._count(frames), residual)

    def normal(self, s, frames, residual):
        return self.thinned.normal(self._sensitivity(s, frames), self._count(frames), residual)

    def noise_floor(self, frames: int) -> NoiseFloor:
        return self.thinned.noise_floor(self._count(frames))

    def slice_frames(self, first: int, last: int) -> "EveryNth":
        """Those of frames `first` to `last - 1`."""
        part = copy(self)
        part.thinned = self.thinned.slice_frames(self._count(first), self._count(last))
        part.frames, part.first = last - first, (self.first - first) % self.stride
        return part

    def ends(self, frames: int) -> list[int]:
        """Numbers of the first frames up to this one, with each of which one more is compared; the last is that of all."""
        after = range(self.first + 1, frames + 1, self.stride)
        return [*after[:-1], frames] if after else []
