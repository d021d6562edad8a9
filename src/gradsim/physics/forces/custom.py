"""A user's own force on a soft body: what `Model(scene, forces={"flag.wind": CustomForce(force, ...)})` takes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gradsim.engine.layout import SHAPES
from gradsim.errors import InputError
from gradsim.physics.forces.base import Elements, Force
from gradsim.physics.system import Values


class CustomForce:
    """A force, what it acts on, and its parameters.

    Args:
        force: As `Force.load("wind.py")` gives it.
        index: The vertices of each element (m, nodes); None: every vertex alone, for a force on one.
        **parameters: A value for each parameter of the force: of all elements, or one for each, (m, ...).

    Raises:
        InputError: If parameters are missing, unknown or of another shape, or an index is none.
    """

    def __init__(self, force: Force, index: Tensor | np.ndarray | Sequence | None = None, **parameters):
        if force.rest:
            raise InputError(f"the force {force.title} has rest constants; give them as parameters.")
        if set(parameters) != set(force.parameters):
            got, wanted = ", ".join(parameters) or "none", ", ".join(force.parameters) or "none"
            raise InputError(f"the force {force.title} has parameters {wanted}; got {got}.")
        if index is None and force.nodes != 1:
            raise InputError(
                f"the force {force.title} acts on {force.nodes} vertices; give `index` (m, {force.nodes})."
            )
        self.force, self.index = force, None if index is None else torch.as_tensor(index).long()
        if self.index is not None and (self.index.ndim != 2 or self.index.shape[1] != force.nodes):
            raise InputError(f"`index` has shape {tuple(self.index.shape)}; expected (m, {force.nodes}).")
        to_number = lambda x: torch.as_tensor(x, dtype=torch.float64).detach().cpu()
        self.values = {name: to_number(parameters[name]) for name in force.parameters}

    def on(self, name: str, n: int) -> tuple[Elements, dict[str, Tensor], dict[str, int]]:
        """Its elements on a body, its parameters by dotted name, and of how many elements each may have one.

        Args:
            name: Of the force: "flag.wind".
            n: Vertices of the body.
        """
        index = torch.arange(n)[:, None] if self.index is None else self.index
        if len(index) and not 0 <= index.min() <= index.max() < n:
            worst = int(index.min() if index.min() < 0 else index.max())
            raise InputError(f"the force `{name}` names vertex {worst}; the body has {n}, counted from 0.")
        m, numbers, counts = len(index), {}, {}
        for key, kind in self.force.parameters.items():
            value, shape = self.values[key], SHAPES[kind]
            if value.shape not in (shape, (m, *shape)):
                raise InputError(f"`{name}.{key}` has shape {tuple(value.shape)}; expected {shape} or {(m, *shape)}.")
            numbers[f"{name}.{key}"] = value
            counts[f"{name}.{key}"] = m if value.shape == shape else 0
        return Elements(self.force, index), numbers, counts

    def parameters(self, name: str, values: Values) -> list[Tensor]:
        """For the rollout, in order, (worlds, elements or 1, ...)."""
        arguments = []
        for key, kind in self.force.parameters.items():
            value = values[f"{name}.{key}"]
            arguments.append(value[:, None] if value.ndim == 1 + len(SHAPES[kind]) else value)
        return arguments
