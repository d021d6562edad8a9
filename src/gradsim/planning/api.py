"""`plan`: what to film next, so that it tells most about what is wanted."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from gradsim.errors import InputError, Status
from gradsim.identification.fit import Fit
from gradsim.identification.priors import Stated, priors_of
from gradsim.identification.unknowns import Unknown
from gradsim.planning import words
from gradsim.planning.choices import Choice, read_choices
from gradsim.planning.information import require_possible, shared_information
from gradsim.planning.noise import VideoNoise
from gradsim.planning.question import Answer, Marking, Question, Wanted, Weighing, about, after, ask
from gradsim.planning.refits import is_possible, refit_errors
from gradsim.planning.search import (
    DESCENTS,
    Design,
    Judge,
    descend,
    distinct,
    simplified,
    single_changes,
    spread_designs,
)
from gradsim.runtime.allocator import freed_memory_reused
from gradsim.runtime.parallel import one_thread
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import Scene
from gradsim.scene.body import Rigid

SAMPLES = 8  # of the unknowns
RETURNED_DESIGNS = 10  # designs that are returned
CONFIRMED_DESIGNS = 3  # best designs, and single changes, that are judged anew
PLANE = 9  # points of a map along each axis
TRUTHS, REPEATS = 2, 6  # of simulated refits
KINKED_SHARE = 0.2  # share of samples with kinks from which on refits judge


@dataclass
class Plan:
    """Designs of a next film, best first.

    Attributes:
        present: The film as the scene states it.
        best: The best design.
        designs: The ten best that differ.
        singles: The best value of each choice with all else as at present.
        batch: Designs of several films, each given those before.
        plane: Map over two choices: names, values of each, and standard deviations (wanted, points, points).
        words: In plain words.
        assumptions: What the numbers assume.
        evaluations: Films judged.
        cpu_seconds: CPU time.
        judge: For `predict`, `scene` and further designs.
        enough: The cheapest design with the fewest changes that reaches all accuracies; None where none does, or none is stated.
    """

    present: Design
    best: Design
    designs: list[Design]
    singles: list[Design]
    batch: list[Design]
    words: list[str]
    assumptions: list[str]
    judge: Judge
    enough: Design | None = None
    evaluations: int = 0
    cpu_seconds: float = 0.0
    plane: dict = field(default_factory=dict)

    def scene(self, design: Design | None = None) -> Scene:
        """The scene of a design; None: of the best one."""
        return self.judge.scene(design or self.best)

    def gain(self, design: Design | None = None) -> float:
        """Factor by which a design lowers the criterion's standard deviation against the present film."""
        return math.exp(self.present.criterion - (design or self.best).criterion)

    def predict(self, values: Mapping[str, float], design: Design | None = None) -> dict[str, float]:
        """Standard deviation of each wanted unknown over its value, for one truth.

        Args:
            values: True value of each unknown, by name.
            design: The film; None: the best one.
        """
        design, question = design or self.best, self.judge.question
        place = question.space.inner(torch.tensor([values[n] for n in question.space.names], dtype=torch.float64))
        judge = self.judge.at(
            replace(
                question,
                places=place[None],
                precision=question.precision.reshape(-1, *question.precision.shape[-2:])[0],
            )
        )
        return _confirmed(judge, judge.judged(replace(design, criterion=math.inf))).sd

    def sentence(self, design: Design) -> str:
        """A design in words, with what it would do."""
        return words.sentence(self.judge.question, self.present, design, self.judge.weigh)

    def result(self) -> dict:
        """For `result.json`."""
        row = lambda d: d.result() | {"gain": self.gain(d), "words": self.sentence(d)}
        return {
            "wanted": [
                {"name": w.name, "accuracy": w.accuracy, "relative": w.relative} for w in self.judge.question.wanted
            ],
            "criterion": self.judge.criterion,
            "present": row(self.present),
            "best": row(self.best),
            "designs": [row(d) for d in self.designs],
            "single_changes": [row(d) for d in self.singles],
            "batch": [row(d) for d in self.batch],
            "enough": row(self.enough) if self.enough else None,
            "map": self.plane,
            "words": self.words,
            "assumptions": self.assumptions,
            "evaluations": self.evaluations,
            "cpu_seconds": self.cpu_seconds,
        }

    def __str__(self) -> str:
        return "\n".join([*self.words, *(f"assumes {text}" for text in self.assumptions)])


@freed_memory_reused()
@one_thread()
def plan(
    scene: Scene,
    want: str | Sequence[str | Wanted],
    choose: Sequence[str | Choice] | Mapping[str, object] = (),
    *,
    unknowns: Sequence[str | Unknown] = (),
    priors: Stated | Sequence[Stated] | None = None,
    weigh: Sequence[str | Weighing] = (),
    mark: Sequence[str | Marking] = (),
    noise: float | str | VideoNoise | None = None,
    criterion: str = "sd",
    about: "Fit | Mapping | Answer | None" = None,
    after: "Fit | Mapping | Answer | None" = None,
    among: Mapping[str, Scene] | None = None,
    batch: int = 1,
    samples: int = SAMPLES,
    budget: float = math.inf,
    plane: bool | tuple[str, str] = False,
    spread: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Find the film that tells most about some unknowns.

    Expected covariances are (F + P)⁻¹ with the Fisher information F of masks of the film and P of priors and ranges
    (`planning.information`), at samples of the unknowns. Where contact kinks the likelihood, F of the best designs is from secants, and
    the scatter of simulated refits near the truth replaces it.

    Args:
        scene: The present film.
        want: NAME, NAME:5% or NAME:0.02 of unknowns, with the accuracy that is enough.
        choose: NAME=LOW:HIGH, NAME=A,B,C, `Choice`s or {NAME: (LOW, HIGH) or [A, B]}; names as in `planning.choices`.
        unknowns: All that a fit would solve for, NAME:LOW:HIGH; what is wanted is added.
        priors: As for `identify`.
        weigh: NAME±SD of unknowns that can be measured besides, NAME±1 %.
        mark: BODY:X,Y,Z±PX: markers that could be put on a rigid body and tracked.
        noise: Standard deviation of a pixel's noise; "auto" or "auto:0.2": errors of outlines [px]. None: that of the fit, or 1/255.
        criterion: "sd", "A" or "D", as in `planning.search`.
        about: A fit, or its result.json: unknowns are about its answer, and not anywhere in their ranges.
        after: The same of an earlier film, whose information counts; it is also about its answer.
        among: Scenes of recordings by label, which are compared in place of designs.
        batch: Number of films, chosen one after the other.
        samples: Samples of the unknowns.
        budget: Largest cost of a design, by the costs of its choices.
        plane: Map over two choices: True, or their names.
        spread: Designs all over the choices; None: 24 for each choice, 96 at most.
        seed: Of samples and designs.
        progress: Receives stages.

    Returns:
        The plan.

    Raises:
        InputError: If an argument is wrong, before any work.
    """
    progress, begun = progress or NullProgress(), time.process_time()
    require_possible(scene)
    known = [_answer(x) for x in (about, after)]
    if samples < 2 or batch < 1 or (spread is not None and spread < 1):
        raise InputError(
            f"samples is {samples}, batch {batch} and spread {spread}; expected at least 2 samples, 1 film and 1 design."
        )
    if among is not None and choose:
        raise InputError("recordings (`among`) and choices exclude each other: recordings are as they are.")
    question, noise = _question(scene, want, unknowns, priors, weigh, noise, known, samples, seed)
    choices = read_choices(scene, choose)
    weighings = [*_weighings(weigh), *_markings(scene, mark)]
    if not choices and not weighings and not among:
        raise InputError(
            "nothing can be chosen: give at least one choice, such as camera.azimuth=-3:3, or a measurement."
        )
    judge = Judge(question, choices, weighings, noise, criterion, budget, among)
    judge.question = question = _with_answers(judge, question, known, seed)
    axes = _axes(choices, plane)
    progress.stage("judging the present film and each single change")
    if among is None:
        present = judge.design({})
        singles, designs = _search(judge, present, spread, seed, progress)
    else:
        designs = [judge.judged(Design({}, label=label)) for label in among]
        present, singles = _median(designs), []
    progress.stage("judging the best designs anew")
    present, singles, designs = _confirm(judge, present, singles, designs, seed)
    best = designs[0] if designs else present
    films = _batch(judge, designs, batch, progress) if batch > 1 else [best]
    designs = [replace(d, gradient=judge.gradient(d)) if not d.label else d for d in designs]
    made = Plan(
        present,
        designs[0] if designs else present,
        designs,
        singles,
        films,
        [],
        _assumptions(judge, question, noise),
        judge,
    )
    made.enough = _enough(judge, [present, *singles, *designs])
    made.words = _warnings(known) + words.summary(question, present, made.best, singles, judge.weigh, made.enough)
    made.plane = _plane(judge, axes, progress) if axes else {}
    made.evaluations, made.cpu_seconds = judge.evaluations, time.process_time() - begun
    return made


def _answer(fit: "Fit | Mapping | Answer | None") -> Answer | None:
    if fit is None or isinstance(fit, Answer):
        return fit
    return Answer.of(fit.result() if isinstance(fit, Fit) else fit)


def _weighings(weigh: Sequence[str | Weighing]) -> list[Weighing]:
    return [one if isinstance(one, Weighing) else Weighing.parse(one) for one in weigh]


def _markings(scene: Scene, mark: Sequence[str | Marking]) -> list[Marking]:
    """Markers that could be put on rigid bodies.

    Raises:
        InputError: If the scene has no rigid body of a name, or a text is wrong.
    """
    markings = [one if isinstance(one, Marking) else Marking.parse(one) for one in mark]
    rigid = [name for name, body in scene.bodies.items() if isinstance(body, Rigid)]
    for one in markings:
        if one.body not in rigid:
            raise InputError(
                f"a marker would be on `{one.body}`; expected a rigid body: {', '.join(rigid) or 'the scene has none'}."
            )
    return markings


def _question(scene, want, unknowns, priors, weigh, noise, known, samples, seed) -> tuple[Question, VideoNoise]:
    """The question, and the noise of films: that of a fit where none is stated."""
    answer = known[0] or known[1]
    if answer and not unknowns:
        unknowns = [Unknown(name, *ends) for name, ends in answer.ranges.items()]
    stated, _ = priors_of([scene], priors)
    wanted = [want] if isinstance(want, str) else list(want)
    question = ask(scene, wanted, unknowns, stated, _weighings(weigh), samples, seed)
    if noise is None and answer and answer.noise:
        return question, answer.noise
    return question, VideoNoise.parse(noise)


def _with_answers(judge: Judge, question: Question, known, seed: int) -> Question:
    """The question about the answer of a fit, and after an earlier film."""
    center, earlier = known
    answer = center or earlier
    if answer is None:
        return question
    at = judge.at(replace(question, places=answer.place(question.space)[None]))
    fisher = at.fisher(Design({}))[0]
    if earlier is not None:
        question = after(question, earlier.covariance(question, fisher))
    plain = replace(question, precision=judge.question.precision)
    return about(question, answer, answer.covariance(plain, fisher), seed)


def _search(
    judge: Judge, present: Design, spread: int | None, seed: int, progress: Progress
) -> tuple[list[Design], list[Design]]:
    """Single changes, and the best designs of all."""
    singles = sorted(single_changes(judge), key=lambda d: d.criterion)
    progress.stage(f"designs all over {len(judge.choices) + len(judge.weigh)} choices")
    pool = [present, *singles, *spread_designs(judge, seed, spread)]
    for k, start in enumerate(distinct(judge, pool, DESCENTS)):
        progress.stage(f"descent {k + 1} of {DESCENTS}")
        pool.append(simplified(judge, descend(judge, start)))
    return singles, distinct(judge, pool, RETURNED_DESIGNS)


def _median(designs: Sequence[Design]) -> Design:
    """The recording in the middle, with which others are compared.

    Raises:
        InputError: If none is possible.
    """
    possible = sorted((d for d in designs if math.isfinite(d.criterion)), key=lambda d: d.criterion)
    if not possible:
        raise InputError("no recording depends on what is wanted; check the names of the unknowns in their scenes.")
    return possible[len(possible) // 2]


def _confirm(
    judge: Judge, present: Design, singles: list[Design], designs: list[Design], seed: int
) -> tuple[Design, list[Design], list[Design]]:
    """Present, single changes and best designs, judged anew by secants or outlines, and by refits where those are not enough."""
    renewed: dict[tuple, Design] = {}
    count = RETURNED_DESIGNS if judge.noise.outline is not None else CONFIRMED_DESIGNS
    count = len(designs) if judge.recordings else count
    for design in [present, *designs[:count], *singles[:count]]:
        if design.key not in renewed:
            renewed[design.key] = _confirmed(judge, design)
    top: list[Design] = []
    while designs and (not top or top[0].key not in renewed):  # the best one has to be one that is judged anew
        for design in top:
            renewed[design.key] = _confirmed(judge, design)
        top = sorted(designs, key=lambda d: renewed.get(d.key, d).criterion)[:1]
    if not judge.recordings and any(renewed[d.key].judged_by == "secants" for d in (present, *top)):
        for design in {d.key: renewed[d.key] for d in (present, *top)}.values():
            renewed[design.key] = _refitted(judge, design, seed)

    def anew(many: Sequence[Design]) -> list[Design]:
        return sorted((renewed.get(d.key, d) for d in many), key=lambda d: (d.criterion, d.cost))

    return renewed[present.key], anew(singles), anew(designs)


def _confirmed(judge: Judge, design: Design) -> Design:
    """The design, judged by outlines, or by secants where contact kinks the likelihood."""
    if not math.isfinite(design.criterion) and design.sd:
        return design
    try:
        film = judge.recording(design)
        if judge.noise.outline is not None:
            return judge.judged(design, film.outlines(judge.noise) + judge.marked(design), "outlines")
        scene = film.problem.model.scene
        if not (scene.surfaces or scene.contacts):
            return judge.judged(design)
        fisher, kinked = film.secants(judge.fisher(design) - judge.marked(design))
        fisher = fisher + judge.marked(design)
    except (InputError, ArithmeticError):
        return design
    return judge.judged(design, fisher, "secants") if kinked.double().mean() > KINKED_SHARE else judge.judged(design)


def _refitted(judge: Judge, design: Design, seed: int) -> Design:
    """The design, judged by the scatter of simulated refits near the truth; unchanged where these are not possible."""
    film, question = judge.recording(design), judge.question
    if not is_possible(film) or any(isinstance(judge.weigh[name], Marking) for name in design.weighed):
        return design
    chosen = torch.linspace(0, len(film.places) - 1, TRUTHS).long()
    C = judge.covariance(design, film.secants(judge.fisher(design))[0])
    errors = refit_errors(film, film.places[chosen], C[chosen], REPEATS, seed)[:, :, question.columns]
    size = torch.stack([question.size(k, question.places[chosen]) for k in question.columns], 1)
    spread = (errors / size[:, None]).square().mean((0, 1)).sqrt()
    sd = {w.name: max(x, 1e-12) for w, x in zip(question.wanted, spread.tolist(), strict=True)}
    shift = max(math.log(sd[w.name] / design.sd[w.name]) for w in question.wanted)
    return replace(design, sd=sd, criterion=design.criterion + shift, judged_by="refits")


def _enough(judge: Judge, designs: Sequence[Design]) -> Design | None:
    """The cheapest design that reaches all accuracies, with the fewest changes; None where none does, or none is stated."""
    question = judge.question
    if not all(w.accuracy for w in question.wanted):
        return None
    scale, u = question.scale(question.places), question.places
    size = torch.stack([question.size(k, u) for k in question.columns], 1)
    limit = dict(zip((w.name for w in question.wanted), (scale / size).square().mean(0).sqrt().tolist(), strict=True))
    reached = [d for d in designs if d.sd and all(d.sd[name] <= limit[name] for name in limit)]
    return min(reached, key=lambda d: (d.cost, len(d.settings) + len(d.weighed), d.criterion), default=None)


def _batch(judge: Judge, designs: Sequence[Design], count: int, progress: Progress) -> list[Design]:
    """Films chosen one after the other: the information of each on what films share counts for the next."""
    films, question = [designs[0]], judge.question
    pool = list(designs)
    for k in range(1, count):
        progress.stage(f"film {k + 1} of {count}")
        more = shared_information(
            judge.question, judge.fisher(films[-1]) + judge.known(films[-1]) - judge.question.precision
        )
        judge.question = judge.question.with_precision(more)
        pool = sorted((judge.judged(d) for d in pool), key=lambda d: d.criterion)
        if films[-1].label:
            pool = [d for d in pool if d.label not in {f.label for f in films}]
        if not pool:
            break
        films.append(pool[0] if pool[0].label else simplified(judge, descend(judge, pool[0])))
    judge.question = question
    return films


def _axes(choices: Sequence[Choice], plane: bool | tuple[str, str]) -> list[Choice]:
    """Choices of the map.

    Raises:
        InputError: If it names something that is not a numeric choice.
    """
    numeric = [c for c in choices if all(isinstance(v, int | float) for v in c.values)]
    if plane is True or plane is False:
        return sorted(numeric, key=lambda c: not c.is_continuous)[:2] if plane and len(numeric) > 1 else []
    if len(plane) != 2 or len(set(plane)) != 2 or not set(plane) <= {c.name for c in numeric}:
        raise InputError(
            f"the map is over {', '.join(plane)}; expected two of the numeric choices {', '.join(c.name for c in numeric)}."
        )
    return [next(c for c in numeric if c.name == name) for name in plane]


def _plane(judge: Judge, axes: Sequence[Choice], progress: Progress) -> dict:
    """Standard deviations over two choices, with all else as at present."""
    values = [list(c.values) or [c.at(s) for s in np.linspace(0, 1, PLANE)] for c in axes]
    progress.stage(f"map over {axes[0].name} and {axes[1].name}")
    names, rows = [w.name for w in judge.question.wanted], []
    for y in values[1]:
        designs = [judge.design({axes[0].name: x, axes[1].name: y}) for x in values[0]]
        rows.append([[d.sd.get(name, math.inf) for name in names] for d in designs])
    sd = {name: [[cell[k] for cell in row] for row in rows] for k, name in enumerate(names)}
    return {"names": [c.name for c in axes], "values": values, "sd": sd}


def _warnings(known: Sequence[Answer | None]) -> list[str]:
    """Said first, where the model of a fit does not explain its data."""
    texts = []
    for answer in known:
        if answer and answer.status == Status.MISMATCH:
            texts.append(
                f"The last fit is a mismatch: its model does not explain its film, so what follows holds for a model that is wrong. Mend that first. {answer.words}".strip()
            )
        elif answer and answer.status == Status.UNCONVERGED:
            texts.append(
                "The last fit is unconverged: other values may explain its film as well, and the plan is about its answer alone."
            )
    return list(dict.fromkeys(texts))


def _assumptions(judge: Judge, question: Question, noise: VideoNoise) -> list[str]:
    """Assumptions of the numbers: noise, cameras, laws, samples."""
    scene = question.scene
    laws = sorted({surface.law for surface in scene.surfaces.values()})
    stated = "the ranges of what has no prior count as a uniform one"
    return [
        f"noise: {noise.words}",
        f"camera: {len(scene.views)} with the lens and shutter of the scene, in which nothing else moves or hides the bodies",
        f"law: the scene's, without mistakes{f'; contact law {laws[0]}' if laws else ''}",
        f"unknowns: {question.source}; {stated}",
        (
            "standard deviations are RMS over these samples, from the curvature of the likelihood at each; designs that are judged by "
            "secants or refits say so, and refits start near the truth, so that valleys far away do not count"
        ),
    ]
