"""Positions of joints in their bodies, forward kinematics of their children, and joint coordinates.

With A the parent, B the child and p the points where they are held, a the axis in A's frame, and Q the orientation of B
in A where the coordinate is 0 (forward kinematics; ω and v in the world):

    R_B = R_A exp(a angle) Q,   ω_B = ω_A + R_A a rate,   x_B = x_A + R_A (p_A + a slide) − R_B p_B
    v_B = v_A + ω_A × R_A (p_A + a slide) + R_A a speed − ω_B × R_B p_B

A ball joint turns by exp(rotation vector), in A's frame. Back from states, with u across the axis:

    angle = atan2((a × u)·c, u·c),  c = R_Aᵀ R_B Qᵀ u        slide = (R_A a)·d,  d = x_B + R_B p_B − x_A − R_A p_A
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.system import Values
from gradsim.scene.joint import WORLD, AnyJoint, Ball, Prismatic, Revolute, placing_joints

States = Mapping[str, Mapping[str, Tensor]]  # x, q, v, l (worlds, ...) or (worlds, frames, ...) by body


class Frame(NamedTuple):
    """Orthonormal vectors (worlds, 3) in the parent's frame, right-handed, and Q (worlds, 4) of the child in it."""

    across: Tensor
    third: Tensor
    axis: Tensor
    Q: Tensor

    def of_child(self, vector: Tensor) -> Tensor:
        """The vector of the child that is this one of the parent where the coordinate is 0."""
        return rotation.rotate(rotation.conjugate(self.Q), vector)


class Moving(NamedTuple):
    """Place, orientation, velocity and spin of a body, (worlds, ·) or (worlds, frames, ·)."""

    x: Tensor
    q: Tensor
    v: Tensor
    w: Tensor

    def point(self, local: Tensor) -> tuple[Tensor, Tensor]:
        """Place and velocity of a point of its frame."""
        arm = rotation.rotate(self.q, local)
        return self.x + arm, self.v + rotation.cross(self.w, arm)


class JointFrames:
    """The geometry of some joints.

    Args:
        bodies: By name.
        joints: By name.
    """

    def __init__(self, bodies: Mapping[str, RigidBody], joints: Mapping[str, AnyJoint]):
        self.bodies, self.joints = dict(bodies), dict(joints)
        self.placed = placing_joints(joints)
        self.loops = [name for name in joints if name not in self.placed.values()]

    def points(self, name: str, values: Values) -> tuple[Tensor, Tensor]:
        """Points where parent and child are held (worlds, 3) [m], in their frames."""
        pair = []
        for body, key in zip(self.joints[name].between, ("parent_point", "child_point"), strict=True):
            point = values[f"joints.{name}.{key}"]
            if body != WORLD and self.joints[name].points_from == "shape":
                point = point - self.bodies[body].center_in_shape(values)
            pair.append(point if body == WORLD else point * values[f"{body}.scale"][:, None])
        return pair[0], pair[1]

    def frames(self, values: Values) -> dict[str, Frame]:
        """Frames of every joint."""
        frames = {}
        for child, name in self.placed.items():
            Q = self.bodies[child].quat
            frames[name] = Frame(*self._triad(name, values), Q.expand(len(values["gravity"]), 4))
        if self.loops:
            start = {n: body.start(values) for n, body in self.bodies.items()}
            start = self.place(start, values)
            for name in self.loops:
                parent, child = (self._at_start(n, start, values) for n in self.joints[name].between)
                Q = rotation.multiply(rotation.conjugate(parent.q), child.q)
                frames[name] = Frame(*self._triad(name, values), Q)
        return {name: frames[name] for name in self.joints}

    def place(self, start: Mapping[str, Sequence[Tensor]], values: Values) -> dict[str, list[Tensor]]:
        """x, q, v, l (worlds, ·) of all bodies at the start, with the children where their joints place them."""
        states = {name: list(state) for name, state in start.items()}
        for child, name in self.placed.items():
            joint, body = self.joints[name], self.bodies[child]
            parent = self._at_start(joint.between[0], states, values)
            p, r = self.points(name, values)
            turn, rate, slide, speed = self._coordinates(name, values)
            orientation = rotation.multiply(rotation.exponential(turn), body.quat.expand(len(turn), 4))
            q = rotation.multiply(parent.q, orientation)
            spin, arm = parent.w + rotation.rotate(parent.q, rate), rotation.rotate(q, r)
            at, moving = parent.point(p + slide)
            v = moving + rotation.rotate(parent.q, speed) - rotation.cross(spin, arm)
            states[child] = [at - arm, q, v, body.momentum(q, spin, values)]
        return states

    def coordinates(self, states: States, values: Values) -> dict[str, dict[str, Tensor]]:
        """Those of the joints that move, by name; see `Joints.coordinates_of`."""
        frames, coordinates = self.frames(values), {}
        for name, joint in self.joints.items():
            a, b = (self.moving(n, states, values) for n in joint.between)
            like = lambda y, q=b.q: y[:, None] if q.ndim == 3 else y
            across, third, axis, Q = (like(y) for y in frames[name])
            back, p, r = rotation.conjugate(a.q), *(like(y) for y in self.points(name, values))
            relative = rotation.rotate(back, b.w - a.w)
            turned = rotation.multiply(rotation.multiply(back, b.q), rotation.conjugate(Q))
            if isinstance(joint, Ball):
                coordinates[name] = {"rotation_vector": rotation.logarithm(turned), "angular_velocity": relative}
            elif isinstance(joint, Revolute):
                c = rotation.rotate(turned, across)
                angle = torch.atan2((third * c).sum(-1), (across * c).sum(-1))
                angle = _unwrapped(angle, values.get(f"joints.{name}.angle"))
                coordinates[name] = {"angle": angle, "rate": (axis * relative).sum(-1)}
            elif isinstance(joint, Prismatic):
                held, at = a.point(p), b.point(r)
                d = at[0] - held[0]
                speed = at[1] - held[1] - rotation.cross(a.w, d)
                along = rotation.rotate(a.q, axis)
                coordinates[name] = {"displacement": (along * d).sum(-1), "speed": (along * speed).sum(-1)}
        return coordinates

    def moving(self, name: str, states: States, values: Values) -> Moving:
        """Position and velocity of a body, or of the world, which does not move."""
        if name != WORLD:
            x, q, v, momentum = (states[name][key] for key in RigidBody.states)
            return Moving(x, q, v, self.bodies[name].spin(q, momentum, values))
        like = next(iter(states.values()))["x"]
        still = torch.zeros_like(like)
        return Moving(still, torch.cat([still, torch.ones_like(like[..., :1])], -1), still, still)

    def _at_start(self, name: str, start: Mapping[str, Sequence[Tensor]], values: Values) -> Moving:
        return self.moving(name, named(start), values)

    def _coordinates(self, name: str, values: Values) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rotation and its rate, displacement and its speed, of the child at the start, in the parent's frame."""
        joint, of = self.joints[name], lambda key: values[f"joints.{name}.{key}"]
        nothing = torch.zeros_like(of("child_point"))
        if isinstance(joint, Ball):
            return of("rotation_vector"), of("angular_velocity"), nothing, nothing
        if not isinstance(joint, Revolute | Prismatic):
            return nothing, nothing, nothing, nothing
        axis = self._triad(name, values)[2]
        first, second = (of(key)[:, None] * axis for key in joint.start)
        return (first, second, nothing, nothing) if isinstance(joint, Revolute) else (nothing, nothing, first, second)

    def _triad(self, name: str, values: Values) -> tuple[Tensor, Tensor, Tensor]:
        """Two unit vectors across the axis, and the axis."""
        direction = values.get(f"joints.{name}.axis")
        if direction is None:
            x, y, z = torch.eye(3).to(values["gravity"]).expand(len(values["gravity"]), 3, 3).unbind(1)
            return x, y, z
        axis = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
        away = torch.nn.functional.one_hot(axis.detach().abs().argmin(-1), 3).to(axis)  # a corner far from the axis
        across = away - axis * (away * axis).sum(-1, keepdim=True)
        across = across / torch.linalg.vector_norm(across, dim=-1, keepdim=True)
        return across, rotation.cross(axis, across), axis


def named(start: Mapping[str, Sequence[Tensor]]) -> dict[str, dict[str, Tensor]]:
    """States by name, as a trajectory has them."""
    names: tuple[str, ...] = RigidBody.states
    return {body: dict(zip(names, state, strict=True)) for body, state in start.items()}


def _unwrapped(angle: Tensor, start: Tensor | None) -> Tensor:
    """Without jumps of whole turns along frames, from the angle that the scene starts with."""
    now, turn = angle.detach(), 2 * math.pi
    turns = torch.zeros_like(now)
    if now.ndim == 2:
        turns[:, 1:] = -torch.round(now.diff(dim=1) / turn).cumsum(1)
    if start is not None:
        start = start.detach().reshape(-1, *[1] * (now.ndim - 1))
        turns = turns + torch.round((start - (now[:, :1] if now.ndim == 2 else now)) / turn)
    return angle + turn * turns
