"""Checks of vertices and elements shared by all meshes, and of sizes and counts that a user gives."""

from collections.abc import Sequence

import numpy as np

from gradsim.errors import InputError


def read_only(name: str, values: np.ndarray, width: int, dtype: type) -> np.ndarray:
    """Read-only copy (n, width).

    Raises:
        InputError: If the shape does not fit.
    """
    array = np.array(values, dtype)
    if array.ndim != 2 or array.shape[1] != width:
        raise InputError(f"{name} have shape {array.shape}; expected (n, {width}).")
    array.setflags(write=False)
    return array


def check(vertices: np.ndarray, elements: np.ndarray, kind: str, name: str) -> None:
    """Check that elements, such as triangles, and vertices fit together.

    Args:
        vertices: (n, 3) [m].
        elements: Vertices of each element (m, k), counted from 0.
        kind: Name of one element in messages, such as "triangle".
        name: Name of the mesh in messages, such as "bodies.flag.shape".

    Raises:
        InputError: If there are no elements, numbers that are not finite, elements that name no vertex or the same one
            twice, or vertices without an element; by index.
    """
    if not len(elements):
        raise InputError(f"{name} has no {kind}; give at least one.")
    bad = np.flatnonzero(~np.isfinite(vertices).all(1))
    if len(bad):
        raise InputError(f"{name}: vertex {bad[0]} is {vertices[bad[0]].tolist()}{of(bad)}; expected numbers [m].")
    bad = np.flatnonzero(((elements < 0) | (elements >= len(vertices))).any(1))
    if len(bad):
        raise InputError(
            f"{name}: {kind} {bad[0]} names vertices {elements[bad[0]].tolist()}{of(bad)}; there are {len(vertices)}, "
            "counted from 0."
        )
    ordered = np.sort(elements, 1)
    bad = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(1))
    if len(bad):
        raise InputError(
            f"{name}: {kind} {bad[0]} names a vertex twice, {elements[bad[0]].tolist()}{of(bad)}; remove it."
        )
    loose = np.setdiff1d(np.arange(len(vertices)), elements)
    if len(loose):
        raise InputError(f"{name}: vertex {loose[0]} belongs to no {kind}{of(loose)}; drop it.")


def of(bad: np.ndarray) -> str:
    """Suffix for a message about the first of several bad items."""
    return f" (the first of {len(bad)})" if len(bad) > 1 else ""


def lengths(name: str, values: float | Sequence[float], count: int = 1) -> np.ndarray:
    """Convert to `count` lengths (count) [m].

    Raises:
        InputError: If the number of values is another, or one is not above 0.
    """
    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.shape != (count,) or not (np.isfinite(array).all() and (array > 0).all()):
        expected = "a length" if count == 1 else f"{count} lengths"
        raise InputError(f"{name}: got {values}; expected {expected} above 0 [m].")
    return array


def counts(name: str, values: int | Sequence[int], count: int = 1, least: int = 1) -> tuple[int, ...]:
    """Convert to `count` whole numbers.

    Raises:
        InputError: If the number of values is another, or one is below `least`.
    """
    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.shape != (count,) or not (
        np.isfinite(array).all() and (array == array.round()).all() and array.min() >= least
    ):
        expected = "a whole number" if count == 1 else f"{count} whole numbers"
        raise InputError(f"{name}: got {values}; expected {expected} of at least {least}.")
    return tuple(int(value) for value in array)
