"""Gaussian priors: numbers of a scene that are known with an uncertainty, from a ruler, a scale or a calibration.

    χ² = Σ r² + (u − m)ᵀ P (u − m),      P = (D⁻¹ C D⁻¹)⁻¹

with the mean m and covariance C that are stated, in solver coordinates u: D is the mean of a positive quantity, which is solved for
by its logarithm, and 1 of others. So the prior of a positive quantity is log-normal; MEAN is its median, and SD/MEAN the standard
deviation of its logarithm. For 5 % the difference from a normal one is 0.1 % at one standard deviation.

A name that is not an unknown becomes one that starts at its mean.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.numerics.rotation import left_jacobian
from gradsim.scene.parameters import Parameter, camera_prefix, parameters, resolve
from gradsim.scene.quantity import mean_and_sd

if TYPE_CHECKING:
    from gradsim.scene.scene import Scene

CAPTURE = "gradsim.capture/1"  # schema of files with a covariance of several names
# Standard deviations from the mean to the ends of the range of a number that only a prior makes unknown,
RANGE_SIGMAS = 8.0
DECADE_REACH = math.log(5.0)  # but no more than this in the logarithm of a positive one, unless that is
NEAREST_REACH = 4.5  # below this many standard deviations, at which the video contradicts a prior
SAME_ROTATION = 1e-8  # [rad] between that of a file and that of the scene written from it, which has ten digits
AGREEMENT = 1e-2  # relative difference at which `sd` and the diagonal of `covariance` contradict each other


@dataclass(frozen=True)
class Prior:
    """A Gaussian prior of one number, or of several that are known together.

    Args:
        names: Dotted names of numbers or components, such as "cube.density" or "camera.centre.x".
        mean: Mean of each, in SI units.
        covariance: Covariance (names, names), in SI units squared.
        source: Label in results: a file, or the name.
        rotation: R (3, 3) that a camera's rotation vector turns; None: that of the scene.

    Raises:
        InputError: If a number is not finite, sizes differ, a name occurs twice, or the covariance is not symmetric and positive
            definite.
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    source: str = ""
    rotation: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self):
        n, label = len(self.names), self.source or ", ".join(self.names)
        shape = np.shape(self.covariance) if len({len(row) for row in self.covariance}) < 2 else "uneven"
        if not n or len(self.mean) != n or shape != (n, n):
            raise InputError(
                f"the prior `{label}` has {n} names, {len(self.mean)} means and a covariance of shape {shape}; expected "
                "n names, n means and (n, n)."
            )
        if twice := [name for name in dict.fromkeys(self.names) if self.names.count(name) > 1]:
            raise InputError(f"the prior `{label}` names {', '.join(f'`{name}`' for name in twice)} twice.")
        C = np.array(self.covariance, float)
        if not (np.isfinite(C).all() and np.isfinite(self.mean).all()):
            raise InputError(f"the prior `{label}` has a number that is not finite.")
        for name, variance in zip(self.names, C.diagonal(), strict=True):
            if variance <= 0:
                raise InputError(
                    f"the prior of `{name}` has a standard deviation of {math.copysign(abs(variance) ** 0.5, variance):g}; "
                    "expected one above 0. What is known exactly is a number of the scene and needs no prior."
                )
        correlation = C / np.sqrt(np.outer(C.diagonal(), C.diagonal()))
        if np.abs(C - C.T).max() > 1e-9 * np.abs(C).max() or np.linalg.eigvalsh(correlation)[0] <= 1e-12:
            raise InputError(f"the covariance of the prior `{label}` is not symmetric and positive definite.")

    @property
    def sd(self) -> tuple[float, ...]:
        """Standard deviation of each number, in SI units."""
        return tuple(math.sqrt(row[k]) for k, row in enumerate(self.covariance))

    @classmethod
    def independent(cls, name: str, mean: float, sd: float) -> "Prior":
        """Prior of one number."""
        return cls((name,), (float(mean),), ((math.copysign(float(sd) ** 2, sd),),), name)

    @classmethod
    def parse(cls, text: str) -> "Prior":
        """From NAME=MEAN±SD, NAME=MEAN+-SD, or NAME=MEAN±SD% with the standard deviation in percent of the mean."""
        name, equals, numbers = text.rpartition("=")
        pair = mean_and_sd(numbers)
        if not (equals and name.strip() and pair):
            raise InputError(
                f"prior {text!r} is not NAME=MEAN±SD, such as beam.density=1000±50, NAME=MEAN+-SD, NAME=MEAN±5%, or a .json file."
            )
        return cls.independent(name.strip(), *pair)

    @classmethod
    def load(cls, path: str | Path, camera: str = "camera") -> "tuple[Prior | None, list[str]]":
        """From a file of the schema `gradsim.capture/1`: `names`, `mean`, and `sd` or `covariance`, in SI units.

        Args:
            path: The file.
            camera: Camera of the scene that the file's `camera.…` are numbers of.

        Returns:
            The prior, of names with a standard deviation above 0, and sentences on the others; None if there are none.

        Raises:
            InputError: If it cannot be read, has another schema, or its numbers are not a Gaussian distribution.
        """
        content = _read(Path(path))
        names, mean = content["names"], content["mean"]
        C = _covariance(content, path)
        prefix = f"{camera_prefix(camera)}."
        names = [re.sub(r"^camera\.", prefix, str(name)) for name in names]
        uncertain = [k for k in range(len(names)) if C[k, k] != 0]
        words = [f"{path} has `{names[k]}` without an uncertainty" for k in range(len(names)) if k not in uncertain]
        if not uncertain:
            return None, words
        rows = tuple(tuple(map(float, C[k, uncertain])) for k in uncertain)
        chosen = tuple(names[k] for k in uncertain), tuple(float(mean[k]) for k in uncertain)
        R = content.get("R")
        return cls(*chosen, rows, str(path), tuple(tuple(map(float, row)) for row in R) if R else None), words

    def of(self, names: Iterable[str]) -> "Prior | None":
        """The marginal prior of some of its names, in its own order; None of none."""
        chosen = set(names)
        ks = [k for k, name in enumerate(self.names) if name in chosen]
        if not ks:
            return None
        rows = tuple(tuple(self.covariance[i][j] for j in ks) for i in ks)
        return Prior(
            tuple(self.names[k] for k in ks), tuple(self.mean[k] for k in ks), rows, self.source, self.rotation
        )

    def about(self, scene: "Scene") -> "Prior":
        """The same prior with rotation vectors that turn the R of a scene's cameras: exp(ω') R_scene = exp(ω) R.

        To first order of ω − its mean, the covariance of ω' is J⁻¹ C J⁻ᵀ with the left Jacobian J at the mean of ω'.
        """
        prefix = next(
            (name.rpartition(".rotation_vector.")[0] for name in self.names if ".rotation_vector." in name), ""
        )
        if self.rotation is None or not prefix:
            return self
        ks = [self.names.index(f"{prefix}.rotation_vector.{axis}") for axis in "xyz"]
        R = scene.view(prefix.removeprefix("cameras.")).matrices()[1]
        mean, C = np.array(self.mean), np.array(self.covariance)
        Rotation = scipy.spatial.transform.Rotation
        turned = Rotation.from_rotvec(mean[ks]) * Rotation.from_matrix(np.array(self.rotation) @ R.T)
        if turned.magnitude() < SAME_ROTATION:
            return replace(self, rotation=None)
        jacobian = lambda x: left_jacobian(torch.tensor(x, dtype=torch.float64)).numpy()
        T = np.eye(len(C))
        T[np.ix_(ks, ks)] = np.linalg.solve(jacobian(turned.as_rotvec()), jacobian(mean[ks]))
        mean[ks] = turned.as_rotvec()
        return Prior(self.names, tuple(mean.tolist()), tuple(map(tuple, (T @ C @ T.T).tolist())), self.source)


Stated = Prior | str | Path | Mapping[str, tuple[float, float]]  # a prior as a user may give it


def read_priors(stated: "Stated | Sequence[Stated] | None") -> tuple[list[Prior], list[str]]:
    """Priors as `identify` takes them: `Prior`, "NAME=MEAN±SD", a .json file, {NAME: (MEAN, SD)}, or several of these.

    Returns:
        Independent priors, and sentences on numbers of files that are not used.

    Raises:
        InputError: As `Prior`, and if two priors have a name in common.
    """
    if stated is None:
        return [], []
    if isinstance(stated, Prior):
        priors, words = [stated], []
    elif isinstance(stated, Mapping):
        priors, words = [Prior.independent(name, *pair) for name, pair in stated.items()], []
    elif isinstance(stated, Path) or (isinstance(stated, str) and is_file(stated)):
        prior, words = Prior.load(stated)
        priors = [prior] if prior else []
    elif isinstance(stated, str):
        priors, words = [Prior.parse(stated)], []
    else:
        parts = [read_priors(one) for one in stated]
        priors, words = [p for part, _ in parts for p in part], [text for _, part in parts for text in part]
    return _disjoint(priors), words


def is_file(text: str) -> bool:
    """True if a prior as it is given on the command line is a file."""
    return text.lower().endswith(".json")


def priors_of(scenes: "Sequence[Scene]", stated: "Stated | Sequence[Stated] | None") -> tuple[list[Prior], list[str]]:
    """Priors that are stated, and those of scenes and their cameras for other names; what scenes state alike counts once.

    Returns:
        Independent priors of numbers that the scenes have, and sentences on numbers of files that are not used.

    Raises:
        InputError: As `read_priors`, and if no scene has a number of a name; of a file, numbers of a camera are left out.
    """
    instead, words = read_priors(stated)
    taken = {name for prior in instead for name in prior.names}
    priors: list[Prior] = []
    for scene in scenes:
        stated_by_scene = [Prior.independent(name, *pair) for name, pair in scene.priors.items()]
        for name, camera in scene.views.items():
            if camera.prior is not None:
                prior, left_out = Prior.load(camera.prior, name)
                stated_by_scene += [prior] if prior else []
                words += [text for text in left_out if text not in words]
        priors += [prior for prior in stated_by_scene if prior not in priors]
    rest = [prior.of(set(prior.names) - taken) for prior in priors]
    known, more = for_scenes([*(prior for prior in rest if prior), *instead], scenes)
    return _disjoint(known), words + more


def for_scenes(priors: Sequence[Prior], scenes: "Sequence[Scene]") -> tuple[list[Prior], list[str]]:
    """Priors of the numbers that at least one of some scenes has, and sentences on numbers of cameras that none has.

    Raises:
        InputError: On a name that no scene has and that is not one of several numbers of a camera.
    """
    left, words = [], []
    for prior in priors:
        missing = [name for name in prior.names if not any(has(scene, name) for scene in scenes)]
        extra = [name for name in missing if name.startswith(("camera.", "cameras.")) and prior.source != name]
        for name in [name for name in missing if name not in extra]:
            for part in name.partition("@")[0].split("="):
                _number(scenes[0], part.strip())  # raises, and says what the scene has
        if extra:
            words.append(
                f"the scene has no {', '.join(f'`{name}`' for name in extra)}, of which {prior.source} has a prior"
            )
        marginal = prior.of(set(prior.names) - set(missing))
        left += [marginal.about(scenes[0])] if marginal else []
    return left, words


class Reach(NamedTuple):
    """Range in which a number with a prior is searched, in SI units."""

    low: float
    high: float


def reach(kind: Parameter, name: str, mean: float, sd: float) -> Reach:
    """Range of a number that only its prior makes an unknown: `RANGE_SIGMAS` standard deviations, where physical."""
    if not kind.positive:
        return Reach(max(mean - RANGE_SIGMAS * sd, kind.lower), min(mean + RANGE_SIGMAS * sd, kind.upper))
    spread = relative_sd(name, mean, sd)
    half = min(RANGE_SIGMAS * spread, max(NEAREST_REACH * spread, DECADE_REACH))
    return Reach(mean * math.exp(-half), min(mean * math.exp(half), kind.upper))


def relative_sd(name: str, mean: float, sd: float) -> float:
    """Standard deviation of the logarithm of a positive quantity.

    Raises:
        InputError: If the mean is not above 0, or the standard deviation is larger than it.
    """
    if not 0 < sd <= mean:
        raise InputError(
            f"the prior of `{name}` is {mean:g} ± {sd:g}, and the quantity is positive: expected a mean above 0 and a standard deviation of "
            f"at most the mean. What is known so little needs a range in place of a prior: {name}:LOW:HIGH."
        )
    return sd / mean


@dataclass(frozen=True)
class Weight:
    """One prior in solver coordinates.

    Args:
        label: Its source.
        columns: Which of the unknowns it is about.
        mean: Their means (columns,).
        precision: P (columns, columns).
    """

    label: str
    columns: list[int]
    mean: Tensor
    precision: Tensor

    @classmethod
    def of(cls, prior: Prior, columns: Sequence[int], logarithmic: Sequence[bool]) -> "Weight":
        """A prior of these unknowns, of which some are solved for by their logarithm."""
        pairs = list(zip(prior.names, prior.mean, prior.sd, [logarithmic[k] for k in columns], strict=True))
        for name, mean, sd, log in pairs:
            if log:
                relative_sd(name, mean, sd)
        scale = torch.tensor([mean if log else 1.0 for _, mean, _, log in pairs], dtype=torch.float64)
        C = torch.tensor(prior.covariance, dtype=torch.float64) / scale[:, None] / scale
        spread = C.diagonal().sqrt()  # of very different size: the correlation is what is inverted
        precision = torch.linalg.inv(C / spread[:, None] / spread) / spread[:, None] / spread
        means = [math.log(mean) if log else mean for _, mean, _, log in pairs]
        return cls(prior.source, list(columns), torch.tensor(means, dtype=torch.float64), (precision + precision.T) / 2)

    def among(self, count: int) -> Tensor:
        """P among all unknowns (count, count)."""
        whole, at = torch.zeros(count, count).double(), torch.tensor(self.columns)
        whole[at[:, None], at] = self.precision
        return whole


def _disjoint(priors: list[Prior]) -> list[Prior]:
    by_name: dict[str, Prior] = {}
    for prior in priors:
        for name in prior.names:
            if name in by_name:
                raise InputError(f"`{name}` has two priors; give one, or their product as one.")
            by_name[name] = prior
    return priors


def has(scene: "Scene", name: str) -> bool:
    """True if a scene has the number of this name, or all that it ties."""
    try:
        for part in name.partition("@")[0].split("="):
            _number(scene, part.strip())
    except InputError:
        return False
    return True


def _number(scene: "Scene", name: str) -> None:
    """Raise `InputError` unless the scene has a number of this name."""
    known, index = resolve(scene, name)
    kind = parameters(scene)[known]
    if index is None and kind.value.ndim:
        what = "an array" if kind.row_of else "a vector"
        raise InputError(f"`{name}` is {what}; a prior is of numbers: name a component, such as {name}.x.")


def _read(path: Path) -> dict[str, Any]:
    expected = f'{{"schema": "{CAPTURE}", "names": […], "mean": […], "sd": […] or "covariance": [[…]]}}'
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the prior {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"the prior {path} is not JSON: {error}; expected {expected}.") from None
    if not isinstance(content, dict) or content.get("schema") != CAPTURE:
        got = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise InputError(f"the prior {path} has the schema {got!r}; expected {expected}.")
    names, mean = content.get("names"), content.get("mean")
    if not isinstance(names, list) or not isinstance(mean, list) or len(names) != len(mean) or not names:
        raise InputError(f"the prior {path} needs `names` and `mean`, as long as each other; expected {expected}.")
    return content


def _covariance(content: Mapping[str, Any], path: str | Path) -> np.ndarray:
    """Covariance (n, n) of a capture file: as given, or of `sd` alone, diagonal."""
    n, sd, given_C = len(content["names"]), content.get("sd"), content.get("covariance")
    try:
        np.array(content["mean"], float)
        spread = None if sd is None else np.array(sd, float)
        C = np.diag(spread**2) if given_C is None and spread is not None else np.array(given_C, float)
    except (TypeError, ValueError):
        raise InputError(f"the prior {path} has a mean, sd or covariance that is not a number.") from None
    if C.shape != (n, n) or (spread is not None and spread.shape != (n,)):
        raise InputError(f"the prior {path} has {n} names; expected `sd` with {n} numbers, or `covariance` ({n}, {n}).")
    if spread is not None and (np.abs(np.sqrt(np.abs(C.diagonal())) - spread) > AGREEMENT * np.abs(spread)).any():
        raise InputError(f"the `sd` of the prior {path} is not the square root of the diagonal of its `covariance`.")
    return C
