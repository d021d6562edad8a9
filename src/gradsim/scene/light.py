"""Lights of a scene. Colours are RGB of at least 0, and 1 shows a white surface white; they may be brighter."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Tuple, Vector3, vector

BRIGHTNESS = vector("", lower=0.0)


class Ambient(Node):
    """Light from everywhere.

    Attributes:
        colour: What it makes of white.
    """

    kind: Literal["ambient"] = "ambient"
    colour: Annotated[Vector3, BRIGHTNESS] = (0.3, 0.3, 0.3)


class Directional(Node):
    """Parallel light, as of the sun.

    Attributes:
        direction: The way it travels, of any length.
        colour: What it makes of a white matte surface that faces it.
    """

    kind: Literal["directional"] = "directional"
    direction: Annotated[Vector3, vector("")] = Field(description="the way the light travels, such as [1, 1, -2]")
    colour: Annotated[Vector3, BRIGHTNESS] = (0.7, 0.7, 0.7)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not any(self.direction):
            yield ("direction",), "got a direction of length 0; expected the way the light travels, such as [1, 1, -2]."


class Point(Node):
    """Light from one point.

    Attributes:
        position: [m].
        colour: What it makes of a white matte surface that faces it: at any distance, or with `falloff:
            inverse-square` at 1 m.
        falloff: `none` or `inverse-square`.
    """

    kind: Literal["point"] = "point"
    position: Annotated[Vector3, vector("m")] = Field(description="the place [x, y, z] in m")
    colour: Annotated[Vector3, BRIGHTNESS] = (0.7, 0.7, 0.7)
    falloff: Literal["none", "inverse-square"] = "none"


class Harmonics(Node):
    """Light from far around, smooth in direction (Ramamoorthi & Hanrahan, SIGGRAPH 2001).

    Attributes:
        coefficients: Radiance L_lm as rows [r, g, b] in the order L₀₀, L₁₋₁, L₁₀, L₁₁, L₂₋₂, L₂₋₁, L₂₀, L₂₁, L₂₂, for the
            real harmonics of the paper with its axes x, y, z those of the world. A white matte surface shows their
            irradiance over π, eq. 13: light that is c everywhere has L₀₀ = c √(4π), and shows c.
    """

    kind: Literal["harmonics"] = "harmonics"
    coefficients: Annotated[tuple[Vector3, ...], Tuple(vector(""), 9, "rows [r, g, b]")] = Field(
        description="nine rows [r, g, b] of spherical harmonics"
    )


Light = Ambient | Directional | Point | Harmonics
LIGHTS = {"ambient": Ambient, "directional": Directional, "point": Point, "harmonics": Harmonics}
