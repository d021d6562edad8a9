"""Search over designs: every single change, designs all over the choices, and descents from the best of them.

The criterion is a logarithm, so that a difference is a gain, and a gradient is relative:

    sd  ln max over what is wanted of the RMS over samples of sd / accuracy
    A   ½ ln of the mean over samples of the sum of (sd / accuracy)²
    D   mean over samples of ½ ln det C / number of what is wanted, C in units of accuracy

Rollouts differentiate once, by unknowns; derivatives of the criterion by choices are central differences of it.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.planning.choices import Choice, Value, present_value, with_settings
from gradsim.planning.information import Recording, posterior_covariance, recording_of, steps_per_second
from gradsim.planning.noise import VideoNoise
from gradsim.planning.question import Marking, Question, Weighing
from gradsim.scene import Scene

CRITERIA = ("sd", "A", "D")
SINGLE_VALUES = 5  # values of a range that single changes try
SPREAD_DESIGNS = 24  # designs all over, for each choice,
MOST_SPREAD = 96  # and at most
DESCENTS = 3  # best designs from which a descent starts
ITERATIONS = 6  # of a descent
STEP_SHARES = (0.3, 0.1, 0.03, 0.01)  # shares of the ranges that a step of a descent tries
DIFFERENCE = 0.02  # share of a range of a central difference: wider than the ripple that the grid of pixels makes
CONTACT_DIFFERENCE = 0.1  # the same, where contact makes the criterion rugged
NEGLIGIBLE_SD_SHARE = 0.05  # share of the standard deviation that fewer changes may cost
# Standard deviation of pixels over the displacement of outlines [1/px], where the present film shows nothing
WHITE = 3.0
MIN_DESIGN_DISTANCE = 0.1  # share of a range by which designs of a list differ at least


@dataclass
class Design:
    """A film that can be made, and what it would tell.

    Attributes:
        settings: Values of the choices by name, where they differ from the present scene.
        weighed: Names of the numbers that are measured besides.
        cost: Sum of the costs of its changes.
        criterion: See the module; `inf` where it is impossible.
        sd: Standard deviation of each wanted unknown over its value, RMS over samples.
        by_sample: The same at each sample (samples, wanted).
        gradient: Derivative of the criterion by each continuous choice, in its unit; of designs that are returned.
        judged_by: "derivatives", "secants", "outlines" or "refits".
        label: Name of a recording; "" of a design.
    """

    settings: dict[str, Value]
    weighed: tuple[str, ...] = ()
    cost: float = 0.0
    criterion: float = math.inf
    sd: dict[str, float] = field(default_factory=dict)
    by_sample: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    gradient: dict[str, float] = field(default_factory=dict)
    judged_by: str = "derivatives"
    label: str = ""

    @property
    def key(self) -> tuple:
        """Identity of the design."""
        return (*sorted(self.settings.items()), *self.weighed, self.label)

    def result(self) -> dict:
        """For `result.json`."""
        return {
            "settings": self.settings,
            "weighed": list(self.weighed),
            "cost": self.cost,
            "criterion": self.criterion,
            "sd": self.sd,
            "gradient": self.gradient,
            "judged_by": self.judged_by,
            **({"label": self.label} if self.label else {}),
        }


class Judge:
    """Judge of designs of one question.

    Args:
        question: The question.
        choices: What can be chosen.
        weigh: What can be measured besides, and markers.
        noise: Noise of the films.
        criterion: One of `CRITERIA`.
        budget: Largest cost of a design.
        recordings: Scenes of films that exist, by label.
    """

    def __init__(
        self,
        question: Question,
        choices: Sequence[Choice],
        weigh: Sequence[Weighing | Marking],
        noise: VideoNoise,
        criterion: str = "sd",
        budget: float = math.inf,
        recordings: Mapping[str, Scene] | None = None,
    ):
        if criterion not in CRITERIA:
            raise InputError(f"the criterion is {criterion!r}; expected one of {', '.join(CRITERIA)}.")
        self.question, self.choices, self.noise, self.criterion = question, list(choices), noise, criterion
        self.weigh, self.budget = {one.name: one for one in weigh}, budget
        self.present = {c.name: present_value(question.scene, c.name) for c in choices}
        self.recordings = dict(recordings or {})
        self.steps = steps_per_second(question)
        self.evaluations = 0
        self._films: dict[tuple, Tensor] = {}
        if noise.outline is not None:
            self.noise = _with_white_noise(self.recording(Design({})), noise)

    def design(self, settings: Mapping[str, Value], weighed: Sequence[str] = ()) -> Design:
        """A design, judged; settings that are those of the present scene are left out."""
        changed = {name: value for name, value in settings.items() if value != self.present[name]}
        cost = sum(c.cost for c in self.choices if c.name in changed) + sum(self.weigh[name].cost for name in weighed)
        return self.judged(Design(changed, tuple(weighed), cost))

    def recording(self, design: Design) -> Recording:
        """The film of a design.

        Raises:
            InputError: If its settings are impossible.
        """
        return recording_of(self.question, self.scene(design), self.noise, self.steps)

    def scene(self, design: Design) -> Scene:
        """The scene of a design."""
        return self.recordings[design.label] if design.label else with_settings(self.question.scene, design.settings)

    def fisher(self, design: Design) -> Tensor:
        """F (samples, unknowns, unknowns) of a film by tangents; of the same settings it is computed once."""
        key = (*sorted(design.settings.items()), design.label)
        if key not in self._films:
            self.evaluations += 1
            with torch.no_grad():
                self._films[key] = self.recording(design).fisher()
        return self._films[key] + self.marked(design)

    def marked(self, design: Design) -> Tensor:
        """F (samples, unknowns, unknowns) of the markers of a design; 0 without."""
        total = torch.zeros(()).double()
        for name in design.weighed:
            if isinstance(one := self.weigh[name], Marking):
                key = (*sorted(design.settings.items()), design.label, name)
                if key not in self._films:
                    with torch.no_grad():
                        self._films[key] = self.recording(design).marked(one)
                total = total + self._films[key]
        return total

    def judged(self, design: Design, fisher: Tensor | None = None, judged_by: str = "") -> Design:
        """The design with criterion and standard deviations; infinite where it is impossible or costs too much."""
        if design.cost > self.budget:
            return replace(design, criterion=math.inf)
        try:
            F = self.fisher(design) if fisher is None else fisher
        except (InputError, ArithmeticError):
            return replace(design, criterion=math.inf)
        C = self.covariance(design, F)[:, self.question.columns][:, :, self.question.columns]
        u = self.question.places
        size = torch.stack([self.question.size(k, u) for k in self.question.columns], 1)
        relative = C.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt() / size.clamp(min=1e-300)
        sd = dict(zip((w.name for w in self.question.wanted), _rms(relative).tolist(), strict=True))
        value = self._criterion(C / self.question.scale(u)[:, :, None] / self.question.scale(u)[:, None, :])
        return replace(design, criterion=value, sd=sd, by_sample=relative, judged_by=judged_by or design.judged_by)

    def covariance(self, design: Design, fisher: Tensor | None = None) -> Tensor:
        """C (samples, unknowns, unknowns) after the video and the measurements of a design."""
        return posterior_covariance(self.fisher(design) if fisher is None else fisher, self.known(design))

    def known(self, design: Design) -> Tensor:
        """P (samples, unknowns, unknowns): what is known, with the measurements of a design."""
        precision = self.question.precision.expand(len(self.question.places), -1, -1)
        for name in design.weighed:
            if isinstance(one := self.weigh[name], Weighing):
                precision = precision + self.question.weighed(one)
        return precision

    def at(self, question: Question) -> "Judge":
        """The same judge at other samples."""
        other = copy.copy(self)
        other.question, other._films = question, {}
        return other

    def _criterion(self, C: Tensor) -> float:
        """The criterion from covariances in units of accuracy (samples, wanted, wanted)."""
        variances = C.diagonal(dim1=1, dim2=2)
        if self.criterion == "sd":
            return math.log(_rms(variances.clamp(min=0).sqrt()).max().item())
        if self.criterion == "A":
            return 0.5 * math.log(variances.sum(1).mean().item())
        scale = variances.clamp(min=1e-300).rsqrt()
        correlation = torch.logdet(C * scale[:, :, None] * scale[:, None, :])
        return (0.5 * (variances.log().sum(1) + correlation) / C.shape[1]).mean().item()

    def gradient(self, design: Design, difference: float = DIFFERENCE) -> dict[str, float]:
        """Derivatives of the criterion by each continuous choice, in its unit, by central differences.

        Args:
            design: The design.
            difference: Share of the range to both sides; at an end of it the difference is one-sided.
        """
        slopes = {}
        for choice in self.choices:
            if not choice.is_continuous or choice.name in ("timing.frames", "camera.size"):
                continue
            assert choice.low is not None and choice.high is not None  # of a range
            at, half = float(self.value(design, choice)), difference * (choice.high - choice.low)
            ends = [max(choice.low, at - half), min(choice.high, at + half)]
            low, high = (self.design(self.settings(design) | {choice.name: x}, design.weighed) for x in ends)
            slopes[choice.name] = (high.criterion - low.criterion) / (ends[1] - ends[0])
        return slopes

    def value(self, design: Design, choice: Choice) -> Value:
        """Value of a choice in a design."""
        return design.settings.get(choice.name, self.present[choice.name])

    def settings(self, design: Design) -> dict[str, Value]:
        """Values of all choices in a design."""
        return {c.name: self.value(design, c) for c in self.choices}


def _with_white_noise(film: Recording, noise: VideoNoise) -> VideoNoise:
    """The noise, with independent noise of pixels that tells about as much as such outlines do, along the median direction."""
    assert noise.outline is not None  # the caller has looked
    one = replace(film, places=film.places[:1])
    white, outlines = one.fisher()[0], one.outlines(noise)[0]
    eigenvalues, axes = torch.linalg.eigh(white)
    good = eigenvalues > 1e-9 * eigenvalues.max().clamp(min=1e-300)
    root = axes[:, good] / eigenvalues[good].sqrt()
    ratios = torch.linalg.eigvalsh(root.T @ outlines @ root).clamp(min=0)
    factor = ratios.median().item() if good.any() else 0.0
    observed = next(iter(film.problem.observation.parts.values())).sigma
    return replace(noise, mask=observed / math.sqrt(factor) if factor > 0 else noise.outline.size * WHITE)


def _rms(x: Tensor) -> Tensor:
    return x.square().mean(0).sqrt()


def single_changes(judge: Judge) -> Iterator[Design]:
    """The best value of each choice with all else as at present, and each measurement alone."""
    for choice in judge.choices:
        values = choice.values or tuple(choice.at(s) for s in np.linspace(0, 1, SINGLE_VALUES))
        tried = [judge.design({choice.name: value}) for value in values if value != judge.present[choice.name]]
        if tried:
            yield min(tried, key=lambda d: d.criterion)
    for name in judge.weigh:
        yield judge.design({}, (name,))


def spread_designs(judge: Judge, seed: int, count: int | None = None) -> Iterator[Design]:
    """Designs all over the choices: a Latin hypercube, measurements at random."""
    from scipy.stats import qmc  # half a second of imports

    axes = len(judge.choices) + len(judge.weigh)
    rng = np.random.default_rng(seed)
    shares = qmc.LatinHypercube(axes, rng=rng).random(
        min(MOST_SPREAD, SPREAD_DESIGNS * axes) if count is None else count
    )
    for row in shares:
        settings = {c.name: c.at(share) for c, share in zip(judge.choices, row, strict=False)}
        weighed = [name for name, share in zip(judge.weigh, row[len(judge.choices) :], strict=True) if share > 0.5]
        yield judge.design(settings, weighed)


def descend(judge: Judge, start: Design, report: Callable[[Design], None] = lambda design: None) -> Design:
    """Local search: exchanges of options, then steps along minus the gradient of the criterion in shares of the ranges."""
    best = start
    for _ in range(ITERATIONS):
        before = best.criterion
        best = _exchanged(judge, best)
        stepped = _stepped(judge, best, DIFFERENCE)
        best = stepped if stepped is not best else _stepped(judge, best, CONTACT_DIFFERENCE)
        report(best)
        if not best.criterion < before - 1e-3:
            break
    return best


def _exchanged(judge: Judge, best: Design) -> Design:
    """The best of the designs that differ in one option or one measurement."""
    tried = [best]
    for choice in judge.choices:
        for value in choice.values:
            if value != judge.value(best, choice):
                tried.append(judge.design(judge.settings(best) | {choice.name: value}, best.weighed))
    for name in judge.weigh:
        rest = [other for other in best.weighed if other != name]
        tried.append(judge.design(judge.settings(best), rest if name in best.weighed else [*rest, name]))
    return min(tried, key=lambda d: (d.criterion, d.cost))


def _stepped(judge: Judge, best: Design, difference: float) -> Design:
    """The first better design along minus the gradient; the same one where there is none."""
    gradient = judge.gradient(best, difference)
    choices = [c for c in judge.choices if c.name in gradient]
    width = np.array([c.high - c.low for c in choices if c.high is not None and c.low is not None])
    slope = np.array([gradient[c.name] for c in choices]) * width
    share = np.array([c.share(judge.value(best, c)) for c in choices])
    held = ((share <= 0) & (slope > 0)) | ((share >= 1) & (slope < 0)) | ~np.isfinite(slope)
    slope = np.where(held, 0.0, slope)
    if not slope.any():
        return best
    for step in STEP_SHARES:
        shares_after = np.clip(share - step * slope / np.abs(slope).max(), 0, 1)
        values = {c.name: c.at(s) for c, s in zip(choices, shares_after, strict=True)}
        trial = judge.design(judge.settings(best) | values, best.weighed)
        if trial.criterion < best.criterion:
            return trial
    return best


def simplified(judge: Judge, design: Design) -> Design:
    """The design without the changes that hardly matter, from the least on."""
    best, limit = design, design.criterion + NEGLIGIBLE_SD_SHARE
    while True:
        fewer = [
            judge.design({k: v for k, v in best.settings.items() if k != name}, best.weighed) for name in best.settings
        ]
        fewer += [judge.design(best.settings | {}, [n for n in best.weighed if n != name]) for name in best.weighed]
        fewer = [d for d in fewer if d.criterion < limit]
        if not fewer:
            return best
        best = min(fewer, key=lambda d: d.criterion)


def distinct(judge: Judge, designs: Sequence[Design], count: int) -> list[Design]:
    """The best designs, of those that are alike the best one only."""
    chosen: list[Design] = []
    for design in sorted(designs, key=lambda d: (d.criterion, d.cost)):
        if math.isfinite(design.criterion) and all(_apart(judge, design, other) for other in chosen):
            chosen.append(design)
        if len(chosen) == count:
            break
    return chosen


def _apart(judge: Judge, a: Design, b: Design) -> bool:
    if set(a.weighed) != set(b.weighed) or a.label != b.label:
        return True
    for c in judge.choices:
        left, right = judge.value(a, c), judge.value(b, c)
        if left != right and (c.values or abs(c.share(left) - c.share(right)) > MIN_DESIGN_DISTANCE):
            return True
    return False
