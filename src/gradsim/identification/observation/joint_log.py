"""Logs of joints as an observation: angles and rates that sensors report, each with factor, offset, delay and noise of its own.

    r = (scale φ(t − delay) + offset − column(t))/sd

Between two states, φ is the cubic that has their coordinates and rates: its error is h⁴ φ⁗/384 for states h apart.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.errors import InputError
from gradsim.identification.observation.base import Coordinates, NoiseFloor, Residual, Sensitivity
from gradsim.numerics.robust import GAUSSIAN, RobustLoss, robust_loss
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.joints import joints_of
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory
from gradsim.scene.channels.channel import Channel
from gradsim.scene.channels.log_file import Signal, read_log

States = Mapping[str, Mapping[str, Tensor]]
DIFFERENCE_ORDER = 4  # of the differences that tell the noise
MEDIAN_OF_NORMAL = 0.6745  # median of |x| of a standard normal x
JUMP = 4.0  # standard deviations of differences beyond which one is a jump
MIN_NOISE_SHARE = 1e-9  # of the span of a signal
SAME_INSTANT = 1e-9  # [s] within which two states are of one instant


class Sensor(NamedTuple):
    """A sensor of a log.

    Args:
        channel: Its channel in the scene.
        signal: Its samples, from the start of the scene.
        sd: Standard deviation of its noise, in its unit.
    """

    channel: Channel
    signal: Signal
    sd: float


class JointLog(Coordinates):
    """Sensors of the log of a scene: an `Observation`.

    Args:
        scene: Scene with `channels` and a `log`.
        frames: Number of frames that are compared; None: those of the scene, as far as the log goes.
        loss: "gaussian", or "huber" or "cauchy" against samples that jump.

    Attributes:
        sensors: The sensors by the name of their channel.
        growth: See `Observation`.
        notes: Entries of `result.json`: the noise of each sensor, and where it is from.

    Raises:
        InputError: If the scene has no log or no sensor, the log cannot be read, or has no sample within the motion.
    """

    growth = 2.0

    def __init__(
        self,
        scene,
        frames: int | None = None,
        loss: str | RobustLoss = GAUSSIAN,
    ):
        channels = {name: channel for name, channel in scene.channels.items() if not channel.drives}
        if scene.log is None:
            raise InputError("the scene has no log; give one (--log FILE, or `log: {file: FILE}` in the scene).")
        if not channels:
            raise InputError(
                "the scene has no channel that is a sensor; add those of the log, such as {q: {joint: elbow, quantity: angle}}."
            )
        columns = {name: channel.column or name for name, channel in channels.items()}
        signals = read_log(scene.log, list(columns.values()))
        self.scene, self.loss = scene, robust_loss(loss)
        self.sensors = {
            name: Sensor(channel, signals[columns[name]], channel.sd or noise_of(signals[columns[name]]))
            for name, channel in channels.items()
        }
        self.first, self.frames = 0, frames or scene.timing.frames
        self._ranges: Mapping[str, tuple[float, float]] = {}
        empty = [name for name, rows in self._rows(self.frames).items() if not len(rows)]
        if empty:
            signal, end = self.sensors[empty[0]].signal, scene.timing.time(self.frames - 1)
            raise InputError(
                f"no sample of `{empty[0]}` is within the motion, 0 to {end:g} s after the scene's start: it has {signal.times[0]:g} to "
                f"{signal.times[-1]:g} s. Set `log.start`, the time in the log of the scene's start."
            )
        how = lambda sensor: "stated" if sensor.channel.sd else "by differences"
        self.notes = {
            "sensors": {
                name: {"samples": len(rows), "sd": self.sensors[name].sd, "noise": how(self.sensors[name])}
                for name, rows in self._rows(self.frames).items()
            }
        }

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        view = self._view(trajectory, frames)
        yield self.loss.root(self._compare(view.states, trajectory.values, view, trajectory, frames))

    def noise_floor(self, frames: int) -> NoiseFloor:
        return NoiseFloor(0.0, float(sum(map(len, self._rows(frames).values()))), math.inf)

    def within(self, ranges: Mapping[str, tuple[float, float]]) -> "JointLog":
        other = copy.copy(self)
        other._ranges = dict(ranges)
        if lost := [name for name, rows in other._rows(self.frames).items() if not len(rows)]:
            raise InputError(
                f"no sample of `{lost[0]}` is within the motion for all delays in the range of `channels.{lost[0]}.delay` and the clock; narrow it."
            )
        return other

    def slice_frames(self, first: int, last: int) -> "JointLog":
        part = copy.copy(self)
        part.first, part.frames = self.first + first, last - first
        return part

    def layout(self, frames: int) -> Tensor:
        """Index of the residual at each place of a table of frames (frames, columns), -1 where there is none; samples of a frame are
        those nearest to it.
        """
        columns, first = [], 0
        stamps = np.array([self.scene.timing.time(self.first + k) for k in range(frames)])
        middles = (stamps[1:] + stamps[:-1]) / 2
        for name, rows in self._rows(frames).items():
            sensor, timing = self.sensors[name], self.scene.timing
            clock = (sensor.signal.times[rows] - sensor.channel.delay - timing.offset) / timing.rate
            frame = np.searchsorted(middles, clock)
            place = np.arange(len(rows)) - np.searchsorted(frame, frame)  # the how many-th of its frame
            table = np.full((frames, int(place.max(initial=-1)) + 1), -1)
            table[frame, place] = first + np.arange(len(rows))
            columns.append(table)
            first += len(rows)
        return torch.tensor(np.concatenate(columns, 1))

    def predict(self, trajectory: Trajectory) -> dict[str, tuple[np.ndarray, Tensor]]:
        """Stamps (n,) [s] and readings (worlds, n) of each sensor by a motion; differentiable."""
        view, rows = self._view(trajectory, self.frames), self._rows(self.frames)
        readings = self._readings(view.states, trajectory.values, view, trajectory, rows)
        return {name: (self.sensors[name].signal.times[rows[name]], readings[name]) for name in rows}

    def chi2_of_sensors(self, trajectory: Trajectory) -> dict[str, float]:
        """Mean square of the whitened residuals of each sensor, of one world."""
        mean_square = {}
        for name, (_, reading) in self.predict(trajectory).items():
            sensor, rows = self.sensors[name], self._rows(self.frames)[name]
            r = (reading[0].detach().numpy() - sensor.signal.values[rows]) / sensor.sd
            mean_square[name] = float(np.mean(r**2))
        return mean_square

    def _linear(self, s: Sensitivity, frames: int) -> tuple[Tensor, Tensor]:
        view, values = self._view(s.trajectory, frames), s.trajectory.values
        flat = lambda states: {f"{body} {key}": y for body, state in states.items() for key, y in state.items()}

        def compare(named: Mapping[str, Tensor]) -> list[Tensor]:
            states = {body: {key: named[f"{body} {key}"] for key in state} for body, state in view.states.items()}
            moving = {**values, **{name: named[name] for name in s.direction}}
            return [self._compare(states, moving, view, s.trajectory, frames)]

        at = flat(view.states) | {name: values[name] for name in s.direction}
        (r,), (slope,) = derivative(compare, at, flat(self._view(s.tangent, frames).states) | dict(s.direction))
        slope = torch.zeros_like(r) if slope is None else slope
        return r[:: s.unknowns], s.by_world(slope).transpose(1, 2)

    def _compare(self, states: States, values: Values, view: "_View", trajectory: Trajectory, frames: int) -> Tensor:
        """Whitened residuals (worlds, n)."""
        rows = self._rows(frames)
        readings = self._readings(states, values, view, trajectory, rows)
        parts = []
        for name, reading in readings.items():
            sensor = self.sensors[name]
            parts.append((reading - torch.tensor(sensor.signal.values[rows[name]])) / sensor.sd)
        return torch.cat(parts, 1)

    def _readings(
        self, states: States, values: Values, view: "_View", trajectory: Trajectory, rows: Mapping[str, np.ndarray]
    ) -> dict[str, Tensor]:
        """Readings (worlds, n) of each sensor at some of its samples."""
        bodies = [system for system in trajectory.systems if isinstance(system, RigidBody)]
        joints = joints_of(bodies, self.scene)
        assert joints is not None  # as channels are of joints
        rate, offset = values["timing.rate"][:, None], values["timing.offset"][:, None]
        times = offset + rate * view.times
        coordinates = joints.coordinates_of({body: dict(state) for body, state in states.items()}, values, times)
        readings = {}
        for name, sensor in self.sensors.items():
            channel, number = sensor.channel, lambda key, n=name: values[f"channels.{n}.{key}"][:, None]
            position, speed = (coordinates[channel.joint][key] for key in self.scene.joints[channel.joint].start)
            stamps = torch.tensor(sensor.signal.times[rows[name]])[None]
            clock = (stamps - number("delay") - offset) / rate
            place, slope = _between(view.times, position, speed * rate, clock.expand(len(position), -1))
            reading = place if channel.quantity in ("angle", "displacement") else slope / rate
            readings[name] = number("scale") * reading + number("offset")
        return readings

    def _rows(self, frames: int) -> dict[str, np.ndarray]:
        """Samples of each sensor within the first frames, wherever numbers that shift them are in their ranges."""
        timing, rows = self.scene.timing, {}
        begin, end = timing.time(self.first), timing.time(self.first + max(frames, 1) - 1)
        span = lambda name, value: self._ranges.get(name, (value, value))
        (slow, fast), (early, late) = span("timing.rate", timing.rate), span("timing.offset", timing.offset)
        for name, sensor in self.sensors.items():
            least, most = span(f"channels.{name}.delay", sensor.channel.delay)
            times = sensor.signal.times
            first = np.minimum((times - most - late) / slow, (times - most - late) / fast)
            last = np.maximum((times - least - early) / slow, (times - least - early) / fast)
            rows[name] = np.flatnonzero((first >= begin - SAME_INSTANT) & (last <= end + SAME_INSTANT))
        return rows

    def _view(self, trajectory: Trajectory, frames: int) -> "_View":
        """States of the first frames, and between them where there are some, each instant once."""
        part = trajectory.at(slice(0, frames))
        part = part if part.dense is None else part.samples
        times = part.times.numpy()
        order = np.argsort(times, kind="stable")
        order = order[np.concatenate([[True], np.diff(times[order]) > SAME_INSTANT])]
        if part.dense is None and len(order) == len(times):
            return _View(part.times, dict(part.states))
        states = {body: {key: y[:, order] for key, y in state.items()} for body, state in part.states.items()}
        return _View(part.times[order], states)


class _View(NamedTuple):
    """Increasing times (n,) [s] by the clock of the video, and states there (worlds, n, ...) by body and name."""

    times: Tensor
    states: States


def noise_of(signal: Signal) -> float:
    """Standard deviation of the noise of a signal, from differences of neighboring samples.

    Differences of order 4 of what is smooth are small; those of white noise have √70 times its standard deviation. By their root mean
    square without those beyond 4 of their own, by their median, as of jumps; and at least what rounding to its steps makes, a step over √12.
    """
    values = signal.values
    order = min(DIFFERENCE_ORDER, len(values) - 1)
    differences = np.diff(values, order)
    spread = math.sqrt(sum(math.comb(order, k) ** 2 for k in range(order + 1)))
    levels = np.unique(values)
    step = np.diff(levels).min() / math.sqrt(12) if 1 < len(levels) < len(values) / 2 else 0.0
    span = float(np.ptp(values))
    typical = float(np.median(np.abs(differences))) / MEDIAN_OF_NORMAL
    usual = differences[np.abs(differences) <= JUMP * typical]
    return max(float(np.sqrt(np.mean(usual**2))) / spread, step, MIN_NOISE_SHARE * span, 1e-300)


def _between(times: Tensor, y: Tensor, v: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Cubic through states and rates y, v (worlds, n) at `times` (n,), and its slope, at t (worlds, m); straight beyond the ends."""
    index = (torch.searchsorted(times, t.detach().contiguous(), right=True) - 1).clamp(0, max(0, len(times) - 2))
    if len(times) == 1:
        return y + v * (t - times), v.expand_as(t)
    h = (times[1:] - times[:-1])[index]
    s = (t - times[index]) / h
    (y0, y1), (v0, v1) = (tuple(x.gather(1, index + k) for k in (0, 1)) for x in (y, v))
    nearest = s.clamp(0, 1)  # of derivative 0 beyond the ends
    outside, s = (s - nearest) * h, nearest
    place = y0 * (1 + 2 * s) * (1 - s) ** 2 + y1 * s**2 * (3 - 2 * s) + h * s * (1 - s) * (v0 * (1 - s) - v1 * s)
    slope = 6 * s * (1 - s) * (y1 - y0) / h + v0 * (1 - s) * (1 - 3 * s) + v1 * s * (3 * s - 2)
    return place + slope * outside, slope
