"""Rollouts of soft and rigid bodies that act on one another, as one differentiable operation.

The equations of a step are in `coupled/kernels.py`, those of the forces in their own files: `contact/vertex_body.py` and
`attachment.py` between vertices and bodies, `contact/vertex_triangle.py` between vertices and triangles. Pairs of vertices and
triangles are sought at every frame (`broad_phase.py`) for all that may come near before the next; if the motion then
leaves the places that the search foresaw, the frame is done again with those it took.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from gradsim.engine.compiler import compiled_for_packs
from gradsim.engine.lanes import Lane, members, native_width, specialize
from gradsim.engine.launch import replay, struct_of
from gradsim.engine.mapping import Worlds
from gradsim.engine.operation import operation
from gradsim.errors import InputError
from gradsim.physics.contact.broad_phase import Candidates
from gradsim.physics.forces.base import Elements
from gradsim.physics.rigid import rollout
from gradsim.physics.rigid.many.batching import BODY, apart, check_alike, slopes_together, together, unpacked
from gradsim.physics.soft.rollout import Particles
from gradsim.physics.soft.rollout_buffers import RolloutBuffers, by_state, particles_code

if TYPE_CHECKING:
    from gradsim.physics.coupled import kernels as coupled_kernels
    from gradsim.physics.coupled import row_kernels
else:
    coupled_kernels = "gradsim.physics.coupled.kernels"
    row_kernels = "gradsim.physics.coupled.row_kernels"

ROWS, NODE = 5, 3  # of a body, see `coupled/kernels.py`
MAX_BROAD_PHASE_RETRIES = 8  # of a frame, for the ways of its vertices


def nodes(vertices: Tensor, n: int, body: int) -> Tensor:
    """Index (k, 4) of forces between vertices (k,) out of n and a body, by its place among the bodies."""
    s = n + ROWS * body
    rows = torch.tensor([s + NODE, s + NODE + 1, s + 2], dtype=torch.long, device=vertices.device)
    return torch.cat([vertices[:, None].long(), rows.expand(len(vertices), 3)], 1)


@dataclass(frozen=True, eq=False)
class Coupled:
    """A program (see `engine.operation`) that moves vertices and rigid bodies through time, in every world.

    Inputs: x, v, inverse_mass, gravity and the parameters of the forces as those of `Particles`, a group of `faces` with
    one of each parameter (B, 1); then for each body those of `RigidRollout` but for the step; then step. Outputs: x, v
    (B, frames, n, 3), then x, q, v, l (B, frames, ·) of each body.

    The gradient is that of the motion with the pairs that were found. A pair that is not near makes no force, so these
    are all that count; where a contact begins or ends the motion has a kink.

    Args:
        groups: Elements of the forces on the vertices; indices of bodies by `nodes`.
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s].
        windows: Begin and end [s] of the pushes of each body, as for `RigidRollout`.
        pinned: Vertices that keep their velocity.
        faces: Where pairs for a group are sought, by its place; the index of this group is empty.
        law: Contact law of the bodies, a key of `contact.laws.LAWS`.
        segment: Frames between two checkpoints of the backward pass; 1 where there are `faces`.
        width: Worlds in one register; None: the widest of the CPU, and 1 for a world alone and elsewhere.
    """

    groups: tuple[Elements, ...]
    frames: int
    substeps: int
    dt: float
    windows: tuple[tuple[tuple[float, float], ...], ...] = ()
    pinned: Sequence[int] = ()
    faces: Mapping[int, Candidates] = field(default_factory=dict)
    law: str = "continuous"
    segment: int = 1
    width: int | None = None
    run: Callable[..., list[Tensor]] = field(init=False)
    soft: Particles = field(init=False)
    pushes: rollout.RigidRollout = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))
        object.__setattr__(self, "soft", self.mapped(None))
        blows = tuple(window for body in self.windows for window in body)
        object.__setattr__(self, "pushes", rollout.RigidRollout(self.frames, self.substeps, self.dt, blows))

    def mapped(self, mapping: Worlds | None) -> Particles:
        """The vertices by themselves."""
        return Particles(self.groups, self.frames, self.substeps, self.dt, self.pinned, mapping=mapping)

    @property
    def bodies(self) -> int:
        return len(self.windows)

    @property
    def names(self) -> list[str]:
        """Names of the inputs; those of a body begin with "body" and its place."""
        body_names = [f"body{r}.{name}" for r in range(self.bodies) for name in BODY]
        return [*self.soft.names[:-1], *body_names, "step"]

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        worlds, n, _ = inputs[0].shape
        body_shapes = [(worlds, self.frames, k) for k in (3, 4, 3, 3)]
        return [(worlds, self.frames, n, 3)] * 2 + body_shapes * self.bodies

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [value for value, _ in self._forward(inputs, None)]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world; arguments as for `Particles`."""
        return self._forward(inputs, tangents)  # pyright: ignore[reportReturnType] -- dual lanes have tangents

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        buffers = CoupledBuffers(self, inputs, None)
        segment = max(1, min(1 if self.faces else self.segment, self.frames - 1))
        frames, frame_adjoints = ([buffers.rows_of(ys, k) for k in range(2)] for ys in (outputs, adjoints))
        steps = [buffers.soft.work(segment * self.substeps + 1) for _ in range(2)] if self.substeps > 1 else frames
        start = [buffers.soft.work() for _ in range(2)]
        (grad, d), slopes_of_soft = buffers.soft.adjoints()
        body_gradients = buffers.like()
        trajectories = [struct_of(buffers.code.States, by_state(arrays)) for arrays in (frames, steps, frame_adjoints)]
        out = [
            struct_of(buffers.code.Adjoint, by_state(start)),
            struct_of(buffers.code.Parameters, {"p": grad, "b": body_gradients, "e": d}),
        ]
        parameters = buffers.parameters()
        for begin in reversed(range(0, max(1, self.frames - 1), segment)):
            for g, index in self._pairs(inputs, outputs[0], outputs[1], begin).items():
                buffers.place(g, index)
                parameters.e = buffers.structs[2]
            args = [
                parameters,
                self.substeps,
                segment,
                begin,
                min(begin + segment, self.frames - 1),
                *trajectories,
                *out,
            ]
            replay(buffers.code.backward, buffers.soft.threads, args, buffers.soft.device)
        soft, bodies = buffers.split(
            [buffers.soft.to.unvertices(a, buffers.soft.worlds, buffers.total)[0] for a in start]
        )
        slopes = slopes_of_soft()
        results = [*soft, *slopes[:-1]]
        for r in range(self.bodies):
            results += [*bodies[r], *(buffers.unbody(body_gradients, name, r) for name in BODY[4:])]
        results.append(slopes[-1])
        return [g.to(x.dtype).reshape(x.shape) for g, x in zip(results, inputs, strict=True)]

    def _forward(self, inputs, tangents):
        buffers = CoupledBuffers(self, inputs, tangents)
        states = []
        for k in range(2):
            start = buffers.rows_of(buffers.starts(inputs), k, buffers.starts(tangents) if tangents else None)
            state = buffers.soft.work(self.frames)
            vars(state)["tensor"][:, 0] = vars(start)["tensor"]
            states.append(state)
        parameters, trajectory = buffers.parameters(), struct_of(buffers.code.States, by_state(states))

        def launch(begin, end):
            parameters.e = buffers.structs[2]
            args = [parameters, self.substeps, begin, end, trajectory]
            replay(buffers.code.forward, buffers.soft.threads, args, buffers.soft.device)

        if not self.faces:
            launch(0, self.frames - 1)
        for begin in range(self.frames - 1 if self.faces else 0):
            self._frame(buffers, inputs, states, begin, launch)
        values = [buffers.soft.to.unvertices(a, buffers.soft.worlds, buffers.total) for a in states]
        soft, bodies = buffers.split([value for value, _ in values])
        outputs = [*soft, *(y for body in bodies for y in body)]
        if tangents is None:
            return [(y, None) for y in outputs]
        soft, bodies = buffers.split([torch.zeros_like(y) if t is None else t for y, t in values])
        return list(zip(outputs, [*soft, *(y for body in bodies for y in body)], strict=True))

    def _frame(self, buffers, inputs, states, begin: int, launch) -> None:
        """One frame, until it stays where its pairs were sought."""
        extra = []
        for _ in range(MAX_BROAD_PHASE_RETRIES):
            x, v = (
                buffers.soft.to.unvertices(_of_frame(y, begin), buffers.soft.worlds, buffers.total)[0][:, : buffers.n]
                for y in states
            )
            ways = [*self._foreseen(inputs, x, v, begin), *extra]
            for g, near in self.faces.items():
                buffers.place(g, near.near(ways, 2 * self._thickness(inputs, g)))
            launch(begin, begin + 1)
            (after, _) = buffers.soft.to.unvertices(_of_frame(states[0], begin + 1), buffers.soft.worlds, buffers.total)
            end = after[:, : buffers.n]
            low, high = torch.stack(ways).amin(0), torch.stack(ways).amax(0)
            out = torch.maximum(low - end, end - high).amax().item()
            slack = 0.5 * min(self._thickness(inputs, g) for g in self.faces)
            if not out > slack:  # not a number: the model says where
                return
            extra.append(end)
        raise InputError(
            f"between frames {begin} and {begin + 1} vertices keep leaving the places where contact was looked for; give "
            f"more frames per second or more substeps."
        )

    def _pairs(self, inputs, x: Tensor, v: Tensor, begin: int) -> dict[int, Tensor]:
        """Pairs of each group of `faces` for the frames from `begin` on, from a motion that is known."""
        if not self.faces or self.frames == 1:
            return {}
        ways = [*self._foreseen(inputs, x[:, begin], v[:, begin], begin), x[:, begin + 1]]
        return {g: near.near(ways, 2 * self._thickness(inputs, g)) for g, near in self.faces.items()}

    def _foreseen(self, inputs, x: Tensor, v: Tensor, begin: int) -> list[Tensor]:
        step = inputs[-1][:, begin] if inputs[-1].shape[1] else x.new_full((len(x),), self.dt)
        return [x, x + v * (self.substeps * step)[:, None, None]]

    def _thickness(self, inputs, g: int) -> float:
        return inputs[self.soft.names.index(f"{g}.thickness")].max().item()


class CoupledBuffers:
    """The arrays of the launches of one rollout."""

    def __init__(self, program: Coupled, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None):
        self.program, soft = program, program.soft
        _check(program, inputs)
        x, head = inputs[0], len(soft.names) - 1
        dtype = str(x.dtype).removeprefix("torch.")
        width = program.width or (native_width(dtype) if x.device.type == "cpu" and len(x) > 1 else 1)
        soft_inputs = lambda ys: [*ys[:head], ys[-1]]
        mapped = _mapped(program, Lane(dtype, width))
        self.soft = RolloutBuffers(mapped, soft_inputs(inputs), soft_inputs(tangents) if tangents else None)
        to = self.soft.to
        self.n = self.soft.n
        self.total = self.soft.rows = self.n + ROWS * program.bodies
        self.places = [
            {name: inputs[head + r * len(BODY) + k] for k, name in enumerate(BODY)} for r in range(program.bodies)
        ]
        slopes = [
            {name: tangents[head + r * len(BODY) + k] if tangents else None for k, name in enumerate(BODY)}
            for r in range(program.bodies)
        ]
        self.like_x = x
        loads = rollout.Loads.of(program.law, self.places)
        self.read = [name for name in BODY[4:] if loads.reads(name)] if self.places else []
        self.loads, self.rigid = loads, rollout.wrench_code(to.lane, loads)
        self.bodies = self.rigid.Parameters()
        self.pushes = [len(windows) for windows in program.windows]
        for name in self.read:
            value = together(name, self.places, self.pushes, to.lane.width)
            tangent = slopes_together(name, self.places, slopes, self.pushes, to.lane.width)
            setattr(self.bodies, name, to.layout.pack(rollout.PARAMETERS[name], value, tangent))
        for name, array in zip(
            rollout.SCHEDULE, rollout.push_schedule(program.pushes, to.layout, x.device), strict=True
        ):
            setattr(self.bodies, name, array)
        p, e = self.soft.structs
        self.structs = [p, self.bodies, e]

    @cached_property
    def code(self):
        """The kernels of explicit steps."""
        return _code(tuple(g.force for g in self.program.soft.groups), self.soft.to.lane, self.loads)

    def parameters(self):
        """The kernels' `Parameters`."""
        names = ("p", "b", "e", "bodies", "f", "w")
        values = [*self.structs, self.program.bodies, self.soft.work(), self.soft.work()]
        return struct_of(self.code.Parameters, dict(zip(names, values, strict=True)))

    def place(self, g: int, index: Tensor) -> None:
        """Let group g act on these vertices, (m, nodes)."""
        e = self.structs[2]
        group = getattr(e, f"g{g}")
        for k in range(index.shape[1]):
            setattr(group, f"n{k}", self.soft.to.index(index[:, k].to(self.like_x.device), 0))
        setattr(e, f"g{g}", group)

    def like(self):
        """Zeros for the adjoints of the bodies' parameters."""
        parameters, layout = self.rigid.Parameters(), self.soft.to.layout
        for name in self.read:
            shape = getattr(self.bodies, name).shape
            array = layout.zeros(rollout.PARAMETERS[name], shape[0] * layout.lane.width, shape[1:], self.like_x.device)
            setattr(parameters, name, array)
        return parameters

    def starts(self, inputs) -> list[Tensor]:
        """The state at the start, of vertices and each body; zeros where it is None."""
        x, head = self.like_x, len(self.program.soft.names) - 1
        sizes = [(self.n, 3), (self.n, 3), *[(3,), (4,), (3,), (3,)] * self.program.bodies]
        places = [0, 1, *(head + r * len(BODY) + k for r in range(self.program.bodies) for k in range(4))]
        zero = lambda size: x.new_zeros(len(x), *size)
        return [zero(size) if inputs[k] is None else inputs[k] for size, k in zip(sizes, places, strict=True)]

    def rows_of(self, state: Sequence[Tensor], part: int, tangent: Sequence[Tensor] | None = None):
        """Array of positions (0) or velocities (1) of vertices and bodies, from outputs or adjoints of them."""
        none = self.like_x.new_zeros(0, dtype=torch.long)
        slope = None if tangent is None else self.stacked(tangent, part)
        return self.soft.to.vertices(self.stacked(state, part), slope, self.total, none)

    def stacked(self, state: Sequence[Tensor], part: int) -> Tensor:
        """The rows of `rows_of`, (..., rows, 3)."""
        rows = [state[part]]
        for r in range(self.program.bodies):
            x, q, v, l = state[2 + 4 * r : 6 + 4 * r]
            zero = torch.zeros_like(x)
            last = torch.nn.functional.pad(q[..., 3:], (0, 2))
            columns = (x, q[..., :3], last, zero, zero) if part == 0 else (v, l, zero, zero, zero)
            rows.append(torch.stack(columns, -2))
        return torch.cat(rows, -2)

    def split(self, rows: Sequence[Tensor]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """x, v of the vertices, and x, q, v, l of each body."""
        x, v = rows
        bodies = []
        for r in range(self.program.bodies):
            s = self.n + ROWS * r
            q = torch.cat([x[..., s + 1, :], x[..., s + 2, :1]], -1)
            bodies.append([x[..., s, :].clone(), q, v[..., s, :].clone(), v[..., s + 1, :].clone()])
        return [y[..., : self.n, :].contiguous() for y in rows], bodies

    def unbody(self, own, name: str, r: int) -> Tensor:
        """The adjoint of one parameter of body r."""
        x = self.places[r][name]
        if name not in self.read:
            return torch.zeros_like(x)
        values = unpacked(name, getattr(own, name), self.soft.to.layout, len(self.pushes))
        return apart(name, values, x, r, self.pushes)


_made: WeakKeyDictionary[Coupled, dict[Lane, Particles]] = WeakKeyDictionary()  # they go with their program


def _mapped(program: Coupled, lane: Lane) -> Particles:
    by_lane = _made.setdefault(program, {})
    if lane not in by_lane:
        by_lane[lane] = program.mapped(Worlds(lane))
    return by_lane[lane]


def _of_frame(array, k: int):
    """The array of one frame."""
    view = array[:, k]
    vars(view)["tensor"] = vars(array)["tensor"][:, k]
    return view


_OF_VERTICES = ("Vertex", "load", "store", "Elements", "VertexParameters", "States", "Adjoint", "step_vertices")
_ADJOINTS_OF_VERTICES = (
    *("step_vertices_adjoint", "short_step_adjoint", "MIN_STEP", "copy_state", "add_vertices", "add_adjoints"),
    *("all_powers", "same"),
)


@cache
def _code(forces: tuple, lane: Lane, loads: rollout.Loads):
    soft = particles_code(forces, lane, "worlds")
    body = rollout.wrench_code(lane, loads)
    bound = {name: vars(soft)[name] for name in _OF_VERTICES}
    bound |= members(body, "apply_impulses", "wrench", "spin", "exponential", "normalized")
    if not lane.dual:
        bound |= members(soft, *_ADJOINTS_OF_VERTICES) | members(body, *rollout.WRENCH_ADJOINT)
        steps = rollout.integrator_code(lane, loads, "semi-implicit")
        bound |= members(steps, "step_power", "all_step_powers")
    key = f"{soft.__name__} {body.__name__}"
    bound |= {"Bodies": body.Parameters, "KEY": key, **row_code(lane)}
    return compiled_for_packs(specialize(coupled_kernels, lane, **bound), lane)


def row_code(lane: Lane) -> dict:
    """Members of `coupled/row_kernels.py`."""
    return members(specialize(row_kernels, lane), "ROWS", "NODE", "scalar", "row_of")


def _check(program: Coupled, inputs: Sequence[Tensor]) -> None:
    """The kernels read by these counts, so they have to agree."""
    names = program.names
    if len(inputs) != len(names):
        raise ValueError(f"got {len(inputs)} inputs; expected {len(names)}: {', '.join(names)}.")
    head = len(program.soft.names) - 1
    check_alike(inputs[head:], [len(windows) for windows in program.windows])


__all__ = ["BODY", "Coupled", "CoupledBuffers", "nodes", "row_code"]
