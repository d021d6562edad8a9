"""Fit of outlines before that of colors, and again to masks that are measured about them; what it says is a Gaussian prior of the colors.

Of a ball in flight, outlines say where it is, and colors how it turns. Colors also have a say in the place: at the rim a texture narrows. But a spin and a speed that
move the middle of the texture alike differ in little else, and what a codec or a model of light does to the rim decides between them: joint fits of two h264 videos
were 0.6 and 0.7 px off, and spins 2 and 4 %. So colors do not move what outlines say there (a cut: Plummer 2015); its error bars are propagated. The prior
is `HELD` times as narrow for that.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.colors.film import Film
from gradsim.identification.colors.interior import InteriorColors
from gradsim.identification.colors.outline_masks import remeasured
from gradsim.identification.estimators import Estimator
from gradsim.identification.observation.base import Masks
from gradsim.identification.outline_search import search_outlines
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome
from gradsim.identification.uncertainty.discretization import Discretization, refine
from gradsim.identification.uncertainty.fisher import KNOWN
from gradsim.identification.uncertainty.outline import OutlineErrors, fit_outline
from gradsim.identification.unknowns import Ranges, Space
from gradsim.physics.trajectory import Trajectory
from gradsim.runtime.progress import CheckpointStore
from gradsim.scene.body import Rigid

POLISHED = 6  # linearizations where the noise of masks is stated
ROUNDS = 4  # masks that are measured about outlines, at most
STEADY = 0.1  # standard deviations of a step after which none follows
HELD = 1e4  # factor of the information of outlines by which it is held
ROTATIONS = ("angular_velocity", "rotation_vector")


@dataclass(frozen=True, eq=False)
class OutlineFit:
    """Result of the fit of outlines, and the prior that it is for colors.

    Args:
        problem: At the steps of the answer, of all unknowns; its priors are those of the outlines.
        u: The answer (unknowns,), and the middle of the range of what they leave open.
        outcome: The search; None if there was nothing to search for.
        discretization: Dependence on the time step.
        errors: Errors of the outlines; None for a stated noise.
        part: The problem of the unknowns that move outlines, of the masks as they are; None if there is none.
        weight: Factor of what outlines inform, in the prior.
    """

    problem: Problem
    u: Tensor
    outcome: Outcome | None
    discretization: Discretization | None
    errors: OutlineErrors | None
    part: Problem | None = None
    weight: float = 1.0

    @property
    def explained(self) -> bool:
        """True if errors of outlines explain what the motion leaves."""
        return self.errors is None or self.errors.explained


def open_to_colors(problem: Problem) -> list[int]:
    """Unknowns that move no outline at all: turns of balls that nothing touches or holds."""
    scene = problem.model.scene
    if scene.surfaces or scene.joints or len(scene.bodies) > 1:
        return []
    balls = {name for name, body in scene.bodies.items() if isinstance(body, Rigid) and body.shape.sphere}
    turns = {f"{name}.{key}" for name in balls for key in ROTATIONS}
    return [k for k, places in enumerate(problem.space.places) if all(name in turns for name, _ in places)]


def fit_outlines(
    problem: Problem,
    search: Estimator,
    plan: MultistartConfig,
    rng: np.random.Generator,
    report: Callable[[dict], None],
    checkpoint: CheckpointStore | None,
) -> OutlineFit:
    """Fit of the unknowns that move outlines, as the prior of the others."""
    space, left_open = problem.space, open_to_colors(problem)
    visible = [k for k in range(len(space)) if k not in left_open]
    u, precision = (space.low + space.high) / 2, torch.zeros(len(space), len(space)).double()
    if not visible:
        return OutlineFit(_with_prior(problem, u, precision), u, None, None, None)
    part = copy.copy(problem)

    def of_all(entry: dict) -> None:
        whole = u.clone()
        whole[visible] = torch.tensor(entry["u"], dtype=torch.float64)
        report(entry | {"u": whole.tolist()})

    if left_open:
        names = {space.names[k] for k in visible}
        priors = [prior for prior in space.priors if names.issuperset(prior.names)]
        part.space = Space(problem.model.scene, [space.unknowns[k] for k in visible], priors=priors)
    if part.observation.outline_noise:
        part, outcome = search_outlines(part, plan, rng, of_all, checkpoint, search)
    else:
        outcome = search(part, plan, rng, of_all, checkpoint)
    part, outcome, discretization = refine(part, outcome, rng, of_all)
    if discretization is not None:
        displacement, shift = torch.zeros_like(u), dict.fromkeys(space.names, 0.0)
        displacement[visible] = discretization.displacement
        discretization = replace(discretization, displacement=displacement, shift=shift | discretization.shift)
    u[visible] = outcome.best
    whole = copy.copy(problem)
    whole.model = part.model
    weight = HELD if left_open else 1.0
    return _at_minimum(OutlineFit(_with_prior(whole, u, precision), u, outcome, discretization, None, part, weight))


def _at_minimum(outlines: OutlineFit) -> OutlineFit:
    """The fit at the minimum of its masks about its answer, with the information there."""
    part, problem, u = outlines.part, outlines.problem, outlines.u.clone()
    assert part is not None
    rows = torch.tensor([problem.space.names.index(name) for name in part.space.names])
    masks, best, errors = part.observation, u[rows], None
    if masks.outline_noise:
        corrected, best, errors = fit_outline(part, best)
        information = errors.video + corrected.space.prior_precision
    else:
        iterates, _ = descend(part, Population.at(best[None]), part.frames, "pixels", POLISHED)
        best = iterates.u[0]
        information = part.linearize(best[None], part.frames)[1][0]
    u[rows] = best
    precision = torch.zeros(len(u), len(u)).double()
    precision[rows[:, None], rows] = outlines.weight * _determined(part.space, information)
    whole = _with_prior(problem.with_observation(masks), u, precision)
    return replace(outlines, problem=whole, u=u, errors=errors)


def measure_again(
    outlines: OutlineFit, film: Film, u: Tensor, colors: InteriorColors | None = None, rounds: int = ROUNDS
) -> OutlineFit:
    """Fit of outlines to masks that are measured about them, until they stay where they are.

    Args:
        outlines: A fit to other masks.
        film: The video, with its background.
        u: Where outlines and colors are (unknowns,).
        colors: Of the bodies; None: those a few pixels inside of outlines.
        rounds: Most masks that are made.
    """
    for _ in range(rounds):
        if outlines.part is None:
            return outlines
        before, data = u, outlines.part.observation
        assert isinstance(data, Masks)
        masks = remeasured(data, film, trajectory_at(outlines.problem, u, data.frames), colors)
        part = outlines.part.with_observation(masks)
        outlines = _at_minimum(replace(outlines, u=u, part=part))
        u = outlines.u
        std = (outlines.problem.prior_precision.diagonal() / outlines.weight).clamp(min=1e-300).rsqrt()
        if ((u - before).abs() < STEADY * std).all():
            break
    return outlines


def _determined(space: Ranges, information: Tensor) -> Tensor:
    """Information along the directions that it determines to 10 %."""
    unit = space.unit
    eigenvalues, axes = torch.linalg.eigh(information * unit[:, None] * unit)
    eigenvalues = torch.where(eigenvalues > KNOWN**-2, eigenvalues, 0.0)
    return (axes * eigenvalues) @ axes.mT / unit[:, None] / unit


def _with_prior(problem: Problem, mean: Tensor, precision: Tensor) -> Problem:
    """The problem with a Gaussian prior of all unknowns in place of its own."""
    other = copy.copy(problem)
    other.space = copy.copy(problem.space)
    other.space.prior_mean, other.space.prior_precision = mean.clone(), precision
    return other


def trajectory_at(problem: Problem, u: Tensor, frames: int) -> Trajectory:
    """Trajectory of one world at u (unknowns,)."""
    with torch.no_grad():
        return problem.model.rollout_unchecked(problem.model.values(problem.space.values(u[None])), frames)
