"""Plastic strains of rods and sheets, as points behind the vertices of a body.

    rods      `forces/rod_plasticity.py`, of κ1, κ2 and τ at each vertex that bends
    sheets    `forces/bending_plasticity.py`, of the angle of each hinge

A point begins at 0, where the rest shape is that of the scene.
"""

import torch
from torch import Tensor

from gradsim.physics.soft.relaxing import RESPONSE
from gradsim.physics.system import Values


class PlasticPoints:
    """Plastic strains of a body; none without the key `plasticity`.

    Args:
        name: The body's name.
        body: The scene's description of it.
        elements: Vertices of the elements that bend (m, ·).
        first: Number of vertices of the body, and of strain points before these.
    """

    def __init__(self, name: str, body, elements: Tensor, first: int):
        self.name = name
        self.points = len(elements) if body.plasticity is not None else 0
        strains = first + torch.arange(self.points, device=elements.device)
        self.index = torch.cat([elements[: self.points], strains[:, None]], 1)  # of the elements with their points

    def parameters(
        self, values: Values, stiffness: Tensor, per_hardening: Tensor, inertia: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """H (worlds, m) [N m], and what both forces end with: fluidity, response, inertia and gravity.

        Args:
            values: Parameters of the scene.
            stiffness: Moment over a small strain, of which the flow has the time `time` (worlds, m) [N m].
            per_hardening: H of an element over that of the scene (worlds, m).
            inertia: Masses of the points (worlds, m).
        """
        time = self.number("time", values)
        hardening = self.number("hardening", values) * per_hardening
        return hardening, [1 / (stiffness * time), 1 / (RESPONSE * time), inertia, values["gravity"][:, None]]

    def number(self, key: str, values: Values) -> Tensor:
        """A number of the scene (worlds, 1)."""
        return values[f"{self.name}.plasticity.{key}"][:, None]

    def rates(self, values: Values, bending: Tensor) -> tuple[Tensor | float, Tensor | float]:
        """Bounds (worlds,) of k/m [1/s²] and c/m [1/s] of the points, (1 + H/k)/(T θ) and 1/θ; 0 without plasticity.

        Args:
            values: Parameters of the scene.
            bending: Bending stiffness of the elements, in the unit of `hardening` (worlds, m or 1).
        """
        if not self.points:
            return 0.0, 0.0
        time, hardening = (self.number(key, values).detach() for key in ("time", "hardening"))
        response = 1 / (RESPONSE * time)
        return ((1 + hardening / bending.detach()) * response / time).amax(1), response[:, 0]

    def strains(self, x: Tensor) -> Tensor:
        """Plastic strains at the start (worlds, points, 3), from vertices (worlds, n, 3)."""
        return x.new_zeros(len(x), self.points, 3)
