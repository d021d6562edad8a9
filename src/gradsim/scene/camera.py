"""The camera of a scene, in OpenCV's convention."""

import math
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, model_validator

from gradsim.errors import InputError
from gradsim.scene.quantities import Strict, matrix, positive, vector


def _size(value) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2 or any(isinstance(v, bool) or int(v) != v for v in value):
        raise InputError(f"size {value!r} is not [width, height] in whole pixels.")
    if min(value) < 1 or max(value) > 16384:
        raise InputError(f"size {list(value)} has to be between 1 and 16384 pixels.")
    return int(value[0]), int(value[1])


def _fov(value) -> float:
    angle = positive("rad").__metadata__[0].func(value)
    if not angle < math.pi:
        raise InputError(f"fov {angle:.4g} rad has to be below π; write degrees as \"45 deg\".")
    return angle


class LookAt(Strict):
    """Where the camera stands and looks [m]; `fov` is its vertical field of view [rad]."""

    eye: vector("m")
    target: vector("m")
    up: vector() = (0.0, 0.0, 1.0)
    fov: Annotated[float, BeforeValidator(_fov)] | None = None

    @model_validator(mode="after")
    def _direction(self):
        if math.dist(self.eye, self.target) == 0:
            raise InputError("eye and target are the same point.")
        return self


class Camera(Strict):
    """Image size, where it stands (`look_at`, or R and t), and its lens (`fov`, `focal`, or K).

    Args:
        size: Width, height [px].
        look_at: Where it stands and looks.
        K: Intrinsic matrix [px].
        focal: Focal length [px], in place of K or fov.
        centre: Principal point [px]; the middle of the image where it is not given.
        R: Rotation world → camera.
        t: Translation world → camera [m].
    """

    size: Annotated[tuple[int, int], BeforeValidator(_size)]
    look_at: LookAt | None = None
    K: matrix(3, 3) | None = None
    focal: positive() | None = None
    centre: vector("", 2) | None = None
    R: matrix(3, 3) | None = None
    t: vector("m") | None = None

    @model_validator(mode="after")
    def _complete(self):
        if (self.look_at is None) == (self.R is None) or (self.R is None) != (self.t is None):
            raise InputError("say where the camera stands: look_at, or both R and t.")
        fov = self.look_at is not None and self.look_at.fov is not None
        if fov + (self.K is not None) + (self.focal is not None) != 1:
            raise InputError("say what lens it has: exactly one of look_at.fov, focal and K.")
        if self.K is not None and self.centre is not None:
            raise InputError("K has the principal point already; leave out `centre`.")
        return self

    def matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """K (3, 3) [px], R (3, 3) and t (3,) [m] of the pinhole."""
        width, height = self.size
        if self.look_at is not None:
            eye, target, up = (np.array(v) for v in (self.look_at.eye, self.look_at.target, self.look_at.up))
            forward = (target - eye) / np.linalg.norm(target - eye)
            right = np.cross(forward, up)
            if np.linalg.norm(right) < 1e-9 * np.linalg.norm(up):
                raise InputError("camera.look_at: `up` points along the view; choose another.")
            right = right / np.linalg.norm(right)
            R = np.stack([right, np.cross(forward, right), forward])
            t = -R @ eye
        else:
            R, t = np.array(self.R), np.array(self.t)
        if self.K is not None:
            return np.array(self.K), R, t
        focal = self.focal or height / (2 * math.tan(self.look_at.fov / 2))
        cx, cy = self.centre or (width / 2, height / 2)
        return np.array([[focal, 0, cx], [0, focal, cy], [0, 0, 1.0]]), R, t
