"""Measuring a pendulum in a film: outlines, the frames that count, the fit, and error bars that are honest.

The error has two kinds of causes. Frames scatter about the model, in blocks that belong together (`clusters`). And
there are choices that the film does not force: which line is the outline of a blurred ball, which frame is the first
that counts, how wide the lens is, whether the camera is square to the swing. Each is made again in the other way, and
what that moves is added.

What a rigid pendulum lacks shows in the residuals: a cord stretches, by about 1 % for each weight of its ball in the
film that this was written for, so that the ball hangs lower at the bottom of a swing. A turned camera can pass for
most of that, so pitch and pivot are what the film looks like, not a survey of the room. A camera taken for square has
no such freedom and answers with a string that is 1 % longer.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.experiments.attitude import ANGLES, AttitudeSpace, TurnedModel
from gradsim.experiments.clusters import Clusters
from gradsim.experiments.swings import Swings, cut
from gradsim.identify.estimate import conclude
from gradsim.identify.fit import Fit
from gradsim.identify.least_squares import Population, descend
from gradsim.identify.multistart import Outcome
from gradsim.identify.observation import Masks
from gradsim.identify.problem import Problem
from gradsim.identify.progress import Progress, Silent
from gradsim.identify.uncertainty import KNOWN, Z95
from gradsim.identify.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.camera import from_scene, project
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video import ball

SHRINK = 5  # side of the squares of pixels that become one pixel of coverage
SIGMA = 0.5 / math.sqrt(2)  # of the coverage at an edge that is off by half a pixel
SUBSTEPS = 8
LENS = 0.875  # focal length over the width of the picture: 60°, as telephones have; perspective alone depends on it
TILT = 0.1  # [rad] how level a camera is held
CLIPS = (4, 8, 12, 16)  # first frames that the search looks at, before all
LENGTH = "bob.string_length"
LOSSES = ("bob.damping", "bob.drag")
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
SCALED = ("gravity", "bob.string_length", "bob.radius", "bob.pivot", "camera.translation")  # as a length scales
GRAVITY = "gravity.z:-49:-2"
CHOICES = {  # what might as well have been chosen (see `View`), and what then means something else
    "outline at a share of 0.35 or 0.65": (({"level": 0.35}, {"level": 0.65}), ()),
    "first frame two earlier or later": (({"shift": -2}, {"shift": 2}), ("bob.angle", "bob.rate")),
    "lens of 77° or 44°": (({"lens": 0.625}, {"lens": 1.25}), ("camera.",)),
}

Answer = dict[str, float]  # values by name


@dataclass(frozen=True)
class Film:
    """What is taken from a video.

    Args:
        frames: (T, height, width, 3) uint8.
        fps: Frames per second.
        share: Of the ball in each pixel (T, height, width).
        masks: Coverage by the ball, shrunk (T, height / SHRINK, width / SHRINK).
        centres: Of the ball (T, 2) [px].
        swings: The frames that count.
    """

    frames: np.ndarray
    fps: float
    share: np.ndarray
    masks: np.ndarray
    centres: np.ndarray
    swings: Swings

    @classmethod
    def of(cls, frames: np.ndarray, fps: float, colour: tuple[float, float, float]) -> "Film":
        """Find a ball of this colour, and the frames that count."""
        share = ball.shares(frames, colour)
        masks = ball.outlines(share)
        centres = ball.centres(masks)
        radius = math.sqrt(np.median(masks.sum((1, 2))) / math.pi)
        return cls(frames, fps, share, ball.shrink(masks, SHRINK), centres, cut(centres, radius))

    def motion(self, frame: int) -> tuple[float, float]:
        """Angle [rad] and rate [rad/s] as the picture shows them."""
        x, y = self.centres[[frame - 1, frame, min(frame + 1, len(self.centres) - 1)]].T
        angle = np.unwrap(np.arctan2(x - self.swings.circle[0], y - self.swings.circle[1]))
        return float(angle[1]), float((angle[2] - angle[0]) * self.fps / 2)


@dataclass(frozen=True)
class View:
    """How a film is looked at.

    Args:
        unknowns: What is solved for.
        level: Share whose line is the outline.
        shift: Frames from the first that counts to the first of the fit.
        lens: Focal length over the width of the picture.
        tilt: How level the camera is held [rad]; 0: perfectly, and square to the swing.
    """

    unknowns: tuple[str, ...] = UNKNOWNS
    level: float = 0.5
    shift: int = 0
    lens: float = LENS
    tilt: float = TILT

    def problem(self, film: Film) -> Problem:
        """The least-squares problem."""
        first = film.swings.first + self.shift
        masks = film.masks[first:]
        if self.level != 0.5:
            masks = ball.shrink(ball.outlines(film.share[first:], self.level), SHRINK)
        scene = Scene.parse(
            {
                "name": "a ball on a string, filmed from the side",
                "timing": {"fps": film.fps, "frames": len(masks), "substeps": SUBSTEPS},
                "bodies": {"bob": {"kind": "pendulum", "string_length": 0.4, "radius": 0.03}},
                "camera": {
                    "size": [masks.shape[2], masks.shape[1]],
                    "focal": self.lens * masks.shape[2],
                    "look_at": {"eye": [0, -1, 0], "target": [0, 0, 0]},
                },
            }
        )
        observation = Masks(torch.tensor(masks), SIGMA, Silhouettes(from_scene(scene.camera)))
        if not self.tilt:
            return Problem(Model(scene), observation, Space(scene, self.unknowns))
        return Problem(TurnedModel(Model(scene)), observation, AttitudeSpace(scene, self.unknowns, self.tilt))


@dataclass(frozen=True)
class Measurement:
    """What a film says.

    Args:
        film: The film.
        problem: The least-squares problem of the answer.
        fit: Values with honest error bars.
        budget: Standard deviation of the string length by its cause [m].
        checks: Other figures of the string length [m], for comparison.
        free: The fit with gravity unknown as well.
        same: Gravity, string length and cost of fits with gravity unknown that started elsewhere.
        cost: Σ r² of the answer, and of the fit whose camera is square to the swing.
    """

    film: Film
    problem: Problem
    fit: Fit
    budget: dict[str, float]
    checks: dict[str, float]
    free: Fit
    same: list[dict[str, float]]
    cost: tuple[float, float]

    def masks(self) -> np.ndarray:
        """The fit's ball in the frames that count, at the size of the film (frames, height, width)."""
        model, camera = self.problem.model, self.problem.observation.silhouettes.camera
        values = model.values(self.problem.space.values(_inner(self.problem, self.fit.values)[None]))
        lens = torch.diag(torch.tensor([SHRINK, SHRINK, 1.0], dtype=torch.float64)) @ camera.K
        sharp = Silhouettes(replace(camera, K=lens, width=SHRINK * camera.width, height=SHRINK * camera.height))
        place = {"camera.translation": values["camera.translation"]}
        with torch.no_grad():
            return sharp.masks(model.unchecked(values, self.problem.frames).surface, place)[0, :, 0].numpy()

    @property
    def pivot(self) -> tuple[float, float]:
        """Column and row of the fit's pivot in the film [px]."""
        values, camera = self.fit.values, self.problem.observation.silhouettes.camera
        model = self.problem.model
        attitude = torch.tensor([[values[f"camera.{angle}"] for angle in ANGLES]], dtype=torch.float64)
        place = torch.tensor([values["bob.pivot.x"], 0.0, values["bob.pivot.z"]], dtype=torch.float64)
        away = torch.tensor([0.0, 0.0, values["camera.translation.z"]], dtype=torch.float64)
        pixel = project(model.turn(attitude)[0] @ place, camera.K, camera.R, away)[0]
        return tuple((SHRINK * pixel).tolist())

    @property
    def identifiability(self) -> str:
        """What follows from a known g and an unknown scale, in words."""
        lengths = ", ".join(f"{s['string_length_m']:.3f} m for g = {s['gravity_m_s2']:.2f} m/s²" for s in self.same)
        return (
            "Neither the scale of the picture nor any length in it is given. The motion of a pendulum depends on g/L "
            "alone and the picture on ratios of lengths alone, so string, ball, pivot and the camera's distance share "
            "one scale. A known g fixes it: the string follows from the period, the scale of the picture from the "
            f"string. With g unknown too the film fits equally well with {lengths}; only their ratio is identified."
        )

    @property
    def residual(self) -> float:
        """Root mean square distance between the centres of the fit and of the film, by coordinate [px]."""
        seen = self.film.centres[self.film.swings.first :]
        return float(np.sqrt(np.mean((ball.centres(self.masks()) - seen) ** 2)))

    @property
    def period(self) -> float:
        """Of small swings [s]: 2π √((L² + 2/5 r²)/(g L)), L = s + r."""
        s, r = (self.fit.values[name] for name in (LENGTH, "bob.radius"))
        g = -self.problem.model.scene.gravity[2]
        return 2 * math.pi * math.sqrt(((s + r) ** 2 + 0.4 * r**2) / (g * (s + r)))


def measure(film: Film, quick: bool = False, seed: int = 0, progress: Progress | None = None) -> Measurement:
    """Fit a film, from starts all over the ranges.

    Args:
        film: From `Film.of`.
        quick: Fewer starts.
        seed: Of starts and bootstrap.
        progress: Is told what happens.
    """
    progress = progress or Silent()
    rng = np.random.default_rng(seed)
    square = View(tilt=0).problem(film)
    starts, followed = (256, 6) if quick else (2048, 16)
    progress.stage(f"fitting {len(square.space)} unknowns to {square.frames} frames from {starts} starts")
    outcome = _search(square, starts, followed, rng, progress)
    near = _named(square, outcome.best)
    view = View(tuple(name for name in UNKNOWNS if not _idle(square, near, name.split(":")[0])))
    progress.stage("the camera's attitude")
    problem = view.problem(film)
    answer, cost = _settle(problem, near)
    progress.stage("error bars")
    plain = _concluded(problem, answer, seed)
    clusters = _clusters(problem, answer)
    covariance = clusters.jackknife()
    moved = {name: _moved(film, view, problem, answer, *choice) for name, choice in CHOICES.items()}
    # an even chance of two answers: half of their distance
    moved["camera square to the swing or not"] = (_inner(problem, answer | near) - _inner(problem, answer)).abs() / 2
    length = answer[LENGTH]
    release = replace(view, shift=film.swings.released - film.swings.first)
    checks = {
        "std_if_pixels_were_independent_m": plain.unknowns[LENGTH].std,
        "std_by_bootstrap_m": length * clusters.bootstrap(rng)[0].item(),
        "length_if_camera_were_square_on_m": near[LENGTH],
        "length_from_release_on_m": _again(film, release, answer)[LENGTH],
    }
    progress.stage("the same with gravity unknown")
    free, same = _without_gravity(film, view, answer, seed)
    searched = {
        "starts": {"count": followed, "converged": outcome.converged(), "drawn": starts},
        "history": [{k: v for k, v in entry.items() if k != "u"} for entry in outcome.history],
        "population": {
            "names": square.space.names,
            "initial": square.space.numbers(outcome.initial).tolist(),
            "final": square.space.numbers(outcome.final).tolist(),
            "cost": outcome.cost.tolist(),
        },
        "iterations": outcome.iterations,
        "rollouts": square.effort.rollouts + problem.effort.rollouts,
        "cpu_seconds": square.effort.cpu_seconds,
        "wall_seconds": square.effort.wall_seconds,
    }
    return Measurement(
        film,
        problem,
        replace(_honest(plain, problem, covariance.diagonal(), moved.values()), **searched),
        {"scatter of the frames": length * covariance[0, 0].sqrt().item()}
        | {name: length * d[0].item() for name, d in moved.items()},
        checks,
        free,
        same,
        (cost, outcome.best_cost),
    )


def _search(problem: Problem, starts: int, followed: int, rng: np.random.Generator, progress: Progress) -> Outcome:
    """From starts all over the ranges, most of which have no ball in the picture, to the answer.

    The far-seeing residuals of the first frames choose the starts that are followed. The clip grows, since a whole
    swing at once has a valley for each wrong number of swings: far-seeing residuals, then pixels, and the better half
    goes on.
    """
    initial = problem.space.draw(rng, starts)
    chosen = problem.cost(initial, CLIPS[0], coarse=True).argsort()[:followed]
    people, who, iterations, history = Population.at(initial[chosen]), torch.arange(followed), 0, []
    for frames in (*(c for c in CLIPS if c < problem.frames), problem.frames):
        for coarse in (True, False):
            people, n = descend(problem, Population.at(people.u), frames, coarse, 12, precision=1e-4)
            iterations += n
        best = people.cost.argsort()[: max(followed // 2, len(people.cost) // 2)]
        people, who = people[best], who[best]
        history.append(
            {"stage": "clip", "frames": frames, "cost": people.cost[0].item(), "u": people.u[0].tolist()}
            | {"iteration": iterations, "rollouts": problem.effort.rollouts, "population": len(who)}
        )
        named = _named(problem, people.u[0])
        progress.update(iterations, people.cost[0].item(), {name: (v, math.nan) for name, v in named.items()})
    people, n = descend(problem, people, problem.frames, False, 40)
    initial = initial[chosen]
    final, cost = torch.full_like(initial, torch.nan), torch.full((followed,), torch.inf).double()
    final[who], cost[who] = people.u, people.cost
    k = int(people.cost.argmin())
    return Outcome(initial, final, cost, people.u[k], people.cost[k].item(), iterations + n, history)


def _named(problem: Problem, u: Tensor) -> Answer:
    return dict(zip(problem.space.names, problem.space.numbers(u).tolist(), strict=True))


def _inner(problem: Problem, answer: Answer) -> Tensor:
    """What the solver moves (unknowns,); what the answer does not name starts at 0."""
    space = problem.space
    numbers = torch.tensor([answer.get(name, 0.0) for name in space.names], dtype=torch.float64)
    return space.inner(numbers).clamp(space.low, space.high)


def _settle(problem: Problem, near: Answer) -> tuple[Answer, float]:
    """The minimum next to an answer, and its cost."""
    start = Population.at(_inner(problem, near)[None])
    people, _ = descend(problem, start, problem.frames, False, 40, precision=1e-6)
    return _named(problem, people.u[0]), people.cost[0].item()


def _idle(problem: Problem, answer: Answer, name: str) -> bool:
    """Whether a loss rests at the low end of its range. The film then has no use for it, and it is 0."""
    return name in LOSSES and answer[name] <= problem.space.unknowns[problem.space.names.index(name)].low * 1.001


def _concluded(problem: Problem, answer: Answer, seed: int) -> Fit:
    """The fit with plain error bars."""
    u = _inner(problem, answer)
    cost = problem.cost(u[None], problem.frames)
    return conclude(problem, Outcome(u[None], u[None], cost, u, cost.item(), 0, []), seed, noise_known=False)


def _clusters(problem: Problem, answer: Answer) -> Clusters:
    blocks = [(r[0], J[0]) for r, J in problem.jacobian(_inner(problem, answer)[None], problem.frames)]
    r, J = (torch.cat(part).unflatten(0, (problem.frames, -1)) for part in zip(*blocks, strict=True))
    return Clusters.at(r, J, torch.diag(problem.prior_precision))


def _again(film: Film, view: View, answer: Answer) -> Answer:
    """The answer to a film that is looked at in another way."""
    near = answer | {"camera.translation.z": answer["camera.translation.z"] * view.lens / LENS}
    if view.shift:
        near["bob.angle"], near["bob.rate"] = film.motion(film.swings.first + view.shift)
    return _settle(view.problem(film), near)[0]


def _moved(film: Film, view: View, problem: Problem, answer: Answer, choices, others: tuple[str, ...]) -> Tensor:
    """By how much other choices move what the solver moves (unknowns,), root mean square; 0 for `others`."""
    here = _inner(problem, answer)
    moves = torch.stack([_inner(problem, _again(film, replace(view, **choice), answer)) - here for choice in choices])
    same = torch.tensor([not name.startswith(others) for name in problem.space.names]) if others else 1.0
    return moves.square().mean(0).sqrt() * same


def _honest(fit: Fit, problem: Problem, scatter: Tensor, moved: Iterable[Tensor]) -> Fit:
    """A fit with error bars from the scatter of the frames and from choices, in place of the plain ones.

    What the data identify is judged by the scatter alone; choices are about what model they are data for.
    """
    estimates, space = {}, problem.space
    spread = (scatter + sum(move.square() for move in moved)).sqrt().tolist()
    for k, (name, e) in enumerate(fit.unknowns.items()):
        s, own = spread[k], scatter[k].sqrt().item()
        log, wide = space.logarithmic[k], math.exp(Z95 * s)
        interval = (e.value / wide, e.value * wide) if log else (e.value - Z95 * s, e.value + Z95 * s)
        known = (own if log else own / (e.high - e.low)) < KNOWN
        estimates[name] = replace(e, std=e.value * s if log else s, interval95=interval, identifiable=known)
    status = "ok" if all(e.identifiable for e in estimates.values()) else "unidentifiable"
    return replace(fit, unknowns=estimates, status=status)


def _without_gravity(film: Film, view: View, answer: Answer, seed: int) -> tuple[Fit, list[dict[str, float]]]:
    """The fit with gravity unknown too, and what it answers when gravity and all lengths start smaller or larger."""
    problem = replace(view, unknowns=(GRAVITY, *view.unknowns)).problem(film)
    known = answer | {"gravity.z": problem.model.scene.gravity[2]}
    same = []
    for scale in (1.0, 0.6, 1.6):
        near = {name: scale * v if name.startswith(SCALED) else v for name, v in known.items()}
        found, cost = _settle(problem, near)
        same.append({"gravity_m_s2": -found["gravity.z"], "string_length_m": found[LENGTH], "cost": cost})
    return _concluded(problem, known, seed), same
