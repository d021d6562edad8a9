"""Policies: open loops in time, and closed loops on observations.

A policy is an `nn.Module` called as `policy(times, observation)`: times (k,) [s] from the start, and an observation
(worlds, n) or None. It returns u (worlds or 1, k, outputs), where u in [-1, 1] spans the range of each control. Its
attribute `feedback` is True for closed loops, which are called once in each control interval; open loops are called once
with all times. Parameters are float64 and initialized from `seed`.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from gradsim.errors import InputError
from gradsim.geometry.validation import counts, lengths

START = 0.05  # root mean square of u before training: near rest, since random motion hides the effect of an action
PHASE = 2.5 * math.pi / 4  # between sinusoids of one frequency [rad], the paper's


def normal_parameter(shape: Sequence[int], size: float, seed: int) -> nn.Parameter:
    """Parameter with normally distributed entries of this root mean square."""
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(size * torch.randn(*shape, generator=generator, dtype=torch.float64))


class PhaseClock(nn.Module):
    """Phase-shifted sinusoids of time: sin(f t + 5π p/8), p = 0, 1, ... (paper, Appendix E).

    At the paper's f = 2.5 these are its sin(f (t + p π/4)); at f = 4 such shifts of time would all be half a period, so
    the phase, not the time, is shifted here.

    All sinusoids of one frequency span two dimensions, a sine and a cosine: more phases change how fast weights learn,
    not the functions they can represent; more frequencies do.

    Args:
        phases: Sinusoids of each frequency; at least 1.
        frequency: f [rad/s], one or several.
    """

    rates: Tensor
    shifts: Tensor

    def __init__(self, phases: int = 8, frequency: float | Sequence[float] = 2.5):
        super().__init__()
        (count,) = counts("phases", phases)
        f = torch.as_tensor(frequency, dtype=torch.float64).reshape(-1)
        lengths("frequency", f.tolist(), len(f))
        shift = PHASE * torch.arange(count, dtype=torch.float64)
        self.register_buffer("rates", f.repeat_interleave(count), persistent=False)
        self.register_buffer("shifts", shift.repeat(len(f)), persistent=False)
        self.signals = len(f) * count

    def forward(self, times: Tensor) -> Tensor:
        """(k, signals) in [-1, 1]."""
        return torch.sin(self.rates * times[:, None].to(self.rates) + self.shifts)


class Sinusoids(nn.Module):
    """The paper's controller (Fig. 10): phase-shifted sinusoids, one linear layer, tanh.

        u(t) = tanh(W s(t) + b),   s_p(t) = sin(f t + 5π p/8), p = 0..7

    Args:
        outputs: Numbers of an interval, `plant.outputs`.
        phases: Sinusoids of each frequency.
        frequency: f [rad/s], one or several (see `PhaseClock`).
        bias: Add a bias b; the paper has none.
        seed: Seed of the initial weights.
        start: Root mean square of u before training.
    """

    feedback = False

    def __init__(
        self,
        outputs: int,
        phases: int = 8,
        frequency: float | Sequence[float] = 2.5,
        bias: bool = False,
        seed: int = 0,
        start: float = START,
    ):
        super().__init__()
        (self.outputs,) = counts("outputs", outputs)
        self.clock = PhaseClock(phases, frequency)
        # a sinusoid has mean square 1/2
        self.weight = normal_parameter(
            (self.outputs, self.clock.signals), start * math.sqrt(2 / self.clock.signals), seed
        )
        self.bias = nn.Parameter(torch.zeros(self.outputs, dtype=torch.float64)) if bias else None

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        return torch.tanh(nn.functional.linear(self.clock(times), self.weight, self.bias))[None]


class Spline(nn.Module):
    """Smooth curves of time: a uniform cubic B-spline for each output, then tanh.

        u(t) = tanh(Σ_j c_j B(t (knots - 3)/duration - j + 1)),   B: de Boor 1978, uniform knots

    Args:
        outputs: Numbers of an interval, `plant.outputs`.
        knots: Coefficients c_j of each curve, at least 4; each affects four spans of duration/(knots - 3).
        duration: Time [s] that they span; the curve is constant beyond.
        seed: Seed of the initial coefficients.
        start: Root mean square of the initial coefficients.
    """

    feedback = False

    def __init__(self, outputs: int, knots: int, duration: float, seed: int = 0, start: float = START):
        super().__init__()
        (self.outputs,) = counts("outputs", outputs)
        (self.knots,) = counts("knots", knots, least=4)
        self.duration = float(lengths("duration", duration)[0])
        self.coefficients = normal_parameter((self.knots, self.outputs), start, seed)

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        spans = self.knots - 3
        where = (times.to(self.coefficients) / self.duration).clamp(0, 1) * spans
        first = where.detach().floor().clamp(max=spans - 1)
        s = (where - first)[:, None]
        basis = torch.cat([(1 - s) ** 3, 3 * s**3 - 6 * s**2 + 4, 1 + 3 * s + 3 * s**2 - 3 * s**3, s**3], 1) / 6
        chosen = self.coefficients[first.long()[:, None] + torch.arange(4, device=first.device)]
        return torch.tanh(torch.einsum("kj,kjn->kn", basis, chosen))[None]


class PiecewiseConstant(nn.Module):
    """Table of u: piecewise constant in time, or a single row for a launch or a constant.

    Unbounded, a launch has the same gradient scale everywhere, and u may leave [-1, 1].

    Args:
        outputs: Numbers of an interval, `plant.outputs`.
        intervals: Rows of the table; each holds for duration/intervals.
        duration: Time [s] that the rows span; the last row holds beyond. Irrelevant for a single row.
        start: Initial table: a number or (intervals, outputs).
        bounded: Keep the table in [-1, 1] during training (`project`).
    """

    feedback = False

    def __init__(
        self,
        outputs: int,
        intervals: int = 1,
        duration: float = 1.0,
        start: float | Tensor = 0.0,
        bounded: bool = False,
    ):
        super().__init__()
        (self.outputs,), (self.intervals,) = counts("outputs", outputs), counts("intervals", intervals)
        self.duration = float(lengths("duration", duration)[0])
        first = torch.as_tensor(start, dtype=torch.float64).expand(self.intervals, self.outputs)
        self.table, self.bounded = nn.Parameter(first.clone()), bounded

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        # a time at a border begins the row after it, whatever the last bits of both
        rows = (times.detach().double() * (self.intervals / self.duration) + 1e-6).floor().long()
        return self.table[rows.clamp(0, self.intervals - 1)][None]

    @torch.no_grad()
    def project(self) -> None:
        """Clamp the table to its bounds, and zero gradients that point out of them.

        Called after every gradient and every step: projected gradients (Bertsekas 1976).
        """
        if not self.bounded:
            return
        self.table.clamp_(-1, 1)
        slope = self.table.grad
        if slope is not None:
            slope[((self.table >= 1) & (slope < 0)) | ((self.table <= -1) & (slope > 0))] = 0


class Feedback(nn.Module):
    """Multilayer perceptron of the observation, and of the time if `phases` > 0; tanh after every layer.

        u = tanh(W_n ... tanh(W_1 [o, s(t)] + b_1) ... + b_n),   s of `policies.PhaseClock`

    Hidden layers are initialized to keep numbers of order 1 at order 1 (Glorot and Bengio 2010), the last one small.

    Args:
        inputs: Size of the observation, `plant.observation.size`.
        outputs: Numbers of an interval, `plant.outputs`.
        hidden: Widths of the hidden layers; without any it is linear before the tanh.
        phases: Sinusoids of time as further inputs; 0: none.
        frequency: Frequencies of the sinusoids [rad/s], one or several.
        seed: Seed of the initial weights.
        start: Root mean square of u before training, for observations of order 1.
    """

    feedback = True

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int] = (64, 64),
        phases: int = 0,
        frequency: float | Sequence[float] = 2.5,
        seed: int = 0,
        start: float = START,
    ):
        super().__init__()
        (self.inputs,), (self.outputs,) = counts("inputs", inputs), counts("outputs", outputs)
        self.clock = PhaseClock(phases, frequency) if phases else None
        widths = [self.inputs + (self.clock.signals if self.clock else 0), *counts("hidden", hidden, len(hidden))]
        sizes = [math.sqrt(2 / (a + b)) for a, b in pairwise(widths)]
        sizes.append(start / math.sqrt(widths[-1]))
        widths.append(self.outputs)
        pairs = enumerate(pairwise(widths))
        self.weights = nn.ParameterList([normal_parameter((b, a), sizes[k], seed * 1000 + k) for k, (a, b) in pairs])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(n, dtype=torch.float64)) for n in widths[1:]])

    def forward(self, times: Tensor, observation: Tensor) -> Tensor:
        y = observation[:, None].expand(-1, len(times), -1)
        if self.clock is not None:
            y = torch.cat([y, self.clock(times).to(y).expand(len(y), -1, -1)], 2)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            y = torch.tanh(nn.functional.linear(y, weight, bias))
        return y


MIRROR_TOLERANCE = 0.1  # of a body's size: a cell cut along the other diagonal is still its mirror image


class Gait(nn.Module):
    """Feedback policy that modulates an open-loop gait.

        u = tanh((e₊ A + e₋ B + Σ_j g_j C_j) s(t) + D g),   e = clip(-o_a/near, -1, 1),   g = MLP(e, the rest of o)

    s are the sinusoids of the paper's controller (`PhaseClock`) and A its weights: far before the goal, where e = 1, the
    policy starts as that open loop; far behind it as B s, the way back; at the goal, where e = 0, it rests. C and D start
    at 0 and add corrections in the rhythm of the gait, and a posture. Distances above `near` look alike, so the way to the
    goal may be longer than any in training.

    Args:
        inputs: Size of the observation, `plant.observation.size`.
        ahead: Open-loop gait that provides the clock and the weights A.
        back: Weights B of the way back (outputs, signals); None: it stands still there.
        axis: Index of the observation that is the signed distance behind the goal.
        near: Distance below which it slows down, in units of the observation.
        hidden: Width of the hidden layer.
        features: Number of features g.
        seed: Seed of the initial weights.

    Raises:
        InputError: If a number is out of its range, or `back` has another shape than the weights of `ahead`.
    """

    feedback = True

    def __init__(
        self,
        inputs: int,
        ahead: Sinusoids,
        back: Tensor | None = None,
        axis: int = 0,
        near: float = 0.3,
        hidden: int = 32,
        features: int = 8,
        seed: int = 0,
    ):
        super().__init__()
        (self.inputs,), (width,), (count,) = (
            counts(n, v) for n, v in (("inputs", inputs), ("hidden", hidden), ("features", features))
        )
        self.near = float(lengths("near", near)[0])
        if not 0 <= axis < self.inputs:
            raise InputError(f"the axis of the goal is observation {axis}; there are {self.inputs}, counted from 0.")
        self.axis, self.clock = axis, ahead.clock
        weight = ahead.weight.detach()
        back = torch.zeros_like(weight) if back is None else back.detach().to(weight)
        if back.shape != weight.shape:
            raise InputError(
                f"the way back has weights {tuple(back.shape)}; expected those of `ahead`, {tuple(weight.shape)}."
            )
        self.ahead, self.back = nn.Parameter(weight.clone()), nn.Parameter(back.clone())
        self.inner = normal_parameter((width, self.inputs), 1 / math.sqrt(self.inputs), 1000 * seed)
        self.outer = normal_parameter((count, width), 1 / math.sqrt(width), 1000 * seed + 1)
        zeros = lambda *shape: nn.Parameter(torch.zeros(*shape, dtype=torch.float64))
        self.inner_bias, self.outer_bias = zeros(width), zeros(count)
        self.mix, self.posture = zeros(count, *weight.shape), zeros(len(weight), count)

    def forward(self, times: Tensor, observation: Tensor) -> Tensor:
        e = (-observation[:, self.axis] / self.near).clamp(-1, 1)
        inputs = torch.cat([observation[:, : self.axis], e[:, None], observation[:, self.axis + 1 :]], 1)
        g = torch.tanh(torch.tanh(inputs @ self.inner.mT + self.inner_bias) @ self.outer.mT + self.outer_bias)
        parts = torch.cat([e.clamp(min=0)[:, None], (-e).clamp(min=0)[:, None], g], 1)
        cycles = torch.cat([self.ahead[None], self.back[None], self.mix])
        weight = torch.einsum("wj,jnp->wnp", parts, cycles)
        return torch.tanh(torch.einsum("wnp,kp->wkn", weight, self.clock(times)) + (g @ self.posture.mT)[:, None])


def mirror_weights(weight: Tensor, middles: Tensor, axis: int = 0) -> Tensor:
    """Weights (outputs, signals) of the mirrored gait: those of the element nearest to each element's mirror image.

    Args:
        weight: Weights of the gait (outputs, signals).
        middles: Rest centres of the elements, relative to the middle of the body (outputs, 3) [m].
        axis: Axis of the reflection.

    Raises:
        InputError: If the body is not symmetric under this reflection.
    """
    turned = middles.clone()
    turned[:, axis] *= -1
    away, partner = torch.linalg.vector_norm(turned[:, None] - middles, dim=2).min(1)
    size = torch.linalg.vector_norm(middles, dim=1).max()
    if away.max() > MIRROR_TOLERANCE * size:
        raise InputError(
            f"the body is not its own mirror image along axis {axis}: the image of an element is {away.max():.3g} m away "
            f"from the nearest one. Train a gait for the way back and pass its weights as `back`."
        )
    return weight[partner]
