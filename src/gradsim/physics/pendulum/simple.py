"""A solid ball on a massless, inextensible string that swings in a vertical plane about a fixed pivot.

    (L² + 2/5 r²) θ̈ = L (b cos θ − g sin θ) − (L² + 2/5 r²) (c θ̇ + d |θ̇| θ̇),   L = s + r

θ is the angle from hanging straight down, s the string from the pivot to the surface of the ball, r the ball's radius,
so L reaches its centre. The ball turns with the string: its moment of inertia over its mass, 2/5 r² about its centre,
is shifted to the pivot by L² (Huygens–Steiner; Goldstein, Classical Mechanics, 3rd ed., §5.3). A point mass is r = 0.
Mass itself drops out. c damps linearly; d is drag that grows with the square of the speed (Nelson & Olsson 1986,
"The pendulum – rich physics from a simple system", with both). g pulls down and b to the side to which θ is positive:
their parts of gravity and of a constant force at the ball's centre, over its mass.

The string stays straight whatever its tension, as a rod does: a true string would go slack above the pivot where
L θ̇² + g cos θ < 0, and that is not modelled.

A pendulum of a scene: a solid ball on a string that swings in a vertical plane, rendered as bob and rod.
"""

import math
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gradsim.engine.lanes import Lane, specialize
from gradsim.geometry import mesh as meshes
from gradsim.geometry.surface import Part
from gradsim.physics.appearance import look_of
from gradsim.physics.pendulum.rollout import STATE, AngleRollout
from gradsim.physics.pendulum.start_state import SwingStart
from gradsim.physics.system import STEP_SAFETY, ObservationUnits, State, System, Values, swing_observables

if TYPE_CHECKING:
    from gradsim.physics.pendulum import simple_kernels
else:
    simple_kernels = "gradsim.physics.pendulum.simple_kernels"

INPUTS = (*STATE, "string_length", "radius", "gravity", "damping", "drag", "side")


class PendulumRollout(AngleRollout):
    """Rollout of one pendulum per world by the classical Runge–Kutta method; arguments and outputs as for `AngleRollout`.

    Inputs, in this order and (B,) each with worlds B: the start angle [rad] and rate [rad/s]; then string_length [m],
    radius [m], gravity [m/s²] (downwards), damping [1/s], drag [1/rad] and side [m/s²] (acceleration to the side).
    """

    angles = ()
    parameters: ClassVar = dict.fromkeys(INPUTS[2:], ())
    workspace: ClassVar = {"down": (), "across": ()}

    @staticmethod
    @cache
    def kernels(lane: Lane):
        return specialize(simple_kernels, lane)


def acceleration(
    angle: Tensor,
    rate: Tensor,
    string_length: Tensor,
    radius: Tensor,
    gravity: Tensor,
    damping: Tensor,
    drag: Tensor,
    side: Tensor | float = 0.0,
) -> Tensor:
    """θ̈ [rad/s²]: the definition of the physics in plain PyTorch, of any shapes that broadcast."""
    length = string_length + radius
    inertia = length**2 + 2 / 5 * radius**2
    pull = length / inertia * (side * torch.cos(angle) - gravity * torch.sin(angle))
    return pull - damping * rate - drag * rate.abs() * rate


def energy(
    angle: Tensor, rate: Tensor, string_length: Tensor, radius: Tensor, gravity: Tensor, side: Tensor | float = 0.0
) -> Tensor:
    """½ (L² + 2/5 r²) θ̇² + g L (1 − cos θ) − b L sin θ, per mass [J/kg]; 0 when hanging at rest."""
    length = string_length + radius
    inertia = length**2 + 2 / 5 * radius**2
    height = 2 * torch.sin(angle / 2) ** 2  # 1 − cos θ without cancellation
    return 0.5 * inertia * rate**2 + length * (gravity * height - side * torch.sin(angle))


_rollout = cache(PendulumRollout)  # one operation for each kind of rollout


class PendulumBody(System):
    """A `System` (see `system.py`) made from a scene's pendulum. Arguments as for `RigidBody`.

    The ball's centre is at pivot + (s + r)(sin θ a − cos θ z), with `a` the horizontal direction `plane` of the swing.
    """

    states = ("angle", "rate")
    velocities = ("rate",)
    start_keys = states

    def __init__(self, name, body, scene, vertex_offset: int, dtype: torch.dtype, device: torch.device):
        self.name, self.body, self.scene = name, body, scene
        to = {"dtype": dtype, "device": device}
        mesh = meshes.sphere(1.0, 3)
        self.ball, self.rod = torch.tensor(mesh.vertices, **to), None
        if body.rod_radius > 0:
            rod = meshes.cylinder(body.rod_radius, 1.0, 8)
            self.rod = torch.tensor(rod.vertices, **to)  # along z, from -1/2 to 1/2
            mesh = meshes.joined([mesh, rod])
        faces, look = torch.tensor(mesh.faces, device=device), look_of(body, mesh, f"bodies.{name}", True, to)
        self.part = Part(name, slice(vertex_offset, vertex_offset + len(mesh.vertices)), faces, self.rod is None, look)

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> PendulumRollout:
        return _rollout(frames, substeps, dt, segment)

    def inputs(self, values: Values) -> list[Tensor]:
        of = lambda key: values[f"{self.name}.{key}"]
        pull = values["gravity"] + of("force_per_mass")
        side = (pull * self._along(pull)).sum(-1)
        return [*map(of, ("angle", "rate", "string_length", "radius")), -pull[:, 2], of("damping"), of("drag"), side]

    def centre(self, angle: Tensor, values: Values) -> Tensor:
        """Centre of the ball (worlds, frames, 3) [m]."""
        return values[f"{self.name}.pivot"][:, None] + self._length(values) * self._direction(angle)

    def vertices(self, states: list[Tensor], values: Values) -> Tensor:
        angle = states[0]
        radius = values[f"{self.name}.radius"][:, None, None, None]
        centre = self.centre(angle, values)
        ball = self.ball * radius + centre[:, :, None]
        if self.rod is None:
            return ball
        down = self._direction(angle)
        side = torch.linalg.cross(self.rod.new_tensor([0.0, 0.0, 1.0]), self._along(down)).expand_as(down)
        across = torch.linalg.cross(side, down)
        string = values[f"{self.name}.string_length"][:, None, None]
        middle = values[f"{self.name}.pivot"][:, None] + down * string / 2
        x, y, z = (self.rod[:, k, None] for k in range(3))
        spread = across[:, :, None] * x + side[:, :, None] * y
        rod = middle[:, :, None] + spread - (down * string)[:, :, None] * z
        return torch.cat([ball, rod], 2)

    @property
    def start_state(self) -> SwingStart:
        return SwingStart(self.name, ("",))

    def bounding_radius(self, values: Values) -> float:
        return (values[f"{self.name}.string_length"] + values[f"{self.name}.radius"]).max().item()

    def extrapolate(self, state: State, values: Values, time: float) -> dict[str, Tensor]:
        return {**state, "angle": state["angle"] + time * state["rate"]}

    def observables(self, state: State, values: Values, units: ObservationUnits) -> Tensor:
        return swing_observables(state, units)

    def stable_step(self, values: Values) -> float:
        """1/(2 × the fastest rate): ω₀, the start's rate, or its damping. `STEP_SAFETY` makes that an error near 1e-6."""
        of = lambda key: values[f"{self.name}.{key}"]
        length = of("string_length") + of("radius")
        pull = torch.linalg.vector_norm(values["gravity"] + of("force_per_mass"), dim=-1)
        natural = torch.sqrt(pull.clamp(min=1e-9) / length)
        speed = torch.maximum(of("rate").abs(), 2 * natural)
        fastest = torch.stack([natural, of("rate").abs(), of("damping") + 2 * of("drag") * speed]).max().item()
        return 0.5 / max(fastest, 1e-9)

    def recommended_step(self, values: Values) -> float:
        return STEP_SAFETY * self.stable_step(values)

    def check(self, values: Values) -> None:
        """Every start of a pendulum is valid."""

    def _length(self, values: Values) -> Tensor:
        return (values[f"{self.name}.string_length"] + values[f"{self.name}.radius"])[:, None, None]

    def _direction(self, angle: Tensor) -> Tensor:
        """Unit vector from the pivot to the ball (worlds, frames, 3)."""
        up = angle.new_tensor([0.0, 0.0, 1.0])
        return torch.sin(angle)[..., None] * self._along(angle) - torch.cos(angle)[..., None] * up

    def _along(self, like: Tensor) -> Tensor:
        """The horizontal unit vector of the swing (3,)."""
        return like.new_tensor(self.body.plane) / math.dist(self.body.plane, (0, 0, 0))
