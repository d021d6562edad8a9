"""The loss over the Lamé parameters of a swinging beam (the paper's Fig. 4b and 11a): cuts, a map, and what finds its way.

μ and λ are the paper's, each 1000 Pa at the truth. Cuts go along one with the other held at the truth; the map has both.
Its valley is narrow and oblique, so that a grid shows minima that are none: descents are the judge.
"""

import numpy as np
import torch

from gradsim_reproduction.landscapes import videos
from gradsim_reproduction.landscapes.curves import kept, rounded
from gradsim_reproduction.landscapes.descents import descended, problem, solved
from gradsim_reproduction.landscapes.scenes import LAME, TRUE_LAME, beam, over
from gradsim_reproduction.landscapes.videos import VIEWS, errors

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
        step: Of its grid [Pa].
    """
    values, scene = axis(step), beam()
    given = {f"body.{name}": torch.tensor(values)}
    model = over(scene, given)
    with torch.no_grad():
        every, true = (model.unchecked(model.values(some), scene.timing.frames) for some in (given, {}))
    found = {}
    for sight, compared in SIGHTS.items():
        error = errors(_view(sight, scene), every, true, compared)
        found[sight] = {label: kept(values, error[:, frames].mean(1)) for label, frames in SELECTIONS.items()}
    loss, slope = videos.adjoint(model, f"body.{name}", VIEWS["coverage"](scene), values)
    return {"values": values.tolist(), "curves": found, "off": videos.off(values, loss, slope).tolist()}


def plane(step: float) -> dict:
    """Losses over both, all frames, by exact coverage and by its CDFs; infinite where a rollout diverges."""
    values, scene = axis(step), beam()
    both = torch.cartesian_prod(torch.tensor(values), torch.tensor(values))
    given = {f"body.{name}": both[:, k] for k, name in enumerate(NAMES)}
    model = over(scene, given)
    with torch.no_grad():
        every, true = (model.unchecked(model.values(some), scene.timing.frames) for some in (given, {}))
    losses = {s: errors(_view(s, scene), every, true, SIGHTS[s]).mean(1) for s in MAPPED}
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
    found = {
        s: descended(one, truth, spread, iterations, "cdf" if s == "cdf" else "pixels") for s in MAPPED if iterations
    }
    return {"descents": found, "least_squares": solved(one, truth, starts, seed)}


def _view(sight: str, scene):
    return VIEWS["coverage" if sight == "cdf" else sight](scene)
