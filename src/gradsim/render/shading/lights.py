"""Lights. Colors are RGB, may exceed 1, and are the color of a white Lambertian surface that faces the light.

All numbers may be tensors that require gradients. Shapes are checked at construction, and so are finite numbers, colors of
at least 0 and nonzero directions unless they are tensors, which an optimizer may move anywhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from gradsim.errors import InputError

Numbers: TypeAlias = Tensor | Sequence[float]

WHITE = (1.0, 1.0, 1.0)
FALLOFFS = ("none", "inverse-square")
BANDS = (1.0, *3 * (2 / 3,), *5 * (0.25,))  # transfer of a Lambertian surface for each harmonic, over π


@dataclass(frozen=True, eq=False)
class Ambient:
    """Uniform light from all directions.

    Args:
        colour: RGB.
    """

    colour: Numbers = WHITE

    def __post_init__(self):
        _check(self, colour=self.colour)

    def around(self, normals: Tensor) -> Tensor:
        """Irradiance over π at normals (..., 3), RGB (..., 3)."""
        return _like(self.colour, normals).expand_as(normals)


@dataclass(frozen=True, eq=False)
class Harmonics:
    """Distant light in spherical harmonics up to order 2.

    The irradiance over π of a Lambertian surface (Ramamoorthi & Hanrahan 2001, Eq. 12): Σ A_l L_lm Y_lm(n) / π with real
    harmonics Y_00, Y_1−1 (∝ y), Y_10 (∝ z), Y_11 (∝ x), Y_2−2 (xy), Y_2−1 (yz), Y_20 (3z² − 1), Y_21 (xz), Y_22 (x² − y²).

    Args:
        coefficients: L_lm of the radiance (9, 3); (√(4π), 0, …) is `Ambient` of color 1.
    """

    coefficients: Tensor

    def __post_init__(self):
        if tuple(torch.as_tensor(self.coefficients).shape) != (9, 3):
            got = tuple(torch.as_tensor(self.coefficients).shape)
            raise InputError(f"coefficients of a Harmonics light have shape {got}; expected (9, 3): nine rows of RGB.")

    def around(self, normals: Tensor) -> Tensor:
        """Irradiance over π at normals (..., 3), RGB (..., 3), at least 0."""
        L = _like(self.coefficients, normals)
        return (harmonics(normals) * normals.new_tensor(BANDS) @ L).clamp_min(0.0)


@dataclass(frozen=True, eq=False)
class Directional:
    """Directional light.

    Args:
        direction: Direction of travel, of any length.
        colour: RGB.
    """

    direction: Numbers
    colour: Numbers = WHITE

    def __post_init__(self):
        _check(self, direction=self.direction, colour=self.colour)
        if not isinstance(self.direction, Tensor) and not any(self.direction):
            raise InputError(
                "direction of a Directional light has length 0; give the way it travels, such as (1, 1, -2)."
            )

    def arriving(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors to the light (..., 3), and its color, at points (..., 3) [m]."""
        return unit(-_like(self.direction, points)).expand_as(points), _like(self.colour, points)


@dataclass(frozen=True, eq=False)
class Point:
    """Point light.

    Args:
        position: Position [m].
        colour: RGB, at 1 m with falloff.
        falloff: "none", or "inverse-square" in the distance [m].
    """

    position: Numbers
    colour: Numbers = WHITE
    falloff: Literal["none", "inverse-square"] = "none"

    def __post_init__(self):
        _check(self, position=self.position, colour=self.colour)
        if self.falloff not in FALLOFFS:
            raise InputError(f"falloff of a Point light is {self.falloff!r}; use one of {', '.join(FALLOFFS)}.")

    def arriving(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors to the light (..., 3), and its color, at points (..., 3) [m]."""
        way, colour = _like(self.position, points) - points, _like(self.colour, points)
        if self.falloff == "inverse-square":
            colour = colour / (way.square().sum(-1, keepdim=True) + torch.finfo(way.dtype).tiny)
        return unit(way), colour


Light: TypeAlias = Ambient | Directional | Point | Harmonics


KINDS: dict[str, type[Light]] = {"ambient": Ambient, "directional": Directional, "point": Point, "harmonics": Harmonics}


def from_scene(spec) -> Light:
    """Light from a scene node (`gradsim.scene.light`)."""
    fields_of_node = {name: value for name, value in spec.model_dump().items() if name != "kind"}
    return KINDS[spec.kind](**fields_of_node)


def of_image(lamp: Light, image: Tensor) -> Light:
    """Select numbers by image (images, 3) for image indices (...): (..., 3)."""
    if isinstance(lamp, Harmonics):
        return lamp
    by_image = {f.name: getattr(lamp, f.name) for f in fields(lamp) if getattr(getattr(lamp, f.name), "ndim", 1) == 2}
    return replace(lamp, **{name: x[image] for name, x in by_image.items()}) if by_image else lamp


def harmonics(n: Tensor) -> Tensor:
    """The nine real spherical harmonics up to order 2 at unit vectors (..., 3), in the order of `Harmonics`."""
    x, y, z = n.unbind(-1)
    one = torch.ones_like(x)
    terms = (one, y, z, x, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y)
    scale = (0.28209479177387814, *3 * (0.4886025119029199,), *2 * (1.0925484305920792,), 0.31539156525252005)
    return torch.stack(terms, -1) * n.new_tensor([*scale, 1.0925484305920792, 0.5462742152960396])


def unit(v: Tensor) -> Tensor:
    """Normalize vectors (..., 3); zero vectors, and those whose square underflows, become 0 with derivative 0.

    `torch.nn.functional.normalize` has a derivative of 1e12 at 0, and wrong lengths below 1e-12.
    """
    largest = v.detach().abs().amax(-1, keepdim=True)
    usable = largest > torch.finfo(v.dtype).tiny ** 0.5
    scaled = torch.where(usable, v, 1.0) / torch.where(usable, largest, 1.0)  # squares neither vanish nor overflow
    return torch.where(usable, scaled * scaled.square().sum(-1, keepdim=True).rsqrt(), 0.0)


def _check(light: "Light", **numbers: Numbers) -> None:
    for name, value in numbers.items():
        what = f"{name} of {type(light).__name__}"
        if isinstance(value, Tensor):
            if value.shape[-1:] != (3,) or not value.is_floating_point():
                raise InputError(f"{what} has shape {tuple(value.shape)} and {value.dtype}; expected floats (3).")
            continue
        if not hasattr(value, "__len__") or len(value) != 3 or not all(_is_number(x) for x in value):
            raise InputError(f"{what} is {value!r}; expected three finite numbers, or one tensor of them.")
        if name == "colour" and min(value) < 0:
            raise InputError(f"{what} is {value!r}; expected red, green and blue of at least 0.")


def _is_number(x) -> bool:
    return isinstance(x, Real) and math.isfinite(x)


def _like(numbers: Numbers, points: Tensor) -> Tensor:
    return torch.as_tensor(numbers, dtype=points.dtype, device=points.device)
