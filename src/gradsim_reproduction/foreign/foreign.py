"""Videos that nobody can call ours: trajectories by other integrators, drawn by another renderer, fitted with all defaults.

90 recordings that are fixed before any is fitted (`scenes.py`), each fitted twice by `identify` as `gradsim fit` does: to
exact coverage in double precision (float) and to an 8-bit video with noise of σ = 1/255 (8bit). Nothing of the product moves
or draws them (`videos.py`), so what its steps change in an answer shows:

    silent failure   status "ok", and an unknown off by more than 5 standard deviations (8bit) or 1 % (float)
    identifiable     every bound of Cramér and Rao at the truth, which no fit sees, is below 10 %

Every third recording is also fitted in its own video, of the same truth by the steps and renderer of the product, as was the
default before: semi-implicit Euler without finer steps for the answer (own). That gives the CPU time to compare with.

In addition, 20 tosses by MuJoCo and 20 by PyBullet (`engines.py`), 8 bit: velocities and gravity have to be right, or the fit has
to say that something is wrong; so has friction, or a note that it is of our contact law.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from gradsim.app.figures import figure
from gradsim.errors import InputError, Status
from gradsim.identification import synthetic
from gradsim.identification.api import identify
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import NOMINAL_NOISE
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.uncertainty.fisher import KNOWN
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_path
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene
from gradsim_reproduction.foreign import engines, plots, videos
from gradsim_reproduction.foreign.scenes import KINDS, NOISE, STARTS, Recording, recording, stream
from gradsim_reproduction.rigid.joint import bounds
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

FAR, OFF = 5.0, 0.01  # standard deviations (8bit) and relative error (float) of a silent failure
JUDGED = 100  # fewest intervals for a meaningful coverage: of 20, one more or less is 5 %
OWN = 3  # one recording in this number is fitted in its own video, too


@experiment("foreign", "Videos by other integrators and renderers", parallel=True)
def foreign(run: Run) -> Outcome:
    """Make and fit all videos; writes fits.jsonl, tosses.jsonl, table.md and plots. Quick: one of each kind."""
    jobs = {
        f"{name} {k} {mode} seed {run.seed}": (name, k, mode, run.seed, str(run.out)) for name, k, mode in plan(run)
    }
    records = run.records(run.ledger("fits.jsonl", experiment="foreign"), jobs, fit_one)
    tosses, notes = [], []
    for engine in engines.ENGINES:
        numbers = _numbers(run, engines.COUNT, engines.QUICK)
        jobs = {f"{engine} {k} seed {run.seed}": (engine, k, run.seed, str(run.out)) for k in numbers}
        try:
            require_extra(engine, "this comparison", "engines")
        except InputError as error:
            notes.append(f"{engine} was left out: {error}")
        else:
            tosses += run.records(
                run.ledger("tosses.jsonl", experiment="foreign"), jobs, fit_toss, f"tosses by {engine}"
            )
    figures = summary(records) | engine_figures(tosses)
    result: dict = {"records": records, "tosses": tosses, "notes": notes}
    result["cpu_seconds"] = sum(r["cpu_seconds"] + r["made_in"] for r in (*records, *tosses))
    result["images"] = plots.draw(run.out, records, tosses)
    rows = [{"name": key, "paper": None, "ours": one["value"]} for key, one in figures.items()]
    result["table"] = write_table(run.out, "Videos by others", rows, "The paper fits videos of its own steps only.")
    return result, figures


def plan(run: Run) -> list[tuple[str, int, str]]:
    """Kind, number and mode of every fit; with `scenes`, about as many recordings in the same shares."""
    fits = []
    for name, kind in KINDS.items():
        numbers = _numbers(run, kind.count, kind.quick)
        for place, number in enumerate(numbers):
            modes = ("float", "8bit", *(["own"] if number % OWN == 0 else []))
            fits += [((place + 0.5) / len(numbers), name, number, mode) for mode in modes]
    return [fit[1:] for fit in sorted(fits, key=lambda fit: fit[0])]  # all kinds grow alike


def _numbers(run: Run, count: int, quick: int) -> Sequence[int]:
    """Numbers of the recordings of one kind."""
    if run.scenes:
        return range(math.ceil(count * run.scenes / sum(kind.count for kind in KINDS.values())))
    return [quick] if run.quick else range(count)


def fit_one(job: tuple[str, int, str, int, str]) -> dict:
    """Record of one fit, and the truth: kind, number, mode, seed, and the folder of the run."""
    name, number, mode, seed, out = job
    one = recording(name, number, seed)
    noise, starts = stream(name, number, seed, NOISE), int(stream(name, number, seed, STARTS).integers(2**31))
    if mode == "own":
        return _record(name, number, mode, _fit_own(one, noise, starts), one.truth)
    image, made_in = _masks(one.name, Path(out), lambda: videos.masks(one))
    silhouettes = Silhouettes.of(one.scene)
    observation = Masks(torch.tensor(image), NOMINAL_NOISE, silhouettes)
    if mode == "float":
        fit = identify(one.scene, one.unknowns, observation=observation, seed=starts)
    else:
        fit = _fit_video(one.scene, one.unknowns, videos.frames(one.scene, image, NOMINAL_NOISE, noise), starts)
    space = Space(one.scene, one.unknowns)
    at_truth = bounds(Problem(model_for(one.scene, space), observation, space), one.truth)
    record = _record(name, number, mode, fit, one.truth) | {"made_in": made_in, "bounds": at_truth}
    return record | {"identifiable": max(at_truth.values()) < KNOWN}


def fit_toss(job: tuple[str, int, int, str]) -> dict:
    """Record of the fit of one toss: engine, number, seed, and the folder of the run."""
    engine, number, seed, out = job
    one = engines.toss(engine, number, seed)
    image, made_in = _masks(f"{engine} {number}", Path(out), lambda: engines.masks(engine, one))
    noise = np.random.default_rng([seed, list(engines.ENGINES).index(engine), number, NOISE])
    frames = videos.frames(one.scene, image, NOMINAL_NOISE, noise)
    record = _record(engine, number, "8bit", _fit_video(one.scene, one.unknowns, frames, number), one.truth)
    wrong_ones = {name for name, u in record["unknowns"].items() if u["z"] is not None and not abs(u["z"]) <= FAR}
    if any("contact law" in note for note in record["notes"]):
        wrong_ones.discard("ground.friction")
    return record | {"made_in": made_in, "silent": bool(record["status"] == Status.OK and wrong_ones)}


def as_before(scene: Scene) -> Scene:
    """The scene by what was the default: semi-implicit Euler, and the same steps for search and answer."""
    timing = scene.timing.model_copy(update={"integrator": "semi-implicit", "tolerance": math.inf})
    return scene.model_copy(update={"timing": timing})


def _fit_own(one: Recording, noise: np.random.Generator, starts: int) -> Fit:
    """The fit of a video by the product's own steps and renderer."""
    scene = as_before(one.scene)
    model = model_for(scene, Space(scene, one.unknowns))
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(scene, one.truth))
    mask = synthetic.float_masks(scene, trajectory).masks.numpy()
    return _fit_video(scene, one.unknowns, videos.frames(scene, mask, NOMINAL_NOISE, noise), starts)


def _fit_video(scene: Scene, unknowns: Sequence[str], frames: np.ndarray, starts: int) -> Fit:
    """As `gradsim fit SCENE --video FILE` with all defaults, of which the noise is one."""
    with TemporaryDirectory() as folder:
        path = synthetic.write_video(Path(folder) / "clip.webm", frames, scene.timing.fps)
        return identify(scene, unknowns, path, seed=starts)


def _masks(name: str, out: Path, make: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Masks of a recording, which are made once for all fits of it, and the CPU time that took [s]."""
    path, begun = out / "masks" / f"{name}.npy", time.process_time()
    if not path.exists():
        image = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as draft, open(draft, "wb") as file:
            np.save(file, image)
    return np.load(path), time.process_time() - begun


def _record(kind: str, number: int, mode: str, fit: Fit, truth: Mapping[str, float]) -> dict:
    """Row of fits.jsonl; an unknown without a truth has no error."""
    left, rows = fit.residual_diagnostics, {}
    for name, e in fit.unknowns.items():
        true = truth.get(name)
        row = {"truth": true, "value": e.value, "std": e.std, "identifiable": e.identifiable}
        size = e.high - e.low if e.low < 0 else abs(true or 1)  # of an angle or a velocity, its range
        off = math.nan if true is None else e.value - true
        inside = None if true is None else bool(e.interval95[0] <= true <= e.interval95[1])
        rows[name] = row | {"error": abs(off) / size, "z": off / e.std, "inside": inside}
        if true is None:
            rows[name] |= {"error": None, "z": None}
    return {
        "kind": kind,
        "number": number,
        "mode": mode,
        "status": fit.status,
        "unknowns": rows,
        "silent": bool(fit.status == Status.OK and mode != "own" and wrong(rows, mode)),
        "chi2_per_n": fit.chi2_per_n,
        "white": bool(left.white) if left is not None else None,
        "discretization": fit.discretization.result() if fit.discretization is not None else None,
        "notes": [*fit.notes, *filter(None, [fit.evidence.get("contact_law")])],
        "converged": fit.starts["converged"] / fit.starts["count"],
        "rollouts": fit.rollouts,
        "cpu_seconds": fit.cpu_seconds,
        "made_in": 0.0,
    }


def wrong(unknowns: Mapping[str, Mapping], mode: str) -> bool:
    """True if an estimate is farther off than its error bar (8bit), or any error bar (float), can excuse."""
    judged = [u for u in unknowns.values() if u["truth"] is not None]
    if mode == "8bit":
        return any(not abs(u["z"]) <= FAR for u in judged)
    return any(not u["error"] <= OFF for u in judged)


def summary(records: Sequence[Mapping]) -> dict[str, dict]:
    """The figures."""
    of = {mode: [r for r in records if r["mode"] == mode] for mode in ("float", "8bit", "own")}
    known = {mode: [r for r in of[mode] if r["identifiable"]] for mode in ("float", "8bit")}
    silent = {mode: sum(r["silent"] for r in of[mode]) for mode in known}
    share = float(np.mean([r["status"] == Status.OK for r in known["8bit"]] or [math.nan]))
    errors = [u["error"] for r in known["float"] for u in r["unknowns"].values()] or [math.nan]
    claimed = [u for r in of["8bit"] if r["status"] == Status.OK for u in r["unknowns"].values()]
    inside = float(np.mean([u["inside"] for u in claimed] or [math.nan]))
    z = np.array([u["z"] for u in claimed] or [math.nan])
    enough = len(claimed) >= JUDGED
    ratio = cpu_ratio(of["8bit"], of["own"])
    figures = {
        "silent_failures": figure(silent["float"] + silent["8bit"], goal=0),
        "silent_failures_float": figure(silent["float"], goal=0),
        "silent_failures_8bit": figure(silent["8bit"], goal=0),
        "ok_share": figure(share, goal=0.95, ok=share >= 0.95),
        "identifiable_share": figure(len(known["8bit"]) / max(1, len(of["8bit"]))),
        "rel_err_median": figure(float(np.median(errors)), goal=1e-5),
        "rel_err_95": figure(float(np.quantile(errors, 0.95)), goal=1e-3),
        "coverage": figure(inside, goal=0.95, ok=0.93 <= inside <= 0.97) if enough else figure(inside),
        "z_rms": figure(float(np.sqrt(np.mean(z**2))), goal=1.2 if enough else None),
        "cpu_ratio": figure(ratio, goal=2.0),
        "cpu_seconds_median": figure(float(np.median([r["cpu_seconds"] for r in records]))),
        "recordings": figure(len(of["8bit"])),
    }
    for name in KINDS:
        part = [r for r in known["float"] if r["kind"] == name]
        if part:
            worst = [max(u["error"] for u in r["unknowns"].values()) for r in part]
            figures[f"rel_err_median ({name})"] = figure(float(np.median(worst)))
            okay = [r["status"] == Status.OK for r in known["8bit"] if r["kind"] == name]
            figures[f"ok_share ({name})"] = figure(float(np.mean(okay or [math.nan])))
    return figures


def cpu_ratio(fits: Sequence[Mapping], own: Sequence[Mapping]) -> float:
    """Median CPU time over that of the same recordings' own videos by what was the default."""
    key = lambda r: (r["kind"], r["number"])
    compared = {key(r) for r in own}
    now = [r["cpu_seconds"] for r in fits if key(r) in compared]
    return float(np.median(now) / np.median([r["cpu_seconds"] for r in own])) if now else math.nan


def engine_figures(tosses: Sequence[Mapping]) -> dict[str, dict]:
    """Figures of the tosses by other engines; none where there are none."""
    if not tosses:
        return {}
    figures = {
        "other_engines_silent_failures": figure(sum(r["silent"] for r in tosses), goal=0),
        "other_engines_tosses": figure(len(tosses)),
    }
    for name, lands in (("flight", False), ("landed", True)):
        if part := [r["status"] == Status.OK for r in tosses if ("ground.stiffness" in r["unknowns"]) == lands]:
            figures[f"other_engines_ok_share_{name}"] = figure(float(np.mean(part)))
    return figures
