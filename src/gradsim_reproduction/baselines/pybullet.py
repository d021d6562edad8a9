"""`gradsim reproduce pybullet`: PyBullet + REINFORCE on the mass of test objects (a row of the paper's Table 1).

Every object is searched twice: from a start in the range of masses, as everywhere else here, and from one between 0 and
the number of its vertices, in kg, as the paper's H.1 has it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.dataset import Sample, sample, test_numbers
from gradsim.errors import InputError
from gradsim.identification.unknowns import Space
from gradsim.runtime.optional import require_extra
from gradsim.runtime.progress import Progress
from gradsim_reproduction.baselines.bullet import bullet, reward_of, squared_error
from gradsim_reproduction.baselines.reinforce import Plan, reinforce
from gradsim_reproduction.baselines.rows import cached_rows, row
from gradsim_reproduction.plotting import BLUE, INK, ORANGE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

START = 6000  # added to the seed: starts come from another stream than truths
STARTS = ("range", "vertices")  # uniform over the range of masses; over [0, number of vertices] kg, as H.1 has it
MASS = "body.mass"
EVERY = 5  # steps between the means that are kept


def solve(job: Mapping) -> dict:
    """One search.

    Args:
        job: `number` and `seed` of the sample, `start` (one of `STARTS`) and `plan`, the fields of a `Plan`.

    Returns:
        The row, with the start `begun` [kg], the means of every `EVERY`-th step, and the loss at truth, start and end.
    """
    started, one, plan = time.process_time(), sample("rigid", job["number"], job["seed"]), Plan(**job["plan"])
    rng = np.random.default_rng([START + one.seed, one.number, STARTS.index(job["start"])])
    with bullet(one.true_scene()) as world:
        target = world.video(one.truth[MASS])

        def reward(mass: float) -> float:
            return float(reward_of(squared_error(world.video(mass), target)))

        begun = first(one, job["start"], len(world.points), rng)
        means = reinforce(reward, begun, plan, rng)
        losses = {"truth": -reward(one.truth[MASS]), "start": -reward(begun), "end": -reward(means[-1])}
    record = row(one, {MASS: means[-1]}, time.process_time() - started)
    return {
        **record,
        "start": job["start"],
        "begun": begun,
        "means": np.round(means[::EVERY], 4).tolist(),
        "losses": losses,
    }


def first(one: Sample, kind: str, vertices: int, rng: np.random.Generator) -> float:
    """Start of a search for a mesh with this number of vertices [kg]."""
    if kind == "vertices":
        return float(rng.uniform(0, vertices))
    space = Space(one.scene, [text for text in one.unknowns if text.startswith(f"{MASS}:")])
    return space.numbers(space.draw(rng, 1)).item()


TITLES = {"range": "start in [2, 12] kg", "vertices": "start in [0, number of vertices] kg (paper)"}


def draw(out: Path, records: Sequence[Mapping], plan: Mapping) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    caption = (
        f"One line per object. Rewards decay by {plan['decay']} per step, so the search stalls after about 60 steps."
    )
    return write_figures(out, {"searches": (lambda: _searches(records, plan), "REINFORCE through PyBullet", caption)})


def _searches(records: Sequence[Mapping], plan: Mapping) -> Figure:
    figure = new_figure(8.0, 3.2)
    panels = figure.subplots(1, len(STARTS), sharey=True)
    largest = max(abs(mass / r["truth"][MASS] - 1) for r in records for mass in r["means"])
    for ax, start, color in zip(panels, STARTS, (BLUE, ORANGE), strict=True):
        part = [r for r in records if r["start"] == start]
        errors = np.array([np.abs(np.array(r["means"]) / r["truth"][MASS] - 1) for r in part])
        steps = np.arange(errors.shape[1]) * EVERY
        ax.semilogy(steps, errors.T, color=color, alpha=0.35, linewidth=0.8)
        ax.semilogy(steps, np.median(errors, 0), color=INK, linewidth=2, label="median")
        ax.set(title=TITLES[start], xlabel=f"step ({plan['samples']} rollouts each)", ylim=(1e-4, 2 * largest))
    panels[0].set_ylabel("relative error of the mass")
    panels[0].legend()
    return figure


OBJECTS, QUICK = 24, 2
SHORT = 25  # steps of the quick form
PAPER = {"mass_rel_err": 0.3668, "mass_abs_err": 0.0928}  # paper, Table 1
NAMES = {"mass_rel_err": "mean relative error", "mass_abs_err": "mean error [kg]"}
WORDS = {"range": "start U[2, 12] kg", "vertices": "start U[0, number of vertices] kg, as in the paper"}


@experiment("pybullet", "PyBullet + REINFORCE", parallel=True)
def pybullet(run: Run) -> Outcome:
    """Search for the masses of test objects; writes searches.jsonl, table.md and a plot. Quick: 2 objects, 25 steps.

    Raises:
        InputError: If PyBullet is not installed.
    """
    require_extra("pybullet", "the baseline PyBullet + REINFORCE", "baselines")
    numbers = test_numbers(run.scenes or (QUICK if run.quick else OBJECTS))
    plan = asdict(Plan(steps=SHORT) if run.quick else Plan())
    jobs = {
        f"{number}, {start}": {"number": number, "seed": run.seed, "start": start, "plan": plan}
        for number in numbers
        for start in STARTS
    }
    records = run.records(run.ledger("searches.jsonl", plan=plan), jobs, solve, "PyBullet + REINFORCE: searches")
    figures = summary(records)
    notes = f"{len(numbers)} of the 200 test objects. The targets are PyBullet's own videos, as in the paper's Fig. 4."
    result = {
        "rows": [{key: value for key, value in record.items() if key != "means"} for record in records],
        "table": write_table(run.out, "Table 1: PyBullet + REINFORCE", _lines(figures), notes),
        "images": draw(run.out, records, plan),
        "plan": plan,
        "cpu_seconds": sum(record["cpu_seconds"] for record in records),
    }
    return result, figures


def rows(
    numbers: Sequence[int],
    seed: int,
    out: Path,
    progress: Progress | None = None,
    quick: bool = False,
    unknowns: Sequence[str] = (MASS,),
) -> list[dict]:
    """The rows of those samples that are among its objects, from starts in the range; see `ROWS`.

    Raises:
        InputError: If PyBullet is not installed, or `unknowns` has more than the mass.
    """
    if tuple(unknowns) != (MASS,):
        raise InputError(f"PyBullet + REINFORCE looks for {MASS} alone, as in the paper; got {', '.join(unknowns)}.")
    records = cached_rows("pybullet", lambda folder: pybullet(folder, quick, seed, progress), numbers, seed, out, quick)
    return [row for row in records if row["start"] == "range"]


def summary(records: Sequence[dict]) -> dict[str, dict]:
    """Errors by start: means, as the paper's, medians, and what the searches gained."""
    figures = {}
    for start in STARTS:
        part = [r for r in records if r["start"] == start]
        off = np.array([abs(r["values"][MASS] - r["truth"][MASS]) for r in part])
        before = np.array([abs(r["begun"] - r["truth"][MASS]) for r in part])
        truth = np.array([r["truth"][MASS] for r in part])
        paper = PAPER if start == "vertices" else dict.fromkeys(PAPER)
        figures |= {
            f"mass_rel_err_mean ({start})": figure(float(np.mean(off / truth)), paper=paper["mass_rel_err"]),
            f"mass_abs_err_mean ({start})": figure(float(np.mean(off)), paper=paper["mass_abs_err"]),
            f"mass_rel_err_median ({start})": figure(float(np.median(off / truth))),
            f"mass_rel_err_median_at_start ({start})": figure(float(np.median(before / truth))),
            f"nearer_than_the_start ({start})": figure(float(np.mean(off < before))),
        }
    # what REINFORCE would need to find is there: the loss of PyBullet's video at the true mass
    figures["loss_at_truth_largest"] = figure(max(r["losses"]["truth"] for r in records), goal=0.0)
    figures["cpu_seconds_median"] = figure(float(np.median([r["cpu_seconds"] for r in records])))
    return figures


def _lines(figures: dict[str, dict]) -> list[dict]:
    """Lines of the table."""
    lines = []
    for start in reversed(STARTS):
        for key, name in NAMES.items():
            one = figures[f"{key}_mean ({start})"]
            lines.append({"name": f"{name}, {WORDS[start]}", "paper": one["paper"], "ours": one["value"]})
    return lines
