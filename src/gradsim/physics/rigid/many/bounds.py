"""Bounds of the time step of several rigid bodies, and checks of their start: those of `RigidBody`, of all at once."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.contact.impact import IMPACT_STEP_FACTOR, clip_length, fall_speed, height_above
from gradsim.physics.contact.laws import stiffening
from gradsim.physics.contact.point_sdf import distance
from gradsim.physics.integrators import RIGID
from gradsim.physics.rigid.body import FREE_STEPS, LEAST_TURN_RATE, MAX_SPIN_ANGLE, MAX_START_DEPTH, RigidBody
from gradsim.physics.rigid.many.batching import BODY, START
from gradsim.physics.rigid.many.stack import BodyStack
from gradsim.physics.rigid.rollout import DRAG, ROLLING
from gradsim.physics.system import STEP_SAFETY, Values


class StepBounds:
    """Bounds of the step of some bodies; the equations are those of `RigidBody`.

    Args:
        stack: The bodies.
        integrator: Of all of them.
    """

    def __init__(self, stack: BodyStack, integrator: str):
        self.stack, self.bodies, self.integrator = stack, stack.bodies, RIGID[integrator]
        self.scene, device = self.bodies[0].scene, stack.points.device
        self.meets = torch.tensor([bool(body.surfaces) for body in self.bodies], device=device)
        self.placed = torch.tensor([body.placed for body in self.bodies], device=device)
        self.is_pushed = any(body.pushes for body in self.bodies)
        farthest = [body.shape.reach + body.shape.ball_radius for body in self.bodies]
        self.reach, self.size = torch.stack(farthest), stack.reach
        touching = [body.shape.touching if body.surfaces else 1 for body in self.bodies]
        self.touching = self.size.new_tensor(touching)[:, None]

    def stable_step(self, values: Values, speed: Tensor | None = None) -> float:
        """See `RigidBody.stable_step`; `speed` of the impact (worlds, bodies) [m/s], None: without the dissipation."""
        body = self.stack.meeting
        if not body.surfaces:
            return math.inf
        if self.stack.has(values, "centre_of_mass"):
            columns = speed.unbind(1) if speed is not None else [None] * len(self.bodies)
            return min(one.step_with_dissipation(values, v) for one, v in zip(self.bodies, columns, strict=True))
        worlds, mass = len(values["gravity"]), self.stack.mass(values)
        reach = self.reach * self.stack.numbers("scale", values)
        pivot = 1 + mass * reach**2 / torch.linalg.eigvalsh(self.stack.inertia(values, mass))[..., 0]
        k, drag, loss = (
            self.stack.contact(key, values, worlds) for key in ("stiffness", "friction_stiffness", "damping")
        )
        k = stiffening(body.law) * k
        rolls = [any(f"{surface}.{name}_friction" in values for name in ROLLING) for surface in body.surfaces]
        drag = torch.where(torch.tensor(rolls, device=drag.device), 2 * drag, drag)  # of the torque
        drag = drag + loss if body.damping_name == "damping" else drag
        worst = math.inf
        for count, m in ((self.touching, mass), (1, mass / pivot)):
            a, b = count * k / m[..., None], 2 * count * drag / m[..., None]
            if speed is not None and body.damping_name == "dissipation":
                b = b + 2 * loss * speed[..., None] * torch.sqrt(a)
            root = 8 / (b + torch.sqrt(b**2 + 16 * a))
            worst = min(worst, root[:, self.meets].min().item())
        return worst

    def recommended_step(self, values: Values, speeds: Tensor) -> float:
        """See `RigidBody.recommended_step`; `speeds` of the impact (worlds, bodies) [m/s]."""
        contact = min(STEP_SAFETY * self.stable_step(values), IMPACT_STEP_FACTOR * self.stable_step(values, speeds))
        contact *= self.integrator.stability
        if self.integrator.order == 1 or bool(self.placed.all()):
            return contact
        rate = self._start_speeds(values)[1][:, ~self.placed].max().item()
        if self.stack.has(values, DRAG):
            rate = max(rate, *(body.braking(values) for body in self.bodies if not body.placed))
        turn = MAX_SPIN_ANGLE / max(rate, LEAST_TURN_RATE)
        return min(contact, turn) if turn < 1 / (FREE_STEPS * self.scene.timing.fps) else contact

    def impact_speeds(self, values: Values, start: Sequence[Tensor], arms: Tensor) -> Tensor:
        """Largest speed (worlds, bodies) [m/s] at which a point of each can meet a ground or obstacle.

        Args:
            values: All parameters.
            start: x, q, v and l (worlds, bodies, ·).
            arms: Distance of the pivot of a body that a joint places from its centre of mass (bodies,) [m]; 0: none.
        """
        if self.is_pushed or self.stack.has(values, "centre_of_mass"):
            columns = []
            for k, body in enumerate(self.bodies):
                state = [y[:, k] for y in start]
                swings = body.placed
                columns.append(body.swing_speed(state, arms[k].item(), values) if swings else body.impact_speed(values))
            return torch.stack(columns, 1)
        norm = lambda y: torch.linalg.vector_norm(y.detach(), dim=-1)
        x, q, v, l = start
        speed = norm(v)
        spin = norm(rotation.apply_turned(q, self.stack.inertia_inverse(values), l))
        height = height_above(self.stack.meeting, x.detach(), values).detach()
        height = torch.where(self.meets, height, 0.0)
        fall = fall_speed(speed, height, values["gravity"].detach(), clip_length(self.scene, values))
        swings = self.placed & (arms > 0)
        spin = torch.where(swings, torch.maximum(spin, fall / torch.where(swings, arms, 1.0)), spin)
        return fall + spin * self.size * self.stack.numbers("scale", values).detach()

    def check(self, values: Values, start: Sequence[Tensor]) -> None:
        """Raise `InputError` for the first body that starts inside a ground or obstacle, see `RigidBody.check`.

        Args:
            values: All parameters.
            start: x, q, v and l (worlds, bodies, ·).
        """
        if not self.stack.meeting.surfaces:
            return
        names = [name for name in BODY if name not in START]
        inputs = dict(zip(names, self.stack.inputs_after_start(values), strict=True))
        x, q = start[:2]
        at = (rotation.rotate(q[:, :, None], inputs["points"]) + x[:, :, None])[:, :, None]
        radius = inputs["radius"][:, :, None]
        gap = (at * inputs["normal"][:, :, :, None]).sum(-1) - inputs["height"][..., None] - radius
        if inputs["centre"].shape[2]:
            local = ((at - inputs["centre"][:, :, :, None])[..., None, :] * inputs["axis"][:, :, :, None]).sum(-1)
            away = distance(local, inputs["half"][:, :, :, None].expand_as(local))
            gap = torch.cat([gap, away - inputs["rounding"][..., None] - radius], 2)
        depth = (-gap).flatten(2).amax(2).amax(0)
        size = self.size * self.stack.numbers("scale", values).amax(0)
        for k in (depth > MAX_START_DEPTH * size).nonzero()[:, 0].tolist():
            body: RigidBody = self.bodies[k]
            body.check(values, [y[:, k] for y in start])

    def _start_speeds(self, values: Values) -> tuple[Tensor, Tensor]:
        """Bounds of speed and spin (worlds, bodies) after all pushes, see `RigidBody`; of bodies that a joint places, of no meaning."""
        if self.is_pushed:
            pairs = [body.start_speed(values) for body in self.bodies]
            speed, spin = (torch.stack(y, 1) for y in zip(*pairs, strict=True))
            return speed, spin
        norm = lambda y: torch.linalg.vector_norm(y.detach(), dim=-1)
        _, q, v, l = self.stack.start(values)
        return norm(v), norm(rotation.apply_turned(q, self.stack.inertia_inverse(values), l))
