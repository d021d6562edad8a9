"""Interface of bodies for the model: inputs of a rollout, surface, stability, and observables of their states.

A new kind of body is a scene node and a `System`; `user_body.register_body` adds both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Part

RESOLVED = 0.2  # good step over the largest stable one: a contact of half a period then spans about 8 steps

Values = dict[str, Tensor]  # parameters by dotted name, (worlds, ...) each
State = Mapping[str, Tensor]  # states of one body by name, (worlds, ...) each


@dataclass(frozen=True)
class ObservationUnits:
    """Units and reference points of a body's observables.

    Args:
        radius: Unit of length [m].
        speed: Unit of velocity [m/s].
        origin: Where its center of mass is 0 (3,) [m]; None for a pendulum, which is observed by its angles.
        landmarks: Vertices that are observed, of a soft body.
    """

    radius: float
    speed: float
    origin: Tensor | None
    landmarks: Tensor


class Program(Protocol):
    """A rollout: see `rigid.RigidRollout` and `pendulum.PendulumRollout`."""

    def run(self, *inputs: Tensor) -> list[Tensor]: ...

    def forward(self, inputs: list[Tensor]) -> list[Tensor]: ...

    def tangent(self, inputs: list[Tensor], tangents: list[Tensor | None]) -> list[tuple[Tensor, Tensor]]: ...


class System(Protocol):
    """One body of a scene. Methods with a body are capabilities, whose default is that of a body without them.

    Attributes:
        name: Its name in the scene.
        states: Names of the states that a rollout returns, such as ("x", "q", "v", "l").
        part: Its piece of the model's surface, with faces and color; of a body that looks like several, see `parts`.
    """

    name: str
    states: tuple[str, ...]
    part: Part

    def program(self, frames: int, substeps: int, dt: float, segment: int) -> Program:
        """The rollout over `frames` frames."""
        ...

    def inputs(self, values: Values) -> list[Tensor]:
        """Inputs of the rollout from the parameters, but for the last, the steps of the clock; differentiable."""
        ...

    def vertices(self, states: list[Tensor], values: Values) -> Tensor:
        """Surface vertices (worlds, frames, n, 3) [m] from the states; differentiable."""
        ...

    def stable_step(self, values: Values) -> float:
        """Largest stable step [s], from the stability bound; infinite where nothing is stiff."""
        ...

    def recommended_step(self, values: Values) -> float:
        """Step [s] that resolves stiff forces, used for `substeps: auto` of a scene; infinite without stiff forces."""
        ...

    def check(self, values: Values) -> None:
        """Raise `InputError` if the start is impossible."""
        ...

    @property
    def parts(self) -> tuple[Part, ...]:
        """Pieces of its surface."""
        return (self.part,)

    @property
    def pushes(self) -> Sequence[Any]:
        """Pushes of the scene that act on it."""
        return ()

    @property
    def contact_law(self) -> str:
        """Name of its law of contact with grounds and obstacles; "" if it touches none."""
        return ""

    @property
    def in_free_flight(self) -> bool:
        """True if only gravity, pushes and contact change its momentum."""
        return False

    def center_of_mass(self, state: State, values: Values) -> Tensor:
        """(worlds, ..., 3) [m] from states (worlds, ...)."""
        raise InputError(f"`{self.name}` has no center of mass among its states: {', '.join(self.states)}.")

    def velocity(self, state: State, values: Values) -> Tensor:
        """Velocity of the center of mass (worlds, ..., 3) [m/s]."""
        raise InputError(f"`{self.name}` has no velocity among its states: {', '.join(self.states)}.")

    def bounding_radius(self, values: Values) -> float:
        """Largest distance of its surface from its center of mass, or from its pivot [m], in any world."""
        ...

    def extrapolate(self, state: State, values: Values, time: float) -> dict[str, Tensor]:
        """The state that it reaches in a time [s], or had before a negative one, at constant velocities."""
        ...

    def landmarks(self, count: int) -> Tensor:
        """Indices of at most `count` vertices that represent its shape; none of a body whose shape is fixed."""
        return torch.zeros(0, dtype=torch.long)

    def observables(self, state: State, values: Values, units: ObservationUnits) -> Tensor:
        """Dimensionless numbers of its state at an instant (worlds, n), all of order 1."""
        ...

    def transfer(self, state: State, values: Values, other: "System", other_values: Values) -> dict[str, Tensor]:
        """The state in which `other` moves as this body does; they differ if a state depends on mass properties."""
        return dict(state)


def centered(system: System, state: State, values: Values, units: ObservationUnits) -> tuple[Tensor, Tensor]:
    """Center of mass from the origin, and its velocity (worlds, 3), in the units of the body."""
    center, velocity = system.center_of_mass(state, values), system.velocity(state, values)
    assert units.origin is not None
    return (center - units.origin.to(center)) / units.radius, velocity / units.speed


def swing_observables(state: State, units: ObservationUnits) -> Tensor:
    """sin θ, cos θ and θ' R/V of each arm (worlds, 3 arms)."""
    angle, rate = state["angle"], state["rate"]
    return torch.stack([torch.sin(angle), torch.cos(angle), rate * (units.radius / units.speed)], 1).flatten(1)
