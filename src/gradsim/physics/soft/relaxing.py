"""Maxwell branches of a soft solid: `forces/relaxation.py` for each entry of `relaxation`, and for a `hysteresis`.

μ_k = g_k ¾ μ,   λ_k = g_k (λ - ⅝ μ)          g_k: ratio of the branch; the Lamé parameters of small strains (`neo_hookean`)
"""

import torch
from torch import Tensor

from gradsim.physics.forces import neo_hookean_quadratic, relaxation, relaxation_quadratic
from gradsim.physics.forces.base import Elements
from gradsim.physics.system import Values

# θ/τ: the loss of a branch is this share off at its own frequency, and steps have to be shorter than 2 θ
RESPONSE = 0.02
COLUMNS = 3  # points that hold a strain


class Branches:
    """The branches of one body, with their strains behind its vertices.

    Args:
        name: The body's name.
        body: The scene's description of it.
        elements: Vertices of its elements (m, 4 or 10).
        shape: Rest shape of the elements by name.
        scaled: True if the rest shape is among the parameters.
        first: Number of vertices of the body.
    """

    def __init__(self, name: str, body, elements: Tensor, shape: dict[str, Tensor], scaled: bool, first: int):
        self.name = name
        self.entries = len(body.relaxation)
        self.steady = body.hysteresis
        self.count = self.entries + (len(self.steady.times) if self.steady else 0)
        self.bent = elements.shape[1] > 4
        law = relaxation_quadratic if self.bent else relaxation
        orders = relaxation_quadratic.VERTICES_BY_CORNER if self.bent else ((0, 1, 2, 3),)
        self.index = torch.cat(
            [elements[:, list(order)] for order in orders]
        )  # all elements near a corner, then the next
        self.rest = torch.cat([_turned(shape["rest"], order[:4]) for order in orders])
        self.volume = shape["volume"].repeat(len(orders)) / len(orders)
        self.orders, self.each = orders, COLUMNS * len(self.index)
        self.points = self.count * self.each
        force, constants = law.FORCE, {"rest": self.rest, "volume": self.volume}
        if scaled:
            force, constants = force.with_rest, {}
        self.scaled = scaled
        self.groups = []
        for k in range(self.count):
            strain = first + k * self.each + torch.arange(self.each, device=elements.device).reshape(-1, COLUMNS)
            self.groups.append(Elements(force, torch.cat([self.index, strain], 1), constants))

    def inertia(self, mass: Tensor) -> Tensor:
        """Masses of the strain points (worlds, points), from those of the elements (worlds, m): of no effect but on rounding.

        The mass of the element times the square of its size, so that momenta are of the size of those of vertices.
        """
        size = (self.volume * len(self.orders)) ** (2 / 3)
        inertia = mass.repeat(1, len(self.orders)) / len(self.orders) * size
        return inertia.repeat_interleave(COLUMNS, 1).repeat(1, self.count)

    def parameters(self, values: Values, mu: Tensor, lam: Tensor, inertia: Tensor, rest: list[Tensor]) -> list[Tensor]:
        """Those of the forces of all branches.

        Args:
            values: Parameters of the scene.
            mu, lam: μ and λ of the elasticity (worlds, m or 1) [Pa].
            inertia: Masses of the strain points (worlds, points).
            rest: Rest shape of the elements (worlds, m, ...), where it is a parameter.
        """
        spread = lambda y: y.repeat(1, len(self.orders)) if y.shape[1] > 1 else y
        mass = inertia[:, ::COLUMNS].unflatten(1, (self.count, -1))
        gravity = values["gravity"][:, None]
        arguments = []
        for k, (ratio, time) in enumerate(self._numbers(values)):
            stiff = [spread(ratio * y) for y in (0.75 * mu, lam - 0.625 * mu)]
            arguments += [*self._shape(rest), *stiff, 1 / time, 1 / (RESPONSE * time), mass[:, k], gravity]
        return arguments

    def relaxed(self, x: Tensor, rest: list[Tensor]) -> Tensor:
        """Columns of C = FᵀF for all branches (worlds, points, 3), from vertices (worlds, n, 3)."""
        nodes = x[:, self.index]
        corners = neo_hookean_quadratic.gauss(nodes)[0] if self.bent else nodes
        inverse = self._shape(rest)[0] if rest else self.rest
        return relaxation.columns_of(relaxation.squared_strain(corners, inverse)).repeat(1, self.count, 1)

    def rates(self, values: Values) -> tuple[Tensor | float, Tensor | float]:
        """Sum of the ratios (worlds, ), and the largest rate of response [1/s]; 0 without branches."""
        if not self.count:
            return 0.0, 0.0
        ratios, times = zip(*((g.detach()[:, 0], t.detach()[:, 0]) for g, t in self._numbers(values)), strict=True)
        return torch.stack(ratios).sum(0), (1 / (RESPONSE * torch.stack(times))).amax(0)

    def _numbers(self, values: Values) -> list[tuple[Tensor, Tensor]]:
        """Ratio and time [s] of each branch (worlds, 1)."""
        of = lambda key: values[f"{self.name}.{key}"][:, None]
        pairs = [(of(f"relaxation.{k}.ratio"), of(f"relaxation.{k}.time")) for k in range(self.entries)]
        if self.steady:
            ratio = of("hysteresis.loss_factor") * self.steady.ratio_per_loss
            pairs += [(ratio, torch.full_like(ratio, time)) for time in self.steady.times]
        return pairs

    def _shape(self, rest: list[Tensor]) -> list[Tensor]:
        """D_m⁻¹ and V of the branch elements, where they are parameters."""
        if not rest:
            return []
        inverse = torch.cat([_turned(rest[0], order[:4]) for order in self.orders], 1)
        return [inverse, rest[1].repeat(1, len(self.orders)) / len(self.orders)]


def _turned(inverse: Tensor, order: tuple[int, ...]) -> Tensor:
    """D_m⁻¹ (..., 3, 3) of tetrahedra whose corners come in another order: its rows are the gradients of the corners."""
    gradients = torch.cat([-inverse.sum(-2, keepdim=True), inverse], -2)
    return gradients[..., list(order[1:]), :]
