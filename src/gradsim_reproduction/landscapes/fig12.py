"""The loss over a mass by length and by frame rate of the video (the paper's Fig. 12).

The paper finds shorter videos steeper, the rate of frames of influence, and one minimum throughout. Here the motions of
Fig. 4 are filmed at 120 Hz for 2 s; every shorter video and every lower rate is a choice of these frames, so that the motion
is the same throughout. For each: the minima, the basin (share of the range that leads downhill to the truth), the
curvature at the truth

    L″ = 2 mean (∂I/∂m)²

over pixels and frames, and the bound that video sets for the mass, σ/√(Σ (∂I/∂m)²) with σ = 1/255 for a pixel. Next to
them, for videos of 30 Hz, the share of evenly spread starts from which Adam ends within 1 % of the truth.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.identification.observation.from_video import NOMINAL_NOISE
from gradsim_reproduction.landscapes.curves import curve_record
from gradsim_reproduction.landscapes.descents import problem, run_descents
from gradsim_reproduction.landscapes.rigid import TRUTH, UNKNOWNS
from gradsim_reproduction.landscapes.scenes import GRID_STEP, MASS, RIGID, TRUE_MASS, cube, over
from gradsim_reproduction.landscapes.videos import NAME, VIEWS, errors, mass_rollouts, masses
from gradsim_reproduction.plotting import FAINT, SAFE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import short, write_table

KINDS = RIGID[:3]
FINEST = 120  # [Hz]
RATES = (15, 30, 60, 120)  # [Hz]
SPANS = (2 / 15, 1 / 3, 2 / 3, 4 / 3, 2.0)  # [s]: 4, 10, 20, 40 and 60 intervals at 30 Hz
ENDS = "first_and_last"
NEAR = 1e-6  # [kg] half width of the secant for ∂I/∂m: narrower than any tooth of the paper's law
FULL = {"step": 2 * GRID_STEP, "starts": 7, "iterations": 100}
QUICK = {"step": 0.05, "starts": 5, "iterations": 0}


@experiment("fig12", "Loss landscapes by length and frame rate")
def fig12(run: Run) -> Outcome:
    """Compute curves and descents; writes table.md, landscapes.jsonl and plots. Quick: a coarser grid, no descents."""
    plan = QUICK if run.quick else FULL
    ledger = run.ledger("landscapes.jsonl", plan=plan)
    videos = {kind: ledger.once(kind, curves, kind, plan["step"]) for kind in KINDS}
    homes = {
        (kind, span): ledger.once(
            f"descents {kind} {video_key(span)}", descents, kind, span, plan["starts"], plan["iterations"]
        )
        for kind in KINDS
        for span in (SPANS if plan["iterations"] else ())
    }
    title = "Fig. 12: minima by length and frame rate"
    result: dict = {"images": draw(run.out, videos)}
    result["table"] = write_table(run.out, title, rows(videos, homes), WORDS)
    return result, figures(videos, homes)


WORDS = (
    "Minima within the range. Basin: the share of the range that leads downhill to the truth; home: the share of starts of "
    "Adam that end there. Curvature of the mean squared difference; bound: the standard deviation of the mass at σ = 1/255."
)


def video_key(span: float, rate: int | str = "") -> str:
    """A video in a key: length in milliseconds, rate, or that only its first and last frame count."""
    return f"{round(1000 * span)}ms" + (f"_{rate}hz" if isinstance(rate, int) else f"_{rate}" * bool(rate))


def choices() -> Iterator[tuple[float, int | str, list[int]]]:
    """Length, rate and frames (of those at 120 Hz) of every video; the first and last frame apart."""
    for span in SPANS:
        last = round(span * FINEST)
        for rate in RATES:
            yield span, rate, list(range(0, last + 1, FINEST // rate))
        yield span, ENDS, [0, last]


def curves(kind: str, step: float) -> dict:
    """Curves of every video of a motion, with its "bound" [kg] and its "curvature" at the truth [1/kg²]."""
    mass, scene = masses(step), cube(kind, FINEST)
    model, view = over(scene, {NAME: torch.tensor(mass)}), VIEWS["coverage"](scene)
    trajectories, true = mass_rollouts(model, mass)
    error = errors(view, trajectories, true)
    ahead, _ = mass_rollouts(model, np.array([TRUE_MASS + NEAR]))
    behind, _ = mass_rollouts(model, np.array([TRUE_MASS - NEAR]))
    steep = errors(view, ahead, behind)[0] / (2 * NEAR) ** 2  # mean (∂I/∂m)² over the pixels of each frame
    height, width = scene.view("camera").size
    videos = {}
    for span, rate, frames in choices():
        curve = curve_record(mass, error[:, frames].mean(1))
        information = height * width * steep[frames].sum()
        curve |= {
            "curvature": 2 * steep[frames].mean(),
            "bound": NOMINAL_NOISE / np.sqrt(information),
            "largest": max(curve["loss"]),
        }
        videos[video_key(span, rate)] = curve
    return {"mass": mass.tolist(), "videos": videos}


def descents(kind: str, span: float, starts: int, iterations: int) -> dict:
    """Adam on all pixels of a video of 30 Hz, from starts that are spread evenly over the range."""
    spread = torch.linspace(*MASS, starts, dtype=torch.float64)[:, None]
    return run_descents(problem(cube(kind, 30, span), UNKNOWNS, TRUTH), TRUTH, spread, iterations)


def figures(videos: dict, homes: dict) -> dict[str, dict]:
    """Minima, basin, curvature and bound of every video, and the descents."""
    by_name = {}
    for kind, part in videos.items():
        for key, curve in part["videos"].items():
            by_name[f"minima_{kind}_{key}"] = figure(curve["inner"], paper=1)
            by_name[f"basin_share_{kind}_{key}"] = figure(curve["share"])
            by_name[f"curvature_{kind}_{key}"] = figure(curve["curvature"])
            by_name[f"bound_{kind}_{key}"] = figure(curve["bound"])
    for (kind, span), home in homes.items():
        by_name[f"descents_home_{kind}_{video_key(span, 30)}"] = figure(home["share"])
    return by_name


def rows(videos: dict, homes: dict) -> list[dict]:
    """One for each video."""
    table = []
    for kind, part in videos.items():
        for span, rate, _ in choices():
            curve = part["videos"][video_key(span, rate)]
            how = "first and last frame" if rate == ENDS else f"{rate} Hz"
            note = f"basin {100 * curve['share']:.3g} %, curvature {short(curve['curvature'])} /kg², bound "
            note += f"{short(1000 * curve['bound'])} g"
            if rate == 30 and (kind, span) in homes:
                note += f"; home {100 * homes[kind, span]['share']:.0f} %"
            name = f"{kind}, {span:.2f} s, {how}"
            table.append({"name": name, "paper": 1, "ours": curve["inner"], "ratio": None, "note": note})
    return table


MARKS: dict[str, tuple[str, str]] = dict(zip(("drift", "slide", "tumble"), zip(SAFE, "os^", strict=False), strict=True))
CURVES_WORDS = (
    "Mean squared difference of pixels, by exact coverage, over the mass; the truth is 1 kg. Above: films of 30 Hz by length. "
    "Below: 2 s by rate, and the first and last frame alone. Dots: minima other than the truth's."
)
TREND_WORDS = (
    "By length, for films of 15, 30, 60 and 120 Hz (fainter to stronger) and for the first and last frame alone (dotted). A "
    "longer film of a moving body is steeper at the truth, tells the mass better, and has a narrower basin."
)


def draw(out: Path, videos: Mapping[str, dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    return write_figures(
        out,
        {
            "lengths": (lambda: _curves(videos), "Curves by length and rate", CURVES_WORDS),
            "trends": (lambda: _trends(videos), "Influence of length and rate", TREND_WORDS),
        },
    )


def _parsed(videos: Mapping[str, dict]) -> dict[str, dict[tuple[int, str], dict]]:
    """Curves by motion, then by (milliseconds, rate in words)."""
    split = lambda key: (int(key.split("ms_")[0]), key.split("ms_")[1].replace("hz", " Hz").replace("_", " "))
    return {kind: {split(key): curve for key, curve in part["videos"].items()} for kind, part in videos.items()}


def _curves(videos: Mapping[str, dict]) -> Figure:
    figure = new_figure(8.6, 6.0)
    panels = figure.subplots(2, len(videos), sharex=True, sharey="col")
    for column, (kind, curves) in zip(panels.T, _parsed(videos).items(), strict=True):
        mass = np.array(videos[kind]["mass"])
        spans = sorted({span for span, _ in curves})
        by_span = {f"{span / 1000:.2f} s": curves[span, "30 Hz"] for span in spans}
        by_rate = {rate: curve for (span, rate), curve in curves.items() if span == spans[-1]}
        for ax, group in zip(column, (by_span, by_rate), strict=True):
            ax.axvline(1, color=FAINT, lw=1, zorder=0)
            shades = mpl.colormaps["viridis"](np.linspace(0, 0.85, len(group)))
            for shade, (label, curve) in zip(shades, group.items(), strict=True):
                style = ":" if "last" in label else "-"
                ax.plot(mass, curve["loss"], style, color=shade, lw=1.2, label=label)
                others = [o for o in curve["minima"] if not o["end"] and o["place"] != curve["lowest"]]
                height = [o["loss"] * curve["largest"] for o in others]
                ax.plot([o["place"] for o in others], height, ".", color=shade, ms=3)
        column[0].set_title(kind, loc="left", fontsize=10, fontweight="bold")
        column[1].set_xlabel("mass [kg]")
    for ax, title in zip(panels[:, 0], ("30 Hz, by length", "2 s, by rate"), strict=True):
        ax.set_ylabel(f"{title}\nmean squared difference")
    for ax in panels[:, 0]:
        ax.legend(fontsize=7, loc="upper right")
    return figure


def _trends(videos: Mapping[str, dict]) -> Figure:
    figure = new_figure(8.6, 3.4)
    panels = figure.subplots(1, 3)
    for kind, curves in _parsed(videos).items():
        rates = dict.fromkeys(rate for _, rate in curves)
        for ax, (key, scale) in zip(panels, (("curvature", 1), ("share", 100), ("bound", 1000)), strict=True):
            for k, rate in enumerate(rates):
                values = {span / 1000: scale * c[key] for (span, r), c in curves.items() if r == rate}
                colour, mark = MARKS[kind]
                last = "last" in rate
                style = {"ls": ":" if last else "-", "alpha": 1.0 if last else 0.3 + 0.23 * k, "marker": mark, "ms": 3}
                ax.plot(
                    list(values), list(values.values()), color=colour, label=kind if rate == "30 Hz" else None, **style
                )
    titles = ("curvature at the truth [1/kg²]", "basin [% of the range]", "bound on the mass [g]")
    for ax, title in zip(panels, titles, strict=True):
        ax.set(xlabel="length of the film [s]", yscale="linear" if "basin" in title else "log")
        ax.set_title(title, fontsize=9)
    panels[0].legend(fontsize=8)
    return figure
