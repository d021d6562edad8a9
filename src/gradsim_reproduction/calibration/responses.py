"""Row `response` of `reproduce capture`: thrown cubes whose pixels are light to the power of 1/γ, with γ unknown.

All nuisances of the row `coverage` are there, too. A fit that takes values for light moves edges in motion blur; here γ is an
unknown from `RANGE` of each fit, and for comparison 1.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gradsim.app.figures import figure
from gradsim.errors import InputError, Status
from gradsim.identification.api import identify
from gradsim.scene import Scene
from gradsim_reproduction.calibration.film_fits import (
    FIT_OPTIONS,
    as_it_is,
    clip_of,
    fit_record,
    make_film,
    rectangle_of,
)
from gradsim_reproduction.calibration.film_scenes import film
from gradsim_reproduction.runner import Run

FILMS, QUICK = 6, 1  # some 200 CPU-s each, for masks change with γ
FIRST = 100  # number of the first film: others than those of `coverage`
GAMMA, RANGE = (1.8, 2.6), (1.0, 3.5)  # of the cameras; of the unknown
NAME, GUESS = "camera.gamma", 2.2  # what the scene says before the fit


def response_row(run: Run) -> list[dict]:
    """Records of all films; writes responses.jsonl."""
    count = QUICK if run.quick else FILMS
    jobs = {f"response {k} seed {run.seed}": (FIRST + k, run.seed, str(run.out)) for k in range(count)}
    return run.records(run.ledger("responses.jsonl", experiment="capture responses"), jobs, fit_response, "responses")


def fit_response(job: tuple[int, int, str]) -> dict:
    """Record of one film: number, seed, and the folder of the run."""
    number, seed, out = job
    one = film("throw", number, seed)
    gamma = float(np.random.default_rng([seed, number, 9]).uniform(*GAMMA))
    folder = Path(out) / "films" / f"response_{number}"
    folder.mkdir(parents=True, exist_ok=True)
    path, _ = make_film(one, folder, gamma)
    scene, video = as_it_is(one, path), clip_of(one, folder / "film.mp4", rectangle_of(one))
    content = scene.model_dump(exclude_unset=True, by_alias=True)
    with_response = Scene.parse(content | {"camera": content["camera"] | {"gamma": GUESS}})
    ways = {"unknown": (with_response, [f"{NAME}:{RANGE[0]:g}:{RANGE[1]:g}"]), "ignored": (scene, [])}
    fits = {}
    for name, (scene, unknowns) in ways.items():
        try:
            fit = identify(scene, [*one.unknowns, *unknowns], video, seed=seed, **FIT_OPTIONS)
        except (InputError, ArithmeticError) as error:
            fits[name] = {"status": Status.FAILED, "unknowns": {}, "silent": False, "notes": [str(error)]}
            continue
        fits[name] = fit_record(fit, one)
        if unknowns:
            e = fit.unknowns[NAME]
            fits[name] |= {"gamma": e.value, "gamma_sd": e.std, "gamma_z": (e.value - gamma) / e.std}
    return {"number": number, "gamma": gamma, **fits}


def response_summary(records: Sequence[dict]) -> dict:
    """Coverage, statuses, and errors of γ."""
    fits = [r["unknown"] for r in records if r["unknown"]["unknowns"]]
    inside = [u["inside"] for fit in fits if fit["status"] == Status.OK for u in fit["unknowns"].values()]
    ignored = [u["z"] for r in records for u in r["ignored"]["unknowns"].values()]
    rms = lambda values: float(np.sqrt(np.mean(np.square(values)))) if values else None
    return {
        "films": len(records),
        "ok": sum(r["unknown"]["status"] == Status.OK for r in records),
        "silent": sum(fit["silent"] for fit in fits),
        "intervals": len(inside),
        "coverage": float(np.mean(inside)) if inside else None,
        "z_rms": rms([u["z"] for fit in fits for u in fit["unknowns"].values()]),
        "gamma_z_rms": rms([fit["gamma_z"] for fit in fits]),
        "gamma_sd": float(np.median([fit["gamma_sd"] for fit in fits])) if fits else None,
        "ignored_z_rms": rms(ignored),
        "ignored_ok": sum(r["ignored"]["status"] == Status.OK for r in records),
    }


def response_figures(row: dict) -> dict[str, dict]:
    """Figures of the row."""
    return {
        "response: silent_failures": figure(row["silent"], goal=0),
        "response: coverage": figure(row["coverage"]),
        "response: gamma_z_rms": figure(row["gamma_z_rms"]),
        "response: ok": figure(row["ok"]),
        "response: z_rms with gamma ignored": figure(row["ignored_z_rms"]),
        "response: ok with gamma ignored": figure(row["ignored_ok"]),
    }
