"""Plants: a model whose parameters a policy sets, over time or at the start.

Time is divided into control intervals of some frames. A policy gives numbers u in [-1, 1] for each interval, which span
the range of each control. An open-loop policy depends on the time alone, so one rollout takes all its numbers; a policy
with feedback also reads an observation of the state, and the rollout proceeds interval by interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from gradsim.control import actuator_sharing
from gradsim.control.impulses import apply_impulses, instants, split
from gradsim.errors import InputError
from gradsim.physics.model import Model, States
from gradsim.physics.trajectory import Trajectory
from gradsim.scene.parameters import resolve


def check_policy(plant: "Plant", policy: Any) -> None:
    """Check that a policy fits the controls and the observation of a plant.

    Args:
        plant: The plant.
        policy: A module with the interface of `policies.py`; it is called once.

    Raises:
        InputError: If it has no attribute `feedback`, needs an observation of another size or that the plant lacks, or
            returns another number of outputs than the controls need, or values that are not finite.
    """
    name = type(policy).__name__
    feedback = getattr(policy, "feedback", None)
    if not isinstance(feedback, bool):
        raise InputError(
            f"the policy {name} has no attribute `feedback`; set it to True if it reads observations, else to False."
        )
    size = plant.observation.size if plant.observation is not None else None
    observation = None
    if feedback:
        if size is None:
            raise InputError(
                f"the policy {name} reads observations, and the plant has none; give it one, such as "
                "Plant(model, controls, observation=StateObservation(model)), or take an open loop such as Sinusoids."
            )
        wanted = getattr(policy, "inputs", size)
        if wanted != size:
            raise InputError(
                f"the policy {name} reads {wanted} numbers, and the plant's observation has {size}; make it with "
                f"inputs={size} (plant.observation.size)."
            )
        observation = torch.zeros(1, size, dtype=torch.float64)
    times = torch.as_tensor(plant.times)[:1] if feedback else torch.as_tensor(plant.times)
    try:
        with torch.no_grad():
            u = policy(times, observation)
    except (RuntimeError, TypeError, ValueError) as error:
        inputs = "times alone" if observation is None else f"a time and {size} numbers"
        raise InputError(f"the policy {name} fails on the inputs of the plant, {inputs}: {error}") from error
    parts = ", ".join(f"{n} of `{key}`" for key, n in plant.outputs_of.items())
    if not isinstance(u, Tensor) or u.ndim != 3 or u.shape[1] != len(times):
        got = f"a tensor {tuple(u.shape)}" if isinstance(u, Tensor) else f"a {type(u).__name__}"
        raise InputError(
            f"the policy {name} gives {got} for {len(times)} times; expected a tensor (worlds or 1, {len(times)}, "
            f"{plant.outputs}): {parts}."
        )
    if u.shape[2] != plant.outputs:
        raise InputError(
            f"the policy {name} gives {u.shape[2]} numbers for an interval, and the controls need {plant.outputs}: "
            f"{parts}; make it with outputs={plant.outputs} (plant.outputs)."
        )
    if not torch.isfinite(u).all():
        raise InputError(f"the policy {name} gives numbers that are not finite; look at its parameters.")


Parameters = Mapping[str, Tensor]  # parameters (worlds, ...) by name


class Policy(Protocol):
    """Function that sets the controls, usually an `nn.Module`.

    Attributes:
        feedback: Whether it reads observations.
    """

    feedback: bool

    def __call__(self, times: Tensor, observation: Tensor | None) -> Tensor:
        """u (worlds or 1, intervals, outputs).

        Args:
            times: Starts of the intervals (intervals,) [s]: all of them without feedback, one with feedback.
            observation: Observation (worlds, n), or None without feedback.
        """
        ...


class Observation(Protocol):
    """Input of a policy with feedback.

    Attributes:
        size: Numbers of each world.
    """

    size: int

    def __call__(self, states: States, values: Parameters, plant: "Plant") -> Tensor:
        """Observation (worlds, size).

        Args:
            states: States (worlds, ...) by body and name.
            values: All parameters of the model.
            plant: The plant.
        """
        ...


@dataclass(frozen=True)
class Control:
    """A parameter of a model that a policy sets.

    A parameter with a value for each frame interval, such as `walker.activation`, is set over time, one number for each
    element; any other, such as `ball.velocity`, at the start.

    Args:
        name: Dotted name.
        low: Value at u = -1.
        high: Value at u = 1.
    """

    name: str
    low: float
    high: float

    def __post_init__(self):
        if not self.low < self.high:
            raise InputError(
                f"the control `{self.name}` goes from {self.low} to {self.high}; low has to be below high."
            )

    def value(self, u: Tensor) -> Tensor:
        """Value of the parameter at u."""
        return (self.low + self.high) / 2 + u * ((self.high - self.low) / 2)


@dataclass(frozen=True)
class Episode:
    """A trajectory under a policy.

    Args:
        trajectory: All frames, including the start.
        actions: u (worlds, intervals, outputs).
    """

    trajectory: Trajectory
    actions: Tensor

    def centre(self, body: str | None = None) -> Tensor:
        """Centre of mass (worlds, frames, 3) [m] of a body, by default the first; differentiable."""
        return centre(self.trajectory.states, self.trajectory, body)


def centre(states: States, trajectory: Trajectory, body: str | None = None) -> Tensor:
    """Centre of mass (worlds, ..., 3) of a body from states (worlds, ..., n, 3) or (worlds, ..., 3)."""
    system = next((s for s in trajectory.systems if s.name == body), None) if body else trajectory.systems[0]
    if system is None:
        raise InputError(f"unknown body `{body}`; the bodies are {', '.join(s.name for s in trajectory.systems)}.")
    return system.center_of_mass(states[system.name], trajectory.values)


class Plant:
    """A model whose controls a policy sets.

    Args:
        model: The model. Its own parameters are constants: gradients are with respect to the policy.
        controls: Parameters that the policy sets, in the order of its outputs.
        interval: Frames in a control interval.
        observation: Observation for policies with feedback.
        sharing: Groups (elements,) of elements that share a number, by control (`actuator_sharing.py`).

    Raises:
        InputError: If a control is not a parameter of the model, occurs twice or exceeds its range, the scene has a
            single frame, the interval is below 1, or groups do not match the elements of a control.
    """

    def __init__(
        self,
        model: Model,
        controls: Sequence[Control],
        interval: int = 1,
        observation: Observation | None = None,
        sharing: Mapping[str, Tensor] | None = None,
    ):
        if not controls:
            raise InputError("a plant needs at least one control, such as Control('walker.activation', -0.2, 0.2).")
        if model.scene.timing.frames < 2:
            raise InputError("the scene has a single frame, so nothing moves; set `timing.frames` to at least 2.")
        if interval < 1:
            raise InputError(f"the control interval is {interval} frames; it has to be at least 1.")
        self.model, self.controls, self.interval, self.observation = model, tuple(controls), interval, observation
        self.outputs_of: dict[str, int] = {}
        self.sharing: dict[str, Tensor] = {}
        for control in self.controls:
            if control.name in self.outputs_of:
                raise InputError(f"`{control.name}` is a control twice; remove one.")
            if control.name not in model.kinds:
                name, axis = resolve(model.scene, control.name)
                raise InputError(f"a control sets a whole parameter; give `{name}` instead of its component {axis}.")
            kind = model.kinds[control.name]
            if control.low < kind.lower or control.high > kind.upper:
                raise InputError(
                    f"the control `{control.name}` goes from {control.low:g} to {control.high:g}, and the parameter from "
                    f"{kind.lower:g} to {kind.upper:g}; make its range a part of that."
                )
            self.outputs_of[control.name] = kind.elements if kind.timed else max(1, kind.value.size)
        for name, groups in (sharing or {}).items():
            if name not in self.outputs_of or not model.kinds[name].timed:
                raise InputError(
                    f"`{name}` is in `sharing`, but is not a control with a number for each element over time."
                )
            self.sharing[name] = actuator_sharing.check_groups(groups, name, model.kinds[name].elements)
            self.outputs_of[name] = int(self.sharing[name].max()) + 1
        self._timed = {c.name: model.kinds[c.name].timed for c in self.controls}
        for parameter in model.parameters():
            parameter.requires_grad_(False)

    @property
    def outputs(self) -> int:
        """Numbers of a policy for an interval."""
        return sum(self.outputs_of.values())

    @property
    def launched(self) -> bool:
        """True if all controls are set at the start."""
        return not any(self._timed.values())

    @property
    def frames(self) -> int:
        """Frames of an episode, including the start."""
        return self.model.scene.timing.frames

    @property
    def intervals(self) -> int:
        """Control intervals of an episode."""
        return self.intervals_of(self.frames)

    @property
    def times(self) -> Tensor:
        """Starts (intervals,) of the control intervals [s]."""
        return self.times_of(self.intervals)

    @property
    def steps(self) -> int:
        """Simulation steps of an episode of one world."""
        return (self.frames - 1) * self.model.substeps

    def intervals_of(self, frames: int) -> int:
        """Control intervals of an episode of this many frames."""
        return 1 if self.launched else math.ceil((frames - 1) / self.interval)

    def times_of(self, intervals: int, first: int = 0) -> Tensor:
        """Starts (intervals,) of intervals from `first` on [s], in float64 as policies are."""
        numbers = torch.arange(first, first + intervals, dtype=torch.float64)
        return numbers * (self.interval / self.model.scene.timing.fps)

    def check(self, policy: Any) -> None:
        """Check that a policy fits; see `check_policy`.

        Raises:
            InputError: As `check_policy`.
        """
        check_policy(self, policy)

    def rollout(
        self, policy: Policy, overrides: Parameters | None = None, frames: int | None = None, worlds: int = 1
    ) -> Episode:
        """Simulate an episode under a policy; differentiable with respect to its parameters.

        Args:
            policy: The policy.
            overrides: Parameters that differ from the model's own, (worlds, ...) by name, and `BODY.impulses` (`impulses.py`).
            frames: Frames of the episode, including the start; None: the scene's.
            worlds: Number of worlds with feedback, unless `overrides` determines it.

        Raises:
            Divergence: If a state is not finite.
        """
        frames = frames or self.frames
        parameters, impulses = split(overrides, self.model)
        if policy.feedback or impulses:
            start = self.begin(parameters, max([worlds, *map(len, impulses.values())]))
            return self.pieces(policy, start, range(self.intervals_of(frames)), overrides, frames)
        u = policy(self.times_of(self.intervals_of(frames)), None)
        return Episode(self.model.rollout(self.values(u, frames, overrides), frames), u)

    def values(self, u: Tensor, frames: int, overrides: Parameters | None = None) -> dict[str, Tensor]:
        """Parameters of a rollout over `frames` frames: `overrides` and the controls at u (worlds, intervals, outputs)."""
        values = dict(overrides or {})
        parts = u.split(list(self.outputs_of.values()), 2)
        for control, part in zip(self.controls, parts, strict=True):
            kind, value = self.model.kinds[control.name], control.value(part)
            if control.name in self.sharing:
                value = value[..., self.sharing[control.name]]
            if kind.timed:
                values[control.name] = value.repeat_interleave(self.interval, 1)[:, : frames - 1]
            else:
                values[control.name] = value[:, 0].reshape(len(u), *kind.value.shape)
        worlds = max((len(v) for v in values.values()), default=1)
        if len(u) not in (1, worlds) or any(len(v) not in (1, worlds) for v in values.values()):
            raise InputError(
                f"the policy acts in {len(u)} worlds, and the parameters have {worlds}; give as many, or one for all."
            )
        return {name: v.expand(worlds, *v.shape[1:]) for name, v in values.items()}

    def begin(self, overrides: Parameters | None = None, worlds: int = 1) -> dict[str, dict[str, Tensor]]:
        """States at the start, by body and name, (worlds, ...) each; differentiable by `overrides`."""
        start = self.model.rollout(overrides, 1)
        worlds = max(worlds, len(start.values["gravity"]))
        first = lambda y: y[:, 0].expand(worlds, *y[:, 0].shape[1:])
        return {body: {name: first(y) for name, y in state.items()} for body, state in start.states.items()}

    def observe(self, states: States, overrides: Parameters | None = None) -> Tensor:
        """Observation (worlds, size) of states."""
        if self.observation is None:
            raise InputError("the plant has no observation; give Plant(..., observation=StateObservation(...)).")
        return self.observation(states, self.model.values(overrides), self)

    def advance(
        self, states: States, u: Tensor, overrides: Parameters | None = None, frames: int | None = None
    ) -> Trajectory:
        """Simulate one control interval, or `frames` frames of it, under u (worlds or 1, outputs); differentiable.

        Controls of the start are set with `begin(overrides)`.
        """
        frames = frames or self.interval
        return self.model.rollout(self.values(u[:, None], frames + 1, overrides), frames + 1, start=states)

    def pieces(
        self,
        policy: Policy,
        states: States,
        intervals: range,
        overrides: Parameters | None = None,
        frames: int | None = None,
    ) -> Episode:
        """Simulate consecutive intervals of an episode, interrupted by observations and impulses.

        Frames hold the state before an impulse.

        Args:
            policy: The policy; times are those of the episode.
            states: States at the start of the first interval, (worlds, ...) by body and name.
            intervals: Consecutive intervals.
            overrides: As for `rollout`.
            frames: Frames of the whole episode; None: the scene's.

        Raises:
            InputError: If a control is set at the start only.
            Divergence: If a state is not finite.
        """
        if not all(self._timed.values()):
            name = next(name for name, timed in self._timed.items() if not timed)
            why = "a policy with feedback acts" if policy.feedback else "impulses act"
            raise InputError(f"{why} over time, and `{name}` is set at the start; remove it from the controls.")
        (parameters, impulses), frames = split(overrides, self.model), frames or self.frames
        first, end = intervals.start, intervals.stop
        ahead = None if policy.feedback else policy(self.times_of(end - first, first), None)
        inner = range(first + 1, end)
        stops = inner if ahead is None else [k for k in instants(impulses) if k in inner]
        actions, trajectories = [], []
        for k, after in pairwise([first, *stops, end]):
            states = apply_impulses(states, impulses, k)
            u = (
                policy(self.times_of(1, k), self.observe(states, parameters))
                if ahead is None
                else ahead[:, k - first : after - first]
            )
            length = min(after * self.interval, frames - 1) - k * self.interval
            piece = self.model.rollout(self.values(u, length + 1, parameters), length + 1, start=states)
            states = last(piece)
            actions.append(u)
            trajectories.append(piece)
        return Episode(concatenate(trajectories, self.model), torch.cat(actions, 1))


def last(trajectory: Trajectory) -> dict[str, dict[str, Tensor]]:
    """States at the end of a trajectory, to continue from."""
    return {body: {name: y[:, -1] for name, y in state.items()} for body, state in trajectory.states.items()}


def concatenate(pieces: Sequence[Trajectory], model: Model) -> Trajectory:
    """Concatenate trajectories of which each begins where the one before ended."""
    first = pieces[0]
    one = lambda body, name: torch.cat([first[body][name][:, :1], *(p[body][name][:, 1:] for p in pieces)], 1)
    states = {body: {name: one(body, name) for name in state} for body, state in first.states.items()}
    frames = 1 + sum(len(p.times) - 1 for p in pieces)
    times = torch.arange(frames, dtype=torch.float64) / model.scene.timing.fps
    return Trajectory(times, states, first.values, first.systems, first.scenery)
