"""Gradient check: the adjoint against central differences and against forward sensitivities.

A subject is anything from named tensors to outputs. Its loss is a random linear functional of them, w · y with weights
of either sign in units of the size of each output, so that no output goes unseen. For each name, along random
directions v in units of its value's size,

    differences   |∇·v − w · (8 (y₁ − y₋₁) − (y₂ − y₋₂))/12h|, over the largest |∇·v| of all v; yₖ = y(u + k h v)
    forward       |∇·v − w · ẏ|, over the sum of the sizes of the terms of both; ẏ the forward sensitivity

The difference is of fourth order. Its own error is smallest at a step that depends on the motion: rounding counts
below, growing as 1/h, and curvature and kinks of contact above. It is taken where what it differs from the next step
by, and the rounding that the finest steps show, are least together; that knows nothing of the adjoint.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gradsim.physics.system import Values

STEPS = (3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7)  # h
FINEST = 4  # steps that show the rounding
OFFSETS = (1.0, -1.0, 2.0, -2.0)
WEIGHTS = (8 / 12, -8 / 12, -1 / 12, 1 / 12)
ROUNDING = 1e-12  # what two exact programs may differ by
GREEN = 1e-7  # what the adjoint and the differences may


class Subject(Protocol):
    """Something to differentiate."""

    def values(self) -> Values:
        """Point of differentiation: tensors (1, ...) by name."""
        ...

    def observe(self, given: Values) -> list[Tensor]:
        """Outputs (worlds, ...) with some values (worlds or 1, ...) in place of its own; differentiable."""
        ...

    def tangent(self, direction: Values) -> list[Tensor] | None:
        """Derivatives of the outputs along one direction per world (worlds, ...); None if it has no such."""
        ...


@dataclass(frozen=True)
class Slope:
    """Errors of the gradient with respect to one parameter.

    Args:
        differences: Largest relative error against central differences.
        forward: The same against forward sensitivities; None without.
        acts: Whether the gradient is anything but zero.
    """

    differences: float
    forward: float | None
    acts: bool

    @property
    def green(self) -> bool:
        """True if the gradient is right and not zero."""
        return self.acts and self.differences <= GREEN and (self.forward is None or self.forward <= ROUNDING)


def slopes(subject: Subject, names: Sequence[str], seed: int = 0, directions: int = 2) -> dict[str, Slope]:
    """The gradients by these names.

    Args:
        subject: Function to differentiate.
        names: Names of its values.
        seed: Seed of the functional and the directions.
        directions: How many for each name.

    Raises:
        RuntimeError: If the outputs do not depend on one of them: it is nowhere in their graph.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    values = subject.values()
    leaves = {name: values[name].detach().clone().requires_grad_() for name in names}
    outputs = subject.observe(leaves)
    weights = [draw(*y.shape) / (_size(y) or 1.0) for y in outputs]
    loss = torch.stack([(w * y).sum() for w, y in zip(weights, outputs, strict=True)]).sum()
    gradients = dict(zip(names, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    by_name = {}
    with torch.no_grad():
        for name in names:
            at = values[name].detach()
            along = draw(directions, *at.shape[1:]) * (_size(at) or 1.0)
            terms = (gradients[name] * along).reshape(directions, -1)
            adjoint = terms.sum(1)
            largest = adjoint.abs().max().item() or 1.0
            secants = _secants(subject, name, at, along, weights)
            by_name[name] = Slope(
                differences=max(_off(a, s) for a, s in zip(adjoint.tolist(), secants.T, strict=True)) / largest,
                forward=_forward(subject, name, along, weights, terms),
                acts=bool((gradients[name] != 0).any()),
            )
    return by_name


def _secants(subject: Subject, name: str, at: Tensor, along: Tensor, weights: list[Tensor]) -> Tensor:
    """Slopes of the loss (steps, directions) by central differences of fourth order."""
    steps = torch.tensor(STEPS, dtype=torch.float64)
    reach = (steps[:, None] * steps.new_tensor(OFFSETS)).flatten()
    ends = at + reach.reshape(-1, 1, *[1] * (at.ndim - 1)) * along  # (steps · offsets, directions, ...)
    outputs = subject.observe({name: ends.flatten(0, 1)})
    share = (steps.new_tensor(WEIGHTS) / steps[:, None])[:, :, None]  # (steps, offsets, 1)
    total = torch.zeros(len(STEPS), len(along), dtype=torch.float64)
    for w, y in zip(weights, outputs, strict=True):
        values = y.reshape(len(STEPS), len(OFFSETS), len(along), -1)
        inner, outer = values[:, 0] - values[:, 1], values[:, 2] - values[:, 3]  # small numbers before they are weighed
        total += share[:, 0] * (inner @ w.flatten()) + share[:, 2] * (outer @ w.flatten())
    return total


def _off(adjoint: float, secants: Tensor) -> float:
    """|adjoint − secant| at the step whose own error is likely the least."""
    apart, steps = (secants[1:] - secants[:-1]).abs(), secants.new_tensor(STEPS)
    rounding = (apart * steps[1:])[-FINEST:].median() / steps[:-1]
    k = int((apart + rounding).argmin())
    return abs(adjoint - secants[k].item()) if math.isfinite(secants[k]) else math.inf


def _forward(subject: Subject, name: str, along: Tensor, weights: list[Tensor], terms: Tensor) -> float | None:
    moving = subject.tangent({name: along})
    if moving is None:
        return None
    terms_forward = torch.cat([(w * y).reshape(len(y), -1) for w, y in zip(weights, moving, strict=True)], 1)
    size = terms_forward.abs().sum(1) + terms.abs().sum(1)
    return ((terms_forward.sum(1) - terms.sum(1)).abs() / size.clamp(min=1e-300)).max().item()


def _size(x: Tensor) -> float:
    """Root mean square."""
    return x.detach().square().mean().sqrt().item() if x.numel() else 0.0
