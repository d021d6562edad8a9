"""Loss landscapes of a mass and of the Lamé parameters, drawn with all their minima (the paper's Fig. 4).

The paper finds the landscape of a cube's mass smooth, with one minimum, and credits the differentiable simulator. Its
release draws four losses (all frames, every fifth, first and middle, first and last) over 0.1–5 kg, truth 1 kg. Here are
the same four for three motions of the cube and both contact laws, by exact coverage, by SoftRas's opacity and by its
colours, which are the paper's; the same motions in PyBullet; and what the paper has not: the loss on CDFs, the adjoint
against secants along the curve, and from which share of the range searches come home. Targets are our own motion and
picture: the figure is of the shape of losses, and of no accuracy.
"""

from gradsim_reproduction.landscapes import fig4_plots, lame, rigid
from gradsim_reproduction.landscapes.curves import DIGITS
from gradsim_reproduction.landscapes.fig4_table import figures, rows
from gradsim_reproduction.landscapes.scenes import GRID_STEP, RIGID
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

VIEWS = ("coverage", "softras", "softras_colour", "cdf")
FULL = {"step": GRID_STEP, "views": VIEWS, "bullet": 0.02, "starts": 13, "iterations": 100}
FULL |= {"cut": 10.0, "plane": 40.0, "edge": 5}
QUICK = {"step": 0.1, "views": ("coverage", "softras", "cdf"), "bullet": 0.1, "starts": 5, "iterations": 0}
QUICK |= {"cut": 50.0, "plane": 100.0, "edge": 2}


@experiment("fig4", "Loss landscapes")
def fig4(run: Run) -> Outcome:
    """Compute all curves and searches; writes table.md, landscapes.jsonl and plots.

    Quick: coarser grids, fewer views and starts, and no descents.
    """
    plan, seed = QUICK if run.quick else FULL, run.seed
    ledger = run.ledger("landscapes.jsonl", plan=plan)
    jobs: dict[str, tuple] = {f"curves of {k}": (rigid.curves, k, plan["step"], plan["views"]) for k in RIGID}
    jobs |= {f"PyBullet, {k}": (rigid.black_box, k, plan["bullet"], seed) for k in RIGID[:3]}
    jobs |= {f"searches for {k}": (rigid.searches, k, plan["starts"], plan["iterations"], seed) for k in RIGID[:3]}
    jobs |= {f"cut along {name}": (lame.cut, name, plan["cut"]) for name in lame.NAMES}
    jobs["plane"] = lame.plane, plan["plane"]
    jobs["searches for lame"] = lame.searches, plan["edge"], plan["iterations"], plan["starts"], seed
    parts = {}
    for k, (key, job) in enumerate(jobs.items()):
        run.progress.share(k, len(jobs))
        parts[key] = ledger.once(key, *job)
    result = {"notes": [f"{key}: {part['missing']}" for key, part in parts.items() if "missing" in part]}
    result |= {"minima": _minima(parts), "pictures": fig4_plots.draw(run.out, parts)}
    result["table"] = write_table(run.out, "Fig. 4: minima and basins", rows(parts), WORDS)
    return result, figures(parts)


SHOWN = 10  # minima of a curve in result.json
WORDS = (
    "Minima within the range, the truth's among them; those at the ends of the range are in result.json. Paper: minima of "
    "the released curves. A basin is the share of the range that leads downhill to the truth."
)


def _minima(parts: dict) -> dict:
    """The ten deepest minima of each curve, with place and depth, by motion, view and selection of frames."""
    found = {}
    for kind in RIGID:
        views = {
            **parts[f"curves of {kind}"]["curves"],
            "pybullet": parts.get(f"PyBullet, {kind}", {}).get("curves", {}),
        }
        for view, some in views.items():
            for selection, curve in some.items():
                deepest = sorted(curve["minima"], key=lambda one: -one["barrier"])[:SHOWN]
                rounded = [{name: round(value, DIGITS) for name, value in one.items()} for one in deepest]
                found[f"{kind}, {view}, {selection}"] = rounded
    return found
