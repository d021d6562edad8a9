"""Meshes with textures and colours of vertices, as files of glTF hold them, for pages in the browser."""

import numpy as np
import trimesh
from trimesh.visual import ColorVisuals, TextureVisuals
from trimesh.visual.material import PBRMaterial

from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Part

GAMMA = 2.2  # glTF takes colours of vertices for linear light, and textures for what is to be shown


def is_painted(part: Part) -> bool:
    """Whether it has more than one colour."""
    look = part.look
    return look.vertex_colours is not None or look.pattern is not None


def painted(vertices: np.ndarray, part: Part) -> trimesh.Trimesh:
    """A mesh that shows the look of a part; each face has corners of its own.

    Args:
        vertices: Of the part (n, 3) [m].
        part: It is painted.
    """
    from PIL.Image import fromarray

    look, faces = part.look, part.faces.numpy()
    plain = trimesh.Trimesh(vertices, faces, process=False)
    normals = plain.vertex_normals[faces].reshape(-1, 3) if look.smooth else plain.face_normals.repeat(3, 0)
    if look.pattern is not None:
        picture = fromarray(to_bytes(look.pattern.texture.detach().numpy().transpose(1, 2, 0)))
        uv = look.pattern.uv.detach().numpy()[look.pattern.faces.numpy()].reshape(-1, 2)
        visual = TextureVisuals(
            uv, material=PBRMaterial(baseColorTexture=picture, metallicFactor=0, roughnessFactor=0.8)
        )
    else:
        own = look.vertex_colours.detach().numpy()  # pyright: ignore[reportOptionalMemberAccess] -- it is painted
        colours = own[faces].reshape(-1, 3)
        visual = ColorVisuals(vertex_colors=to_bytes(colours**GAMMA))
    corners = np.arange(3 * len(faces)).reshape(-1, 3)
    return trimesh.Trimesh(
        vertices[faces].reshape(-1, 3), corners, vertex_normals=normals, visual=visual, process=False
    )
