"""Cameras, and the projection of world points to pixels.

    x_c = R x + t                                     world → camera [m]
    (u, v) = (f_x x_c + s y_c, f_y y_c) / z_c + (c_x, c_y)          [px]

A lens then moves pixels (`optics.py`). The convention is OpenCV's: x_c to the right, y_c down, z_c forward; row 0 on top; the image covers
[0, width] × [0, height], so that pixel centres lie at +0.5. Converters exist from a look-at, from OpenGL
(y_c up, looking along −z_c), from PyTorch3D (row vectors, x_c left, y_c up) and from NeRF's `transforms.json`.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.camera_poses import CameraPoses
from gradsim.render.optics import Optics, distort
from gradsim.scene.parameters import COEFFICIENTS

if TYPE_CHECKING:
    from gradsim.scene.camera import CameraSpec

_LENS = ("k1", "k2", "k3", "k4", "p1", "p2")


def project(points: Tensor, K: Tensor, R: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Project points to pixels; differentiable in all arguments, batched over worlds.

    Args:
        points: World positions [m], (..., 3).
        K: Intrinsic matrix [px], (3, 3) or (worlds, ..., 3, 3).
        R: Rotation world → camera, (3, 3) or (worlds, ..., 3, 3).
        t: Translation world → camera [m], (3) or (worlds, ..., 3).

    The dimensions of K, R and t before the matrix are worlds: they pair with the *first* dimensions of `points`,
    each camera array on its own.

    Returns:
        Pixels (..., 2) as (column, row), and the depth z_c (...) [m]. A point with depth ≤ 0 is not in front of
        the camera, and its pixel has no meaning.
    """
    dims = points.dim() - 1
    camera_points = _apply(_worlds_first(R, 2, dims), points) + _worlds_first(t, 1, dims)
    depth = camera_points[..., 2]
    return _apply(_worlds_first(K, 2, dims)[..., :2, :], camera_points / depth.unsqueeze(-1)), depth


def _worlds_first(x: Tensor, core: int, dims: int) -> Tensor:
    """Insert dimensions of size 1 between the worlds of `x` and its last `core` dimensions, to `dims` in all."""
    worlds = x.shape[: x.dim() - core]
    if len(worlds) > dims:
        raise ValueError(
            f"camera arrays have leading dimensions {tuple(worlds)}, but points only {dims} before their coordinates; "
            "give points the same leading worlds, or 1."
        )
    return x.reshape(*worlds, *(1,) * (dims - len(worlds)), *x.shape[x.dim() - core :])


def _apply(matrix: Tensor, vectors: Tensor) -> Tensor:
    x, y, z = vectors.unsqueeze(-2).unbind(-1)  # a ninth of the time of `sum(-1)`, and the same bits
    return matrix[..., 0] * x + matrix[..., 1] * y + matrix[..., 2] * z


@dataclass(frozen=True, eq=False)
class Camera:
    """A camera: a pinhole, or one with a lens or shutter.

    Attributes:
        K: Intrinsic matrix [px], (3, 3) float64.
        R: Rotation world → camera, (3, 3) float64.
        t: Translation world → camera [m], (3) float64.
        width, height: Size of the image [px].
        optics: Lens, rolling shutter and exposure; None for a pinhole with a global shutter.
        poses: Poses of a camera that moves, in place of R and t; None for one that stands still.

    Raises:
        InputError: If an array has the wrong shape or is not finite, K is not an intrinsic matrix with positive focal
            lengths, R is not a rotation, or the size is not positive.
    """

    K: Tensor
    R: Tensor
    t: Tensor
    width: int
    height: int
    optics: Optics | None = None
    poses: CameraPoses | None = None

    def __post_init__(self):
        for name, shape in (("K", (3, 3)), ("R", (3, 3)), ("t", (3,))):
            value = torch.as_tensor(getattr(self, name), dtype=torch.float64)
            if value.shape != shape or not bool(value.isfinite().all()):
                raise InputError(f"camera `{name}` is {value.tolist()}; it needs shape {shape} and finite numbers.")
            object.__setattr__(self, name, value)
        K, R = self.K.detach(), self.R.detach()
        if not (K[0, 0] > 0 and K[1, 1] > 0 and K[1, 0] == 0 and K[2].tolist() == [0, 0, 1]):
            raise InputError(
                f"camera `K` is {K.tolist()}; it needs the form [[fx, s, cx], [0, fy, cy], [0, 0, 1]] with positive "
                "focal lengths in pixels."
            )
        # 1e-5: matrices in files are often printed with six digits
        if (R @ R.T - torch.eye(3, dtype=R.dtype)).abs().max() > 1e-5 or torch.linalg.det(R) < 0:
            raise InputError(
                f"camera `R` is {R.tolist()}, which is not a rotation (R Rᵀ = 1, det R = +1); "
                "take scale or mirroring out of it."
            )
        whole = isinstance(self.width, Integral) and isinstance(self.height, Integral)
        if not whole or self.width < 1 or self.height < 1:
            raise InputError(
                f"camera size is {self.width} × {self.height}; it needs whole numbers, at least one pixel each way."
            )

    @property
    def centre(self) -> Tensor:
        """Position of the camera in the world [m], (3)."""
        return -self.R.T @ self.t

    @property
    def pinhole(self) -> "Camera":
        """The same camera without lens distortion, rolling shutter and exposure."""
        return replace(self, optics=None)

    def resized(self, width: int, height: int) -> "Camera":
        """Resize the image [px] to contain the whole view; other aspect ratios add margins."""
        factor = min(width / self.width, height / self.height)
        K = self.K * self.K.new_tensor([[factor], [factor], [1.0]])
        K[0, 2] += (width - factor * self.width) / 2
        K[1, 2] += (height - factor * self.height) / 2
        margin = (width - factor * self.width) / 2, (height - factor * self.height) / 2
        optics = self.optics and self.optics.resized(factor, margin, (self.width, self.height))
        return Camera(K, self.R, self.t, width, height, optics, self.poses)

    def project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels and depths, as `project`, through the lens, in the precision and on the device of `points`."""
        K = self.K.to(points)
        pixels, depth = project(points, K, self.R.to(points), self.t.to(points))
        if self.optics is None or self.optics.coefficients is None:
            return pixels, depth
        normalized = torch.linalg.solve_triangular(K[:2, :2], (pixels - K[:2, 2])[..., None], upper=True)
        bent = distort(normalized[..., 0], self.optics.coefficients, self.optics.fisheye is not None)
        return bent @ K[:2, :2].T + K[:2, 2], depth

    def to_opengl(self) -> Tensor:
        """Camera-to-world matrix (4, 4) of OpenGL, Blender and NeRF: the inverse of `from_opengl`."""
        pose = torch.eye(4, dtype=torch.float64)
        pose[:3, :3] = self.R.T * _flip(1, -1, -1)
        pose[:3, 3] = self.centre
        return pose

    def to_pytorch3d(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """R (3, 3), T (3), focal_length (2) and principal_point (2): the inverse of `from_pytorch3d`."""
        flip = _flip(-1, -1, 1)
        return self.R.T * flip, self.t * flip, self.K.diagonal()[:2].clone(), self.K[:2, 2].clone()


def look_at(
    eye: Sequence[float], target: Sequence[float], up: Sequence[float], fov_y: float, width: int, height: int
) -> Camera:
    """Camera with square pixels at `eye`, with `target` in the middle of the image.

        f = height / (2 tan(fov_y / 2))

    Args:
        eye, target: World positions [m].
        up: World direction that points up in the image.
        fov_y: Vertical field of view [rad], in (0, π).
        width, height: Size of the image [px].

    Raises:
        InputError: If eye and target coincide, `up` is along the view, or the field of view is out of range.
    """
    position, aim, upward = (torch.as_tensor(a, dtype=torch.float64) for a in (eye, target, up))
    if not 0 < fov_y < math.pi:
        raise InputError(f"camera `fov` is {fov_y} rad; the vertical field of view lies between 0 and π.")
    forward = aim - position
    if forward.norm() == 0:
        raise InputError(f"camera `eye` and `target` are both {position.tolist()}; move one of them.")
    forward = forward / forward.norm()
    right = torch.linalg.cross(forward, upward)
    if right.norm() <= 1e-9 * upward.norm():  # also a zero `up`
        raise InputError(f"camera `up` {upward.tolist()} is zero or along the view direction; choose another.")
    right = right / right.norm()
    R = torch.stack([right, torch.linalg.cross(forward, right), forward])
    return Camera(_intrinsics(height / (2 * math.tan(fov_y / 2)), width, height), R, -R @ position, width, height)


def from_scene(spec: "CameraSpec") -> Camera:
    """Camera from a scene node."""
    K, R, t = (torch.as_tensor(a) for a in spec.matrices())
    return Camera(K, R, t, *spec.size, Optics.of(spec), spec.poses)


def from_opengl(c2w: Tensor, K: Tensor, width: int, height: int) -> Camera:
    """Camera from a camera-to-world pose with axes right, up, backward (OpenGL, Blender, NeRF).

    Args:
        c2w: Pose (4, 4) or (3, 4), position in metres.
        K: Intrinsic matrix [px], (3, 3).
        width, height: Size of the image [px].

    Raises:
        InputError: If the pose has another shape or is not rigid.
    """
    pose = torch.as_tensor(c2w, dtype=torch.float64)
    if pose.shape not in ((4, 4), (3, 4)):
        raise InputError(f"camera-to-world matrix has shape {tuple(pose.shape)}; it needs (4, 4) or (3, 4).")
    R = (pose[:3, :3] * _flip(1, -1, -1)).T
    return Camera(K, R, -R @ pose[:3, 3], width, height)


def from_pytorch3d(
    R: Tensor, T: Tensor, focal_length: Tensor, principal_point: Tensor, width: int, height: int
) -> Camera:
    """Camera from one PyTorch3D `PerspectiveCameras(in_ndc=False)`: x_c = x R + T, axes left, up, forward.

    Args:
        R: Rotation (3, 3), applied from the right.
        T: Translation (3) [m].
        focal_length: (), (1) or (2), screen space [px].
        principal_point: (2), screen space [px], (0, 0) the top left corner of the top left pixel.
        width, height: Size of the image [px].

    Raises:
        InputError: If R is not a rotation.
    """
    flip = _flip(-1, -1, 1)
    rotation, translation = (torch.as_tensor(a, dtype=torch.float64) for a in (R, T))
    K = _intrinsics(focal_length, width, height, principal_point)
    return Camera(K, (rotation * flip).T, translation * flip, width, height)


def from_transforms_json(path: str | Path, frame: int = 0) -> Camera:
    """Camera from a `transforms.json` of NeRF, instant-ngp or nerfstudio.

    Intrinsics are read from the frame, then from the top of the file: `fl_x`, `fl_y`, `cx`, `cy`, or the fields of
    view `camera_angle_x`, `camera_angle_y` [rad]. The size is `w`, `h`, or that of the frame's image, relative to the file.

    Args:
        path: The file.
        frame: Index of the frame.

    Raises:
        InputError: If the file is missing or malformed, has no such frame, no focal length or no size, or if the
            lens is of another model than OpenCV's (undistort the images first).
    """
    path = Path(path)
    try:
        top = json.loads(path.read_text())
        frames = top["frames"]
        entry = {**top, **frames[frame]}
        pose = torch.tensor(entry["transform_matrix"], dtype=torch.float64)
    except IndexError:
        raise InputError(f"{path} has {len(frames)} frames; frame {frame} does not exist.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a transforms.json ({error!r}); it needs `frames`, each with a `transform_matrix`."
        ) from error
    optics = _optics(path, entry)
    width, height = _size(path, entry)
    if "fl_x" in entry:
        fx = entry["fl_x"]
    elif "camera_angle_x" in entry:
        fx = width / (2 * math.tan(entry["camera_angle_x"] / 2))
    else:
        raise InputError(f"{path} has no focal length; add `fl_x` [px] or `camera_angle_x` [rad].")
    if "fl_y" in entry:
        fy = entry["fl_y"]
    else:
        fy = height / (2 * math.tan(entry["camera_angle_y"] / 2)) if "camera_angle_y" in entry else fx
    centre = (entry.get("cx", width / 2), entry.get("cy", height / 2))
    return replace(from_opengl(pose, _intrinsics((fx, fy), width, height, centre), width, height), optics=optics)


def _optics(path: Path, entry: dict) -> Optics | None:
    """Lens of a `transforms.json`: Brown–Conrady, or OpenCV's fisheye where `camera_model` says so; None for a pinhole."""
    k = {name: float(entry.get(name) or 0) for name in _LENS}
    if not any(k.values()):
        return None
    if "FISHEYE" in str(entry.get("camera_model", "")).upper():
        return Optics(fisheye=torch.tensor([k[name] for name in COEFFICIENTS["fisheye"]], dtype=torch.float64))
    if k["k4"]:
        raise InputError(
            f"{path} has a lens with k4 = {k['k4']:g}, not one of OpenCV's; undistort the images and set it to 0."
        )
    return Optics(distortion=torch.tensor([k[name] for name in COEFFICIENTS["distortion"]], dtype=torch.float64))


def _size(path: Path, entry: dict) -> tuple[int, int]:
    if "w" in entry and "h" in entry:
        return int(entry["w"]), int(entry["h"])
    file = str(path.parent / entry.get("file_path", ""))
    for candidate in (file, file + ".png"):  # NeRF leaves the suffix out
        if Path(candidate).is_file():
            from PIL import Image

            with Image.open(candidate) as image:
                return image.size
    raise InputError(f"{path} has no image size, and {file} is not an image; add `w` and `h` [px].")


def _intrinsics(focal: Any, width: int, height: int, centre: Any = None) -> Tensor:
    """K with focal length (), (1) or (2) [px] and principal point [px], by default the middle of the image."""
    K = torch.eye(3, dtype=torch.float64)
    K.diagonal()[:2] = torch.as_tensor(focal, dtype=torch.float64)
    K[:2, 2] = torch.tensor((width / 2, height / 2) if centre is None else tuple(centre), dtype=torch.float64)
    return K


def _flip(x: float, y: float, z: float) -> Tensor:
    return torch.tensor((x, y, z), dtype=torch.float64)
