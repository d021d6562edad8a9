# pyright: reportInvalidTypeForm=false
"""Narrow phase of convex cores: nearest face, edge or corner in each lane; a template, not differentiated."""

import warp as wp

from gradsim.engine.lanes import *

NO_DISTANCE = 1e30
# sin² of the angle of edges that no point is known of where they cross
LINED_UP = 1e-12 if Scalar is wp.float64 else 1e-6


@wp.struct
class PairShape:
    bodies: wp.array2d[int]  # two of each pair
    first_corner: wp.array[int]  # of each body, and past the last; so the next two
    first_edge: wp.array[int]
    first_face: wp.array[int]
    corner: wp.array[Point]  # about the centre of mass at scale 1 [m]
    begin: wp.array[Point]  # of each edge
    along: wp.array[Point]  # from begin to end
    direction: wp.array[Point]  # of length 1, or 0
    outward: wp.array[Point]
    inverse_square: wp.array[Scalar]  # 1 / length² [1/m²], 0 of an edge without length
    normal: wp.array[Point]  # of each face
    level: wp.array[Scalar]  # [m]
    radius: wp.array[Scalar]  # of the skin of each body [m]
    reach: wp.array[Scalar]  # of each body about its centre of mass [m]
    slack: Scalar  # rounding of a place [m]


@wp.func
def is_point(g: PairShape, b: int) -> bool:
    return g.first_corner[b + 1] - g.first_corner[b] == 1


@wp.func
def apart(g: PairShape, a: int, b: int, xa: Vec3, xb: Vec3, sa: Real, sb: Real) -> bool:
    """True if the bounding balls of two bodies are disjoint in all worlds."""
    d = xa - xb
    reach = sa * spread(g.reach[a]) + sb * spread(g.reach[b])
    return not any_lane(less(dot(d, d), reach * reach))


@wp.func
def height_above(g: PairShape, b: int, y: Vec3) -> Real:
    """Lower bound of the distance of y from a core, at scale 1."""
    top = spread(Scalar(-NO_DISTANCE))
    for k in range(g.first_face[b], g.first_face[b + 1]):
        top = max(top, dot(spread(g.normal[k]), y) - spread(g.level[k]))
    return top


@wp.func
def nearest(g: PairShape, b: int, y: Vec3, within: Real):
    """Feature of a core nearest to y, at scale 1: a point c of it, its direction e, the normal n of a face, and 1 for a
    face, 0 for an edge or a corner, which has no direction. Beyond `within`, any face is returned."""
    one = spread(Scalar(1.0))
    none = zero(0)
    # Before the branches: Warp gives a constant its value where it is cast first, for all its uses.
    far = spread(Scalar(NO_DISTANCE))
    top = spread(Scalar(-NO_DISTANCE))
    level = zero(0)
    n = zero3(0)
    for k in range(g.first_face[b], g.first_face[b + 1]):
        m = spread(g.normal[k])
        high = dot(m, y) - spread(g.level[k])
        higher = less(top, high)
        top = where(higher, high, top)
        level = where(higher, spread(g.level[k]), level)
        n = where(higher, m, n)
    flat = none
    c = n * level
    e = zero3(0)
    if any_lane(less(top, within)):
        beyond = spread(Scalar(-NO_DISTANCE))
        if g.first_face[b] == g.first_face[b + 1]:
            beyond = far
        foot = y - n * top
        for k in range(g.first_face[b], g.first_face[b + 1]):
            beyond = max(beyond, dot(spread(g.normal[k]), foot) - spread(g.level[k]))
        inside = less(beyond, spread(g.slack))
        flat = where(inside, one, none)
        if any_lane(less(flat, one)):
            best = far
            place = zero3(0)
            for k in range(g.first_edge[b], g.first_edge[b + 1]):
                begin = spread(g.begin[k])
                along = spread(g.along[k])
                t = dot(y - begin, along) * spread(g.inverse_square[k])
                s = min(max(t, none), one)
                away = y - begin - along * s
                square = dot(away, away)
                nearer = less(square, best)
                free = where(less(none, t), where(less(t, one), one, none), none)
                best = where(nearer, square, best)
                place = where(nearer, begin + along * (s * (one - free)), place)
                e = where(nearer, spread(g.direction[k]) * free, e)
            c = where(inside, c, place)
            e = where(inside, zero3(0), e)
    else:
        flat = one
    return c, e, n, flat


@wp.func
def clamped(d0: Vec3, ea: Vec3, eb: Vec3, outward: Vec3):
    """Nearest points of the segments d0 + s ea and t eb: s and t at an end, else 1 where they slide along a and b, and the
    sign of ea × eb from b outwards."""
    one = spread(Scalar(1.0))
    none = zero(0)
    half = spread(Scalar(0.5))
    a = dot(ea, ea)
    b = dot(ea, eb)
    c = dot(eb, eb)
    d = dot(ea, d0)
    e = dot(eb, d0)
    den = a * c - b * b
    slanted = less(a * c * spread(Scalar(LINED_UP)), den)
    s = where(slanted, min(max((b * e - c * d) / where(slanted, den, one), none), one), none)
    t = (b * s + e) / c
    slide_b = where(less(none, t), where(less(t, one), one, none), none)
    t0 = where(less(t, half), none, one)
    s = where(less(half, slide_b), s, (b * t0 - d) / a)
    slide_a = where(less(none, s), where(less(s, one), one, none), none)
    s0 = where(less(s, half), none, one)
    sign = where(less(dot(cross(ea, eb), outward), none), neg(one), one)
    return s0, t0, slide_a, slide_b, sign


@wp.func
def touching_edges(gap: Real, ra: Real, rb: Real, sa: Real, sb: Real) -> Real:
    """1 where edges touch; where they have crossed by more than their skins they are others than they seem."""
    one = spread(Scalar(1.0))
    deepest = (ra * sa + rb * sb) * neg(one + one)
    return where(less(gap, zero(0)), where(less(deepest, gap), one, zero(0)), zero(0))
