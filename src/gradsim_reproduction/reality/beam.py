"""Row `beam` of the league: laws are fitted to the beam under its own weight, and 52 g at its tip are predicted.

Of two laws the one counts that predicts parts of `gravity_a` best which its fit left out; nothing of `load52_a` is used but the
release, which is a hand's: its time and height are fitted, and neither sag nor frequency depends on them. Two things of the load are stated, not
fitted: its place along the beam has a prior, and the clamp, which turns with the moment on it as under the beam's own weight, is part of
the sag that the markers show (`real.beam_recordings` cannot take it out where marker 4 is not believed).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gradsim.app.figures import figure
from gradsim_reproduction.plotting import DATA, FIT, GREY, WIDTH, new_figure, write_figures
from gradsim_reproduction.real import beam_recordings as recorded
from gradsim_reproduction.real.beam_checks import beam_theory
from gradsim_reproduction.real.beam_model import DENSITY, LENGTH, Beam
from gradsim_reproduction.real.beam_model import WIDTH as SIDE
from gradsim_reproduction.reality import beam_vibration as vibration
from gradsim_reproduction.reality.films import Clip, write_film
from gradsim_reproduction.reality.goals import coverage_figure, halves_figure
from gradsim_reproduction.runner import Run

POISSON = 0.45  # assumed
CELLS, QUICK_CELLS = (2, 7), (2, 3)  # an even number across, so that its two modes of bending do not mix
PLACE = 0.005  # [m] standard deviation of the load's place along the beam, about its tip: a weight of 52 g is 2 cm long
GOALS = {"sag": 0.03, "frequency": 0.015, "decay": 0.15}  # relative
BAND = 0.95
MM = 1e3
AFTER = 2.5  # [s] of a plot
FILMED, SLOW = 2.0, 5  # [s] of a film, and how much slower it is
REST = 200  # last frames of a rollout, half a second


@dataclass(frozen=True, eq=False)
class Predicted:
    """Prediction of a recording, with the release of the recording.

    Args:
        recording: The recording.
        times: Times of its frames after the first off the level pose, from the first trough on (k,) [s].
        heights: Measured heights of the three markers over the level pose (k, 3) [m].
        predicted: The same of the rollout (k, 3) [m].
        swing: Frequency, decay and creep of the rollout.
        sag: Fall of the markers from the level pose to the end of the rollout, in the frame of the clamp [m].
    """

    recording: recorded.Recording
    times: np.ndarray
    heights: np.ndarray
    predicted: np.ndarray
    swing: recorded.Swing
    sag: float

    @property
    def load(self) -> float:
        """Mass on the tip [kg]."""
        return recorded.LOAD[self.recording.name]

    @property
    def moment(self) -> float:
        """Moment on the clamp over g [kg m], of the straight beam."""
        return DENSITY * SIDE**2 * LENGTH**2 / 2 + self.load * LENGTH


def beam_row(run: Run) -> dict:
    """Rows, images, figures and notes of the beam.

    Raises:
        InputError: If the recordings are not there.
    """
    beam = Beam(QUICK_CELLS if run.quick else CELLS, POISSON)
    fitted, loaded = recorded.load("gravity_a"), recorded.load("load52_a")
    run.progress.stage("fitting the beam")
    unloaded = vibration.Vibration(beam, 0.0)
    times, heights = vibration.track(fitted)
    laws = {}
    for law in vibration.LAWS:
        u = vibration.fit(unloaded, law, times, heights)
        rms = float(np.sqrt(((unloaded.heights(u, times) - heights) ** 2).mean()))
        fits, left_out = vibration.leave_blocks_out(unloaded, law, times, heights)
        laws[law] = {"u": u, "fits": fits, "rms_mm": MM * rms, "left_out_mm": MM * left_out}
    best = min(laws, key=lambda law: laws[law]["left_out_mm"])
    u = laws[best]["u"]
    run.progress.stage("predicting the beam with a load")
    alone = _predicted(beam, u, fitted)
    heavy = _predicted(beam, u, loaded)
    record = _record(beam, u, best, alone, heavy)
    record["laws"] = {law: {key: y for key, y in one.items() if key not in ("u", "fits")} for law, one in laws.items()}
    images = draw(run.out, alone, heavy, record)
    record["halves"] = _halves(unloaded, best, u, laws[best]["fits"])
    figures = {f"beam_{key}_error": figure(abs(record["errors"][key]), goal=goal) for key, goal in GOALS.items()}
    figures["beam_band_coverage"] = coverage_figure(record["coverage"])
    chi2 = record["halves"]["chi2_per_dof"]
    figures["beam_halves"] = halves_figure(chi2)
    return {"rows": [record], "images": images, "figures": figures}


def _predicted(beam: Beam, u: np.ndarray, recording: recorded.Recording) -> Predicted:
    """The law u by a rollout of its scene, let go when and where the recording was."""
    load, seconds = recorded.LOAD[recording.name], len(recording.tip) / recorded.FPS
    times, heights = vibration.track(recording, seconds)
    u = vibration.align(vibration.Vibration(beam, load), u, times, heights)
    simulated = vibration.swing(beam, u, load, seconds)
    frames = recording.release + np.round(times * recorded.FPS).astype(int)
    return Predicted(
        recording,
        times,
        (recording.tip - recording.level)[frames][..., 0],
        vibration.at_frames(simulated, times - u[-2]),
        recorded.swing(simulated.mean(1), vibration.FPS),
        -float(simulated[-REST:].mean()),
    )


def _halves(unloaded: vibration.Vibration, law: str, u: np.ndarray, fits: np.ndarray) -> dict:
    """Numbers of `gravity_a` against those of `gravity_b`, another release, with errors by the memory of the residuals of either.

    By leaving out blocks, which are as long as a swing, errors are too small: residuals keep their sign for longer.
    """
    times, heights = vibration.track(recorded.load("gravity_b"))
    other = vibration.fit(unloaded, law, times, heights)
    others, _ = vibration.leave_blocks_out(unloaded, law, times, heights)
    blocks = (vibration.jackknife(fits) + vibration.jackknife(others))[:-2, :-2]
    first = vibration.discrepancy_of(unloaded, u, *vibration.track(recorded.load("gravity_a")))
    second = vibration.discrepancy_of(unloaded, other, times, heights)
    covariance = (first.covariance + second.covariance)[:-2, :-2]
    return {
        "chi2_per_dof": vibration.agreement(u[:-2], other[:-2], covariance),
        "chi2_per_dof_by_blocks": vibration.agreement(u[:-2], other[:-2], blocks),
        "discrepancy": [{"scale_mm": d.process.scale, "time_s": d.process.time} for d in (first, second)],
        "relative_differences": (other[:-2] - u[:-2]).tolist(),
        "relative_std_of_differences": np.sqrt(covariance.diagonal()).tolist(),
    }


def _record(beam: Beam, u: np.ndarray, law: str, alone: Predicted, heavy: Predicted) -> dict:
    """Content of the row in `result.json`."""
    young, *numbers = np.exp(u[:-2]).tolist()
    markers = alone.recording.markers[-recorded.REST :].mean(0)
    arm = float(markers[:3, 2].mean() - markers[3:, 2].mean())
    clamp = alone.recording.turn * arm * heavy.moment / alone.moment  # fall of the tip by the turn of the clamp [m]
    measured, sag = heavy.recording.swing(), heavy.sag + clamp
    place = _slope_by_place(beam, young * vibration.YOUNG, heavy.load) * PLACE  # relative, of sag and frequency
    residual = np.quantile(np.abs(alone.predicted - alone.heights), BAND, axis=0)
    swung = heavy.predicted - clamp * heavy.predicted / -heavy.sag
    band = np.hypot(residual * sag / alone.sag, 1.96 * place[0] * np.abs(swung))
    theory_sag, theory_frequency = beam_theory(alone.recording.sag, alone.recording.swing().frequency)
    errors = {
        "sag": sag / heavy.recording.sag - 1,
        "frequency": heavy.swing.frequency / measured.frequency - 1,
        "decay": heavy.swing.decay / measured.decay - 1,
    }
    mean_mm = lambda y: MM * float(np.abs(y - heavy.heights).mean())
    return {
        "row": "beam",
        "fitted": alone.recording.name,
        "predicted": heavy.recording.name,
        "law": law,
        "numbers": {"young_pa": young * vibration.YOUNG}
        | dict(zip(("viscosity_pa_s", "ratio", "time_s"), numbers, strict=False)),
        "errors": errors,
        "measured": {"sag_m": heavy.recording.sag, **asdict(measured)},
        "predicted_numbers": {"sag_m": sag, "sag_by_turn_of_the_clamp_m": clamp, **asdict(heavy.swing)},
        "std_by_place_of_the_load": {"sag": float(abs(place[0])), "frequency": float(abs(place[1]))},
        "errors_of_the_fit": {
            "sag": alone.sag / alone.recording.sag - 1,
            "frequency": alone.swing.frequency / alone.recording.swing().frequency - 1,
            "decay": alone.swing.decay / alone.recording.swing().decay - 1,
        },
        "track_error_mm": mean_mm(swung),
        "still_mm": mean_mm(0.0),
        "at_rest_mm": mean_mm(-theory_sag),
        "beam_theory_errors": {
            "sag": theory_sag / heavy.recording.sag - 1,
            "frequency": theory_frequency / measured.frequency - 1,
        },
        "coverage": float((np.abs(swung - heavy.heights) <= band).mean()),
    }


def _slope_by_place(beam: Beam, young: float, load: float) -> np.ndarray:
    """Relative change of sag and frequency by the place of a load along the beam [1/m], between its last two layers."""
    inner = Beam(beam.cells, beam.poisson, load_at=LENGTH * (1 - 0.5 / beam.cells[1]))
    ends = [np.array([b.sag(young, load), b.frequency(young, load)]) for b in (inner, beam)]
    return np.log(ends[1] / ends[0]) / (0.5 * LENGTH / beam.cells[1])


def draw(out: Path, alone: Predicted, heavy: Predicted, record: Mapping) -> list[dict[str, str]]:
    """Write plots into a folder.

    Args:
        out: The folder.
        alone, heavy: Predictions under the own weight, and with the load.
        record: Content of the row.

    Returns:
        File, title and caption of each image.
    """

    def heights():
        figure = new_figure(WIDTH, 5.2)
        for ax, one, words in zip(figure.subplots(2, 1), (alone, heavy), ("fitted", "predicted"), strict=True):
            early = one.times < AFTER
            ax.plot(one.times[early], MM * one.heights[early].mean(1), ".", ms=3, color=DATA, label="measured")
            ax.plot(one.times[early], MM * one.predicted[early].mean(1), lw=1.2, color=FIT, label=words)
            ax.plot(
                one.times[early],
                MM * (one.predicted - one.heights)[early].mean(1),
                lw=0.8,
                color=GREY,
                label="difference",
            )
            ax.set(ylabel="height [mm]", title=one.recording.name)
            ax.legend(fontsize=7, loc="lower right")
        figure.axes[-1].set_xlabel("time after the release [s]")
        return figure

    errors = ", ".join(f"{key} {value:+.1%}" for key, value in record["errors"].items())
    caption = f"Mean height of the tip's markers over the level pose. Errors with the load: {errors}."
    film = write_film(
        out / "beam_film.gif",
        [_clip(one, words) for one, words in ((alone, "fitted"), (heavy, "predicted"))],
        recorded.FPS / SLOW,
        "Beam: film",
        f"Recorded (orange) and computed (blue) markers at the tip from the first trough on, {SLOW} times slower; heights are to scale.",
    )
    return [*write_figures(out, {"beam": (heights, "Beam: its own weight, and 52 g", caption)}), film]


def _clip(one: Predicted, words: str) -> Clip:
    """Markers of a recording with their prediction."""
    early = one.times < FILMED

    def lines(heights: np.ndarray) -> np.ndarray:
        along = np.broadcast_to(LENGTH * np.array([0.85, 0.95, 1.05]), heights.shape)
        return np.stack([along, 0 * along, heights], -1)[:, :, None]

    return Clip(
        f"{one.recording.name} ({words})", lines(one.heights[early]), lines(one.predicted[early]), (-np.pi / 2, 0.0)
    )
