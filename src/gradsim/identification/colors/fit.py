"""Fit of pictures: outlines first, then the colors inside of them, with what the outlines say as a Gaussian prior.

Masks of a textured body have gaps where the texture has the color of the background, so the first fit of outlines says only about where they are. They are measured
again there, by the colors inside of them, and once more by those of the texture (`outline_masks`).

The two likelihoods are of different pixels: outlines say where a body is, and colors how it turns. Outlines are off alike in
neighboring pixels and frames, and their fit has error bars that know it (`uncertainty.outline`); its information and minimum
are all that the fit of colors takes from it, along the directions that outlines determine.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError, Status
from gradsim.identification.colors.contrast import Contrast, contrast, without_turn
from gradsim.identification.colors.errors import ColorErrors, color_errors, curvature, inverted
from gradsim.identification.colors.film import Film
from gradsim.identification.colors.interior import InteriorColors, interior_colors
from gradsim.identification.colors.outline_masks import remeasured
from gradsim.identification.colors.replicas import CodecBias, codec_bias
from gradsim.identification.colors.search import Levels, search_colors
from gradsim.identification.estimators import Estimator
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks, Observation
from gradsim.identification.outline_search import search_outlines
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome
from gradsim.identification.uncertainty.discretization import Discretization, refine, with_steps
from gradsim.identification.uncertainty.fisher import KNOWN, analyze
from gradsim.identification.uncertainty.intervals import estimates_with_intervals
from gradsim.identification.uncertainty.outline import OutlineErrors, fit_outline
from gradsim.identification.unknowns import Ranges, Space
from gradsim.physics.trajectory import Trajectory
from gradsim.runtime.progress import CheckpointStore
from gradsim.scene.body import Rigid

ACROSS = 16.0  # [px] least diameter of a body whose colors are compared
FINE, COARSE = 12.0, 5.5  # radius of a body in compared pixels, at least, for the answer and for the search
# cells of textures in compared pixels: edges of a texture are blurred by a cell, which a wrong turn makes up for in part. Of a spotted ball, spins were 1.4 % off with
# cells of 1.25 (at 3.6 stated standard deviations), and 0.6 % (0.6) with cells of 0.7
FINE_CELL, COARSE_CELL = 0.7, 1.0
POLISHED = 6  # linearizations after the noise of colors is known
WIDEST = 0.02  # of a range, over which curvature is measured
NEWTON = 1  # steps with the curvature of the cost, which is up to twenty times as flat as those linearizations have it
ROUNDS, STEADY = (
    4,
    0.1,
)  # masks that are measured about outlines at most; standard deviations of a step after which none follows
BY_TEXTURE = 2  # and by the texture
EXPLAINED = 0.65  # RMS of replicas over that of the video, below which colors are not those of the model
UNEXPLAINED = (
    "Colors inside of the outlines are {:.1f} times as far off as noise and codec make them: the bodies do not turn or look like the model. "
    "Look at colors.webm for a spin that changes, a highlight, or something in front."
)
# RMS displacement of outlines [px] above which colors cannot rely on them: right films leave 0.2 to 0.3; of two whose masks a texture cut into,
# 0.89 and 1.9 px off, spins were 18 and 5 standard deviations off
MISPLACED = 0.6
WAVY_MASKS = (
    "Outlines of masks are off by {:.2g} px from frame to frame, and the colors inside rely on them: a texture with the color of the background, or a "
    "shadow, cuts into masks. Give a film of the empty scene (--background FILE), or better masks (--mask)."
)
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
    """

    problem: Problem
    u: Tensor
    outcome: Outcome | None
    discretization: Discretization | None
    errors: OutlineErrors | None
    part: Problem | None = None

    @property
    def explained(self) -> bool:
        """True if errors of outlines explain what the motion leaves."""
        return self.errors is None or self.errors.explained


def require_pictures(scene, data: Observation) -> None:
    """Raise `InputError` if colors inside of outlines cannot be compared: bodies, camera, masks or size."""
    if not isinstance(data, Masks):
        raise InputError(
            "--observe pictures needs one mask of all bodies: give --background or --mask, and one camera."
        )
    for name, body in scene.bodies.items():
        if not isinstance(body, Rigid):
            raise InputError(f"--observe pictures is for rigid bodies, and `{name}` is a {body.kind}; leave it out.")
    optics = data.silhouettes.camera.optics
    if optics is not None and optics.has_shutter:
        raise InputError(
            "--observe pictures takes frames as instants, and the camera has a `readout` or an `exposure`; remove them where they are "
            "short against the spin, or observe outlines alone."
        )
    across = _across(data)
    if across < ACROSS:
        raise InputError(
            f"the bodies are about {across:.2g} px across in the video, and colors need {ACROSS:g}; film closer or in more pixels, or leave "
            "out --observe."
        )


def _across(data: Masks) -> float:
    """Diameter of a disk of the median area of the masks [px of the video]."""
    area = data.masks.clamp(0, 1).sum((1, 2))
    visible = area[area > 0.25 * area.max()]
    return 2 * data.silhouettes.binning * math.sqrt(visible.median().item() / math.pi) if len(visible) else 0.0


def open_to_colors(problem: Problem) -> list[int]:
    """Unknowns that move no outline at all: turns of balls that nothing touches or holds."""
    scene = problem.model.scene
    if scene.surfaces or scene.joints or len(scene.bodies) > 1:
        return []
    balls = {name for name, body in scene.bodies.items() if isinstance(body, Rigid) and body.shape.sphere}
    turns = {f"{name}.{key}" for name in balls for key in ROTATIONS}
    return [k for k, places in enumerate(problem.space.places) if all(name in turns for name, _ in places)]


def fit_pictures(
    problem: Problem,
    film: Film,
    search: Estimator,
    plan: MultistartConfig,
    seed: int = 0,
    report: Callable[[dict], None] = lambda entry: None,
    checkpoint: CheckpointStore | None = None,
    stage: Callable[[str], None] = lambda text: None,
) -> tuple[Fit, InteriorColors, Observation]:
    """Fit of outlines and of the colors inside of them.

    Args:
        problem: Of one clip and camera with `Masks`.
        film: Its frames.
        search: Estimator of the fit of outlines.
        plan: Settings of that search.
        seed: Random seed.
        report: Called after each stage with its entry of the history.
        checkpoint: Store of the search of outlines.
        stage: Called with the name of each part of the work.

    Returns:
        The fit, the colors at its answer, and the masks that it compares outlines with.

    Raises:
        InputError: As `require_pictures`.
    """
    require_pictures(problem.model.scene, problem.observation)
    rng = np.random.default_rng(seed)
    stage("outlines")
    outlines = fit_outlines(problem, search, plan, rng, report, checkpoint)
    if film.subtracted:
        outlines = measure_again(outlines, film, outlines.u)
    stage("colors")
    levels = color_levels(outlines, film)
    outcome = search_colors(outlines.problem, levels, outlines.u, np.random.default_rng([seed, 1]), report)
    colors, u = levels.fine, outcome.best
    if film.subtracted:
        stage("outlines by the texture")
        for _ in range(BY_TEXTURE):
            colors, u, _ = _settle(outlines.problem, colors, u)
            outlines = measure_again(outlines, film, u, colors, 1)
    stage("error bars")
    colors, u, errors = _with_curvature(outlines.problem, *_settle(outlines.problem, colors, u))
    codec = None
    if film.lossy:
        stage("replicas through the codec")
        codec = codec_bias(outlines.problem, colors, film, u, errors.information, np.random.default_rng([seed, 2]))
    shows = contrast(outlines.problem, levels.coarse, u, np.random.default_rng([seed, 3]))
    fit = _fit_of(outlines, outcome, colors, u, errors, codec, shows, seed)
    return fit, colors, outlines.problem.observation


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
    return _at_minimum(OutlineFit(_with_prior(whole, u, precision), u, outcome, discretization, None, part))


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
    precision[rows[:, None], rows] = _determined(part.space, information)
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
    if outlines.part is None:
        return outlines
    for _ in range(rounds):
        before = u
        data = outlines.part.observation
        assert isinstance(data, Masks)
        masks = remeasured(data, film, trajectory_at(outlines.problem, u, data.frames), colors)
        part = outlines.part.with_observation(masks)
        outlines = _at_minimum(replace(outlines, u=u, part=part))
        u = outlines.u
        std = outlines.problem.prior_precision.diagonal().clamp(min=1e-300).rsqrt()
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


def color_levels(outlines: OutlineFit, film: Film) -> Levels:
    """Colors for the search and for the answer, of the pixels that outlines say are inside."""
    problem, data = outlines.problem, outlines.problem.observation
    assert isinstance(data, Masks)
    silhouettes = type(data.silhouettes).of(problem.model.scene, _camera_name(data.silhouettes.lens))
    trajectory = trajectory_at(problem, outlines.u, data.frames)
    images, radius = film.frames / 255.0, _across(data) / 2
    common = math.gcd(*film.frames.shape[1:3])
    levels = []
    for least, cell in ((COARSE, COARSE_CELL), (FINE, FINE_CELL)):
        factor = max(f for f in range(1, max(1, int(radius / least)) + 1) if common % f == 0)
        names = list(problem.model.scene.bodies)
        levels.append(interior_colors(images, film.used, trajectory, names, silhouettes, factor, cell))
    if not all(len(body.color) for body in levels[1].bodies):
        empty = next(body.name for body in levels[1].bodies if not len(body.color))
        raise InputError(
            f"no pixel is well inside of the outline of `{empty}`: it is too small, hidden or out of view. Leave out --observe."
        )
    return Levels(*levels)


def _camera_name(lens: str) -> str:
    return lens.removeprefix("cameras.")


def _settle(problem: Problem, colors: InteriorColors, u: Tensor) -> tuple[InteriorColors, Tensor, ColorErrors]:
    """Answer at the noise of colors that their scores have."""
    for _ in range(2):
        colors = colors.with_exposures(trajectory_at(problem, u, colors.frames))
        errors = _errors_at(problem, colors, u)
        colors = colors.with_sigma(colors.sigma * math.sqrt(max(errors.inflation, 1e-12)))
        iterates, _ = descend(
            problem.with_observation(colors), Population.at(u[None]), colors.frames, "pixels", POLISHED
        )
        u = iterates.u[0]
    return colors, u, _errors_at(problem, colors, u)


def _with_curvature(
    problem: Problem, colors: InteriorColors, u: Tensor, errors: ColorErrors
) -> tuple[InteriorColors, Tensor, ColorErrors]:
    """Answer and errors with the curvature of the cost of colors."""
    for _ in range(NEWTON):
        errors = replace(errors, information=_curvature_at(problem, colors, u, errors))
        step = inverted(errors.information + problem.prior_precision) @ (
            errors.gradient + problem.prior_gradient(u[None])[0]
        )
        u = (u - step).clamp(problem.space.low, problem.space.high)
        measured, errors = errors.information, _errors_at(problem, colors, u)
        errors = replace(errors, information=measured)
    return colors, u, errors


def _curvature_at(problem: Problem, colors: InteriorColors, u: Tensor, errors: ColorErrors) -> Tensor:
    """Curvature of the cost of colors about u (unknowns,)."""
    data = problem.with_observation(colors)

    def gradient(at: Tensor) -> Tensor:
        _, _, g = data.linearize(at[None], colors.frames)
        return g[0] - problem.prior_gradient(at[None])[0]

    most = WIDEST * (problem.space.high - problem.space.low)
    return curvature(gradient, u, errors.information, problem.prior_precision, most)


def _errors_at(problem: Problem, colors: InteriorColors, u: Tensor) -> ColorErrors:
    s = problem.sensitivity(u[None], colors.frames)
    return color_errors(colors.linear(s, colors.frames), colors.frames)


def mask_fault(errors: OutlineErrors | None) -> str:
    """Note on outlines that are off by more than colors can rely on; empty where they are not."""
    return WAVY_MASKS.format(errors.size) if errors is not None and errors.size > MISPLACED else ""


def _fit_of(
    outlines: OutlineFit,
    outcome: Outcome,
    colors: InteriorColors,
    u: Tensor,
    errors: ColorErrors,
    codec: CodecBias | None,
    shows: Contrast,
    seed: int,
) -> Fit:
    problem = outlines.problem
    space, precision = problem.space, problem.prior_precision
    covariance, notes = errors.covariance(precision), []
    record = {"pixels": sum(len(body.color) for body in colors.bodies), "noise": errors.rms * colors.sigma}
    record |= {"contrast": shows.others, "contrast_still": shows.still}
    if codec is not None:
        u, covariance = (u - codec.bias).clamp(space.low, space.high), covariance + codec.covariance
        record |= {
            "codec_bias": dict(zip(space.names, codec.bias.tolist(), strict=True)),
            "rate_factor": codec.rate_factor,
            "replica_noise": codec.noise,
        }
    if not shows.shows_turn:
        covariance = without_turn(problem, covariance)
        notes.append(shows.words)
    explained = codec is None or codec.noise > EXPLAINED
    if not explained:
        assert codec is not None
        notes.append(UNEXPLAINED.format(1 / codec.noise))
    if not outlines.explained and outlines.errors is not None:
        notes.append(outlines.errors.words)
    fault = mask_fault(outlines.errors)
    notes += [fault] if fault else []
    wide, _, discretization = with_steps(space, inverted(covariance), None, outlines.discretization, seed)
    uncertainty = analyze(space, wide, any(scene.pushes for scene in problem.scenes))
    estimates = estimates_with_intervals(space, u, uncertainty)
    status = Status.OK if all(e.identifiable for e in estimates.values()) else Status.UNIDENTIFIABLE
    if not (outlines.explained and explained) or fault:
        status = Status.MISMATCH
    for entry in outcome.history:
        entry.pop("u", None)
    return Fit.of(
        problem,
        outcome,
        status=status,
        unknowns=estimates,
        uncertainty=uncertainty,
        sigma_reference=colors.sigma,
        chi2_per_n=errors.inflation,
        informative=3 * record["pixels"],
        seed=seed,
        discretization=discretization,
        outline={} if outlines.errors is None else outlines.errors.result(),
        notes=notes,
        evidence=dict(problem.observation.notes) | {"observe": "pictures", "colors": record},
    )
