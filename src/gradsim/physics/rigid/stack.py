"""Inputs of several rigid bodies as those of `multibody.Bodies`: a tensor (worlds, bodies, ...) of each, from single operations where bodies are alike."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.physics.rigid.batching import BODY, NO_CONTACT_DEPTH
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.rollout import CONTACT, DRAG, OBSTACLE, ROLLING
from gradsim.physics.system import Values

START = ("x", "q", "v", "l")


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
        self.reach = torch.stack(
            [torch.linalg.vector_norm(body.rest, dim=-1).max() for body in bodies]
        )  # at scale 1 [m]
        self.inverse_inertia_per_mass = torch.stack([body.inverse_inertia_per_mass for body in bodies])

    def states(self, states: Mapping[str, Sequence[Tensor]]) -> list[Tensor]:
        """x, q, v and l (worlds, bodies, ·) from those of each body by name."""
        return [torch.stack(y, 1) for y in zip(*(states[body.name] for body in self.bodies), strict=True)]

    def inputs_after_start(self, values: Values) -> list[Tensor]:
        """Inputs by the names of `BODY`, but for the four of `states`."""
        worlds, count, meeting = len(values["gravity"]), len(self.bodies), self.meeting
        for_all = lambda y: y[:, None].expand(worlds, count, *y.shape[1:])
        mass, scale = self._of(lambda body: body.mass(values)), self._of(lambda body: values[f"{body.name}.scale"])
        arrays = {
            "mass": mass,
            "inertia_inverse": self._inertia_inverse(values, mass, scale),
            "gravity": for_all(values["gravity"]),
            "points": self._points(values) * scale[..., None, None],
            "radius": torch.where(self.is_point, self.radius * scale[..., None], -NO_CONTACT_DEPTH),
            **{name: for_all(y) for name, y in zip(("normal", "height"), meeting.planes(values, worlds), strict=True)},
            **{key: self._contact(key, values, worlds) for key in CONTACT},
            **self._pushes(values, worlds),
            **{name: for_all(y) for name, y in zip(OBSTACLE, meeting.solids(values, worlds), strict=True)},
            DRAG: self._drag(values, worlds),
            **{name: for_all(y) for name, y in zip(ROLLING, meeting.rolling(values, worlds), strict=True)},
        }
        return [arrays[name] for name in BODY[len(START) :]]

    def _of(self, number: Callable[[RigidBody], Tensor]) -> Tensor:
        return torch.stack([number(body) for body in self.bodies], 1)

    def _has(self, values: Values, *keys: str) -> bool:
        """True if one of these parameters is there for one of the bodies."""
        return any(f"{body.name}.{key}" in values for key in keys for body in self.bodies)

    def _inertia_inverse(self, values: Values, mass: Tensor, scale: Tensor) -> Tensor:
        if self._has(values, "inertia", "inertia_log_cholesky", "centre_of_mass"):
            return self._of(lambda body: body.inertia_inverse(values))
        return self.inverse_inertia_per_mass / (mass * scale**2)[..., None, None]

    def _points(self, values: Values) -> Tensor:
        """At scale 1, (worlds or 1, bodies, points, 3)."""
        if not self._has(values, "centre_of_mass"):
            return self.points[None]
        worlds, most = len(values["gravity"]), self.points.shape[1]
        shifted = lambda body: body.shifted_points(values).expand(worlds, -1, -1)
        return self._of(lambda body: pad(shifted(body), (0, 0, 0, most - len(body.points))))

    def _contact(self, key: str, values: Values, worlds: int) -> Tensor:
        """A number of the contact with each ground and obstacle (worlds, bodies, surfaces)."""
        if self._has(values, self.meeting.damping_name if key == "damping" else key):
            return self._of(lambda body: (body if body.surfaces else self.meeting).contact_number(key, values, worlds))
        return self.meeting.contact_number(key, values, worlds)[:, None].expand(-1, len(self.bodies), -1)

    def _drag(self, values: Values, worlds: int) -> Tensor:
        """Drag (worlds, bodies, 1) [kg/m], or (worlds, bodies, 0) where air brakes none."""
        none = self.points.new_zeros(worlds)
        if not self._has(values, DRAG):
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
