"""Domain randomization: parameters of the worlds, sampled in each iteration from a seed."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gradsim.control.impulses import NAME, RandomImpulses
from gradsim.errors import InputError
from gradsim.geometry.validation import counts


class DomainRandomization:
    """Random parameters of a model as a function of the iteration, for the argument `overrides` of `train`.

    Distributions are uniform: a fraction s multiplies the whole parameter by one factor in 1 ± s; an amount a adds a
    number in ± a to each of its components. Samples depend on the seed and the iteration only.

    Args:
        model: Model.
        fractions: Fractions by parameter, such as {"cube.mass": 0.2} for ± 20 %.
        amounts: Amounts by parameter, such as {"cube.pushes.0.impulse": 0.5} [N s].
        worlds: Number of worlds.
        seed: Seed of the samples.
        impulses: Random impulses on bodies.

    Raises:
        InputError: If the model lacks a parameter, or a fraction or an amount is below 0.
    """

    def __init__(
        self,
        model,
        fractions: Mapping[str, float] | None = None,
        amounts: Mapping[str, float] | None = None,
        worlds: int = 1,
        seed: int = 0,
        impulses: Sequence[RandomImpulses] = (),
    ):
        self.fractions, self.amounts, self.impulses, self.seed = (
            dict(fractions or {}),
            dict(amounts or {}),
            tuple(impulses),
            seed,
        )
        (self.worlds,) = counts("worlds", worlds)
        values = model.values()
        for name, size in [*self.fractions.items(), *self.amounts.items()]:
            if name not in values:
                raise InputError(f"the scene has no parameter `{name}` to disturb; it has {', '.join(values)}.")
            if not size >= 0:
                raise InputError(f"the disturbance of `{name}` is {size}; expected a number of at least 0.")
        self.values = {name: values[name].detach() for name in [*self.fractions, *self.amounts]}

    def __call__(self, iteration: int) -> dict[str, Tensor]:
        """Parameters (worlds, ...) by name, for `Plant.rollout`."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + iteration)
        parameters = {}
        for name, value in self.values.items():
            uniform = lambda *shape: 2 * torch.rand(self.worlds, *shape, generator=generator, dtype=torch.float64) - 1
            many = value.expand(self.worlds, *value.shape[1:])
            if name in self.fractions:
                many = many * (1 + self.fractions[name] * uniform(*[1] * (value.ndim - 1))).to(many)
            if name in self.amounts:
                many = many + self.amounts[name] * uniform(*value.shape[1:]).to(many)
            parameters[name] = many
        parameters |= {impulse.body + NAME: impulse.draw(self.worlds, generator) for impulse in self.impulses}
        return parameters
