"""A pendulum in a video as a least-squares problem: the outlines of a ball, the frames that count, and a search.

Two descriptions of an answer are at work: what the solver moves, which depends on what is unknown, and values by name,
which do not, so that one problem can start where another ended.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import Outcome
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.camera import from_scene
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.progress import Progress
from gradsim.scene import Scene
from gradsim.video import circle_outline
from gradsim_reproduction.real.camera_attitude import AttitudeSpace, TurnedModel

STEADY = 1.5
UNSEEN = 0.5  # [px] smallest scatter that is informative: accuracy of the outlines


@dataclass(frozen=True)
class Swings:
    """A video of a pendulum, cut.

    Args:
        released: First frame in which the ball has moved by its radius.
        turns: First frame of each swing, and the last frame of all.
        scatter: Scatter of the distance from the middle, for each swing [px].
        first: First frame that counts.
        circle: Column and row of the middle, and radius [px].
    """

    released: int
    turns: list[int]
    scatter: list[float]
    first: int
    circle: tuple[float, float, float]

    @property
    def rule(self) -> str:
        """The choice in words."""
        swings = ", ".join(f"{a}–{b}: {s:.1f} px" for (a, b), s in zip(pairwise(self.turns), self.scatter, strict=True))
        return (
            f"Released at frame {self.released}. Scatter of the ball's distance from the middle of its circle, swing by "
            f"swing ({swings}). A taut string keeps it; the frames count from {self.first}, where the last swings that "
            f"scatter by less than {STEADY} times the steadiest one begin."
        )


def find_swings(centers: np.ndarray, radius: float) -> Swings:
    """Cut a video into swings, and choose those that count.

    Args:
        centers: Centres of the ball in each frame (frames, 2) [px].
        radius: Radius of the ball [px].
    """
    from scipy.optimize import least_squares

    away_from_start = np.hypot(*(centers - centers[0]).T) > radius
    released = int(away_from_start.argmax()) if away_from_start.any() else 0
    places = centers[released:]
    reach = np.ptp(places, 0).max()
    guess = (*places.mean(0) - (0, reach / 2), reach / 2)
    away = lambda c: np.hypot(places[:, 0] - c[0], places[:, 1] - c[1]) - c[2]
    circle = least_squares(away, guess, loss="soft_l1").x
    angle = np.arctan2(places[:, 0] - circle[0], places[:, 1] - circle[1])
    change = np.diff(angle)
    turns = [0, *(1 + np.flatnonzero(change[1:] * change[:-1] <= 0)).tolist(), len(places) - 1]
    turns = [released + t for t in sorted(set(turns))]
    off = away(circle)
    parts = [off[a - released : b + 1 - released] for a, b in pairwise(turns)]
    scatter = [float(np.sqrt(np.mean(part**2))) for part in parts]
    limit = STEADY * max(min(scatter), UNSEEN)
    count = 0
    while count < len(scatter) and scatter[-1 - count] <= limit:
        count += 1
    return Swings(released, turns, scatter, turns[-1 - max(count, 1)], tuple(circle.tolist()))


SHRINK = 5  # side of the squares of pixels that become one pixel of coverage
SIGMA = 0.5 / math.sqrt(2)  # of the coverage at an edge that is off by half a pixel
SUBSTEPS = 8
LENS = 0.875  # focal length over the width of the image: 60°, as telephones have; perspective alone depends on it
TILT = 0.1  # [rad] how level a camera is held
CLIPS = (4, 8, 12, 16)  # first frames that the search looks at, before all
UNKNOWNS = (  # in the order of the scene's parameters; lengths from a fifth to five times 0.4 m, 3 cm and 1 m
    "bob.string_length:0.08:2",
    "bob.radius:0.006:0.15",
    "bob.angle:-1.6:1.6",
    "bob.rate:-8:8",
    "bob.damping:0.01:0.25",
    "bob.drag:0.01:0.25",
    "bob.pivot.x:-0.5:0.5",
    "bob.pivot.z:-0.5:0.5",
    "camera.translation.z:0.2:5",
)

NamedValues = dict[str, float]  # values by name


@dataclass(frozen=True)
class PendulumVideo:
    """Pendulum video: ball, outlines, and the frames that count.

    Args:
        frames: (T, height, width, 3) uint8.
        fps: Frames per second.
        share: Share of the ball in each pixel (T, height, width).
        masks: Coverage by the ball, shrunk (T, height / SHRINK, width / SHRINK).
        centers: Centres of the ball (T, 2) [px].
        swings: The frames that count.
    """

    frames: np.ndarray
    fps: float
    share: np.ndarray
    masks: np.ndarray
    centers: np.ndarray
    swings: Swings

    @classmethod
    def of(cls, frames: np.ndarray, fps: float, colour: tuple[float, float, float]) -> "PendulumVideo":
        """Find a ball of this colour, and the frames that count."""
        share = circle_outline.color_fractions(frames, colour)
        masks = circle_outline.outline_masks(share)
        centers = circle_outline.centroids(masks)
        radius = math.sqrt(np.median(masks.sum((1, 2))) / math.pi)
        return cls(
            frames, fps, share, circle_outline.downsample_masks(masks, SHRINK), centers, find_swings(centers, radius)
        )

    def first(self, shift: int = 0) -> int:
        """The first frame of a fit, `shift` after the first that counts; not before the release."""
        return max(self.swings.released, self.swings.first + shift)

    def motion(self, frame: int) -> tuple[float, float]:
        """Angle [rad] and rate [rad/s] as the image shows them."""
        near = np.clip([frame - 1, frame, frame + 1], 0, len(self.centers) - 1)
        x, y = self.centers[near].T
        angle = np.unwrap(np.arctan2(x - self.swings.circle[0], y - self.swings.circle[1]))
        return float(angle[1]), float((angle[2] - angle[0]) * self.fps / (near[2] - near[0]))


@dataclass(frozen=True)
class ProblemOptions:
    """Options of the least-squares problem of a video.

    Args:
        unknowns: Unknowns, NAME:LOW:HIGH.
        level: Share whose line is the outline.
        shift: Frames from the first that counts to the first of the fit.
        lens: Focal length over the width of the image.
        tilt: How level the camera is held [rad]; 0: perfectly, and square to the swing.
    """

    unknowns: tuple[str, ...] = UNKNOWNS
    level: float = 0.5
    shift: int = 0
    lens: float = LENS
    tilt: float = TILT

    def problem(self, video: PendulumVideo) -> Problem:
        """The least-squares problem."""
        first = video.first(self.shift)
        masks = video.masks[first:]
        if self.level != 0.5:
            masks = circle_outline.downsample_masks(
                circle_outline.outline_masks(video.share[first:], self.level), SHRINK
            )
        scene = Scene.parse(
            {
                "name": "a ball on a string, filmed from the side",
                "timing": {"fps": video.fps, "frames": len(masks), "substeps": SUBSTEPS},
                "bodies": {"bob": {"kind": "pendulum", "string_length": 0.4, "radius": 0.03}},
                "camera": {
                    "size": [masks.shape[2], masks.shape[1]],
                    "focal": self.lens * masks.shape[2],
                    "look_at": {"eye": [0, -1, 0], "target": [0, 0, 0]},
                },
            }
        )
        model = Model(scene)
        observation = Masks(torch.tensor(masks), SIGMA, Silhouettes(from_scene(model.scene.camera)))
        if not self.tilt:
            return Problem(model, observation, Space(scene, self.unknowns))
        turned: Any = TurnedModel(model)  # all of a `Model` that a problem needs
        return Problem(turned, observation, AttitudeSpace(scene, self.unknowns, self.tilt))


def values_by_name(problem: Problem, u: Tensor) -> NamedValues:
    """Values by name of what the solver moves (unknowns,)."""
    return dict(zip(problem.space.names, problem.space.numbers(u).tolist(), strict=True))


def inner(problem: Problem, answer: NamedValues) -> Tensor:
    """Scaled unknowns (unknowns,); values that are not named start at 0."""
    space = problem.space
    numbers = torch.tensor([answer.get(name, 0.0) for name in space.names], dtype=torch.float64)
    return space.inner(numbers).clamp(space.low, space.high)


def refine(problem: Problem, near: NamedValues) -> tuple[NamedValues, float]:
    """The minimum next to an answer, and its cost."""
    start = Population.at(inner(problem, near)[None])
    iterates, _ = descend(problem, start, problem.frames, "pixels", 40, rtol=1e-6)
    return values_by_name(problem, iterates.u[0]), iterates.cost[0].item()


def search(problem: Problem, starts: int, followed: int, rng: np.random.Generator, progress: Progress) -> Outcome:
    """From starts all over the ranges, most of which have no ball in the image, to the answer.

    The CDF residuals of the first frames choose the starts that are followed. The clip grows, since a whole
    swing at once has a valley for each wrong number of swings: CDF residuals, then pixels, and the better half
    is kept.

    Args:
        problem: The problem.
        starts: Number of starts drawn.
        followed: Number of those that are followed; half of them to the end.
        rng: Draws them.
        progress: Receives the best of each clip.
    """
    initial = problem.space.draw(rng, starts)
    initial = initial[problem.cost(initial, CLIPS[0], residual="cdf").argsort()[:followed]]
    iterates, who, iterations, history = Population.at(initial), torch.arange(followed), 0, []

    def note(stage: str, frames: int) -> None:
        cost, values = iterates.cost[0].item(), values_by_name(problem, iterates.u[0])
        history.append(
            {"stage": stage, "frames": frames, "cost": cost, "values": values, "iteration": iterations}
            | {"rollouts": problem.effort.rollouts, "population": len(who)}
        )
        progress.update(iterations, cost, {name: (value, math.nan) for name, value in values.items()})

    for frames in (*(c for c in CLIPS if c < problem.frames), problem.frames):
        for residual in ("cdf", "pixels"):
            iterates, n = descend(problem, Population.at(iterates.u), frames, residual, 12, rtol=1e-4)
            iterations += n
        best = iterates.cost.argsort()[: max(followed // 2, len(iterates.cost) // 2)]
        iterates, who = iterates[best], who[best]
        note("clip", frames)
    iterates, n = descend(problem, iterates, problem.frames, "pixels", 40)
    iterations += n
    best = iterates.cost.argsort()
    iterates, who = iterates[best], who[best]
    note("pixels", problem.frames)
    final, cost = torch.full_like(initial, torch.nan), torch.full((followed,), torch.inf).double()
    final[who], cost[who] = iterates.u, iterates.cost
    return Outcome(initial, final, cost, iterates.u[0], iterates.cost[0].item(), iterations, history)
