"""Finite-time Lyapunov exponents from tangents of the state.

M(t) is the derivative of position and orientation at t by the initial state, in body sizes (see `tangents.py`); σ(t) is its
largest singular value, the maximum growth of a small initial error. That of a free body grows by drift, as
√(1 + t²/τ²), the norm of (1, t/τ). Growth beyond drift is due to contact:

    λ(T) = ln(σ(T) / σ_free(T)) / T

Tangents are not renormalized: double precision has room for e^700.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.sensitivity.columns import Columns
from gradsim.identification.sensitivity.directions import Direction
from gradsim.identification.sensitivity.tangents import Scale, displacements, tangents
from gradsim.physics.model import Model
from gradsim.physics.system import Values

VISIBLE_DISTANCE = 1e-3  # [body sizes] distance of two trajectories above which they differ visibly


@dataclass(frozen=True)
class Growth:
    """Growth of errors of the initial state.

    Args:
        times: Times of the frames (frames,) [s].
        growth: σ(t) (frames,).
        free: σ(t) without contact (frames,).
        precision: Machine epsilon: 2.2e-16 in double precision.
        error: Relevant error of the initial state, in body sizes or relative.
    """

    times: Tensor
    growth: Tensor
    free: Tensor
    precision: float
    error: float

    @property
    def exponent(self) -> float:
        """λ over the whole clip [1/s]; 0 without growth beyond drift."""
        span = self.times[-1].item()
        beyond = (self.growth[-1] / self.free[-1]).item()
        if not math.isfinite(beyond):
            return math.inf
        return max(0.0, math.log(max(beyond, 1e-300)) / span) if span > 0 else 0.0

    @property
    def fold_time(self) -> float:
        """Time in which errors grow e-fold [s]; inf without growth."""
        return 1 / self.exponent if self.exponent > 0 else math.inf

    @property
    def forgets(self) -> int | None:
        """First frame after which an initial error moves the body by more than its size; None if never."""
        return self._from(self.growth * self.error > 1)

    @property
    def unrepeatable(self) -> int | None:
        """First frame after which rounding is visible; None if never."""
        return self._from(self.growth * self.precision > VISIBLE_DISTANCE)

    @property
    def warnings(self) -> list[str]:
        """Warnings about gradients over the whole clip."""
        growth = f"tangents of the motion grow e-fold every {self.fold_time:.2g} s"
        texts = []
        if self.forgets is not None and self.exponent > 0:
            texts.append(
                f"from frame {self.forgets} on the motion forgets its parameters: {growth}, so an error of "
                f"{100 * self.error:.2g} % of the body's size at the start is larger than the body there. Use a shorter "
                f"clip, or multiple shooting; gradients beyond that frame say nothing of the trend."
            )
        if self.unrepeatable is not None and self.exponent > 0:
            texts.append(
                f"from frame {self.unrepeatable} on rounding is seen: {growth}, and numbers carry a relative error of "
                f"{self.precision:.1g}. Another machine, or order of worlds, gives another motion there."
            )
        return texts

    def result(self) -> dict:
        """Plain numbers."""
        return {
            "exponent": self.exponent,
            "fold_time": self.fold_time,
            "growth": self.growth.tolist(),
            "growth_without_contact": self.free.tolist(),
            "forgets": self.forgets,
            "unrepeatable": self.unrepeatable,
            "error": self.error,
            "warnings": self.warnings,
        }

    def _from(self, known: Tensor) -> int | None:
        below = (~(known | ~torch.isfinite(self.growth))).nonzero()[:, 0]
        first = int(below[-1]) + 1 if len(below) else 0
        return first if first < len(known) else None


def growth(
    model: Model,
    values: Values | Mapping[str, Tensor] | None = None,
    frames: int | None = None,
    error: float = 1e-3,
    columns: Columns | None = None,
) -> Growth:
    """Compute the growth of errors of the initial state.

    Args:
        model: The model.
        values: Parameters (1, ...) that differ from the model's defaults.
        frames: Number of frames; None: the scene's.
        error: Relevant error of the initial state, in body sizes, and equivalently for orientation and velocities.
        columns: Derivatives that are known; None: none are.

    Returns:
        A `Growth`.
    """
    values = {name: v[:1].detach() for name, v in model.values(values).items()}
    frames = frames or model.scene.timing.frames
    scale = Scale.of(model, values)
    starts = _start(model, scale)
    if not starts:  # the trajectories of user-defined bodies may have no start state: no error of it can grow
        times = model.rollout(values, frames).times
        ones = torch.ones(frames, dtype=torch.float64)
        return Growth(times, ones, ones, torch.finfo(model.dtype).eps, error)
    trajectory, moving = tangents(model, values, starts, frames, columns)
    matrix = displacements(trajectory, moving, scale).double()
    finite = torch.isfinite(matrix).flatten(1).all(1)
    sigma = torch.full((frames,), torch.inf, dtype=torch.float64)
    sigma[finite] = torch.linalg.matrix_norm(matrix[finite], 2)
    free = (1 + (trajectory.times.double() / scale.time) ** 2).sqrt()
    precision = torch.finfo(model.dtype).eps
    return Growth(trajectory.times, sigma, free, precision, error)


def _start(model: Model, scale: Scale) -> list[Direction]:
    """All directions of the initial state, with unit steps of 1 in the units of `tangents`."""
    units = {"position": scale.size, "velocity": scale.size / scale.time, "angular_velocity": 1 / scale.time}
    units |= dict.fromkeys(("rate", "first_rate", "second_rate"), 1 / scale.time)
    units["displacement"], units["speed"] = units["position"], units["velocity"]
    starts = {s.name: s.start_keys for s in model.systems}
    starts |= {f"joints.{name}": joint.start for name, joint in model.scene.joints.items()}
    directions = []
    for owner, keys in starts.items():
        for key in [k for k in keys if f"{owner}.{k}" in model.kinds]:  # not of a body that a joint places
            name = f"{owner}.{key}"
            parts = range(model.kinds[name].value.size) if model.kinds[name].value.ndim else [None]
            directions += [Direction(f"{name}.{k}", ((name, k),), units.get(key, 1.0), "") for k in parts]
    return directions
