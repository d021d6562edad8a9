"""Cameras and surfaces in the conventions of PyTorch3D, Kaolin, Mitsuba and nvdiffrast; none has to be installed.

| | camera axes | where the image begins | lens |
|---|---|---|---|
| gradsim, OpenCV | x right, y down, z forward | row 0 on top | f, c in px from the top left corner |
| PyTorch3D | x left, y up, z forward; x_c = x R + T | row 0 on top | f, c in px from the top left corner |
| Kaolin | x right, y up, z backward | y up in NDC | f in px; x0 = c_x − W/2, y0 = H/2 − c_y |
| Mitsuba | x left, y up, z forward | row 0 on top | angle across the width; offsets ½ − c_x/W, ½ − c_y/H |
| nvdiffrast | clip space of OpenGL | row 0 at the bottom | in the matrix |

Cameras convert both ways. Surfaces become batches of triangles: worlds and frames are one dimension, item = world · frames +
frame. Triangles are counter-clockwise from outside in all of these libraries, as here.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Part, Surface
from gradsim.render.camera import Camera, from_opengl, from_pytorch3d

SQUARE = 1e-9  # relative difference of the focal lengths from which pixels are not square


def to_pytorch3d(cameras: Camera | Sequence[Camera]) -> dict[str, Any]:
    """Keyword arguments of `pytorch3d.renderer.PerspectiveCameras` for one camera or a batch.

    Returns:
        R (N, 3, 3), T (N, 3), focal_length (N, 2) [px], principal_point (N, 2) [px], image_size (N, 2) as (height,
        width), in_ndc False; float32.

    Raises:
        InputError: If a lens has skew.
    """
    batch = [cameras] if isinstance(cameras, Camera) else list(cameras)
    for camera in batch:
        _without_skew(camera, "PyTorch3D")
    columns = [torch.stack(c).float() for c in zip(*(camera.to_pytorch3d() for camera in batch), strict=True)]
    named = dict(zip(("R", "T", "focal_length", "principal_point"), columns, strict=True))
    return {**named, "image_size": torch.tensor([(c.height, c.width) for c in batch]), "in_ndc": False}


def to_kaolin(camera: Camera) -> dict[str, Any]:
    """Keyword arguments of `kaolin.render.camera.Camera.from_args`.

    Returns:
        view_matrix (4, 4) world → camera, float64; focal_x, focal_y, x0, y0 [px]; width, height.

    Raises:
        InputError: If the lens has skew.
    """
    _without_skew(camera, "Kaolin")
    (fx, fy), (cx, cy) = camera.K.diagonal()[:2].tolist(), camera.K[:2, 2].tolist()
    lens = {"focal_x": fx, "focal_y": fy, "x0": cx - camera.width / 2, "y0": camera.height / 2 - cy}
    return {"view_matrix": camera.to_opengl().inverse(), **lens, "width": camera.width, "height": camera.height}


def from_kaolin(
    view_matrix: Tensor,
    focal_x: float,
    width: int,
    height: int,
    focal_y: float | None = None,
    x0: float = 0.0,
    y0: float = 0.0,
) -> Camera:
    """Camera from Kaolin: `extrinsics.view_matrix()` and the pinhole parameters.

    Args:
        view_matrix: World → camera (4, 4) or (1, 4, 4).
        focal_x: [px].
        width: Width of the image [px].
        height: Height of the image [px].
        focal_y: [px]; `focal_x` by default.
        x0: Principal point, to the right of the middle [px].
        y0: Principal point, above the middle [px].

    Raises:
        InputError: If the matrix has another shape or is not rigid.
    """
    view = torch.as_tensor(view_matrix, dtype=torch.float64).squeeze(0)
    if view.shape != (4, 4):
        raise InputError(f"Kaolin view matrix has shape {tuple(view.shape)}; it needs (4, 4): one camera at a time.")
    K = torch.tensor([[focal_x, 0, width / 2 + x0], [0, focal_y or focal_x, height / 2 - y0], [0, 0, 1]])
    return from_opengl(view.inverse(), K, width, height)


def to_mitsuba(camera: Camera) -> dict[str, Any]:
    """`perspective` sensor for `mitsuba.load_dict`, without its film and sampler.

    `to_world` is a (4, 4) nested list: wrap it as `mi.ScalarTransform4f(to_world)`, and give the film the width and
    height of the camera.

    Raises:
        InputError: If the lens has skew or pixels that are not square, which Mitsuba's sensor cannot have.
    """
    _without_skew(camera, "Mitsuba")
    (fx, fy), (cx, cy) = camera.K.diagonal()[:2].tolist(), camera.K[:2, 2].tolist()
    if abs(fx / fy - 1) > SQUARE:
        raise InputError(f"camera has focal lengths {fx:g} and {fy:g} px; Mitsuba's perspective sensor needs one.")
    pose = torch.eye(4, dtype=torch.float64)
    pose[:3, :3] = camera.R.T * torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)
    pose[:3, 3] = camera.centre
    return {
        "type": "perspective",
        "to_world": pose.tolist(),
        "fov_axis": "x",
        "fov": math.degrees(2 * math.atan(camera.width / (2 * fx))),
        "principal_point_offset_x": 0.5 - cx / camera.width,
        "principal_point_offset_y": 0.5 - cy / camera.height,
    }


def from_mitsuba(
    to_world: Any,
    fov: float,
    width: int,
    height: int,
    fov_axis: str = "x",
    principal_point_offset_x: float = 0.0,
    principal_point_offset_y: float = 0.0,
) -> Camera:
    """Camera from the parameters of a Mitsuba `perspective` sensor; arguments have Mitsuba's names and defaults.

    Args:
        to_world: Camera → world (4, 4).
        fov: Field of view [deg], as in Mitsuba.
        width: Width of the film [px].
        height: Height of the film [px].
        fov_axis: "x", "y", "diagonal", "smaller" or "larger".
        principal_point_offset_x: Offset in widths of the film.
        principal_point_offset_y: Offset in heights of the film.

    Raises:
        InputError: If the axis is unknown or the pose is not rigid.
    """
    spans = {
        "x": width,
        "y": height,
        "diagonal": math.hypot(width, height),
        "smaller": min(width, height),
        "larger": max(width, height),
    }
    if fov_axis not in spans:
        raise InputError(f"fov_axis is {fov_axis!r}; Mitsuba has {', '.join(spans)}.")
    pose = torch.as_tensor(to_world, dtype=torch.float64)
    focal = torch.tensor(spans[fov_axis] / (2 * math.tan(math.radians(fov) / 2)), dtype=torch.float64)
    centre = (0.5 - principal_point_offset_x) * width, (0.5 - principal_point_offset_y) * height
    R = pose[:3, :3]  # its columns are Mitsuba's axes, which are PyTorch3D's
    return from_pytorch3d(R, -pose[:3, 3] @ R, focal, torch.tensor(centre, dtype=torch.float64), width, height)


def to_nvdiffrast(camera: Camera, near: float = 0.01, far: float = 100.0) -> Tensor:
    """Matrix (4, 4) from world points to clip space, for `nvdiffrast.torch.rasterize`; float64.

        clip = M (x, 1),   u = W/2 (1 + clip_x / clip_w),   v = H/2 (1 − clip_y / clip_w)

    nvdiffrast puts row 0 of its images at the bottom: `image.flip(1)` has row 0 on top, as ours. Skew is kept.

    Args:
        camera: The camera.
        near, far: Depths that become −1 and 1 [m].

    Raises:
        InputError: If not 0 < near < far.
    """
    if not 0 < near < far:
        raise InputError(f"near {near} and far {far}; clipping planes need 0 < near < far [m].")
    K = camera.K
    depth = K.new_tensor([0.0, 0.0, 1.0])
    lens = K.new_zeros(4, 4)
    lens[0, :3] = 2 / camera.width * K[0] - depth
    lens[1, :3] = depth - 2 / camera.height * K[1]
    lens[2, 2:] = K.new_tensor([far + near, -2 * far * near]) / (far - near)
    lens[3, 2] = 1
    view = torch.eye(4, dtype=torch.float64)
    view[:3, :3], view[:3, 3] = camera.R, camera.t
    return lens @ view


def from_nvdiffrast(matrix: Tensor, width: int, height: int) -> Camera:
    """Camera from a matrix (4, 4) world → clip space: the inverse of `to_nvdiffrast`, by an RQ decomposition.

    Raises:
        InputError: If the matrix is not that of a perspective camera and its rigid pose.
    """
    from scipy.linalg import rq

    M = torch.as_tensor(matrix, dtype=torch.float64)
    if M.shape != (4, 4) or not bool(M[3, :3].any()):
        raise InputError(f"the matrix to clip space is {M.tolist()}; it needs shape (4, 4) and a perspective last row.")
    pixels = torch.stack([(M[0] + M[3]) * width / 2, (M[3] - M[1]) * height / 2, M[3]])  # K (R t), but for a factor
    K, R = (torch.tensor(a) for a in rq(pixels[:, :3].numpy()))
    signs = K.diagonal().sign()
    K, R = K * signs, signs[:, None] * R
    if torch.linalg.det(R) < 0:
        raise InputError("the matrix to clip space mirrors the world; take the mirroring out of it.")
    t = torch.linalg.solve(K, pixels[:, 3])
    K = K / K[2, 2]
    K[1, 0], K[2] = 0, K.new_tensor([0.0, 0.0, 1.0])
    return Camera(K, R, t, width, height)


def _without_skew(camera: Camera, where: str) -> None:
    if camera.K[0, 1] != 0:
        raise InputError(f"camera has skew {camera.K[0, 1]:g} px, which {where} does not support; remove it from K.")


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
    """Packed batch: one long mesh, as in Kaolin and PyTorch3D.

    Returns:
        vertices (items · n, 3), differentiable; faces (items · m, 3) int64 that count over all of them; first_vertex and
        first_face (items + 1), where each item begins.
    """
    verts, faces = surface.vertices.flatten(0, 1), faces_of(surface)
    items, n = verts.shape[:2]
    begin = torch.arange(items + 1, device=faces.device)
    offset_faces = faces + n * begin[:-1, None, None]
    both = {"first_vertex": n * begin, "first_face": len(faces) * begin}
    return {"vertices": verts.flatten(0, 1), "faces": offset_faces.flatten(0, 1), **both}


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
    """Buffers of a Mitsuba mesh for one part in one frame.

    Returns:
        vertex_count, face_count, vertex_positions (3n) and faces (3m), flat; write them into `mi.traverse(mesh)` of
        `mi.Mesh(part.name, vertex_count, face_count)`.
    """
    vertices = surface.vertices[world, frame, part.vertices].detach()
    counts = {"vertex_count": len(vertices), "face_count": len(part.faces)}
    return {**counts, "vertex_positions": vertices.flatten().float(), "faces": part.faces.flatten().int()}
