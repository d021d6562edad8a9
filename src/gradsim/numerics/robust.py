"""Robust losses of whitened residuals: gaussian, huber, cauchy.

For a residual r, whitened by the noise,

    gaussian    ρ = r²
    huber       ρ = r² for |r| ≤ k, 2 k |r| − k² beyond                             (Huber 1964)
    cauchy      ρ = k² log(1 + r²/k²)

with the weight w = ρ'/(2 r) and the influence ψ = w r, bounded by k. The threshold k makes the estimate 95 % as
efficient as least squares under Gaussian noise (Holland & Welsch 1977).

The cost is Σ λ ρ with λ = E[ψ'] / E[ψ²] under Gaussian noise. The covariance of the estimate is
E[ψ²] / E[ψ']² (JᵀJ)⁻¹ (Huber 1981, ch. 7), and λ makes it the inverse of the curvature λ E[ψ'] JᵀJ of half the cost: so
exp(−½ Σ λ ρ) has the width of the posterior, and error bars follow from the cost in the same way for every loss.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError

OUTLIER = 5.0  # [σ] above which a residual is an outlier: beyond it, the information of a pixel falls as (OUTLIER/r)²
_WINSOR = 1.345, 0.7101645483  # [σ] threshold of winsorized residuals, and E[ψ²] after it (Huber's ψ)


@dataclass(frozen=True)
class RobustLoss:
    """ρ of whitened residuals with its calibration λ.

    Args:
        name: "gaussian", "huber" or "cauchy".
        kind: 0, 1, 2: Gaussian, Huber, Cauchy; for kernels.
        bend: k, the threshold [σ].
        scale: λ.
        efficiency: Information of the estimate over that of least squares, under Gaussian noise.
    """

    name: str
    kind: int = 0
    bend: float = 1.0
    scale: float = 1.0
    efficiency: float = 1.0

    def rho(self, r: Tensor) -> Tensor:
        """ρ, without λ."""
        return r.square() * self._rho_over_square(r)

    def weight(self, r: Tensor) -> Tensor:
        """w = ρ'/(2 r), without λ."""
        if self.kind == 0:
            return torch.ones_like(r)
        if self.kind == 1:
            return self.bend / r.abs().clamp(min=self.bend)
        return 1 / (1 + (r / self.bend).square())

    def root(self, r: Tensor) -> Tensor:
        """±√(λ ρ), differentiable: residuals whose squares sum to the cost."""
        return r if self.kind == 0 else r * (self.scale * self._rho_over_square(r)).sqrt()

    def winsorize(self, r: Tensor, J: Tensor) -> tuple[Tensor, Tensor]:
        """Winsorize residuals (..., n) and weight their derivatives (..., n, unknowns).

        Returns:
            Residuals cut at 1.345 σ and scaled to a mean square of 1 under Gaussian noise, which keeps the meaning of
            χ²/N (Huber's proposal 2), and derivatives whose Σ JᵀJ is the information of the estimate; an outlier
            beyond `OUTLIER` counts as a pixel whose noise is as large as its residual.
        """
        if self.kind == 0:
            return r, J
        cut, square = _WINSOR
        trust = (OUTLIER / r.abs().clamp(min=OUTLIER)) * self.efficiency**0.5
        return r.clamp(-cut, cut) / square**0.5, J * trust[..., None]

    def _rho_over_square(self, r: Tensor) -> Tensor:
        """ρ/r², 1 near 0."""
        if self.kind == 0:
            return torch.ones_like(r)
        if self.kind == 1:
            far = r.abs().clamp(min=self.bend)
            return (2 * self.bend - self.bend**2 / far) / far
        square = (r / self.bend).square()
        safe = square.clamp(min=1e-8)  # below it the series is exact to rounding
        return torch.where(square < 1e-8, 1 - square / 2, torch.log1p(safe) / safe)


# λ and the efficiency are E[ψ']/E[ψ²] and E[ψ']²/E[ψ²] for a standard normal r; the tests integrate them
GAUSSIAN = RobustLoss("gaussian")
ROBUST_LOSSES = {
    "gaussian": GAUSSIAN,
    "huber": RobustLoss("huber", 1, 1.345, 1.1565978158, 0.9500002597),
    "cauchy": RobustLoss("cauchy", 2, 2.3849, 1.3622437763, 0.9499976723),
}


def robust_loss(name: str | RobustLoss) -> RobustLoss:
    """Look up a robust loss by name; a loss is returned as it is.

    Raises:
        InputError: If the name is unknown.
    """
    if isinstance(name, RobustLoss):
        return name
    if name not in ROBUST_LOSSES:
        raise InputError(f"unknown robust loss {name!r}; choose one of {', '.join(ROBUST_LOSSES)}.")
    return ROBUST_LOSSES[name]
