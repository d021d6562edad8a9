"""Rigid bodies of a scene that touch or hold one another: one rollout for all of them (`multibody.py`)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.numerics import rotation
from gradsim.physics.integrators import RIGID
from gradsim.physics.rigid.batching import START, BodyStack
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.joints import joints_of
from gradsim.physics.rigid.multibody import Bodies
from gradsim.physics.rigid.pairs import make_pairs
from gradsim.physics.rigid.recorded.frames import weld_name
from gradsim.physics.rigid.recorded.rollout import RecordedBodies
from gradsim.physics.system import Island, Values

MAX_JOINT_OPENING = 0.2  # of a body's radius, or of 1 rad: a joint that is open by more no longer holds
JOINT_STEP_DIVISOR = 8  # two bars on ball joints keep their energy within a hundredth over ten seconds


class ConstrainedIsland(Island):
    """A group (see `islands.group_into_islands`) of rigid bodies.

    Args:
        systems: The bodies.
        scene: Its contacts and joints.
    """

    systems: tuple[RigidBody, ...]

    def __init__(self, systems: Sequence[RigidBody], scene):
        self.systems = tuple(systems)
        self.joints = joints_of(systems, scene)
        self.pairs = make_pairs(systems, scene)
        self.integrator = scene.integrator_of(systems[0].name)
        self.recorded = list(self.joints.recorded.values()) if self.joints else []
        self.timing = scene.timing
        self.stack = BodyStack(systems)
        self._programs: dict[tuple, Bodies | RecordedBodies] = {}

    def program(self, frames: int, substeps: int, dt: float, segment: int = 1) -> Bodies | RecordedBodies:
        key = (frames, substeps, dt, segment)
        if key not in self._programs:
            if len(self._programs) >= 32:
                self._programs.clear()
            windows = tuple(s.windows for s in self.systems)
            law = self.systems[0].law
            program = Bodies(frames, substeps, dt, windows, self.pairs, self.joints, law, self.integrator, segment)
            first_order = RIGID[self.integrator].order == 1
            self._programs[key] = RecordedBodies(program, self.recorded, first_order) if self.recorded else program
        return self._programs[key]

    def inputs(self, values: Values) -> list[Tensor]:
        arguments = [*self.stack.states(self._start(values)), *self.stack.inputs_after_start(values)]
        for links in (self.pairs, self.joints):
            arguments += links.inputs(values) if links else []
        arguments += [frame.samples(values) for frame in self.recorded]
        worlds = max(len(x) for x in arguments)
        return [x if len(x) == worlds else x.expand(worlds, *x.shape[1:]) for x in arguments]

    def begin(self, inputs: list[Tensor], start) -> list[Tensor]:
        states = {s.name: [start[s.name][name] for name in START] for s in self.systems}
        return [*self.stack.states(states), *inputs[len(START) :]]

    def split(self, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
        return [list(states) for states in zip(*(y.unbind(2) for y in outputs), strict=True)]

    def stable_step(self, values: Values) -> float:
        """Largest stable step [s] of the bodies with their contacts and joints: bounds of k/m add up, so 1/h² do."""
        between = [links.stable_step(values) for links in (self.pairs, self.joints) if links]
        alone = min(s.stable_step(values) for s in self.systems)
        total = sum(step**-2 for step in (alone, *between))
        return total**-0.5 if total else float("inf")

    def recommended_step(self, values: Values) -> float:
        """Steps of joints by a method of first order are shorter by `JOINT_STEP_DIVISOR` than what resolves swings by a higher order."""
        finer, speeds = JOINT_STEP_DIVISOR if RIGID[self.integrator].order == 1 else 1, self._impact_speeds(values)
        steps = [s.recommended_step(values, speed) for s, speed in zip(self.systems, speeds, strict=True)]
        if self.joints:
            steps.append(self.joints.recommended_step(values) / finer)
        if self.pairs:
            steps.append(self.pairs.recommended_step(values, speeds))
        return min(steps)

    def check(self, values: Values) -> None:
        """Raise `InputError` if a joint is open at the start, or a body is inside a ground or another."""
        start = self._start(values)
        for s in self.systems:
            s.check(values, start[s.name])
        if self.joints:
            self.joints.check(values)
        if self.pairs:
            x, q = (torch.stack([start[s.name][k] for s in self.systems], 1) for k in (0, 1))
            self.pairs.check(values, x, q)

    def has_drive(self, values: Values) -> bool:
        return bool(self.joints and self.joints.has_drive(values))

    def open_joint_message(self, states, values: Values) -> str:
        if not self.joints:
            return ""
        island_states = {s.name: states[s.name] for s in self.systems}
        last = {name: {key: y[:, -1:].detach() for key, y in state.items()} for name, state in island_states.items()}
        with torch.no_grad():
            end = next(iter(states.values()))["x"].shape[1] - 1
            times = values["timing.offset"] + values["timing.rate"] * self.timing.time(end)
            away = self.joints.residual(last, values, times[:, None])[0].abs()[:, 0]  # (worlds, rows)
            scales = torch.stack([values[f"{s.name}.scale"].max() for s in self.systems])
            size = (self.stack.reach * scales).max()
        apart = away / torch.where(
            torch.tensor([kind == "point" for kind, _ in self.joints.constraints], device=away.device), size, 1.0
        )
        if apart.max() <= MAX_JOINT_OPENING:
            return ""
        world, row = divmod(int(apart.argmax()), apart.shape[1])
        kind, joint = self.joints.constraints[row]
        much = f"by {away[world, row].item():.2g} {'m' if kind == 'point' else 'of its axis'}"
        return f"the joint `{joint}` comes apart, {much} at the last frame of world {world}"

    def _impact_speeds(self, values: Values) -> list[Tensor]:
        """Largest speed (worlds,) [m/s] at which a point of each body can meet something."""
        if not self.joints or not any(s.placed for s in self.systems):
            return [s.impact_speed(values) for s in self.systems]
        start, arms = self._start(values), self.joints.arms(values)
        speeds = [
            s.swing_speed(start[s.name], arms.get(s.name, 0.0), values) if s.placed else s.impact_speed(values)
            for s in self.systems
        ]
        for name, frame in self.joints.recorded.items():
            speed, spin = frame.speeds(values)
            for k, s in enumerate(self.systems):
                if s.motion is not None and weld_name(s.name) == name:
                    speeds[k] = speed + spin * s.bounding_radius(values)
                elif s.motion is None:  # what hangs at it may be as fast besides
                    speeds[k] = speeds[k] + speed
        return speeds

    def _start(self, values: Values) -> dict[str, list[Tensor]]:
        states = starts(self.systems, values)
        return {n: list(state) for n, state in self.joints.start(states, values).items()} if self.joints else states


def starts(bodies: Sequence[RigidBody], values: Values) -> dict[str, list[Tensor]]:
    """x, q, v and l (worlds, ·) of each body at the start, by its name; of bodies that no joint places all at once."""
    free = [body for body in bodies if not body.placed]
    states = {body.name: body.start(values) for body in bodies if body.placed or len(free) == 1}
    if len(free) > 1:
        stacked = lambda key: torch.stack([values[f"{body.name}.{key}"] for body in free], 1)
        inertia = torch.stack([body.inertia(values) for body in free], 1)
        q = torch.stack([body.quat for body in free])
        q = rotation.multiply(rotation.exponential(stacked("rotation_vector")), q)
        l = rotation.apply_turned(q, inertia, stacked("angular_velocity"))
        for k, body in enumerate(free):
            states[body.name] = [values[f"{body.name}.position"], q[:, k], values[f"{body.name}.velocity"], l[:, k]]
    return {body.name: states[body.name] for body in bodies}
