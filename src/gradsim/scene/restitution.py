"""Conversion between contact damping and the coefficient of restitution e = −v_exit/v_impact.

For one contact point and a bounce so fast that gravity is negligible. With the continuous law (Hunt & Crossley 1975),
f = k C (1 + a Ċ), e decreases with the impact speed v; with s = a v,

    s − ln(1 + s) = −e s − ln(1 − e s)          independent of mass and stiffness; e ≈ 1 − 2/3 s for small s

With the paper's law, f = max(0, k_e C + k_d Ċ) while C > 0, e is independent of the speed; with ζ = k_d/(2 √(k_e m)),

    e = exp(−2 ζ arccos ζ/√(1 − ζ²))            arccosh and √(ζ² − 1) where ζ > 1
    e = exp(−π ζ/√(1 − ζ²))                     as printed, where the ground may attract (ζ < 1)

With the law of constant restitution, f = k_e C (1 + k_d Ċ/√((k_e C)² + (k_d Ċ)²)), in the phase plane ω C = r sin θ,
Ċ = r cos θ with ω² = k_e/m,

    e = exp(−∫₀^π 2 ζ sin θ cos²θ/(ρ + 2 ζ sin²θ cos θ) dθ)      ρ² = sin²θ + 4 ζ² cos²θ;  e ≈ exp(−π ζ) for small ζ
"""

import math
from collections.abc import Callable

from gradsim.errors import InputError

SERIES = 1e-2  # below it, x − ln(1 + x) is computed by its series, which has no cancellation
TERMS = 9  # number of terms: the next one is below 1e-2 ** 9
CRITICAL_MARGIN = 1e-5  # 1 − ζ² below which the exponent is 2 ζ to rounding


def of_dissipation(dissipation: float, speed: float) -> float:
    """e of the continuous law.

    Args:
        dissipation: a [s/m], at least 0.
        speed: Impact speed [m/s], above 0.
    """
    s = dissipation * speed
    if not (s >= 0 and math.isfinite(s)):
        raise InputError(
            f"got dissipation {dissipation} s/m and speed {speed} m/s; expected finite numbers of at least 0."
        )
    if s == 0:
        return 1.0
    lost = _missing(s)
    return _root(lambda e: _missing(-e * s) - lost, 0.0, min(1.0, 1 / s))


def dissipation(e: float, speed: float) -> float:
    """a [s/m] of the continuous law with restitution e at an impact speed [m/s].

    Raises:
        InputError: If e is not above 0 and at most 1, or the speed not above 0.
    """
    _check(e)
    if not (speed > 0 and math.isfinite(speed)):
        raise InputError(f"the impact speed is {speed} m/s; it must be above 0.")
    if e == 1:
        return 0.0
    small = 1.5 * (1 - e * e) / (1 + e**3)  # the root to the third order
    return _root(lambda s: _missing(-e * s) - _missing(s), min(0.5 * small, 0.5 / e), 1 / e) / speed


def of_damping(damping: float, stiffness: float, mass: float, law: str = "paper") -> float:
    """e of a law with `damping`.

    Args:
        damping: k_d [N s/m].
        stiffness: k_e [N/m].
        mass: Bouncing mass [kg].
        law: `paper`, `paper-adhesive`, whose e is 0 for ζ ≥ 1, or `constant-restitution`.
    """
    zeta = damping / (2 * math.sqrt(stiffness * mass))
    if law == "paper-adhesive":
        return math.exp(-math.pi * zeta / math.sqrt(1 - zeta**2)) if zeta < 1 else 0.0
    return math.exp(-(_decay(zeta) if law == "constant-restitution" else _exponent(zeta)))


def damping(e: float, stiffness: float, mass: float, law: str = "paper") -> float:
    """k_d [N s/m] of a law with restitution e; arguments as for `of_damping`.

    Raises:
        InputError: If e is not above 0 and at most 1, or stiffness or mass are not above 0.
    """
    _check(e)
    if not (stiffness > 0 and mass > 0):
        raise InputError(f"got stiffness {stiffness} N/m and mass {mass} kg; both must be above 0.")
    decay = -math.log(e)
    if law == "paper-adhesive":
        zeta = decay / math.hypot(math.pi, decay)
    elif law == "constant-restitution":
        zeta = _root(lambda z: _decay(z) - decay, 0.0, 1 / e**2) if decay else 0.0
    else:
        zeta = _root(lambda z: _exponent(z) - decay, 0.0, 1 / math.sqrt(e)) if decay else 0.0  # e > 1/(4 ζ²) beyond 1
    return 2 * zeta * math.sqrt(stiffness * mass)


def _exponent(zeta: float) -> float:
    """2 ζ arccos ζ/√(1 − ζ²)."""
    rest = 1 - zeta * zeta
    if abs(rest) < CRITICAL_MARGIN:
        return 2 * zeta * (1 + rest / 6)
    return 2 * zeta * (math.acos(zeta) / math.sqrt(rest) if rest > 0 else math.acosh(zeta) / math.sqrt(-rest))


def _decay(zeta: float) -> float:
    """−ln e of the law of constant restitution."""
    from scipy.integrate import quad

    def integrand(theta: float) -> float:
        sine, cosine = math.sin(theta), math.cos(theta)
        size = math.hypot(sine, 2 * zeta * cosine)
        return 2 * zeta * sine * cosine**2 / (size + 2 * zeta * sine**2 * cosine)

    return (
        quad(integrand, 0.0, math.pi, points=[math.pi / 2], epsabs=1e-15, epsrel=1e-12, limit=200)[0] if zeta else 0.0
    )


def _missing(x: float) -> float:
    """x − ln(1 + x), without cancellation; infinite for x ≤ −1."""
    if x <= -1:
        return math.inf
    if abs(x) > SERIES:
        return x - math.log1p(x)
    return math.fsum((-x) ** n / n for n in range(2, TERMS + 1))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Root of an increasing function by bisection, to the last bit."""
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if function(middle) > 0 else (middle, high)
    return middle


def _check(e: float) -> None:
    if not 0 < e <= 1:
        raise InputError(f"the restitution is {e}; it must be above 0 and at most 1.")
