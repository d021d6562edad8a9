"""Search for the initial velocity: limited-memory BFGS, which counts every forward and backward pass.

The velocity is the curl of a stream function on the corners of the cells, so it has no divergence whatever the unknowns
are; the unknowns are the stream function with its short waves made small,

    u = curl ψ,    ψ̂_k = z_k/(1 + |k|²/k₀²)^p

k in waves across the box. Steepest descent in z is then descent in a norm that costs rough flows more: without it, the
gradient is as rough as the edges of the smoke, and steps along it stir instead of moving.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

SMOOTH, POWER = 2.0, 1.5  # k₀ and p
MEMORY = 20  # steps that curvature is learnt from
FIRST, REACH = 0.1, 0.3  # [m/s] root mean squares by which the first step, and a later one, may change the velocity
ENOUGH = 1e-4  # share of the expected decrease that a step has to bring (Armijo)


@dataclass(frozen=True)
class Found:
    """One evaluation: the loss, its gradient by the unknowns, and what a caller keeps of it."""

    loss: float
    gradient: Tensor


class Waves:
    """Velocities (2, n, n) from unknowns (n, n)."""

    def __init__(self, n: int):
        k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64)
        self.n, self.share = n, (1 + (k[:, None] ** 2 + k**2) / SMOOTH**2) ** -POWER
        self.share[0, 0] = 0

    def velocity(self, z: Tensor) -> Tensor:
        """At lower faces, free of divergence [m/s]."""
        psi = torch.fft.ifft2(torch.fft.fft2(z) * self.share).real
        return self.n * torch.stack([psi.roll(-1, 1) - psi, psi - psi.roll(-1, 0)])

    def drawn(self, seed: int, size: float) -> Tensor:
        """Random unknowns, whose velocity has the root mean square `size` [m/s]."""
        z = torch.randn(self.n, self.n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return z * (size / self.speed(z))

    def speed(self, z: Tensor) -> float:
        """Root mean square of the velocity [m/s]."""
        return self.velocity(z).square().mean().sqrt().item()


def descend(evaluate: Callable[[Tensor], Found], waves: Waves, z: Tensor, evaluations: int) -> None:
    """Lower the loss; stops after so many evaluations, or where the velocity has no influence on it.

    Args:
        evaluate: The loss of unknowns; keeps what the caller wants.
        waves: What a step means in velocities.
        z: Where to start.
        evaluations: At most so many.
    """
    here, used = evaluate(z), 1
    pairs: list[tuple[Tensor, Tensor]] = []
    while used < evaluations:
        step = -_scaled(here.gradient, pairs, waves)
        speed = waves.speed(step)
        if speed == 0:  # nothing left to gain
            return
        step = step * min(1.0, REACH / speed)
        slope, t = (here.gradient * step).sum().item(), 1.0
        if slope >= 0:  # curvature learnt too far away
            pairs = []
            continue
        there = evaluate(z + step)
        used += 1
        while there.loss > here.loss + ENOUGH * t * slope and used < evaluations:
            parabola = -slope * t**2 / 2 / (there.loss - here.loss - slope * t)
            t = max(0.1 * t, min(0.5 * t, parabola))
            there = evaluate(z + t * step)
            used += 1
        s, y = t * step, there.gradient - here.gradient
        if (s * y).sum() > 1e-10 * s.norm() * y.norm():
            pairs = [*pairs, (s, y)][-MEMORY:]
        z, here = z + s, there


def _scaled(gradient: Tensor, pairs: list[tuple[Tensor, Tensor]], waves: Waves) -> Tensor:
    """Gradient times the inverse curvature, by two loops over pairs (Nocedal 1980); the first is scaled to `FIRST`."""
    if not pairs:
        return gradient * (FIRST / (waves.speed(gradient) or FIRST))
    q, shares = gradient, []
    for s, y in reversed(pairs):
        shares.append((s * q).sum() / (s * y).sum())
        q = q - shares[-1] * y
    s, y = pairs[-1]
    q = q * ((s * y).sum() / (y * y).sum())
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q = q + s * (share - (y * q).sum() / (s * y).sum())
    return q
