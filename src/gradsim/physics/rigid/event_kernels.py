"""Steps that end where a body touches and where it releases, a template for `engine.lanes`.

The force of contact is continuous, but has a kink at touch and at release. A step across a kink has an error that depends on
where in the step the kink lies, so the derivatives of a motion after a bounce converge as h alone. A step here has contacts in
fixed modes (`contact/point_plane.py`), so its force is smooth. The margin of a contact is the gap where it is off, minus the
gap where it is held. Where the least margin m of all contacts is negative after a step, that step ends at its first root,

    m(τ) = 0,   the margins of the discrete map Φ_τ itself, so that the derivatives of τ are those of the map:
    dτ = -(∂gap/∂y · dΦ + ∂gap/∂parameters) / (∂gap/∂y · ∂Φ/∂τ)

found by Newton's method inside a bracket. The first guess is the root of the parabola through both ends, with the rate at
the far one: in free flight it is nearly exact. Newton's slope is the rate of the gap in the motion, and in the end a secant
of the map: with dual lanes the same iteration gives dτ. Each world has its own τ, and what it is does not depend on others.

Left open: what `rigid/wrench_kernels.py` has, and `advance` of an integrator.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_sdf import obstacle_touch
    from gradsim.physics.rigid.rk4_kernels import advance
    from gradsim.physics.rigid.wrench_kernels import Parameters, spin, surface_gap

OBSTACLES = globals().get("OBSTACLES", False)
ROUNDING = wp.constant(1e-15)  # of a gap, over the size of positions
NEXT = wp.constant(1e-7)  # part of a step that a contact has to be away to be inside or outside whatever its rate
EXACT = wp.constant(1e-13)  # error of τ over the length of the step, besides rounding
ITERATIONS = wp.constant(24)  # enough for bisections to come to the reach of Newton's method
GRAZING = wp.constant(0.01)  # least speed at a root, as depth over the step, as a share of the depth without one
SECANT = wp.constant(1e-3)  # changes of τ over the step below which the slope is a secant
FAR = wp.constant(1e30)  # margin of a contact without one [m]


@wp.func
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


@wp.func
def set_modes(p: Parameters, h: Real, i: int, x: Vec3, q: Quat, v: Vec3, l: Vec3, plain: Mask):
    """Modes of a step of length h: held inside, off outside; plain in those worlds. A touching one goes by its rate."""
    w = spin(q, l, p.inertia_inverse[i])
    band = (sqrt(dot(v, v)) + sqrt(dot(w, w)) * p.reach[i]) * h * spread(Scalar(NEXT)) + rounding(p, i, x)
    for g in range(p.stiffness.shape[1]):
        for j in range(p.points.shape[1]):
            gap = surface_gap(p, i, g, j, x, q)
            touching = less(abs(gap), band)
            if any_lane(touching):
                gap = where(touching, gap_rate(p, i, g, j, x, q, v, w), gap)
            mode = where(less(gap, zero(0)), spread(Scalar(1.0)), zero(0))
            p.mode[i, g * p.points.shape[1] + j] = where(plain, spread(Scalar(2.0)), mode)


@wp.func(inline=True)
def margin_of(mode: Real, gap: Real):
    half = spread(Scalar(0.5))
    return where(less(half, mode), where(less(mode, half * 3.0), neg(gap), spread(Scalar(FAR))), gap)


@wp.func
def least_margin(p: Parameters, i: int, x: Vec3, q: Quat):
    """The least margin [m], and its contact: surface times number of points plus point."""
    least = spread(Scalar(FAR))
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


@wp.func
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


@wp.func
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
def parabola_root(m0: Real, m1: Real, rate: Real, h: Real):
    """First root of the parabola with m0 > 0 at 0, m1 < 0 and slope `rate` at h."""
    one = spread(Scalar(1.0))
    bend = (m0 - m1 + rate * h) / (h * h)
    root = sqrt(max(rate * rate - bend * m1 * 4.0, one * 1e-30))
    back = where(less(rate, root), m1 * 2.0 / where(less(rate, root), rate - root, one), h)
    return h - back


@wp.func
def locate(
    p: Parameters, row: int, i: int, x: Vec3, q: Quat, v: Vec3, l: Vec3, h: Real, crossed: Mask, depth: Real,
    contact_after: Real, x_after: Vec3, q_after: Quat, v_after: Vec3, l_after: Vec3,
):  # fmt: skip
    """First root τ in (0, h) of the least margin, its contact, and where it is one; `depth` is the margin at h."""
    one = spread(Scalar(1.0))
    size = where(crossed, h, one)
    contact = contact_after
    slope = margin_rate(p, i, contact, x_after, q_after, v_after, l_after)
    low = zero(0)
    high = size
    before = size  # τ of the iteration before, and its margin
    margin = depth
    tau = parabola_root(margin_at(p, i, contact, x, q), depth, slope, size)
    tau = where(less(zero(0), tau), where(less(tau, size), tau, size * 0.5), size * 0.5)
    open = where(crossed, one, zero(0))
    noise = rounding(p, i, x)
    for _n in range(ITERATIONS):
        if any_lane(less(zero(0), open)):
            x1, q1, v1, l1 = advance(p, row, tau, i, x, q, v, l)
            m, c = least_margin(p, i, x1, q1)
            rate = margin_rate(p, i, c, x1, q1, v1, l1)
            change = tau - before
            move = abs(change)
            apart = less(noise * 1e6, move * abs(rate))
            secant = (m - margin) / where(apart, change, one)
            local = where(less(move, size * spread(Scalar(SECANT))), where(apart, secant, slope), rate)
            same = less(abs(c - contact), spread(Scalar(0.5)))
            slope = where(less(zero(0), open), where(same, local, rate), slope)
            downhill = less(slope, zero(0))
            low = where(less(zero(0), m), tau, low)
            high = where(less(m, zero(0)), tau, high)
            next = tau - m / where(downhill, slope, one)
            close = less(abs(next - tau) * abs(slope), size * abs(slope) * spread(Scalar(EXACT)) + noise)
            middle = (low + high) * 0.5
            inside = where(less(low, next), where(less(next, high), next, middle), middle)
            next = where(downhill, where(close, next, inside), middle)
            margin = m
            contact = where(less(zero(0), open), c, contact)
            before = tau
            tau = where(less(zero(0), open), next, tau)
            done = where(downhill, where(close, spread(Scalar(0.5)), zero(0)), zero(0))
            open = open - done  # once more after it is found: dτ is one iteration behind
    steep = less(neg(depth) * spread(Scalar(GRAZING)), neg(slope) * size)
    simple = less(open, spread(Scalar(0.25)))
    return tau, contact, where(steep, where(simple, where(crossed, one, zero(0)), zero(0)), zero(0))
