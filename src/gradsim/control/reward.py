"""A goal of one's own: a number of each episode that should be large."""

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from torch import Tensor

from gradsim.control.goal import Goal, Truth
from gradsim.errors import InputError

if TYPE_CHECKING:
    from gradsim.control.plant import Episode


@final
class Reward(Goal):
    """What a function of an episode says, to be raised; its negative is the loss.

    Args:
        function: From an `Episode` to a reward for each world (worlds,), differentiable:
            `Reward(lambda episode: episode.centre()[:, -1, 0])` is how far to the right a body gets.
        truth: For figures, see `Goal`.
    """

    def __init__(self, function: "Callable[[Episode], Tensor]", truth: Truth | None = None):
        super().__init__(truth)
        self.function = function

    def loss(self, episode: "Episode", iteration: int = 0) -> Tensor:
        reward, worlds = self.function(episode), len(episode.centre())
        if not isinstance(reward, Tensor) or reward.shape != (worlds,):
            got = f"a tensor {tuple(reward.shape)}" if isinstance(reward, Tensor) else repr(reward)
            raise InputError(f"the reward of an episode is {got}; it needs one number for each world, ({worlds}).")
        return -reward
