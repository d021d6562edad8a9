"""Bodies of a scene that act on one another: one rollout for all of them, and one for each body that is alone.

Vertices of all soft bodies are concatenated; contacts and attachments of the scene are further
groups of elements behind those of the bodies.
"""

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from gradsim.engine.bound_function import BoundFunction, Uncopied
from gradsim.engine.operation import is_transformed
from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim.physics import closed_soft_inputs
from gradsim.physics.closed_inputs import ClosedRollout, closed_tangents, has_closed_form
from gradsim.physics.closed_soft_inputs import ClosedSoftInputs
from gradsim.physics.contact.broad_phase import Candidates
from gradsim.physics.contact.impact import IMPACT_STEP_FACTOR
from gradsim.physics.contact.point_sdf import distance
from gradsim.physics.contact.vertex_body import touch_body
from gradsim.physics.contact.vertex_triangle import touch_face
from gradsim.physics.coupled.implicit import ImplicitCoupled
from gradsim.physics.coupled.rollout import BODY, Coupled, nodes
from gradsim.physics.forces import attachment
from gradsim.physics.forces.base import Elements
from gradsim.physics.integrators import SOFT
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.island import ConstrainedIsland
from gradsim.physics.rigid.many.batching import share_drag
from gradsim.physics.rigid.rollout import RigidRollout
from gradsim.physics.soft.body import HasFrames, SoftBody
from gradsim.physics.system import STEP_SAFETY, Island, RolloutProgram, System, Values

LAW = ("stiffness", "dissipation", "friction_stiffness", "friction")
MOST_CLOSED = 16  # rollouts of one body
CONTACTS_PER_VERTEX = 4  # contacts that act on one vertex or triangle, for the bound of the step


class SingleBody(Island):
    """A group (see `group_into_islands`) of one body."""

    is_single = True

    def __init__(self, system: System):
        self.systems = (system,)
        self.bound = BoundFunction(system.inputs) if _does_same_calls(system) else None
        self.closed: dict[RolloutProgram, ClosedRollout | None] = Uncopied()

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> RolloutProgram:
        return self.systems[0].program(frames, substeps, dt, segment)

    def inputs(self, values: Values) -> list[Tensor]:
        return self.systems[0].inputs(values)

    def bound_inputs(self, values: Values, differentiated: Collection[str] = ()) -> list[Tensor]:
        return self.bound(values, differentiated) if self.bound else self.inputs(values)

    def inputs_along(self, values: Values, along: Values) -> tuple[list[Tensor], list[Tensor | None]] | None:
        (body,) = self.systems
        if not (self.bound and isinstance(body, RigidBody) and has_closed_form(body, values)):
            return None
        inputs = self.bound(values)
        slopes = closed_tangents(body, values, along, inputs)
        return None if slopes is None else (inputs, slopes)

    def roll_out(
        self, program: RolloutProgram, values: Values, steps: Tensor
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        plain = torch.is_grad_enabled() and not torch.compiler.is_compiling() and not is_transformed()
        if plain and (closed := self._closed_rollout(program, values)):
            tensors = [values[name] for name in closed.names]
            if any(x.requires_grad for x in tensors):
                return closed.run(*tensors, steps), ()
        return super().roll_out(program, values, steps)

    def closed_form(self, program: RolloutProgram, values: Values) -> ClosedRollout | ClosedSoftInputs | None:
        (body,) = self.systems
        if isinstance(body, SoftBody):
            return ClosedSoftInputs(body, values) if closed_soft_inputs.has_closed_form(body, values) else None
        return self._closed_rollout(program, values)

    def _closed_rollout(self, program: RolloutProgram, values: Values) -> ClosedRollout | None:
        (body,) = self.systems
        if not (self.bound and isinstance(body, RigidBody)):
            return None
        if program not in self.closed:
            if len(self.closed) >= MOST_CLOSED:
                self.closed.clear()
            self.closed[program] = None
            if isinstance(program, RigidRollout) and has_closed_form(body, values):
                self.closed[program] = ClosedRollout(body, self.bound, program, list(values))
        return self.closed[program]

    def sources(self, values: Values) -> dict[str, list[str]] | None:
        if not self.bound or any(x.device.type != "cpu" for x in values.values()):
            return None
        return {name: [name] for name in values}

    def begin(self, inputs: list[Tensor], start) -> list[Tensor]:
        (system,) = self.systems
        states = [start[system.name][name] for name in system.states]
        return [*states, *inputs[len(states) :]]

    def split(self, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
        return [list(outputs)]

    def stable_step(self, values: Values) -> float:
        return self.systems[0].stable_step(values)

    def recommended_step(self, values: Values) -> float:
        return self.systems[0].recommended_step(values)

    def check(self, values: Values) -> None:
        self.systems[0].check(values)


def _does_same_calls(system: System) -> bool:
    """True if inputs of the body come from the same calls of PyTorch, whatever its numbers: not of recordings and relaxed strains."""
    if isinstance(system, SoftBody):
        return not system.motion and system.count == len(system.rest)
    return isinstance(system, RigidBody) and system.motion is None


class CoupledIsland(Island):
    """A group of bodies that meet.

    Args:
        systems: The bodies.
        scene: Its contacts and attachments.
    """

    def __init__(self, systems: Sequence[System], scene):
        self.systems = tuple(systems)
        self.soft = [s for s in systems if isinstance(s, SoftBody)]
        self.hard = [s for s in systems if isinstance(s, RigidBody)]
        self.first, self.n = {}, 0
        for s in self.soft:
            self.first[s.name] = self.n
            self.n += len(s.rest)
        names = {s.name for s in systems}
        self.meetings = {n: m for n, m in scene.contacts.items() if set(m.between) <= names}
        self.holds = {n: a for n, a in scene.attachments.items() if {a.body, a.to} <= names}
        self.held = {n: self._vertices(a.body, a.region) for n, a in self.holds.items()}
        self.gripped = {n: self._frames(a.body, self.held[n]) for n, a in self.holds.items()}
        self._programs: dict[tuple, Coupled | ImplicitCoupled] = Uncopied()

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> RolloutProgram:
        key = (frames, substeps, dt, segment)
        if key not in self._programs:
            inner = [self._offset(e, self.first[s.name]) for s in self.soft for e in s.elements]
            faces, between = {}, []
            for name, meeting in self.meetings.items():
                for group, near in self._contact(name, meeting):
                    if near is not None:
                        faces[len(inner) + len(between)] = near
                    between.append(group)
            if self.holds:  # one group: code for each further one would take as long to compile
                grips = [(n, points) for n in self.holds for points in (self.held[n], self.gripped[n])]
                index = [
                    nodes(points + self.first[self.holds[n].body], self.n, self._place(self.holds[n].to))
                    for n, points in grips
                ]
                between.append(Elements(attachment.FORCE, torch.cat(index)))
            pinned = [k + self.first[s.name] for s in self.soft for k in s.pinned]
            windows = tuple(s.windows for s in self.hard)
            law = self.hard[0].law if self.hard else "continuous"
            groups = (*inner, *between)
            if len(self._programs) >= 32:
                self._programs.clear()
            program = Coupled(groups, frames, substeps, dt, windows, tuple(pinned), faces, law, segment)
            self._programs[key] = program if self.theta is None else ImplicitCoupled(program, self.theta, self._line())
        return self._programs[key]

    @property
    def theta(self) -> float | None:
        """θ of implicit steps, of rods; None of explicit ones."""
        return SOFT[self.soft[0].integrator].theta if self.soft else None

    def _line(self) -> list[int]:
        """Places of the vertices of all rods in one line."""
        return [self.first[s.name] + place for s in self.soft for place in s.matter.place]  # pyright: ignore[reportAttributeAccessIssue] -- rods

    def inputs(self, values: Values) -> list[Tensor]:
        soft, hard = [s.inputs(values) for s in self.soft], [s.inputs(values) for s in self.hard]
        share_drag(hard)
        worlds = max(len(x) for arrays in (*soft, *hard) for x in arrays)
        parameters = [x for arrays in soft for x in arrays[4:]]
        for name, meeting in self.meetings.items():
            numbers = [values[f"contacts.{name}.{key}"][:, None] for key in LAW]
            for kind, *which in self._sides(meeting):
                radius = self._radius(which[0], values)
                if kind == "faces":
                    parameters += [(values[f"contacts.{name}.thickness"] + radius)[:, None], *numbers]
                else:
                    half, rounding = self._solid(which[1], values)
                    rounding = rounding + radius + values.get(f"contacts.{name}.thickness", 0.0)
                    parameters += [*(y[:, None] for y in half.unbind(1)), rounding[:, None], *numbers]
        springs = [self._springs(name, soft, hard, values) for name in self.holds]
        parameters += [
            torch.cat([y.expand(worlds, *y.shape[1:]) for y in part], 1) for part in zip(*springs, strict=True)
        ]
        head = [torch.cat([arrays[k] for arrays in soft], 1) for k in range(3)]
        arguments = [*head, values["gravity"], *parameters, *(x for arrays in hard for x in arrays)]
        return [x.expand(worlds, *x.shape[1:]) for x in arguments]

    def begin(self, inputs: list[Tensor], start) -> list[Tensor]:
        arguments = list(inputs)
        if self.soft:
            arguments[:2] = [torch.cat([start[s.name][name] for s in self.soft], 1) for name in ("x", "v")]
        first = len(inputs) - len(BODY) * len(self.hard)
        for r, s in enumerate(self.hard):
            arguments[first + r * len(BODY) : first + r * len(BODY) + 4] = [start[s.name][name] for name in s.states]
        return arguments

    def split(self, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
        states = []
        for s in self.systems:
            if isinstance(s, SoftBody):
                rows = slice(self.first[s.name], self.first[s.name] + len(s.rest))
                states.append([y[:, :, rows] for y in outputs[:2]])
            else:
                k = 2 + 4 * self.hard.index(s)  # pyright: ignore[reportArgumentType] -- all others are rigid
                states.append(list(outputs[k : k + 4]))
        return states

    def stable_step(self, values: Values) -> float:
        """Stability bound from the bodies and the forces between them: bounds of k/m add up, and so do 1/h²."""
        alone = min(s.stable_step(values) for s in self.systems)
        return (alone**-2 + self._between(values, damped=False) ** -2) ** -0.5

    def recommended_step(self, values: Values) -> float:
        between = min(
            STEP_SAFETY * self._between(values, damped=False), IMPACT_STEP_FACTOR * self._between(values, damped=True)
        )
        return min(between, *(s.recommended_step(values) for s in self.systems))

    def check(self, values: Values) -> None:
        """Raise `InputError` if the start is impossible, or a vertex starts inside a rigid body."""
        for s in self.systems:
            s.check(values)
        for meeting in self.meetings.values():
            for kind, *which in self._sides(meeting):
                if kind == "solid":
                    self._check_outside(which[0], which[1], values)

    def _check_outside(self, soft: SoftBody, hard: RigidBody, values: Values) -> None:
        x, (at, q) = soft.inputs(values)[0][:, soft.matter.outer].detach(), hard.inputs(values)[:2]
        half, rounding = self._solid(hard, values)
        rounding = rounding + self._radius(soft, values)
        local = rotation.rotate(rotation.conjugate(q)[:, None], x - at[:, None])
        depth = rounding[:, None] - distance(local, half[:, None].expand_as(local))
        size = torch.linalg.vector_norm(soft.rest, dim=-1).max()
        if depth.max() > 1e-3 * size:
            vertex = int(soft.matter.outer[depth.amax(0).argmax()])
            raise InputError(
                f"`{soft.name}` starts {depth.max().item():.4g} m inside `{hard.name}` (its vertex {vertex}); move one of "
                f"them away from the other by that much."
            )

    def _between(self, values: Values, damped: bool) -> float:
        """Largest stable step of contacts and attachments alone: h² k/m + 2 h c/m < 4 with the sums over what meets.

        `damped`: with the dissipation of contacts at the speed of the impact (`contact/impact.py`).
        """
        stiffness = drag = 0.0
        largest = lambda name: values[name].detach().max().item()
        for name, meeting in self.meetings.items():
            share = CONTACTS_PER_VERTEX * sum(
                self._mobility(body, self._outer(body), values) for body in (meeting.between * 2)[:2]
            )
            stiff = largest(f"contacts.{name}.stiffness") * share
            stiffness += stiff
            drag += largest(f"contacts.{name}.friction_stiffness") * share
            if damped:
                speed = sum(self._system(body).impact_speed(values).max().item() for body in (meeting.between * 2)[:2])
                drag += largest(f"contacts.{name}.dissipation") * speed * math.sqrt(stiff)
        for name, hold in self.holds.items():
            springs = [(self.held[name], [values[f"attachments.{name}.{key}"] for key in ("stiffness", "damping")])]
            if len(self.gripped[name]):
                springs.append((self.gripped[name], list(self._grip(hold.body, values))))
            for points, spring in springs:
                share = self._mobility(hold.body, points, values)
                share += len(points) * self._mobility(hold.to, points, values)
                stiffness, drag = (
                    total + one.detach().max().item() * share
                    for total, one in zip((stiffness, drag), spring, strict=True)
                )
        return 4 / (drag + math.sqrt(drag**2 + 4 * stiffness)) if stiffness or drag else math.inf

    def _springs(self, name: str, soft: list[list[Tensor]], hard: list[list[Tensor]], values: Values) -> list[Tensor]:
        """Points (worlds, k, 3) [m], stiffness and damping (worlds, k) of an attachment; `soft` and `hard`: inputs of bodies."""
        hold, held, gripped = self.holds[name], self.held[name], self.gripped[name]
        x = soft[[s.name for s in self.soft].index(hold.body)][0][:, torch.cat([held, gripped])]
        at, q = hard[self._place(hold.to)][:2]
        points = rotation.rotate(rotation.conjugate(q)[:, None], x - at[:, None])
        springs = [
            values[f"attachments.{name}.{key}"][:, None].expand(-1, len(held)) for key in ("stiffness", "damping")
        ]
        if len(gripped):
            grip = self._grip(hold.body, values)
            springs = [torch.cat([y, z.expand(-1, len(gripped))], 1) for y, z in zip(springs, grip, strict=True)]
        return [points, *springs]

    def _grip(self, name: str, values: Values) -> tuple[Tensor, Tensor]:
        """Stiffness and damping of the springs that hold frame points of a rod."""
        matter = self._system(name).matter  # pyright: ignore[reportAttributeAccessIssue] -- soft bodies are held
        assert isinstance(matter, HasFrames)
        return matter.frame_grip(values)

    def _outer(self, name: str) -> Tensor:
        s = self._system(name)
        return s.matter.outer if isinstance(s, SoftBody) else torch.zeros(0, dtype=torch.long)

    def _mobility(self, name: str, points: Tensor, values: Values) -> float:
        """Largest 1/m [1/kg] of these vertices of a soft body, which is 0 where steps are implicit, or of a rigid body.

        With implicit steps a spring acts on a rigid body alone, at the distance r from its center: 1/m + r²/I.
        """
        s = self._system(name)
        mass = s.mass(values).detach()
        if isinstance(s, SoftBody):
            return 0.0 if self.theta is not None else 1 / mass[:, points].min().item()
        if self.theta is None:
            return 1 / mass.min().item()
        inverse = s.inputs(values)[BODY.index("inertia_inverse")].detach()
        return (
            1 / mass.min().item() + s.bounding_radius(values) ** 2 * torch.linalg.matrix_norm(inverse, 2).max().item()
        )

    def _sides(self, meeting) -> list[tuple]:
        """("faces", vertices' body, faces' body) both ways, or ("solid", soft body, rigid body)."""
        a, b = (self._system(name) for name in (meeting.between * 2)[:2])
        if isinstance(a, RigidBody) or isinstance(b, RigidBody):
            return [("solid", *((a, b) if isinstance(a, SoftBody) else (b, a)))]
        pairs = [(a, b)] if a is b else [(a, b), (b, a)]
        return [("faces", s, t) for s, t in pairs if len(t.matter.faces)]  # pyright: ignore[reportAttributeAccessIssue]

    def _contact(self, name: str, meeting) -> list[tuple[Elements, Candidates | None]]:
        groups = []
        for kind, soft, other in self._sides(meeting):
            vertices = soft.matter.outer + self.first[soft.name]
            if kind == "solid":
                index = nodes(vertices, self.n, self._place(other.name))
                groups.append((Elements(touch_body("continuous"), index), None))
                continue
            rest = torch.cat([s.rest * (s.body.scale or 1.0) for s in self.soft])
            faces = other.matter.faces + self.first[other.name]
            near = Candidates(vertices, faces, rest, meeting.thickness if soft is other else 0.0)
            groups.append((Elements(touch_face("continuous"), faces.new_zeros(0, 4)), near))
        if not groups:
            raise InputError(f"contacts.{name}: neither body has a surface of triangles that vertices could touch.")
        return groups

    def _offset(self, e: Elements, by: int) -> Elements:
        return Elements(e.force, e.index + by, e.rest)

    def _solid(self, hard: RigidBody, values: Values) -> tuple[Tensor, Tensor]:
        """Half of its size (worlds, 3) and rounding (worlds,) [m] of a ball or box."""
        shape, scale = hard.body.shape, values[f"{hard.name}.scale"]
        if shape.sphere:
            return scale.new_zeros(len(scale), 3), shape.sphere.radius * scale
        return 0.5 * scale.new_tensor(shape.box.size) * scale[:, None], torch.zeros_like(scale)

    def _radius(self, soft: SoftBody, values: Values) -> Tensor | float:
        """Radius (worlds,) [m] of the vertices of a rod; 0 of others."""
        return values[soft.radius_name] if soft.radius_name else 0.0

    def _vertices(self, name: str, region) -> Tensor:
        s = next(s for s in self.soft if s.name == name)
        places = s.rest.cpu().double().numpy()[: len(s.body.rest_vertices)]
        return torch.tensor(region.of(places), device=s.rest.device)

    def _frames(self, name: str, held: Tensor) -> Tensor:
        """Frame points of a rod's edges whose ends are both held; none of other bodies."""
        s = next(s for s in self.soft if s.name == name)
        frames = s.matter.frames_between(held.tolist()) if isinstance(s.matter, HasFrames) else []
        return torch.tensor([point for point, *_ in frames], dtype=torch.long, device=s.rest.device)

    def _system(self, name: str) -> SoftBody | RigidBody:
        return next(s for s in (*self.soft, *self.hard) if s.name == name)

    def _place(self, name: str) -> int:
        return [s.name for s in self.hard].index(name)


def group_into_islands(systems: Sequence[System], scene) -> tuple[Island, ...]:
    """The bodies in groups that no contact, attachment or joint crosses, each with the rollout of its bodies."""
    places = {s.name: k for k, s in enumerate(systems)}  # a group stands where its first member by name does
    first = {s.name: s.name for s in systems}  # towards the first body of its group

    def group_of(name: str) -> str:
        while first[name] != name:
            first[name] = first[first[name]]
            name = first[name]
        return name

    for link in scene.links:
        ends = [group_of(name) for name in link]
        for end in ends:
            first[group_of(end)] = group_of(ends[0])
    linked = set().union(*scene.links)
    groups: dict[str, list[System]] = {}
    for s in systems:
        groups.setdefault(group_of(s.name), []).append(s)
    islands = []
    for members in sorted(groups.values(), key=lambda members: places[min(s.name for s in members)]):
        if members[0].name not in linked:
            islands.append(SingleBody(members[0]))
            continue
        hard = [s for s in members if isinstance(s, RigidBody)]
        islands.append(ConstrainedIsland(hard, scene) if len(hard) == len(members) else CoupledIsland(members, scene))
    return tuple(islands)
