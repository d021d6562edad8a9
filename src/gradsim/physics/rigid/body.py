"""A rigid body of a scene: mass properties from its mesh, contact points, pushes, and its surface.

    m = ρ V s³,   I = m s² I₁,   R = R₀ exp(θ),   L = R I Rᵀ ω,   drag f = -d |v| v

V and I₁ are volume and inertia per mass of the faceted solid at scale 1, about its centre of mass. A body may state its
principal moments J and their axes Q in place of that: I = s² Q J Qᵀ. Where it states its centre of mass c, that is a parameter: the
shape is then at p − c in the frame of the body, and I₁ = I₀ + |d|² 1 − d dᵀ with d from c to the centre of the shape. A body that a
joint places starts as `joints.py` says.
"""

import math
from collections.abc import Sequence
from functools import cache, cached_property

import torch
from torch import Tensor

from gradsim.engine.forward_mode import derivative
from gradsim.errors import InputError
from gradsim.geometry.surface import Part
from gradsim.numerics import rotation
from gradsim.numerics.pseudo_inertia import inertia_of
from gradsim.physics.appearance import look_of
from gradsim.physics.contact.impact import IMPACT_STEP_FACTOR, clip_length, fall_speed, height_above
from gradsim.physics.contact.laws import stiffening
from gradsim.physics.contact.point_sdf import distance
from gradsim.physics.integrators import RIGID
from gradsim.physics.rigid.contact_points import RigidContactPoints
from gradsim.physics.rigid.many.shape import about, shape_of
from gradsim.physics.rigid.rollout import CONTACT, DRAG, INPUTS, OBSTACLE, ROLLING, STATE, RigidRollout
from gradsim.physics.rigid.start_state import RigidStart
from gradsim.physics.static_geometry import ObstacleBody
from gradsim.physics.system import STEP_SAFETY, ObservationUnits, State, System, Values, centered
from gradsim.scene import contact
from gradsim.scene.joint import placing_joints

MAX_SPIN_ANGLE = 0.05  # angle of a step of free spin [rad]: rk4 keeps the energy to 1e-6 over 10 s
LEAST_TURN_RATE = 1e-9  # [1/s] of a body that neither turns nor brakes
MAX_START_DEPTH = 1e-3  # of its size: how far a body may start inside another thing
FREE_STEPS = 8  # steps per frame where nothing is stiff (`Model.recommended_substeps`)


_rollout = cache(RigidRollout)  # one operation for each kind of rollout


class RigidBody(System):
    """A `System` (see `system.py`) made from a scene's rigid body.

    Args:
        name: Its name.
        body: The scene's description of it.
        scene: The scene, for its grounds, gravity and integrator.
        vertex_offset: Number of surface vertices before its own.
        dtype: Precision of all its tensors.
        device: Where they live.
    """

    states = ("x", "q", "v", "l")
    velocities = ("v", "l")
    start_keys: tuple[str, ...] = ("position", "rotation_vector", "velocity", "angular_velocity")

    def __init__(self, name, body, scene, vertex_offset: int, dtype: torch.dtype, device: torch.device):
        self.name, self.body, self.scene = name, body, scene
        mesh, to = body.shape.mesh(), {"dtype": dtype, "device": device}
        self.shape = shape = shape_of(body, mesh, f"bodies.{name}.shape", to)
        self.volume, self.rest, self.points, self.radius = shape.volume, shape.rest, shape.points, shape.radius
        self.centre, self.stated_centre = shape.centre, shape.stated_centre  # of mass, in the coordinates of the mesh
        self.inertia_per_mass, self.inverse_inertia_per_mass = shape.inertia_per_mass, shape.inverse_inertia_per_mass
        self.motion = body.motion
        self.placed = name in placing_joints(scene.joints) or self.motion is not None
        self.quat = torch.tensor(body.quat_xyzw, **to)
        look = look_of(body, mesh, f"bodies.{name}", mesh.smooth, to)
        self.part = Part(name, slice(vertex_offset, vertex_offset + len(self.rest)), shape.faces, mesh.convex, look)
        self.grounds = list(scene.grounds) if len(self.points) else []
        obstacles = scene.obstacles.items() if len(self.points) else ()
        self.obstacles = [ObstacleBody(key, node, dtype, device) for key, node in obstacles]
        self.surfaces = [*self.grounds, *(o.name for o in self.obstacles)]
        laws = {surface.law for surface in scene.surfaces.values()}
        if len(laws) > 1:
            raise InputError(
                f"grounds and obstacles follow different contact laws ({', '.join(sorted(laws))}); give all the same law."
            )
        self.law = laws.pop() if laws else "continuous"
        self.damping_name = contact.LAWS[self.law]

    @property
    def windows(self) -> tuple[tuple[float, float], ...]:
        """Begin and end [s] of its pushes."""
        pairs = (push.window or (push.at, push.at) for push in self.body.pushes)
        return tuple((float(begin), float(end)) for begin, end in pairs)

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> RigidRollout:
        return _rollout(frames, substeps, dt, self.windows, self.law, self.scene.integrator_of(self.name), segment)

    @property
    def pushes(self):
        return self.body.pushes

    @property
    def contact_law(self) -> str:
        return self.law

    @property
    def start_state(self) -> RigidStart | None:
        return RigidStart(self) if self.motion is None else None

    @property
    def contact_points(self) -> RigidContactPoints | None:
        return RigidContactPoints(self.surfaces, self.law, len(self.points), self.inputs) if self.surfaces else None

    @property
    def in_free_flight(self) -> bool:
        return self.motion is None and not any(self.name in joint.between for joint in self.scene.joints.values())

    @cached_property
    def principal(self) -> Tensor:
        """Axes (3, 3) of stated moments of inertia."""
        return rotation.to_matrix(self.rest.new_tensor(self.body.inertia_quat_xyzw))

    def mass(self, values: Values) -> Tensor:
        """Mass (worlds,) [kg]."""
        if f"{self.name}.mass" in values:
            return values[f"{self.name}.mass"]
        return values[f"{self.name}.density"] * self.volume * values[f"{self.name}.scale"] ** 3

    def inertia(self, values: Values) -> Tensor:
        """About the centre of mass, in the body's axes (worlds, 3, 3) [kg m²]."""
        size = values[f"{self.name}.scale"] ** 2
        if f"{self.name}.inertia" in values:
            moments = size[:, None] * values[f"{self.name}.inertia"]
            return (self.principal * moments[:, None]) @ self.principal.T
        return (self.mass(values) * size)[:, None, None] * self._per_mass(values)

    def inertia_inverse(self, values: Values) -> Tensor:
        """Its inverse (worlds, 3, 3)."""
        size = values[f"{self.name}.scale"] ** 2
        if f"{self.name}.inertia" in values:
            moments = size[:, None] * values[f"{self.name}.inertia"]
            return (self.principal / moments[:, None]) @ self.principal.T
        known = not any(f"{self.name}.{key}" in values for key in ("inertia_log_cholesky", "centre_of_mass"))
        inverse = self.inverse_inertia_per_mass if known else torch.linalg.inv(self._per_mass(values))
        return inverse / (self.mass(values) * size)[:, None, None]

    def _per_mass(self, values: Values) -> Tensor:
        """Inertia per mass at scale 1 (3, 3), or of each world (worlds, 3, 3) [m²]."""
        base, centre = self.inertia_per_mass, values.get(f"{self.name}.centre_of_mass")
        if centre is not None:
            base = about(self.shape.uniform_inertia, self.shape.uniform_centre - centre)
        numbers = values.get(f"{self.name}.inertia_log_cholesky")
        return base if numbers is None else inertia_of(base, numbers)

    def center_in_shape(self, values: Values) -> Tensor:
        """Centre of mass (worlds or 1, 3) in the coordinates of the shape, at scale 1 [m]."""
        stated = values.get(f"{self.name}.centre_of_mass")
        return self.rest.new_tensor(self.centre)[None] if stated is None else stated

    def _shifted(self, points: Tensor, values: Values) -> Tensor:
        """Points (n, 3) of the shape about the centre of mass that `values` have (worlds or 1, n, 3), at scale 1 [m]."""
        stated = values.get(f"{self.name}.centre_of_mass")
        return points[None] if stated is None else points + (self.stated_centre - stated)[:, None]

    def shifted_points(self, values: Values) -> Tensor:
        """Contact points (worlds or 1, n, 3) about the centre of mass, at scale 1 [m]."""
        return self._shifted(self.points, values)

    def _shift(self, values: Values) -> float:
        """Largest shift of the shape by a centre of mass that is not the scene's [m]."""
        stated = values.get(f"{self.name}.centre_of_mass")
        return 0.0 if stated is None else torch.linalg.vector_norm(stated - self.stated_centre, dim=-1).max().item()

    def momentum(self, q: Tensor, spin: Tensor, values: Values) -> Tensor:
        """Angular momentum l (worlds, ..., 3) [kg m²/s] of the body that is turned by q and spins by ω [rad/s]."""
        local = rotation.rotate(rotation.conjugate(q), spin)
        return rotation.rotate(q, torch.einsum("wij,w...j->w...i", self.inertia(values), local))

    def spin(self, q: Tensor, momentum: Tensor, values: Values) -> Tensor:
        """Angular velocity ω = R I⁻¹ Rᵀ l (worlds, ..., 3) [rad/s], in the world's axes: the inverse of `momentum`."""
        local = rotation.rotate(rotation.conjugate(q), momentum)
        return rotation.rotate(q, torch.einsum("wij,w...j->w...i", self.inertia_inverse(values), local))

    def start(self, values: Values) -> list[Tensor]:
        """x, q, v and l (worlds, ·) at the start; of a body that a joint places, at rest at the origin."""
        worlds = len(values["gravity"])
        if self.placed:
            nothing = self.rest.new_zeros(worlds, 3)
            return [nothing, self.quat.expand(worlds, 4), nothing, nothing]
        of = lambda key: values[f"{self.name}.{key}"]
        q = rotation.multiply(rotation.exponential(of("rotation_vector")), self.quat.expand(worlds, 4))
        return [of("position"), q, of("velocity"), self.momentum(q, of("angular_velocity"), values)]

    def inputs(self, values: Values) -> list[Tensor]:
        return [*self.start(values), *self.inputs_after_start(values)]

    def inputs_after_start(self, values: Values) -> list[Tensor]:
        """Inputs of the rollout but for x, q, v and l, which are the first."""
        mass = self.mass(values)
        worlds = len(mass)
        scale = values[f"{self.name}.scale"][:, None]
        arrays = {
            "mass": mass,
            "inertia_inverse": self.inertia_inverse(values),
            "gravity": values["gravity"],
            "points": self._shifted(self.points, values) * scale[..., None],
            "radius": self.radius * scale,
            **dict(zip(("normal", "height"), self.planes(values, worlds), strict=True)),
            **{key: self.contact_number(key, values, worlds) for key in CONTACT},
            **dict(zip(("impulse", "push_point"), self.push_numbers(values, worlds), strict=True)),
            **dict(zip(OBSTACLE, self.solids(values, worlds), strict=True)),
            DRAG: self._drag(values, worlds),
            **dict(zip(ROLLING, self.rolling(values, worlds), strict=True)),
        }
        # kernels take them in this order; steps are the model's
        return [arrays[name] for name in INPUTS if name not in STATE and name != "step"]

    def vertices(self, states: list[Tensor], values: Values) -> Tensor:
        x, q = states[:2]
        return rotation.rotate(q[:, :, None], self._shape(values)[:, None]) + x[:, :, None]

    def _shape(self, values: Values) -> Tensor:
        """Vertices (worlds, n, 3) [m] in the frame of the body."""
        return self._shifted(self.rest, values) * values[f"{self.name}.scale"][:, None, None]

    def rigid_shape_and_pose(self, states: State, values: Values) -> tuple[Tensor, Tensor, Tensor]:
        return self._shape(values), states["x"], states["q"]

    def rest_tangent(self, values: Values, direction: Values) -> Tensor | None:
        scale, centre = (direction.get(f"{self.name}.{key}") for key in ("scale", "centre_of_mass"))
        change = None if scale is None else self._shifted(self.rest, values) * scale[:, None, None]
        if centre is None:
            return change
        shift = (-centre * values[f"{self.name}.scale"][:, None])[:, None].expand(-1, len(self.rest), 3)
        return shift if change is None else change + shift

    def marker_position(self, state: State, values: Values, point: Tensor | None) -> Tensor:
        if point is None:
            return state["x"]
        return state["x"] + rotation.rotate(state["q"], (point * values[f"{self.name}.scale"][:, None])[:, None])

    def center_of_mass(self, state: State, values: Values) -> Tensor:
        return state["x"]

    def velocity(self, state: State, values: Values) -> Tensor:
        return state["v"]

    def energy(self, state: State, values: Values) -> tuple[Tensor, Tensor] | None:
        if any(push.after_start for push in self.body.pushes):
            return None
        mass, spin = self.mass(values)[:, None], self.spin(state["q"], state["l"], values)
        moving = 0.5 * mass * state["v"].square().sum(-1) + 0.5 * (spin * state["l"]).sum(-1)
        return moving, -mass * (state["x"] * values["gravity"][:, None]).sum(-1)

    def after_impulses(self, state: State, values: Values) -> State:
        impulses, points = self.push_numbers(values, len(state["q"]))
        torque = torch.linalg.cross(rotation.rotate(state["q"], points), impulses).sum(1, keepdim=True)
        v = state["v"] + impulses.sum(1, keepdim=True) / self.mass(values)[:, None, None]
        return {**state, "v": v, "l": state["l"] + torque}

    def bounding_radius(self, values: Values) -> float:
        radius = torch.linalg.vector_norm(self.rest, dim=-1).max().item() + self._shift(values)
        return radius * values[f"{self.name}.scale"].max().item()

    def extrapolate(self, state: State, values: Values, time: float) -> dict[str, Tensor]:
        turn = rotation.exponential(time * self.spin(state["q"], state["l"], values))
        return {**state, "x": state["x"] + time * state["v"], "q": rotation.multiply(turn, state["q"])}

    def observables(self, state: State, values: Values, units: ObservationUnits) -> Tensor:
        """(x - x₀)/R, v/V, ω R/V and the first two columns of its rotation."""
        spin = self.spin(state["q"], state["l"], values)
        columns = rotation.to_matrix(state["q"])[..., :2].flatten(1)
        return torch.cat([*centered(self, state, values, units), spin * (units.radius / units.speed), columns], 1)

    def pose_difference(self, ahead: State, behind: State, size: float) -> Tensor:
        turn = rotation.logarithm(rotation.multiply(ahead["q"], rotation.conjugate(behind["q"])))
        return torch.cat([(ahead["x"] - behind["x"]) / size, turn], -1)

    def pose_tangent(self, state: State, tangent: State, size: float) -> Tensor:
        turn = 2 * rotation.multiply(tangent["q"], rotation.conjugate(state["q"]))[..., :3]
        return torch.cat([tangent["x"] / size, turn], -1)

    def velocity_tangent(self, state: State, tangent: State, values: Values, direction: Values, size: float) -> Tensor:
        """Derivative of v/size and of the angular velocity ω = R I⁻¹ Rᵀ l."""
        spin = lambda varied: [self.spin(varied["q"], varied["l"], {**values, **varied})]
        at = {"q": state["q"], "l": state["l"], **{name: values[name] for name in direction}}
        _, (turning,) = derivative(spin, at, {"q": tangent["q"], "l": tangent["l"], **direction})
        assert turning is not None
        return torch.cat([tangent["v"] / size, turning], -1)

    def transfer(self, state: State, values: Values, other: System, other_values: Values) -> dict[str, Tensor]:
        """With the angular momentum of the same spin under the other body's inertia."""
        if not isinstance(other, RigidBody):
            return dict(state)
        spin = self.spin(state["q"], state["l"], values)
        return {**state, "l": other.momentum(state["q"], spin, other_values)}

    def stable_step(self, values: Values) -> float:
        """From n k_e h²/m + 2 n c h/m < 4, c the drag of damping and friction, for the n vertices that may touch at once.

        n is the largest number of contact points in one plane face of the hull, at most 8; the effective mass of a
        point at arm r is m/(1 + m r² |I⁻¹|) where only one touches, so the tighter of the two counts. Dissipation does not
        count: it is 0 at touch. A recommended step resolves it at the speed of the impact (`contact/impact.py`).
        """
        return self.step_with_dissipation(values)

    def recommended_step(self, values: Values, speed: Tensor | None = None) -> float:
        """As of `System`; `speed` of the impact (worlds,) [m/s], None: `impact_speed`."""
        damped = self.step_with_dissipation(values, self.impact_speed(values) if speed is None else speed)
        contact = min(STEP_SAFETY * self.step_with_dissipation(values), IMPACT_STEP_FACTOR * damped)
        integrator = RIGID[self.scene.integrator_of(self.name)]
        contact *= integrator.stability
        if integrator.order == 1:  # the error in free spin is of first order at any step
            return contact
        if self.placed:
            return contact
        turn = MAX_SPIN_ANGLE / max(self.start_speed(values)[1].max().item(), self.braking(values), LEAST_TURN_RATE)
        return min(contact, turn) if turn < 1 / (FREE_STEPS * self.scene.timing.fps) else contact

    def braking(self, values: Values) -> float:
        """Largest rate at which air takes its speed, 2 d |v|/m [1/s], at the speed of an impact or of the start."""
        drag = values.get(f"{self.name}.{DRAG}")
        if drag is None:
            return 0.0
        speed = torch.maximum(self.start_speed(values)[0], self.impact_speed(values))
        return (2 * drag * speed / self.mass(values)).max().item()

    def impact_speed(self, values: Values) -> Tensor:
        """Largest speed (worlds,) [m/s] at which one of its points can meet a ground or obstacle.

        0 of a body that a joint places: `swing_speed` knows where.
        """
        if self.placed:
            return torch.zeros_like(self.mass(values)).detach()
        speed, spin = self.start_speed(values)
        return self._fall_speed(values[f"{self.name}.position"], speed, values) + spin * self._reach(values)

    def swing_speed(self, start: Sequence[Tensor], arm: float, values: Values) -> Tensor:
        """The same of a body that a joint places: as fast as it falls, and turning about a pivot.

        Args:
            start: Its x, q, v and l.
            arm: Distance of the pivot from its centre of mass [m].
            values: All parameters.
        """
        x, q, v, l = start
        norm = lambda y: torch.linalg.vector_norm(y.detach(), dim=-1)
        impulses, points = self.push_numbers(values, len(q))
        least = torch.linalg.eigvalsh(self.inertia(values).detach())[:, 0]
        speed = norm(v) + norm(impulses).sum(1) / self.mass(values).detach()
        spin = norm(self.spin(q, l, values)) + (norm(impulses) * norm(points)).sum(1) / least
        fall = self._fall_speed(x, speed, values)
        if arm > 0:
            spin = torch.maximum(spin, fall / arm)
        return fall + spin * self._reach(values)

    def _fall_speed(self, x: Tensor, speed: Tensor, values: Values) -> Tensor:
        """Largest speed (worlds,) [m/s] of its centre of mass, from x and the speed at the start."""
        height, gravity = height_above(self, x.detach(), values).detach(), values["gravity"].detach()
        return fall_speed(speed, height, gravity, clip_length(self.scene, values))

    def _reach(self, values: Values) -> Tensor:
        """Distance (worlds,) [m] of its farthest vertex from the centre of mass."""
        radius = torch.linalg.vector_norm(self.rest, dim=-1).max() + self._shift(values)
        return radius * values[f"{self.name}.scale"].detach()

    def start_speed(self, values: Values) -> tuple[Tensor, Tensor]:
        """Bounds of speed [m/s] and spin [rad/s] (worlds,) after all pushes: exact where all are blows at the start."""
        norm = lambda y: torch.linalg.vector_norm(y.detach(), dim=-1)
        _, q, velocity, momentum = self.start(values)
        impulses, points = self.push_numbers(values, len(q))
        if any(push.after_start for push in self.body.pushes):
            least = torch.linalg.eigvalsh(self.inertia(values).detach())[:, 0]
            speed = norm(velocity) + norm(impulses).sum(1) / self.mass(values).detach()
            return speed, norm(self.spin(q, momentum, values)) + (norm(impulses) * norm(points)).sum(1) / least
        velocity = velocity + impulses.sum(1) / self.mass(values)[:, None]
        momentum = momentum + torch.linalg.cross(rotation.rotate(q[:, None], points), impulses).sum(1)
        return norm(velocity), norm(self.spin(q, momentum, values))

    def step_with_dissipation(self, values: Values, speed: Tensor | None = None) -> float:
        """See `stable_step`; `speed` of the impact (worlds,), None: without the dissipation."""
        if not self.surfaces or not len(self.points):
            return math.inf
        mass, scale = self.mass(values), values[f"{self.name}.scale"]
        reach = (torch.linalg.vector_norm(self.points, dim=-1).max() + self._shift(values) + self.radius.max()) * scale
        pivot = 1 + mass * reach**2 / torch.linalg.eigvalsh(self.inertia(values))[:, 0]
        count = self.shape.touching
        worst = math.inf
        for surface in self.surfaces:
            k = stiffening(self.law) * self._of(surface, "stiffness", values)
            drag = self._of(surface, "friction_stiffness", values)
            loss = self._of(surface, self.damping_name, values)
            if any(f"{surface}.{name}_friction" in values for name in ROLLING):
                drag = 2 * drag  # of the torque, whose rate is at most k_f r²/I
            if self.damping_name == "damping":
                drag = drag + loss
            for n, m in ((count, mass), (1, mass / pivot)):
                # h² k/m + 2 h c/m = 4, the positive root
                a, b = n * k / m, 2 * n * drag / m
                if speed is not None and self.damping_name == "dissipation":
                    b = b + 2 * loss * speed * torch.sqrt(a)
                root = 8 / (b + torch.sqrt(b**2 + 16 * a))
                worst = min(worst, root.min().item())
        return worst

    def check(self, values: Values, start: Sequence[Tensor] | None = None) -> None:
        """Raise `InputError` if a contact point starts inside something by a thousandth of the body's size or more.

        Args:
            values: All parameters.
            start: x, q, v and l at the start, where they are known; those of a body that a joint places.
        """
        if not self.surfaces or not len(self.points):
            return
        start = start or self.start(values)
        inputs = dict(zip(INPUTS, [*start, *self.inputs_after_start(values)], strict=False))
        points, radius = inputs["points"], inputs["radius"][:, None]
        x, q = start[:2]
        at = (rotation.rotate(q[:, None], points) + x[:, None])[:, None]
        gap = (at * inputs["normal"][:, :, None]).sum(-1) - inputs["height"][:, :, None] - radius
        if self.obstacles:
            local = ((at - inputs["centre"][:, :, None])[..., None, :] * inputs["axis"][:, :, None]).sum(-1)
            away = distance(local, inputs["half"][:, :, None].expand_as(local))
            gap = torch.cat([gap, away - inputs["rounding"][:, :, None] - radius], 1)
        size = torch.linalg.vector_norm(self.rest, dim=-1).max() * values[f"{self.name}.scale"].max()
        depth, where = (-gap).flatten(2).max(2).values.max(0).values.max(0)
        if depth > MAX_START_DEPTH * size:
            name = self.surfaces[int(where)]
            out = (
                "raise its position by that much along the ground's normal, or lower the ground."
                if name in self.grounds
                else "move one of them away from the other by that much."
            )
            raise InputError(f"`{self.name}` starts {depth:.4g} m inside `{name}`; {out}")

    def planes(self, values: Values, worlds: int) -> list[Tensor]:
        """Normals (worlds, grounds, 3) and heights (worlds, grounds)."""
        if not self.grounds:
            return [self.rest.new_zeros(worlds, 0, 3), self.rest.new_zeros(worlds, 0)]
        normal = torch.stack([values[f"{g}.normal"] for g in self.grounds], 1)
        height = torch.stack([values[f"{g}.height"] + 1.0 * values[f"{g}.margin"] for g in self.grounds], 1)
        return [normal / torch.linalg.vector_norm(normal, dim=-1, keepdim=True), height]

    def solids(self, values: Values, worlds: int) -> list[Tensor]:
        """Centre, axis, half and rounding of the obstacles, (worlds, obstacles, ...)."""
        if self.obstacles:
            return [torch.stack(x, 1) for x in zip(*(o.inputs(values) for o in self.obstacles), strict=True)]
        return [self.rest.new_zeros(worlds, 0, *tail) for tail in ((3,), (3, 3), (3,), ())]

    def contact_number(self, key: str, values: Values, worlds: int) -> Tensor:
        """A number of the contact with each ground and obstacle (worlds, surfaces)."""
        if not self.surfaces:
            return self.rest.new_zeros(worlds, 0)
        key = self.damping_name if key == "damping" else key
        return torch.stack([self._of(surface, key, values) for surface in self.surfaces], 1)

    def _of(self, surface: str, key: str, values: Values) -> Tensor:
        """A number of the contact: the body's own, where it has one."""
        return values.get(f"{self.name}.{key}", values[f"{surface}.{key}"])

    def _drag(self, values: Values, worlds: int) -> Tensor:
        """Drag (worlds, 1) [kg/m], or (worlds, 0) for none."""
        drag = values.get(f"{self.name}.{DRAG}")
        return self.rest.new_zeros(worlds, 0) if drag is None else drag[:, None]

    def rolling(self, values: Values, worlds: int) -> list[Tensor]:
        """Levers of rolling and of spinning friction on each ground and obstacle (worlds, surfaces) [m]; (worlds, 0) where none has any."""
        keys = [[f"{surface}.{name}_friction" for surface in self.surfaces] for name in ROLLING]
        if not any(key in values for row in keys for key in row):
            return [self.rest.new_zeros(worlds, 0)] * 2
        none = self.rest.new_zeros(worlds)
        return [torch.stack([values.get(key, none) for key in row], 1) for row in keys]

    def push_numbers(self, values: Values, worlds: int) -> list[Tensor]:
        impulses, points = [self.rest.new_zeros(worlds, 0, 3)], [self.rest.new_zeros(worlds, 0, 3)]
        for k, push in enumerate(self.body.pushes):
            if push.force is not None:
                begin, end = push.window
                impulses.append(values[f"{self.name}.pushes.{k}.force"][:, None] * (end - begin))
            else:
                impulses.append(values[f"{self.name}.pushes.{k}.impulse"][:, None])
            points.append(self.rest.new_tensor(push.point).expand(worlds, 1, 3))
        return [torch.cat(impulses, 1), torch.cat(points, 1)]
