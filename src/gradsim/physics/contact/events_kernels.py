"""Which elements of rigid bodies touch one another at each instant, a template: their number, a mark of the set, and energy.

The mark is a sum over what touches of pseudo-random numbers for the element, for what it is nearest to, and for whether it
sticks, slips or comes off so fast that nothing presses. It differs where any of these do, but for one case in 10⁷.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.convex_kernels import PairNumbers
    from gradsim.physics.contact.feature_contact_kernels import contact_between, edge_touch, point_touch
    from gradsim.physics.contact.narrow_phase_kernels import (
        PairShape,
        apart,
        clamped,
        height_above,
        is_point,
        nearest,
        touching_edges,
    )


@wp.func
def marked(pair: int, kind: int, j: int, m: int) -> Real:
    return spread(Scalar(wp.randf(wp.rand_init(pair * 3 + kind, j * 4096 + m))))


@wp.func
def acting(
    p: PairNumbers, i: int, k: int, gap: Real, normal: Vec3, place: Vec3, stiffness: Real, xa: Vec3, va: Vec3, wa: Vec3,
    xb: Vec3, vb: Vec3, wb: Vec3,
) -> Real:  # fmt: skip
    """1 where a contact sticks, 2 where it slips, 0 where nothing presses."""
    one = spread(Scalar(1.0))
    limit = p.friction_stiffness[i, k]
    f = contact_between(
        gap, normal, place, xa, va, wa, xb, vb, wb, stiffness, p.dissipation[i, k], limit, p.friction[i, k]
    )
    pressing = dot(f, normal)
    u = va + cross(wa, place - xa) - vb - cross(wb, place - xb)
    u_t = u - normal * dot(u, normal)
    slips = less(p.friction[i, k] * pressing, limit * sqrt(dot(u_t, u_t)))
    return where(less(zero(0), pressing), where(slips, one + one, one), zero(0))


@wp.func
def corners_that_touch(
    g: PairShape, p: PairNumbers, i: int, k: int, kind: int, a: int, b: int, xa: Vec3, qa: Quat, va: Vec3, wa: Vec3,
    xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3,
):  # fmt: skip
    sa = p.scale[i, a]
    sb = p.scale[i, b]
    ra = spread(g.radius[a])
    rb = spread(g.radius[b])
    one = spread(Scalar(1.0))
    number = zero(0)
    mark = zero(0)
    energy = zero(0)
    contact = g.contact[k]
    for j in range(g.first_corner[a], g.first_corner[a + 1]):
        corner = spread(g.corner[j])
        within = (ra * sa + rb * sb) / sb
        c, e, n, flat = nearest(g, b, unrotate(qb, xa + rotate(qa, corner * sa) - xb) * (1.0 / sb), within)
        gap, normal, place = point_touch(xa, qa, xb, qb, sa, sb, corner, ra, c, e, n, flat, rb)
        touching = where(less(gap, zero(0)), one, zero(0))
        mode = acting(p, i, contact, gap, normal, place, p.stiffness[i, contact], xa, va, wa, xb, vb, wb)
        feature = dot(c + n * flat, vec3(marked(1, 0, 0, 0), marked(1, 0, 0, 1), marked(1, 0, 0, 2)))
        number = number + touching
        mark = mark + touching * (marked(k, kind, j, 0) + (feature + mode) * marked(k, kind, j, 1))
        energy = energy + touching * gap * gap
    return number, mark, energy


@wp.kernel(enable_backward=False)
def touching(
    g: PairShape,
    p: PairNumbers,
    x: wp.array3d[Vec3],
    q: wp.array3d[Quat],
    v: wp.array3d[Vec3],
    w: wp.array3d[Vec3],
    # out
    number: wp.array2d[Real],
    mark: wp.array2d[Real],
    energy: wp.array2d[Real],  # [J]
):
    i, row = wp.tid()
    one = spread(Scalar(1.0))
    half = spread(Scalar(0.5))
    for k in range(g.bodies.shape[0]):
        contact = g.contact[k]
        a = g.bodies[k, 0]
        b = g.bodies[k, 1]
        xa = x[i, row, a]
        xb = x[i, row, b]
        qa = q[i, row, a]
        qb = q[i, row, b]
        sa = p.scale[i, a]
        sb = p.scale[i, b]
        va = v[i, row, a]
        vb = v[i, row, b]
        wa = w[i, row, a]
        wb = w[i, row, b]
        stiffness = p.stiffness[i, contact] * half
        if not apart(g, a, b, xa, xb, sa, sb):
            if is_point(g, a) or not is_point(g, b):
                n1, m1, e1 = corners_that_touch(g, p, i, k, 0, a, b, xa, qa, va, wa, xb, qb, vb, wb)
                number[i, row] = number[i, row] + n1
                mark[i, row] = mark[i, row] + m1
                energy[i, row] = energy[i, row] + stiffness * e1
            if not is_point(g, a):
                n2, m2, e2 = corners_that_touch(g, p, i, k, 1, b, a, xb, qb, vb, wb, xa, qa, va, wa)
                number[i, row] = number[i, row] + n2
                mark[i, row] = mark[i, row] + m2
                energy[i, row] = energy[i, row] + stiffness * e2
            if not is_point(g, a) and not is_point(g, b):
                ra = spread(g.radius[a])
                rb = spread(g.radius[b])
                for j in range(g.first_edge[a], g.first_edge[a + 1]):
                    pa = spread(g.begin[j])
                    ua = spread(g.along[j])
                    begin = unrotate(qb, xa + rotate(qa, pa * sa) - xb)
                    ea = unrotate(qb, rotate(qa, ua * sa))
                    reach = sqrt(dot(ea, ea)) * half + ra * sa + rb * sb
                    if any_lane(less(height_above(g, b, (begin + ea * half) * (1.0 / sb)) * sb, reach)):
                        oa = unrotate(qb, rotate(qa, spread(g.outward[j])))
                        for m in range(g.first_edge[b], g.first_edge[b + 1]):
                            pb = spread(g.begin[m])
                            ub = spread(g.along[m])
                            d0 = begin - pb * sb
                            outward = spread(g.outward[m]) - oa
                            if g.first_face[a + 1] - g.first_face[a] + g.first_face[b + 1] - g.first_face[b] == 0:
                                outward = d0
                            s0, t0, slide_a, slide_b, sign, _square = clamped(d0, ea, ub * sb, outward)
                            gap, normal, place, share, _turn = edge_touch(
                                xa, qa, xb, qb, sa, sb, pa, ua, ra, pb, ub, rb, s0, t0, slide_a, slide_b, sign
                            )
                            touch = touching_edges(gap, ra, rb, sa, sb) * where(less(zero(0), share), one, zero(0))
                            full = p.stiffness[i, contact] * share
                            mode = acting(p, i, contact, gap, normal, place, full, xa, va, wa, xb, vb, wb)
                            feature = (
                                s0 * (one - slide_a) + t0 * (one - slide_b) * half + slide_a + slide_a + slide_b * 3.0
                            )
                            number[i, row] = number[i, row] + touch
                            code = marked(k, 2, j, m) + (feature + mode * 8.0) * marked(m, 2, j, k)
                            mark[i, row] = mark[i, row] + touch * code
                            energy[i, row] = energy[i, row] + stiffness * touch * share * gap * gap
