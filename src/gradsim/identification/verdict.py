"""From the end of a search to a `Fit`: error bars, samples where the likelihood has valleys, and the verdict."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import Status
from gradsim.identification.fit import Fit
from gradsim.identification.held_numbers import drawn_indices, with_priors_held
from gradsim.identification.outline_search import on_large_pixels
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.sensitivity.lyapunov import growth
from gradsim.identification.solvers.aliases import spin_aliases
from gradsim.identification.solvers.de_mcmc import Samples, sample
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import Outcome, thinned
from gradsim.identification.solvers.second_look import second_look
from gradsim.identification.solvers.thresholds import NOISELESS_LEVEL
from gradsim.identification.uncertainty.bounce import restitution
from gradsim.identification.uncertainty.causes import MOST, describe, likely_causes, misfit_of
from gradsim.identification.uncertainty.contact_causes import contact_cause
from gradsim.identification.uncertainty.discretization import Discretization, refine, with_steps
from gradsim.identification.uncertainty.fisher import analyze, is_quadratic, secant_fisher
from gradsim.identification.uncertainty.flight import Flight, refuting_flight
from gradsim.identification.uncertainty.intervals import Z95, estimates_with_intervals
from gradsim.identification.uncertainty.missing_effects import missing_effects
from gradsim.identification.uncertainty.other_minima import Limits, OtherMinima, other_minima
from gradsim.identification.uncertainty.outline import fit_outline
from gradsim.identification.uncertainty.prior_shares import report_priors
from gradsim.identification.uncertainty.range_ends import near_ends, pressed_ends, unconstrained_step
from gradsim.identification.uncertainty.residual_diagnostics import chi2_limit, outlier_threshold, residual_diagnostics
from gradsim.identification.uncertainty.smc import MIN_FINDERS, central, confirmed_posterior, posterior
from gradsim.identification.uncertainty.tolerance import relative, tolerances
from gradsim.identification.uncertainty.valleys import principal_axes
from gradsim.numerics.formatting import with_error
from gradsim.physics.energy import energy_increases
from gradsim.runtime.progress import CheckpointStore

POLISHED = 10  # linearisations from a better point that samples met
FROZEN_NOTE = (
    "Contact cuts the likelihood into valleys too narrow to be explored, so the error bars use the first {:.0%} of the frames "
    "only: they are wider than those of the whole clip."
)
DISAGREE_NOTE = (
    "Contact cuts the likelihood into more valleys than a search finds: independent searches ended in different ones, and "
    "the error bars include how far these lie apart. Fewer frames after the first contacts make it smoother."
)
NO_SCALE_NOTE = (
    "The posterior could not be sampled: its curvature differs by too many orders of magnitude, as where a contact makes the motion forget its "
    "parameters. The error bars are those of the curvature at the answer. Damp the contact, or use fewer frames."
)
NOT_MINIMAL = (
    "The search stopped short of the minimum: one Gauss–Newton step lowers χ² by {:.2g}, so the answer is off by some {:.2g} "
    "standard deviations, which the error bars do not contain."
)
UNSUPPORTED = (
    "None of the {} starts came to this minimum without a restart from another, and contact has kinked the likelihood: values "
    "outside of the intervals may explain the video as well. Use more starts, or fit a part of the video first."
)
REFUTED_NOTE = (
    "The {} frames before the first contact alone leave χ² of {:.2g} for each residual of the whole clip, whatever the values: no motion of this "
    "model explains the video with the stated noise. So no samples looked for other valleys, and error bars are those of the curvature at "
    "the answer. Estimate the noise (--noise auto), or look at camera, clock and forces."
)
SUPPORTING = 8  # starts from which on it says something that none, or each of them, came to the answer
NOISELESS = 1e-2  # χ²/N below which no noise is left that error bars could be sampled from
HOPELESS = 50.0  # χ²/N from which on samples, which take minutes, cannot make a model explain the data
CHAIN_GENERATIONS = 160  # of chains in another engine or of a log, whose rollouts take long
NORMAL_DRAWS = 400  # from the curvature, where a posterior cannot be sampled


def make_fit(
    problem: Problem,
    outcome: Outcome,
    discretization: Discretization | None,
    seed: int,
    noise_known: bool,
    checkpoint: CheckpointStore | None = None,
    sampled: bool = True,
) -> Fit:
    """Estimates, error bars and status of a search.

    Args:
        problem: At the time step of the answer.
        outcome: Of the search, as `refine` returns it.
        discretization: The verdict of `refine`; what half the step still moves is part of the error bars.
        seed: Random seed of samples.
        noise_known: As for `least_squares`.
        checkpoint: Store of the samples so far.
        sampled: Whether to sample the posterior where contact may kink the likelihood.
    """
    space, best, cost = problem.space, outcome.best, outcome.best_cost
    if problem.observation.outline_noise and math.isfinite(cost):
        return _outline_fit(problem, outcome, discretization, seed, sampled)
    fisher, g, chi2, informative = _evidence(problem, best)
    scale = 1.0 if noise_known else max(chi2 / max(1.0, informative - len(space)), 1e-30)
    prior = problem.prior_precision  # not a residual: not scaled
    wide, nonsmooth = secant_fisher(problem, best, (fisher - prior) / scale + prior, variance=scale)
    samples, notes = None, _notes(problem, best)
    pushed = any(scene.pushes for scene in problem.scenes)
    bent = nonsmooth or any(scene.surfaces for scene in problem.scenes)
    noisy = problem.observation.noise_floor(problem.frames).level >= NOISELESS_LEVEL and chi2 > NOISELESS * informative
    likely = sampled and noise_known and bent and noisy and chi2 < HOPELESS * informative
    refuting = _refuting_flight(problem, outcome, chi2, informative) if likely else None
    if refuting:
        notes.append(REFUTED_NOTE.format(*refuting))
    is_sampled = likely and not refuting
    explores = is_sampled and type(problem) is Problem  # clouds of samples do, chains about the answer do not
    others, better = None, None
    is_determined = math.isfinite(cost) and analyze(space, wide, pushed).rank == len(space)
    if is_determined and not refuting:
        kinked = explores and nonsmooth
        others, better = _others(problem, outcome, wide, scale, discretization, seed, not nonsmooth, kinked)
    if better is not None:
        return make_fit(*_judged_again(problem, better, discretization, seed), seed, noise_known, checkpoint, sampled)
    searched = best, analyze(space, wide, pushed).std_inner, cost  # samples may move the answer to another minimum
    if is_sampled:
        if explores:
            one = not nonsmooth and others is None and _shows_one_valley(problem, best, fisher, outcome)
            samples, more = _explored(problem, best, wide, discretization, seed, outcome, one_valley=one, others=others)
            alone = nonsmooth and len(outcome.initial) >= SUPPORTING and not outcome.converged()
            notes += more + [UNSUPPORTED.format(len(outcome.initial))] * alone
        else:
            rng = np.random.default_rng(seed)
            samples = sample(problem, best, principal_axes(wide), rng, checkpoint=checkpoint)
        if samples.best_cost < cost:
            iterates, _ = descend(problem, Population.at(samples.best[None]), problem.frames, "pixels", POLISHED)
            best, cost = iterates.u[0], iterates.cost[0].item()
            fisher, g, chi2, informative = _evidence(problem, best)
        wide = torch.linalg.inv(torch.cov(samples.u.T).reshape(len(space), -1) + 1e-18 * torch.eye(len(space)))
    value = central(samples.u, best) if samples is not None and samples.agreed else best
    wide, samples, discretization = with_steps(space, wide, samples, discretization, seed)
    if (gain := _distance_from_minimum(problem, best, cost, fisher, g, scale)) > 1:
        notes.append(NOT_MINIMAL.format(gain, math.sqrt(gain)))
    spare = max(1.0, informative + sum(len(weight.columns) for weight in space.weights) - len(space))
    chi2_per_n = (chi2 + problem.prior_cost(best[None]).item()) / spare  # a prior is a residual for each of its numbers
    uncertainty = analyze(space, wide, pushed)
    estimates = estimates_with_intervals(space, value, uncertainty, samples)
    others = others.among(samples.u) if others is not None and samples is not None else others
    if others is not None:
        notes.append(others.words(space, *searched))
        if not explores:
            estimates = others.widened(space, best, uncertainty.std_inner, estimates)
            uncertainty = replace(uncertainty, posterior=others.covariance(best, uncertainty.posterior))
    left = residual_diagnostics(problem, best, outcome.history) if math.isfinite(cost) else None
    priors = report_priors(space, value, uncertainty.std_inner, (fisher - prior) / scale)
    covariance = torch.linalg.pinv(wide, hermitian=True)
    pressed = pressed_ends(space, best, unconstrained_step(fisher, g), covariance)
    notes += (priors.words if priors else []) + pressed.words
    explained = chi2_per_n <= chi2_limit(spare) and (left is None or left.white)
    if not math.isfinite(cost):
        status = Status.FAILED
    elif (noise_known and not explained) or pressed.contradicted or (priors and priors.conflict):
        status = Status.MISMATCH
        notes += [] if pressed.words else near_ends(space, best)
    elif not all(e.identifiable for e in estimates.values()):
        status = Status.UNIDENTIFIABLE
    elif not (samples is None or samples.agreed):
        status = Status.UNCONVERGED
    else:
        status = Status.OK
    for entry in outcome.history:
        entry.pop("u", None)
    return Fit.of(
        problem,
        outcome,
        status=status,
        unknowns=estimates,
        uncertainty=uncertainty,
        sigma_reference=problem.observation.sigma * (1.0 if noise_known else math.sqrt(scale)),
        chi2_per_n=chi2_per_n if noise_known else chi2_per_n / scale,
        informative=informative,
        seed=seed,
        nonsmooth=nonsmooth,
        residual_diagnostics=left,
        discretization=discretization,
        notes=notes,
        evidence=dict(problem.observation.notes)
        | _contact_law(problem, value, covariance)
        | ({"other_minima": others.result(space)} if others is not None else {}),
        priors=priors.result() if priors else {},
    )


def _refuting_flight(problem: Problem, outcome: Outcome, chi2: float, informative: float) -> Flight | None:
    """The flight of an answer that does not explain the clip, where it alone says that no other does."""
    if type(problem) is not Problem or problem.is_external or chi2 <= chi2_limit(max(1.0, informative)) * informative:
        return None
    return refuting_flight(problem, outcome.best, outcome.initial, informative)


def _is_looked_over(problem: Problem) -> bool:
    """True for one clip in our engine; a log is long, and its descents come to one place."""
    return type(problem) is Problem and problem.observation.growth == 1 and not problem.is_external


def _others(
    problem: Problem,
    outcome: Outcome,
    information: Tensor,
    variance: float,
    discretization: Discretization | None,
    seed: int,
    looks: bool,
    kinked: bool,
    pixels: Callable[[Problem], Problem] = lambda problem: problem,
) -> tuple[OtherMinima | None, Outcome | None]:
    """Minima that explain the data as well as the answer; or the outcome with one that does so better.

    Args:
        problem: At the time step of the answer.
        outcome: Of the search.
        information: About the answer.
        variance: Of the whitened residuals.
        discretization: The verdict on the time step: the second look is on the steps of the search.
        seed: Random seed of the second look.
        looks: Whether to look a second time, where the problem is one for it.
        kinked: Whether contact cuts χ² into valleys, in which starts end everywhere: aliases of angular velocities alone are compared then.
        pixels: The problem on those of the second look.
    """
    searched, ends, is_looked_over = problem, outcome.ends[:0] if kinked else outcome.ends, _is_looked_over(problem)
    if is_looked_over:
        steps = discretization.searched[0] if discretization else problem.model.substeps
        searched = problem.with_substeps(steps) if steps < problem.model.substeps else problem
    limits = cache(lambda: Limits.of(problem, outcome.best, outcome.best_cost, variance, searched))
    if is_looked_over and looks and not outcome.looked_over:
        looked = pixels(searched)
        bound = lambda: limits().most_there if looked is searched else math.inf  # larger pixels have other costs
        ends = torch.cat([ends, second_look(looked, outcome.best, np.random.default_rng(seed), bound)])
    if is_looked_over:
        ends = torch.cat([ends, spin_aliases(problem, outcome.best)])
    if not len(ends):
        return None, None
    others = other_minima(problem, outcome.best, outcome.best_cost, information, ends, variance, searched, limits)
    if others is None or not others.is_better:
        return others, None
    ended = [] if kinked else outcome.cost.isfinite().nonzero()[:, 0].tolist()
    lowest, cost = others.cost[0].item(), outcome.cost.clone()
    cost[[ended[k] for k in others.ends[0] if k < len(ended)]] = lowest  # starts that came to it
    answer = {"best": others.u[0], "best_cost": lowest, "cost": cost, "looked_over": True}
    return None, replace(outcome, **answer, resampled=torch.cat([ends, outcome.best[None]]))


def _judged_again(
    problem: Problem, outcome: Outcome, discretization: Discretization | None, seed: int
) -> tuple[Problem, Outcome, Discretization | None]:
    """The problem, the outcome and the verdict on the time step at another minimum than the one that steps were halved for."""
    if discretization is None:
        return problem, outcome, None
    problem, outcome, judged = refine(problem, outcome, np.random.default_rng(seed))
    if judged is not None:
        judged = replace(judged, searched=discretization.searched, clip_frames=discretization.clip_frames)
    return problem, outcome, judged


def _explored(
    problem: Problem,
    u: Tensor,
    information: Tensor,
    discretization: Discretization | None,
    seed: int,
    outcome: Outcome,
    columns: Sequence[int] | slice = slice(None),
    one_valley: bool = False,
    others: OtherMinima | None = None,
) -> tuple[Samples, list[str]]:
    """Samples of the posterior of one clip in which contact may cut the likelihood into valleys, and notes on them.

    Args:
        problem: The problem.
        u: The answer (unknowns,).
        information: About it.
        discretization: Verdict on the time step.
        seed: Random seed.
        outcome: Of the search.
        columns: Unknowns of the search that are those of the problem.
        one_valley: Whether `_shows_one_valley` holds, so that weights may take the place of a second search.
        others: Minima that explain the data as well, which samples have to hold, too.
    """
    # a stretch of a log lacks the samples about its ends, so that a cloud may not follow
    finders, is_log = outcome.converged(), problem.observation.growth > 1
    if problem.is_external or is_log:
        ends = torch.cat([u[None], outcome.final[outcome.cost.isfinite()][:, columns]])
        samples = confirmed_posterior(problem, ends, finders, np.random.default_rng(seed))
        if samples is None and (is_log or finders >= MIN_FINDERS):
            # chains follow the teeth of a valley that weights are too few for
            rng = np.random.default_rng(seed)
            axes, report = principal_axes(information), problem.effort.fraction
            samples = sample(problem, u, axes, rng, generations=CHAIN_GENERATIONS, report=report)
        if samples is not None:
            return samples, []
    elif one_valley and (samples := confirmed_posterior(problem, u[None], finders, np.random.default_rng(seed))):
        return samples, []
    searched = discretization.searched[0] if discretization else problem.model.substeps
    coarse = thinned(problem.with_substeps(searched) if searched < problem.model.substeps else problem)
    rng = np.random.default_rng(seed)
    try:
        more = {} if others is None else {"others": others.u}
        samples, followed = posterior(problem, u, information, rng, None if coarse is problem else coarse, **more)
    except torch.linalg.LinAlgError:  # pyright: ignore[reportPrivateImportUsage] -- public, but not in `__all__`
        axes = principal_axes(information.nan_to_num(0.0, 0.0, 0.0))
        draws = u + torch.tensor(rng.standard_normal((NORMAL_DRAWS, len(u)))) @ axes.T
        cost = problem.cost(u[None], problem.frames).item()
        samples = Samples(draws.clamp(problem.space.low, problem.space.high), u, cost, 0.0, agreed=False)
        return samples, [NO_SCALE_NOTE]
    return samples, [FROZEN_NOTE.format(followed)] * (followed < 1) + [DISAGREE_NOTE] * (not samples.agreed)


def _outline_fit(
    problem: Problem, outcome: Outcome, discretization: Discretization | None, seed: int, sampled: bool
) -> Fit:
    """Fit of masks whose outlines are off: error bars and verdict from the outlines (`uncertainty.outline`).

    Where errors of outlines explain what is left, effects of the camera that the scene lacks are tested (`uncertainty.missing_effects`).
    Where contact cuts the likelihood into valleys, not all starts come to the same one, or χ² does not rise as at one. Then samples tell
    how far these lie apart, with the σ of pixels that outlines come to; each is moved at random by what the errors of outlines are wider
    along some directions.
    """
    space = problem.space
    observed = problem
    problem, best, outline = fit_outline(problem, outcome.best)
    wide = torch.linalg.inv(outline.covariance + 1e-18 * torch.eye(len(space)))
    value, samples, notes = best, None, _notes(problem, best)
    fisher, _, chi2, informative = _evidence(problem, best)
    bent = any(scene.surfaces for scene in problem.scenes) and not _shows_one_valley(problem, best, fisher, outcome)
    if sampled and outline.explained and bent:
        samples, lowest, value, more = _sampled_with_priors_held(problem, best, fisher, discretization, seed, outcome)
        notes += more
        if lowest is not None:
            before = best
            problem, best, outline = fit_outline(observed, lowest)
            samples = replace(samples, u=samples.u + torch.where(samples.u.std(0) > 0, 0.0, best - before))
            fisher, _, chi2, informative = _evidence(problem, best)
            value = value if samples.agreed else best
        free = drawn_indices(space)
        spread = torch.zeros_like(fisher)
        spread[np.ix_(free, free)] = torch.linalg.pinv(fisher[free][:, free], hermitian=True)
        samples = _widened(samples, outline.covariance - spread, seed)
        wide = torch.linalg.inv(torch.cov(samples.u.T).reshape(len(space), -1) + 1e-18 * torch.eye(len(space)))
    wide, samples, discretization = with_steps(space, wide, samples, discretization, seed)
    uncertainty = analyze(space, wide, any(scene.pushes for scene in problem.scenes))
    estimates = estimates_with_intervals(space, value, uncertainty, samples)
    scale = max(chi2 / max(1.0, informative), 1e-300)
    others = None
    if uncertainty.rank == len(space):
        kinked, cost = samples is not None, observed.cost(outcome.best[None], observed.frames).item()
        variance, whole = max(scale, 1.0), replace(outcome, best_cost=cost)
        others, better = _others(
            observed, whole, wide, variance, discretization, seed, not kinked, kinked, on_large_pixels
        )
        if better is not None:
            return _outline_fit(*_judged_again(observed, better, discretization, seed), seed, sampled)
    others = others if outline.explained else None
    if others is not None:
        notes.append(others.words(space, best, uncertainty.std_inner, cost))
        estimates = others.widened(space, best, uncertainty.std_inner, estimates)
        uncertainty = replace(uncertainty, posterior=others.covariance(best, uncertainty.posterior))
    left = residual_diagnostics(problem, best, outcome.history)
    misfit = misfit_of(outline)
    causes, sentences, contact = [], outline.words, None
    ours = not problem.model.is_external  # causes are tried in our engine
    missing = missing_effects(problem, best, outline) if ours and outline.explained else None
    if missing:
        causes, sentences = missing.causes, sentences + missing.words
    elif ours and not outline.explained:
        masks = observed.observation.mask_faults  # pyright: ignore[reportAttributeAccessIssue] -- Masks
        if not (masks and masks.of_method):
            contact = contact_cause(observed, best, outcome.history, misfit, model_for)
        causes = contact.causes if contact else likely_causes(observed, best, misfit)
        sentences += contact.words(misfit) if contact else describe(causes, problem, misfit)
    known = all(e.identifiable for e in estimates.values())
    priors = report_priors(space, value, uncertainty.std_inner, outline.video)
    notes += priors.words if priors else []
    explained = outline.explained and not missing
    half = None if explained else tolerances(space, best, [missing.together] if missing else causes)
    if half is not None:
        missed = replace(uncertainty, std_inner=half / Z95, relative=half / Z95 / space.unit)
        estimates = estimates_with_intervals(space, best, missed)
        share = f"{100 * relative(space, best, half).max().item():.2g} %"
        sentences += f" With the cause and without it, the numbers are the same within {share}, to which they are good."
    pressed = pressed_ends(space, best, outline.step, outline.covariance)
    notes += pressed.words
    status = Status.OK if explained else Status.MISMATCH if half is None else Status.APPROXIMATE
    if status == Status.OK and (pressed.contradicted or (priors and priors.conflict)):
        status = Status.MISMATCH
    if status == Status.OK and not (known and (samples is None or samples.agreed)):
        status = Status.UNCONVERGED if known else Status.UNIDENTIFIABLE
    if status == Status.MISMATCH and not pressed.words:
        notes += near_ends(space, best)
    if left is not None:
        by_frame = [x / scale for x in left.chi2_per_n]
        left = replace(left, chi2_per_n=by_frame, white=explained, words=sentences)
    for entry in outcome.history:
        entry.pop("u", None)
    return Fit.of(
        problem,
        outcome,
        status=status,
        unknowns=estimates,
        uncertainty=uncertainty,
        sigma_reference=problem.observation.sigma * math.sqrt(scale),
        chi2_per_n=outline.excess,
        informative=informative,
        seed=seed,
        residual_diagnostics=left,
        discretization=discretization,
        outline=outline.result()
        | {"words": sentences, "causes": [cause.result() for cause in causes[:MOST]]}
        | ({"explained": explained, "missing": missing.result()} if missing else {})
        | ({"contact": contact.result()} if contact else {}),
        notes=notes,
        evidence=dict(problem.observation.notes)
        | _contact_law(problem, value, torch.linalg.pinv(wide, hermitian=True))
        | ({"other_minima": others.result(space)} if others is not None else {}),
        priors=priors.result() if priors else {},
    )


def _unanimous(outcome: Outcome) -> bool:
    """True if all starts that followed the clip to its end came to the answer, and they are most of enough starts.

    Others were left behind in the first frames, which they did not explain.
    """
    ended, count = int(outcome.cost.isfinite().sum()), len(outcome.initial)
    return count >= SUPPORTING and 2 * ended > count and outcome.converged() == ended


def _shows_one_valley(problem: Problem, u: Tensor, fisher: Tensor, outcome: Outcome) -> bool:
    """True if the starts agree on the answer (`_unanimous`), and χ² rises from it as its curvature says."""
    return _unanimous(outcome) and is_quadratic(problem, u, fisher)


def _sampled_with_priors_held(
    problem: Problem, u: Tensor, fisher: Tensor, discretization: Discretization | None, seed: int, outcome: Outcome
) -> tuple[Samples, Tensor | None, Tensor, list[str]]:
    """Samples of the posterior over the unknowns that are more than a prior, the others at u (unknowns,).

    Returns:
        Samples of all unknowns, a point of a lower cost than u or None, the value to state, and notes.
    """
    part, free = with_priors_held(problem, u), drawn_indices(problem.space)
    information = secant_fisher(part, u[free], fisher[free][:, free])[0]
    samples, notes = _explored(part, u[free], information, discretization, seed, outcome, free)
    lower = samples.best_cost < part.cost(u[free][None], part.frames).item()

    def whole(inner: Tensor) -> Tensor:
        columns = u.expand(*inner.shape[:-1], -1).clone()
        columns[..., free] = inner
        return columns

    value = central(samples.u, samples.best if lower else u[free]) if samples.agreed else u[free]
    everything = replace(samples, u=whole(samples.u), best=whole(samples.best))
    return everything, everything.best if lower else None, whole(value), notes


def _widened(samples: Samples, covariance: Tensor, seed: int) -> Samples:
    """Samples moved at random by a covariance (unknowns, unknowns), of which only what is positive counts."""
    scale = covariance.diagonal().abs().clamp(min=1e-300).sqrt()  # units do not matter
    balanced = (covariance / scale / scale[:, None]).nan_to_num(0.0, 0.0, 0.0)
    eigenvalues, axes = torch.linalg.eigh((balanced + balanced.mT) / 2)
    normal = torch.tensor(np.random.default_rng(seed).standard_normal(samples.u.shape))
    return replace(samples, u=samples.u + normal * eigenvalues.clamp(min=0).sqrt() @ axes.T * scale)


def _contact_law(problem: Problem, u: Tensor, covariance: Tensor) -> dict[str, Any]:
    """Entries `contact_law` and `restitution` of the result, where an unknown is a number of a contact law.

    Other engines have other laws; the share of the speed that a bounce leaves is the same in all.
    """
    numbers = {}
    for scene in problem.scenes:
        for name in problem.space.names:
            owner, law = name.rpartition(".")[0], "continuous"  # that of contacts between bodies
            if owner in scene.surfaces:
                numbers[name] = scene.surfaces[owner].law
            elif owner.startswith("contacts."):
                numbers[name] = law
    if not numbers:
        return {}
    laws, names = " and ".join(dict.fromkeys(numbers.values())), ", ".join(numbers)
    text = f"{names} {'is a number' if len(numbers) == 1 else 'are numbers'} of our contact law {laws}"
    text = f"{text}; an engine with another law moves alike with other numbers."
    shares = restitution(problem, u, covariance) if type(problem) is Problem else {}
    for surface, share in shares.items():
        left = with_error(share["value"], share["std"])
        text += (
            f" A bounce on `{surface}` leaves {left} of the speed across it (restitution; mass and stiffness cancel)."
        )
    return {"contact_law": text} | ({"restitution": shares} if shares else {})


def _notes(problem: Problem, u: Tensor) -> list[str]:
    """Warnings of the growth rate of errors, and of energy that steps make; none for several clips and other engines."""
    if problem.problems != [problem] or problem.model.is_external:
        return []
    model = problem.model
    values = problem.space.values(u[None])
    notes = growth(model, values, problem.frames, columns=problem.effort.evaluations.columns).warnings
    if model.scene.timing.substeps != "auto":
        notes = [*notes, *(rise.words for rise in energy_increases(model, problem.trajectory(u)))]
    return notes


def _evidence(problem: Problem, u: Tensor) -> tuple[Tensor, Tensor, float, float]:
    """Fisher information, Jᵀ r, and χ² and number of the residuals that carry information or contradict the model."""
    n, limit = len(u), outlier_threshold(problem)
    fisher, chi2, count = problem.prior_precision, 0.0, 0.0
    g = problem.prior_gradient(u)
    for r, J in problem.jacobian(u[None], problem.frames):
        fisher, g = fisher + J[0].T @ J[0], g + J[0].T @ r[0]
        counts = (J[0].abs().amax(1) > 1e-9 * J[0].abs().max().clamp(min=1e-300)) | (r[0].abs() > limit)
        chi2 += r[0][counts].square().sum().item()
        count += counts.sum().item()
    return fisher.reshape(n, n), g, chi2, count


def _distance_from_minimum(
    problem: Problem, u: Tensor, cost: float, fisher: Tensor, g: Tensor, variance: float
) -> float:
    """Decrease of χ², in units of `variance`, in one step of Levenberg–Marquardt; below 1 at a minimum.

    The step is tried only where the Newton decrement gᵀ A⁻¹ g promises as much: contact has slopes that lead nowhere.
    """
    space = problem.space
    free = ~(((u <= space.low) & (g > 0)) | ((u >= space.high) & (g < 0)))  # others are held by their range
    finite = torch.isfinite(fisher).all() and torch.isfinite(g).all()
    if not finite or g[free] @ torch.linalg.pinv(fisher[free][:, free], hermitian=True) @ g[free] <= variance:
        return 0.0
    iterates, _ = descend(problem, Population.at(u[None]), problem.frames, "pixels", 1)
    return (cost - iterates.cost[0].item()) / variance
