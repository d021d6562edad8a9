"""The figures and the table of Fig. 4, from its parts."""

import numpy as np

from gradsim_reproduction.landscapes.lame import NAMES
from gradsim_reproduction.landscapes.scenes import RIGID
from gradsim_reproduction.runner import figure
from gradsim_reproduction.tables import short

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
    """A motion as it stands in a key."""
    return kind.replace(", ", "_")


def figures(parts: dict) -> dict[str, dict]:
    """Numbers of minima, basins, gradients and searches.

    Where a curve is lowest has no goal: the truth is a point of its grid, and the film is its own model's.
    """
    found = {}
    for kind in RIGID:
        part, name = parts[f"curves of {kind}"], slug(kind)
        for view, some in part["curves"].items():
            for selection, curve in some.items():
                like = kind == "drift" and view != "cdf"  # the paper's
                label = f"{name}_{view}_{selection}"
                found[f"minima_{label}"] = figure(curve["inner"], paper=PAPER_MINIMA[selection] if like else None)
                found[f"basin_share_{label}"] = figure(curve["share"], paper=PAPER_BASIN[selection] if like else None)
                if selection == "all":
                    found[f"lowest_{label}"] = figure(curve["lowest"])
        found[f"gradient_off_secants_{name}"] = figure(float(np.median(part["off"])))
    for kind in RIGID[:3]:
        found |= _searches(parts[f"searches for {kind}"], slug(kind))
        box = parts[f"PyBullet, {kind}"]
        for selection, curve in box.get("curves", {}).items():
            found[f"minima_{kind}_pybullet_{selection}"] = figure(curve["inner"])
            found[f"basin_share_{kind}_pybullet_{selection}"] = figure(curve["share"])
    return found | _lame(parts) | _searches(parts["searches for lame"], "lame")


def _searches(part: dict, name: str) -> dict[str, dict]:
    """Shares of the starts that come home, and what least squares ends with."""
    found = {f"descents_home_{name}_{loss}": figure(one["share"]) for loss, one in part["descents"].items()}
    least = part["least_squares"]
    found[f"least_squares_home_{name}"] = figure(least["share"])
    return found | {f"least_squares_error_{name}": figure(least["error"], goal=1e-6)}


def _lame(parts: dict) -> dict[str, dict]:
    found = {}
    for name in NAMES:
        part = parts[f"cut along {name}"]
        for sight, some in part["curves"].items():
            for selection, curve in some.items():
                paper = 1 if selection in ("all", "fifth", "tenth") and sight != "cdf" else None
                found[f"minima_{name}_{sight}_{selection}"] = figure(curve["inner"], paper=paper)
                found[f"basin_share_{name}_{sight}_{selection}"] = figure(curve["share"])
            found[f"lowest_{name}_{sight}"] = figure(some["all"]["lowest"])
        found[f"gradient_off_secants_{name}"] = figure(float(np.median(part["off"])))
    return found


def rows(parts: dict) -> list[dict]:
    """Of the table: minima and basin of each curve, with where the second minima are."""
    table = []
    for kind in RIGID:
        for view, some in parts[f"curves of {kind}"]["curves"].items():
            for selection, curve in some.items():
                paper = PAPER_MINIMA[selection] if kind == "drift" and view != "cdf" else None
                table.append(_row(f"{WORDED[kind]}: {SEEN[view]}, {FRAMES[selection]}", paper, curve, "kg"))
        for selection, curve in parts.get(f"PyBullet, {kind}", {}).get("curves", {}).items():
            table.append(_row(f"{WORDED[kind]}: PyBullet, {FRAMES[selection]}", None, curve, "kg"))
    for name in NAMES:
        for sight, some in parts[f"cut along {name}"]["curves"].items():
            for selection, curve in some.items():
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
