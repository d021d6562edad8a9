"""Views: triangles in the camera of all images, the input of all rasterizers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, replay
from gradsim.engine.operation import may_be_differentiated
from gradsim.errors import InputError
from gradsim.geometry.index_tables import memory_key, table_bytes
from gradsim.geometry.surface import Part, Surface
from gradsim.render.coverage.edges import MESHES, is_closed
from gradsim.render.silhouettes import Projection, Silhouettes

if TYPE_CHECKING:
    from gradsim.render import view_kernels
else:
    view_kernels = "gradsim.render.view_kernels"

MAX_PIXELS = 2**31 // 3  # pixels of all images: kernels count RGB in 32 bits
NEAR_DEPTH = 1e-3  # [m] default distance of the near plane


@dataclass(frozen=True, eq=False)
class View:
    """Triangles of a surface in homogeneous pixels of a camera.

    Args:
        points: World positions (images, n, 3) [m]; images are the frames of all worlds, one after another.
        projection: Map to homogeneous pixels of each world.
        faces: Triangles (m, 3), int32, of all parts.
        parts: Parts of the surface.
        height: Rows of the image.
        width: Columns of the image.
        near: Distance of the near plane [m].
        shape: Numbers of worlds and frames.
    """

    points: Tensor
    projection: Projection
    faces: Tensor
    parts: tuple[Part, ...]
    height: int
    width: int
    near: float
    shape: tuple[int, int]

    @classmethod
    def of(
        cls,
        surface: Surface,
        camera: Silhouettes,
        values: Mapping[str, Tensor] | None = None,
        samples: int = 1,
        near: float = NEAR_DEPTH,
    ) -> "View":
        """View of a surface.

        Args:
            surface: Vertices (worlds, frames, n, 3) [m]; one world if cameras differ between several.
            camera: Camera, and prefix of its parameters.
            values: Camera parameters by name, see `Silhouettes`.
            samples: Rows and columns of samples per pixel; multiplies the size of the image.
            near: Distance of the near plane [m].

        Raises:
            InputError: If `surface` is not a Surface, or there are too many pixels for one call.
        """
        if not isinstance(surface, Surface):
            raise InputError(
                f"got a {type(surface).__name__}; expected a Surface, such as Surface.of(vertices, faces)."
            )
        points = surface.vertices
        projection = camera.projection(points, values or {}, samples)
        worlds = max(len(points), len(projection.M), len(projection.c))
        if len(points) == 1 < worlds:
            points = points.expand(worlds, -1, -1, -1)  # one world before the cameras of several
        lens = camera.camera
        images, pixels = points.shape[0] * points.shape[1], lens.height * lens.width * samples**2
        if images * pixels >= MAX_PIXELS:
            raise InputError(
                f"{images} images of {pixels} pixels or samples are {images * pixels:.3g}; draw at most {MAX_PIXELS - 1} in one "
                "call: some frames or worlds at a time."
            )
        return cls(
            points.flatten(0, 1),
            projection,
            _faces(surface.parts, points.device),
            surface.parts,
            lens.height * samples,
            lens.width * samples,
            near,
            (points.shape[0], points.shape[1]),
        )

    @cached_property
    def clip(self) -> Tensor:
        """Homogeneous pixels K (R x + t) = (u z, v z, z) of the vertices (images, n, 3).

        Raises:
            InputError: If a vertex is not finite.
        """
        _check(self)
        return self.projection.clip(self.points.unflatten(0, self.shape)).flatten(0, 1)

    def plain_inputs(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Points (images, n, 3), and matrices and offsets of worlds, that operations of one launch on a CPU project; else None.

        Where a derivative by the camera may be taken PyTorch projects, and the points are `clip`.
        """
        points, matrices, offsets = self.points, self.projection.M, self.projection.c
        if points.device.type != "cpu" or torch.compiler.is_compiling() or not len(points):
            return None
        if any(map(is_functorch_wrapped_tensor, (points, matrices, offsets))):
            return None
        if may_be_differentiated(matrices, offsets):
            return self.clip, *_identity()
        return points, matrices, offsets

    @cached_property
    def eye(self) -> Tensor:
        """Position of the camera (images or 1, 3) [m]."""
        eye = self.projection.eye
        return eye.repeat_interleave(self.shape[1], 0) if len(eye) > 1 else eye

    @cached_property
    def part_of(self) -> Tensor:
        """Number of the part that each face belongs to (m,), int64."""
        return _owners(tuple(len(p.faces) for p in self.parts)).to(self.faces.device)

    @cached_property
    def screen(self) -> Tensor:
        """Pixels and depth (u, v, z) of the vertices (images, n, 3); meaningless where z ≤ 0."""
        depth = self.clip[..., 2:]
        safe = torch.where(depth > 0, depth, 1.0)
        return torch.cat([self.clip[..., :2] / safe, depth], -1)

    @property
    def pixels(self) -> Tensor:
        """Pixels (u, v) of the vertices (images, n, 2), of a view with all of them before the camera."""
        return self.clip[..., :2] / self.clip[..., 2:]

    @cached_property
    def is_front(self) -> Tensor:
        """True where a face shows its outer side (images, m)."""
        clip = self.clip.detach()
        if is_functorch_wrapped_tensor(clip):
            a, b, c = clip.double()[:, self.faces.long()].unbind(2)  # the products cancel
            # seen from outside, corners run counter-clockwise to the eye, and y points down
            return (a * torch.linalg.cross(b, c)).sum(-1) < 0
        code = _code(clip.dtype)
        front = torch.empty(len(clip), len(self.faces), dtype=torch.bool, device=clip.device)
        arguments = [array(code.Corner, clip), array(wp.vec3i, self.faces), array(wp.bool, front)]
        replay(code.show_sides, front.numel(), arguments, str(clip.device))
        return front

    @cached_property
    def is_solid(self) -> bool:
        """True if all parts are closed with outward faces, and the camera is certainly outside."""
        if not len(self.points) or self.reaches_behind or not all(is_closed(p.faces) for p in self.parts):
            return False
        points = self.points.detach()
        volumes = torch.zeros(len(self.parts), dtype=torch.float64, device=points.device)  # in one image, so in all
        if is_functorch_wrapped_tensor(points):
            a, b, c = points[0].double()[self.faces.long()].unbind(1)
            volume = ((a - a[:1]) * torch.linalg.cross(b - a[:1], c - a[:1])).sum(-1)
            return bool((volumes.index_add(0, self.part_of, volume) > 0).all())
        code = _code(points.dtype)
        mesh = array(wp.vec3i, self.faces), array(wp.int32, self.part_of.int())
        arguments = [array(code.Corner, points), *mesh, array(wp.float64, volumes)]
        replay(code.add_volumes, len(self.faces), arguments, str(points.device))
        return bool((volumes > 0).all())

    @cached_property
    def reaches_behind(self) -> bool:
        """True if a vertex of any image is nearer than the near plane."""
        depth = self.clip.detach()[..., 2]
        return bool(depth.numel()) and depth.amin().item() < self.near


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(view_kernels, lane_of(dtype))


_meshes: dict[tuple, tuple[list[bytes | None], Tensor]] = {}


def _faces(parts: tuple[Part, ...], device: torch.device) -> Tensor:
    """Triangles (m, 3) of all parts, int32; the same tensor as long as the parts have the same tables."""
    key = device, *((memory_key(p.faces), p.vertices.start) for p in parts)
    entries = [table_bytes(p.faces) for p in parts]
    known = _meshes.get(key)
    if known is None or known[0] != entries:
        while len(_meshes) >= MESHES:
            _meshes.pop(next(iter(_meshes)), None)
        faces = torch.cat([p.faces + p.vertices.start for p in parts]).to(device, torch.int32)
        known = _meshes[key] = entries, faces
    return known[1]


@cache
def _identity() -> tuple[Tensor, Tensor]:
    return torch.eye(3, dtype=torch.float64)[None], torch.zeros(1, 3, dtype=torch.float64)


@cache
def _owners(sizes: tuple[int, ...]) -> Tensor:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def _check(view: View) -> None:
    # a sum is not finite if one of its terms is not
    if math.isfinite(view.points.detach().sum().item()):
        return
    finite = torch.isfinite(view.points).all(-1)
    if bool(finite.all()):
        return
    image, vertex = (~finite).nonzero()[0].tolist()
    world, frame = divmod(image, view.shape[1])
    (part,) = [p for p in view.parts if p.vertices.start <= vertex < p.vertices.stop]
    got = view.points[image, vertex].tolist()
    raise InputError(
        f"vertex {vertex - part.vertices.start} of `{part.name}` is {got} in world {world}, frame {frame}; only finite "
        "positions can be drawn: shorten the clip, or take smaller steps."
    )
