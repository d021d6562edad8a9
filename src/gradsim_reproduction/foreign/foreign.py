"""Videos that nobody can call ours: trajectories by other integrators, drawn by another renderer, fitted with all defaults.

90 recordings that are fixed before any is fitted (`scenes.py`), each fitted twice by `identify` as `gradsim fit` does: to
exact coverage in double precision (float) and to an 8-bit video with noise of σ = 1/255 (8bit). Nothing of the product moves
or draws them (`videos.py`), so what its steps change in an answer shows:

    silent failure   status "ok", and an unknown off by more than 5 standard deviations (8bit) or 1 % (float)
    identifiable     every bound of Cramér and Rao at the truth, which no fit sees, is below 10 %

Every third recording is also fitted in its own video, of the same truth by the steps and renderer of the product, as was the
default before: semi-implicit Euler without finer steps for the answer (own). That gives the CPU time to compare with.
"""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from gradsim.errors import Status
from gradsim.identification import synthetic
from gradsim.identification.api import identify, model_for, parameter_values
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import NOMINAL
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.fisher import KNOWN
from gradsim.identification.unknowns import Space
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene
from gradsim_reproduction.foreign import videos
from gradsim_reproduction.foreign.scenes import KINDS, NOISE, STARTS, Recording, recording, stream
from gradsim_reproduction.rigid.joint import bounds
from gradsim_reproduction.runner import Outcome, Run, experiment, figure
from gradsim_reproduction.tables import write_table

FAR, OFF = 5.0, 0.01  # standard deviations (8bit) and relative error (float) of a silent failure
OWN = 3  # every so many recordings are fitted in their own video, too


@experiment("foreign", "Videos by other integrators and renderers", parallel=True)
def foreign(run: Run) -> Outcome:
    """Make and fit all videos; writes fits.jsonl, table.md and plots. Quick: one of each kind instead of 90."""
    jobs = {
        f"{name} {number} {mode} seed {run.seed}": (name, number, mode, run.seed, str(run.out))
        for name, number, mode in plan(run.quick, run.scenes)
    }
    records = run.records(run.ledger("fits.jsonl", experiment="foreign"), jobs, fit_one)
    figures = summary(records)
    result: dict = {"records": records, "cpu_seconds": sum(r["cpu_seconds"] + r["made_in"] for r in records)}
    rows = [{"name": key, "paper": None, "ours": one["value"]} for key, one in figures.items()]
    result["table"] = write_table(
        run.out, "Videos by other integrators and renderers", rows, "The paper fits its own videos."
    )
    return result, figures


def plan(quick: bool, scenes: int | None) -> list[tuple[str, int, str]]:
    """Kind, number and mode of every fit; with `scenes`, about as many recordings in the same shares."""
    whole, fits = sum(kind.count for kind in KINDS.values()), []
    for name, kind in KINDS.items():
        count = math.ceil(kind.count * scenes / whole) if scenes else kind.quick if quick else kind.count
        for number in range(count):
            fits += [(name, number, mode) for mode in ("float", "8bit", *(["own"] if number % OWN == 0 else []))]
    return fits


def fit_one(job: tuple[str, int, str, int, str]) -> dict:
    """Record of one fit, and the truth: kind, number, mode, seed, and the folder of the run."""
    name, number, mode, seed, out = job
    one = recording(name, number, seed)
    noise, starts = stream(name, number, seed, NOISE), int(stream(name, number, seed, STARTS).integers(2**31))
    if mode == "own":
        return _record(one, mode, _fit_own(one, noise, starts))
    begun = _cpu()
    image = _masks(one, Path(out))
    made_in = _cpu() - begun
    silhouettes = Silhouettes.of(one.scene)
    observation = Masks(torch.tensor(image), NOMINAL, silhouettes)
    if mode == "float":
        fit = identify(one.scene, one.unknowns, observation=observation, seed=starts)
    else:
        fit = _fit_video(one.scene, one.unknowns, videos.frames(one, image, NOMINAL, noise), starts)
    space = Space(one.scene, one.unknowns)
    at_truth = bounds(Problem(model_for(one.scene, space), observation, space), one.truth)
    return _record(one, mode, fit) | {
        "made_in": made_in,
        "bounds": at_truth,
        "identifiable": max(at_truth.values()) < KNOWN,
    }


def as_before(scene: Scene) -> Scene:
    """The scene by what was the default: semi-implicit Euler, and the same steps for search and answer."""
    timing = scene.timing.model_copy(update={"integrator": "semi-implicit"})
    return scene.model_copy(update={"timing": timing})


def _fit_own(one: Recording, noise: np.random.Generator, starts: int) -> Fit:
    """The fit of a video by the product's own steps and renderer."""
    scene = as_before(one.scene)
    model = model_for(scene, Space(scene, one.unknowns))
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(scene, one.truth))
    mask = synthetic.float_masks(scene, trajectory).masks.numpy()
    return _fit_video(scene, one.unknowns, videos.frames(one, mask, NOMINAL, noise), starts)


def _fit_video(scene: Scene, unknowns: Sequence[str], frames: np.ndarray, starts: int) -> Fit:
    """As `gradsim fit SCENE --video FILE` with all defaults, of which the noise is one."""
    with TemporaryDirectory() as folder:
        path = synthetic.write_video(Path(folder) / "clip.webm", frames, scene.timing.fps)
        return identify(scene, unknowns, path, seed=starts)


def _masks(one: Recording, out: Path) -> np.ndarray:
    """The recording's masks, which are made once for all fits of it."""
    path = out / "masks" / f"{one.name}.npy"
    if not path.exists():
        image = videos.masks(one)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as draft, open(draft, "wb") as file:
            np.save(file, image)
    return np.load(path)


def _record(one: Recording, mode: str, fit: Fit) -> dict:
    rows = {}
    for k, (name, e) in enumerate(fit.unknowns.items()):
        truth, size = one.truth[name], e.high - e.low
        if Space(one.scene, one.unknowns).logarithmic[k]:
            size = abs(truth)
        rows[name] = {
            "truth": truth,
            "value": e.value,
            "std": e.std,
            "error": abs(e.value - truth) / size,
            "z": (e.value - truth) / e.std,
            "inside": bool(e.interval95[0] <= truth <= e.interval95[1]),
            "identifiable": e.identifiable,
        }
    left = fit.residual_diagnostics
    return {
        "kind": one.kind,
        "number": one.number,
        "mode": mode,
        "status": fit.status,
        "unknowns": rows,
        "silent": bool(fit.status == Status.OK and mode != "own" and wrong(rows, mode)),
        "chi2_per_n": fit.chi2_per_n,
        "white": bool(left.white) if left is not None else None,
        "notes": fit.notes,
        "converged": fit.starts["converged"] / fit.starts["count"],
        "rollouts": fit.rollouts,
        "cpu_seconds": fit.cpu_seconds,
        "made_in": 0.0,
    }


def wrong(unknowns: Mapping[str, Mapping], mode: str) -> bool:
    """True if an estimate is farther off than its error bar (8bit), or any error bar (float), can excuse."""
    if mode == "8bit":
        return any(not abs(u["z"]) <= FAR for u in unknowns.values())
    return any(not u["error"] <= OFF for u in unknowns.values())


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
    ratio = cpu_ratio(of["8bit"], of["own"])
    figures = {
        "silent_failures": figure(silent["float"] + silent["8bit"], goal=0),
        "silent_failures_float": figure(silent["float"], goal=0),
        "silent_failures_8bit": figure(silent["8bit"], goal=0),
        "ok_share": figure(share, goal=0.95, ok=share >= 0.95),
        "identifiable_share": figure(len(known["8bit"]) / max(1, len(of["8bit"]))),
        "rel_err_median": figure(float(np.median(errors)), goal=1e-5),
        "rel_err_95": figure(float(np.quantile(errors, 0.95)), goal=1e-3),
        "coverage": figure(inside, goal=0.95, ok=0.93 <= inside <= 0.97),
        "z_rms": figure(float(np.sqrt(np.mean(z**2))), goal=1.2),
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


def _cpu() -> float:
    times = os.times()
    return times.user + times.system
