"""Secant audit: tangents against secants of increasing width, for the range of validity of a gradient.

    secant(w) = (y(u + w) − y(u − w)) / 2w,   y: positions and orientations of all bodies at all frames

A contact with a discontinuous force makes y a sawtooth of u. The tangent, and every secant narrower than a tooth, is the
slope of one tooth; an optimizer or an error bar needs the trend over many. Where both agree up to a width, the gradient
is valid for changes up to that width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.sensitivity.directions import Direction
from gradsim.identification.sensitivity.tangents import Scale, tangents
from gradsim.physics.model import Model
from gradsim.physics.system import System, Values
from gradsim.physics.trajectory import Trajectory

WIDTHS = tuple(float(w) for w in np.logspace(-6, -0.5, 12))  # of a step of one; half a decade apart
ROUNDING = 1e-13  # [body sizes] rounding error of a rollout
AGREEMENT_TOLERANCE = 0.5  # relative difference up to which tangent and secant agree


@dataclass(frozen=True)
class Audit:
    """Tangents and secants, (unknowns, widths) each.

    Args:
        names: Names of the unknowns.
        widths: Half widths, relative for positive quantities (widths,).
        difference: |secant − tangent| over the larger of both; NaN where a rollout diverges.
        tangent: Sizes of the tangents (unknowns,), in body sizes per step of one.
        secant: Sizes of the secants.
        loss_tangent: Derivatives of the loss (unknowns,), if there is one.
        loss_secant: Its secants.
    """

    names: list[str]
    widths: Tensor
    difference: Tensor
    tangent: Tensor
    secant: Tensor
    loss_tangent: Tensor | None = None
    loss_secant: Tensor | None = None

    @property
    def holds(self) -> list[float]:
        """Up to which change each tangent holds: the widest secant before the first that differs; 0 if none agrees."""
        agree = self.difference < AGREEMENT_TOLERANCE
        return [
            0.0 if not row[0] else self.widths[len(row) - 1 if row.all() else int((~row).nonzero()[0]) - 1].item()
            for row in agree
        ]

    def trend(self, width: float = 0.01) -> list[float]:
        """Size of the secant nearest to a width, for each unknown."""
        k = int((self.widths.log() - np.log(width)).abs().argmin())
        return self.secant[:, k].tolist()

    def result(self) -> dict:
        """Plain numbers."""
        content: dict[str, Any] = {"widths": self.widths.tolist()}
        for key in ("difference", "tangent", "secant", "loss_tangent", "loss_secant"):
            value = getattr(self, key)
            if value is not None:
                content[key] = dict(zip(self.names, value.tolist(), strict=True))
        return {**content, "holds": dict(zip(self.names, self.holds, strict=True))}


def audit(
    model: Model,
    values: Values,
    directions: Sequence[Direction],
    frames: int,
    widths: Sequence[float] = WIDTHS,
    loss: Callable[[Trajectory], Tensor] | None = None,
) -> Audit:
    """Compare the tangents of one world with secants of growing width.

    Args:
        model: The model.
        values: Parameters (1, ...).
        directions: Unknowns; see `directions.of_model`.
        frames: Number of frames.
        widths: Half widths of the secants, in steps of the directions.
        loss: A scalar of the trajectory of one world, compared as well.
    """
    scale = Scale.of(model, values)
    trajectory, moving = tangents(model, values, directions, frames)
    ladder = torch.tensor(widths, dtype=torch.float64)
    slopes = [_tangent(trajectory, one, scale) for one in moving]
    rows = [_secants(model, values, direction, frames, ladder, scale, loss) for direction in directions]
    sizes = torch.stack([slope.norm() for slope in slopes])
    secants = torch.stack([secant.norm(dim=1) for secant, _ in rows])
    apart = torch.stack([(secant - slope).norm(dim=1) for (secant, _), slope in zip(rows, slopes, strict=True)])
    larger = torch.maximum(secants, sizes[:, None])
    difference = torch.where(larger > ROUNDING / ladder, apart / larger, torch.zeros_like(apart))
    names = [direction.name for direction in directions]
    if loss is None:
        return Audit(names, ladder, difference, sizes, secants)
    derivative = _loss_tangents(trajectory, moving, loss)
    secant = torch.stack([loss_secant for _, loss_secant in rows if loss_secant is not None])
    return Audit(names, ladder, difference, sizes, secants, derivative, secant)


def _secants(model: Model, values: Values, direction: Direction, frames: int, widths: Tensor, scale: Scale, loss):
    """Secants of the motion (widths, n) along one direction, and of the loss (widths,)."""
    ends = torch.cat([widths, -widths]).to(next(iter(values.values())).dtype)
    lanes = {name: v.detach().expand(len(ends), *v.shape[1:]) for name, v in values.items()}
    lanes |= direction.shift(lanes, ends)
    with torch.no_grad():
        both = model.rollout_unchecked(lanes, frames)
        change = torch.cat([_apart(s, both.states[s.name], len(widths), scale) for s in model.systems], 1).double()
        loss_change = None if loss is None else _losses(both, loss, ends)
    return change / (2 * widths[:, None]), None if loss_change is None else loss_change / (2 * widths)


def _losses(both: Trajectory, loss, ends: Tensor) -> Tensor:
    worlds = []
    for k in range(len(ends)):
        states = {b: {n: y[k : k + 1] for n, y in group.items()} for b, group in both.states.items()}
        values = {n: v[k : k + 1] for n, v in both.values.items()}
        worlds.append(loss(Trajectory(both.times, states, values, both.systems)).double())
    after, before = torch.stack(worlds).chunk(2)
    return after - before


def _apart(system: System, states: dict[str, Tensor], half: int, scale: Scale) -> Tensor:
    """Poses of the first half of the worlds relative to the second, flat."""
    ahead, behind = ({n: y[part] for n, y in states.items()} for part in (slice(half), slice(half, None)))
    return system.pose_difference(ahead, behind, scale.size).flatten(1)


def _tangent(own: Trajectory, moving: Trajectory, scale: Scale) -> Tensor:
    """The derivative of what `_apart` compares, flat."""
    parts = [s.pose_tangent(own.states[s.name], moving.states[s.name], scale.size).flatten() for s in own.systems]
    return torch.cat(parts).double()


def _loss_tangents(own: Trajectory, moving: list[Trajectory], loss) -> Tensor:
    """Derivatives of the loss along each direction, from its gradient by the states and parameters."""
    states = {b: {n: y.detach().requires_grad_() for n, y in group.items()} for b, group in own.states.items()}
    values = {n: v.detach().clone().requires_grad_() for n, v in own.values.items()}
    leaves = {("", n): v for n, v in values.items()} | {(b, n): y for b, g in states.items() for n, y in g.items()}
    value = loss(Trajectory(own.times, states, values, own.systems))
    if not value.requires_grad:
        return torch.zeros(len(moving), dtype=torch.float64)
    slopes = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    total = []
    for one in moving:
        terms = [
            (slope * (one.values.get(n, torch.zeros_like(slope)) if b == "" else one.states[b][n])).sum().double()
            for (b, n), slope in zip(leaves, slopes, strict=True)
            if slope is not None
        ]
        total.append(torch.stack(terms).sum())
    return torch.stack(total)
