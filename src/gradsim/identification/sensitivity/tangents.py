"""Tangents of a trajectory by its unknowns, step by step, in body sizes.

The distance of two neighbouring trajectories includes position, orientation, velocity and angular velocity,

    S² = |δx|²/r² + |δθ|² + τ² (|δv|²/r² + |δω|²)

with the radius r of the body and the time τ in which it falls by r, so that the effect of a contact shows immediately.
For a soft body S² = ⟨|δx|²⟩/r² + τ² ⟨|δv|²⟩/r², the mean over its vertices; other bodies have the norm of their raw states,
velocities times τ. A body says it by `System.pose_tangent` and `System.velocity_tangent`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.sensitivity.columns import Columns
from gradsim.identification.sensitivity.directions import Direction, size_of, time_of
from gradsim.physics.model import Model
from gradsim.physics.system import State, System, Values
from gradsim.physics.trajectory import Trajectory

MEMORY = 2**26  # numbers in the tangents of one group of unknowns


@dataclass(frozen=True)
class Scale:
    """Units of a trajectory.

    Args:
        size: r [m].
        time: τ [s].
    """

    size: float
    time: float

    @classmethod
    def of(cls, model: Model, values: Values) -> "Scale":
        size = size_of(model, values)
        return cls(size, time_of(model, size))


def by_step(model: Model) -> Model:
    """Copy of the model with a frame for every step."""
    timing = model.scene.timing
    fine = timing.model_copy(update={"fps": timing.fps * model.substeps, "substeps": 1})
    first = next(model.parameters())
    scene = model.scene.model_copy(update={"timing": fine})
    return Model(scene, 1, model.dtype, str(first.device), forces=model.forces)


def tangents(
    model: Model, values: Values, directions: Sequence[Direction], frames: int, columns: Columns | None = None
) -> tuple[Trajectory, list[Trajectory]]:
    """Trajectory of one world, and its derivative along each direction.

    Args:
        model: The model.
        values: Parameters (1, ...).
        directions: Unknowns.
        frames: Number of frames.
        columns: Derivatives that are known; None: none are.
    """
    columns = columns or Columns()
    numbers = sum(s.state_size for s in model.systems)
    lanes = max(1, MEMORY // (frames * 2 * numbers))  # of state and derivative
    trajectory, derivatives = None, []
    for first in range(0, len(directions), lanes):
        group = directions[first : first + lanes]
        repeated = {name: v.detach().expand(len(group), *v.shape[1:]).clone() for name, v in values.items()}
        along: Values = {}
        for k, direction in enumerate(group):
            for name, slope in direction.tangent(values).items():
                along.setdefault(name, torch.zeros_like(repeated[name]))[k] = slope[0]
        with torch.no_grad():
            trajectory, moving = columns.tangent(model, repeated, along, frames)
        for k in range(len(group)):
            states = {body: {n: y[k : k + 1] for n, y in group_.items()} for body, group_ in moving.states.items()}
            one = {name: v[k : k + 1] for name, v in along.items()}
            derivatives.append(Trajectory(trajectory.times, states, one, model.systems))
    assert trajectory is not None
    first_world = {b: {n: y[:1] for n, y in g.items()} for b, g in trajectory.states.items()}
    return Trajectory(trajectory.times, first_world, values, model.systems), derivatives


def displacement(
    system: System, states: State, moving: State, values: Values, direction: Values, scale: Scale
) -> tuple[Tensor, Tensor]:
    """Tangents of one body: of pose (frames, n) and of velocities (frames, m), in units of S.

    Args:
        system: The body.
        states: States (worlds, frames, ·); world 0 is used.
        moving: Derivatives of the states.
        values: Parameters (worlds, ...).
        direction: Derivatives of some of them.
        scale: Units.
    """
    first = lambda group: {name: y[:1].detach() for name, y in group.items()}
    state, tangent = first(states), first(moving)
    place = system.pose_tangent(state, tangent, scale.size)
    pace = system.velocity_tangent(state, tangent, first(values), first(direction), scale.size)
    return place[0], pace[0] * scale.time


def displacements(trajectory: Trajectory, moving: Sequence[Trajectory], scale: Scale) -> Tensor:
    """Tangents of poses of all bodies (frames, n, directions), in units of S.

    Args:
        trajectory: Trajectory of one world.
        moving: Its derivatives, of `tangents`.
        scale: Units.
    """
    groups: dict[tuple[str, ...], list[Trajectory]] = {}
    for one in moving:
        groups.setdefault(tuple(one.values), []).append(one)
    columns = {}
    for group in groups.values():
        parts = []
        for s in trajectory.systems:
            state = {name: y[:1].detach().expand(len(group), *y.shape[1:]) for name, y in trajectory[s.name].items()}
            tangent = {name: torch.cat([one[s.name][name] for one in group]).detach() for name in state}
            parts.append(s.pose_tangent(state, tangent, scale.size))
        columns |= dict(zip(map(id, group), torch.cat(parts, 2), strict=True))
    return torch.stack([columns[id(one)] for one in moving], -1)


def sensitivity(trajectory: Trajectory, moving: Trajectory, scale: Scale) -> tuple[Tensor, Tensor]:
    """S of every body (bodies, frames), and its part of position and orientation."""
    both, positions = [], []
    for s in trajectory.systems:
        place, pace = displacement(
            s, trajectory.states[s.name], moving.states[s.name], trajectory.values, moving.values, scale
        )
        both.append(torch.linalg.vector_norm(torch.cat([place, pace], -1), dim=-1))
        positions.append(torch.linalg.vector_norm(place, dim=-1))
    return torch.stack(both), torch.stack(positions)
