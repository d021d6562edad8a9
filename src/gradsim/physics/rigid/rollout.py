"""Rollouts of rigid bodies as a differentiable operation and with forward sensitivities.

The equations are in `rigid/wrench_kernels.py`. A rollout is one operation of PyTorch on the whole trajectory: the frames are
its checkpoints, and the backward pass recomputes the steps between them (paper Appendix B, the discrete adjoint of
semi-implicit Euler, Eq. 4 and 5).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradsim.engine.lanes import Lane, members, native_width, specialize
from gradsim.engine.launch import recorded, struct_of
from gradsim.engine.layout import SHAPES, Layout
from gradsim.engine.numbers import FiniteCheck
from gradsim.engine.operation import operation, without_gaps
from gradsim.physics.contact.laws import contact_functions, is_odd_law, obstacle_functions, rolling_functions
from gradsim.physics.integrators import RIGID

if TYPE_CHECKING:
    from gradsim.physics.rigid import (
        event_kernels,
        event_rollout_kernels,
        kernels,
        stride_kernels,
        stride_rollout_kernels,
        wrench_kernels,
    )
else:
    event_kernels = "gradsim.physics.rigid.event_kernels"
    event_rollout_kernels = "gradsim.physics.rigid.event_rollout_kernels"
    stride_kernels = "gradsim.physics.rigid.stride_kernels"
    stride_rollout_kernels = "gradsim.physics.rigid.stride_rollout_kernels"
    wrench_kernels = "gradsim.physics.rigid.wrench_kernels"
    kernels = "gradsim.physics.rigid.kernels"

STATE = {"x": "Vec3", "q": "Quat", "v": "Vec3", "l": "Vec3"}
ROW = {"rest": "Real"}  # see `rigid/stride_rollout_kernels.py`
EVENT_ROW = ROW | dict.fromkeys(("budget", "length", "event", "plain"), "Real")  # `rigid/event_rollout_kernels.py`
PARAMETERS = {
    "mass": "Real",
    "inertia_inverse": "Mat3",
    "gravity": "Vec3",
    "points": "Vec3",
    "radius": "Real",
    "normal": "Vec3",
    "height": "Real",
    "stiffness": "Real",
    "damping": "Real",
    "friction_stiffness": "Real",
    "friction": "Real",
    "impulse": "Vec3",
    "push_point": "Vec3",
    "centre": "Vec3",
    "axis": "Vec3",
    "half": "Real",
    "rounding": "Real",
    "drag": "Real",
    "rolling": "Real",
    "spinning": "Real",
    "step": "Real",
}
INPUTS = {**STATE, **PARAMETERS}
PLACES = {name: k for k, name in enumerate(INPUTS)}
EXTENT = ("points", "radius")  # what `reach` comes from
OBSTACLE = ("centre", "axis", "half", "rounding")
SCHEDULE = ("window_fraction", "impulse_step")
DRAG = "drag"
ROLLING = ("rolling", "spinning")
WRENCH = ("Parameters", "wrench", "spin", "exponential", "normalized", "apply_impulses", "has_impulses")
WRENCH_ADJOINT = ("wrench_adjoint", "contact_adjoint", "impulses_adjoint", "spin_power", "all_wrench_powers")
CONTACT = ("stiffness", "damping", "friction_stiffness", "friction")
MAX_STRIDES_PER_FRAME = 24  # most strides of a frame interval
MIN_STEPS_PER_STRIDE = 8  # fewest steps of one, where there are several
MIN_SUBSTEPS_FOR_EVENTS = 4  # steps of a frame interval from which on steps end at touch and release
REGISTER_BYTES = 32  # of the registers on a CPU: tangents take four fifths of the time that they take in 64, of four worlds or fewer half
MOST_BOUND = 64  # kinds of tensors of programs whose launches are used again
BOUND_BYTES = 16e6  # largest size of the steps of a segment that are
ARRAYS_OF_STATES = 2 * 18  # numbers of a state, and of its adjoint, with what events add
MOST_EVENTS = 4, 8  # touches and releases in a stride at which steps end, where a frame has several strides, or one


@dataclass(frozen=True)
class Loads:
    """Forces on rigid bodies that the code is made for.

    Args:
        law: Contact law.
        obstacles: True if there are any.
        drag: True if air brakes a body.
        rolling: True if contacts resist rolling and spinning.
    """

    law: str
    obstacles: bool
    drag: bool
    rolling: bool

    @classmethod
    def of(cls, law: str, bodies: Sequence[Mapping[str, Tensor]]) -> "Loads":
        """Those of bodies with these inputs by name."""
        has = lambda name: any(body[name].shape[1] for body in bodies)
        return cls(law, has("centre"), has(DRAG), has(ROLLING[0]))

    def reads(self, name: str) -> bool:
        """True if kernels read a parameter."""
        if name == DRAG:
            return self.drag
        return self.rolling if name in ROLLING else self.obstacles or name not in OBSTACLE


@dataclass(frozen=True)
class RigidRollout:
    """A program (see `engine.operation`) that moves one rigid body per world through time.

    Inputs, in this order, with worlds B, contact points V, grounds G, obstacles O and pushes K: the start x (B, 3)
    [m], q (B, 4), v (B, 3) [m/s], l (B, 3) [kg m²/s]; then mass (B,) [kg], inertia_inverse (B, 3, 3), gravity (B, 3),
    points (B, V, 3), radius (B, V), normal (B, G, 3), height (B, G), stiffness, damping, friction_stiffness, friction
    (B, G + O), impulse and push_point (B, K, 3), centre (B, O, 3), axis (B, O, 3, 3; rows are unit vectors), half
    (B, O, 3), rounding (B, O) (see `point_sdf.py`), drag (B, 1) [kg/m] or (B, 0), rolling and spinning
    (B, G + O) [m] or (B, 0), and step (B, frames - 1): the time step in each frame interval [s],
    or (B, 0) for `dt` in all of them. Outputs: x, q, v, l of every frame, (B, frames, ·); frame 0 is the start.

    Args:
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s]. Windows and blows fall into the steps that they meet when every step is this long.
        windows: Begin and end [s] of each push; equal for a blow at one instant.
        law: Contact law, a key of `contact.laws.LAWS`.
        integrator: "semi-implicit" or "rk4".
        segment: Frames between two checkpoints of the backward pass.
        width: Worlds in one register; None takes registers of 32 bytes on a CPU, 1 elsewhere.
        strides: Whether rk4 takes steps together in free flight, see `rigid/stride_kernels.py`.
        events: Whether steps of rk4 end at touch and release, see `rigid/event_rollout_kernels.py`.
    """

    frames: int
    substeps: int
    dt: float
    windows: tuple[tuple[float, float], ...] = ()
    law: str = "continuous"
    integrator: str = "semi-implicit"
    segment: int = 1
    width: int | None = None
    strides: bool = True
    events: bool = True
    run: Callable[..., list[Tensor]] = field(init=False, compare=False)
    narrow: set[tuple] = field(init=False, compare=False, default_factory=set, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        worlds = inputs[0].shape[0]
        return [(worlds, self.frames, n) for n in (3, 4, 3, 3)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [value for value, _ in self._forward(inputs, None)]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world: the exact forward sensitivity.

        Args:
            inputs: As for `forward`.
            tangents: One tensor of the same shape for each input, or None for zero.
        """
        return self._forward(inputs, tangents)  # pyright: ignore[reportReturnType] -- dual lanes have tangents

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        return self._bound(inputs, dual=False, adjoint=True).backward(inputs, outputs, adjoints)

    def _forward(self, inputs, tangents):
        return self._bound(inputs, tangents is not None).forward(inputs, tangents)

    def _bound(self, inputs: Sequence[Tensor], dual: bool, adjoint: bool = False) -> "_Bound":
        """Arrays and launches for tensors of these shapes.

        A world alone has a register of width 1 in adjoints, which then take two fifths of the time, and in rollouts of which one was
        taken. Results are the same bits. A process without adjoints has many worlds, too, most times, and code for both takes it seconds
        to build.
        """
        like = inputs[0]
        kind = (like.dtype, tuple([x.shape for x in inputs]))
        narrow = len(like) == 1 and not (dual or self.width) and like.device.type == "cpu"
        if narrow and adjoint:
            self.narrow.add(kind)
        narrow = narrow and kind in self.narrow
        key = (id(self), kind, like.device, dual, narrow, threading.get_ident())
        bound = _bounds.get(key)
        if bound is None:
            self._check(inputs)
            if len(_bounds) >= MOST_BOUND:
                _bounds.clear()
            code, layout = self._code(inputs, dual, narrow)
            bound = _bounds[key] = _Bound(self, inputs, code, layout)
        return bound

    def bind(self, inputs: Sequence[Tensor], adjoint: bool) -> "BoundRigid | None":
        """Arrays of one caller for tensors of these shapes, see `system.BoundProgram`; None where they are large."""
        worlds = len(inputs[0])
        size = inputs[0].element_size() * ARRAYS_OF_STATES * max(worlds, self.width or 1)
        size *= self.frames + self.segment * self._rows(inputs)
        if size > BOUND_BYTES or inputs[0].device.type != "cpu":
            return None
        self._check(inputs)
        return BoundRigid(self, inputs, adjoint, size)

    def _names(self, inputs: Sequence[Tensor]) -> list[str]:
        """The parameters that the kernels read."""
        loads = self._loads(inputs)
        return [name for name in PARAMETERS if loads.reads(name)]

    def _loads(self, inputs: Sequence[Tensor]) -> Loads:
        return Loads.of(self.law, [dict(zip(INPUTS, inputs, strict=True))])

    def _strided(self, inputs: Sequence[Tensor]) -> bool:
        """True if steps end at touch and release, or are merged in free flight."""
        stiffness, points = (inputs[PLACES[name]] for name in ("stiffness", "points"))
        touching = stiffness.shape[1] * points.shape[1] > 0
        several = RIGID[self.integrator].events and touching and self.substeps >= MIN_SUBSTEPS_FOR_EVENTS
        return several and (self.strides or self._may_locate(inputs))

    @property
    def _stride(self) -> int:
        """Steps of a stride."""
        return self.substeps // strides_of(self.substeps)

    def _events(self, inputs: Sequence[Tensor]) -> int:
        """Most touches and releases in a stride at which steps end.

        None in single precision, where the place of a touch is rounding, and of bodies that are pushed: the stride into which a
        push falls has plain contacts in all worlds, also in windows of a clip that do not feel it.
        """
        located = self._strided(inputs) and self._may_locate(inputs)
        return MOST_EVENTS[self._stride == self.substeps] if located else 0

    def _may_locate(self, inputs: Sequence[Tensor]) -> bool:
        """False where no step may end at an event."""
        single = inputs[0].dtype == torch.float32
        return self.events and is_odd_law(self.law) and not single and not self.windows

    def _rows(self, inputs: Sequence[Tensor]) -> int:
        """Rows of a frame interval: its steps, and those that events may add."""
        events = self._events(inputs)
        return strides_of(self.substeps) * (self._stride + events + 1) if events else self.substeps

    def _check(self, inputs: Sequence[Tensor]) -> None:
        """The kernel reads by these counts, so they have to agree."""
        sizes = {name: x.shape[1] for name, x in zip(INPUTS, inputs, strict=True) if x.ndim > 1}
        pushes, points, grounds = len(self.windows), sizes["points"], sizes["normal"]
        for name in ("impulse", "push_point"):
            if sizes[name] != pushes:
                raise ValueError(
                    f"`{name}` has {sizes[name]} pushes, but there are {pushes} windows; give one for each."
                )
        if sizes["radius"] != points:
            raise ValueError(f"`radius` has {sizes['radius']} points, `points` has {points}; give one for each.")
        if sizes["height"] != grounds:
            raise ValueError(f"`height` has {sizes['height']} grounds, `normal` has {grounds}; give one for each.")
        obstacles = sizes["centre"]
        for name in OBSTACLE:
            if sizes[name] != obstacles:
                raise ValueError(f"`{name}` has {sizes[name]} obstacles, `centre` has {obstacles}; give one for each.")
        for name in CONTACT:
            if sizes[name] != grounds + obstacles:
                what = f"{grounds} grounds and {obstacles} obstacles" if obstacles else f"{grounds} grounds"
                raise ValueError(f"`{name}` has {sizes[name]} entries for {what}; give one for each.")
        if sizes[DRAG] > 1:
            raise ValueError(f"`drag` has {sizes[DRAG]} columns; give one, or none.")
        for name in ROLLING:
            if sizes[name] not in (0, grounds + obstacles) or sizes[name] != sizes[ROLLING[0]]:
                raise ValueError(f"`{name}` has {sizes[name]} entries; give one for each ground and obstacle, or none.")
        if sizes["step"] not in (0, self.frames - 1):
            raise ValueError(
                f"`step` has {sizes['step']} intervals; {self.frames} frames need {self.frames - 1}, or 0."
            )

    def _code(self, inputs: Sequence[Tensor], dual: bool, narrow: bool):
        like = inputs[0]
        dtype = str(like.dtype).removeprefix("torch.")
        widest = min(native_width(dtype), REGISTER_BYTES // like.element_size())
        width = self.width or (widest if like.device.type == "cpu" and not narrow else 1)
        lane, strided = Lane(dtype, width, dual), self._strided(inputs)
        return _code(lane, self._loads(inputs), self.integrator, strided, self._events(inputs) > 0)


class _Bound:
    """Arrays, structs and launches of a rollout for tensors of one kind and shape, made once and used again.

    Args:
        program: The rollout.
        inputs: See `RigidRollout`.
        code: Its kernels.
        layout: Layout of their arrays.
        shared: Whether other rollouts write to the arrays, too.
    """

    def __init__(
        self,
        program: RigidRollout,
        inputs: Sequence[Tensor],
        code: ModuleType,
        layout: Layout,
        shared: bool = True,
    ):
        self.program, self.code, self.layout, self.shared = program, code, layout, shared
        self.all_states = inputs[0].new_zeros(0)  # of a rollout that shares no array
        self.worlds, self.device = len(inputs[0]), inputs[0].device
        self.packs, self.rows = layout.packs(self.worlds), program._rows(inputs)
        self.strided, self.located = program._strided(inputs), program._events(inputs) > 0
        names = program._names(inputs)
        self.plain_steps = None
        if not inputs[-1].shape[1]:
            step = inputs[0].new_full((1, 1), program.dt)
            self.plain_steps = step.expand(self.worlds, program.frames - 1)
        arrays: dict[str, Any] = {}
        for name in names:
            x = self.plain_steps if name == "step" and self.plain_steps is not None else inputs[PLACES[name]]
            items = tuple(x.shape[1 : x.ndim - len(SHAPES[PARAMETERS[name]])])
            arrays[name] = self._array(name, PARAMETERS[name], *items)
        self.arrays = [(name, PLACES[name], PARAMETERS[name], array) for name, array in arrays.items()]
        schedule = push_schedule(program, layout, self.device)
        arrays |= dict(zip(SCHEDULE, schedule, strict=True))
        if not self.strided:
            self.parameters = struct_of(code.Parameters, arrays)
            return
        contacts = inputs[PLACES["stiffness"]].shape[1] * inputs[PLACES["points"]].shape[1]
        self.extent, self.numbers = [arrays[name] for name in EXTENT], []
        arrays["reach"] = self.reach = layout.zeros("Real", self.worlds, (), self.device)
        if self.located:
            arrays["mode"] = self._array("mode", "Real", contacts)
        arrays["quiet"] = quiet_strides(program, layout, program._stride, self.device)
        self.parameters = struct_of(code.Parameters, arrays)
        self.parameters.stride = program._stride
        if self.located:
            events = program._events(inputs)
            self.parameters.flight, self.parameters.events = int(program.strides), events
            self.parameters.spare = events + 1

    def forward(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None):
        """States of all frames, and their tangents."""
        self._load(inputs, tangents)
        states, launch = self._forward_launch
        for k, (kind, _, start, first, memory) in enumerate(states):
            self.layout.fill_where_new(start, kind, inputs[k], tangents[k] if tangents else None)
            first.copy_(memory)
        launch()
        return [self.layout.unpack(kind, state, self.worlds) for kind, state, *_ in states]

    @cached_property
    def finite_check(self) -> FiniteCheck:
        """Tells whether the states of a rollout that shares no array are finite."""
        return FiniteCheck(self.all_states)

    @cached_property
    def _forward_launch(self):
        """Kind, array, array of the start, and memory of both, of the states; and the launch."""
        states, memory = [], self.layout.memory
        if self.shared:
            made = [self._array(name, kind, self.program.frames) for name, kind in STATE.items()]
        else:
            worlds = self.packs * self.layout.lane.width
            made, self.all_states = self.layout.joined_zeros(
                [*STATE.values()], worlds, (self.program.frames,), self.device
            )
        for (name, kind), state in zip(STATE.items(), made, strict=True):
            start = self._array(name, kind)
            states.append((kind, state, start, memory(state)[:, 0], memory(start)))
        struct = struct_of(self.code.States, {name: row[1] for name, row in zip(STATE, states, strict=True)})
        args = [self.parameters, self.rows, 0, self.program.frames - 1, struct]
        return states, recorded(self.code.forward, self.packs, args, str(self.device))

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        """Gradients of all inputs."""
        self._load(inputs, None)
        return self.sweep(inputs, outputs, adjoints)

    def sweep(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        """The same, of inputs whose numbers are in the arrays."""
        layout, (zeros, frames, frame_adjoints, adjoint, sums, launch) = self.layout, self._backward_launch
        torch._foreach_zero_(zeros)  # pyright: ignore[reportPrivateImportUsage] -- public in all but name
        for arrays, values in ((frames, outputs), (frame_adjoints, adjoints)):
            for (name, kind), y in zip(STATE.items(), values, strict=True):
                layout.fill(arrays[name], kind, y)
        launch()
        results = {name: layout.unpack(kind, adjoint[name], self.worlds)[0] for name, kind in STATE.items()}
        for name, array in sums.items():
            results[name] = layout.unpack(PARAMETERS[name], array, self.worlds)[0]
        pairs = zip(INPUTS, inputs, strict=True)
        return [results[n].to(x.dtype) if n in results and x.numel() else torch.zeros_like(x) for n, x in pairs]

    @property
    def _backward_launch(self):
        """Memory that is zero before a launch, frames, their adjoints, that of the start, those of the parameters, and the launch.

        Made anew where the steps of a segment take much memory, which goes after the pass.
        """
        made = self.__dict__.get("made")
        if made is None:
            made, size = self._made_backward_launch()
            if size <= BOUND_BYTES:
                self.made = made
        return made

    def _made_backward_launch(self):
        program, code, layout = self.program, self.code, self.layout
        frames, frame_adjoints = (
            {name: self._array(f"{what} {name}", kind, program.frames) for name, kind in STATE.items()}
            for what in ("frame", "frame adjoint")
        )
        structs = [struct_of(code.States, arrays) for arrays in (frames, frame_adjoints)]
        steps, states = structs[0], STATE | (EVENT_ROW if self.located else ROW if self.strided else {})
        workspace: dict[str, Any] = {}
        if self.rows > 1:
            count = max(1, min(program.segment, program.frames - 1)) * self.rows + 1
            workspace = {name: layout.zeros(kind, self.worlds, (count,), self.device) for name, kind in states.items()}
            steps = struct_of(code.States, workspace)
        like = lambda what: {n: self._array(f"{what} {n}", kind, *y.shape[1:]) for n, _, kind, y in self.arrays}
        sums, adjoint = like("sum"), {name: self._array(f"adjoint {name}", kind) for name, kind in STATE.items()}
        more = {"rest": self._array("adjoint rest", "Real")} if self.strided else {}
        zeros = [layout.memory(y) for y in (*sums.values(), *adjoint.values(), *more.values(), *workspace.values())]
        if self.located:
            more["unused"] = struct_of(code.Parameters, like("unused"))
        out = [struct_of(code.Adjoint, adjoint | more), struct_of(code.Parameters, sums)]
        args = [self.parameters, self.rows, program.segment, 0, program.frames - 1, structs[0], steps, structs[1], *out]
        launch = recorded(code.backward, self.packs, args, str(self.device))
        made = [y for y in zeros if y.numel()], frames, frame_adjoints, adjoint, sums, launch
        return made, sum(layout.memory(y).nbytes for y in workspace.values())

    def _load(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None) -> None:
        """Write the numbers of these tensors into the arrays."""
        for name, k, kind, array in self.arrays:
            if name == "step" and self.plain_steps is not None:
                self.layout.fill_where_new(array, kind, self.plain_steps)
            else:
                self.layout.fill_where_new(array, kind, inputs[k], tangents[k] if tangents else None)
        if not self.strided:
            return
        numbers = [vars(array)["numbers"] for array in self.extent]
        if None in numbers or numbers != self.numbers:
            points, radius = (inputs[PLACES[name]] for name in EXTENT)
            reach = (torch.linalg.vector_norm(points, dim=-1) + radius).detach().amax(1)
            self.layout.fill(self.reach, "Real", reach)
            self.numbers = numbers

    def _array(self, name: str, kind: str, *items: int):
        if not self.shared:
            return self.layout.zeros(kind, self.packs * self.layout.lane.width, items, self.device)
        return _reused(self.layout, name, kind, self.packs, items, self.device)


class BoundRigid:
    """A `BoundProgram` (see `system.py`) of a rollout. Arguments as of `RigidRollout.bind`, and the size of the arrays."""

    def __init__(self, program: RigidRollout, inputs: Sequence[Tensor], adjoint: bool, nbytes: int):
        self.nbytes, self.program, self.like = nbytes, program, [x.new_empty(x.shape) for x in inputs]
        self.kind = (inputs[0].dtype, tuple([x.shape for x in inputs]))
        self.may_narrow = len(inputs[0]) == 1 and not program.width
        if adjoint and self.may_narrow:
            program.narrow.add(self.kind)
        self.narrow, self.bound = None, None
        self.inputs: Sequence[Tensor] = []

    def _current(self) -> _Bound:
        """Arrays of the width that calls have now, see `RigidRollout`."""
        narrow = self.may_narrow and self.kind in self.program.narrow
        if self.bound is None or narrow != self.narrow:
            self.inputs = []
            code, layout = self.program._code(self.like, False, narrow)
            self.bound, self.narrow = _Bound(self.program, self.like, code, layout, shared=False), narrow
        return self.bound

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        bound = self._current()
        states, launch = bound._forward_launch
        if inputs is not self.inputs:
            self.inputs = []  # until all are written
            bound._load(inputs, None)
            for k, (kind, _, start, first, memory) in enumerate(states):
                bound.layout.fill(start, kind, inputs[k])
                first.copy_(memory)
            self.inputs = inputs
        launch()
        return [bound.layout.unpack(kind, state, bound.worlds)[0] for kind, state, *_ in states]

    def is_finite(self, outputs: Sequence[Tensor]) -> bool:
        assert self.bound is not None
        return self.bound.finite_check.is_finite()

    def backward(
        self,
        needed: Sequence[bool],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        adjoints: Sequence[Tensor | None],
    ) -> Sequence[Tensor | None]:
        bound = self._current()
        if inputs is not self.inputs:
            self.inputs = []
            bound._load(inputs, None)
        dense = without_gaps(adjoints, outputs)
        return bound.sweep(inputs, outputs, dense)


_bounds: dict[tuple, _Bound] = {}  # of all programs, which live as long as theirs


def strides_of(substeps: int) -> int:
    """Strides of a frame interval of `substeps` steps, see `rigid/event_rollout_kernels.py`."""
    return max(
        n
        for n in range(1, MAX_STRIDES_PER_FRAME + 1)
        if substeps % n == 0 and (n == 1 or substeps >= n * MIN_STEPS_PER_STRIDE)
    )


@lru_cache(maxsize=64)
def quiet_strides(program: RigidRollout, layout: Layout, stride: int, device: torch.device):
    """1 for each stride of the rollout into which no push falls, else 0 (strides,)."""
    steps = max(1, (program.frames - 1) * program.substeps)
    begin = torch.arange(0, steps, stride, dtype=torch.float64) * program.dt
    quiet = torch.ones(len(begin), dtype=torch.int32)
    for first, last in program.windows:
        quiet[(begin + (stride + 1) * program.dt >= first) & (begin - program.dt <= last)] = 0
    return layout.counts(quiet.to(device))


@lru_cache(maxsize=64)
def push_schedule(program: RigidRollout, layout: Layout, device: torch.device):
    """`SCHEDULE`: part of the window of each push in each step (steps, pushes), and the step of each impulse, else -1."""
    steps = max(1, (program.frames - 1) * program.substeps)
    left = torch.arange(steps, dtype=torch.float64) * program.dt
    fractions = torch.zeros(steps, len(program.windows), dtype=torch.float64)
    steps_of_impulses = torch.full((max(1, len(program.windows)),), -1, dtype=torch.int32)
    for k, (begin, end) in enumerate(program.windows):
        if end > begin:
            overlap = (left + program.dt).clamp(max=end) - left.clamp(min=begin)
            fractions[:, k] = overlap.clamp(min=0) / (end - begin)
        else:
            # a step late where rounding leaves it a hair before; one after the end is never reached
            steps_of_impulses[k] = int(min(begin / program.dt + 1e-6, steps))
    return layout.scalars(fractions.to(device)), layout.counts(steps_of_impulses.to(device))


def _reused(layout: Layout, name: str, kind: str, packs: int, items: tuple[int, ...], device: torch.device):
    """An array that every rollout of this size writes anew; each thread has its own."""
    return _arrays(threading.get_ident(), layout, name, kind, packs, items, device)


@lru_cache(maxsize=512)
def _arrays(thread: int, layout: Layout, name: str, kind: str, packs: int, items: tuple[int, ...], device):
    return layout.zeros(kind, packs * layout.lane.width, items, device)


@cache
def wrench_code(lane: Lane, loads: Loads, strides: bool = False, modes: bool = False) -> ModuleType:
    """`rigid/wrench_kernels.py` with these forces; with strides and a mode of each contact, or without."""
    functions = dict(contact_functions(loads.law, lane))
    if loads.obstacles:
        shapes = obstacle_functions(loads.law, lane)
        functions |= {name: shapes[name] for name in ("obstacle_gap", "obstacle_touch", "obstacle_power")}
    if loads.rolling:
        functions |= rolling_functions(loads.law, lane, loads.obstacles) | {"ROLLING": True}
    flags = {"OBSTACLES": loads.obstacles, "STRIDES": strides, "MODES": modes} | _drag(loads)
    return specialize(wrench_kernels, lane, **flags, **functions)


@cache
def integrator_code(
    lane: Lane, loads: Loads, integrator: str, strides: bool = False, modes: bool = False
) -> ModuleType:
    """Steps of one body."""
    wrench = wrench_code(lane, loads, strides, modes)
    names = () if lane.dual else WRENCH_ADJOINT
    steps = RIGID[integrator].kernels
    return specialize(steps, lane, **members(wrench, *WRENCH, *names), KEY=wrench.__name__)


@cache
def stride_code(lane: Lane, loads: Loads, events: bool) -> dict:
    """`may_touch` of `rigid/stride_kernels.py`."""
    wrench = wrench_code(lane, loads, True, events)
    parts = members(wrench, "Parameters") | _obstacle_parts(lane, loads, "obstacle_gap") | _drag(loads)
    strides = specialize(stride_kernels, lane, OBSTACLES=loads.obstacles, **parts, KEY=wrench.__name__)
    return members(strides, "may_touch")


@cache
def event_code(lane: Lane, loads: Loads, integrator: str) -> dict:
    """Functions that `rigid/event_rollout_kernels.py` needs for steps that end at events."""
    wrench = wrench_code(lane, loads, True, True)
    steps = integrator_code(lane, loads, integrator, True, True)
    touch = _obstacle_parts(lane, loads, "obstacle_gap", "obstacle_touch")
    parts = members(wrench, "Parameters", "spin", "surface_gap") | touch
    events = specialize(event_kernels, lane, OBSTACLES=loads.obstacles, **parts, KEY=steps.__name__)
    names = (
        "cubic_root",
        "is_contact",
        "least_margin",
        "margin_at",
        "margin_rate",
        "newton_step",
        "rounding",
        "set_modes",
    )
    gaps = {name: f for name, f in (contact_functions(loads.law, lane) | touch).items() if name.endswith("_gap")}
    return members(events, *names) | gaps


def _drag(loads: Loads) -> dict[str, bool]:
    """The flag of drag; without it code has the name that it had before there was any."""
    return {"DRAG": True} if loads.drag else {}


def _obstacle_parts(lane: Lane, loads: Loads, *names: str) -> dict:
    """Functions of obstacles, where there are any."""
    shapes = obstacle_functions(loads.law, lane) if loads.obstacles else {}
    return {name: shapes[name] for name in names if name in shapes}


@cache
def _code(lane: Lane, loads: Loads, integrator: str, strides: bool, events: bool):
    wrench = wrench_code(lane, loads, strides, events)
    steps = integrator_code(lane, loads, integrator, strides, events)
    bound = members(wrench, "Parameters", *(() if lane.dual else ("all_wrench_powers",)))
    bound |= members(steps, "advance", *(() if lane.dual else ("advance_adjoint", "all_step_powers")))
    if strides:
        bound |= stride_code(lane, loads, events)
    if events:
        bound |= event_code(lane, loads, integrator) | {"OBSTACLES": loads.obstacles}
    template = event_rollout_kernels if events else stride_rollout_kernels if strides else kernels
    code = specialize(template, lane, **bound, KEY=steps.__name__)
    return code, Layout(lane)
