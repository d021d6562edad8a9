"""A camera that moves, as a fixed one: the world is moved in its place.

With the poses R(t), t(t) of the camera and R₀, t₀ of the fixed one that draws, a world point x is seen at time t where the fixed camera
sees

    x' = R₀ᵀ (R(t) x + t(t) - t₀)

so that everything behind it (lenses, shutters, derivatives by focal length and translation) stays. A change of t₀ by δ, an unknown
translation, shifts all poses by δ in the axes of the camera.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.render.camera import Camera


class WorldMotion(NamedTuple):
    """Motion of the world in front of a camera, at the time of each frame.

    Args:
        M: (frames, 3, 3).
        m: (frames, 3) [m].
        q: Quaternions (frames, 4) of M.
    """

    M: Tensor
    m: Tensor
    q: Tensor

    def points(self, x: Tensor) -> Tensor:
        """Points (..., frames, n, 3), moved."""
        return x @ self.M.mT + self.m[:, None]

    def places(self, x: Tensor) -> Tensor:
        """Places (..., frames, 3), moved."""
        return self.directions(x) + self.m

    def directions(self, x: Tensor) -> Tensor:
        """Directions, or derivatives of places, (..., frames, 3), turned."""
        return (self.M @ x[..., None])[..., 0]

    def turns(self, q: Tensor) -> Tensor:
        """Quaternions, or derivatives of them, (..., frames, 4), turned."""
        return rotation.multiply(self.q, q)


def world_motion(camera: Camera, times: Tensor | None, like: Tensor) -> WorldMotion | None:
    """Motion of the world at some times (frames,) [s], in the precision and on the device of a tensor; None for a camera that stands still.

    Raises:
        InputError: If the camera moves and there are no times.
    """
    if camera.poses is None:
        return None
    if times is None:
        raise InputError(
            "the camera moves (`motion`), and the surface has no times; take `trajectory.surface` of a model of its scene."
        )
    motion = _motion(camera, times.detach().cpu().double().numpy().tobytes())
    return WorldMotion(*(x.to(like) for x in motion))


@lru_cache(maxsize=64)
def _motion(camera: Camera, times: bytes) -> WorldMotion:
    """The same in float64; observations need the same times in every evaluation."""
    assert camera.poses is not None
    R, t = camera.poses.at(np.frombuffer(times))
    R0, t0 = camera.R.detach().cpu(), camera.t.detach().cpu()
    M = R0.T @ torch.as_tensor(R)
    m = (torch.as_tensor(t) - t0) @ R0
    return WorldMotion(M, m, rotation.from_matrix(M))
