"""Forces of rigid bodies that touch one another, and their adjoints, a template.

Elements of a pair are each corner of a core with the other core, and each edge with each edge of the other; of a ball its
centre with the other core, and no more (`contact/feature_contact_kernels.py`). Energies of all elements are summed: each distance is
continuous, whichever features are nearest, and so is the force (Li et al. 2020, "Incremental Potential Contact").
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.feature_contact_kernels import (
        contact_between,
        edge_couple,
        edge_power,
        edge_touch,
        point_power,
        point_touch,
    )
    from gradsim.physics.contact.narrow_phase_kernels import (
        NearPairs,
        PairShape,
        axes_between,
        clamped,
        height_above,
        is_point,
        list_near,
        may_touch,
        near_edge,
        nearest,
        touching_edges,
    )

NEARLY = 1.0625  # edges that are farther apart than this times their skins do not touch, whatever rounding does


@wp.struct
class PairNumbers:
    scale: wp.array2d[Real]  # of each body
    stiffness: wp.array2d[Real]  # k [N/m], of each contact of the scene; so the next three
    dissipation: wp.array2d[Real]  # a [s/m]
    friction_stiffness: wp.array2d[Real]  # k_f [N s/m]
    friction: wp.array2d[Real]  # μ


@wp.func
def corner_wrench(
    g: PairShape, p: PairNumbers, i: int, k: int, a: int, b: int, xa: Vec3, qa: Quat, va: Vec3, wa: Vec3, xb: Vec3,
    qb: Quat, vb: Vec3, wb: Vec3,
):  # fmt: skip
    """Force on a, and torques on a and b, of the corners of a against b."""
    f = zero3(0)
    ta = zero3(0)
    tb = zero3(0)
    sa = p.scale[i, a]
    sb = p.scale[i, b]
    ra = spread(g.radius[a])
    rb = spread(g.radius[b])
    within = (ra * sa + rb * sb) / sb
    axes = axes_between(qa, qb) * (sa / sb)
    at = unrotate(qb, xa - xb) * (1.0 / sb)
    for j in range(g.first_corner[a], g.first_corner[a + 1]):
        corner = spread(g.corner[j])
        y = at + axes * corner
        if any_lane(less(height_above(g, b, y), within)):
            c, e, n, flat = nearest(g, b, y, within)
            gap, normal, place = point_touch(xa, qa, xb, qb, sa, sb, corner, ra, c, e, n, flat, rb)
            if any_lane(less(gap, zero(0))):
                contact = contact_between(
                    gap, normal, place, xa, va, wa, xb, vb, wb, p.stiffness[i, k], p.dissipation[i, k],
                    p.friction_stiffness[i, k], p.friction[i, k],
                )  # fmt: skip
                f = f + contact
                ta = ta + cross(place - xa, contact)
                tb = tb - cross(place - xb, contact)
    return f, ta, tb


@wp.func
def edge_wrench(
    g: PairShape, p: PairNumbers, i: int, k: int, a: int, b: int, xa: Vec3, qa: Quat, va: Vec3, wa: Vec3, xb: Vec3,
    qb: Quat, vb: Vec3, wb: Vec3,
):  # fmt: skip
    """The same of edges against edges."""
    f = zero3(0)
    ta = zero3(0)
    tb = zero3(0)
    sa = p.scale[i, a]
    sb = p.scale[i, b]
    ra = spread(g.radius[a])
    rb = spread(g.radius[b])
    skins = ra * sa + rb * sb
    half = spread(Scalar(0.5))
    farthest = skins * spread(Scalar(NEARLY))
    axes = axes_between(qa, qb)
    at = unrotate(qb, xa - xb)
    for j in range(g.first_edge[a], g.first_edge[a + 1]):
        pa = spread(g.begin[j])
        ua = spread(g.along[j])
        begin = at + axes * (pa * sa)
        ea = axes * (ua * sa)
        middle = begin + ea * half
        la = sqrt(dot(ea, ea)) * half + farthest
        if any_lane(less(height_above(g, b, middle * (1.0 / sb)) * sb, la)):
            oa = axes * spread(g.outward[j])
            for m in range(g.first_edge[b], g.first_edge[b + 1]):
                if near_edge(g, m, middle, sb, la):
                    pb = spread(g.begin[m])
                    ub = spread(g.along[m])
                    d0 = begin - pb * sb
                    outward = spread(g.outward[m]) - oa
                    if g.first_face[a + 1] - g.first_face[a] + g.first_face[b + 1] - g.first_face[b] == 0:
                        outward = d0
                    s0, t0, slide_a, slide_b, sign, square = clamped(d0, ea, ub * sb, outward)
                    if any_lane(less(square, farthest * farthest)):
                        gap, normal, place, share, turn = edge_touch(
                            xa, qa, xb, qb, sa, sb, pa, ua, ra, pb, ub, rb, s0, t0, slide_a, slide_b, sign
                        )
                        stiffness = p.stiffness[i, k] * touching_edges(gap, ra, rb, sa, sb)
                        contact = contact_between(
                            gap, normal, place, xa, va, wa, xb, vb, wb, stiffness * share, p.dissipation[i, k],
                            p.friction_stiffness[i, k], p.friction[i, k],
                        )  # fmt: skip
                        couple = edge_couple(gap, stiffness, turn)
                        f = f + contact
                        ta = ta + cross(place - xa, contact) + couple
                        tb = tb - cross(place - xb, contact) - couple
    return f, ta, tb


@wp.func
def add_pairs(
    g: PairShape, p: PairNumbers, near: NearPairs, i: int, row: int, x: wp.array3d[Vec3], q: wp.array3d[Quat],
    v: wp.array3d[Vec3], w: wp.array3d[Vec3], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    """Add the force on each body [N] and the torque about its centre of mass [N m]."""
    for item in range(list_near(g, p.scale, i, row, x, near)):
        pair = near.pair[i, item + 1]
        k = g.contact[pair]
        a = g.bodies[pair, 0]
        b = g.bodies[pair, 1]
        xa = x[i, row, a]
        xb = x[i, row, b]
        qa = q[i, row, a]
        qb = q[i, row, b]
        if may_touch(g, a, b, xa, qa, xb, qb, p.scale[i, a], p.scale[i, b]):
            va = v[i, row, a]
            wa = w[i, row, a]
            vb = v[i, row, b]
            wb = w[i, row, b]
            if is_point(g, a) or not is_point(g, b):
                force, ta, tb = corner_wrench(g, p, i, k, a, b, xa, qa, va, wa, xb, qb, vb, wb)
                f[i, a] = f[i, a] + force
                f[i, b] = f[i, b] - force
                t[i, a] = t[i, a] + ta
                t[i, b] = t[i, b] + tb
            if not is_point(g, a):
                force, tb, ta = corner_wrench(g, p, i, k, b, a, xb, qb, vb, wb, xa, qa, va, wa)
                f[i, b] = f[i, b] + force
                f[i, a] = f[i, a] - force
                t[i, a] = t[i, a] + ta
                t[i, b] = t[i, b] + tb
            if not is_point(g, a) and not is_point(g, b):
                force, ta, tb = edge_wrench(g, p, i, k, a, b, xa, qa, va, wa, xb, qb, vb, wb)
                f[i, a] = f[i, a] + force
                f[i, b] = f[i, b] - force
                t[i, a] = t[i, a] + ta
                t[i, b] = t[i, b] + tb


if not DUAL:

    @wp.func
    def add_state_adjoints(
        i: int, a: int, x_: Vec3, q_: Quat, v_: Vec3, w_: Vec3, ax: wp.array2d[Vec3], aq: wp.array2d[Quat],
        av: wp.array2d[Vec3], aw: wp.array2d[Vec3],
    ):  # fmt: skip
        ax[i, a] = ax[i, a] + x_
        aq[i, a] = aq[i, a] + q_
        av[i, a] = av[i, a] + v_
        aw[i, a] = aw[i, a] + w_

    @wp.func
    def add_number_adjoints(
        grad: PairNumbers,
        i: int,
        k: int,
        a: int,
        b: int,
        sa_: Real,
        sb_: Real,
        ke_: Real,
        kd_: Real,
        kf_: Real,
        mu_: Real,
    ):
        grad.scale[i, a] = grad.scale[i, a] + sa_
        grad.scale[i, b] = grad.scale[i, b] + sb_
        grad.stiffness[i, k] = grad.stiffness[i, k] + ke_
        grad.dissipation[i, k] = grad.dissipation[i, k] + kd_
        grad.friction_stiffness[i, k] = grad.friction_stiffness[i, k] + kf_
        grad.friction[i, k] = grad.friction[i, k] + mu_

    @wp.func
    def add_corner_adjoints(
        g: PairShape, p: PairNumbers, grad: PairNumbers, i: int, k: int, a: int, b: int, xa: Vec3, qa: Quat, va: Vec3,
        wa: Vec3, xb: Vec3, qb: Quat, vb: Vec3, wb: Vec3, fa: Vec3, ta: Vec3, fb: Vec3, tb: Vec3,
        ax: wp.array2d[Vec3], aq: wp.array2d[Quat], av: wp.array2d[Vec3], aw: wp.array2d[Vec3],
    ):  # fmt: skip
        sa = p.scale[i, a]
        sb = p.scale[i, b]
        ra = spread(g.radius[a])
        rb = spread(g.radius[b])
        within = (ra * sa + rb * sb) / sb
        axes = axes_between(qa, qb) * (sa / sb)
        at = unrotate(qb, xa - xb) * (1.0 / sb)
        for j in range(g.first_corner[a], g.first_corner[a + 1]):
            corner = spread(g.corner[j])
            y = at + axes * corner
            if any_lane(less(height_above(g, b, y), within)):
                c, e, n, flat = nearest(g, b, y, within)
                gap, _normal, _place = point_touch(xa, qa, xb, qb, sa, sb, corner, ra, c, e, n, flat, rb)
                if any_lane(less(gap, zero(0))):
                    (
                        xa_, qa_, va_, wa_, xb_, qb_, vb_, wb_, sa_, sb_, ke_, kd_, kf_, mu_, _p, _ra, _c, _e, _n, _flat,
                        _rb, _fa, _ta, _fb, _tb,
                    ) = wp.grad(point_power)(
                        xa, qa, va, wa, xb, qb, vb, wb, sa, sb, p.stiffness[i, k], p.dissipation[i, k],
                        p.friction_stiffness[i, k], p.friction[i, k], corner, ra, c, e, n, flat, rb, fa, ta, fb, tb,
                    )  # fmt: skip
                    add_state_adjoints(i, a, xa_, qa_, va_, wa_, ax, aq, av, aw)
                    add_state_adjoints(i, b, xb_, qb_, vb_, wb_, ax, aq, av, aw)
                    add_number_adjoints(grad, i, k, a, b, sa_, sb_, ke_, kd_, kf_, mu_)

    @wp.func
    def add_pair_adjoints(
        g: PairShape, p: PairNumbers, grad: PairNumbers, near: NearPairs, i: int, row: int, x: wp.array3d[Vec3],
        q: wp.array3d[Quat], v: wp.array3d[Vec3], w: wp.array3d[Vec3], fp: wp.array2d[Vec3],
        tp: wp.array2d[Vec3], ax: wp.array2d[Vec3], aq: wp.array2d[Quat], av: wp.array2d[Vec3],
        aw: wp.array2d[Vec3],
    ):  # fmt: skip
        """Add the adjoints of states and numbers, given those of forces and torques."""
        for item in range(list_near(g, p.scale, i, row, x, near)):
            pair = near.pair[i, item + 1]
            k = g.contact[pair]
            a = g.bodies[pair, 0]
            b = g.bodies[pair, 1]
            xa = x[i, row, a]
            xb = x[i, row, b]
            qa = q[i, row, a]
            qb = q[i, row, b]
            if may_touch(g, a, b, xa, qa, xb, qb, p.scale[i, a], p.scale[i, b]):
                va = v[i, row, a]
                wa = w[i, row, a]
                vb = v[i, row, b]
                wb = w[i, row, b]
                fa = fp[i, a]
                ta = tp[i, a]
                fb = fp[i, b]
                tb = tp[i, b]
                if is_point(g, a) or not is_point(g, b):
                    add_corner_adjoints(
                        g, p, grad, i, k, a, b, xa, qa, va, wa, xb, qb, vb, wb, fa, ta, fb, tb, ax, aq, av, aw
                    )
                if not is_point(g, a):
                    add_corner_adjoints(
                        g, p, grad, i, k, b, a, xb, qb, vb, wb, xa, qa, va, wa, fb, tb, fa, ta, ax, aq, av, aw
                    )
                if not is_point(g, a) and not is_point(g, b):
                    sa = p.scale[i, a]
                    sb = p.scale[i, b]
                    ra = spread(g.radius[a])
                    rb = spread(g.radius[b])
                    skins = ra * sa + rb * sb
                    half = spread(Scalar(0.5))
                    farthest = skins * spread(Scalar(NEARLY))
                    axes = axes_between(qa, qb)
                    at = unrotate(qb, xa - xb)
                    for j in range(g.first_edge[a], g.first_edge[a + 1]):
                        pa = spread(g.begin[j])
                        ua = spread(g.along[j])
                        begin = at + axes * (pa * sa)
                        ea = axes * (ua * sa)
                        middle = begin + ea * half
                        la = sqrt(dot(ea, ea)) * half + farthest
                        if any_lane(less(height_above(g, b, middle * (1.0 / sb)) * sb, la)):
                            oa = axes * spread(g.outward[j])
                            for m in range(g.first_edge[b], g.first_edge[b + 1]):
                                if near_edge(g, m, middle, sb, la):
                                    pb = spread(g.begin[m])
                                    ub = spread(g.along[m])
                                    d0 = begin - pb * sb
                                    outward = spread(g.outward[m]) - oa
                                    if (
                                        g.first_face[a + 1] - g.first_face[a] + g.first_face[b + 1] - g.first_face[b]
                                        == 0
                                    ):
                                        outward = d0
                                    s0, t0, slide_a, slide_b, sign, square = clamped(d0, ea, ub * sb, outward)
                                    if any_lane(less(square, farthest * farthest)):
                                        gap, _normal, _place, _share, _turn = edge_touch(
                                            xa,
                                            qa,
                                            xb,
                                            qb,
                                            sa,
                                            sb,
                                            pa,
                                            ua,
                                            ra,
                                            pb,
                                            ub,
                                            rb,
                                            s0,
                                            t0,
                                            slide_a,
                                            slide_b,
                                            sign,
                                        )
                                        touching = touching_edges(gap, ra, rb, sa, sb)
                                        (
                                            xa_, qa_, va_, wa_, xb_, qb_, vb_, wb_, sa_, sb_, ke_, kd_, kf_, mu_, _pa, _ua, _ra, _pb,
                                            _ub, _rb, _s0, _t0, _la, _lb, _sign, _fa, _ta, _fb, _tb,
                                        ) = wp.grad(edge_power)(
                                            xa, qa, va, wa, xb, qb, vb, wb, sa, sb, p.stiffness[i, k] * touching,
                                            p.dissipation[i, k], p.friction_stiffness[i, k], p.friction[i, k], pa, ua,
                                            ra, pb, ub, rb, s0, t0, slide_a, slide_b, sign, fa, ta, fb, tb,
                                        )  # fmt: skip
                                        add_state_adjoints(i, a, xa_, qa_, va_, wa_, ax, aq, av, aw)
                                        add_state_adjoints(i, b, xb_, qb_, vb_, wb_, ax, aq, av, aw)
                                        add_number_adjoints(grad, i, k, a, b, sa_, sb_, ke_ * touching, kd_, kf_, mu_)

    @wp.func
    def all_pair_powers(a: Vec3, b: Quat, r: Real) -> Real:
        """Every function that `wp.grad` takes here, for a differentiable kernel that is never launched."""
        return point_power(a, b, a, a, a, b, a, a, r, r, r, r, r, r, a, r, a, a, a, r, r, a, a, a, a) + edge_power(
            a, b, a, a, a, b, a, a, r, r, r, r, r, r, a, a, r, a, a, r, r, r, r, r, r, a, a, a, a
        )
