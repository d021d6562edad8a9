"""Least squares over many short clips of a measured trajectory (multiple shooting, Bock & Plitt 1984).

A tumbling body soon forgets its start, so a recording is cut into clips, and each has a start state s_k of its own:
12 nuisance unknowns; the unknowns u are shared by all clips.

    cost(u) = Σ_k ρ(min over s_k of χ²_k(u, s_k)),   ρ(c) = N log(1 + c/N)         N residuals r in a clip, c = Σ r²

ρ lets every clip have noise of its own, at least the stated one: near the answer clip k counts with 1/(1 + c_k/N), so
that a contact which the model explains badly does not outweigh the flights that it explains well.

The normal matrix is an arrow. The starts are eliminated by the Schur complement (A_ul: shared × start, of clip k):

    S = Σ_k w_k (A_uu − A_ul A_ll⁻¹ A_lu),   h = Σ_k w_k (g_u − A_ul A_ll⁻¹ g_l),   d = −S⁻¹ h
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Effort
from gradsim.identification.solvers.levenberg_marquardt import (
    DAMPING_FACTORS,
    Iterates,
    Stopping,
    damped_step,
    minimize,
)
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.physics.system import Values

STATE = ("position", "rotation_vector", "velocity", "angular_velocity")
LOCAL_UNKNOWNS = 3 * len(STATE)  # unknowns of a start state
STEP_SHARES = (0.0, 0.3, 1.0)  # parts of a start's own step tried: a clip at a kink need not hold up the others
GUESSES = (3, 4, 6)  # first frames whose straight line guesses a start state; the best one is taken
PATIENCE = 3  # idle iterations after which a start rests
MAX_COPY_SHIFT = 0.7  # most that a copy is moved along one direction, in logarithms
# Times the median of all clips: a steeper clip is at a kink of contact, where its tangent is meaningless
MAX_SLOPE_RATIO = 1e3


@dataclass(frozen=True)
class PoseClip:
    """A few frames of a body's measured motion.

    Args:
        x: Positions of the centre of mass (frames, 3) [m].
        quat_xyzw: Orientations (frames, 4).
        sigma_x: Noise of the coordinates (frames, 3) [m].
        sigma_angle: Noise of the orientation about the world's axes (frames, 3) [rad].
        recording: Name of the recording it is cut from.
        first: Its first frame there.
    """

    x: Tensor
    quat_xyzw: Tensor
    sigma_x: Tensor
    sigma_angle: Tensor
    recording: str = ""
    first: int = 0


@dataclass
class ClipIterates(Iterates):
    """Iterates: shared unknowns and start states.

    Args:
        u: Shared unknowns (starts, unknowns).
        local: Start states (starts, clips, 12).
        chi2: Σ r² of every clip (starts, clips).
        cost: (starts,).
    """

    u: Tensor
    local: Tensor
    chi2: Tensor
    cost: Tensor


class ClipsProblem:
    """Problem of a model, clips of one of its bodies, and shared unknowns.

    Args:
        model: Its scene's orientation of the body has to be the identity, so that `rotation_vector` is all of it.
        body: Name of the body.
        clips: Of equal length.
        space: The shared unknowns.

    Raises:
        ValueError: If clips differ in length, or are too few or short to say anything.
    """

    def __init__(self, model: Model, body: str, clips: Sequence[PoseClip], space: Space):
        lengths = {len(c.x) for c in clips}
        if len(lengths) != 1 or lengths < {3}:
            raise ValueError(f"clips have {sorted(lengths)} frames; give at least one, all of one length of 3 or more.")
        self.model, self.body, self.clips, self.space, self.effort = model, body, list(clips), space, Effort()
        self.x, self.q = (torch.stack([getattr(c, key) for c in clips]).double() for key in ("x", "quat_xyzw"))
        sigmas = [torch.stack([getattr(c, key) for c in clips]).double() for key in ("sigma_x", "sigma_angle")]
        self.sigma = torch.cat(sigmas, -1)  # (clips, frames, 6)
        self.frames, self.residuals = self.x.shape[1], 6 * self.x.shape[1]  # in each clip

    def part(self, clips: Sequence[int]) -> "ClipsProblem":
        """The same with some of the clips; it counts the same effort."""
        part = ClipsProblem(self.model, self.body, [self.clips[k] for k in clips], self.space)
        part.effort = self.effort
        return part

    def guess(self, few: int) -> Tensor:
        """Start states (clips, 12) by straight lines through the first `few` frames."""
        times = torch.arange(few).double() / self.model.scene.timing.fps
        line = torch.linalg.pinv(torch.stack([torch.ones(few).double(), times], 1))  # (2, few)
        turned = rotation.logarithm(rotation.multiply(self.q[:, :few], rotation.conjugate(self.q[:, :1])))
        velocity, spin = (torch.einsum("f,kfi->ki", line[1], y) for y in (self.x[:, :few], turned))
        return torch.cat([self.x[:, 0], rotation.logarithm(self.q[:, 0]), velocity, spin], 1)

    def at(self, u: Tensor, local: Tensor | None = None, weight: Tensor | None = None) -> ClipIterates:
        """Shared unknowns (starts, unknowns) with their start states, by default the best guesses, and what they cost."""
        if local is None:
            guesses = torch.stack([self.guess(min(few, self.frames)).expand(len(u), -1, -1) for few in GUESSES])
            chi2, best = torch.stack([self.chi2(u, guess) for guess in guesses]).min(0)
            local = guesses.gather(0, best[None, ..., None].expand(1, *guesses.shape[1:]))[0]
        else:
            chi2 = self.chi2(u, local)
        return ClipIterates(u, local, chi2, self.cost(chi2, weight))

    def chi2(self, u: Tensor, local: Tensor) -> Tensor:
        """Σ r² of every clip (starts, clips); infinite where a rollout diverges."""
        lanes = torch.cat([u[:, None].expand(-1, len(self.clips), -1), local], -1).flatten(0, 1)
        self.effort.rollouts += len(lanes)
        with torch.no_grad():
            states = self.model.rollout_unchecked(self.model.values(self._values(lanes)), self.frames)[self.body]
            r = self._compare(states["x"], states["q"])
        chi2 = r.square().sum((1, 2)).reshape(len(u), -1)
        return torch.where(torch.isfinite(chi2), chi2, torch.inf)

    def cost(self, chi2: Tensor, weight: Tensor | None = None) -> Tensor:
        """Σ_k ρ(χ²_k), of (..., clips); clips can be weighted (0 leaves one out)."""
        per_clip = self.residuals * torch.log1p(chi2 / self.residuals)
        return (per_clip if weight is None else torch.where(weight > 0, per_clip * weight, 0.0)).sum(-1)

    def chi2_per_n(self, iterates: ClipIterates) -> Tensor:
        """Mean square of the whitened residuals (starts,), less what the unknowns take up."""
        free = len(self.clips) * (self.residuals - LOCAL_UNKNOWNS) - len(self.space)
        return iterates.chi2.sum(1) / free

    def jacobian(self, u: Tensor, local: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals (starts, clips, m) and derivatives (starts, clips, m, unknowns + 12), zero where not finite."""
        joint = torch.cat([u[:, None].expand(-1, len(self.clips), -1), local], -1).flatten(0, 1)
        worlds, n = joint.shape
        self.effort.rollouts += worlds * n
        directions = torch.eye(n).double().repeat(worlds, 1)
        with torch.no_grad():
            touched, along, *_ = torch.func.jvp(self._values, (joint.repeat_interleave(n, 0),), (directions,))
            trajectory, tangent = self.model.tangent(self.model.values(touched), along, self.frames)
            x, q = (trajectory[self.body][key][::n] for key in ("x", "q"))
            dx, dq = (tangent[self.body][key].unflatten(0, (worlds, n)) for key in ("x", "q"))
            r = self._compare(x, q)
            turning = self._turning(q)  # of every q once, in place of once for each unknown
        slope = torch.cat([dx, torch.einsum("wfij,wnfj->wnfi", turning, dq)], -1) / self._like(self.sigma, r)[:, None]
        shape = (len(u), len(self.clips))
        r, J = r.flatten(1), slope.flatten(2).transpose(1, 2)
        r, J = r.nan_to_num(0.0, 0.0, 0.0), J.nan_to_num(0.0, 0.0, 0.0)
        return r.unflatten(0, shape), J.unflatten(0, shape)

    def normal(self, iterates: ClipIterates, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Weighted Jᵀ J (starts, clips, n + 12, n + 12) and Jᵀ r (starts, clips, n + 12) of every clip.

        A clip at a kink has no say in the shared unknowns; its own start state may still move.
        """
        r, J = self.jacobian(iterates.u, iterates.local)
        slope = torch.linalg.vector_norm(J, dim=2)
        usual = slope.median(1, keepdim=True).values
        nonsmooth = ((slope > MAX_SLOPE_RATIO * usual) & (usual > 0)).any(2)
        shared = torch.arange(J.shape[-1]) < len(self.space)
        size = torch.where(nonsmooth, slope.amax(2), 1.0)[..., None]  # huge, and its square would be infinite
        r = r / size
        J = torch.where(nonsmooth[..., None, None] & shared, 0.0, J / size[..., None])
        w = 1 / (1 + iterates.chi2 / self.residuals)
        w = w if weight is None else w * weight
        scaled = J * w[..., None, None]
        return scaled.mT @ J, (scaled.mT @ r[..., None])[..., 0]

    def linearize(self, iterates: ClipIterates, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Schur complements (starts, clips, n, n) and gradients (starts, clips, n) of every clip, starts eliminated."""
        A, g = self.normal(iterates, weight)
        schur, gradient, _, _ = eliminate(A, g, len(self.space), torch.zeros(len(iterates.u)))
        return schur, gradient

    def _values(self, lanes: Tensor) -> Values:
        """Parameters from lanes (worlds, unknowns + 12)."""
        n = len(self.space)
        starts = lanes[:, n:].unflatten(1, (len(STATE), 3)).unbind(1)
        state = {f"{self.body}.{key}": s for key, s in zip(STATE, starts, strict=True)}
        return {**state, **self.space.values(lanes[:, :n])}

    def _compare(self, x: Tensor, q: Tensor) -> Tensor:
        """Whitened residuals (worlds, frames, 6) of states (worlds, frames, ·); worlds are starts × clips."""
        return torch.cat([x - self._like(self.x, x), self._turn(q)], -1) / self._like(self.sigma, x)

    def _turn(self, q: Tensor) -> Tensor:
        """Rotation vectors (worlds, frames, 3) from the measured orientations to q (worlds, frames, 4)."""
        return rotation.logarithm(rotation.multiply(q, rotation.conjugate(self._like(self.q, q))))

    def _turning(self, q: Tensor) -> Tensor:
        """∂_turn/∂q (worlds, frames, 3, 4)."""
        axes = torch.eye(4).double()
        return torch.stack([torch.func.jvp(self._turn, (q,), (axis.expand_as(q),))[1] for axis in axes], -1)

    def _like(self, y: Tensor, worlds: Tensor) -> Tensor:
        """y (clips, frames, ·) for each start in `worlds`."""
        return y.repeat(len(worlds) // len(self.clips), 1, 1)


def eliminate(A: Tensor, g: Tensor, n: int, damping: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Solve every clip's start state for the n shared unknowns.

    Args:
        A: Normal matrices (starts, clips, n + 12, n + 12).
        g: Gradients (starts, clips, n + 12).
        n: Number of shared unknowns.
        damping: λ (starts,) of the start states.

    Returns:
        Schur complements (starts, clips, n, n), gradients (starts, clips, n), and the start's own step
        −back_g − back_A d for a step d of the shared: back_A (starts, clips, 12, n), back_g (starts, clips, 12).
    """
    local, mixed = A[..., n:, n:], A[..., n:, :n]
    diagonal = local.diagonal(dim1=-2, dim2=-1)
    scale = torch.where(diagonal > 0, diagonal.rsqrt(), 0.0)
    scaled = local * scale[..., :, None] * scale[..., None, :]
    scaled = scaled + (damping[:, None, None, None] + 1e-12) * torch.eye(local.shape[-1]).double()
    inverse = torch.linalg.inv(scaled) * scale[..., :, None] * scale[..., None, :]
    back_A, back_g = inverse @ mixed, (inverse @ g[..., n:, None])[..., 0]
    schur = A[..., :n, :n] - mixed.mT @ back_A
    return schur, g[..., :n] - (mixed.mT @ back_g[..., None])[..., 0], back_A, back_g


def descend(
    problem: ClipsProblem,
    start: ClipIterates,
    iterations: int,
    weight: Tensor | None = None,
    rtol: float = 1e-4,
    report: Callable[[int, ClipIterates], None] = lambda iteration, iterates: None,
) -> ClipIterates:
    """Levenberg–Marquardt with the start states of the clips eliminated.

    Every trial batch has several λ, and for each clip several fractions of the step of its start state, of which it takes
    the best.

    Args:
        problem: The problem.
        start: Where to begin; not changed.
        iterations: Largest number of linearizations.
        weight: Weight of each clip (starts, clips); 0: left out.
        rtol: Relative decrease at or below which an iteration is idle.
        report: Called after each iteration with its number and the current iterates.
    """
    current = start[slice(None)]
    weight = torch.ones_like(current.chi2) if weight is None else weight
    current.cost = problem.cost(current.chi2, weight)
    factors, shares = (
        torch.tensor(DAMPING_FACTORS).double(),
        torch.tensor(STEP_SHARES).double()[:, None, None, None, None],
    )

    def linearize(now: ClipIterates, rows: Tensor):
        return *problem.normal(now, weight[rows]), weight[rows]

    def step(now: ClipIterates, linear, damping: Tensor) -> tuple[ClipIterates, Tensor]:
        A, g, weights = linear
        trials = [_trial(problem, now, A, g, damping * factor) for factor in DAMPING_FACTORS]
        u, local = (torch.stack(y) for y in zip(*trials, strict=True))  # (factors, rows, n), (factors, rows, clips, 12)
        tried = now.local + shares * (local - now.local)
        all_u = u.expand(len(STEP_SHARES), *u.shape).flatten(0, 2)
        chi2, share = problem.chi2(all_u, tried.flatten(0, 2)).unflatten(0, tried.shape[:3]).min(0)
        cost, k = problem.cost(chi2, weights).min(0)
        rows = torch.arange(len(k))
        best = tried[share[k, rows], k[:, None], rows[:, None], torch.arange(len(problem.clips))]
        return ClipIterates(u[k, rows], best, chi2[k, rows], cost), factors[k]

    stopping = Stopping(rtol, patience=PATIENCE, min_damping=1e-10)
    return minimize(current, linearize, step, iterations, stopping, report)[0]


def _trial(problem: ClipsProblem, now: ClipIterates, A: Tensor, g: Tensor, damping: Tensor):
    """Trial of one λ: shared unknowns (rows, n) and start states (rows, clips, 12)."""
    schur, gradient, back_A, back_g = eliminate(A, g, now.u.shape[1], damping)
    u = damped_step(problem.space, now.u, schur.sum(1), gradient.sum(1), damping)
    shift = back_g + (back_A @ (u - now.u)[:, None, :, None])[..., 0]
    return u, now.local - shift


def scatter(problem: ClipsProblem, iterates: ClipIterates, copies: int, rng: np.random.Generator) -> ClipIterates:
    """The starts, and `copies` of each at 1 to 10 standard deviations.

    Contact makes small valleys in the cost, in which a descent ends. Where the noise explains more than one of them, a
    neighbour may be the better one.
    """
    parts = [iterates]
    schur = problem.linearize(iterates)[0].sum(1)
    eigenvalues, axes = torch.linalg.eigh(schur)
    for _ in range(copies):
        size = torch.tensor(10 ** rng.uniform(0, 1, (len(iterates.u), 1)))
        spread = (size * eigenvalues.clamp(min=1e-12).rsqrt()).clamp(max=MAX_COPY_SHIFT)
        shift = (axes @ (spread * torch.tensor(rng.standard_normal(iterates.u.shape)))[..., None])[..., 0]
        parts.append(problem.at((iterates.u + shift).clamp(problem.space.low, problem.space.high), iterates.local))
    return ClipIterates(*(torch.cat(y) for y in zip(*((s.u, s.local, s.chi2, s.cost) for s in parts), strict=True)))
