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
from gradsim.physics.rigid.many.columns import Column
from gradsim.physics.rigid.many.stack import BodyStack
from gradsim.physics.rigid.recorded.frames import RecordedFrame, weld_name
from gradsim.physics.system import Values
from gradsim.scene.joint import WORLD, AnyJoint, Ball, Prismatic, Revolute, placing_joints

ACROSS, THIRD, AXIS, CHILD = 0, 1, 2, 3  # places in `JointFrames.vectors`; those of the child come behind
AXIAL = (Revolute, Prismatic)  # joints with an axis
UP = (0.0, 0.0, 1.0)  # the axis of a joint without one
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
        self.stack = BodyStack(list(self.bodies.values()))
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
        columns = turns.unbind(1), self._vectors(values, turns).unbind(1)
        for name, turn, six in zip(self.joints, *columns, strict=True):
            across, third, axis, *child = six.unbind(1)
            frames[name] = Frame(across, third, axis, turn, child[0], child[1], child[2])
        return frames

    def vectors(self, values: Values) -> Tensor:
        """`across`, `third` and `axis` of the parents, then of the children, of every joint (worlds, joints, 6, 3)."""
        return self._vectors(values, self._turns(values))

    def _turns(self, values: Values) -> Tensor:
        """Q of every joint (worlds, joints, 4)."""
        worlds = len(values["gravity"])
        turns = self._child_quats.expand(worlds, -1, -1)
        if not self.loops:
            return turns
        start = self.place_together(self.stack.start(values), values)
        columns = list(turns.unbind(1))
        for name in self.loops:
            parent, child = (self._at_start(n, start, values) for n in self.ends(name))
            columns[list(self.joints).index(name)] = rotation.multiply(rotation.conjugate(parent.q), child.q)
        return torch.stack(columns, 1)

    @cached_property
    def _child_quats(self) -> Tensor:
        """Orientation of the child of every joint as the scene states it (joints, 4)."""
        return torch.stack([self.bodies[joint.between[1]].quat for joint in self.joints.values()])

    def _vectors(self, values: Values, turns: Tensor) -> Tensor:
        triads = self._triads(values)
        return torch.cat([triads, rotation.rotate(rotation.conjugate(turns)[:, :, None], triads)], 2)

    def all_points(self, values: Values) -> tuple[Tensor, Tensor]:
        """Points where parents and children of all joints are held (worlds, joints, 3) [m], in their frames."""
        if self._points_are_stated:
            parent, child = (column.of(values) for column in self._point_columns)
        else:
            worlds = len(values["gravity"])
            pairs = zip(*(self._stated_points(name, values) for name in self.joints), strict=True)
            parent, child = (torch.stack([y.expand(worlds, 3) for y in ys], 1) for ys in pairs)
        return parent * self._scales(0, values)[..., None], child * self._scales(1, values)[..., None]

    @cached_property
    def _point_columns(self) -> list[Column]:
        return [Column([f"joints.{name}.{side}_point" for name in self.joints]) for side in ("parent", "child")]

    @cached_property
    def _points_are_stated(self) -> bool:
        """True if the points of all joints are parameters, from centres of mass."""
        return all(
            joint.points_from == "centre_of_mass" and name != weld_name(joint.between[1])
            for name, joint in self.joints.items()
        )

    def _scales(self, side: int, values: Values) -> Tensor:
        """Scale of the body at one side of each joint (worlds, joints), 1 of the world."""
        one = torch.ones_like(values["gravity"][:, :1])
        scales = torch.cat([self.stack.numbers("scale", values), one], 1)
        return scales.index_select(1, self._end_places[side])

    @cached_property
    def _end_places(self) -> list[Tensor]:
        """Places of the parents of all joints (joints,), and of their children; that of the world is behind the bodies."""
        places = {name: k for k, name in enumerate([*self.bodies, WORLD])}
        ends = [[places[joint.between[side]] for joint in self.joints.values()] for side in (0, 1)]
        return [torch.tensor(column, device=self.stack.points.device) for column in ends]

    def place(self, start: Mapping[str, Sequence[Tensor]], values: Values) -> dict[str, list[Tensor]]:
        """x, q, v, l (worlds, ·) of all bodies at the start by name, see `place_together`."""
        states = self.place_together(self.stack.states(start), values)
        return {name: [y[:, k] for y in states] for k, name in enumerate(self.bodies)}

    def place_together(self, start: Sequence[Tensor], values: Values) -> list[Tensor]:
        """x, q, v, l (worlds, bodies, ·) at the start, with the children where their joints place them.

        Of all joints at once: orientations are products along the chain of parents, of half as many with each round, and
        spins, places and velocities sums over a body and its ancestors.
        """
        if not self.placed:
            return list(start)
        tree = self._tree
        bases = [self._at_start(name, start, values) for name in tree.roots]
        x, q, v, w = (torch.stack(y, 1).index_select(1, tree.root) for y in zip(*bases, strict=True))
        held, holding = (y.index_select(1, tree.joint) for y in self.all_points(values))
        turn, rate, slide, speed = self._coordinates(values)
        local = rotation.multiply(rotation.exponential(turn), self.stack.quat.index_select(0, tree.child))
        orientation = rotation.multiply(q, tree.products(local))
        before = tree.of_parents(orientation, q)
        spin = w + tree.sums(rotation.rotate(before, rate))
        arm = rotation.rotate(orientation, holding)
        reach = rotation.rotate(before, held + slide)
        at = x + tree.sums(reach - arm)
        moving = rotation.cross(tree.of_parents(spin, w), reach) + rotation.rotate(before, speed)
        v = v + tree.sums(moving - rotation.cross(spin, arm))
        inertia = self.stack.inertia(values).index_select(1, tree.child)
        momentum = rotation.apply_turned(orientation, inertia, spin)
        children = (at, orientation, v, momentum)
        return [torch.cat([y, z], 1).index_select(1, tree.order) for y, z in zip(start, children, strict=True)]

    @cached_property
    def _tree(self) -> "_Tree":
        pairs = [(self.ends(name)[0], child) for child, name in self.placed.items()]
        joints = [list(self.joints).index(name) for name in self.placed.values()]
        return _Tree.of(pairs, joints, list(self.bodies), self.stack.points.device)

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

    def _at_start(self, name: str, start: Sequence[Tensor], values: Values) -> Moving:
        """`moving` at the start, from x, q, v and l (worlds, bodies, ·)."""
        k = list(self.bodies).index(name) if name in self.bodies else 0  # the others are of that form, too
        key = name if name in self.bodies else next(iter(self.bodies))
        return self.moving(name, named({key: [y[:, k] for y in start]}), values)

    def _coordinates(self, values: Values) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rotation and its rate, displacement and its speed (worlds, joints, 3), of each child that a joint places, in the
        parent's frame."""
        places = self._coordinate_places
        nothing = torch.zeros_like(values["gravity"])[:, None]
        firsts, seconds = [nothing], [nothing]
        if places.along:
            axes = self._triads(values)[:, :, 2].index_select(1, places.axes)
            for target, column in zip((firsts, seconds), places.along, strict=True):
                target.append(column.of(values)[..., None] * axes)
        if places.balls:
            for target, column in zip((firsts, seconds), places.balls, strict=True):
                target.append(column.of(values))
        first, second = torch.cat(firsts, 1), torch.cat(seconds, 1)
        turns, slides = places.turns, places.slides
        pairs = ((first, turns), (second, turns), (first, slides), (second, slides))
        turn, rate, slide, speed = (y.index_select(1, index) for y, index in pairs)
        return turn, rate, slide, speed

    @cached_property
    def _coordinate_places(self) -> "_CoordinatePlaces":
        names, device = list(self.placed.values()), self.stack.points.device
        along = [n for n in names if isinstance(self.joints[n], AXIAL)]
        balls = [n for n in names if isinstance(self.joints[n], Ball)]
        place = {name: k for k, name in enumerate([*along, *balls], 1)}
        slides = {n for n in along if isinstance(self.joints[n], Prismatic)}
        order = list(self.joints)
        axes, turns, slide = (
            torch.tensor(rows, dtype=torch.long, device=device)
            for rows in (
                [order.index(n) for n in along],
                [0 if n in slides else place.get(n, 0) for n in names],
                [place[n] if n in slides else 0 for n in names],
            )
        )
        columns = [
            [Column([f"joints.{n}.{self.joints[n].start[k]}" for n in group]) for k in (0, 1)] if group else []
            for group in (along, balls)
        ]
        return _CoordinatePlaces(columns[0], columns[1], axes, turns, slide)

    @cached_property
    def _axes(self) -> tuple[Column, Tensor, Tensor]:
        """Axes of the joints that have one; for each joint (joints,) its place behind `UP`, and True for one without."""
        names, device = [n for n, joint in self.joints.items() if isinstance(joint, AXIAL)], self.stack.points.device
        order = [names.index(n) + 1 if n in names else 0 for n in self.joints]
        upright = [place == 0 for place in order]
        column = Column([f"joints.{n}.axis" for n in names])
        return column, torch.tensor(order, device=device), torch.tensor(upright, device=device)

    def _triads(self, values: Values) -> Tensor:
        """Two unit vectors across the axis, and the axis, of each joint (worlds, joints, 3, 3); of one without an axis x, y, z."""
        like, (along, order, upright) = values["gravity"], self._axes
        columns = [like.new_tensor(UP).expand(len(like), 1, 3)]
        direction = torch.cat([*columns, along.of(values)] if along.names else columns, 1).index_select(1, order)
        axis = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
        away = torch.nn.functional.one_hot(axis.detach().abs().argmin(-1), 3).to(axis)  # a corner far from the axis
        across = away - axis * (away * axis).sum(-1, keepdim=True)
        across = across / torch.linalg.vector_norm(across, dim=-1, keepdim=True)
        triads = torch.stack([across, rotation.cross(axis, across), axis], 2)
        return torch.where(upright[:, None, None], torch.eye(3).to(triads), triads)


class _CoordinatePlaces(NamedTuple):
    """Places of the coordinates of the joints that place bodies.

    Attributes:
        along: Coordinates and rates of joints with an axis.
        balls: Those of ball joints.
        axes: Place of those with an axis among all joints (n,).
        turns: Row of the rotation of each joint that places a body: 0 for none, then those of `along`, then of `balls`.
        slides: The same of the displacement.
    """

    along: list[Column]
    balls: list[Column]
    axes: Tensor
    turns: Tensor
    slides: Tensor


class _Tree(NamedTuple):
    """Bodies that joints place, parents first.

    Attributes:
        roots: Names of what is not placed and holds others.
        root: Which of them each body (n,) hangs from.
        joint: The joint of each (n,) among all.
        child: Its place among all bodies (n,).
        order: For each of all bodies (m,) its place among all bodies and the n behind them.
        inner: True for each that hangs from another one (n, 1).
        parent: The parent of each (n,); 0 for those of a root.
        rounds: Ancestor of each (n,) at a distance of 1, 2, 4 and so on, and True where there is one (n, 1).
        ancestors: 1 where a column's body is a row's, or one of its ancestors (n, n).
    """

    roots: list[str]
    root: Tensor
    joint: Tensor
    child: Tensor
    order: Tensor
    inner: Tensor
    parent: Tensor
    rounds: list[tuple[Tensor, Tensor]]
    ancestors: Tensor

    @classmethod
    def of(
        cls, pairs: Sequence[tuple[str, str]], joints: Sequence[int], bodies: Sequence[str], device: torch.device
    ) -> "_Tree":
        """The tree of parents and children, with the joint of each pair, among bodies."""
        places = {child: k for k, (_, child) in enumerate(pairs)}
        roots = list(dict.fromkeys(parent for parent, _ in pairs if parent not in places))
        root, ancestors = [0] * len(pairs), torch.eye(len(pairs), dtype=torch.float64)
        above = [places.get(parent, -1) for parent, _ in pairs]
        for k, (parent, _) in enumerate(pairs):
            root[k] = roots.index(parent) if above[k] < 0 else root[above[k]]
            if above[k] >= 0:
                ancestors[k] += ancestors[above[k]]
        order = [len(bodies) + places[name] if name in places else k for k, name in enumerate(bodies)]
        child = [bodies.index(name) for _, name in pairs]
        rounds, far = [], list(above)
        while max(far) >= 0:
            rounds.append(far)
            far = [far[k] if k >= 0 else k for k in far]
        index = lambda rows: torch.tensor(rows, device=device)
        masked = [(index(far).clamp(min=0), (index(far) >= 0)[:, None]) for far in rounds]
        inner, parent = (index(above) >= 0)[:, None], index(above).clamp(min=0)
        return cls(
            roots, index(root), index(joints), index(child), index(order), inner, parent, masked, ancestors.to(device)
        )

    def of_parents(self, y: Tensor, base: Tensor) -> Tensor:
        """Values (worlds, n, ·) of the parent of each body: of y, or of `base` where it is a root."""
        return torch.where(self.inner, y.index_select(1, self.parent), base)

    def sums(self, y: Tensor) -> Tensor:
        """Sums of y (worlds, n, 3) over each body and its ancestors."""
        return self.ancestors.to(y) @ y

    def products(self, q: Tensor) -> Tensor:
        """Products of rotations (worlds, n, 4) of the ancestors of each body, the first one first, and of its own."""
        for above, inner in self.rounds:
            q = torch.where(inner, rotation.multiply(q.index_select(1, above), q), q)
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
