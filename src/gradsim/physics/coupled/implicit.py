"""Rollouts of rods by implicit steps and of rigid bodies that act on them, as one differentiable operation.

The equations are in `coupled/drift_kernels.py` and `coupled/implicit_kernels.py`. What is stiff in the rods does not set the
step, nor do contacts and attachments on their side: vertices are solved for, with bodies where they drift to. Bodies take
explicit steps, so a spring k between a vertex and a mass M asks for h² k/M < 4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.engine.access import access
from gradsim.engine.compiler import compiled_for_packs
from gradsim.engine.dual_parts import split_dual
from gradsim.engine.lanes import Lane, members, specialize
from gradsim.engine.launch import replay
from gradsim.engine.operation import operation
from gradsim.physics.coupled.rollout import BODY, Coupled, CoupledBuffers, row_code
from gradsim.physics.forces.assembly import assemble
from gradsim.physics.forces.base import Force
from gradsim.physics.rigid import rollout
from gradsim.physics.soft.implicit import (
    IN_LINE,
    NEWTONS,
    TOLERANCE,
    VERTICES,
    adjoint_code,
    check_solved,
    fill_adjoint_workspace,
    fill_step,
    linear_space,
    require_cpu,
    step_code,
    world_levels,
    world_reals,
)

if TYPE_CHECKING:
    from gradsim.physics.coupled import drift_kernels, implicit_adjoint_kernels, implicit_kernels
else:
    drift_kernels = "gradsim.physics.coupled.drift_kernels"
    implicit_adjoint_kernels = "gradsim.physics.coupled.implicit_adjoint_kernels"
    implicit_kernels = "gradsim.physics.coupled.implicit_kernels"

BODY_GRADIENTS = BODY[4:]  # inputs of a body behind its state


@dataclass(frozen=True, eq=False)
class ImplicitCoupled:
    """A program that moves vertices by implicit steps and bodies with them; inputs and outputs are those of `program`.

    A world in which a step is not solved is NaN from there on.

    Args:
        program: What moves, without `faces`.
        theta: Where in a step forces are taken: 1, backward Euler; 0.5, the midpoint rule.
        place: Place of each vertex in a line along which only near ones act on each other.
    """

    program: Coupled
    theta: float
    place: Sequence[int]
    run: Callable[..., list[Tensor]] = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))

    @property
    def names(self) -> list[str]:
        return self.program.names

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return self.program.shapes(inputs)

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [y for y, _ in self._outputs(inputs, None)]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world (see `Particles.tangent`)."""
        return self._outputs(inputs, tangents)

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        program, soft = self.program, self.program.soft
        within, _ = self._within(inputs, None)
        buffers = CoupledBuffers(program, within, None)
        code = _adjoint_code(tuple(g.force for g in soft.groups), buffers.soft.to.lane, buffers.loads)
        frame_adjoints = [buffers.rows_of(adjoints, k) for k in range(2)]
        start = [buffers.soft.work() for _ in range(2)]
        (grad, slopes), soft_gradients = buffers.soft.adjoints()
        body_gradients, worst = buffers.like(), world_reals(buffers.soft, 1)
        s = code.AdjointWorkspace()
        fill_adjoint_workspace(s, buffers.soft)
        head = [s, buffers.bodies, program.bodies, slopes, body_gradients, program.substeps]
        space, w = linear_space(code, buffers.soft, self.place), buffers.soft.work()
        segment = max(1, program.segment)
        for first in reversed(range(0, program.frames - 1, segment)):
            last = min(first + segment, program.frames - 1)
            if program.substeps > 1:
                at = [y[:, first] for y in outputs]
                history = self._roll(inputs, None, at, 1, first, last - first)[0]
                history = [buffers.soft.to.vertices(y, None, buffers.total, _none(y)) for y, _ in history]
            else:
                history = [buffers.rows_of([y[:, first : last + 1] for y in outputs], k) for k in range(2)]
            solver = [first, self._tolerance(inputs), IN_LINE, space, w, 1 / self.theta]
            args = [*head, *solver, *history, *frame_adjoints, *start, grad, worst]
            replay(code.backward, buffers.soft.threads, args, buffers.soft.device)
        check_solved(world_levels(buffers.soft, worst, 1), self._tolerance(inputs))
        states = [buffers.soft.to.unvertices(a, buffers.soft.worlds, buffers.total)[0] for a in start]
        states = [y + buffers.stacked(adjoints, k)[:, 0] for k, y in enumerate(states)]
        vertices, bodies = buffers.split(states)
        *parameters, step = soft_gradients()
        results = [*vertices, *parameters]
        for r in range(program.bodies):
            results += [*bodies[r], *(buffers.unbody(body_gradients, name, r) for name in BODY_GRADIENTS)]
        results.append(self.theta * step if inputs[-1].shape[1] else inputs[-1])
        return [g.to(x.dtype).reshape(x.shape) for g, x in zip(results, inputs, strict=True)]

    def _outputs(self, inputs, tangents) -> list[tuple[Tensor, Tensor]]:
        states, buffers = self._roll(inputs, tangents, None, self.program.substeps, 0, self.program.frames - 1)
        parts = []
        for k in range(2):
            soft, bodies = buffers.split([y[k] for y in states])
            parts.append([*soft, *(y for body in bodies for y in body)])
        return list(zip(*parts, strict=True))

    def _roll(self, inputs, tangents, start, stride: int, first: int, intervals: int):
        """Rows of positions and velocities with tangents, at every `stride` steps of some frame intervals.

        `start`: states of vertices and bodies to begin with; None: those of the inputs.
        """
        program = self.program
        within, slopes = self._within(inputs, tangents)
        buffers = CoupledBuffers(program, within, None)
        along = CoupledBuffers(program, within, slopes)
        code = _code(tuple(g.force for g in program.soft.groups), buffers.soft.to.lane, buffers.loads)
        states = []
        for k in range(2):
            begin = along.rows_of(
                start or along.starts(inputs), k, along.starts(slopes) if tangents is not None else None
            )
            state = along.soft.work(intervals * program.substeps // stride + 1)
            vars(state)["tensor"][:, 0] = vars(begin)["tensor"]
            states.append(state)
        s, worst = code.Step(), world_reals(buffers.soft, states[0].shape[1])
        fill_step(s, buffers.soft, along.soft)
        p, _, e = buffers.structs
        eps = torch.finfo(inputs[0].dtype).eps
        args = [
            *(p, e, along.bodies, program.bodies, program.substeps, stride, first),
            *(self._tolerance(inputs), eps, NEWTONS, IN_LINE, int(tangents is not None), 1 / self.theta),
            *(s, linear_space(code, buffers.soft, self.place), *states, worst, buffers.soft.counts(2)),
        ]
        replay(code.forward, buffers.soft.threads, args, buffers.soft.device)
        unsolved = world_levels(buffers.soft, worst, states[0].shape[1]).cummax(1).values > 1
        pairs = [along.soft.to.unvertices(y, along.soft.worlds, along.total) for y in states]
        return [
            (y.masked_fill_(unsolved[..., None, None], torch.nan), torch.zeros_like(y) if t is None else t)
            for y, t in pairs
        ], buffers

    def _within(self, inputs, tangents):
        """Inputs of the part θ of each step, and their tangents; None for zero."""
        require_cpu(inputs[0])
        *head, step = inputs
        *slopes, rate = tangents or [None] * len(inputs)
        if not step.shape[1]:
            step, rate = inputs[0].new_full((len(inputs[0]), self.program.frames - 1), self.program.dt), None
        return [*head, self.theta * step], [*slopes, None if rate is None else self.theta * rate]

    def _tolerance(self, inputs: Sequence[Tensor]) -> float:
        return TOLERANCE[inputs[0].dtype]


def _none(like: Tensor) -> Tensor:
    return like.new_zeros(0, dtype=torch.long)


@cache
def _body_code(lane: Lane, loads: rollout.Loads):
    """`coupled/drift_kernels.py`."""
    body, reach = rollout.wrench_code(lane, loads), access(lane, "worlds")
    bound = members(body, "apply_impulses", "wrench", "spin", "exponential", "normalized")
    if not lane.dual:
        bound |= members(body, *rollout.WRENCH_ADJOINT)
    bound |= {name: reach[name] for name in VERTICES} | row_code(lane)
    return specialize(drift_kernels, lane, **bound, Bodies=body.Parameters, KEY=body.__name__)


@cache
def _code(forces: tuple[Force, ...], lane: Lane, loads: rollout.Loads):
    dual = Lane(lane.dtype, lane.width, True)
    steps, moving = step_code(forces, lane, "worlds", "band"), assemble(forces, dual, "worlds")
    reach = members(steps, "DualVertex", "dual_load", "dual_store", "between", "differentiate", "solve_step")
    bodies = _body_code(dual, loads)
    code = specialize(
        implicit_kernels,
        lane,
        **reach,
        **members(steps, "Space", "Step", "VertexParameters", "Elements", "all_powers"),
        **members(bodies, "fill_rows", "step_bodies"),
        add_forces=moving.add_forces,
        DualBodies=bodies.Bodies,
        pair=split_dual(lane)["pair"],
        KEY=f"{steps.__name__} {bodies.__name__}",
    )
    return compiled_for_packs(code, lane)


@cache
def _adjoint_code(forces: tuple[Force, ...], lane: Lane, loads: rollout.Loads):
    steps, plain = adjoint_code(forces, lane, "worlds", "band"), assemble(forces, lane, "worlds")
    bodies = _body_code(lane, loads)
    code = specialize(
        implicit_adjoint_kernels,
        lane,
        **members(steps, "Vertex", "load", "store", "AdjointWorkspace", "Space", "VertexParameters"),
        **members(steps, "split_adjoint", "solve_adjoint", "MIN_STEP"),
        **members(plain, "Elements", "add_forces", "add_adjoints", "all_powers"),
        **members(bodies, "Bodies", "fill_rows", "kick_adjoint", "fill_adjoint", "all_drift_powers"),
        KEY=f"{steps.__name__} {bodies.__name__}",
    )
    return compiled_for_packs(code, lane)
