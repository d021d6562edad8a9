"""Reading `result.json`: the fits in it, and the words for their verdicts.

A run may hold several fits. Their keys share a suffix: `unknowns_8bit` belongs with `status_8bit`, `chi2_per_n_8bit`,
`starts_8bit` and `null_directions_8bit`; where one is missing the run as a whole says nothing about it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradsim.numerics.formatting import rounded


@dataclass(frozen=True)
class Verdict:
    """What a status means.

    Args:
        title: In a few words.
        meaning: What it says about the numbers.
        advice: What to do.
        colour: "good", "open" or "bad".
    """

    title: str
    meaning: str
    advice: str
    colour: str


VERDICTS = {
    "ok": Verdict(
        "Identified",
        "The data bound every unknown to better than 10 %, and the model explains them to within the stated noise.",
        "",
        "good",
    ),
    "unidentifiable": Verdict(
        "Not all of it shows in the data",
        "The data leave at least one direction open; the values of the unknowns along it are arbitrary.",
        "Fix one of the quantities named below, give it a prior, or film a motion in which they act apart.",
        "open",
    ),
    "mismatch": Verdict(
        "The model does not explain the data",
        "What is left after the fit is far above the stated noise, so neither values nor error bars can be trusted.",
        "See in the film where model and video part. The usual causes: camera, scale, frame rate, a missing body "
        "or force, masks that are cut off, or noise stated too low.",
        "bad",
    ),
    "interrupted": Verdict(
        "Stopped before the end",
        "The values are those of the best start on the part of the video that the search had come to; they are no "
        "answer yet, and have no error bars.",
        "",
        "open",
    ),
    "failed": Verdict(
        "No start came near the data",
        "The search ended without an answer; the values below are only where it stopped.",
        "Check scene and camera against the video, narrow the ranges, or use more starts.",
        "bad",
    ),
}


@dataclass(frozen=True)
class Section:
    """One fit of a run.

    Args:
        title: What was fitted.
        unknowns: Estimates by name, as in `result.json`.
        status: Its verdict; None if the run states none for this fit.
        chi2_per_n: Mean square of its whitened residuals.
        starts: Starts drawn and converged.
        null_directions: What the data leave open.
        residual_diagnostics: What the fit leaves, frame by frame; None if the run does not tell.
        profiles: χ² along weak directions.
    """

    title: str
    unknowns: Mapping[str, Mapping]
    status: str | None
    chi2_per_n: float | None
    starts: Mapping | None
    null_directions: list[Mapping]
    residual_diagnostics: Mapping | None = None
    profiles: Sequence[Mapping] = ()

    @property
    def compared(self) -> bool:
        """Whether the truth of some unknown is known."""
        return any(u["truth"] is not None for u in self.unknowns.values())


def sections(result: Mapping) -> list[Section]:
    """The fits of a run, in the order of its file. `result["labels"]` may name them: {"unknowns_8bit": "8-bit video"}."""
    labels = result.get("labels", {})
    keys = [k for k in result if (k == "unknowns" or k.startswith("unknowns_")) and result[k]]
    found = []
    for key in keys:
        suffix = key.removeprefix("unknowns")
        given = labels.get(key) or suffix.replace("_", " ").strip().replace("8bit", "8-bit video")
        title = f"Unknowns: {given}" if given else "Unknowns"
        status, chi2, starts = (result.get(name + suffix) for name in ("status", "chi2_per_n", "starts"))
        unknowns = result[key] if status != "interrupted" else _unmeasured(result[key])
        open_directions, left = (
            result.get("null_directions" + suffix) or [],
            result.get("residual_diagnostics" + suffix),
        )
        profiles = result.get("profiles" + suffix) or ()
        found.append(Section(title, unknowns, status, chi2, starts, open_directions, left, profiles))
    return found


def _unmeasured(unknowns: Mapping[str, Mapping]) -> dict[str, dict]:
    """Unknowns whose errors are not known yet, rather than infinite."""
    return {name: {**u, "std": math.nan} for name, u in unknowns.items()}


def measured(unknown: Mapping) -> bool:
    """Whether the error of an estimate is known, be it infinite."""
    return unknown["std"] is None or not math.isnan(unknown["std"])


def interval(unknown: Mapping) -> str:
    """95 % interval, rounded as the estimate is: "4.976 … 5.023"; a dash where errors are not known yet."""
    if not measured(unknown):
        return "–"
    low, high = unknown["interval95"] or (None, None)
    left = "−∞" if low is None else rounded(low, unknown["std"])
    return f"{left} … {'∞' if high is None else rounded(high, unknown['std'])}"


def comparison(unknown: Mapping) -> tuple[str, str, str]:
    """Truth, relative error and z-score of an estimate; dashes where they are not known."""
    truth, value, std = unknown["truth"], unknown["value"], unknown["std"]
    if truth is None or value is None:
        return "–", "–", "–"
    relative = f"{(value - truth) / abs(truth):+.1e}" if truth else "–"
    score = (value - truth) / std if std else None
    return f"{truth:.6g}", relative, "–" if score is None else f"{score:+.2f}" if abs(score) >= 0.005 else "0.00"


def film_notes(result: Mapping) -> list[str]:
    """What became of the film's frames, a sentence each; nothing where all of them count."""
    words = {
        "dropped": "have no picture in the film",
        "repeated": "only repeat the one before",
        "excluded": "were not chosen",
    }
    notes = []
    for key, what in words.items():
        frames = result.get(f"frames_{key}") or []
        if frames:
            listed = ", ".join(map(str, frames[:12])) + (", …" if len(frames) > 12 else "")
            notes.append(f"Frames that {what}: {listed}.")
    if notes:
        notes.append(f"They do not count; {result['frames_used']} frames do.")
    return [*notes, *(f"Suspicion: {told}." for told in result.get("frames_suspected") or [])]
