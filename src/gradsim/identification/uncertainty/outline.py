"""Error bars from masks whose outlines are off: alike in neighbouring pixels, in frames, and everywhere.

Masks of real videos are not images with noise in every pixel. Their outlines lie tenths of a pixel off, by shadows, edges of the
background, compression and the threshold of the method, and neighbours are off alike. So the residuals of a frame are

    r = b δ + ε,      δ(θ, t) = φ + a₀(t) + Σₖ aₖ(t) cos kθ + bₖ(t) sin kθ      displacement outward [px]

with the length b of the outline in the pixel, and the angle θ about the center of the body's mask (of bodies that a joint connects,
that of both; where several are apart, each has its own outline). φ, which is the same everywhere (a mask that
is fat), is fitted with the unknowns; of a body whose size is unknown masks tell the sum of both alone, so φ has a prior of `OFFSET`. The harmonics are measured in every frame; k = 1 is a shift. They are noise, of a variance
for each k and one correlation ρ from frame to frame, estimated from all frames, so the unknowns and φ have the covariance

    H⁻¹ (Σₛₜ Cₛ (D ρ^|s−t| + D₀) Cₜᵀ + σ²_ε Σ Jᵀb²J) H⁻¹,      H = Σ JᵀJ + prior of φ, Cₜ = Jₜᵀ Xₜ      X: r by harmonic, D: their variances

where σ_ε [px] is what harmonics leave of the displacement, independent in each pixel. Where the body hardly moves from frame to frame, a codec leaves
outlines off for dozens of frames; if that is seen, the correlation has two parts (`numerics.memory`). D₀ is the second moment of a shift s that all
frames share. Speeds absorb most of it, and what they leave, L s with L = 1 − F H⁻¹ Σ Cₜ (F: harmonics of J), is seen in the
shifts. Its prior has long tails: a mixture of normal ones, the narrowest of which is a share of the displacements' RMS, from
videos whose truth is known (`reproduce clips`).

Priors of the unknowns (`identification.priors`) weigh against what outlines tell, not against pixels. With M, the matrix in
the middle of that covariance, the score g = Σ Jᵀr has the covariance M about −H (û − u), so the answer minimizes

    gᵀ M⁻¹ g + (u − m)ᵀ P (u − m),      covariance (H M⁻¹ H + P)⁻¹          generalized least squares (Aitken 1935)

Where the exposure is an unknown or has a prior, so is a blur of all edges: optics and codecs make one.

A wrong model leaves something else: shifts of the whole outline that go on from frame to frame. Where shifts are larger
than the next two harmonics, and each frame's is like the next, the motion is not explained. Bodies that deform or hang on joints
bend too where their motion is wrong: there shift and second harmonic together are compared with the last three.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import FEWEST
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.outline_sums import (
    HARMONICS,
    OutlineSums,
    balanced_inverse,
    lag_correlation,
    sums_by_frame,
)
from gradsim.identification.uncertainty.residual_diagnostics import outline_slopes
from gradsim.numerics.memory import Memory, lasting_memory
from gradsim.physics.trajectory import Trajectory
from gradsim.scene import Scene
from gradsim.scene.soft_body import Soft

ITERATIONS = 6  # Gauss–Newton steps of unknowns and offset
OPEN = 1e-6  # variance ratio over the largest below which a direction is one that only priors determine
COMBINED = 6  # steps, at most, that weigh priors against outlines: errors of outlines are measured anew at each
SMALL_STEP = 0.02  # standard deviations, after which none follows
COARSE_STEP = 0.5  # likewise, where only the size of the errors counts
COMPARED = 3  # harmonic up to which deformations are compared with shifts
EXCESS = 3.0  # mean square of shifts over that of the second and third harmonics, above which they are too large
BENT = 2  # harmonic up to which wrong motions of bodies that deform are large
FINE = 3  # last harmonics, with which these are compared
BENDING = 4.0  # mean square of the former over that of the latter above which they are too large; 0.9 to 2.5 in videos of right models
MEMORY = 3.0  # standard score of the correlation of one frame's shift with the next, above which it is not chance
SHARED_SHARE = 0.1  # RMS shift common to all frames of a clip, over the RMS displacement of its outlines
SHARED_LEAST = 0.01  # of it [px]
SHARED_LEVELS = 5  # of its prior: each has twice the width and half the weight of the one before
SHARED_WIDEST = 0.1  # its prior where the verdict is about the other shifts: also by a shadow [px]
FARTHEST = 1.5  # RMS displacement of outlines beyond which they are not those of the model [px √binning]
OFFSET = 0.25  # standard deviation of the whole outline's offset before the masks are seen [px]
USUAL_OFFSETS = (-0.2, 0.5)  # of the whole outline: shadows make masks wide, nothing makes them narrow [px √binning]


@dataclass(frozen=True)
class OutlineErrors:
    """Errors of outlines, estimated from the residuals of masks.

    Args:
        covariance: Of the unknowns in solver coordinates (unknowns, unknowns).
        offset: By how much masks are fat everywhere [px].
        offset_std: Its standard deviation [px].
        size: RMS displacement of an outline besides [px].
        shift: RMS shift of a frame's whole outline [px].
        excess: Its mean square, besides what all frames share, over that of the second and third harmonics.
        memory: Standard score of the correlation of one frame's shift with the next.
        correlation: ρ of a harmonic in one frame with the next.
        binning: Pixels of the video in a row of each fitted pixel.
        video: Information of the outlines on the unknowns without priors, the offset eliminated (unknowns, unknowns).
        gain: Change of the unknowns by that of the score, of unknowns and offset (unknowns, unknowns + 1).
        bending: Mean square of shift and second harmonic over that of the last three, of bodies that deform or hang on joints; others 0.
        bending_memory: Standard score of the correlation of the former in one frame with the next.
        step: To the unconstrained minimum (unknowns,); 0 where no unknown is at an end of its range.
        lasting_share: Share of the harmonics' variance that is forgotten more slowly than by ρ in a frame; 0 where that is not seen.
        lasting_frames: Frames in which the correlation of that falls to 1/e.
    """

    covariance: Tensor
    offset: float
    offset_std: float
    size: float
    shift: float
    excess: float
    memory: float
    correlation: float
    binning: int = 1
    video: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    gain: Tensor = field(default_factory=lambda: torch.zeros(0, 1))
    bending: float = 0.0
    bending_memory: float = 0.0
    step: Tensor = field(default_factory=lambda: torch.zeros(0))
    lasting_share: float = 0.0
    lasting_frames: float = 0.0

    @property
    def explained(self) -> bool:
        """True if errors of outlines explain what is left."""
        moves = self.excess > EXCESS and self.memory > MEMORY
        return not moves and not self.bends and self.usually_wide and self.size < self._unit * FARTHEST

    @property
    def bends(self) -> bool:
        """True if outlines of a body that deforms are bent from frame to frame as errors of masks are not."""
        return self.bending > BENDING and self.bending_memory > MEMORY

    @property
    def usually_wide(self) -> bool:
        """True if masks of a body of the right size may be as wide or as narrow as that."""
        narrowest, widest = USUAL_OFFSETS
        return narrowest * self._unit < self.offset < widest * self._unit

    @property
    def _unit(self) -> float:
        """Between a pixel of the video, in which masks are off, and a fitted one, which hides less than its size."""
        return math.sqrt(self.binning)

    @property
    def words(self) -> str:
        """Summary in a sentence or two."""
        text = (
            f"Outlines are explained to {self.size:.2g} px; masks are "
            f"{abs(self.offset):.2g} ± {self.offset_std:.1g} px {'wide' if self.offset > 0 else 'narrow'} everywhere."
        )
        if not self.usually_wide:
            shadows = ", and for shadows in the masks" if self.offset > 0 else ""
            return f"{text} That is more than masks are off: look at size, distance and focal length{shadows}."
        if self.size >= self._unit * FARTHEST:
            return f"{text} That is more than outlines of masks are off: the model does not move like the video."
        if self.bends:
            text += (
                f" But outlines are shifted and bent {math.sqrt(self.bending):.2g} times as much as they are wavy, and each frame like"
                f" the next ({self.bending_memory:.0f} σ): the model does not move like the video."
            )
        elif not self.explained:
            text += (
                f" But whole outlines are off by {self.shift:.2g} px, {math.sqrt(self.excess):.2g} times as much as they are deformed,"
                f" and each frame like the next ({self.memory:.0f} σ): the model does not move like the video."
            )
        return text

    def result(self) -> dict:
        """For `result.json`."""
        entry = asdict(self)
        for name in ("covariance", "video", "gain", "step"):
            del entry[name]
        return entry | {"explained": self.explained, "words": self.words}


def fit_outline(
    problem: Problem,
    u: Tensor,
    iterations: int = ITERATIONS,
    rtol: float = 0.0,
    small: float = SMALL_STEP,
    lasting: bool = True,
) -> tuple[Problem, Tensor, OutlineErrors]:
    """Unknowns and the offset of all outlines, fitted together, and their errors.

    Args:
        problem: Of one clip and camera with `Masks`; their σ does not matter.
        u: A minimum (unknowns,).
        iterations: Gauss–Newton steps.
        rtol: Relative decrease of Σ r² at which no step follows.
        small: Standard deviations of a step after which none follows.
        lasting: Whether errors of outlines may have a part that lasts.

    Returns:
        The problem with masks without the offset, its minimum, and the errors.

    Raises:
        InputError: If one outline all round a body is seen in fewer than 8 frames.
    """
    data, n = problem.observation, len(u)
    assert isinstance(data, Masks)
    offset, low, high = 0.0, problem.space.low, problem.space.high
    frames = sums_by_frame(problem, u)
    priors, share = problem.prior_precision, 1.0
    for _ in range(iterations):
        information, gradient = frames.information.sum(0), frames.gradient.sum(0)
        errors, _, held = _outline_errors(frames, data, offset, priors, lasting)
        information[n, n] += held
        gradient[n] += held * offset
        information[:n, :n] += problem.prior_precision
        gradient[:n] += problem.prior_gradient(u[None])[0]
        step = -torch.linalg.pinv(information, hermitian=True) @ gradient
        trial = (u + share * step[:n]).clamp(low, high), offset + share * step[n].item()
        corrected = _without_offset(problem, data, *trial)
        after = sums_by_frame(corrected, trial[0])
        before, now = (
            sums.squares + held * wide**2 + problem.prior_cost(at[None]).item()
            for sums, at, wide in ((frames, u, offset), (after, *trial))
        )
        if now < before:
            problem, (u, offset), frames = corrected, trial, after
            if now > (1 - rtol) * before or _is_small(share * step, errors, small):
                break
            share = min(1.0, 2 * share)
        else:
            share /= 4
    for _ in range(COMBINED if priors.any() else 0):
        errors, pull, _ = _outline_errors(frames, data, offset, priors, lasting)
        step = pull(frames.gradient.sum(0), problem.prior_gradient(u[None])[0])
        trial = (u + step[:n]).clamp(low, high), offset + step[n].item()
        problem = _without_offset(problem, data, *trial)
        (u, offset), frames = trial, sums_by_frame(problem, trial[0])
        if _is_small(step, errors, small):
            break
    errors, pull, _ = _outline_errors(frames, data, offset, priors, lasting)
    if not _deforms(problem.model.scene):
        errors = replace(errors, bending=0.0)
    step = pull(frames.gradient.sum(0), problem.prior_gradient(u[None])[0])[:n]
    return problem, u, replace(errors, step=step)


def _is_small(step: Tensor, errors: OutlineErrors, small: float) -> bool:
    """True if a step of unknowns and offset (unknowns + 1,) is below `small` standard deviations of each."""
    std = torch.cat(
        [errors.covariance.diagonal().clamp(min=0).sqrt(), step.new_tensor([errors.offset_std / errors.binning])]
    )
    return bool((step.abs() <= small * std).all())


def _deforms(scene: Scene) -> bool:
    """True if outlines of the scene's bodies change otherwise than those of rigid bodies."""
    return bool(scene.joints) or any(isinstance(body, Soft) for body in scene.bodies.values())


def _outline_errors(
    frames: "OutlineSums", data: Masks, offset: float, priors: Tensor, lasting: bool = True
) -> tuple[OutlineErrors, Callable[[Tensor, Tensor], Tensor], float]:
    """Errors of outlines at an answer, the step of unknowns and offset from gradients of the video and of the priors, and the
    information that the offset is small, in units of that of pixels.

    Raises:
        InputError: As `fit_outline`.
    """
    n = len(priors)
    modes = frames.modes[frames.visible]
    if len(modes) < FEWEST:
        raise InputError(
            f"one outline all round a body is seen in {len(modes)} frames, too few to estimate its errors; expected at least "
            f"{FEWEST}. Bodies that are hidden, before one another or partly out of view have none: state the noise (--noise)."
        )
    px, H = data.silhouettes.binning, frames.information.sum(0)
    follow = torch.linalg.pinv(H, hermitian=True)
    modes, power = _harmonics(frames, follow, n + 1, px)
    body = frames.body[frames.visible]
    next_of_body = (body[1:] == body[:-1])[:, None]
    unit = modes / power.sqrt().clamp(min=1e-300)
    correlation = ((unit[1:] * unit[:-1])[next_of_body[:, 0]].mean() / unit.square().mean()).item()
    correlation = lag_correlation(correlation, len(modes))
    memory_of_modes = _memory(frames, unit, correlation) if lasting else Memory(correlation)
    narrowest = math.hypot(SHARED_SHARE * frames.size, SHARED_LEAST / px)
    widths = [narrowest * 2**level for level in range(SHARED_LEVELS)]
    variance = frames.modes[frames.visible, :2].square().mean().item()
    variance *= memory_of_modes.inflation(len(modes))
    M = sandwich(frames, power, memory_of_modes, _shared_shift(frames, follow, widths, variance).moment)[1]
    P, Q = torch.zeros(2, n + 1, n + 1).double()
    P[:n, :n] = priors
    Q[n, n] = (px / OFFSET) ** 2
    K = H @ balanced_inverse(M) @ H + Q
    if priors.any():
        held, weight, pulled = 0.0, H @ balanced_inverse(M), Q[n] * offset
        inverse = covariance = balanced_inverse(K + P)
    else:
        # the estimate is that of least squares over pixels, with whose variances M/H, but for the offset, its prior is weighed
        steady = torch.cat([power[:-1], modes[:, -1:].var(0, correction=0)])
        noise = sandwich(frames, steady, memory_of_modes, torch.zeros(2, 2).double())[1][n, n]
        held, weight = (Q[n, n] * noise / H[n, n].clamp(min=1e-300)).item(), torch.eye(n + 1).double()
        pulled = held * offset * torch.eye(n + 1).double()[n]
        inverse = balanced_inverse(H + held * Q / Q[n, n])
        covariance = inverse @ (M + held**2 * Q / Q[n, n] ** 2) @ inverse
    if priors.any():  # numbers with priors follow shifts as far as outlines weigh against the priors
        follow = inverse @ weight
        modes, power = _harmonics(frames, follow, torch.trace(follow @ H).item(), px)
    shifts, bent = modes[:, :2], modes[:, : 2 * BENT]
    memory = (shifts[1:] * shifts[:-1] * next_of_body).sum() / shifts.square().sum().clamp(min=1e-300)
    bending = bent.square().mean() / power[2 * (HARMONICS - FINE) : 2 * HARMONICS].mean().clamp(min=1e-300)
    bending_memory = (bent[1:] * bent[:-1] * next_of_body).sum() / bent.square().sum().clamp(min=1e-300)
    video = K[:n, :n] - torch.outer(K[:n, n], K[n, :n]) / K[n, n].clamp(min=1e-300)
    errors = OutlineErrors(
        covariance[:n, :n],
        px * offset,
        px * math.sqrt(max(0.0, covariance[n, n].item())),
        px * frames.size,
        px * power[0].sqrt().item(),
        (power[0] / power[2 : 2 * COMPARED].mean()).item(),
        memory.item() * math.sqrt(shifts[1:].numel()),
        correlation,
        px,
        video,
        -(inverse @ weight)[:n],
        bending.item(),
        bending_memory.item() * math.sqrt(bent[1:].numel()),
        lasting_share=memory_of_modes.share,
        lasting_frames=memory_of_modes.time,
    )
    return errors, lambda g, pull: -inverse @ (weight @ g + torch.cat([pull, pull.new_zeros(1)]) + pulled), held


def outline_step(frames: "OutlineSums", problem: Problem, u: Tensor, offset: float) -> tuple[Tensor, OutlineErrors]:
    """Step (unknowns + more + 1,) of generalized least squares, the offset last, and the errors of outlines that weigh it.

    Args:
        frames: Sums at u, of unknowns, more that have no prior, and offset.
        problem: Of one clip and camera with `Masks`.
        u: The unknowns (unknowns,).
        offset: Of the outlines [px].
    """
    data, n, count = problem.observation, len(u), frames.gradient.shape[1] - 1
    assert isinstance(data, Masks)
    priors, slope = torch.zeros(count, count).double(), torch.zeros(count).double()
    priors[:n, :n], slope[:n] = problem.prior_precision, problem.prior_gradient(u[None])[0]
    errors, pull, _ = _outline_errors(frames, data, offset / data.silhouettes.binning, priors)
    return pull(frames.gradient.sum(0), slope), errors


def with_outline_scale(problem: Problem, u: Tensor) -> Problem:
    """The problem with a σ of pixels at which they tell as much of the unknowns as outlines do, along the median direction.

    Least squares then has error bars and differences of χ² of about the right size. The variances of outlines over those of
    pixels differ by direction, a few of which outlines tell next to nothing of: a mean would be theirs. The part of their
    errors that lasts is not in it, but in the error bars.

    Args:
        problem: Of one clip and camera with `Masks`, whose σ is only a scale.
        u: Near the minimum (unknowns,).
    """
    data = problem.observation
    assert isinstance(data, Masks)
    errors = fit_outline(problem, u, small=COARSE_STEP, lasting=False)[2]
    _, information, _ = problem.linearize(u[None], problem.frames)
    eigenvalues, axes = torch.linalg.eigh(information[0] - problem.prior_precision)
    root, covariance = axes * eigenvalues.clamp(min=0).sqrt(), errors.covariance
    if problem.prior_precision.any():  # of the video alone
        covariance = balanced_inverse(errors.video)
    factors = torch.linalg.eigvalsh(root.T @ covariance @ root)
    if problem.prior_precision.any():  # there may be directions of which the video tells nothing
        factors = factors[factors > OPEN * factors.max()]
    factor = factors.median().item()
    scaled = data.replaced(sigma=data.sigma * math.sqrt(factor))
    scaled.outline_noise = True
    return problem.with_observation(scaled)


def _without_offset(problem: Problem, data: Masks, u: Tensor, offset: float) -> Problem:
    """The problem with masks whose outlines are moved inward by the offset [px]."""
    with torch.no_grad():
        trajectory = problem.model.rollout_unchecked(
            problem.model.values(problem.space.values(u[None])), problem.frames
        )
        observation = problem.observation_at(u)
        assert isinstance(observation, Masks)
        length = outline_length(trajectory, observation)
    return problem.with_observation(data.replaced(data.masks - offset * length))


def outline_length(trajectory: Trajectory, data: Masks) -> Tensor:
    """Length of outline in each pixel (frames, height, width) [px]; 0 where a pixel does not count.

    It is the magnitude of the derivative of exact coverage by a shift, and so has the profile across an outline that
    derivatives by unknowns have: a wider one would tell a mask that is fat from a body that is large, which nothing does.
    """
    length = torch.cat([slope.norm(dim=-1) for _, slope in outline_slopes(trajectory, data)]).view_as(data.masks)
    scale = data.weight.sqrt() / data.sigma
    return torch.where(scale > 0, length / scale.clamp(min=1e-300), 0.0)


class _SharedShift(NamedTuple):
    """A shift of the outlines of all frames alike.

    Args:
        moment: E[s sᵀ] (2, 2) [fitted px²].
        visible: What the unknowns leave of its mean in each visible frame (n, 2) [fitted px].
    """

    moment: Tensor
    visible: Tensor


def _harmonics(frames: OutlineSums, follow: Tensor, count: float, px: int) -> tuple[Tensor, Tensor]:
    """Harmonics of visible outlines less a shift of all frames (outlines, 2 harmonics + 1), and their variances.

    Args:
        frames: Sums at the minimum.
        follow: Change of unknowns and offset by that of the score (n + 1, n + 1).
        count: How many of them follow the shifts.
        px: Pixels of the video in a row of each fitted pixel.
    """
    modes = frames.modes[frames.visible]
    spare = max(0.1, 1 - count / (2 * len(modes)))
    shifts = modes[:, :2]
    shifts = shifts - _shared_shift(frames, follow, [SHARED_WIDEST / px], shifts.square().mean().item()).visible
    modes = torch.cat([shifts, modes[:, 2:]], 1)
    power = modes.square().mean(0)
    power[:-1] = power[:-1].unflatten(0, (-1, 2)).mean(1).repeat_interleave(2)
    power[:2] /= spare
    return modes, power


def _shared_shift(frames: OutlineSums, follow: Tensor, priors: list[float], variance: float) -> _SharedShift:
    """Posterior of a shift of all frames, of which the shifts of frames show what the unknowns have not followed.

    Args:
        frames: Sums at the minimum.
        follow: Change of unknowns and offset by that of the score.
        priors: Standard deviations of each component [fitted px], of normal ones of which each weighs half of the one before.
        variance: Of the shift of one frame besides; of a series that is correlated, of its mean times their number.
    """
    followed = follow @ frames.by_mode[:, :, :2].sum(0)
    left = (torch.eye(2).double() - frames.followed[:, :2] @ followed)[frames.visible].flatten(0, 1)
    variance = max(variance, 1e-300)
    information, slope = left.T @ left / variance, left.T @ frames.modes[frames.visible, :2].flatten() / variance
    widths = torch.tensor(priors).double()[:, None, None]
    covariance = torch.linalg.inv(information + torch.eye(2).double() / widths**2)
    mean = covariance @ slope
    evidence = 0.5 * (mean @ slope - torch.logdet(torch.eye(2).double() + widths**2 * information))
    weight = torch.softmax(evidence - math.log(2) * torch.arange(len(priors)), 0)
    moment = covariance + mean[:, :, None] * mean[:, None]
    return _SharedShift(torch.einsum("k,kij->ij", weight, moment), (left @ (weight @ mean)).unflatten(0, (-1, 2)))


def _memory(frames: OutlineSums, unit: Tensor, correlation: float) -> Memory:
    """Memory of visible harmonics in units of their standard deviations (outlines, 2 harmonics + 1), which has one part, ρ, where no other is seen."""
    measured = torch.full((len(frames.visible), unit.shape[1]), torch.nan).double()
    measured[frames.visible] = unit
    return lasting_memory([measured[frames.body == k] for k in frames.body.unique()]) or Memory(correlation)


def sandwich(frames: OutlineSums, power: Tensor, memory: Memory, shared: Tensor) -> tuple[Tensor, Tensor]:
    """H and the covariance of the score, of unknowns and offset (n + 1, n + 1).

    Args:
        frames: Sums at the minimum.
        power: Variances of harmonics.
        memory: Of harmonics, from frame to frame.
        shared: Second moment of the shift of all frames (2, 2) [fitted px²].
    """
    place = torch.arange(len(frames.body))
    alike = torch.where(frames.body[:, None] == frames.body, memory.at((place[:, None] - place).abs()), 0.0)
    noisy = frames.by_mode * power.sqrt()
    meat = torch.einsum("sim,st,tjm->ij", noisy, alike, noisy)
    by_shift = frames.by_mode[:, :, :2].sum(0)
    meat = meat + by_shift @ shared @ by_shift.T
    return frames.information.sum(0), meat + frames.rest * frames.by_pixel + frames.blurs
