"""Which elements of rigid bodies touch one another at each instant of a motion, and what energy their contact holds."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.engine.lanes import Lane, borrowed, native_width, specialise
from gradsim.engine.launch import replay
from gradsim.engine.layout import Layout
from gradsim.numerics import rotation
from gradsim.physics.pairs import Pairs, pair_code, search_code, touch_code
from gradsim.physics.rigid_body import RigidBody
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory


class PairTouches(NamedTuple):
    """Of each world and instant (worlds, frames).

    Attributes:
        number: How many elements touch: corners, and pairs of edges.
        mark: A number that is the same where the same elements touch the same features, and stick or slip.
        energy: Of contact [J].
    """

    number: Tensor
    mark: Tensor
    energy: Tensor


def pair_touches(pairs: Pairs, trajectory: Trajectory, values: Values) -> PairTouches:
    """What touches in the frames of a motion.

    Args:
        pairs: Those of the group (`Linked.pairs`).
        trajectory: The motion of all its bodies.
        values: Parameters (worlds, ...).
    """
    states = [{**trajectory[s.name], "w": _spin(s, trajectory, values)} for s in pairs.bodies]
    x, q, v, w = (torch.stack([own[key].detach() for own in states], 2).double() for key in "xqvw")
    worlds, frames, device = *x.shape[:2], x.device
    lane = Lane("float64", native_width("float64") if device.type == "cpu" else 1)
    code, layout = _code(lane)
    numbers = code.PairNumbers()
    for name, value in zip(pairs.names, pairs.inputs(values), strict=True):
        setattr(numbers, name, layout.pack("Real", value.detach().double().expand(worlds, value.shape[1])))
    found = [layout.zeros("Real", worlds, (frames,), device) for _ in PairTouches._fields]
    args = [pairs.shape(code, layout, device), numbers, layout.pack("Vec3", x), layout.pack("Quat", q)]
    args += [layout.pack("Vec3", v), layout.pack("Vec3", w), *found]
    replay(code.touching, (layout.packs(worlds), frames), args, str(device))
    return PairTouches(*(layout.unpack("Real", y, worlds)[0] for y in found))


def _spin(body: RigidBody, trajectory: Trajectory, values: Values) -> Tensor:
    """Angular velocity ω = R I⁻¹ Rᵀ L (worlds, frames, 3)."""
    q, l = (trajectory[body.name][key] for key in ("q", "l"))
    own = rotation.rotate(rotation.conjugate(q), l)
    return rotation.rotate(q, torch.linalg.solve(body.inertia(values)[:, None], own[..., None])[..., 0])


@cache
def _code(lane: Lane):
    names = borrowed(pair_code(lane), "PairShape", "PairNumbers")
    names |= borrowed(search_code(lane), "is_point", "apart", "height_above", "nearest", "clamped", "touching_edges")
    names |= borrowed(touch_code(lane), "point_touch", "edge_touch", "contact_between")
    return specialise("gradsim.physics.pair_touches_lanes", lane, **names), Layout(lane)
