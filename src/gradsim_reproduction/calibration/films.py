"""Films of real cameras in `reproduce capture`: coverage, silent failures, and what the same films say to a pinhole.

coverage          share of 95 % intervals of the judged unknowns that contain the truth; its standard error is the scatter of films,
                  since unknowns of one film are correlated
silent failure    status `ok` or `approximate`, and an unknown off by more than 5 standard deviations
naive             the same films at a constant rate, by a pinhole with a global shutter that is open for an instant
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np

from gradsim.app.figures import Figures, figure
from gradsim.errors import Status
from gradsim.video.read import read
from gradsim_reproduction.calibration.film_fits import fit_film
from gradsim_reproduction.calibration.film_scenes import KINDS
from gradsim_reproduction.plotting import SAFE, write_figures, z_histogram
from gradsim_reproduction.runner import Run

FILMS, QUICK = 64, 2
BAND = 0.93, 0.97  # goal of the coverage
JUDGED = 40  # films from which on a share is compared with its goal
SHEET_FILMS, SHEET_WIDTH = 8, 240  # of the contact sheet


def films(run: Run) -> list[dict]:
    """Records of all films, from the ledger where they are in it. Quick: one thrown, one pushed."""
    count = run.scenes or (QUICK if run.quick else FILMS)
    kinds = list(KINDS)
    plan = [(kinds[k % len(kinds)], k // len(kinds)) for k in range(count)]
    jobs = {f"{kind} {number} seed {run.seed}": (kind, number, run.seed, str(run.out)) for kind, number in plan}
    return run.records(run.ledger("films.jsonl", experiment="capture films"), jobs, fit_film, "films")


def film_rows(records: Sequence[Mapping]) -> dict[str, dict]:
    """Rows `coverage` and `naive`, and those of each kind of film."""
    fitted = [r for r in records if r["unknowns"]]
    rows = {"coverage": _row(records, fitted), "naive": _row(records, [r["naive"] for r in fitted if r["naive"]])}
    for kind in KINDS:
        part = [r for r in records if r["kind"] == kind]
        rows |= {f"coverage of {kind}": _row(part, [r for r in part if r["unknowns"]])} if part else {}
    return rows


def _row(records: Sequence[Mapping], fits: Sequence[Mapping]) -> dict:
    """Figures of fits: intervals of fits that are `ok`, and errors of all."""
    claimed = [fit for fit in fits if fit["status"] == Status.OK]
    share, error = _coverage(claimed)
    share_of_all, _ = _coverage(fits)
    z = [u["z"] for fit in fits for u in fit["unknowns"].values()]
    good = [u["z"] for fit in claimed for u in fit["unknowns"].values()]
    rms = lambda values: float(np.sqrt(np.mean(np.square(values)))) if values else None
    return {
        "films": len(records),
        "coverage": share,
        "coverage_se": error,
        "coverage_whatever_the_status": share_of_all,
        "intervals": len(good),
        "silent_failures": sum(fit["silent"] for fit in fits),
        "z_rms": rms(good),
        "z_rms_whatever_the_status": rms(z),
        "relative_error_median": _median([abs(u["relative"]) for fit in claimed for u in fit["unknowns"].values()]),
        "statuses": dict(Counter(str(fit["status"]) for fit in fits)),
        "ok_share": len(claimed) / max(1, len(records)),
        "cpu_seconds_median": _median([fit["cpu_seconds"] for fit in fits]),
    }


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _coverage(fits: Sequence[Mapping]) -> tuple[float | None, float | None]:
    """Share of intervals that contain the truth, and its standard error with films as independent."""
    inside = [[u["inside"] for u in fit["unknowns"].values()] for fit in fits]
    count = sum(map(len, inside))
    if not count:
        return None, None
    share = sum(map(sum, inside)) / count
    spread = sum((sum(row) - share * len(row)) ** 2 for row in inside)
    binomial = (share * (1 - share) / count) ** 0.5
    return share, max(spread**0.5 / count, binomial)


def film_figures(rows: Mapping[str, Mapping]) -> Figures:
    """Figures with goals."""
    row, naive = rows["coverage"], rows["naive"]
    enough, share = row["films"] >= JUDGED, row["coverage"]
    within = share is not None and BAND[0] <= share <= BAND[1]
    low = lambda value: figure(value, goal=0)
    figures = {
        "coverage": figure(share, goal=0.95, ok=within or not enough),
        "coverage_se": figure(row["coverage_se"]),
        "silent_failures": low(row["silent_failures"]),
        "ok_share": figure(row["ok_share"], goal=0.9, ok=row["ok_share"] >= 0.9 or not enough),
        "z_rms": figure(row["z_rms"]),
        "naive_z_rms": figure(naive["z_rms_whatever_the_status"]),
        "naive_silent_failures": low(naive["silent_failures"]),
        "naive_ok": figure(naive["statuses"].get(str(Status.OK), 0)),
        "film_cpu_seconds_median": figure(row["cpu_seconds_median"]),
    }
    return {name: f for name, f in figures.items() if f["value"] is not None}


def film_plots(run: Run, records: Sequence[Mapping]) -> list[dict]:
    """Errors over standard deviations, and a contact sheet of the films."""
    z = [u["z"] for r in records for u in r["unknowns"].values() if r["status"] == Status.OK]
    images = []
    if z:
        draw = lambda: z_histogram([("camera as it is", SAFE[0], z)])
        caption = "Error over standard deviation of the judged unknowns, against the unit normal."
        images = write_figures(run.out, {"film_errors": (draw, "Errors of films", caption)})
    sheet = contact_sheet(run.out, records)
    return images + ([sheet] if sheet else [])


def contact_sheet(out: Path, records: Sequence[Mapping]) -> dict | None:
    """First, middle and last frame of some films, and a frame of their boards, in one picture; None without films."""
    strips = []
    for record in records[:SHEET_FILMS]:
        folder = out / "films" / f"{record['kind']}_{record['number']}"
        if not (folder / "film.mp4").exists() or not (folder / "hand.mp4").exists():
            continue
        frames, board = read(folder / "film.mp4").frames, read(folder / "hand.mp4").frames
        chosen = [frames[0], frames[len(frames) // 2], frames[-1], board[0]]
        height = SHEET_WIDTH * frames.shape[1] // frames.shape[2]
        strips.append(np.hstack([cv2.resize(f, (SHEET_WIDTH, height), interpolation=cv2.INTER_AREA) for f in chosen]))
    if not strips:
        return None
    cv2.imwrite(str(out / "films.png"), np.vstack(strips)[..., ::-1])
    return {"file": "films.png", "title": "Films", "caption": "First, middle and last frame, and a view of the board."}
