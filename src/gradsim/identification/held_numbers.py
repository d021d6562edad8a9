"""Search and samples with the numbers that only a prior makes unknown held.

They are close to their means, and many: a calibrated camera has fifteen. So the search of starts is over the others, and all numbers are
fitted together from where it ends. Posterior samples about the answer are over the others, too: what contact cuts into valleys is
the motion, and what the held numbers do to it is linear (`identification.api`).
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.estimators import Estimator
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome
from gradsim.identification.unknowns import Ranges, Space
from gradsim.physics.system import Values
from gradsim.runtime.progress import CheckpointStore


class FreeSpace(Space):
    """Some of the unknowns of a space; the others are held.

    Args:
        base: The space.
        free: Numbers of its unknowns.
        held: Solver coordinates (unknowns of the base,) of the others; None: the means of their priors.
    """

    def __init__(self, base: Space, free: Sequence[int], held: Tensor | None = None):
        self.__dict__.update(base.__dict__)
        self.held = base.prior_mean if held is None else held
        self.base, self.free = base, torch.tensor(free)
        pick = lambda items: [items[k] for k in free]
        self.unknowns, self.names, self.places = pick(base.unknowns), pick(base.names), pick(base.places)
        self.logarithmic, self.units = pick(base.logarithmic), pick(base.units)
        self.low, self.high, self._log, self._first = (
            x[self.free] for x in (base.low, base.high, base._log, base._first)
        )
        self.prior_mean = base.prior_mean[self.free]
        self.prior_precision = base.prior_precision[self.free[:, None], self.free]  # the others are at their means

    def whole(self, inner: Tensor) -> Tensor:
        """Solver coordinates (..., unknowns of the base) of some (..., free)."""
        columns = self.held.clamp(self.base.low, self.base.high).expand(*inner.shape[:-1], -1)
        place = torch.full((len(self.base),), -1)
        place[self.free] = torch.arange(len(self.free))
        return torch.where(place >= 0, inner[..., place.clamp(min=0)], columns)

    def values(self, inner: Tensor) -> Values:
        """Parameters (worlds, ...) that the unknowns of the base touch, by name; differentiable."""
        return self.base.values(self.whole(inner))


def drawn_indices(space: Ranges) -> list[int]:
    """Numbers of the unknowns that are more than a prior; all of them, where none is."""
    free = [k for k in range(len(space)) if space.is_drawn(k)]
    return free or list(range(len(space)))


def with_priors_held(problem: Problem, u: Tensor) -> Problem:
    """The problem over the unknowns that are more than a prior (`drawn_indices`), the others held at u (unknowns,); it counts the same effort."""
    free = drawn_indices(problem.space)
    if len(free) == len(problem.space):
        return problem
    part = copy.copy(problem)
    part.space = FreeSpace(problem.space, free, u)
    return part


def search_with_priors_held(
    problem: Problem,
    plan: MultistartConfig,
    rng: np.random.Generator,
    report: Callable[[dict], None],
    checkpoint: CheckpointStore | None,
    search: Estimator,
) -> Outcome:
    """Outcome of a search over the unknowns that are more than a prior, of all unknowns; of a search where all are, or none.

    Args:
        problem: The problem.
        plan, rng, report, checkpoint: As for `multistart.search`.
        search: The estimator.
    """
    part = with_priors_held(problem, problem.space.prior_mean)
    if part is problem:
        return search(problem, plan, rng, report, checkpoint)
    space = part.space
    assert isinstance(space, FreeSpace)  # what `with_priors_held` makes

    def report_whole(entry: dict) -> None:
        entry["u"] = space.whole(torch.tensor(entry["u"])).tolist()
        report(entry)

    outcome = search(part, plan, rng, report_whole, checkpoint)
    whole = {key: space.whole(getattr(outcome, key)) for key in ("initial", "final", "best")}
    whole |= {} if outcome.resampled is None else {"resampled": space.whole(outcome.resampled)}
    return replace(outcome, **whole)
