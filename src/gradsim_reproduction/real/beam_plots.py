"""Plots of the beam: tracks, the markers of the clamp, meshes, and the beam itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from gradsim.geometry.surface import Appearance, Surface
from gradsim.geometry.tet_grid import box
from gradsim.geometry.tet_mesh import refine, surface
from gradsim.render import Renderer, look_at
from gradsim_reproduction import plotting
from gradsim_reproduction.plotting import DATA, FAINT, FIT, INK, Draw, new_figure, write_figures
from gradsim_reproduction.real import beam_recordings as recorded
from gradsim_reproduction.real.beam_model import FPS, LENGTH, WIDTH, Beam

NAMED = {
    "gravity_a": "gravity_a: E and damping fitted",
    "gravity_b": "gravity_b: predicted",
    "load52_a": "load52_a: predicted, 52 g",
}
SHOWN = 2.5  # [s] of a track
VIEW = {"eye": (0.07, -0.26, 0.13), "target": (-0.01, 0.0, 0.053), "up": (1, 0, 0), "fov_y": 0.36}
PIXELS = (320, 240)
SILICONE = (0.93, 0.55, 0.36)


def draw(out: Path, predictions: Mapping, table: Sequence[dict], beam: Beam, young: float) -> list[dict[str, str]]:
    """Write the images into a folder.

    Args:
        out: The folder.
        predictions: `real_beam.Prediction` by recording.
        table: Of meshes and elements.
        beam: The mesh of the answer.
        young: E on it [Pa].

    Returns:
        File, title and caption of each.
    """
    loaded = predictions["load52_a"].recording
    figures: dict[str, tuple[Draw, str, str]] = {
        "tracks": (
            lambda: _tracks(predictions),
            "Height of the tip after the release",
            (
                "Mean height of the three markers of the tip over the level pose, in the frame of the clamp's markers. When "
                "the hand lets go, and how high, is taken from each recording; all else is the fit to the first. The model "
                "has no creep: measured heights sink through the first seconds."
            ),
        ),
        "clamp": (
            lambda: _clamp(loaded),
            "What the clamp's turn hangs on",
            (
                "Markers along the beam's axis, with the load: 3 and 5 are on one line, so that the turn hangs on 4, which "
                "steps by 0.6 mm within one frame. A clamp that turned so would throw the tip by 2 mm; its track is smooth."
            ),
        ),
        "meshes": (
            lambda: _meshes(table),
            "Meshes and elements",
            "Sag and frequency under its own weight, at the answer's E: tetrahedra of constant strain lock.",
        ),
        "beam": (
            lambda: _beam(beam, young),
            "The beam",
            (
                f"Simulated, E = {young / 1e3:.0f} kPa: held level by the tip, at rest under its own weight, and with 52 g on "
                "the upper edge of its tip."
            ),
        ),
    }
    return write_figures(out, figures)


def _tracks(predictions: Mapping) -> Figure:
    figure = new_figure(plotting.WIDTH, 6.6)
    for ax, (name, p) in zip(figure.subplots(3, 1, sharex=True), predictions.items(), strict=True):
        recording = p.recording
        frames = np.arange(recording.release - 10, recording.release + round(SHOWN * recorded.FPS))
        ax.plot(
            (frames - recording.release) / recorded.FPS,
            1e3 * recording.height[frames],
            ".",
            ms=3,
            color=DATA,
            label="measured",
        )
        simulated = p.height[: round(SHOWN * FPS)]
        ax.plot(np.arange(len(simulated)) / FPS + p.time, 1e3 * simulated, lw=1.2, color=FIT, label="simulated")
        ax.axhline(-1e3 * recording.sag, color=DATA, lw=0.6, ls=":")
        ax.axhline(-1e3 * p.sag, color=FIT, lw=0.6, ls=":")
        off = p.errors
        ax.set_title(
            f"{NAMED[name]}   sag {off['sag']:+.1%}, frequency {off['frequency']:+.1%}", loc="left", fontsize=9
        )
        ax.set_ylabel("height [mm]")
    figure.axes[0].legend(loc="upper right")
    figure.axes[-1].set_xlabel("time after the release [s]")
    return figure


def _clamp(recording: recorded.Recording) -> Figure:
    figure = new_figure(plotting.WIDTH, 3.0)
    frames = np.arange(recording.release - 20, recording.release + 60)
    time = (frames - recording.release) / recorded.FPS
    left, right = figure.subplots(1, 2)
    end = recording.markers[-recorded.REST :].mean(0)
    for k, colour in ((3, FIT), (4, DATA), (5, "#5a8f3c")):
        left.plot(
            time,
            1e3 * (recording.markers[frames, k, 2] - end[k, 2]),
            ".-",
            ms=3,
            lw=0.8,
            color=colour,
            label=f"marker {k}",
        )
    left.set(xlabel="time after the release [s]", ylabel="along the beam [mm]")
    left.legend(loc="lower right")
    right.plot(
        time, 1e3 * (recording.markers[frames, :3, 0].mean(1) - end[:3, 0].mean()), ".-", ms=3, lw=0.8, color=INK
    )
    right.set(xlabel="time after the release [s]", ylabel="tip, height over rest [mm]")
    step = (recorded.first_trusted_frames(recording.markers)[1] - recording.release - 0.5) / recorded.FPS
    for ax in (left, right):
        ax.axvline(step, color=FAINT, lw=4, zorder=0)
    return figure


def _meshes(table: Sequence[dict]) -> Figure:
    figure = new_figure(plotting.WIDTH, 2.8)
    for ax, key, label, scale in zip(
        figure.subplots(1, 2), ("sag_m", "frequency_hz"), ("sag [mm]", "frequency [Hz]"), (1e3, 1), strict=True
    ):
        for kind, colour in (("linear", DATA), ("quadratic", FIT)):
            rows = [row for row in table if row["elements"] == kind]
            ax.semilogx([r["vertices"] for r in rows], [scale * r[key] for r in rows], "o-", color=colour, label=kind)
        ax.set(xlabel="vertices", ylabel=label)
        ax.set_ylim(bottom=0)
    figure.axes[0].legend()
    return figure


def _beam(beam: Beam, young: float) -> Figure:
    places = [beam.at_rest(young, 0.0, 0.0), beam.at_rest(young, 0.0), beam.at_rest(young, recorded.LOAD["load52_a"])]
    figure = new_figure(plotting.WIDTH, 2.5)
    for ax, x, text in zip(figure.subplots(1, 3), places, ("held level", "own weight", "with 52 g"), strict=True):
        ax.imshow(_image(beam, x))
        ax.set_axis_off()
        ax.set_title(text, fontsize=9)
    return figure


def _image(beam: Beam, x: Tensor) -> np.ndarray:
    """(height, width, 3) in [0, 1]."""
    across, along = beam.cells
    grid = box((WIDTH, WIDTH, LENGTH), (across, across, along))
    faces = torch.tensor(surface(refine(grid)))  # its vertices are those of the quadratic elements, in their order
    clamp = torch.tensor(box((0.05, 0.06, 0.01), (1, 1, 1)).vertices) + torch.tensor([0, 0, -0.005], dtype=x.dtype)
    plate = torch.tensor(surface(box((0.05, 0.06, 0.01), (1, 1, 1))))
    things = Surface.of(x, faces, Appearance(color=SILICONE)) + Surface.of(
        clamp, plate, Appearance(color=(0.35, 0.37, 0.42))
    )
    camera = look_at(**VIEW, width=PIXELS[0], height=PIXELS[1])
    return Renderer(camera, shading="phong", samples=3)(things)[0, 0].permute(1, 2, 0).numpy().clip(0, 1)
