"""K-fold prediction: errors of each model on the recordings that its fit left out.

    e_k = √(mean of r² over recording k)       r: whitened residuals (prediction − data)/σ by the fit without k's fold
    gain = 1 − ē/ē′,       standard errors = (ē′ − ē)/(s/√R)       s: standard deviation of e′_k − e_k over R recordings

of a model with a law (e) and one without it (e′). Differences are taken recording by recording, so what makes one recording harder than
another cancels (Vehtari, Gelman & Gabry 2017, §3). Fits of different folds share recordings, so the standard error is somewhat too
small (Bengio & Grandvalet 2004). A gain counts where it exceeds the 97.5 % quantile of Student's distribution of R − 1 degrees of freedom.

Residuals at which all models agree, such as pixels far from every body, count for none. Unknowns that a recording has for itself
(NAME@each) are fitted to its first frames, with the shared ones held, and the frames after these are predicted.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.held_numbers import FreeSpace
from gradsim.identification.multi_clip import EACH_CLIP, JointProblem, SharedSpace, joint_problem
from gradsim.identification.observation.base import Observation
from gradsim.identification.priors import Prior
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import MultistartConfig, search
from gradsim.identification.uncertainty.discrepancy import Discrepancy, discrepancy, is_of_coordinates, mean_square
from gradsim.identification.unknowns import Unknown
from gradsim.runtime.atomic import jsonable
from gradsim.scene.scene import Scene

GIVEN_MODEL = "as given"  # name of the model that the scenes are
AGREE = 1e-9  # [σ] difference below which residuals of two models are equal


@dataclass(frozen=True)
class Recordings:
    """Recordings, and one model of them.

    Args:
        scenes: Scene of each recording.
        observations: Data of each recording.
        unknowns: NAME for a number that all share, NAME@each for one in each recording, NAME@2 for one in recording 2 alone.
        priors: Priors by the same names.
    """

    scenes: Sequence[Scene]
    observations: Sequence[Observation]
    unknowns: Sequence[Unknown]
    priors: Sequence[Prior]

    def space(self, chosen: Sequence[int]) -> SharedSpace:
        """The unknowns of some recordings; those of single recordings are numbered among the chosen ones.

        Args:
            chosen: Recordings, counted from 0.
        """
        unknowns = [replace(u, name=label) for u in self.unknowns if (label := _renumbered(u.name, chosen)) is not None]
        priors = []
        for prior in self.priors:
            left = prior.of(name for name in prior.names if _renumbered(name, chosen) is not None)
            if left is not None:
                names = tuple(str(_renumbered(name, chosen)) for name in left.names)
                priors.append(replace(left, names=names))
        return SharedSpace([self.scenes[k] for k in chosen], unknowns, priors)

    def problem(self, chosen: Sequence[int]) -> JointProblem:
        """Problem of some recordings; arguments as of `space`."""
        scenes, observations = [self.scenes[k] for k in chosen], [self.observations[k] for k in chosen]
        return joint_problem(scenes, observations, self.space(chosen))


def _renumbered(label: str, chosen: Sequence[int]) -> str | None:
    """Label of an unknown among chosen recordings; None if it is of another one."""
    name, at, which = label.partition("@")
    if not at or which == EACH_CLIP:
        return label
    number = int(which) - 1 if which.isdecimal() else -1
    return f"{name}@{list(chosen).index(number) + 1}" if number in chosen else None


class Law(NamedTuple):
    """Gain of a law: errors with it and without it.

    Args:
        name: The law.
        gain: 1 − error with it over error without it.
        standard_errors: Difference of the errors over its standard error; NaN for fewer than two recordings.
        counts: Whether chance is excluded at 95 %.
        words: The same in words.
    """

    name: str
    gain: float
    standard_errors: float
    counts: bool
    words: str

    @classmethod
    def of(cls, name: str, with_it: Sequence[float], without_it: Sequence[float]) -> "Law":
        """From errors of each recording by the two models."""
        difference = np.subtract(without_it, with_it)
        if not np.isfinite(difference).all():
            better = np.isfinite(with_it).all()
            lost = "without" if better else "with"
            return cls(name, math.nan, math.nan, False, f"{name}: {lost} it a prediction leaves the finite numbers.")
        mean, n = float(np.mean(without_it)), len(difference)
        gain = float(difference.mean() / mean) if mean else 0.0
        error = float(difference.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
        z = float(difference.mean() / error) if error > 0 else math.copysign(math.inf, gain) if gain else 0.0
        counts = n > 1 and abs(z) > float(scipy.special.stdtrit(n - 1, 0.975))
        size = f"{100 * abs(gain):.2g} % {'better' if gain >= 0 else 'worse'}"
        text = f"{name}: prediction of recordings not fitted {size}, {abs(z):.1f} standard errors"
        return cls(name, gain, z, counts, f"{text}{'.' if counts else ', which may be chance.'}")


@dataclass(frozen=True)
class Prediction:
    """K-fold prediction by several models.

    Args:
        folds: Recordings of each fold, counted from 1.
        first_frames: Number of first frames that unknowns of single recordings were fitted to.
        errors: Error of each recording, in standard deviations of the noise, by model.
        coverage: Share of coordinates that were not fitted inside of their 95 % bands, those of `uncertainty.discrepancy`, by model; None for
            images, of whose pixels there are no bands.
        values: Shared unknowns of each fold's fit, by model.
        best: Model of the least mean error.
        laws: Gains of each law.
        words: The verdict.
    """

    folds: list[list[int]]
    first_frames: int
    errors: dict[str, list[float]]
    coverage: dict[str, float | None]
    values: dict[str, list[dict[str, float]]]
    best: str
    laws: list[Law]
    words: str

    def error(self, name: str) -> float:
        """Mean error of a model over all recordings [σ]."""
        return float(np.mean(self.errors[name]))

    def result(self) -> dict:
        """For `result.json`."""
        content = {
            "folds": self.folds,
            "first_frames": self.first_frames,
            "errors": self.errors,
            "mean_errors": {name: self.error(name) for name in self.errors},
            "coverage": self.coverage,
            "values": self.values,
            "best": self.best,
            "laws": [law._asdict() for law in self.laws],
            "words": self.words,
        }
        plain = jsonable(content)
        assert isinstance(plain, dict)
        return plain


def check_folds(recordings: Recordings, folds: int, first_frames: int) -> None:
    """Check a division into folds.

    Raises:
        InputError: If there are fewer recordings than folds, or the numbers of folds and of first frames are wrong.
    """
    count, frames = len(recordings.scenes), min(observation.frames for observation in recordings.observations)
    if folds < 2:
        raise InputError(f"folds is {folds}; expected at least 2: each fold is predicted by a fit to the others.")
    if count < folds:
        what = "there is one recording" if count == 1 else f"there are {count} recordings"
        way = f", or use {count} folds" if count > 1 else ""
        raise InputError(f"{what} and {folds} folds; give at least {folds} recordings{way}.")
    single = [u.name for u in recordings.unknowns if "@" in u.name]
    if single and first_frames < 1:
        raise InputError(
            f"`{single[0]}` belongs to single recordings, so of a recording that is predicted it has to be fitted to the first "
            "frames; state their number: --first-frames N, or first_frames=N."
        )
    if not 0 <= first_frames < frames:
        raise InputError(
            f"first_frames is {first_frames}; expected 0 to {frames - 1}: the shortest recording has {frames} frames, of which some "
            "must be left to predict."
        )


def predict_folds(
    models: Mapping[str, Recordings],
    folds: int,
    first_frames: int,
    plan: MultistartConfig,
    seed: int,
    stage: Callable[[str], None] = lambda text: None,
) -> Prediction:
    """Fit every model to all folds but one, and predict the recordings of that one, for each fold.

    Args:
        models: Models of the same recordings by name; `GIVEN_MODEL` is among them.
        folds: Number of folds; recordings are dealt to them in random order.
        first_frames: First frames of a predicted recording to which its own unknowns are fitted; they are not counted.
        plan: Starts and curriculum; no fit starts from an answer to other recordings.
        seed: Random seed of the folds and the starts.
        stage: Called with a description of each fit as it begins.

    Raises:
        InputError: As of `check_folds`.
    """
    for model in models.values():
        check_folds(model, folds, first_frames)
    count = len(models[GIVEN_MODEL].scenes)
    order = np.random.default_rng(seed).permutation(count)
    parts = [sorted(order[k::folds].tolist()) for k in range(folds)]
    residuals: dict[str, dict[int, Tensor]] = {name: {} for name in models}
    values: dict[str, list[dict[str, float]]] = {name: [] for name in models}
    coverages: dict[str, list[float]] = {name: [] for name in models}
    for number, left_out in enumerate(parts, 1):
        fitted = [k for k in range(count) if k not in left_out]
        for name, model in models.items():
            stage(f"fold {number} of {folds}: fitting the model {name} without recordings {_listed(left_out)}")
            problem = model.problem(fitted)
            u = search(problem, plan, np.random.default_rng(seed)).best  # pyright: ignore[reportArgumentType]
            numbers = dict(zip(problem.space.names, problem.space.numbers(u).tolist(), strict=True))
            values[name].append({label: y for label, y in numbers.items() if "@" not in label})
            bars = discrepancy(problem, u) if is_of_coordinates(problem) else None  # pyright: ignore[reportArgumentType]
            for k in left_out:
                answer = predict_recording(model, k, problem.space, u, first_frames, plan, seed)
                residuals[name][k] = answer.residuals(first_frames)
                if bars is not None:
                    coverages[name].append(answer.coverage(bars, residuals[name][k]))
    errors = {name: [] for name in models}
    for k in range(count):
        for name, error in _errors({name: residuals[name][k] for name in models}).items():
            errors[name].append(error)
    listed = [[k + 1 for k in part] for part in parts]
    best = min(errors, key=lambda name: float(np.mean(errors[name])))
    laws = [_law(name, errors[name], errors[GIVEN_MODEL]) for name in errors if name != GIVEN_MODEL]
    coverage = {name: float(np.mean(shares)) if shares else None for name, shares in coverages.items()}
    return Prediction(listed, first_frames, errors, coverage, values, best, laws, _words(best, laws, errors))


class Answer(NamedTuple):
    """A recording that was not fitted, with the shared unknowns of a fit to others, and its own fitted to its first frames.

    Args:
        problem: Of the recording alone.
        u: Its unknowns (n,) in solver coordinates.
        columns: Which unknowns of the fit they are; -1 for its own (n,).
        first: Covariance of its own unknowns, by its first frames.
    """

    problem: Problem
    u: Tensor
    columns: list[int]
    first: np.ndarray

    def residuals(self, first_frames: int) -> Tensor:
        """Whitened residuals (n,) after the first frames."""
        frames, observation = self.problem.frames, self.problem.observation
        with torch.no_grad():
            full = self.problem.model.values(self.problem.space.values(self.u[None]))
            trajectory = self.problem.model.rollout_unchecked(full, frames).at(slice(first_frames, frames))
            data = observation.slice_frames(first_frames, frames)
            return torch.cat(list(data.residuals(trajectory, frames - first_frames, "pixels")), 1)[0]

    def coverage(self, fitted: Discrepancy, residuals: Tensor) -> float:
        """Share of coordinates inside of their 95 % bands; of those that are 0, which were not observed, none counts.

        Args:
            fitted: Discrepancy of the fit to other recordings.
            residuals: Those of this one.
        """
        wide = fitted.band(self.problem, self.u, self.columns, self.first)[-len(residuals) :]
        r = residuals.abs().numpy()
        return float((r <= wide)[r != 0].mean()) if (r != 0).any() else math.nan


def predict_recording(
    model: Recordings, k: int, fitted: SharedSpace, u: Tensor, first_frames: int, plan: MultistartConfig, seed: int
) -> Answer:
    """Recording k by an answer to other recordings.

    Args:
        model: Recordings, and their model.
        k: The recording, counted from 0.
        fitted: Unknowns of the answer.
        u: The answer (unknowns of `fitted`,) in solver coordinates.
        first_frames, plan, seed: As of `predict_folds`.
    """
    joint = model.problem([k])
    problem, labels = joint.problems[0], joint.space.names
    space, names = problem.space, [labels[int(j)] for j in joint.space.columns[0]]
    known = dict(zip(fitted.names, fitted.numbers(u).tolist(), strict=True))
    columns = [-1 if "@" in name or name not in known else fitted.names.index(name) for name in names]
    single = [j for j, column in enumerate(columns) if column < 0]
    middle = space.numbers((space.low + space.high) / 2).tolist()
    numbers = [middle[j] if column < 0 else known[names[j]] for j, column in enumerate(columns)]
    whole = space.inner(torch.tensor(numbers, dtype=torch.float64))
    if not single:
        return Answer(problem, whole, columns, np.zeros((0, 0)))
    part = copy.copy(problem.first_frames(first_frames))
    part.space = free = FreeSpace(space, single, whole)
    inner = search(part, plan, np.random.default_rng(seed)).best
    normal = part.linearize(inner[None], first_frames)[1][0].numpy()
    covariance = np.linalg.pinv(normal, hermitian=True) * max(1.0, mean_square(part, inner))
    return Answer(problem, free.whole(inner), columns, covariance)


def _errors(residuals: Mapping[str, Tensor]) -> dict[str, float]:
    """Root mean square of the residuals (n,) of each model over those at which the models differ; infinite where one is not finite."""
    stacked = torch.stack(list(residuals.values()))
    if len(stacked) > 1:
        differ = ~((stacked - stacked[0]).abs() <= AGREE).all(0)
        stacked = stacked[:, differ] if differ.any() else stacked
    errors = stacked.square().mean(1).sqrt().nan_to_num(math.inf).tolist()
    return dict(zip(residuals, errors, strict=True))


def _law(name: str, errors: Sequence[float], baseline: Sequence[float]) -> Law:
    """Gain of what a candidate leaves out or brings in."""
    if name.startswith("without "):
        return Law.of(name.removeprefix("without "), baseline, errors)
    return Law.of(name.removeprefix("with "), errors, baseline)


def _words(best: str, laws: Sequence[Law], errors: Mapping[str, Sequence[float]]) -> str:
    means = {name: float(np.mean(e)) for name, e in errors.items()}
    head = f"Recordings that were not fitted are predicted best by the model {best}, to {means[best]:.3g} σ."
    return " ".join([head, *(law.words[0].upper() + law.words[1:] for law in laws)])


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(k + 1) for k in numbers)
