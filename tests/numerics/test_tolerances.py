"""The comparisons of `tests/support/tolerances.py` let through what they say, and no more."""

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, SINGLE, assert_near, near


def test_a_tolerance_is_relative_to_the_largest_entry():
    large = torch.tensor([1e6, 1.0], dtype=torch.float64)
    assert_near(large + torch.tensor([0.0, 1e-7]), large, ROUNDING)
    with pytest.raises(AssertionError, match="off by 2e-12 of 1e[+]06; 1e-12 is for float64, sums"):
        assert_near(large + torch.tensor([0.0, 2e-6]), large, ROUNDING)


def test_small_numbers_are_compared_as_large_ones_are():
    """`torch.allclose` calls all numbers below 1e-8 equal."""
    assert 1e-12 == near(1e-12 * (1 + 1e-13), ROUNDING)
    assert 1e-12 != near(2e-12, SINGLE)
    assert {"a": 1e-12, "b": 1.0} != near({"a": 2e-12, "b": 1.0}, SINGLE)
    with pytest.raises(AssertionError):
        assert_near(np.array([1e-12]), np.array([2e-12]), SINGLE)


def test_numbers_that_are_not_finite_and_other_shapes_are_not_near():
    for actual, expected in ((np.nan, 0.0), (np.ones(2), np.ones(3)), (np.ones((2, 1)), np.ones(2))):
        with pytest.raises(AssertionError):
            assert_near(actual, expected, SINGLE)
    assert_near(np.ones(3), 1.0, ROUNDING)
