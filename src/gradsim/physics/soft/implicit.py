"""Rollouts of stiff soft bodies by implicit steps, as a differentiable operation and with forward sensitivities.

The equations are in `soft/implicit_kernels.py`, those of the adjoint in `soft/implicit_adjoint_kernels.py`. A step is
stable at any size. That of backward Euler loses energy in what it does not resolve: its error is of first order in h ω, ω
being the frequency of a vibration. That of the midpoint rule is of second order, and keeps the energy of linear vibrations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch
import warp as wp
from torch import Tensor

from gradsim.engine.access import access
from gradsim.engine.compiler import compiled_for_packs
from gradsim.engine.dual_parts import split_dual
from gradsim.engine.lanes import Lane, members, names, native_width, specialize
from gradsim.engine.launch import replay
from gradsim.engine.layout import SHAPES
from gradsim.engine.mapping import InElements, Worlds, mapping_for
from gradsim.engine.operation import operation
from gradsim.errors import InputError
from gradsim.numerics.elimination import Elimination, eliminate
from gradsim.physics.forces.assembly import assemble
from gradsim.physics.forces.base import Elements, Force
from gradsim.physics.soft.rollout import Particles
from gradsim.physics.soft.rollout_buffers import RolloutBuffers, particles_code

if TYPE_CHECKING:
    from gradsim.physics.soft import (
        factor_kernels,
        implicit_adjoint_kernels,
        implicit_kernels,
        implicit_residual_kernels,
    )
else:
    factor_kernels = "gradsim.physics.soft.factor_kernels"
    implicit_adjoint_kernels = "gradsim.physics.soft.implicit_adjoint_kernels"
    implicit_kernels = "gradsim.physics.soft.implicit_kernels"
    implicit_residual_kernels = "gradsim.physics.soft.implicit_residual_kernels"

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5}
NEWTONS, PRODUCTS = 30, 1000  # limits: of a step, and of a linear solve
IN_LINE = 60  # limit of a linear solve with the factors of the Jacobian
MAX_ENTRIES = 1_000_000  # 3 x 3 blocks of sparse factors of a world: 72 MB
MIN_PATIENCE = 20  # products of a linear solve with sparse factors before these are made again
KRYLOV_DIRECTIONS = 6  # directions of the linear solve
# How far from its tolerance the adjoint of a step may end, when rounding keeps it from there
ADJOINT_TOLERANCE_FACTOR = 100.0


@dataclass(frozen=True, eq=False)
class ImplicitParticles:
    """A program that moves the vertices of a mesh through time by implicit steps; otherwise as `Particles`.

    With `driven`, there is an input `drive` before the last, (B, (frames - 1) · substeps, pinned, 3): the velocity of
    each pinned vertex in each step [m/s], which replaces that of the start.

    A world in which a step is not solved is NaN from there on. Devices other than CPUs are refused: one thread would take
    a whole world, and the compiler for CUDA does not come to an end in minutes.

    Args:
        groups: Elements of the forces on the vertices.
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s].
        pinned: Vertices that keep their velocity.
        segment: Frames between two checkpoints of the backward pass.
        mapping: How worlds and elements lie in registers; None chooses the faster.
        tolerance: Tolerance of the momentum of a step, and of linear solves, relative; None: 1e-11, in float32 1e-5.
        theta: Where in a step forces are taken: 1, backward Euler; 0.5, the midpoint rule.
        driven: True if the velocities of pinned vertices are an input.
        place: Place of each vertex in a line along which only near ones act on each other, as of a rod; linear solves
            take the factors of the banded Jacobian then.
        factored: True if linear solves take sparse factors of the Jacobian, which are kept over steps; else the blocks of
            its diagonal, as with more than `MAX_ENTRIES` entries. Nothing with `place`.
    """

    groups: tuple[Elements, ...]
    frames: int
    substeps: int
    dt: float
    pinned: Sequence[int] = ()
    segment: int = 1
    mapping: Worlds | InElements | None = None
    tolerance: float | None = None
    theta: float = 1.0
    driven: bool = False
    place: Sequence[int] = ()
    factored: bool = False
    run: Callable[..., list[Tensor]] = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))

    names = Particles.names  # but for the drive
    shapes = Particles.shapes

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [y for y, _ in self._roll(inputs, None, self.substeps)[0]]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world (see `Particles.tangent`)."""
        return self._roll(inputs, tangents, self.substeps)[0]  # pyright: ignore[reportReturnType] -- dual lanes

    def effort(self, inputs: Sequence[Tensor]) -> tuple[float, float]:
        """Products with the Jacobian, and steps of Newton's method, in a step of time: means over threads."""
        counts = self._roll(inputs, None, self.substeps)[1].double().mean(0) / ((self.frames - 1) * self.substeps)
        return counts[0].item(), counts[1].item()

    def _roll(self, inputs, tangents, stride: int, first: int = 0, intervals: int | None = None, space=None):
        """x and v with tangents, at every `stride` steps of some frame intervals; and counts of what it took.

        `space`: work arrays of linear solves with factors of steps before; None for none.
        """
        intervals = self.frames - 1 if intervals is None else intervals
        differentiated = tangents is not None
        (inputs, drive), (tangents, slope) = self._within(inputs, tangents)
        buffers = RolloutBuffers(self, inputs, None, self._mapping(inputs))
        along = RolloutBuffers(self, inputs, tangents, buffers.to)
        code = self._step_code(buffers)
        records = intervals * self.substeps // stride
        none = inputs[0].new_zeros(0, dtype=torch.long)
        states = []
        for k in range(2):
            start = along.to.vertices(inputs[k], tangents[k], along.rows, none if k else along.copies)
            state = along.work(records + 1)
            vars(state)["tensor"][:, 0] = vars(start)["tensor"]
            states.append(state)
        s, space = code.Step(), space or self._space(code, buffers)
        fill_step(s, buffers, along)
        worst = world_reals(buffers, records + 1)
        counts = buffers.counts(2)
        args = [
            *buffers.structs,
            self.substeps,
            stride,
            first,
            self._tolerance(inputs),
            torch.finfo(inputs[0].dtype).eps,
            NEWTONS,
            IN_LINE if self.place else PRODUCTS,
            int(differentiated),
            1 / self.theta,
            self._driven_vertices(drive, slope, along),
            s,
            space,
            *states,
            worst,
            counts,
        ]
        replay(code.forward, buffers.threads, args, buffers.device)
        unsolved = world_levels(buffers, worst, records + 1).cummax(1).values > 1
        pairs = [along.to.unvertices(state, along.worlds, along.n) for state in states]
        pairs = [(y.masked_fill_(unsolved[..., None, None], torch.nan), t) for y, t in pairs]
        return pairs, wp.to_torch(counts)

    def _step_code(self, buffers: RolloutBuffers):
        lane, name = buffers.to.lane, buffers.to.name
        return step_code(tuple(g.force for g in self.groups), lane, name, self._solver(buffers.n))

    def _solver(self, n: int) -> str:
        if self.place:
            return "band"
        return "factors" if self.factored and len(_elimination(self, n).row) <= MAX_ENTRIES else "blocks"

    def _space(self, code, buffers: RolloutBuffers):
        space = linear_space(code, buffers, self.place)
        if self._solver(buffers.n) == "factors":
            fill_factors(code, space, buffers, _elimination(self, buffers.n))
        return space

    def _mapping(self, inputs: Sequence[Tensor]) -> Worlds | InElements:
        x = inputs[0]
        require_cpu(x)
        if self.place:
            return Worlds(Lane(str(x.dtype).removeprefix("torch."), native_width(str(x.dtype).removeprefix("torch."))))
        return self.mapping or mapping_for(len(x), x.dtype, x.device, False)

    def _within(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None = None):
        """Inputs of a part θ of each step, then the drive; both with tangents."""
        split = lambda given: (given[:-2], given[-2], given[-1]) if self.driven else (given[:-1], None, given[-1])
        (head, drive, step), (slopes, slope, rate) = split(list(inputs)), split(list(tangents or [None] * len(inputs)))
        if not step.shape[1]:
            step, rate = inputs[0].new_full((len(inputs[0]), self.frames - 1), self.dt), None
        rate = None if rate is None else self.theta * rate
        return ([*head, self.theta * step], drive), ([*slopes, rate], slope)

    def _driven_vertices(self, drive: Tensor | None, slope: Tensor | None, buffers: RolloutBuffers) -> wp.array:
        """Velocities (threads, steps, ...) of all vertices, 0 where they are not pinned."""
        if drive is None:
            return buffers.work(0)
        full = lambda y: drive.new_zeros(*drive.shape[:2], buffers.n, 3).index_copy(2, self._pins(drive), y)
        none = drive.new_zeros(0, dtype=torch.long)
        return buffers.to.vertices(full(drive), None if slope is None else full(slope), buffers.rows, none)

    def _pins(self, like: Tensor) -> Tensor:
        return torch.tensor(list(self.pinned), dtype=torch.long, device=like.device)

    def _tolerance(self, inputs: Sequence[Tensor]) -> float:
        return self.tolerance or TOLERANCE[inputs[0].dtype]

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        (within, drive), _ = self._within(inputs)
        buffers = RolloutBuffers(self, within, None, self._mapping(inputs))
        code = adjoint_code(
            tuple(g.force for g in self.groups), buffers.to.lane, buffers.to.name, self._solver(buffers.n)
        )
        none = inputs[0].new_zeros(0, dtype=torch.long)
        frame_adjoints = [buffers.to.vertices(g, None, buffers.rows, none) for g in adjoints]
        start = [buffers.work() for _ in range(2)]
        grad, gradients = buffers.adjoints()
        s, space, w = code.AdjointWorkspace(), self._space(code, buffers), buffers.work()
        fill_adjoint_workspace(s, buffers)
        worst, drives = world_reals(buffers, 1), buffers.work(0 if drive is None else drive.shape[1])
        again = self._space(self._step_code(buffers), buffers) if self.substeps > 1 else None
        for first in reversed(range(0, self.frames - 1, self.segment)):
            last = min(first + self.segment, self.frames - 1)
            steps = [y[:, first : last + 1] for y in outputs]
            if self.substeps > 1:
                at = [outputs[0][:, first], outputs[1][:, first], *inputs[2:]]
                steps = [y for y, _ in self._roll(at, None, 1, first, last - first, again)[0]]
            history = [
                buffers.to.vertices(y, None, buffers.rows, none if k else buffers.copies) for k, y in enumerate(steps)
            ]
            fixed = [
                s,
                grad[1],
                self.substeps,
                first,
                self._tolerance(inputs),
                IN_LINE if self.place else PRODUCTS,
                space,
                w,
            ]
            args = [*fixed, 1 / self.theta, int(self.driven), *history, *frame_adjoints, *start, grad[0], drives, worst]
            replay(code.backward, buffers.threads, args, buffers.device)
        check_solved(world_levels(buffers, worst, 1), self._tolerance(inputs))
        state = [
            buffers.to.unvertices(a, buffers.worlds, buffers.n)[0] + g[:, 0]
            for a, g in zip(start, adjoints, strict=True)
        ]
        *middle, step = gradients()
        if self.driven:
            middle.append(buffers.to.unvertices(drives, buffers.worlds, buffers.n)[0][:, :, list(self.pinned)])
        step = self.theta * step if inputs[-1].shape[1] else inputs[-1]
        return [g.to(x.dtype).reshape(x.shape) for g, x in zip([*state, *middle, step], inputs, strict=True)]


def check_solved(level: Tensor, tolerance: float) -> None:
    """Raise `ArithmeticError` if a world's linear solve of an adjoint has an error (squared, over the tolerance) too large."""
    error = level.sqrt() * tolerance
    if not error.max().item() < ADJOINT_TOLERANCE_FACTOR * tolerance:
        world = int(error.nan_to_num(torch.inf).argmax())
        raise ArithmeticError(
            f"the adjoint of an implicit step is solved to {error.max().item():.2g} only in world {world}, in place of "
            f"{tolerance:.2g}; use smaller steps, or look for extreme values of the parameters."
        )


def require_cpu(x: Tensor) -> None:
    """Raise `InputError` for tensors elsewhere."""
    if x.device.type != "cpu":
        raise InputError(f"implicit steps run on a CPU; got tensors on {x.device}. Move them, or step semi-implicit.")


def world_reals(buffers: RolloutBuffers, n: int) -> wp.array:
    """Zeros (threads, n), one number for each world."""
    return buffers.to.like("Real", buffers.to.uniform("Real", buffers.inputs[0].new_zeros(buffers.worlds, n)))


def world_levels(buffers: RolloutBuffers, array: wp.array, n: int) -> Tensor:
    """(worlds, n) of such an array, where all lanes of a world are equal."""
    lanes = buffers.to.lane.width if buffers.to.name == "elements" else 1
    return buffers.to.ununiform("Real", array, buffers.worlds, n) / lanes


def fill_step(s, buffers: RolloutBuffers, along: RolloutBuffers) -> None:
    """Arrays of a `Step`; `along`: the same in dual numbers."""
    s.p, s.e = along.structs
    for name in ("x", "v", "u", "f", "xn", "r"):
        setattr(s, name, along.work())
    s.c, s.base, s.weight = buffers.work(), buffers.work(), buffers.to.like("Real", buffers.structs[0].inverse_mass)
    s.share = wp.from_torch(buffers.inputs[0].new_zeros(buffers.threads))


def fill_adjoint_workspace(s, buffers: RolloutBuffers) -> None:
    """Arrays of an `AdjointWorkspace`."""
    s.p, s.e = buffers.structs
    for name in ("x", "u", "a", "b", "rest_x", "rest_v"):
        setattr(s, name, buffers.work())


_eliminations: WeakKeyDictionary[ImplicitParticles, Elimination] = WeakKeyDictionary()  # they go with their program


def _elimination(program: ImplicitParticles, n: int) -> Elimination:
    if program not in _eliminations:
        indices = tuple((group.index.numpy().tobytes(), group.index.shape[1]) for group in program.groups)
        _eliminations[program] = _elimination_of(n, indices, tuple(program.pinned))
    return _eliminations[program]


@lru_cache(maxsize=16)
def _elimination_of(n: int, indices: tuple[tuple[bytes, int], ...], pinned: tuple[int, ...]) -> Elimination:
    """Programs of a body that differ in their steps share it."""
    return eliminate(n, [np.frombuffer(data, np.int64).reshape(-1, nodes) for data, nodes in indices], list(pinned))


def fill_factors(code, space, buffers: RolloutBuffers, pattern: Elimination) -> None:
    """Arrays of `Factors` for a pattern."""
    f, lane = code.Factors(), buffers.to.lane
    fields = ("start", "row", "colors", "color_start", "neighbor", "neighbor_entry", "neighbor_below", "neighbor_start")
    counts = {name: getattr(pattern, name) for name in fields} | {"vertex": pattern.order}
    for name, numbers in counts.items():
        setattr(f, name, buffers.to.layout.counts(torch.from_numpy(numbers.astype("int32"))))
    columns, entries, x = len(pattern.order), len(pattern.row), buffers.inputs[0]
    zeros = lambda *shape: x.new_zeros(buffers.worlds, *shape)
    for name, kind, count in (("pivot", "Mat3", columns), ("lower", "Mat3", entries), ("z", "Vec3", columns)):
        shape = SHAPES[kind]
        one = Worlds(Lane(lane.dtype)) if buffers.to.name == "elements" else buffers.to
        setattr(f, name, one.uniform(kind, zeros(count, *shape)))
    f.age = buffers.counts(4)
    probes, solves = 3 * (len(pattern.color_start) - 1), pattern.operations // max(1, 2 * entries + columns)
    space.f, space.h, space.patience = f, world_reals(buffers, 1), max(MIN_PATIENCE, probes + solves)


def linear_space(code, buffers: RolloutBuffers, line: Sequence[int]):
    """Work arrays of a linear solve, but for sparse factors; `line`: place of each vertex in line, none where they are not."""
    space = code.Space()
    if line:
        place = torch.tensor(line, dtype=torch.int32)
        indices = [group.index[:, : group.force.nodes - group.force.body_nodes] for group in buffers.program.groups]
        spans = [place[index].amax(1) - place[index].amin(1) for index in indices]
        count = 2 * int(torch.cat(spans).max()) + 1
        matrices = buffers.to.like(
            "Mat3", buffers.to.uniform("Mat3", place.new_zeros(buffers.worlds, buffers.n * count, 3, 3))
        )
        space.band = matrices.reshape((buffers.threads, buffers.n, count))
        space.place, space.z = wp.from_torch(place), buffers.work()
    for name in ("d0", "d1", "d2", "r", "y"):
        setattr(space, name, buffers.work())
    space.p, space.q = buffers.work(KRYLOV_DIRECTIONS), buffers.work(KRYLOV_DIRECTIONS)
    space.square, space.part = world_reals(buffers, KRYLOV_DIRECTIONS), world_reals(buffers, KRYLOV_DIRECTIONS)
    return space


# Functions of the assembled forces that make the preconditioner, by its name
JACOBIAN = {"band": ("add_bands",), "blocks": ("add_diagonals",), "factors": ()}


FACTOR_NAMES = ("Factors", "set_probe", "add_probe", "clear_factors", "make_factors", "solve_factors")


@cache
def _linear_solver(lane: Lane, mapping: str, solver: str) -> dict:
    """Names that the linear solve leaves open, but for those of its system."""
    rows = mapping == "elements" and lane.width > 1
    factors = specialize(
        factor_kernels,
        Lane(lane.dtype) if rows else lane,  # numbers of one world
        Vertex=access(lane, mapping)["Vertex"],
        ROWS=rows,
        KEY=f"{lane.name}{mapping}",
    )
    return {
        "JACOBIAN": JACOBIAN[solver],
        "FACTOR_NAMES": FACTOR_NAMES,
        "BANDED": solver == "band",
        "FACTORED": solver == "factors",
        "ACROSS": mapping == "elements",
        **members(factors, *FACTOR_NAMES),
    }


VERTICES = ("Vertex", "load", "store")


@cache
def step_code(forces: tuple[Force, ...], lane: Lane, mapping: str, solver: str):
    dual = Lane(lane.dtype, lane.width, True)
    reach, reach_dual = access(lane, mapping), access(dual, mapping)
    plain, moving = assemble(forces, lane, mapping), assemble(forces, dual, mapping)
    step, step_dual = particles_code(forces, lane, mapping), particles_code(forces, dual, mapping)
    residual = specialize(
        implicit_residual_kernels,
        dual,
        **{name: reach_dual[name] for name in VERTICES},
        **members(step_dual, "VertexParameters", "constant"),
        **members(moving, "Elements", "add_forces"),
        KEY=moving.__name__,
    )
    code = specialize(
        implicit_kernels,
        lane,
        **{name: reach[name] for name in VERTICES},
        **split_dual(lane),
        **members(step, "VertexParameters", "constant"),
        **members(plain, "Elements", *JACOBIAN[solver], "all_powers"),
        evaluate=residual.evaluate,
        DualParameters=step_dual.VertexParameters,
        DualElements=moving.Elements,
        DualVertex=reach_dual["Vertex"],
        DualVec3=names(dual)["Vec3"],
        dual_load=reach_dual["load"],
        dual_store=reach_dual["store"],
        LANE=lane,
        **_linear_solver(lane, mapping, solver),
        KEY=plain.__name__ + moving.__name__,
    )
    return compiled_for_packs(code, lane)


@cache
def adjoint_code(forces: tuple[Force, ...], lane: Lane, mapping: str, solver: str):
    reach, plain = access(lane, mapping), assemble(forces, lane, mapping)
    code = specialize(
        implicit_adjoint_kernels,
        lane,
        **{name: reach[name] for name in VERTICES},
        **members(particles_code(forces, lane, mapping), "VertexParameters", "constant"),
        **members(plain, "Elements", "add_forces", "add_adjoints", *JACOBIAN[solver], "add_products", "all_powers"),
        LANE=lane,
        **_linear_solver(lane, mapping, solver),
        KEY=plain.__name__,
    )
    return compiled_for_packs(code, lane)
