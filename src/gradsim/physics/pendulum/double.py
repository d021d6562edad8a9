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

Of the masses, the damping and the force only ratios are in them: the trajectory does not depend on the scale of mass.

A double pendulum of a scene, rendered as two bodies: each arm with its bob.
"""

import math
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from gradsim.engine.lanes import Lane, specialize
from gradsim.engine.layout import Layout
from gradsim.geometry import mesh as meshes
from gradsim.geometry.surface import Part
from gradsim.physics.appearance import look_of
from gradsim.physics.pendulum.rollout import STATE, AngleRollout
from gradsim.physics.pendulum.runge_kutta import STAGES, order_eight
from gradsim.physics.pendulum.start_state import SwingStart
from gradsim.physics.system import ObservationUnits, State, System, Values, swing_observables

if TYPE_CHECKING:
    from gradsim.physics.pendulum import double_kernels
else:
    double_kernels = "gradsim.physics.pendulum.double_kernels"

PARAMETERS = {"inertia": (2,), "coupling": (), "weight": (2,), "pull": (2,), "damping": ()}
INPUTS = (*STATE, *PARAMETERS)


class DoublePendulumRollout(AngleRollout):
    """Rollout of one double pendulum per world, by Runge–Kutta steps of order 8; arguments as for `AngleRollout`.

    Inputs, in this order, with worlds B: the start angles (B, 2) [rad] and rates (B, 2) [rad/s]; then, all over the
    first mass (see `arms`), inertia A and B (B, 2) [m²], coupling C (B,) [m²], weight W (B, 2) [m²/s²], pull P (B, 2)
    [m²/s²] and damping k (B,) [m²/s].
    """

    angles = (2,)
    parameters: ClassVar = PARAMETERS
    workspace: ClassVar = {
        **dict.fromkeys(("stage_angle", "stage_rate", "stage_acceleration"), (STAGES, 2)),
        "stage_adjoint": (STAGES, 4),
    }

    @staticmethod
    @cache
    def kernels(lane: Lane):
        return specialize(double_kernels, lane)

    @staticmethod
    def constants(layout: Layout, device: torch.device) -> dict[str, Any]:
        stages, weights = (layout.scalars(y.to(device)) for y in order_eight())
        return {"stages": stages, "weights": weights}


def arms(
    lengths: Tensor, ratio: Tensor, gravity: Tensor, damping: Tensor, push: Tensor, rods: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Inertia, coupling, weight, pull and damping of a rollout, over the first mass, from lengths and masses.

    Args:
        lengths: Lengths of both arms (..., 2) [m].
        ratio: Second mass over the first (...).
        gravity: Along the plane and up (..., 2) [m/s²].
        damping: Hinge damping over the first mass (...) [m²/s].
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


STEP_SHARE = 0.1  # good step over 1/(the fastest rate): of order 8, it leaves about 1e-11 of a radian a second
ARMS = ("first", "second")

_rollout = cache(DoublePendulumRollout)  # one operation for each kind of rollout


class DoublePendulumBody(System):
    """A `System` (see `system.py`) made from a scene's double pendulum. Arguments as for `RigidBody`.

    The arms end at pivot + l₁ e(θ₁) and l₂ e(θ₂) further, e(θ) = sin θ a − cos θ z with `a` the horizontal direction
    `plane` of the swing. Its surface has two pieces, NAME.first and NAME.second.
    """

    states = ("angle", "rate")
    velocities = ("rate",)
    start_keys = tuple(f"{arm}_{key}" for arm in ARMS for key in ("angle", "rate"))

    def __init__(self, name, body, scene, vertex_offset: int, dtype: torch.dtype, device: torch.device):
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
            faces, last = torch.tensor(mesh.faces, device=device), vertex_offset + len(mesh.vertices)
            pieces.append(Part(f"{name}.{arm}", slice(vertex_offset, last), faces, rod is None, look))
            vertex_offset = last
        self.pieces = tuple(pieces)

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> DoublePendulumRollout:
        return _rollout(frames, substeps, dt, segment)

    def inputs(self, values: Values) -> list[Tensor]:
        of = lambda key: values[f"{self.name}.{key}"]
        both = lambda key: torch.stack([of(f"{arm}_{key}") for arm in ARMS], 1)
        in_plane = lambda vector: torch.stack([vector @ self.along, vector[:, 2]], 1)
        mass = of("first_mass")
        push = in_plane(of("force")) / mass[:, None]
        ratio, damping = of("second_mass") / mass, of("damping") / mass
        rods = self.body.masses == "rods"
        parameters = arms(both("length"), ratio, in_plane(values["gravity"]), damping, push, rods)
        return [both("angle"), both("rate"), *parameters]

    def ends(self, angle: Tensor, values: Values) -> Tensor:
        """Ends of both arms (worlds, frames, 2, 3) [m]."""
        return values[f"{self.name}.pivot"][:, None, None] + self._arms(angle, values).cumsum(2)

    def vertices(self, states: list[Tensor], values: Values) -> Tensor:
        angle = states[0]
        arm, vertices = self._arms(angle, values), []
        ends = values[f"{self.name}.pivot"][:, None, None] + arm.cumsum(2)
        down = self._directions(angle)
        across = torch.linalg.cross(down, self.side.expand_as(down))
        for k, (ball, rod) in enumerate(self.rests):
            end, radius = ends[:, :, k, None], values[f"{self.name}.{ARMS[k]}_radius"][:, None, None, None]
            x, y, z = (rod[:, c, None] for c in range(3))
            middle = end - arm[:, :, k, None] * (z + 0.5)
            vertices += [end + ball * radius, middle + across[:, :, k, None] * x + self.side * y]
        return torch.cat(vertices, 2)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.pieces

    @property
    def start_state(self) -> SwingStart:
        return SwingStart(self.name, [f"{arm}_" for arm in ARMS])

    def bounding_radius(self, values: Values) -> float:
        return sum(values[f"{self.name}.{arm}_length"].max().item() for arm in ARMS)

    def extrapolate(self, state: State, values: Values, time: float) -> dict[str, Tensor]:
        return {**state, "angle": state["angle"] + time * state["rate"]}

    def observables(self, state: State, values: Values, units: ObservationUnits) -> Tensor:
        return swing_observables(state, units)

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
        return STEP_SHARE * self.stable_step(values)

    def check(self, values: Values) -> None:
        """Every start of a double pendulum is valid."""

    def _arms(self, angle: Tensor, values: Values) -> Tensor:
        """From hinge to end (worlds, frames, 2, 3) [m]."""
        lengths = torch.stack([values[f"{self.name}.{arm}_length"] for arm in ARMS], 1)
        return lengths[:, None, :, None] * self._directions(angle)

    def _directions(self, angle: Tensor) -> Tensor:
        """Unit vectors along the arms (worlds, frames, 2, 3)."""
        return torch.sin(angle)[..., None] * self.along - torch.cos(angle)[..., None] * self.up
