"""The parameters of several rigid bodies side by side in the arrays of one: register i of body r is row i · bodies + r.

So the functions of `rigid/wrench_kernels.py`, which take a row, serve many bodies in a world. Each push has a separate
column, which is zero for all bodies but its own; the list of contact points of a body with few is filled up with points
that never touch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.engine.layout import Layout
from gradsim.physics.rigid import rollout

BODY = [name for name in rollout.INPUTS if name != "step"]  # inputs of each body
NO_CONTACT_DEPTH = 1e9  # [m], below a contact point that never touches
START = ("x", "q", "v", "l")


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
