"""Videos as a stranger would make them, fitted from their files: how far do error bars and verdicts of `--noise auto` hold?

108 recordings of ten kinds that are fixed before any is fitted (`scenes.py`), moved by closed forms and SciPy (`motion.py`),
filmed with texture, shading, shadows, noise and h264 (`videos.py`). Each is fitted twice as `gradsim fit SCENE --video FILE
--background median --noise auto` does: with the right model, and with one in which one thing is wrong. Where the median of the
video is refused, the background is a video of the empty scene, as the message says. Masks are the product's; only an oracle
(`oracle.py`), with which error bars are compared, knows true outlines.

    silent failure   status "ok" or "approximate", and an unknown off by more than 5 standard deviations
    flagged          a wrong model whose status is "mismatch" or "approximate"
    named            one of eight planted faults that is the first cause of a mismatch (`planted.py`)
"""

import time
from pathlib import Path

from gradsim.errors import InputError
from gradsim.identification.api import identify
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks
from gradsim_reproduction.clips import plots, videos
from gradsim_reproduction.clips.figures import summary
from gradsim_reproduction.clips.headline import BALL, BALL_BY_DEFAULT, INCLINE, fit_headline, headline_figures
from gradsim_reproduction.clips.oracle import oracle
from gradsim_reproduction.clips.planted import NAMES, fit_planted, planted_figures
from gradsim_reproduction.clips.scenes import KINDS, STARTS, Recording, recording, stream, wrong_model
from gradsim_reproduction.clips.watching import EMPTY, fit_record, observe
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

REFUSED, CRASHED = "refused", "crashed"  # statuses besides those of fits
QUICK = ("toss",)  # kinds whose wrong models the quick form fits, too


@experiment("clips", "Videos as a stranger would make them", parallel=True)
def clips(run: Run) -> Outcome:
    """Make and fit all videos; writes fits.jsonl, table.md, videos and plots. Quick: one of each kind."""
    jobs = {
        f"{kind} {number} {'wrong' if wrong else 'right'} seed {run.seed}": (
            kind,
            number,
            wrong,
            run.seed,
            str(run.out),
        )
        for kind, number, wrong in plan(run)
    }
    records = run.records(run.ledger("fits.jsonl", experiment="clips"), jobs, fit_one)
    named = (INCLINE,) if run.quick else (BALL, BALL_BY_DEFAULT, INCLINE)
    jobs = {f"{name} seed {run.seed}": (name, run.seed, str(run.out)) for name in named}
    headline = run.records(run.ledger("headline.jsonl", experiment="clips"), jobs, fit_headline)
    jobs = {f"{fault} seed {run.seed}": (fault, run.seed, str(run.out / "planted")) for fault in NAMES}
    planted = run.records(run.ledger("planted.jsonl", experiment="clips"), jobs, fit_planted)
    figures = headline_figures(headline) | planted_figures(planted) | summary(records)
    result: dict = {
        "records": records,
        "headline": headline,
        "planted": planted,
        "cpu_seconds": sum(r["cpu_seconds"] + r["made_in"] for r in records),
    }
    result["images"] = plots.draw(run.out, records, run.seed)
    rows = [{"name": key, "paper": None, "ours": one["value"]} for key, one in figures.items()]
    result["table"] = write_table(run.out, "Videos as a stranger would make them", rows, "The paper has none of these.")
    return result, figures


def plan(run: Run) -> list[tuple[str, int, bool]]:
    """Kind and number of every recording, and whether the model is wrong; with `scenes`, that many recordings."""
    if run.quick and not run.scenes:
        return [(kind, 0, wrong) for kind in KINDS for wrong in (False, True) if not wrong or kind in QUICK]
    order = sorted(
        ((number + 0.5) / kind.count, name, number) for name, kind in KINDS.items() for number in range(kind.count)
    )
    return [(name, number, wrong) for _, name, number in order[: run.scenes] for wrong in (False, True)]


def fit_one(job: tuple[str, int, bool, int, str]) -> dict:
    """Record of one fit, and the truth: kind, number, whether the model is wrong, seed, and the folder of the run."""
    kind, number, wrong, seed, out = job
    one, begun = recording(kind, number, seed), time.process_time()
    scene, unknowns = wrong_model(one) if wrong else (one.scene, one.unknowns)
    fault = one.fault if wrong else ""
    record = {"kind": kind, "number": number, "fault": fault, "size": one.scene.camera.size, "silent": False}
    record |= {"crf": videos.quality(one, seed), "unknowns": {}, "cpu_seconds": 0.0, "message": ""}
    made = videos.write_clip(one, seed, Path(out) / "videos", fault)
    record |= {"made_in": time.process_time() - begun}
    starts = int(stream(kind, number, seed, STARTS).integers(2**31))
    try:
        clip, masks = observe(scene, *made)
        fit = identify(scene, unknowns, observation=masks, seed=starts)
    except InputError as error:
        return record | {"status": REFUSED, "message": str(error)}
    except (ArithmeticError, RuntimeError, ValueError, AssertionError) as error:
        return record | {"status": CRASHED, "message": f"{type(error).__name__}: {error}"}
    record |= {"background": "median" if clip.background == "median" else EMPTY}
    return record | fit_record(fit, one) | ({} if wrong else oracle_record(one, fit, masks))


def oracle_record(one: Recording, fit: Fit, masks: Masks) -> dict:
    """Errors of the masks against exact coverage, and error bars over those of the oracle."""
    exact = videos.coverage_of(one, one.truth)
    std, error = oracle(one, masks.masks.numpy(), exact, masks.silhouettes.binning)
    ratios = {name: fit.unknowns[name].std / number for name, number in std.items()}
    return {"mask_error": error, "oracle": std, "sharpness": ratios}
