"""Actuator sharing: groups of elements with one control value.

A body whose elements act alike along an axis moves with that symmetry: a gear whose tetrahedra share their activation
along its axis rolls in a plane, without leaning or turning. Sharing is part of a task, like its controls and their
ranges; it excludes motions in depth, which one image determines least. Policies have one output for each group.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from torch import Tensor

from gradsim.errors import InputError

if TYPE_CHECKING:
    from gradsim.physics.model import Model

AXES = "xyz"
COINCIDENCE_TOLERANCE = 1e-5  # distance of centres that count as one, relative to the extent of the body


def element_centers(model: "Model", name: str) -> Tensor | None:
    """Rest centres (elements, 3) [m] of the elements that a parameter acts on; None if it does not act on elements.

    Args:
        model: The model.
        name: Parameter, such as `gear.activation`.
    """
    kind = model.kinds[name]
    count = kind.elements if kind.timed else 0
    owner, _, key = name.partition(".")
    for system in model.systems:
        if system.name == owner and system.deformable and count > 1:
            return system.deformable.rest[system.deformable.elements_of(key)].mean(1)
    return None


def groups_along(model: "Model", name: str, axis: str) -> Tensor:
    """Group (elements,) of each element, from 0: elements whose centres differ along one axis only.

    Args:
        model: The model.
        name: Parameter with a number for each element, such as `gear.activation`.
        axis: "x", "y" or "z" of the rest shape, before the scene turns and places it.

    Raises:
        InputError: If the axis is not x, y or z, or the parameter does not act on elements of a soft body.
    """
    if axis not in AXES or len(axis) != 1:
        raise InputError(f"`{name}` is shared along {axis!r}; expected an axis of the rest shape: x, y or z.")
    places = element_centers(model, name) if name in model.kinds else None
    if places is None:
        raise InputError(
            f"`{name}` does not have a number for each element of a soft body; only such parameters can be shared."
        )
    flat = np.delete(places.cpu().double().numpy(), AXES.index(axis), 1)
    pairs = KDTree(flat).query_pairs(COINCIDENCE_TOLERANCE * np.ptp(flat, 0).max(), output_type="ndarray")
    ones = np.ones(len(pairs), bool)
    _, groups = connected_components(coo_array((ones, (pairs[:, 0], pairs[:, 1])), (len(flat), len(flat))), False)
    return torch.from_numpy(groups.astype(np.int64))


def check_groups(groups: Tensor, name: str, elements: int) -> Tensor:
    """Validate groups (elements,): integers from 0 without gaps.

    Raises:
        InputError: If they are not.
    """
    groups = torch.as_tensor(groups)
    if groups.shape != (elements,) or groups.is_floating_point() or (len(groups) and groups.min() < 0):
        raise InputError(
            f"the groups of `{name}` have shape {tuple(groups.shape)} and {groups.dtype}; expected a whole number from 0 for "
            f"each of its {elements} elements."
        )
    if len(groups.unique()) != int(groups.max()) + 1:
        raise InputError(
            f"the groups of `{name}` go up to {int(groups.max())}, and some have no element; number them without gaps."
        )
    return groups.long()
