"""Coverage of 95 % intervals, and normality of errors over error bars.

1000 fits of videos of 8 bits with noise of σ = 1/255, in families that were fixed before any of them was run
(`coverage_families`). Videos, truths, noise and starts are drawn from streams of their own. Nothing is left out: fits that
say that an unknown is open, or that the model does not explain the video, count with the intervals that they give, and
are also counted separately.

    coverage   share of intervals of all unknowns that hold the truth
    z          error over the standard deviation that the fit states, RMS and 95th percentile over the fits that explain
               their video: status "mismatch" claims no error bar (`z_rms_all` has these, too)
    z_crb      error over the Cramér–Rao bound at the truth, which no fit sees
    silent_failures   fits that say "ok" with an unknown off by more than 5 standard deviations

The standard error of the coverage takes the unknowns of one fit as one draw (they share their noise).
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import solve
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space
from gradsim_reproduction.plotting import SAFE, image_grid, new_figure, unit_normal, write_figures
from gradsim_reproduction.rigid.fits import refit_if_mismatch
from gradsim_reproduction.rigid.joint import bounds
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.statistics.coverage_families import FAMILIES, draw
from gradsim_reproduction.tables import write_table

GOAL = 0.93, 0.97
JUDGED = 100  # fewest intervals for a meaningful coverage: of 20, one more or less is 5 %
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of central intervals, for the calibration curve
RMS, TAIL = 1.2, 2.3  # what the RMS and the 95th percentile of |z| are to stay below
RMS_CONTACT = 1.3  # where contact kinks the likelihood
FAR = 5.0  # error bars off at which `ok` is a silent failure
GROUPS = (("smooth", False), ("contact", True))  # contact kinks likelihoods, so that no bound at the truth holds
NOISE = 2  # stream of random numbers, in addition to those of `coverage_families`


@experiment("coverage", "Coverage of 95 % intervals", parallel=True)
def coverage(run: Run) -> Outcome:
    """Fit the videos of all families; writes fits.jsonl, table.md and plots. Quick: 10 fits instead of 1000.

    With `scenes`, about as many fits; the families keep their shares.
    """
    planned, seed = counts(run.quick, run.scenes), run.seed
    order = sorted(((k + 0.5) / count, name, k) for name, count in planned.items() for k in range(count))
    jobs = {f"{name} {k} seed {seed}": (name, k, seed) for _, name, k in order}  # all families grow alike
    records = run.records(run.ledger("fits.jsonl", experiment="coverage"), jobs, fit_one)
    figures = summary(records)
    families = {name: interval_statistics(part) for name, part in by_family(records).items()}
    result = {"fits": len(records), "families": families, "parameters": by_parameter(records)}
    result["cpu_seconds"] = sum(r["cpu_seconds"] for r in records)
    result["images"] = draw_plots(run.out, records)
    rows = _rows(figures, families)
    result["table"] = write_table(run.out, "Coverage of 95 % intervals", rows, "The paper states no error bars.")
    return result, figures


def counts(quick: bool, scenes: int | None) -> dict[str, int]:
    """Fits of each family."""
    if scenes is None:
        return {name: f.quick if quick else f.count for name, f in FAMILIES.items()}
    whole = sum(f.count for f in FAMILIES.values())
    return {name: math.ceil(f.count * scenes / whole) for name, f in FAMILIES.items()}


def fit_one(job: tuple[str, int, int]) -> dict:
    """Record of one fit, and the truth."""
    name, number, seed = job
    one = draw(name, number, seed)
    space = Space(one.scene, one.unknowns)
    model = model_for(synthetic.own_steps(one.scene), space)
    noise = int(np.random.default_rng([seed, list(FAMILIES).index(name), number, NOISE]).integers(2**31))
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(one.scene, one.truth))
    observation = synthetic.noisy_masks(one.scene, trajectory, next(iter(one.scene.bodies)), noise)
    problem = Problem(model, observation, space)
    crb = bounds(problem, one.truth)
    fit = refit_if_mismatch(lambda plan: solve(problem, plan, noise + 1), FAMILIES[name].plan)
    rows = {}
    for key, e in fit.unknowns.items():
        truth, position = one.truth[key], space.names.index(key)
        size = abs(truth) if space.logarithmic[position] else e.high - e.low
        rows[key] = {
            "truth": truth,
            "value": e.value,
            "z": (e.value - truth) / e.std,
            "z_crb": (e.value - truth) / (crb[key] * size),
            "inside": bool(e.interval95[0] <= truth <= e.interval95[1]),
            "identifiable": e.identifiable,
        }
    return {
        "family": name,
        "number": number,
        "status": fit.status,
        "kinked": fit.nonsmooth,
        "chi2_per_n": fit.chi2_per_n,
        "converged": fit.starts["converged"] / fit.starts["count"],
        "cpu_seconds": fit.cpu_seconds,
        "rollouts": fit.rollouts,
        "unknowns": rows,
    }


def interval_statistics(records: Sequence[Mapping]) -> dict:
    """Coverage, its standard error, and RMS and tails of z, of some fits."""
    rows = [list(r["unknowns"].values()) for r in records]
    shares = np.array([np.mean([u["inside"] for u in fit_rows]) for fit_rows in rows])
    weights = np.array([len(fit_rows) for fit_rows in rows])
    covered = float((shares * weights).sum() / weights.sum())
    error = float(np.sqrt(np.sum((weights * (shares - covered)) ** 2)) / weights.sum())
    explained = [list(r["unknowns"].values()) for r in records if r["status"] != Status.MISMATCH] or rows
    z = np.abs([u["z"] for fit_rows in explained for u in fit_rows])
    z_all, at_truth = (np.abs([u[key] for fit_rows in rows for u in fit_rows]) for key in ("z", "z_crb"))
    return {
        "fits": len(records),
        "intervals": int(weights.sum()),
        "coverage": covered,
        "standard_error": error,
        "z_rms": _rms(z),
        "z_rms_all": _rms(z_all),
        "z_95": float(np.quantile(z, 0.95)),
        "beyond_3": float(np.mean(z_all > 3)),
        "z_crb_rms": _rms(at_truth),
        "z_crb_95": float(np.quantile(at_truth, 0.95)),
        "kinked": float(np.mean([r["kinked"] for r in records])),
        "not_ok": sum(r["status"] != Status.OK for r in records),
        "mismatch": sum(r["status"] == Status.MISMATCH for r in records),
        "silent_failures": sum(
            r["status"] == Status.OK and any(abs(u["z"]) > FAR for u in r["unknowns"].values()) for r in records
        ),
        "cpu_seconds": float(np.mean([r["cpu_seconds"] for r in records])),
        "by_level": {str(level): float(np.mean(z_all <= NormalDist().inv_cdf((1 + level) / 2))) for level in LEVELS},
    }


def summary(records: Sequence[Mapping]) -> dict[str, dict]:
    """The figures: over all fits, over those with contact, and by family."""
    parts = {"": records}
    parts |= {f"_{word}": [r for r in records if FAMILIES[r["family"]].contact == touch] for word, touch in GROUPS}
    figures = {}
    for ending, part in parts.items():
        if not part:
            continue
        statistics = interval_statistics(part)
        enough = statistics["intervals"] >= JUDGED
        ok = not enough or GOAL[0] <= statistics["coverage"] <= GOAL[1]
        figures |= {
            f"coverage{ending}": figure(statistics["coverage"], goal=0.95 if enough else None, ok=ok),
            f"coverage_standard_error{ending}": figure(statistics["standard_error"]),
            f"z_rms{ending}": figure(statistics["z_rms"], goal=RMS_CONTACT if ending == "_contact" else RMS),
            f"z_rms_all{ending}": figure(statistics["z_rms_all"]),
            f"z_95{ending}": figure(statistics["z_95"], goal=TAIL),
            f"z_crb_rms{ending}": figure(statistics["z_crb_rms"], goal=RMS if ending == "_smooth" else None),
            f"z_crb_95{ending}": figure(statistics["z_crb_95"], goal=TAIL if ending == "_smooth" else None),
            f"mismatch{ending}": figure(statistics["mismatch"], goal=0),
            f"silent_failures{ending}": figure(statistics["silent_failures"], goal=0),
        }
    figures |= {
        f"coverage ({name})": figure(interval_statistics(part)["coverage"]) for name, part in by_family(records).items()
    }
    figures["fits"] = figure(len(records))
    figures["cpu_seconds_mean"] = figure(interval_statistics(records)["cpu_seconds"])
    return figures


def by_family(records: Sequence[Mapping]) -> dict[str, list[Mapping]]:
    """Fits by family, in the order of `FAMILIES`."""
    families = {name: [r for r in records if r["family"] == name] for name in FAMILIES}
    return {name: part for name, part in families.items() if part}


def by_parameter(records: Sequence[Mapping]) -> dict[str, dict]:
    """Coverage and RMS of z of each unknown in each family."""
    by_name = {}
    for name, part in by_family(records).items():
        for key in part[0]["unknowns"]:
            rows = [r["unknowns"][key] for r in part]
            z = np.array([row["z"] for row in rows])
            share = float(np.mean([row["inside"] for row in rows]))
            by_name[f"{name} {key}"] = {"coverage": share, "z_rms": _rms(z), "z_mean": float(z.mean())}
    return by_name


def _rms(z: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(z))))


def _rows(figures: Mapping[str, Mapping], families: Mapping[str, Mapping]) -> list[dict]:
    """Rows of `table.md`; the paper states no error bars."""
    rows = [{"name": key, "paper": None, "ours": figures[key]["value"]} for key in figures if " " not in key]
    for name, statistics in families.items():
        note = f"{statistics['intervals']} intervals of {statistics['fits']} fits, z RMS {statistics['z_rms']:.2f}"
        note += f" without {statistics['mismatch']} that say mismatch" * bool(statistics["mismatch"])
        rows.append(
            {"name": f"coverage, {FAMILIES[name].title}", "paper": None, "ours": statistics["coverage"], "note": note}
        )
    return rows


BINS = np.linspace(-4, 4, 33)
CONTACT_GROUPS = {"no contact": False, "contact": True}
COLORS = dict(zip(CONTACT_GROUPS, SAFE, strict=False))
FINE = np.linspace(0.5, 0.99, 50)


def draw_plots(out: Path, records: Sequence[Mapping]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    level_text = "All unknowns of all fits. Levels: intervals of the normal distribution."
    return write_figures(
        out,
        {
            "coverage": (lambda: _calibration(records), "Errors over error bars, and coverage", level_text),
            "parameters": (
                lambda: _by_parameter(records),
                "Errors over error bars by unknown",
                "With the share of 95 % intervals that contain the truth.",
            ),
        },
    )


def _calibration(records: Sequence[Mapping]) -> Figure:
    figure, normal = new_figure(9.5, 3.8), NormalDist()
    density, level_axes = figure.subplots(1, 2)
    for name, contact in CONTACT_GROUPS.items():
        values = _z(records, contact)
        if not len(values):
            continue
        label = f"{name} ({len(values)} numbers)"
        density.hist(
            values.clip(-4, 4), BINS.tolist(), density=True, histtype="step", color=COLORS[name], label=label, lw=1.6
        )
        shares = [np.mean(np.abs(values) <= normal.inv_cdf((1 + level) / 2)) for level in FINE]
        level_axes.plot(FINE, shares, color=COLORS[name], label=name, lw=1.6)
    unit_normal(density, ls="--")
    density.set(xlabel="error / standard deviation (outer bins hold all beyond)", ylabel="density")
    density.legend(fontsize=8)
    level_axes.plot([0.5, 1], [0.5, 1], "k--", lw=1, label="exact")
    level_axes.axvline(0.95, color="0.8", lw=1, zorder=0)
    level_axes.set(
        xlabel="nominal level of the interval", ylabel="share that contain the truth", xlim=(0.5, 1), ylim=(0.4, 1.01)
    )
    level_axes.legend(fontsize=8)
    return figure


def _by_parameter(records: Sequence[Mapping]) -> Figure:
    """A histogram for each unknown of each family."""
    keys = list(dict.fromkeys((r["family"], key) for r in records for key in r["unknowns"]))
    figure, cells = image_grid(len(keys), 4, 10, 1.9)
    for ax, (family, key) in zip(cells, keys, strict=False):
        ax.axis("on")
        part = [r["unknowns"][key] for r in records if r["family"] == family]
        z = np.array([u["z"] for u in part])
        share = np.mean([u["inside"] for u in part])
        color = COLORS["contact" if FAMILIES[family].contact else "no contact"]
        ax.hist(z.clip(-4, 4), BINS[::2].tolist(), density=True, color=color, alpha=0.5)
        unit_normal(ax, ls="--", lw=0.8)
        ax.set_title(f"{family}: {key.partition('.')[2]}, {100 * share:.0f} % of {len(part)}", fontsize=8)
        ax.tick_params(labelsize=7)
    return figure


def _z(records: Sequence[Mapping], contact: bool) -> np.ndarray:
    part = [r for r in records if FAMILIES[r["family"]].contact == contact]
    return np.array([u["z"] for r in part for u in r["unknowns"].values()])
