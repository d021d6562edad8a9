"""Rollouts of soft bodies as a differentiable operation and with forward sensitivities.

The equations of a step are in `soft/kernels.py` (semi-implicit Euler), `soft/verlet_kernels.py` (velocity Verlet) and
`soft/nystrom_kernels.py` (Nyström's method), those of the forces in their own files. A rollout is one operation of PyTorch
on the whole trajectory: the frames are its
checkpoints, and the backward pass recomputes the steps between them (paper Appendix B, the discrete adjoint of
semi-implicit Euler, Eq. 4 and 5).
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gradsim.engine.launch import recorded, struct_of
from gradsim.engine.mapping import InElements, Worlds, mapping_for
from gradsim.engine.numbers import FiniteCheck, Zeros
from gradsim.engine.operation import operation
from gradsim.physics.forces.base import Elements
from gradsim.physics.integrators import SOFT
from gradsim.physics.soft import gpu_rollout
from gradsim.physics.soft.rollout_buffers import DRIVE, HEAD, STATE, RolloutBuffers, by_state, check_shapes

MOST_BOUND = 8  # kinds of tensors of one program whose arrays are used again
BOUND_BYTES = 64e6  # largest size of those of one kind
STORED_BYTES = 128e6  # largest size of the states after all steps, where they are kept
STORED_ROW = 4  # numbers of a vertex in an array, at most
SIZE_OF_ROW, ARRAYS_OF_STATES = (
    64,
    6,
)  # of a vertex with its tangent, at most [bytes]; of frames, and of steps between them


@dataclass(frozen=True, eq=False)
class Particles:
    """A program (see `engine.operation`) that moves the vertices of a mesh through time, in every world.

    Inputs, in this order, with worlds B and vertices n: the start x (B, n, 3) [m] and v (B, n, 3) [m/s]; inverse_mass
    (B, n) [1/kg], gravity (B, 3) [m/s²]; the parameters of the forces on each group of elements, in order, (B, m, ...) or
    (B, 1, ...) for one that all elements share, or with a value for each frame interval, (B, frames - 1, m or 1, ...); and step (B, frames - 1): the time step in each frame interval [s], or
    (B, 0) for `dt` in all of them. Outputs: x, v of every frame, (B, frames, n, 3); frame 0 is the start.

    Args:
        groups: Elements of the forces on the vertices.
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s].
        pinned: Vertices that keep their velocity.
        segment: Frames between two checkpoints of the backward pass.
        mapping: How worlds and elements lie in registers; None chooses the faster.
        integrator: "semi-implicit", "verlet" or "nystrom".
        driven_vertices: Pinned vertices that are put where two further inputs have them, before `step`: `drive_x` [m] and
            `drive_v` [m/s] (B, instants, driven, 3), at the instants of `drive_instants` in each frame interval.
    """

    groups: tuple[Elements, ...]
    frames: int
    substeps: int
    dt: float
    pinned: Sequence[int] = ()
    segment: int = 1
    mapping: Worlds | InElements | None = None
    integrator: str = "semi-implicit"
    driven_vertices: Sequence[int] = ()
    run: Callable[..., list[Tensor]] = field(init=False)
    bound: dict[tuple, "BoundRollout"] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))

    @property
    def names(self) -> list[str]:
        """Names of the inputs; those of a force begin with its place among the groups."""
        parameters = [f"{g}.{name}" for g, group in enumerate(self.groups) for name in group.force.parameters]
        return [*HEAD, *parameters, *(DRIVE if getattr(self, "driven_vertices", ()) else ()), "step"]

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        worlds, n, _ = inputs[0].shape
        return [(worlds, self.frames, n, 3)] * 2

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [value for value, _ in self._forward(inputs, None)]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world: the exact forward sensitivity.

        Args:
            inputs: As for `forward`.
            tangents: One tensor of the same shape for each input, or None for zero.
        """
        with torch.no_grad():
            return self._forward(inputs, tangents)  # pyright: ignore[reportReturnType] -- dual lanes have tangents

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]):
        return self.backward_by([True] * len(inputs), inputs, outputs, adjoints)

    def backward_by(
        self, needed: Sequence[bool], inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """`backward` by some of the inputs."""
        return self._bound(inputs, None, again=True).backward(needed, inputs, outputs, adjoints)

    def bind(self, inputs: Sequence[Tensor], adjoint: bool) -> "BoundParticles | None":
        """Arrays of one caller for tensors of these shapes, see `system.BoundProgram`; None where they are large.

        Where a gradient is to come and the states after all steps take little memory, they are kept, so that none is computed again.
        """
        check_shapes(self, inputs)
        x = inputs[0]
        if x.device.type != "cpu" or self.driven_vertices:
            return None
        size = ARRAYS_OF_STATES * SIZE_OF_ROW * x.shape[0] * x.shape[1]
        if adjoint and self._stored_size(x) <= STORED_BYTES:
            return BoundParticles(self, inputs, self.substeps)
        return (
            BoundParticles(self, inputs, 1)
            if size * (self.frames + self.segment * self.substeps) <= BOUND_BYTES
            else None
        )

    def _stored_size(self, x: Tensor) -> float:
        """Memory of x and v after all steps, from a start; infinite where steps are not stored [bytes]."""
        if SOFT[self.integrator].further:  # adjoints of steps write over states
            return float("inf")
        to = self.mapping or mapping_for(len(x), x.dtype, x.device, False)
        worlds = len(x) if to.name == "elements" else to.threads(len(x)) * to.lane.width
        steps = (self.frames - 1) * self.substeps
        return len(STATE) * STORED_ROW * x.element_size() * worlds * x.shape[1] * (steps + 1)

    def _forward(self, inputs, tangents):
        pairs = self._bound(inputs, tangents).forward(inputs, tangents)
        if tangents is None:
            return pairs
        return [(y, torch.zeros_like(y) if t is None else t) for y, t in pairs]

    def _bound(
        self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None, again: bool = False
    ) -> "BoundRollout":
        """Arrays and launches for tensors of these shapes, with the numbers of these tensors in them.

        `again`: after a forward pass, whose inputs nobody may write to. If no other came between, they are in the arrays.
        """
        if torch.is_inference_mode_enabled():  # arrays made here could not be written to in other calls
            return BoundRollout(self, inputs, tangents)
        like = (inputs[0].dtype, inputs[0].device, tangents is None, threading.get_ident())
        key = (like, tuple(x.shape for x in inputs))
        bound = self.bound.get(key)
        if bound is None:
            bound = BoundRollout(self, inputs, tangents)
            if bound.buffers.to.name != "threads" and bound.size <= BOUND_BYTES:
                if len(self.bound) >= MOST_BOUND:
                    self.bound.clear()
                self.bound[key] = bound
        elif not (again and bound.holds(inputs)):
            bound.load(inputs, tangents)
        return bound


class BoundRollout:
    """Arrays, structs and launches of a rollout for tensors of one kind and shape, made once and used again.

    Args:
        program: The rollout.
        inputs: See `Particles`.
        tangents: See `Particles.tangent`; None without.
        spacing: States from one frame to the next: 1, or all steps.
    """

    def __init__(
        self,
        program: Particles,
        inputs: Sequence[Tensor],
        tangents: Sequence[Tensor | None] | None,
        spacing: int = 1,
    ):
        copies = [x.detach().clone() for x in inputs]  # arrays may share the memory of what they are made of
        slopes = None if tangents is None else [None if x is None else x.detach().clone() for x in tangents]
        self.program, self.buffers, self.spacing = program, RolloutBuffers(program, copies, slopes), spacing
        self.states = spacing * (program.frames - 1) + 1
        self.none = inputs[0].new_zeros(0, dtype=torch.long)
        self.loaded: list[tuple[Tensor, int]] = []
        self.moved: list[tuple[Tensor, int]] = []  # outputs of the last rollout
        buffers = self.buffers
        count = buffers.worlds * buffers.rows * (program.frames + program.segment * buffers.evaluations)
        self.size = ARRAYS_OF_STATES * SIZE_OF_ROW * count + sum(x.nbytes for x in inputs)

    def load(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None) -> None:
        """Write other numbers over those in the arrays."""
        self.buffers.load(inputs, tangents)
        self.loaded = [(x.detach(), x._version) for x in inputs]

    def holds(self, inputs: Sequence[Tensor]) -> bool:
        """True if these tensors are those whose numbers are in the arrays."""
        return _are_same(inputs, self.loaded)

    def forward(self, inputs, tangents) -> list[tuple[Tensor, Tensor | None]]:
        """States of all frames, and their tangents, of the numbers in the buffers."""
        buffers, (work, starts, states, launch) = self.buffers, self._forward_launch
        memory = buffers.to.layout.memory
        if work:
            torch._foreach_zero_(work)  # pyright: ignore[reportPrivateImportUsage] -- public in all but name
        for k, (start, state) in enumerate(zip(starts, states, strict=True)):
            copies = self.none if k else buffers.copies
            buffers.to.fill_vertices(start, inputs[k], tangents[k] if tangents else None, copies)
            memory(state)[:, 0] = memory(start)
        launch()
        results = [buffers.to.unvertices(state, buffers.worlds, buffers.n) for state in states]
        if not tangents and not torch.is_inference_mode_enabled():  # kept, so that no other tensor gets their memory
            self.moved = [(y.detach(), y._version) for y, _ in results]
        return results

    @cached_property
    def _forward_launch(self):
        """Memory that is zero before a launch, the starts, the states, and the launch."""
        buffers = self.buffers
        starts = [buffers.work() for _ in STATE]
        within = [buffers.work(self.states) for _ in buffers.within]
        if buffers.to.name == "threads":
            work = buffers.work()
            return [], starts, within[: len(STATE)], lambda: gpu_rollout.forward(buffers, within, work)
        states = struct_of(buffers.code.States, by_state(within))
        args = [self._parameters, buffers.evaluations, 0, self.program.frames - 1, states]
        zeros = [buffers.to.layout.memory(y) for y in (*starts, *within)]
        return (
            [*zeros, *self._work],
            starts,
            within[: len(STATE)],
            recorded(buffers.code.forward, buffers.threads, args, buffers.device),
        )

    def backward(
        self, needed: Sequence[bool], inputs, outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Gradients of some inputs, whose numbers are in the buffers."""
        buffers, (work, frames, frame_adjoints, start, unpacked, launch) = self.buffers, self._backward_launch
        if work:
            torch._foreach_zero_(work)  # pyright: ignore[reportPrivateImportUsage] -- public in all but name
        if not _are_same(outputs, self.moved):  # of another rollout
            self.moved = []
            for k, (frame, y) in enumerate(zip(frames, outputs, strict=True)):
                buffers.to.layout.memory(frame).zero_()
                buffers.to.fill_vertices(frame, y, None, self.none if k else buffers.copies)
        for frame, y in zip(frame_adjoints, adjoints, strict=True):
            buffers.to.fill_vertices(frame, y, None, self.none)
        launch()
        pairs = zip(start[: len(STATE)], needed, strict=False)
        state = [buffers.to.unvertices(a, buffers.worlds, buffers.n)[0] if need else None for a, need in pairs]
        results = zip([*state, *unpacked(needed)], inputs, strict=True)
        return [None if g is None else _apart(g.to(x.dtype).reshape(x.shape)) for g, x in results]

    @cached_property
    def _backward_launch(self):
        """Memory that is zero before a launch, frames, their adjoints, those of the start, a function for those of the parameters, and the launch."""
        buffers, program = self.buffers, self.program
        steps = max(1, min(program.segment, program.frames - 1)) * buffers.evaluations
        _, _, frames, _ = self._forward_launch  # they have them still, if nothing was rolled out in between
        frame_adjoints = [buffers.work(program.frames) for _ in STATE]
        launched = buffers.to.name == "threads"
        stored = buffers.evaluations == self.spacing and not launched  # the frames are among all states
        states = frames if stored else [buffers.work(steps + 1) for _ in buffers.within]
        start = [buffers.work() for _ in buffers.within]
        gradient, unpacked = buffers.adjoints()
        if launched:
            work = [buffers.work(), buffers.work()]
            run = lambda: gpu_rollout.backward(
                buffers, program.segment, frames, states, work[0], work[1], frame_adjoints, start, gradient
            )
            return [], frames, frame_adjoints, start, unpacked, run
        trajectories = [struct_of(buffers.code.States, by_state(ys)) for ys in (frames, states, frame_adjoints)]
        out = [
            struct_of(buffers.code.Adjoint, by_state(start)),
            struct_of(buffers.code.Parameters, dict(zip(buffers.fields, gradient, strict=True))),
        ]
        args = [self._parameters, buffers.evaluations, program.segment, 0, program.frames - 1, *trajectories, *out]
        zeros = [buffers.to.layout.memory(y) for y in (*frame_adjoints, *start, *buffers.sums)]
        zeros += [] if stored else [buffers.to.layout.memory(y) for y in states]
        launch = recorded(buffers.code.backward, buffers.threads, args, buffers.device)
        return [*zeros, *self._work], frames, frame_adjoints, start, unpacked, launch

    @cached_property
    def _parameters(self):
        """The kernels' `Parameters`."""
        return self.buffers.parameters(self.spacing)

    @property
    def _work(self) -> list[Tensor]:
        """Memory that steps add to."""
        parameters, memory = self._parameters, self.buffers.to.layout.memory
        return [memory(getattr(parameters, name)) for name in self.buffers.work_names]


class BoundParticles:
    """A `BoundProgram` (see `system.py`) of soft bodies.

    Args:
        program: The rollout.
        inputs: See `Particles`.
        spacing: States from one frame to the next: 1, or all steps, of which none is computed again.
    """

    def __init__(self, program: Particles, inputs: Sequence[Tensor], spacing: int):
        self.program, self.spacing = program, spacing
        self.inputs: Sequence[Tensor] = []
        self.loaded: list[Tensor] = []  # whose numbers are in the arrays
        self.last: Sequence[Tensor] = []  # inputs of the rollout whose states are in the arrays
        self.adjoints = [False] * len(STATE)  # whether those of the last backward pass had numbers
        bound = self.bound = BoundRollout(program, inputs, None, spacing)
        buffers = self.buffers = bound.buffers
        memory, n = buffers.to.layout.memory, buffers.n
        self.is_plain = buffers.to.name == "elements"
        _, starts, states, self.launch = bound._forward_launch
        self.states, self.starts = states, starts
        self.firsts = [memory(y)[:, 0] for y in states]
        self.nbytes = bound.size + sum(memory(y).nbytes for y in states)
        self.frames = [buffers.to.subsample(y, spacing) for y in states]
        self.results = [memory(y)[:, :, :n, :3] for y in self.frames] if self.is_plain else []
        # of semi-implicit steps x' = x + h v', so that x tells of v, too
        telling = states[:1] if program.integrator == "semi-implicit" and program.frames > 1 else states
        self.ends = [FiniteCheck(memory(y)[:, -1, :n]) for y in telling]
        self.places = self._places(inputs) if self.is_plain else {}

    def _places(self, inputs: Sequence[Tensor]) -> dict[int, tuple[Tensor, Tensor]]:
        """Views of inputs in the arrays, and of what fills up their last register, of those that lie there as they are."""
        buffers, places = self.buffers, {}
        for k, (_, _, kind, array) in enumerate(buffers.places, len(HEAD)):
            worlds, count = len(inputs[k]), inputs[k].shape[-1]
            if kind == "Real" and inputs[k].ndim == 2 and count > 1:
                flat = buffers.to.layout.memory(array).view(worlds, -1)
                places[k] = flat[:, :count], flat[:, count:]
        return places

    def load(self, inputs: Sequence[Tensor]) -> None:
        """Write the numbers of these tensors over those in the arrays."""
        buffers, known = self.buffers, self.loaded
        self.inputs, self.loaded = [], []  # until all are written
        new = [k for k, x in enumerate(inputs) if not known or x is not known[k]]
        others = []
        for k in new:
            if k in self.places:
                place, left = self.places[k]
                place.copy_(inputs[k])
                if left.numel():
                    left.copy_(inputs[k][:, -1:])
            elif k >= len(STATE):
                others.append(k)
            elif self.is_plain:
                self.firsts[k][:, : buffers.n, :3].copy_(inputs[k])
                if not k and len(buffers.copies):
                    copied = inputs[k].index_select(1, buffers.copies)
                    self.firsts[k][:, buffers.n : buffers.n + len(buffers.copies), :3].copy_(copied)
            else:
                buffers.to.fill_vertices(self.starts[k], inputs[k], None, self.bound.none if k else buffers.copies)
                self.firsts[k].copy_(buffers.to.layout.memory(self.starts[k]))
        if others:
            buffers.write(inputs, others)
        self.loaded = list(inputs)

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        if inputs is not self.inputs:
            self.load(inputs)
            self.inputs = inputs
        self.last = []
        self.launch()
        self.last = inputs
        if self.is_plain:
            outputs = [y.clone(memory_format=torch.contiguous_format) for y in self.results]
        else:
            to, buffers = self.buffers.to, self.buffers
            outputs = [to.unvertices(y, buffers.worlds, buffers.n)[0] for y in self.frames]
        return outputs

    def is_finite(self, outputs: Sequence[Tensor]) -> bool:
        return all(y.is_finite() for y in self.ends)  # what is not finite stays so to the end

    @cached_property
    def _reverse(self) -> tuple[Zeros, list[Tensor], list[Any], dict[int, Tensor], Callable, Callable]:
        """Memory that is zero before a launch, that of adjoints of frames and the places of theirs in it, gradients that lie in the arrays as they are,
        by place of the input, a function for the others, and the launch."""
        zeros, _, frame_adjoints, start, unpacked, launch = self.bound._backward_launch
        buffers, memory = self.buffers, self.buffers.to.layout.memory
        frames, places = [memory(y) for y in frame_adjoints], list(frame_adjoints)
        work = {y.data_ptr() for y in self.bound._work}  # steps leave zeros there, or write before they read
        zeros = Zeros([y for y in zeros[len(STATE) :] if y.data_ptr() not in work])
        if not self.is_plain:
            return zeros, frames, places, {}, unpacked, launch
        n, worlds = buffers.n, buffers.worlds
        slopes = {k: memory(y)[:, :n, :3] for k, y in enumerate(start[: len(STATE)])}
        mass, _, _, *sums = buffers.sums
        slopes[len(STATE)] = memory(mass).view(worlds, -1)[:, :n]
        for k, (place, _) in self.places.items():
            slopes[k] = memory(sums[k - len(HEAD)]).view(worlds, -1)[:, : place.shape[1]]
        places = [y[:, :, :n, :3] for y in frames]
        return zeros, frames, places, slopes, unpacked, launch

    def backward(
        self,
        needed: Sequence[bool],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        adjoints: Sequence[Tensor | None],
    ) -> list[Tensor | None]:
        if inputs is not self.inputs:
            self.load(inputs)
            self.inputs = inputs
        bound, to = self.bound, self.buffers.to
        if inputs is not self.last:
            self.last = []
            if self.spacing > 1:
                self.launch()
            else:
                for k, (state, y) in enumerate(zip(self.states, outputs, strict=True)):
                    to.fill_vertices(state, y, None, bound.none if k else self.buffers.copies)
            self.last = inputs
        zeros, memory, frames, slopes, unpacked, launch = self._reverse
        zeros.fill()
        for k, y in enumerate(adjoints):
            if y is None:
                if self.adjoints[k]:
                    memory[k].zero_()
                self.adjoints[k] = False
                continue
            self.adjoints[k] = True
            if self.is_plain:
                frames[k].copy_(y)
            else:
                to.fill_vertices(frames[k], y, None, bound.none)
        launch()
        results: list[Tensor | None]
        if self.is_plain:
            further = [need and k not in slopes for k, need in enumerate(needed)]
            results = [None, None, *unpacked(further)] if any(further) else [None] * len(inputs)
            for k, slope in slopes.items():
                results[k] = slope if needed[k] else None
        else:
            pairs = zip(bound._backward_launch[3][: len(STATE)], needed, strict=False)
            start = [to.unvertices(a, self.buffers.worlds, self.buffers.n)[0] if need else None for a, need in pairs]
            results = [*start, *unpacked(needed)]
        pairs = zip(results, inputs, strict=True)
        return [g if g is None or g.shape == x.shape else g.reshape(x.shape) for g, x in pairs]


def _are_same(tensors: Sequence[Tensor], known: Sequence[tuple[Tensor, int]]) -> bool:
    """True if tensors have the memory of others, of which nobody has written to since their version."""
    pairs = zip(tensors, known, strict=False)
    return len(tensors) == len(known) and all(
        x.data_ptr() == y.data_ptr() and x._version == version for x, (y, version) in pairs
    )


def _apart(x: Tensor) -> Tensor:
    """A tensor of its own, where it may share the memory of an array that is used again."""
    return x.clone() if x._is_view() else x
