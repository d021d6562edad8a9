"""A soft body of a scene: its start, what acts on its vertices, its step, and its surface.

    x = position + s R x_rest,   R = R₀ exp(θ),   v = velocity + ω × s R x_rest + v_vertex + J/m_region + ω_J × r

with ω_J = I⁻¹ (R p × J) of a blow off the centre, at p: r and the inertia I are those of its vertices about their centre of
mass.

What a kind of body is made of (tetrahedra, triangles, springs) is its `ElementModel`; place, pins, blows and contact are the
same for all. Masses are lumped: each element gives equal shares of its mass to its vertices.
"""

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from gradsim.engine.bound_function import Uncopied
from gradsim.errors import InputError
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.surface import Part
from gradsim.numerics import rotation
from gradsim.physics.appearance import look_of
from gradsim.physics.contact.impact import IMPACT_STEP_FACTOR, clip_length, fall_speed, height_above
from gradsim.physics.forces import anchor, plane_constraint
from gradsim.physics.forces.base import Elements
from gradsim.physics.forces.custom import CustomForce
from gradsim.physics.integrators import SOFT
from gradsim.physics.soft.contact import SoftContact, SoftContactPoints
from gradsim.physics.soft.driven import Drive, DrivenParticles, RecordedPoses, RecordedPositions
from gradsim.physics.soft.implicit import ImplicitParticles
from gradsim.physics.soft.rollout import Particles
from gradsim.physics.system import STEP_SAFETY, ObservationUnits, State, System, Values, centered

MAX_SPIN_ANGLE = 0.2  # of a soft body in a step [rad]: vertices go straight, which stretches it by half the square
SOFT_STEP_SAFETY = 0.5  # proposed step over the largest stable one of the material: stiffness grows as it is squeezed


class ElementModel(Protocol):
    """Vertices, elements and surface of a soft body.

    Attributes:
        rest: Vertices at rest (n, 3) [m], about the centre.
        groups: Elements with their forces.
        outer: Vertices that can touch, in order.
        faces: Triangles (m, 3) of its surface that vertices of other soft bodies can touch; none of springs.
        mesh: Rendered mesh, at rest.
        smooth: Interpolate normals, unless its material says otherwise.
    """

    rest: Tensor
    groups: list[Elements]
    outer: Tensor
    faces: Tensor
    mesh: Mesh
    smooth: bool

    def mass(self, values: Values) -> Tensor:
        """Masses of the vertices (worlds, n) [kg], but for the body's `vertex_mass_factor`."""
        ...

    def parameters(self, values: Values, start: Tensor) -> list[Tensor]:
        """Those of the forces of all groups, in order, (worlds, elements or 1, ...); `start`: x at the start."""
        ...

    def rates(self, values: Values, mass: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds (worlds,) of the largest k/m [1/s²] and c/m [1/s] of its vibrations about rest."""
        ...

    def surface_vertices(self, x: Tensor, values: Values) -> Tensor:
        """Vertices of the rendered surface (worlds, frames, k, 3) from all vertices."""
        ...


@runtime_checkable
class HasFrames(Protocol):
    """An `ElementModel` whose edges have frames that twist, as those of a rod."""

    def frames_between(self, held: Sequence[int]) -> list[tuple[int, int, int]]:
        """Frame points of the edges whose ends are both held, as (point, first end, second end)."""
        ...

    def frame_grip(self, values: Values) -> tuple[Tensor, Tensor]:
        """Stiffness [N/m] and damping [N s/m] (worlds, 1) of a spring that holds a frame point against twist."""
        ...


class SoftBody(System):
    """A `System` (see `system.py`) made of some matter.

    Args:
        name: Its name.
        body: The scene's description of it.
        scene: The scene, for its grounds and obstacles.
        vertex_offset: Number of surface vertices before its own.
        matter: Its discretization.
    """

    states = ("x", "v")
    velocities = ("v",)
    start_keys = ("position", "rotation_vector", "velocity", "angular_velocity")

    def __init__(self, name: str, body, scene, vertex_offset: int, matter: ElementModel):
        self.name, self.body, self.matter, self.rest = name, body, matter, matter.rest
        self.integrator = scene.integrator_of(name)
        self.scene = scene
        to = {"dtype": self.rest.dtype, "device": self.rest.device}
        self.quat = torch.tensor(body.quat_xyzw, **to)
        # vertices behind these are columns of strains (see `forces/relaxation.py`), not points of space
        self.count = len(self.rest) - getattr(matter, "strain_points", 0)
        places = self.rest.cpu().double().numpy()[: len(body.rest_vertices)]
        held = [region.of(places) for region in body.pinned]
        self.motion = body.motion
        self.drive, self.tables = _drive(self.motion, places, matter, to)
        held += [np.array(one.vertices) for one in self.drive.recordings]
        self.pinned = np.unique(np.concatenate(held)).tolist() if held else []
        if isinstance(matter, HasFrames):  # clamped edges of a rod
            self.pinned += [point for point, *_ in matter.frames_between(self.pinned)]
        self.driven = torch.tensor(self.drive.vertices, dtype=torch.long, device=self.rest.device)
        self.free = torch.ones(len(self.rest), **to)
        self.free[self.pinned] = 0.0
        self.struck = [self.free.clone() for _ in body.pushes]
        for struck in self.struck:
            struck[self.count :] = 0.0
        for k, blow in enumerate(body.pushes):
            if blow.region is not None:
                self.struck[k] = torch.zeros_like(self.free)
                self.struck[k][torch.tensor(blow.region.of(places))] = 1.0
                self.struck[k] *= self.free
            if not self.struck[k].any():
                raise InputError(
                    f"bodies.{name}.pushes.{k} strikes pinned vertices only; give it a region with free ones."
                )
            if any(blow.point) and not _turns(self.rest[self.struck[k] > 0]):
                raise InputError(
                    f"bodies.{name}.pushes.{k} has a `point`, and its vertices lie in a line, which nothing turns about "
                    "itself; leave `point` out, or give it a wider region."
                )
        touching = matter.outer if body.collision == "vertices" else matter.outer[:0]
        self.radius_name = f"{name}.radius" if isinstance(matter, HasFrames) else None  # vertices of a rod are balls
        self.contact = SoftContact(name, scene, touching[self.free[touching] > 0], self.rest, self.radius_name)
        faces = torch.tensor(matter.mesh.faces, device=to["device"])
        look = look_of(body, matter.mesh, f"bodies.{name}", matter.smooth, to)
        all_vertices = np.arange(len(places))
        held = [all_vertices if one.region is None else one.region.of(places) for one in body.anchors]
        self.anchored = [torch.tensor(vertices, device=to["device"]) for vertices in held]
        self.along = [None if one.along is None else torch.tensor(one.along, **to) for one in body.anchors]
        self.anchors = [
            Elements(anchor.FORCE if along is None else plane_constraint.FORCE, vertices[:, None])
            for along, vertices in zip(self.along, self.anchored, strict=True)
        ]
        self.part = Part(name, slice(vertex_offset, vertex_offset + len(matter.mesh.vertices)), faces, False, look)
        self.acting: dict[str, CustomForce] = {}  # forces of the user, by dotted name
        self.own: list[Elements] = []  # their elements
        self._programs: dict[tuple, Particles | ImplicitParticles | DrivenParticles] = Uncopied()

    @property
    def pushes(self):
        return self.body.pushes

    @property
    def contact_law(self) -> str:
        return self.contact.law

    @property
    def deformable(self) -> "SoftBody":
        return self

    def elements_of(self, key: str) -> Tensor:
        named = [group for group in self.matter.groups if group.force.title in key]
        return (named or self.matter.groups)[0].index

    @property
    def contact_points(self) -> SoftContactPoints | None:
        return SoftContactPoints(self.contact) if self.contact.surfaces else None

    @property
    def in_free_flight(self) -> bool:
        return not self.pinned and not self.anchored and getattr(self.body, "air", None) is None

    @property
    def elements(self) -> tuple[Elements, ...]:
        """All that acts on its vertices, in the order of its parameters among the inputs."""
        return (*self.matter.groups, *self.anchors, *self.contact.groups, *self.own)

    def program(
        self, frames: int, substeps: int, dt: float, segment: int = 1
    ) -> Particles | ImplicitParticles | DrivenParticles:
        key = (frames, substeps, dt, segment)
        if key not in self._programs:
            if len(self._programs) >= 32:
                self._programs.clear()
            arguments = {"pinned": tuple(self.pinned), "segment": segment}
            driven = bool(self.motion)
            if (theta := SOFT[self.integrator].theta) is not None:
                place = getattr(self.matter, "place", ())
                arguments |= {"theta": theta, "place": place, "factored": not place, "driven": driven}
                made = ImplicitParticles(self.elements, frames, substeps, dt, **arguments)
            else:
                arguments |= {"integrator": self.integrator, "driven_vertices": tuple(self.drive.vertices)}
                made = Particles(self.elements, frames, substeps, dt, **arguments)
            if driven:
                made = DrivenParticles(made, self.drive)
            self._programs[key] = made
        return self._programs[key]

    def mass(self, values: Values) -> Tensor:
        """Masses of the vertices (worlds, n) [kg]."""
        mass, factor = self.matter.mass(values), values[f"{self.name}.vertex_mass_factor"]
        strains = mass.shape[1] - factor.shape[1]
        return mass * (torch.nn.functional.pad(factor, (0, strains), value=1.0) if strains else factor)

    def inputs(self, values: Values) -> list[Tensor]:
        mass = self.mass(values)
        x = self._places(values)
        return [
            x,
            self._velocities(values, x, mass),
            1 / mass,
            values["gravity"],
            *self.matter.parameters(values, x),
            *self._anchor_parameters(values, x),
            *self.contact.parameters(values),
            *(x for name, acting in self.acting.items() for x in acting.parameters(name, values)),
            *self._tables(values),
        ]

    def _tables(self, values: Values) -> list[Tensor]:
        """The table (worlds, times, ...) and the delay (worlds,) [s] of each of its recordings (see `driven.Recording`)."""
        tables, shift, turn = [], 0, 0
        for k, table in enumerate(self.tables):
            of = lambda key, k=k: values[f"{self.name}.motion.{k}.{key}"]
            samples = table.shape[:-1]
            offset = values[f"{self.name}.motion_offset"][:, shift : shift + samples.numel()]
            offset = offset + of("offset")[:, None]
            shift += samples.numel()
            if len(samples) == 2:
                table = table + offset.unflatten(1, samples)
            else:
                angles = values[f"{self.name}.motion_rotation"][:, turn : turn + len(table)]
                turn += len(table)
                q = rotation.multiply(rotation.exponential(angles), table[:, 3:])
                table = torch.cat([table[:, :3] + offset, q], -1)
            tables += [table, of("delay")]
        return tables

    def vertices(self, states: list[Tensor], values: Values) -> Tensor:
        return self.matter.surface_vertices(states[0], values)

    def center_of_mass(self, state: State, values: Values) -> Tensor:
        return self._mean(state["x"], values)

    def velocity(self, state: State, values: Values) -> Tensor:
        return self._mean(state["v"], values)

    @property
    def state_size(self) -> int:
        return 6 * len(self.rest)

    def pose_tangent(self, state: State, tangent: State, size: float) -> Tensor:
        """Over √n, so that its norm is the root mean square over the n vertices."""
        return tangent["x"][:, :, : self.count].flatten(2) / (size * self.count**0.5)

    def velocity_tangent(self, state: State, tangent: State, values: Values, direction: Values, size: float) -> Tensor:
        return tangent["v"][:, :, : self.count].flatten(2) / (size * self.count**0.5)

    def _mean(self, y: Tensor, values: Values) -> Tensor:
        """Mean over the vertices by mass (worlds, ..., 3) of (worlds, ..., n, 3)."""
        mass = self.mass(values)[:, : self.count]
        share = mass / mass.sum(1, keepdim=True)
        return (share.reshape(len(share), *[1] * (y.ndim - 3), -1, 1) * y[..., : self.count, :]).sum(-2)

    def energy(self, state: State, values: Values) -> tuple[Tensor, Tensor] | None:
        """None with anchors, a recording, air, an actuation, or a bent sheet that resists bending."""
        if (
            self.anchored
            or self.acting
            or self.motion
            or getattr(self.body, "air", None) is not None
            or self._strained(values)
        ):
            return None
        x, v = (state[key][:, :, : self.count] for key in ("x", "v"))
        mass = self.mass(values)[:, None, : self.count]
        weight = -(x * values["gravity"][:, None, None]).sum(-1)
        return 0.5 * (mass * v.square().sum(-1)).sum(-1), (mass * weight).sum(-1)

    def _strained(self, values: Values) -> bool:
        """True if its rest shape may not be that of the start, or changes."""
        neutral = {"activation": 0.0, "bending_activation": 0.0, "rest_length_factor": 1.0}
        for key, number in neutral.items():
            if (values.get(f"{self.name}.{key}", torch.tensor(number)) != number).any():
                return True
        regions = [key for key in values if key.startswith(f"{self.name}.regions.") and key.endswith("activation")]
        bends = (
            f"{self.name}.bending" in values
            and torch.linalg.matrix_rank(self.rest[: self.count] - self.rest[: self.count].mean(0), rtol=1e-6) > 2
        )
        return bool(bends) or any(values[key].any() for key in regions)

    def bounding_radius(self, values: Values) -> float:
        scale = values.get(f"{self.name}.scale")  # some have none
        radius = torch.linalg.vector_norm(self.rest, dim=-1).max().item()
        return radius * (1.0 if scale is None else scale.max().item())

    def extrapolate(self, state: State, values: Values, time: float) -> dict[str, Tensor]:
        return {**state, "x": state["x"] + time * state["v"]}

    def landmarks(self, count: int) -> Tensor:
        """Each the farthest from those before (Gonzalez 1985), the first from the center."""
        rest = self.rest[: self.count]
        distance, chosen = torch.linalg.vector_norm(rest, dim=-1), []
        for _ in range(min(count, len(self.rest))):
            chosen.append(int(distance.argmax()))
            to_last = torch.linalg.vector_norm(rest - rest[chosen[-1]], dim=-1)
            distance = to_last if len(chosen) == 1 else torch.minimum(distance, to_last)
        return torch.tensor(chosen, dtype=torch.long, device=self.rest.device)

    def observables(self, state: State, values: Values, units: ObservationUnits) -> Tensor:
        """(c - c₀)/R and v̄/V of the center of mass, (x - c)/R and (v - v̄)/V of the landmarks."""
        center, velocity = self.center_of_mass(state, values), self.velocity(state, values)
        x, v = state["x"][:, units.landmarks], state["v"][:, units.landmarks]
        shape = ((x - center[:, None]) / units.radius).flatten(1)
        motion = ((v - velocity[:, None]) / units.speed).flatten(1)
        return torch.cat([*centered(self, state, values, units), shape, motion], 1)

    def stable_step(self, values: Values) -> float:
        """By `stability` of the integrator with bounds of k/m and c/m: see `ElementModel.rates` and `SoftContact.rates`.

        An implicit step is stable at any size.
        """
        if (steps := SOFT[self.integrator]).theta is not None:
            return math.inf
        return _step(*self._rates(values, damped=False)[0], *steps.stability)

    def recommended_step(self, values: Values) -> float:
        if (steps := SOFT[self.integrator]).theta is not None:
            return math.inf
        (elastic, touch), (_, damped) = self._rates(values, damped=False), self._rates(values, damped=True)
        factors = steps.proposal or steps.stability
        spin = torch.linalg.vector_norm(values[f"{self.name}.angular_velocity"].detach(), dim=-1).max().item()
        return min(
            MAX_SPIN_ANGLE / max(spin, 1e-12),
            SOFT_STEP_SAFETY * _step(*elastic, *factors),
            STEP_SAFETY * _step(*touch),
            IMPACT_STEP_FACTOR * _step(*damped, *factors),
        )

    def impact_speed(self, values: Values) -> Tensor:
        """Largest speed (worlds,) [m/s] at which one of its vertices can meet a ground or obstacle."""
        x, mass = self._places(values).detach(), self.mass(values).detach()
        speed = torch.linalg.vector_norm(self._velocities(values, x, mass).detach(), dim=-1).amax(1)
        gravity = values["gravity"].detach()
        up = -torch.nn.functional.normalize(gravity, dim=-1)
        top = (x * up[:, None]).sum(-1).argmax(1)
        height = height_above(self.contact, x[torch.arange(len(x)), top], values).detach()
        return fall_speed(speed, height, gravity, clip_length(self.scene, values))

    def check(self, values: Values) -> None:
        """Raise `InputError` if a mass is not above 0, or a vertex starts inside something."""
        mass = self.mass(values)
        if not (mass > 0).all():
            world, vertex = (int(k) for k in (~(mass > 0)).nonzero()[0])
            raise InputError(
                f"vertex {vertex} of `{self.name}` has mass {mass[world, vertex].item():.4g} kg; "
                f"it has to be above 0: look at its density and `vertex_mass_factor`."
            )
        size = torch.linalg.vector_norm(self.rest, dim=-1).max().item() * scale_of(self.name, values).min().item()
        self.contact.check(values, self._places(values), 1e-3 * size)

    def _rates(self, values: Values, damped: bool) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Bounds (worlds,) of k/m [1/s²] and c/m [1/s]: of everything together, and of contact alone.

        `damped`: with the dissipation of the contact at the speed of the impact.
        """
        mass = self.mass(values).detach()
        touch = self.contact.rates(values, mass, self.impact_speed(values) if damped else None)
        parts = [self.matter.rates(values, mass), touch]
        for k, vertices in enumerate(self.anchored):
            least = mass[:, vertices].amin(1)
            pair = [values[f"{self.name}.anchors.{k}.{key}"].detach() / least for key in ("stiffness", "damping")]
            parts.append((pair[0], pair[1]))
        stiffness, damping = (torch.stack(part).sum(0) for part in zip(*parts, strict=True))
        return (stiffness, damping), touch

    def _anchor_parameters(self, values: Values, x: Tensor) -> list[Tensor]:
        arguments = []
        for k, vertices in enumerate(self.anchored):
            of = lambda key, k=k: values[f"{self.name}.anchors.{k}.{key}"][:, None]
            arguments.append(x[:, vertices] + of("offset"))
            if (along := self.along[k]) is not None:
                arguments.append(torch.nn.functional.normalize(along, dim=0).expand(len(x), 1, 3))
            arguments += [of("stiffness"), of("damping")]
        return arguments

    def _places(self, values: Values) -> Tensor:
        """Vertices at the start (worlds, n, 3) [m]; driven ones where the recording begins."""
        rest = self.rest[: self.count] * scale_of(self.name, values)[:, None, None]
        x = rotation.rotate(self._turn(values)[:, None], rest) + values[f"{self.name}.position"][:, None]
        if self.motion:
            x = x.index_copy(1, self.driven, self.drive.start(self._tables(values), x)[0])
        if self.count == len(self.rest):
            return x
        return torch.cat([x, self.matter.relaxed_strains(x, values)], 1)  # pyright: ignore[reportAttributeAccessIssue] -- see `count`

    def _turn(self, values: Values) -> Tensor:
        """Orientation at the start (worlds, 4)."""
        return rotation.multiply(rotation.exponential(values[f"{self.name}.rotation_vector"]), self.quat.expand(1, 4))

    def _velocities(self, values: Values, x: Tensor, mass: Tensor) -> Tensor:
        """Velocities at the start (worlds, n, 3) [m/s]; 0 where a vertex is pinned, that of the recording where it is driven."""
        of = lambda key: values[f"{self.name}.{key}"]
        x, mass = x[:, : self.count], mass[:, : self.count]
        arm = x - of("position")[:, None]
        v = of("velocity")[:, None] + torch.linalg.cross(of("angular_velocity")[:, None].expand_as(arm), arm)
        v = v + of("vertex_velocity")
        for k, vertices in enumerate(self.struck):
            struck = vertices[: self.count]
            gain = of(f"pushes.{k}.impulse") / (mass * struck).sum(1, keepdim=True)
            v = v + gain[:, None] * struck[:, None]
            if any(self.body.pushes[k].point):
                v = v + self._spin(k, mass * struck, x, values) * struck[:, None]
        v = v * self.free[: self.count, None]
        if self.motion:
            v = v.index_copy(1, self.driven, self.drive.start(self._tables(values), x)[1])
        return torch.nn.functional.pad(v, (0, 0, 0, len(self.rest) - self.count))

    def _spin(self, k: int, mass: Tensor, x: Tensor, values: Values) -> Tensor:
        """ω_J × r of vertices (worlds, n, 3) [m/s] by the k-th blow, which strikes those with a mass above 0."""
        point = x.new_tensor(self.body.pushes[k].point)
        torque = rotation.cross(rotation.rotate(self._turn(values), point), values[f"{self.name}.pushes.{k}.impulse"])
        arm = x - (mass[..., None] * x).sum(1, keepdim=True) / mass.sum(1)[:, None, None]
        square = arm.square().sum(-1)[..., None, None] * torch.eye(3, dtype=x.dtype, device=x.device)
        inertia = (mass[..., None, None] * (square - arm[..., :, None] * arm[..., None, :])).sum(1)
        return rotation.cross(torch.linalg.solve(inertia, torque)[:, None], arm)


def _drive(motions, rest: np.ndarray, matter: ElementModel, to) -> tuple[Drive, list[Tensor]]:
    """The recordings that vertices follow, and their tables; frame points of a rod follow edges whose ends both do.

    Args:
        motions: The scene's description of them.
        rest: Vertices at rest (n, 3) [m].
        matter: What they belong to.
        to: dtype and device.
    """
    recordings, tables = [], [torch.tensor(motion.table, **to) for motion in motions]
    for motion in motions:
        kind = RecordedPoses if motion.poses else RecordedPositions
        recordings.append(kind(torch.tensor(motion.times, **to), tuple(motion.of(rest).tolist())))
    vertices = [k for one in recordings for k in one.vertices]
    frames = matter.frames_between(vertices) if isinstance(matter, HasFrames) else []
    return Drive(recordings, frames), tables


def scale_of(name: str, values: Values) -> Tensor:
    """Scale of the shape of a soft body (worlds,); 1 where the scene gives none."""
    return values.get(f"{name}.scale", torch.ones_like(values[f"{name}.position"][:, 0]))


def rest_scale_of(name: str, values: Values) -> Tensor:
    """Scale of the rest lengths (worlds,)."""
    scale = scale_of(name, values)
    return scale * values.get(f"{name}.rest_length_factor", torch.ones_like(scale))


def _turns(rest: Tensor) -> bool:
    """True if vertices (n, 3) are not collinear, so that they have an inertia about every axis."""
    return bool(torch.linalg.matrix_rank((rest - rest.mean(0)).cpu(), rtol=1e-6) > 1)


def _step(stiffness: Tensor, damping: Tensor, of_stiffness: float = 1.0, of_damping: float = 1.0) -> float:
    """The positive root of h² k/m + 2 h c/m = 4 with factors of k and c, the least of all worlds."""
    c = of_damping * damping
    root = 4 / (c + torch.sqrt(c**2 + 4 * of_stiffness * stiffness)).clamp(min=1e-300)
    return root.min().item()
