"""Parameters of several rigid bodies side by side, (worlds, bodies, ...): one call of PyTorch for all of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.numerics import rotation
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.many.batching import BODY, NO_CONTACT_DEPTH, START
from gradsim.physics.rigid.many.columns import Column
from gradsim.physics.rigid.rollout import CONTACT, DRAG, OBSTACLE, ROLLING
from gradsim.physics.system import Values

PER_BODY_INERTIA = (
    "inertia",
    "inertia_log_cholesky",
    "centre_of_mass",
)  # where one has these, each is looked at by itself


class BodyStack:
    """Rigid bodies whose numbers stand side by side.

    Args:
        bodies: The bodies. One without contact points has the grounds and obstacles of the others.
    """

    def __init__(self, bodies: Sequence[RigidBody]):
        self.bodies = tuple(bodies)
        self.meeting = next((body for body in bodies if body.surfaces), bodies[0])
        most = max(len(body.points) for body in bodies)
        self.points = torch.stack([pad(body.points, (0, 0, 0, most - len(body.points))) for body in bodies])
        self.radius = torch.stack([pad(body.radius, (0, most - len(body.radius))) for body in bodies])
        counts = torch.tensor([len(body.points) for body in bodies], device=self.points.device)
        self.is_point = torch.arange(most, device=self.points.device) < counts[:, None]
        self.reach = torch.stack([body.shape.size for body in bodies])  # at scale 1 [m]
        self.quat = torch.stack([body.quat for body in bodies])
        self.volume = self.points.new_tensor([body.volume for body in bodies])
        self.inertia_per_mass = torch.stack([body.inertia_per_mass for body in bodies])
        self.inverse_inertia_per_mass = torch.stack([body.inverse_inertia_per_mass for body in bodies])
        self._columns: dict[str, Column] = {}

    def states(self, states: Mapping[str, Sequence[Tensor]]) -> list[Tensor]:
        """x, q, v and l (worlds, bodies, ·) from those of each body by name."""
        return [torch.stack(y, 1) for y in zip(*(states[body.name] for body in self.bodies), strict=True)]

    def start(self, values: Values) -> list[Tensor]:
        """The same at the start; of bodies that a joint places, at rest at the origin."""
        worlds, count = len(values["gravity"]), len(self.bodies)
        nothing = self.points.new_zeros(worlds, 1, 3).expand(worlds, count, 3)
        resting = [nothing, self.quat.expand(worlds, count, 4), nothing, nothing]
        if self._free is None:
            return resting
        free, order = self._free
        q = rotation.multiply(rotation.exponential(free.numbers("rotation_vector", values)), free.quat)
        l = rotation.apply_turned(q, free.inertia(values), free.numbers("angular_velocity", values))
        states = [free.numbers("position", values), q, free.numbers("velocity", values), l]
        if order is None:
            return states
        return [torch.cat([y, z], 1).index_select(1, order) for y, z in zip(resting, states, strict=True)]

    @cached_property
    def _free(self) -> "tuple[BodyStack, Tensor | None] | None":
        """Bodies that no joint places, and the place of each body among all of them and these; None where these are all."""
        free = [k for k, body in enumerate(self.bodies) if not body.placed]
        if len(free) == len(self.bodies):
            return self, None
        order = list(range(len(self.bodies)))
        for place, k in enumerate(free, len(order)):
            order[k] = place
        return (
            (BodyStack([self.bodies[k] for k in free]), torch.tensor(order, device=self.points.device))
            if free
            else None
        )

    def inputs_after_start(self, values: Values) -> list[Tensor]:
        """Inputs by the names of `BODY`, but for the four of `states`."""
        worlds, count, meeting = len(values["gravity"]), len(self.bodies), self.meeting
        for_all = lambda y: y[:, None].expand(worlds, count, *y.shape[1:])
        mass, scale = self.mass(values), self.numbers("scale", values)
        arrays = {
            "mass": mass,
            "inertia_inverse": self.inertia_inverse(values, mass),
            "gravity": for_all(values["gravity"]),
            "points": self._points(values) * scale[..., None, None],
            "radius": torch.where(self.is_point, self.radius * scale[..., None], -NO_CONTACT_DEPTH),
            **{name: for_all(y) for name, y in zip(("normal", "height"), meeting.planes(values, worlds), strict=True)},
            **{key: self.contact(key, values, worlds) for key in CONTACT},
            **self._pushes(values, worlds),
            **{name: for_all(y) for name, y in zip(OBSTACLE, meeting.solids(values, worlds), strict=True)},
            DRAG: self._drag(values, worlds),
            **{name: for_all(y) for name, y in zip(ROLLING, meeting.rolling(values, worlds), strict=True)},
        }
        return [arrays[name] for name in BODY[len(START) :]]

    def numbers(self, key: str, values: Values) -> Tensor:
        """A parameter that all bodies have (worlds, bodies, ...)."""
        return self.column(key).of(values)

    def column(self, key: str) -> Column:
        """A parameter of every body."""
        if key not in self._columns:
            self._columns[key] = Column([f"{body.name}.{key}" for body in self.bodies])
        return self._columns[key]

    def mass(self, values: Values) -> Tensor:
        """Mass (worlds, bodies) [kg]."""
        stated = [name in values for name in self.column("mass").names]
        if all(stated):
            return self.numbers("mass", values)
        if not any(stated):
            return self.numbers("density", values) * self.volume * self.numbers("scale", values) ** 3
        return self._of(lambda body: body.mass(values))

    def inertia(self, values: Values, mass: Tensor | None = None) -> Tensor:
        """About the centres of mass, in the axes of the bodies (worlds, bodies, 3, 3) [kg m²].

        Args:
            values: All parameters.
            mass: `mass`, where it is known.
        """
        if self.has(values, *PER_BODY_INERTIA):
            return self._of(lambda body: body.inertia(values))
        mass = self.mass(values) if mass is None else mass
        return (mass * self.numbers("scale", values) ** 2)[..., None, None] * self.inertia_per_mass

    def inertia_inverse(self, values: Values, mass: Tensor | None = None) -> Tensor:
        """Inverse of `inertia`, with the same arguments."""
        if self.has(values, *PER_BODY_INERTIA):
            return self._of(lambda body: body.inertia_inverse(values))
        mass = self.mass(values) if mass is None else mass
        return self.inverse_inertia_per_mass / (mass * self.numbers("scale", values) ** 2)[..., None, None]

    def contact(self, key: str, values: Values, worlds: int) -> Tensor:
        """A number of the contact with each ground and obstacle (worlds, bodies, surfaces)."""
        if self.has(values, self.meeting.damping_name if key == "damping" else key):
            return self._of(lambda body: (body if body.surfaces else self.meeting).contact_number(key, values, worlds))
        return self.meeting.contact_number(key, values, worlds)[:, None].expand(-1, len(self.bodies), -1)

    def _of(self, number: Callable[[RigidBody], Tensor]) -> Tensor:
        return torch.stack([number(body) for body in self.bodies], 1)

    def has(self, values: Values, *keys: str) -> bool:
        """True if one of these parameters is there for one of the bodies."""
        return any(name in values for key in keys for name in self.column(key).names)

    def _points(self, values: Values) -> Tensor:
        """At scale 1, (worlds or 1, bodies, points, 3)."""
        if not self.has(values, "centre_of_mass"):
            return self.points[None]
        worlds, most = len(values["gravity"]), self.points.shape[1]
        shifted = lambda body: body.shifted_points(values).expand(worlds, -1, -1)
        return self._of(lambda body: pad(shifted(body), (0, 0, 0, most - len(body.points))))

    def _drag(self, values: Values, worlds: int) -> Tensor:
        """Drag (worlds, bodies, 1) [kg/m], or (worlds, bodies, 0) where air brakes none."""
        none = self.points.new_zeros(worlds)
        if not self.has(values, DRAG):
            return none[:, None, None].expand(worlds, len(self.bodies), 1)[..., :0]
        return self._of(lambda body: values.get(f"{body.name}.{DRAG}", none))[..., None]

    def _pushes(self, values: Values, worlds: int) -> dict[str, Tensor]:
        """Each push has a column, which is zero for all bodies but its own."""
        counts = [len(body.pushes) for body in self.bodies]
        if not any(counts):
            nothing = self.points.new_zeros(worlds, len(self.bodies), 0, 3)
            return {"impulse": nothing, "push_point": nothing}
        columns: list[list[Tensor]] = [[], []]
        for k, body in enumerate(self.bodies):
            before = sum(counts[:k])
            sides = (0, 0, before, sum(counts) - before - counts[k])
            for column, y in zip(columns, body.push_numbers(values, worlds), strict=True):
                column.append(pad(y, sides))
        return {name: torch.stack(y, 1) for name, y in zip(("impulse", "push_point"), columns, strict=True)}
