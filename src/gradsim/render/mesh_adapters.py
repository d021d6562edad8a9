"""Surfaces as the batches of triangles that PyTorch3D, Kaolin, Mitsuba and nvdiffrast take.

Worlds and frames become one dimension, item = world · frames + frame. Triangles are counter-clockwise from outside in
all of them, as here.
"""

from typing import Any

import torch
from torch import Tensor

from gradsim.geometry.surface import Part, Surface
from gradsim.render.adapters import to_nvdiffrast
from gradsim.render.camera import Camera


def faces_of(surface: Surface) -> Tensor:
    """Triangles (m, 3) of all parts, counted over all vertices of the surface."""
    return torch.cat([part.faces + part.vertices.start for part in surface.parts])


def padded(surface: Surface) -> dict[str, Tensor]:
    """Keyword arguments of `pytorch3d.structures.Meshes`; also Kaolin's batched vertices and faces.

    Returns:
        verts (items, n, 3), differentiable, and faces (items, m, 3) int64. All items have the same size, so nothing is
        padded. Kaolin's functions take the first row of `faces`, which all items share.
    """
    verts, faces = surface.vertices.flatten(0, 1), faces_of(surface)
    return {"verts": verts, "faces": faces.expand(len(verts), *faces.shape)}


def packed(surface: Surface) -> dict[str, Tensor]:
    """One long mesh, as Kaolin and PyTorch3D pack batches.

    Returns:
        vertices (items · n, 3), differentiable; faces (items · m, 3) int64 that count over all of them; first_vertex and
        first_face (items + 1), where each item begins.
    """
    verts, faces = surface.vertices.flatten(0, 1), faces_of(surface)
    items, n = verts.shape[:2]
    begin = torch.arange(items + 1, device=faces.device)
    every = faces + n * begin[:-1, None, None]
    both = {"first_vertex": n * begin, "first_face": len(faces) * begin}
    return {"vertices": verts.flatten(0, 1), "faces": every.flatten(0, 1), **both}


def clipped(surface: Surface, camera: Camera, near: float = 0.01, far: float = 100.0) -> dict[str, Tensor]:
    """`pos` and `tri` of `nvdiffrast.torch.rasterize` in instanced mode.

    Returns:
        pos (items, n, 4) in clip space, float32, differentiable; tri (m, 3) int32. See `to_nvdiffrast` for the rows of
        the image.

    Raises:
        InputError: If not 0 < near < far.
    """
    matrix = to_nvdiffrast(camera, near, far).to(surface.vertices)
    points = torch.nn.functional.pad(surface.vertices.flatten(0, 1), (0, 1), value=1.0)
    return {"pos": (points @ matrix.T).float(), "tri": faces_of(surface).int()}


def flat(surface: Surface, part: Part, world: int = 0, frame: int = 0) -> dict[str, Any]:
    """One part in one frame as the buffers of a Mitsuba mesh.

    Returns:
        vertex_count, face_count, vertex_positions (3n) and faces (3m), flat; write them into `mi.traverse(mesh)` of
        `mi.Mesh(part.name, vertex_count, face_count)`.
    """
    vertices = surface.vertices[world, frame, part.vertices].detach()
    counts = {"vertex_count": len(vertices), "face_count": len(part.faces)}
    return {**counts, "vertex_positions": vertices.flatten().float(), "faces": part.faces.flatten().int()}
