"""Pendulum length from a video, with error bars for model choices.

The error has two kinds of causes. Frames scatter about the model, in blocks that belong together (`clusters`). And
there are choices that the video does not force: which line is the outline of a blurred ball, which frame is the first
that counts, how wide the lens is, whether the camera is square to the swing. Each is made again in the other way, and
what that moves is added.

What a rigid pendulum lacks shows in the residuals: a cord stretches, by about 1 % for each weight of its ball in the
video that this was written for, so that the ball hangs lower at the bottom of a swing. A turned camera can pass for
most of that, so pitch and pivot are what the video looks like, not a survey of the room. A camera taken for square has
no such freedom and answers with a string that is 1 % longer.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import Status
from gradsim.identification.fit import Estimate, Fit, search_record
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import Outcome
from gradsim.identification.uncertainty.fisher import KNOWN, Uncertainty, analyze
from gradsim.identification.uncertainty.intervals import Z95
from gradsim.render.camera import from_scene, project
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.video import circle_outline
from gradsim_reproduction.real.beam_checks import Clusters
from gradsim_reproduction.real.camera_attitude import ANGLES, turn
from gradsim_reproduction.real.pendulum_problem import (
    LENS,
    SHRINK,
    SIGMA,
    UNKNOWNS,
    NamedValues,
    PendulumVideo,
    ProblemOptions,
    inner,
    refine,
    search,
    values_by_name,
)

LENGTH = "bob.string_length"
WIDE = 10.0  # relative standard deviation from which nothing is known
LOSSES = ("bob.damping", "bob.drag")
SCALED = ("gravity", "bob.string_length", "bob.radius", "bob.pivot", "camera.translation")  # as a length scales
GRAVITY = "gravity.z:-49:-2"
CHOICES = {  # what might as well have been chosen (see `ProblemOptions`), and what then means something else
    "outline at a share of 0.35 or 0.65": (({"level": 0.35}, {"level": 0.65}), ()),
    "first frame two earlier or later": (({"shift": -2}, {"shift": 2}), ("bob.angle", "bob.rate")),
    "lens of 77° or 44°": (({"lens": 0.625}, {"lens": 1.25}), ("camera.",)),
}


@dataclass(frozen=True)
class PixelInformation:
    """Information of the pixels at an estimate.

    Args:
        clusters: The information of each frame.
        variance: Variance of a pixel, in units of SIGMA², if pixels had independent errors.
        informative: Number of pixels that carry information.
    """

    clusters: Clusters
    variance: float
    informative: int

    @classmethod
    def at(cls, problem: Problem, answer: NamedValues) -> "PixelInformation":
        """At an answer to a problem."""
        blocks = [(r[0], J[0]) for r, J in problem.jacobian(inner(problem, answer)[None], problem.frames)]
        r, J = (torch.cat(part) for part in zip(*blocks, strict=True))
        informative = J.abs().amax(1) > 1e-9 * J.abs().max()
        variance = r[informative].square().sum().item() / max(1, int(informative.sum()) - J.shape[1])
        r, J = (x.unflatten(0, (problem.frames, -1)) for x in (r, J))
        return cls(Clusters.at(r, J, problem.prior_precision), variance, int(informative.sum()))

    @property
    def plain(self) -> Tensor:
        """Standard deviations (unknowns,) if pixels had independent errors."""
        return self.clusters.independent(self.variance)

    def uncertainty(self, problem: Problem) -> Uncertainty:
        """Rank and null directions, as if pixels had independent errors."""
        fisher = self.clusters.matrices.sum(0) / self.variance + self.clusters.prior
        return analyze(problem.space, fisher, has_push=False)


@dataclass(frozen=True)
class Measurement:
    """Result of a measurement.

    Args:
        video: The video.
        problem: The least-squares problem of the answer.
        fit: Values with honest error bars.
        budget: Standard deviation of the string length by its cause [m].
        checks: Other figures of the string length [m], for comparison.
        free: The fit with gravity unknown as well.
        same: Gravity, string length and cost of fits with gravity unknown that started elsewhere.
        cost: Σ r² of the answer, and of the fit whose camera is square to the swing.
    """

    video: PendulumVideo
    problem: Problem
    fit: Fit
    budget: dict[str, float]
    checks: dict[str, float]
    free: Fit
    same: list[dict[str, float]]
    cost: tuple[float, float]

    @cached_property
    def masks(self) -> np.ndarray:
        """The fit's ball in the frames that count, at the size of the video (frames, height, width)."""
        model, camera = self.problem.model, from_scene(self.problem.model.scene.camera)
        values = model.values(self.problem.space.values(inner(self.problem, self.fit.values)[None]))
        lens = torch.diag(torch.tensor([SHRINK, SHRINK, 1.0], dtype=torch.float64)) @ camera.K
        sharp = Silhouettes(replace(camera, K=lens, width=SHRINK * camera.width, height=SHRINK * camera.height))
        place = {"camera.translation": values["camera.translation"]}
        with torch.no_grad():
            return sharp.masks(model.rollout_unchecked(values, self.problem.frames).surface, place)[0, :, 0].numpy()

    @property
    def pivot(self) -> tuple[float, float]:
        """Column and row of the fit's pivot in the video [px]."""
        values, camera = self.fit.values, from_scene(self.problem.model.scene.camera)
        attitude = torch.tensor([[values[f"camera.{angle}"] for angle in ANGLES]], dtype=torch.float64)
        place = torch.tensor([values["bob.pivot.x"], 0.0, values["bob.pivot.z"]], dtype=torch.float64)
        away = torch.tensor([0.0, 0.0, values["camera.translation.z"]], dtype=torch.float64)
        pixel = project(turn(camera.R, attitude)[0] @ place, camera.K, camera.R, away)[0]
        column, row = (SHRINK * pixel).tolist()
        return column, row

    @property
    def identifiability(self) -> str:
        """Explanation of the scale: known g, unknown image scale."""
        lengths = ", ".join(f"{s['string_length_m']:.3f} m for g = {s['gravity_m_s2']:.2f} m/s²" for s in self.same)
        return (
            "Neither the scale of the picture nor any length in it is given. The motion of a pendulum depends on g/L "
            "alone and the picture on ratios of lengths alone, so string, ball, pivot and the camera's distance share "
            "one scale. A known g fixes it: the string follows from the period, the scale of the picture from the "
            f"string. With g unknown too the film fits equally well with {lengths}; only their ratio is identified."
        )

    @property
    def residual(self) -> float:
        """Root mean square distance between the centres of the fit and of the video, by coordinate [px]."""
        centers = self.video.centers[self.video.first() :]
        return float(np.sqrt(np.mean((circle_outline.centroids(self.masks) - centers) ** 2)))

    @property
    def period(self) -> float:
        """Period of small swings [s]: 2π √((L² + 2/5 r²)/(g L)), L = s + r."""
        s, r = (self.fit.values[name] for name in (LENGTH, "bob.radius"))
        g = -self.problem.model.scene.gravity[2]
        return 2 * math.pi * math.sqrt(((s + r) ** 2 + 0.4 * r**2) / (g * (s + r)))


def measure(video: PendulumVideo, quick: bool = False, seed: int = 0, progress: Progress | None = None) -> Measurement:
    """Fit a video, from starts all over the ranges.

    Args:
        video: From `PendulumVideo.of`.
        quick: Fewer starts.
        seed: Seed of starts and bootstrap.
        progress: Receives stages and shares.
    """
    progress = progress or NullProgress()
    rng = np.random.default_rng(seed)
    square = ProblemOptions(tilt=0).problem(video)
    starts, followed = (96, 3) if quick else (2048, 16)
    progress.stage(f"fitting {len(square.space)} unknowns to {square.frames} frames from {starts} starts")
    outcome = search(square, starts, followed, rng, progress)
    near = values_by_name(square, outcome.best)
    view = ProblemOptions(tuple(name for name in UNKNOWNS if not _idle(square, near, name.split(":")[0])))
    progress.stage("the camera's attitude")
    problem = view.problem(video)
    answer, cost = refine(problem, near)
    outcome.history.append(
        {"stage": "attitude", "frames": problem.frames, "cost": cost, "values": answer}
        | {"iteration": outcome.iterations + 1, "rollouts": outcome.history[-1]["rollouts"], "population": 1}
    )
    progress.stage("error bars")
    evidence = PixelInformation.at(problem, answer)
    covariance = evidence.clusters.jackknife()
    changes = {name: _change_by_choices(video, view, problem, answer, *choice) for name, choice in CHOICES.items()}
    # an even chance of two answers: half of their distance
    changes["camera square to the swing or not"] = (inner(problem, answer | near) - inner(problem, answer)).abs() / 2
    spread = (covariance.diagonal() + sum(move.square() for move in changes.values())).sqrt()
    length, k = answer[LENGTH], problem.space.names.index(LENGTH)
    release = replace(view, shift=video.swings.released - video.swings.first)
    checks = {
        "std_if_pixels_were_independent_m": length * evidence.plain[k].item(),
        "std_by_bootstrap_m": length * evidence.clusters.bootstrap(rng)[k].item(),
        "length_if_camera_were_square_on_m": near[LENGTH],
        "length_from_release_on_m": _refit(video, release, answer)[LENGTH],
    }
    progress.stage("the same with gravity unknown")
    free, same = _without_gravity(video, view, answer)
    fit = _fit(problem, answer, evidence, spread, covariance.diagonal().sqrt())
    return Measurement(
        video,
        problem,
        replace(fit, seed=seed, **_search_fields(square, outcome, starts)),
        {"scatter of the frames": length * covariance[k, k].sqrt().item()}
        | {name: length * move[k].item() for name, move in changes.items()},
        checks,
        free,
        same,
        (cost, outcome.best_cost),
    )


def _idle(problem: Problem, answer: NamedValues, name: str) -> bool:
    """True if a damping parameter is at the lower end of its range; the video does not need it, and it is set to 0."""
    return name in LOSSES and answer[name] <= 1.001 * problem.space.range(problem.space.names.index(name))[0]


def _refit(video: PendulumVideo, view: ProblemOptions, answer: NamedValues) -> NamedValues:
    """The answer to a video that is looked at in another way."""
    near = answer | {"camera.translation.z": answer["camera.translation.z"] * view.lens / LENS}
    if view.shift:
        near["bob.angle"], near["bob.rate"] = video.motion(video.first(view.shift))
    return refine(view.problem(video), near)[0]


def _change_by_choices(
    video: PendulumVideo, view: ProblemOptions, problem: Problem, answer: NamedValues, choices, others: tuple[str, ...]
) -> Tensor:
    """By how much other choices move what the solver moves (unknowns,), root mean square; 0 for `others`."""
    reference = inner(problem, answer)
    moves = torch.stack(
        [inner(problem, _refit(video, replace(view, **choice), answer)) - reference for choice in choices]
    )
    same = torch.tensor([not name.startswith(others) for name in problem.space.names]) if others else 1.0
    return moves.square().mean(0).sqrt() * same


def _fit(problem: Problem, answer: NamedValues, evidence: PixelInformation, spread: Tensor, scatter: Tensor) -> Fit:
    """A fit with error bars `spread` (of what the solver moves).

    What the data identify is judged by `scatter` alone: choices are about the model that they are data for.
    """
    space, estimates = problem.space, {}
    for k, (name, value) in enumerate(answer.items()):
        (low, high), s, log = space.range(k), spread[k].item(), space.logarithmic[k]
        unit = 1.0 if log else high - low
        s = s if s < WIDE * unit else math.inf
        interval = (
            (value * math.exp(-Z95 * s), value * math.exp(Z95 * s)) if log else (value - Z95 * s, value + Z95 * s)
        )
        known = scatter[k].item() < KNOWN * unit
        estimates[name] = Estimate(value, value * s if log else s, interval, space.units[k], low, high, known)
    verdict = evidence.uncertainty(problem)
    identified = all(e.identifiable for e in estimates.values())
    return Fit.of(
        problem,
        status=Status.OK if identified else Status.UNIDENTIFIABLE,
        unknowns=estimates,
        uncertainty=verdict,
        sigma_reference=SIGMA * math.sqrt(evidence.variance),
        chi2_per_n=1.0,
        informative=evidence.informative,
    )


def _search_fields(problem: Problem, outcome: Outcome, drawn: int) -> dict:
    """Fields of a fit about its search and its effort."""
    search = search_record(problem.space, outcome)
    return search | {"starts": search["starts"] | {"drawn": drawn}} | problem.effort.state()


def _without_gravity(
    video: PendulumVideo, view: ProblemOptions, answer: NamedValues
) -> tuple[Fit, list[dict[str, float]]]:
    """The fit with gravity unknown too, and what it answers when gravity and all lengths start smaller or larger."""
    problem = replace(view, unknowns=(GRAVITY, *view.unknowns)).problem(video)
    answers, same = [], []
    for scale in (1.0, 0.6, 1.6):
        near = answer | {"gravity.z": problem.model.scene.gravity[2]}
        near = {name: scale * value if name.startswith(SCALED) else value for name, value in near.items()}
        values, cost = refine(problem, near)
        answers.append(values)
        same.append({"gravity_m_s2": -values["gravity.z"], "string_length_m": values[LENGTH], "cost": cost})
    evidence = PixelInformation.at(problem, answers[0])
    bounds = evidence.uncertainty(problem).std_inner
    return _fit(problem, answers[0], evidence, bounds, bounds), same
