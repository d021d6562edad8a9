"""Instants and time steps of a `Model`: its frames, what is between them, and what is before the first one."""

import math
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.system import Values
from gradsim.physics.trajectory import DenseOutput, Trajectory
from gradsim.scene.parameters import MIN_DELAY, camera_prefix

DELAY_ROUNDING = 1e-9  # of a frame


def delay_range(scene, others: Mapping[str, tuple[float, float]] | None = None) -> tuple[float, float]:
    """Least and largest delay of a scene's cameras that have a shutter [s]; (0, 0) without any.

    Args:
        scene: The scene.
        others: Ranges by the name of a parameter, such as `cameras.side.delay`, in place of the scene's delays.

    Raises:
        InputError: If a camera would see what was before the start.
    """
    ranges = [(0.0, 0.0)]
    for name, camera in scene.views.items():
        if camera.has_shutter:
            parameter, delay = f"{camera_prefix(name)}.delay", camera.delay or 0.0
            low, high = (others or {}).get(parameter, (delay, delay))
            if low * scene.timing.fps < MIN_DELAY - DELAY_ROUNDING:
                raise InputError(
                    f"`{parameter}` comes down to {low:g} s: the camera would see what is before the start of the simulation. Delays begin at 0 (half a frame "
                    "before it at most): let the clock be that of the camera that begins first, or give all other cameras a delay, too."
                )
            ranges.append((low, high))
    lows, highs = zip(*(ranges[1:] or ranges), strict=True)
    return min(lows), max(highs)


def count_instants(model, frames: int) -> int:
    """Number of instants that a rollout returns: frames, or those of dense output, for which two frames are the fewest."""
    return frames if model.density == 1 else model.density * (max(1, frames - 1) + _frames_after(model)) + 1


def intervals_before(model, values: Values, touched: Collection[str] = ()) -> int:
    """Intervals between the start and the first frame: none where the first frame shows the start."""
    lead = model.lead * model.density
    if model._late:  # their windows count from the first frame; an offset is refused
        return 0
    if "timing.offset" in touched:
        return lead
    if torch.compiler.is_compiling():
        return lead if model.scene.timing.offset else 0
    return lead if values["timing.offset"].any() else 0


def interval_steps(model, values: Values, frames: int, lead: int) -> Tensor:
    """Time step in each interval (worlds, lead + ends - 1) [s]."""
    rate, count = values["timing.rate"], count_instants(model, frames) - 1
    intervals = _intervals(model, count // model.density + 1)
    if intervals is None:
        steps = (rate * model.dt)[:, None].expand(-1, count)
    else:
        steps = rate[:, None] * (intervals.to(rate) / model.substeps).repeat_interleave(model.density)
    if not lead:
        return steps
    before = values["timing.offset"] / (lead * model.substeps // model.density)
    return torch.cat([before[:, None].expand(-1, lead), steps], 1)


def longest_interval(model, values: Values) -> float:
    """Longest interval that is cut into substeps [s]."""
    longest = max(model.scene.timing.intervals or (1 / model.scene.timing.fps,))
    between = values["timing.rate"].max().item() * longest
    return max(between, values["timing.offset"].max().item() / model.lead)


def timed_values(model, values: Values, frames: int, lead: int, steps: Tensor) -> Values:
    """Values where those that have one for each frame interval also have those of the lead, that of the first, and motors
    what the log drives them with.
    """
    timed = model.driven(values, steps * (model.substeps // model.density))
    for name, kind in model.kinds.items():
        if kind.timed and values[name].ndim == 3 and name not in model.motors:
            if frames == 1 and not values[name].shape[1]:  # of a start alone
                timed[name] = model.get_parameter(name).expand(len(values[name]))
                continue
            if values[name].shape[1] != frames - 1:
                entries = f"{kind.elements} or 1" if kind.elements > 1 else "1"
                raise InputError(
                    f"`{name}` is given for {values[name].shape[1]} frame intervals; {frames} frames have "
                    f"{frames - 1}: give (worlds, {frames - 1}, {entries})."
                )
            if model.density > 1:
                held = values[name][:, -1:].expand(-1, _frames_after(model), -1)
                timed[name] = torch.cat([values[name], held], 1).repeat_interleave(model.density, 1)
            if lead:
                timed[name] = torch.cat([values[name][:, :1].expand(-1, lead, -1), timed[name]], 1)
    return timed


def make_trajectory(model, states, values: Values, frames: int) -> Trajectory:
    """Trajectory at the frames, with dense output about each where something is measured between them.

    Args:
        model: The model.
        states: States by body and name at all instants from the first frame on (worlds, instants, ...).
        values: All parameters.
        frames: Number of frames.
    """
    intervals = _intervals(model, frames)
    times = torch.cat([intervals.new_zeros(1), intervals.cumsum(0)]) if intervals is not None else None
    times = torch.arange(frames, dtype=torch.float64) / model.scene.timing.fps if times is None else times
    if model.density == 1:
        return Trajectory(times, states, values, model.systems, model.scenery)
    m, ends = model.density, count_instants(model, frames)
    select = lambda which: {b: {k: y[:, which] for k, y in state.items()} for b, state in states.items()}
    if not (model.has_shutter or model.motors.has_samples_between_frames):
        return Trajectory(times, select(m * torch.arange(frames)), values, model.systems, model.scenery)
    parts = (_durations(model, max(frames, 2) + _frames_after(model)) / m).repeat_interleave(m)
    instants = torch.cat([parts.new_zeros(1), parts.cumsum(0)])
    first, length = m * _frames_before(model) - m // 2, m * (1 + _frames_after(model) - _frames_before(model))
    begin = (m * torch.arange(frames) + first).clamp(0, ends - 1 - length)
    window = begin[:, None] + torch.arange(length + 1)
    dense = DenseOutput(instants[window] - times[:, None], select(window), model.has_shutter)
    return Trajectory(times, select(m * torch.arange(frames)), values, model.systems, model.scenery, dense)


def _frames_after(model) -> int:
    """Frames after the last one that a delayed camera sees."""
    return max(0, math.ceil(model.delays[1] * model.scene.timing.fps - DELAY_ROUNDING))


def _frames_before(model) -> int:
    """Frames after a stamp at which its window begins: those that no camera sees any more."""
    return max(0, math.floor(model.delays[0] * model.scene.timing.fps))


def _intervals(model, frames: int) -> Tensor | None:
    """Durations between frames (frames - 1,) by the clock of the video [s]; None where all are equal."""
    if model.scene.timing.stamps is None:
        return None
    times = torch.tensor([model.scene.timing.time(k) for k in range(frames)], dtype=torch.float64)
    return times.diff()


def _durations(model, frames: int) -> Tensor:
    """The same of at least one interval, in any case."""
    count = max(frames, 2)
    intervals = _intervals(model, count)
    return torch.full((count - 1,), 1 / model.scene.timing.fps, dtype=torch.float64) if intervals is None else intervals
