"""Joints between rigid bodies: what their rollout needs to know of them.

With A the parent, B the child, d = x_B + R_B p_B − x_A − R_A p_A, and (u, w, a) across and along the axis, in A:

    point row   (R_A b)·d = 0            axis row   (R_A b)·(R_B c) = 0
    revolute    point rows u, w, a;  axis rows (u, Qᵀa), (w, Qᵀa)
    prismatic   point rows u, w;     axis rows (u, Qᵀa), (w, Qᵀa), (u, Qᵀw)
    ball        point rows u, w, a        fixed   as both

The geometry (u, w, a, Q, p) is that of `joint_frames.py`. Along a coordinate φ, the angle or the displacement, acts

    −k z(φ − target) − c φ' + motor + k_limit (max(lower − φ, 0) − max(φ − upper, 0))

z is how far the spring is beyond the dead zone of a backlash (`joint_kernels.py`); a ball joint is damped by −c (ω_B − ω_A). An armature I adds a row of its own: −I φ'' along the coordinate (`constraint_kernels.py`).

Where the world's side of a joint follows a recording, A is a frame of its own (`recorded/frames.py`). A body that follows one is held in such a
frame by a fixed joint of no name in the scene, so that contacts and joints at the body see its motion, and it yields to none.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.joint_frames import ACROSS, AXIS, CHILD, THIRD, JointFrames, Moving, States, named
from gradsim.physics.rigid.many.columns import Column
from gradsim.physics.rigid.many.stack import BodyStack
from gradsim.physics.rigid.recorded.frames import RecordedFrame, recorded_frames, weld_name
from gradsim.physics.system import STEP_SAFETY, Values
from gradsim.scene.joint import WORLD, AnyJoint, Ball, Fixed, Prismatic, Revolute

VECTORS = ("b", "point_a", "point_b"), ("axis", "across_a", "across_b", "pivot_a", "pivot_b")  # of rows, coordinates
NUMBERS = ("spring", "target", "damping", "torque", "lower", "upper", "limit", "friction", "slip", "backlash")
MOVES = {Revolute: "turn", Prismatic: "slide", Ball: "ball"}
TIMED_NDIM = 3  # dimensions of a number that has a value for each frame interval
NO_END = 1e9  # [rad or m] where a joint without an end would have it
REFLECTED = {Revolute: "turning", Prismatic: "sliding"}  # rows of an armature; they are not constraints
NO_ARMATURE = 1e-30  # [kg m² or kg] below any armature: √I has a derivative at 0
BACKLASH_EDGE, LEAST_EDGE = 0.05, 1e-9  # of `joint_kernels.py`
MAX_START_OPENING = 1e-6  # relative: how far a loop may be open at the start


@dataclass(frozen=True, eq=False)
class Joints:
    """The joints of some rigid bodies.

    Args:
        bodies: The bodies, in the order that indices count; N, one past the last, is the world, and N + 1 + k the frame k of `recorded`.
        joints: The scene's joints among them, by name, and those of bodies that follow recordings.
        recorded: Frames that follow recordings, by the joint whose parent they are.
    """

    bodies: tuple[RigidBody, ...]
    joints: dict[str, AnyJoint]
    recorded: dict[str, RecordedFrame]

    @cached_property
    def rows(self) -> tuple[tuple[str, int, int], ...]:
        """ "point" or "axis", or "turning" or "sliding" of an armature, parent and child of each row."""
        return tuple((kind, *self._ends(name)) for name, joint in self.joints.items() for kind, *_ in _rows(joint))

    @cached_property
    def constraints(self) -> tuple[tuple[str, str], ...]:
        """ "point" or "axis", and the name of the joint, of each row that is a constraint."""
        reflected = REFLECTED.values()
        pairs = [(kind, name) for name, joint in self.joints.items() for kind, *_ in _rows(joint)]
        return tuple(pair for pair in pairs if pair[0] not in reflected)

    @cached_property
    def blocks(self) -> dict[str, list[int]]:
        """`row`, `left`, `block` and `added` of `engine/block_factor.py`, with the number of `points`: the rows of a joint are a block."""
        kinds = [[kind for kind, *_ in _rows(joint)] for joint in self.joints.values()]
        first: dict[int, int] = {}
        left = []
        for k, ends in enumerate(map(self._ends, self.joints)):
            for body in [end for end in ends if end < len(self.bodies)]:
                first.setdefault(body, k)
            left.append(min([k, *(first[body] for body in ends if body in first)]))
        before = itertools.accumulate((k - start + 1 for k, start in enumerate(left)), initial=0)
        return {
            "row": [0, *itertools.accumulate(map(len, kinds))],
            "points": [one.count("point") for one in kinds],
            "left": left,
            "block": [total - start for total, start in zip(before, left, strict=False)],
            "added": [int(kind in REFLECTED.values()) for kind, *_ in self.rows],
        }

    @cached_property
    def coordinates(self) -> tuple[tuple[str, int, int], ...]:
        """ "turn", "slide" or "ball", parent and child of each joint that moves."""
        return tuple((MOVES[type(joint)], *self._ends(name)) for name, joint in self._moving.items())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of `inputs`."""
        return (*VECTORS[0], *VECTORS[1], *NUMBERS)

    @cached_property
    def geometry(self) -> JointFrames:
        return JointFrames({body.name: body for body in self.bodies}, self.joints, self.recorded)

    def inputs(self, values: Values) -> list[Tensor]:
        """Numbers of rows and coordinates by `names`; differentiable.

        Of R rows: b, point_a, point_b (worlds, R, 3); point_b of an axis row is c. Of K coordinates: axis, across_a,
        across_b (unit vectors), pivot_a, pivot_b [m] (worlds, K, 3), and spring, target, damping, torque, lower, upper,
        limit, friction, slip, backlash (worlds, K); target and torque are (worlds, intervals, K) where one is given for each frame interval.
        """
        vectors, points = self.geometry.vectors(values), self.geometry.all_points(values)
        moving = self._moving_places
        which = (AXIS, ACROSS, CHILD + ACROSS)
        moves = [vectors[:, :, k].index_select(1, moving) for k in which] + [y.index_select(1, moving) for y in points]
        return [*self._row_vectors(vectors, points, values), *moves, *(self._number(key, values) for key in NUMBERS)]

    def _row_vectors(self, vectors: Tensor, points: tuple[Tensor, Tensor], values: Values) -> list[Tensor]:
        """b, point_a and point_b of all rows, see `inputs`."""
        places = self._row_places
        flat = vectors.flatten(1, 2)
        b = flat.index_select(1, places.vector)
        if any(kind in REFLECTED.values() for kind, *_ in self.rows):
            one = torch.ones_like(values["gravity"][:, 0])
            factors = []
            for name, node in self.joints.items():
                for kind, *_ in _rows(node):
                    armature = values[f"joints.{name}.armature"].reshape(-1) if kind in REFLECTED.values() else None
                    factors.append(one if armature is None else (armature + NO_ARMATURE).sqrt())
            b = b * torch.stack(factors, 1)[..., None]
        first, second = (torch.where(places.held, y.index_select(1, places.joint), 0.0) for y in points)
        child = torch.where(places.across, flat.index_select(1, places.other), second)
        return [b, first, child]

    @cached_property
    def _row_places(self) -> "_RowPlaces":
        of, first, device = {"across": ACROSS, "third": THIRD, "axis": AXIS}, 2 * CHILD, self.stack.points.device
        rows = [(first * k, k, b, c) for k, joint in enumerate(self.joints.values()) for _, b, c in _rows(joint)]
        kinds = [kind for kind, *_ in self.rows]
        index = lambda places: torch.tensor(places, dtype=torch.long, device=device)
        is_one_of = lambda *names: torch.tensor([kind in names for kind in kinds], device=device)[:, None]
        return _RowPlaces(
            index([k for _, k, *_ in rows]),
            index([at + of[b] for at, _, b, _ in rows]),
            index([at + CHILD + of.get(c, ACROSS) for at, *_, c in rows]),
            is_one_of("point", "sliding"),
            is_one_of("axis"),
        )

    @cached_property
    def _moving_places(self) -> Tensor:
        """Places of the joints that move among all."""
        joints = list(self.joints)
        rows = [joints.index(name) for name in self._moving]
        return torch.tensor(rows, dtype=torch.long, device=self.stack.points.device)

    @property
    def stack(self) -> BodyStack:
        """The bodies side by side."""
        return self.geometry.stack

    def start_together(self, start: Sequence[Tensor], values: Values) -> list[Tensor]:
        """x, q, v, l (worlds, bodies, ·) of all bodies at the start, with the children where their joints place them."""
        return self.geometry.place_together(start, values)

    def start(self, states: Mapping[str, Sequence[Tensor]], values: Values) -> dict[str, list[Tensor]]:
        """x, q, v, l (worlds, ·) of all bodies at the start, with the children where their joints place them."""
        return self.geometry.place(states, values)

    def coordinates_of(
        self, states: States, values: Values, times: Tensor | None = None
    ) -> dict[str, dict[str, Tensor]]:
        """Coordinates and rates of the joints that move, by name, from states (worlds, ...) or (worlds, frames, ...).

        Revolute: angle [rad], over frames without jumps of whole turns, and rate. Prismatic: displacement [m] and speed.
        Ball: rotation_vector, of at most half a turn, and angular_velocity, both in the parent's frame. Differentiable. `times` (worlds or 1, frames) [s] since the start place
        the frames that follow recordings; None: the start.
        """
        return self.geometry.coordinates(states, values, times)

    def energy(self, states: States, values: Values, times: Tensor | None = None) -> Tensor:
        """Energy of springs, limits and armatures (worlds, ...) [J], where `target` does not change over time.

        E = k Z(φ − target) + ½ k_limit (max(lower − φ, 0)² + max(φ − upper, 0)²) + ½ I φ'²,   Z' = z
        """
        total = values["gravity"].new_zeros(())
        for name, now in self.coordinates_of(states, values, times).items():
            joint = self.joints[name]
            if isinstance(joint, Revolute | Prismatic):
                phi = now[joint.start[0]]
                of = lambda key, n=name, y=phi: values[f"joints.{n}.{key}"].reshape(-1, *[1] * (y.ndim - 1))
                total = total + of("stiffness") * _half_square(phi - of("target"), of("backlash"))
                if joint.armature is not None:
                    total = total + 0.5 * of("armature") * now[joint.start[1]] ** 2
                for end, sign in (("lower", -1.0), ("upper", 1.0)):
                    if getattr(joint, end) is not None:
                        total = total + 0.5 * of("limit_stiffness") * (sign * (phi - of(end))).clamp(min=0.0) ** 2
        return total

    def has_drive(self, values: Values) -> bool:
        """True if a motor, a spring or a rotor acts, or something follows a recording: they may give energy to the bodies."""
        if self.recorded:
            return True
        driven = any(self._number(key, values).any() for key in ("spring", "torque"))
        return driven or any(getattr(joint, "armature", None) is not None for joint in self.joints.values())

    def stable_step(self, values: Values) -> float:
        """h² K + 2 h C < 4, with K and C the largest that springs and dampers add up to over the masses they move.

        A joint's own is k μ, with 1/μ = 1/μ' + armature and μ' the acceleration that its bodies would have from one unit if they were free,
        which is the most; two joints at one body add √(k₁ μ₁ k₂ μ₂) (Gershgorin).
        """
        if not self._moving:
            return math.inf
        names, at = list(self._moving), defaultdict(list)
        for k, name in enumerate(names):
            for body in self._body_names(name):
                at[body].append(k)
        near = [sorted({k for body in self._body_names(name) for k in at[body]}) for name in names]
        worst = math.inf
        roots = [y.sqrt().tolist() for y in self._stiffness_and_drag(values)]
        for k, others in enumerate(near):
            stiff, drag = (root[k] * sum(root[other] for other in others) for root in roots)
            if stiff or drag:
                worst = min(worst, 4 / (drag + math.sqrt(drag**2 + 4 * stiff)))
        return worst

    def arms(self, values: Values) -> dict[str, float]:
        """Least distance [m] of a pivot from the centre of mass of each body that a joint holds."""
        arms: dict[str, float] = {}
        columns = [
            torch.linalg.vector_norm(y.detach(), dim=-1).amin(0).tolist() for y in self.geometry.all_points(values)
        ]
        for joint, *lengths in zip(self.joints.values(), *columns, strict=True):
            for body, arm in zip(joint.between, lengths, strict=True):
                arms[body] = min(arm, arms.get(body, math.inf))
        return arms

    def recommended_step(self, values: Values) -> float:
        """Also resolves swings about the joints, ω² = g/ℓ, and the rates at the start, as of a pendulum.

        ℓ is how far from the child's centre of mass it is held; where it is held there, it swings with its parent, and
        ℓ is that of the parent.
        """
        g = torch.linalg.vector_norm(values["gravity"].detach(), dim=-1).max().item()
        fastest, resolving = 0.0, math.inf
        holding, held = (
            torch.linalg.vector_norm(y.detach(), dim=-1).amin(0).tolist() for y in self.geometry.all_points(values)
        )
        for joint, of_parent, of_child in zip(self.joints.values(), holding, held, strict=True):
            arm = of_child or (0.0 if joint.between[0] == WORLD else of_parent)
            fastest = max(fastest, math.sqrt(g / arm) if arm > 0 else 0.0)
        for frame in self.recorded.values():
            resolving = min(resolving, frame.recommended_step(values))
        keys = [f"joints.{name}.{key}" for name in self.joints for key in ("rate", "angular_velocity")]
        rates = [values[key].detach().flatten() for key in keys if key in values]
        fastest = max(fastest, torch.cat(rates).abs().max().item()) if rates else fastest
        return min(resolving, STEP_SAFETY * min(self.stable_step(values), 0.5 / fastest if fastest else math.inf))

    def check(self, values: Values) -> None:
        """Raise `InputError` if a joint that closes a loop is open at the start, or is about to open."""
        if not self.geometry.loops:
            return
        start = self.start({body.name: body.start(values) for body in self.bodies}, values)
        states = named(start)
        gap, rate = (y.detach().abs() for y in self.residual(states, values))
        of = [name for _, name in self.constraints]
        for name in self.geometry.loops:
            a, b = (self.geometry.moving(n, states, values) for n in self.geometry.ends(name))
            (at, u), (_, v) = (m.point(p) for m, p in zip((a, b), self.geometry.points(name, values), strict=True))
            size = max(torch.linalg.vector_norm(state[0] - at, dim=-1).max().item() for state in start.values())
            speed = (u.abs() + v.abs() + size * (a.w.abs() + b.w.abs())).max().item()
            rows = [k for k, n in enumerate(of) if n == name]
            if gap[:, rows].max() > MAX_START_OPENING * size:
                raise InputError(
                    f"joints.{name} closes a loop that is open by {gap[:, rows].max().item():.4g} m at the start; "
                    f"change its points or the coordinates of the other joints until they meet."
                )
            if rate[:, rows].max() > MAX_START_OPENING * speed:
                raise InputError(
                    f"joints.{name} closes a loop that opens at {rate[:, rows].max().item():.4g} m/s at the start; "
                    f"change the rates of the other joints until they agree, or leave them at 0."
                )

    def residual(self, states: States, values: Values, times: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Residual of each of the C constraints and its rate of change, (worlds, C) or (worlds, frames, C) [m or 1, and 1/s].

        `times` are as in `coordinates_of`.
        """
        moving, (parents, children) = self._all_moving(states, values, times), self._constraint_ends
        a, b = (Moving(*(y.index_select(-2, ends) for y in moving)) for ends in (parents, children))
        columns = self._row_vectors(self.geometry.vectors(values), self.geometry.all_points(values), values)
        vector, of_parent, of_child = (y.index_select(1, self._constraint_rows) for y in columns)
        if a.x.ndim == 4:
            vector, of_parent, of_child = vector[:, None], of_parent[:, None], of_child[:, None]
        u, turned = rotation.rotate(a.q, vector), rotation.rotate(b.q, of_child)
        (at, speed), (end, moves) = a.point(of_parent), b.point(of_child)
        is_point = self.is_point[:, None]
        e = torch.where(is_point, end - at, turned)
        e_rate = torch.where(is_point, moves - speed, rotation.cross(b.w, turned))
        return (u * e).sum(-1), (rotation.cross(a.w, u) * e + u * e_rate).sum(-1)

    def gaps(self, x: Tensor, q: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        """Residual of each of the C constraints (worlds, C) [m or 1], where nothing follows a recording.

        Args:
            x, q: Places and orientations of all bodies (worlds, bodies, ·).
            inputs: See `inputs`.
        """
        vector, of_parent, of_child = (y.index_select(1, self._constraint_rows) for y in inputs[: len(VECTORS[0])])
        still = torch.zeros_like(x[:, :1])
        upright = torch.cat([still, torch.ones_like(still[..., :1])], -1)
        places, turns = torch.cat([x, still], 1), torch.cat([q, upright], 1)
        (xa, qa), (xb, qb) = ((places.index_select(1, k), turns.index_select(1, k)) for k in self._constraint_ends)
        turned = rotation.rotate(qb, of_child)
        apart = xb + turned - xa - rotation.rotate(qa, of_parent)
        return (rotation.rotate(qa, vector) * torch.where(self.is_point[:, None], apart, turned)).sum(-1)

    @cached_property
    def is_point(self) -> Tensor:
        """True for each constraint (C,) that is about points [m]."""
        return torch.tensor([kind == "point" for kind, _ in self.constraints], device=self.stack.points.device)

    @cached_property
    def _constraint_rows(self) -> Tensor:
        rows = [k for k, (kind, *_) in enumerate(self.rows) if kind not in REFLECTED.values()]
        return torch.tensor(rows, dtype=torch.long, device=self.stack.points.device)

    @cached_property
    def _constraint_ends(self) -> tuple[Tensor, Tensor]:
        """Parent and child of each constraint (C,)."""
        parents, children = (
            torch.tensor([row[side] for row in self.rows], device=self.stack.points.device) for side in (1, 2)
        )
        return parents[self._constraint_rows], children[self._constraint_rows]

    def _all_moving(self, states: States, values: Values, times: Tensor | None) -> Moving:
        """Places, orientations, velocities and spins (worlds, ..., bodies, the world and frames, ·)."""
        x, q, v, momentum = (torch.stack([states[b.name][key] for b in self.bodies], -2) for key in RigidBody.states)
        inverse = self.stack.inertia_inverse(values)
        inverse = inverse[:, None] if x.ndim == 4 else inverse
        w = rotation.apply_turned(q, inverse, momentum)
        still = torch.zeros_like(x[..., :1, :])
        upright = torch.cat([still, torch.ones_like(still[..., :1])], -1)
        frames = [self.geometry.moving(name, states, values, times) for name in self.recorded]
        columns = [[frame[k][..., None, :] for frame in frames] for k in range(len(Moving._fields))]
        known = ((x, still), (q, upright), (v, still), (w, still))
        return Moving(*(torch.cat([*pair, *column], -2) for pair, column in zip(known, columns, strict=True)))

    @cached_property
    def _moving(self) -> dict[str, Revolute | Prismatic | Ball]:
        return {name: joint for name, joint in self.joints.items() if not isinstance(joint, Fixed)}

    @cached_property
    def _parameters(self) -> dict[str, tuple[Column, Tensor]]:
        """Parameters of all coordinates by the kernels' names of their numbers, and the place (K,) of each behind one that a joint does not have."""
        table = {}
        for key in NUMBERS:
            names = {n: _named(joint, key) for n, joint in self._moving.items()}
            stated = [n for n, joint in self._moving.items() if getattr(joint, names[n], None) is not None]
            places = [stated.index(n) + 1 if n in stated else 0 for n in names]
            column = Column([f"joints.{n}.{names[n]}" for n in stated])
            table[key] = column, torch.tensor(places, device=self.stack.points.device)
        return table

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: k for k, name in enumerate([*(body.name for body in self.bodies), WORLD])}

    def _ends(self, name: str) -> tuple[int, int]:
        parent, child = self.joints[name].between
        first = self._places[parent]
        if name in self.recorded:
            first = len(self.bodies) + 1 + list(self.recorded).index(name)
        return first, self._places[child]

    def _body_names(self, name: str) -> set[str]:
        return set(self.joints[name].between) - {WORLD}

    def _number(self, key: str, values: Values) -> Tensor:
        """A number of all coordinates (worlds, K), or (worlds, intervals, K) where one has a value for each interval."""
        column, has = self._parameters[key]
        like = values["gravity"][:, :1]
        if not column.names:
            return like.new_full((len(like), len(has)), _absent(key))
        parts = column.of(values) if column.is_even(values) else None
        if parts is None:  # of some there is a value for each interval
            columns = column.parts(values)
            intervals = next(y.shape[1] for y in columns if y.ndim == TIMED_NDIM)
            columns = [y[..., 0] if y.ndim > 1 else y[:, None] for y in columns]
            parts = torch.stack([y.expand(-1, intervals) for y in columns], 2)
        elif parts.ndim > 2:  # (worlds, K, 1): one for its one element, or (worlds, K, intervals, 1)
            parts = parts[..., 0].movedim(1, -1)
        if len(column.names) == len(has):
            return parts
        absent = like.new_full((1, 1), _absent(key)).expand(*parts.shape[:-1], 1)
        return torch.cat([absent, parts], -1).index_select(-1, has)

    def _stiffness_and_drag(self, values: Values) -> tuple[Tensor, Tensor]:
        """Largest stiffness and damping of each joint that moves, times μ, (joints,)."""
        values = {name: y.detach() for name, y in values.items()}
        places, moving = self._moving_places, list(self._moving.values())
        is_one = lambda kind: torch.tensor([isinstance(joint, kind) for joint in moving], device=places.device)
        slides, balls = is_one(Prismatic), is_one(Ball)
        vectors, points = self.geometry.vectors(values), self.geometry.all_points(values)
        inverse, light = self.stack.inertia_inverse(values), 1 / self.stack.mass(values)
        eigenvalues = torch.linalg.eigvalsh(inverse)[..., -1] if bool(balls.any()) else light
        mobility = torch.zeros_like(light[:, :1])
        for side, which in ((0, AXIS), (1, CHILD + AXIS)):
            ends = [joint.between[side] for joint in moving]
            body = torch.tensor([self._places[end] % len(self.bodies) for end in ends], device=places.device)
            moves = torch.tensor([end != WORLD for end in ends], device=places.device)
            axis, point = (y.index_select(1, places) for y in (vectors[:, :, which], points[side]))
            lever = torch.where(slides[:, None], rotation.cross(point, axis), axis)
            turning = torch.einsum("wki,wkij,wkj->wk", lever, inverse.index_select(1, body), lever)
            turning = torch.where(slides, turning + light.index_select(1, body), turning)
            turning = torch.where(balls, eigenvalues.index_select(1, body), turning)
            mobility = mobility + torch.where(moves, turning, 0.0)
        rotors = [values.get(f"joints.{name}.armature", torch.zeros_like(light[:, 0])) for name in self._moving]
        mobility = mobility / (1 + torch.stack([y.reshape(-1) for y in rotors], 1) * mobility)
        of = {key: self._number(key, values) for key in ("spring", "limit", "damping", "friction", "slip")}
        rubs = torch.tensor([bool(joint.friction) for joint in moving], device=places.device)
        drag = of["damping"] + torch.where(rubs, of["friction"] / of["slip"], 0.0)
        return ((of["spring"] + of["limit"]) * mobility).amax(0), (drag * mobility).amax(0)


class _RowPlaces(NamedTuple):
    """Sources of the numbers of rows (R,).

    Attributes:
        joint: Joint of each row.
        vector: Place of b among the vectors of all joints, see `JointFrames.vectors`.
        other: That of c.
        held: True for a row whose points are those of its joint (R, 1).
        across: True for a row of an axis (R, 1).
    """

    joint: Tensor
    vector: Tensor
    other: Tensor
    held: Tensor
    across: Tensor


def _half_square(offset: Tensor, backlash: Tensor) -> Tensor:
    """Z, half the squared stretch of a spring beyond a backlash b, smooth over |y| < e = b/20 as in `joint_kernels.py`.

    Z(ψ) = R(ψ − b/2) + R(−ψ − b/2),   R(y) = ½ max(y − e, 0)² + e max(y − e, 0) + (min(max(y, −e), e) + e)³/(12 e)
    """
    edge = (BACKLASH_EDGE * backlash).clamp(min=LEAST_EDGE)
    total = torch.zeros_like(offset)
    for side in (offset, -offset):
        past = side - 0.5 * backlash
        beyond, bend = (past - edge).clamp(min=0.0), torch.minimum(torch.maximum(past, -edge), edge) + edge
        total = total + 0.5 * beyond**2 + edge * beyond + bend**3 / (12 * edge)
    return total


def joints_of(bodies: Sequence[RigidBody], scene) -> Joints | None:
    """The joints of a scene among some of its rigid bodies; None without any."""
    known = {WORLD, *(body.name for body in bodies)}
    recorded = {name: motion for name, motion in scene.recorded.items() if name in known}
    joints: dict[str, AnyJoint] = {weld_name(n): Fixed(kind="fixed", between=(WORLD, n)) for n in recorded}
    joints |= {name: joint for name, joint in scene.joints.items() if set(joint.between) <= known}
    frames = recorded_frames({n: joint.motion for n, joint in joints.items()}, recorded)
    return Joints(tuple(bodies), joints, frames) if joints else None


def _rows(joint: AnyJoint) -> list[tuple[str, str, str]]:
    """ "point" or "axis", or the kind of an armature, of each row, and which vectors of its `Frame` b and c are."""
    points = ["across", "third", "axis"][: 2 if isinstance(joint, Prismatic) else 3]
    turns = [("across", "axis"), ("third", "axis"), ("across", "third")]
    count = {Revolute: 2, Ball: 0, Prismatic: 3, Fixed: 3}[type(joint)]
    armature = [(REFLECTED[type(joint)], "axis", "")] if getattr(joint, "armature", None) is not None else []
    return [*(("point", b, "") for b in points), *(("axis", b, c) for b, c in turns[:count]), *armature]


def _named(joint: AnyJoint, key: str) -> str:
    """Name of a number in the scene."""
    if key == "torque" and isinstance(joint, Prismatic):
        return "force"
    if key == "slip":
        return "friction_speed" if isinstance(joint, Prismatic) else "friction_rate"
    return {"spring": "stiffness", "limit": "limit_stiffness"}.get(key, key)


def _absent(key: str) -> float:
    """A number that a joint does not have."""
    return {"lower": -NO_END, "upper": NO_END, "slip": 1.0}.get(key, 0.0)
