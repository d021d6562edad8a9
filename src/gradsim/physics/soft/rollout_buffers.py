"""Arrays of a rollout of soft bodies for its kernels, filled from tensors, and the kernels for its forces and lanes."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.access import access
from gradsim.engine.compiler import compiled_for_packs
from gradsim.engine.lanes import Lane, members, specialize
from gradsim.engine.launch import struct_of
from gradsim.engine.layout import SHAPES, is_new
from gradsim.engine.mapping import InElements, Threads, Worlds, mapping_for
from gradsim.errors import InputError
from gradsim.physics.forces.assembly import assemble
from gradsim.physics.forces.base import Force
from gradsim.physics.integrators import SOFT

if TYPE_CHECKING:
    from gradsim.physics.soft import drive_kernels, kernels
else:
    drive_kernels = "gradsim.physics.soft.drive_kernels"
    kernels = "gradsim.physics.soft.kernels"

MAPPINGS = {kind.name: kind for kind in (Worlds, InElements, Threads)}
STATE = ("x", "v")
HEAD = (*STATE, "inverse_mass", "gravity")  # before the parameters of the forces
DRIVE = ("drive_x", "drive_v")  # behind them, where vertices follow a recording


class RolloutBuffers:
    """The arrays of one launch.

    Args:
        program: A rollout, such as `rollout.Particles`.
        inputs: Its inputs.
        tangents: One tensor of the same shape for each input, or None for zero; None without.
        mapping: How worlds and elements lie in registers; None takes the program's, or the faster.
    """

    def __init__(self, program, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None, mapping=None):
        check_shapes(program, inputs)
        self.program, self.driven = program, list(getattr(program, "driven_vertices", ()))
        without = lambda ys: [*ys[: -1 - len(DRIVE)], ys[-1]] if self.driven else ys
        drives = [ys[-1 - len(DRIVE) : -1] if ys else [None] * len(DRIVE) for ys in (inputs, tangents)]
        self.inputs = inputs = without(inputs)
        tangents = without(tangents) if tangents else None
        x = inputs[0]
        self.worlds, self.n, _ = x.shape
        self.device, dual = str(x.device), tangents is not None
        self.to = mapping or program.mapping or mapping_for(self.worlds, x.dtype, x.device, dual)
        if self.to.lane.dual != dual:
            self.to = type(self.to)(Lane(self.to.lane.dtype, self.to.lane.width, dual))
        if self.driven and self.to.name == "threads":
            raise InputError(
                f"vertices follow a recording on a CPU only; got tensors on {x.device}. Move the model to one."
            )
        self.threads = self.to.threads(self.worlds)
        forces = tuple(g.force for g in program.groups)
        self.integrator = getattr(program, "integrator", "semi-implicit")  # the head of the others is the same
        steps = SOFT[self.integrator]
        self.within, self.stages = steps.states, steps.stages
        self.evaluations = program.substeps + steps.further  # of the forces in a frame interval
        self.code = particles_code(forces, self.to.lane, self.to.name, self.integrator, bool(self.driven))
        self.forces = assemble(forces, self.to.lane, self.to.name)
        fixed = _fixed(program, self.to.lane, self.to.name, self.n, x.device)
        self.rows, self.copies = fixed.rows, fixed.copies
        slopes = list(tangents) if tangents else [None] * len(inputs)
        p, e = self.code.VertexParameters(), self.forces.Elements()
        moves = lambda y: y * fixed.moves.to(y)
        slope, self.moves = slopes[2], fixed.moves.to(x.dtype)
        p.inverse_mass = self.to.scalars(moves(inputs[2]), None if slope is None else moves(slope), self.rows)
        p.free = fixed.free
        p.gravity = self.to.uniform("Vec3", inputs[3][:, None], None if slopes[3] is None else slopes[3][:, None])
        step, slope = inputs[-1], slopes[-1]
        if not step.shape[1]:
            step, slope = x.new_full((self.worlds, program.frames - 1), program.dt), None
        p.step = self.to.uniform("Real", step, slope)
        k, self.places = len(HEAD), []
        for g, group in enumerate(program.groups):
            elements = fixed.group(self.forces, g)
            for name, kind in group.force.parameters.items():
                array = self.to.elements(kind, inputs[k], slopes[k])
                setattr(elements, name, array)
                timed = inputs[k].ndim > 2 + len(SHAPES[kind])
                count = array.shape[1] // max(program.frames - 1, 1) if timed else array.shape[1]
                setattr(elements, f"count_{name}", count)
                setattr(elements, f"stride_{name}", count if timed else 0)
                self.places.append((g, name, kind, array))
                k += 1
            setattr(e, f"g{g}", elements)
        self.structs, self.fields = [p, e], "pe"
        if self.driven:
            self.structs.append(self._drive(*drives))
            self.fields = "ped"

    def load(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None] | None) -> None:
        """Write other tensors of the same shapes over those in the arrays."""
        slopes = list(tangents) if tangents else [None] * len(inputs)
        p, to = self.structs[0], self.to
        _, _, (mass, mass_slope), (gravity, gravity_slope), *others = zip(inputs, slopes, strict=True)
        if is_new(p.inverse_mass, mass, mass_slope):
            slope = None if mass_slope is None else mass_slope * self.moves
            to.fill_scalars(p.inverse_mass, mass * self.moves, slope)
        if is_new(p.gravity, gravity, gravity_slope):
            to.fill_uniform(p.gravity, "Vec3", gravity, gravity_slope)
        step, slope = others[-1]
        if step.shape[1] and is_new(p.step, step, slope):
            to.fill_uniform(p.step, "Real", step, slope)
        for (_, _, kind, array), (x, slope) in zip(self.places, others, strict=False):
            if is_new(array, x, slope):
                to.fill_elements(array, kind, x, slope)
        if self.driven:
            none = inputs[0].new_zeros(0, dtype=torch.long)
            for name, (x, slope) in zip("xv", others[-1 - len(DRIVE) : -1], strict=True):
                to.fill_vertices(getattr(self.structs[2], name), x, slope, none)
        self.inputs = [*inputs[: -1 - len(DRIVE)], inputs[-1]] if self.driven else list(inputs)

    def write(self, inputs: Sequence[Tensor], which: Sequence[int]) -> None:
        """Write some inputs after the start over those in the arrays."""
        p, to, first = self.structs[0], self.to, len(STATE)
        for k in which:
            x = inputs[k]
            if k == len(inputs) - 1:
                if x.shape[1]:
                    to.fill_uniform(p.step, "Real", x, None)
            elif k >= len(HEAD):
                _, _, kind, array = self.places[k - len(HEAD)]
                to.fill_elements(array, kind, x, None)
            elif k == first:
                to.fill_scalars(p.inverse_mass, x * self.moves, None)
            elif k > first:
                to.fill_uniform(p.gravity, "Vec3", x, None)

    @property
    def work_names(self) -> list[str]:
        """Fields of `parameters` that steps write to."""
        return ["f", "w", *(("y", "u", "p_y", "p_u", "a", "b") if self.stages else ())]

    def parameters(self, spacing: int = 1):
        """The kernels' `Parameters`, for this number of states from one frame to the next."""
        fields = dict(zip(self.fields, self.structs, strict=True)) | {"f": self.work(), "w": self.work()}
        if SOFT[self.integrator].further:
            fields["evaluations"] = self.evaluations
        else:
            fields["spacing"] = spacing
        if self.stages:
            fields |= {name: self.work() for name in ("y", "u", "p_y", "p_u")}
            fields |= {"a": self.work(self.stages), "b": self.work(self.stages), "stages": self.stages}
        return struct_of(self.code.Parameters, fields)

    def _drive(self, values: Sequence[Tensor | None], slopes: Sequence[Tensor | None]):
        """The recording of the driven vertices at all instants."""
        drive, x = self.code.Drive(), self.inputs[0]
        drive.vertices = self.to.layout.counts(torch.tensor(self.driven, dtype=torch.int32, device=x.device))
        none = x.new_zeros(0, dtype=torch.long)
        for name, value, slope in zip("xv", values, slopes, strict=True):
            assert value is not None  # tangents alone may be
            setattr(drive, name, self.to.vertices(value, slope, len(self.driven), none))
        return drive

    def work(self, *lead: int):
        """Zeros for vertices."""
        return self.to.empty(self.rows, self.threads, *lead, device=self.inputs[0].device)

    def counts(self, n: int) -> wp.array:
        """Zeros (threads, n) to count in."""
        return wp.zeros((self.threads, n), dtype=wp.int32, device=self.device)

    def adjoints(self):
        """Structs of zeros for the adjoints of all parameters, and a function that returns them as tensors; the arrays are `sums`."""
        p = self.structs[0]
        grad, d = self.code.VertexParameters(), self.forces.Elements()
        kinds = {"inverse_mass": "Real", "gravity": "Vec3", "step": "Real"}
        head = {name: self.to.like(kind, getattr(p, name)) for name, kind in kinds.items()}
        for name, array in head.items():
            setattr(grad, name, array)
        grad.free = p.free
        arrays, groups = [], [getattr(self.forces, f"Force{k}")() for k in self.forces.KINDS]
        for g, name, kind, array in self.places:
            arrays.append(self.to.like(kind, array))
            setattr(groups[g], name, arrays[-1])
        for g, group in enumerate(groups):
            setattr(d, f"g{g}", group)

        def gradients(needed: Sequence[bool] | None = None) -> list[Tensor | None]:
            B, x = self.worlds, self.inputs
            has = lambda k: needed is None or needed[k]
            results = [self.to.unscalars(head["inverse_mass"], B, self.n) if has(2) else None]
            results.append(self.to.ununiform("Vec3", head["gravity"], B, 1) if has(3) else None)
            for k, ((_, _, kind, _), array) in enumerate(zip(self.places, arrays, strict=True), len(HEAD)):
                results.append(self.to.unelements(kind, array, x[k]) if has(k) else None)
            step = self.to.ununiform("Real", head["step"], B, self.program.frames - 1) if has(-1) else None
            if self.driven:
                results += [self.to.unvertices(y, B, len(self.driven))[0] for y in (drive.x, drive.v)]
            return [*results, step if x[-1].shape[1] else x[-1]]

        self.sums = [*head.values(), *arrays]
        if not self.driven:
            return [grad, d], gradients
        drive = self.code.Drive()
        drive.vertices = self.structs[2].vertices
        for name in "xv":
            instants = getattr(self.structs[2], name).shape[1]
            array = self.to.empty(len(self.driven), self.threads, instants, device=self.inputs[0].device)
            setattr(drive, name, array)
            self.sums.append(array)
        return [grad, d, drive], gradients


def check_shapes(program, inputs: Sequence[Tensor]) -> None:
    """The kernels read by these counts, so they have to agree."""
    worlds, n, _ = inputs[0].shape
    names = program.names
    if len(inputs) != len(names):
        raise ValueError(f"got {len(inputs)} inputs; expected {len(names)}: {', '.join(names)}.")
    sizes = [(n, 3), (n, 3), (n,), (3,)]
    sizes += [(None, *SHAPES[kind]) for group in program.groups for kind in group.force.parameters.values()]
    driven = len(getattr(program, "driven_vertices", ()))
    parameters = range(len(HEAD), len(sizes))
    if driven:
        instants = (program.frames - 1) * len(drive_instants(program.integrator, program.substeps))
        sizes += [(instants, driven, 3)] * len(DRIVE)
    sizes.append((None,))
    for k, (name, x, size) in enumerate(zip(names, inputs, sizes, strict=True)):
        fits = lambda size, x=x: (
            x.ndim == 1 + len(size) and all(s in (None, actual) for s, actual in zip(size, x.shape[1:], strict=True))
        )
        if len(x) != worlds or not (fits(size) or (k in parameters and fits((program.frames - 1, *size)))):
            expected = ", ".join("m" if s is None else str(s) for s in (worlds, *size))
            timed = f", or ({worlds}, {program.frames - 1}{expected[len(str(worlds)) :]})" if k in parameters else ""
            raise ValueError(f"`{name}` has shape {tuple(x.shape)}; expected ({expected}){timed}.")
    k = len(HEAD)
    for g, group in enumerate(program.groups):
        for name, kind in group.force.parameters.items():
            count = inputs[k].shape[-1 - len(SHAPES[kind])]
            if count not in (1, len(group.index)):
                raise ValueError(
                    f"`{g}.{name}` has {count} entries for {len(group.index)} elements of "
                    f"{group.force.title}; give one for each, or one for all."
                )
            k += 1
    if inputs[-1].shape[1] not in (0, program.frames - 1):
        raise ValueError(
            f"`step` has {inputs[-1].shape[1]} intervals; {program.frames} frames need {program.frames - 1}, or 0."
        )


def drive_instants(integrator: str, substeps: int) -> list[float]:
    """Instants of a frame interval at which explicit steps put driven vertices in place, in steps from its start."""
    steps = SOFT[integrator]
    return [0.0] * steps.further + [k + share for k in range(substeps) for share in steps.drive_shares]


def by_state(arrays: Sequence[wp.array]) -> dict[str, wp.array]:
    """Arrays of x, v and, if there are three, a by name, for `States` and `Adjoint` of the kernels."""
    return dict(zip((*STATE, "a"), arrays))  # noqa: B905 -- frames have no a


class _Fixed:
    """Data that do not depend on the inputs: constants and indices of the elements, and pinned vertices."""

    def __init__(self, program, lane: Lane, mapping: str, n: int, device: torch.device):
        self.to = MAPPINGS[mapping](lane)
        groups = program.groups
        self.rows = self.to.rows(n, [g.force.nodes for g in groups], [len(g.index) for g in groups])
        self.moves = torch.ones(n, dtype=torch.float64, device=device)
        self.moves[list(program.pinned)] = 0
        self.free = self.to.scalars_constant(self.moves, self.rows)
        copies: list[int] = []
        self.arrays = []
        for group in groups:
            index = group.index.to(device)
            arrays = {}
            fills = mapping == "elements" and len(index) % lane.width
            for k in range(group.force.nodes):
                arrays[f"n{k}"] = self.to.index(index[:, k], n + len(copies))
                if fills:
                    copies.append(int(index[-1, k]))
            for name, kind in group.force.rest.items():
                arrays[name] = self.to.constants(kind, group.rest[name].to(device))
            self.arrays.append(arrays)
        self.copies = torch.tensor(copies, dtype=torch.long, device=device)

    def group(self, forces, g: int):
        """The struct of group g, without its parameters."""
        elements = getattr(forces, f"Force{forces.KINDS[g]}")()
        for name, array in self.arrays[g].items():
            setattr(elements, name, array)
        return elements


_made: WeakKeyDictionary[Any, dict[tuple, _Fixed]] = WeakKeyDictionary()  # they go with their program


def _fixed(program, *key) -> _Fixed:
    cached = _made.setdefault(program, {})
    if key not in cached:
        cached[key] = _Fixed(program, *key)
    return cached[key]


@cache
def particles_code(
    forces: tuple[Force, ...], lane: Lane, mapping: str, integrator: str = "semi-implicit", driven: bool = False
) -> ModuleType:
    """`soft/kernels.py`, `soft/verlet_kernels.py` or `soft/nystrom_kernels.py` for these forces."""
    assembled = assemble(forces, lane, mapping)
    reach = {k: access(lane, mapping)[k] for k in ("Vertex", "load", "store")}
    parts = ("Elements", "add_forces", *(() if lane.dual else ("add_adjoints", "all_powers")))
    bound = {**reach, **members(assembled, *parts), "KEY": assembled.__name__}
    if driven:
        bound |= {
            "DRIVEN": True,
            **members(_drive_code(lane, mapping), "Drive", "drive", *(() if lane.dual else ("drive_adjoint",))),
        }
    steps = SOFT[integrator]
    if not steps.parts:
        return compiled_for_packs(specialize(kernels, lane, SHARED=mapping != "elements", **bound), lane)
    parts = (*steps.parts, *(() if lane.dual else steps.adjoint_parts))
    bound |= members(particles_code(forces, lane, mapping), *parts)
    assert steps.kernels is not None  # implicit steps have a rollout of their own
    return compiled_for_packs(specialize(steps.kernels, lane, **bound), lane)


@cache
def _drive_code(lane: Lane, mapping: str) -> ModuleType:
    return specialize(drive_kernels, lane, Vertex=access(lane, mapping)["Vertex"], KEY=mapping)
