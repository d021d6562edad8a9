# pyright: reportInvalidTypeForm=false
"""Narrow phase of convex cores: nearest face, edge or corner in each lane; a template, not differentiated."""

import warp as wp

from gradsim.engine.lanes import *

NO_DISTANCE = 1e30
ALLOWANCE = 0.0625  # share of its reach that a body may move before pairs are listed again; exact in float32
# sin² of the angle of edges that no point is known of where they cross
LINED_UP = 1e-12 if Scalar is wp.float64 else 1e-6


@wp.struct
class PairShape:
    bodies: wp.array2d[int]  # two of each pair
    contact: wp.array[int]  # of the scene, of each pair
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


@wp.struct
class NearPairs:
    """Pairs that may meet: a list that holds while each body is within its allowance of its anchor (Verlet 1967)."""

    pair: wp.array2d[int]  # from the second entry on; the first is one more than their number, or 0 for no list yet
    anchor: wp.array2d[Vec3]


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
def list_near(g: PairShape, scale: wp.array2d[Real], i: int, row: int, x: wp.array3d[Vec3], near: NearPairs) -> int:
    """Number of pairs in `near`, which are listed again where a body has moved too far."""
    share = spread(Scalar(ALLOWANCE))
    valid = near.pair[i, 0] > 0
    if valid:
        for r in range(g.reach.shape[0]):
            d = x[i, row, r] - near.anchor[i, r]
            allowance = scale[i, r] * spread(g.reach[r]) * share
            if any_lane(less(allowance * allowance, dot(d, d))):
                valid = False
    if not valid:
        wide = spread(Scalar(1.0)) + share
        for r in range(g.reach.shape[0]):
            near.anchor[i, r] = x[i, row, r]
        count = wp.int32(0)
        for k in range(g.bodies.shape[0]):
            a = g.bodies[k, 0]
            b = g.bodies[k, 1]
            if not apart(g, a, b, x[i, row, a], x[i, row, b], scale[i, a] * wide, scale[i, b] * wide):
                count = count + 1
                near.pair[i, count] = k
        near.pair[i, 0] = count + 1
    return near.pair[i, 0] - 1


@wp.func
def above_a_face(g: PairShape, a: int, b: int, xa: Vec3, qa: Quat, xb: Vec3, qb: Quat, sa: Real, sb: Real) -> bool:
    """True if in all worlds a is above one face of b by more than their skins: then nothing of them touches."""
    if g.first_face[b] == g.first_face[b + 1]:
        return False
    far = spread(Scalar(NO_DISTANCE))
    y = unrotate(qb, xa - xb)
    top = neg(far)
    n = zero3(0)
    for k in range(g.first_face[b], g.first_face[b + 1]):
        m = spread(g.normal[k])
        high = dot(m, y) - spread(g.level[k]) * sb
        higher = less(top, high)
        top = where(higher, high, top)
        n = where(higher, m, n)
    n = unrotate(qa, rotate(qb, n))
    low = far
    for j in range(g.first_corner[a], g.first_corner[a + 1]):
        low = min(low, dot(n, spread(g.corner[j])))
    skins = spread(g.radius[a]) * sa + spread(g.radius[b]) * sb
    return not any_lane(less(top + low * sa, skins + spread(g.slack) * (sa + sb)))


@wp.func
def may_touch(g: PairShape, a: int, b: int, xa: Vec3, qa: Quat, xb: Vec3, qb: Quat, sa: Real, sb: Real) -> bool:
    """False if balls around two bodies, or a face of one, keep them apart in all worlds."""
    if apart(g, a, b, xa, xb, sa, sb):
        return False
    return not above_a_face(g, a, b, xa, qa, xb, qb, sa, sb) and not above_a_face(g, b, a, xb, qb, xa, qa, sb, sa)


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
    """Nearest points of the segments d0 + s ea and t eb: s and t at an end, else 1 where they slide along a and b; the sign of
    ea × eb from b outwards, and the square of their distance."""
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
    between = d0 + ea * min(max(s, none), one) - eb * where(less(half, slide_b), t, t0)
    return s0, t0, slide_a, slide_b, sign, dot(between, between)


@wp.func
def axes_between(qa: Quat, qb: Quat) -> Mat3:
    """The axes of a in those of b."""
    one = spread(Scalar(1.0))
    none = zero(0)
    return columns(
        unrotate(qb, rotate(qa, vec3(one, none, none))),
        unrotate(qb, rotate(qa, vec3(none, one, none))),
        unrotate(qb, rotate(qa, vec3(none, none, one))),
    )


@wp.func
def near_edge(g: PairShape, m: int, y: Vec3, sb: Real, within: Real) -> bool:
    """True if in any world y is within a distance of an edge of a core of size sb."""
    along = spread(g.along[m])
    d = y - spread(g.begin[m]) * sb
    t = min(max(dot(d, along) * spread(g.inverse_square[m]) / sb, zero(0)), spread(Scalar(1.0)))
    away = d - along * (t * sb)
    return any_lane(less(dot(away, away), within * within))


@wp.func
def touching_edges(gap: Real, ra: Real, rb: Real, sa: Real, sb: Real) -> Real:
    """1 where edges touch; where they have crossed by more than their skins they are others than they seem."""
    one = spread(Scalar(1.0))
    deepest = (ra * sa + rb * sb) * neg(one + one)
    return where(less(gap, zero(0)), where(less(deepest, gap), one, zero(0)), zero(0))
