import pickle

import numpy as np
import pytest
import torch
from fit_cases import thrown

from gradsim.identify.multistart import Search, search
from gradsim.identify.sampling import sample

PLAN = Search(starts=4, first=4, grow=2)


class Memory:
    """Keeps what is saved, and pulls the plug after some saves."""

    def __init__(self, plug: int = 1000):
        self.parts, self.left = {}, plug

    def load(self, part):
        return pickle.loads(self.parts[part]) if part in self.parts else None

    def save(self, part, state):
        self.parts[part] = pickle.dumps(state)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("plug", (1, 2, 3))
def test_an_interrupted_search_goes_on_to_the_same_answer_bit_for_bit(plug):
    whole = search(thrown(), PLAN, np.random.default_rng(5))
    memory = Memory(plug)
    with pytest.raises(KeyboardInterrupt):
        search(thrown(), PLAN, np.random.default_rng(5), keeper=memory)
    problem = thrown()
    again = search(problem, PLAN, np.random.default_rng(99), keeper=memory)  # the state of the generator is kept too
    assert torch.equal(again.best, whole.best) and again.best_cost == whole.best_cost
    assert torch.equal(again.cost, whole.cost) and torch.equal(again.initial, whole.initial)
    assert again.iterations == whole.iterations and again.history == whole.history


def test_interrupted_sampling_goes_on_to_the_same_samples_bit_for_bit():
    start, scale = thrown().space.inner(torch.tensor([[3.1, 0.9]]))[0], torch.diag(torch.tensor([1e-3, 1e-3]).double())
    draw = lambda memory, seed: sample(
        thrown(), start, scale, np.random.default_rng(seed), chains=6, generations=120, keeper=memory
    )
    whole, memory = draw(None, 3), Memory(2)
    with pytest.raises(KeyboardInterrupt):
        draw(memory, 3)
    again = draw(memory, 4)
    assert torch.equal(again.u, whole.u) and again.accepted == whole.accepted
