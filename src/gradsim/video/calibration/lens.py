"""Projection through a lens in OpenCV's two models, and which of its numbers are unknown.

With (x, y) = (X/Z, Y/Z) of a point in the camera's axes, r² = x² + y² and θ = atan2(√(X² + Y²), Z):

    pinhole   x' = x (1 + k1 r² + k2 r⁴ + k3 r⁶) + 2 p1 x y + p2 (r² + 2 x²)         (Brown 1966; OpenCV)
              y' = y (1 + k1 r² + k2 r⁴ + k3 r⁶) + p1 (r² + 2 y²) + 2 p2 x y
    fisheye   (x', y') = (x, y)/r θ (1 + k1 θ² + k2 θ⁴ + k3 θ⁶ + k4 θ⁸)              (Kannala & Brandt 2006)
    pixel     u = f_x x' + c_x,  v = f_y y' + c_y

Pixel centers are at +0.5, so that c is OpenCV's plus 0.5. All functions are analytic, and take complex arguments for
derivatives by complex steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradsim.errors import InputError

COEFFICIENTS = {"pinhole": ("k1", "k2", "p1", "p2", "k3"), "fisheye": ("k1", "k2", "k3", "k4")}
KEYS = {"pinhole": "distortion", "fisheye": "fisheye"}  # of a scene's camera
SQUARE, CENTRE = "square", "centre"  # words of `fixed`
SMALL_RADIUS_SQUARED = 1e-8  # r² below which (x', y') of a fisheye is (x, y)


@dataclass(frozen=True, eq=False)
class Lens:
    """Numbers of a lens: all = base + span @ unknowns.

    Attributes:
        model: "pinhole" or "fisheye".
        names: Names of the unknowns, as those of a scene: "camera.focal.x", "camera.distortion.k1".
        base: f_x, f_y, c_x, c_y [px] and the coefficients, with 0 where an unknown adds to it.
        span: (numbers, unknowns), of 0 and 1.
        start: Initial unknowns.
        prior_mean: Expected unknowns.
        prior_root: W of a prior |W (unknowns - prior_mean)|², (rows, unknowns); no rows without a prior.
    """

    model: str
    names: tuple[str, ...]
    base: np.ndarray
    span: np.ndarray
    start: np.ndarray
    prior_mean: np.ndarray
    prior_root: np.ndarray

    def numbers(self, unknowns: np.ndarray) -> np.ndarray:
        """f_x, f_y, c_x, c_y [px] and the coefficients."""
        return self.base + self.span @ unknowns

    def starting_at(self, focal: float) -> "Lens":
        """The same lens with other initial focal lengths [px], where they are unknown."""
        start = np.array([focal if ".focal" in name else x for name, x in zip(self.names, self.start, strict=True)])
        return Lens(self.model, self.names, self.base, self.span, start, self.prior_mean, self.prior_root)


def make_lens(
    model: str,
    numbers: Sequence[float],
    fixed: Sequence[str] = (),
    prior: tuple[Sequence[str], Sequence[float], np.ndarray] | None = None,
) -> Lens:
    """Lens with its unknowns.

    Args:
        model: "pinhole" or "fisheye".
        numbers: Initial f_x, f_y, c_x, c_y [px] and coefficients; fixed ones stay.
        fixed: Of "focal", "centre", "square" (f_x = f_y) and the names of coefficients.
        prior: Names, mean and covariance of unknowns, from an earlier calibration.

    Raises:
        InputError: If a name of `fixed` is unknown.
    """
    known = ("focal", CENTRE, SQUARE, *COEFFICIENTS[model])
    for word in fixed:
        if word not in known:
            raise InputError(f"--fix {word}: a {model} lens has no such number; choose of {', '.join(known)}.")
    columns: list[tuple[str, list[int]]] = []
    if "focal" not in fixed:
        pair = [("camera.focal", [0, 1])] if SQUARE in fixed else [("camera.focal.x", [0]), ("camera.focal.y", [1])]
        columns += pair
    if CENTRE not in fixed:
        columns += [("camera.centre.x", [2]), ("camera.centre.y", [3])]
    columns += [
        (f"camera.{KEYS[model]}.{name}", [4 + k]) for k, name in enumerate(COEFFICIENTS[model]) if name not in fixed
    ]
    values = np.array(numbers, np.float64)
    span = np.zeros((len(values), len(columns)))
    for k, (_, rows) in enumerate(columns):
        span[rows, k] = 1
    start = np.array([values[rows].mean() for _, rows in columns])
    base = np.where(span.any(1), 0.0, values)
    names = tuple(name for name, _ in columns)
    mean, root = start.copy(), np.zeros((0, len(names)))
    if prior is not None:
        listed = [name for name in prior[0] if name in names]
        rows = [list(prior[0]).index(name) for name in listed]
        at = [names.index(name) for name in listed]
        mean[at] = start[at] = np.asarray(prior[1])[rows]
        precision = np.linalg.inv(np.asarray(prior[2])[np.ix_(rows, rows)]) if rows else np.zeros((0, 0))
        root = np.zeros((len(at), len(names)))
        root[:, at] = np.linalg.cholesky(precision).T if rows else root
    return Lens(model, names, base, span, start, mean, root)


def distort(model: str, x: np.ndarray, y: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(x', y') of (x, y), any shape."""
    square = x * x + y * y
    if model == "fisheye":
        k1, k2, k3, k4 = coefficients
        is_small = np.abs(square) < SMALL_RADIUS_SQUARED
        r = np.sqrt(np.where(is_small, SMALL_RADIUS_SQUARED, square))
        theta = np.arctan(r)
        t2 = theta * theta
        ratio = np.where(is_small, 1.0, theta * (1 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4)))) / r)
        return x * ratio, y * ratio
    k1, k2, p1, p2, k3 = coefficients
    radial = 1 + square * (k1 + square * (k2 + square * k3))
    return (
        x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x),
        y * radial + p1 * (square + 2 * y * y) + 2 * p2 * x * y,
    )


def project(model: str, numbers: np.ndarray, R: np.ndarray, t: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Pixels (..., n, 2) of points.

    Args:
        model: "pinhole" or "fisheye".
        numbers: f_x, f_y, c_x, c_y [px] and coefficients.
        R: (..., 3, 3) world → camera.
        t: (..., 3) [m].
        points: (..., n, 3) [m].
    """
    camera = points @ np.swapaxes(R, -1, -2) + t[..., None, :]
    x, y = camera[..., 0] / camera[..., 2], camera[..., 1] / camera[..., 2]
    x, y = distort(model, x, y, numbers[4:])
    return np.stack([numbers[0] * x + numbers[2], numbers[1] * y + numbers[3]], -1)


def undistort(model: str, numbers: np.ndarray, pixels: np.ndarray, iterations: int = 30) -> np.ndarray:
    """(x, y) = (X/Z, Y/Z), (..., 2), that `project` maps to pixels (..., 2), by Newton's method with complex steps."""
    target = (pixels - numbers[2:4]) / numbers[:2]
    xy = target.copy()
    if model == "fisheye":  # from the ray without coefficients
        theta = np.clip(np.linalg.norm(target, axis=-1, keepdims=True), 1e-9, 1.5)
        xy = target * np.tan(theta) / theta
    step = 1e-20j
    for _ in range(iterations):
        value = np.stack(distort(model, xy[..., 0], xy[..., 1], numbers[4:]), -1)
        along_x = np.imag(np.stack(distort(model, xy[..., 0] + step, xy[..., 1] + 0j, numbers[4:]), -1)) / step.imag
        along_y = np.imag(np.stack(distort(model, xy[..., 0] + 0j, xy[..., 1] + step, numbers[4:]), -1)) / step.imag
        J = np.stack([along_x, along_y], -1)
        change = np.linalg.solve(J, (target - value)[..., None])[..., 0]
        xy = xy + change
        if np.abs(change).max(initial=0) < 1e-13:
            break
    return xy


def rotation(vector: np.ndarray) -> np.ndarray:
    """exp of rotation vectors (..., 3) [rad] as matrices (..., 3, 3) (Rodrigues), for complex vectors too."""
    square = (vector * vector).sum(-1)[..., None, None]
    is_small = np.abs(square) < 1e-6
    angle = np.sqrt(np.where(is_small, 1.0, square))
    a = np.where(is_small, 1 - square / 6 * (1 - square / 20), np.sin(angle) / angle)
    b = np.where(is_small, 0.5 - square / 24 * (1 - square / 30), (1 - np.cos(angle)) / (angle * angle))
    cross = cross_matrix(vector)
    return np.eye(3) + a * cross + b * (cross @ cross)


def cross_matrix(vector: np.ndarray) -> np.ndarray:
    """[v]× (..., 3, 3) of vectors (..., 3)."""
    x, y, z = np.moveaxis(vector, -1, 0)
    zero = np.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return np.stack([np.stack(row, -1) for row in rows], -2)
