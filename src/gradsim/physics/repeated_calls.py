"""Rollouts of a model that repeat an earlier call but for numbers: what they need is bound once.

A call is bound at the second time that names and shapes of what it is given, frames, and what requires a gradient are the same. From then on
it compares the numbers of all parameters as bytes, however they were written, computes again what depends on those that differ, and
launches kernels on arrays of its own. Its operation of PyTorch has the parameters themselves as inputs: the graph from these to the
inputs of the rollout is made in the backward pass, and kept while numbers stay.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradsim.engine.bound_function import Numbers, OfThreads, Replay
from gradsim.engine.operation import apply_bound, are_saved_tensors_hooked, is_transformed
from gradsim.errors import InputError
from gradsim.physics.dependencies import require_dependency
from gradsim.physics.divergence import check_finite, check_joints
from gradsim.physics.own_numbers import OwnNumbers, buffer_of, numbers_of
from gradsim.physics.rollout_inputs import override_tensors
from gradsim.physics.system import BoundProgram, Island, Values
from gradsim.physics.time_steps import interval_steps, intervals_before, make_trajectory
from gradsim.physics.trajectory import Trajectory

MOST_CALLS = 32  # kinds of calls of one model in one thread; a fit has some twenty numbers of worlds
MOST_ARRAY_BYTES = 512e6  # of the arrays of its bound calls
CALLS_WITHOUT_ARRAYS = (
    8  # of a kind that others took the room of: kinds that take turns would cost more than if none was bound
)
CLOCK_PREFIX = "timing."
RATE = "timing.rate"


class RepeatedCalls:
    """Bound calls of a model. They are not copied with it."""

    def __init__(self):
        # of a kind that is not bound, True if it is to be at the next call, False if never, or a number of calls to wait
        self._threads: OfThreads[tuple[OwnNumbers, dict[tuple, RepeatedCall | bool | int]]] = OfThreads()

    def __reduce__(self):
        return RepeatedCalls, ()

    def rollout(self, model: Any, overrides: Mapping[str, Any], frames: int | None, segment: int) -> Trajectory | None:
        """As of `Model.rollout`, outside of `torch.compile` and inference mode; None where the call is not one that can be bound, or not yet."""
        graph, dtype, shapes = torch.is_grad_enabled(), model.dtype, []
        if is_transformed() or (graph and are_saved_tensors_hooked()):
            return None
        addresses: list[int] = []
        try:
            for name, x in overrides.items():
                if type(x) is not Tensor and type(x) is not nn.Parameter:
                    return None
                if x.dtype is not dtype or not x.is_cpu or not x.is_contiguous():
                    return None
                shapes.append((name, x.shape, graph and x.requires_grad))
                addresses.append(x.data_ptr())
        except RuntimeError:  # a tensor of a transform that has ended, which has no memory
            return None
        thread = threading.get_ident()
        known = self._threads.get(thread)
        if known is None:
            known = self._threads.put(thread, (OwnNumbers(model._owners, dtype), {}))
        of_model, calls = known
        if not of_model.look():
            return None
        live = of_model.live if graph else ()
        key = (frames, segment, graph, model.substeps, model.lead, tuple(shapes), live)
        call = calls.get(key)
        if call is None:
            if len(calls) >= MOST_CALLS:
                del calls[next(iter(calls))]
            calls[key] = True
        if call is None or call is False:
            return None
        if call is not True and isinstance(call, int):
            calls[key] = call - 1 or True
            return None
        try:
            if call is True:
                if not _may_be_bound(model, overrides):
                    calls[key] = False
                    return None
                call = RepeatedCall(model, of_model, overrides, frames, segment, graph)
                _make_room(calls, call.nbytes)
                calls[key] = call
            trajectory = call.rollout(model, overrides, addresses)
        except InputError:  # of these numbers
            raise
        except BaseException:
            calls.pop(key, None)
            raise
        if trajectory is None:
            del calls[key]
        return trajectory


def _make_room(calls: dict[tuple, Any], size: int) -> None:
    """Let go of the oldest calls, so that arrays of a further one have room [bytes]."""
    bound = [(key, call.nbytes) for key, call in calls.items() if isinstance(call, RepeatedCall)]
    size += sum(nbytes for _, nbytes in bound)
    for key, nbytes in bound:
        if size <= MOST_ARRAY_BYTES:
            return
        calls[key] = CALLS_WITHOUT_ARRAYS
        size -= nbytes


def _may_be_bound(model: Any, overrides: Mapping[str, Tensor]) -> bool:
    """False for calls whose steps are another function of the parameters at each call, and of numbers for each frame interval."""
    if model.motors or any(name not in model.kinds for name in overrides):
        return False
    if model._late and any(name.startswith(CLOCK_PREFIX) for name in overrides):
        return False
    return not any(model.kinds[name].timed and x.ndim == 3 for name, x in overrides.items())


class RepeatedCall:
    """The calls of one kind, as those of one thread.

    Args:
        model: The model.
        of_model: Its parameters.
        overrides, frames, segment: As for `Model.rollout`.
        graph: True if gradients may be taken.
    """

    def __init__(
        self,
        model: Any,
        of_model: OwnNumbers,
        overrides: Mapping[str, Tensor],
        frames: int | None,
        segment: int,
        graph: bool,
    ):
        self.of_model, self.graph, self.names = of_model, graph, list(overrides)
        self.frames = frames or model.scene.timing.frames
        tensors = override_tensors(model, overrides)
        values = model.values(tensors)
        self.worlds, self.override_rows = len(values["gravity"]), {name: x.shape[0] for name, x in overrides.items()}
        if graph:
            require_dependency(model, [name for name, x in overrides.items() if x.requires_grad])
        self.lead = intervals_before(model, values, overrides)
        self.version, self.bytes = of_model.version, [numbers_of(x) for x in overrides.values()]
        self.memory: list[tuple[int, Any]] = [(0, None)] * len(self.names)  # of the last overrides: address, buffer
        most = np.finfo(str(model.dtype).removeprefix("torch.")).max
        kinds = [(model.kinds[name], x.numel()) for name, x in overrides.items()]
        self.lower, self.upper = (
            np.concatenate([np.full(n, np.clip(end(kind), -most, most), most.dtype) for kind, n in kinds] or [[]])
            for end in (lambda kind: kind.lower, lambda kind: kind.upper)
        )
        self._take_own()
        live = [name for name, x in values.items() if graph and x.requires_grad]
        self.own_live = [
            (name, k) for k, name in enumerate(of_model.names) if graph and of_model.parameters[k].requires_grad
        ]
        with torch.no_grad():
            plain = {name: x.detach() for name, x in values.items()}
            self.groups = [BoundGroup(model, group, self, plain, segment, live) for group in model.groups]
        self.nbytes = sum(group.bound.nbytes for group in self.groups if group.bound is not None)
        self.has_joints = bool(model.scene.joints)
        self.is_plain = model.density == 1 and model.scene.timing.stamps is None
        self.times = torch.arange(self.frames, dtype=torch.float64) / model.scene.timing.fps

    def _take_own(self) -> None:
        """Rows of the model's parameters, with as many worlds as the call."""
        worlds, rows = self.worlds, self.of_model.rows
        if worlds > 1:
            rows = {name: x.expand(worlds, *x.shape[1:]) for name, x in rows.items()}
        self.rows, self.parameters = rows, self.of_model.parameters

    def _are_inside(self, numbers: Sequence[bytes | None]) -> bool:
        """True if the numbers of the overrides are all in the ranges of their parameters; False, too, where they are many."""
        if None in numbers:
            return False
        x = np.frombuffer(b"".join(numbers), self.lower.dtype)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return bool(((x >= self.lower) & (x <= self.upper)).all())

    def rollout(self, model: Any, overrides: Mapping[str, Tensor], addresses: Sequence[int]) -> Trajectory | None:
        """The trajectory of other numbers, which lie at these addresses; None if they ask for another kind of call."""
        of_model, changed, numbers = self.of_model, [], []
        for k, (address, buffer) in enumerate(self.memory):
            if addresses[k] != address:
                buffer = buffer_of(overrides[self.names[k]])
                self.memory[k] = addresses[k], buffer
            numbers.append(None if buffer is None else buffer.raw)
        if None in numbers or numbers != self.bytes:
            changed = [
                name for name, new, old in zip(self.names, numbers, self.bytes, strict=True) if not new or new != old
            ]
            if not self._are_inside(numbers):
                model._ranges.check(model.kinds, overrides)
        if self.parameters is not of_model.parameters:
            self._take_own()
        if self.version != of_model.version:
            changed += [name for name in of_model.newer(self.version) if name not in overrides]
        values, worlds = dict(self.rows), self.worlds
        for name, k in self.own_live:
            row = of_model.parameters[k].unsqueeze(0)
            values[name] = row if worlds == 1 else row.expand(worlds, *row.shape[1:])
        for name, x in overrides.items():
            values[name] = x if x.shape[0] == worlds else x.expand(worlds, *x.shape[1:])
        for name in changed:
            if name.startswith(CLOCK_PREFIX) and intervals_before(model, values, self.names) != self.lead:
                return None
        states: dict[str, dict[str, Tensor]] = {}
        read: list[tuple[Sequence[Tensor], Sequence[Tensor]]] = []
        if changed:  # all of them, should this call not get to its end
            self.bytes, self.version = [None] * len(numbers), -1
        for bound in self.groups:
            outputs, inputs = bound.roll_out(values, changed, overrides)
            outputs = [y[:, self.lead :] for y in outputs] if self.lead else outputs
            last = model.density * (self.frames - 1)
            read.append((inputs, [y[:, last] for y in outputs] if self.has_joints else ()))
            for system, names in zip(bound.group.systems, bound.group.split(outputs), strict=True):
                states[system.name] = dict(zip(system.states, names, strict=True))
        self.bytes, self.version = numbers, of_model.version
        if self.is_plain:
            trajectory = Trajectory(self.times.clone(), states, values, model.systems, model.scenery)
        else:
            trajectory = make_trajectory(model, states, values, self.frames)
        if not all(bound.is_finite for bound in self.groups):
            steps = self.groups[0].clock(values)
            check_finite(model, trajectory.states, values, steps, self.lead, None)
        if self.has_joints:
            check_joints(model, trajectory.states, values, read)
        return trajectory


class BoundGroup:
    """Rollouts of a group of bodies in calls of one kind.

    Args:
        model: The model.
        group: The bodies.
        call: The call.
        values: All parameters (worlds, ...).
        segment: As for `Model.rollout`.
        live: Parameters by which a gradient may be taken.
    """

    def __init__(
        self, model: Any, group: Island, call: RepeatedCall, values: Values, segment: int, live: Sequence[str]
    ):
        self.group, self.call = group, call
        self.program = model._program(group, call.frames, call.lead, segment)
        self.clock = lambda some: interval_steps(model, some, call.frames, call.lead)
        self.lock = threading.RLock()  # of the arrays: a backward pass may run in another thread
        self.is_finite = True  # of the last outputs
        self.bound: BoundProgram | None = None
        self.sources = group.sources(values) or {}
        self.replay: Replay | None = None
        bind = getattr(self.program, "bind", None)
        if not self.sources or bind is None:
            return
        names: dict[str, list[tuple[str, int | None]]] = {}  # a tensor, and the place in it, of a column
        for key, parts in self.sources.items():
            for k, name in enumerate(parts):
                names.setdefault(name, []).append((key, None if name == key else k))
        replay = Replay(
            lambda some: [*group.inputs_of_sources(some), self.clock(some)],
            {key: _source(values, key, parts) for key, parts in self.sources.items()},
            {key for name in live for key, _ in names.get(name, ())},
        )
        if not replay.is_replayable:
            return
        self.bound = bind(replay.numbers.outputs, bool(replay.live))
        if self.bound is None:
            return
        self.are_finite = getattr(self.bound, "is_finite", are_finite)
        self.replay, live_names = replay, set(live)
        read = {name: [place for place in places if place[0] in replay.names] for name, places in names.items()}
        self.reads = {name: places for name, places in read.items() if places}
        self.live = [name for name in self.reads if name in live_names]
        self.closed = group.closed_form(self.program, values)
        self.unit = self._steps_of_rate(values)
        self.plans: dict[tuple[bool, ...], tuple[list[str], tuple[int, ...], list[bool]]] = {}

    def _steps_of_rate(self, values: Values) -> Tensor | None:
        """Time steps (worlds, intervals) at a rate of 1, to which all after the first frame are proportional; None where nothing but steps may depend on it alone."""
        if RATE not in self.live or self.reads[RATE] != [(RATE, None)]:
            return None
        assert self.replay is not None
        if any(self.replay.numbers.reached((self.replay.places[RATE],))[:-1]):
            return None
        with torch.no_grad():
            steps = self.clock({**values, RATE: torch.ones_like(values[RATE])}).clone()
        steps[:, : self.call.lead] = 0  # by the offset
        return steps

    def plan(self, needed: tuple[bool, ...], numbers: Numbers) -> tuple[list[str], tuple[int, ...], list[bool]]:
        """For gradients by some leaves: names of those in closed form, tensors that the others come from, and inputs whose gradient these need."""
        if needed not in self.plans:
            assert self.replay is not None
            names = [name for name, need in zip(self.live, needed, strict=True) if need]
            closed = [name for name in names if self.closed and name in self.closed.rules]
            known = {*closed, RATE} if self.unit is not None else set(closed)
            keys = dict.fromkeys(key for name in names if name not in known for key, _ in self.reads[name])
            places = tuple(self.replay.places[key] for key in keys)
            read = set(self.closed.needs(closed)) if closed and self.closed else set()
            if self.unit is not None and RATE in names:
                read.add(len(numbers.outputs) - 1)
            self.plans[needed] = closed, places, [k in read or y for k, y in enumerate(numbers.reached(places))]
        return self.plans[needed]

    def roll_out(
        self, values: Values, changed: Sequence[str], overrides: Mapping[str, Tensor]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Outputs of the rollout, and its inputs without the steps; a list of other numbers in `changed`."""
        if self.bound is None or self.replay is None:
            outputs, inputs = self.group.roll_out(self.program, values, self.clock(values))
            self.is_finite = are_finite([y.detach() for y in outputs])
            return list(outputs), inputs
        keys = dict.fromkeys(key for name in changed if name in self.reads for key, _ in self.reads[name])
        if keys:
            sources = {key: _source(values, key, self.sources[key]) for key in keys}
            with self.lock:
                self.replay.write(sources)
        numbers = self.replay.numbers
        inputs = numbers.outputs[:-1]
        if not self.live:
            return GroupCall(self, numbers).forward(), inputs
        leaves = []
        of_model = self.call.of_model
        for name in self.live:
            leaves.append(overrides[name] if name in overrides else of_model.parameters[of_model.places[name]])
        return list(apply_bound(GroupCall(self, numbers), leaves)), inputs


class GroupCall:
    """One rollout of a group, as `engine.operation.BoundCall`.

    Args:
        group: The group.
        numbers: Inputs of the rollout.
    """

    def __init__(self, group: BoundGroup, numbers: Numbers):
        self.group, self.numbers = group, numbers

    @property
    def kernel(self) -> str:
        """Name in messages."""
        return type(self.group.program).__name__

    def forward(self) -> list[Tensor]:
        assert self.group.bound is not None
        with self.group.lock:
            outputs = self.group.bound.forward(self.numbers.outputs)
            self.group.is_finite = self.group.are_finite(
                outputs
            )  # some read arrays that another thread's adjoint writes to
        return outputs

    def inner_inputs(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        return self.numbers.outputs

    def backward_by(
        self,
        needed: Sequence[bool],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        adjoints: Sequence[Tensor | None],
    ) -> list[Tensor | None]:
        with self.group.lock:  # to the end: gradients may lie in the arrays
            return self._gradients(tuple(needed), outputs, adjoints)

    def _gradients(
        self, needed: tuple[bool, ...], outputs: Sequence[Tensor], adjoints: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        group, numbers = self.group, self.numbers
        assert group.bound is not None and group.replay is not None
        closed, places, inner = group.plan(needed, numbers)
        slopes = group.bound.backward(inner, numbers.outputs, outputs, adjoints)
        by_name: dict[str, Tensor] = {}
        by_place: dict[int, Tensor | None] = {}
        if closed:
            assert group.closed is not None
            by_name |= group.closed.gradients(closed, numbers.inputs, numbers.outputs, slopes)
        for name, need in zip(group.live, needed, strict=True):
            if need and name == RATE and group.unit is not None:
                slope = slopes[-1]
                assert slope is not None
                by_name[RATE] = (slope * group.unit).sum(1)
        if places:
            slopes = [g if g is None or not g._is_view() else g.clone() for g in slopes]
            by_place = dict(zip(places, numbers.pull_back(slopes, places), strict=True))
        results: list[Tensor | None] = []
        memory: set[int] = set()
        worlds, rows = group.call.worlds, group.call.override_rows
        for name, need in zip(group.live, needed, strict=True):
            slope = None
            if need and name in by_name:
                slope = by_name[name]
            elif need:
                for key, k in group.reads[name]:
                    part = by_place[group.replay.places[key]]
                    if part is not None:
                        part = part if k is None else part[:, k]
                        slope = part if slope is None else slope + part
            if slope is not None:
                if name not in rows:
                    slope = slope[0] if worlds == 1 else slope.sum(0)
                elif rows[name] != worlds:
                    slope = slope.sum(0, keepdim=True)
                if slope.data_ptr() in memory:  # autograd may write to what it is given
                    slope = slope.clone()
                memory.add(slope.data_ptr())
            results.append(slope)
        return results


def are_finite(tensors: Sequence[Tensor]) -> bool:
    """True if all numbers are finite, and so is their sum."""
    return all(math.isfinite(y.sum().item()) for y in tensors)


def _source(values: Values, key: str, parts: Sequence[str]) -> Tensor:
    """One parameter, or those of a column, without a graph."""
    if len(parts) == 1 and parts[0] == key:
        return values[key].detach()
    return torch.stack([values[name].detach() for name in parts], 1)
