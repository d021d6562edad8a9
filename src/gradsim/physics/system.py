"""What a body is to the model: how its parameters start a rollout, and where its surface is.

A new kind of body is a new file with one `System` and one line in `model.py`.
"""

from typing import Protocol

from torch import Tensor

from gradsim.geometry.surface import Part

RESOLVED = 0.2  # good step over the largest stable one: a contact of half a period then spans about 8 steps

Values = dict[str, Tensor]  # parameters by dotted name, (worlds, ...) each


class Program(Protocol):
    """A rollout: see `rigid.RigidRollout` and `pendulum.PendulumRollout`."""

    def run(self, *inputs: Tensor) -> list[Tensor]: ...

    def forward(self, inputs: list[Tensor]) -> list[Tensor]: ...

    def tangent(self, inputs: list[Tensor], tangents: list[Tensor | None]) -> list[tuple[Tensor, Tensor]]: ...


class System(Protocol):
    """One body of a scene.

    Attributes:
        name: Its name in the scene.
        states: Names of what a rollout returns for it, such as ("x", "q", "v", "l").
        part: Its piece of the model's surface, with faces and colour; see `parts_of` for what looks like several.
    """

    name: str
    states: tuple[str, ...]
    part: Part

    def program(self, frames: int, substeps: int, dt: float, segment: int) -> Program:
        """The rollout over so many frames."""
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
        """Step [s] that resolves what is stiff: what the scene's `auto` takes; infinite where nothing is."""
        ...

    def check(self, values: Values) -> None:
        """Raise `InputError` if the start is impossible."""
        ...


def parts_of(system: System) -> tuple[Part, ...]:
    """The pieces of a system's surface: its `part`, or its `pieces` where it looks like several bodies."""
    return getattr(system, "pieces", None) or (system.part,)
