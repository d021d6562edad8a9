"""Unknowns that the data push against the ends of their ranges.

A search stays within the ranges. Where its answer is at an end and the unconstrained step of least squares δ = −H⁻¹ g leads out of
the range, the data contradict the range by |δ| / σ standard deviations. Beyond `FARTHEST` either the range or the model is wrong:
values inside the ranges that fit best are then no estimate, and error bars about them hold nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.unknowns import Ranges

FARTHEST = 3.0  # standard deviations of chance: 0.3 % where the truth is the end itself
AT_END = 1e-9  # distance from an end, of the width of its range
NEAR_END = 0.03  # the same, where a search that explains nothing may have been kept from the truth by its range


@dataclass(frozen=True)
class PressedEnds:
    """Unknowns at an end of their range whose best value is outside.

    Args:
        words: A sentence for each.
        contradicted: Whether one is further outside than by chance.
    """

    words: list[str]
    contradicted: bool


def pressed_ends(space: Ranges, u: Tensor, step: Tensor, covariance: Tensor) -> PressedEnds:
    """Unknowns at the ends of their ranges.

    Args:
        space: The unknowns.
        u: The answer in solver coordinates (unknowns,).
        step: To the unconstrained minimum (unknowns,).
        covariance: Of the unknowns (unknowns, unknowns).
    """
    close = AT_END * (space.high - space.low)
    outward = ((u >= space.high - close) & (step > 0)) | ((u <= space.low + close) & (step < 0))
    scores = step.abs() / covariance.diagonal().clamp(min=1e-300).sqrt()
    beyond, words = space.numbers(u + step), []
    for k in outward.nonzero()[:, 0].tolist():
        end, value = ("upper", space.range(k)[1]) if step[k] > 0 else ("lower", space.range(k)[0])
        unit = f" {space.units[k]}" if space.units[k] else ""
        text = f"{space.names[k]} is at the {end} end of its range, {value:.4g}{unit}, and the data ask for about {beyond[k]:.3g}{unit}"
        if scores[k] > FARTHEST:
            advice = ": widen the range; if no value beyond it is possible, something that is taken as known is wrong."
        else:
            advice = ", within the error bar: a wider range may fit a little better."
        words.append(f"{text}, {scores[k]:.2g} standard deviations away{advice}")
    return PressedEnds(words, bool((outward & (scores > FARTHEST)).any()))


def near_ends(space: Ranges, u: Tensor) -> list[str]:
    """A sentence for each unknown near an end of its range, of an answer (unknowns,) that does not explain the data."""
    near, words = NEAR_END * (space.high - space.low), []
    for k in ((u <= space.low + near) | (u >= space.high - near)).nonzero()[:, 0].tolist():
        low, high = space.range(k)
        end = "lower" if u[k] <= space.low[k] + near[k] else "upper"
        words.append(
            f"{space.names[k]} = {space.numbers(u)[k]:.4g} is near the {end} end of its range, {low:.4g} to {high:.4g}: "
            "if the truth may be outside of it, widen the range."
        )
    return words


def unconstrained_step(fisher: Tensor, g: Tensor) -> Tensor:
    """Step −H⁻¹ g (unknowns,) from information and gradient; 0 where either is not finite."""
    if not (torch.isfinite(fisher).all() and torch.isfinite(g).all()):
        return torch.zeros_like(g)
    return -torch.linalg.pinv(fisher, hermitian=True) @ g
