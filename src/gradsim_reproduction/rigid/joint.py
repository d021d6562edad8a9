"""Mass, stiffness, damping and both frictions at once, over random scenes (the paper's Table 2, from honest starts).

Truths and starts are uniform over the same ranges, from different streams. Each scene is fitted to float frames, which
tests that nothing is lost on the way there and back, and to 8-bit frames with noise, which tests the error bars. With
`foreign`, the targets come from another renderer and four times the substeps.

What is identifiable is judged at the truth, which no fit sees: every relative bound below 10 % at σ = 1/255.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import States
from gradsim.identification.observation.from_video import NOMINAL_NOISE
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.uncertainty.fisher import analyze
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.runtime.progress import Progress, progress_callback
from gradsim_reproduction.observation_modes import observe
from gradsim_reproduction.rigid import joint_plots
from gradsim_reproduction.rigid.joint_scenes import CONVEX, LAWS, OTHER, Case, case
from gradsim_reproduction.runner import Outcome, Run, experiment

GROUPS = {"convex": CONVEX, "other": OTHER}
PAPER = {"mass": 2.87e-4, "stiffness": 0.0026, "damping": 0.4, "friction_stiffness": 0.0017, "friction": 0.0073}
SCENES = {"float": 20, "8bit": 6, "foreign": 2}  # of each law and group
QUICK = {"float": 2, "8bit": 1, "foreign": 2}
SOLVED = 1e-6  # largest relative error of a solved scene, from float frames


@experiment("joint", "Joint identification of five parameters")
def joint(run: Run, foreign: bool = False) -> Outcome:
    """Fit all scenes; writes fits.jsonl and plots.

    Args:
        run: Quick: 2 scenes of each law and group, one of them in 8 bits.
        foreign: Whether targets come from another renderer and finer steps.
    """
    modes = ("foreign",) if foreign else ("float", "8bit")
    ledger, records = run.ledger("fits.jsonl"), []
    for number, law, group, mode in _plan(QUICK if run.quick else SCENES, modes):
        shape = GROUPS[group][number % len(GROUPS[group])]
        named = {"law": law, "group": group, "shape": shape, "number": number, "frames": mode}
        make = lambda named=named: (
            named
            | solve(
                case(named["law"], named["shape"], named["number"], run.seed, run.out / "meshes"),
                100 * run.seed + named["number"],
                named["frames"],
                run.progress,
            )
        )
        records.append(ledger.once(f"{law} {shape} {number} {mode} seed {run.seed}", make))
    images = joint_plots.draw(run.out, records, PAPER, run.seed)
    return {"records": records, "images": images}, summary(records, foreign)


def _plan(scenes: dict[str, int], kinds: tuple[str, ...]) -> Iterator[tuple[int, str, str, str]]:
    for frames in kinds:
        for number in range(scenes[frames]):
            for law in LAWS:
                for group in GROUPS:
                    yield number, law, group, frames


def solve(one: Case, seed: int, frames: str, progress: Progress) -> dict:
    """Fit one scene; its result and the truth."""
    truth = synthetic.draw_truth(one.scene, one.unknowns, seed)
    space = Space(one.scene, one.unknowns)
    if frames == "foreign":
        one = replace(one, scene=synthetic.default_steps(one.scene))
    model = model_for(one.scene, space) if frames == "foreign" else Model(synthetic.own_steps(one.scene))
    observation = observe(one.scene, truth, model, frames, seed)
    at_truth = bounds(Problem(model, observation, space), truth)
    report = progress_callback(progress)
    fit = least_squares(one.scene, observation, one.unknowns, MultistartConfig(), seed, report=report, model=model)
    return {"identifiable": all(b < 0.1 for b in at_truth.values()), "bounds": at_truth, **outcome(fit, truth)}


def bounds(problem: Problem, truth: dict[str, float]) -> dict[str, float]:
    """Relative Cramér–Rao bounds at the truth, at σ = 1/255."""
    space = problem.space
    u = space.inner(torch.tensor([[truth[name] for name in space.names]], dtype=torch.float64))
    _, A, _ = problem.linearize(u, problem.frames)
    sigma = NOMINAL_NOISE if isinstance(problem.observation, States) else problem.observation.sigma
    fisher = A[0] * (sigma / NOMINAL_NOISE) ** 2
    return dict(zip(space.names, analyze(space, fisher, True).relative.tolist(), strict=True))


def outcome(fit: Fit, truth: dict[str, float]) -> dict:
    """Result of a fit, and its errors."""
    unknowns = fit.unknowns
    inside = {n: bool(e.interval95[0] <= truth[n] <= e.interval95[1]) for n, e in unknowns.items()}
    return {
        "status": fit.status,
        "truth": truth,
        "values": fit.values,
        "errors": {n: abs(e.value / truth[n] - 1) for n, e in unknowns.items()},
        "z": {n: (e.value - truth[n]) / e.std for n, e in unknowns.items()},
        "inside": inside,
        "kinked": fit.nonsmooth,
        "chi2_per_n": fit.chi2_per_n,
        "converged": fit.starts["converged"] / fit.starts["count"],
        "cpu_seconds": fit.cpu_seconds,
        "rollouts": fit.rollouts,
    }


def summary(records: list[dict], foreign: bool) -> dict[str, dict]:
    """The figures: of all float fits, of each law and group apart, and of the 8-bit fits."""
    exact = [r for r in records if r["frames"] != "8bit"]
    figures = _figures(exact, foreign)
    for law in LAWS:
        for group in GROUPS:
            part = [r for r in exact if (r["law"], r["group"]) == (law, group)]
            if part:
                figures |= {f"{key} ({law}, {group})": value for key, value in _figures(part, foreign).items()}
    noisy = [r for r in records if r["frames"] == "8bit" and r["identifiable"]]
    if noisy:
        figures |= _error_bars(noisy)
    return figures


def _figures(records: list[dict], foreign: bool) -> dict[str, dict]:
    known = [r for r in records if r["identifiable"]]
    worst = [max(r["errors"].values()) for r in known] or [math.nan]
    share = len(known) / len(records)
    missed = sum(not r["identifiable"] and r["status"] == Status.OK for r in records)
    figures = {
        "identifiable_share": figure(share, goal=0.8, ok=share >= 0.8),
        "missed_flags": figure(missed, goal=0),
        "false_flags": figure(sum(r["status"] == Status.UNIDENTIFIABLE for r in known), goal=0),
        "starts_converged": figure(float(np.mean([r["converged"] for r in known] or [math.nan]))),
        "cpu_seconds_median": figure(float(np.median([r["cpu_seconds"] for r in records])), goal=2.0),
        "rel_err_median": figure(float(np.median(worst)), goal=None if foreign else 1e-9),
        "rel_err_worst": figure(max(worst), goal=None if foreign else SOLVED),
    }
    if not foreign:
        solved = float(np.mean(np.array(worst) < SOLVED))
        figures["solved_of_identifiable"] = figure(solved, goal=1.0, ok=solved == 1.0)
    for key, paper in PAPER.items():
        errors = [e for r in known for n, e in r["errors"].items() if _means(n, key)]
        figures[f"rel_err_median_{key}"] = figure(float(np.median(errors or [math.nan])), paper=paper, goal=paper)
    return figures


def _means(name: str, key: str) -> bool:
    """True if an unknown is this quantity of the paper; dissipation is the continuous law's damping."""
    last = name.rpartition(".")[2]
    return last == key or (key == "damping" and last == "dissipation")


def _error_bars(records: list[dict]) -> dict[str, dict]:
    """Errors over error bars of 8-bit fits, where the likelihood is smooth; coverage where it is kinked, and over all."""
    smooth = np.array([list(r["z"].values()) for r in records if not r["kinked"] and r["status"] == Status.OK])
    covered = [inside for r in records for inside in r["inside"].values()]
    nonsmooth = [inside for r in records if r["kinked"] for inside in r["inside"].values()]
    z = np.abs(smooth).ravel() if len(smooth) else np.array([math.nan])
    rms, tail = float(np.sqrt(np.mean(z**2))), float(np.quantile(z, 0.95))
    low = 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(covered))  # three standard deviations of a fair count
    share = float(np.mean(covered))
    return {
        "z_rms": figure(rms, goal=1.2),
        "z_95": figure(tail, goal=2.3),
        "z_count": figure(len(z)),
        "covered_by_95": figure(share, goal=low, ok=share >= low),
        "covered_by_95_kinked": figure(float(np.mean(nonsmooth)) if nonsmooth else math.nan),
        "kinked_share": figure(float(np.mean([r["kinked"] for r in records]))),
        "mismatch_8bit": figure(sum(r["status"] == Status.MISMATCH for r in records), goal=0),
        "cpu_seconds_median_8bit": figure(float(np.median([r["cpu_seconds"] for r in records]))),
    }
