"""The parameters of several rigid bodies side by side in the arrays of one: register i of body r is row i · bodies + r.

So the functions of `rigid/wrench_kernels.py`, which take a row, serve many bodies in a world. Each push has a separate
column, which is zero for all bodies but its own; the list of contact points of a body with few is filled up with points
that never touch.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.engine.layout import Layout
from gradsim.physics.rigid import rollout
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.rollout import CONTACT, DRAG, OBSTACLE, ROLLING
from gradsim.physics.system import Values

BODY = [name for name in rollout.INPUTS if name != "step"]  # inputs of each body
NO_CONTACT_DEPTH = 1e9  # [m], below a contact point that never touches
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


def share_drag(bodies: Sequence[list[Tensor]]) -> None:
    """Give all bodies a drag, in place, if one of them has any: 0."""
    k = BODY.index(rollout.DRAG)
    if any(body[k].shape[1] for body in bodies):
        for body in bodies:
            body[k] = body[k] if body[k].shape[1] else body[k].new_zeros(len(body[k]), 1)


def together(
    name: str, bodies: Sequence[dict[str, Tensor]], pushes: Sequence[int], width: int, fill: float = -NO_CONTACT_DEPTH
) -> Tensor:
    """(packs · bodies · lanes, ...) from the values (worlds, ...) that the bodies have for one input.

    Args:
        name: Name of the input.
        bodies: Its value by its name, of each.
        pushes: Number of pushes of each body.
        width: Worlds in one register.
        fill: Radius of a point that never touches; 0 for tangents.
    """
    values = [body[name] for body in bodies]
    if name in ("impulse", "push_point"):
        before = [sum(pushes[:r]) for r in range(len(pushes))]
        values = [pad(y, (0, 0, k, sum(pushes) - k - y.shape[1])) for y, k in zip(values, before, strict=True)]
    elif name in ("points", "radius"):
        most = max(y.shape[1] for y in values)
        fills = fill if name == "radius" else 0.0
        tail = (0, 0) * (values[0].ndim - 2)
        values = [pad(y, (*tail, 0, most - y.shape[1]), value=fills) for y in values]
    return side_by_side(torch.stack(values, 1), width)


def side_by_side(full: Tensor, width: int) -> Tensor:
    """(packs · bodies · lanes, ...) from (worlds, bodies, ...)."""
    missing = -len(full) % width
    full = torch.cat([full, full[-1:].expand(missing, *full.shape[1:])]) if missing else full
    return full.unflatten(0, (-1, width)).transpose(1, 2).flatten(0, 2)


def slopes_together(
    name: str, bodies: Sequence[dict[str, Tensor]], slopes: Sequence[dict[str, Tensor | None]], pushes, width: int
) -> Tensor | None:
    """The same of tangents, None for zero; None if all are."""
    if all(slope[name] is None for slope in slopes):
        return None
    known = [slope[name] for slope in slopes]
    filled = [{name: torch.zeros_like(b[name]) if t is None else t} for b, t in zip(bodies, known, strict=True)]
    return together(name, filled, pushes, width, 0.0)


def unpacked(name: str, array, layout: Layout, bodies: int) -> Tensor:
    """An array of all bodies as (worlds filled up, bodies, ...)."""
    width = layout.lane.width
    value = layout.unpack(rollout.PARAMETERS[name], array, array.shape[0] * width)[0]
    return value.unflatten(0, (-1, bodies, width)).transpose(1, 2).flatten(0, 1)


def apart(name: str, values: Tensor, like: Tensor, r: int, pushes: Sequence[int]) -> Tensor:
    """The part of body r in the values of all (see `unpacked`): the adjoint of an input like `like` (worlds, ...)."""
    value = values[: len(like), r]
    if name in ("impulse", "push_point"):
        first = sum(pushes[:r])
        return value[:, first : first + like.shape[1]]
    return value[:, : like.shape[1]] if like.ndim > 1 else value


def check_alike(inputs: Sequence[Tensor], pushes: Sequence[int]) -> None:
    """Refuse bodies that meet other grounds and obstacles than the first, or whose number of pushes is not as given.

    Args:
        inputs: Those of all bodies, one after another; more may follow.
        pushes: Number of pushes of each body.
    """
    first = dict(zip(BODY, inputs, strict=False))
    for r, count in enumerate(pushes):
        body = dict(zip(BODY, inputs[r * len(BODY) :], strict=False))
        for name in ("normal", "height", "centre", rollout.DRAG, *rollout.ROLLING, *rollout.CONTACT):
            if body[name].shape[1:] != first[name].shape[1:]:
                raise ValueError(
                    f"`body{r}.{name}` has shape {tuple(body[name].shape)}, that of body 0 has "
                    f"{tuple(first[name].shape)}; all bodies of a program meet the same grounds and obstacles, and air or none."
                )
        if body["impulse"].shape[1] != count:
            raise ValueError(
                f"`body{r}.impulse` has {body['impulse'].shape[1]} pushes for {count} windows; give one for each."
            )
