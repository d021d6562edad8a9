"""Silhouettes: a mask for each part of a surface, and flat-colored images.

Masks are exact coverage (`coverage.py`), unbiased and differentiable by vertices and camera. Occlusion between parts is by
order: in each frame the part with the nearer centre covers the other. Pixels crossed by outlines of two parts are mixed as
if these were independent (α of the nearer, 1 − α of the other), or, by `shares`, by exact areas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from gradsim.engine.numbers import bytes_of
from gradsim.engine.operation import may_be_differentiated
from gradsim.errors import InputError
from gradsim.geometry.surface import Part, Surface
from gradsim.numerics import rotation
from gradsim.render.camera import Camera, from_scene, project
from gradsim.render.coverage.coverage import coverage, coverage_tangent
from gradsim.render.coverage.optical_projection import OpticsTangent, edge_pieces
from gradsim.render.coverage.rigid_projection import OFFSCREEN, ProjectionCamera
from gradsim.render.coverage.subdivision import subdivide
from gradsim.render.moving_camera import world_motion
from gradsim.render.optics import TIMES, Optics, OpticsValues, image_points
from gradsim.render.windows import Windows
from gradsim.scene.parameters import OPTICS, RESPONSE, camera_prefix

NEAR_DEPTH = 1e-3  # [m] parts with a vertex of smaller depth are not drawn in that frame
MOST_NAMES = 64  # sets of names of parameters
MOST_PROJECTIONS = 8  # of a camera whose numbers change
LENS = (
    "focal",
    "centre",
    "rotation_vector",
    "translation",
    *OPTICS,
    *RESPONSE,  # which masks of a video read, and no image
)  # parameters of a scene that replace those of the camera


@dataclass(frozen=True, eq=False)
class Projection:
    """Map of world points to homogeneous pixels, M x + c, in double precision: its terms cancel.

    Args:
        M: (worlds or 1, 3, 3), float64.
        c: (worlds or 1, 3), float64.
        eye: Position of the camera (worlds or 1, 3) [m].
    """

    M: Tensor
    c: Tensor
    eye: Tensor

    def clip(self, points: Tensor) -> Tensor:
        """Homogeneous pixels (u z, v z, z) of points (worlds, frames, n, 3), in their precision, differentiable by all."""
        exact = points.double()
        if len(self.M) == len(self.c) == 1:
            return torch.addmm(self.c, exact.reshape(-1, 3), self.M[0].mT).view(points.shape).to(points)
        return (exact @ self.M[:, None].mT + self.c[:, None, None]).to(points)


# of pinholes that are constant, by the memory, precision and samples of a pixel
_projections: WeakKeyDictionary[Camera, dict[tuple, Projection]] = WeakKeyDictionary()


class Silhouettes:
    """Renders surfaces by exact coverage.

    A part is drawn in the frames where all its vertices are finite and at least `NEAR_DEPTH` in front of the camera; in the
    others its mask and its derivatives are 0.

    Camera parameters by name replace those of the camera, each with a leading dimension of worlds or 1: `camera.focal`
    [px] (worlds,) or (worlds, 2), `camera.centre` [px] (worlds, 2), `camera.translation` [m] (worlds, 3) and as `rotation_vector` [rad] (worlds, 3) a rotation
    about its axes, x_c = exp(rotation_vector) R x + t; where it has them, `camera.distortion` (worlds, 5), `camera.fisheye` (worlds, 4), `camera.readout`,
    `camera.exposure` and `camera.delay` [s] (worlds,). Other
    names are ignored, so that all the parameters of a scene can be given.

    A camera with a shutter needs surfaces with vertices between frames (`Surface.dense`), as those of trajectories of its scene.

    Args:
        camera: The camera.
        background: RGB in [0, 1].
        lens: Prefix of the names of the camera's parameters, such as "cameras.side" for a further camera of a scene.
    """

    def __init__(self, camera: Camera, background: Sequence[float] = (1.0, 1.0, 1.0), lens: str = "camera"):
        self.camera, self.background, self.lens = camera, tuple(background), lens
        self._known_names: dict[tuple, list[tuple[str, str]]] = {}  # those of this camera among all parameters
        self._known_matrices: tuple[tuple, tuple[Tensor, Tensor, Tensor]] | None = None
        self.binning = 1  # pixels of the camera of `lens` in a row of each pixel

    @classmethod
    def of(cls, scene, camera: str = "camera") -> "Silhouettes":
        """Silhouettes by a camera of a scene.

        Raises:
            InputError: If the scene has no such camera.
        """
        return cls(from_scene(scene.view(camera)), tuple(scene.background), camera_prefix(camera))

    def binned(self, factor: int) -> "Silhouettes":
        """The same view in pixels `factor` times as wide and high; camera parameters are in pixels as before.

        Raises:
            InputError: If the image has no whole number of such pixels.
        """
        camera = self.camera
        if camera.width % factor or camera.height % factor:
            raise InputError(
                f"an image of {camera.width} × {camera.height} px has no whole pixels of {factor} × {factor}."
            )
        coarse = camera.resized(camera.width // factor, camera.height // factor)
        binned = Silhouettes(coarse, self.background, self.lens)
        binned.binning = factor * self.binning
        return binned

    def masks(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Coverage by each part alone, (worlds, frames, parts, height, width) in [0, 1].

        Args:
            surface: Vertices (worlds, frames, n, 3) [m], differentiable.
            values: Camera parameters by name; differentiable.
        """
        screen, parts = self.image_vertices(surface, values)
        images = _stack([coverage(screen[:, :, p.vertices], p.faces, *self._size, p.convex) for p in parts])
        return self.mean_of_instants(images)

    def __call__(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Flat colors over the background, (worlds, frames, 3, height, width) in [0, 1].

        Args:
            surface: As for `masks`.
            values: As for `masks`.
        """
        masks, points = self.masks(surface, values), surface.vertices.detach()
        order = self._depth(surface, values).argsort(-1, descending=True)
        colors = torch.stack([p.appearance.rgb(points) for p in surface.parts])[order]
        image = points.new_tensor(self.background)[:, None, None].expand(*masks.shape[:2], 3, *masks.shape[3:])
        for k in range(len(surface.parts)):
            mask = torch.take_along_dim(masks, order[:, :, k, None, None, None], 2)
            image = image + mask * (colors[:, :, k, :, None, None] - image)
        return image

    def shares(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Visible share of each part in each pixel, (worlds, frames, parts, height, width).

        Exact areas up to rounding: coverage by the nearest k parts minus that by the nearest k − 1. They sum to `union`.
        Arguments and derivatives as for `masks`. Depends on values, so not for `torch.compile`.
        """
        masks = self.masks(surface, values)
        rows = (
            ((masks.detach() > 0).sum(2) > 1).flatten(2).any(2).nonzero()
        )  # worlds and frames with two parts in one row
        if not len(rows):
            return masks
        at = rows.unbind(1)
        orders, which = self._depth(surface, values)[at].argsort(-1).unique(dim=0, return_inverse=True)
        screen, parts = self.image_vertices(surface, values)
        screen = whole(screen).unflatten(1, (-1, self.instants))[at].flatten(0, 1)[None]
        visible, faces = torch.empty_like(masks[at]), [p.faces + p.vertices.start for p in parts]
        for k, order in enumerate(orders.tolist()):
            members, covered = (which == k).nonzero()[:, 0], torch.zeros_like(masks[at][0, 0])
            rows = (members[:, None] * self.instants + torch.arange(self.instants)).flatten()
            for j, part in enumerate(order):
                nearer = torch.cat([faces[p] for p in order[: j + 1]])
                together = coverage(screen[:, rows], nearer, *self._size, convex=False)
                together = self.mean_of_instants(together)[0]
                visible = visible.index_put((members, torch.tensor(part)), together - covered)
                covered = together
        return masks.index_put(at, visible)

    def image(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Flat colors as `__call__`, with pixels at outlines of two parts mixed by exact areas (`shares`)."""
        shares = self.shares(surface, values)
        image = background = shares.new_tensor(self.background)[:, None, None]
        for share, part in zip(shares.unbind(2), surface.parts, strict=True):
            image = image + share[:, :, None] * (part.appearance.rgb(shares)[:, None, None] - background)
        return image

    def masks_tangent(
        self,
        surface: Surface,
        vertex_tangent: Tensor,
        values: Mapping[str, Tensor] | None = None,
        values_tangent: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Masks, and their derivatives (worlds, frames, parts, height, width, unknowns).

        Args:
            surface: As for `masks`.
            vertex_tangent: Derivatives of the vertices (worlds, unknowns, frames, n, 3) [m per unit].
            values: As for `masks`.
            values_tangent: Derivatives of camera parameters (worlds, unknowns, ...) by name; those left out are 0.

        Raises:
            InputError: If the camera has a lens or shutter; take `Masks.linearize` of `gradsim.identification`, or autograd.
        """
        self._require_pinhole("masks_tangent")
        screen, moving = self.screen_tangent(surface, vertex_tangent, values, values_tangent)
        images, slopes = [], []
        for p in surface.parts:
            part = screen[:, :, p.vertices], moving[:, :, :, p.vertices]
            image, slope = coverage_tangent(*part, p.faces, *self._size, p.convex)
            images.append(image)
            slopes.append(slope)
        return _stack(images), _stack(slopes)

    def union(
        self, surface: Surface, values: Mapping[str, Tensor] | None = None, windows: Windows | None = None
    ) -> Tensor:
        """Coverage by all parts together, (worlds, frames, height, width) in [0, 1], of images or of windows; arguments as for `masks`."""
        screen, parts = self.image_vertices(surface, values)
        screen, size = whole(screen), self._size
        if windows:
            screen, size = windows.from_corners(screen, self.instants), windows.shape
        if len(parts) == 1:
            return self.mean_of_instants(coverage(screen, parts[0].faces, *size, parts[0].convex))
        faces = torch.cat([p.faces + p.vertices.start for p in parts])
        return self.mean_of_instants(coverage(screen, faces, *size, convex=False))

    @property
    def instants(self) -> int:
        """Number of images whose mean a frame is."""
        return self.camera.optics.exposures if self.camera.optics else 1

    def mean_of_instants(self, images: Tensor) -> Tensor:
        """Frames (worlds, frames, ...) from their images (worlds, frames · images, ...)."""
        return images if self.instants == 1 else images.unflatten(1, (-1, self.instants)).mean(2)

    def image_vertices(
        self, surface: Surface, values: Mapping[str, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Part, ...]]:
        """Vertices (worlds, frames · images, n, 2) [px] through lens and shutter, and the parts that they form; differentiable.

        NaN where a part is not drawn. Edges are cut where they bend.
        """
        optics, values = self.camera.optics, values or {}
        if optics is None:
            return self._screen(self._facing(surface), *self.matrices(surface.vertices, values)), surface.parts
        source, offsets = surface, None
        if optics.has_shutter:
            if surface.dense is None:
                raise InputError(
                    "the camera has a shutter (`readout`, `exposure` or `delay`), and the surface has no vertices between frames; take "
                    "`trajectory.surface` of a model whose scene has that camera, or `camera.pinhole`."
                )
            offsets, vertices = surface.dense.offsets, surface.dense.vertices.flatten(1, 2)
            times = None if surface.times is None else (surface.times[:, None] + offsets).flatten()
            source = Surface(vertices, surface.parts, times=times)
        K, R, t = self.matrices(surface.vertices, values)
        samples = self._screen(self._facing(source), K, R, t).unflatten(1, (surface.vertices.shape[1], -1))
        numbers, size = self.optics_values(optics, values, samples), self._size
        pieces = edge_pieces(samples, offsets, K, optics, numbers, size, surface.parts)
        samples, parts = subdivide(samples, surface.parts, pieces)
        return image_points(samples, offsets, K, optics, numbers, size), parts

    def optics_values(self, optics: Optics, values: Mapping[str, Tensor], like: Tensor) -> OpticsValues:
        """Numbers of lens and shutter at `values`, with the dtype and device of a tensor."""
        parameters = self._camera_parameters(values)
        name = "distortion" if optics.fisheye is None else "fisheye"
        k = None if optics.coefficients is None else parameters.get(name, optics.coefficients[None]).to(like)
        times = {key: like.new_tensor([getattr(optics, key) or 0.0]) for key in TIMES}
        return OpticsValues(k, **{key: parameters.get(key, time).to(like) for key, time in times.items()})

    def optics_tangent(self, direction: Mapping[str, Tensor]) -> OpticsTangent:
        """Derivatives of the same, and of the intrinsics, along directions (worlds, unknowns, ...)."""
        parameters = self._camera_parameters(direction)
        lens = {key: v for key, v in parameters.items() if key in ("focal", "centre")}
        K = self._binned(_intrinsics(lens, self.camera.K)[0]) if lens else None
        k = parameters.get("distortion", parameters.get("fisheye"))
        return OpticsTangent(K, k, *(parameters.get(key) for key in TIMES))

    def _require_pinhole(self, purpose: str) -> None:
        if self.camera.optics is not None:
            raise InputError(
                f"`{purpose}` is for a pinhole with a global shutter; this camera has a lens or shutter. Use `camera.pinhole`."
            )

    def _depth(self, surface: Surface, values: Mapping[str, Tensor] | None) -> Tensor:
        """Depth of the centre of each part (worlds, frames, parts) [m]."""
        points = self._facing(surface).vertices.detach()
        centers = torch.stack([points[:, :, p.vertices].mean(2) for p in surface.parts], 2)
        return project(centers, *self.matrices(points, values or {}))[1].detach()

    def projection_camera(
        self, values: Mapping[str, Tensor], direction: Mapping[str, Tensor] | None = None
    ) -> ProjectionCamera:
        """Camera for `rigid_projection.project_rigid` at `values`, with its derivatives along `direction`."""
        like = next(iter(values.values())) if values else self.camera.K
        parameters = self._camera_parameters(direction or {})
        lens = {name: v for name, v in parameters.items() if name in ("focal", "centre")}
        K_tangent = self._binned(_intrinsics(lens, like)[0]) if lens else None
        turning = self._turning(values, direction or {}, like)
        return ProjectionCamera(*self.matrices(like, values), K_tangent, parameters.get("translation"), turning)

    def screen(self, surface: Surface, values: Mapping[str, Tensor] | None = None) -> Tensor:
        """Vertices (worlds, frames, n, 2) [px] projected by the pinhole, without lens and shutter; NaN where a part is not drawn."""
        return self._screen(self._facing(surface), *self.matrices(surface.vertices, values or {}))

    def screen_tangent(
        self,
        surface: Surface,
        vertex_tangent: Tensor,
        values: Mapping[str, Tensor] | None = None,
        values_tangent: Mapping[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`screen`, and its derivatives (worlds, unknowns, frames, n, 2); arguments as for `masks_tangent`."""
        K, R, t = self.matrices(surface.vertices, values or {})
        motion = world_motion(self.camera, surface.times, surface.vertices)
        if motion is not None:
            surface, vertex_tangent = self._facing(surface), vertex_tangent @ motion.M.mT
        screen = self._screen(surface, K, R, t)
        turning = self._turning(values or {}, values_tangent or {}, screen)
        return screen, self._screen_tangent(surface, screen, vertex_tangent, K, R, t, values_tangent or {}, turning)

    def _facing(self, surface: Surface) -> Surface:
        """The surface as a camera that stands still sees it, if this one moves."""
        motion = world_motion(self.camera, surface.times, surface.vertices)
        return surface if motion is None else Surface(motion.points(surface.vertices), surface.parts)

    @property
    def _size(self) -> tuple[int, int]:
        return self.camera.height, self.camera.width

    def matrices(self, points: Tensor, values: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """K and R (worlds or 1, 3, 3), and t (worlds or 1, 3), in the precision and on the device of the points."""
        parameters = self._camera_parameters(values)
        read = {"K": self.camera.K, "R": self.camera.R, "t": self.camera.t} | parameters
        constant = not may_be_differentiated(*read.values()) and not torch.compiler.is_compiling()
        once = {key: _distinct(x) for key, x in parameters.items()} if constant else {}
        numbers = [(name, x.shape, bytes_of(x)) for name, x in (read | once).items()] if constant else []
        if not constant or any(known is None for *_, known in numbers):
            return self._matrices(points, parameters)
        key, known = (self.binning, points.dtype, points.device, *numbers), self._known_matrices
        if known is None or known[0] != key:
            K, R, t = (x.detach() for x in self._matrices(points, once))
            self._known_matrices = known = key, (K, R, t)
        worlds = lambda *names: max((len(parameters[name]) for name in names if name in parameters), default=1)
        K, R, t = known[1]
        K, R, t = (
            K.expand(worlds("focal", "centre"), 3, 3),
            R.expand(worlds("rotation_vector"), 3, 3),
            t.expand(worlds("translation"), 3),
        )
        return K, R, t

    def _matrices(self, points: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        K, R, t = (x.to(points) for x in (self.camera.K, self.camera.R, self.camera.t))
        replaced, factor = _intrinsics({name: v[:, None] for name, v in parameters.items()}, points)
        turn = parameters.get("rotation_vector")
        R = R[None] if turn is None else rotation.to_matrix(rotation.exponential(turn.to(points))) @ R
        return K * factor + self._binned(replaced)[:, 0], R, parameters.get("translation", t[None]).to(points)

    def projection(self, points: Tensor, values: Mapping[str, Tensor], samples: int = 1) -> Projection:
        """Map of world points to homogeneous pixels of an image `samples` times as large, as `matrices`."""
        camera, changed = self.camera, bool(self._camera_parameters(values))
        arrays = camera.K, camera.R, camera.t
        if changed or self.binning != 1 or any(x.requires_grad for x in arrays):
            return self._projection(points, values, samples)
        is_compiled = torch.compiler.is_compiling()  # which sees no memory
        numbers = [(x._version, None if is_compiled else bytes_of(x)) for x in arrays]
        key = points.dtype, points.device, samples, *numbers
        known = _projections.setdefault(camera, {})
        if key not in known:
            if len(known) >= MOST_PROJECTIONS:
                known.clear()
            exact = self._projection(camera.K, {}, samples)
            M, c = (x.to(points.device) for x in (exact.M, exact.c))
            known[key] = Projection(M, c, exact.eye.to(points))
        return known[key]

    def _projection(self, points: Tensor, values: Mapping[str, Tensor], samples: int) -> Projection:
        K, R, t = (x.double() for x in self.matrices(points, values))
        if samples > 1:
            K = K * K.new_tensor([[samples], [samples], [1.0]])
        return Projection(K @ R, (K @ t[..., None])[..., 0], -(t[:, None] @ R)[:, 0].to(points))

    def _turning(self, values: Mapping[str, Tensor], direction: Mapping[str, Tensor], like: Tensor) -> Tensor | None:
        """Derivatives (worlds, unknowns, 3) of the rotation as vectors w, dR = [w]× R; None for zero."""
        change = self._camera_parameters(direction).get("rotation_vector")
        if change is None:
            return None
        turn = self._camera_parameters(values).get("rotation_vector", change[:, 0] * 0)
        return change.to(like) @ rotation.left_jacobian(turn.to(like)).mT

    def _binned(self, K: Tensor) -> Tensor:
        """Intrinsics (..., 3, 3), or their derivatives, in pixels of this image."""
        return K * K.new_tensor([[1 / self.binning], [1 / self.binning], [1.0]])

    def _camera_parameters(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Parameters of this camera among all by name: focal, centre, translation."""
        names = self.lens, *values
        keys = self._known_names.get(names)
        if keys is None:
            for name in values:
                if name.startswith(f"{self.lens}.") and name.removeprefix(f"{self.lens}.") not in LENS:
                    known = ", ".join(f"{self.lens}.{key}" for key in LENS)
                    raise InputError(f"`values` name `{name}`; the parameters of this camera are {known}.")
            keys = [(key, f"{self.lens}.{key}") for key in LENS if f"{self.lens}.{key}" in values]
            if len(self._known_names) >= MOST_NAMES:
                self._known_names.clear()
            self._known_names[names] = keys
        return {key: values[name] for key, name in keys}

    def _screen(self, surface: Surface, K: Tensor, R: Tensor, t: Tensor) -> Tensor:
        """Vertices (worlds, frames, n, 2) [px] projected by the pinhole, without lens and shutter; NaN where a part is not drawn."""
        points = surface.vertices
        depth = project(points, K, R, t)[1].detach()
        parts = (depth[:, :, p.vertices] for p in surface.parts)
        in_front = torch.cat([(z.amin(-1, keepdim=True) >= NEAR_DEPTH).expand_as(z) for z in parts], -1)[..., None]
        # a point 1 m in front replaces what is not drawn, so that no 0 · ∞ enters the derivatives
        stand_in = ((R.new_tensor([0.0, 0.0, 1.0]) - t.detach())[:, None] @ R.detach())[:, None]
        return torch.where(in_front, project(torch.where(in_front, points, stand_in), K, R, t)[0], torch.nan)

    def _screen_tangent(
        self,
        surface: Surface,
        screen: Tensor,
        change: Tensor,
        K: Tensor,
        R: Tensor,
        t: Tensor,
        direction: Mapping[str, Tensor],
        turning: Tensor | None,
    ) -> Tensor:
        """Derivatives (worlds, unknowns, frames, n, 2) of u = K x_c / z_c: du = (K dx_c - u dz_c + dK x_c) / z_c."""
        turned = (surface.vertices @ R[:, None].mT)[:, None]
        camera_points = turned + t[:, None, None, None]
        camera_change = change @ R[:, None, None].mT
        if turning is not None:
            camera_change = camera_change + rotation.cross(turning[:, :, None, None], turned)
        parameters = self._camera_parameters(direction)
        if "translation" in parameters:
            camera_change = camera_change + parameters["translation"].to(camera_change)[:, :, None, None]
        pixels = camera_change @ K[:, None, None].mT - torch.nn.functional.pad(
            screen[:, None] * camera_change[..., 2:], (0, 1)
        )
        lens, _ = _intrinsics(parameters, camera_change)
        return (pixels + camera_points @ self._binned(lens)[:, :, None].mT)[..., :2] / camera_points[..., 2:]


def whole(screen: Tensor) -> Tensor:
    """`screen` with parts that are not drawn moved to one point off the image, so that the others are drawn."""
    return torch.where(torch.isfinite(screen), screen, OFFSCREEN)


def _intrinsics(values: Mapping[str, Tensor], like: Tensor) -> tuple[Tensor, Tensor]:
    """Entries of K (worlds or 1, unknowns or 1, 3, 3) from values, and a mask (3, 3) of the remaining ones."""
    K, others = like.new_zeros(1, 1, 3, 3), like.new_ones(3, 3)
    if "focal" in values:
        focal = values["focal"].to(like)
        both = focal if focal.ndim == 3 else focal[..., None].expand(*focal.shape, 2)
        K = K + torch.diag_embed(torch.nn.functional.pad(both, (0, 1)))
        others = others - torch.diag(like.new_tensor([1.0, 1.0, 0.0]))
    if "centre" in values:
        column = values["centre"].to(like)[..., None]
        K = K + torch.nn.functional.pad(column, (2, 0, 0, 1))
        others = others - torch.nn.functional.pad(like.new_ones(2, 1), (2, 0, 0, 1))
    return K, others


def _distinct(x: Tensor) -> Tensor:
    """The first world (1, ...) of a parameter, where it is the memory of all."""
    return x[:1] if x.ndim and x.shape[0] > 1 and x.stride(0) == 0 else x


def _stack(parts: list[Tensor]) -> Tensor:
    """Stack along a new dimension 2, without a copy for a single part."""
    return torch.stack(parts, 2) if len(parts) > 1 else parts[0].unsqueeze(2)
