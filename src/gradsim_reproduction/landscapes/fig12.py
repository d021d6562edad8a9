"""The loss over a mass by length and by frame rate of the film (the paper's Fig. 12).

The paper finds shorter films steeper, the rate of frames of influence, and one minimum throughout. Here the motions of
Fig. 4 are filmed at 120 Hz for 2 s; every shorter film and every lower rate is a choice of these frames, so that the motion
is the same throughout. For each: the minima, the basin (share of the range that leads downhill to the truth), the
curvature at the truth

    L″ = 2 mean (∂I/∂m)²

over pixels and frames, and the bound that film sets for the mass, σ/√(Σ (∂I/∂m)²) with σ = 1/255 for a pixel. Beside
them, for films of 30 Hz, the share of evenly spread starts from which Adam ends within 1 % of the truth.
"""

from collections.abc import Iterator

import numpy as np
import torch

from gradsim.identification.observation.from_video import NOMINAL
from gradsim_reproduction.landscapes import fig12_plots
from gradsim_reproduction.landscapes.curves import kept
from gradsim_reproduction.landscapes.descents import descended, problem
from gradsim_reproduction.landscapes.rigid import TRUTH, UNKNOWNS
from gradsim_reproduction.landscapes.scenes import GRID_STEP, MASS, RIGID, TRUE_MASS, cube, over
from gradsim_reproduction.landscapes.videos import NAME, VIEWS, errors, masses, moved
from gradsim_reproduction.runner import Outcome, Run, experiment, figure
from gradsim_reproduction.tables import short, write_table

KINDS = RIGID[:3]
FINEST = 120  # [Hz]
RATES = (15, 30, 60, 120)  # [Hz]
SPANS = (2 / 15, 1 / 3, 2 / 3, 4 / 3, 2.0)  # [s]: 4, 10, 20, 40 and 60 intervals at 30 Hz
ENDS = "first_and_last"
NEAR = 1e-6  # [kg] half width of the secant that stands for ∂I/∂m: narrower than any tooth of the paper's law
FULL = {"step": 2 * GRID_STEP, "starts": 7, "iterations": 100}
QUICK = {"step": 0.05, "starts": 5, "iterations": 0}


@experiment("fig12", "Loss landscapes by length and frame rate")
def fig12(run: Run) -> Outcome:
    """Compute curves and descents; writes table.md, landscapes.jsonl and plots. Quick: a coarser grid, no descents."""
    plan = QUICK if run.quick else FULL
    ledger = run.ledger("landscapes.jsonl", plan=plan)
    videos = {kind: ledger.once(kind, curves, kind, plan["step"]) for kind in KINDS}
    homes = {
        (kind, span): ledger.once(
            f"descents {kind} {named(span)}", descents, kind, span, plan["starts"], plan["iterations"]
        )
        for kind in KINDS
        for span in (SPANS if plan["iterations"] else ())
    }
    title = "Fig. 12: minima by length and frame rate"
    result: dict = {"pictures": fig12_plots.draw(run.out, videos)}
    result["table"] = write_table(run.out, title, rows(videos, homes), WORDS)
    return result, figures(videos, homes)


WORDS = (
    "Minima within the range. Basin: the share of the range that leads downhill to the truth; home: the share of starts of "
    "Adam that end there. Curvature of the mean squared difference; bound: the standard deviation of the mass at σ = 1/255."
)


def named(span: float, rate: int | str = "") -> str:
    """A film in a key: length in milliseconds, rate, or that only its first and last frame count."""
    return f"{round(1000 * span)}ms" + (f"_{rate}hz" if isinstance(rate, int) else f"_{rate}" * bool(rate))


def choices() -> Iterator[tuple[float, int | str, list[int]]]:
    """Length, rate and frames (of those at 120 Hz) of every film; the first and last frame apart."""
    for span in SPANS:
        last = round(span * FINEST)
        for rate in RATES:
            yield span, rate, list(range(0, last + 1, FINEST // rate))
        yield span, ENDS, [0, last]


def curves(kind: str, step: float) -> dict:
    """Curves of every film of a motion, with its "bound" [kg] and its "curvature" at the truth [1/kg²]."""
    mass, scene = masses(step), cube(kind, FINEST)
    model, view = over(scene, {NAME: torch.tensor(mass)}), VIEWS["coverage"](scene)
    every, true = moved(model, mass)
    error = errors(view, every, true)
    ahead, _ = moved(model, np.array([TRUE_MASS + NEAR]))
    behind, _ = moved(model, np.array([TRUE_MASS - NEAR]))
    steep = errors(view, ahead, behind)[0] / (2 * NEAR) ** 2  # mean (∂I/∂m)² over the pixels of each frame
    height, width = scene.view("camera").size
    films = {}
    for span, rate, frames in choices():
        curve = kept(mass, error[:, frames].mean(1))
        told = height * width * steep[frames].sum()
        curve |= {
            "curvature": 2 * steep[frames].mean(),
            "bound": NOMINAL / np.sqrt(told),
            "largest": max(curve["loss"]),
        }
        films[named(span, rate)] = curve
    return {"mass": mass.tolist(), "films": films}


def descents(kind: str, span: float, starts: int, iterations: int) -> dict:
    """Adam on all pixels of a film of 30 Hz, from starts that are spread evenly over the range."""
    spread = torch.linspace(*MASS, starts, dtype=torch.float64)[:, None]
    return descended(problem(cube(kind, 30, span), UNKNOWNS, TRUTH), TRUTH, spread, iterations)


def figures(films: dict, homes: dict) -> dict[str, dict]:
    """Minima, basin, curvature and bound of every film, and the descents."""
    found = {}
    for kind, part in films.items():
        for key, curve in part["films"].items():
            found[f"minima_{kind}_{key}"] = figure(curve["inner"], paper=1)
            found[f"basin_share_{kind}_{key}"] = figure(curve["share"])
            found[f"curvature_{kind}_{key}"] = figure(curve["curvature"])
            found[f"bound_{kind}_{key}"] = figure(curve["bound"])
    for (kind, span), home in homes.items():
        found[f"descents_home_{kind}_{named(span, 30)}"] = figure(home["share"])
    return found


def rows(films: dict, homes: dict) -> list[dict]:
    """One for each film."""
    table = []
    for kind, part in films.items():
        for span, rate, _ in choices():
            curve = part["films"][named(span, rate)]
            how = "first and last frame" if rate == ENDS else f"{rate} Hz"
            note = f"basin {100 * curve['share']:.3g} %, curvature {short(curve['curvature'])} /kg², bound "
            note += f"{short(1000 * curve['bound'])} g"
            if rate == 30 and (kind, span) in homes:
                note += f"; home {100 * homes[kind, span]['share']:.0f} %"
            name = f"{kind}, {span:.2f} s, {how}"
            table.append({"name": name, "paper": 1, "ours": curve["inner"], "ratio": None, "note": note})
    return table
