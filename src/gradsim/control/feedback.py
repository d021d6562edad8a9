"""Policies that look: closed loops, asked once in each control interval."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from gradsim.control.policies import START, Clock, drawn
from gradsim.geometry.validation import counts


class Feedback(nn.Module):
    """A perceptron of what the senses see, and of the time if it has phases; tanh after every layer.

        u = tanh(W_n ... tanh(W_1 [o, s(t)] + b_1) ... + b_n),   s of `policies.Clock`

    Hidden layers start so that numbers of order 1 stay of order 1 (Glorot and Bengio 2010), the last one small.

    Args:
        inputs: Numbers that the senses see, `plant.senses.size`.
        outputs: Numbers for an interval, `plant.outputs`.
        hidden: Widths of the hidden layers; none make it linear before the tanh.
        phases: Sinusoids of time beside the observation; 0 for a policy that knows no clock.
        frequency: Theirs [rad/s], one or several.
        seed: Of the start weights.
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
        self.clock = Clock(phases, frequency) if phases else None
        widths = [self.inputs + (self.clock.signals if self.clock else 0), *counts("hidden", hidden, len(hidden))]
        sizes = [math.sqrt(2 / (a + b)) for a, b in pairwise(widths)]
        sizes.append(start / math.sqrt(widths[-1]))
        widths.append(self.outputs)
        pairs = enumerate(pairwise(widths))
        self.weights = nn.ParameterList([drawn((b, a), sizes[k], seed * 1000 + k) for k, (a, b) in pairs])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(n, dtype=torch.float64)) for n in widths[1:]])

    def forward(self, times: Tensor, observation: Tensor) -> Tensor:
        y = observation[:, None].expand(-1, len(times), -1)
        if self.clock is not None:
            y = torch.cat([y, self.clock(times).to(y).expand(len(y), -1, -1)], 2)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            y = torch.tanh(nn.functional.linear(y, weight, bias))
        return y
