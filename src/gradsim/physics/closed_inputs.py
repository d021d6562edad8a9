"""Rollouts of a rigid body by its parameters, with adjoints and tangents of its inputs in closed form in place of a hundred calls of PyTorch.

With q = exp(θ) q₀, R its matrix, J and K = J⁻¹ the inertia at mass m and scale s, W = R J Rᵀ and L = W ω, a turn by the small angle φ has

    dθ = J_l(θ)⁻¹ φ,   dq = ½ (φ, 0) q,   dL = φ × L − W (φ × ω)

so adjoints of q, L and K, written with a bar, give

    φ̄ = ½ vector(q̄ q*) + L × L̄ − ω × W L̄,   θ̄ = J_l(θ)ᵀ φ̄,   ω̄ = W L̄,   m m̄ = s s̄/2 = L̄·L − K̄:K
"""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from gradsim.engine.bound_function import BoundFunction
from gradsim.engine.operation import operation
from gradsim.physics.rigid.body import RigidBody
from gradsim.physics.rigid.rollout import CONTACT, DRAG, INPUTS, ROLLING, RigidRollout
from gradsim.physics.system import Values

SERIES_LIMIT = 1e-3  # [rad²] |θ|² below which series replace quotients: their next term is below 1e-16 there
SERIES = (1 / 2, -1 / 24, 1 / 720), (1 / 6, -1 / 120, 1 / 5040)  # of (1 − cos θ)/θ² and (θ − sin θ)/θ³ by θ²
Rule = Callable[["_Adjoint"], np.ndarray]
START = {"position": "x", "velocity": "v"}  # parameters of a body that are inputs
WITHOUT_RULES = ("centre_of_mass", "inertia_log_cholesky")  # parameters of a body whose inputs have no closed form


class ClosedRollout:
    """A program (see `engine.operation`) from the parameters that the body reads, then the steps, to its states.

    Args:
        body: The body; see `has_closed_form`.
        bound: Its inputs.
        program: Its rollout.
        names: Parameters of the scene.
    """

    def __init__(self, body: RigidBody, bound: BoundFunction, program: RigidRollout, names: Collection[str]):
        self.program, self.bound, self.body = program, bound, body
        self.rules = {name: rule for name, rule in _rules(body, names).items() if name in names}
        owners = (body.name, "gravity", *body.surfaces)
        self.names = [name for name in names if name.partition(".")[0] in owners]
        self.kernel = type(program).__name__  # in messages
        self.run = operation(self)

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return self.program.shapes(inputs)

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return self.program.forward(self.inner_inputs(inputs))

    def backward(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]):
        return self.backward_by([True] * len(inputs), inputs, outputs, adjoints)

    def backward_by(
        self, needed: Sequence[bool], inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """`backward` by some of the parameters."""
        inner = self.inner_inputs(inputs)
        slopes = self.program.backward(inner, outputs, adjoints)
        names = [name for name, need in zip(self.names, needed, strict=False) if need and name in self.rules]
        gradients = self.gradients(names, self._values(inputs), inner, slopes)
        return [*(gradients.get(name) for name in self.names), slopes[-1]]

    def needs(self, names: Sequence[str]) -> set[int]:
        """Places of the inputs whose adjoints some parameters need: the rollout makes all of them."""
        return set(range(len(INPUTS)))

    def gradients(
        self, names: Sequence[str], values: Values, inputs: Sequence[Tensor], slopes: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """Gradients (worlds, ...) by some parameters that have a rule.

        Args:
            names: Of the parameters.
            values: Numbers of all that the body reads.
            inputs: Inputs of the rollout.
            slopes: Gradients by these.
        """
        arrays = ({name: x.numpy() for name, x in zip(INPUTS, xs, strict=False)} for xs in (inputs, slopes))
        adjoint = _Adjoint(self.body, {name: x.numpy() for name, x in values.items()}, *arrays)
        results = {}
        for name in names:
            x = values[name]
            results[name] = torch.from_numpy(self.rules[name](adjoint).reshape(x.shape)).to(x.dtype)
        return results

    def inner_inputs(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Inputs of the rollout."""
        return [*self.bound(self._values(inputs)), inputs[-1]]

    def _values(self, inputs: Sequence[Tensor]) -> Values:
        return dict(zip(self.names, inputs, strict=False))


def closed_tangents(
    body: RigidBody, values: Values, along: Values, inputs: Sequence[Tensor]
) -> list[Tensor | None] | None:
    """Derivatives of the inputs of a body along one direction in each world; None where one of them has no closed form here.

    Args:
        body: The body; see `has_closed_form`.
        values: All parameters (worlds, ...).
        along: Directions of some of them.
        inputs: Of its rollout at these, without the steps.
    """
    at, slopes = dict(zip(INPUTS, inputs, strict=False)), {}
    columns = {name: (key, ks) for key in CONTACT for name, ks in _contact_columns(body, key, values).items()}

    def add(key: str, slope: Tensor) -> None:
        slopes[key] = slopes[key] + slope if key in slopes else slope

    for name, slope in along.items():
        owner, _, number = name.partition(".")
        if name in columns:
            key, ks = columns[name]
            column = torch.zeros_like(at[key])
            column[:, ks] = slope[:, None]
            add(key, column)
        elif name == "gravity" or (owner == body.name and number in START):
            add(START.get(number, name), slope)
        elif owner == body.name and number == "angular_velocity":
            add("l", body.momentum(at["q"], slope, values))
        elif owner == body.name and number == "mass":
            add("mass", slope)
            if f"{body.name}.inertia" not in values:
                share = slope / at["mass"]
                add("l", at["l"] * share[:, None])
                add("inertia_inverse", -at["inertia_inverse"] * share[:, None, None])
        elif owner == body.name or owner in body.surfaces:
            return None
    return [slopes.get(name) for name in INPUTS if name != "step"]


def has_closed_form(body: RigidBody, names: Collection[str]) -> bool:
    """True if all inputs of a body have a closed form here: not those of obstacles, or of a centre of mass that is a parameter."""
    special = any(f"{body.name}.{key}" in names for key in WITHOUT_RULES)
    return not (special or body.placed or body.obstacles or body.rest.device.type != "cpu")


def _rules(body: RigidBody, names: Collection[str]) -> dict[str, Rule]:
    """The adjoint of each parameter by name, of a scene with all of them."""
    of = lambda key: f"{body.name}.{key}"
    rules: dict[str, Rule] = {
        "gravity": lambda a: a.slopes["gravity"],
        of("position"): lambda a: a.slopes["x"],
        of("velocity"): lambda a: a.slopes["v"],
        of("rotation_vector"): lambda a: a.rotation_vector,
        of("angular_velocity"): lambda a: a.spin,
        of("mass"): lambda a: a.mass,
        of("density"): lambda a: a.mass * body.volume * a.scale**3,
        of("inertia"): lambda a: a.moments,
        of("scale"): lambda a: a.of_scale,
        of(DRAG): lambda a: a.slopes[DRAG],
    }
    for k, push in enumerate(body.body.pushes):
        duration = push.window[1] - push.window[0] if push.force is not None else 1.0
        key = "impulse" if push.force is None else "force"
        rules[of(f"pushes.{k}.{key}")] = partial(_column, "impulse", [k], factor=duration)
    for k, ground in enumerate(body.grounds):
        rules[f"{ground}.normal"] = partial(_normal, ground, k)
        rules[f"{ground}.height"] = rules[f"{ground}.margin"] = partial(_column, "height", [k])
        for key in ROLLING:
            rules[f"{ground}.{key}_friction"] = partial(_column, key, [k])
    for key in CONTACT:
        rules |= {owner: partial(_column, key, ks) for owner, ks in _contact_columns(body, key, names).items()}
    return rules


def _contact_columns(body: RigidBody, key: str, names: Collection[str]) -> dict[str, list[int]]:
    """Columns of a contact number that a parameter is, by its name."""
    number = body.damping_name if key == "damping" else key
    columns: dict[str, list[int]] = {}
    for k, surface in enumerate(body.surfaces):
        owner = body.name if f"{body.name}.{number}" in names else surface
        columns.setdefault(f"{owner}.{number}", []).append(k)
    return columns


class _Adjoint:
    """Adjoints of parameters from those of the inputs, each made at its first use.

    Args:
        body: The body.
        values: Its parameters (worlds, ...) by name.
        inputs: Inputs of its rollout by name.
        slopes: Their adjoints.
    """

    def __init__(
        self,
        body: RigidBody,
        values: dict[str, np.ndarray],
        inputs: dict[str, np.ndarray],
        slopes: dict[str, np.ndarray],
    ):
        self.body, self.values, self.inputs, self.slopes = body, values, inputs, slopes
        self.scale = values[f"{body.name}.scale"]
        self.has_moments = f"{body.name}.inertia" in values

    @cached_property
    def turn(self) -> np.ndarray:
        """R (worlds, 3, 3)."""
        u, w = self.inputs["q"][:, :3], self.inputs["q"][:, 3]
        across = _across(u)
        return np.eye(3, dtype=u.dtype) + 2 * (across @ across + w[:, None, None] * across)

    @cached_property
    def inertia(self) -> np.ndarray:
        """J (worlds, 3, 3)."""
        size = self.scale[:, None, None] ** 2
        if not self.has_moments:
            return self.inputs["mass"][:, None, None] * size * self.body.inertia_per_mass.numpy()
        axes = self.body.principal.numpy()
        return size * (axes * self.values[f"{self.body.name}.inertia"][:, None]) @ axes.T

    @cached_property
    def spin(self) -> np.ndarray:
        """ω̄ (worlds, 3)."""
        return _times(self.turn, _times(self.inertia, _times(self.turn.mT, self.slopes["l"])))

    @cached_property
    def rotation_vector(self) -> np.ndarray:
        """θ̄ (worlds, 3)."""
        q, slope, spin = self.inputs["q"], self.slopes["q"], self.values[f"{self.body.name}.angular_velocity"]
        by_q = slope[:, :3] * q[:, 3:] - q[:, :3] * slope[:, 3:] - _cross(slope[:, :3], q[:, :3])  # of q̄ q*
        by_turn = 0.5 * by_q + _cross(self.inputs["l"], self.slopes["l"]) - _cross(spin, self.spin)
        theta = self.values[f"{self.body.name}.rotation_vector"]
        first, second = jacobian_factors((theta * theta).sum(1, keepdims=True))
        once = _cross(theta, by_turn)
        return by_turn - first * once + second * _cross(theta, once)

    @cached_property
    def by_size(self) -> np.ndarray:
        """L̄·L − K̄:K (worlds,)."""
        inverse, momentum = (self.slopes[name] * self.inputs[name] for name in ("inertia_inverse", "l"))
        return momentum.sum(1) - inverse.sum((1, 2))

    @cached_property
    def mass(self) -> np.ndarray:
        """m̄ (worlds,)."""
        return self.slopes["mass"] + (0 if self.has_moments else self.by_size / self.inputs["mass"])

    @cached_property
    def moments(self) -> np.ndarray:
        """Adjoint of the principal moments (worlds, 3)."""
        axes, name = self.body.principal.numpy(), self.body.name
        square, moments = self.scale[:, None] ** 2, self.values[f"{name}.inertia"]
        local = self.turn @ axes
        slope, spin = (_times(local.mT, x) for x in (self.slopes["l"], self.values[f"{name}.angular_velocity"]))
        inverse = ((axes.T @ self.slopes["inertia_inverse"]) * axes.T).sum(2)
        return square * slope * spin - inverse / (square * moments**2)

    @cached_property
    def of_scale(self) -> np.ndarray:
        """s̄ (worlds,)."""
        points = (self.slopes["points"] * self.body.points.numpy()).sum((1, 2))
        result = points + (self.slopes["radius"] * self.body.radius.numpy()).sum(1) + 2 * self.by_size / self.scale
        if f"{self.body.name}.density" in self.values:
            result = result + 3 * self.mass * self.inputs["mass"] / self.scale
        return result


def _normal(ground: str, k: int, a: _Adjoint) -> np.ndarray:
    """Adjoint of the normal N from that of N/|N|."""
    stated, slope, normal = a.values[f"{ground}.normal"], a.slopes["normal"][:, k], a.inputs["normal"][:, k]
    along = (normal * slope).sum(1, keepdims=True)
    return (slope - normal * along) / np.sqrt((stated * stated).sum(1, keepdims=True))


def _column(name: str, columns: list[int], a: _Adjoint, factor: float = 1.0) -> np.ndarray:
    """Adjoint of a number that some columns of an input are, by a factor."""
    slope = a.slopes[name]
    return factor * (slope[:, columns[0]] if len(columns) == 1 else slope[:, columns].sum(1))


def jacobian_factors(squared: np.ndarray) -> list[np.ndarray]:
    """(1 − cos θ)/θ² and (θ − sin θ)/θ³ from θ²."""
    small = squared < SERIES_LIMIT
    series = [a + squared * (b + squared * c) for a, b, c in SERIES]
    if small.all():
        return series
    safe = np.where(small, 1.0, squared)
    angle = np.sqrt(safe)
    quotients = (1 - np.cos(angle)) / safe, (angle - np.sin(angle)) / (safe * angle)
    return [np.where(small, s, x) for s, x in zip(series, quotients, strict=True)]


def _across(a: np.ndarray) -> np.ndarray:
    """[a]× (worlds, 3, 3)."""
    matrix = np.zeros((len(a), 3, 3), a.dtype)
    matrix[:, 2, 1], matrix[:, 0, 2], matrix[:, 1, 0] = a.T
    return matrix - matrix.mT


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _times(_across(a), b)


def _times(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (matrix @ x[..., None])[..., 0]
