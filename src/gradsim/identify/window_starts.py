"""What a body of a window starts with, and how far two such states are apart: rigid bodies and pendulums.

rigid      s = (x, θ, v, ω), q = exp(θ) q_scene      gap (x − x', log(q q'⁻¹), v − v', ω − ω')
pendulum   s = (angles, rates)                       gap (θ − θ', θ̇ − θ̇')        primed: the end of the window before
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from gradsim.identify.clips import LOCAL, STATE
from gradsim.numerics import rotation
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory

State = dict[str, Tensor]  # (worlds, ·) by name


class Start(Protocol):
    """The start state of one body."""

    @property
    def size(self) -> int:
        """Numbers of it."""
        ...

    @property
    def parts(self) -> dict[str, int]:
        """What its numbers are, with how many of each: as jumps are told."""
        ...

    def units(self, rate: float) -> Tensor:
        """What counts as 1 of each number (size,); `rate`: windows in a second."""
        ...

    def state(self, trajectory: Trajectory, frame: int) -> State:
        """The state at a frame."""
        ...

    def end(self, state: State) -> Tensor:
        """It as numbers that a window can begin with (worlds, size)."""
        ...

    def gap(self, old: State, new: State) -> Tensor:
        """How far a start is from the end before it (worlds, size)."""
        ...

    def values(self, own: Tensor, first: Tensor, known: Callable[[str], Tensor]) -> Values:
        """Parameters of the start from numbers (worlds, size); in first windows (worlds, 1) those of the scene."""
        ...


class RigidStart:
    """Of a rigid body: its system, and that of the scene (`base`)."""

    size = LOCAL
    parts: dict[str, int] = dict.fromkeys(("position", "angle", "velocity", "angular_velocity"), 3)

    def __init__(self, system, base):
        self.system, self.name, self.base = system, system.name, torch.tensor(base.quat_xyzw).double()

    def units(self, rate: float) -> Tensor:
        size = torch.linalg.vector_norm(self.system.rest, dim=-1).max().item() * self.system.body.scale
        return torch.tensor([size, 1.0, size * rate, rate]).double().repeat_interleave(3)

    def state(self, trajectory: Trajectory, frame: int) -> State:
        x, q, v, momentum = (trajectory[self.name][key][:, frame] for key in ("x", "q", "v", "l"))
        return {"x": x, "q": q, "v": v, "w": self.system.spin(q, momentum, trajectory.values)}

    def end(self, state: State) -> Tensor:
        turned = rotation.multiply(state["q"], rotation.conjugate(self.base.expand_as(state["q"])))
        return torch.cat([state["x"], rotation.logarithm(turned), state["v"], state["w"]], 1)

    def gap(self, old: State, new: State) -> Tensor:
        turned = rotation.logarithm(rotation.multiply(new["q"], rotation.conjugate(old["q"])))
        return torch.cat([new["x"] - old["x"], turned, new["v"] - old["v"], new["w"] - old["w"]], 1)

    def values(self, own: Tensor, first: Tensor, known: Callable[[str], Tensor]) -> Values:
        starts = zip(STATE, own.unflatten(1, (len(STATE), 3)).unbind(1), strict=True)
        return {f"{self.name}.{key}": torch.where(first, known(f"{self.name}.{key}"), start) for key, start in starts}


class SwingStart:
    """Of a pendulum or double pendulum."""

    def __init__(self, system):
        self.name = system.name
        arms = ("first_", "second_") if system.body.kind == "double_pendulum" else ("",)
        self.keys = [f"{self.name}.{arm}{key}" for key in ("angle", "rate") for arm in arms]
        self.size = len(self.keys)
        self.parts: dict[str, int] = dict.fromkeys(("angle", "angular_velocity"), len(arms))

    def units(self, rate: float) -> Tensor:
        return torch.tensor([1.0, rate]).double().repeat_interleave(self.size // 2)

    def state(self, trajectory: Trajectory, frame: int) -> State:
        return {key: y[:, frame].reshape(len(y), -1) for key, y in trajectory[self.name].items()}

    def end(self, state: State) -> Tensor:
        return torch.cat([state["angle"], state["rate"]], 1)

    def gap(self, old: State, new: State) -> Tensor:
        return self.end(new) - self.end(old)

    def values(self, own: Tensor, first: Tensor, known: Callable[[str], Tensor]) -> Values:
        return {key: torch.where(first[:, 0], known(key), own[:, k]) for k, key in enumerate(self.keys)}


def start_of(system, base) -> Start | None:
    """That of a system whose scene's body is `base`; None of one that has none."""
    if base.kind == "rigid":
        return RigidStart(system, base)
    return SwingStart(system) if base.kind in ("pendulum", "double_pendulum") else None
