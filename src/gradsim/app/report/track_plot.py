"""Plot of tracks of markers and of the fit."""

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.report.plots import FAINT, WIDTH
from gradsim.identification.observation.points import Points

MOST = 10  # markers that have a color each


def track_plot(observation: Points, predicted: np.ndarray, fps: float) -> Figure:
    """Tracks and fit by coordinate, and what is left of each.

    Args:
        observation: The tracks.
        predicted: Positions of the fit (frames, n, 2 or 3) [px or m].
        fps: Frames per second.
    """
    axes, unit = (("u", "v"), "px") if observation.silhouettes is not None else (("x", "y", "z"), "m")
    figure = Figure(figsize=(WIDTH, 1.9 * len(axes) + 0.5), layout="constrained")
    panels = figure.subplots(len(axes), 2, sharex=True, squeeze=False)
    times, tracks = np.arange(len(predicted)) / fps, observation.positions.numpy()
    for d, (position, residual) in enumerate(panels):
        for k, name in enumerate(observation.names):
            color, label = f"C{k % MOST}", name if d == 0 and len(observation.names) <= MOST else None
            position.plot(times, predicted[:, k, d], color=color, lw=1.2, label=label)
            position.plot(times, tracks[:, k, d], "+", color=color, ms=5, mew=0.9)
            residual.plot(times, tracks[:, k, d] - predicted[:, k, d], ".", color=color, ms=3)
        residual.axhspan(-observation.sigma, observation.sigma, color=FAINT, alpha=0.5, zorder=0)
        position.set_ylabel(f"{axes[d]} [{unit}]")
        residual.set_ylabel(f"track − fit [{unit}]")
        if axes[d] == "v":
            position.invert_yaxis()  # rows count downward
    for panel in panels[-1]:
        panel.set_xlabel("time [s]")
    if len(observation.names) <= MOST:
        panels[0, 0].legend(fontsize=7.5, ncols=3)
    return figure
