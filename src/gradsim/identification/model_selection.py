"""Candidate models of one observation, each fitted from starts over the same ranges, and which of them the data choose.

    AIC = χ²/ĉ + 2k       AICc = AIC + 2k(k + 1)/(N − k − 1)       BIC = χ²/ĉ + k log N

χ²: the least that was found, over all data; k: number of unknowns; N: residuals that carry information. ĉ is 1 while the
best candidate explains the data, and its χ²/N where none does: misfit that no candidate removes then counts as noise
(quasi-AIC, Burnham & Anderson 2002). Differences in BIC above 10 are very strong evidence (Kass & Raftery 1995).

Several recordings are fitted together, and with `folds` each candidate also predicts those that its fit left out (`comparison.folds`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from gradsim.errors import InputError, Status
from gradsim.identification.comparison.candidates import (
    Changes,
    as_json,
    edit_scene,
    priors_left,
    standard_candidate,
)
from gradsim.identification.comparison.folds import GIVEN_MODEL, Prediction, Recordings, check_folds, predict_folds
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Observation
from gradsim.identification.observation.clip import Clip, Files
from gradsim.identification.priors import Stated, priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.multistart import MultistartConfig, Outcome, search
from gradsim.identification.uncertainty.discretization import Discretization, refine
from gradsim.identification.uncertainty.known_numbers import with_known_numbers
from gradsim.identification.uncertainty.residual_diagnostics import chi2_limit
from gradsim.identification.unknowns import Space, Unknown
from gradsim.identification.verdict import make_fit
from gradsim.runtime.atomic import write_json
from gradsim.scene.scene import Scene

VERY_STRONG_EVIDENCE = 10.0  # ΔBIC of very strong evidence
Refined = tuple[Problem, Outcome, Discretization | None]  # what `refine` returns
Edit = tuple[list[Scene], list[Unknown]]  # scenes with the changes of a candidate, and its unknowns


@dataclass(frozen=True)
class Candidate:
    """One model and how it fares.

    Args:
        name: Its name.
        changes: Edits of the scene; `unknowns` lists additional unknowns.
        scenes: Of each recording, with the changes.
        fit: Its fit.
        parameters: Their number, k.
        chi2: Least cost found, over all data.
        aic: Akaike's criterion.
        aicc: The same for few data.
        bic: Schwarz's criterion.
        delta: BIC above the least of all.
        weight: Share of exp(−BIC/2) among the candidates.
    """

    name: str
    changes: Changes
    scenes: Sequence[Scene]
    fit: Fit
    parameters: int
    chi2: float
    aic: float
    aicc: float
    bic: float
    delta: float
    weight: float

    @property
    def scene(self) -> Scene:
        """That of the first recording."""
        return self.scenes[0]


@dataclass(frozen=True)
class Comparison:
    """Result of `compare`.

    Args:
        candidates: By name, as given first.
        chosen: Name of the one of least BIC.
        informative: N of the criteria.
        inflation: ĉ of the criteria.
        words: The verdict.
        prediction: K-fold prediction of recordings, where folds were requested.
    """

    candidates: dict[str, Candidate]
    chosen: str
    informative: int
    inflation: float
    words: str
    prediction: Prediction | None = None

    def predicting(self, prediction: Prediction) -> "Comparison":
        """The same comparison with K-fold prediction, and whether both choose one model."""
        if prediction.best == self.chosen:
            both = "BIC chooses the same model."
        else:
            both = f"BIC chooses the model {self.chosen}."
        return replace(self, prediction=prediction, words=f"{self.words} {prediction.words} {both}")

    @property
    def best(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]

    @property
    def table(self) -> str:
        """One line for each candidate, the best first."""
        width = max(len(name) for name in self.candidates)
        lines = [f"{'model':<{width}}   k        χ²/N        ΔBIC   weight"]
        for c in sorted(self.candidates.values(), key=lambda c: c.delta):
            shares = f"{c.fit.chi2_per_n:>9.3g}   {c.delta:>9.4g}   {c.weight:>6.3f}"
            lines.append(f"{c.name:<{width}}  {c.parameters:>2}   {shares}")
        return "\n".join(lines)

    def result(self) -> dict:
        """For `result.json`."""
        rows = []
        for c in self.candidates.values():
            result = c.fit.result()
            selected = {key: result[key] for key in ("status", "chi2_per_n", "unknowns", "residual_diagnostics")}
            numbers = {key: getattr(c, key) for key in ("parameters", "chi2", "aic", "aicc", "bic", "delta", "weight")}
            rows.append({"name": c.name, "changes": as_json(c.changes), **numbers, **selected})
        content = {"candidates": rows, "chosen": self.chosen, "informative": self.informative}
        content |= {"inflation": self.inflation, "words": self.words}
        return content | ({"prediction": self.prediction.result()} if self.prediction else {})

    def save(self, folder: str | Path) -> Path:
        """Write `result.json` of the chosen fit, with the comparison in it, and its `history.json`."""
        self.best.fit.save(folder)
        return write_json(Path(folder) / "result.json", {**self.best.fit.result(), "comparison": self.result()})


def compare(
    scene: Scene | Sequence[Scene],
    unknowns: Sequence[str | Unknown],
    clip: Clip | Files | None = None,
    observation: Observation | None = None,
    candidates: Mapping[str, Changes] | Sequence[str] = ("without friction", "without elasticity"),
    plan: MultistartConfig | None = None,
    seed: int = 0,
    report: Callable[[dict], None] = lambda entry: None,
    stage: Callable[[str], None] = lambda text: None,
    sampled: bool = True,
    priors: Stated | Sequence[Stated] | None = None,
    clips: Sequence[Clip | Files] | None = None,
    observations: Sequence[Observation] | None = None,
    folds: int | None = None,
    first_frames: int = 0,
) -> Comparison:
    """Fit the scene as given and every candidate, and rank them.

    Args:
        scene: The scene as given, always a candidate itself; of several recordings one for all, or one for each.
        unknowns: As for `identify`; of several recordings as for `identify_many`.
        clip: Video file, video files by camera, or `Clip`; or give an observation, clips or observations.
        observation: In place of a clip.
        candidates: Changes by name: dotted names of the scene file with new values (None removes), and `unknowns` for
            what is solved for in addition: {"no friction": {"ground.friction": 0}}. The name of a body alone replaces it,
            also by one of another kind; its own unknowns go. Or names of standard candidates: see
            `gradsim.identification.comparison.candidates`.
        plan: Starts and curriculum, the same for all.
        seed: Random seed of the starts and the folds.
        report: Called after each stage of each search.
        stage: Called with a description of each stage as it begins.
        sampled: Whether error bars of the chosen model come from samples where contact may kink the likelihood.
        priors: As for `identify`; of every model that has the number and does not set it.
        clips: Several recordings, as `clip`, which all models fit together.
        observations: In place of clips.
        folds: Number of folds of the recordings: each is predicted by fits to the others, besides the fits to all. None: no prediction.
        first_frames: First frames of a predicted recording, to which unknowns that it has for itself (NAME@each) are fitted.

    Raises:
        InputError: If an argument is wrong, before any work starts.
    """
    if sum(x is not None for x in (clip, observation, clips, observations)) != 1:
        raise InputError("give exactly one of `clip`, `observation`, `clips` and `observations`.")
    count = len(clips or observations or ()) if clips is not None or observations is not None else 1
    scenes = _scenes(scene, count)
    changes = (
        candidates
        if isinstance(candidates, Mapping)
        else {n: standard_candidate(n, scenes[0], unknowns) for n in candidates}
    )
    if GIVEN_MODEL in changes:
        raise InputError(f"a candidate is called `{GIVEN_MODEL}`, as the scene itself is; choose another name.")
    edits: dict[str, Edit] = {GIVEN_MODEL: (scenes, [Unknown.parse(u) if isinstance(u, str) else u for u in unknowns])}
    for name, change in changes.items():
        parts = [edit_scene(one, unknowns, change) for one in scenes]
        edits[name] = [edited for edited, _ in parts], parts[0][1]
    stated, (several, plan) = priors_of(scenes, priors)[0], (count > 1 or folds is not None, plan or MultistartConfig())
    priors_by = {name: priors_left(stated, edits[name][0], changes.get(name, {})) for name in edits}
    data = _observed(clips if clip is None else [clip], observations if observation is None else [observation], scenes)
    recordings = {name: Recordings(edited, data, named, priors_by[name]) for name, (edited, named) in edits.items()}
    if folds is not None:
        for one in recordings.values():
            check_folds(one, folds, first_frames)
    problems = {name: _problem(one, several) for name, one in recordings.items()}
    outcomes = {}
    for name, problem in problems.items():
        stage(f"fitting the model {name}: {', '.join(problem.space.names)}")
        outcomes[name] = search(problem, plan, np.random.default_rng(seed), _with_values(problem, report))
    outcomes = {name: _restarted(name, problems, outcomes, plan.rtol) for name in problems}
    stage("ranking the models")
    rng = np.random.default_rng(seed)
    refined = {
        name: refine(problems[name], outcome, rng, _with_values(problems[name], report))
        for name, outcome in outcomes.items()
    }
    ranked = _ranked(refined, edits, {GIVEN_MODEL: {}, **changes}, seed, sampled)
    if folds is None:
        return ranked
    return ranked.predicting(predict_folds(recordings, folds, first_frames, plan, seed, stage))


def _scenes(scene: Scene | Sequence[Scene], count: int) -> list[Scene]:
    """A scene for each recording.

    Raises:
        InputError: If there are not as many scenes as recordings, nor one for all.
    """
    scenes = [scene] if isinstance(scene, Scene) else list(scene)
    if len(scenes) == 1:
        return scenes * count
    if len(scenes) != count:
        raise InputError(f"there are {len(scenes)} scenes and {count} recordings; give one for each, or one for all.")
    return scenes


def _observed(
    clips: Sequence[Clip | Files] | None, observations: Sequence[Observation] | None, scenes: Sequence[Scene]
) -> list[Observation]:
    """Observations of clips, or those that are there."""
    if observations is not None:
        return list(observations)
    return [Clip.of(clip).observe(scene) for clip, scene in zip(clips or (), scenes, strict=True)]


def _problem(model: Recordings, several: bool) -> Problem:
    """Problem of all recordings; a joint one has what a search needs of a problem."""
    if several:
        return model.problem(range(len(model.scenes)))  # pyright: ignore[reportReturnType]
    (scene,), (observation,) = model.scenes, model.observations
    space = Space(scene, model.unknowns, priors=model.priors)
    return Problem(model_for(scene, space), observation, space)


def _with_values(problem: Problem, report: Callable[[dict], None]) -> Callable[[dict], None]:
    def report_values(entry: dict) -> None:
        numbers = problem.space.numbers(torch.tensor(entry["u"])).tolist()
        entry["values"] = dict(zip(problem.space.names, numbers, strict=True))
        report(entry)

    return report_values


def _restarted(name: str, problems: Mapping[str, Problem], outcomes: Mapping[str, Outcome], rtol: float) -> Outcome:
    """Result of a search, or of one that starts from the answers of the other candidates, if that is better."""
    problem, outcome = problems[name], outcomes[name]
    starts = []
    for other, theirs in outcomes.items():
        u, names = outcome.best.clone(), problems[other].space.names
        for k, unknown in enumerate(problem.space.names):
            if unknown in names:
                u[k] = theirs.best[names.index(unknown)]
        starts.append(u.clamp(problem.space.low, problem.space.high))
    iterates, count = descend(problem, Population.at(torch.stack(starts)), problem.frames, "pixels", 40, rtol=rtol)
    k = int(iterates.cost.argmin())
    if not iterates.cost[k] < outcome.best_cost:
        return outcome
    outcome.best, outcome.best_cost, outcome.iterations = (
        iterates.u[k],
        iterates.cost[k].item(),
        outcome.iterations + count,
    )
    return outcome


def _ranked(
    refined: Mapping[str, Refined], edits: Mapping[str, Edit], changes: Mapping[str, Changes], seed: int, sampled: bool
) -> Comparison:
    """Rank what `refine` returned for every model."""
    problems = {name: problem for name, (problem, *_) in refined.items()}
    first = {name: make_fit(*refined[name], seed, True, sampled=False) for name in problems}
    costs = {name: outcome.best_cost for name, (_, outcome, _) in refined.items()}
    least = min(costs, key=lambda name: costs[name])
    n = max(1, first[least].informative)
    inflation = first[least].chi2_per_n
    inflation = inflation if inflation > chi2_limit(n) else 1.0
    scores = {name: _criteria(costs[name] / inflation, len(problems[name].space), n) for name in problems}
    lowest = min(bic for *_, bic in scores.values())
    odds = {name: math.exp(-min(700.0, (bic - lowest) / 2)) for name, (*_, bic) in scores.items()}
    chosen = max(odds, key=lambda name: (odds[name], -len(problems[name].space)))
    fits = first | ({chosen: make_fit(*refined[chosen], seed, True)} if sampled else {})
    if fits[chosen].status != Status.FAILED:
        fits[chosen] = with_known_numbers(fits[chosen], problems[chosen])
    candidates = {
        name: Candidate(
            name,
            changes[name],
            edits[name][0],
            fits[name],
            len(problems[name].space),
            costs[name],
            *scores[name],
            scores[name][-1] - lowest,
            odds[name] / sum(odds.values()),
        )
        for name in problems
    }
    return Comparison(candidates, chosen, n, inflation, _words(candidates, chosen, inflation))


def _criteria(chi2: float, k: int, n: int) -> tuple[float, float, float]:
    """AIC, AICc, BIC."""
    aic = chi2 + 2 * k
    return aic, aic + 2 * k * (k + 1) / max(1, n - k - 1), chi2 + k * math.log(n)


def _words(candidates: Mapping[str, Candidate], chosen: str, inflation: float) -> str:
    best, baseline = candidates[chosen], candidates[GIVEN_MODEL]
    rest = sorted((c for c in candidates.values() if c is not best), key=lambda c: c.delta)
    sentences = []
    for c in rest:
        gap = c.bic - baseline.bic
        part = c.name.removeprefix("without ").removeprefix("with ")
        if c is not baseline and c.name.startswith("without ") and gap > VERY_STRONG_EVIDENCE:
            sentences.append(f"{part.capitalize()} is needed: without it BIC is higher by {gap:.4g}.")
    if rest and rest[0].delta > VERY_STRONG_EVIDENCE:
        sentences.append(
            f"The data choose the model {chosen}; the next, {rest[0].name}, has a BIC {rest[0].delta:.4g} higher."
        )
    elif rest:
        near = [c for c in rest if c.delta <= VERY_STRONG_EVIDENCE]
        names = " or ".join([chosen, *(c.name for c in near)])
        sentences.append(f"The data do not tell for sure between {names}: BIC differs by {near[-1].delta:.2g} at most.")
    else:
        sentences.append("No other model is available for comparison.")
    if inflation > 1:
        sentences.append(
            f"But none explains the data: χ²/N of the best is {best.fit.chi2_per_n:.3g}, by which all χ² were divided "
            "before ranking (quasi-AIC)."
        )
    return " ".join(sentences)
