"""The table of Fig. 6: position errors of every method beside those of the paper's curves."""

import re
from collections.abc import Mapping

METHODS = {  # in names of figures: in words
    "": "from a picture",
    "not_shared": "from a picture, a number for each element",
    "heavy_rim": "from a picture, 2 kg at each point",
    "diffphysics": "told the place in 3-D, Adam",
    "diffphysics_polyak": "told the place in 3-D, the same search",
    "heavy_rim_diffphysics": "told the place in 3-D, Adam, 2 kg at each point",
    "random": "random policies",
    "cma": "CMA-ES",
    "reinforce": "REINFORCE",
    "ppo": "PPO",
}
ERROR = re.compile(r"(gear|cloth)_(?:(\w+)_)?error_(\d+|at_equal_steps)")
WALKER = {"walker_iterations": "walker: iterations to the goal, median", "walker_iterations_worst": "the same, worst"}
WORDS = (
    "Position errors [m²]: squared distance of the centres of mass from the goal's, mean over x, y, z and goals, raw. The "
    "paper's after 20 and 40 iterations are its curves' 19 and 39. As many steps: as all iterations from pictures simulate."
)


def rows(figures: Mapping[str, Mapping]) -> list[dict]:
    """Of those figures that say how far a task is from its goal."""
    names = {key: named(key) for key in figures}
    return [
        {"name": name, "paper": figures[key]["paper"], "ours": figures[key]["value"]}
        for key, name in names.items()
        if name
    ]


def named(key: str) -> str | None:
    """A figure in words; None of one that is not in the table."""
    error = ERROR.fullmatch(key)
    if error is None:
        return WALKER.get(key)
    task, method, after = error.groups(default="")
    return f"{task}: {METHODS[method]}, {f'{after} iterations' if after.isdigit() else 'as many steps'}"
