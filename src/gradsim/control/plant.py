"""A model whose controls a policy sets: actuation over time, or a start.

Time is cut into control intervals of some frames. A policy is asked once for each, and gives numbers u: -1 stands for
the lower end of a control's range, 1 for the upper one. An open-loop policy knows the time alone, so all its numbers act
in one rollout; one with feedback also sees the state, and the rollout goes from interval to interval.

Whether a policy fits what it is to move: asked before any rollout.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from gradsim.control import actuator_sharing
from gradsim.control.impulses import instants, kicked, split
from gradsim.errors import InputError
from gradsim.physics.model import Model, States
from gradsim.physics.soft.body import SoftBody
from gradsim.physics.trajectory import Trajectory
from gradsim.scene.parameters import resolve


def check(plant, policy) -> None:
    """Refuse a policy whose numbers do not fit the controls or the senses of a plant.

    Args:
        plant: A `Plant`.
        policy: Any module that is called as those of `policies.py` are; it is called once.

    Raises:
        InputError: If it does not say whether it looks at observations, looks without senses or at another number of
            observations than they give, or gives another number of outputs than the controls need, or no finite ones.
    """
    name = type(policy).__name__
    feedback = getattr(policy, "feedback", None)
    if not isinstance(feedback, bool):
        raise InputError(
            f"the policy {name} has no attribute `feedback`; set it to True if it looks at observations, else to False."
        )
    size = plant.senses.size if plant.senses is not None else None
    seen = None
    if feedback:
        if size is None:
            raise InputError(
                f"the policy {name} looks at observations, and the plant has no senses; give it some, such as "
                "Plant(model, controls, senses=StateSenses(model)), or take an open loop such as Sinusoids."
            )
        wanted = getattr(policy, "inputs", size)
        if wanted != size:
            raise InputError(
                f"the policy {name} looks at {wanted} numbers, and the plant's senses give {size}; make it with "
                f"inputs={size} (plant.senses.size)."
            )
        seen = torch.zeros(1, size, dtype=torch.float64)
    times = torch.as_tensor(plant.times)[:1] if feedback else torch.as_tensor(plant.times)
    try:
        with torch.no_grad():
            u = policy(times, seen)
    except (RuntimeError, TypeError, ValueError) as error:
        shown = "times alone" if seen is None else f"a time and {size} numbers"
        raise InputError(f"the policy {name} fails on what the plant shows it, {shown}: {error}") from error
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


Given = Mapping[str, Tensor]  # parameters (worlds, ...) by name


class Policy(Protocol):
    """What sets the controls: an `nn.Module`, as a rule.

    Attributes:
        feedback: Whether it sees the state.
    """

    feedback: bool

    def __call__(self, times: Tensor, observation: Tensor | None) -> Tensor:
        """u (worlds or 1, intervals, outputs).

        Args:
            times: Starts of the intervals (intervals,) [s]: of all of them without feedback, of one with it.
            observation: What the senses see (worlds, n), or None without feedback.
        """
        ...


class Senses(Protocol):
    """What a policy with feedback sees."""

    size: int

    def __call__(self, states: States, values: Given, plant: "Plant") -> Tensor:
        """(worlds, size) of states (worlds, ...) by body and name; `values`: all parameters of the model."""
        ...


@dataclass(frozen=True)
class Control:
    """One parameter of a model that a policy sets.

    A parameter that a rollout takes for each frame interval, such as `walker.activation`, is set over time, with a number
    for each element; any other, such as `ball.velocity`, at the start.

    Args:
        name: Its dotted name.
        low: What u = -1 means.
        high: What u = 1 means.
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
        """What u means."""
        return (self.low + self.high) / 2 + u * ((self.high - self.low) / 2)


@dataclass(frozen=True)
class Episode:
    """A motion under a policy.

    Args:
        trajectory: All frames, the start included.
        actions: u (worlds, intervals, outputs).
    """

    trajectory: Trajectory
    actions: Tensor

    def centre(self, body: str | None = None) -> Tensor:
        """The centre of mass of a body, by default the first, (worlds, frames, 3) [m]; differentiable."""
        return centre(self.trajectory.states, self.trajectory, body)


def centre(states: States, trajectory: Trajectory, body: str | None = None) -> Tensor:
    """The centre of mass (worlds, ..., 3) of a body in states (worlds, ..., n, 3) or (worlds, ..., 3)."""
    system = next((s for s in trajectory.systems if s.name == body), None) if body else trajectory.systems[0]
    if system is None:
        raise InputError(f"there is no body `{body}`; there are {', '.join(s.name for s in trajectory.systems)}.")
    x = states[system.name]["x"]
    if not isinstance(system, SoftBody):
        return x
    mass = system.mass(trajectory.values)
    share = mass / mass.sum(1, keepdim=True)
    return (share.reshape(len(share), *[1] * (x.ndim - 3), -1, 1) * x).sum(-2)


class Plant:
    """A model whose controls a policy sets.

    Args:
        model: The model. Its own parameters are constants here: gradients are those of the policy.
        controls: What the policy sets; its outputs stand in this order.
        interval: Frames in a control interval.
        senses: What a policy with feedback sees.
        share: Groups (elements,) of elements with one number in common, by control (`sharing.py`).

    Raises:
        InputError: If a control is no parameter of the model, or is there twice, or leaves its range, or nothing moves
            in a single frame, or the interval is not at least 1, or groups are not of the elements of a control.
    """

    def __init__(
        self,
        model: Model,
        controls: Sequence[Control],
        interval: int = 1,
        senses: Senses | None = None,
        share: Mapping[str, Tensor] | None = None,
    ):
        if not controls:
            raise InputError("a plant needs at least one control, such as Control('walker.activation', -0.2, 0.2).")
        if model.scene.timing.frames < 2:
            raise InputError(
                "the scene has a single frame, its start, in which nothing moves; it needs `timing.frames`."
            )
        if interval < 1:
            raise InputError(f"the control interval is {interval} frames; it has to be at least 1.")
        self.model, self.controls, self.interval, self.senses = model, tuple(controls), interval, senses
        self.outputs_of: dict[str, int] = {}
        self.share: dict[str, Tensor] = {}
        for control in self.controls:
            if control.name in self.outputs_of:
                raise InputError(f"`{control.name}` is a control twice; leave one out.")
            if control.name not in model.kinds:
                name, axis = resolve(model.scene, control.name)
                raise InputError(f"a control sets all of a parameter; give `{name}` in place of its component {axis}.")
            kind = model.kinds[control.name]
            if control.low < kind.lower or control.high > kind.upper:
                raise InputError(
                    f"the control `{control.name}` goes from {control.low:g} to {control.high:g}, and the parameter from "
                    f"{kind.lower:g} to {kind.upper:g}; make its range a part of that."
                )
            self.outputs_of[control.name] = kind.elements if kind.timed else max(1, kind.value.size)
        for name, groups in (share or {}).items():
            if name not in self.outputs_of or not model.kinds[name].timed:
                raise InputError(f"`{name}` is shared, and is no control that has a number for each element over time.")
            self.share[name] = actuator_sharing.checked(groups, name, model.kinds[name].elements)
            self.outputs_of[name] = int(self.share[name].max()) + 1
        self._timed = {c.name: model.kinds[c.name].timed for c in self.controls}
        for parameter in model.parameters():
            parameter.requires_grad_(False)

    @property
    def outputs(self) -> int:
        """Numbers that a policy gives for an interval."""
        return sum(self.outputs_of.values())

    @property
    def launched(self) -> bool:
        """Whether all controls are set at the start."""
        return not any(self._timed.values())

    @property
    def frames(self) -> int:
        """Of an episode, the start included."""
        return self.model.scene.timing.frames

    @property
    def intervals(self) -> int:
        """Control intervals of an episode."""
        return self.intervals_of(self.frames)

    @property
    def times(self) -> Tensor:
        """Their starts (intervals,) [s]."""
        return self.times_of(self.intervals)

    @property
    def steps(self) -> int:
        """Simulated steps of an episode of one world."""
        return (self.frames - 1) * self.model.substeps

    def intervals_of(self, frames: int) -> int:
        """Control intervals of so many frames."""
        return 1 if self.launched else math.ceil((frames - 1) / self.interval)

    def times_of(self, intervals: int, first: int = 0) -> Tensor:
        """Starts (intervals,) of intervals from `first` on [s]; float64, as policies are, whatever the model is."""
        numbers = torch.arange(first, first + intervals, dtype=torch.float64)
        return numbers * (self.interval / self.model.scene.timing.fps)

    def check(self, policy: Any) -> None:
        """Refuse a policy whose numbers do not fit: see `matching.check`.

        Raises:
            InputError: If its outputs are not as many as those of the controls, or it wants senses and there are none.
        """
        check(self, policy)

    def rollout(
        self, policy: Policy, given: Given | None = None, frames: int | None = None, worlds: int = 1
    ) -> Episode:
        """Move under a policy; differentiable by its parameters.

        Args:
            policy: What sets the controls.
            given: Parameters that differ from the model's own, (worlds, ...) by name; and `BODY.kicks` (see `kicks.py`).
            frames: Of the episode, the start included; None takes the scene's.
            worlds: Worlds with feedback where `given` does not say.

        Raises:
            Divergence: If a state is no longer finite.
        """
        frames = frames or self.frames
        own, kicks = split(given, self.model)
        if policy.feedback or kicks:
            start = self.begin(own, max([worlds, *map(len, kicks.values())]))
            return self.pieces(policy, start, range(self.intervals_of(frames)), given, frames)
        u = policy(self.times_of(self.intervals_of(frames)), None)
        return Episode(self.model.rollout(self.values(u, frames, given), frames), u)

    def values(self, u: Tensor, frames: int, given: Given | None = None) -> dict[str, Tensor]:
        """What a rollout over so many frames is given for u (worlds, intervals, outputs), beside `given`."""
        found = dict(given or {})
        parts = u.split(list(self.outputs_of.values()), 2)
        for control, part in zip(self.controls, parts, strict=True):
            kind, value = self.model.kinds[control.name], control.value(part)
            if control.name in self.share:
                value = value[..., self.share[control.name]]
            if kind.timed:
                found[control.name] = value.repeat_interleave(self.interval, 1)[:, : frames - 1]
            else:
                found[control.name] = value[:, 0].reshape(len(u), *kind.value.shape)
        worlds = max((len(v) for v in found.values()), default=1)
        if len(u) not in (1, worlds) or any(len(v) not in (1, worlds) for v in found.values()):
            raise InputError(
                f"the policy acts in {len(u)} worlds, and {worlds} are given; it needs as many, or one for all of them."
            )
        return {name: v.expand(worlds, *v.shape[1:]) for name, v in found.items()}

    def begin(self, given: Given | None = None, worlds: int = 1) -> dict[str, dict[str, Tensor]]:
        """States at the start, by body and name, (worlds, ...) each; differentiable by `given`."""
        start = self.model.rollout(given, 1)
        worlds = max(worlds, len(start.values["gravity"]))
        first = lambda y: y[:, 0].expand(worlds, *y[:, 0].shape[1:])
        return {body: {name: first(y) for name, y in own.items()} for body, own in start.states.items()}

    def observe(self, states: States, given: Given | None = None) -> Tensor:
        """What the senses see (worlds, size)."""
        if self.senses is None:
            raise InputError("the plant has no senses; give Plant(..., senses=StateSenses(...)).")
        return self.senses(states, self.model.values(given), self)

    def advance(self, states: States, u: Tensor, given: Given | None = None, frames: int | None = None) -> Trajectory:
        """One control interval, or so many frames of one, from states under u (worlds or 1, outputs); differentiable.

        A launch is set with `begin(given)`, not here.
        """
        frames = frames or self.interval
        return self.model.rollout(self.values(u[:, None], frames + 1, given), frames + 1, start=states)

    def pieces(
        self,
        policy: Policy,
        states: States,
        intervals: range,
        given: Given | None = None,
        frames: int | None = None,
    ) -> Episode:
        """Move through some intervals of an episode, stopping wherever the policy looks or a body is kicked.

        A frame shows the state before a kick.

        Args:
            policy: What sets the controls; it is told the times of the episode.
            states: At the start of the first interval, (worlds, ...) by body and name.
            intervals: One after another.
            given: As for `rollout`.
            frames: Of the whole episode; None takes the scene's.

        Raises:
            InputError: If a control is set at the start alone.
            Divergence: If a state is no longer finite.
        """
        if not all(self._timed.values()):
            name = next(name for name, timed in self._timed.items() if not timed)
            why = "a policy with feedback acts" if policy.feedback else "kicks act"
            raise InputError(f"{why} over time, and `{name}` is set at the start; leave it out.")
        (given, kicks), frames = split(given, self.model), frames or self.frames
        first, end = intervals.start, intervals.stop
        ahead = None if policy.feedback else policy(self.times_of(end - first, first), None)
        inner = range(first + 1, end)
        stops = inner if ahead is None else [k for k in instants(kicks) if k in inner]
        actions, found = [], []
        for k, after in pairwise([first, *stops, end]):
            states = kicked(states, kicks, k)
            u = (
                policy(self.times_of(1, k), self.observe(states, given))
                if ahead is None
                else ahead[:, k - first : after - first]
            )
            length = min(after * self.interval, frames - 1) - k * self.interval
            piece = self.model.rollout(self.values(u, length + 1, given), length + 1, start=states)
            states = last(piece)
            actions.append(u)
            found.append(piece)
        return Episode(joined(found, self.model), torch.cat(actions, 1))


def last(trajectory: Trajectory) -> dict[str, dict[str, Tensor]]:
    """States at the end of a motion, to go on from."""
    return {body: {name: y[:, -1] for name, y in own.items()} for body, own in trajectory.states.items()}


def joined(pieces: Sequence[Trajectory], model: Model) -> Trajectory:
    """One trajectory of pieces that begin where the one before ended."""
    first = pieces[0]
    one = lambda body, name: torch.cat([first[body][name][:, :1], *(p[body][name][:, 1:] for p in pieces)], 1)
    states = {body: {name: one(body, name) for name in own} for body, own in first.states.items()}
    frames = 1 + sum(len(p.times) - 1 for p in pieces)
    times = torch.arange(frames, dtype=torch.float64) / model.scene.timing.fps
    return Trajectory(times, states, first.values, first.systems, first.scenery)
