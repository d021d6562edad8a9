"""Fits in a result.json, and texts for their statuses.

A result may hold several fits. Their keys share a suffix: `unknowns_8bit` belongs to `status_8bit`, `chi2_per_n_8bit`,
`starts_8bit` and `null_directions_8bit`; each of these may be missing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradsim.errors import UNTRUSTED, Status
from gradsim.numerics.formatting import UNDETERMINED, interval_in_range, is_open, two_digits, with_error


@dataclass(frozen=True)
class Verdict:
    """Text for a status.

    Args:
        title: A few words.
        advice: What to do.
        colour: "good", "open" or "bad".
    """

    title: str
    advice: str
    colour: str


VERDICTS = {
    Status.OK: Verdict(
        "Identified",
        "",
        "good",
    ),
    Status.UNIDENTIFIABLE: Verdict(
        "Not all unknowns are identifiable",
        "Fix one of the quantities named below, give it a prior, or record a motion in which their effects differ.",
        "open",
    ),
    Status.UNCONVERGED: Verdict(
        "Independent searches ended in different minima",
        "Contact makes the likelihood rugged: fit the frames up to the first contacts, use more starts, or narrow the ranges.",
        "open",
    ),
    Status.APPROXIMATE: Verdict(
        "Approximate: the numbers are good to their intervals",
        "Below stands what the model misses: correct it in the scene, or in the next film, and fit again.",
        "open",
    ),
    Status.MISMATCH: Verdict(
        "The model does not explain the data",
        "See in the video where model and recording differ. The usual causes: camera, scale, frame rate, a missing body "
        "or force, masks that are cut off, or noise stated too low.",
        "bad",
    ),
    Status.INTERRUPTED: Verdict(
        "Stopped before the end",
        "",
        "open",
    ),
    Status.FAILED: Verdict(
        "No start converged",
        "Check scene and camera against the video, narrow the ranges, or use more starts.",
        "bad",
    ),
}

LOG_MISMATCH = replace(
    VERDICTS[Status.MISMATCH],
    advice="See in the plot of the log where model and sensors differ. The usual causes: a law that the joints have and the model lacks (dry "
    "friction, a spring, play), a motor's torque that is not what the log says, a delay, a start that is not at rest, or noise stated too low.",
)


CAUSES = " With `--noise auto` the fit tests some of these causes and says how far each explains the video."


def verdict_of(status: Status, result: Mapping) -> Verdict:
    """Verdict in words, of what was fitted."""
    verdict = VERDICTS[status]
    if status == Status.MISMATCH and result.get("sensors"):
        return LOG_MISMATCH
    if status == Status.MISMATCH and result.get("video") and not result.get("outline"):
        return replace(verdict, advice=verdict.advice + CAUSES)
    return verdict


@dataclass(frozen=True)
class Section:
    """One fit of a run.

    Args:
        title: Title.
        unknowns: Estimates by name, as in result.json.
        status: Status; None if the result has none for this fit.
        chi2_per_n: Mean square of the whitened residuals.
        starts: Number of starts, and of those that converged.
        null_directions: Directions that the data do not determine.
        residual_diagnostics: Residuals by frame; None if the result has none.
        discretization: Dependence on the time step; None if the result has none.
        profiles: Profile likelihoods along weak directions.
        priors: Priors, and the shares of variances that are theirs; None without.
        known_numbers: Effects of errors of known numbers; None where they were not examined.
        next_video: The one change that would tell most of what is open; None where nothing is.
    """

    title: str
    unknowns: Mapping[str, Mapping]
    status: str | None
    chi2_per_n: float | None
    starts: Mapping | None
    null_directions: list[Mapping]
    residual_diagnostics: Mapping | None = None
    discretization: Mapping | None = None
    profiles: Sequence[Mapping] = ()
    priors: Mapping | None = None
    known_numbers: Mapping | None = None
    next_video: Mapping | None = None

    @property
    def compared(self) -> bool:
        """True if the truth of at least one unknown is known."""
        return any(u["truth"] is not None for u in self.unknowns.values())


def sections(result: Mapping) -> list[Section]:
    """Fits of a result, in its order; `result["labels"]` may name them: {"unknowns_8bit": "8-bit video"}.

    Of a fit whose values cannot be trusted, directions, known numbers and the next video are left out.
    """
    labels = result.get("labels", {})
    keys = [k for k in result if (k == "unknowns" or k.startswith("unknowns_")) and result[k]]
    fits = []
    for key in keys:
        suffix = key.removeprefix("unknowns")
        label = labels.get(key) or suffix.replace("_", " ").strip().replace("8bit", "8-bit video")
        title = f"Unknowns: {label}" if label else "Unknowns"
        status, chi2, starts = (result.get(name + suffix) for name in ("status", "chi2_per_n", "starts"))
        unknowns = result[key] if status != Status.INTERRUPTED else _without_errors(result[key])
        if status in UNTRUSTED:
            unknowns = {name: {**u, "rough": True} for name, u in _without_errors(unknowns).items()}
        directions = (result.get("null_directions" + suffix) or []) if status not in UNTRUSTED else []
        diagnostics, steps = (result.get(name + suffix) for name in ("residual_diagnostics", "discretization"))
        profiles = result.get("profiles" + suffix) or ()
        tables = [result.get(name + suffix) for name in ("priors", "known_numbers", "next_video")]
        if status in UNTRUSTED:  # what follows from a curvature holds for a model that explains the data
            tables[1:] = [None, None]
        fits.append(Section(title, unknowns, status, chi2, starts, directions, diagnostics, steps, profiles, *tables))
    return fits


def _without_errors(unknowns: Mapping[str, Mapping]) -> dict[str, dict]:
    """Unknowns with std NaN (not known yet) instead of None (infinite)."""
    return {name: {**u, "std": math.nan} for name, u in unknowns.items()}


def effect(effect: Mapping) -> str:
    """Effect of a number on an unknown: "+1 %, 34 sd"; of an unknown that is 0 in its unit."""
    absolute = effect["percent"] is None
    amount = two_digits(effect["shift"], True) if absolute else f"{two_digits(effect['percent'], True)} %"
    return amount if effect["sd"] is None else f"{amount}, {two_digits(abs(effect['sd']))} sd"


def prior_words(prior: Mapping, shares: Mapping[str, Mapping]) -> str:
    """A prior in a sentence: what the video adds, and the variance that is due to it."""
    stated = f"{prior['name']} {with_error(prior['mean'], prior['sd'])} {prior['unit']}".strip()
    parts = {name: part.get(prior["source"], 0.0) for name, part in shares.items() if name != prior["name"]}
    due = [f"{100 * part:.2g} % of the variance of {name}" for name, part in parts.items() if part > 0.005]
    after = f"{prior['ratio']:.2g} of its sd is left, {prior['pull']:+.2g} sd from its mean"
    return f"{stated}: {after}" + (f"; from {prior['source']} {', '.join(due)}." if due else ".")


def estimate(unknown: Mapping) -> str:
    """Value and standard deviation; three digits alone where the model does not explain the data."""
    value = unknown["value"]
    if unknown.get("rough") and value is not None and math.isfinite(value):
        return f"{value:.3g}"
    return UNDETERMINED if is_open(unknown["std"]) and value is not None else with_error(value, unknown["std"])


def has_error(unknown: Mapping) -> bool:
    """True if the error of an estimate is known; it may be infinite."""
    return unknown["std"] is None or not math.isnan(unknown["std"])


def interval(unknown: Mapping) -> str:
    """95 % interval, rounded like the estimate: "4.976 … 5.023"; a dash without errors."""
    if not has_error(unknown):
        return "–"
    return interval_in_range(unknown["interval95"], unknown.get("low"), unknown.get("high"), unknown["std"])


def comparison(unknown: Mapping) -> tuple[str, str, str]:
    """Truth, relative error and z-score of an estimate; dashes where unknown."""
    truth, value, std = unknown["truth"], unknown["value"], unknown["std"]
    if truth is None or value is None:
        return "–", "–", "–"
    relative = f"{(value - truth) / abs(truth):+.1e}" if truth else "–"
    score = (value - truth) / std if std and has_error(unknown) else None
    return f"{truth:.6g}", relative, "–" if score is None else f"{score:+.2f}" if abs(score) >= 0.005 else "0.00"


def video_notes(result: Mapping) -> list[str]:
    """Sentences on frames of the video that were not used, and on masks; empty if all were, and all are right."""
    words = {
        "dropped": "are missing in the video",
        "repeated": "repeat the previous frame",
        "excluded": "were excluded by --frames",
    }
    notes = []
    for key, reason in words.items():
        frames = result.get(f"frames_{key}") or []
        if frames:
            listed = ", ".join(map(str, frames[:12])) + (", …" if len(frames) > 12 else "")
            notes.append(f"Frames that {reason}: {listed}.")
    if notes:
        notes.append(f"They are not used; {result['frames_used']} frames are.")
    warnings = [*(result.get("frames_suspected") or ()), *(result.get("mask_faults") or ())]
    advice = [f"For the masks, try {result['mask_advice']}."] if result.get("mask_advice") else []
    return [*notes, *(f"Warning: {text}." for text in warnings), *advice]
