"""Losses that outliers cannot pull: an object that passes through, flipped pixels, a bright blotch.

For a residual r that is whitened by the noise,

    gaussian    ρ = r²
    huber       ρ = r² for |r| ≤ k, 2 k |r| − k² beyond                             (Huber 1964)
    cauchy      ρ = k² log(1 + r²/k²)

with the weight w = ρ'/(2 r) and the influence ψ = w r, which never exceeds k. The bend k makes the estimate 95 % as
efficient as least squares where the noise is Gaussian (Holland & Welsch 1977).

What is summed is λ ρ with λ = E[ψ'] / E[ψ²] under Gaussian noise. The covariance of the estimate is
E[ψ²] / E[ψ']² (JᵀJ)⁻¹ (Huber 1981, ch. 7), and λ makes it the inverse of the curvature λ E[ψ'] JᵀJ of half the sum: so
exp(−½ Σ λ ρ) is as wide as the estimate is uncertain, and what reads error bars off a cost needs to know no loss.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.errors import InputError

CLEAR = 5.0  # a residual this many σ large is no noise: beyond it, what a pixel tells falls as (CLEAR/r)²
_WINSOR = 1.345, 0.7101645483  # where residuals are cut for a verdict, and E[ψ²] of what is left (Huber's ψ)


@dataclass(frozen=True)
class Loss:
    """ρ of whitened residuals, calibrated as the file says.

    Args:
        name: As above.
        kind: 0, 1, 2: Gaussian, Huber, Cauchy; for kernels.
        bend: k.
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
        return r.square() * self._flattening(r)

    def weight(self, r: Tensor) -> Tensor:
        """w = ρ'/(2 r), without λ."""
        if self.kind == 0:
            return torch.ones_like(r)
        if self.kind == 1:
            return self.bend / r.abs().clamp(min=self.bend)
        return 1 / (1 + (r / self.bend).square())

    def root(self, r: Tensor) -> Tensor:
        """±√(λ ρ), differentiable: residuals whose squares sum to the cost."""
        return r if self.kind == 0 else r * (self.scale * self._flattening(r)).sqrt()

    def winsorize(self, r: Tensor, J: Tensor) -> tuple[Tensor, Tensor]:
        """Winsorize residuals (..., n) and weight their derivatives (..., n, unknowns).

        Returns:
            Residuals cut at 1.345 σ and brought to a mean square of 1 under Gaussian noise, so that χ²/N reads as
            ever (Huber's proposal 2), and derivatives whose Σ JᵀJ is the information of the estimate; a clear
            outlier counts as a pixel whose noise is as large as its residual.
        """
        if self.kind == 0:
            return r, J
        cut, square = _WINSOR
        trust = (CLEAR / r.abs().clamp(min=CLEAR)) * self.efficiency**0.5
        return r.clamp(-cut, cut) / square**0.5, J * trust[..., None]

    def _flattening(self, r: Tensor) -> Tensor:
        """ρ/r², 1 near 0."""
        if self.kind == 0:
            return torch.ones_like(r)
        if self.kind == 1:
            far = r.abs().clamp(min=self.bend)
            return (2 * self.bend - self.bend**2 / far) / far
        square = (r / self.bend).square()
        some = square.clamp(min=1e-8)  # below it the series is exact to rounding
        return torch.where(square < 1e-8, 1 - square / 2, torch.log1p(some) / some)


# λ and the efficiency are E[ψ']/E[ψ²] and E[ψ']²/E[ψ²] for a standard normal r; tests integrate them anew
GAUSSIAN = Loss("gaussian")
LOSSES = {
    "gaussian": GAUSSIAN,
    "huber": Loss("huber", 1, 1.345, 1.1565978158, 0.9500002597),
    "cauchy": Loss("cauchy", 2, 2.3849, 1.3622437763, 0.9499976723),
}


def loss_named(name: str | Loss) -> Loss:
    """The loss of a name.

    Raises:
        InputError: If there is none.
    """
    if isinstance(name, Loss):
        return name
    if name not in LOSSES:
        raise InputError(f"there is no loss {name!r}; choose one of {', '.join(LOSSES)}.")
    return LOSSES[name]
