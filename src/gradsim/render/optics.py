"""Optics of a real camera: lens distortion, rolling shutter and exposure, from pixels of a pinhole to those of the image.

Brown–Conrady, as OpenCV's projectPoints (Brown 1971), of x = x_c/z_c, y = y_c/z_c, r² = x² + y²:

    x' = x (1 + k₁r² + k₂r⁴ + k₃r⁶) + 2 p₁xy + p₂(r² + 2x²)                                (1)
    y' = y (1 + k₁r² + k₂r⁴ + k₃r⁶) + p₁(r² + 2y²) + 2 p₂xy

fisheye, as OpenCV's fisheye::projectPoints (Kannala and Brandt 2006), with θ = atan r:

    (x', y') = (x, y) θ (1 + k₁θ² + k₂θ⁴ + k₃θ⁶ + k₄θ⁸)/r                                  (2)

Beyond 0.9 of the r (θ) at which the radial factor turns back, and beyond r = 2.7, where no calibration holds, it is that of the limit:
points far off the image stay there.

A vertex at place y(τ) along the axis of a rolling shutter, of n rows, is exposed at the time τ after the stamp of its frame with

    τ = delay + readout (y(τ)/n − 1/2) + exposure s,      −1/2 < s < 1/2                   (3)

so the stamp, and the delay of a camera that is not synchronised, is the middle of the exposure of the middle row. Equation (3) is solved by Newton's method, and its derivatives follow from the
implicit function theorem. Images are means of the coverage over `instants` midpoints s.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from gradsim.engine.operation import is_transformed
from gradsim.errors import InputError

if TYPE_CHECKING:
    from gradsim.scene.camera import CameraSpec

USED_RADIUS_SHARE = 0.9  # of the radius at which the radial factor turns back, up to which it is used
SHUTTER_MARGIN = 1.0  # heights of the image outside of it from which on rows of a rolling shutter are not told apart
NEWTON = 4  # steps of Newton's method of (3): each squares an error that begins at a few hundredths of a frame
UNDISTORT_STEPS = 20  # steps of Newton's method in `undistort` at most
# Radius that no lens but a fisheye reaches, 72° off the axis; of a fisheye, an angle [rad] behind the camera
MAX_RADIUS = 3.0
SCANNED_RADII = 600  # radii up to there
SIZES = {"distortion": 5, "fisheye": 4}
TIMES = ("readout", "exposure", "delay")
Scan = Literal["rows", "columns"]


@dataclass(frozen=True, eq=False)
class Optics:
    """Lens, rolling shutter, exposure and delay of a camera.

    Args:
        distortion: k1, k2, p1, p2, k3 of equation (1), (5); None without.
        fisheye: k1, k2, k3, k4 of equation (2), (4); None without.
        readout: Time from the first row to the last [s]; None for a global shutter.
        exposure: Time that the shutter is open [s]; None for an instant.
        instants: Number of instants of an exposure.
        scan: Lines that are read one after another: "rows" or "columns".
        window: First and last line of the sensor in the image [px]; None: the whole image.
        delay: Time of the frames after their stamps [s]; None for 0.

    Raises:
        InputError: If coefficients have the wrong number or are not finite, or there are two kinds.
    """

    distortion: Tensor | None = None
    fisheye: Tensor | None = None
    readout: float | None = None
    exposure: float | None = None
    instants: int = 5
    scan: Scan = "rows"
    window: tuple[float, float] | None = None
    delay: float | None = None

    def __post_init__(self):
        for name, size in SIZES.items():
            value = getattr(self, name)
            if value is None:
                continue
            value = torch.as_tensor(value, dtype=torch.float64)
            if value.shape != (size,) or not bool(value.isfinite().all()):
                raise InputError(
                    f"`{name}` is {value.tolist()}; expected {size} finite coefficients in the order of OpenCV."
                )
            object.__setattr__(self, name, value)
        if self.distortion is not None and self.fisheye is not None:
            raise InputError("got `distortion` and `fisheye`; a lens has one of them.")

    @classmethod
    def of(cls, spec: "CameraSpec") -> "Optics | None":
        """Optics of a camera of a scene; None for a pinhole with a global shutter."""
        if spec.distortion is None and spec.fisheye is None and not spec.has_shutter:
            return None
        coefficients = {
            key: None if (k := getattr(spec, key)) is None else torch.tensor(k, dtype=torch.float64) for key in SIZES
        }
        times = {key: getattr(spec, key) for key in TIMES}
        return cls(**coefficients, **times, instants=spec.instants, scan=spec.scan)

    @property
    def coefficients(self) -> Tensor | None:
        """Coefficients of the lens, (5) or (4)."""
        return self.distortion if self.fisheye is None else self.fisheye

    @property
    def has_shutter(self) -> bool:
        """True if a frame is other than the scene at the instant of its stamp."""
        return self.readout is not None or self.exposure is not None or self.delay is not None

    @property
    def exposures(self) -> int:
        """Number of images whose mean a frame is."""
        return 1 if self.exposure is None else self.instants

    @property
    def shares(self) -> list[float]:
        """s of equation (3) of each image of a frame."""
        return [(k + 0.5) / self.exposures - 0.5 for k in range(self.exposures)]

    def resized(self, factor: float, margin: tuple[float, float], size: tuple[int, int]) -> "Optics":
        """The same in an image of which the old one, `factor` times as large, is a part.

        Args:
            factor: Scale.
            margin: Left and top [px].
            size: Width and height of the old image [px].
        """
        axis = 1 if self.scan == "rows" else 0
        first, last = self.window or (0.0, float(size[axis]))
        return replace(self, window=(margin[axis] + factor * first, margin[axis] + factor * last))

    def span(self, width: int, height: int) -> tuple[float, float]:
        """First and last line of the sensor in an image of this size [px]."""
        return self.window or (0.0, float(height if self.scan == "rows" else width))


def distort(points: Tensor, coefficients: Tensor, fisheye: bool = False) -> Tensor:
    """Distort normalized image points by equation (1) or (2); differentiable.

    Args:
        points: x_c/z_c and y_c/z_c, (..., 2).
        coefficients: (5), or (4) for a fisheye; or with leading worlds (worlds, 5), which pair with the first dimension of points.
        fisheye: Which equation.
    """
    k = coefficients.to(points)
    k = k.reshape(*k.shape[:-1], *(1,) * (points.ndim - k.ndim), k.shape[-1])
    limit = radial_limit(coefficients, fisheye).to(points)
    limit = limit.reshape(*limit.shape, *(1,) * (points.ndim - 1 - limit.ndim))
    squares = points.square().sum(-1)
    x, y = points.unbind(-1)
    if fisheye:
        radius = squares.clamp(min=1e-24).sqrt()
        angle = torch.minimum(torch.atan(radius), limit)
        q = angle.square()
        factor = angle * (1 + q * (k[..., 0] + q * (k[..., 1] + q * (k[..., 2] + q * k[..., 3])))) / radius
        return points * factor[..., None]
    s = torch.minimum(squares, limit.square())
    factor = 1 + s * (k[..., 0] + s * (k[..., 1] + s * k[..., 4]))
    p1, p2 = k[..., 2], k[..., 3]
    return torch.stack(
        [
            x * factor + 2 * p1 * x * y + p2 * (squares + 2 * x * x),
            y * factor + p1 * (squares + 2 * y * y) + 2 * p2 * x * y,
        ],
        -1,
    )


def undistort(points: Tensor, coefficients: Tensor, fisheye: bool = False) -> Tensor:
    """Inverse of `distort`, to rounding where the lens is one-to-one (Newton's method); not differentiable.

    Args:
        points: Distorted normalized image points (..., 2).
        coefficients, fisheye: As for `distort`.
    """
    with torch.inference_mode(False), torch.enable_grad():
        goal, k = points.detach().clone(), coefficients.detach().clone()
        x = goal.clone()
        for _ in range(UNDISTORT_STEPS):
            y, slope = _distortion_slope(x, k, fisheye)
            step = torch.linalg.solve(slope, goal - y)
            x = x + step
            if step.abs().max() < 1e-15:
                break
    return x


def _distortion_slope(x: Tensor, k: Tensor, fisheye: bool) -> tuple[Tensor, Tensor]:
    """Distorted points, and their derivatives (..., 2, 2) by the points."""
    if is_transformed():  # which leaves no adjoints to others
        lens, axes = lambda x: distort(x, k, fisheye), torch.eye(2, dtype=x.dtype, device=x.device)
        return lens(x), torch.stack([torch.func.jvp(lens, (x,), (axis.expand_as(x),))[1] for axis in axes], -1)
    x = x.detach().requires_grad_()
    y = distort(x, k, fisheye)
    rows = [torch.autograd.grad(y[..., j].sum(), x, retain_graph=True)[0] for j in range(2)]
    return y.detach(), torch.stack(rows, -2)


def rays(K: Tensor, R: Tensor, pixels: Tensor, coefficients: Tensor | None = None, fisheye: bool = False) -> Tensor:
    """Unit directions (n, 3) in the world of the rays through pixels, from the camera's center −Rᵀt.

    Args:
        K: Intrinsics (3, 3) [px].
        R: Rotation (3, 3) from the world to the camera.
        pixels: (n, 2), pixel centers at +0.5.
        coefficients, fisheye: As for `distort`; None of a pinhole.
    """
    camera = torch.linalg.solve(K, torch.cat([pixels, torch.ones_like(pixels[:, :1])], 1).mT).mT
    if coefficients is not None:
        straight = undistort(camera[:, :2] / camera[:, 2:], coefficients, fisheye)
        camera = torch.cat([straight, torch.ones_like(straight[:, :1])], 1)
    direction = camera @ R
    return direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)


def radial_limit(coefficients: Tensor, fisheye: bool = False) -> Tensor:
    """Radius, or angle θ of a fisheye, up to which the radial factor is used (...), of coefficients (..., 5) or (..., 4).

    It is `USED_RADIUS_SHARE` of the first of many at which r (1 + …) no longer grows, or of `MAX_RADIUS`.
    """
    k = (coefficients if fisheye else coefficients[..., [0, 1, 4]]).detach()
    radii = torch.linspace(0, MAX_RADIUS, SCANNED_RADII + 1, dtype=k.dtype, device=k.device)[1:]
    q, slope = radii.square(), torch.ones_like(radii)
    for j in range(k.shape[-1]):
        slope = slope + (2 * j + 3) * k[..., j, None] * q ** (j + 1)
    return torch.where(slope > 0, USED_RADIUS_SHARE * MAX_RADIUS, USED_RADIUS_SHARE * radii).amin(-1)


@dataclass(frozen=True, eq=False)
class OpticsValues:
    """Numbers of `Optics`, that of a scene's parameters where these are given.

    Args:
        coefficients: Of the lens (worlds or 1, 5 or 4); None without.
        readout: (worlds or 1,) [s].
        exposure: (worlds or 1,) [s].
        delay: (worlds or 1,) [s].
    """

    coefficients: Tensor | None
    readout: Tensor
    exposure: Tensor
    delay: Tensor = field(default_factory=lambda: torch.zeros(1))


def image_points(
    samples: Tensor,
    offsets: Tensor | None,
    K: Tensor,
    optics: Optics,
    values: OpticsValues,
    size: tuple[int, int],
) -> Tensor:
    """Vertices in the images of each frame; differentiable by all tensors but the offsets.

    Args:
        samples: Pixels of a pinhole at instants about the stamp of each frame (worlds, frames, samples, n, 2), one of
            them without a shutter; NaN where a vertex is not drawn.
        offsets: Instants after the stamps (frames, samples) [s]; None without a shutter.
        K: Intrinsics (worlds or 1, 3, 3).
        optics: Kinds and settings.
        values: Numbers.
        size: Height and width of the image [px].

    Returns:
        (worlds, frames · exposures, n, 2) [px], the images of a frame one after another.
    """
    valid = torch.isfinite(samples).flatten(4).all(-1).all(2)[..., None]
    middle = K[:, None, None, :2, 2].detach()
    lens = lens_map(K, optics, values)
    if offsets is None:
        return torch.where(valid, lens(torch.where(valid, samples[:, :, 0], middle)), torch.nan)
    safe = torch.where(valid[:, :, None], samples, middle[:, None])
    first, last = optics.span(size[1], size[0])
    axis = 1 if optics.scan == "rows" else 0
    readout, exposure, delay = (getattr(values, key)[:, None, None] for key in TIMES)
    line = lambda p: ((p[..., axis] - first) / (last - first) - 0.5).clamp(-0.5 - SHUTTER_MARGIN, 0.5 + SHUTTER_MARGIN)
    images = []
    for share in optics.shares:
        start = delay + exposure * share
        tau = start.detach().expand(*safe.shape[:2], safe.shape[3])
        for _ in range(NEWTON):
            tau = tau - _newton_step(tau, start.detach(), readout.detach(), safe.detach(), offsets, lens, line)[0]
        change, p, velocity = _newton_step(tau, start, readout, safe, offsets, lens, line)
        images.append(p - velocity * change[..., None])
    return torch.where(valid[:, :, None], torch.stack(images, 2), torch.nan).flatten(1, 2)


def lens_map(K: Tensor, optics: Optics, values: OpticsValues) -> Callable[[Tensor], Tensor]:
    """Map of pixels (worlds, frames, n, 2) of a pinhole to those of the image."""
    k = values.coefficients
    if k is None:
        return lambda u: u
    fx, skew, cx, fy, cy = (K[:, i, j, None, None] for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2)))

    def lens(u: Tensor) -> Tensor:
        y = (u[..., 1] - cy) / fy
        x = (u[..., 0] - cx - skew * y) / fx
        x, y = distort(torch.stack([x, y], -1), k, optics.fisheye is not None).unbind(-1)
        return torch.stack([fx * x + skew * y + cx, fy * y + cy], -1)

    return lens


def _newton_step(tau, start, readout, samples, offsets, lens, line) -> tuple[Tensor, Tensor, Tensor]:
    """Step of equation (3) at times tau (worlds, frames, n), and points and velocities there; the latter without gradients.

    At the root the step is 0, and its derivatives are those of −τ.
    """
    u, moving = interpolate(samples, offsets, tau)
    p = lens(u)
    with torch.no_grad():
        _, velocity = torch.func.jvp(lens, (u.detach(),), (moving.detach(),))[:2]
        _, crossing = torch.func.jvp(line, (p.detach(),), (velocity,))[:2]
        slope = 1 - readout.detach() * crossing
    return (tau - start - readout * line(p)) / slope, p, velocity


def interpolate(samples: Tensor, offsets: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """Points and velocities at times between samples, by parabolas (ENO: Harten et al. 1987; minmod).

    Of the two parabolas through an interval's ends and a sample next to them, each component takes the one of smaller curvature,
    or a line where they bend to different sides. So an impact disturbs the interval in which it happens, and next to it
    the path is at worst a chord.

    Args:
        samples: (worlds, frames, samples, n, 2), three or more.
        offsets: Their times (frames, samples), increasing.
        tau: (worlds, frames, n); beyond the samples the outermost parabolas go on.

    Returns:
        Points (worlds, frames, n, 2), differentiable by the samples, and their derivatives by time.
    """
    take = lambda x, index: torch.take_along_dim(x, index[:, :, None, :, None], 2)[:, :, 0]
    t = offsets.to(samples)
    step, span = (t[:, 1:] - t[:, :-1])[None, :, :, None, None], (t[:, 2:] - t[:, :-2])[None, :, :, None, None]
    speeds = (samples[:, :, 1:] - samples[:, :, :-1]) / step
    bends = (speeds[:, :, 1:] - speeds[:, :, :-1]) / span
    index = (tau[..., None] >= t[None, :, None, 1:-1]).sum(-1)
    before = take(bends, (index - 1).clamp(min=0))
    after = take(bends, index.clamp(max=bends.shape[2] - 1))
    bend = torch.where(before.abs() < after.abs(), before, after)
    bend = torch.where(before * after > 0, bend, torch.zeros_like(bend))
    times = t[None, :, :, None, None].expand(1, -1, -1, 1, 1)
    begin, end = (tau[..., None] - take(times, index + k) for k in (0, 1))
    speed = take(speeds, index)
    return take(samples, index) + begin * speed + begin * end * bend, speed + (begin + end) * bend
