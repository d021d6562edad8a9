"""The look of a body: its colour and material as the scene states them, on the uv of its mesh."""

from typing import Any

import torch

from gradsim.errors import InputError
from gradsim.geometry import image_io
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.surface import Appearance
from gradsim.scene.material import Material


def look_of(node, mesh: Mesh, name: str, smooth: bool, tensor_options: dict[str, Any]) -> Appearance:
    """Appearance of a body or an obstacle.

    Args:
        node: The scene's description of it.
        mesh: Its shape.
        name: Name in messages, such as "bodies.cube".
        smooth: Interpolate normals, unless its material says otherwise.
        tensor_options: `dtype` and `device` of its tensors.

    Raises:
        InputError: If it has a texture, and the mesh no uv.
    """
    material = node.material or Material()
    texture = image_io.read(material.texture) if material.texture else mesh.texture
    if material.texture and mesh.uv is None:
        raise InputError(
            f"{name}.material.texture: the mesh file has no uv coordinates for the texture; export it with uv, "
            "or leave the texture out."
        )
    tensor = lambda array: None if array is None else torch.tensor(array, **tensor_options)
    return Appearance(
        tuple(node.colour),
        tensor(mesh.vertex_colors),
        tensor(mesh.uv),
        None if mesh.uv_faces is None else torch.tensor(mesh.uv_faces, device=tensor_options["device"]),
        tensor(texture),
        smooth if material.smooth is None else material.smooth,
        material.ambient,
        material.diffuse,
        material.specular,
        material.shininess,
    )
