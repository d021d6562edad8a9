"""Landscapes of the Lamé parameters, and of REINFORCE through PyBullet (the paper's Fig. 11).

(a) is the beam of Fig. 4b. (b) are the three cubes of Fig. 4 in PyBullet, whose own video is the target: the reward over the
mass (H.1: minus the sum of the frames' L2 distances, here with mean 0 and standard deviation 1 over the range), and its
product with the negative log-likelihood of a mass around a current estimate, which is what the method lowers. Over the
range that product is lowest far from the estimate, where the likelihood weighs most, and not at the truth; but the method
sees five samples within some 0.15 kg of its estimate. So REINFORCE itself is run, too, with the paper's numbers (Table 5),
from each. The paper does not name the rate of its optimiser: each start gets three, and shows the one whose last mean has
the lowest loss, which the method sees without the truth.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim_reproduction.landscapes import lame
from gradsim_reproduction.landscapes.curves import minima, rounded
from gradsim_reproduction.landscapes.rigid import black_box
from gradsim_reproduction.landscapes.scenes import LAME, RIGID, TRUE_LAME, TRUE_MASS, cube
from gradsim_reproduction.plotting import FAINT, INK, SAFE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import short, write_table

KINDS = RIGID[:3]
RATES = (0.1, 0.3, 0.8)  # [kg] a step of Adam: small for this range, between, and the one for bodies of 2 to 12 kg
FULL = {"bullet": 0.02, "cut": 10.0, "plane": 40.0, "rates": RATES}
QUICK = {"bullet": 0.1, "cut": 100.0, "plane": 100.0, "rates": ()}
HOME = 0.05  # relative error, near the method's own noise of 0.05 kg


@experiment("fig11", "Landscapes of Lamé parameters and of REINFORCE")
def fig11(run: Run) -> Outcome:
    """Compute both parts; writes table.md, landscapes.jsonl with all curves, and plots.

    Without PyBullet its part is left out, with a note. Quick: coarser grids, and no REINFORCE.
    """
    plan = QUICK if run.quick else FULL
    ledger = run.ledger("landscapes.jsonl", plan=plan)
    parts = {f"cut along {name}": ledger.once(f"cut {name}", lame.cut, name, plan["cut"]) for name in lame.NAMES}
    parts["plane"] = ledger.once("plane", lame.plane, plan["plane"])
    boxes, notes = {}, []
    for kind in KINDS:
        box = ledger.once(kind, black_box, kind, plan["bullet"], run.seed)
        if "missing" in box:
            notes = [box["missing"]]
            continue
        searches = [
            best_first(
                ledger.once(f"{kind} from {start:g} at {rate:g}", reinforce_search, kind, start, rate, run.seed)
                for rate in plan["rates"]
            )
            for start in box["estimate"]
        ]
        boxes[kind] = {**box, "ways": searches if plan["rates"] else []}
    result = {"notes": notes, "images": draw(run.out, parts, boxes)}
    result["table"] = write_table(run.out, "Fig. 11", rows(parts, boxes), WORDS)
    return result, figures(parts, boxes)


WORDS = (
    "Paper: where its captions say that the extremum is; for REINFORCE it gives no numbers. Ends are means of the mass after "
    "125 steps of five samples, truth 1 kg, by the rate of Adam whose end has the lowest loss."
)


def reinforce_search(kind: str, start: float, rate: float, seed: int) -> dict:
    """REINFORCE from a start by a rate of Adam [kg]: its "means", and the "loss" of the last. A sample is a video."""
    from gradsim_reproduction.baselines.bullet import bullet, reward_of, squared_error
    from gradsim_reproduction.baselines.reinforce import Plan, reinforce

    with bullet(cube(kind)) as world:
        target = world.video(TRUE_MASS)
        reward = lambda mass: float(reward_of(squared_error(world.video(mass), target)))
        means = reinforce(reward, start, Plan(rate=rate), np.random.default_rng([seed, round(1000 * start)]))
        loss = -reward(means[-1])
    return {"rate": rate, "means": rounded(np.array(means)), "loss": loss}


def best_first(ways: Iterable[dict]) -> list[dict]:
    """Searches from one start, by their last loss; where it is the same, the smaller rate first."""
    return sorted(ways, key=lambda way: (way["loss"], way["rate"]))


def extremes(box: dict) -> dict:
    """Masses of the highest reward, and of the lowest product around each estimate [kg]."""
    mass = np.array(box["mass"])
    lowest = [float(mass[np.argmin(row)]) for row in box["surrogate"]]
    return {"reward": float(mass[np.argmax(box["reward"])]), "surrogate": lowest}


def maxima(box: dict) -> int:
    """Number of maxima of the reward within the range."""
    reward = np.array(box["reward"])
    return sum(not one.end for one in minima(np.array(box["mass"]), reward.max() - reward))


def lowest(plane: dict) -> tuple[float, float]:
    """(μ, λ) of the lowest point of the map by exact coverage [Pa]."""
    values, loss = np.array(plane["values"]), np.array(plane["losses"]["coverage"])
    k, j = np.unravel_index(loss.argmin(), loss.shape)
    return float(values[k]), float(values[j])


def figures(parts: dict, boxes: dict) -> dict[str, dict]:
    """Places of the extremes, numbers of minima, and where REINFORCE ends."""
    mu, lam = lowest(parts["plane"])
    # no goals: the truth is a point of the grid, and the video our own, so that nothing could be lower
    by_name = {"lowest_mu": figure(mu, paper=TRUE_LAME), "lowest_lam": figure(lam, paper=TRUE_LAME)}
    for name in lame.NAMES:
        curve = parts[f"cut along {name}"]["curves"]["coverage"]["all"]
        by_name[f"minima_{name}"] = figure(curve["inner"], paper=1)
    for kind, box in boxes.items():
        places = extremes(box)
        by_name[f"reward_maximum_{kind}"] = figure(places["reward"], paper=TRUE_MASS)
        by_name[f"reward_maxima_{kind}"] = figure(maxima(box))
        for start, place in zip(box["estimate"], places["surrogate"], strict=True):
            by_name[f"surrogate_minimum_{kind}_from_{start:g}"] = figure(place)
        for start, ways in zip(box["estimate"], box["ways"], strict=False):
            label = f"{kind}_from_{start:g}"
            by_name[f"reinforce_end_{label}"] = figure(ways[0]["means"][-1])
            by_name[f"reinforce_rate_{label}"] = figure(ways[0]["rate"])
        if box["ways"]:
            by_name[f"reinforce_home_{kind}"] = figure(home([ways[0] for ways in box["ways"]]))
            for rate in RATES:
                part = [way for ways in box["ways"] for way in ways if way["rate"] == rate]
                by_name[f"reinforce_home_{kind}_at_{rate:g}"] = figure(home(part))
    return by_name


def home(ways: list[dict]) -> float:
    """Share of the searches that end at the truth."""
    return float(np.mean([abs(way["means"][-1] / TRUE_MASS - 1) < HOME for way in ways]))


def rows(parts: dict, boxes: dict) -> list[dict]:
    """Rows of the table."""
    mu, lam = lowest(parts["plane"])
    table = [
        {"name": f"(a) lowest of the map, {letter} [Pa]", "paper": TRUE_LAME, "ours": value, "ratio": None}
        for letter, value in (("μ", mu), ("λ", lam))
    ]
    table[0]["note"] = f"over {LAME[0]:g} to {LAME[1]:g} Pa"
    for kind, box in boxes.items():
        count = maxima(box)
        note = f"{count} {'maximum' if count == 1 else 'maxima'} within the range"
        place = extremes(box)["reward"]
        table.append(
            {"name": f"(b) {kind}: highest reward [kg]", "paper": TRUE_MASS, "ours": place, "ratio": None, "note": note}
        )
        for start, (best, *others) in zip(box["estimate"], box["ways"], strict=False):
            name = f"(b) {kind}: REINFORCE from {start:g} kg ends at [kg]"
            rest = ", ".join(f"{short(way['means'][-1])} at {way['rate']:g}" for way in others)
            note = f"rate {best['rate']:g}; {rest}"
            table.append({"name": name, "paper": None, "ours": best["means"][-1], "note": note})
    return table


BULLET_WORDS = (
    "The cubes of Fig. 4 in PyBullet, 1 kg at the truth. Above: the reward over the range. Middle: its product with the negative "
    "log-likelihood of a mass around three estimates (dots: the estimate), which REINFORCE lowers by five samples at the "
    "estimate. Below: the means of REINFORCE from there, by the rate of Adam whose end has the lowest loss; thin: by the others."
)


def draw(out: Path, parts: Mapping[str, dict], boxes: Mapping[str, dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    figures = {"lame": (lambda: lame.draw_lame(parts), "(a) The Lamé parameters of a beam", lame.WORDS)}
    if boxes:
        figures["pybullet"] = lambda: _boxes(boxes), "(b) PyBullet and REINFORCE", BULLET_WORDS
    return write_figures(out, figures)


def _boxes(boxes: Mapping[str, dict]) -> Figure:
    reinforce_search = any(box["ways"] for box in boxes.values())
    rows = 3 if reinforce_search else 2
    figure = new_figure(8.6, 2.3 * rows + 0.3)
    panels = figure.subplots(rows, len(boxes), sharey="row", squeeze=False)
    for column, (kind, box) in zip(panels.T, boxes.items(), strict=True):
        mass = np.array(box["mass"])
        for ax in column[:2]:
            ax.axvline(1, color=FAINT, lw=1, zorder=0)
            ax.set_xlabel("mass [kg]")
        column[0].plot(mass, box["reward"], color=INK, lw=1.2)
        for colour, start, row in zip(SAFE, box["estimate"], box["surrogate"], strict=False):
            column[1].plot(mass, row, color=colour, lw=1.2, label=f"estimate {start:g} kg")
            column[1].plot(start, np.interp(start, mass, row), "o", color=colour, ms=4)
        column[1].set_yscale("symlog", linthresh=1)
        for colour, (best, *others) in zip(SAFE, box["ways"], strict=False):
            for way in others:
                column[2].plot(way["means"], color=colour, lw=0.7, alpha=0.4)
            column[2].plot(best["means"], color=colour, lw=1.6)
            column[2].axhline(1, color=FAINT, lw=1, zorder=0)
            column[2].set_xlabel("steps")
        column[0].set_title(kind, loc="left", fontsize=10, fontweight="bold")
    for ax, title in zip(panels[:, 0], ("reward", "reward × likelihood", "mean mass [kg]"), strict=False):
        ax.set_ylabel(title)
    figure.legend(*panels[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure
