"""Materials of bodies and obstacles, and the rendered part of grounds."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gradsim.geometry import image_io
from gradsim.scene.node import Node
from gradsim.scene.quantity import Quantity, Vector3, positive, vector
from gradsim.scene.yaml_io import FilePath

COLOR = vector("", lower=0.0, upper=1.0)
FRACTION = Quantity("", lower=0.0, upper=1.0)
TEXTURE = FilePath("an image", image_io.FORMATS)


class Material(Node):
    """Texture and reflectance of a surface.

    The albedo is that of `texture`, else of the texture or vertex colors of the mesh file, else `colour`. Texture
    coordinates of the shapes are in `gradsim.geometry.uv`; mesh files have their own.

    Attributes:
        texture: Path of a png or jpg.
        ambient: Fraction of the ambient light that is reflected.
        diffuse: Fraction of the other light that is scattered diffusely.
        specular: Strength of highlights, in the color of the light.
        shininess: Exponent of Phong's law.
        smooth: True: smooth shading; false: flat shading. By default smooth if no edge of the mesh is sharper than
            40°: balls, capsules and tori, but not cylinders.
    """

    texture: Annotated[Path | None, TEXTURE] = None
    ambient: Annotated[float, FRACTION] = 1.0
    diffuse: Annotated[float, FRACTION] = 1.0
    specular: Annotated[float, FRACTION] = 0.0
    shininess: Annotated[float, positive("")] = 32.0
    smooth: bool | None = None


class Visible(Node):
    """Rendered square of a ground, ignored by masks and fits.

    Attributes:
        size: Edge length [m].
        centre: Center of the square, projected onto the plane [m].
        colour: RGB, without a texture.
        texture: Path of a png or jpg. Viewed from the front, x is to the right on a floor, and z is up on a wall.
        repeat: Repetitions of the texture along each edge.
    """

    size: Annotated[float, positive("m")] = Field(description="the edge length in m")
    centre: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    colour: Annotated[Vector3, COLOR] = (0.7, 0.7, 0.68)
    texture: Annotated[Path | None, TEXTURE] = None
    repeat: Annotated[float, positive("")] = 1.0
