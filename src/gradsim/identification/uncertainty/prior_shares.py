"""Priors of a fit afterwards: what each contributes to the error bars, where the video adds nothing, and where it contradicts them.

In the linear model the video has the information F = JᵀJ and each prior P_b; with C = (F + Σ P_b)⁻¹, by the law of total variance

    C = C F C + Σ_b C P_b C          the noise of the video, and what is not known of each prior's mean

so the shares of the variance of each unknown sum to 1. They are exact where residuals are linear within the error bars.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.unknowns import Ranges
from gradsim.numerics.formatting import rounded

ONLY_PRIOR = 0.9  # standard deviation over the prior's above which the video adds next to nothing
CONFLICT = 4.0  # standard deviations of the prior between its mean and the answer, at which one of both is wrong
VIDEO = "video"  # label of the share of the video's noise


@dataclass(frozen=True)
class PriorReport:
    """Priors of a fit and what became of them.

    Args:
        numbers: Of each unknown with a prior: name, mean, sd and unit of the prior, its `source`, `ratio` of the standard deviation
            to the prior's, and the `pull`: the answer's distance from the mean in standard deviations of the prior.
        shares: Of the variance of each unknown: from the video's noise ("video") and from each prior, by source.
        words: Sentences on unknowns to which the video adds nothing, and on contradictions.
        conflict: Whether the answer contradicts a prior.
    """

    numbers: list[dict]
    shares: dict[str, dict[str, float]]
    words: list[str]
    conflict: bool

    def result(self) -> dict:
        """For `result.json`."""
        return {"numbers": self.numbers, "shares": self.shares, "conflict": self.conflict}


def report_priors(space: Ranges, u: Tensor, std: Tensor, video: Tensor) -> PriorReport | None:
    """Judge the priors of a fit; None without priors.

    Args:
        space: The unknowns, with their priors.
        u: The answer in solver coordinates (unknowns,).
        std: Its standard deviations there (unknowns,).
        video: Information of the video alone (unknowns, unknowns).
    """
    if not space.weights:
        return None
    numbers, words, conflict = [], [], False
    open_numbers: list[tuple[str, float]] = []
    values, means = space.numbers(u), space.numbers(space.prior_mean)
    for weight in space.weights:
        spread = torch.linalg.inv(weight.precision).diagonal().sqrt()
        for k, sd in zip(weight.columns, spread.tolist(), strict=True):
            name, mean, log = space.names[k], means[k].item(), space.logarithmic[k]
            ratio, pull = std[k].item() / sd, (u[k] - space.prior_mean[k]).item() / sd
            stated = sd * mean if log else sd
            entry = {"name": name, "mean": mean, "sd": stated, "unit": space.units[k], "source": weight.label}
            numbers.append(entry | {"ratio": ratio, "pull": pull})
            if ratio > ONLY_PRIOR:
                open_numbers.append((name, ratio))
            if abs(pull) > CONFLICT:
                conflict = True
                words.append(
                    f"The video contradicts the prior of {name}: {rounded(values[k].item(), stated)} is {abs(pull):.1f} of its standard "
                    f"deviations from {mean:.6g} ± {stated:.2g}. The prior, the model, or another known number is wrong."
                )
    words = _of_priors_alone(open_numbers) + words
    return PriorReport(numbers, variance_shares(space, video), words, conflict)


def variance_shares(space: Ranges, video: Tensor) -> dict[str, dict[str, float]]:
    """Share of each unknown's variance from the video's noise and from each prior, by source.

    Args:
        space: The unknowns, with their priors.
        video: Information of the video alone (unknowns, unknowns).
    """
    n = len(space)
    parts = {VIDEO: video}
    for weight in space.weights:
        parts[weight.label] = parts.get(weight.label, torch.zeros(n, n).double()) + weight.among(n)
    total = torch.stack(list(parts.values())).sum(0)
    scale = total.diagonal().clamp(min=1e-300).rsqrt()
    C = torch.linalg.pinv(total * scale[:, None] * scale, hermitian=True, rtol=1e-13) * scale[:, None] * scale
    variances = {label: torch.einsum("ki,ij,kj->k", C, part, C).clamp(min=0) for label, part in parts.items()}
    whole = torch.stack(list(variances.values())).sum(0).clamp(min=1e-300)
    return {
        name: {label: (variance[k] / whole[k]).item() for label, variance in variances.items()}
        for k, name in enumerate(space.names)
    }


def _of_priors_alone(numbers: Sequence[tuple[str, float]]) -> list[str]:
    """One sentence on the numbers, and their standard deviations over the priors', to which the video adds nothing."""
    if not numbers:
        return []
    if len(numbers) == 1:
        name, ratio = numbers[0]
        return [f"The video adds nothing to {name}: its standard deviation is {ratio:.2f} of the prior's."]
    names, ratios = zip(*numbers, strict=True)
    return [
        f"The video adds nothing to {', '.join(names)}: their standard deviations are {min(ratios):.2f} to {max(ratios):.2f} of the priors'."
    ]
