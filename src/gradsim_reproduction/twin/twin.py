"""`gradsim reproduce twin`: models that leave as MJCF, URDF and USD, and films of MuJoCo's motion.

    round trip   scene → MJCF, URDF or USD → scene, 30 scenes of all shapes, half of them chains: masses, inertias, joints, as Newton
                 reads them (in single precision) and as MuJoCo does (in double)
    motion       chains and bodies that fly and spin, without contact, 2 s, in MuJoCo and in ours, at three steps and two orders
    contact      20 drops by each of two laws with the numbers of the export, matched and by the formula: slide, first bounce, settling
    logs         torques and angles of an arm, fitted in MuJoCo by gradsim and by mujoco.sysid; and with a film of its load (`logs.py`)
    tosses       real tosses of a cube, fitted in MuJoCo and in ours, and predicted (`real_tosses.py`)
    films        silhouettes of MuJoCo's motion, in float and with 8-bit noise, fitted in MuJoCo (`engine="mujoco"`) and in ours

Films are of the library's renderer; their motion is MuJoCo's.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.identification.api import identify
from gradsim.identification.engines import EngineModel
from gradsim.identification.engines.mujoco import MuJoCo
from gradsim.identification.synthetic import float_masks, noisy_masks
from gradsim.scene import exporters
from gradsim.scene.exporters.substitution import with_values
from gradsim_reproduction.reality import cube
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table
from gradsim_reproduction.twin.comparisons import DROP_LAWS, IN_MUJOCO, contact, motion, round_trip
from gradsim_reproduction.twin.logs import fit_log, fit_log_and_film, log_figures
from gradsim_reproduction.twin.real_tosses import are_there, real_tosses, toss_figures
from gradsim_reproduction.twin.scenes import film

ROUND_TRIPS, MOTIONS, DROPS, FILMS, LOGS, LOADS = 30, 12, 20, 6, 6, 3
QUICK = (4, 2, 4, 1, 1, 2)
STARTS = 8
INTEGRATOR = "implicitfast"  # of the films and their fits in MuJoCo; RK4 takes four times as long
ROUNDING = 1e-12  # distance [m] below which motions are the same
FAR = 5.0  # standard deviations beyond which an `ok` is a silent failure


@experiment("twin", "Twins for other engines", parallel=True)
def twin(run: Run) -> Outcome:
    """Compare models and fit films; writes a ledger for each part, and table.md. Quick: a few of each. `scenes`: films."""
    counts = QUICK if run.quick else (ROUND_TRIPS, MOTIONS, DROPS, LOGS, LOADS, run.scenes or FILMS)
    parts = {"round trips": round_trip, "motions": motion, "drops": contact}
    parts |= {"logs": fit_log, "logs and films": fit_log_and_film, "films": fit_film}
    records = {"tosses": tosses_of_cube(run)}
    for (name, function), count in zip(parts.items(), counts, strict=True):
        jobs = {f"{name} {k} seed {run.seed}": (k, run.seed) for k in range(count)}
        ledger = run.ledger(f"{name.replace(' ', '_')}.jsonl", experiment="twin")
        records[name] = run.records(ledger, jobs, function, name)
    figures = summary(records)
    rows = [{"name": key, "paper": None, "ours": one["value"]} for key, one in figures.items()]
    result: dict = dict(records)
    result["table"] = write_table(run.out, "Twins for other engines", rows, "The paper exports nothing.")
    return result, figures


def tosses_of_cube(run: Run) -> list[dict]:
    """Records of the folds of real tosses; none where there are no recordings."""
    folds = 0 if not are_there() else 1 if run.quick else cube.FOLDS
    jobs = {f"fold {k} seed {run.seed}": (k, run.seed, run.quick) for k in range(folds)}
    ledger = run.ledger("tosses.jsonl", experiment="twin", quick=run.quick)
    return run.records(ledger, jobs, real_tosses, "tosses of a real cube")


def fit_film(job: tuple[int, int]) -> dict:
    """Fits of one film of MuJoCo's motion: status, errors and effort, by noise and engine."""
    one = film(*job)
    engine = MuJoCo(integrator=INTEGRATOR)
    motion_of_film = EngineModel(with_values(one.scene, one.truth), engine).rollout()
    bodies = list(one.scene.bodies)
    record: dict = {"truth": one.truth, "fits": []}
    for noise in ("float", "8-bit"):
        masks = (
            float_masks(one.scene, motion_of_film)
            if noise == "float"
            else noisy_masks(one.scene, motion_of_film, bodies[0], job[0])
        )
        for mover in (engine, "gradsim"):
            fit = identify(
                one.scene,
                one.unknowns,
                observation=masks,
                starts=STARTS,
                seed=job[0],
                engine=mover,
                known_numbers=False,
            )
            errors = {name: e.value - one.truth[name] for name, e in fit.unknowns.items()}
            record["fits"].append(
                {
                    "noise": noise,
                    "engine": mover if isinstance(mover, str) else "mujoco",
                    "status": fit.status,
                    "relative": max(abs(error / one.truth[name]) for name, error in errors.items()),
                    "z": [error / fit.unknowns[name].std for name, error in errors.items()],
                    "inside": [e.interval95[0] <= one.truth[n] <= e.interval95[1] for n, e in fit.unknowns.items()],
                    "cpu_seconds": fit.cpu_seconds,
                    "rollouts": fit.rollouts,
                }
            )
    return record


def summary(records: Mapping[str, Sequence[Mapping]]) -> dict[str, dict]:
    """The figures."""
    figures = {}
    for to in (*exporters.FORMATS, *(f"{to}_in_mujoco" for to in IN_MUJOCO)):
        for quantity in ("mass", "inertia", "place"):
            worst = max(r[to][quantity] for r in records["round trips"])
            figures[f"round_trip_{to}_{quantity}"] = figure(worst, goal=1e-9)
    for integrator in ("rk4", "semi-implicit"):
        name, distances = (
            f"motion_{integrator.replace('-', '_')}",
            np.array([r[integrator] for r in records["motions"]]),
        )
        figures[f"{name}_m"] = figure(distances[:, -1].max(), goal=4e-6 if integrator == "rk4" else None)
        moving = distances[distances[:, -1] > ROUNDING]
        orders = np.log2(moving[:, -2] / moving[:, -1]) if len(moving) else np.array([math.nan])
        figures[f"{name}_order"] = figure(float(np.median(orders)))
    for law in DROP_LAWS:
        figures |= drop_figures([r[law] for r in records["drops"]], law)
    films = film_figures([fit for r in records["films"] for fit in r["fits"]])
    figures |= films | log_figures(records["logs"], records["logs and films"])
    return figures | toss_figures(records["tosses"])


def drop_figures(drops: Sequence[Mapping], law: str) -> dict[str, dict]:
    """Figures of the drops of one law: differences of MuJoCo's from ours, with matched numbers and with those of the formula."""
    figures = {}
    for quantity in ("slide", "bounce", "settled"):
        numbers = np.array([drop[quantity] for drop in drops])
        for column, name in ((1, "contact"), (2, "contact_by_formula")):
            off = np.abs(numbers[:, column] / numbers[:, 0].clip(1e-9) - 1)
            goal = 0.02 if column == 1 else None
            figures[f"{name}_{law}_{quantity}_median"] = figure(float(np.median(off)), goal=goal)
            figures[f"{name}_{law}_{quantity}_worst"] = figure(float(off.max()))
    return figures


def film_figures(fits: Sequence[Mapping]) -> dict[str, dict]:
    """Figures of the films: errors and coverage in MuJoCo, and what our own engine makes of the same films."""
    of = lambda engine, noise: [fit for fit in fits if fit["engine"] == engine and fit["noise"] == noise]
    inside = [yes for fit in of("mujoco", "8-bit") for yes in fit["inside"]]
    ours = [fit for fit in fits if fit["engine"] == "gradsim"]
    trusted = [fit for fit in ours if fit["status"] in (Status.OK, Status.APPROXIMATE) and fit["noise"] == "8-bit"]
    silent = sum(any(not abs(z) <= FAR for z in fit["z"]) for fit in trusted)
    share = sum(inside) / len(inside) if inside else math.nan
    return {
        "films_in_mujoco_float_worst": figure(max(fit["relative"] for fit in of("mujoco", "float")), goal=1e-3),
        "films_in_mujoco_8bit_coverage": figure(share, goal=0.93, ok=share >= 0.93),
        "films_in_mujoco_8bit_intervals": figure(len(inside)),
        "films_in_mujoco_ok": figure(sum(fit["status"] == Status.OK for fit in of("mujoco", "8-bit"))),
        "films_in_ours_silent": figure(silent, goal=0),
        "films_in_ours_ok": figure(len(trusted)),
    }
