"""Derivatives of a motion by single numbers at one point, each computed once: error bars, the growth of errors and the table of known numbers
ask for many of the same ones.

A camera does not act on what it sees: along numbers of cameras and lights a motion has no derivative, and none is computed.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from torch import Tensor

from gradsim.engine.numbers import bytes_of
from gradsim.physics.dependencies import read_by_images, require_dependency
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory

POINTS = 2  # that are remembered: the answer on its time step and on half of it
MOST_NUMBERS = 2**20  # of states and derivatives at one of them: 8 MB


@dataclass
class _Point:
    """The derivatives that are known at one point.

    Args:
        model: Kept, as only then its `id` is of one object.
        trajectory: Of one world.
        columns: Derivatives (frames, ...) of its states by direction, for the rate that stands first.
    """

    model: Model
    trajectory: Trajectory
    columns: dict[Hashable, tuple[float, list[Tensor]]] = field(default_factory=dict)


class Columns:
    """Derivatives at the last points."""

    def __init__(self):
        self._points: OrderedDict[Hashable, _Point] = OrderedDict()
        self._unmoving: tuple[Model | None, frozenset[str]] = None, frozenset()

    def tangent(self, model: Model, values: Values, along: Values, frames: int) -> tuple[Trajectory, Trajectory]:
        """`Model.tangent` of worlds (worlds, ...) that are all the same one."""
        require_dependency(model, along)
        lanes = len(next(iter(along.values())))
        directions = self._directions(model, along, lanes)
        numbers = [bytes_of(x[:1]) for x in values.values()]
        key = id(model), frames, *numbers
        point = self._points.get(key)
        if None in numbers or type(model) is not Model:  # others may have trajectories of their own
            return model.tangent(values, along, frames)
        known = point.columns if point else {}
        new = [k for k, (place, _) in enumerate(directions) if place and place not in known]
        if new or point is None:
            rows = new or [0]
            part = lambda x: x[rows] if x.stride(0) else x[:1].expand(len(rows), *x.shape[1:])
            trajectory, moving = model.tangent(
                {name: part(x) for name, x in values.items()}, {name: x[rows] for name, x in along.items()}, frames
            )
            if (
                trajectory.dense is not None
                or sum(y.numel() for y in _tensors(moving)) * lanes // len(rows) > MOST_NUMBERS
            ):
                return (trajectory, moving) if len(rows) == lanes else model.tangent(values, along, frames)
            if point is None:
                point = _Point(model, _with(trajectory, [y[:1] for y in _tensors(trajectory)], {}))
                self._points[key] = point
                while len(self._points) > POINTS:
                    self._points.popitem(last=False)
            for i, k in enumerate(new):
                place, rate = directions[k]
                point.columns[place] = rate, [y[i] for y in _tensors(moving)]
        self._points.move_to_end(key)
        ours = _tensors(point.trajectory)
        slopes = [y.new_zeros(lanes, *y.shape[1:]) for y in ours]
        for k, (place, rate) in enumerate(directions):
            if place:
                before, columns = point.columns[place]
                for slope, column in zip(slopes, columns, strict=True):
                    slope[k] = column if rate == before else column * (rate / before)
        states = [y.expand(lanes, *y.shape[1:]).contiguous() for y in ours]
        return _with(point.trajectory, states, values), _with(point.trajectory, slopes, values)

    def clear(self) -> None:
        """Forget all."""
        self._points.clear()

    def _directions(self, model: Model, along: Values, lanes: int) -> list[tuple[Hashable, float]]:
        """The number that moves along each direction, and how fast; none where no motion reads it."""
        if self._unmoving[0] is not model:
            self._unmoving = model, read_by_images(model.scene)
        places: list[list[tuple[str, int, float]]] = [[] for _ in range(lanes)]
        for name, x in along.items():
            if name in self._unmoving[1]:
                continue
            numbers = x.detach().cpu().numpy().reshape(lanes, -1)
            for k, i in zip(*(index.tolist() for index in numbers.nonzero()), strict=True):
                places[k].append((name, i, float(numbers[k, i])))
        return [((one[0][0], one[0][1]), one[0][2]) if len(one) == 1 else (tuple(one), 1.0) for one in places]


def _tensors(trajectory: Trajectory) -> list[Tensor]:
    return [y for state in trajectory.states.values() for y in state.values()]


def _with(like: Trajectory, tensors: list[Tensor], values: Values) -> Trajectory:
    """A trajectory of the same bodies with other states and parameters."""
    left = iter(tensors)
    states = {body: {name: next(left) for name in state} for body, state in like.states.items()}
    return replace(like, states=states, values=values)
