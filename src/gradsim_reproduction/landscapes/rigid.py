"""The loss over the mass of a pushed cube (the paper's Fig. 4a), for every view, choice of frames and kind of motion."""

import numpy as np
import torch

from gradsim.errors import InputError
from gradsim.identification.observation.base import Residual
from gradsim.identification.problem import Problem
from gradsim_reproduction.landscapes.curves import curve_record
from gradsim_reproduction.landscapes.descents import problem, run_descents, run_least_squares
from gradsim_reproduction.landscapes.scenes import MASS, TRUE_MASS, cube, over
from gradsim_reproduction.landscapes.videos import NAME, VIEWS, adjoint, errors, gradient_errors, mass_rollouts, masses

SELECTIONS = ("all", "fifth", "first_and_middle", "first_and_last")  # the release's four
UNKNOWNS, TRUTH = [f"{NAME}:{MASS[0]:g}:{MASS[1]:g}"], {NAME: TRUE_MASS}


def select_frames(error: np.ndarray) -> dict[str, np.ndarray]:
    """The mean over each selection of the frames (masses, frames), (masses,) by name."""
    last = error.shape[1] - 1
    frames = {"all": slice(None), "fifth": slice(None, None, 5)}
    frames |= {"first_and_middle": [0, last // 2], "first_and_last": [0, last]}
    return {name: error[:, frames[name]].mean(1) for name in SELECTIONS}


def curves(kind: str, step: float, views: tuple[str, ...]) -> dict:
    """The curves of a cube of this kind over the paper's range.

    Args:
        kind: A member of `RIGID`.
        step: Step of the grid [kg].
        views: Keys of `VIEWS`, or "cdf": coverage, compared by its CDFs.

    Returns:
        "mass", "curves" by view and selection, and "off", the relative distance of the adjoint's derivative from secants
        one step to either side, by exact coverage and all frames.
    """
    mass, scene = masses(step), cube(kind)
    model = over(scene, {NAME: torch.tensor(mass)})
    trajectories, true = mass_rollouts(model, mass)
    by_view = {}
    for view in views:
        draw, compared = (VIEWS["coverage"], "cdf") if view == "cdf" else (VIEWS[view], "pixels")
        losses = select_frames(errors(draw(scene), trajectories, true, compared))
        by_view[view] = {name: curve_record(mass, loss) for name, loss in losses.items()}
    apart = gradient_errors(mass, *adjoint(model, NAME, VIEWS["coverage"](scene), mass))
    return {"mass": mass.tolist(), "curves": by_view, "off": apart.tolist()}


def searches(kind: str, starts: int, iterations: int, seed: int) -> dict:
    """Shares of the range from which a search converges: descents on pixels, on first and last frame and on CDFs, from
    starts that are spread evenly; and least squares with its growing clip, from random ones. Without iterations there are
    no descents."""
    scene, spread = cube(kind), torch.linspace(*MASS, starts, dtype=torch.float64)[:, None]
    all_frames, ends = (problem(scene, UNKNOWNS, TRUTH, ends_only) for ends_only in (False, True))
    plans: dict[str, tuple[Problem, Residual]] = {
        "all": (all_frames, "pixels"),
        "first_and_last": (ends, "pixels"),
        "cdf": (all_frames, "cdf"),
    }
    descents = {
        name: run_descents(one, TRUTH, spread, iterations, residual)
        for name, (one, residual) in plans.items()
        if iterations
    }
    return {"descents": descents, "least_squares": run_least_squares(all_frames, TRUTH, starts, seed)}


def black_box(kind: str, step: float, seed: int) -> dict:
    """PyBullet's curves of the same scene, its own video being the target; or "missing": why there are none."""
    from gradsim_reproduction.baselines import pybullet_landscape

    mass = masses(step)
    try:
        landscape = pybullet_landscape(mass, cube(kind), TRUE_MASS, seed=seed)
    except InputError as error:
        return {"missing": str(error)}
    curves = {"all": landscape.pop("mse"), "first_and_last": landscape.pop("mse_ends")}
    rounded_values = {name: np.round(value, 6).tolist() for name, value in landscape.items()}
    return {"curves": {name: curve_record(mass, loss) for name, loss in curves.items()}, **rounded_values}
