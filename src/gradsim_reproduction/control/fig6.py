"""Visuomotor control from one image of the goal (the paper's Sec. 3.2 and Fig. 6), with baselines on the same goals.

Each part is a function of the folder that returns its figures and the histories of all its runs: what a search without
feedback reaches from pixels, the same search given the position in 3-D, and searches without gradients. Curves are raw; the
best so far, as the search's own loss chooses it, is drawn apart. The last part is about loops that are closed.
"""

import re
from collections.abc import Callable, Mapping

from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.control.training.history import History
from gradsim_reproduction.control import plots
from gradsim_reproduction.control.closed_loop import closed_loop
from gradsim_reproduction.control.cloth import cloth
from gradsim_reproduction.control.gear import gear
from gradsim_reproduction.control.methods import IMAGE, load_policies
from gradsim_reproduction.control.walker import walker
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

Part = Callable[..., tuple[dict[str, dict], list[History]]]
PARTS: dict[str, Part] = {"gear": gear, "cloth": cloth, "walker": walker}
CLOSED = "closed"


@experiment("fig6", "Control from one picture")
def fig6(run: Run, parts: tuple[str, ...] = (*PARTS, CLOSED)) -> Outcome:
    """Run the parts; writes table.md, curves, videos and one ledger per part.

    Args:
        run: Quick: few goals and iterations, and no gradient-free searches.
        parts: Parts to run.
    """
    out, progress = run.out, run.progress
    figures, images, videos = {}, [], []
    for name in (name for name in PARTS if name in parts):
        part_figures, runs = PARTS[name](out, run.quick, run.seed, progress)
        figures |= part_figures
        floor = part_figures.get(f"{name}_floor", {}).get("value")
        images.append(plots.draw(out, name, runs, floor))
        first = next((history for history in runs if history.names.get("method") == IMAGE), None)
        if first is not None:
            progress.stage(f"{name}: videos")
            goal = int(first.names["goal"])
            setup = Setup.of(Task.load(name), goal)
            entries, stages = plots.draw_stages(out, name, setup, load_policies(out, name, goal), first)
            videos += entries
            images.append(stages)
    if CLOSED in parts:
        closed = closed_loop(out, run.quick, run.seed, progress)
        figures |= closed["figures"]
        videos += [{"file": f["file"], "text": f["caption"]} for f in closed["images"] if _moves(f)]
        images += [from_image for from_image in closed["images"] if not _moves(from_image)]
    result: dict = {"images": images, "videos": videos}
    result["table"] = write_table(out, "Fig. 6: control from one picture", rows(figures), WORDS)
    return result, figures


def _moves(from_image: dict) -> bool:
    return from_image["file"].endswith(".webm")


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
    """Rows of the figures that measure the distance from the goal."""
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
