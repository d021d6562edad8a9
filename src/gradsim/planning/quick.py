"""The one change of a next video that would tell most of what a fit has left open, from a short list of usual changes.

Measurements of unknowns that only show together, another start, a push of known size, a tilted floor, another camera, a faster clock or a longer
video: each is judged alone, about the answer of the fit. Changes that are harder to make have to gain more (`EFFORT`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from gradsim.errors import InputError, Status
from gradsim.identification.fit import Fit
from gradsim.identification.priors import Stated, priors_of
from gradsim.identification.uncertainty.fisher import KNOWN
from gradsim.identification.unknowns import Unknown
from gradsim.planning import words
from gradsim.planning.choices import Choice, Value, present_value
from gradsim.planning.information import require_possible
from gradsim.planning.noise import VideoNoise
from gradsim.planning.question import Answer, Marking, Weighing, about, ask
from gradsim.planning.search import Design, Judge
from gradsim.runtime.parallel import one_thread
from gradsim.scene import Scene
from gradsim.scene.body import Pendulum
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.joint import placing_joints

SAMPLES = 4
MIN_CHANGES = 24  # changes that are judged whatever the fit has cost,
CHANGE_SHARE = 0.1  # and more within this share of its rollouts
WORTHWHILE_SD = 0.05  # standard deviation over the value from which an answer is worth a better video
SPEED, SPIN, SWING, TILT = 2.0, 8.0, 1.0, 0.5  # of starts [m/s, rad/s, rad] and of a floor [rad]
UNRESOLVED, WEIGHT = 10.0, 0.1  # of the criterion: where all becomes known, effort counts more than how well
OPEN_PRECISION_SHARE = 1e-4  # share of a range's precision that counts: enough for an inverse
MEASUREMENT_SD = 0.005  # standard deviation of a measurement over the value
EFFORT = {"camera": 0.0, "clock": 0.0, "start": 0.3, "measurement": 0.5, "tilt": 0.7, "push": 1.0, "direct": 3.0}
# What a scale, a ruler or a clock tells
AT_HAND = ("mass", "density", "length", "radius", "size", "rate", "translation.z", "position")
TRUSTED_STATUSES = (Status.OK, Status.UNIDENTIFIABLE, Status.APPROXIMATE, Status.UNCONVERGED)


@dataclass(frozen=True)
class Change:
    """A usual change of a video.

    Args:
        kind: Key of `EFFORT`.
        settings: Values of choices.
        weighed: Measurements.
    """

    kind: str
    settings: Mapping[str, Value]
    weighed: tuple[Weighing, ...] = ()


@dataclass(frozen=True)
class NextVideo:
    """The best change, and what it would do.

    Attributes:
        design: Settings and measurements, with the standard deviations.
        before: Standard deviations as the linear model has them at present.
        weigh: Measurements by name.
        words: In a sentence.
        scene: Scene of the video.
        resolves: Whether all that the fit left open would be known to 10 %.
    """

    design: Design
    before: dict[str, float]
    weigh: Mapping[str, Weighing | Marking]
    words: str
    scene: Scene
    resolves: bool

    def result(self) -> dict:
        """For `result.json`."""
        return {
            "words": self.words,
            "settings": self.design.settings,
            "measured": {name: self.weigh[name].words for name in self.design.weighed},
            "sd": self.design.sd,
            "sd_before": self.before,
            "resolves": self.resolves,
        }


def is_open(fit: Fit) -> bool:
    """True if a fit whose model holds leaves an unknown open, or with a wide interval."""
    return fit.status in TRUSTED_STATUSES and bool(open_unknowns(fit))


def open_unknowns(fit: Fit) -> list[str]:
    """Unknowns that the fit leaves open; where none, those with a wide interval."""
    unidentified = [name for name, e in fit.unknowns.items() if not e.identifiable]
    return unidentified or [
        name for name, e in fit.unknowns.items() if e.std > WORTHWHILE_SD * abs(e.value) and e.low * e.high > 0
    ]


@one_thread()
def next_video(
    scene: Scene,
    fit: Fit,
    priors: Stated | Sequence[Stated] | None = None,
    noise: VideoNoise | None = None,
    seed: int = 0,
) -> NextVideo | None:
    """The best single change for what a fit has left open; None where no usual change helps.

    Args:
        scene: Scene of the fit.
        fit: Of one clip.
        priors: Priors of the fit, as for `identify`.
        noise: Noise of the next video; None: that of the fit.
        seed: Of the samples.
    """
    answer, wanted = Answer.of(fit.result()), open_unknowns(fit)
    try:
        require_possible(scene)
        judge, changes = _judge(scene, fit, answer, wanted, priors, noise or answer.noise or VideoNoise(), seed)
    except (InputError, ArithmeticError):  # a scene that no plan is for: the fit stays as it is
        return None
    present = judge.judged(Design({}))
    limit = max(MIN_CHANGES, int(CHANGE_SHARE * fit.rollouts / (SAMPLES * max(1, len(fit.unknowns)))))
    best, score = None, math.inf
    for change in changes[:limit]:
        design = judge.judged(Design(dict(change.settings), tuple(w.name for w in change.weighed)))
        if not design.criterion < present.criterion - math.log(words.MIN_USEFUL_GAIN):
            continue
        resolves = _resolves(judge, design)
        value = EFFORT[change.kind] + (WEIGHT * design.criterion if resolves else UNRESOLVED + design.criterion)
        if value < score:
            best, score = design, value
    if best is None:
        return None
    before = _within_ranges(judge, present)
    sentence = words.sentence(judge.question, replace(present, sd=before), best, judge.weigh)
    return NextVideo(best, before, judge.weigh, sentence, judge.scene(best), _resolves(judge, best))


def _within_ranges(judge: Judge, design: Design) -> dict[str, float]:
    """Standard deviations that are no larger than that of a uniform distribution over the range."""
    question, space = judge.question, judge.question.space
    spread = (space.high - space.low) / math.sqrt(12)
    sd = {}
    for w, k in zip(question.wanted, question.columns, strict=True):
        widest = (spread[k] / question.size(k, question.places).clamp(min=1e-300)).square().mean().sqrt().item()
        sd[w.name] = min(design.sd[w.name], widest)
    return sd


def _judge(scene, fit: Fit, answer: Answer, wanted, priors, noise: VideoNoise, seed: int) -> tuple[Judge, list[Change]]:
    unknowns = [Unknown(name, *ends) for name, ends in answer.ranges.items()]
    stated, _ = priors_of([scene], priors)
    named = {name for prior in stated for name in prior.names}
    question = ask(scene, wanted, [u for u in unknowns if u.name not in named], stated, [], SAMPLES, seed)
    changes = list(usual_changes(scene, fit))
    weigh = {w.name: w for change in changes for w in change.weighed}
    names = dict.fromkeys(name for change in changes for name in change.settings)
    choices = [Choice(name, values=(0.0,)) for name in names]  # names alone count
    judge = Judge(question, choices, list(weigh.values()), noise)
    fisher = judge.fisher(Design({})).mean(0)
    near = about(question, answer, answer.covariance(question, fisher), seed)
    prior = question.space.prior_precision  # the verdict of a fit does not count ranges
    return judge.at(replace(near, precision=prior + OPEN_PRECISION_SHARE * (question.precision - prior))), changes


def _resolves(judge: Judge, design: Design) -> bool:
    """True if all that is wanted would be known to 10 % at each sample, as a verdict counts: of the range where it is not a logarithm."""
    question = judge.question
    if not len(design.by_sample):
        return False
    size = torch.stack([question.size(k, question.places) for k in question.columns], 1)
    return bool((design.by_sample * size / question.space.unit[question.columns] < KNOWN).all())


def usual_changes(scene: Scene, fit: Fit) -> Iterator[Change]:
    """Usual changes of a scene, those that most often help first."""
    yield from _measurements(fit)
    yield from _starts(scene)
    yield from _pushes(scene)
    if scene.surfaces:
        g = math.hypot(*scene.gravity)
        yield Change("tilt", {"gravity.x": g * math.sin(TILT), "gravity.z": -g * math.cos(TILT)})
    yield from _cameras(scene)


def _measurements(fit: Fit) -> Iterator[Change]:
    """Measurements of unknowns that only show together; of one alone, which needs no video, last resort."""
    members = [[n for n, c in d.combination.items() if abs(c) > 0.05] for d in fit.null_directions]
    members = members or [open_unknowns(fit)]
    together = {name for names in members if len(names) > 1 for name in names}
    for name in dict.fromkeys(name for names in members for name in names):
        at_hand = name in together and name.endswith(AT_HAND)
        yield Change("measurement" if at_hand else "direct", {}, (Weighing(name, MEASUREMENT_SD, True),))


def _starts(scene: Scene) -> Iterator[Change]:
    """Another start of each body or joint."""
    placements = placing_joints(scene.joints)
    for name, joint in scene.joints.items():
        if name in placements.values():
            for key in ("angle", "displacement", "rate", "speed"):
                if key in joint.start:
                    yield Change("start", {f"joints.{name}.{key}": _off(scene, f"joints.{name}.{key}")})
    for name, body in scene.bodies.items():
        if isinstance(body, Pendulum):
            yield Change("start", {f"{name}.angle": _off(scene, f"{name}.angle")})
        elif isinstance(body, DoublePendulum):
            yield Change("start", {f"{name}.first_angle": _off(scene, f"{name}.first_angle")})
        elif name not in placements and name not in scene.recorded:
            for key, value in (
                ("velocity.x", SPEED),
                ("velocity.z", -SPEED),
                ("velocity.z", SPEED),
                ("angular_velocity.y", SPIN),
                ("angular_velocity.z", SPIN),
                ("angular_velocity.y", 3 * SPIN),
            ):
                yield Change("start", {f"{name}.{key}": value})


def _off(scene: Scene, name: str) -> float:
    """A start that differs: a swing, or the present one turned further."""
    old = float(present_value(scene, name))
    return old + SWING if abs(old) < SWING else old / 2


def _pushes(scene: Scene) -> Iterator[Change]:
    """Impulses that change the speed by about `SPEED`."""
    placements = placing_joints(scene.joints)
    for name, body in scene.bodies.items():
        if hasattr(body, "pushes") and name not in placements and name not in scene.recorded:
            impulse = SPEED * (getattr(body, "mass", None) or 1.0)
            for axis in "xz":
                yield Change("push", {f"{name}.push.{axis}": impulse})


def _cameras(scene: Scene) -> Iterator[Change]:
    """Another place of the camera, another clock, a second camera."""
    yield Change("clock", {"timing.frames": float(2 * scene.timing.frames)})
    yield Change("clock", {"timing.fps": 2 * scene.timing.fps})
    if scene.camera is None or scene.camera.motion is not None:
        return
    yield Change("camera", {"camera.azimuth": float(present_value(scene, "camera.azimuth")) + math.pi / 2})
    yield Change("camera", {"camera.elevation": math.radians(80)})
    yield Change("camera", {"camera.distance": float(present_value(scene, "camera.distance")) / 2})
    yield Change("camera", {"camera.size": float(2 * scene.camera.size[0])})
    yield Change("camera", {"camera.second": "side"})
