"""Focal length or distance of a camera from a known length in its image.

For something of length L that lies parallel to the image, at depth Z along the camera's axis,

    p = f L cos(tilt) / Z                    p: its length in the image [px], anywhere in it

so a trusted pose gives f, and a trusted f gives Z. One length cannot give both: far away and zoomed in looks like near
and wide. Both together are unknowns for a fit: `camera.focal` and `camera.translation`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradsim.errors import InputError
from gradsim.scene.camera import CameraSpec

LEVEL_TOLERANCE = 1e-9  # sine of a roll, or difference of positions [m], that is rounding
UNKNOWN_TILT = math.radians(10)  # what an unknown tilt might be, for the warning


@dataclass(frozen=True)
class KnownCamera:
    """Calibrated camera.

    Args:
        camera: With the lens or place found.
        name: "focal" [px] or "distance" [m].
        value: Its value.
        std: Its standard deviation from the precision of the two points.
        assumes: Assumption, and the error if it is wrong.
    """

    camera: CameraSpec
    name: str
    value: float
    std: float
    assumes: str


def camera_from_length(
    camera: CameraSpec,
    points: Sequence[Sequence[float]],
    length: float,
    solve: str = "focal",
    at: Sequence[float] | None = None,
    tilt: float = 0.0,
    click: float = 0.5,
) -> KnownCamera:
    """Calibrate a camera from a known length in its image.

    Args:
        camera: CameraSpec; all but `solve` is trusted.
        points: Two ends (2, 2), column and row [px], corners of pixels at whole numbers.
        length: Between the ends [m].
        solve: "focal": the place is trusted; "distance": the lens is, and the camera moves along its axis.
        at: A world point [m] at the depth of the reference; by default what the camera looks at.
        tilt: Angle of the reference to the image [rad], in (−π/2, π/2).
        click: Standard deviation of each coordinate of the ends [px].

    Raises:
        InputError: If the ends are one point or outside the image, a length is not positive, nothing says where the
            reference is, or it is behind the camera.
    """
    ends, (width, height) = np.asarray(points, np.float64), camera.size
    if ends.shape != (2, 2) or not np.isfinite(ends).all():
        raise InputError(f"`points` has shape {ends.shape}; give two ends, each as column and row in px: x1,y1,x2,y2.")
    if (ends < 0).any() or (ends > [width, height]).any():
        raise InputError(
            f"the ends {ends.tolist()} are outside the image of {width} × {height} px; give pixels within it."
        )
    pixels = float(np.linalg.norm(ends[1] - ends[0]))
    if not (math.isfinite(length) and length > 0 and click > 0 and abs(tilt) < math.pi / 2):
        raise InputError(
            f"length is {length} m, tilt {tilt} rad, click {click} px; length and click are above 0, the tilt is below "
            "a right angle."
        )
    if pixels < 4 * click:
        raise InputError(f"the ends are {pixels:.3g} px apart, no more than their error; choose something longer.")
    if solve not in ("focal", "distance"):
        raise InputError(f"cannot solve for {solve!r}; choose focal or distance.")
    if at is None:
        if camera.look_at is None:
            raise InputError("the camera has no `look_at.target`; say where the reference is: a world point `at` [m].")
        at = camera.look_at.target
    K, R, t = camera.matrices()
    depth, projected_length = float((R @ np.asarray(at, np.float64) + t)[2]), length * math.cos(tilt)
    if depth <= 0:
        raise InputError(f"the point {list(at)} is {-depth:.3g} m behind the camera; give one at the reference.")
    share = math.sqrt(2) * click / pixels  # relative error of the distance between two clicked points
    common = (
        f"the reference is {math.degrees(tilt):g}° out of the image plane (if it is {math.degrees(UNKNOWN_TILT):.0f}° off: "
        f"{_tilt_error(tilt):.1%})"
    )
    if solve == "focal":
        focal = pixels * depth / projected_length
        assumes = (
            f"the camera's place is right (1 % of the depth of {depth:.3g} m is 1 % of the focal length), {common}."
        )
        return KnownCamera(_with_focal(camera, focal), "focal", focal, focal * share, f"Assumes that {assumes}")
    distance = K[0, 0] * projected_length / pixels
    translation = t + [0.0, 0.0, distance - depth]
    assumes = f"the focal length of {K[0, 0]:.4g} px is right (1 % of it is 1 % of the distance), {common}."
    return KnownCamera(posed(camera, R, translation), "distance", distance, distance * share, f"Assumes that {assumes}")


def _tilt_error(tilt: float) -> float:
    """Relative change of the length seen when the tilt is off by `UNKNOWN_TILT`."""
    return abs(math.cos(abs(tilt) + UNKNOWN_TILT) / math.cos(tilt) - 1)


def posed(camera: CameraSpec, R: np.ndarray, t: np.ndarray, focal: float | None = None) -> CameraSpec:
    """The same camera at another pose; one that has a `look_at` keeps its target's depth, or the target itself where it can.

    Args:
        camera: The camera.
        R: Rotation world → camera (3, 3).
        t: Translation world → camera (3,) [m].
        focal: New focal length [px]; None: as before.
    """
    if focal is not None:
        camera = _with_focal(camera, focal)
    if camera.look_at is None:
        content = camera.model_dump(exclude_none=True, exclude={"R", "t"})
        return CameraSpec.model_validate(content | {"R": R.tolist(), "t": t.tolist()})
    eye, target = -R.T @ t, np.array(camera.look_at.target)
    depth = float((R @ target + t)[2])
    depth = depth if depth > 0 else float(np.linalg.norm(target - camera.look_at.eye))
    ahead = eye + depth * R[2]
    level = abs(R[0, 2]) < LEVEL_TOLERANCE and R[1, 2] < 0 and camera.look_at.up == (0.0, 0.0, 1.0)
    view = {
        "eye": eye.tolist(),
        "target": (target if np.allclose(ahead, target, rtol=0, atol=LEVEL_TOLERANCE) else ahead).tolist(),
        "up": [0.0, 0.0, 1.0] if level else (-R[1]).tolist(),
        "fov": camera.look_at.fov,
    }
    return CameraSpec.model_validate(camera.model_dump(exclude_none=True) | {"look_at": view})


def rounded(camera: CameraSpec, digits: int = 6) -> CameraSpec:
    """The same camera with coordinates of its `look_at` rounded, as for a file."""
    if camera.look_at is None:
        return camera
    view = {key: value for key, value in camera.look_at.model_dump(exclude_none=True, exclude_unset=True).items()}
    for key in ("eye", "target", "up"):
        if key in view:
            view[key] = [round(float(x), digits) + 0.0 for x in view[key]]
    if view.get("up") == [0.0, 0.0, 1.0]:
        view.pop("up")
    content = camera.model_dump(exclude_none=True, exclude_unset=True)
    if "focal" in content:
        content["focal"] = round(content["focal"], 3)
    return CameraSpec.model_validate(content | {"look_at": view})


def _with_focal(camera: CameraSpec, focal: float) -> CameraSpec:
    content = camera.model_dump(exclude_none=True, exclude={"K", "focal"})
    if "look_at" in content:
        content["look_at"].pop("fov", None)
    if camera.K is not None:
        content["centre"] = (camera.K[0][2], camera.K[1][2])
    return CameraSpec.model_validate({**content, "focal": focal})
