"""Test of effects of camera, clock and air that a model lacks though errors of outlines explain what is left.

Errors of outlines are estimated from what is left, so a blur, a rolling shutter or a lens that the scene lacks makes them large and error
bars wide, long before whole outlines move as no errors do. The effects have numbers p, 0 in the scene. One step of generalized least
squares from the answer, of unknowns, offset and p, with errors of outlines as noise (`uncertainty.outline`) and p without a prior, is

    (δu, δφ, δp) = −(H M⁻¹ H + P)⁻¹ (H M⁻¹ g + P (u − m)),      W = δpᵀ C_p⁻¹ δp

W is Wald's statistic (1943): C_p is the covariance of δp by the errors of outlines that are left after the step, r + J δ. Without any effect
W/k of k effects has about the distribution F(k, n) with n outlines. Columns of effects are differences of images along one trajectory: no
rollout more. Blur has no sign that is wrong but one, and optics and codecs blur edges, too: alike in all directions, which is
eliminated, and a little along a motion (`BLUR_SD`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch

import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks, Residual
from gradsim.identification.observation.camera_effects import (
    AIR_DRAG,
    BLUR,
    CLOCK,
    EFFECTS,
    AffectedMasks,
    CameraEffect,
)
from gradsim.identification.observation.projection import image_vertices
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.causes import Cause, describe
from gradsim.identification.uncertainty.outline import OutlineErrors, outline_step
from gradsim.identification.uncertainty.outline_sums import (
    EXPOSURE,
    OutlineSums,
    balanced_inverse,
    laplacian,
    sums_by_frame,
)

CHANCE = 1e-3  # of W without any effect, below which there is one: one fit in a thousand
CLEAR = 3.0  # standard deviations from which on an effect is named besides the clearest one
STEP = 1e-2  # of differences, of an effect's typical size
BLUR_SD = 0.1  # by codecs, of the variance of edges along a motion: RMS 0.04, at most 0.10 in 9 clips of `reproduce clips` [px²]
REST = 1.0  # [px] of a vertex in the image over the video, below which a body is at rest
MAX_CODEC_SD = 1.0  # [s²] of an exposure squared: a body at rest tells nothing of it
TESTED = (  # effects, and numbers of a scene that make one superfluous where they are unknown or have a prior
    ("rolling shutter", ("*.readout",)),
    (BLUR.name, (f"*{EXPOSURE}",)),
    ("late stamps", ("timing.offset", "*.delay")),
    ("lens distortion", ("*.distortion.k?", "*.fisheye.k?")),
    (AIR_DRAG, ("*.drag",)),
    (CLOCK.name, ("timing.rate",)),
)


@dataclass(frozen=True)
class MissingEffects:
    """Effects that the video shows and the model lacks.

    Args:
        causes: The clearest ones, each by its own, with the RMS displacement that outlines would be left with.
        together: All tested effects: how they move the unknowns, and their standard deviations with them.
        statistic: W.
        count: Of tested effects.
        chance: Of such a W without any effect.
        words: Sentences.
    """

    causes: list[Cause]
    together: Cause
    statistic: float
    count: int
    chance: float
    words: str

    def result(self) -> dict:
        """For `result.json`."""
        return {"statistic": self.statistic, "count": self.count, "chance": self.chance}


def missing_effects(problem: Problem, u: Tensor, errors: OutlineErrors) -> MissingEffects | None:
    """Effects that the video shows and the model lacks; None where errors of outlines explain W.

    Args:
        problem: Of one clip and camera with masks without their offset, as `fit_outline` returns it.
        u: The answer (unknowns,).
        errors: Of its outlines.
    """
    effects = _testable(problem)
    if effects and _is_at_rest(problem, u):
        return None
    test = _Test(problem, u, errors, effects) if effects else None
    if test is None or not test.frames.information.isfinite().all():
        return None
    indices = tuple(range(len(effects)))
    if BLUR in effects and test.change(indices)[len(u) + effects.index(BLUR)] <= 0:
        indices = tuple(k for k in indices if effects[k] is not BLUR)
    if not indices:
        return None
    step, after = test.step(indices)
    statistic = test.statistic(step, after, indices)
    chance = chance_of(statistic, len(indices), int(test.frames.visible.sum()))
    if not chance < CHANCE:
        return None
    ranked = sorted((test.alone(k, after) for k in indices), key=lambda row: -row[0])
    causes = [cause for z, cause in ranked if z > CLEAR or cause is ranked[0][1]]
    shift, std = step[len(effects) :], after.covariance.diagonal().clamp(min=0).sqrt()
    first, n = causes[0], len(u)
    together = Cause(
        *(first.name, first.change, first.unit, after.size, after.explained, tuple(shift.tolist()), ""),
        std=tuple(std[:n].tolist()),
        unusual=first.unusual,
    )
    words = (
        f" But camera, clock or air do something that the model lacks: {len(indices)} effects together lower χ² by {statistic:.3g}, by"
        f" chance once in {1 / max(chance, 1e-12):.0g} videos.{describe(causes, problem, errors.size)}"
    )
    return MissingEffects(causes, together, statistic, len(indices), chance, words)


def _is_at_rest(problem: Problem, u: Tensor) -> bool:
    """True if nothing moves in the image: errors of outlines are then the same in all frames, and look like an effect."""
    data = problem.observation
    assert isinstance(data, Masks)
    with torch.no_grad():
        values = problem.model.values(problem.space.values(u[None]))
        screen = image_vertices(data.silhouettes, problem.model.rollout_unchecked(values, problem.frames))[0]
    reach = (screen.amax((0, 1)) - screen.amin((0, 1))).amax().item() * data.silhouettes.binning
    return reach < REST


def chance_of(statistic: float, effects: int, outlines: int) -> float:
    """Probability that W of some effects exceeds a value where there is none of them: F(effects, outlines)."""
    from scipy.special import fdtrc

    return float(fdtrc(effects, outlines, max(0.0, statistic) / effects))


class _WithEffects(Problem):
    """A problem with derivatives by effects, at 0 of all, and by a blur in all directions, after those by the unknowns.

    Args:
        problem: Of one clip and camera with `Masks`.
        effects: The effects.
        blurred: Whether there is a column of that blur, the last one.
    """

    def __init__(self, problem: Problem, effects: Sequence[CameraEffect], blurred: bool):
        self.__dict__.update(problem.__dict__)
        self.effects, self.blurred, self.shift = effects, blurred, None
        self.blocks: list[tuple[Tensor, Tensor]] = []

    def at(self, shift: Tensor | None) -> "_WithEffects":
        """The same, with residuals r + J δ after a step δ (columns,)."""
        self.shift = shift
        return self

    def jacobian(self, u: Tensor, frames: int, residual: Residual = "pixels") -> Iterator[tuple[Tensor, Tensor]]:
        if not self.blocks:
            wide, first = self._columns(u, frames, residual), 0
            for r, J in super().jacobian(u, frames, residual):
                last = first + r.shape[1]
                self.blocks.append((r, torch.cat([J, wide[:, first:last]], 2)))
                first = last
        for r, J in self.blocks:
            yield (r if self.shift is None else r + J @ self.shift), J

    def _columns(self, u: Tensor, frames: int, residual: Residual) -> Tensor:
        masks, fps = self.observation, self.model.scene.timing.fps
        assert isinstance(masks, Masks)
        with torch.no_grad():
            trajectory = self.model.rollout_unchecked(self.model.values(self.space.values(u)), frames)

            def residuals(effect: CameraEffect, amount: float) -> Tensor:
                return torch.cat(
                    list(AffectedMasks(masks, effect, amount, fps).residuals(trajectory, frames, residual)), 1
                )

            columns = []
            for effect in self.effects:
                high = effect.typical if effect is BLUR else STEP * effect.typical
                low = 0.0 if effect is BLUR else -high
                columns.append((residuals(effect, high) - residuals(effect, low)) / (high - low))
            if self.blurred:
                image, scale = residuals(self.effects[0], 0.0).view_as(masks.masks), masks.weight.sqrt() / masks.sigma
                image = torch.where(scale > 0, image / scale.clamp(min=1e-300), 0.0) + masks.masks
                spread = torch.stack([laplacian(one) for one in image])
                columns.append((0.5 * spread * scale).reshape(1, -1))
        return torch.stack(columns, -1)


class _Test:
    """One linearization of unknowns, effects and offset at an answer; arguments as for `missing_effects`."""

    def __init__(self, problem: Problem, u: Tensor, errors: OutlineErrors, effects: Sequence[CameraEffect]):
        self.problem, self.u, self.errors, self.effects = problem, u, errors, effects
        # where an exposure is unknown, blurs are eliminated already
        self.blurred = BLUR in effects
        self.wide = _WithEffects(problem, effects, self.blurred)
        self.frames = sums_by_frame(self.wide, u)

    def change(self, chosen: Sequence[int]) -> Tensor:
        """Step of unknowns, effects and blur in all directions (unknowns + effects + 1 or 0,); 0 of effects that are not chosen."""
        columns, delta = self._columns(chosen), torch.zeros(len(self.u) + len(self.effects) + self.blurred).double()
        delta[columns] = self._solve(self.frames, columns)[0][:-1]
        return delta

    def _columns(self, chosen: Sequence[int]) -> list[int]:
        n, m = len(self.u), len(self.effects)
        nuisance = [n + m] * (self.blurred and any(self.effects[k] is BLUR for k in chosen))
        return [*range(n), *(n + k for k in chosen), *nuisance]

    def step(self, chosen: Sequence[int]) -> tuple[Tensor, OutlineErrors]:
        """Step of all effects, 0 of others, and of the unknowns (effects + unknowns,), and errors of outlines after it, whose
        covariance is of unknowns and chosen effects."""
        n, m = len(self.u), len(self.effects)
        delta, columns = self.change(chosen), self._columns(chosen)
        after = self._solve(sums_by_frame(self.wide.at(delta), self.u), columns)[1]
        self.wide.at(None)
        covariance = after.covariance.clone()
        for place, k in enumerate(chosen):
            if self.effects[k] is BLUR:
                covariance[n + place, n + place] += self._codec() ** 2
        count = n + len(chosen)
        after = replace(after, covariance=covariance[:count, :count])
        return torch.cat([delta[n : n + m], delta[:n]]), after

    def statistic(self, step: Tensor, after: OutlineErrors, chosen: Sequence[int]) -> float:
        """W of the chosen effects' step and errors after it."""
        n, change = len(self.u), step[list(chosen)]
        return (change @ balanced_inverse(after.covariance[n:, n:]) @ change).item()

    def alone(self, k: int, together: OutlineErrors) -> tuple[float, Cause]:
        """|z| of one effect by its own, with the errors after all of them, and the effect as a cause."""
        effect = self.effects[k]
        step, after = self.step([k])
        amount, std = step[k].item(), math.sqrt(max(1e-300, after.covariance[-1, -1].item()))
        change = math.copysign(math.sqrt(abs(amount)), amount) if effect is BLUR else amount
        typical, unit = (math.sqrt(effect.typical), "s") if effect is BLUR else (effect.typical, effect.unit)
        shift = tuple(step[len(self.effects) :].tolist())
        size = max(after.size, together.size)
        cause = Cause(effect.name, change, unit, size, after.explained, shift, unusual=abs(change) / typical)
        return abs(amount) / std, cause

    def _solve(self, frames: OutlineSums, columns: list[int]) -> tuple[Tensor, OutlineErrors]:
        offset = len(self.u) + len(self.effects) + self.blurred
        return outline_step(_of_columns(frames, [*columns, offset]), self.problem, self.u, self.errors.offset)

    def _codec(self) -> float:
        """Standard deviation of an exposure's square by what codecs blur edges along a motion [s²]."""
        data, problem = self.problem.observation, self.problem
        assert isinstance(data, Masks)
        with torch.no_grad():
            values = problem.model.values(problem.space.values(self.u[None]))
            screen = image_vertices(data.silhouettes, problem.model.rollout_unchecked(values, problem.frames))[0]
        count = data.silhouettes.instants
        screen = screen[0, count // 2 :: count]
        speed = (screen[1:] - screen[:-1]) * (problem.model.scene.timing.fps * data.silhouettes.binning)
        return min(MAX_CODEC_SD, 12 * BLUR_SD / max(1e-300, speed.square().sum(-1).mean().item()))


def _testable(problem: Problem) -> list[CameraEffect]:
    """Effects that no unknown has, and drag where nothing is touched."""
    scene, names = problem.model.scene, problem.space.names
    by_name = {effect.name: effect for effect in (*EFFECTS, BLUR, CLOCK)}  # the exposure about the stamp
    free = not scene.surfaces and not scene.joints and not scene.recorded
    return [
        by_name[name]
        for name, numbers in TESTED
        if not any(fnmatch(unknown, pattern) for unknown in names for pattern in numbers) and (free or name != AIR_DRAG)
    ]


def _of_columns(frames: OutlineSums, columns: list[int]) -> OutlineSums:
    """Sums of some of the unknowns, effects and offset."""
    at = torch.tensor(columns)
    return frames._replace(
        information=frames.information[:, at][:, :, at],
        gradient=frames.gradient[:, at],
        by_mode=frames.by_mode[:, at],
        followed=frames.followed[:, :, at],
        by_pixel=frames.by_pixel[at][:, at],
        blurs=frames.blurs[at][:, at],
    )
