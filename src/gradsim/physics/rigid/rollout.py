"""Rollouts of rigid bodies as a differentiable operation and with forward sensitivities.

The equations stand in `rigid/kernels.py`. A rollout is one operation of PyTorch on the whole trajectory: the frames are
its checkpoints, and the backward pass recomputes the steps between them (paper Appendix B, the discrete adjoint of
semi-implicit Euler, Eq. 4 and 5).
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradsim.engine.lanes import Lane, native_width, specialize
from gradsim.engine.launch import replay
from gradsim.engine.layout import SHAPES, Layout
from gradsim.engine.operation import operation
from gradsim.physics.contact.laws import contact_functions, obstacle_functions

if TYPE_CHECKING:
    from gradsim.physics.rigid import kernels
else:
    kernels = "gradsim.physics.rigid.kernels"

STATE = {"x": "Vec3", "q": "Quat", "v": "Vec3", "l": "Vec3"}
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
    "step": "Real",
}
INPUTS = {**STATE, **PARAMETERS}
OBSTACLE = ("centre", "axis", "half", "rounding")
CONTACT = ("stiffness", "damping", "friction_stiffness", "friction")


@dataclass(frozen=True)
class RigidRollout:
    """A program (see `engine.operation`) that moves one rigid body per world through time.

    Inputs, in this order, with worlds B, contact points V, grounds G, obstacles O and pushes K: the start x (B, 3)
    [m], q (B, 4), v (B, 3) [m/s], l (B, 3) [kg m²/s]; then mass (B,) [kg], inertia_inverse (B, 3, 3), gravity (B, 3),
    points (B, V, 3), radius (B, V), normal (B, G, 3), height (B, G), stiffness, damping, friction_stiffness, friction
    (B, G + O), impulse and push_point (B, K, 3), centre (B, O, 3), axis (B, O, 3, 3; rows are unit vectors), half
    (B, O, 3), rounding (B, O) (see `obstacle.py`), and step (B, frames - 1): the time step in each frame interval [s],
    or (B, 0) for `dt` in all of them. Outputs: x, q, v, l of every frame, (B, frames, ·); frame 0 is the start.

    Args:
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s]. Windows and blows fall into the steps that they meet when every step is this long.
        windows: Begin and end [s] of each push; equal for a blow at one instant.
        law: Contact law, a key of `contact_laws.LAWS`.
        integrator: "semi-implicit" or "rk4".
        segment: Frames between two checkpoints of the backward pass.
        width: Worlds in one register; None takes the widest of the CPU, 1 elsewhere.
    """

    frames: int
    substeps: int
    dt: float
    windows: tuple[tuple[float, float], ...] = ()
    law: str = "continuous"
    integrator: str = "semi-implicit"
    segment: int = 1
    width: int | None = None
    run: Callable[..., list[Tensor]] = field(init=False, compare=False)

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
        code, layout = self._code(inputs, dual=False)
        worlds, device = len(inputs[0]), inputs[0].device
        history = [layout.pack(kind, y) for kind, y in zip(STATE.values(), outputs, strict=True)]
        adjoint = [layout.pack(kind, g.clone()) for kind, g in zip(STATE.values(), adjoints, strict=True)]
        steps = max(1, min(self.segment, self.frames - 1)) * self.substeps
        scratch = [layout.zeros(kind, worlds, (steps,), device) for kind in STATE.values()]
        given, grad = self._given(code, layout, inputs, None), code.Parameters()
        for name in self._names(inputs):
            setattr(grad, name, layout.zeros(PARAMETERS[name], worlds, getattr(given, name).shape[1:], device))
        args = [
            given,
            *push_table(self, layout, device),
            self.substeps,
            self.segment,
            *history,
            *scratch,
            *adjoint,
            grad,
        ]
        replay(code.backward, layout.packs(worlds), args, str(device))
        found = {
            n: layout.unpack(kind, a, worlds)[0][:, 0] for (n, kind), a in zip(STATE.items(), adjoint, strict=True)
        }
        for name in self._names(inputs):
            found[name] = layout.unpack(PARAMETERS[name], getattr(grad, name), worlds)[0]
        pairs = zip(INPUTS, inputs, strict=True)
        return [found[n].to(x.dtype) if n in found and x.numel() else torch.zeros_like(x) for n, x in pairs]

    def _forward(self, inputs, tangents):
        self._check(inputs)
        code, layout = self._code(inputs, dual=tangents is not None)
        worlds, device = len(inputs[0]), inputs[0].device
        given, states = self._given(code, layout, inputs, tangents), []
        for k, (name, kind) in enumerate(STATE.items()):
            state, start = (
                _kept(layout, name, kind, layout.packs(worlds), items, device) for items in ((self.frames,), ())
            )
            layout.fill(start, kind, inputs[k], tangents[k] if tangents else None)
            layout.memory(state)[:, 0] = layout.memory(start)
            states.append(state)
        args = [given, *push_table(self, layout, device), self.substeps, *states]
        replay(code.forward, layout.packs(worlds), args, str(device))
        return [layout.unpack(kind, state, worlds) for kind, state in zip(STATE.values(), states, strict=True)]

    def _names(self, inputs: Sequence[Tensor]) -> list[str]:
        """The parameters that the kernels read."""
        return [name for name in PARAMETERS if name not in OBSTACLE or _obstacles(inputs)]

    def _given(self, code, layout: Layout, inputs, tangents):
        """The kernels' parameters."""
        places, found = list(INPUTS), {}
        for name in self._names(inputs):
            k = places.index(name)
            x, t = inputs[k], tangents[k] if tangents else None
            if name == "step" and not x.shape[1]:
                x, t = x.new_full((1, 1), self.dt).expand(len(x), self.frames - 1), None
            items = tuple(x.shape[1 : x.ndim - len(SHAPES[PARAMETERS[name]])])
            array = _kept(layout, name, PARAMETERS[name], layout.packs(len(x)), items, x.device)
            layout.fill(array, PARAMETERS[name], x, t)
            found[name] = array
        return _struct(code, found)

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
        if sizes["step"] not in (0, self.frames - 1):
            raise ValueError(
                f"`step` has {sizes['step']} intervals; {self.frames} frames need {self.frames - 1}, or 0."
            )

    def _code(self, inputs: Sequence[Tensor], dual: bool):
        like = inputs[0]
        dtype = str(like.dtype).removeprefix("torch.")
        width = self.width or (native_width(dtype) if like.device.type == "cpu" else 1)
        return _code(Lane(dtype, width, dual), self.law, self.integrator, _obstacles(inputs) > 0)


@lru_cache(maxsize=64)
def push_table(program: RigidRollout, layout: Layout, device: torch.device):
    """The part of each window that falls into each step, (steps, pushes), and the step of each blow, else -1."""
    steps = max(1, (program.frames - 1) * program.substeps)
    left = torch.arange(steps, dtype=torch.float64) * program.dt
    shares = torch.zeros(steps, len(program.windows), dtype=torch.float64)
    blows = torch.full((max(1, len(program.windows)),), -1, dtype=torch.int32)
    for k, (begin, end) in enumerate(program.windows):
        if end > begin:
            overlap = (left + program.dt).clamp(max=end) - left.clamp(min=begin)
            shares[:, k] = overlap.clamp(min=0) / (end - begin)
        else:
            blows[k] = int(begin / program.dt + 1e-6)  # a step late where rounding leaves it a hair before
    return layout.scalars(shares.to(device)), layout.counts(blows.to(device))


def _kept(layout: Layout, name: str, kind: str, packs: int, items: tuple[int, ...], device: torch.device):
    """An array that every rollout of this size writes anew; each thread has its own."""
    return _arrays(threading.get_ident(), layout, name, kind, packs, items, device)


@lru_cache(maxsize=512)
def _arrays(thread: int, layout: Layout, name: str, kind: str, packs: int, items: tuple[int, ...], device):
    return layout.zeros(kind, packs * layout.lane.width, items, device)


def _struct(code, arrays: dict):
    """The kernels' parameters; one struct for the same arrays, which live as long as it does."""
    key = (code, tuple(map(id, arrays.values())))
    if key not in _structs:
        if len(_structs) >= 256:
            _structs.clear()
        given = code.Parameters()
        for name, array in arrays.items():
            setattr(given, name, array)
        _structs[key] = given, arrays
    return _structs[key][0]


_structs: dict = {}


def _obstacles(inputs: Sequence[Tensor]) -> int:
    return inputs[list(INPUTS).index("centre")].shape[1]


@cache
def _code(lane: Lane, law: str, integrator: str, obstacles: bool):
    functions = dict(contact_functions(law, lane))
    if obstacles:
        touch = obstacle_functions(law, lane)
        functions |= {name: touch[name] for name in ("obstacle_touch", "obstacle_power")}
    code = specialize(kernels, lane, INTEGRATOR=integrator, OBSTACLES=obstacles, **functions)
    return code, Layout(lane)
