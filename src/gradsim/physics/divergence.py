"""Rollouts that leave the finite numbers or come apart: where, and what to change."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.rollout_inputs import States
from gradsim.physics.system import Values


class Divergence(InputError, ArithmeticError):
    """A rollout left the finite numbers; the message names step, body and quantity."""


def check_finite(model, states, values: Values, steps: Tensor, lead: int, start: States | None) -> None:
    """Raise `Divergence` where a state is not finite.

    Args:
        model: The model.
        states: Those of the trajectory.
        values: All parameters, as the rollout read them.
        steps: Time step in each interval (worlds, intervals) [s].
        lead: Intervals before the first frame.
        start: States that the rollout began from; None: the scene's.
    """
    for system in model.systems:
        for quantity, y in states[system.name].items():
            if math.isfinite(y.detach().sum().item()):
                continue
            bad = ~torch.isfinite(y.detach()).reshape(*y.shape[:2], -1).all(2)
            if bad.any():  # else the sum alone overflows
                frame = int(bad.any(0).nonzero()[0])
                world = int(bad[:, frame].nonzero()[0])
                before = [z[world : world + 1, frame - 1].detach() for z in states[system.name].values()]
                end = lead + frame * model.density
                step, vertex = _diverging_step(model, system, values, steps, world, end, before, start)
                where = f" of vertex {vertex}" if y.ndim == 4 else ""
                raise Divergence(
                    f"`{system.name}` diverges: {quantity}{where} is not finite from step {step} on "
                    f"(time {step * model.dt:.4g} s, world {world}). {_advice(model, values, world)}"
                )


def check_joints(model, states, values: Values, read: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]]) -> None:
    """Raise `Divergence` where steps were so long that a joint no longer holds, though all is finite.

    Args:
        model: The model.
        states: Those of the trajectory.
        values: All parameters.
        read: Inputs of each group, and its states of the last frame.
    """
    for group, (inputs, last) in zip(model.groups, read, strict=True):
        if said := group.open_joint_message(states, values, inputs, last):
            other = model.scene.timing.integrator == "semi-implicit"
            way = "Set timing.integrator to rk4, or more substeps" if other else "Use more substeps"
            raise Divergence(f"{said}: steps are too long for it. {way} than {model.substeps}.")


def _advice(model, values: Values, world: int) -> str:
    """Advice for a world that diverges: which values are beyond their range, else smaller steps."""
    beyond = []
    for name, value in values.items():
        low, high, x = model.kinds[name].lower, model.kinds[name].upper, value[world].detach().flatten()
        wrong = x[~((x >= low) & (x <= high))]
        if len(wrong):
            span = f"{low:g} to {high:g}" if high < math.inf else f"at least {low:g}" if low > -math.inf else "finite"
            beyond.append(f"`{name}` is {wrong[0].item():.4g}; expected {span}.")
        elif name.startswith("joints.") and name.endswith(".axis") and not x.any():
            beyond.append(f"`{name}` is a direction of length 0; expected one such as (0, 0, 1).")
    steps = f"Use more substeps than {model.substeps}, or look for extreme values of its parameters."
    return " ".join(beyond) or steps


def _diverging_step(
    model, system, values: Values, steps: Tensor, world: int, end: int, before: list[Tensor], start=None
) -> tuple[int, int]:
    """First step whose state is not finite, and which vertex of a soft body was fastest then: a frame for each step.

    It begins at the state `before` the interval that ends last, but where pushes or recordings count from the start.
    """
    substeps = model.substeps // model.density
    one = {name: v[world : world + 1].detach() for name, v in values.items()}
    group = next(g for g in model.groups if system in g.systems)
    recorded = getattr(group, "recorded", ()) or any(getattr(s, "motion", ()) for s in group.systems)
    alone = len(group.systems) == 1 and end > model.density and not model._late and not recorded
    first = end - model.density if alone and all(torch.isfinite(y).all() for y in before) else 0
    for name, kind in model.kinds.items():
        if kind.timed and one[name].ndim == 3:  # a value for each step; any where the start is not finite
            repeated = one[name][:, first:end].repeat_interleave(substeps, 1)
            one[name] = repeated if end else one[name][:, 0]
    inputs = group.inputs(one)
    if first:
        inputs = group.begin(inputs, {system.name: dict(zip(system.states, before, strict=True))})
    elif start is not None:
        inputs = group.begin(
            inputs, {n: {k: y[world : world + 1].detach() for k, y in s.items()} for n, s in start.items()}
        )
    program = group.program((end - first) * substeps + 1, 1, model.dt, 1)
    repeated = steps[world : world + 1, first:end].detach().repeat_interleave(substeps, 1)
    states = group.split(program.run(*inputs, repeated))[group.systems.index(system)]
    finite = torch.stack([torch.isfinite(y[0]).reshape(len(y[0]), -1).all(1) for y in states]).all(0)
    step = int((~finite).nonzero()[0]) if not finite.all() else (end - first) * substeps
    speed = torch.linalg.vector_norm(states[-1][0, max(step - 1, 0)].nan_to_num(0.0), dim=-1)
    broken = [(~torch.isfinite(y[0, step]).flatten(1).all(1)).nonzero()[:, 0] for y in states if y.ndim == 4]
    fastest = [int(rows[speed[rows].argmax()]) for rows in broken if len(rows)]  # the others follow it
    return first * substeps + step, next(iter(fastest), 0)
