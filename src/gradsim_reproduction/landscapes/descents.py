"""From where searches converge: descent as the paper does it, and the least squares that fits use.

The starts are given, even over the range, and know nothing of the truth; the target is the true motion seen by exact
coverage, through the steps that fit it.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradsim.identification.api import solve
from gradsim.identification.observation.base import Masks, Residual
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.gradient_descent import descend
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.synthetic import float_masks, own_steps
from gradsim.identification.unknowns import Space

CLOSE = 0.01  # relative error that counts as home
RATE = 0.05  # of Adam, a step of the logarithms


def problem(scene, unknowns: Sequence[str], truth: Mapping[str, float], ends: bool = False) -> Problem:
    """The fit of a scene's true motion.

    Args:
        scene: The scene.
        unknowns: NAME:LOW:HIGH each.
        truth: By name.
        ends: Whether only the first and the last frame count.
    """
    space = Space(scene, unknowns)
    model = model_for(own_steps(scene), space)
    with torch.no_grad():
        observation = float_masks(scene, model.rollout(parameter_values(scene, truth)))
    if ends:
        weight = torch.zeros_like(observation.masks)
        weight[[0, -1]] = 1.0
        observation = Masks(observation.masks, observation.sigma, observation.silhouettes, weight)
    return Problem(model, observation, space)


def run_descents(
    one: Problem, truth: Mapping[str, float], starts: Tensor, iterations: int, residual: Residual = "pixels"
) -> dict:
    """Adam on the mean square of all pixels, or of the CDFs.

    Args:
        one: The fit.
        truth: By name.
        starts: (starts, unknowns), in their units.
        iterations: How many.
        residual: "pixels" or "cdf".

    Returns:
        "starts", "ends" (starts, unknowns), "share" of the starts that end within 1 % of the truth in all unknowns.
    """
    space = one.space
    last, _ = descend(one, space.inner(starts), iterations, "adam", RATE, residual)
    ends = space.numbers(last)
    true = torch.tensor([truth[name] for name in space.names], dtype=torch.float64)
    home = ((ends / true - 1).abs() < CLOSE).all(1)
    return {"starts": starts.tolist(), "ends": ends.tolist(), "share": home.double().mean().item()}


def run_least_squares(one: Problem, truth: Mapping[str, float], starts: int, seed: int) -> dict:
    """Least squares with its growing clip, from random starts: largest relative error, and share of starts that agree."""
    fit = solve(one, MultistartConfig(starts), seed)
    error = max(abs(fit.values[name] / truth[name] - 1) for name in one.space.names)
    return {"error": error, "share": fit.starts["converged"] / fit.starts["count"], "cpu_seconds": fit.cpu_seconds}
