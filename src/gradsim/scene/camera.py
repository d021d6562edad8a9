"""Cameras of a scene in the convention of OpenCV: x right, y down, z forward, pixel centers at +0.5."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_serializer
from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.geometry.camera_poses import CameraPoses, read_poses
from gradsim.scene.node import Node, Place, mistake, quote
from gradsim.scene.quantity import Count, Matrix3, Quantity, Tuple, Vector2, Vector3, positive, vector
from gradsim.scene.yaml_io import FilePath

RIGHT_ANGLE = 1e-5  # tolerance of R Rᵀ = 1: matrices in files often have six digits


class LookAt(Node):
    """Pose of a camera by its position and target, which is in the center of the image.

    Attributes:
        eye: Position of the camera [m].
        target: Point in the center of the image [m].
        up: Upward direction in the image.
        fov: Vertical field of view [rad], unless the camera has a `focal` or `K`.
    """

    eye: Annotated[Vector3, vector("m")] = Field(description="the position [x, y, z] of the camera in m")
    target: Annotated[Vector3, vector("m")] = Field(description="the point [x, y, z] in the center of the image in m")
    up: Annotated[Vector3, vector("")] = (0.0, 0.0, 1.0)
    fov: Annotated[float | None, Quantity("rad", lower=1e-3, upper=math.pi - 1e-3)] = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        view = np.subtract(self.target, self.eye)
        if not view.any():
            yield ("target",), f"got {list(self.target)}, which is also `eye`; move one of them."
        elif np.linalg.norm(np.cross(view, self.up)) <= 1e-9 * np.linalg.norm(view) * np.linalg.norm(self.up):
            yield ("up",), f"got {list(self.up)}, which is zero or along the view; choose another direction."

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """R (3, 3) and t (3) [m], world → camera."""
        forward = np.subtract(self.target, self.eye)
        right = np.cross(forward, self.up)
        forward, right = forward / np.linalg.norm(forward), right / np.linalg.norm(right)
        R = np.stack([right, np.cross(forward, right), forward])
        return R, -R @ np.array(self.eye)


class _Intrinsics(Tuple):
    """Annotate the intrinsic matrix K."""

    def __get_pydantic_core_schema__(self, source, handler):
        matrix = super().__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_after_validator_function(self._check, matrix)

    def _check(self, K: Matrix3) -> Matrix3:
        if not (K[0][0] > 0 and K[1][1] > 0 and K[1][0] == 0 and K[2] == (0, 0, 1)):
            raise mistake(
                f"got {quote(K)}; expected [[fx, s, cx], [0, fy, cy], [0, 0, 1]] with focal lengths above 0 in px."
            )
        return K


class CameraSpec(Node):
    """A camera: size of the image, pose (`look_at`, or `R` and `t`) and intrinsics (`fov`, `focal` or `K`).

    In a file, `K: {focal: f, centre: [cx, cy]}` is short for `focal` and `centre`.

    Attributes:
        size: Width and height [px].
        look_at: Pose by position and target.
        R: Rotation world → camera.
        t: Translation world → camera [m].
        K: Intrinsic matrix [px].
        focal: Focal length of square pixels [px].
        centre: Principal point [px]; by default the center of the image.
        prior: Numbers of this camera that are known with an uncertainty, and their covariance: a file of the schema
            `gradsim.capture/1` ([uncertainty](../guides/uncertainty.md)).
        distortion: Coefficients [k1, k2, p1, p2, k3] of the lens, as OpenCV's calibrateCamera returns them.
        fisheye: Coefficients [k1, k2, k3, k4] of a fisheye lens, as OpenCV's fisheye::calibrate returns them.
        readout: Rolling shutter: time from the first row of the sensor to the last [s]; below 0 where the last is read first.
        scan: The lines that are read one after another: rows, or, in a video that was recorded upright, columns.
        exposure: Time that the shutter is open in each frame [s]; the image is the mean over it.
        motion: Poses of a camera that moves, in place of `look_at`, or `R` and `t`: a file of `gradsim capture --poses`.
        delay: Time of this camera's frames after those of the scene's clock [s], of cameras that are not synchronised.
        instants: Number of instants of an exposure.
        gamma: Response of the camera: values of pixels are light to the power of 1/gamma; 2.2 of most videos. Without it, values are light.
        gain: Light of the video over that of a film of the empty scene, which is exposed otherwise.
    """

    size: Annotated[tuple[int, int], Tuple(Count(1, 16384), 2, "whole numbers: width and height in px")] = Field(
        description="[width, height] in px"
    )
    look_at: LookAt | None = None
    R: Annotated[Matrix3 | None, Tuple(vector(""), 3, "rows [a, b, c]")] = None
    t: Annotated[Vector3 | None, vector("m")] = None
    K: Annotated[Matrix3 | None, _Intrinsics(vector("px"), 3, "rows [a, b, c]")] = None
    focal: Annotated[float | None, positive("px")] = None
    centre: Annotated[Vector2 | None, Tuple(Quantity("px"), 2)] = None
    prior: Annotated[Path | None, FilePath("a file of numbers with a covariance", (".json",))] = None
    distortion: Annotated[tuple[float, ...] | None, Tuple(Quantity(""), 5)] = None
    fisheye: Annotated[tuple[float, ...] | None, Tuple(Quantity(""), 4)] = None
    readout: Annotated[float | None, Quantity("s", lower=-1.0, upper=1.0)] = None
    scan: Literal["rows", "columns"] = "rows"
    exposure: Annotated[float | None, Quantity("s", lower=0.0, upper=1.0)] = None
    motion: Annotated[Path | None, FilePath("a file of poses of a camera", (".json",))] = None
    delay: Annotated[float | None, Quantity("s", lower=-1.0, upper=60.0)] = None
    instants: Annotated[int, Count(2, 64)] = 5
    gamma: Annotated[float | None, Quantity("", lower=0.2, upper=5.0)] = None
    gain: Annotated[float | None, Quantity("", lower=0.05, upper=20.0)] = None

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        lens = raw.get("K")
        if not isinstance(lens, Mapping) or not set(lens) <= {"focal", "centre"}:
            return raw
        return {**{key: value for key, value in raw.items() if key != "K"}, **lens}

    @classmethod
    def shorthands(cls, properties: Mapping[str, Any]) -> dict[str, Any]:
        lens = {"type": "object", "properties": {k: properties[k] for k in ("focal", "centre")}}
        matrix = {key: properties["K"][key] for key in ("type", "items", "minItems", "maxItems")}
        common = {key: value for key, value in properties["K"].items() if key not in matrix}
        return {"K": {**common, "anyOf": [{**lens, "additionalProperties": False}, matrix]}}

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        view = raw.get("look_at")
        pose = [key for key in ("look_at", "R", "t", "motion") if key in raw]
        if pose not in (["look_at"], ["R", "t"], ["motion"]):
            got = f"got {' and '.join(f'`{key}`' for key in pose)}" if pose else "has no pose"
            yield (), f"{got}; give either `look_at`, or `R` and `t`, or `motion` of a camera that moves."
        fov = view.get("fov") if isinstance(view, Mapping) else getattr(view, "fov", None)
        lens = ["look_at.fov"] * (fov is not None) + [key for key in ("focal", "K") if key in raw]
        if len(lens) != 1:
            got = f"got {' and '.join(f'`{key}`' for key in lens)}" if lens else "has no lens"
            yield (), f"{got}; give exactly one of `look_at.fov`, `focal` and `K`."
        if "K" in raw and "centre" in raw:
            yield ("centre",), "is given together with `K`, which contains the principal point; remove one of them."
        if "distortion" in raw and "fisheye" in raw:
            yield ("fisheye",), "is given together with `distortion`; a lens has one of them."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.R is not None:
            R = np.array(self.R)
            if np.abs(R @ R.T - np.eye(3)).max() > RIGHT_ANGLE or np.linalg.det(R) < 0:
                yield ("R",), "is not a rotation (R Rᵀ = 1, det R = +1); remove scale or mirroring."
        if self.motion is not None:
            try:
                read_poses(self.motion)
            except InputError as error:
                yield ("motion",), str(error)

    @model_serializer(mode="wrap")
    def _without_defaults(self, content):
        unset = {"scan": "rows", "instants": 5}
        return {key: value for key, value in content(self).items() if unset.get(key) != value}

    @property
    def has_shutter(self) -> bool:
        """True if a frame is other than the scene at the instant of its stamp."""
        return self.readout is not None or self.exposure is not None or self.delay is not None

    @property
    def poses(self) -> CameraPoses | None:
        """Poses of a camera that moves."""
        return None if self.motion is None else read_poses(self.motion)

    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """K (3, 3) [px], R (3, 3) and t (3) [m], world → camera; of a camera that moves, its first pose."""
        view, poses = self.look_at, self.poses
        R, t = view.pose() if view else (poses.R[0], poses.t[0]) if poses else (np.array(self.R), np.array(self.t))
        if self.K is not None:
            return np.array(self.K), R, t
        width, height = self.size
        cx, cy = self.centre or (width / 2, height / 2)
        focal = self.focal
        if view and view.fov:
            focal = height / (2 * math.tan(view.fov / 2))
        return np.array([[focal, 0.0, cx], [0.0, focal, cy], [0.0, 0.0, 1.0]], np.float64), R, t
