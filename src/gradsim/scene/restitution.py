"""Between the damping of a compliant contact and what a bounce leaves of the speed, e = −v_exit/v_impact.

For one contact point, and a bounce that is fast enough for gravity not to act in it. The continuous law (Hunt & Crossley
1975), f = k C (1 + a Ċ), loses more of a faster impact: with v the impact speed and s = a v,

    s − ln(1 + s) = −e s − ln(1 − e s)          whatever mass and stiffness; e ≈ 1 − 2/3 s where s is small

The paper's law, f = max(0, k_e C + k_d Ċ) while C > 0, loses the same share of any, with ζ = k_d/(2 √(k_e m)):

    e = exp(−2 ζ arccos ζ/√(1 − ζ²))            arccosh and √(ζ² − 1) where ζ > 1
    e = exp(−π ζ/√(1 − ζ²))                     as printed, where the ground may pull (ζ < 1)
"""

import math
from collections.abc import Callable

from gradsim.errors import InputError

SERIES = 1e-2  # below it, x − ln(1 + x) by its series, which has no cancellation
TERMS = 9  # of it: the next one is below 1e-2 ** 9
NEARLY = 1e-5  # 1 − ζ² below it, where the exponent is 2 ζ to rounding


def of_dissipation(dissipation: float, speed: float) -> float:
    """e of the continuous law.

    Args:
        dissipation: a [s/m], at least 0.
        speed: Of the impact [m/s], above 0.
    """
    s = dissipation * speed
    if not (s >= 0 and math.isfinite(s)):
        raise InputError(f"dissipation {dissipation} s/m and speed {speed} m/s: expected finite ones of at least 0.")
    if s == 0:
        return 1.0
    lost = _missing(s)
    return _root(lambda e: _missing(-e * s) - lost, 0.0, min(1.0, 1 / s))


def dissipation(e: float, speed: float) -> float:
    """a [s/m] of the continuous law that leaves e of an impact at `speed` [m/s].

    Raises:
        InputError: If e is not above 0 and at most 1, or the speed not above 0.
    """
    _check(e)
    if not (speed > 0 and math.isfinite(speed)):
        raise InputError(f"the impact speed is {speed} m/s; expected one above 0.")
    if e == 1:
        return 0.0
    small = 1.5 * (1 - e * e) / (1 + e**3)  # the root to the third order
    return _root(lambda s: _missing(-e * s) - _missing(s), min(0.5 * small, 0.5 / e), 1 / e) / speed


def of_damping(damping: float, stiffness: float, mass: float, adhesive: bool = False) -> float:
    """e of the paper's law.

    Args:
        damping: k_d [N s/m].
        stiffness: k_e [N/m].
        mass: [kg].
        adhesive: Whether the ground may pull. e is 0 then from ζ = 1 on: the body does not come off.
    """
    zeta = damping / (2 * math.sqrt(stiffness * mass))
    if adhesive:
        return math.exp(-math.pi * zeta / math.sqrt(1 - zeta**2)) if zeta < 1 else 0.0
    return math.exp(-_exponent(zeta))


def damping(e: float, stiffness: float, mass: float, adhesive: bool = False) -> float:
    """k_d [N s/m] of the paper's law that leaves e of any impact; arguments as for `of_damping`.

    Raises:
        InputError: If e is not above 0 and at most 1, or stiffness or mass are not above 0.
    """
    _check(e)
    if not (stiffness > 0 and mass > 0):
        raise InputError(f"stiffness {stiffness} N/m and mass {mass} kg: expected both above 0.")
    wanted = -math.log(e)
    if adhesive:
        zeta = wanted / math.hypot(math.pi, wanted)
    else:
        zeta = _root(lambda z: _exponent(z) - wanted, 0.0, 1 / math.sqrt(e)) if wanted else 0.0  # e > 1/(4 ζ²) beyond 1
    return 2 * zeta * math.sqrt(stiffness * mass)


def _exponent(zeta: float) -> float:
    """2 ζ arccos ζ/√(1 − ζ²)."""
    away = 1 - zeta * zeta
    if abs(away) < NEARLY:
        return 2 * zeta * (1 + away / 6)
    return 2 * zeta * (math.acos(zeta) / math.sqrt(away) if away > 0 else math.acosh(zeta) / math.sqrt(-away))


def _missing(x: float) -> float:
    """x − ln(1 + x), without cancellation; infinite from −1 on."""
    if x <= -1:
        return math.inf
    if abs(x) > SERIES:
        return x - math.log1p(x)
    return math.fsum((-x) ** n / n for n in range(2, TERMS + 1))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function rises through 0 between two ends, to the last bit."""
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return middle


def _check(e: float) -> None:
    if not 0 < e <= 1:
        raise InputError(f"the restitution is {e}; it is above 0 and at most 1, which loses nothing.")
