"""Figures of `reproduce clips`, of all fits and by kind."""

from collections.abc import Mapping, Sequence

import numpy as np

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim_reproduction.clips.scenes import DRAG, FORCE, KINDS, RATE, SIZE, from_camera

FAR = 5.0  # standard deviations of a silent failure
JUDGED = 100  # fewest intervals for a meaningful coverage: of 20, one more or less is 5 %
FLAGGED = (Status.MISMATCH, Status.APPROXIMATE)
SHARP = 1.5  # error bars over those of the oracle, at most


def summary(records: Sequence[Mapping]) -> dict[str, dict]:
    """The figures: of all kinds with goals, then of each kind, each way to encode, and each fault."""
    figures = _figures(records, judged=True)
    figures["recordings"] = figure(len({(r["kind"], r["number"]) for r in records}))
    for name in KINDS:
        if part := [r for r in records if r["kind"] == name]:
            figures |= {f"{key} ({name})": value for key, value in _figures(part, judged=False).items()}
    for encoder, camera in (("camera", True), ("library", False)):
        if part := [r for r in records if from_camera(r["number"]) == camera and not r["fault"]]:
            figures |= {f"{key} ({encoder})": value for key, value in _figures(part, judged=False).items()}
    for fault in (RATE, SIZE, DRAG, FORCE):
        if part := [r for r in records if r["fault"] == fault]:
            figures[f"wrong_models_flagged ({fault})"] = figure(share(r["status"] in FLAGGED for r in part))
    return figures


def _figures(records: Sequence[Mapping], judged: bool) -> dict[str, dict]:
    right = [r for r in records if not r["fault"]]
    wrong = [r for r in records if r["fault"]]
    claimed = [r for r in right if r["status"] == Status.OK]
    unknowns = [u for r in claimed for u in r["unknowns"].values()]
    inside, error = coverage(claimed)
    flagged = share(r["status"] in FLAGGED for r in wrong)
    near = [r for r in records if r["status"] == Status.APPROXIMATE]
    sharpness = [ratio for r in claimed for ratio in r["sharpness"].values()]
    sharp, okay = median(sharpness), share(r["status"] == Status.OK for r in right)
    enough = judged and len(unknowns) >= JUDGED
    goal = lambda value: value if judged else None
    figures = {
        "coverage": figure(inside, goal=0.95, ok=0.93 <= inside <= 0.97) if enough else figure(inside),
        "coverage_standard_error": figure(error),
        "intervals": figure(len(unknowns)),
        "z_rms": figure(float(np.sqrt(np.mean([u["z"] ** 2 for u in unknowns] or [np.nan])))),
        "silent_failures": figure(sum(r["silent"] for r in right), goal=goal(0)),
        "ok_share": figure(okay),
        "sharpness": figure(sharp, goal=goal(SHARP), ok=not sharp > SHARP if judged else None),
        "approximate": figure(len(near)),
        "approximate_coverage": figure(coverage(near)[0]),
        "median_refused": figure(share(r["background"] == "empty" for r in records if "background" in r)),
        "cpu_seconds_median": figure(median([r["cpu_seconds"] for r in records if r["cpu_seconds"]])),
    }
    if wrong:
        ok = not flagged < 0.95 if judged else None
        figures["wrong_models_flagged"] = figure(flagged, goal=goal(0.95), ok=ok)
        figures["wrong_models_silent"] = figure(sum(r["silent"] for r in wrong), goal=goal(0))
    return figures


def coverage(records: Sequence[Mapping]) -> tuple[float, float]:
    """Share of the 95 % intervals that hold the truth, and its standard error, where those of one video go together."""
    held = [[u["inside"] for u in r["unknowns"].values()] for r in records]
    count = sum(map(len, held))
    if not count:
        return np.nan, np.nan
    inside = sum(map(sum, held)) / count
    return inside, float(np.sqrt(sum((sum(one) - inside * len(one)) ** 2 for one in held)) / count)


def share(answers) -> float:
    """Fraction that is true; nan of none."""
    return float(np.mean([*answers] or [np.nan]))


def median(values: Sequence[float]) -> float:
    """Median; nan of none."""
    return float(np.median([*values] or [np.nan]))
