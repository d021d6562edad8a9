"""Joint fits of several clips: shared unknowns, and unknowns of single clips.

    cost(u) = Σ_k cost_k(u_k)           u_k: those of the unknowns u that clip k has

An unknown such as `cube.mass` is one number for all clips that have it. `cube.velocity@2` belongs to clip 2 alone, and
`cube.velocity@each` is an unknown of its own in each clip: cube.velocity@1, cube.velocity@2, …
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.api import solve
from gradsim.identification.estimators import LEAST_SQUARES, Estimator
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import NoiseFloor, Observation, Residual
from gradsim.identification.observation.clip import Clip, Files
from gradsim.identification.observation.multi_view import combined_noise_floor, rms_sigma
from gradsim.identification.priors import Prior, Stated, priors_of
from gradsim.identification.problem import Effort, Priors, Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Ranges, Space, Unknown
from gradsim.scene.parameters import resolve

EACH_CLIP = "each"  # after the @ of an unknown that every clip has for itself


class SharedSpace(Ranges):
    """The unknowns of several clips.

    Args:
        scenes: One for each clip.
        unknowns: As for `Space`, with @CLIP or @each after the names of those that are not shared.
        priors: Priors of numbers by such names; @each: a prior of that of each clip. What is not among the unknowns becomes one.

    Attributes:
        each: The space of each clip.
        columns: Which of all unknowns those are.

    Raises:
        InputError: As `Space`; on a clip that does not exist, or has no unknown at all.
    """

    def __init__(self, scenes: Sequence, unknowns: Sequence[str | Unknown], priors: Sequence[Prior] = ()):
        if not scenes:
            raise InputError("no clips; give at least one scene and its video.")
        by_clip: list[list[Unknown]] = [[] for _ in scenes]
        labels: list[list[str]] = [[] for _ in scenes]
        shared: dict[str, tuple[Unknown, bool, str]] = {}
        separate_priors = [one for prior in priors for one in _of_each(prior, scenes)]
        added = _from_priors(scenes, unknowns, separate_priors)
        for item in [*unknowns, *added]:
            unknown = Unknown.parse(item) if isinstance(item, str) else item
            name, clips, separate = _clips(scenes, unknown)
            first = None  # bounds that the first clip gives hold for all that share it
            for k in clips:
                space = Space(scenes[k], [replace(u, prior=None) for u in first or [replace(unknown, name=name)]])
                first = first if separate else space.unknowns
                for u, log, unit in zip(space.unknowns, space.logarithmic, space.units, strict=True):
                    label = f"{u.name}@{k + 1}" if separate else u.name
                    by_clip[k].append(u)
                    labels[k].append(label)
                    shared[label] = (replace(u, name=label, prior=unknown.prior), log, unit)
        for k, mine in enumerate(by_clip):
            if not mine:
                raise InputError(f"clip {k + 1} has no unknown; leave it out, or give it one.")
        super().__init__(
            *zip(*shared.values(), strict=True),  # pyright: ignore[reportArgumentType] -- three columns
            priors=separate_priors,
            only_prior=[u.name for u in added],
        )
        self.by_clip = [Space(scene, mine) for scene, mine in zip(scenes, by_clip, strict=True)]
        self.columns = [torch.tensor([self.names.index(label) for label in mine]) for mine in labels]


def _of_each(prior: Prior, scenes: Sequence) -> list[Prior]:
    """A prior, or of NAME@each one for each clip that has it.

    Raises:
        InputError: If it is one of several names, which would be known together with those of all clips.
    """
    names = [name for name in prior.names if name.endswith(f"@{EACH_CLIP}")]
    if not names:
        return [prior]
    if len(prior.names) > 1:
        raise InputError(
            f"`{names[0]}` has a prior together with other names; @{EACH_CLIP} needs a prior of its name alone."
        )
    name, clips, _ = _clips(scenes, Unknown(names[0]))
    return [Prior.independent(f"{name}@{k + 1}", prior.mean[0], prior.sd[0]) for k in clips]


def _from_priors(scenes: Sequence, unknowns: Sequence[str | Unknown], priors: Sequence[Prior]) -> list[Unknown]:
    """Unknowns for the names of priors that none has so far."""
    stated = [Unknown.parse(item) if isinstance(item, str) else item for item in unknowns]
    labels = set()
    for unknown in stated:
        name, clips, separate = _clips(scenes, unknown)
        for k in clips:
            space = Space(scenes[k], [replace(unknown, name=name, prior=None)])
            for part in [part for u in space.unknowns for part in u.names]:
                labels.add(f"{part}@{k + 1}" if separate else part)
    added = []
    for prior in priors:
        for label in (name for name in prior.names if name not in labels):
            name, clips, _ = _clips(scenes, Unknown(label))
            part = prior.of([label])
            assert part is not None  # `label` is one of its names
            (one,) = Space(scenes[clips[0]], [], priors=[replace(part, names=(name,))]).unknowns
            added.append(replace(one, name=label))
    return added


def _clips(scenes: Sequence, unknown: Unknown) -> tuple[str, list[int], bool]:
    """The name without its clip, the clips that have it, and whether each has it for itself."""
    name, at, clip = unknown.name.partition("@")
    if not at or clip == EACH_CLIP:
        having = [k for k, scene in enumerate(scenes) if _has(scene, replace(unknown, name=name))]
        if not having:
            resolve(scenes[0], Unknown(name).names[0])  # raises the error
        return name, having or [0], bool(at)
    if not clip.isdecimal() or not 1 <= int(clip) <= len(scenes):
        raise InputError(
            f"`{unknown.name}` names no clip: write {name}@1 to {name}@{len(scenes)}, {name}@{EACH_CLIP} for one in each, "
            f"or {name} for one that all share."
        )
    return name, [int(clip) - 1], True


def _has(scene, unknown: Unknown) -> bool:
    try:
        for name in unknown.names:
            resolve(scene, name)
    except InputError:
        return False
    return True


class JointProblem(Priors):
    """Several problems that share unknowns, with the interface of a `Problem`.

    Args:
        problems: One for each clip, over `space.by_clip`.
        space: All unknowns.
    """

    space: SharedSpace

    def __init__(self, problems: Sequence[Problem], space: SharedSpace):
        self.problems, self.space, self.effort = list(problems), space, Effort()
        for problem in self.problems:
            problem.effort = self.effort
        self.observation = _Evidence([problem.observation for problem in problems])

    @property
    def frames(self) -> int:
        """Number of frames of the longest clip."""
        return self.observation.frames

    @property
    def is_external(self) -> bool:
        """See `Problem`."""
        return any(problem.is_external for problem in self.problems)

    @property
    def scenes(self) -> list:
        """Scene of each clip."""
        return [problem.model.scene for problem in self.problems]

    def with_unknowns(self, more: Sequence[Unknown]) -> Self:
        """As of `Problem`."""
        problem = copy.copy(self)
        problem.space = SharedSpace(self.scenes, [*self.space.unknowns, *more], self.space.priors)
        problem.problems = [copy.copy(clip) for clip in self.problems]
        for clip, space in zip(problem.problems, problem.space.by_clip, strict=True):
            clip.space = space
        return problem

    def with_finer_steps(self, factor: int) -> Self:
        """As of `Problem`."""
        problem = copy.copy(self)
        problem.problems = [clip.with_finer_steps(factor) for clip in self.problems]
        return problem

    def cost(self, u: Tensor, frames: int, residual: Residual = "pixels") -> Tensor:
        """As of `Problem`."""
        costs = [problem.cost(mine, first, residual) for problem, mine, first, _ in self._by_clip(u, frames)]
        return torch.stack(costs).sum(0) + self.prior_cost(u)

    def sum_of_squares(self, u: Tensor, residual: Residual = "pixels") -> tuple[Tensor, int]:
        """As of `Problem`."""
        clips = self._by_clip(u, self.frames)
        totals, counts = zip(*(problem.sum_of_squares(mine, residual) for problem, mine, *_ in clips), strict=True)
        return torch.stack(totals).sum(0), sum(counts)

    def linearize(self, u: Tensor, frames: int, residual: Residual = "pixels") -> tuple[Tensor, Tensor, Tensor]:
        """As of `Problem`."""
        total = self.prior_cost(u)
        A = self.prior_precision.repeat(len(u), 1, 1)
        g = self.prior_gradient(u)
        for problem, mine, first, columns in self._by_clip(u, frames):
            cost, own_A, own_g = problem.linearize(mine, first, residual)
            total = total + cost
            A[:, columns[:, None], columns] += own_A
            g[:, columns] += own_g
        return total, A, g

    def jacobian(self, u: Tensor, frames: int, residual: Residual = "pixels") -> Iterator[tuple[Tensor, Tensor]]:
        """As of `Problem`."""
        for problem, mine, first, columns in self._by_clip(u, frames):
            for r, block in problem.jacobian(mine, first, residual):
                J = block.new_zeros(*block.shape[:2], len(self.space))
                J[..., columns] = block
                yield r, J

    def residuals(self, u: Tensor, frames: int | None = None) -> Tensor:
        """As of `Problem`."""
        return torch.cat(list(self.residual_blocks(u, frames)), 1)

    def residual_blocks(self, u: Tensor, frames: int | None = None) -> Iterator[Tensor]:
        """As of `Problem`."""
        for problem, mine, first, _ in self._by_clip(u, frames or self.frames):
            yield from problem.residual_blocks(mine, first)

    def _by_clip(self, u: Tensor, frames: int) -> Iterator[tuple[Problem, Tensor, int, Tensor]]:
        """Every clip with its own unknowns, the frames of it that count, and which unknowns they are."""
        for problem, columns in zip(self.problems, self.space.columns, strict=True):
            yield problem, u[:, columns], min(frames, problem.frames), columns


class _Evidence:
    """Observations of several clips as one."""

    outline_noise = False
    growth = 1.0
    notes: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, parts: Sequence[Observation]):
        self.parts, self.frames = list(parts), max(part.frames for part in parts)

    @property
    def sigma(self) -> float:
        return rms_sigma(self.parts)

    def noise_floor(self, frames: int) -> NoiseFloor:
        return combined_noise_floor([(part, min(frames, part.frames)) for part in self.parts])


def identify_many(
    scenes: Sequence,
    unknowns: Sequence[str | Unknown],
    clips: Sequence[Clip | Files] | None = None,
    observations: Sequence[Observation] | None = None,
    starts: int = 16,
    seed: int = 0,
    report: Callable[[dict], None] = lambda entry: None,
    estimator: str | Estimator = LEAST_SQUARES,
    priors: Stated | Sequence[Stated] | None = None,
    discrepancy: bool = False,
) -> Fit:
    """Identify physical parameters that several clips share.

    Args:
        scenes: One for each clip; a scene may occur more than once.
        unknowns: NAME for one number shared by all clips, NAME@2 for a number of clip 2 alone, NAME@each for one in each
            clip; each with :LOW:HIGH as for `identify`, or an `Unknown`.
        clips: One for each scene: video file, video files by camera, or `Clip`.
        observations: In place of clips.
        starts: Number of starts, drawn uniformly over the ranges.
        seed: Random seed of the starts.
        report: Called after each stage of the search.
        estimator: As for `identify`.
        priors: As for `identify`, by the same names as unknowns; a prior counts once, not for each clip.
        discrepancy: As for `identify`; of several clips also with numbers that scatter between them.

    Raises:
        InputError: If an argument is wrong, before any work starts.
    """
    if (clips is None) == (observations is None):
        raise InputError("give exactly one of `clips` and `observations`.")
    count = len(clips if clips is not None else observations or ())
    if count != len(scenes):
        raise InputError(f"there are {len(scenes)} scenes and {count} clips; give one clip for each scene.")
    stated, words = priors_of(scenes, priors)
    space = SharedSpace(scenes, unknowns, stated)
    if observations is None:
        observations = [Clip.of(clip).observe(scene) for scene, clip in zip(scenes, clips or (), strict=True)]
    problem = joint_problem(scenes, observations, space)
    plan = MultistartConfig(starts=starts)
    fit = solve(problem, plan, seed, report=report, estimator=estimator, discrepancy=discrepancy)  # pyright: ignore[reportArgumentType]
    return replace(fit, notes=[*fit.notes, *words])


def joint_problem(scenes: Sequence, observations: Sequence[Observation], space: SharedSpace) -> JointProblem:
    """Problem of several clips, each with its own model and time step."""
    if any(observation.pose_noise for observation in observations):
        raise InputError(
            "a camera moves (`motion`) with a covariance of its poses, which fits of several clips do not have; fit that clip alone."
        )
    clips = zip(scenes, observations, space.by_clip, strict=True)
    return JointProblem(
        [Problem(model_for(scene, clip_space), observation, clip_space) for scene, observation, clip_space in clips],
        space,
    )


def clip_values(scene, values: Mapping[str, float], clip: int) -> dict[str, float]:
    """Values of one clip from a joint fit, under the names of its scene.

    Args:
        scene: Its scene.
        values: By the names of the fit's unknowns.
        clip: Its number, from 1.
    """
    mine = {}
    for label, value in values.items():
        name, at, which = label.partition("@")
        if (which == str(clip)) if at else _has(scene, Unknown(name)):
            mine[name] = value
    return mine
