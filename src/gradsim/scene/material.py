"""What bodies, obstacles and grounds look like."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gradsim.geometry import image_io
from gradsim.scene.node import Node
from gradsim.scene.quantity import Quantity, Vector3, positive, vector
from gradsim.scene.yaml_io import FilePath

COLOUR = vector("", lower=0.0, upper=1.0)
PART = Quantity("", lower=0.0, upper=1.0)
TEXTURE = FilePath("a picture", image_io.FORMATS)


class Material(Node):
    """How a surface answers light.

    Its own colour (albedo) is that of `texture`, else of the texture or vertex colours of its mesh file, else `colour`.
    Where the picture lies on each shape is said in `gradsim.geometry.uv`; mesh files bring their own uv.

    Attributes:
        texture: A png or jpg.
        ambient: Part of the ambient light that it reflects.
        diffuse: Part of the other light that it scatters evenly.
        specular: Strength of highlights, in the colour of the light.
        shininess: How sharp they are: the exponent of Phong's law.
        smooth: Whether it is shaded as if round, or facet by facet. By default round where no edge of the mesh is
            sharper than 40°: balls, capsules and rings, but not cylinders.
    """

    texture: Annotated[Path | None, TEXTURE] = None
    ambient: Annotated[float, PART] = 1.0
    diffuse: Annotated[float, PART] = 1.0
    specular: Annotated[float, PART] = 0.0
    shininess: Annotated[float, positive("")] = 32.0
    smooth: bool | None = None


class Visible(Node):
    """A square of a ground that pictures show; masks and fits take no notice of it.

    Attributes:
        size: Edge length [m].
        centre: It lies around the point of the plane that is nearest to this one [m].
        colour: Red, green and blue, where it has no texture.
        texture: A png or jpg. Seen from in front, x is to the right on a floor, and z is up on a wall.
        repeat: How many times the texture stands along each edge.
    """

    size: Annotated[float, positive("m")] = Field(description="the edge length in m")
    centre: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    colour: Annotated[Vector3, COLOUR] = (0.7, 0.7, 0.68)
    texture: Annotated[Path | None, TEXTURE] = None
    repeat: Annotated[float, positive("")] = 1.0
