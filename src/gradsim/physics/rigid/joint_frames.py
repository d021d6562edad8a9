"""Positions of joints in their bodies, forward kinematics of their children, and joint coordinates.

With A the parent, B the child and p the points where they are held, a the axis in A's frame, and Q the orientation of B
in A where the coordinate is 0 (forward kinematics; ω and v in the world):

    R_B = R_A exp(a angle) Q,   ω_B = ω_A + R_A a rate,   x_B = x_A + R_A (p_A + a slide) − R_B p_B
    v_B = v_A + ω_A × R_A (p_A + a slide) + R_A a speed − ω_B × R_B p_B

A ball joint turns by exp(rotation vector), in A's frame. Where the world's side of a joint follows a recording, A is the frame that the
recording moves (`recorded/frames.py`), which is called by the name of the joint. Back from states, with u across the axis:

    angle = atan2((a × u)·c, u·c),  c = R_Aᵀ R_B Qᵀ u        slide = (R_A a)·d,  d = x_B + R_B p_B − x_A − R_A p_A
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.recorded.frames import RecordedFrame
from gradsim.physics.system import Values
from gradsim.scene.joint import WORLD, AnyJoint, Ball, Prismatic, Revolute, placing_joints

ACROSS, THIRD, AXIS, CHILD = 0, 1, 2, 3  # places in `JointFrames.vectors`; those of the child come behind
States = Mapping[str, Mapping[str, Tensor]]  # x, q, v, l (worlds, ...) or (worlds, frames, ...) by body


class Frame(NamedTuple):
    """Orthonormal vectors (worlds, 3) in the parent's frame, right-handed, Q (worlds, 4) of the child in it, and those of
    the child that are the same where the coordinate is 0."""

    across: Tensor
    third: Tensor
    axis: Tensor
    Q: Tensor
    child_across: Tensor
    child_third: Tensor
    child_axis: Tensor

    def of_child(self, name: str) -> Tensor:
        """The vector of the child by the name of the parent's."""
        return getattr(self, f"child_{name}")


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
        recorded: Frames that follow recordings, by the joint whose parent they are.
    """

    def __init__(
        self, bodies: Mapping[str, RigidBody], joints: Mapping[str, AnyJoint], recorded: Mapping[str, RecordedFrame]
    ):
        self.bodies, self.joints, self.recorded = dict(bodies), dict(joints), dict(recorded)
        self.placed = placing_joints(joints)
        self.loops = [name for name in joints if name not in self.placed.values()]

    def ends(self, name: str) -> tuple[str, str]:
        """Parent and child of a joint; the parent is the name of the joint where that is a frame of its own."""
        parent, child = self.joints[name].between
        return (name if name in self.recorded else parent), child

    def points(self, name: str, values: Values) -> tuple[Tensor, Tensor]:
        """Points where parent and child are held (worlds, 3) [m], in their frames."""
        pair = zip(self.joints[name].between, self._stated_points(name, values), strict=True)
        first, second = (p if body == WORLD else p * values[f"{body}.scale"][:, None] for body, p in pair)
        return first, second

    def _stated_points(self, name: str, values: Values) -> tuple[Tensor, Tensor]:
        """The same at scale 1."""
        if f"joints.{name}.parent_point" not in values:  # of a body that follows a recording: its center of mass
            nothing = torch.zeros_like(values["gravity"])
            return nothing, nothing
        joint = self.joints[name]
        first, second = values[f"joints.{name}.parent_point"], values[f"joints.{name}.child_point"]
        if joint.points_from == "shape":
            center = [None if body == WORLD else self.bodies[body].center_in_shape(values) for body in joint.between]
            first, second = (p if c is None else p - c for p, c in zip((first, second), center, strict=True))
        return first, second

    def frames(self, values: Values) -> dict[str, Frame]:
        """Frames of every joint."""
        turns = self._turns(values)
        frames = {}
        for name, turn, six in zip(self.joints, turns, self._vectors(values, turns).unbind(1), strict=True):
            across, third, axis, *child = six.unbind(1)
            frames[name] = Frame(across, third, axis, turn, child[0], child[1], child[2])
        return frames

    def vectors(self, values: Values) -> Tensor:
        """`across`, `third` and `axis` of the parents, then of the children, of every joint (worlds, joints, 6, 3)."""
        return self._vectors(values, self._turns(values))

    def _turns(self, values: Values) -> list[Tensor]:
        """Q of every joint."""
        worlds = len(values["gravity"])
        turns = {name: self.bodies[child].quat.expand(worlds, 4) for child, name in self.placed.items()}
        if self.loops:
            start = {n: body.start(values) for n, body in self.bodies.items()}
            start = self.place(start, values)
            for name in self.loops:
                parent, child = (self._at_start(n, start, values) for n in self.ends(name))
                turns[name] = rotation.multiply(rotation.conjugate(parent.q), child.q)
        return [turns[name] for name in self.joints]

    def _vectors(self, values: Values, turns: Sequence[Tensor]) -> Tensor:
        triads = self._triads(values)
        of_child = rotation.rotate(rotation.conjugate(torch.stack(list(turns), 1))[:, :, None], triads)
        return torch.cat([triads, of_child], 2)

    def all_points(self, values: Values) -> tuple[Tensor, Tensor]:
        """Points where parents and children of all joints are held (worlds, joints, 3) [m], in their frames."""
        worlds = len(values["gravity"])
        parent, child = zip(*(self._stated_points(name, values) for name in self.joints), strict=True)
        scales = [self._scales(k, values) for k in (0, 1)]
        stack = lambda ys: torch.stack([y.expand(worlds, 3) for y in ys], 1)
        return stack(parent) * scales[0][..., None], stack(child) * scales[1][..., None]

    def _scales(self, side: int, values: Values) -> Tensor:
        """Scale of the body at one side of each joint (worlds, joints), 1 of the world."""
        one = torch.ones_like(values["gravity"][:, 0])
        ends = [joint.between[side] for joint in self.joints.values()]
        return torch.stack([one if body == WORLD else values[f"{body}.scale"] for body in ends], 1)

    def place(self, start: Mapping[str, Sequence[Tensor]], values: Values) -> dict[str, list[Tensor]]:
        """x, q, v, l (worlds, ·) of all bodies at the start, with the children where their joints place them.

        Of all joints at once: orientations are products along the chain of parents, of half as many with each round, and
        spins, places and velocities sums over a body and its ancestors.
        """
        states = {name: list(state) for name, state in start.items()}
        if not self.placed:
            return states
        tree = self._tree
        bases = [self._at_start(name, states, values) for name in tree.roots]
        x, q, v, w = (torch.stack(y, 1)[:, tree.root] for y in zip(*bases, strict=True))
        order = [list(self.joints).index(name) for name in self.placed.values()]
        held, holding = (y[:, order] for y in self.all_points(values))
        turn, rate, slide, speed = self._coordinates(values)
        bodies = [self.bodies[child] for child in self.placed]
        local = rotation.multiply(rotation.exponential(turn), torch.stack([body.quat for body in bodies]))
        orientation = rotation.multiply(q, tree.products(local))
        before = tree.of_parents(orientation, q)
        spin = w + tree.sums(rotation.rotate(before, rate))
        arm = rotation.rotate(orientation, holding)
        reach = rotation.rotate(before, held + slide)
        at = x + tree.sums(reach - arm)
        moving = rotation.cross(tree.of_parents(spin, w), reach) + rotation.rotate(before, speed)
        v = v + tree.sums(moving - rotation.cross(spin, arm))
        inertia = torch.stack([body.inertia(values) for body in bodies], 1)
        momentum = rotation.apply_turned(orientation, inertia, spin)
        for k, child in enumerate(self.placed):
            states[child] = [at[:, k], orientation[:, k], v[:, k], momentum[:, k]]
        return states

    @cached_property
    def _tree(self) -> "_Tree":
        return _Tree.of([(self.ends(name)[0], child) for child, name in self.placed.items()])

    def coordinates(self, states: States, values: Values, times: Tensor | None = None) -> dict[str, dict[str, Tensor]]:
        """Those of the joints that move, by name; see `Joints.coordinates_of`."""
        frames, coordinates = self.frames(values), {}
        for name, joint in self.joints.items():
            a, b = (self.moving(n, states, values, times) for n in self.ends(name))
            like = lambda y, q=b.q: y[:, None] if q.ndim == 3 else y
            across, third, axis, Q = (like(y) for y in frames[name][:4])
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

    def moving(self, name: str, states: States, values: Values, times: Tensor | None = None) -> Moving:
        """Position and velocity of a body, of a frame that follows a recording, or of the world, which does not move.

        Args:
            name: That of the body, or of the joint whose parent the frame is, or "world".
            states: Of all bodies.
            values: All parameters.
            times: Since the start (worlds or 1, frames) [s], for frames; None: the start.
        """
        if name in self.recorded:
            like, frame = next(iter(states.values()))["x"], self.recorded[name]
            samples = frame.samples(values)
            times = samples.new_zeros(1, 1) if times is None else times.to(samples)
            state = frame.at(samples, times.expand(len(samples), -1))
            parts = [y.to(like) for y in state[:4]]
            return Moving(*(parts if like.ndim == 3 else [y[:, 0] for y in parts]))
        if name != WORLD:
            x, q, v, momentum = (states[name][key] for key in RigidBody.states)
            return Moving(x, q, v, self.bodies[name].spin(q, momentum, values))
        like = next(iter(states.values()))["x"]
        still = torch.zeros_like(like)
        return Moving(still, torch.cat([still, torch.ones_like(like[..., :1])], -1), still, still)

    def _at_start(self, name: str, start: Mapping[str, Sequence[Tensor]], values: Values) -> Moving:
        return self.moving(name, named(start), values)

    def _coordinates(self, values: Values) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rotation and its rate, displacement and its speed (worlds, joints, 3), of each child that a joint places, in the
        parent's frame."""
        axes = dict(zip(self.joints, self._triads(values)[:, :, 2].unbind(1), strict=True))
        parts: list[list[Tensor]] = [[], [], [], []]
        nothing = torch.zeros_like(values["gravity"])
        for name in self.placed.values():
            joint, of = self.joints[name], lambda key, name=name: values[f"joints.{name}.{key}"]
            first = second = nothing
            if isinstance(joint, Ball):
                first, second = of("rotation_vector"), of("angular_velocity")
            elif isinstance(joint, Revolute | Prismatic):
                first, second = (of(key)[:, None] * axes[name] for key in joint.start)
            slides = isinstance(joint, Prismatic)
            for row, y in zip(
                parts, (nothing, nothing, first, second) if slides else (first, second, nothing, nothing), strict=True
            ):
                row.append(y)
        turn, rate, slide, speed = (torch.stack(row, 1) for row in parts)
        return turn, rate, slide, speed

    def _triads(self, values: Values) -> Tensor:
        """Two unit vectors across the axis, and the axis, of each joint (worlds, joints, 3, 3); of one without an axis x, y, z."""
        like = values["gravity"]
        stated = [values.get(f"joints.{name}.axis") for name in self.joints]
        upright = torch.tensor([axis is None for axis in stated], device=like.device)
        z = torch.zeros_like(like)
        z[:, 2] = 1.0
        direction = torch.stack([z if axis is None else axis for axis in stated], 1)
        axis = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
        away = torch.nn.functional.one_hot(axis.detach().abs().argmin(-1), 3).to(axis)  # a corner far from the axis
        across = away - axis * (away * axis).sum(-1, keepdim=True)
        across = across / torch.linalg.vector_norm(across, dim=-1, keepdim=True)
        triads = torch.stack([across, rotation.cross(axis, across), axis], 2)
        return torch.where(upright[:, None, None], torch.eye(3).to(triads), triads)


class _Tree(NamedTuple):
    """Bodies that joints place, parents first.

    Attributes:
        roots: Names of what is not placed and holds others.
        root: Which of them each body (n,) hangs from.
        parent: Of each body (n,), -1 for a root.
        ancestors: 1 where a column's body is a row's, or one of its ancestors (n, n).
    """

    roots: list[str]
    root: Tensor
    parent: Tensor
    ancestors: Tensor

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> "_Tree":
        """The tree of parents and children."""
        places = {child: k for k, (_, child) in enumerate(pairs)}
        roots = list(dict.fromkeys(parent for parent, _ in pairs if parent not in places))
        root, ancestors = [0] * len(pairs), torch.eye(len(pairs), dtype=torch.float64)
        for k, (parent, _) in enumerate(pairs):
            above = places.get(parent, -1)
            root[k] = roots.index(parent) if above < 0 else root[above]
            if above >= 0:
                ancestors[k] += ancestors[above]
        return cls(roots, torch.tensor(root), torch.tensor([places.get(parent, -1) for parent, _ in pairs]), ancestors)

    def of_parents(self, y: Tensor, base: Tensor) -> Tensor:
        """Values (worlds, n, ·) of the parent of each body: of y, or of `base` where it is a root."""
        return torch.where((self.parent < 0).to(y.device)[:, None], base, y[:, self.parent])

    def sums(self, y: Tensor) -> Tensor:
        """Sums of y (worlds, n, 3) over each body and its ancestors."""
        return self.ancestors.to(y) @ y

    def products(self, q: Tensor) -> Tensor:
        """Products of rotations (worlds, n, 4) of the ancestors of each body, the first one first, and of its own."""
        above = self.parent
        while bool((above >= 0).any()):
            inner = (above >= 0).to(q.device)[:, None]
            q = torch.where(inner, rotation.multiply(q[:, above], q), q)
            above = torch.where(above >= 0, above[above], above)
        return q


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
