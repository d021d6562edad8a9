"""Does the texture show the turn? Comparison of the answer with other turns, and with none.

A fit with enough freedom explains a plain ball, too, by noise in its texture, at any spin. And light on a plain ball stands still as the texture of a ball
that does not turn would. So the cost of the answer has to be well below that of turns drawn at random from their ranges, and below
that of a ball that keeps its orientation.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.colors.interior import InteriorColors
from gradsim.identification.colors.search import draw, open_directions
from gradsim.identification.problem import Problem

DRAWS = 16  # other turns
QUANTILE = 0.2  # of their costs: some may be near the answer
LEAST = 1.3  # times the cost of the answer that others have, at least
PLAIN = (
    "The colors inside of the outlines do not show the turn: turns drawn at random explain them nearly as well ({:.2f} times the residual "
    "of the answer; a texture that shows it has {:g} or more). Film a body with a pattern of its own, closer, or in better light."
)
STILL = (
    "The colors stand still inside of the outline: a body that keeps its orientation explains them nearly as well ({:.2f} times the residual). "
    "It turns too little in this clip, or the pattern is light on a plain body; film a longer clip, or a body with a pattern."
)


@dataclass(frozen=True)
class Contrast:
    """Costs of other turns over that of the answer.

    Args:
        others: A low quantile of those that are drawn at random; infinite if outlines leave none open.
        still: Of the orientation of frame 0; infinite likewise.
    """

    others: float
    still: float

    @property
    def shows_turn(self) -> bool:
        """True if the answer is well below both."""
        return min(self.others, self.still) > LEAST

    @property
    def words(self) -> str:
        """Reason why the turn is not known; empty if it is."""
        if self.shows_turn:
            return ""
        return PLAIN.format(self.others, LEAST) if self.others <= self.still else STILL.format(self.still)


def contrast(problem: Problem, colors: InteriorColors, u: Tensor, rng: np.random.Generator) -> Contrast:
    """Compare an answer with other turns.

    Args:
        problem: Its priors are what outlines say.
        colors: In large pixels.
        u: The answer (unknowns,).
        rng: Draws the turns.
    """
    if not len(open_directions(problem)):
        return Contrast(float("inf"), float("inf"))
    candidates = torch.cat([u[None], draw(problem, u, rng, DRAWS)])
    values = problem.model.values(problem.space.values(candidates))
    with torch.no_grad():
        trajectory = problem.model.rollout_unchecked(values, colors.frames)
    cost = colors.cost(trajectory, colors.frames, "pixels")
    still = sum(t.cost for t in colors.textures(trajectory, colors.frames, 0, still=True)) / colors.sigma**2
    return Contrast(torch.quantile(cost[1:], QUANTILE).item() / cost[0].item(), still / cost[0].item())


def without_turn(problem: Problem, covariance: Tensor) -> Tensor:
    """Covariance (unknowns, unknowns) of an answer whose open directions are unknown: with the width of their ranges."""
    axes = open_directions(problem) * problem.space.unit
    return covariance + axes.mT @ axes
