"""The loss over the Lamé parameters of a swinging beam (the paper's Fig. 4b and 11a): cuts, a map, and what converges.

μ and λ are the paper's, each 1000 Pa at the truth. Cuts go along one with the other held at the truth; the map has both.
Its valley is narrow and oblique, so that a grid shows minima that are none: descents are the judge.
"""

from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from gradsim_reproduction.landscapes import videos
from gradsim_reproduction.landscapes.curves import curve_record, rounded
from gradsim_reproduction.landscapes.descents import problem, run_descents, run_least_squares
from gradsim_reproduction.landscapes.scenes import LAME, TRUE_LAME, beam, over
from gradsim_reproduction.landscapes.videos import VIEWS, errors
from gradsim_reproduction.plotting import FAINT, SAFE, WIDTH, new_figure

NAMES = ("mu", "lam")
SIGHTS = {"softras": "pixels", "coverage": "pixels", "cdf": "cdf"}  # view and what of it is compared
MAPPED = ("coverage", "cdf")
SELECTIONS = {"all": slice(None), "fifth": slice(None, None, 5), "tenth": slice(None, None, 10), "ends": [0, -1]}


def axis(step: float) -> np.ndarray:
    """The range of either parameter [Pa]; a step that divides 200 has the truth among its points."""
    return np.arange(LAME[0], LAME[1] + step / 2, step)


def cut(name: str, step: float) -> dict:
    """Losses along one parameter, by sight and selection of frames, and the adjoint's derivative against secants.

    Args:
        name: "mu" or "lam".
        step: Step of its grid [Pa].
    """
    values, scene = axis(step), beam()
    grid = {f"body.{name}": torch.tensor(values)}
    model = over(scene, grid)
    with torch.no_grad():
        trajectories, true = (
            model.rollout_unchecked(model.values(parameters), scene.timing.frames) for parameters in (grid, {})
        )
    by_view = {}
    for view, compared in SIGHTS.items():
        error = errors(_view(view, scene), trajectories, true, compared)
        by_view[view] = {label: curve_record(values, error[:, frames].mean(1)) for label, frames in SELECTIONS.items()}
    loss, slope = videos.adjoint(model, f"body.{name}", VIEWS["coverage"](scene), values)
    return {"values": values.tolist(), "curves": by_view, "off": videos.gradient_errors(values, loss, slope).tolist()}


def plane(step: float) -> dict:
    """Losses over both, all frames, by exact coverage and by its CDFs; infinite where a rollout diverges."""
    values, scene = axis(step), beam()
    both = torch.cartesian_prod(torch.tensor(values), torch.tensor(values))
    moduli = {f"body.{name}": both[:, k] for k, name in enumerate(NAMES)}
    model = over(scene, moduli)
    with torch.no_grad():
        trajectories, true = (
            model.rollout_unchecked(model.values(parameters), scene.timing.frames) for parameters in (moduli, {})
        )
    losses = {s: errors(_view(s, scene), trajectories, true, SIGHTS[s]).mean(1) for s in MAPPED}
    grids = {s: np.where(np.isfinite(loss), loss, np.inf).reshape(len(values), -1) for s, loss in losses.items()}
    return {"values": values.tolist(), "losses": {s: rounded(grid) for s, grid in grids.items()}}


def searches(edge: int, iterations: int, starts: int, seed: int) -> dict:
    """Descents on pixels and on CDFs from edge² starts that are spread evenly, and least squares from random ones.

    Without iterations there are no descents.
    """
    unknowns = [f"body.{name}:{LAME[0]:g}:{LAME[1]:g}" for name in NAMES]
    truth = {f"body.{name}": TRUE_LAME for name in NAMES}
    one = problem(beam(), unknowns, truth)
    line = torch.linspace(*LAME, edge, dtype=torch.float64)
    spread = torch.cartesian_prod(line, line)
    descents = {
        s: run_descents(one, truth, spread, iterations, "cdf" if s == "cdf" else "pixels") for s in MAPPED if iterations
    }
    return {"descents": descents, "least_squares": run_least_squares(one, truth, starts, seed)}


def _view(view: str, scene):
    return VIEWS["coverage" if view == "cdf" else view](scene)


COLORS = {"coverage": SAFE[0], "softras": SAFE[1], "cdf": SAFE[3]}
TITLES = {"coverage": "exact coverage", "softras": "SoftRas", "cdf": "CDF"}
LINES = {"all": "-", "tenth": (0, (1, 1.5)), "ends": (0, (4, 2))}
FRAMES = {"all": "all frames", "tenth": "every tenth", "ends": "first and last"}
LETTERS = {"mu": "μ", "lam": "λ"}
RANGE = 1e6  # largest loss over the smallest that the scale shows
WORDS = (
    "Above: cuts through the truth, over the largest of each curve; dots: minima other than the truth's. Below: all frames, "
    "on a logarithmic scale; crosses: the truth."
)
WAYS = " Squares with lines: evenly spread starts of Adam and where they ended, filled where within 1 % of the truth."


def draw_lame(parts: Mapping[str, dict]) -> Figure:
    """Cuts above, maps below."""
    figure = new_figure(WIDTH, 7.4)
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.25), squeeze=False)[:, 0]
    cuts = above.subplots(1, 2, sharey=True)
    for ax, name in zip(cuts, NAMES, strict=True):
        _cut(ax, parts[f"cut along {name}"], name)
    cuts[0].set_ylabel("loss / largest loss")
    handles, labels = cuts[0].get_legend_handles_labels()
    above.legend(handles, labels, fontsize=8, ncols=3, loc="outside lower center")
    maps = below.subplots(1, 2, sharex=True, sharey=True)
    for ax, view in zip(maps, ("coverage", "cdf"), strict=True):
        _map(below, ax, parts, view)
    maps[0].set_ylabel("λ [Pa]")
    return figure


def _cut(ax, part: Mapping, name: str) -> None:
    values = np.array(part["values"])
    ax.axvline(TRUE_LAME, color=FAINT, lw=1, zorder=0)
    for view, selections in part["curves"].items():
        for selection, style in LINES.items():
            curve = selections[selection]
            label = f"{TITLES[view]}, {FRAMES[selection]}"
            loss = np.array(curve["loss"]) / max(curve["loss"])
            ax.plot(values, loss, color=COLORS[view], ls=style, lw=1.2, label=label)
            others = [one for one in curve["minima"] if not one["end"] and one["place"] != curve["lowest"]]
            ax.plot([o["place"] for o in others], [o["loss"] for o in others], ".", color=COLORS[view], ms=5)
    ax.set_xlabel(f"{LETTERS[name]} [Pa]; true: 1000")


def _map(figure, ax, parts: Mapping, view: str) -> None:
    plane, searches = parts["plane"], parts.get("searches for lame", {"descents": {}})["descents"].get(view)
    values = np.array(plane["values"])
    loss = np.array(plane["losses"][view])
    top = loss[np.isfinite(loss)].max()
    shades = LogNorm(top / RANGE, top)
    clipped = np.maximum(np.where(np.isfinite(loss), loss, np.nan), top / RANGE)
    ax.set_facecolor(FAINT)  # where rollouts diverge
    ax.pcolormesh(values, values, clipped.T, norm=shades, cmap="viridis", shading="nearest", rasterized=True)
    figure.colorbar(ScalarMappable(shades, "viridis"), ax=ax, label="loss", location="right", shrink=0.9)
    for start, end in zip(searches["starts"], searches["ends"], strict=True) if searches else ():
        home = np.abs(np.array(end) / TRUE_LAME - 1).max() < 0.01
        ax.plot(*zip(start, end, strict=True), "-", color="white", lw=0.6, alpha=0.7, clip_on=False)
        ax.plot(*start, "s", mec="white", mfc="white" if home else "none", ms=4, clip_on=False)
    ax.plot(TRUE_LAME, TRUE_LAME, "x", color="#d55e00", ms=9, mew=2)
    ax.set(xlabel="μ [Pa]", xlim=LAME, ylim=LAME)
    share = f": {100 * searches['share']:.0f} % of the starts come home" if searches else ""
    ax.set_title(TITLES[view] + share, fontsize=9)
