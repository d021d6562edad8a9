"""Fit of pictures: outlines first, then the colors inside of them, with what the outlines say as a Gaussian prior.

Masks of a textured body have gaps where the texture has the color of the background, so the first fit of outlines says only about where they are. They are measured
again there, by the colors inside of them, and once more by those of the texture (`outline_masks`).

The two likelihoods are of different pixels: outlines say where a body is, and colors how it turns. Outlines are off alike in
neighboring pixels and frames, and their fit has error bars that know it (`uncertainty.outline`); its information and minimum
are all that the fit of colors takes from it, along the directions that outlines determine.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import Tensor

from gradsim.errors import InputError, Status
from gradsim.identification.colors.contrast import Contrast, contrast, without_turn
from gradsim.identification.colors.errors import ColorErrors, color_errors, curvature, inverted
from gradsim.identification.colors.film import Film
from gradsim.identification.colors.interior import InteriorColors, interior_colors
from gradsim.identification.colors.outlines import OutlineFit, fit_outlines, measure_again, trajectory_at
from gradsim.identification.colors.replicas import CodecBias, codec_bias
from gradsim.identification.colors.search import Levels, search_colors
from gradsim.identification.estimators import Estimator
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks, Observation
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome
from gradsim.identification.uncertainty.discretization import with_steps
from gradsim.identification.uncertainty.fisher import analyze
from gradsim.identification.uncertainty.intervals import estimates_with_intervals
from gradsim.identification.uncertainty.outline import OutlineErrors
from gradsim.runtime.progress import CheckpointStore
from gradsim.scene.body import Rigid

ACROSS = 16.0  # [px] least diameter of a body whose colors are compared
FINE, COARSE = 12.0, 5.5  # radius of a body in compared pixels, at least, for the answer and for the search
# cells of textures in compared pixels; of smaller ones there are as many as there are pixels
FINE_CELL, COARSE_CELL = 1.0, 1.0
ROUGHLY, POLISHED = 5, 10  # linearizations at a noise of colors, before outlines are measured again and for the answer
MIN_DECREASE = 0.01  # of the cost in a step, after which none follows: a tenth of a standard deviation
WIDEST = 0.02  # of a range, over which curvature is measured
NEWTON = 1  # steps with the curvature of the cost, which is up to twenty times as flat as those linearizations have it
# of such a step, the first that lowers the cost: sharp textures make it rough, and of one ball a whole step raised it by 537
SHARES = (1.0, 0.5, 0.25, 0.125)
BY_TEXTURE = 2  # measurements of the outlines by the texture
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
    if any(".centre_of_mass" in name for name in problem.space.names):
        raise InputError(
            "--observe pictures needs to know where a center of mass is in its shape; fit it by outlines, or give its number in the scene."
        )
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
            colors, u, _ = _settle(outlines.problem, colors, u, ROUGHLY)
            outlines = measure_again(outlines, film, u, colors, 1)
    stage("error bars")
    colors, u, errors = _with_curvature(outlines.problem, outlines.weight, *_settle(outlines.problem, colors, u))
    codec = None
    if film.lossy:
        stage("replicas through the codec")
        codec = codec_bias(outlines.problem, colors, film, u, errors.information, np.random.default_rng([seed, 2]))
    shows = contrast(outlines.problem, levels.coarse, u, np.random.default_rng([seed, 3]))
    fit = _fit_of(outlines, outcome, colors, u, errors, codec, shows, seed)
    return fit, colors, outlines.problem.observation


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
        colors = interior_colors(
            images, film.used, trajectory, names, silhouettes, factor, cell, subsampled=film.subsampled
        )
        levels.append(colors)
    if not all(len(body.color) for body in levels[1].bodies):
        empty = next(body.name for body in levels[1].bodies if not len(body.color))
        raise InputError(
            f"no pixel is well inside of the outline of `{empty}`: it is too small, hidden or out of view. Leave out --observe."
        )
    return Levels(*levels)


def _camera_name(lens: str) -> str:
    return lens.removeprefix("cameras.")


def _settle(
    problem: Problem, colors: InteriorColors, u: Tensor, steps: int = POLISHED
) -> tuple[InteriorColors, Tensor, ColorErrors]:
    """Answer at the noise of colors that their scores have."""
    for _ in range(2):
        colors = colors.with_exposures(trajectory_at(problem, u, colors.frames))
        errors = _errors_at(problem, colors, u)
        colors = colors.with_sigma(colors.sigma * math.sqrt(max(errors.inflation, 1e-12)))
        start, at_noise = Population.at(u[None]), problem.with_observation(colors)
        iterates, _ = descend(at_noise, start, colors.frames, "pixels", steps, min_decrease=MIN_DECREASE)
        u = iterates.u[0]
    return colors, u, _errors_at(problem, colors, u)


def _with_curvature(
    problem: Problem, weight: float, colors: InteriorColors, u: Tensor, errors: ColorErrors
) -> tuple[InteriorColors, Tensor, ColorErrors]:
    """Answer and errors with the curvature of the cost of colors."""
    for _ in range(NEWTON):
        errors = replace(errors, information=_curvature_at(problem, weight, colors, u, errors))
        step = inverted(errors.information + problem.prior_precision) @ (
            errors.gradient + problem.prior_gradient(u[None])[0]
        )
        u = lowered(problem.with_observation(colors), u, step, colors.frames)
        measured, errors = errors.information, _errors_at(problem, colors, u)
        errors = replace(errors, information=measured)
    return colors, u, errors


def lowered(problem: Problem, u: Tensor, step: Tensor, frames: int) -> Tensor:
    """u less the first of the `SHARES` of a step that lowers the cost; u itself where none does."""
    start = problem.cost(u[None], frames)
    for share in SHARES:
        end = (u - share * step).clamp(problem.space.low, problem.space.high)
        if bool(problem.cost(end[None], frames) < start):
            return end
    return u


def _curvature_at(problem: Problem, weight: float, colors: InteriorColors, u: Tensor, errors: ColorErrors) -> Tensor:
    """Curvature of the cost of colors about u (unknowns,); the prior is `weight` times what outlines inform."""
    gradient = lambda at: colors.gradient(problem.sensitivity(at[None], colors.frames), colors.frames)
    most = WIDEST * (problem.space.high - problem.space.low)
    return curvature(gradient, u, errors.information, problem.prior_precision / weight, most)


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
    covariance, notes = errors.covariance(precision, outlines.weight), []
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
