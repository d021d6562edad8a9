"""Which elements of rigid bodies touch one another at each instant of a motion, and what energy their contact holds.

Every contact of a motion, recomputed in plain PyTorch: how deep, how fast, which force, and which part of the law acts.

It follows the definitions in `point_plane.py`, `point_sdf.py`, `hunt_crossley.py` and `kelvin_voigt.py`, not the kernels, and tells what the
kernels do not keep: the force of each contact point in each step.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, linalg

from gradsim.engine.lanes import Lane, members, native_width, specialize
from gradsim.engine.launch import replay
from gradsim.engine.layout import Layout
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.contact import point_plane
from gradsim.physics.contact.laws import LAWS
from gradsim.physics.contact.point_sdf import direction, distance
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.pairs import Pairs, pair_code, search_code, touch_code
from gradsim.physics.system import ContactPoints, System, Values
from gradsim.physics.trajectory import Trajectory

if TYPE_CHECKING:
    from gradsim.physics.contact import events_kernels
else:
    events_kernels = "gradsim.physics.contact.events_kernels"


class PairTouches(NamedTuple):
    """Contact of a pair of bodies, for each world and instant (worlds, frames).

    Attributes:
        number: How many elements touch: corners, and pairs of edges.
        mark: A number that is the same where the same elements touch the same features, and stick or slip.
        energy: Contact energy [J].
    """

    number: Tensor
    mark: Tensor
    energy: Tensor


def pair_touches(pairs: Pairs, trajectory: Trajectory, values: Values) -> PairTouches:
    """Contacts in the frames of a trajectory.

    Args:
        pairs: Those of the group (`ConstrainedIsland.pairs`).
        trajectory: The motion of all its bodies.
        values: Parameters (worlds, ...).
    """
    states = [{**trajectory[s.name], "w": _spin(s, trajectory, values)} for s in pairs.bodies]
    x, q, v, w = (torch.stack([state[key].detach() for state in states], 2).double() for key in "xqvw")
    worlds, frames, device = *x.shape[:2], x.device
    lane = Lane("float64", native_width("float64") if device.type == "cpu" else 1)
    code, layout = _code(lane)
    numbers = code.PairNumbers()
    for name, value in zip(pairs.names, pairs.inputs(values), strict=True):
        setattr(numbers, name, layout.pack("Real", value.detach().double().expand(worlds, value.shape[1])))
    outputs = [layout.zeros("Real", worlds, (frames,), device) for _ in PairTouches._fields]
    args = [pairs.shape(code, layout, device), numbers, layout.pack("Vec3", x), layout.pack("Quat", q)]
    args += [layout.pack("Vec3", v), layout.pack("Vec3", w), *outputs]
    replay(code.touching, (layout.packs(worlds), frames), args, str(device))
    return PairTouches(*(layout.unpack("Real", y, worlds)[0] for y in outputs))


def _spin(body: RigidBody, trajectory: Trajectory, values: Values) -> Tensor:
    """Angular velocity ω = R I⁻¹ Rᵀ L (worlds, frames, 3)."""
    q, l = (trajectory[body.name][key] for key in ("q", "l"))
    local = rotation.rotate(rotation.conjugate(q), l)
    return rotation.rotate(q, torch.linalg.solve(body.inertia(values)[:, None], local[..., None])[..., 0])


@cache
def _code(lane: Lane):
    names = members(pair_code(lane), "PairShape", "PairNumbers")
    names |= members(search_code(lane), "is_point", "apart", "height_above", "nearest", "clamped", "touching_edges")
    names |= members(touch_code(lane), "point_touch", "edge_touch", "contact_between")
    return specialize(events_kernels, lane, **names), Layout(lane)


CHUNK = 2**21  # contacts × steps at a time


@dataclass(frozen=True)
class Touches:
    """The contacts of one body in one world, (steps, grounds, points) each; obstacles count as grounds.

    Args:
        body: Its name.
        grounds: Names of the grounds and obstacles.
        inside: True if the point is inside the ground.
        sliding: True if the friction is clamped at μ f_n; else it is viscous, k_f u.
        pressing: True if the normal force is above zero; inside and not pressing, it is clamped.
    """

    body: str
    grounds: list[str]
    inside: Tensor
    sliding: Tensor
    pressing: Tensor

    @property
    def any(self) -> Tensor:
        """True for each step in which the body touches anything (steps,)."""
        return self.inside.flatten(1).any(1)

    def at(self, step: int) -> tuple[str, int] | None:
        """Ground and point of one contact in a step, or None."""
        indices = self.inside[step].nonzero()
        return (self.grounds[int(indices[0, 0])], int(indices[0, 1])) if len(indices) else None


def touches(system: System, states: dict[str, Tensor], values: Values) -> Touches:
    """The contacts of a body in world 0.

    Args:
        system: The body.
        states: x, q, v, l or x, v (worlds, steps, ...).
        values: Parameters (worlds, ...).
    """
    state = _first(states)
    points, parameters = _parameters(system, values)
    count = max(1, points.count * len(points.surfaces))
    parts = []
    for rows in torch.arange(len(state["x"])).split(max(1, CHUNK // count)):
        gap, normal, u, f_n, _ = _contacts(points, {k: y[rows] for k, y in state.items()}, parameters)
        u_t = u - (u * normal).sum(-1, keepdim=True) * normal
        clamped = parameters["friction"][:, None] * f_n.abs() < parameters["friction_stiffness"][
            :, None
        ] * linalg.vector_norm(u_t, dim=-1)
        inside = gap < 0
        parts.append((inside, inside & clamped & (f_n != 0), inside & (f_n > 0)))
    inside, sliding, pressing = (torch.cat(part) for part in zip(*parts, strict=True))
    return Touches(system.name, list(points.surfaces), inside, sliding, pressing)


def contact_forces(system: System, states: dict[str, Tensor], values: Values) -> Tensor:
    """Contact forces of world 0 (steps, grounds, points, 2, 3) [N]: normal part, friction; arguments as for `touches`."""
    return _forces(system, _first(states), values)


def contact_energy(system: System, states: dict[str, Tensor], values: Values) -> Tensor:
    """Energy Σ ½ k gap² of world 0 (steps,) [J] that contact with grounds and obstacles stores; arguments as for `touches`."""
    points, parameters = _parameters(system, values)
    gap = _contacts(points, _first(states), parameters)[0]
    return (0.5 * parameters["stiffness"][:, None] * gap.clamp(max=0.0) ** 2).flatten(1).sum(1)


def force_tangents(
    system: System, states: dict[str, Tensor], tangents: dict[str, Tensor], values: Values, direction: Values
) -> tuple[Tensor, Tensor]:
    """Contact forces of world 0 and their derivatives, each (steps, grounds, points, 2, 3) [N]: normal part, friction.

    Args:
        system: The body.
        states: x, q, v, l or x, v (worlds, steps, ...).
        tangents: Their derivatives.
        values: Parameters (worlds, ...).
        direction: Derivatives of some of them.
    """
    forces = lambda states, moving: _forces(system, states, {**values, **moving})
    arguments = (_first(states), {name: values[name].detach() for name in direction})
    return torch.func.jvp(forces, arguments, (_first(tangents), dict(direction)))  # pyright: ignore[reportReturnType]


def _first(states: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: y[0].detach() for name, y in states.items()}


def _forces(system: System, states: dict[str, Tensor], values: Values) -> Tensor:
    points, parameters = _parameters(system, values)
    _, normal, _, f_n, force = _contacts(points, states, parameters)
    pressed = f_n[..., None] * normal
    return torch.stack([pressed, force - pressed], -2)


def _parameters(system: System, values: Values) -> tuple[ContactPoints, dict[str, Tensor]]:
    """Contact points of a body, and their parameters in world 0.

    Raises:
        InputError: If the body touches nothing.
    """
    points = system.contact_points
    if points is None:
        raise InputError(f"`{system.name}` has no points of contact.")
    return points, {name: x[0] for name, x in points.parameters(values).items()}


def _contacts(points: ContactPoints, states: dict[str, Tensor], parameters: dict[str, Tensor]):
    """Gap, normal, velocity, normal force and force of each contact: (steps, grounds and obstacles, points, ·)."""
    gap, normal = _gaps(points.positions(states, parameters), parameters, parameters["radius"])
    u = points.velocities(states, parameters, normal)
    rate = (u * normal).sum(-1)
    law = {name: parameters[name][:, None] for name in ("stiffness", "damping", "friction_stiffness", "friction")}
    f_n = _normal_force(points.law, gap, rate, law["stiffness"], law["damping"])
    return gap, normal, u, f_n, point_plane.reference(u, normal, f_n, law["friction_stiffness"], law["friction"])


def _gaps(place: Tensor, given: dict[str, Tensor], radius: Tensor) -> tuple[Tensor, Tensor]:
    """Gap and normal of points (steps, 1, points, 3) of some radius about each, to all grounds and obstacles."""
    planes = given["normal"][:, None]
    gap = (place * planes).sum(-1) - given["height"][:, None] - radius
    normal = planes.expand(*gap.shape, 3)
    if len(given["centre"]):
        local = ((place - given["centre"][:, None])[..., None, :] * given["axis"][:, None]).sum(-1)
        half = given["half"][:, None].expand_as(local)
        beyond = distance(local, half) - given["rounding"][:, None] - radius
        across = (direction(local, half)[..., None] * given["axis"][:, None]).sum(-2)
        gap, normal = torch.cat([gap, beyond], 1), torch.cat([normal, across], 1)
    return gap, normal


def _normal_force(law: str, gap: Tensor, rate: Tensor, stiffness: Tensor, damping: Tensor) -> Tensor:
    if law == "paper-adhesive":
        return torch.where(gap < 0, -(stiffness * gap + damping * rate), torch.zeros_like(gap))
    return import_module(LAWS[law][0]).reference(gap, rate, stiffness, damping)
