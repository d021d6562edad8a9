"""A first scene of a pendulum from a clip: pivot, string, angle and speed from the outlines of its ball.

The centres of the ball lie on a circle about the pivot (in the image, where the camera looks along y at the plane of the
swing). Their angles θ from the downward vertical follow

    θ'' = −w² sin θ − d |θ'| θ',     w² = g l / (l² + 2 r²/5)

with l from the pivot to the centre of a solid ball of radius r. The image gives l/r; so the clock and the strength of
gravity give l in meters where no length is known.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from gradsim.errors import InputError

GRAVITY = 9.81  # m/s²
ARC = 0.3  # of the circle that the centres have to cover [rad], for pivot and radius to be known
WINDOW = 8  # frames that the swing is fitted to at first; then twice as many, up to all
MIN_SQUARED_RATE, MAX_SQUARED_RATE = 0.05, 1e5  # w² of a string of 200 m and of 0.1 mm [1/s²]
# Of angle, rate, w² and d
LOW, HIGH = [-np.inf, -np.inf, 0.9 * MIN_SQUARED_RATE, 0.0], [np.inf, np.inf, MAX_SQUARED_RATE, 5.0]
STEP = 0.02  # [rad] of the swing in a step of the Runge–Kutta method, at most
MIN_HALF_FRAMES = 8  # frames of the first half of a clip, at least, to say that its string is slack
# Scatter of the length over that of the second half, and in px, from which it is said
MIN_SLACK_RATIO, MIN_SLACK_PIXELS = 1.5, 2.0
SLOW_FRAME_SHARE = 0.25  # of the frames, those in which the ball is slowest
DRAG_RANGE = "0.0001:0.3"  # [1/rad] of the unknown
SHOWN = 3.0  # standard deviations from which a drag is shown
INERTIA = 0.4  # of a solid ball, over m r²


@dataclass(frozen=True)
class Swing:
    """Motion of a pendulum in the image.

    Args:
        pivot: Column and row (2,) [px].
        length: From the pivot to the centre of the ball [px].
        angle: At frame 0, from the downward vertical, positive to the right [rad].
        rate: At frame 0 [rad/s].
        stiffness: w² [1/s²].
        drag: d [1/rad].
        drag_error: Its standard deviation by what is left of the centres [1/rad].
        error: Root mean square of what is left of the centres [px].
    """

    pivot: np.ndarray
    length: float
    angle: float
    rate: float
    stiffness: float
    drag: float
    drag_error: float
    error: float

    @property
    def is_slowed(self) -> bool:
        """True if the centres show that the air slows it."""
        return self.drag > SHOWN * self.drag_error


def swing(frames: np.ndarray, centre: np.ndarray, fps: float) -> Swing:
    """Fit the motion of a pendulum to the centres of its ball.

    Args:
        frames: Indices (n,) of frames, increasing.
        centre: Columns and rows (n, 2) [px].
        fps: Frames per second.

    Raises:
        InputError: If there are fewer than 5 centres, they are on no arc of a circle, or do not swing about its lowest point.
    """
    if len(frames) < 5:
        raise InputError(f"the ball of the pendulum is whole in {len(frames)} frames; expected 5 or more.")
    pivot, length = _circle(centre)
    off = centre - pivot
    theta = np.unwrap(np.arctan2(off[:, 0], off[:, 1]))
    if np.ptp(theta) < ARC:
        raise InputError(
            f"the centres of the ball cover {np.ptp(theta):.2g} rad of a circle; expected {ARC} or more to know the pivot. Use a "
            "longer clip, or a wider swing."
        )
    times = frames / fps
    start = _first_guess(times, theta)
    count = WINDOW
    while True:
        part = slice(0, count)
        t = times[part] - times[0]
        residual = lambda y, t=t, part=part: _angles(t, *y) - theta[part]
        fit = least_squares(residual, start, x_scale=[0.1, 0.3, 3.0, 0.1], bounds=(LOW, HIGH))
        start = fit.x
        if count >= len(times):
            break
        count *= 2
    if start[2] <= MIN_SQUARED_RATE:
        raise InputError("the centres of the ball are on a circle, but do not swing about its lowest point.")
    angle, rate = _state(np.array([0.0, -times[0]]), *start)[-1].tolist()
    error = length * float(np.sqrt(np.mean(fit.fun**2)))
    spread = np.sqrt(np.diagonal(np.linalg.pinv(fit.jac.T @ fit.jac)) * np.sum(fit.fun**2) / max(1, len(theta) - 4))
    return Swing(pivot, length, angle, rate, float(start[2]), float(start[3]), float(spread[3]), error)


def _circle(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre (2,) and radius of the circle through points (n, 2), by orthogonal distance."""
    middle = points.mean(0)
    x, y = (points - middle).T
    a = np.linalg.lstsq(np.stack([x, y, np.ones_like(x)], 1), x**2 + y**2, rcond=None)[0]
    start = [*(middle + a[:2] / 2), math.sqrt(max(a[2] + (a[0] ** 2 + a[1] ** 2) / 4, 1.0))]
    fit = least_squares(lambda c: np.hypot(*(points - c[:2]).T) - c[2], start, loss="soft_l1")
    return fit.x[:2], float(fit.x[2])


def _first_guess(t: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Angle, rate, w² and d from differences of neighbouring frames."""
    step = np.diff(t)
    speed = np.diff(theta) / step
    even = np.isclose(step[1:], step[:-1])
    push, fall = (np.diff(speed) / step[1:])[even], np.sin(theta[1:-1])[even]
    w2 = min(max(-float(push @ fall) / max(float(fall @ fall), 1e-9), 2 * MIN_SQUARED_RATE), MAX_SQUARED_RATE / 2)
    return np.array([theta[0], speed[0] + step[0] / 2 * w2 * math.sin(theta[0]), w2, 1e-3])


def _state(t: np.ndarray, angle: float, rate: float, w2: float, drag: float) -> np.ndarray:
    """Angles and rates (n, 2) at times (n,) from the first on, forwards or backwards, by Runge–Kutta's method."""
    slope = lambda y: np.array([y[1], -w2 * math.sin(y[0]) - drag * abs(y[1]) * y[1]])
    y = np.array([angle, rate], np.float64)
    states = [y]
    fastest = abs(rate) + 2 * math.sqrt(abs(w2))
    for gap in np.diff(t):
        steps = min(max(1, math.ceil(abs(gap) * fastest / (10 * STEP))), 1000)
        h = gap / steps
        for _ in range(steps):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
        states.append(y)
    return np.array(states)


def _angles(t: np.ndarray, angle: float, rate: float, w2: float, drag: float) -> np.ndarray:
    return _state(t, angle, rate, w2, drag)[:, 0]


def meters_per_pixel(motion: Swing, radius: float, gravity: float = GRAVITY) -> float:
    """Width of a pixel in the plane of the swing [m], from gravity [m/s²] and the radius of the ball [px]."""
    shape = 1 + INERTIA * (radius / motion.length) ** 2
    return gravity / (motion.stiffness * motion.length * shape)


def first_pendulum(
    body: Mapping[str, Any],
    frames: np.ndarray,
    centre: np.ndarray,
    area: np.ndarray,
    size: tuple[int, int],
    fps: float,
    ball: float | None = None,
    focal: float | None = None,
    distance: float | None = None,
    usual_focal: float = 1.0,
) -> tuple[dict[str, Any], tuple[float, float, float], dict[str, str]]:
    """Pendulum as it swings in a clip; z = 0 is the lower edge of the image.

    Args:
        body: Content of the pendulum to start from.
        frames: Indices (n,) of the frames where its ball is whole.
        centre: Columns and rows (n, 2) [px].
        area: (n,) [px²].
        size: Width and height of the clip [px].
        fps: Frames per second.
        ball: Diameter of the ball [m].
        focal: Focal length [px].
        distance: From the camera to the plane of the swing [m].
        usual_focal: Focal length where none is given [px].

    Returns:
        Content of the pendulum; focal length [px], distance [m] and height of the camera [m]; where each number is from.

    Raises:
        InputError: As `swing`.
    """
    motion = swing(frames, centre, fps)
    radius = _radius(frames, centre, area)
    if focal is not None and distance is not None:
        pixel, source = distance / focal, "focal length and distance"
    elif ball is not None:
        pixel, source = ball / 2 / radius, "the size of the ball"
    else:
        pixel, source = meters_per_pixel(motion, radius), f"the period and gravity, {GRAVITY:g} m/s²"
    lens = focal or (distance / pixel if distance is not None else usual_focal)
    depth = distance or lens * pixel
    height = size[1] / 2 * pixel
    content = pendulum_content(body, motion, radius, pixel, (size[0] / 2, size[1] / 2), height)
    sources = {
        "scale": f"{1e3 * pixel:.4g} mm is a pixel in the plane of the swing, from {source}",
        "size": f"the ball is {2 * radius:.4g} px wide",
        "focal length": f"{lens:.4g} px, "
        + (
            "as given"
            if focal
            else "from distance and scale"
            if distance
            else "A GUESS, as of a phone: give --focal, or --distance"
        ),
        "distance": f"{depth:.3g} m, " + ("as given" if distance else "from focal length and scale"),
        "pivot": f"center of the circle through the centers of the ball, {motion.length:.4g} px away",
        "angle": f"of frame 0, from a swing that is off the {len(frames)} centers by {motion.error:.2g} px",
        "ground": "there is none; z = 0 is the picture's lower edge",
        "drag": f"{motion.drag:.2g} ± {motion.drag_error:.2g} 1/rad, from the swing"
        if motion.is_slowed
        else f"0 and known, as the swing shows none ({motion.drag:.1g} ± {motion.drag_error:.1g} 1/rad); where the air slows it, "
        f"write one, and make it an unknown from {DRAG_RANGE.replace(':', ' to ')}",
        **_slack(frames, centre, motion),
        "string": "is not drawn: masks are taken to be of the ball alone",
    }
    return content, (lens, depth, height), sources


def _slack(frames: np.ndarray, centre: np.ndarray, motion: Swing) -> dict[str, str]:
    """A sentence where the ball is not as far from its pivot in the first frames as in the last; none elsewhere."""
    off = np.hypot(*(centre - motion.pivot).T) - motion.length
    half = len(off) // 2
    early, late = off[:half].std(), off[half:].std()
    if half < MIN_HALF_FRAMES or early < max(MIN_SLACK_RATIO * late, MIN_SLACK_PIXELS):
        return {}
    words = f"its length scatters by {early:.2g} px up to frame {frames[half - 1]} and by {late:.2g} px after it"
    return {"taut": f"LOOK AT THE STRING: {words}; where it is slack, or held, start later (--frames {frames[half]}:)"}


def _radius(frames: np.ndarray, centre: np.ndarray, area: np.ndarray) -> float:
    """Radius of the ball [px] where it is slow: motion blur makes it longer."""
    speed = np.linalg.norm(np.gradient(centre, frames, axis=0), axis=1)
    slow = np.argsort(speed)[: max(3, round(SLOW_FRAME_SHARE * len(speed)))]
    return math.sqrt(float(np.median(area[slow])) / math.pi)


def pendulum_content(
    body: Mapping[str, Any], motion: Swing, radius: float, pixel: float, middle: tuple[float, float], height: float
) -> dict[str, Any]:
    """Content of the pendulum of a scene file.

    Args:
        body: Content to start from.
        motion: Motion in the image.
        radius: Of the ball [px].
        pixel: Width of a pixel in the plane of the swing [m].
        middle: Column and row of the image's center [px].
        height: Height of the image's center [m].
    """
    place = [(motion.pivot[0] - middle[0]) * pixel, 0.0, height - (motion.pivot[1] - middle[1]) * pixel]
    dropped = ("damping", "force_per_mass", "plane", "colour", "rod_radius")
    return {key: value for key, value in body.items() if key not in dropped} | {
        "pivot": [round(float(x), 4) for x in place],
        "string_length": round((motion.length - radius) * pixel, 4),
        "radius": round(radius * pixel, 4),
        "angle": round(motion.angle, 4),
        "rate": round(motion.rate, 3),
        "drag": round(motion.drag, 4) if motion.is_slowed else 0.0,
    }


def pendulum_unknowns(name: str, body: Any, focal: float, by_gravity: bool, size_known: bool) -> list[str]:
    """Unknowns of a first fit with ranges: of the strength of gravity, or, where that gave the scale, of the lens; of a drag where the scene has one.

    Args:
        name: Of the pendulum.
        body: The pendulum.
        focal: Focal length of the camera [px].
        by_gravity: True if gravity is known and gives the scale.
        size_known: True if the radius of the ball is known.
    """
    around = lambda key, value, low, high: f"{name}.{key}:{low * value:.3g}:{high * value:.3g}"
    x, _, z = body.pivot
    unknowns = [around("string_length", body.string_length, 0.75, 1.3)]
    unknowns += [] if size_known else [around("radius", body.radius, 0.75, 1.3)]
    unknowns += [f"{name}.pivot.{axis}:{at - 0.1:.3f}:{at + 0.1:.3f}" for axis, at in (("x", x), ("z", z))]
    unknowns += [
        f"{name}.angle:{body.angle - 0.3:.3f}:{body.angle + 0.3:.3f}",
        f"{name}.rate:{body.rate - 2:.2f}:{body.rate + 2:.2f}",
    ]
    unknowns += [f"{name}.drag:{DRAG_RANGE}"] if body.drag > 0 else []
    scaled = by_gravity or size_known
    unknowns += [f"camera.focal:{0.75 * focal:.4g}:{1.3 * focal:.4g}"] if scaled else []
    return unknowns if by_gravity else [*unknowns, "gravity.z:-15:-5"]
