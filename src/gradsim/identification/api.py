"""`identify` and `least_squares`: estimates with error bars and a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from gradsim.errors import InputError, Status
from gradsim.identification import pose_noise
from gradsim.identification.engines.model import Engine, EngineModel
from gradsim.identification.engines.registry import OURS, chosen_engine
from gradsim.identification.estimators import LEAST_SQUARES, Estimator, estimator_named, name_of
from gradsim.identification.fit import Fit
from gradsim.identification.long_clip import (
    MultipleShooting,
    jump_record,
    one_shot_suffices,
    refine_windows,
    shoot,
    verdict,
)
from gradsim.identification.observation.base import Observation
from gradsim.identification.observation.clip import Clip, Files
from gradsim.identification.observation.from_video import with_stamps
from gradsim.identification.observation.observability import require_observable
from gradsim.identification.outline_search import search_outlines
from gradsim.identification.priors import Prior, Stated, priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome
from gradsim.identification.uncertainty.discrepancy import with_discrepancy
from gradsim.identification.uncertainty.discretization import refine
from gradsim.identification.uncertainty.known_numbers import with_known_numbers
from gradsim.identification.uncertainty.profile_likelihood import with_profiles
from gradsim.identification.unknowns import Space, Unknown
from gradsim.identification.verdict import make_fit
from gradsim.physics.model import Model
from gradsim.runtime.allocator import freed_memory_reused
from gradsim.runtime.parallel import one_thread
from gradsim.runtime.progress import CheckpointStore

OBSERVED = ("outlines", "pictures")  # what `identify` compares of a clip


def least_squares(
    scene,
    observation: Observation,
    unknowns: Sequence[str | Unknown],
    plan: MultistartConfig | None = None,
    seed: int = 0,
    noise_known: bool = True,
    report: Callable[[dict], None] = lambda entry: None,
    model: Model | None = None,
    checkpoint: CheckpointStore | None = None,
    profile: bool | Sequence[str] = False,
    stage: Callable[[str], None] = lambda text: None,
) -> Fit:
    """Estimate the unknowns by multi-start Levenberg–Marquardt.

    Args:
        scene: The scene; its own values of the unknowns are not used as a start.
        observation: Data, with their noise.
        unknowns: Unknowns: NAME, NAME:LOW:HIGH or `Unknown`.
        plan: Starts and curriculum.
        seed: Random seed.
        noise_known: False: the noise is estimated from the residuals, and the error bars scaled by √(χ²/N).
        report: Called after each stage with a dict of stage, frames, cost and values.
        model: The scene's model, if it exists already.
        checkpoint: Store from which an interrupted job is resumed.
        profile: True: profile likelihoods along the two weakest directions; or names of unknowns.
        stage: Called with a description of what comes after the search, as it begins.

    Returns:
        The fit. Where a direction is unidentifiable, its status is UNIDENTIFIABLE and the values along it are arbitrary.
    """
    problem = _problem(scene, observation, unknowns, model)
    return _profiled(solve(problem, plan, seed, noise_known, report, checkpoint, stage=stage), problem, profile)


def _problem(
    scene,
    observation: Observation,
    unknowns: Sequence[str | Unknown],
    model: Model | None = None,
    priors: Sequence[Prior] = (),
) -> Problem:
    space = Space(scene, unknowns, priors=priors)
    observation = observation.within(space.ranges)
    problem = Problem(model or model_for(scene, space), observation, space)
    require_observable(problem.model, observation, space.values(space.low[None]))
    return problem


def _profiled(fit: Fit, problem: Problem, profile: bool | Sequence[str]) -> Fit:
    """The fit with profile likelihoods, where they are requested and there is a minimum."""
    if not profile or fit.status == Status.FAILED:
        return fit
    return with_profiles(fit, problem, [] if profile is True else profile)


@freed_memory_reused()
@one_thread()
def solve(
    problem: Problem,
    plan: MultistartConfig | None = None,
    seed: int = 0,
    noise_known: bool = True,
    report: Callable[[dict], None] = lambda entry: None,
    checkpoint: CheckpointStore | None = None,
    shooting: MultipleShooting | None = None,
    estimator: str | Estimator = LEAST_SQUARES,
    known_numbers: bool = True,
    discrepancy: bool = False,
    stage: Callable[[str], None] = lambda text: None,
    fraction: Callable[[int, int], None] = lambda finished, total: None,
) -> Fit:
    """Search for the best fit of a problem and judge it; arguments as for `least_squares` and `identify`.

    `stage` is called with a description of what comes after the search, as it begins, and `fraction` as samples of the posterior go on.
    """
    problem.effort.fraction = fraction
    space, plan, search = problem.space, plan or MultistartConfig(), estimator_named(estimator)
    if problem.observation.outline_noise and shooting:
        raise InputError("noise `auto` is for one shot; state the noise, or remove `shooting`.")
    if shooting and any(camera.motion for scene in problem.scenes for camera in scene.views.values()):
        raise InputError(
            "multiple shooting needs a camera that stands still, and a camera of the scene has `motion`; fit in one shot."
        )
    if shooting and any(scene.timing.stamps is not None for scene in problem.scenes):
        raise InputError(
            "multiple shooting needs frames at a constant rate, and the scene has `timing.stamps`; fit in one shot."
        )
    if shooting and discrepancy:
        raise InputError("multiple shooting has no discrepancy; remove `shooting` or `discrepancy`.")
    if shooting and estimator != LEAST_SQUARES:
        raise InputError(f"multiple shooting has an estimator of its own; remove `shooting` or {estimator!r}.")

    def report_values(entry: dict) -> None:
        entry["values"] = dict(zip(space.names, space.numbers(torch.tensor(entry["u"])).tolist(), strict=True))
        report(entry)

    rng = np.random.default_rng(seed)
    if shooting:
        outcome, segments, cut = shoot(problem, shooting, plan.starts, rng, report_values)
        if one_shot := one_shot_suffices(outcome, segments):
            refined = refine(problem, outcome, rng, report_values)
            fit = _with_table(make_fit(*refined, seed, noise_known, checkpoint), refined[0], known_numbers)
        else:
            answer, steps = refine_windows(cut, segments, outcome, shooting.stiffness[-1], report_values)
            cut, segments = answer.cut, answer.segments
            fit = verdict(answer, steps, outcome, seed, noise_known)
        return replace(fit, shooting=jump_record(cut, segments, shooting, one_shot))
    if problem.observation.outline_noise:
        problem, outcome = search_outlines(problem, plan, rng, report_values, checkpoint, search)
    else:
        problem, outcome = pose_noise.at_answer(*_searched(problem, plan, rng, report_values, checkpoint, search))
    stage("halving the time step until the answer stays")
    refined = refine(problem, outcome, rng, report_values)
    stage("error bars and verdict")
    external = problem.model if type(problem) is Problem and isinstance(problem.model, EngineModel) else None
    fit = make_fit(*refined, seed, noise_known, checkpoint)
    if external:
        fit = replace(fit, notes=[*fit.notes, external.note], evidence={**fit.evidence, "engine": external.title})
    fit = with_discrepancy(fit, refined[0]) if discrepancy else fit
    if known_numbers:
        stage("what errors of the known numbers would do")
    return _with_table(replace(fit, estimator=name_of(estimator)), refined[0], known_numbers)


def _searched(problem: Problem, plan, rng, report, checkpoint, search: Estimator) -> tuple[Problem, Outcome]:
    """The problem with the noise of a moving camera's poses, and the outcome of a search in it."""
    problem = pose_noise.at_start(problem)
    return problem, search(problem, plan, rng, report, checkpoint)


def _with_table(fit: Fit, problem: Problem, known_numbers: bool) -> Fit:
    """The fit with the table of its known numbers, where it is requested and there is an answer."""
    return with_known_numbers(fit, problem) if known_numbers and fit.status != Status.FAILED else fit


@freed_memory_reused()
def identify(
    scene,
    unknowns: Sequence[str | Unknown],
    clip: Clip | Files | None = None,
    observation: Observation | None = None,
    starts: int = 16,
    seed: int = 0,
    report: Callable[[dict], None] = lambda entry: None,
    shooting: MultipleShooting | None = None,
    profile: bool | Sequence[str] = False,
    estimator: str | Estimator = LEAST_SQUARES,
    priors: Stated | Sequence[Stated] | None = None,
    known_numbers: bool = True,
    observe: str = "outlines",
    engine: str | Engine = OURS,
    discrepancy: bool = False,
) -> Fit:
    """Identify physical parameters from a video.

    Args:
        scene: `Scene` with shape, camera, pushes and all else that is known.
        unknowns: Unknowns: NAME, NAME:LOW:HIGH or `Unknown`, such as "cube.mass:2:12".
        clip: Video file, video files by camera, or `Clip` with a mask, noise, frames to use; or give an observation.
        observation: `Masks`, `States`, `Vertices` or `Images` in place of a clip.
        starts: Number of starts, drawn uniformly over the ranges.
        seed: Random seed of the starts.
        report: Called after each stage of the search.
        shooting: Multiple shooting for a long or chaotic clip, such as `MultipleShooting(window=20)`.
        profile: True: profile likelihoods along the two weakest directions; or names of unknowns.
        estimator: Search for the lowest cost: "least-squares" (multi-start Levenberg–Marquardt), "gradient-descent" (Adam on
            adjoints), a name added by `register_estimator`, or an `Estimator` itself. Error bars and verdict are the same.
        priors: Numbers that are known with an uncertainty: `Prior`, "NAME=MEAN±SD", a file of `gradsim.capture/1`, {NAME: (MEAN, SD)},
            or several of these, besides those of the scene. What is not among the unknowns becomes one that starts at its mean.
        known_numbers: Whether to examine what errors of known numbers would do to the unknowns.
        observe: "outlines", or "pictures": outlines and the colors inside of them (`identification.colors`), of one clip and camera.
        engine: What moves the bodies: "gradsim", "mujoco" (extra `engines`), a name added by `register_engine`, or an `Engine`, such
            as a function of a scene and times (`identification.engines`).
        discrepancy: Whether to add error bars that hold where the model is wrong, by a discrepancy correlated in time
            (`identification.uncertainty.discrepancy`); verdict and values stay.

    Raises:
        InputError: If an argument is wrong, before any work starts.
    """
    if observe not in OBSERVED:
        raise InputError(f"observe is {observe!r}; expected one of {', '.join(OBSERVED)}.")
    if (clip is None) == (observation is None):
        raise InputError("give exactly one of `clip` and `observation`.")
    if observation is None:
        assert clip is not None
        first = next(iter(Clip.of(clip).videos.values()), None)
        scene = scene if first is None else with_stamps(scene, first)
        pictures = observe == "pictures"
        observation = Clip.of(clip).observe(scene, outlines_by_default=shooting is None, textured=pictures)
    elif observe == "pictures":
        raise InputError("observe='pictures' reads a video; give a clip in place of an observation.")
    estimator_named(estimator)  # an unknown name is refused before the model is built
    mover = chosen_engine(engine, estimator, observe)
    if mover is not None and shooting:
        raise InputError(
            "another engine begins at the start of a clip; leave `shooting` out, or choose the engine gradsim."
        )
    stated, words = priors_of([scene], priors)
    model = None if mover is None else EngineModel(scene, mover)
    problem = _problem(scene, observation, unknowns, model, stated)
    plan, table = MultistartConfig(starts=starts), known_numbers
    if observe == "pictures":
        if shooting or profile or discrepancy:
            raise InputError(
                "observe='pictures' is for one shot without profile likelihoods; remove `shooting`, `profile` and `discrepancy`."
            )
        assert clip is not None
        fit = _fit_pictures(problem, Clip.of(clip), plan, seed, report, estimator)
        return replace(fit, notes=[*fit.notes, *words])
    fit = solve(
        problem,
        plan,
        seed,
        report=report,
        shooting=shooting,
        estimator=estimator,
        known_numbers=table,
        discrepancy=discrepancy,
    )
    fit = replace(fit, notes=[*fit.notes, *words])
    return fit if shooting else _profiled(fit, problem, profile)


@one_thread()
def _fit_pictures(
    problem: Problem,
    clip: Clip,
    plan: MultistartConfig,
    seed: int,
    report: Callable[[dict], None],
    estimator: str | Estimator,
) -> Fit:
    from gradsim.identification.colors.film import Film
    from gradsim.identification.colors.fit import fit_pictures

    (path,) = clip.videos.values()
    (camera,) = clip.videos
    film = Film.read(problem.model.scene, path, clip.frames, clip.ignore, clip.background, camera)
    return replace(
        fit_pictures(problem, film, estimator_named(estimator), plan, seed, report)[0], estimator=name_of(estimator)
    )
