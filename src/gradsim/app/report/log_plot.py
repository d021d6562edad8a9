"""Plot of the sensors of a log and of the fit."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from gradsim.app.report.plots import FAINT, WIDTH
from gradsim.identification.observation.joint_log import JointLog

UNITS = {"angle": "rad", "rate": "rad/s", "displacement": "m", "speed": "m/s"}


def log_plot(log: JointLog, predicted: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Samples and fit of each sensor, and what is left of it.

    Args:
        log: The log.
        predicted: Stamps (n,) [s] and readings (n,) by the fit, by sensor.
    """
    figure = Figure(figsize=(WIDTH, 1.6 * len(predicted) + 0.5), layout="constrained")
    panels = figure.subplots(len(predicted), 2, sharex=True, squeeze=False)
    for (position, residual), (name, (times, reading)) in zip(panels, predicted.items(), strict=True):
        sensor = log.sensors[name]
        measured = sensor.signal.values[np.isin(sensor.signal.times, times)]
        position.plot(times, measured, ".", color="0.5", ms=2.5, label="log")
        position.plot(times, reading, color="C0", lw=1.2, label="fit")
        residual.plot(times, measured - reading, ".", color="C0", ms=2.5)
        residual.axhspan(-sensor.sd, sensor.sd, color=FAINT, alpha=0.5, zorder=0)
        unit = UNITS[sensor.channel.quantity] if sensor.channel.scale == 1 else "its unit"
        position.set_ylabel(f"{name} [{unit}]")
        residual.set_ylabel("log − fit")
    for panel in panels[-1]:
        panel.set_xlabel("time [s]")
    panels[0, 0].legend(fontsize=7.5, ncols=2)
    return figure
