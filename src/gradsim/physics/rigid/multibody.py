"""Rollouts of rigid bodies that act on one another, as one differentiable operation and with forward sensitivities.

The equations of a body are in `rigid/wrench_kernels.py`, contact between bodies in `contact/convex_kernels.py`, joints
in `rigid/joint_kernels.py` and `rigid/constraint_kernels.py`, the steps in `rigid/multibody_kernels.py`.
"""

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
from gradsim.engine.layout import Layout
from gradsim.engine.operation import operation
from gradsim.physics.integrators import RIGID
from gradsim.physics.rigid import rollout
from gradsim.physics.rigid.batching import BODY, side_by_side, unpacked

if TYPE_CHECKING:
    from gradsim.physics.rigid import (
        constraint_kernels,
        joint_kernels,
        multibody_force_kernels,
        multibody_kernels,
    )
    from gradsim.physics.rigid.joints import Joints
    from gradsim.physics.rigid.pairs import Pairs
else:
    constraint_kernels = "gradsim.physics.rigid.constraint_kernels"
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
        buffers = _BodyBuffers(self, inputs, None)
        steps = max(1, min(self.segment, self.frames - 1)) * self.substeps
        frames, adjoint = buffers.trajectory(outputs), buffers.trajectory(adjoints)
        states = buffers.blank(steps + 1) if self.substeps > 1 else frames
        grad, state = buffers.gradient(), buffers.states()
        args = [
            buffers.parameters,
            self.substeps,
            self.segment,
            0,
            self.frames - 1,
            frames,
            states,
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
        buffers = _BodyBuffers(self, inputs, tangents)
        trajectory = buffers.started(inputs, tangents)
        replay(
            buffers.code.forward,
            buffers.packs,
            [buffers.parameters, self.substeps, 0, self.frames - 1, trajectory],
            buffers.device,
        )
        return [buffers.layout.unpack(kind, getattr(trajectory, name), buffers.worlds) for name, kind in STATE.items()]


class _BodyBuffers:
    """The arrays of one launch.

    Args:
        program: The rollout.
        inputs: Its inputs.
        tangents: Along one direction per world, None for zero.
    """

    def __init__(self, program: Bodies, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None):
        _check(program, inputs)
        like, self.n = inputs[0], len(program.windows)
        self.program, self.inputs, self.like = program, inputs, like
        self.worlds, self.device = len(like), str(like.device)
        dtype = str(like.dtype).removeprefix("torch.")
        width = program.width or (native_width(dtype) if like.device.type == "cpu" and self.worlds > 1 else 1)
        self.bodies = dict(zip(BODY, inputs, strict=False))
        slopes = dict(zip(BODY, tangents, strict=False)) if tangents else {}
        loads = rollout.Loads.of(program.law, [{name: y[:, 0] for name, y in self.bodies.items() if y.ndim > 2}])
        lane = Lane(dtype, width, tangents is not None)
        self.code, self.rigid, self.layout = _code(
            lane,
            _bound(program.pairs, lane),
            program.joints is not None,
            loads,
            program.integrator,
            program.recorded > 0,
        )
        self.packs = self.layout.packs(self.worlds)
        self.read = [name for name in BODY[4:] if loads.reads(name)]
        parameters = self.code.Parameters()
        bodies = self.rigid.Parameters()
        for name in self.read:
            slope = slopes.get(name)
            slope = None if slope is None else side_by_side(slope, width)
            value = side_by_side(self.bodies[name], width)
            setattr(bodies, name, self.layout.pack(rollout.PARAMETERS[name], value, slope))
        for name, array in zip(
            rollout.SCHEDULE, rollout.push_schedule(program.pushes, self.layout, like.device), strict=True
        ):
            setattr(bodies, name, array)
        parameters.bodies = bodies
        self.numbers = self._numbers(tangents)
        if program.pairs:
            parameters.pair = program.pairs.shape(self.code, self.layout, like.device)
            parameters.pairs = self._struct(self.code.PairNumbers, "pairs.")
        if program.joints:
            parameters.joint = _joint_shape(program.joints, self.code, self.layout, str(like.device))
            parameters.joints = self._struct(self.code.JointNumbers, "joints.")
            parameters.links = self._links(program.joints)
        if program.recorded:
            parameters.motion = self._struct(self.code.FrameMotion, "motion.")
        step, slope = self._step(tangents)
        parameters.step = self.layout.pack("Real", step, slope)
        self.state = self.states()
        parameters.count, parameters.state, parameters.work = self.n, self.state, self._work()
        self.parameters = parameters

    def states(self):
        """`State` of zeros, and of a world and frames at rest."""
        states, one = self.code.State(), self.n + 1 + self.program.recorded
        for name, kind in {**STATE, "w": "Vec3"}.items():
            setattr(states, name, self.zeros(kind, one))
        q = self.like.new_zeros(self.worlds, one, 4)
        q[:, self.n :, 3] = 1.0
        states.q = self.layout.pack("Quat", q)
        return states

    def zeros(self, kind: str, *items: int):
        return self.layout.zeros(kind, self.worlds, items, self.like.device)

    def trajectory(self, states: Sequence[Tensor]):
        """`States` of x, q, v, l (worlds, frames, bodies, ·)."""
        trajectory = self.code.States()
        for (name, kind), value in zip(STATE.items(), states, strict=True):
            setattr(trajectory, name, self.layout.pack(kind, value))
        return trajectory

    def blank(self, instants: int):
        trajectory = self.code.States()
        for name, kind in STATE.items():
            setattr(trajectory, name, self.zeros(kind, instants, self.n))
        return trajectory

    def started(self, inputs, tangents):
        """`States` with the start in frame 0."""
        trajectory = self.blank(self.program.frames)
        for k, (name, kind) in enumerate(STATE.items()):
            start = self.layout.pack(kind, inputs[k], tangents[k] if tangents else None)
            self.layout.memory(getattr(trajectory, name))[:, 0] = self.layout.memory(start)
        return trajectory

    def gradient(self):
        """`Parameters` of zeros where adjoints go."""
        gradient = self.code.Parameters()
        bodies = self.rigid.Parameters()
        for name in self.read:
            setattr(bodies, name, self._like(rollout.PARAMETERS[name], getattr(self.parameters.bodies, name)))
        gradient.bodies = bodies
        for prefix, kind in (("pairs.", "PairNumbers"), ("joints.", "JointNumbers"), ("motion.", "FrameMotion")):
            names = [n.removeprefix(prefix) for n in self.numbers if n.startswith(prefix)]
            if names:
                struct, before = getattr(self.code, kind)(), getattr(self.parameters, prefix[:-1])
                for name in names:
                    setattr(struct, name, self._like(self._kind(prefix + name), getattr(before, name)))
                setattr(gradient, prefix[:-1], struct)
        gradient.step = self._like("Real", self.parameters.step)
        return gradient

    def adjoints(self, grad) -> list[Tensor]:
        """Adjoints of every input; those of the start are zero."""
        adjoints = []
        for name, value in self.bodies.items():
            if name in self.read:
                adjoints.append(unpacked(name, getattr(grad.bodies, name), self.layout, self.n)[: self.worlds])
            else:
                adjoints.append(torch.zeros_like(value))
        for name, (value, _) in self.numbers.items():
            prefix, _, key = name.partition(".")
            array = getattr(getattr(grad, prefix), key)
            adjoints.append(self.layout.unpack(self._kind(name), array, self.worlds)[0].reshape(value.shape))
        step = self.layout.unpack("Real", grad.step, self.worlds)[0]
        adjoints.append(step if self.inputs[-1].shape[1] else self.inputs[-1])
        return adjoints

    def _numbers(self, tangents) -> dict[str, tuple[Tensor, Tensor | None]]:
        """Inputs of pairs, joints and frames with their tangents, by name."""
        names, first = self.program.names, len(BODY)
        rows = range(first, len(names) - 1)
        return {names[k]: (self.inputs[k], tangents[k] if tangents else None) for k in rows}

    def _kind(self, name: str) -> str:
        prefix, _, key = name.partition(".")
        return {"joints": JOINT_KINDS, "motion": FRAME_KINDS}.get(prefix, {}).get(key, "Real")

    def _struct(self, struct, prefix: str):
        instance = struct()
        for name, (value, slope) in self.numbers.items():
            if name.startswith(prefix):
                key, kind = name.removeprefix(prefix), self._kind(name)
                if prefix == "joints." and key in TIMED_INPUTS and value.ndim == 2:
                    value, slope = value[:, None], None if slope is None else slope[:, None]
                setattr(instance, key, self.layout.pack(kind, value, slope))
        return instance

    def _like(self, kind: str, array):
        return self.layout.zeros(kind, array.shape[0] * self.layout.lane.width, array.shape[1:], self.like.device)

    def _links(self, joints: "Joints"):
        work, rows, one = self.code.LinkWork(), len(joints.rows), self.n + 1 + self.program.recorded
        for name in ("ja", "ta", "tb"):
            setattr(work, name, self.zeros("Vec3", rows))
        blocks = joints.blocks["block"][-1] + len(joints.joints)
        work.system = self.zeros("Real", blocks * block_size(self.layout.lane))
        work.y, work.inverse = self.zeros("Real", rows), self.zeros("Mat3", one)
        work.mu = _stages_first(self.layout, self.worlds, rows, 5, self.like.device)  # four stages, and impulses
        for name in ("a", "s", "pa", "ps"):
            setattr(work, name, self.zeros("Vec3", one))
        return work

    def _step(self, tangents) -> tuple[Tensor, Tensor | None]:
        step, intervals = self.inputs[-1], self.program.frames - 1
        if not step.shape[1]:
            return step.new_full((self.worlds, intervals), self.program.dt), None
        return step, tangents[-1] if tangents else None

    def _work(self):
        work, one = self.code.Work(), self.n + 1 + self.program.recorded
        for name in "xqvw":
            setattr(work, name, _one_instant(getattr(self.state, name)))
        for name in ("f", "t", "fp", "tp"):
            setattr(work, name, self.zeros("Vec3", one))
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


FORCES = ("Parameters", "States", "State", "Work", "evaluate", "load_state", "apply_all_impulses")
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
        forces = [
            "point_jacobian",
            "point_demand",
            "axis_demand",
            "point_product",
            "axis_product",
            "turning_product",
            "turn_torque",
            "slide_force",
            "ball_torque",
            "free_effort",
        ]
        forces += [] if lane.dual else ["turn_power", "slide_power", "ball_power"]
        links = specialize(
            constraint_kernels,
            lane,
            **members(single, *forces),
            **block_functions(lane),
            ADJOINT_FOLLOWS=steps.order == 1,
        )
        names = ["JointShape", "JointNumbers", "LinkWork", "constrain", "add_coordinates"]
        names += [] if lane.dual else ["constrain_adjoint", "coordinates_adjoint", "all_link_powers"]
        bound |= members(links, *names)
        key += links.__name__
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
