"""Interface of bodies for the model: inputs of a rollout, surface, stability, and observables of their states.

A new kind of body is a scene node and a `System`; `user_body.register_body` adds both.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Part

STEP_SAFETY = 0.2  # good step over the largest stable one, of any contact: half a period of it then spans about 8 steps

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


class RolloutProgram(Protocol):
    """A rollout: see `rigid.rollout.RigidRollout` and `pendulum.simple.PendulumRollout`."""

    def run(self, *inputs: Tensor) -> list[Tensor]: ...

    def forward(self, inputs: list[Tensor]) -> list[Tensor]: ...

    def tangent(self, inputs: list[Tensor], tangents: list[Tensor | None]) -> list[tuple[Tensor, Tensor]]: ...


class BoundProgram(Protocol):
    """A rollout with arrays that one caller in one thread uses again, for inputs of the same shapes.

    Inputs are a list that stays the same object while their numbers do. A program that knows a shorter way than to read all outputs has `is_finite(outputs)`: True if
    those of the last rollout are finite; False may be of large numbers, too.

    Attributes:
        nbytes: Memory that the arrays of a rollout take, at most [bytes].
    """

    nbytes: int

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Outputs of the rollout, which the caller may keep."""
        ...

    def backward(
        self,
        needed: Sequence[bool],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        adjoints: Sequence[Tensor | None],
    ) -> Sequence[Tensor | None]:
        """Gradients by the inputs, at least by those that are needed, which may lie in the arrays; an adjoint of None is zero."""
        ...


class ContactPoints(Protocol):
    """Points of a body that touch grounds and obstacles, in world 0 of a batch.

    Attributes:
        surfaces: Names of the grounds, then of the obstacles.
        law: Name of the contact law.
        count: Number of points.
    """

    surfaces: list[str]
    law: str
    count: int

    def label(self, index: int) -> str:
        """A point in words."""
        ...

    def parameters(self, values: Values) -> dict[str, Tensor]:
        """Numbers (worlds, surfaces) of the law, `normal` and `height` of grounds, `centre`, `axis`, `half` and `rounding` of
        obstacles, and `radius` (worlds, points) about each point.
        """
        ...

    def positions(self, state: State, parameters: dict[str, Tensor]) -> Tensor:
        """(steps, 1, points, 3) [m] from the states (steps, ...) and the parameters of one world."""
        ...

    def velocities(self, state: State, parameters: dict[str, Tensor], normal: Tensor) -> Tensor:
        """Velocities (steps, surfaces, points, 3) [m/s] where the body touches surfaces with these normals."""
        ...


class Deformable(Protocol):
    """Vertices and elements of a body whose shape changes.

    Attributes:
        rest: Vertices at rest (n, 3) [m].
        free: 1 for each vertex, 0 where it is pinned (n,).
    """

    rest: Tensor
    free: Tensor

    def elements_of(self, key: str) -> Tensor:
        """Vertices (elements, k) of the elements that the parameter NAME.key is about; of the main ones for any other key."""
        ...


class StartState(Protocol):
    """States of a body as parameters of a start, so that a rollout can begin in any of them.

    Attributes:
        size: Number of components.
        parts: Quantities in it, with the number of components of each.
    """

    size: int
    parts: dict[str, int]

    def units(self, rate: float) -> Tensor:
        """Unit of each component (size,); `rate` [1/s] is that of time."""
        ...

    def instant(self, state: State, values: Values) -> dict[str, Tensor]:
        """State (worlds, ·) of one frame without mass properties: angular velocity in place of momentum."""
        ...

    def numbers(self, instant: State) -> Tensor:
        """Components (worlds, size) of an `instant`."""
        ...

    def gap(self, old: State, new: State) -> Tensor:
        """Difference (worlds, size) between two of them, in the units of the components."""
        ...

    def parameters(self, numbers: Tensor) -> Values:
        """Parameters (worlds, ...) of a start from components (worlds, size)."""
        ...


class System(Protocol):
    """One body of a scene. Methods with a body are capabilities, whose default is that of a body without them.

    Attributes:
        name: Its name in the scene.
        states: Names of the states that a rollout returns, such as ("x", "q", "v", "l").
        part: Its piece of the model's surface, with faces and color; of a body that looks like several, see `parts`.
        velocities: Those of `states` that are velocities.
        start_keys: Keys of its parameters that are its state at the start, such as ("angle", "rate").
    """

    name: str
    states: tuple[str, ...]
    part: Part
    velocities: tuple[str, ...] = ()
    start_keys: tuple[str, ...] = ()

    def program(self, frames: int, substeps: int, dt: float, segment: int) -> RolloutProgram:
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
    def deformable(self) -> Deformable | None:
        """Its vertices and elements; None of a body that keeps its shape."""
        return None

    @property
    def contact_points(self) -> ContactPoints | None:
        """Its points of contact with grounds and obstacles; None if it touches none."""
        return None

    @property
    def in_free_flight(self) -> bool:
        """True if only gravity, pushes and contact change its momentum."""
        return False

    @property
    def start_state(self) -> StartState | None:
        """Its states as parameters of a start; None if it cannot start in every state."""
        return None

    @property
    def state_size(self) -> int:
        """Numbers of a state at an instant, to plan memory with; by default those of a rigid body."""
        return 13

    def rigid_shape_and_pose(self, states: State, values: Values) -> tuple[Tensor, Tensor, Tensor] | None:
        """Shape at rest (worlds, n, 3) [m], and x and q of all frames, of a surface that is rigid; else None."""
        return None

    def rest_tangent(self, values: Values, direction: Values) -> Tensor | None:
        """Derivative (worlds, n, 3) of the shape in `rigid_shape_and_pose` along a direction in parameters; None for zero."""
        return None

    def marker_position(self, state: State, values: Values, point: Tensor | None) -> Tensor:
        """Position (worlds, frames, 3) [m] of a point (worlds, 3) that is fixed on it, given from its center of mass in its frame at
        scale 1; None: of the middle of its surface.
        """
        if point is not None:
            raise InputError(f"`{self.name}` is not rigid, so no point is fixed on it; give a vertex.")
        return self.vertices(list(state.values()), values).mean(2)

    def center_of_mass(self, state: State, values: Values) -> Tensor:
        """(worlds, ..., 3) [m] from states (worlds, ...)."""
        raise InputError(f"`{self.name}` has no center of mass among its states: {', '.join(self.states)}.")

    def velocity(self, state: State, values: Values) -> Tensor:
        """Velocity of the center of mass (worlds, ..., 3) [m/s]."""
        raise InputError(f"`{self.name}` has no velocity among its states: {', '.join(self.states)}.")

    def energy(self, state: State, values: Values) -> tuple[Tensor, Tensor] | None:
        """Kinetic energy and that of gravity (worlds, frames) [J]; None if it stores other energy at the start, or gains some."""
        return None

    def after_impulses(self, state: State, values: Values) -> State:
        """The state at the start (worlds, 1, ...) after its impulses; itself where it has them already."""
        return state

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

    def pose_difference(self, ahead: State, behind: State, size: float) -> Tensor:
        """Poses (worlds, frames, n) of states (worlds, frames, ...) relative to others: lengths over `size`, angles in rad."""
        return self.pose_tangent(ahead, {name: ahead[name] - behind[name] for name in self.states}, size)

    def pose_tangent(self, state: State, tangent: State, size: float) -> Tensor:
        """Derivative (worlds, frames, n) of `pose_difference` along a tangent of the states (worlds, frames, ...)."""
        parts = [tangent[name] for name in self.states if name not in self.velocities]
        return torch.cat([y.reshape(*y.shape[:2], -1) for y in parts], -1)

    def velocity_tangent(self, state: State, tangent: State, values: Values, direction: Values, size: float) -> Tensor:
        """The same of the velocities (worlds, frames, m) [1/s]; `direction` is the tangent of the parameters."""
        first = tangent[self.states[0]]
        parts = [tangent[name].reshape(*first.shape[:2], -1) for name in self.velocities]
        return torch.cat([first.new_zeros(*first.shape[:2], 0), *parts], -1)

    def transfer(self, state: State, values: Values, other: "System", other_values: Values) -> dict[str, Tensor]:
        """The state in which `other` moves as this body does; they differ if a state depends on mass properties."""
        return dict(state)


class Island(Protocol):
    """Bodies that move in one rollout, with what a `System` says of one of them.

    Attributes:
        systems: The bodies.
        pairs: `rigid.pairs.Pairs` of bodies that can touch; None if there are none.
        is_single: True if the rollout is that of one body by itself, with the body's own inputs.
    """

    systems: tuple[System, ...]
    pairs: Any = None
    is_single: bool = False

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> RolloutProgram:
        """The rollout over `frames` frames."""
        ...

    def inputs(self, values: Values) -> list[Tensor]:
        """Inputs of the rollout, as of `System`."""
        ...

    def bound_inputs(self, values: Values, differentiated: Collection[str] = ()) -> list[Tensor]:
        """The same; what stays from call to call may be used again, so that they are not to be written to.

        Args:
            values: All parameters.
            differentiated: Those with a forward-mode tangent.
        """
        return self.inputs(values)

    def inputs_along(self, values: Values, along: Values) -> tuple[list[Tensor], list[Tensor | None]] | None:
        """Inputs, and their derivatives by one direction in each world; None where these have no closed form.

        Args:
            values: All parameters.
            along: Directions of some of them.
        """
        return None

    def roll_out(
        self, program: RolloutProgram, values: Values, steps: Tensor
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Outputs of the rollout with steps (worlds, intervals) [s], and its inputs; none where the parameters themselves are."""
        inputs = self.bound_inputs(values)
        return program.run(*inputs, steps), inputs

    def sources(self, values: Values) -> dict[str, list[str]] | None:
        """Tensors that `inputs_of_sources` takes, by name, and the parameters that each is of: one, or several side by side (worlds, n, ...);
        None where the inputs cannot be bound.
        """
        return None

    def inputs_of_sources(self, tensors: dict[str, Tensor]) -> list[Tensor]:
        """Inputs of the rollout from `sources`."""
        return self.inputs(tensors)

    def closed_form(self, program: RolloutProgram, values: Values) -> Any:
        """Gradients of the inputs by some parameters in closed form (`closed_inputs.ClosedRollout`); None where there is none."""
        return None

    def begin(self, inputs: list[Tensor], start: Mapping[str, State]) -> list[Tensor]:
        """Inputs that begin at the states `start`, by body and name."""
        ...

    def split(self, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
        """States of each body from the outputs of the rollout."""
        ...

    def stable_step(self, values: Values) -> float:
        """Largest stable step [s] of the bodies and of what is between them."""
        ...

    def recommended_step(self, values: Values) -> float:
        """Step [s] that resolves what is stiff, as of `System`."""
        ...

    def check(self, values: Values) -> None:
        """Raise `InputError` if the start is impossible."""
        ...

    def has_drive(self, values: Values) -> bool:
        """True if what is between the bodies stores energy at the start, or supplies some."""
        return False

    def open_joint_message(
        self, states: Mapping[str, State], values: Values, inputs: Sequence[Tensor], last: Sequence[Tensor] = ()
    ) -> str:
        """Joint that has come apart at the last frame, in words; "" for none.

        Args:
            states: (worlds, frames, ...) by body and name.
            values: All parameters.
            inputs: Those of the rollout, see `roll_out`.
            last: States (worlds, ...) of the last frame, in the order of the outputs.
        """
        return ""


def centered(system: System, state: State, values: Values, units: ObservationUnits) -> tuple[Tensor, Tensor]:
    """Center of mass from the origin, and its velocity (worlds, 3), in the units of the body."""
    center, velocity = system.center_of_mass(state, values), system.velocity(state, values)
    assert units.origin is not None
    return (center - units.origin.to(center)) / units.radius, velocity / units.speed


def swing_observables(state: State, units: ObservationUnits) -> Tensor:
    """sin θ, cos θ and θ' R/V of each arm (worlds, 3 arms)."""
    angle, rate = state["angle"], state["rate"]
    return torch.stack([torch.sin(angle), torch.cos(angle), rate * (units.radius / units.speed)], 1).flatten(1)
