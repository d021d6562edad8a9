"""Views: triangles in the camera of all images, the input of all rasterizers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Part, Surface
from gradsim.render.coverage.edges import is_closed
from gradsim.render.silhouettes import Silhouettes

MAX_PIXELS = 2**31 // 3  # pixels of all images: kernels count RGB in 32 bits
NEAR_DEPTH = 1e-3  # [m] default distance of the near plane


@dataclass(frozen=True, eq=False)
class View:
    """Triangles of a surface in homogeneous pixels of a camera.

    Args:
        points: World positions (images, n, 3) [m]; images are the frames of all worlds, one after another.
        clip: Homogeneous pixels K (R x + t) = (u z, v z, z), (images, n, 3).
        eye: Position of the camera (images or 1, 3) [m].
        faces: Triangles (m, 3), int32, of all parts.
        parts: Parts of the surface.
        height: Rows of the image.
        width: Columns of the image.
        near: Distance of the near plane [m].
        shape: Numbers of worlds and frames.
    """

    points: Tensor
    clip: Tensor
    eye: Tensor
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
            InputError: If a vertex is not finite, or there are too many pixels for one call.
        """
        _check(surface)
        points = surface.vertices
        K, R, t = camera.matrices(points, values or {})
        camera_points = points @ R[:, None].mT + t[:, None, None]
        clip = camera_points @ K[:, None].mT
        if samples > 1:
            clip = clip * clip.new_tensor([samples, samples, 1.0])
        eye = -(t[:, None] @ R)[:, 0]
        points = points.expand(len(clip), -1, -1, -1)  # one world before the cameras of several
        lens = camera.camera
        images, pixels = points.shape[0] * points.shape[1], lens.height * lens.width * samples**2
        if images * pixels >= MAX_PIXELS:
            raise InputError(
                f"{images} images of {pixels} pixels or samples are {images * pixels:.3g}; draw at most {MAX_PIXELS - 1} in one "
                "call: some frames or worlds at a time."
            )
        return cls(
            points.flatten(0, 1),
            clip.flatten(0, 1),
            eye.repeat_interleave(points.shape[1], 0) if len(eye) > 1 else eye,
            surface.faces.to(points.device, torch.int32),
            surface.parts,
            lens.height * samples,
            lens.width * samples,
            near,
            (points.shape[0], points.shape[1]),
        )

    @cached_property
    def part_of(self) -> Tensor:
        """Number of the part that each face belongs to (m,)."""
        return _owners(tuple(len(p.faces) for p in self.parts)).to(self.faces.device)

    @cached_property
    def screen(self) -> Tensor:
        """Pixels and depth (u, v, z) of the vertices (images, n, 3); meaningless where z ≤ 0."""
        depth = self.clip[..., 2:]
        safe = torch.where(depth > 0, depth, 1.0)
        return torch.cat([self.clip[..., :2] / safe, depth], -1)

    @cached_property
    def is_front(self) -> Tensor:
        """True where a face shows its outer side (images, m)."""
        a, b, c = self.clip.detach().double()[:, self.faces.long()].unbind(2)  # the products cancel
        # seen from outside, corners run counter-clockwise to the eye, and y points down
        return (a * torch.linalg.cross(b, c)).sum(-1) < 0

    @cached_property
    def is_solid(self) -> bool:
        """True if all parts are closed with outward faces, and the camera is certainly outside."""
        if not len(self.points) or self.reaches_behind or not all(is_closed(p.faces) for p in self.parts):
            return False
        a, b, c = self.points[0].detach().double()[self.faces.long()].unbind(1)  # in one image, so in all
        volumes = torch.zeros(len(self.parts), dtype=a.dtype, device=a.device)
        volumes.index_add_(0, self.part_of, ((a - a[:1]) * torch.linalg.cross(b - a[:1], c - a[:1])).sum(-1))
        return bool((volumes > 0).all())

    @cached_property
    def reaches_behind(self) -> bool:
        """True if a vertex of any image is nearer than the near plane."""
        return bool((self.clip.detach()[..., 2] < self.near).any())


@cache
def _owners(sizes: tuple[int, ...]) -> Tensor:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def _check(surface: Surface) -> None:
    if not isinstance(surface, Surface):
        raise InputError(f"got a {type(surface).__name__}; expected a Surface, such as Surface.of(vertices, faces).")
    finite = torch.isfinite(surface.vertices).all(-1)
    if bool(finite.all()):
        return
    world, frame, vertex = (~finite).nonzero()[0].tolist()
    (part,) = [p for p in surface.parts if p.vertices.start <= vertex < p.vertices.stop]
    got = surface.vertices[world, frame, vertex].tolist()
    raise InputError(
        f"vertex {vertex - part.vertices.start} of `{part.name}` is {got} in world {world}, frame {frame}; only finite "
        "positions can be drawn: shorten the clip, or take smaller steps."
    )
