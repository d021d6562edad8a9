"""Result of a rollout: the states of every body at every frame, and the surface they carry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.errors import InputError
from gradsim.geometry.surface import DenseVertices, Part, Surface
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.joints import joints_of
from gradsim.physics.static_geometry import GroundSquare, ObstacleBody
from gradsim.physics.system import System, Values
from gradsim.runtime.html import table


class DenseOutput(NamedTuple):
    """States at instants about every frame, for cameras with a shutter and for logs.

    Args:
        offsets: Instants after the time of the frame (frames, samples), by the clock of the video [s].
        states: State tensors (worlds, frames, samples, ...) by body and name.
        for_images: Whether a camera has a shutter.
    """

    offsets: Tensor
    states: dict[str, dict[str, Tensor]]
    for_images: bool = True


@dataclass(frozen=True)
class Trajectory:
    """States of all bodies at all frames.

    Args:
        times: Times of the frames, by the clock of the video (frames,) [s].
        states: State tensors (worlds, frames, ...) by body and name. A rigid body has x [m], q (x, y, z, w),
            v [m/s] of its centre of mass and angular momentum l [kg m²/s]; a pendulum has angle [rad] and rate [rad/s],
            a double pendulum two of each.
        values: The parameters it was made with, (worlds, ...) each.
        systems: The bodies.
        scenery: Other objects in images: grounds that are visible, and obstacles.
        dense: States between frames, where a camera of the scene has a shutter, or a log drives motors faster than frames.
    """

    times: Tensor
    states: dict[str, dict[str, Tensor]]
    values: Values
    systems: tuple[System, ...]
    scenery: tuple[GroundSquare | ObstacleBody, ...] = ()
    dense: DenseOutput | None = None

    def __repr__(self) -> str:
        bodies = ", ".join(
            f"{name}: " + ", ".join(f"{key} {tuple(x.shape)}" for key, x in state.items())
            for name, state in self.states.items()
        )
        return f"Trajectory({len(self.times)} frames, {self.times[0]:.3g} to {self.times[-1]:.3g} s; {bodies})"

    def _repr_html_(self) -> str:
        """Bodies and the shapes of their states, for notebooks; an `Animation` of it plays it."""
        rows = ((body, ", ".join(f"{key} {tuple(x.shape)}" for key, x in y.items())) for body, y in self.states.items())
        span = f"{len(self.times)} frames, {self.times[0]:.3g} to {self.times[-1]:.3g} s"
        return f"<p><b>Trajectory</b>: {span}</p>" + table(("body", "states (worlds, frames, …)"), rows)

    def __getitem__(self, body: str) -> dict[str, Tensor]:
        if body not in self.states:
            raise InputError(f"the rollout has no body `{body}`; there are {', '.join(self.states)}.")
        return self.states[body]

    def joint(self, name: str) -> dict[str, Tensor]:
        """Coordinates and velocities of a joint, (worlds, frames, ...); differentiable.

        A revolute joint has angle [rad], without jumps of whole turns, and rate [rad/s]; a prismatic one displacement [m]
        and speed [m/s]; a ball joint rotation_vector [rad] and angular_velocity [rad/s], in the parent's frame.

        Raises:
            InputError: If there is none of that name that moves.
        """
        bodies = [s for s in self.systems if isinstance(s, RigidBody)]
        joints = joints_of(bodies, bodies[0].scene) if bodies else None
        coordinates = joints.coordinates_of(self.states, self.values, self._simulated_times()) if joints else {}
        if name not in coordinates:
            raise InputError(
                f"the rollout has no joint `{name}` that moves; there are {', '.join(coordinates) or 'none'}."
            )
        return coordinates[name]

    def _simulated_times(self) -> Tensor:
        """Times of the frames since the start (worlds, frames) [s]."""
        rate, offset = (self.values[f"timing.{key}"][:, None] for key in ("rate", "offset"))
        return offset + rate * self.times.to(rate)

    def at(self, frames: int | Sequence[int] | slice) -> "Trajectory":
        """That of some frames alone, in this order; -1 is the last."""
        which = frames if isinstance(frames, slice) else [frames] if isinstance(frames, int) else list(frames)
        states = {body: {key: y[:, which] for key, y in state.items()} for body, state in self.states.items()}
        dense = None
        if self.dense is not None:
            between = {
                body: {key: y[:, which] for key, y in state.items()} for body, state in self.dense.states.items()
            }
            dense = self.dense._replace(offsets=self.dense.offsets[which], states=between)
        return Trajectory(self.times[which], states, self.values, self.systems, self.scenery, dense)

    def of_worlds(self, rows: slice | Tensor) -> "Trajectory":
        """That of some worlds alone."""
        part = lambda group: {body: {key: y[rows] for key, y in state.items()} for body, state in group.items()}
        values = {name: value[rows] for name, value in self.values.items()}
        dense = None if self.dense is None else self.dense._replace(states=part(self.dense.states))
        return Trajectory(self.times, part(self.states), values, self.systems, self.scenery, dense)

    def then(self, later: "Trajectory") -> "Trajectory":
        """That of these frames, and those of another of the same bodies after them; parameters are those of the first, and
        times go on by its clock.
        """
        joined = lambda first, second: {
            body: {key: torch.cat([y, second[body][key]], 1) for key, y in state.items()}
            for body, state in first.items()
        }
        times = torch.cat([self.times, later.times - later.times[0] + 2 * self.times[-1] - self.times[-2]])
        dense = None
        if self.dense is not None and later.dense is not None:
            offsets = torch.cat([self.dense.offsets, later.dense.offsets])
            dense = self.dense._replace(offsets=offsets, states=joined(self.dense.states, later.dense.states))
        return Trajectory(times, joined(self.states, later.states), self.values, self.systems, self.scenery, dense)

    @property
    def samples(self) -> "Trajectory":
        """That of all instants of the dense output, one after another.

        Raises:
            InputError: If there is none.
        """
        if self.dense is None:
            raise InputError(
                "a camera has a shutter (`readout`, `exposure` or `delay`), and this trajectory has no instants between frames; make the model "
                "from a scene whose camera has the same shutter."
            )
        states = {body: {key: y.flatten(1, 2) for key, y in state.items()} for body, state in self.dense.states.items()}
        times = (self.times[:, None] + self.dense.offsets).flatten()
        return Trajectory(times, states, self.values, self.systems, self.scenery)

    @property
    def surface(self) -> Surface:
        """Vertices (worlds, frames, n, 3) [m] of all bodies; differentiable."""
        vertices = [s.vertices(list(self.states[s.name].values()), self.values) for s in self.systems]
        dense = self._dense_vertices(self.samples.surface) if self.dense and self.dense.for_images else None
        return Surface(torch.cat(vertices, 2), self.parts, dense, self.times)

    def _dense_vertices(self, surface: Surface) -> DenseVertices | None:
        """Vertices of the instants between frames, from those of `samples`."""
        if self.dense is None:
            return None
        return DenseVertices(self.dense.offsets, surface.vertices.unflatten(1, self.dense.offsets.shape))

    @property
    def scene_surface(self) -> Surface:
        """Surface of all bodies, then of visible grounds and all obstacles, for images; differentiable.

        `surface` has the bodies alone, without occlusion by the others: the surface that masks are compared with.
        """
        surface = self.surface
        vertices, parts = [surface.vertices], list(surface.parts)
        for thing in self.scenery:
            still = thing.vertices(self.values)[:, None]
            vertices.append(still.expand(*surface.vertices.shape[:2], *still.shape[2:]))
            parts.append(thing.part(parts[-1].vertices.stop))
        dense = self._dense_vertices(self.samples.scene_surface) if self.dense and self.dense.for_images else None
        return Surface(torch.cat(vertices, 2), tuple(parts), dense, self.times)

    def surface_tangent(self, tangent: "Trajectory", values_tangent: Values) -> tuple[Surface, Tensor]:
        """The surface, and the derivative of its vertices along the direction of `tangent` and `values_tangent`."""
        pairs = []
        for s in self.systems:
            places = [f"{s.name} {key}" for key in self.states[s.name]]  # no parameter has a name with a space

            def moving(inputs: dict[str, Tensor], s: System = s, places: list[str] = places) -> list[Tensor]:
                values = {name: inputs.get(name, v) for name, v in self.values.items()}
                return [s.vertices([inputs[place] for place in places], values)]

            at = dict(zip(places, self.states[s.name].values(), strict=True))
            at |= {name: self.values[name] for name in values_tangent}
            direction = dict(zip(places, tangent.states[s.name].values(), strict=True)) | dict(values_tangent)
            (vertices,), (tangents,) = derivative(moving, at, direction)
            pairs.append((vertices, torch.zeros_like(vertices) if tangents is None else tangents))
        vertices, tangents = (torch.cat(part, 2) for part in zip(*pairs, strict=True))
        return Surface(vertices, self.parts, times=self.times), tangents

    @property
    def parts(self) -> tuple[Part, ...]:
        """Pieces of the surface, of all bodies."""
        return tuple(part for s in self.systems for part in s.parts)
