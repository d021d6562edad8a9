"""The question of a plan: what is wanted, what else is unknown, and the places at which designs are judged.

Places are samples of the unknowns: of their ranges and priors, or about the answer of a fit, whose standard deviations and correlations they
have. Of what has no prior, the range counts as one with the variance of a uniform distribution, (high − low)²/12 in solver coordinates.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.priors import Prior
from gradsim.identification.unknowns import Space, Unknown
from gradsim.planning.noise import OutlineNoise, VideoNoise
from gradsim.scene import Scene
from gradsim.scene.quantity import mean_and_sd

OF_CLIP = re.compile(  # numbers of one film alone, which a second one does not share
    r"(^|=)(timing\.|cameras?\.|\w[\w-]*\.(position|velocity|rotation_vector|angular_velocity|angle|rate|first_angle|second_angle|first_rate"
    r"|second_rate|pushes\.)|joints\.[\w-]+\.(angle|rate|displacement|speed|rotation_vector|angular_velocity))"
)
RANGE_INSET = 1e-6  # share of a range that samples about an answer keep from its ends


@dataclass(frozen=True)
class Wanted:
    """An unknown that is wanted.

    Args:
        name: Of the unknown.
        accuracy: Standard deviation that is enough, relative or in SI units; None: as small as possible.
        relative: Whether `accuracy` is a share of the value.
    """

    name: str
    accuracy: float | None = None
    relative: bool = True

    @classmethod
    def parse(cls, text: str) -> "Wanted":
        """From NAME, NAME:5% or NAME:0.02 (SI units).

        Raises:
            InputError: If it is none of them.
        """
        name, colon, accuracy = text.partition(":")
        if not colon:
            return cls(name.strip())
        percent = accuracy.strip().endswith("%")
        try:
            number = float(accuracy.strip().removesuffix("%")) / (100 if percent else 1)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise InputError(
                f"{text!r} is not NAME or NAME:ACCURACY, such as ground.friction:5% or ground.friction:0.02."
            )
        return cls(name.strip(), number, percent)


@dataclass(frozen=True)
class Weighing:
    """A measurement of a number besides the film, by a scale or a ruler.

    Args:
        name: Of an unknown.
        sd: Its standard deviation: SI units, or a share of the value.
        relative: Whether it is a share.
        cost: Its cost, in units of the budget.
    """

    name: str
    sd: float
    relative: bool = False
    cost: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Weighing":
        """From NAME±SD, NAME+-SD or NAME±1%, with @COST at the end if it costs something.

        Raises:
            InputError: If it is none of them.
        """
        head, at, cost = text.partition("@")
        name, sign, _ = re.split(r"(±|\+-)", head, maxsplit=1) if re.search(r"±|\+-", head) else (head, "", "")
        spread = head[len(name) + len(sign) :].strip()
        pair = mean_and_sd(f"1±{spread}") if sign else None
        try:
            price = float(cost) if at else 0.0
        except ValueError:
            price = math.nan
        if not (name.strip() and pair and pair[1] > 0 and price >= 0):
            raise InputError(f"{text!r} is not NAME±SD, such as cube.mass±0.001 or cube.mass±1%.")
        return cls(name.strip(), pair[1], spread.endswith("%"), price)

    @property
    def words(self) -> str:
        """The measurement in words."""
        return f"{self.name} ± {f'{100 * self.sd:g} %' if self.relative else f'{self.sd:g}'}"


@dataclass(frozen=True)
class Marking:
    """A marker that could be put on a body and tracked in the video.

    Args:
        body: Name of a rigid body.
        point: Its place from the center of mass, body frame [m].
        sd: Standard deviation of each coordinate of its track, independent in frames [px].
        cost: Its cost, in units of the budget.
    """

    body: str
    point: tuple[float, float, float]
    sd: float
    cost: float = 0.0

    @property
    def name(self) -> str:
        """Identity."""
        return f"{self.body}:{','.join(f'{x:g}' for x in self.point)}"

    @classmethod
    def parse(cls, text: str) -> "Marking":
        """From BODY:X,Y,Z±PX or BODY:X,Y,Z+-PX, with @COST at the end if it costs something.

        Raises:
            InputError: If it is neither.
        """
        head, _, cost = text.partition("@")
        body, _, rest = head.partition(":")
        place, *spread = re.split(r"±|\+-", rest)
        try:
            x, y, z = map(float, place.split(","))
            sd, price = float(spread[0]), float(cost or 0)
        except (ValueError, IndexError):
            x = y = z = sd = price = math.nan
        if not all(map(math.isfinite, (x, y, z, sd, price))) or sd <= 0 or price < 0:
            raise InputError(
                f"{text!r} is not BODY:X,Y,Z±PX, such as cube:0.05,0,0.05±0.1 (meters from its center, px)."
            )
        return cls(body.strip(), (x, y, z), sd, price)

    @property
    def words(self) -> str:
        """The marker in words."""
        return f"a marker on {self.body} at ({', '.join(f'{x:g}' for x in self.point)}) m, tracked to {self.sd:g} px"


@dataclass(frozen=True)
class Question:
    """Unknowns that are wanted, and what is known.

    Args:
        scene: The present scene.
        space: Unknowns, wanted or not.
        wanted: What is wanted.
        places: Samples in solver coordinates (samples, unknowns).
        precision: Of priors and ranges, and of what earlier films tell (unknowns, unknowns), or at each place (samples, ·, ·).
        source: Samples in words.
        about: Answer of a fit about which they are (unknowns,); None: of ranges.
    """

    scene: Scene
    space: Space
    wanted: tuple[Wanted, ...]
    places: Tensor
    precision: Tensor
    source: str
    about: Tensor | None = None

    @property
    def columns(self) -> list[int]:
        """Numbers of the wanted unknowns."""
        return [self.space.names.index(w.name) for w in self.wanted]

    @property
    def shared(self) -> list[int]:
        """Numbers of the unknowns that films of the same things have in common."""
        return [k for k, name in enumerate(self.space.names) if not is_of_clip(name)]

    def size(self, k: int, u: Tensor) -> Tensor:
        """Change of unknown k in solver coordinates that counts as 100 %, at places (samples, unknowns)."""
        if self.space.logarithmic[k]:
            return torch.ones(len(u)).double()
        low, high = self.space.range(k)
        return u[:, k].abs() if low * high > 0 else torch.full((len(u),), (high - low) / 2).double()

    def scale(self, u: Tensor) -> Tensor:
        """Standard deviation of each wanted unknown that counts as 1 (samples, wanted), in solver coordinates."""
        scales = []
        for w, k in zip(self.wanted, self.columns, strict=True):
            size = self.size(k, u)
            if w.accuracy is None:
                scales.append(size)
            elif w.relative:
                scales.append(size * w.accuracy)
            else:  # of a logarithm, the share of the value
                value = self.space.numbers(u)[:, k].abs() if self.space.logarithmic[k] else torch.ones(len(u)).double()
                scales.append(w.accuracy / value)
        return torch.stack(scales, 1)

    def with_precision(self, more: Tensor) -> "Question":
        """The same question where more is known, by (samples, unknowns, unknowns)."""
        return replace(self, precision=self.precision + more)

    def weighed(self, weighing: Weighing) -> Tensor:
        """Precision that a measurement adds, at each place (samples, unknowns, unknowns)."""
        k = self.space.names.index(weighing.name)
        value = self.space.numbers(self.places)[:, k].abs()
        sd = weighing.sd * (value if weighing.relative else torch.ones_like(value))
        sd = sd / value.clamp(min=1e-300) if self.space.logarithmic[k] else sd
        more = torch.zeros(len(value), len(self.space), len(self.space)).double()
        more[:, k, k] = sd.clamp(min=1e-300) ** -2
        return more


def is_of_clip(name: str) -> bool:
    """True for a number of one film alone: start of a motion, camera, clock, push."""
    return OF_CLIP.search(name) is not None


def range_precision(space: Space) -> Tensor:
    """Precision of priors, and of the ranges of unknowns without one (unknowns, unknowns)."""
    without = space.prior_precision.diagonal() == 0
    spread = (space.high - space.low) / math.sqrt(12)
    return space.prior_precision + torch.diag(torch.where(without, spread**-2.0, 0.0))


def ask(
    scene: Scene,
    want: Sequence[str | Wanted],
    unknowns: Sequence[str | Unknown],
    priors: Sequence[Prior],
    weigh: Sequence[Weighing],
    samples: int,
    seed: int,
) -> Question:
    """The question about a scene whose unknowns are anywhere in their ranges.

    Raises:
        InputError: If nothing is wanted, a name is wrong, or a measurement is of a number that is not unknown.
    """
    wanted = [w if isinstance(w, Wanted) else Wanted.parse(w) for w in want]
    if not wanted:
        raise InputError("nothing is wanted: name at least one number, such as --want ground.friction.")
    stated = [Unknown.parse(x) if isinstance(x, str) else x for x in unknowns]
    names = {name for u in stated for name in (u.name, *u.names)} | {name for p in priors for name in p.names}
    stated += [Unknown(w.name) for w in wanted if w.name not in names]
    space = Space(scene, stated, priors=priors)
    for w in wanted:
        if w.name not in space.names:
            raise InputError(
                f"`{w.name}` is wanted, and no unknown has this name; the unknowns are {', '.join(space.names)}."
            )
    for one in weigh:
        if one.name not in space.names:
            raise InputError(
                f"`{one.name}` would be measured, and it is taken as known already; make it an unknown: --unknown {one.name}:LOW:HIGH."
            )
    places = _from_ranges(space, samples, seed)
    source = f"{samples} samples of the ranges and priors of the unknowns"
    return Question(scene, space, tuple(wanted), places, range_precision(space), source)


def _from_ranges(space: Space, samples: int, seed: int) -> Tensor:
    """Samples (samples, unknowns): a Latin hypercube over the ranges; of a prior, its normal distribution."""
    from scipy.stats import qmc  # half a second of imports

    shares = torch.tensor(qmc.LatinHypercube(len(space), rng=np.random.default_rng(seed)).random(samples))
    ends = space.numbers(torch.stack([space.low, space.high]))
    u = space.inner(ends[0] + (ends[1] - ends[0]) * shares)
    has_prior = space.prior_precision.diagonal() > 0
    if has_prior.any():
        spread = torch.linalg.pinv(space.prior_precision, hermitian=True).diagonal().clamp(min=0).sqrt()
        normal = math.sqrt(2) * torch.special.erfinv(2 * shares.clamp(1e-3, 1 - 1e-3) - 1)
        normals = (space.prior_mean + spread * normal).clamp(space.low, space.high)
        u = torch.where(has_prior, normals, u)
    return u


@dataclass(frozen=True)
class Answer:
    """Answer of a fit.

    Args:
        values: By name, in SI units.
        std: Standard deviations; not finite where the fit says nothing.
        ranges: Ends of the ranges of its unknowns.
        status: Its status.
        noise: As its video had it; None where it does not say.
        words: Why the model does not explain its data; "" where it does.
    """

    values: Mapping[str, float]
    std: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]
    status: str = "ok"
    noise: "VideoNoise | None" = None
    words: str = ""

    @classmethod
    def of(cls, result: Mapping) -> "Answer":
        """From the content of `result.json`.

        Raises:
            InputError: If it has no estimates.
        """
        unknowns = result.get("unknowns")
        if not isinstance(unknowns, Mapping) or any(u.get("value") is None for u in unknowns.values()):
            raise InputError("the run has no estimates, so nothing can be planned from it; finish the fit first.")
        outline, sigma, noise = result.get("outline") or {}, result.get("sigma_reference"), None
        if outline.get("size"):
            noise = VideoNoise(outline=OutlineNoise(outline["size"], outline["shift"], outline["correlation"]))
        elif sigma:
            noise = VideoNoise(mask=float(sigma))
        left = (result.get("residual_diagnostics") or {}).get("words", "")
        return cls(
            {name: u["value"] for name, u in unknowns.items()},
            {name: math.inf if u.get("std") is None else u["std"] for name, u in unknowns.items()},
            {name: (u["low"], u["high"]) for name, u in unknowns.items()},
            str(result.get("status")),
            noise,
            left if result.get("status") == "mismatch" else "",
        )

    def covariance(self, question: Question, fisher: Tensor) -> Tensor:
        """Covariance (unknowns, unknowns) with its standard deviations, and correlations of the linear model.

        Args:
            question: Unknowns with their ranges.
            fisher: Information of a film like that of the fit (unknowns, unknowns).
        """
        space = question.space
        answer = self.place(space)
        spread = torch.tensor([self.std.get(name, math.inf) for name in space.names], dtype=torch.float64)
        spread = torch.where(torch.tensor(space.logarithmic), spread / space.numbers(answer), spread)
        C = torch.linalg.inv(fisher + question.precision)
        linear = C.diagonal().sqrt()
        widest = (space.high - space.low) / math.sqrt(12)
        ratio = torch.where(torch.isfinite(spread), torch.minimum(spread, widest) / linear, 1.0)
        return C * ratio[:, None] * ratio

    def place(self, space: Space) -> Tensor:
        """The answer in solver coordinates (unknowns,).

        Raises:
            InputError: If it has no value of an unknown.
        """
        if lacking := [name for name in space.names if name not in self.values]:
            raise InputError(f"the fit has no value of `{lacking[0]}`; its unknowns are {', '.join(self.values)}.")
        return space.inner(torch.tensor([self.values[name] for name in space.names], dtype=torch.float64))


def about(question: Question, answer: Answer, C: Tensor, seed: int) -> Question:
    """The same question about the answer of a fit, with the covariance C (unknowns, unknowns)."""
    from scipy.stats import qmc

    space, center = question.space, answer.place(question.space)
    normal = qmc.MultivariateNormalQMC(np.zeros(len(space)), rng=np.random.default_rng(seed)).random(
        len(question.places)
    )
    margin = RANGE_INSET * (space.high - space.low)
    places = center + torch.tensor(normal) @ torch.linalg.cholesky(C).T
    places = places.clamp(space.low + margin, space.high - margin)
    source = f"{len(places)} samples about the answer of the fit, as wide as its error bars"
    return replace(question, places=places, source=source, about=center)


def after(question: Question, C: Tensor) -> Question:
    """The same question, where an earlier film has left the covariance C (unknowns, unknowns) of what films share."""
    shared = torch.tensor(question.shared)
    precision = question.precision.clone()
    if len(shared):
        precision[shared[:, None], shared] = torch.linalg.inv(C[shared[:, None], shared])
    return replace(question, precision=precision)
