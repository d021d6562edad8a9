"""The part of the film that a loss is taken of: short at first, then all of it.

Gradients through many steps of contact are large and point anywhere; through few they are tame. A search that first
asks for the goal soon, then later, starts each time from what already goes the right way.
"""

import math
from dataclasses import dataclass

from gradsim.errors import InputError
from gradsim.geometry.validation import counts


@dataclass(frozen=True)
class Horizon:
    """Frames that are simulated in an iteration: they grow evenly from a share of the film to all of it.

    The goal then sees the film as if it ended there: its last frame is that of the horizon.

    Args:
        first: The share of the film in the first iteration, above 0, at most 1.
        iterations: From this iteration on it is the whole film; 0 begins with it.

    Raises:
        InputError: If they are out of these ranges.
    """

    first: float = 0.25
    iterations: int = 10

    def __post_init__(self):
        if not 0 < self.first <= 1:
            raise InputError(f"horizon.first: got {self.first}; expected a share of the film above 0, at most 1.")
        counts("horizon.iterations", self.iterations, least=0)

    def frames(self, iteration: int, total: int) -> int:
        """Frames in an iteration, the start included; at least 2 of `total`."""
        grown = min(1.0, iteration / self.iterations) if self.iterations else 1.0
        share = self.first + (1 - self.first) * grown
        return min(total, 1 + math.ceil(share * (total - 1) - 1e-9))
