"""Record of one trajectory in every step, with its tangents and contacts, for `explain_gradients`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.sensitivity.directions import Direction
from gradsim.identification.sensitivity.tangents import Scale, by_step, displacement, sensitivity, tangents
from gradsim.physics.contact_events import Touches, contact_forces, force_tangents, pair_touches, touches
from gradsim.physics.model import Model
from gradsim.physics.rigid.pairs import Pairs
from gradsim.physics.system import Values
from gradsim.physics.trajectory import Trajectory

PARTS = ("normal force", "friction")


@dataclass(frozen=True)
class ContactInterval:
    """A run of consecutive steps in contact.

    Args:
        body: Name of the body.
        first: First step in contact.
        last: Last step in contact.
        other: Name of the other rigid body; "" for grounds and obstacles.
    """

    body: str
    first: int
    last: int
    other: str = ""


class Record:
    """One trajectory in every step.

    Args:
        model: The model.
        values: Parameters (1, ...).
        directions: Unknowns.
        frames: Number of frames.
    """

    def __init__(self, model: Model, values: Values, directions: Sequence[Direction], frames: int):
        self.model, self.values, self.directions, self.frames = model, values, list(directions), frames
        self.scale = Scale.of(model, values)
        self.fine = by_step(model)
        self.steps = (frames - 1) * model.substeps + 1
        self.own, self.moving = tangents(self.fine, values, self.directions, self.steps)
        pairs = [sensitivity(self.own, one, self.scale) for one in self.moving]
        self.growth, self.seen = (
            torch.stack(part).double() for part in zip(*pairs, strict=True)
        )  # unknowns, bodies, steps
        self.points = {s.name: points for s in model.systems if (points := s.contact_points)}
        self.touches: dict[str, Touches] = {
            s.name: touches(s, self.own.states[s.name], values) for s in model.systems if s.name in self.points
        }

    def frame(self, step: int) -> int:
        """The frame that a step begins in."""
        return step // self.model.substeps

    def time(self, step: int) -> float:
        """[s]"""
        return step * self.model.dt

    def by_frame(self) -> Tensor:
        """Largest displacement of a body at the frames (unknowns, frames), in body sizes per unit step."""
        return self.seen[:, :, :: self.model.substeps].amax(1)

    def contacts(self, body: str) -> list[ContactInterval]:
        """Contacts of a body with grounds and obstacles, in order."""
        if body not in self.touches:
            return []
        return [ContactInterval(body, a, b) for a, b in _stretches(self.touches[body].any)]

    @cached_property
    def meetings(self) -> dict[tuple[str, str, str], Tensor]:
        """Steps in contact (steps,), bool, of pairs of rigid bodies, by the scene's contact and their names."""
        meetings = {}
        for pairs in (group.pairs for group in self.model.groups if group.pairs):
            for (a, b), name in pairs.contacts.items():
                one = Pairs(pairs.bodies, pairs.cores, {(a, b): name})
                number = pair_touches(one, self.own, self.values).number[0]
                meetings[name, pairs.bodies[a].name, pairs.bodies[b].name] = number > 0
        return meetings

    def every_contact(self) -> list[ContactInterval]:
        """Contacts of all bodies, with grounds and obstacles and with one another."""
        contacts = [c for s in self.model.systems for c in self.contacts(s.name)]
        return contacts + [
            ContactInterval(a, *ends, b) for (_, a, b), met in self.meetings.items() for ends in _stretches(met)
        ]

    def meets(self, body: str) -> bool:
        """True if a body touches another rigid body in any step."""
        return any(body in names and bool(met.any()) for (_, *names), met in self.meetings.items())

    def factor(self, k: int, contact: ContactInterval) -> float:
        """Growth of the sensitivity S by unknown k over a contact; 1 where it begins with it."""
        row = self.growth[k, [self._row(name) for name in (contact.body, contact.other) if name]].amax(0)
        before, after = row[contact.first].item(), row[min(contact.last + 1, len(row) - 1)].item()
        return after / before if before > 0 else 1.0

    def force(self, k: int, contact: ContactInterval) -> tuple[str, int, str]:
        """Ground, point and part of the law whose impulse, in a contact, changes most with unknown k."""
        system = self.model.systems[self._row(contact.body)]
        rows = slice(contact.first, contact.last + 1)
        cut = lambda states: {name: y[:, rows] for name, y in states.items()}
        state, moving = cut(self.own.states[system.name]), cut(self.moving[k].states[system.name])
        _, change = force_tangents(system, state, moving, self.values, self.moving[k].values)
        size = torch.linalg.vector_norm(change.nan_to_num(0.0).sum(0), dim=-1)
        ground, point, part = np.unravel_index(int(size.argmax()), tuple(size.shape))
        return self.touches[system.name].grounds[ground], int(point), PARTS[part]

    def push(self, body: str, step: int) -> int | None:
        """The push that acts on a body in a step, or None."""
        system = self.model.systems[self._row(body)]
        for k, push in enumerate(system.pushes):
            begin, end = push.window or (push.at, push.at + self.model.dt)
            if begin < self.time(step + 1) - 1e-9 and end > self.time(step) + 1e-9:
                return k
        return None

    def point(self, body: str, index: int) -> str:
        """A contact point in words."""
        return self.points[body].label(index)

    def forces_text(self, body: str, step: int) -> str:
        """The largest contact force on a body in a step, in words; or its push, or that nothing acts but gravity."""
        push = self.push(body, step)
        if body in self.touches and bool(self.touches[body].any[step]):
            system = self.model.systems[self._row(body)]
            at = {name: y[:, step : step + 1] for name, y in self.own.states[body].items()}
            force = contact_forces(system, at, self.values)[0]
            size = torch.linalg.vector_norm(force, dim=-1).nan_to_num(torch.inf)
            ground, point, part = np.unravel_index(int(size.argmax()), tuple(size.shape))
            touched = f"contact of {body} {self.point(body, int(point))} with `{self.touches[body].grounds[ground]}`"
            return f"{touched} ({PARTS[part]} {size.max().item():.2g} N)"
        for (_, *names), met in self.meetings.items():
            if body in names and bool(met[step]):
                return f"contact of {names[0]} with {names[1]}"
        return f"push {push} on {body}" if push is not None else "no contact or push, only its own motion"

    def secant(self, k: int, width: float) -> Tensor:
        """|secant − tangent| over the larger, by unknown k in every step: of the places of all bodies (steps,)."""
        direction = self.directions[k]
        ends = torch.tensor([width, -width], dtype=next(iter(self.values.values())).dtype)
        lanes = {name: v.detach().expand(2, *v.shape[1:]) for name, v in self.values.items()}
        with torch.no_grad():
            both = self.fine.rollout_unchecked({**lanes, **direction.shift(lanes, ends)}, self.steps)
        apart, larger = torch.zeros(self.steps).double(), torch.zeros(self.steps).double()
        for system in self.model.systems:
            ahead, behind = ({n: y[i : i + 1] for n, y in both.states[system.name].items()} for i in (0, 1))
            slope = {n: (ahead[n] - behind[n]) / (2 * width) for n in ahead}
            along = self.moving[k].values
            args = (system, self.own.states[system.name])
            secant, tangent = (
                displacement(*args, one, self.values, along, self.scale)[0].double()
                for one in (slope, self.moving[k].states[system.name])
            )
            apart = torch.maximum(apart, (secant - tangent).norm(dim=1))
            larger = torch.maximum(larger, torch.maximum(secant.norm(dim=1), tangent.norm(dim=1)))
        return torch.where(larger > 0, apart / larger.clamp(min=1e-300), apart)

    def not_finite(self, k: int | None) -> tuple[int, str, str] | None:
        """First step, state and body that is not finite: of the motion itself (None), or of its derivative by k."""
        trajectory: Trajectory = self.own if k is None else self.moving[k]
        failures = [
            (int((~torch.isfinite(y[0])).reshape(self.steps, -1).any(1).nonzero()[0]), name, body)
            for body, group in trajectory.states.items()
            for name, y in group.items()
            if not torch.isfinite(y).all()
        ]
        return min(failures, default=None)

    def _row(self, body: str) -> int:
        return [s.name for s in self.model.systems].index(body)


def _stretches(inside: Tensor) -> list[tuple[int, int]]:
    """First and last of each run of steps (steps,) that are true."""
    edge = torch.diff(inside.int(), prepend=torch.zeros(1).int(), append=torch.zeros(1).int())
    begins, ends = edge.eq(1).nonzero()[:, 0], edge.eq(-1).nonzero()[:, 0]
    return [(int(a), int(b) - 1) for a, b in zip(begins, ends, strict=True)]
