"""Adjoint states: derivative of a loss with respect to the state at every frame, from PyTorch's graph.

They separate a loss with non-finite gradient from a trajectory with non-finite derivative.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradsim.engine.operation import inputs_of
from gradsim.errors import InputError
from gradsim.identification.sensitivity.directions import Direction
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.physics.time_steps import intervals_before


@dataclass(frozen=True)
class Adjoints:
    """Derivatives of a loss.

    Args:
        states: Adjoints by body and state (worlds, frames, ·), of bodies that the loss depends on.
        gradients: Derivative along each direction, summed over worlds (directions,); NaN for infinity times zero.
        frames: Number of frames of the rollout.
    """

    states: dict[str, dict[str, Tensor]]
    gradients: Tensor
    frames: int

    def frames_read(self) -> list[int]:
        """Frames on which the loss depends."""
        nonzero = [
            y.reshape(*y.shape[:2], -1).ne(0).any(2).any(0) for group in self.states.values() for y in group.values()
        ]
        return torch.stack(nonzero).any(0).nonzero()[:, 0].tolist() if nonzero else []

    def not_finite(self) -> tuple[int, str, str, int] | None:
        """First frame whose derivative is not finite, with state, body and world, or None."""
        firsts = []
        for body, group in self.states.items():
            for name, y in group.items():
                frames = (~torch.isfinite(y)).reshape(*y.shape[:2], -1).any(2).T.nonzero()  # frame, world
                firsts += [(int(frames[0, 0]), name, body, int(frames[0, 1]))] if len(frames) else []
        return min(firsts, default=None)


def adjoints(loss: Tensor, model: Model, overrides: Mapping[str, Tensor], directions: Sequence[Direction]) -> Adjoints:
    """Compute the adjoint states of a loss from its graph.

    Args:
        loss: Scalar made from `model.rollout(overrides)`, before `backward()`, or after `backward(retain_graph=True)`.
        model: The model.
        overrides: Parameters of the rollout.
        directions: Unknowns.

    Raises:
        InputError: If the loss is not a scalar, has no graph, or does not come from such a rollout.
    """
    if loss.ndim or not torch.is_floating_point(loss):
        raise InputError(f"the loss has shape {tuple(loss.shape)}; give a scalar, such as its sum.")
    if not loss.requires_grad:
        raise InputError(
            "the loss has no gradient graph: it was made under no_grad or detached, or depends on no parameter. "
            "Make it from model.rollout() with gradients on."
        )
    values = model.values(overrides)
    nodes = _rollouts(loss, model, values)
    caught: dict[str, tuple[Tensor | None, ...]] = {}
    hooks = [node.register_prehook(lambda g, body=body: caught.__setitem__(body, g)) for body, node in nodes.items()]
    leaves = {n: overrides[n] if n in overrides else model.get_parameter(n) for d in directions for n, _ in d.places}
    movable = {n: leaf for n, leaf in leaves.items() if leaf.requires_grad}
    try:
        slopes = torch.autograd.grad(loss, list(movable.values()), retain_graph=True, allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    lead = intervals_before(model, values, overrides)  # steps of the rollout before its first frame
    frames = max(node.saved_tensors[node.count].shape[1] for node in nodes.values()) - lead
    worlds = len(next(iter(values.values())))
    states = {}
    for system in model.systems:
        if system.name in caught:
            shapes = [y.shape for y in nodes[system.name].saved_tensors[nodes[system.name].count :]]
            pairs = zip(system.states, caught[system.name], shapes, strict=True)
            derivatives = {n: loss.new_zeros(shape) if g is None else g.detach() for n, g, shape in pairs}
            states[system.name] = {n: g[:, lead:] for n, g in derivatives.items()}
    slope = {n: g for n, g in zip(movable, slopes, strict=True) if g is not None}
    total = []
    for direction in directions:
        along = direction.tangent({n: v.detach() for n, v in values.items()})
        # a parameter of the model itself has no dimension of worlds
        parts = [
            (slope[n] * (d if n in overrides and len(overrides[n]) == worlds else d[0])).sum().double()
            for n, d in along.items()
            if n in slope
        ]
        total.append(torch.stack(parts).sum() if parts else torch.zeros((), dtype=torch.float64))
    return Adjoints(states, torch.stack(total).detach(), frames)


def _rollouts(loss: Tensor, model: Model, values: Values) -> dict[str, Any]:
    """The nodes of the graph that are rollouts of the model with these values, by body."""
    coupled = [group for group in model.groups if not group.is_single]
    if coupled:
        names = "` and `".join(system.name for system in coupled[0].systems)
        meet = "touches itself" if len(coupled[0].systems) == 1 else "act on one another"
        raise InputError(
            f"`{names}` {meet} in one rollout, which this does not take apart; take `contacts`, "
            f"`attachments` and `joints` out of the scene, or read the gradient alone."
        )
    visited, nodes = set(), {}
    stack: list[Any] = [loss.grad_fn]
    starts = {s.name: [x.detach() for x in s.inputs(values)] for s in model.systems}
    ours = 0
    while stack:
        node = stack.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        stack += [after for after, _ in node.next_functions]
        try:
            arguments = inputs_of(node)
        except RuntimeError:
            raise InputError(
                "the graph of the loss is gone: call explain_gradients before backward(), "
                "or backward(retain_graph=True)."
            ) from None
        if arguments is None:
            continue
        ours += 1
        for name, inputs in starts.items():
            # the last input is the steps of the clock, which the graph knows and `inputs` does not say
            if len(arguments) == len(inputs) + 1 and all(map(torch.equal, arguments[:-1], inputs)):
                nodes[name] = node
    if not nodes:
        raise InputError(
            "the loss does not come from a rollout of this model with these values"
            + (": give the same `overrides` as the rollout had." if ours else ": it depends on none.")
        )
    return nodes
