"""Estimators by name: searches for the values of the unknowns that explain an observation best.

An estimator takes a problem and returns the lowest cost that it found; error bars, null directions and verdict
(`api.make_fit`) are the same for all. `identify(..., estimator=NAME)` and `gradsim fit --estimator NAME` read this registry.
"""

import difflib
from collections.abc import Callable
from typing import Protocol

import numpy as np

from gradsim.errors import InputError
from gradsim.identification.problem import Problem
from gradsim.identification.solvers import gradient_descent, multistart
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome
from gradsim.runtime.progress import CheckpointStore

LEAST_SQUARES = "least-squares"


class Estimator(Protocol):
    """A search for the lowest cost of a problem."""

    def __call__(
        self,
        problem: Problem,
        plan: MultistartConfig,
        rng: np.random.Generator,
        report: Callable[[dict], None],
        checkpoint: CheckpointStore | None,
    ) -> Outcome:
        """Search.

        Args:
            problem: `cost`, `linearize`, `residuals` and `sum_of_squares` at u (starts, unknowns); `space` draws starts and
                has the ranges. Of several clips, a `JointProblem`.
            plan: Settings; `starts` is what the user gave.
            rng: The only source of randomness.
            report: To be called with each entry of the history (`multistart.history_entry`).
            checkpoint: Store of states from which an interrupted search resumes; may be left unused.

        Returns:
            The outcome, for example by `Outcome.of`. Its `best` has to be a minimum: error bars are those of the curvature there.
        """
        ...


ESTIMATORS: dict[str, Estimator] = {}


def register_estimator(name: str, estimator: Estimator) -> None:
    """Add an estimator under a name.

    Raises:
        InputError: If another estimator has the name.
    """
    if ESTIMATORS.get(name, estimator) is not estimator:
        raise InputError(f"there is an estimator {name!r} already; choose another name.")
    ESTIMATORS[name] = estimator


def estimator_named(name: str | Estimator) -> Estimator:
    """Look up an estimator; one that is not a name is returned as it is.

    Raises:
        InputError: If the name is unknown.
    """
    if not isinstance(name, str):
        return name
    if name not in ESTIMATORS:
        near = difflib.get_close_matches(name, ESTIMATORS, 1)
        hint = f"did you mean {near[0]!r}? There are" if near else "there are"
        raise InputError(f"no estimator {name!r}; {hint} {', '.join(ESTIMATORS)}.")
    return ESTIMATORS[name]


def name_of(estimator: str | Estimator) -> str:
    """Name of an estimator for `result.json`: that of the registry, or that of the function."""
    if isinstance(estimator, str):
        return estimator
    names = [name for name, registered in ESTIMATORS.items() if registered is estimator]
    return names[0] if names else getattr(estimator, "__name__", type(estimator).__name__)


register_estimator(LEAST_SQUARES, multistart.search)
register_estimator("gradient-descent", gradient_descent.search)
