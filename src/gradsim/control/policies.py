"""Policies that know the time alone: open loops.

A policy is an `nn.Module` that is called as `policy(times, observation)`: times (k,) [s] from the start, and what the
senses see (worlds, n), or None; it returns u (worlds or 1, k, outputs), where u in [-1, 1] spans the range of each
control. `feedback` says whether it looks at observations (`feedback.py`): an open loop is asked once for all times.
Everything is float64, and drawn from `seed`.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gradsim.geometry.validation import counts, lengths

START = 0.05  # root mean square of u before training: near rest, since random flailing hides what an action does
PHASE = 2.5 * math.pi / 4  # between sinusoids of one frequency [rad], the paper's


def drawn(shape: Sequence[int], size: float, seed: int) -> nn.Parameter:
    """A parameter of normal numbers of this root mean square."""
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(size * torch.randn(*shape, generator=generator, dtype=torch.float64))


class Clock(nn.Module):
    """Phase-shifted sinusoids of time: sin(f t + 5π p/8), p = 0, 1, ... (paper, Appendix E).

    At the paper's f = 2.5 these are its sin(f (t + p π/4)); at f = 4 such shifts of time would all be half a period, so
    that the phase, not the time, is shifted here.

    All of one frequency span two dimensions, a sine and a cosine: more phases change how fast weights learn, not what
    they can say. Several frequencies say more.

    Args:
        phases: How many of each frequency; at least 1.
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
        outputs: Numbers for an interval, `plant.outputs`.
        phases: Sinusoids of each frequency.
        frequency: f [rad/s], one or several (see `Clock`).
        bias: Whether there is b; the paper has none.
        seed: Of the start weights.
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
        self.clock = Clock(phases, frequency)
        # a sinusoid has mean square 1/2
        self.weight = drawn((self.outputs, self.clock.signals), start * math.sqrt(2 / self.clock.signals), seed)
        self.bias = nn.Parameter(torch.zeros(self.outputs, dtype=torch.float64)) if bias else None

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        return torch.tanh(nn.functional.linear(self.clock(times), self.weight, self.bias))[None]


class Spline(nn.Module):
    """A smooth curve for each output: a uniform cubic B-spline of time, then tanh.

        u(t) = tanh(Σ_j c_j B(t (knots - 3)/duration - j + 1)),   B: de Boor 1978, uniform knots

    Args:
        outputs: Numbers for an interval, `plant.outputs`.
        knots: Numbers c_j of each curve; at least 4. One of them moves four spans of duration/(knots - 3).
        duration: The time [s] they span; the curve stays as it is beyond.
        seed: Of the start numbers.
        start: Root mean square of these.
    """

    feedback = False

    def __init__(self, outputs: int, knots: int, duration: float, seed: int = 0, start: float = START):
        super().__init__()
        (self.outputs,) = counts("outputs", outputs)
        (self.knots,) = counts("knots", knots, least=4)
        self.duration = float(lengths("duration", duration)[0])
        self.coefficients = drawn((self.knots, self.outputs), start, seed)

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        spans = self.knots - 3
        where = (times.to(self.coefficients) / self.duration).clamp(0, 1) * spans
        first = where.detach().floor().clamp(max=spans - 1)
        s = (where - first)[:, None]
        shares = torch.cat([(1 - s) ** 3, 3 * s**3 - 6 * s**2 + 4, 1 + 3 * s + 3 * s**2 - 3 * s**3, s**3], 1) / 6
        chosen = self.coefficients[first.long()[:, None] + torch.arange(4, device=first.device)]
        return torch.tanh(torch.einsum("kj,kjn->kn", shares, chosen))[None]


class Free(nn.Module):
    """Numbers of their own: u itself, for a launch or a constant, or for each of several equal intervals of time.

    Without a bound a search moves a launch at the same rate everywhere, and u may leave [-1, 1].

    Args:
        outputs: Numbers for an interval, `plant.outputs`.
        intervals: Rows of the table; each holds for duration/intervals.
        duration: The time [s] they span; the last row holds beyond. Without meaning for a single row.
        start: The numbers before training, one or (intervals, outputs).
        bounded: Whether a search keeps them in [-1, 1] (`project`).
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
        """Bring the numbers back into their bounds, and leave out gradients along which they would leave them.

        A search calls it after every gradient and every step: projected gradients (Bertsekas 1976).
        """
        if not self.bounded:
            return
        self.table.clamp_(-1, 1)
        slope = self.table.grad
        if slope is not None:
            slope[((self.table >= 1) & (slope < 0)) | ((self.table <= -1) & (slope > 0))] = 0
