"""Camera paths: turntable."""

import math

import torch
from torch import Tensor

from gradsim.render.camera import Camera


def turntable(camera: Camera, middle: Tensor, views: int) -> list[Camera]:
    """Cameras on a horizontal circle around a point; the first is `camera` itself.

    With Z the rotation by an angle about z, x_c = R Zᵀ (x − m) + R m + t.

    Args:
        camera: First camera.
        middle: Center m of the rotation (3) [m].
        views: Number of cameras, at equal angles, counter-clockwise seen from above.
    """
    cameras = []
    for k in range(views):
        angle = 2 * math.pi * k / views
        c, s = math.cos(angle), math.sin(angle)
        back = torch.tensor([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
        R = camera.R @ back
        cameras.append(Camera(camera.K, R, camera.t + (camera.R - R) @ middle, camera.width, camera.height))
    return cameras
