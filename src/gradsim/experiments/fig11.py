"""Landscapes of the Lamé parameters, and of REINFORCE through PyBullet (the paper's Fig. 11).

(a) is the beam of Fig. 4b. (b) are the three cubes of Fig. 4 in PyBullet, whose own film is the target: the reward over the
mass (minus the mean squared difference, with mean 0 and standard deviation 1 over the range), and its product with the
negative log-likelihood of a mass around a current estimate, which is what the method lowers. Over the range that product
is lowest far from the estimate, where the likelihood weighs most, and not at the truth; but the method sees five samples
within some 0.15 kg of its estimate. So REINFORCE itself is run, too, with the paper's numbers (Table 5), from each.
"""

from pathlib import Path

import numpy as np

from gradsim.experiments import fig11_pictures, lame_landscape
from gradsim.experiments.figures import figure, write_result
from gradsim.experiments.landscape_curves import rounded
from gradsim.experiments.landscape_scenes import LAME, RIGID, TRUE_LAME, TRUE_MASS, cube
from gradsim.experiments.ledger import Ledger
from gradsim.experiments.paper_table import write_table
from gradsim.experiments.rigid_landscape import black_box
from gradsim.identify.progress import Progress, Silent

KINDS = RIGID[:3]
FULL = {"bullet": 0.02, "cut": 10.0, "plane": 40.0, "searches": True}
QUICK = {"bullet": 0.1, "cut": 100.0, "plane": 100.0, "searches": False}
HOME = 0.05  # relative error, near the method's own noise of 0.05 kg


def fig11(out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None) -> dict:
    """Run the experiment into a folder; finished parts are kept there, and an interrupted run goes on after them.

    Without PyBullet its part is left out, with a note.

    Args:
        out: Gets result.json, table.md, landscapes.jsonl with all curves, and pictures.
        quick: Coarser grids, and REINFORCE is not run.
        seed: Of REINFORCE's samples.
        progress: Is told what happens.
    """
    out, progress, plan = Path(out), progress or Silent(), QUICK if quick else FULL
    done = Ledger(out / "landscapes.jsonl", {"seed": seed, "plan": plan})
    parts = {}
    for name in lame_landscape.NAMES:
        progress.stage(f"cut along {name}")
        parts[f"cut along {name}"] = done.once(f"cut {name}", lambda n=name: lame_landscape.cut(n, plan["cut"]))
    progress.stage("plane")
    parts["plane"] = done.once("plane", lambda: lame_landscape.plane(plan["plane"]))
    boxes, notes = {}, []
    for kind in KINDS:
        progress.stage(f"PyBullet, {kind}")
        box = done.once(kind, lambda k=kind: black_box(k, plan["bullet"], seed))
        if "missing" in box:
            notes = [box["missing"]]
            continue
        ways = [
            done.once(f"{kind} from {start:g}", lambda k=kind, s=start: searched(k, s, seed))
            for start in (box["estimate"] if plan["searches"] else ())
        ]
        boxes[kind] = {**box, "ways": ways}
    progress.done()
    result = {"title": "Landscapes of Lamé parameters and of REINFORCE", "seed": seed, "notes": notes}
    result["pictures"] = fig11_pictures.draw(out, parts, boxes)
    result["table"] = write_table(out, "Fig. 11", rows(parts, boxes), WORDS)
    return write_result(out, "reproduce fig11", result, figures(parts, boxes))


WORDS = (
    "Paper: where its captions say that the extremum is; for REINFORCE it gives no numbers. Ends are means of the mass after "
    "125 steps of five samples, truth 1 kg."
)


def searched(kind: str, start: float, seed: int) -> dict:
    """The means of REINFORCE from a start [kg], one film of PyBullet a sample."""
    from gradsim.experiments.baselines.bullet import bullet, squared_error
    from gradsim.experiments.baselines.score_function import Plan, reinforce

    with bullet(cube(kind)) as world:
        target = world.film(TRUE_MASS)
        reward = lambda mass: -float(squared_error(world.film(mass), target).mean())
        means = reinforce(reward, start, Plan(), np.random.default_rng([seed, round(1000 * start)]))
    return {"means": rounded(np.array(means))}


def extremes(box: dict) -> dict:
    """Where the reward is highest, and where the product is lowest around each estimate [kg]."""
    mass = np.array(box["mass"])
    lowest = [float(mass[np.argmin(row)]) for row in box["surrogate"]]
    return {"reward": float(mass[np.argmax(box["reward"])]), "surrogate": lowest}


def lowest(plane: dict) -> tuple[float, float]:
    """(μ, λ) of the lowest point of the map by exact coverage [Pa]."""
    values, loss = np.array(plane["values"]), np.array(plane["losses"]["coverage"])
    k, j = np.unravel_index(loss.argmin(), loss.shape)
    return float(values[k]), float(values[j])


def figures(parts: dict, boxes: dict) -> dict[str, dict]:
    """Places of the extremes, numbers of minima, and where REINFORCE ends."""
    mu, lam = lowest(parts["plane"])
    step = parts["plane"]["values"][1] - parts["plane"]["values"][0]
    found = {
        name: figure(value, paper=TRUE_LAME, goal=TRUE_LAME, ok=abs(value - TRUE_LAME) < step)
        for name, value in (("lowest_mu", mu), ("lowest_lam", lam))
    }
    for name in lame_landscape.NAMES:
        curve = parts[f"cut along {name}"]["curves"]["coverage"]["all"]
        found[f"minima_{name}"] = figure(curve["inner"], paper=1)
    for kind, box in boxes.items():
        places = extremes(box)
        found[f"reward_maximum_{kind}"] = figure(places["reward"], paper=TRUE_MASS)
        found[f"reward_maxima_{kind}"] = figure(box["curves"]["all"]["inner"])
        for start, place in zip(box["estimate"], places["surrogate"], strict=True):
            found[f"surrogate_minimum_{kind}_from_{start:g}"] = figure(place)
        for start, way in zip(box["estimate"], box["ways"], strict=False):
            found[f"reinforce_end_{kind}_from_{start:g}"] = figure(way["means"][-1])
        if box["ways"]:
            home = [abs(way["means"][-1] / TRUE_MASS - 1) < HOME for way in box["ways"]]
            found[f"reinforce_home_{kind}"] = figure(float(np.mean(home)))
    return found


def rows(parts: dict, boxes: dict) -> list[dict]:
    """Of the table."""
    mu, lam = lowest(parts["plane"])
    table = [
        {"name": f"(a) lowest of the map, {letter} [Pa]", "paper": TRUE_LAME, "ours": value, "ratio": None}
        for letter, value in (("μ", mu), ("λ", lam))
    ]
    table[0]["note"] = f"over {LAME[0]:g} to {LAME[1]:g} Pa"
    for kind, box in boxes.items():
        maxima = box["curves"]["all"]["inner"]
        note = f"{maxima} {'maximum' if maxima == 1 else 'maxima'} within the range"
        place = extremes(box)["reward"]
        table.append(
            {"name": f"(b) {kind}: highest reward [kg]", "paper": TRUE_MASS, "ours": place, "ratio": None, "note": note}
        )
        for start, way in zip(box["estimate"], box["ways"], strict=False):
            name = f"(b) {kind}: REINFORCE from {start:g} kg ends at [kg]"
            table.append({"name": name, "paper": None, "ours": way["means"][-1]})
    return table
