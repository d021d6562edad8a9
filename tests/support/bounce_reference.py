"""A ball that falls on a plane and bounces, by SciPy's DOP853 restarted at every touch and release."""

import numpy as np
from scipy.integrate import solve_ivp

PRECISION = {"rtol": 1e-13, "atol": 1e-15}


def hunt_crossley(depth: float, rate: float, stiffness: float, dissipation: float) -> float:
    """k C (1 + a Ċ) of a depth C > 0 whose gap changes at `rate`, never below 0."""
    return max(stiffness * depth * (1 - dissipation * rate), 0.0)


def constant_restitution(depth: float, rate: float, stiffness: float, damping: float) -> float:
    """k C (1 + d Ċ/√((k C)² + (d Ċ)²))."""
    spring, dashpot = stiffness * depth, -damping * rate
    size = np.hypot(spring, dashpot)
    return spring * (1 + (dashpot / size if size else 0.0))


LAWS = {"continuous": hunt_crossley, "constant-restitution": constant_restitution}


def bounce(numbers: dict[str, float], law: str, radius: float, mass: float, g: float, time: float) -> np.ndarray:
    """Height and velocity of its centre after a time.

    Args:
        numbers: Its z and w at the start, the height of the plane, stiffness and damping.
        law: Key of `LAWS`.
        radius: [m].
        mass: [kg].
        g: [m/s²].
        time: [s].
    """
    n = numbers
    gap = lambda t, y: y[0] - n["height"] - radius
    pressed = lambda t, y: [y[1], LAWS[law](-gap(t, y), y[1], n["stiffness"], n["damping"]) / mass - g]
    free = lambda t, y: [y[1], -g]
    at, y, inside = 0.0, np.array([n["z"], n["w"]]), False
    while True:
        crossing = lambda t, y: gap(t, y)
        crossing.terminal, crossing.direction = True, 1 if inside else -1
        end = solve_ivp(pressed if inside else free, (at, time), y, "DOP853", events=crossing, **PRECISION)
        at, y, inside = end.t[-1], end.y[:, -1], not inside
        if end.status == 0:
            return y


def sensitivity(numbers: dict[str, float], by: str, *args) -> np.ndarray:
    """Derivative of `bounce` by one of its numbers: a central difference of fourth order."""
    step = 1e-3 * max(abs(numbers[by]), 0.1)
    secant = lambda h: (
        (bounce(numbers | {by: numbers[by] + h}, *args) - bounce(numbers | {by: numbers[by] - h}, *args)) / (2 * h)
    )
    return (4 * secant(step) - secant(2 * step)) / 3
