"""Numbers in the memory of tensors: whether they are finite, zeros, and what threads have."""

import math
import warnings

import pytest
import torch

from gradsim.engine.bound_function import MOST_THREADS, OfThreads
from gradsim.engine.numbers import MOST_NUMBERS, FiniteCheck, Zeros


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 3, 5), (MOST_NUMBERS + 1,)])
@pytest.mark.parametrize("strided", [False, True])
def test_a_number_that_is_not_finite_is_noticed_without_a_warning(dtype, shape, strided):
    x = torch.ones((*shape, 2), dtype=dtype)[..., 0] if strided else torch.ones(shape, dtype=dtype)
    numbers = FiniteCheck(x)
    assert numbers.is_finite()
    last = (-1,) * x.ndim
    for bad in (math.inf, -math.inf, math.nan):
        x[last] = bad
        with warnings.catch_warnings(action="error"):
            assert not numbers.is_finite()
    x[last] = torch.finfo(dtype).max  # may overflow
    with warnings.catch_warnings(action="error"):
        numbers.is_finite()
    x[last] = -2.0
    assert numbers.is_finite()


def test_numbers_of_two_signs_do_not_cancel():
    x = torch.tensor([math.inf, -math.inf])
    assert not FiniteCheck(x).is_finite()


def test_memory_is_zero_after_each_call():
    tensors = [torch.ones(3), torch.ones(2, 2, dtype=torch.float64), torch.ones(0)]
    zeros = Zeros(tensors)
    for _ in range(2):
        for x in tensors:
            x += 1
        zeros.fill()
        assert not any(x.any() for x in tensors)


def test_as_many_threads_as_there_is_room_for_have_things():
    things = OfThreads()
    for thread in range(MOST_THREADS):
        assert things.put(thread, {thread}) == {thread}
    assert len(things) == MOST_THREADS
    things.put(MOST_THREADS, {0})
    assert list(things) == [MOST_THREADS]
