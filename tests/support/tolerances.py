"""Comparisons with a named tolerance, and the reason why it is that large.

    assert mass.item() == near(1.5, ROUNDING)
    assert_near(images[0], images[1], ROUNDING)

A tolerance is relative to the largest entry of what is expected: an entry that is a small difference of large numbers has
their rounding. Unlike `torch.allclose` and `numpy.allclose`, which add 1e-8, a comparison of small numbers stays one. A test
whose tolerance comes from its own problem (order of a method, noise, digits of a file) states it where it compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch


@dataclass(frozen=True)
class Tolerance:
    """Largest difference over the largest size, and why."""

    relative: float
    reason: str


ULPS = Tolerance(1e-14, "float64, a handful of operations: below a hundred units in the last place (1.1e-16)")
ROUNDING = Tolerance(1e-12, "float64, sums of up to some thousand terms in another order, each off by 1.1e-16")
SOLVED = Tolerance(1e-9, "float64 after products, inverses or rollouts that amplify rounding up to a million times")
SINGLE = Tolerance(1e-6, "float32 or seven digits on the way: units in the last place of 6e-8, some ten of them")


def near(expected: Any, tolerance: Tolerance, scale: float | None = None):
    """What compares equal to numbers within the tolerance; entries of a mapping each on their own.

    Args:
        expected: Number, array, sequence or mapping.
        tolerance: One of those above.
        scale: Size that the tolerance is relative to; by default the largest entry, or 1 if all are zero.
    """
    if scale is None and isinstance(expected, Mapping):
        return pytest.approx(expected, rel=tolerance.relative, abs=0)
    return pytest.approx(expected, rel=0, abs=tolerance.relative * (scale or _largest(expected)))


def assert_near(actual: Any, expected: Any, tolerance: Tolerance, scale: float | None = None) -> None:
    """Fail, with the reason of the tolerance, if an entry of two arrays or tensors differs by more.

    Args:
        actual: Array or tensor.
        expected: The same of one shape, or one number for all entries.
        tolerance, scale: As of `near`.
    """
    actual, expected = _array(actual), _array(expected)
    assert actual.shape == expected.shape or not expected.shape
    scale = scale or _largest(expected)
    off = np.abs(actual - expected).max(initial=0) / scale
    assert off <= tolerance.relative, (
        f"off by {off:.2g} of {scale:.3g}; {tolerance.relative:g} is for {tolerance.reason}"
    )


def _array(values: Any) -> np.ndarray:
    return (values.detach().cpu().double().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)).astype(
        float
    )


def _largest(values: Any) -> float:
    return float(np.abs(_array(values)).max(initial=0)) or 1.0
