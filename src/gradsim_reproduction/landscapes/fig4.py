"""Loss landscapes of a mass and of the Lamé parameters, drawn with all their minima (the paper's Fig. 4).

The paper finds the landscape of a cube's mass smooth, with one minimum, and credits the differentiable simulator. Its
release draws four losses (all frames, every fifth, first and middle, first and last) over 0.1–5 kg, truth 1 kg. Here are
the same four for three motions of the cube and both contact laws, by exact coverage, by SoftRas's opacity and by its
colours, which are the paper's; the same motions in PyBullet; and what the paper has not: the loss on CDFs, the adjoint
against secants along the curve, and from which share of the range searches converge. Targets are our own motion and
image: the figure is of the shape of losses, and of no accuracy.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim_reproduction.landscapes import lame, rigid
from gradsim_reproduction.landscapes.curves import DIGITS
from gradsim_reproduction.landscapes.lame import NAMES
from gradsim_reproduction.landscapes.scenes import GRID_STEP, RIGID, TRUE_MASS
from gradsim_reproduction.plotting import FAINT, INK, SAFE, WIDTH, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import short, write_table

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
        run.progress.fraction(k, len(jobs))
        parts[key] = ledger.once(key, *job)
    result = {"notes": [f"{key}: {part['missing']}" for key, part in parts.items() if "missing" in part]}
    result |= {"minima": _minima(parts), "images": draw(run.out, parts)}
    result["table"] = write_table(run.out, "Fig. 4: minima and basins", rows(parts), WORDS)
    return result, figures(parts)


SHOWN = 10  # minima of a curve in result.json
WORDS = (
    "Minima within the range, the truth's among them; those at the ends of the range are in result.json. Paper: minima of "
    "the released curves. A basin is the share of the range that leads downhill to the truth."
)


def _minima(parts: dict) -> dict:
    """The ten deepest minima of each curve, with place and depth, by motion, view and selection of frames."""
    by_curve = {}
    for kind in RIGID:
        views = {
            **parts[f"curves of {kind}"]["curves"],
            "pybullet": parts.get(f"PyBullet, {kind}", {}).get("curves", {}),
        }
        for view, selections in views.items():
            for selection, curve in selections.items():
                deepest = sorted(curve["minima"], key=lambda one: -one["barrier"])[:SHOWN]
                rounded = [{name: round(value, DIGITS) for name, value in one.items()} for one in deepest]
                by_curve[f"{kind}, {view}, {selection}"] = rounded
    return by_curve


PAPER_MINIMA = {
    "all": 1,
    "fifth": 1,
    "first_and_middle": 1,
    "first_and_last": 2,
}  # of the released curves, ends left out
PAPER_BASIN = {"all": 1.0, "fifth": 1.0, "first_and_middle": 1.0, "first_and_last": 0.98}  # share of their points
FRAMES = {
    "all": "all frames",
    "fifth": "every fifth frame",
    "tenth": "every tenth frame",
    "first_and_middle": "first and middle",
    "first_and_last": "first and last",
    "ends": "first and last",
}
SEEN = {"coverage": "exact coverage", "softras": "SoftRas, opacity", "softras_colour": "SoftRas, colours", "cdf": "CDF"}
WORDED = {"drift": "drift", "slide": "slide", "tumble": "tumble", "tumble, continuous": "tumble, continuous law"}


def slug(kind: str) -> str:
    """Name of a trajectory in a key."""
    return kind.replace(", ", "_")


def figures(parts: dict) -> dict[str, dict]:
    """Numbers of minima, basins, gradients and searches.

    Where a curve is lowest has no goal: the truth is a point of its grid, and the video is its own model's.
    """
    by_name = {}
    for kind in RIGID:
        part, name = parts[f"curves of {kind}"], slug(kind)
        for view, selections in part["curves"].items():
            for selection, curve in selections.items():
                like = kind == "drift" and view != "cdf"  # the paper's
                label = f"{name}_{view}_{selection}"
                by_name[f"minima_{label}"] = figure(curve["inner"], paper=PAPER_MINIMA[selection] if like else None)
                by_name[f"basin_share_{label}"] = figure(curve["share"], paper=PAPER_BASIN[selection] if like else None)
                if selection == "all":
                    by_name[f"lowest_{label}"] = figure(curve["lowest"])
        by_name[f"gradient_off_secants_{name}"] = figure(float(np.median(part["off"])))
    for kind in RIGID[:3]:
        by_name |= _searches(parts[f"searches for {kind}"], slug(kind))
        box = parts[f"PyBullet, {kind}"]
        for selection, curve in box.get("curves", {}).items():
            by_name[f"minima_{kind}_pybullet_{selection}"] = figure(curve["inner"])
            by_name[f"basin_share_{kind}_pybullet_{selection}"] = figure(curve["share"])
    return by_name | _lame(parts) | _searches(parts["searches for lame"], "lame")


def _searches(part: dict, name: str) -> dict[str, dict]:
    """Shares of the starts that converge, and what least squares ends with."""
    by_name = {f"descents_home_{name}_{loss}": figure(one["share"]) for loss, one in part["descents"].items()}
    least = part["least_squares"]
    by_name[f"least_squares_home_{name}"] = figure(least["share"])
    return by_name | {f"least_squares_error_{name}": figure(least["error"], goal=1e-6)}


def _lame(parts: dict) -> dict[str, dict]:
    by_name = {}
    for name in NAMES:
        part = parts[f"cut along {name}"]
        for view, selections in part["curves"].items():
            for selection, curve in selections.items():
                paper = 1 if selection in ("all", "fifth", "tenth") and view != "cdf" else None
                by_name[f"minima_{name}_{view}_{selection}"] = figure(curve["inner"], paper=paper)
                by_name[f"basin_share_{name}_{view}_{selection}"] = figure(curve["share"])
            by_name[f"lowest_{name}_{view}"] = figure(selections["all"]["lowest"])
        by_name[f"gradient_off_secants_{name}"] = figure(float(np.median(part["off"])))
    return by_name


def rows(parts: dict) -> list[dict]:
    """Rows of the table: minima and basin of each curve, and the places of the second minima."""
    table = []
    for kind in RIGID:
        for view, selections in parts[f"curves of {kind}"]["curves"].items():
            for selection, curve in selections.items():
                paper = PAPER_MINIMA[selection] if kind == "drift" and view != "cdf" else None
                table.append(_row(f"{WORDED[kind]}: {SEEN[view]}, {FRAMES[selection]}", paper, curve, "kg"))
        for selection, curve in parts.get(f"PyBullet, {kind}", {}).get("curves", {}).items():
            table.append(_row(f"{WORDED[kind]}: PyBullet, {FRAMES[selection]}", None, curve, "kg"))
    for name in NAMES:
        for sight, selections in parts[f"cut along {name}"]["curves"].items():
            for selection, curve in selections.items():
                paper = 1 if selection in ("all", "fifth", "tenth") and sight != "cdf" else None
                table.append(_row(f"{name}: {SEEN[sight]}, {FRAMES[selection]}", paper, curve, "Pa"))
    return table


def _row(name: str, paper: float | None, curve: dict, unit: str) -> dict:
    others = [one for one in curve["minima"] if not one["end"] and one["place"] != curve["lowest"]]
    deepest = sorted(others, key=lambda one: -one["barrier"])[:3]
    places = ", ".join(f"{short(one['place'])} {unit} ({short(one['loss'])})" for one in deepest)
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    note = f"basin {100 * curve['share']:.3g} %" + f"; others at {places}{more}" * bool(others)
    return {"name": name, "paper": paper, "ours": curve["inner"], "ratio": None, "note": note}


COLORS: dict[str, str] = dict(
    zip(("coverage", "softras", "softras_colour", "cdf", "pybullet"), (*SAFE, INK), strict=True)
)
LINES = {"all": "-", "first_and_last": (0, (4, 2)), "fifth": (0, (1, 1.5)), "first_and_middle": "-."}
SHORT = {**WORDED, "tumble, continuous": "tumble, cont."}
MANY = 20  # minima, from which on lines and dots are thinner
NAMED = {**SEEN, "pybullet": "PyBullet"}


def draw(out: Path, parts: Mapping[str, dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    words = lame.WORDS + lame.WAYS
    return write_figures(
        out,
        {
            "rigid": (lambda: _rigid(parts), "The mass of a cube", RIGID_WORDS),
            "views": (lambda: _views(parts), "Every view and choice of frames", VIEWS_WORDS),
            "lame": (lambda: lame.draw_lame(parts), "The Lamé parameters of a beam", words),
        },
    )


RIGID_WORDS = (
    "Mean squared difference of pixels from the film of a cube of 1 kg, over the largest of each curve. Dots: minima other than "
    "the truth's. The paper's range; its release draws something like the drift. A cube that tumbles over ground has tens of "
    "minima, in PyBullet as here."
)
VIEWS_WORDS = (
    "The four losses of the paper's release, by view (rows) and motion (columns), each over its largest. Numbers: minima "
    "within the range, and the share of it that leads downhill to the truth, for all frames."
)


def line(ax, values: np.ndarray, curve: Mapping, colour: str, style="-", label: str | None = None) -> None:
    """A curve over its largest, with its minima but for the lowest marked."""
    loss = np.array(curve["loss"]) / max(curve["loss"])
    others = [one for one in curve["minima"] if not one["end"] and one["place"] != curve["lowest"]]
    ax.plot(values, loss, color=colour, ls=style, lw=1.2 if len(others) < MANY else 0.7, label=label)
    size = 4 if len(others) < MANY else 2
    ax.plot([o["place"] for o in others], [o["loss"] for o in others], ".", color=colour, ms=size)


def _rigid(parts: Mapping[str, dict]) -> Figure:
    figure = new_figure(WIDTH, 6.2)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, kind in zip(panels.flat, RIGID, strict=True):
        part = parts[f"curves of {kind}"]
        curves = {view: part["curves"][view] for view in ("coverage", "softras")}
        axes = dict.fromkeys(curves, np.array(part["mass"]))
        box = parts.get(f"PyBullet, {kind}", {})
        if "curves" in box:
            curves["pybullet"], axes["pybullet"] = box["curves"], np.array(box["mass"])
        ax.axvline(TRUE_MASS, color=FAINT, lw=1, zorder=0)
        for view, selections in curves.items():
            for selection in ("all", "first_and_last"):
                label = f"{NAMED[view]}, {FRAMES[selection]}"
                line(ax, axes[view], selections[selection], COLORS[view], LINES[selection], label)
        ax.set_title(WORDED[kind], loc="left", fontsize=10, fontweight="bold")
    for ax in panels[1]:
        ax.set_xlabel("mass [kg]; true: 1")
    for ax in panels[:, 0]:
        ax.set_ylabel("loss / largest loss")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _views(parts: Mapping[str, dict]) -> Figure:
    views = list(parts[f"curves of {RIGID[0]}"]["curves"])
    figure = new_figure(WIDTH, 0.7 + 1.8 * len(views))
    panels = figure.subplots(len(views), len(RIGID), sharex=True, sharey=True)
    for column, kind in zip(panels.T, RIGID, strict=True):
        part = parts[f"curves of {kind}"]
        for ax, view in zip(column, views, strict=True):
            ax.axvline(TRUE_MASS, color=FAINT, lw=1, zorder=0)
            for selection, style in LINES.items():
                curve = part["curves"][view][selection]
                line(ax, np.array(part["mass"]), curve, COLORS[view], style, FRAMES[selection])
            curve_of_all = part["curves"][view]["all"]
            ax.set_title(
                f"{curve_of_all['inner']}; {100 * curve_of_all['share']:.3g} %", loc="right", fontsize=8, color=INK
            )
        column[0].set_title(SHORT[kind], loc="left", fontsize=9, fontweight="bold")
        column[-1].set_xlabel("mass [kg]")
    for ax, view in zip(panels[:, 0], views, strict=True):
        ax.set_ylabel(f"{SEEN[view]}\nloss / largest", fontsize=8)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    return figure
