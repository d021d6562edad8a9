"""Predictions of plans against errors of fits, gains of their designs, and open cases after the change that a fit names.

    predicted_over_achieved   sd predicted for the chosen design at the truth over the RMS error of 20 fits of noisy 8-bit videos of it
    gain                      median sd of 50 random designs over that of the plan's
    against_best              sd of the plan's design over the smallest of the 50
    resolved                  of the designed cases that leave a direction open (`reproduce verdicts`), those that are `ok` after the
                              single change that the fit names

Videos are rendered by the library from its own motion, with noise of σ = 1/255: these figures are about statistics, not about
accuracy. Each fit goes from the truth and two starts about it.
"""

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import solve
from gradsim.identification.fit import Fit
from gradsim.identification.priors import Prior
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.planning import Plan, plan
from gradsim.planning.quick import NextVideo, next_video
from gradsim.planning.search import spread_designs
from gradsim.scene import Scene
from gradsim_reproduction.pendulums.tasks import observe_video
from gradsim_reproduction.planning.cases import FAMILIES, PlanFamily
from gradsim_reproduction.planning.plots import draw
from gradsim_reproduction.planning.real import real_figures, real_tosses
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.statistics.verdict_cases import CASES, VerdictCase
from gradsim_reproduction.statistics.verdicts import STARTS
from gradsim_reproduction.tables import write_table

PLANS, QUICK_PLANS = 100, 5
REFITS, RANDOM = 20, 50  # fits of each chosen design; random designs
SAMPLES = 4
OPEN = tuple(k for k, case in enumerate(CASES) if case.null is not None)
QUICK_OPEN = (OPEN[0], OPEN[10], OPEN[15])
LOWEST, HIGHEST, MIDDLE = 0.7, 1.4, (0.9, 1.1)  # goals of predicted over achieved
MOST_SECONDS = 60.0


@experiment("plan", "What to film next", parallel=True)
def plans(run: Run) -> Outcome:
    """Judge plans; writes plans.jsonl, open.jsonl, table.md and a plot. Quick: 5 plans, 3 open cases. `scenes`: the first plans."""
    count = run.scenes or (QUICK_PLANS if run.quick else PLANS)
    jobs = {f"plan {k} seed {run.seed}": (k, run.seed) for k in range(count)}
    records = run.records(run.ledger("plans.jsonl", experiment="plan"), jobs, judge_plan, "plans")
    jobs = {f"{CASES[k].name}, seed {run.seed}": (k, run.seed) for k in (QUICK_OPEN if run.quick else OPEN)}
    cases = run.records(run.ledger("open.jsonl", experiment="plan"), jobs, resolve, "open cases")
    run.progress.stage("real tosses")
    tosses = {} if run.quick else real_tosses(run.seed, run.progress)
    figures = summary(records, cases) | real_figures(tosses)
    rows = [{"name": key, "paper": None, "ours": one["value"]} for key, one in figures.items()]
    result: dict = {"plans": records, "open": cases, "real": tosses, "images": draw(run.out, records)}
    result["table"] = write_table(run.out, "What to film next", rows, "The paper plans nothing.")
    return result, figures


def summary(records: Sequence[Mapping], cases: Sequence[Mapping]) -> dict[str, dict]:
    """The figures."""
    ratios = np.array([r["predicted"] / r["achieved"] for r in records])
    within = float(((ratios > LOWEST) & (ratios < HIGHEST)).mean())
    middle, gain = float(np.median(ratios)), float(np.median([r["gain"] for r in records]))
    best, seconds = float(np.median([r["against_best"] for r in records])), max(r["cpu_seconds"] for r in records)
    resolved = sum(c["after"] == Status.OK for c in cases)
    figures = {
        "predicted_over_achieved": figure(middle, ok=MIDDLE[0] <= middle <= MIDDLE[1]),
        "predicted_over_achieved, share within 0.7 to 1.4": figure(within, goal=0.9, ok=within >= 0.9),
        "gain over the median of random designs": figure(gain, goal=3.0, ok=gain >= 3.0),
        "sd over that of the best random design": figure(best, goal=1.0),
        "resolved": figure(resolved, goal=len(cases), ok=resolved == len(cases)),
        "open cases": figure(len(cases)),
        "plans": figure(len(records)),
        "cpu_seconds of the slowest plan": figure(seconds, goal=MOST_SECONDS),
    }
    for name in FAMILIES:
        if part := [r["predicted"] / r["achieved"] for r in records if r["family"] == name]:
            figures[f"predicted_over_achieved ({name})"] = figure(float(np.median(part)))
    return figures


def judge_plan(job: tuple[int, int]) -> dict:
    """Plan one question, and fit noisy videos of the chosen design."""
    number, seed = job
    name = list(FAMILIES)[number % len(FAMILIES)]
    family, rng = FAMILIES[name], np.random.default_rng([seed, number])
    scene = family.scene(rng.random(3))
    begun = time.process_time()
    made = plan(scene, family.want, family.choose, unknowns=family.unknowns, samples=SAMPLES, seed=seed + number)
    seconds = time.process_time() - begun
    truth = synthetic.draw_truth(scene, family.unknowns, int(rng.integers(2**31)))
    best = made.judge.judged(made.best)
    random = sorted(
        d.sd[family.want] for d in spread_designs(made.judge, seed + number + 1, RANDOM) if math.isfinite(d.criterion)
    )
    return {
        "family": name,
        "number": number,
        "words": made.words,
        "judged_by": made.best.judged_by,
        "settings": made.best.settings,
        "truth": truth,
        "predicted": made.predict(truth)[family.want],
        "achieved": scatter(made, family, truth, int(rng.integers(2**31))),
        "gain": random[len(random) // 2] / best.sd[family.want],
        "against_best": best.sd[family.want] / random[0],
        "cpu_seconds": seconds,
    }


def scatter(made: Plan, family: PlanFamily, truth: Mapping[str, float], seed: int) -> float:
    """RMS relative error of the wanted number over fits of noisy 8-bit videos of the plan's design."""
    question, names = made.judge.question, made.judge.question.space.names
    place = question.space.inner(torch.tensor([truth[n] for n in names], dtype=torch.float64))
    made_of = made.judge.recording(made.best)
    problem, u = made_of.problem, place + (made_of.places - question.places)[0]
    trajectory = made_of.trajectory(u)
    spread = torch.tensor([3 * made.predict(truth)[family.want]] * len(names)).double()
    column, rng, errors = names.index(family.want), np.random.default_rng(seed), []
    for k in range(REFITS):
        masks = synthetic.noisy_masks(problem.model.scene, trajectory, family.body, seed % 2**30 + k)
        starts = u + spread * torch.tensor(rng.standard_normal((3, len(names))))
        starts[0] = u
        ends, _ = descend(
            problem.with_observation(masks),
            Population.at(starts.clamp(problem.space.low, problem.space.high)),
            problem.frames,
            "pixels",
            12,
        )
        errors.append((ends.u[ends.cost.argmin()] - u)[column].item())
    return float(np.sqrt(np.mean(np.square(errors))) / question.size(column, place[None]).item())


def resolve(job: tuple[int, int]) -> dict:
    """Fit an open case, and fit it again after the change that the fit names."""
    number, seed = job
    case = CASES[number]
    scene = case.scene()
    truth_seed, noise, starts = (int(x) for x in np.random.default_rng([seed, number]).integers(2**31, size=3))
    truth = synthetic.draw_truth(scene, case.unknowns, truth_seed)
    fit = fit_of(scene, case, truth, (), noise, starts)
    change = next_video(scene, fit)
    record = {
        "case": case.name,
        "before": fit.status,
        "cpu_seconds": fit.cpu_seconds,
        "words": "",
        "after": "",
        "predicted": {},
        "achieved": {},
    }
    if change is None:
        return record
    again = fit_of(change.scene, case, truth, _measured(change, truth, noise), noise + 1, starts)
    achieved = {name: again.unknowns[name].std / abs(again.values[name]) for name in change.design.sd}
    return record | {
        "words": change.words,
        "after": again.status,
        "predicted": change.design.sd,
        "achieved": {name: x if math.isfinite(x) else None for name, x in achieved.items()},
        "off": {name: (e.value - truth[name]) / e.std if e.std > 0 else None for name, e in again.unknowns.items()},
    }


def _measured(change: NextVideo, truth: Mapping[str, float], seed: int) -> list[Prior]:
    """Priors by the measurements of a change, off by chance."""
    rng, priors = np.random.default_rng(seed), []
    for name in change.design.weighed:
        sd = change.weigh[name].sd * abs(truth[name])
        priors.append(Prior.independent(name, truth[name] + sd * rng.standard_normal(), sd))
    return priors


def fit_of(
    scene: Scene, case: VerdictCase, truth: Mapping[str, float], priors: Sequence[Prior], noise: int, starts: int
) -> Fit:
    """Fit of a noisy 8-bit video of a scene with true values."""
    space = Space(scene, case.unknowns, priors=priors)
    model = model_for(synthetic.own_steps(scene), space)
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(scene, truth))
    problem = Problem(model, _observed(scene, trajectory, noise), space)
    config = MultistartConfig(starts=STARTS[0] + STARTS[1] * len(space), grow=6)
    return solve(problem, config, starts, known_numbers=False)


def _observed(scene: Scene, trajectory, noise: int):
    """Masks of a noisy 8-bit video by each camera of a scene."""
    if len(scene.views) == 1:
        return observe_video(scene, trajectory, noise)
    from gradsim.identification.observation.multi_view import MultiView

    alone = {name: scene.model_copy(update={"camera": camera, "cameras": {}}) for name, camera in scene.views.items()}
    body = next(iter(scene.bodies))
    parts = {}
    for k, (name, one) in enumerate(alone.items()):
        masks = synthetic.noisy_masks(one, trajectory, body, noise + 1000 * k)
        masks.silhouettes = synthetic.float_masks(scene, trajectory, name).silhouettes
        parts[name] = masks
    return MultiView(parts)
