"""Tosses foretold from their first frames, and images of how far that goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from gradsim.identification.fit import Estimate
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim_reproduction.plotting import DATA, FIT, GREY, INK, Draw, new_figure, write_figures
from gradsim_reproduction.real.cube_recordings import FPS, Toss, angle

SEEN = 8  # first frames of a toss, all in flight, that its prediction starts from
DOWN = torch.tensor([0.0, 0.0, -1.0], dtype=torch.float64)
MODEL, STEADY, FALLING, MEASURED = FIT, DATA, GREY, INK
CM = 100.0
ERRORS = (
    "Distance between predicted and measured position. Thick: their mean, while all of them last; thin: each toss. "
    f"Everything starts from the same first {SEEN} frames, in flight. Without contact, the cube keeps its velocity "
    "(constant velocity) or falls through the table (ballistic)."
)


@dataclass(frozen=True)
class Prediction:
    """Prediction of a toss from its first frames, and the recording.

    Args:
        toss: The recording.
        x: Predicted positions (frames, 3) [m].
        error: Distance of the predicted position from the measured (frames,) [m].
        turn_error: Angle between the orientations (frames,) [rad].
        constant_velocity: Distance if the start velocity lasted: no contact, no gravity (frames,) [m].
        ballistic: Distance on the parabola of the same start: no contact, so it falls through the table (frames,) [m].
    """

    toss: Toss
    x: Tensor
    error: Tensor
    turn_error: Tensor
    constant_velocity: Tensor
    ballistic: Tensor

    def mean(self, quantity: str) -> float:
        """Mean of one of the errors over the frames that the prediction did not see."""
        return getattr(self, quantity)[SEEN:].mean().item()


def start_of(toss: Toss, g: float) -> Values:
    """Start of a toss from its first frames, by a parabola and a steady spin (a cube's inertia is the same all round).

    Args:
        toss: The frames, all in flight.
        g: Gravity [m/s²].
    """
    times = torch.arange(len(toss)).double() / FPS
    line = torch.linalg.pinv(torch.stack([torch.ones_like(times), times], 1))
    middle = toss.q[len(toss) // 2]
    turned = rotation.logarithm(rotation.multiply(toss.q, rotation.conjugate(middle)))
    position, velocity = line @ (toss.x - 0.5 * g * times[:, None] ** 2 * DOWN)
    turn, spin = line @ turned
    rotation_vector = rotation.logarithm(rotation.multiply(rotation.exponential(turn), middle))
    state = {"position": position, "rotation_vector": rotation_vector, "velocity": velocity, "angular_velocity": spin}
    return {f"cube.{key}": value for key, value in state.items()}


def predict(model: Model, space: Space, u: Tensor, tosses: Sequence[Toss]) -> list[Prediction]:
    """Tosses by the model with the unknowns u (unknowns,), open loop from their first frames."""
    shared = space.values(u[None])
    g = -shared["gravity"][0, 2].item()
    starts = [start_of(toss[:SEEN], g) for toss in tosses]
    parameters = {**shared, **{key: torch.stack([s[key] for s in starts]) for key in starts[0]}}
    with torch.no_grad():
        states = model.rollout(parameters, frames=max(map(len, tosses)))["cube"]
    predictions = []
    for k, (toss, start) in enumerate(zip(tosses, starts, strict=True)):
        times = torch.arange(len(toss)).double()[:, None] / FPS
        straight = start["cube.position"] + times * start["cube.velocity"]
        paths = states["x"][k, : len(toss)], straight, straight + 0.5 * g * times**2 * DOWN
        away, steady, falling = (torch.linalg.vector_norm(x - toss.x, dim=1) for x in paths)
        turned = angle(states["q"][k, : len(toss)], toss.q)
        predictions.append(Prediction(toss, paths[0], away, turned, steady, falling))
    return predictions


def images(
    folder: Path,
    predictions: Sequence[Prediction],
    estimates: Mapping[str, Estimate],
    left_out: Mapping[str, Mapping[str, float]],
) -> list[dict[str, str]]:
    """Write the images of the experiment as png, and list them for the report.

    Args:
        folder: Where to.
        predictions: Predictions of the tosses that were not fitted.
        estimates: Estimates of the fit, by name.
        left_out: Values by name, of the fits without one toss, by toss.
    """
    figures: dict[str, tuple[Draw, str, str]] = {
        "heldout_error": (lambda: _errors(predictions), "Held-out tosses: error over the horizon", ERRORS),
        "heldout_paths": (
            lambda: _paths(predictions),
            "Held-out tosses: their paths",
            "Height and distance travelled along the start velocity, measured and predicted open loop.",
        ),
        "friction_gravity": (
            lambda: _estimates(estimates, left_out),
            "Friction and gravity, and the influence of each toss",
            "Band: estimate and 95 % interval. Dots: the fit without that toss.",
        ),
    }
    return write_figures(folder, figures)


def _errors(predictions: Sequence[Prediction]) -> Figure:
    figure = new_figure(8.6, 3.6)
    axes = figure.subplots(1, 2)
    kinds = {
        "error": ("gradsim", MODEL),
        "constant_velocity": ("constant velocity, no contact", STEADY),
        "ballistic": ("ballistic, no contact", FALLING),
    }
    for ax, top in zip(axes, (None, 12.0), strict=True):
        for kind, (label, colour) in kinds.items():
            curves = [getattr(p, kind)[SEEN:].numpy() * CM for p in predictions]
            for y in curves:
                ax.plot(_times(len(y)), y, color=colour, lw=0.7, alpha=0.55)
            mean = np.mean([y[: min(map(len, curves))] for y in curves], 0)
            ax.plot(_times(len(mean)), mean, color=colour, lw=2.4, label=label)
        ax.set(xlabel="time since the start [s]", ylabel="position error [cm]", ylim=(0, top))
    axes[0].set(yscale="symlog", ylim=(0, None), yticks=[0, 1, 3, 10, 30, 100, 300])
    axes[0].set_yticklabels(["0", "1", "3", "10", "30", "100", "300"])
    axes[0].legend(loc="upper left", fontsize=8)
    axes[1].set_title("the same, enlarged", fontsize=9)
    return figure


def _paths(predictions: Sequence[Prediction]) -> Figure:
    figure = new_figure(8.6, 1.9 * len(predictions))
    grid = figure.subplots(len(predictions), 2, squeeze=False, sharex=True)
    for row, p in zip(grid, predictions, strict=True):
        times = np.arange(len(p.toss)) / FPS
        along = p.toss.x[SEEN - 1, :2] - p.toss.x[0, :2]
        along = along / torch.linalg.vector_norm(along)
        for x, colour, label in ((p.toss.x, MEASURED, "measured"), (p.x, MODEL, "predicted")):
            row[0].plot(times, x[:, 2] * CM, color=colour, label=label)
            row[1].plot(times, (x[:, :2] - p.toss.x[0, :2]) @ along * CM, color=colour, label=label)
        for ax in row:
            ax.axvspan(0, (SEEN - 1) / FPS, color=FALLING, alpha=0.25, lw=0, label="start is taken from here")
        row[0].set(ylabel=f"toss {p.toss.name}\nheight [cm]")
        row[1].set(ylabel="travelled [cm]")
    for ax in grid[-1]:
        ax.set(xlabel="time [s]")
    grid[0, 0].legend(fontsize=8)
    return figure


def _estimates(estimates: Mapping[str, Estimate], left_out: Mapping[str, Mapping[str, float]]) -> Figure:
    figure = new_figure(8.6, 2.9)
    quantities = (("ground.friction", 1.0, "friction μ"), ("gravity.z", -1.0, "gravity g [m/s²]"))
    for ax, (name, sign, label) in zip(figure.subplots(1, 2), quantities, strict=True):
        e = estimates[name]
        ax.axhspan(*(sign * y for y in e.interval95), color=MODEL, alpha=0.15, lw=0)
        ax.axhline(sign * e.value, color=MODEL, lw=1.5)
        ax.plot(range(len(left_out)), [sign * values[name] for values in left_out.values()], "o", color=MEASURED, ms=4)
        ax.set_xticks(range(len(left_out)), list(left_out))
        ax.set(xlabel="fit without toss", ylabel=label)
    return figure


def _times(count: int) -> np.ndarray:
    return (SEEN + np.arange(count)) / FPS
