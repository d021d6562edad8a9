"""Elements of ropes and nets: springs with the law of `spring.py`, rendered as tubes around their strands."""

import torch
from torch import Tensor

from gradsim.geometry.tubes import Tubes
from gradsim.numerics.mass_lumping import inverse_element_masses, lump_masses
from gradsim.physics.forces import spring
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.body import SoftBody, scale_of
from gradsim.physics.system import Values


def springs_body(name, body, scene, vertex_offset: int, dtype: torch.dtype, device: torch.device) -> SoftBody:
    """The `System` of a rope or a net. Arguments as for `RigidBody`."""
    return SoftBody(name, body, scene, vertex_offset, SpringNetwork(name, body, dtype, device))


class SpringNetwork:
    """An `ElementModel` (see `body.py`) made from a scene's rope or net.

    Args:
        name: The body's name.
        body: The scene's description of it.
        dtype: Precision of all its tensors.
        device: Where they live.
    """

    smooth = True

    def __init__(self, name: str, body, dtype: torch.dtype, device: torch.device):
        self.name, self.body = name, body
        to = {"dtype": dtype, "device": device}
        rest, springs = torch.tensor(body.rest.vertices), torch.tensor(body.rest.edges)
        self.rest, self.springs = rest.to(**to), springs.to(device)
        self.length = spring.rest_length(rest, springs).to(**to)
        self.outer = torch.arange(len(rest), device=device)
        self.faces = self.outer.new_zeros(0, 3)
        self.groups = [Elements(spring.FORCE, self.springs)]
        self.tubes = Tubes(body.shape.value.strands(), body.rest.vertices, body.radius)
        self.mesh = self.tubes.mesh

    def mass(self, values: Values) -> Tensor:
        length = self.length * scale_of(self.name, values)[:, None]
        if self.body.mass is None:
            density = self._of("density", values)
        else:
            density = self._of("mass", values) / length.sum(1, keepdim=True)
        return lump_masses((density * length / 2)[..., None].expand(-1, -1, 2), self.springs, len(self.rest))

    def parameters(self, values: Values, start: Tensor) -> list[Tensor]:
        factor = self._of("rest_length_factor", values)
        scale = scale_of(self.name, values).reshape(-1, *[1] * (factor.ndim - 1))
        length = factor * self.length * scale
        return [length, self._stiffness(values), self._of("damping", values)]

    def rates(self, values: Values, mass: Tensor) -> tuple[Tensor, Tensor]:
        """A spring between masses m₁ and m₂ has k (1/m₁ + 1/m₂)."""
        both = inverse_element_masses(mass, self.springs).sum(2)
        return (self._stiffness(values).detach() * both).amax(1), (self._of("damping", values).detach() * both).amax(1)

    def surface_vertices(self, x: Tensor, values: Values) -> Tensor:
        return self.tubes.around(x, values[f"{self.name}.radius"])

    def _stiffness(self, values: Values) -> Tensor:
        return self._of("stiffness", values) * values[f"{self.name}.stiffness_factor"]

    def _of(self, key: str, values: Values) -> Tensor:
        """A number of the springs, (worlds, springs) or (worlds, 1)."""
        value = values[f"{self.name}.{key}"]
        return value[:, None] if value.ndim == 1 else value
