"""Shared checks of derivatives. Each returns a measured number; the test states the bound.

A function under test takes tensors, worlds first, and returns a list of tensors, worlds first; `Function` names it.
Directions are drawn in units of the size of the input, so that a stiffness of 1e4 counts as much as an angle of 1.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

Function = Callable[..., list[Tensor]]


def directions(inputs: Sequence[Tensor], seed: int) -> list[Tensor]:
    """A random normal direction for each input, in units of the input's root mean square (1 for an input of zeros)."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.dtype) for x in inputs]
    return [d * (size(x) or 1.0) for d, x in zip(drawn, inputs, strict=True)]


def weights(outputs: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Random normal adjoints of the outputs: the gradient of a loss that sees every entry of each."""
    return directions([torch.zeros_like(y) for y in outputs], seed)


def size(x: Tensor) -> float:
    """Root mean square; 0 if empty."""
    return x.detach().double().square().mean().sqrt().item() if x.numel() else 0.0


def error(value: Tensor, expected: Tensor) -> float:
    """Largest difference over the largest size of what is expected (or over 1, if that is zero throughout)."""
    if not expected.numel():
        return 0.0
    scale = expected.detach().double().abs().max().item()
    return (value.detach().double() - expected.detach().double()).abs().max().item() / (scale or 1.0)


def gradients(function: Function, inputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
    """Jᵀ w for every input, by autograd; zeros where an input has no influence."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(function(*leaves), leaves, list(adjoints), materialize_grads=True))


def dot_product_errors(
    tangent: Callable[[list[Tensor], list[Tensor]], Sequence[Tensor]],
    gradient: Sequence[Tensor],
    inputs: Sequence[Tensor],
    adjoints: Sequence[Tensor],
    seed: int,
    batched: bool = False,
) -> list[float]:
    """|⟨J v, w⟩ − ⟨v, Jᵀ w⟩| for each input alone, over the sum of the sizes of the terms of both.

    Args:
        tangent: J v of every output, from inputs and directions v.
        gradient: Jᵀ w of every input.
        inputs: Where.
        adjoints: w.
        seed: Of v.
        batched: Whether J v of all inputs comes from one call, with a copy of the worlds for each.
    """
    errors, along = [], directions(inputs, seed)
    worlds = len(inputs[0])
    if batched:
        outputs = tangent(*each_alone(inputs, along))
        products = [[y[k * worlds : (k + 1) * worlds] for y in outputs] for k in range(len(inputs))]
    else:
        alone = lambda k: [v if j == k else torch.zeros_like(v) for j, v in enumerate(along)]
        products = (tangent(list(inputs), alone(k)) for k in range(len(inputs)))
    for k, (v, product) in enumerate(zip(along, products, strict=True)):
        forward = torch.cat([(t * w).flatten() for t, w in zip(product, adjoints, strict=True)])
        reverse = (v * gradient[k]).flatten()
        scale = (forward.abs().sum() + reverse.abs().sum()).item()
        errors.append(abs((forward.sum() - reverse.sum()).item()) / scale if scale else 0.0)
    return errors


def each_alone(inputs: Sequence[Tensor], along: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """A copy of all worlds for each input, in which it alone has its direction."""
    copies = range(len(inputs))
    moving = [torch.cat([v if j == k else torch.zeros_like(v) for k in copies]) for j, v in enumerate(along)]
    return [torch.cat([x for _ in copies]) for x in inputs], moving


def central_difference(
    function: Function, inputs: Sequence[Tensor], along: Sequence[Tensor], step: float
) -> list[Tensor]:
    """J v of every output by a difference of fourth order, from the secants over ± step and ± 2 step."""

    def secant(h: float) -> list[Tensor]:
        after, before = (function(*[x + s * h * v for x, v in zip(inputs, along, strict=True)]) for s in (1, -1))
        return [(a - b) / (2 * h) for a, b in zip(after, before, strict=True)]

    return [(4 * near - far) / 3 for near, far in zip(secant(step), secant(2 * step), strict=True)]


def taylor_slope(
    function: Function, inputs: Sequence[Tensor], along: Sequence[Tensor], steps: Sequence[float]
) -> float:
    """Slope in ε of |L(x + ε v) − L(x) − ε ∇L·v|, L the sum of squares of all outputs: 2 where L is smooth."""

    def loss(*at: Tensor) -> list[Tensor]:
        return [torch.stack([y.square().sum() for y in function(*at)]).sum()[None]]

    (value,) = loss(*inputs)
    gradient = gradients(loss, inputs, [torch.ones_like(value)])
    rate = torch.stack([(g * v).sum() for g, v in zip(gradient, along, strict=True)]).sum()
    remainders = []
    for step in steps:
        (moved,) = loss(*[x + step * v for x, v in zip(inputs, along, strict=True)])
        remainders.append((moved - value - step * rate).abs().item())
    return slope(steps, remainders)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares exponent p of y ∝ x^p."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
