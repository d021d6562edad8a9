"""Two arms in one vertical plane: the first swings about a fixed pivot, the second about the end of the first.

The angles θ are both from hanging straight down. Each arm is a point mass at the end of a massless rod, or a uniform rod
(Goldstein, Classical Mechanics, 3rd ed., §1.6 and §2.1), and over the first mass, with ρ = m₂/m₁ and δ = θ₁ − θ₂,

    T = ½ A θ₁'² + ½ B θ₂'² + C cos δ θ₁' θ₂',     V = W₁ (1 − cos θ₁) + W₂ (1 − cos θ₂) − P₁ sin θ₁ − P₂ sin θ₂

                  A              B          C             W                                   P
    points  (1 + ρ) l₁²        ρ l₂²      ρ l₁ l₂     ((1 + ρ) g + n) l₁,  (ρ g + n) l₂           the same of b and p
    rods    (1/3 + ρ) l₁²      ρ l₂²/3    ρ l₁ l₂/2   ((1/2 + ρ) g + n) l₁,  (ρ g/2 + n) l₂       the same of b and p

with g the part of gravity downwards and b that along the plane; n m₁ and p m₁ those of a constant force on the far end.
Both hinges have the damping m₁ k: torques −m₁ k θ₁' at the pivot and −m₁ k (θ₂' − θ₁') at the elbow. Lagrange's equations then are

    A θ₁'' + C cos δ θ₂'' = P₁ cos θ₁ − W₁ sin θ₁ − C sin δ θ₂'² − k (2 θ₁' − θ₂')
    C cos δ θ₁'' + B θ₂'' = P₂ cos θ₂ − W₂ sin θ₂ + C sin δ θ₁'² − k (θ₂' − θ₁')

Of the masses, the damping and the force only ratios are in them: the motion shows no scale of mass.

A double pendulum of a scene, drawn as two bodies: each arm with its bob.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from gradsim.engine.lanes import Lane, native_width, specialise
from gradsim.engine.launch import replay
from gradsim.engine.layout import Layout
from gradsim.engine.operation import operation
from gradsim.geometry import mesh as meshes
from gradsim.geometry.surface import Part
from gradsim.physics.appearance import look_of
from gradsim.physics.pendulum.runge_kutta import STAGES, order_eight
from gradsim.physics.system import Values

STATE = ("angle", "rate")
PARAMETERS = ("inertia", "coupling", "weight", "pull", "damping")
INPUTS = (*STATE, *PARAMETERS)


@dataclass(frozen=True)
class DoublePendulumRollout:
    """A program (see `engine.operation`) that moves one double pendulum per world by Runge–Kutta steps of order 8.

    Inputs, in this order, with worlds B: the start angles (B, 2) [rad] and rates (B, 2) [rad/s]; then, all over the
    first mass (see `arms`), inertia A and B (B, 2) [m²], coupling C (B,) [m²], weight W (B, 2) [m²/s²], pull P (B, 2)
    [m²/s²] and damping k (B,) [m²/s]. A further one may be the time step in each frame interval (B, frames - 1) [s];
    without it every step is `dt`. Outputs: angle and rate of every frame, (B, frames, 2); frame 0 is the start. Angles
    are not wrapped: they count the turns.

    Args:
        frames: Number of frames, at least 1.
        substeps: Steps per frame.
        dt: Step [s].
        segment: Frames between two checkpoints of the backward pass.
        width: Worlds in one register; None takes the widest of the CPU, 1 elsewhere.
    """

    frames: int
    substeps: int
    dt: float
    segment: int = 1
    width: int | None = None
    run: Callable[..., list[Tensor]] = field(init=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "run", operation(self))

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(inputs[0].shape[0], self.frames, 2)] * 2

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [value for value, _ in self._forward(inputs, None)]

    def tangent(self, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Outputs and their derivatives along one direction per world: the exact forward sensitivity.

        Args:
            inputs: As for `forward`.
            tangents: One tensor of the same shape for each input, or None for zero.
        """
        return self._forward(inputs, tangents)

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]) -> list[Tensor]:
        code, layout = self._code(inputs[0], dual=False)
        worlds, device, every = len(inputs[0]), inputs[0].device, self._all(inputs)
        zeros = lambda *items: layout.zeros("Real", worlds, items, device)
        given, grad = code.Parameters(), code.Parameters()
        for name, x in zip((*PARAMETERS, "step"), every[len(STATE) :], strict=True):
            setattr(given, name, layout.pack("Real", x))
            setattr(grad, name, zeros(*x.shape[1:]))
        steps = max(1, min(self.segment, self.frames - 1)) * self.substeps
        state = zeros(4)
        history, adjoint = ([layout.pack("Real", y) for y in ys] for ys in (outputs, adjoints))
        scratch = [self._stages(code, zeros), zeros(STAGES, 4), zeros(steps, 4)]
        args = [given, self._method(code, layout, device), self.substeps, self.segment, *history, *scratch]
        replay(code.backward, layout.packs(worlds), [*args, *adjoint, state, grad], str(device))
        found = list(layout.unpack("Real", state, worlds)[0].split(2, 1))
        found += [layout.unpack("Real", getattr(grad, name), worlds)[0] for name in (*PARAMETERS, "step")]
        return [g.to(x.dtype) for g, x in zip(found, inputs, strict=False)]

    def _forward(self, inputs, tangents) -> list[tuple]:
        code, layout = self._code(inputs[0], dual=tangents is not None)
        worlds, device = len(inputs[0]), inputs[0].device
        tangents = [*(tangents or [None] * len(inputs)), None]
        given, states = code.Parameters(), []
        for name, x, t in zip((*INPUTS, "step"), self._all(inputs), tangents, strict=False):
            items = () if name in ("coupling", "damping") else (self.frames - 1,) if name == "step" else (2,)
            if x.shape != (worlds, *items):
                raise ValueError(f"`{name}` has shape {tuple(x.shape)}; {worlds} worlds need {(worlds, *items)}.")
            if name in STATE:
                states.append(layout.pack("Real", self._first(x), None if t is None else self._first(t)))
            else:
                setattr(given, name, layout.pack("Real", x, t))
        stages = self._stages(code, lambda *items: layout.zeros("Real", worlds, items, device))
        args = [given, self._method(code, layout, device), self.substeps, stages, *states]
        replay(code.forward, layout.packs(worlds), args, str(device))
        return [layout.unpack("Real", state, worlds) for state in states]

    def _all(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """With the steps, where they are not given."""
        steps = inputs[0].new_full((len(inputs[0]), self.frames - 1), self.dt)
        return [*inputs, *([steps] if len(inputs) == len(INPUTS) else [])]

    def _first(self, start: Tensor) -> Tensor:
        """(B, frames, 2) with the start in frame 0, and zeros to be filled."""
        return pad(start[:, None], (0, 0, 0, self.frames - 1))

    def _stages(self, code, zeros):
        stages = code.Stages()
        for name in ("angle", "rate", "acceleration"):
            setattr(stages, name, zeros(STAGES, 2))
        return stages

    def _method(self, code, layout: Layout, device: torch.device):
        method = code.Method()
        method.stages, method.weights = (layout.scalars(y.to(device)) for y in order_eight())
        return method

    def _code(self, like: Tensor, dual: bool):
        dtype = str(like.dtype).removeprefix("torch.")
        width = self.width or (native_width(dtype) if like.device.type == "cpu" else 1)
        return _code(Lane(dtype, width, dual))


@cache
def _code(lane: Lane):
    return specialise("gradsim.physics.pendulum.double_kernels", lane), Layout(lane)


def arms(
    lengths: Tensor, ratio: Tensor, gravity: Tensor, damping: Tensor, push: Tensor, rods: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What a rollout wants from lengths and masses: inertia, coupling, weight, pull and damping over the first mass.

    Args:
        lengths: Of both arms (..., 2) [m].
        ratio: Second mass over the first (...).
        gravity: Along the plane and up (..., 2) [m/s²].
        damping: Of the hinges over the first mass (...) [m²/s].
        push: A constant force on the far end over the first mass, along the plane and up (..., 2) [m/s²].
        rods: Uniform rods; else points at the ends of massless ones.
    """
    centre, moment = (1 / 2, 1 / 3) if rods else (1.0, 1.0)  # of an arm of mass and length 1, about its hinge
    first, second = lengths.unbind(-1)
    inertia = torch.stack([(moment + ratio) * first**2, ratio * moment * second**2], -1)
    coupling = ratio * centre * first * second
    borne = torch.stack([centre + ratio, ratio * centre], -1)  # mass that hangs on each arm, as if at its end
    along, up = ((borne * gravity[..., None, k] + push[..., None, k]) * lengths for k in range(2))
    return inertia, coupling, -up, along, damping


def acceleration(
    angle: Tensor, rate: Tensor, inertia: Tensor, coupling: Tensor, weight: Tensor, pull: Tensor, damping: Tensor
) -> Tensor:
    """θ'' (..., 2) [rad/s²]: the definition of the physics in plain PyTorch, of any shapes that broadcast."""
    turn = angle[..., 0] - angle[..., 1]
    off, side = coupling * torch.cos(turn), coupling * torch.sin(turn)
    f = pull * torch.cos(angle) - weight * torch.sin(angle)
    f1 = f[..., 0] - side * rate[..., 1] ** 2 - damping * (2 * rate[..., 0] - rate[..., 1])
    f2 = f[..., 1] + side * rate[..., 0] ** 2 - damping * (rate[..., 1] - rate[..., 0])
    a, b = inertia.unbind(-1)
    return torch.stack([b * f1 - off * f2, a * f2 - off * f1], -1) / (a * b - off**2)[..., None]


def energy(angle: Tensor, rate: Tensor, inertia: Tensor, coupling: Tensor, weight: Tensor, pull: Tensor) -> Tensor:
    """T + V over the first mass (...) [J/kg]; 0 when hanging at rest."""
    turn = angle[..., 0] - angle[..., 1]
    kinetic = 0.5 * (inertia * rate**2).sum(-1) + coupling * torch.cos(turn) * rate.prod(-1)
    height = 2 * weight * torch.sin(angle / 2) ** 2  # 1 − cos θ without cancellation
    return kinetic + (height - pull * torch.sin(angle)).sum(-1)


SHARE = 0.1  # good step over 1/(the fastest rate): of order 8, it leaves about 1e-11 of a radian a second
ARMS = ("first", "second")

_rollout = cache(DoublePendulumRollout)  # one operation for each kind of rollout


class DoublePendulumBody:
    """A `System` (see `system.py`) made from a scene's double pendulum. Arguments as for `RigidBody`.

    The arms end at pivot + l₁ e(θ₁) and l₂ e(θ₂) further, e(θ) = sin θ a − cos θ z with `a` the horizontal direction
    `plane` of the swing. Its surface has two pieces, NAME.first and NAME.second.
    """

    states = ("angle", "rate")

    def __init__(self, name, body, scene, first: int, dtype: torch.dtype, device: torch.device):
        self.name, self.body, self.scene = name, body, scene
        to = {"dtype": dtype, "device": device}
        along = torch.tensor(body.plane, **to) / math.dist(body.plane, (0, 0, 0))
        self.up = torch.tensor([0.0, 0.0, 1.0], **to)
        self.along, self.side = along, torch.linalg.cross(self.up, along)
        self.rests: list[tuple[Tensor, Tensor]] = []  # of each arm: a ball of radius 1, and a rod of length 1 along z
        pieces = []
        for arm, colour in zip(ARMS, (body.colour, body.second_colour), strict=True):
            ball = meshes.sphere(1.0, 2) if getattr(body, f"{arm}_radius") else None
            rod = meshes.cylinder(body.rod_radius, 1.0, 8) if body.rod_radius else None
            mesh = meshes.joined([part for part in (ball, rod) if part])
            rest = [torch.tensor(part.vertices if part else [], **to).reshape(-1, 3) for part in (ball, rod)]
            self.rests.append((rest[0], rest[1]))
            look = look_of(body.model_copy(update={"colour": colour}), mesh, f"bodies.{name}", True, to)
            faces, last = torch.tensor(mesh.faces, device=device), first + len(mesh.vertices)
            pieces.append(Part(f"{name}.{arm}", slice(first, last), faces, rod is None, look))
            first = last
        self.pieces = tuple(pieces)

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> DoublePendulumRollout:
        return _rollout(frames, substeps, dt, segment)

    def inputs(self, values: Values) -> list[Tensor]:
        of = lambda key: values[f"{self.name}.{key}"]
        both = lambda key: torch.stack([of(f"{arm}_{key}") for arm in ARMS], 1)
        seen = lambda vector: torch.stack([vector @ self.along, vector[:, 2]], 1)
        mass = of("first_mass")
        push = seen(of("force")) / mass[:, None]
        ratio, damping = of("second_mass") / mass, of("damping") / mass
        rods = self.body.masses == "rods"
        found = arms(both("length"), ratio, seen(values["gravity"]), damping, push, rods)
        return [both("angle"), both("rate"), *found]

    def ends(self, angle: Tensor, values: Values) -> Tensor:
        """Ends of both arms (worlds, frames, 2, 3) [m]."""
        return values[f"{self.name}.pivot"][:, None, None] + self._arms(angle, values).cumsum(2)

    def vertices(self, states: list[Tensor], values: Values) -> Tensor:
        angle = states[0]
        arm, found = self._arms(angle, values), []
        ends = values[f"{self.name}.pivot"][:, None, None] + arm.cumsum(2)
        down = self._directions(angle)
        across = torch.linalg.cross(down, self.side.expand_as(down))
        for k, (ball, rod) in enumerate(self.rests):
            end, radius = ends[:, :, k, None], values[f"{self.name}.{ARMS[k]}_radius"][:, None, None, None]
            x, y, z = (rod[:, c, None] for c in range(3))
            middle = end - arm[:, :, k, None] * (z + 0.5)
            found += [end + ball * radius, middle + across[:, :, k, None] * x + self.side * y]
        return torch.cat(found, 2)

    def stable_step(self, values: Values) -> float:
        """1/(the fastest rate): of a small swing, of the hinges' damping, or what the start's energy allows at most."""
        angle, rate, inertia, coupling, weight, pull, damping = (x.detach() for x in self.inputs(values))
        a, b = inertia.unbind(1)
        least = (a + b) / 2 - torch.sqrt(((a - b) / 2) ** 2 + coupling**2)  # eigenvalue of the mass matrix
        size = torch.sqrt(weight**2 + pull**2)
        work = energy(angle, rate, inertia, coupling, weight, pull) + (size - weight).sum(1)  # above the lowest
        rates = [torch.sqrt(size.amax(1) / least), 3 * damping / least, torch.sqrt(2 * work.clamp(min=0) / least)]
        return 1 / max(torch.stack(rates).max().item(), 1e-9)

    def recommended_step(self, values: Values) -> float:
        return SHARE * self.stable_step(values)

    def check(self, values: Values) -> None:
        """Every start of a double pendulum is valid."""

    def _arms(self, angle: Tensor, values: Values) -> Tensor:
        """From hinge to end (worlds, frames, 2, 3) [m]."""
        lengths = torch.stack([values[f"{self.name}.{arm}_length"] for arm in ARMS], 1)
        return lengths[:, None, :, None] * self._directions(angle)

    def _directions(self, angle: Tensor) -> Tensor:
        """Unit vectors along the arms (worlds, frames, 2, 3)."""
        return torch.sin(angle)[..., None] * self.along - torch.cos(angle)[..., None] * self.up
