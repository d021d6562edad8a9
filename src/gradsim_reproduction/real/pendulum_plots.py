"""Plots of the pendulum: videos, outlines, angle and residual over time, and the error budget."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gradsim.identification.uncertainty.intervals import Z95
from gradsim.video import circle_outline
from gradsim.visualization.overlay_video import EDGE, write_videos
from gradsim_reproduction.plotting import DATA, FAINT, FIT, INK, WIDTH, new_figure, write_figures
from gradsim_reproduction.real.pendulum_measurement import LENGTH, Measurement

CROP = 46  # [px] half the side of a crop around the ball
COLUMNS = 7


def draw(out: Path, measurement: Measurement, colour: Sequence[float]) -> list[dict[str, str]]:
    """Write videos and images into a folder.

    Args:
        out: The folder.
        measurement: Result of the measurement.
        colour: Colour of the ball.

    Returns:
        File, title and caption of each image.
    """
    video, fitted = measurement.video, measurement.masks
    write_videos(out, video.frames[video.first() :], _painted(measurement, fitted, colour), fitted, video.fps)
    return write_figures(
        out,
        {
            "outlines": (lambda: _outlines(measurement, fitted), "Outlines", OUTLINES_TEXT),
            "angle": (lambda: _angle(measurement, fitted), "Angle", ANGLE_TEXT + measurement.video.swings.rule),
            "residual": (lambda: _residual(measurement, fitted), "Residuals", _residual_text(measurement)),
            "budget": (lambda: _budget(measurement), "Contributions to the error bar", _budget_text(measurement)),
            "gravity": (lambda: _gravity(measurement), "No scale without gravity", measurement.identifiability),
        },
    )


OUTLINES_TEXT = (
    "The ball in each frame that counts: its outline (white) where half of the exposure is the ball's, and the "
    "fit's (magenta). Blur lengthens outlines along the trajectory, as much ahead as behind."
)
ANGLE_TEXT = "Angle of the ball in the image; grey: frames that do not count. "


def _residual_text(measurement: Measurement) -> str:
    return (
        f"Centre of the ball in the video less that of the fit, {measurement.residual:.1f} px rms; the string is about "
        f"{measurement.video.swings.circle[2]:.0f} px long. The residual is not pixel noise but a string that stretches and a "
        "ball that shakes, so frames are weighed in blocks."
    )


def _budget_text(measurement: Measurement) -> str:
    checks = measurement.checks
    return (
        "Scatter: blocks of consecutive frames left out one after the other (jackknife); a bootstrap of blocks gives "
        f"{1e3 * checks['std_by_bootstrap_m']:.1f} mm, and independent pixels would give "
        f"{1e3 * checks['std_if_pixels_were_independent_m']:.1f} mm. The rest: changes if a choice that the video "
        "leaves open is made otherwise. For comparison, a camera assumed square to the swing gives "
        f"{checks['length_if_camera_were_square_on_m']:.4f} m, and all frames since the release, including the slack string, "
        f"{checks['length_from_release_on_m']:.4f} m."
    )


def _painted(measurement: Measurement, fitted: np.ndarray, colour: Sequence[float]) -> np.ndarray:
    """The fit's ball and string on the empty background (frames, height, width, 3) uint8."""
    from PIL import Image, ImageDraw

    behind = Image.fromarray(np.median(measurement.video.frames, axis=0).astype(np.uint8))
    paint, frames = tuple(round(255 * c) for c in colour), []
    for mask, centre in zip(fitted, circle_outline.centroids(fitted), strict=True):
        image = behind.copy()
        ImageDraw.Draw(image).line([*measurement.pivot, *centre], fill=(40, 40, 40), width=2)
        image.paste(paint, mask=Image.fromarray((255 * mask).round().astype(np.uint8)))
        frames.append(np.asarray(image))
    return np.stack(frames)


def _outlines(measurement: Measurement, fitted: np.ndarray) -> Figure:
    video, first = measurement.video, measurement.video.first()
    outlines = circle_outline.outline_masks(video.share[first:])
    rows = -(-len(fitted) // COLUMNS)
    figure = new_figure(WIDTH, WIDTH * rows / COLUMNS)
    axes = np.atleast_1d(figure.subplots(rows, COLUMNS)).flat
    for ax in axes:
        ax.set_axis_off()
    for k, ax in enumerate(list(axes[: len(fitted)])):
        x, y = video.centers[first + k].round().astype(int)
        crop = np.s_[max(0, y - CROP) : y + CROP, max(0, x - CROP) : x + CROP]
        ax.imshow(video.frames[first + k][crop])
        ax.contour(outlines[k][crop], [0.5], colors=["white"], linewidths=0.9)
        ax.contour(fitted[k][crop], [0.5], colors=[np.array(EDGE) / 255], linewidths=0.9)
        ax.text(3, 12, str(first + k), color="white", fontsize=7)
    return figure


def _angle(measurement: Measurement, fitted: np.ndarray) -> Figure:
    from scipy.interpolate import CubicSpline

    video, first = measurement.video, measurement.video.first()
    pivot = np.array(measurement.pivot)
    angle = lambda centers: np.degrees(np.arctan2(*(centers - pivot).T))
    time = np.arange(len(video.centers)) / video.fps
    fit, fine = angle(circle_outline.centroids(fitted)), np.linspace(time[first], time[-1], 400)
    figure = new_figure(WIDTH, 3.0)
    ax = figure.subplots()
    ax.axvspan(time[0], time[first] - 0.5 / video.fps, color=FAINT, alpha=0.35, lw=0)
    ax.plot(fine, CubicSpline(time[first:], fit)(fine), color=FIT, label="fit")
    ax.plot(time, angle(video.centers), "o", ms=4, color=DATA, label="video")
    ax.set(xlabel="time [s]", ylabel="angle in the picture [°]")
    ax.legend(loc="upper right")
    return figure


def _residual(measurement: Measurement, fitted: np.ndarray) -> Figure:
    video, first = measurement.video, measurement.video.first()
    centers = circle_outline.centroids(fitted)
    off, string = video.centers[first:] - centers, centers - np.array(measurement.pivot)
    string /= np.hypot(*string.T)[:, None]
    time = (first + np.arange(len(off))) / video.fps
    figure = new_figure(WIDTH, 2.6)
    ax = figure.subplots()
    ax.axhline(0, color=FAINT)
    ax.plot(time, (off * string).sum(1), "o-", ms=4, lw=1, color=DATA, label="along the string")
    ax.plot(
        time, off[:, 0] * string[:, 1] - off[:, 1] * string[:, 0], "s-", ms=4, lw=1, color=FIT, label="along the motion"
    )
    ax.set(xlabel="time [s]", ylabel="film − fit [px]")
    ax.legend(loc="upper right", ncols=2)
    return figure


def _budget(measurement: Measurement) -> Figure:
    length = measurement.fit.unknowns[LENGTH]
    rows = {**measurement.budget, "all together": length.std}
    figure = new_figure(WIDTH, 0.36 * len(rows) + 0.8)
    ax = figure.subplots()
    names = list(rows)[::-1]
    bars = ax.barh(names, [1e3 * rows[name] for name in names], color=[INK] + [FIT] * (len(names) - 1), height=0.55)
    ax.bar_label(bars, fmt="%.2f", padding=3)
    ax.set(xlabel="standard deviation of the string length [mm]")
    return figure


def _gravity(measurement: Measurement) -> Figure:
    length = measurement.fit.unknowns[LENGTH]
    g, s = (np.array([fit[key] for fit in measurement.same]) for key in ("gravity_m_s2", "string_length_m"))
    figure = new_figure(WIDTH, 2.8)
    ax = figure.subplots()
    line = np.array([0, 1.15 * g.max()])
    ax.plot(line, line * s[0] / g[0], color=FAINT, zorder=1)
    ax.plot(g, s, "o", color=DATA, label="equally good fits with g unknown", zorder=3)
    ax.errorbar(g[0], length.value, Z95 * length.std, fmt="D", color=FIT, capsize=4, label="g known", zorder=4)
    for x, y, fit in zip(g, s, measurement.same, strict=True):
        ax.annotate(f"Σ r² = {fit['cost']:.1f}", (x, y), (8, -12), textcoords="offset points", fontsize=8)
    ax.set(xlabel="g [m/s²]", ylabel="string length [m]", xlim=line, ylim=(0, None))
    ax.legend(loc="upper left")
    return figure
