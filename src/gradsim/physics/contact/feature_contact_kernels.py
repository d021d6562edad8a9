"""Contact of one element of a rigid body with one of another, a template; bodies are cores with round skins (`convex_shape.py`).

    gap = distance of the cores' elements − ρ_a − ρ_b,   C = max(−gap, 0),   P half way between the two skins
    u = v_a + ω_a × (P − x_a) − v_b − ω_b × (P − x_b)
    f on a at P by the law and friction of `point_plane.py`,  −f on b at the same P: both momenta are kept

An element is a corner of one core and what is nearest to it of the other, or an edge of each. The energy is m ½ k C²; m = 1
but for edges that are nearly parallel, whose nearest points jump from end to end: with y = sin² of their angle,

    m = (y/ε)(2 − y/ε) for y < ε,     couple on a: k C² m'(y) cos (e_a × e_b), the slope of m in the energy

A corner inside the other core has a negative distance, from the nearest face. So have edges that cross one another, along
e_a × e_b.

Which face, edge or corner is nearest is found beforehand (`contact/narrow_phase_kernels.py`), for each lane its own: the functions
that are differentiated take it as given, and find the places on it, which move.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_plane import contact_force

# 1/ε: edges at less than 5° are nearly parallel; a power of 2, as Warp's literals are of single precision
STEEP_SLOPE = 128.0


@wp.func(inline=True)
def point_touch(
    xa: Vec3, qa: Quat, xb: Vec3, qb: Quat, sa: Real, sb: Real, p: Vec3, ra: Real, c: Vec3, e: Vec3, n: Vec3, flat: Real,
    rb: Real,
):  # fmt: skip
    """Gap [m], normal towards a, and place of the contact of a corner p of a with a feature of b."""
    one = spread(Scalar(1.0))
    at = xa + rotate(qa, p * sa)
    y = unrotate(qb, at - xb) - c * sb
    d = y - e * dot(e, y)
    square = dot(d, d)
    face = less(spread(Scalar(0.5)), flat)
    away = sqrt(where(face, one, where(less(zero(0), square), square, one)))  # 1: the slope of the root stays finite
    gap = where(face, dot(n, y), away) - ra * sa - rb * sb
    normal = rotate(qb, where(face, n, d * (one / away)))
    return gap, normal, at - normal * (ra * sa + gap * spread(Scalar(0.5)))


@wp.func(inline=True)
def contact_between(
    gap: Real, normal: Vec3, place: Vec3, xa: Vec3, va: Vec3, wa: Vec3, xb: Vec3, vb: Vec3, wb: Vec3, stiffness: Real,
    dissipation: Real, friction_stiffness: Real, friction: Real,
) -> Vec3:  # fmt: skip
    u = va + cross(wa, place - xa) - vb - cross(wb, place - xb)
    return contact_force(gap, u, normal, stiffness, dissipation, friction_stiffness, friction)


@wp.func(inline=True)
def power_between(f: Vec3, place: Vec3, xa: Vec3, xb: Vec3, fa: Vec3, ta: Vec3, fb: Vec3, tb: Vec3) -> Real:
    """Virtual power of f on a and −f on b, at one place, along force and torque probes of both."""
    return dot(f, fa + cross(ta, place - xa) - fb - cross(tb, place - xb))


@wp.func(inline=True)
def point_power(
    xa: Vec3, qa: Quat, va: Vec3, wa: Vec3, xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3, sa: Real, sb: Real, stiffness: Real,
    dissipation: Real, friction_stiffness: Real, friction: Real, p: Vec3, ra: Real, c: Vec3, e: Vec3, n: Vec3, flat: Real,
    rb: Real, fa: Vec3, ta: Vec3, fb: Vec3, tb: Vec3,
) -> Real:  # fmt: skip
    gap, normal, place = point_touch(xa, qa, xb, qb, sa, sb, p, ra, c, e, n, flat, rb)
    f = contact_between(
        gap, normal, place, xa, va, wa, xb, vb, wb, stiffness, dissipation, friction_stiffness, friction
    )
    return power_between(f, place, xa, xb, fa, ta, fb, tb)


@wp.func(inline=True)
def edge_touch(
    xa: Vec3, qa: Quat, xb: Vec3, qb: Quat, sa: Real, sb: Real, pa: Vec3, ua: Vec3, ra: Real, pb: Vec3, ub: Vec3, rb: Real,
    s0: Real, t0: Real, slide_a: Real, slide_b: Real, sign: Real,
):  # fmt: skip
    """Gap [m], normal towards a, place, m, and m' cos (e_a × e_b) of the contact of two edges."""
    one = spread(Scalar(1.0))
    half = spread(Scalar(0.5))
    ea = rotate(qa, ua * sa)
    eb = rotate(qb, ub * sb)
    begin = xa + rotate(qa, pa * sa)
    d0 = begin - xb - rotate(qb, pb * sb)
    a = dot(ea, ea)
    b = dot(ea, eb)
    c = dot(eb, eb)
    d = dot(ea, d0)
    e = dot(eb, d0)
    ac = a * c
    free_a = less(half, slide_a)
    free_b = less(half, slide_b)
    free = less(half, slide_a * slide_b)
    n = cross(ea, eb)
    den = where(free, dot(n, n), ac)  # as den / (a c) of free ones is the sin² of their angle
    both = (a * e - b * d) / den
    t = where(free_b, where(free_a, both, (b * s0 + e) / c), t0)
    s = where(free_a, (b * t - d) / a, s0)
    between = d0 + ea * s - eb * t
    square = dot(between, between)
    away = sqrt(where(free, one, where(less(zero(0), square), square, one)))
    normal = where(free, n * (sign / sqrt(den)), between * (one / away))
    distance = where(free, dot(normal, d0), away)
    gap = distance - ra * sa - rb * sb
    place = begin + ea * s - normal * (ra * sa + gap * half)
    y = dot(n, n) / ac * spread(Scalar(STEEP_SLOPE))
    near = less(y, one)
    m = where(near, y * (spread(Scalar(2.0)) - y), one)
    slope = where(near, (one - y) * spread(Scalar(2.0) * Scalar(STEEP_SLOPE)), zero(0))
    return gap, normal, place, m, n * (slope * b / ac)


@wp.func(inline=True)
def edge_couple(gap: Real, stiffness: Real, turn: Vec3) -> Vec3:
    depth = max(neg(gap), zero(0))
    return turn * (stiffness * depth * depth)


@wp.func(inline=True)
def edge_power(
    xa: Vec3, qa: Quat, va: Vec3, wa: Vec3, xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3, sa: Real, sb: Real, stiffness: Real,
    dissipation: Real, friction_stiffness: Real, friction: Real, pa: Vec3, ua: Vec3, ra: Real, pb: Vec3, ub: Vec3,
    rb: Real, s0: Real, t0: Real, slide_a: Real, slide_b: Real, sign: Real, fa: Vec3, ta: Vec3, fb: Vec3, tb: Vec3,
) -> Real:  # fmt: skip
    gap, normal, place, m, turn = edge_touch(
        xa, qa, xb, qb, sa, sb, pa, ua, ra, pb, ub, rb, s0, t0, slide_a, slide_b, sign
    )
    f = contact_between(
        gap, normal, place, xa, va, wa, xb, vb, wb, stiffness * m, dissipation, friction_stiffness, friction
    )
    couple = edge_couple(gap, stiffness, turn)
    return power_between(f, place, xa, xb, fa, ta, fb, tb) + dot(couple, ta - tb)
