"""Visuomotor control from one picture of the goal (the paper's Sec. 3.2 and Fig. 6), with baselines on the same goals.

Each part is a function of the folder that returns its figures and the histories of all its runs: what a search without
feedback reaches from pixels, beside the same told the place in 3-D, and searches without gradients. Curves are raw; the
best so far, as the search's own loss chooses it, is drawn apart. The last part is about loops that are closed.
"""

from collections.abc import Callable
from pathlib import Path

from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.control.training.history import History
from gradsim.runtime.progress import NullProgress, Progress
from gradsim_reproduction.control import fig6_table, plots, videos
from gradsim_reproduction.control.closed_loop import closed_loop
from gradsim_reproduction.control.cloth import cloth
from gradsim_reproduction.control.gear import gear
from gradsim_reproduction.control.methods import PICTURE, kept
from gradsim_reproduction.control.walker import walker
from gradsim_reproduction.runner import asked, write_result
from gradsim_reproduction.tables import write_table

Part = Callable[..., tuple[dict[str, dict], list[History]]]
PARTS: dict[str, Part] = {"gear": gear, "cloth": cloth, "walker": walker}
CLOSED = "closed"


def fig6(
    out: Path,
    quick: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    parts: tuple[str, ...] = (*PARTS, CLOSED),
) -> dict:
    """Run the experiment into a folder; finished searches are kept there, and an interrupted run goes on after them.

    Args:
        out: Gets result.json, table.md, curves, films and one file of runs for each part.
        quick: Few goals, few iterations, and no searches without gradients.
        seed: Of goals and policies.
        progress: Is told what happens.
        parts: Those to run.
    """
    out, progress = Path(out), progress or NullProgress()
    out.mkdir(parents=True, exist_ok=True)
    figures, pictures, films = {}, [], []
    for name in (name for name in PARTS if name in parts):
        own, runs = PARTS[name](out, quick, seed, progress)
        figures |= own
        floor = own.get(f"{name}_floor", {}).get("value")
        pictures.append(plots.draw(out, name, runs, floor))
        first = next((run for run in runs if run.names.get("method") == PICTURE), None)
        if first is not None:
            progress.stage(f"{name}: films")
            goal = int(first.names["goal"])
            setup = Setup.of(Task.load(name), goal)
            filmed, stages = videos.show(out, name, setup, kept(out, name, goal), first)
            films += filmed
            pictures.append(stages)
    if CLOSED in parts:
        closed = closed_loop(out, quick, seed, progress)
        figures |= closed["figures"]
        films += [{"file": f["file"], "text": f["caption"]} for f in closed["pictures"] if _moves(f)]
        pictures += [picture for picture in closed["pictures"] if not _moves(picture)]
    progress.done()
    result = {"title": "Control from one picture", "seed": seed, "quick": quick, "pictures": pictures, "films": films}
    result["table"] = write_table(out, "Fig. 6: control from one picture", fig6_table.rows(figures), fig6_table.WORDS)
    return write_result(out, asked("fig6", quick, None), result, figures)


def _moves(picture: dict) -> bool:
    return picture["file"].endswith(".webm")
