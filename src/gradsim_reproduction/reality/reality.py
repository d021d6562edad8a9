"""The reality league: real recordings predicted by few numbers, compared with trained networks and trivial predictors.

Rows `beam`, `cube` and `hinge` are in files of these names. Row `cables`: the natural shape and three numbers of each cable are fitted to its training runs, then its `eval_*` runs are
predicted over their whole length, open loop, from the first two frames and the given ends. Nothing was chosen by the `eval_*` runs.
"""

from collections.abc import Mapping

import numpy as np

from gradsim.app.figures import figure
from gradsim.errors import InputError
from gradsim.identification.uncertainty.discrepancy import Discrepancy
from gradsim_reproduction.reality import cable_bands as bands
from gradsim_reproduction.reality import cable_model as cables
from gradsim_reproduction.reality.beam import beam_row
from gradsim_reproduction.reality.cable_plots import draw
from gradsim_reproduction.reality.cable_recordings import ENDS, GIVEN, Recording, load
from gradsim_reproduction.reality.cube import cube_row
from gradsim_reproduction.reality.goals import coverage_figure, halves_figure
from gradsim_reproduction.reality.hinge import hinge_row
from gradsim_reproduction.runner import Outcome, Run, experiment

CABLES = (1, 2, 3)
PUBLISHED = {1: 10.1, 2: 9.7}  # [mm] of networks trained on 56 runs (Chen et al., CoRL 2024), on their evaluation runs
GOAL = 8.0  # [mm]
RUNS, ITERATIONS, FRAMES = 8, 6, 500  # at most
QUICK_RUNS, QUICK_ITERATIONS, QUICK_FRAMES = 2, 2, 100
MM = 1e3


@experiment("reality", "Real recordings predicted by few numbers", parallel=True)
def reality(run: Run, rows: str = "") -> Outcome:
    """Fit each row to its training recordings and predict the others; writes predictions and plots.

    Quick: cables by two runs and two steps of the fit on their first second; the beam on a coarse mesh; the cube by a short search.

    Args:
        run: The run.
        rows: Names of rows, such as "beam,cables"; by default all whose recordings are there, and why the others are not.

    Raises:
        InputError: If a row does not exist, or if it is named or the only one and its recordings are not there.
    """
    names = [name for name in rows.replace(" ", "").split(",") if name]
    if unknown := sorted(set(names) - set(ROWS)):
        raise InputError(f"rows: got {', '.join(unknown)}; expected some of {', '.join(ROWS)}.")
    parts, skipped = {}, {}
    for name in names or ROWS:
        try:
            parts[name] = ROWS[name](run)
        except InputError as error:
            if names:
                raise
            skipped[name] = str(error)
    if not parts:
        raise InputError(next(iter(skipped.values())))
    result = {
        "rows": [row for part in parts.values() for row in part["rows"]],
        "images": [image for part in parts.values() for image in part["images"]],
        "skipped": skipped,
        "averaged": AVERAGED,
        "published_mm": PUBLISHED,
    }
    return result, {key: value for part in parts.values() for key, value in part["figures"].items()}


def cable_rows(run: Run) -> dict:
    """Rows, images and figures of three cables; writes cables.jsonl.

    Raises:
        InputError: If the recordings are not there.
    """
    recordings = {cable: load(cable) for cable in CABLES}
    jobs = {f"cable {cable}": (cable, run.quick) for cable in CABLES}
    run.progress.stage("fitting cables")
    records = run.records(run.ledger("cables.jsonl", quick=run.quick), jobs, fit_cable, "cables")
    rows = [{**record, "residuals": None} for record in records]
    images = draw(run.out, {record["cable"]: record for record in records}, recordings)
    figures = {}
    for record in records:
        name = f"cable{record['cable']}"
        figures[f"{name}_error_mm"] = figure(record["error_mm"], goal=GOAL)
        figures[f"{name}_band_coverage"] = coverage_figure(record["coverage"])
    chi2 = sum(record["chi2_of_halves"] for record in records) / (bands.COUNT * len(records))
    figures["cable_halves"] = halves_figure(chi2)
    figures["cable_error_mm"] = figure(max(record["error_mm"] for record in records), goal=GOAL)
    return {"rows": rows, "images": images, "figures": figures}


ROWS = {"cables": cable_rows, "beam": beam_row, "cube": cube_row, "hinge": hinge_row}
AVERAGED = (
    "mean absolute error over the 3 coordinates, all vertices but the first two and the last two, all frames but the first "
    "two, and all eval_* runs of a cable"
)


def fit_cable(job: tuple[int, bool]) -> Mapping:
    """Shape and numbers of a cable from training runs, and errors of its evaluation runs."""
    number, quick = job
    runs, frames = load(number), QUICK_FRAMES if quick else FRAMES
    chosen = runs["train"][: QUICK_RUNS if quick else RUNS]
    iterations = QUICK_ITERATIONS if quick else ITERATIONS
    cable = cables.fit_runs(chosen, frames, iterations)
    fitted = [(one.predict(cable.u) - one.target).abs().numpy() for one in cable.runs]
    halves = [cables.fit_runs(half, frames, iterations) for half in (chosen[::2], chosen[1::2])]
    bars, *half_bars = (bands.discrepancy_of(one) for one in (cable, *halves))
    others = [
        [_predicted(half, bar, recording, frames) for recording in rest]
        for half, bar, rest in zip(halves, half_bars, (chosen[1::2], chosen[::2]), strict=True)
    ]
    crossed = [one for half in others for one in half]
    factor = bands.width_factor([e for _, e, _ in crossed], [w for *_, w in crossed])
    held = [_predicted(cable, bars, recording, frames) for recording in runs["eval"]]
    predictions, errors, widths = [p for p, *_ in held], [e for _, e, _ in held], [factor * w for *_, w in held]
    targets = [one.x[GIVEN : min(frames, len(one.x)), ENDS:-ENDS] for one in runs["eval"]]
    trivial = lambda model: (
        MM
        * float(np.mean([np.abs(model(one, frames) - x).mean() for one, x in zip(runs["eval"], targets, strict=True)]))
    )
    return {
        "cable": number,
        "numbers": dict(zip(cables.NUMBERS, cable.u.exp().tolist(), strict=True)),
        "units": dict(zip(cables.NUMBERS, cables.UNITS, strict=True)),
        "curvature": cable.shape.curvature.tolist(),
        "rolls": {one.recording.name: one.roll for one in cable.runs},
        "unexplained_moments": cable.shape.unexplained,
        "loss_m2": cable.loss,
        "training": [recording.name for recording in chosen],
        "training_error_mm": [MM * float(r.mean()) for r in fitted],
        "crossed_error_mm": MM * float(np.mean([e.mean() for _, e, _ in crossed])),
        "error_mm": MM * float(np.mean([e.mean() for e in errors])),
        "run_error_mm": {one.name: MM * float(e.mean()) for one, e in zip(runs["eval"], errors, strict=True)},
        "axis_error_mm": (MM * np.mean([e.mean((0, 1)) for e in errors], 0)).tolist(),
        "bias_mm": MM
        * float(np.mean([np.abs((p - x).mean(0)).mean() for p, x in zip(predictions, targets, strict=True)])),
        "std": dict(zip(cables.NUMBERS, bars.std[: bands.COUNT].tolist(), strict=True)),
        "discrepancy": {"scale_mm": MM * bars.process.scale, "time_s": bars.process.time},
        "band_mm": MM * float(np.mean([w.mean() for w in widths])),
        "band_factor": factor,
        "coverage": float(np.mean([(e <= w).mean() for e, w in zip(errors, widths, strict=True)])),
        "chi2_of_halves": bands.chi2_of_halves(*half_bars),
        "halves": [{"u": bar.u[: bands.COUNT].tolist(), "std": bar.std[: bands.COUNT].tolist()} for bar in half_bars],
        "still_mm": trivial(still),
        "straight_mm": trivial(straight),
        "predictions": [p[::5].round(5).tolist() for p in predictions],
    }


def _predicted(cable: cables.Cable, bars: Discrepancy, recording: Recording, frames: int) -> tuple[np.ndarray, ...]:
    """Prediction of a run that was not fitted, its absolute errors, and their scale (frames - 2, n - 4, 3) [m]."""
    run = cable.run(recording, min(frames, len(recording.x)))
    predicted, slopes = (y.detach() for y in run.sensitivity(cable.u))
    return (
        predicted.numpy(),
        (predicted - run.target).abs().nan_to_num(cables.FAR).numpy(),
        bands.scale_of(cable, bars, slopes),
    )


def still(recording: Recording, frames: int) -> np.ndarray:
    """The vertices as they were in the last given frame (frames - 2, n - 4, 3) [m]."""
    x = recording.x[GIVEN - 1, ENDS:-ENDS]
    return np.repeat(x[None], min(frames, len(recording.x)) - GIVEN, 0)


def straight(recording: Recording, frames: int) -> np.ndarray:
    """The vertices on a straight line between the given ones, at the shares of length of the first frame."""
    x = recording.x
    s = np.cumsum(np.linalg.norm(np.diff(x[0], axis=0), axis=1))
    share = ((s[1:-2] - s[0]) / (s[-2] - s[0]))[:, None]
    first, last = (x[GIVEN:frames, k, None] for k in (ENDS - 1, -ENDS))
    return first + share * (last - first)
