"""A double pendulum of a scene, drawn as two bodies: each arm with its bob."""

import math
from functools import cache

import torch
from torch import Tensor

from gradsim.geometry import mesh as meshes
from gradsim.geometry.surface import Part
from gradsim.physics.double_pendulum import DoublePendulumRollout, arms, energy
from gradsim.physics.look import look_of
from gradsim.physics.system import Values

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

    def good_step(self, values: Values) -> float:
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
