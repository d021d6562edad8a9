"""Maxwell branches of soft bodies, one for each entry of `relaxation`, and those of a `hysteresis`.

    solids    `forces/relaxation.py`           μ_k = g_k ¾ μ,   λ_k = g_k (λ - ⅝ μ)
    sheets    `forces/membrane_relaxation.py`  μ_k = g_k ⅔ μ,   λ_k = g_k (λ - 4/9 μ)
              `forces/bending_relaxation.py`   k_k = g_k k
    rods      `forces/rod_relaxation.py`       k_k = g_k k of each strain

with the ratio g_k of the branch; Lamé parameters are those of small strains. Strains are points behind the vertices of a body.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.physics.forces import neo_hookean_quadratic, relaxation, relaxation_quadratic
from gradsim.physics.forces.base import Elements, Force
from gradsim.physics.system import Values

# θ/τ: the loss of a branch is this share off at its own frequency, and steps have to be shorter than 2 θ
RESPONSE = 0.02
COLUMNS = 3  # points that hold a strain


class Series:
    """Ratios and times of the branches of a body (a Prony series).

    Args:
        name: The body's name.
        body: The scene's description of it.
    """

    def __init__(self, name: str, body):
        self.name = name
        self.entries = len(body.relaxation)
        self.hysteresis = body.hysteresis
        self.count = self.entries + (len(self.hysteresis.times) if self.hysteresis else 0)

    def numbers(self, values: Values) -> list[tuple[Tensor, Tensor]]:
        """Ratio and time [s] of each branch (worlds, 1)."""
        of = lambda key: values[f"{self.name}.{key}"][:, None]
        pairs = [(of(f"relaxation.{k}.ratio"), of(f"relaxation.{k}.time")) for k in range(self.entries)]
        if self.hysteresis:
            ratio = of("hysteresis.loss_factor") * self.hysteresis.ratio_per_loss
            pairs += [(ratio, torch.full_like(ratio, time)) for time in self.hysteresis.times]
        return pairs

    def rates(self, values: Values) -> tuple[Tensor | float, Tensor | float]:
        """Sum of the ratios (worlds, ), and the largest rate of response [1/s]; 0 without branches."""
        if not self.count:
            return 0.0, 0.0
        ratios, times = zip(*((g.detach()[:, 0], t.detach()[:, 0]) for g, t in self.numbers(values)), strict=True)
        return torch.stack(ratios).sum(0), (1 / (RESPONSE * torch.stack(times))).amax(0)


class PointBranches:
    """Branches of elements of sheets and rods, which have one strain point each in every branch.

    Args:
        series: Ratios and times.
        force: The force of a branch.
        elements: Vertices of the elements (m, nodes but for the strain point).
        constants: Rest shape of the elements by name, where it is not among the parameters.
        first: Number of vertices of the body, and of strain points before these.
    """

    def __init__(self, series: Series, force: Force, elements: Tensor, constants: dict[str, Tensor], first: int):
        self.series, self.each = series, len(elements)
        self.points = series.count * self.each
        index = first + torch.arange(self.points, device=elements.device).reshape(series.count, self.each, 1)
        self.groups = [Elements(force, torch.cat([elements, points], 1), constants) for points in index]

    def parameters(
        self, values: Values, rest: list[Tensor], stiffness: Sequence[Tensor], inertia: Tensor
    ) -> list[Tensor]:
        """Those of the forces of all branches.

        Args:
            values: Parameters of the scene.
            rest: Rest shape of the elements (worlds, m) each, where it is among the parameters.
            stiffness: Stiffnesses that last, as the force has them (worlds, m or 1).
            inertia: Masses of the strain points of a branch (worlds, m).
        """
        arguments = []
        for ratio, time in self.series.numbers(values):
            arguments += [*rest, *(ratio * k for k in stiffness), 1 / time, 1 / (RESPONSE * time)]
            arguments += [inertia, values["gravity"][:, None]]
        return arguments


class SolidBranches:
    """The branches of one solid, with their strains behind its vertices.

    Args:
        name: The body's name.
        body: The scene's description of it.
        elements: Vertices of its elements (m, 4 or 10).
        shape: Rest shape of the elements by name.
        scaled: True if the rest shape is among the parameters.
        first: Number of vertices of the body.
    """

    def __init__(self, name: str, body, elements: Tensor, shape: dict[str, Tensor], scaled: bool, first: int):
        self.series = Series(name, body)
        self.count = self.series.count
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
        for k, (ratio, time) in enumerate(self.series.numbers(values)):
            stiff = [spread(ratio * y) for y in (0.75 * mu, lam - 0.625 * mu)]
            arguments += [*self._shape(rest), *stiff, 1 / time, 1 / (RESPONSE * time), mass[:, k], gravity]
        return arguments

    def relaxed(self, x: Tensor, rest: list[Tensor]) -> Tensor:
        """Columns of C = FᵀF for all branches (worlds, points, 3), from vertices (worlds, n, 3)."""
        nodes = x[:, self.index]
        corners = neo_hookean_quadratic.gauss(nodes)[0] if self.bent else nodes
        inverse = self._shape(rest)[0] if rest else self.rest
        return relaxation.columns_of(relaxation.squared_strain(corners, inverse)).repeat(1, self.count, 1)

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
