"""Plots of a calibration: corners in their images, and residuals over the image."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.report.plots import ESTIMATE, FAINT, INK, WIDTH
from gradsim.video.calibration.estimate import Calibration

COLUMNS, MOST = 3, 6  # images
OUT = "#d11b1b"
LONGEST = 0.08  # of the width of the image: the longest residual as drawn


def corners(calibration: Calibration, pictures: Mapping[int, np.ndarray], size: tuple[int, int]) -> Figure:
    """Images of the views with their corners.

    Args:
        calibration: The estimate.
        pictures: Image (height, width, 3) uint8 of each frame, of any resolution.
        size: Width and height of the frames [px].
    """
    count = min(MOST, len(calibration.views))
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    width, height = size
    figure = Figure(figsize=(WIDTH, rows * WIDTH / columns * height / width + 0.3 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    for k, axes in zip(range(count), panels, strict=False):
        view, used = calibration.views[k], calibration.used[k]
        axes.imshow(pictures[view.frame], extent=(0, width, height, 0), interpolation="bilinear")
        axes.plot(*view.pixels[used].T, ".", color=ESTIMATE, ms=3.5, mew=0)
        axes.plot(*view.pixels[~used].T, "x", color=OUT, ms=5)
        axes.set_title(f"{view.label}: {calibration.noise[k]:.2g} px", fontsize=8)
    return figure


def residuals(calibration: Calibration, size: tuple[int, int]) -> Figure:
    """Residuals as arrows over the image, and all of them as dots.

    Args:
        calibration: The estimate.
        size: Width and height of the frames [px].
    """
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    field, scatter = figure.subplots(1, 2, width_ratios=(1.6, 1))
    pixels = np.concatenate([view.pixels for view in calibration.views])
    off = np.concatenate(calibration.residuals)
    used = np.concatenate(calibration.used)
    largest = float(np.linalg.norm(off[used], axis=1).max(initial=1e-12))
    factor = LONGEST * size[0] / largest
    arrows = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.002, "color": ESTIMATE}
    field.quiver(*pixels[used].T, *(factor * off[used]).T, **arrows)
    field.plot(*pixels[~used].T, "x", color=OUT, ms=5)
    field.set(xlim=(0, size[0]), ylim=(size[1], 0), aspect="equal", title=f"{factor:.2g} times")
    scatter.axhline(0, color=FAINT, lw=0.8)
    scatter.axvline(0, color=FAINT, lw=0.8)
    scatter.plot(*off[used].T, ".", color=INK, ms=2, alpha=0.5)
    limit = 1.1 * largest
    scatter.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xlabel="px", ylabel="px")
    return figure
