"""Candidate models of one observation, each fitted from starts over the same ranges, and which of them the data choose.

    AIC = χ²/ĉ + 2k       AICc = AIC + 2k(k + 1)/(N − k − 1)       BIC = χ²/ĉ + k log N

χ²: the least that was found, over all data; k: number of unknowns; N: residuals that carry information. ĉ is 1 while the
best candidate explains the data, and its χ²/N where none does: misfit that no candidate removes then counts as noise
(quasi-AIC, Burnham & Anderson 2002). Differences in BIC above 10 are very strong evidence (Kass & Raftery 1995).

A candidate is an edit of the scene. What it sets is known, so it is not an unknown of that candidate.

Standard candidates for `compare`, by name: the usual parts of a model left out, put in, or of another law.

without friction      no friction at any ground
without elasticity    no body bounces
without damping       nothing is lost in a bounce; a pendulum swings for ever
with friction         friction is an unknown of every ground
with damping          what a bounce loses is an unknown of every ground; damping and drag of every pendulum
paper law             the contact law of the paper, its damping unknown
continuous law        Hunt and Crossley's, its dissipation unknown
rk4                   the integrator of fourth order
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.errors import InputError, Status
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Observation
from gradsim.identification.observation.clip import Clip, Files
from gradsim.identification.priors import Prior, Stated, has, priors_of
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
from gradsim.scene.node import did_you_mean
from gradsim.scene.parameters import parameters
from gradsim.scene.scene import Scene

INELASTIC_DISSIPATION = 30.0  # [s/m] dissipation at which a bounce at 1 m/s keeps about 1/30 of the speed
FRICTION, DISSIPATION, DAMPING = "0.02:1.5", "0.02:5", "1:1000"  # ranges of what a candidate adds
SWING, DRAG = "0.001:1", "0.001:1"


def standard_candidate(name: str, scene: Scene, unknowns: Sequence[str | Unknown]) -> dict:
    """Changes of a standard candidate.

    Args:
        name: One of the names above.
        scene: The scene as given.
        unknowns: Unknowns of the scene as given, for their ranges.

    Raises:
        InputError: If there is none of that name, or it changes nothing in this scene.
    """
    if name not in STANDARD_CANDIDATES:
        hint = did_you_mean(name, list(STANDARD_CANDIDATES)) or f"; there are {', '.join(STANDARD_CANDIDATES)}."
        raise InputError(f"unknown standard candidate `{name}`{hint}")
    changes = STANDARD_CANDIDATES[name](scene, unknowns)
    if not changes:
        raise InputError(f"the candidate `{name}` changes nothing: the scene has nothing that it is about.")
    return changes


def _without_friction(scene: Scene, unknowns) -> dict:
    return {f"{g}.{key}": 0.0 for g in scene.grounds for key in ("friction", "friction_stiffness")}


def _without_elasticity(scene: Scene, unknowns) -> dict:
    changes = {}
    for name, ground in scene.grounds.items():
        if ground.law == "continuous":
            changes[f"{name}.dissipation"] = INELASTIC_DISSIPATION
        else:
            changes[f"{name}.damping"] = 2 * math.sqrt(
                _highest(scene, unknowns, f"{name}.stiffness") * _mass(scene, unknowns)
            )
    return changes


def _without_damping(scene: Scene, unknowns) -> dict:
    changes = {f"{n}.{'dissipation' if g.law == 'continuous' else 'damping'}": 0.0 for n, g in scene.grounds.items()}
    return changes | {f"{n}.{key}": 0.0 for n in _damped_bodies(scene) for key in ("damping", "drag")}


def _with_friction(scene: Scene, unknowns) -> dict:
    return {"unknowns": [f"{g}.friction:{FRICTION}" for g in scene.grounds]} if scene.grounds else {}


def _with_damping(scene: Scene, unknowns) -> dict:
    added = [
        f"{n}.dissipation:{DISSIPATION}" if g.law == "continuous" else f"{n}.damping:{DAMPING}"
        for n, g in scene.grounds.items()
    ]
    added += [text for n in _damped_bodies(scene) for text in (f"{n}.damping:{SWING}", f"{n}.drag:{DRAG}")]
    return {"unknowns": added} if added else {}


def _paper_law(scene: Scene, unknowns) -> dict:
    changes = {}
    for name, ground in scene.grounds.items():
        if ground.law == "continuous":
            changes |= {f"{name}.law": "paper", f"{name}.dissipation": None, f"{name}.damping": 50.0}
    return changes and changes | {"unknowns": [f"{g}.damping:{DAMPING}" for g in scene.grounds]}


def _continuous_law(scene: Scene, unknowns) -> dict:
    changes = {}
    for name, ground in scene.grounds.items():
        if ground.law != "continuous":
            changes |= {f"{name}.law": "continuous", f"{name}.damping": None, f"{name}.dissipation": 0.5}
    return changes and changes | {"unknowns": [f"{g}.dissipation:{DISSIPATION}" for g in scene.grounds]}


def _rk4(scene: Scene, unknowns) -> dict:
    return (
        {"timing.integrator": "rk4"}
        if any(scene.integrator_of(name) == "semi-implicit" for name in scene.bodies)
        else {}
    )


def _damped_bodies(scene: Scene) -> list[str]:
    """Bodies with a damping and a drag of their own, such as pendulums."""
    known = parameters(scene)
    return [name for name in scene.bodies if {f"{name}.damping", f"{name}.drag"} <= known.keys()]


def _highest(scene: Scene, unknowns, name: str) -> float:
    """The upper end of a parameter's range, or its value where it is known."""
    space = Space(scene, unknowns)
    if name in space.names:
        return space.range(space.names.index(name))[1]
    owner, key = name.split(".")
    return float(getattr(scene.grounds[owner], key))


def _mass(scene: Scene, unknowns) -> float:
    """The largest mass of a body."""
    space = Space(scene, unknowns)
    masses = [space.range(k)[1] for k, name in enumerate(space.names) if name.endswith(".mass")]
    known = parameters(scene)
    masses += [float(known[key].value) for name in scene.bodies if (key := f"{name}.mass") in known]
    return max(masses, default=10.0)


STANDARD_CANDIDATES: dict[str, Callable[[Scene, Sequence[str | Unknown]], dict]] = {
    "without friction": _without_friction,
    "without elasticity": _without_elasticity,
    "without damping": _without_damping,
    "with friction": _with_friction,
    "with damping": _with_damping,
    "paper law": _paper_law,
    "continuous law": _continuous_law,
    "rk4": _rk4,
}


GIVEN_MODEL = "as given"
VERY_STRONG_EVIDENCE = 10.0  # ΔBIC of very strong evidence
Changes = Mapping[str, Any]
Refined = tuple[Problem, Outcome, Discretization | None]  # what `refine` returns


@dataclass(frozen=True)
class Candidate:
    """One model and how it fares.

    Args:
        name: Its name.
        changes: Edits of the scene; `unknowns` lists additional unknowns.
        scene: With the changes.
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
    scene: Scene
    fit: Fit
    parameters: int
    chi2: float
    aic: float
    aicc: float
    bic: float
    delta: float
    weight: float


@dataclass(frozen=True)
class Comparison:
    """Result of `compare`.

    Args:
        candidates: By name, as given first.
        chosen: Name of the one of least BIC.
        informative: N of the criteria.
        inflation: ĉ of the criteria.
        words: The verdict.
    """

    candidates: dict[str, Candidate]
    chosen: str
    informative: int
    inflation: float
    words: str

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
            rows.append({"name": c.name, "changes": _as_json(c.changes), **numbers, **selected})
        content = {"candidates": rows, "chosen": self.chosen, "informative": self.informative}
        return content | {"inflation": self.inflation, "words": self.words}

    def save(self, folder: str | Path) -> Path:
        """Write `result.json` of the chosen fit, with the comparison in it, and its `history.json`."""
        self.best.fit.save(folder)
        return write_json(Path(folder) / "result.json", {**self.best.fit.result(), "comparison": self.result()})


def compare(
    scene: Scene,
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
) -> Comparison:
    """Fit the scene as given and every candidate, and rank them.

    Args:
        scene: The scene as given; always a candidate itself.
        unknowns: As for `identify`.
        clip: Video file, video files by camera, or `Clip`; or give an observation.
        observation: In place of a clip.
        candidates: Changes by name: dotted names of the scene file with new values (None removes), and `unknowns` for
            what is solved for in addition: {"no friction": {"ground.friction": 0}}. The name of a body alone replaces it,
            also by one of another kind; its own unknowns go. Or names of standard candidates: see
            `gradsim.identification.model_selection`.
        plan: Starts and curriculum, the same for all.
        seed: Random seed of the starts.
        report: Called after each stage of each search.
        stage: Called with a description of each stage as it begins.
        sampled: Whether error bars of the chosen model come from samples where contact may kink the likelihood.
        priors: As for `identify`; of every model that has the number and does not set it.

    Raises:
        InputError: If an argument is wrong, before any work starts.
    """
    if (clip is None) == (observation is None):
        raise InputError("give exactly one of `clip` and `observation`.")
    changes = (
        candidates
        if isinstance(candidates, Mapping)
        else {n: standard_candidate(n, scene, unknowns) for n in candidates}
    )
    if GIVEN_MODEL in changes:
        raise InputError(f"a candidate is called `{GIVEN_MODEL}`, as the scene itself is; choose another name.")
    edits = {GIVEN_MODEL: (scene, list(unknowns)), **{n: edit_scene(scene, unknowns, c) for n, c in changes.items()}}
    if observation is None:
        assert clip is not None
        observation = Clip.of(clip).observe(scene)
    problems, (stated, _) = {}, priors_of([scene], priors)
    for name, (edited, named) in edits.items():
        space = Space(edited, named, priors=_priors_left(stated, edited, changes.get(name, {})))
        problems[name] = Problem(model_for(edited, space), observation, space)
    outcomes = {}
    for name, problem in problems.items():
        stage(f"fitting the model {name}: {', '.join(problem.space.names)}")
        reporter = _with_values(problem, report)
        outcomes[name] = search(problem, plan or MultistartConfig(), np.random.default_rng(seed), reporter)
    outcomes = {name: _restarted(name, problems, outcomes, (plan or MultistartConfig()).rtol) for name in problems}
    stage("ranking the models")
    rng = np.random.default_rng(seed)
    refined = {
        name: refine(problems[name], outcome, rng, _with_values(problems[name], report))
        for name, outcome in outcomes.items()
    }
    return _ranked(refined, edits, {GIVEN_MODEL: {}, **changes}, seed, sampled)


def edit_scene(scene: Scene, unknowns: Sequence[str | Unknown], changes: Changes) -> tuple[Scene, list[str | Unknown]]:
    """A scene with changes, and the unknowns that are left.

    Args:
        scene: The scene.
        unknowns: Unknowns of the scene as given.
        changes: As for `compare`.

    Raises:
        InputError: If a name is none of the scene's, or the edited scene is invalid.
    """
    content = scene.model_dump(exclude_unset=True)
    set_here = [name for name in changes if name != "unknowns"]
    for dotted in set_here:
        *path, key = dotted.split(".") if dotted not in content.get("bodies", ()) else ("bodies", dotted)
        group = next((g for g in ("grounds", "bodies", "obstacles") if path and path[0] in content.get(g, ())), None)
        node = content[group] if group else content
        if path and not group and path[0] not in Scene.model_fields:
            known = ", ".join([*scene.bodies, *scene.grounds, "timing", "gravity"])
            raise InputError(f"a candidate changes `{dotted}`, and the scene has no `{path[0]}`; it has {known}.")
        for part in path:
            node = node.setdefault(part, {})
        node[key] = changes[dotted]
    added = [Unknown.parse(u) if isinstance(u, str) else u for u in changes.get("unknowns", ())]
    gone = [*set_here, *(u.name for u in added)]
    parsed = [Unknown.parse(u) if isinstance(u, str) else u for u in unknowns]
    unchanged = [u for u in parsed if not any(_is_part(n, g) for n in u.names for g in gone)]
    return Scene.parse(content, "the changed scene"), [*unchanged, *added]


def _is_part(name: str, group: str) -> bool:
    """True for a name itself, and for one of what belongs to it."""
    return name == group or name.startswith(f"{group}.")


def _priors_left(priors: Sequence[Prior], edited: Scene, changes: Changes) -> list[Prior]:
    """Priors of the numbers that a changed scene still has and that it does not set."""
    fixed = [key for key in changes if key != "unknowns"]
    left = [prior.of(name for name in prior.names if not any(_is_part(name, g) for g in fixed)) for prior in priors]
    return [known for prior in left if prior and (known := prior.of(name for name in prior.names if has(edited, name)))]


def _as_json(changes: Changes) -> dict:
    """Changes as JSON holds them."""
    added = [u if isinstance(u, str) else f"{u.name}:{u.low}:{u.high}" for u in changes.get("unknowns", ())]
    return {**changes, "unknowns": added} if added else dict(changes)


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
    refined: Mapping[str, Refined], edits, changes: Mapping[str, Changes], seed: int, sampled: bool
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
