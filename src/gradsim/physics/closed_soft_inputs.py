"""The adjoint of the inputs of a soft solid by its parameters in closed form, as `closed_inputs.py` has it for a rigid body.

With arms r = x − position, masses m = ρ V f and velocities v = velocity + ω × r + v_vertex, which pins set to 0, adjoints of x, v and
w = 1/m, written with a bar, give

    φ̄ = Σ r × (x̄ + v̄ × ω),   θ̄ = J_l(θ)ᵀ φ̄,   ω̄ = Σ r × v̄,   f̄ = −w̄ w/f,   ρ̄ = −Σ w̄ w/ρ
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gradsim.physics.closed_inputs import jacobian_factors
from gradsim.physics.soft.body import SoftBody
from gradsim.physics.soft.solid import Tetrahedra
from gradsim.physics.system import Values

X, V, INVERSE_MASS, GRAVITY, MU, LAM, DAMPING, ACTIVATION, CONTACT = range(9)  # places among the inputs
NUMBERS_OF_CONTACT = ("stiffness", "damping", "friction_stiffness", "friction")
INPUTS_OF_GROUND = 2 + len(NUMBERS_OF_CONTACT)
Rule = Callable[[Values, Sequence[Any], Sequence[Any]], Tensor]  # of values, inputs and their adjoints


class ClosedSoftInputs:
    """Gradients by parameters of a soft solid.

    Args:
        body: The body; see `has_closed_form`.
        names: Parameters of the scene.

    Attributes:
        rules: Gradient by each parameter that has a rule.
        reads: Places of the inputs whose adjoints it reads.
    """

    def __init__(self, body: SoftBody, names: Collection[str]):
        self.body, self.rest, self.free = body, body.rest, body.free[:, None]
        self.rules: dict[str, Rule] = {}
        self.reads: dict[str, tuple[int, ...]] = {}
        of = lambda key: f"{body.name}.{key}"
        self._add("gravity", (GRAVITY,), lambda values, inputs, slopes: slopes[GRAVITY].clone())
        self._add(of("position"), (X,), lambda values, inputs, slopes: slopes[X].sum(1))
        self._add(of("vertex_velocity"), (V,), lambda values, inputs, slopes: self._pulls(slopes))
        self._add(of("velocity"), (V,), lambda values, inputs, slopes: self._pulls(slopes).sum(1))
        self._add(of("angular_velocity"), (V,), self._spin)
        self._add(of("rotation_vector"), (X, V), self._turn)
        if not body.pushes:  # whose gain of velocity depends on masses
            self._add(of("vertex_mass_factor"), (INVERSE_MASS,), self._mass_factor)
            self._add(of("density"), (INVERSE_MASS,), self._density)
        for key, place in (("mu", MU), ("lam", LAM)) if body.body.young is None else ():
            number, factor = of(key), of(f"{key}_factor")
            self._add(number, (place,), partial(_product, factor, number, place))
            self._add(factor, (place,), partial(_product, number, factor, place))
        for key, place in (("damping", DAMPING), ("activation", ACTIVATION)):
            self._add(of(key), (place,), partial(_itself, of(key), place))
        for k, ground in enumerate(body.contact.grounds):
            first = CONTACT + k * INPUTS_OF_GROUND
            self._add(f"{ground}.normal", (first,), partial(_normal, ground, first))
            for key in ("height", "margin"):
                self._add(f"{ground}.{key}", (first + 1,), partial(_sum, (first + 1,)))
        for place, key in enumerate(("stiffness", body.contact.damping_name, *NUMBERS_OF_CONTACT[2:]), 2):
            places: dict[str, tuple[int, ...]] = {}
            for k, ground in enumerate(body.contact.grounds):
                owner = of(f"contact.{key}") if of(f"contact.{key}") in names else f"{ground}.{key}"
                places[owner] = (*places.get(owner, ()), CONTACT + k * INPUTS_OF_GROUND + place)
            for owner, columns in places.items():
                self._add(owner, columns, partial(_sum, columns))

    def _add(self, name: str, reads: tuple[int, ...], rule: Rule) -> None:
        self.rules[name], self.reads[name] = rule, reads

    def needs(self, names: Sequence[str]) -> set[int]:
        """Places of the inputs whose adjoints some parameters need."""
        return {place for name in names for place in self.reads[name]}

    def gradients(
        self, names: Sequence[str], values: Values, inputs: Sequence[Tensor], slopes: Sequence[Tensor | None]
    ) -> dict[str, Tensor]:
        """As of `closed_inputs.ClosedRollout`; only adjoints that these parameters read are looked at. Results share no memory."""
        return {name: self.rules[name](values, inputs, slopes) for name in names}

    def _pulls(self, slopes: Sequence[Any]) -> Tensor:
        """Adjoint of velocities before pins."""
        return slopes[V] * self.free

    def _arms(self, values: Values, inputs: Sequence[Any]) -> Tensor:
        return inputs[X] - values[f"{self.body.name}.position"][:, None]

    def _spin(self, values: Values, inputs: Sequence[Any], slopes: Sequence[Any]) -> Tensor:
        return torch.linalg.cross(self._arms(values, inputs), self._pulls(slopes)).sum(1)

    def _turn(self, values: Values, inputs: Sequence[Any], slopes: Sequence[Any]) -> Tensor:
        spin, theta = (values[f"{self.body.name}.{key}"] for key in ("angular_velocity", "rotation_vector"))
        pull = slopes[X] + torch.linalg.cross(*torch.broadcast_tensors(self._pulls(slopes), spin[:, None]))
        by_turn = torch.linalg.cross(self._arms(values, inputs), pull).sum(1)
        factors = jacobian_factors((theta * theta).sum(1, keepdim=True).numpy())
        first, second = (torch.from_numpy(x) for x in factors)
        once = torch.linalg.cross(theta, by_turn)
        return by_turn - first * once + second * torch.linalg.cross(theta, once)

    def _mass_factor(self, values: Values, inputs: Sequence[Any], slopes: Sequence[Any]) -> Tensor:
        return -slopes[INVERSE_MASS] * inputs[INVERSE_MASS] / values[f"{self.body.name}.vertex_mass_factor"]

    def _density(self, values: Values, inputs: Sequence[Any], slopes: Sequence[Any]) -> Tensor:
        return -(slopes[INVERSE_MASS] * inputs[INVERSE_MASS]).sum(1) / values[f"{self.body.name}.density"]


def has_closed_form(body, values: Values) -> bool:
    """True if gradients by some parameters of a body have a closed form here."""
    if not isinstance(body, SoftBody) or type(body.matter) is not Tetrahedra or body.rest.device.type != "cpu":
        return False
    simple = not (body.motion or body.anchors or body.acting or body.contact.obstacles or body.contact.radius)
    return (
        simple
        and not (body.matter.scaled or body.matter.strain_points or body.matter.body.regions)
        and values[f"{body.name}.density"].ndim == 1
    )


def _product(factor: str, name: str, place: int, values: Values, inputs: Sequence[Any], slopes: Sequence[Any]):
    """Adjoint of one factor of a number of each element."""
    other, number = values[factor], values[name]
    slope = slopes[place] * (other[:, None] if other.ndim == 1 else other)
    return slope.sum(1) if number.ndim == 1 else slope


def _itself(name: str, place: int, values: Values, inputs: Sequence[Any], slopes: Sequence[Any]):
    """Adjoint of a number that is an input."""
    return slopes[place].sum(1) if values[name].ndim == 1 else slopes[place].clone()


def _sum(places: tuple[int, ...], values: Values, inputs: Sequence[Any], slopes: Sequence[Any]):
    """Adjoint of a number that is several inputs (worlds, 1)."""
    first, *others = (slopes[place][:, 0] for place in places)
    for other in others:
        first = first + other
    return first if others else first.clone()


def _normal(ground: str, place: int, values: Values, inputs: Sequence[Any], slopes: Sequence[Any]):
    """Adjoint of the normal N from that of N/|N|."""
    stated, slope, normal = values[f"{ground}.normal"], slopes[place][:, 0], inputs[place][:, 0]
    along = (normal * slope).sum(1, keepdim=True)
    return (slope - normal * along) / torch.sqrt((stated * stated).sum(1, keepdim=True))
