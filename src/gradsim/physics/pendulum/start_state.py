"""The state of a pendulum as parameters of a start: s = (angles, rates)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.physics.system import State, Values


class SwingStart:
    """`StartState` of a pendulum or double pendulum.

    Args:
        name: Its name.
        arms: Prefixes of the keys of its arms.
    """

    def __init__(self, name: str, arms: Sequence[str]):
        self.keys = [f"{name}.{arm}{key}" for key in ("angle", "rate") for arm in arms]
        self.size = len(self.keys)
        self.parts = dict.fromkeys(("angle", "angular_velocity"), len(arms))

    def units(self, rate: float) -> Tensor:
        return torch.tensor([1.0, rate]).double().repeat_interleave(self.size // 2)

    def instant(self, state: State, values: Values) -> dict[str, Tensor]:
        return {key: y.reshape(len(y), -1) for key, y in state.items()}

    def numbers(self, instant: State) -> Tensor:
        return torch.cat([instant["angle"], instant["rate"]], 1)

    def gap(self, old: State, new: State) -> Tensor:
        return self.numbers(new) - self.numbers(old)

    def parameters(self, numbers: Tensor) -> Values:
        return {key: numbers[:, k] for k, key in enumerate(self.keys)}
