"""The paper's estimation tasks for pendula, springs and a bouncing ball (its C.3 and A.1), from films.

The paper tells of rod lengths and initial angles found from films with uniformly random guesses, and gives no numbers.
Here the rates, damping, gravity and the ratio of the masses are unknown too, and films last 5 s, over which a double
pendulum makes up to 10⁶ of a small change. Targets come from the renderer and the steps that fit them: float frames show
that the search finds what there is to be found, and nothing of accuracy on films of others; the films with noise are
held against the Cramér–Rao bound.
"""

from pathlib import Path

import numpy as np

from gradsim.runtime.checkpoint import Ledger
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import restitution
from gradsim_reproduction.pendulums import plots
from gradsim_reproduction.pendulums.fits import CLOSE, float_fit, mass_scale, noisy_fit
from gradsim_reproduction.pendulums.tasks import Task, tasks
from gradsim_reproduction.runner import figure, write_result

FILMS = {"double": 12, "simple": 8, "chain": 4, "rope": 4, "ball": 6, "net": 1}
NOISY = {"double": 3, "simple": 3}
STARTS, LONE = 8, 2
QUICK = {"double": 1, "simple": 1, "chain": 1, "ball": 1}
IMPACT = 4.0  # [m/s] at which the restitution of the ball's ground is told


def pendula(out: Path, quick: bool = False, seed: int = 0, progress: Progress | None = None) -> dict:
    """Run the experiment into a folder; finished films are kept there, and an interrupted run goes on after them.

    Args:
        out: Gets result.json, fits.jsonl and pictures.
        quick: One film of four tasks, four starts, no noise.
        seed: Of truths, starts and noise.
        progress: Is told what happens.
    """
    out, progress = Path(out), progress or NullProgress()
    films, noisy = (QUICK, {}) if quick else (FILMS, NOISY)
    starts, lone = (4, 1) if quick else (STARTS, LONE)
    settings = {"seed": seed, "starts": starts, "lone": lone}
    known, done = tasks(), Ledger(out / "fits.jsonl", settings)
    records: list[dict] = []
    for name, count in films.items():
        for number in range(count):
            progress.stage(f"{known[name].title}: film {number + 1} of {count}")
            make = lambda task=known[name], n=number: float_fit(task, n, seed, starts, lone)
            records.append(done.once(f"{name} {number}", make) | {"noise": False})
    for name, count in noisy.items():
        for number in range(count):
            progress.stage(f"{known[name].title}, 8 bits and noise: film {number + 1} of {count}")
            make = lambda task=known[name], n=number: noisy_fit(task, n, seed, starts)
            records.append(done.once(f"{name} {number} noisy", make) | {"noise": True})
    progress.stage("both masses unknown")
    scale = done.once("mass scale", lambda: mass_scale(known["double"], seed))
    progress.done()
    pictures = plots.draw(out, [known[name] for name in films], records)
    result = {"title": "Pendula, springs and a bouncing ball", **settings, "pictures": pictures, "mass_scale": scale}
    result |= {"ranges": {name: list(known[name].unknowns) for name in films}, "records": records}
    return write_result(out, "reproduce pendula", result, summary(known, records, scale))


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
