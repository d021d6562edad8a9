"""Motors that the log of a scene drives: between two states, the mean of what the log says.

    motor(a, b) = scale (C(b − delay) − C(a − delay)) / (b − a) + offset,      C(t) = ∫ column

so that a motor gives the impulse that it gave; derivatives by scale, offset, delay and the clock are exact.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.physics.system import Values
from gradsim.scene.channels.channel import Channel, LogFile
from gradsim.scene.channels.log_file import Signal, read_log

TIME_BEYOND_LOG = 1e4  # [s] that the first and the last value are held before and after a log
MAX_DENSITY = 64  # intervals of one frame
INTERVALS_PER_SAMPLE = 4  # intervals from sample to sample of what is not held: the mean of a curve moves a body by h²/12 of its acceleration
SHORTEST_INTERVAL = 1e-9  # [s] an interval below which the mean is the value at its start


class _Motor(NamedTuple):
    """One motor: knots of its column (n,), the cubic behind each by powers of the time since (4, n), and the integral up to each (n,)."""

    channel: str
    times: Tensor
    cubic: Tensor
    integral: Tensor


class DrivenMotors:
    """Motors that a log drives, by the parameter that it takes the place of.

    Args:
        log: The log; None: nothing is driven.
        channels: Channels of the scene by name.
        fps: Frames per second.

    Attributes:
        density: Intervals of one frame, in each of which a motor has one value.
        has_samples_between_frames: Whether the log is faster than the frames.

    Raises:
        InputError: If the log cannot be read.
    """

    def __init__(self, log: LogFile | None, channels: Mapping[str, Channel], fps: float = 1.0):
        channels = {name: channel for name, channel in channels.items() if channel.drives} if log else {}
        columns = {name: channel.column or name for name, channel in channels.items()}
        signals = read_log(log, list(columns.values())) if log and channels else {}
        self._motors = {
            f"joints.{channel.joint}.{channel.quantity}": _motor(name, signals[columns[name]], channel.between)
            for name, channel in channels.items()
        }
        # intervals of a frame that are as short as those of the log
        steps = [np.median(np.diff(signal.times)) for signal in signals.values()]
        wanted = max((math.ceil(1 / (fps * step) - 0.01) for step in steps), default=1)
        self.has_samples_between_frames = wanted > 1
        curved = any(channel.between != "hold" for channel in channels.values())
        self.density = min(MAX_DENSITY, max(1, wanted) * (INTERVALS_PER_SAMPLE if curved else 1))

    def __contains__(self, parameter: str) -> bool:
        return parameter in self._motors

    def __bool__(self) -> bool:
        return bool(self._motors)

    def channel(self, parameter: str) -> str:
        """Channel that drives a parameter."""
        return self._motors[parameter].channel

    def driven(self, values: Values, durations: Tensor) -> Values:
        """Values of all motors in each interval (worlds, intervals, 1).

        Args:
            values: All parameters (worlds, ...).
            durations: Simulated durations of the intervals from the start of the scene on (worlds, intervals) [s].
        """
        ends = torch.cat([torch.zeros_like(durations[:, :1]), durations.cumsum(1)], 1)
        motors = {}
        for name, motor in self._motors.items():
            scale, offset, delay = (
                values[f"channels.{motor.channel}.{key}"][:, None] for key in ("scale", "offset", "delay")
            )
            level, total = _value_and_integral(motor, ends - delay)
            short = durations.detach() < SHORTEST_INTERVAL
            mean = (total[:, 1:] - total[:, :-1]) / torch.where(short, torch.ones_like(durations), durations)
            motors[name] = (scale * torch.where(short, level[:, :-1], mean) + offset)[..., None]
        return motors


def _motor(name: str, signal: Signal, between: str) -> _Motor:
    first, last = signal.times[0], signal.times[-1]
    times = np.concatenate([[first - TIME_BEYOND_LOG], signal.times, [last + TIME_BEYOND_LOG]])
    values = np.concatenate([signal.values[:1], signal.values, signal.values[-1:]])
    steps, cubic = np.diff(times), np.zeros((4, len(times)))
    cubic[0] = values
    if between == "line":
        cubic[1, :-1] = np.diff(values) / steps
    elif between == "spline":
        cubic[:, 1:-2] = scipy.interpolate.CubicSpline(signal.times, signal.values).c[::-1]
    rise = sum(cubic[k, :-1] * steps ** (k + 1) / (k + 1) for k in range(4))
    integral = np.concatenate([[0.0], np.cumsum(rise)])
    at_start = int(np.searchsorted(signal.times, 0.0)) + 1
    integral -= integral[min(at_start, len(integral) - 1)]  # small numbers where they are needed
    return _Motor(name, *(torch.tensor(x, dtype=torch.float64) for x in (times, cubic, integral)))


def _value_and_integral(motor: _Motor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Column of a log and its integral, at times (worlds, n) [s]; differentiable."""
    times, cubic, integral = (x.to(t) for x in motor[1:])
    index = (torch.searchsorted(times, t.detach().contiguous(), right=True) - 1).clamp(0, len(times) - 1)
    later = t - times[index]
    a, b, c, d = (row[index] for row in cubic)
    level = a + later * (b + later * (c + later * d))
    return level, integral[index] + later * (a + later * (b / 2 + later * (c / 3 + later * d / 4)))
