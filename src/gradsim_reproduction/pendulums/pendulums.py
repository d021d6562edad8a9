"""The paper's estimation tasks for pendula, springs and a bouncing ball (its C.3 and A.1), from films.

The paper tells of rod lengths and initial angles found from films with uniformly random guesses, and gives no numbers.
Here the rates, damping, gravity and the ratio of the masses are unknown too, and films last 5 s, over which a double
pendulum makes up to 10⁶ of a small change. Targets come from the renderer and the steps that fit them: float frames show
that the search finds what there is to be found, and nothing of accuracy on films of others; the films with noise are
held against the Cramér–Rao bound.
"""

import numpy as np

from gradsim.scene import restitution
from gradsim_reproduction.pendulums import plots
from gradsim_reproduction.pendulums.fits import CLOSE, float_fit, mass_scale, noisy_fit
from gradsim_reproduction.pendulums.tasks import Task, tasks
from gradsim_reproduction.runner import Outcome, Run, experiment, figure

FILMS = {"double": 12, "simple": 8, "chain": 4, "rope": 4, "ball": 6, "net": 1}
NOISY = {"double": 3, "simple": 3}
STARTS, LONE = 8, 2
QUICK = {"double": 1, "simple": 1, "chain": 1, "ball": 1}
IMPACT = 4.0  # [m/s] at which the restitution of the ball's ground is told


@experiment("pendula", "Pendula, springs and a bouncing ball")
def pendula(run: Run) -> Outcome:
    """Fit the videos of all tasks; writes fits.jsonl and plots. Quick: one video of four tasks, four starts, no noise."""
    counts, noisy = (QUICK, {}) if run.quick else (FILMS, NOISY)
    starts, lone = (4, 1) if run.quick else (STARTS, LONE)
    settings = {"starts": starts, "lone": lone}
    known, ledger = tasks(), run.ledger("fits.jsonl", **settings)
    records: list[dict] = []
    for name, count in counts.items():
        for k in range(count):
            record = ledger.once(f"{name} {k}", float_fit, known[name], k, run.seed, starts, lone)
            records.append(record | {"noise": False})
    for name, count in noisy.items():
        for k in range(count):
            record = ledger.once(f"{name} {k} noisy", noisy_fit, known[name], k, run.seed, starts)
            records.append(record | {"noise": True})
    scale = ledger.once("mass scale", mass_scale, known["double"], run.seed)
    result = {**settings, "pictures": plots.draw(run.out, [known[name] for name in counts], records)}
    result |= {"mass_scale": scale, "ranges": {name: list(known[name].unknowns) for name in counts}}
    return {**result, "records": records}, summary(known, records, scale)


def summary(known: dict[str, Task], records: list[dict], scale: dict) -> dict[str, dict]:
    """Worst over unknowns of the median over films, worst case, and what shares are solved."""
    figures: dict[str, dict] = {}
    for name in dict.fromkeys(r["task"] for r in records):
        own = [r for r in records if r["task"] == name and not r["noise"]]
        errors = np.array([list(r["errors"].values()) for r in own])
        figures[f"{name}_rel_err"] = figure(float(np.median(errors, 0).max()), goal=CLOSE)
        figures[f"{name}_worst"] = figure(float(errors.max()))
        figures[f"{name}_films_solved"] = figure(float((errors.max(1) < CLOSE).mean()))
        figures[f"{name}_lone_starts_solved"] = figure(float(np.mean([r["alone"] for r in own])))
        z = np.array([list(r["z"].values()) for r in records if r["task"] == name and r["noise"]])
        if z.size:
            figures[f"{name}_z_rms"] = figure(float(np.sqrt(np.mean(z**2))), goal=1.2)
            figures[f"{name}_z_95"] = figure(float(np.quantile(np.abs(z), 0.95)), goal=2.3)
    if "ball" in known:
        space, own = known["ball"].space(), [r for r in records if r["task"] == "ball"]
        at = space.names.index("ground.dissipation")
        told = [_restitution(r["truth"][at], r["errors"]["ground.dissipation"]) for r in own]
        if told:
            figures["ball_restitution_err"] = figure(float(np.max(told)), goal=CLOSE)
    flagged = scale["rank"] == 2 and len(scale["null"]) == 1
    figures["mass_scale_flagged"] = figure(float(flagged), goal=1, ok=flagged)
    return figures


def _restitution(dissipation: float, error: float) -> float:
    """Error of the restitution at `IMPACT` that an error of the dissipation, relative, makes."""
    return abs(
        restitution.of_dissipation(dissipation * (1 + error), IMPACT) - restitution.of_dissipation(dissipation, IMPACT)
    )
