"""Rollouts of rigid bodies that act on one another, as one differentiable operation and with forward sensitivities.

The equations of a body are in `rigid/wrench_kernels.py`, contact between bodies in `contact/convex_kernels.py`, joints
in `rigid/joint_kernels.py` and `rigid/constraint_kernels.py`, the steps in `rigid/multibody_kernels.py`.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.angle import angle_functions
from gradsim.engine.block_factor import block_functions, block_size
from gradsim.engine.compiler import compiled_for_packs
from gradsim.engine.lanes import Lane, members, native_width, specialize
from gradsim.engine.launch import replay
from gradsim.engine.layout import SHAPES, Layout
from gradsim.engine.operation import operation, without_gaps
from gradsim.physics.integrators import RIGID
from gradsim.physics.rigid import rollout
from gradsim.physics.rigid.many.batching import BODY, side_by_side, unpacked

if TYPE_CHECKING:
    from gradsim.physics.rigid import (
        constraint_kernels,
        coordinate_kernels,
        joint_kernels,
        multibody_force_kernels,
        multibody_kernels,
    )
    from gradsim.physics.rigid.joints import Joints
    from gradsim.physics.rigid.pairs import Pairs
else:
    constraint_kernels = "gradsim.physics.rigid.constraint_kernels"
    coordinate_kernels = "gradsim.physics.rigid.coordinate_kernels"
    joint_kernels = "gradsim.physics.rigid.joint_kernels"
    multibody_force_kernels = "gradsim.physics.rigid.multibody_force_kernels"
    multibody_kernels = "gradsim.physics.rigid.multibody_kernels"

STATE = rollout.STATE
JOINT_KINDS = {
    **dict.fromkeys(("b", "point_a", "point_b", "axis", "across_a", "across_b", "pivot_a", "pivot_b"), "Vec3"),
    **dict.fromkeys(
        ("spring", "damping", "lower", "upper", "limit", "friction", "slip", "backlash", "target", "torque"), "Real"
    ),
}  # inputs of joints, in order
TIMED_INPUTS = ("target", "torque")
FRAME_KINDS = {"x": "Vec3", "q": "Quat", "v": "Vec3", "w": "Vec3", "a": "Vec3", "s": "Vec3"}  # of `FrameMotion`
ROWS = {"point": 0, "axis": 1, "turning": 2, "sliding": 3}
MOST_POOLED, MOST_POOLED_BYTES = 4, 2**26  # sets of arrays that a rollout has for its next calls, and size of one
MOST_SLOT_BYTES = (
    2**28
)  # of evaluations that a backward pass finds again, and of those of a whole rollout with its states
COORDINATES = {"turn": 0, "slide": 1, "ball": 2}


@dataclass(frozen=True, eq=False)
class Bodies:
    """A program (see `engine.operation`) that moves several rigid bodies through time, in every world.

    Inputs: those of `RigidRollout` but for the step, (B, bodies, ...), with a column for each push of any body, zero for the others; then the numbers of `pairs` and of `joints`, by their
    `names`; then, where joints have frames that follow recordings, the motion of these by `FRAME_KINDS` (B, instants, frames, ·), see
    `rigid/recorded/rollout.py`; then step (B, frames - 1) [s], or (B, 0) for `dt` throughout. Outputs: x, q, v, l (B, frames, bodies, ·);
    frame 0 is the start, which has to obey the joints.

    Args:
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s].
        windows: Begin and end [s] of the pushes of each body, as for `RigidRollout`.
        pairs: Which bodies touch one another; None: they do not.
        joints: None: there are none.
        law: Contact law, a key of `contact.laws.LAWS`.
        integrator: "semi-implicit" or "rk4".
        segment: Frames between two checkpoints of the backward pass.
        width: Worlds in one register; None: the widest of the CPU, and 1 for a world alone and elsewhere.
    """

    frames: int
    substeps: int
    dt: float
    windows: tuple[tuple[tuple[float, float], ...], ...]
    pairs: "Pairs | None" = None
    joints: "Joints | None" = None
    law: str = "continuous"
    integrator: str = "semi-implicit"
    segment: int = 1
    width: int | None = None
    run: Callable[..., list[Tensor]] = field(init=False)
    pushes: rollout.RigidRollout = field(init=False)
    pool: dict = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))
        windows = tuple(window for body in self.windows for window in body)
        object.__setattr__(self, "pushes", rollout.RigidRollout(self.frames, self.substeps, self.dt, windows))

    @property
    def recorded(self) -> int:
        """Number of frames that follow recordings."""
        return len(self.joints.recorded) if self.joints else 0

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        pairs = [f"pairs.{name}" for name in self.pairs.names] if self.pairs else []
        joints = [f"joints.{name}" for name in self.joints.names] if self.joints else []
        motion = [f"motion.{name}" for name in FRAME_KINDS] if self.recorded else []
        return [*BODY, *pairs, *joints, *motion, "step"]

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(len(inputs[0]), self.frames, len(self.windows), n) for n in (3, 4, 3, 3)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [value for value, _ in self._forward(inputs, None)]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world; arguments as for `RigidRollout`."""
        return self._forward(inputs, tangents)  # pyright: ignore[reportReturnType] -- dual lanes have tangents

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        buffers = self._buffers(inputs, False, True)
        buffers.load(inputs, None)
        return self._sweep(buffers, inputs, outputs, adjoints)

    def bind(self, inputs: Sequence[Tensor], adjoint: bool) -> "BoundBodies | None":
        """Arrays of one caller for tensors of these shapes, see `system.BoundProgram`; None where they are large.

        Where a gradient is to come, and states and evaluations of all steps take little memory, they are kept, so that none is computed again.
        """
        if inputs[0].device.type != "cpu":
            return None
        if adjoint and _stored_bytes(self, inputs) <= MOST_SLOT_BYTES:
            return BoundBodies(self, inputs, True)
        bound = BoundBodies(self, inputs, False)
        return bound if bound.ahead.nbytes <= MOST_POOLED_BYTES else None

    def _sweep(self, buffers: "_BodyBuffers", inputs: Sequence[Tensor], outputs, adjoints) -> list[Tensor]:
        """Gradients of all inputs, whose numbers are in the arrays."""
        frames, steps, adjoint = buffers.sweep_states(outputs, adjoints)
        grad, state = buffers.gradient, buffers.start_adjoint
        buffers.clear()
        args = [
            buffers.parameters,
            self.substeps,
            self.segment,
            0,
            self.frames - 1,
            frames,
            steps,
            adjoint,
            state,
            grad,
        ]
        replay(buffers.code.backward, buffers.packs, args, buffers.device)
        gradients = buffers.adjoints(grad)
        for k, (name, kind) in enumerate(STATE.items()):
            gradients[k] = buffers.layout.unpack(kind, getattr(state, name), buffers.worlds)[0][:, : buffers.n]
        return [g.to(x.dtype).reshape(x.shape) for g, x in zip(gradients, inputs, strict=True)]

    def _forward(self, inputs, tangents):
        buffers = self._buffers(inputs, tangents is not None, False)
        buffers.load(inputs, tangents)
        self._launch(buffers, buffers.started(inputs, tangents))
        return [buffers.layout.unpack(kind, array, buffers.worlds) for kind, array in buffers.outputs]

    def _launch(self, buffers: "_BodyBuffers", trajectory) -> None:
        """Fill the states of all frames from those of frame 0."""
        replay(
            buffers.code.forward,
            buffers.packs,
            [buffers.parameters, self.substeps, 0, self.frames - 1, trajectory],
            buffers.device,
        )

    def _buffers(self, inputs: Sequence[Tensor], dual: bool, reverse: bool) -> "_BodyBuffers":
        """Arrays of a launch, those of the last ones with inputs of these shapes in this thread where they are small."""
        shapes = tuple((x.shape, x.dtype, x.device) for x in inputs)
        key = (threading.get_ident(), dual, reverse, shapes)
        buffers = self.pool.get(key)
        if buffers is None:
            buffers = _BodyBuffers(self, inputs, dual, reverse)
            if buffers.nbytes <= MOST_POOLED_BYTES:
                if len(self.pool) >= MOST_POOLED:
                    self.pool.clear()
                self.pool[key] = buffers
        return buffers


class BoundBodies:
    """A `BoundProgram` (see `system.py`) of several bodies.

    Args:
        program: The rollout.
        inputs: See `Bodies`.
        stored: Whether states and evaluations of all steps are kept for a backward pass, which then computes none again.
    """

    def __init__(self, program: Bodies, inputs: Sequence[Tensor], stored: bool):
        self.program, self.stored = program, stored
        self.ahead = _BodyBuffers(program, inputs, False, stored, stored)
        self.back: _BodyBuffers | None = None
        self.nbytes = self.ahead.nbytes
        self.inputs: Sequence[Tensor] = []
        self.last: Sequence[Tensor] = []  # inputs of the rollout whose states are in the arrays

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        self._roll_out(inputs)
        ahead = self.ahead
        return [ahead.layout.unpack(kind, array, ahead.worlds)[0] for kind, array in ahead.outputs]

    def _roll_out(self, inputs: Sequence[Tensor]) -> None:
        """Fill all frames."""
        self.last = []
        if inputs is not self.inputs:
            self.inputs = []  # until all are written
            self.ahead.load(inputs, None)
            self.ahead.started(inputs, None)
            self.inputs = inputs
        elif self.program.pairs:  # a list of the end of the last rollout
            self.ahead.parameters.work.near.pair.zero_()
        self.program._launch(self.ahead, self.ahead.frames)
        self.last = inputs

    def backward(
        self,
        needed: Sequence[bool],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        adjoints: Sequence[Tensor | None],
    ) -> Sequence[Tensor | None]:
        dense = without_gaps(adjoints, outputs)
        if self.stored:
            if inputs is not self.last:
                self._roll_out(inputs)
            return self.program._sweep(self.ahead, inputs, outputs, dense)
        if self.back is None:
            back = _BodyBuffers(self.program, inputs, False, True)
            if back.nbytes > MOST_POOLED_BYTES:
                return self.program.backward(inputs, outputs, dense)
            self.back = back
        self.back.load(inputs, None)
        return self.program._sweep(self.back, inputs, outputs, dense)


class _BodyBuffers:
    """The arrays of a launch.

    Args:
        program: The rollout.
        inputs: Inputs of the shapes that it is for.
        dual: Whether they have tangents.
        reverse: Whether it is a backward pass.
        stored: Whether states and evaluations of all steps are kept, and both passes have these arrays.
    """

    def __init__(self, program: Bodies, inputs: Sequence[Tensor], dual: bool, reverse: bool, stored: bool = False):
        _check(program, inputs)
        like, self.n, self.nbytes = inputs[0], len(program.windows), 0
        self.program, self.like = program, like.new_empty(0)
        self.worlds, self.device = len(like), str(like.device)
        lane = _lane(program, like, dual)
        bodies = dict(zip(BODY, inputs, strict=False))
        loads = rollout.Loads.of(program.law, [{name: y[:, 0] for name, y in bodies.items() if y.ndim > 2}])
        self.code, self.rigid, self.layout = _code(
            lane,
            _bound(program.pairs, lane),
            program.joints is not None,
            loads,
            program.integrator,
            program.recorded > 0,
        )
        self.packs, self.stages = self.layout.packs(self.worlds), RIGID[program.integrator].stages or 1
        self.read = [name for name in BODY[len(STATE) :] if loads.reads(name)]
        self.numbers = program.names[len(BODY) : -1]  # inputs of pairs, joints and frames
        self.shapes = {name: x.shape for name, x in zip(program.names, inputs, strict=True)}
        parameters = self.code.Parameters()
        self._parameters_of(parameters, like.device)
        self.stored, steps = stored, max(1, min(program.segment, program.frames - 1)) * program.substeps
        parameters.spacing = spacing = program.substeps if stored else 1
        if stored:
            parameters.slots = max(1, program.frames - 1) * program.substeps
        else:
            parameters.slots = self._slots(steps if reverse and program.substeps > 1 else 1)
        if program.pairs:
            parameters.pair = program.pairs.shape(self.code, self.layout, like.device)
        if program.joints:
            parameters.joint = _joint_shape(program.joints, self.code, self.layout, str(like.device))
            parameters.links = self._links(program.joints, parameters.slots)
        for name, array in zip(
            rollout.SCHEDULE, rollout.push_schedule(program.pushes, self.layout, like.device), strict=True
        ):
            setattr(parameters.bodies, name, array)
        self.state = self.states()
        parameters.count, parameters.state, parameters.work = self.n, self.state, self._work(parameters.slots)
        self.parameters = parameters
        self.frames = self.blank(spacing * (program.frames - 1) + 1)
        self.outputs = [
            (kind, self.layout.subsample(kind, getattr(self.frames, name), spacing)) for name, kind in STATE.items()
        ]
        if reverse:
            self.frame_adjoints = self.blank(program.frames)
            self.steps = self.frames if stored or program.substeps == 1 else self.blank(steps + 1)
            self.gradient, self.start_adjoint = self.code.Parameters(), self.states()
            self._parameters_of(self.gradient, like.device)

    def _parameters_of(self, parameters, device) -> None:
        """Zeros for all numbers in a `Parameters`."""
        bodies, width, packs = self.rigid.Parameters(), self.layout.lane.width, self.packs
        for name in self.read:
            kind = rollout.PARAMETERS[name]
            items = self.shapes[name][2 : len(self.shapes[name]) - len(SHAPES[kind])]
            setattr(bodies, name, self._counted(kind, packs * width * self.n, items))
        parameters.bodies = bodies
        for prefix, kind in (("pairs.", "PairNumbers"), ("joints.", "JointNumbers"), ("motion.", "FrameMotion")):
            names = [name for name in self.numbers if name.startswith(prefix)]
            if names:
                struct = getattr(self.code, kind)()
                for name in names:
                    key, number = name.removeprefix(prefix), self._kind(name)
                    items = self.shapes[name][1 : len(self.shapes[name]) - len(SHAPES[number])]
                    items = (1, *items) if self._is_timed(name) and len(items) == 1 else items
                    setattr(struct, key, self.zeros(number, *items))
                setattr(parameters, prefix[:-1], struct)
        parameters.step = self.zeros("Real", self.program.frames - 1)

    def load(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None) -> None:
        """Write inputs and their tangents, None for zero, where the kernels read them."""
        values = dict(zip(self.program.names, inputs, strict=True))
        slopes = dict(zip(values, tangents, strict=True)) if tangents else dict.fromkeys(values)
        width, fill = self.layout.lane.width, self.layout.fill_where_new
        for name in self.read:
            slope = slopes[name]
            slope = None if slope is None else side_by_side(slope, width)
            value = side_by_side(values[name], width)
            fill(getattr(self.parameters.bodies, name), rollout.PARAMETERS[name], value, slope)
        for name in self.numbers:
            value, slope = values[name], slopes[name]
            prefix, _, key = name.partition(".")
            if self._is_timed(name) and value.ndim == 2:
                value, slope = value[:, None], None if slope is None else slope[:, None]
            fill(getattr(getattr(self.parameters, prefix), key), self._kind(name), value, slope)
        fill(self.parameters.step, "Real", *self._step(values["step"], slopes["step"]))
        if self.program.pairs:  # listed for other places and sizes
            self.parameters.work.near.pair.zero_()

    def states(self):
        """`State` of zeros, and of a world and frames at rest."""
        states, one = self.code.State(), self.n + 1 + self.program.recorded
        for name, kind in {**STATE, "w": "Vec3"}.items():
            setattr(states, name, self.zeros(kind, one))
        q = self.like.new_zeros(self.worlds, one, 4)
        q[:, self.n :, 3] = 1.0
        self.layout.fill(states.q, "Quat", q)
        return states

    def zeros(self, kind: str, *items: int):
        return self._counted(kind, self.worlds, items)

    def _counted(self, kind: str, worlds: int, items: Sequence[int]):
        """Zeros, whose size is counted."""
        array = self.layout.zeros(kind, worlds, tuple(items), self.like.device)
        self.nbytes += self.layout.memory(array).nbytes
        return array

    def blank(self, instants: int):
        """`States` of zeros."""
        trajectory = self.code.States()
        for name, kind in STATE.items():
            setattr(trajectory, name, self.zeros(kind, instants, self.n))
        return trajectory

    def started(self, inputs, tangents):
        """`States` with the start in frame 0."""
        for k, (name, kind) in enumerate(STATE.items()):
            start = self.layout.pack(kind, inputs[k], tangents[k] if tangents else None)
            self.layout.memory(getattr(self.frames, name))[:, 0] = self.layout.memory(start)
        return self.frames

    def sweep_states(self, outputs: Sequence[Tensor], adjoints: Sequence[Tensor]):
        """`States` of all frames, of the steps between two checkpoints, and of the adjoints of frames."""
        groups = [(self.frame_adjoints, adjoints)]
        if not self.stored:  # else they are there
            groups.append((self.frames, outputs))
        for states, values in groups:
            for (name, kind), value in zip(STATE.items(), values, strict=True):
                self.layout.fill(getattr(states, name), kind, value)
        return self.frames, self.steps, self.frame_adjoints

    def clear(self) -> None:
        """No adjoints yet."""
        for struct, keys in ((self.gradient.bodies, self.read), (self.start_adjoint, [*STATE, "w"])):
            for key in keys:
                self.layout.memory(getattr(struct, key)).zero_()
        for name in self.numbers:
            prefix, _, key = name.partition(".")
            self.layout.memory(getattr(getattr(self.gradient, prefix), key)).zero_()
        self.layout.memory(self.gradient.step).zero_()

    def adjoints(self, grad) -> list[Tensor]:
        """Adjoints of every input; those of the start are zero."""
        adjoints = []
        for name in BODY:
            if name in self.read:
                adjoints.append(unpacked(name, getattr(grad.bodies, name), self.layout, self.n)[: self.worlds])
            else:
                adjoints.append(self.like.new_zeros(self.shapes[name]))
        for name in self.numbers:
            prefix, _, key = name.partition(".")
            array = getattr(getattr(grad, prefix), key)
            adjoints.append(self.layout.unpack(self._kind(name), array, self.worlds)[0].reshape(self.shapes[name]))
        step, shape = self.layout.unpack("Real", grad.step, self.worlds)[0], self.shapes["step"]
        adjoints.append(step if shape[1] else self.like.new_zeros(shape))
        return adjoints

    def _kind(self, name: str) -> str:
        prefix, _, key = name.partition(".")
        return {"joints": JOINT_KINDS, "motion": FRAME_KINDS}.get(prefix, {}).get(key, "Real")

    def _is_timed(self, name: str) -> bool:
        prefix, _, key = name.partition(".")
        return prefix == "joints" and key in TIMED_INPUTS

    def _slots(self, steps: int) -> int:
        """Steps that the workspace keeps evaluations of: all between two checkpoints, or none where they would take too much memory."""
        numbers = _numbers_of_step(self.program, self.layout.lane)
        nbytes = steps * numbers * self.packs * self.layout.lane.width * self.like.element_size()
        return steps if nbytes <= MOST_SLOT_BYTES else 1

    def _links(self, joints: "Joints", slots: int):
        work, rows, one = self.code.LinkWork(), len(joints.rows), self.n + 1 + self.program.recorded
        evaluations = self.packs * self.layout.lane.width * slots * self.stages
        for name in ("ja", "ta", "tb"):
            setattr(work, name, self._counted("Vec3", evaluations, (rows,)))
        work.system = self._counted("Real", evaluations, (_factor_size(joints, self.layout.lane),))
        work.y, work.inverse = self.zeros("Real", rows), self._counted("Mat3", evaluations, (one,))
        impulses = slots * (self.stages + 1)  # one more of each step
        work.mu = _stages_first(self.layout, self.worlds, rows, impulses, self.like.device)
        for name in ("a", "s", "pa", "ps"):
            setattr(work, name, self.zeros("Vec3", one))
        return work

    def _step(self, step: Tensor, slope: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if not step.shape[1]:
            return step.new_full((self.worlds, self.program.frames - 1), self.program.dt), None
        return step, slope

    def _work(self, slots: int):
        work, one = self.code.Work(), self.n + 1 + self.program.recorded
        for name in "xqvw":
            setattr(work, name, _one_instant(getattr(self.state, name)))
        for name in ("f", "t", "fp", "tp"):
            setattr(work, name, self.zeros("Vec3", one))
        for name in ("slot_f", "slot_t"):
            setattr(work, name, self.zeros("Vec3", slots * self.stages if slots > 1 else 0, self.n))
        if stages := RIGID[self.program.integrator].stages:
            for name in ("x", "v", "l", "f", "t"):
                setattr(work, f"stage_{name}", self.zeros("Vec3", stages, self.n))
            work.stage_raw = self.zeros("Quat", stages, self.n)
            for when in ("after", "sum"):
                for name, kind in STATE.items():
                    setattr(work, f"{when}_{name}", self.zeros(kind, self.n))
        if pairs := self.program.pairs:
            work.near = pairs.empty_list(self.code, self.layout, self.worlds, self.like.device)
        return work


def _lane(program: Bodies, like: Tensor, dual: bool) -> Lane:
    """Lane type for inputs like this one."""
    dtype = str(like.dtype).removeprefix("torch.")
    wide = like.device.type == "cpu" and len(like) > 1
    return Lane(dtype, program.width or (native_width(dtype) if wide else 1), dual)


def _numbers_of_step(program: Bodies, lane: Lane) -> int:
    """Numbers of the evaluations of a step of a world, which its adjoint finds again."""
    bodies, joints, stages = len(program.windows), program.joints, RIGID[program.integrator].stages or 1
    numbers = 6 * bodies
    if joints:
        rows = len(joints.rows)
        numbers += (9 + 1) * rows + 9 * (bodies + 1 + program.recorded) + _factor_size(joints, lane)
    return stages * numbers + (len(joints.rows) if joints else 0)


def _factor_size(joints: "Joints", lane: Lane) -> int:
    """Numbers of the factor of a world."""
    return (joints.blocks["block"][-1] + len(joints.joints)) * block_size(lane)


def _stored_bytes(program: Bodies, inputs: Sequence[Tensor]) -> int:
    """Memory of the states and evaluations of all steps."""
    like, steps = inputs[0], max(1, program.frames - 1) * program.substeps
    lane = _lane(program, like, False)
    worlds = Layout(lane).packs(len(like)) * lane.width
    state = sum(math.prod(SHAPES[kind]) for kind in STATE.values()) * len(program.windows)
    return (steps + 1) * (state + _numbers_of_step(program, lane)) * worlds * like.element_size()


@lru_cache(maxsize=64)
def _joint_shape(joints: "Joints", code, layout: Layout, device: str):
    """The `JointShape` of a template."""
    shape = code.JointShape()
    count = lambda values: layout.counts(torch.tensor(values, dtype=torch.int32, device=device))
    rows, coordinates = joints.rows, joints.coordinates
    shape.kind = count([ROWS[kind] for kind, _, _ in rows])
    shape.first, shape.second = count([a for _, a, _ in rows]), count([b for _, _, b in rows])
    for name, values in joints.blocks.items():
        setattr(shape, name, count(values))
    shape.coordinate = count([COORDINATES[kind] for kind, _, _ in coordinates])
    shape.from_body, shape.to_body = count([a for _, a, _ in coordinates]), count([b for _, _, b in coordinates])
    return shape


def _one_instant(array):
    """(packs, bodies) as (packs, 1, bodies), in the same memory."""
    view = wp.array(
        ptr=array.ptr, dtype=array.dtype, shape=(array.shape[0], 1, array.shape[1]), device=array.device, copy=False
    )
    vars(view)["owner"] = array
    return view


def _stages_first(layout: Layout, worlds: int, rows: int, stages: int, device):
    """Zeros (stages, packs, rows)."""
    width, packs = layout.lane.width, layout.packs(worlds)
    flat = layout.zeros("Real", stages * packs * width, (rows,), device)
    view = wp.array(ptr=flat.ptr, dtype=flat.dtype, shape=(stages, packs, rows), device=flat.device, copy=False)
    vars(view)["owner"] = flat
    return view


def _bound(pairs: "Pairs | None", lane: Lane) -> tuple:
    """Names that `pairs` binds in the source, sorted; () for none."""
    return tuple(sorted(pairs.bind(lane).items(), key=lambda item: item[0])) if pairs else ()


ROW_FUNCTIONS = ("point_jacobian", "point_demand", "axis_demand", "point_product", "axis_product", "turning_product")
EFFORTS = ("point_jacobian", "turn_torque", "slide_force", "ball_torque", "free_effort")
EFFORTS_ADJOINT = ("turn_power", "slide_power", "ball_power", "free_turn_power", "turn_angle", "unit_efforts")
FORCES = ("Parameters", "States", "State", "Work", "evaluate", "load_state", "apply_all_impulses", "slot_of", "recall")
FORCES_ADJOINT = ("evaluate_adjoint", "all_force_powers", "all_impulses_adjoint")
_STRUCTS = ("Parameters", "States", "State", "Work")
_STRUCTS += ("PairShape", "PairNumbers", "NearPairs", "JointShape", "JointNumbers", "LinkWork")  # what there is of them
_STRUCTS += ("FrameMotion",)


@cache
def _code(lane: Lane, pairs: tuple, joints: bool, loads: rollout.Loads, integrator: str, recorded: bool = False):
    body, steps = rollout.wrench_code(lane, loads), RIGID[integrator]
    bound = members(body, *rollout.WRENCH[1:], *(() if lane.dual else rollout.WRENCH_ADJOINT))
    key = body.__name__
    if pairs:
        bound |= dict(pairs)
        key += bound["add_pairs"].func.__module__
    if joints:
        single = specialize(joint_kernels, lane, **angle_functions(lane))
        links = specialize(constraint_kernels, lane, **members(single, *ROW_FUNCTIONS), **block_functions(lane))
        efforts = [*EFFORTS, *(() if lane.dual else EFFORTS_ADJOINT)]
        structs = members(links, "JointShape", "JointNumbers")
        moves = specialize(coordinate_kernels, lane, **structs, **members(single, *efforts), KEY=links.__name__)
        bound |= members(moves, "add_coordinates")
        bound |= {} if lane.dual else members(moves, "coordinates_adjoint", "all_coordinate_powers")
        names = ["JointShape", "JointNumbers", "LinkWork", "constrain"]
        names += [] if lane.dual else ["constrain_adjoint", "all_link_powers"]
        bound |= members(links, *names)
        key += moves.__name__
    bound |= {"Bodies": body.Parameters, "PAIRS": bool(pairs), "JOINTS": joints}
    bound |= {"RECORDED": True} if recorded else {}  # without recordings, code has no flag in its name
    forces = specialize(multibody_force_kernels, lane, **bound, INTERVAL_BOUND=steps.order == 1, KEY=key)
    names = FORCES if lane.dual else (*FORCES, *FORCES_ADJOINT)
    bound = members(forces, *names) | members(body, *rollout.WRENCH[1:])
    if not lane.dual:
        bound |= members(body, *rollout.WRENCH_ADJOINT)
        bound |= members(rollout.integrator_code(lane, loads, integrator), *steps.powers)
    advance = specialize(steps.multibody_kernels, lane, **bound, JOINTS=joints, KEY=forces.__name__)
    structs = {name: getattr(forces, name) for name in _STRUCTS if hasattr(forces, name)}
    bound = members(advance, "advance", *(() if lane.dual else ("advance_adjoint", "all_step_powers"))) | structs
    bound |= {} if lane.dual else members(forces, "all_force_powers")
    code = compiled_for_packs(specialize(multibody_kernels, lane, **bound, KEY=advance.__name__), lane)
    return code, body, Layout(lane)


def _check(program: Bodies, inputs: Sequence[Tensor]) -> None:
    """The kernels read by these counts, so they have to agree."""
    names = program.names
    if len(inputs) != len(names):
        raise ValueError(f"got {len(inputs)} inputs; expected {len(names)}: {', '.join(names)}.")
    count, pushes = len(program.windows), sum(map(len, program.windows))
    for name, x in zip(BODY, inputs, strict=False):
        if x.shape[1] != count:
            raise ValueError(f"`{name}` has {x.shape[1]} bodies; expected {count}.")
        if name in ("impulse", "push_point") and x.shape[2] != pushes:
            raise ValueError(f"`{name}` has {x.shape[2]} pushes for {pushes} windows; give one for each.")


__all__ = ["BODY", "Bodies"]
