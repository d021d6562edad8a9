"""A second search where the first did not explain its film."""

from collections.abc import Callable
from dataclasses import replace

from gradsim.identify.fit import Fit
from gradsim.identify.multistart import Search


def careful(fit: Callable[[Search], Fit], plan: Search) -> Fit:
    """Fit by a plan that is coarser than the usual one; where that ends in "mismatch", once more by the usual one.

    Either the model is wrong or the search was too coarse, and only the second can be mended. The lower χ² is the answer;
    effort is that of both.

    Args:
        fit: By a plan.
        plan: The first one.
    """
    found = fit(plan)
    if found.status != "mismatch":
        return found
    again = fit(Search())
    spent = {key: getattr(found, key) + getattr(again, key) for key in ("cpu_seconds", "wall_seconds", "rollouts")}
    return replace(min(found, again, key=lambda one: one.chi2_per_n), **spent)
