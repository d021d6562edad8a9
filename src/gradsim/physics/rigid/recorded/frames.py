"""Frames that follow a recording: pose, velocities and accelerations at any time, from poses at samples.

Positions, and quaternions as vectors of four numbers, are cubic splines with two continuous derivatives (not-a-knot ends; de
Boor, A Practical Guide to Splines, ch. IV). Between the samples i and i + 1, with d = t_{i+1} - t_i, s = (t - t_i)/d, Δ = p_{i+1} - p_i
and slopes m at the samples:

    p(t) = p_i + s d m_i + s² (3 Δ - 2 d m_i - d m_{i+1}) + s³ (d m_i + d m_{i+1} - 2 Δ)

The orientation is Q/|Q|, with angular velocity and acceleration in the world, (·)_v the vector part:

    ω = 2 (Q' Q̄)_v/|Q|²      ω' = 2 (Q'' Q̄)_v/|Q|² - 2 (Q·Q')/|Q|² ω

The error is of fourth order in d. After the last sample velocity and angular velocity stay as they are, so that nothing jolts.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.system import Values
from gradsim.scene.recordings.pose import PoseMotion

SAME_TIME = 1e-9  # [s] by which the end of a step may miss a sample by rounding
MAX_STEP_TURN = 0.1  # [rad] of a step by a method of fourth order, which then errs by 1e-7 of it


class FrameState(NamedTuple):
    """Place [m], orientation, velocity, angular velocity and their changes in time, (worlds, times, ·), in the world."""

    x: Tensor
    q: Tensor
    v: Tensor
    w: Tensor
    a: Tensor
    s: Tensor


class RecordedFrame:
    """A frame that follows a recording.

    Args:
        motion: The scene's recording.
        owner: Prefix of its parameters: the name of a body, or "joints." and that of a joint.
    """

    def __init__(self, motion: PoseMotion, owner: str):
        self.owner = owner
        self.times = torch.tensor(motion.times, dtype=torch.float64)
        poses = np.concatenate([np.array(motion.positions), motion.unit_quats], 1)
        self.poses = torch.tensor(poses, dtype=torch.float64)

    @cached_property
    def slope_matrix(self) -> Tensor:
        """Slopes at the samples from the samples (times, times) [1/s]."""
        times = self.times.numpy()
        return torch.tensor(scipy.interpolate.CubicSpline(times, np.eye(len(times)))(times, 1))

    def samples(self, values: Values) -> Tensor:
        """Positions and quaternions (worlds, times, 7) at the samples; differentiable."""
        offset, turn = (values[f"{self.owner}.motion_{key}"].double() for key in ("offset", "rotation"))
        poses = self.poses.to(offset.device)
        quats = rotation.multiply(rotation.exponential(turn), poses[:, 3:])
        return torch.cat([poses[:, :3] + offset, quats], -1)

    def at(self, samples: Tensor, times: Tensor, from_right: bool = False) -> FrameState:
        """Its motion at some times.

        Args:
            samples: See `samples`.
            times: (worlds, n) [s].
            from_right: Whether accelerations at the last sample are those after it, which are 0.
        """
        knots = self.times.to(samples.device)
        slopes = self.slope_matrix.to(samples.device) @ samples
        later = (times - knots[-1]).clamp(min=0.0)[..., None]
        inside = torch.where(times > knots[-1], knots[-1], times)
        i = (torch.searchsorted(knots, inside.detach().contiguous(), right=True) - 1).clamp(0, len(knots) - 2)
        pick = lambda y, k: torch.gather(y, 1, k[..., None].expand(*k.shape, y.shape[-1]))
        d = (knots[i + 1] - knots[i])[..., None]
        s = (inside - knots[i])[..., None] / d
        p, m0, m1 = pick(samples, i), d * pick(slopes, i), d * pick(slopes, i + 1)
        rise = pick(samples, i + 1) - p
        square, cube = 3 * rise - 2 * m0 - m1, m0 + m1 - 2 * rise
        y = p + s * (m0 + s * (square + s * cube))
        rate = (m0 + s * (2 * square + 3 * s * cube)) / d
        past = (times - knots[-1] > (-SAME_TIME if from_right else SAME_TIME))[..., None]
        curve = torch.where(past, torch.zeros_like(y), (2 * square + 6 * s * cube) / d**2)
        size = y[..., 3:].square().sum(-1, keepdim=True)
        q = y[..., 3:] / size.sqrt()
        back = rotation.conjugate(y[..., 3:]) / size
        w = 2 * rotation.multiply(rate[..., 3:], back)[..., :3]
        growth = 2 * (y[..., 3:] * rate[..., 3:]).sum(-1, keepdim=True) / size
        turning = 2 * rotation.multiply(curve[..., 3:], back)[..., :3] - growth * w
        turning = torch.where(past, torch.zeros_like(turning), turning)
        q = rotation.multiply(rotation.exponential(later * w), q)
        return FrameState(y[..., :3] + later * rate[..., :3], q, rate[..., :3], w, curve[..., :3], turning)

    def speeds(self, values: Values) -> tuple[Tensor, Tensor]:
        """Largest speed [m/s] and angular velocity [rad/s] at the samples (worlds,)."""
        samples = self.samples(values).detach()
        state = self.at(samples, self.times.to(samples.device).expand(len(samples), -1))
        return tuple(torch.linalg.vector_norm(y, dim=-1).amax(1) for y in (state.v, state.w))  # pyright: ignore[reportReturnType]

    def recommended_step(self, values: Values) -> float:
        """Step [s] that resolves the samples, and how fast they turn."""
        spin = self.speeds(values)[1].max().item()
        return min(self.times.diff().min().item(), MAX_STEP_TURN / max(spin, 1e-9))


def recorded_frames(
    joints: Mapping[str, PoseMotion | None], bodies: Mapping[str, PoseMotion]
) -> dict[str, RecordedFrame]:
    """Frames by the name of the joint that has them as its parent: of `weld_name(body)` for bodies."""
    frames = {weld_name(name): RecordedFrame(motion, name) for name, motion in bodies.items()}
    frames |= {n: RecordedFrame(motion, f"joints.{n}") for n, motion in joints.items() if motion is not None}
    return frames


def weld_name(body: str) -> str:
    """Name of the joint that holds a body in the frame that its recording moves; a name in a scene has no dot."""
    return f"{body}.motion"
