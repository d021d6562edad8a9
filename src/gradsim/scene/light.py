"""Lights of a scene. Colors are RGB of at least 0, not limited to 1, at which a white surface appears white."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Tuple, Vector3, vector

BRIGHTNESS = vector("", lower=0.0)


class Ambient(Node):
    """Ambient light, equal from all directions.

    Attributes:
        colour: RGB that a white surface shows.
    """

    kind: Literal["ambient"] = "ambient"
    colour: Annotated[Vector3, BRIGHTNESS] = (0.3, 0.3, 0.3)


class Directional(Node):
    """Parallel light, as of the sun.

    Attributes:
        direction: Direction of travel of the light, of any length.
        colour: RGB that a white matte surface facing the light shows.
    """

    kind: Literal["directional"] = "directional"
    direction: Annotated[Vector3, vector("")] = Field(
        description="the direction of travel of the light, such as [1, 1, -2]"
    )
    colour: Annotated[Vector3, BRIGHTNESS] = (0.7, 0.7, 0.7)

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not any(self.direction):
            yield (
                ("direction",),
                "got a direction of length 0; expected the direction of travel of the light, such as [1, 1, -2].",
            )


class Point(Node):
    """Light from one point.

    Attributes:
        position: Position [m].
        colour: RGB that a white matte surface facing the light shows: at any distance, or with `falloff:
            inverse-square` at 1 m.
        falloff: `none` or `inverse-square`.
    """

    kind: Literal["point"] = "point"
    position: Annotated[Vector3, vector("m")] = Field(description="the position [x, y, z] in m")
    colour: Annotated[Vector3, BRIGHTNESS] = (0.7, 0.7, 0.7)
    falloff: Literal["none", "inverse-square"] = "none"


class Harmonics(Node):
    """Distant light as spherical harmonics of degree 2 (Ramamoorthi & Hanrahan, SIGGRAPH 2001).

    Attributes:
        coefficients: Radiance L_lm as rows [r, g, b] in the order L₀₀, L₁₋₁, L₁₀, L₁₁, L₂₋₂, L₂₋₁, L₂₀, L₂₁, L₂₂, for the
            real harmonics of the paper with its axes x, y, z those of the world. A white matte surface shows their
            irradiance over π, eq. 13: uniform light of color c has L₀₀ = c √(4π), and the surface shows c.
    """

    kind: Literal["harmonics"] = "harmonics"
    coefficients: Annotated[tuple[Vector3, ...], Tuple(vector(""), 9, "rows [r, g, b]")] = Field(
        description="nine rows [r, g, b] of spherical harmonics"
    )


Light = Ambient | Directional | Point | Harmonics
LIGHTS = {"ambient": Ambient, "directional": Directional, "point": Point, "harmonics": Harmonics}
