"""Every k-th frame of masks, compared with the same trajectories: what a search looks at while frames are close in time.

Frames between which bodies hardly move tell the same, but for their noise. A search needs to know where valleys are, not where their last digits
are, so it compares a part of such frames, and the answer descends on all of them.
"""

from dataclasses import replace

from gradsim.identification.observation.base import Masks, NoiseFloor, Observation
from gradsim.identification.observation.projection import Sensitivity
from gradsim.physics.trajectory import Trajectory


class EveryNth(Observation):
    """Frames 0, k, 2k, … of masks; numbers of frames count all of them.

    Args:
        whole: The masks.
        stride: k.
    """

    def __init__(self, whole: Masks, stride: int):
        self.stride, self.frames, self.sigma = stride, whole.frames, whole.sigma
        self.outline_noise, self.notes = whole.outline_noise, whole.notes
        self.thinned = whole.stride_frames(stride)

    def _count(self, frames: int) -> int:
        """Number of the first frames that are compared."""
        return -(-frames // self.stride)

    def _states(self, trajectory: Trajectory, frames: int) -> Trajectory:
        return trajectory.at(slice(0, frames, self.stride))

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

    def slice_frames(self, first: int, last: int) -> "Observation":
        """Frames `first` to `last - 1`, all of them."""
        raise NotImplementedError("a search compares the first frames of a clip")
