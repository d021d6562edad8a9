"""A gait that is steered: cycles of actuation, mixed by what the senses see.

    u = tanh((e₊ A + e₋ B + Σ_j g_j C_j) s(t) + D g),   e = clip(-o_a/near, -1, 1),   g = MLP(e, the rest of o)

s are the sinusoids of the paper's controller (`policies.Clock`) and A its weights: far before the goal, where e = 1, it
begins as that open loop; far behind it as B s, the way back; at the goal, e = 0, it rests. C and D start at 0 and are
what feedback adds: corrections in the rhythm of the gait, and a posture. What is farther than `near` looks alike, so the
way to the goal may be longer than any in training.
"""

import math

import torch
from torch import Tensor, nn

from gradsim.control.policies import Sinusoids, drawn
from gradsim.errors import InputError
from gradsim.geometry.validation import counts, lengths

ALIKE = 0.1  # of a body's size: a cell cut along the other diagonal is still its mirror image


class Gait(nn.Module):
    """A policy with feedback that begins as an open loop.

    Args:
        inputs: Numbers that the senses see, `plant.senses.size`.
        ahead: The open loop that walks; its clock and weights are taken.
        back: Weights of the way back (outputs, signals); None stands still there.
        axis: Which number of the observation says how far behind the goal it is, in units of the senses.
        near: The distance from which on it slows down, in the same units.
        hidden: Width of the perceptron's layer.
        features: Of g.
        seed: Of the perceptron.

    Raises:
        InputError: If a number is out of its range, or the weights of the way back have another shape.
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
        self.inner = drawn((width, self.inputs), 1 / math.sqrt(self.inputs), 1000 * seed)
        self.outer = drawn((count, width), 1 / math.sqrt(width), 1000 * seed + 1)
        zeros = lambda *shape: nn.Parameter(torch.zeros(*shape, dtype=torch.float64))
        self.inner_bias, self.outer_bias = zeros(width), zeros(count)
        self.mix, self.posture = zeros(count, *weight.shape), zeros(len(weight), count)

    def forward(self, times: Tensor, observation: Tensor) -> Tensor:
        e = (-observation[:, self.axis] / self.near).clamp(-1, 1)
        seen = torch.cat([observation[:, : self.axis], e[:, None], observation[:, self.axis + 1 :]], 1)
        g = torch.tanh(torch.tanh(seen @ self.inner.mT + self.inner_bias) @ self.outer.mT + self.outer_bias)
        parts = torch.cat([e.clamp(min=0)[:, None], (-e).clamp(min=0)[:, None], g], 1)
        cycles = torch.cat([self.ahead[None], self.back[None], self.mix])
        weight = torch.einsum("wj,jnp->wnp", parts, cycles)
        return torch.tanh(torch.einsum("wnp,kp->wkn", weight, self.clock(times)) + (g @ self.posture.mT)[:, None])


def mirrored(weight: Tensor, middles: Tensor, axis: int = 0) -> Tensor:
    """Weights (outputs, signals) of the mirrored gait: each element does what the one nearest to its mirror image did.

    Args:
        weight: Of the gait.
        middles: Of the elements, about the middle of the undeformed body (outputs, 3) [m].
        axis: Along which it is mirrored.

    Raises:
        InputError: If the body has no such symmetry.
    """
    turned = middles.clone()
    turned[:, axis] *= -1
    away, partner = torch.linalg.vector_norm(turned[:, None] - middles, dim=2).min(1)
    size = torch.linalg.vector_norm(middles, dim=1).max()
    if away.max() > ALIKE * size:
        raise InputError(
            f"the body is not its own mirror image along axis {axis}: the image of an element is {away.max():.3g} m away "
            f"from the next one. Train a gait for the way back and give its weights."
        )
    return weight[partner]
