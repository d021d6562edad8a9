"""A shot at billiards: with which velocity a ball has to hit another, so that that one is at a goal at a given time.

For hard balls of equal mass, without friction and loss, the struck ball leaves along the line of centres n with the speed
(v·n), so that with the place p of the struck ball, its goal g, the radius r and the first ball's place 0

    n = (g − p)/|g − p|,   c = p − 2 r n,   e = c/|c|,   |v| = (|g − p|/(e·n) + |c|)/T,   v = |v| e
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from gradsim.physics.model import Model
from gradsim.scene import Scene

RADIUS, TIME = 0.1, 1.0  # [m], [s]
STIFFNESS, STEPS = 1e5, 50_000
SPEED, ANGLE = (0.8, 4.0), 0.2  # of starts: range of the speed [m/s], and to either side of the struck ball [rad]
SHARES = (1.0, 0.5, 0.2, 0.05)  # of a Gauss–Newton step, tried at once
ITERATIONS, REACHED = 15, 1e-6  # [m]


@cache
def table() -> Model:
    """The two balls."""
    ball = {"shape": {"sphere": {"radius": RADIUS, "subdivisions": 2}}, "mass": 1.0}
    contact = {
        "between": ["cue", "struck"],
        "stiffness": STIFFNESS,
        "dissipation": 0,
        "friction_stiffness": 0,
        "friction": 0,
    }
    clock = {"fps": 1 / TIME, "frames": 2, "substeps": STEPS, "integrator": "semi-implicit"}
    bodies = {"cue": ball, "struck": {**ball, "position": [0.8, 0, 0]}}
    return Model(Scene.parse({"gravity": 0, "bodies": bodies, "contacts": {"hit": contact}, "timing": clock}))


def hard_ball_velocity(place: Tensor, goal: Tensor) -> Tensor:
    """The velocity (2,) for hard balls."""
    way = goal - place
    n = way / way.norm()
    contact = place - 2 * RADIUS * n
    towards = contact / contact.norm()
    return towards * (way.norm() / (towards @ n) + contact.norm()) / TIME


@dataclass(frozen=True)
class Shot:
    """Start and goal of the struck ball.

    Args:
        place: [m] (2,).
        goal: [m] (2,).
        starts: Velocities that are tried [m/s] (starts, 2).
    """

    place: Tensor
    goal: Tensor
    starts: Tensor

    @classmethod
    def random(cls, seed: int, number: int, starts: int = 16) -> "Shot":
        """The `number`-th: a ball 0.8 m away, its goal within 40° of straight on; starts from another stream."""
        rng, other = (np.random.default_rng([seed, number, stream]) for stream in (0, 1))
        place = np.array([0.8, rng.uniform(-0.1, 0.1)])
        angle, far = rng.uniform(-0.7, 0.7), rng.uniform(0.5, 0.9)
        goal = place + far * np.array([math.cos(angle), math.sin(angle)])
        speed, turn = (
            other.uniform(*SPEED, starts),
            other.uniform(-ANGLE, ANGLE, starts) + math.atan2(place[1], place[0]),
        )
        velocities = np.stack([speed * np.cos(turn), speed * np.sin(turn)], 1)
        return cls(torch.tensor(place), torch.tensor(goal), torch.tensor(velocities))

    def end(self, v: Tensor) -> Tensor:
        """Final position of the struck ball (worlds, 2) [m]."""
        return table().rollout_unchecked(self._values(v), 2)["struck"]["x"][:, -1, :2].detach()

    def slopes(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and its derivative by the velocity (worlds, 2, 2)."""
        count = len(v)
        along = torch.zeros(2 * count, 3).double()
        along[:count, 0], along[count:, 1] = 1, 1
        trajectory, tangent = table().tangent(self._values(v.repeat(2, 1)), {"cue.velocity": along}, 2)
        end = trajectory["struck"]["x"][:count, -1, :2].detach()
        return end, torch.stack(tangent["struck"]["x"][:, -1, :2].detach().split(count), -1)

    def solve(self, starts: int) -> dict:
        """Gauss–Newton from every start."""
        v, course = self.starts[:starts].clone(), []
        for _ in range(ITERATIONS):
            end, slope = self.slopes(v)
            off = end - self.goal
            miss = off.norm(dim=1)
            course.append([v.tolist(), miss.tolist()])
            if (miss < REACHED).all():
                break
            square = slope.mT @ slope
            damped = square + (1e-9 + 1e-6 * square.diagonal(dim1=1, dim2=2).sum(1))[:, None, None] * torch.eye(2)
            step = -torch.linalg.solve(damped, (slope.mT @ off[..., None]))[..., 0]
            step = step * (1 / step.norm(dim=1, keepdim=True).clamp(min=1))  # at most 1 m/s
            tried = torch.stack([v + share * step for share in SHARES], 1)
            missed = (self.end(tried.flatten(0, 1)) - self.goal).norm(dim=1).view(len(v), -1)
            best, rows = missed.argmin(1), torch.arange(len(v))
            better = missed[rows, best] < miss
            v = torch.where(better[:, None], tried[rows, best], v)
        miss = (self.end(v) - self.goal).norm(dim=1)
        best, known = v[miss.argmin()], hard_ball_velocity(self.place, self.goal)
        turn = math.atan2(best[1], best[0]) - math.atan2(known[1], known[0])
        return {
            "place": self.place.tolist(), "goal": self.goal.tolist(), "known": known.tolist(), "found": best.tolist(),
            "speed_error": abs((best.norm() / known.norm()).item() - 1), "direction_error": abs(turn),
            "miss": miss.min().item(), "solved_share": (miss < 1e-4).double().mean().item(), "course": course,
        }  # fmt: skip

    def _values(self, v: Tensor) -> dict[str, Tensor]:
        flat = torch.zeros(len(v), 1).double()
        place = torch.cat([self.place, torch.zeros(1).double()]).expand(len(v), 3)
        return table().values({"cue.velocity": torch.cat([v, flat], 1), "struck.position": place})
