"""Sizes and counts that a user gives to a grid."""

from collections.abc import Sequence

import numpy as np

from gradsim.errors import InputError


def lengths(name: str, values: float | Sequence[float], count: int = 1) -> np.ndarray:
    """`count` lengths (count) [m]; raises InputError if one is not above 0, or there are more or fewer."""
    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.shape != (count,) or not (np.isfinite(array).all() and (array > 0).all()):
        expected = "a length" if count == 1 else f"{count} lengths"
        raise InputError(f"{name}: got {values}; expected {expected} above 0 [m].")
    return array


def counts(name: str, values: int | Sequence[int], count: int = 1, least: int = 1) -> tuple[int, ...]:
    """`count` whole numbers; raises InputError if one is below `least`, or there are more or fewer."""
    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.shape != (count,) or not (
        np.isfinite(array).all() and (array == array.round()).all() and array.min() >= least
    ):
        expected = "a whole number" if count == 1 else f"{count} whole numbers"
        raise InputError(f"{name}: got {values}; expected {expected} of at least {least}.")
    return tuple(int(value) for value in array)
