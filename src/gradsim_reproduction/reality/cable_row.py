"""Row `cables` of the reality league: natural shape and numbers of three cables from training runs, then all of their `eval_*` runs, from the first two frames and the given ends.

Each half of the training runs is predicted by fits to the other half, by both laws of `cable_model.py`. The law of a cable is the one whose predictions of the eight runs have
the least mean absolute error, the measure of the league; it is then fitted to all eight. Bands come from the same predictions. Nothing of this looks at `eval_*` runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradsim.app.figures import figure
from gradsim.identification.comparison.folds import Law
from gradsim.identification.uncertainty.discrepancy import Discrepancy
from gradsim_reproduction.reality import cable_bands as bands
from gradsim_reproduction.reality import cable_model as cables
from gradsim_reproduction.reality.cable_plots import EVERY, draw
from gradsim_reproduction.reality.cable_recordings import Recording, load, still, straight
from gradsim_reproduction.reality.cable_residuals import shares
from gradsim_reproduction.reality.ensemble import factor_for_another
from gradsim_reproduction.reality.goals import coverage_figure, halves_figure
from gradsim_reproduction.runner import Run

CABLES = (1, 2, 3)
GOAL = 8.0  # [mm]
RUNS, ITERATIONS, FRAMES = 8, 6, 500  # at most
QUICK_RUNS, QUICK_ITERATIONS, QUICK_FRAMES = 2, 2, 100
STORED = ("residuals",)  # what records have for plots alone
MM = 1e3


def cable_rows(run: Run) -> dict:
    """Rows, images and figures of three cables; writes cable_halves.jsonl and cables.jsonl.

    Raises:
        InputError: If the recordings are not there.
    """
    recordings = {cable: load(cable) for cable in CABLES}
    run.progress.stage("fitting halves of the training runs of cables")
    jobs = {f"cable {cable}, half {half}": (cable, half, run.quick) for cable in CABLES for half in (0, 1)}
    halves = run.records(run.ledger("cable_halves.jsonl", quick=run.quick), jobs, fit_half, "halves")
    run.progress.stage("fitting cables")
    jobs = {f"cable {cable}": (cable, halves[2 * k : 2 * k + 2], run.quick) for k, cable in enumerate(CABLES)}
    records = run.records(run.ledger("cables.jsonl", quick=run.quick), jobs, fit_cable, "cables")
    images = draw(run.out, {record["cable"]: record for record in records}, recordings)
    figures = {}
    for record in records:
        name = f"cable{record['cable']}"
        figures[f"{name}_error_mm"] = figure(record["error_mm"], goal=GOAL)
        figures[f"{name}_band_coverage"] = coverage_figure(record["coverage"])
    figures["cable_halves"] = halves_figure(chi2_of(records))
    figures["cable_error_mm"] = figure(max(record["error_mm"] for record in records), goal=GOAL)
    rows = [{key: value for key, value in record.items() if key not in STORED} for record in records]
    return {"rows": rows, "images": images, "figures": figures}


def chi2_of(records: Sequence[Mapping]) -> float:
    """χ² per degree of freedom of the halves of all cables together."""
    degrees = [len(record["numbers"]) for record in records]
    return float(np.average([record["chi2_of_halves"] for record in records], weights=degrees))


def settings(quick: bool) -> tuple[int, int, int]:
    """Training runs, steps of a fit and frames of a run, at most."""
    return (QUICK_RUNS, QUICK_ITERATIONS, QUICK_FRAMES) if quick else (RUNS, ITERATIONS, FRAMES)


def split(runs: Sequence[Recording]) -> tuple[Sequence[Recording], Sequence[Recording]]:
    """Halves of training runs: every other one."""
    return runs[::2], runs[1::2]


def fit_half(job: tuple[int, int, bool]) -> Mapping:
    """Fits of both laws to a half of the training runs of a cable, and errors of their predictions of the other half."""
    number, half, quick = job
    count, iterations, frames = settings(quick)
    parts = split(load(number)["train"][:count])
    fitted, others = parts[half], parts[1 - half]
    record = {"cable": number, "half": half, "training": [run.name for run in fitted], "fits": {}, "errors_mm": {}}
    for law, cable in cables.fit_laws(fitted, frames, iterations).items():
        record["fits"][law] = cable.record()
        record["errors_mm"][law] = {run.name: MM * _error(cable, run, frames) for run in others}
    return record


def crossed_error(halves: Sequence[Mapping], law: str) -> float:
    """Mean error of the training runs by fits of a law that did not have them [mm]; `halves` are records of `fit_half` of one cable."""
    return float(np.mean([error for half in halves for error in half["errors_mm"][law].values()]))


def choose(halves: Sequence[Mapping]) -> tuple[str, Law]:
    """The law of least mean error of training runs that were not fitted, and what relaxation gains by these errors.

    Args:
        halves: Records of `fit_half` of one cable.
    """
    errors = {law: [e for half in halves for e in half["errors_mm"][law].values()] for law in cables.LAWS}
    best = min(cables.LAWS, key=lambda law: crossed_error(halves, law))
    return best, Law.of("relaxation", errors["relaxation"], errors["viscosity"])


@dataclass(frozen=True, eq=False)
class Predicted:
    """Prediction of a run that was not fitted.

    Args:
        recording: The run.
        x: Predicted positions (frames - 2, n - 4, 3) [m].
        scale: Their standard deviations but for a factor.
        error: Their absolute errors [m].
        shares: What their residuals look like.
    """

    recording: Recording
    x: np.ndarray
    scale: np.ndarray
    error: np.ndarray
    shares: dict[str, float]

    @classmethod
    def of(cls, cable: cables.Cable, bars: Discrepancy, recording: Recording, frames: int) -> "Predicted":
        run = cable.run(recording, min(frames, len(recording.x)))
        x, slopes = (y.detach() for y in run.sensitivity(cable.u))
        error = (x - run.target).abs().nan_to_num(cables.FAR).numpy()
        parts = shares((x - run.target).numpy(), slopes, run.target.numpy())
        return cls(recording, x.numpy(), bands.scale_of(cable, bars, slopes), error, parts)


def fit_cable(job: tuple[int, Sequence[Mapping], bool]) -> Mapping:
    """Fit of the chosen law to the training runs of a cable, and errors of its evaluation runs; its halves are records of `fit_half`."""
    number, halves, quick = job
    runs, (count, iterations, frames) = load(number), settings(quick)
    chosen = runs["train"][:count]
    parts, (law, gain) = split(chosen), choose(halves)
    of_halves = [cables.cable_of(half["fits"][law], part, frames) for half, part in zip(halves, parts, strict=True)]
    cable = cables.fit_from(of_halves, chosen, frames, iterations)
    bars, *half_bars = (bands.discrepancy_of(one) for one in (cable, *of_halves))
    crossed = [
        Predicted.of(half, bar, recording, frames)
        for half, bar, part in zip(of_halves, half_bars, reversed(parts), strict=True)
        for recording in part
    ]
    held = [Predicted.of(cable, bars, recording, frames) for recording in runs["eval"]]
    return {
        "cable": number,
        "law": law,
        "laws": {"crossed_error_mm": {key: crossed_error(halves, key) for key in cables.LAWS}, "words": gain.words},
        "numbers": cable.numbers,
        "units": {key: cables.UNITS[key] for key in cables.LAWS[law]},
        "curvature": cable.shape.curvature.tolist(),
        "rolls": {one.recording.name: one.roll for one in cable.runs},
        "unexplained_moments": cable.shape.unexplained,
        "loss_m2": cable.loss,
        "training": [recording.name for recording in chosen],
        "training_error_mm": [MM * float((one.predict(cable.u) - one.target).abs().mean()) for one in cable.runs],
        "crossed_error_mm": {one.recording.name: MM * float(one.error.mean()) for one in crossed},
        "residual_shares": {one.recording.name: one.shares for one in crossed},
        "std": dict(zip(cable.numbers, bars.std.tolist(), strict=False)),  # rolls follow
        "discrepancy": {"scale_mm": MM * bars.process.scale, "time_s": bars.process.time},
        "chi2_of_halves": bands.chi2_of_halves(*half_bars),
        "halves": [
            {"numbers": half.numbers, "std": bar.std.tolist()} for half, bar in zip(of_halves, half_bars, strict=True)
        ],
        **_errors(held, factor_for_another([one.error / one.scale for one in crossed]), frames),
        "residuals": {one.recording.name: _residual(one) for one in crossed},
    }


def _errors(held: Sequence[Predicted], factor: float, frames: int) -> dict:
    """Part of the record about evaluation runs; half widths of their bands are `factor` times their scales."""
    targets = [one.recording.free[: len(one.x)] for one in held]
    pairs = list(zip(held, targets, strict=True))
    trivial = lambda model: MM * float(np.mean([np.abs(model(p.recording, frames) - x).mean() for p, x in pairs]))
    return {
        "error_mm": MM * float(np.mean([one.error.mean() for one in held])),
        "run_error_mm": {one.recording.name: MM * float(one.error.mean()) for one in held},
        "axis_error_mm": (MM * np.mean([one.error.mean((0, 1)) for one in held], 0)).tolist(),
        "bias_mm": MM * float(np.mean([np.abs((p.x - x).mean(0)).mean() for p, x in pairs])),
        "band_mm": MM * factor * float(np.mean([one.scale.mean() for one in held])),
        "band_factor": factor,
        "coverage": float(np.mean([(one.error <= factor * one.scale).mean() for one in held])),
        "still_mm": trivial(still),
        "straight_mm": trivial(straight),
        "predictions": [one.x[::EVERY].round(5).tolist() for one in held],
    }


def _residual(one: Predicted) -> list:
    """Prediction minus recording at every fifth frame [m]."""
    return (one.x - one.recording.free[: len(one.x)])[::EVERY].round(5).tolist()


def _error(cable: cables.Cable, recording: Recording, frames: int) -> float:
    """Mean absolute error of the prediction of a run that was not fitted [m]."""
    run = cable.run(recording, min(frames, len(recording.x)))
    return float((run.predict(cable.u) - run.target).abs().nan_to_num(cables.FAR).mean())
