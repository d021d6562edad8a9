"""Steps that end where a body touches and where it releases, a template for `engine.lanes`.

The force of contact is continuous, but has a kink at touch and at release. A step across a kink has an error that depends on
where in the step the kink lies, so the derivatives of a motion after a bounce converge as h alone. A step here has contacts in
fixed modes (`contact/point_plane.py`), so its force is smooth. The margin of a contact is the gap where it is off, minus the
gap where it is held. Where the least margin m of all contacts is negative after a step, that step ends at its first root,

    m(τ) = 0,   the margins of the discrete map Φ_τ itself, so that the derivatives of τ are those of the map:
    dτ = -(∂gap/∂y · dΦ + ∂gap/∂parameters) / (∂gap/∂y · ∂Φ/∂τ)

found by Newton's method inside a bracket. The first guess is the root of the cubic through both ends with the rates there: in
free flight it is nearly exact. Newton's slope is the rate of the gap in the motion, and in the end a secant
of the map: with dual lanes the same iteration gives dτ. Each world has its own τ, and what it is does not depend on others.

Left open: what `rigid/wrench_kernels.py` has.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_sdf import obstacle_touch
    from gradsim.physics.rigid.wrench_kernels import Parameters, spin, surface_gap

OBSTACLES = globals().get("OBSTACLES", False)
ROUNDING = wp.constant(1e-15)  # of a gap, over the size of positions
# Part of a step that a contact has to be away to be inside or outside whatever its rate
MIN_SEPARATION = wp.constant(1e-7)
# Last change of τ over the length of the step, besides rounding: its error is far less
ROOT_TOLERANCE = wp.constant(1e-11)
SECANT_TOLERANCE = wp.constant(1e-3)  # changes of τ over the step below which the slope is a secant
NO_MARGIN = wp.constant(1e30)  # margin of a contact without one [m]


@wp.func(inline=True)
def gap_rate(p: Parameters, i: int, g: int, j: int, x: Vec3, q: Quat, v: Vec3, w: Vec3):
    """Rate of the gap of point j and surface g [m/s]."""
    at = rotate(q, p.points[i, j])
    if OBSTACLES:
        o = g - p.normal.shape[1]
        if o >= 0:
            _gap, n = obstacle_touch(
                x, q, p.points[i, j], p.radius[i, j], p.centre[i, o], p.axis[i, o, 0], p.axis[i, o, 1],
                p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2], p.rounding[i, o],
            )  # fmt: skip
            return dot(n, v + cross(w, at))
    return dot(p.normal[i, g], v + cross(w, at))


@wp.func(inline=True)
def rounding(p: Parameters, i: int, x: Vec3):
    """Rounding of a gap [m]."""
    return (sqrt(dot(x, x)) + p.reach[i]) * spread(Scalar(ROUNDING))


@wp.func(inline=True)
def set_modes(p: Parameters, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, l: Vec3, plain: Mask):
    """Modes of a step of length h: held inside, off outside; plain in those worlds. A touching one goes by its rate."""
    inverse = p.inertia_inverse[i]
    reach = p.reach[i] * p.reach[i]
    way = (dot(v, v) + dot(l, l) * ddot(inverse, inverse) * reach) * (h * h)  # half its square, or more
    band = way * spread(Scalar(2.0 * MIN_SEPARATION * MIN_SEPARATION)) + (dot(x, x) + reach) * spread(
        Scalar(2.0 * ROUNDING * ROUNDING)
    )
    for g in range(p.stiffness.shape[1]):
        for j in range(p.points.shape[1]):
            gap = surface_gap(p, i, g, j, x, q)
            touching = less(gap * gap, band)
            if any_lane(touching):
                w = spin(q, l, inverse)
                gap = where(touching, gap_rate(p, i, g, j, x, q, v, w), gap)
            mode = where(less(gap, zero(0)), spread(Scalar(1.0)), zero(0))
            p.mode[i, g * p.points.shape[1] + j] = where(plain, spread(Scalar(2.0)), mode)


@wp.func(inline=True)
def margin_of(mode: Real, gap: Real):
    half = spread(Scalar(0.5))
    return where(less(half, mode), where(less(mode, half * 3.0), neg(gap), spread(Scalar(NO_MARGIN))), gap)


@wp.func(inline=True)
def least_margin(p: Parameters, i: int, x: Vec3, q: Quat):
    """The least margin [m], and its contact: surface times number of points plus point."""
    least = spread(Scalar(NO_MARGIN))
    contact = zero(0)
    points = p.points.shape[1]
    for g in range(p.stiffness.shape[1]):
        for j in range(points):
            margin = margin_of(p.mode[i, g * points + j], surface_gap(p, i, g, j, x, q))
            contact = where(less(margin, least), spread(Scalar(g * points + j)), contact)
            least = min(margin, least)
    return least, contact


@wp.func(inline=True)
def is_contact(contact: Real, c: int):
    return less(abs(contact - spread(Scalar(c))), spread(Scalar(0.5)))


@wp.func(inline=True)
def margin_rate(p: Parameters, i: int, contact: Real, x: Vec3, q: Quat, v: Vec3, l: Vec3):
    """Rate of the margin of a contact of each world [m/s]."""
    w = spin(q, l, p.inertia_inverse[i])
    rate = zero(0)
    points = p.points.shape[1]
    for g in range(p.stiffness.shape[1]):
        for j in range(points):
            chosen = is_contact(contact, g * points + j)
            if any_lane(chosen):
                speed = margin_of(p.mode[i, g * points + j], gap_rate(p, i, g, j, x, q, v, w))
                rate = where(chosen, speed, rate)
    return rate


@wp.func(inline=True)
def margin_at(p: Parameters, i: int, contact: Real, x: Vec3, q: Quat):
    """Margin of a contact of each world [m]."""
    margin = zero(0)
    points = p.points.shape[1]
    for g in range(p.stiffness.shape[1]):
        for j in range(points):
            chosen = is_contact(contact, g * points + j)
            if any_lane(chosen):
                margin = where(chosen, margin_of(p.mode[i, g * points + j], surface_gap(p, i, g, j, x, q)), margin)
    return margin


@wp.func(inline=True)
def cubic_root(m0: Real, r0: Real, m1: Real, r1: Real, h: Real):
    """Root of the cubic of values m0 > 0 and m1 < 0 and slopes r0 and r1 at 0 and h, by Newton's method from its parabola."""
    one = spread(Scalar(1.0))
    bend = (m0 - m1 + r1 * h) / (h * h)
    root = sqrt(max(r1 * r1 - bend * m1 * 4.0, one * 1e-30))
    back = where(less(r1, root), m1 * 2.0 / where(less(r1, root), r1 - root, one), h)
    t = one - back / h
    a = (r0 + r1) * h + (m0 - m1) * 2.0
    b = (m1 - m0) * 3.0 - (r0 * 2.0 + r1) * h
    for _n in range(3):
        slope = (a * t * 3.0 + b * 2.0) * t + r0 * h
        downhill = less(slope, zero(0))
        t = t - where(downhill, (((a * t + b) * t + r0 * h) * t + m0) / where(downhill, slope, one), zero(0))
    inside = less(abs(t - 0.5), one * 0.5)
    return where(inside, t, one * 0.5) * h


@wp.func(inline=True)
def newton_step(
    noise: Real, size: Real, tau: Real, margin: Real, contact: Real, rate: Real,
    low: Real, high: Real, tau_before: Real, margin_before: Real, contact_before: Real, slope_before: Real,
):  # fmt: skip
    """Next τ, its slope, the bracket, and where τ is a root to rounding, from the least margin at τ.

    `size` is the length of the step without an event, and `rate` that of the margin; the rest is of this iteration and the
    one before.
    """
    one = spread(Scalar(1.0))
    change = tau - tau_before
    apart = less(noise * 1e6, abs(change) * abs(rate))
    secant = where(apart, (margin - margin_before) / where(apart, change, one), slope_before)
    slope = where(less(abs(change), size * spread(Scalar(SECANT_TOLERANCE))), secant, rate)
    slope = where(less(abs(contact - contact_before), spread(Scalar(0.5))), slope, rate)
    downhill = less(slope, zero(0))
    lower = where(less(zero(0), margin), tau, low)
    upper = where(less(margin, zero(0)), tau, high)
    newton = tau - margin / where(downhill, slope, one)
    precise = less(abs(newton - tau) * abs(slope), size * abs(slope) * spread(Scalar(ROOT_TOLERANCE)) + noise)
    middle = (lower + upper) * 0.5
    inside = where(less(lower, newton), where(less(newton, upper), newton, middle), middle)
    exact = where(downhill, where(precise, one, zero(0)), zero(0))
    return where(downhill, where(precise, newton, inside), middle), slope, lower, upper, exact
