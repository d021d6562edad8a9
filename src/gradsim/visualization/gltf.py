"""Meshes with textures or vertex colors for glTF, which browsers display."""

from typing import TYPE_CHECKING

import numpy as np

from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Part

if TYPE_CHECKING:
    import trimesh

GAMMA = 2.2  # glTF expects linear vertex colors, but sRGB textures


def is_painted(part: Part) -> bool:
    """True if a part has a texture or vertex colors."""
    look = part.appearance
    return look.vertex_colors is not None or look.pattern is not None


def painted(vertices: np.ndarray, part: Part) -> "trimesh.Trimesh":
    """Mesh with the appearance of a part; corners are not shared between faces.

    Args:
        vertices: Vertices of the part (n, 3) [m].
        part: The part, with texture or vertex colors.
    """
    import trimesh  # which takes half a second, and few parts are painted
    from PIL.Image import fromarray
    from trimesh.visual import ColorVisuals, TextureVisuals
    from trimesh.visual.material import PBRMaterial

    look, faces = part.appearance, part.faces.numpy()
    plain = trimesh.Trimesh(vertices, faces, process=False)
    normals = plain.vertex_normals[faces].reshape(-1, 3) if look.smooth else plain.face_normals.repeat(3, 0)
    if look.pattern is not None:
        image = fromarray(to_bytes(look.pattern.texture.detach().numpy().transpose(1, 2, 0)))
        uv = look.pattern.uv.detach().numpy()[look.pattern.faces.numpy()].reshape(-1, 2)
        visual = TextureVisuals(uv, material=PBRMaterial(baseColorTexture=image, metallicFactor=0, roughnessFactor=0.8))
    else:
        by_vertex = look.vertex_colors.detach().numpy()  # pyright: ignore[reportOptionalMemberAccess] -- it is painted
        colors = by_vertex[faces].reshape(-1, 3)
        visual = ColorVisuals(vertex_colors=to_bytes(colors**GAMMA))
    corners = np.arange(3 * len(faces)).reshape(-1, 3)
    return trimesh.Trimesh(
        vertices[faces].reshape(-1, 3), corners, vertex_normals=normals, visual=visual, process=False
    )
