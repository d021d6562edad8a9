"""Elements that share a number: what a task knows of the motion it wants, said before any search.

A body whose elements act in pairs, or alike along an axis, can only move in ways that have this symmetry: a gear whose
tetrahedra share their activation along its axis rolls in a plane, and neither leans nor turns away. That is a statement
about the task, like its controls and their ranges; it leaves out motions, and with them what one picture says least of,
which is depth. Policies then have an output for each group.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from torch import Tensor

from gradsim.errors import InputError
from gradsim.physics.soft.body import SoftBody

if TYPE_CHECKING:
    from gradsim.physics.model import Model

AXES = "xyz"
SAME = 1e-5  # distance of two centres that are one, over the extent of the body


def centres(model: "Model", name: str) -> Tensor | None:
    """Centres at rest (elements, 3) [m] of the elements that a control over time is a number of; None if it is of none.

    Args:
        model: The model.
        name: Of a parameter of it, such as `gear.activation`.
    """
    kind = model.kinds[name]
    count = kind.elements if kind.timed else 0
    for body in model.systems:
        if isinstance(body, SoftBody) and body.name == name.partition(".")[0] and count > 1:
            bent = name.endswith(".bending_activation")  # of hinges; all else over time is of the elements themselves
            found = [group.index for group in body.matter.groups if (group.force.name == "bending") == bent]
            return body.rest[found[0]].mean(1)
    return None


def along(model: "Model", name: str, axis: str) -> Tensor:
    """The group of each element (elements,), counted from 0: those together whose centres differ along an axis alone.

    Args:
        model: The model.
        name: A parameter that is a number for each element, such as `gear.activation`.
        axis: "x", "y" or "z" of the rest shape, before the scene turns and places it.

    Raises:
        InputError: If there is no such axis, or the parameter has no elements with a place.
    """
    if axis not in AXES or len(axis) != 1:
        raise InputError(f"`{name}` is shared along {axis!r}; expected an axis of the rest shape: x, y or z.")
    places = centres(model, name) if name in model.kinds else None
    if places is None:
        raise InputError(f"`{name}` is no number for each element of a soft body; only such numbers can be shared.")
    flat = np.delete(places.cpu().double().numpy(), AXES.index(axis), 1)
    pairs = KDTree(flat).query_pairs(SAME * np.ptp(flat, 0).max(), output_type="ndarray")
    ones = np.ones(len(pairs), bool)
    _, groups = connected_components(coo_array((ones, (pairs[:, 0], pairs[:, 1])), (len(flat), len(flat))), False)
    return torch.from_numpy(groups.astype(np.int64))


def checked(groups: Tensor, name: str, elements: int) -> Tensor:
    """Groups (elements,) as integers from 0, none of them empty.

    Raises:
        InputError: If they are not.
    """
    found = torch.as_tensor(groups)
    if found.shape != (elements,) or found.is_floating_point() or (len(found) and found.min() < 0):
        raise InputError(
            f"the groups of `{name}` have shape {tuple(found.shape)} and {found.dtype}; expected a whole number from 0 for "
            f"each of its {elements} elements."
        )
    if len(found.unique()) != int(found.max()) + 1:
        raise InputError(
            f"the groups of `{name}` go up to {int(found.max())}, and some have no element; count them on."
        )
    return found.long()
