"""Estimates from clips of several recordings, with error bars robust to model error.

A contact model is never quite right, and its errors are correlated within a recording. So recordings are resampled,
not frames.
"""

from dataclasses import replace

import torch
from torch import Tensor

from gradsim.identification.fit import Estimate
from gradsim.identification.solvers.clip_ensemble import ClipIterates, ClipsProblem, descend
from gradsim.identification.uncertainty.fisher import Uncertainty, analyze
from gradsim.identification.uncertainty.intervals import estimate_in_range


def leave_one_out(problem: ClipsProblem, valleys: ClipIterates, iterations: int) -> tuple[list[str], Tensor]:
    """Jackknife: the best estimate from all valleys without each recording in turn.

    Returns:
        Recordings, and shared unknowns (recordings, unknowns) without them.
    """
    recordings = list(dict.fromkeys(c.recording for c in problem.clips))
    weights = torch.tensor([[float(c.recording != name) for c in problem.clips] for name in recordings])
    rows = torch.arange(len(valleys.u)).repeat(len(recordings))  # recordings × valleys
    ends = descend(problem, valleys[rows], iterations, weights.double().repeat_interleave(len(valleys.u), 0))
    cost = ends.cost.unflatten(0, (len(recordings), -1))
    return recordings, ends.u.unflatten(0, cost.shape)[torch.arange(len(recordings)), cost.argmin(1)]


def jackknife_estimates(
    problem: ClipsProblem, best: ClipIterates, left_out: Tensor, other_cuts: Tensor
) -> tuple[dict[str, Estimate], Uncertainty, dict[str, dict[str, float]]]:
    """Estimates with robust error bars: for each unknown the largest of four.

    * fisher: the bound from the clips' noise as the fit found it, F = Σ_k S_k. It decides what is identifiable.
    * between_recordings: F⁻¹ (Σ_g h_g h_gᵀ) F⁻¹ with the gradient h_g of each recording, which measures how much they
      disagree, whatever the cause (White 1982, clustered).
    * leave_one_out: the jackknife over recordings, which also sees other valleys of the cost.
    * between_cuts: the standard deviation over ways to cut the recordings; of no concern if the model were right.

    Args:
        problem: The problem.
        best: The answer, one start.
        left_out: Shared unknowns (recordings, unknowns) from `leave_one_out`.
        other_cuts: Shared unknowns (cuts, unknowns) from clips cut otherwise; there may be none.

    Returns:
        Estimates by name; the bounds of the Fisher information; and the four error bars by name, of the logarithm for
        positive unknowns.
    """
    space = problem.space
    schur, gradient = (y[0] for y in problem.linearize(best))
    uncertainty = analyze(space, schur.sum(0), has_push=False)
    unit = space.unit
    inverse = uncertainty.covariance * unit[:, None] * unit[None, :]
    recordings = [c.recording for c in problem.clips]
    names = list(dict.fromkeys(recordings))
    scores = torch.stack([gradient[torch.tensor([r == name for r in recordings])].sum(0) for name in names])
    few = len(names) / max(1, len(names) - 1)
    bars = {
        "fisher": uncertainty.std_inner,
        "between_recordings": (inverse @ (few * scores.T @ scores) @ inverse).diagonal().clamp(min=0).sqrt(),
        "leave_one_out": ((left_out - left_out.mean(0)).square().sum(0) / few).sqrt(),
        "between_cuts": torch.cat([best.u, other_cuts]).std(0, correction=0),
    }
    largest = torch.stack(list(bars.values())).amax(0)
    honest = replace(uncertainty, std_inner=largest, relative=largest / unit)
    estimates = {name: estimate_in_range(space, k, best.u[0, k].item(), honest) for k, name in enumerate(space.names)}
    table = {name: {bar: std[k].item() for bar, std in bars.items()} for k, name in enumerate(space.names)}
    return estimates, honest, table
