"""Rigid bodies of a scene that touch or hold one another: one rollout for all of them (`multibody.py`)."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from gradsim.engine.bound_function import Uncopied
from gradsim.physics.integrators import RIGID
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.joints import joints_of
from gradsim.physics.rigid.many.batching import BODY, START
from gradsim.physics.rigid.many.bounds import StepBounds
from gradsim.physics.rigid.many.columns import BoundColumns
from gradsim.physics.rigid.many.stack import BodyStack
from gradsim.physics.rigid.multibody import Bodies
from gradsim.physics.rigid.pairs import make_pairs
from gradsim.physics.rigid.recorded.frames import weld_name
from gradsim.physics.rigid.recorded.rollout import RecordedBodies
from gradsim.physics.system import Island, Values

MAX_JOINT_OPENING = 0.2  # of a body's radius, or of 1 rad: a joint that is open by more no longer holds
CLOCK = ("timing.rate", "timing.offset")  # parameters of the steps
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
        self.stack = self.joints.stack if self.joints else BodyStack(systems)
        self.bounds = StepBounds(self.stack, self.integrator)
        self._bound = None if self.recorded else BoundColumns(self.inputs)
        self._programs: dict[tuple, Bodies | RecordedBodies] = Uncopied()

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
        arguments = [*self._start(values), *self.stack.inputs_after_start(values)]
        for links in (self.pairs, self.joints):
            arguments += links.inputs(values) if links else []
        arguments += [frame.samples(values) for frame in self.recorded]
        worlds = max(len(x) for x in arguments)
        return [x if len(x) == worlds else x.expand(worlds, *x.shape[1:]) for x in arguments]

    def bound_inputs(self, values: Values, differentiated: Collection[str] = ()) -> list[Tensor]:
        return self._bound(values, differentiated) if self._bound else self.inputs(values)

    def sources(self, values: Values) -> dict[str, list[str]] | None:
        if not self._bound or any(x.device.type != "cpu" for x in values.values()):
            return None
        sources = self._bound.sources(values)
        return None if sources is None else {name: [name] for name in CLOCK} | sources

    def inputs_of_sources(self, tensors: dict[str, Tensor]) -> list[Tensor]:
        assert self._bound is not None
        return self._bound.of_sources(tensors)

    def begin(self, inputs: list[Tensor], start) -> list[Tensor]:
        states = {s.name: [start[s.name][name] for name in START] for s in self.systems}
        return [*self.stack.states(states), *inputs[len(START) :]]

    def split(self, outputs: Sequence[Tensor]) -> list[list[Tensor]]:
        return [list(states) for states in zip(*(y.unbind(2) for y in outputs), strict=True)]

    def stable_step(self, values: Values) -> float:
        """Largest stable step [s] of the bodies with their contacts and joints: bounds of k/m add up, so 1/h² do."""
        between = [links.stable_step(values) for links in (self.pairs, self.joints) if links]
        total = sum(step**-2 for step in (self.bounds.stable_step(values), *between))
        return total**-0.5 if total else float("inf")

    def recommended_step(self, values: Values) -> float:
        """Steps of joints by a method of first order are shorter by `JOINT_STEP_DIVISOR` than what resolves swings by a higher order."""
        finer, speeds = JOINT_STEP_DIVISOR if RIGID[self.integrator].order == 1 else 1, self._impact_speeds(values)
        steps = [self.bounds.recommended_step(values, speeds)]
        if self.joints:
            steps.append(self.joints.recommended_step(values) / finer)
        if self.pairs:
            steps.append(self.pairs.recommended_step(values, speeds.unbind(1)))
        return min(steps)

    def check(self, values: Values) -> None:
        """Raise `InputError` if a joint is open at the start, or a body is inside a ground or another."""
        start = self._start(values)
        self.bounds.check(values, start)
        if self.joints:
            self.joints.check(values)
        if self.pairs:
            self.pairs.check(values, start[0], start[1])

    def has_drive(self, values: Values) -> bool:
        return bool(self.joints and self.joints.has_drive(values))

    def open_joint_message(self, states, values: Values, inputs: Sequence[Tensor], last: Sequence[Tensor] = ()) -> str:
        if not self.joints:
            return ""
        with torch.no_grad():
            if self.recorded:
                island_states = [states[s.name] for s in self.systems]
                end = island_states[0]["x"].shape[1] - 1
                times = values["timing.offset"] + values["timing.rate"] * self.timing.time(end)
                ends = {s.name: {key: y[:, -1:] for key, y in states[s.name].items()} for s in self.systems}
                away = self.joints.residual(ends, values, times[:, None])[0].abs()[:, 0]  # (worlds, rows)
            else:
                x, q = (y.detach() for y in last[:2])
                first = len(BODY) + (len(self.pairs.names) if self.pairs else 0)
                away = self.joints.gaps(x, q, inputs[first:]).abs()
            size = (self.stack.reach * self.stack.numbers("scale", values).amax(0)).max()
        apart = away / torch.where(self.joints.is_point, size, 1.0)
        if apart.max() <= MAX_JOINT_OPENING:
            return ""
        world, row = divmod(int(apart.argmax()), apart.shape[1])
        kind, joint = self.joints.constraints[row]
        much = f"by {away[world, row].item():.2g} {'m' if kind == 'point' else 'of its axis'}"
        return f"the joint `{joint}` comes apart, {much} at the last frame of world {world}"

    def _impact_speeds(self, values: Values) -> Tensor:
        """Largest speed (worlds, bodies) [m/s] at which a point of each body can meet something."""
        start, arms = self._start(values), self.joints.arms(values) if self.joints else {}
        speeds = self.bounds.impact_speeds(
            values, start, self.stack.reach.new_tensor([arms.get(s.name, 0.0) for s in self.systems])
        )
        if not self.joints or not self.recorded:
            return speeds
        columns = list(speeds.unbind(1))
        for name, frame in self.joints.recorded.items():
            speed, spin = frame.speeds(values)
            for k, s in enumerate(self.systems):
                if s.motion is not None and weld_name(s.name) == name:
                    columns[k] = speed + spin * s.bounding_radius(values)
                elif s.motion is None:  # what hangs at it may be as fast besides
                    columns[k] = columns[k] + speed
        return torch.stack(columns, 1)

    def _start(self, values: Values) -> list[Tensor]:
        """x, q, v and l (worlds, bodies, ·) at the start."""
        states = self.stack.start(values)
        return self.joints.start_together(states, values) if self.joints else states
