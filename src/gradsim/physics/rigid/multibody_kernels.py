"""Rollout of rigid bodies that act on one another, a template for `engine.lanes`.

Each body moves as in `rigid/kernels.py`, by its own pushes, gravity, grounds and obstacles, by contact with the others
(`contact/convex_kernels.py`), and by joints (`rigid/constraint_kernels.py`). The body b of registers i is row i · bodies + b of the arrays of its
parameters, and entry (i, b) of those of states; entry (i, bodies) is the world, which stays where it is.

The reverse sweep recomputes each segment of frames from its first frame, which is stored anyway. The adjoint of a step
takes what acts on the bodies from its virtual power: probes of forces and torques come from the rest of the step.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.convex_kernels import PairNumbers, add_pair_adjoints, add_pairs, all_pair_powers
    from gradsim.physics.contact.narrow_phase_kernels import PairShape
    from gradsim.physics.contact.point_plane import contact_power
    from gradsim.physics.contact.point_sdf import obstacle_power
    from gradsim.physics.rigid.constraint_kernels import (
        JointNumbers,
        JointShape,
        LinkWork,
        add_coordinates,
        all_link_powers,
        constrain,
        constrain_adjoint,
        coordinates_adjoint,
    )
    from gradsim.physics.rigid.kernels import (
        OBSTACLES,
        blow_power,
        contact_adjoint,
        exponential,
        normalised,
        normalised_power,
        paired,
        push_power,
        rates_power,
        spin,
        spin_power,
        struck,
        struck_adjoint,
        wrench,
    )
    from gradsim.physics.rigid.kernels import Parameters as Bodies

INTEGRATOR = globals().get("INTEGRATOR", "semi-implicit")
PAIRS = globals().get("PAIRS", False)  # whether bodies touch one another
JOINTS = globals().get("JOINTS", False)
BAUMGARTE = 0.25  # β of semi-implicit steps: share of a joint's error that a step takes back (exact in float32)
STEADY = 5.0  # α of a high order [1/s]: its error has nothing to do with the step


@wp.struct
class States:
    """Of all bodies and the world, (packs, bodies + 1)."""

    x: wp.array2d[Vec3]
    q: wp.array2d[Quat]
    v: wp.array2d[Vec3]
    l: wp.array2d[Vec3]
    w: wp.array2d[Vec3]  # angular velocity


@wp.struct
class Film:
    """States at several instants, (packs, instants, bodies)."""

    x: wp.array3d[Vec3]
    q: wp.array3d[Quat]
    v: wp.array3d[Vec3]
    l: wp.array3d[Vec3]


@wp.struct
class Work:
    """Workspace of a step. Arrays of stages are (packs, stages, bodies)."""

    x: wp.array3d[Vec3]  # the state where forces are wanted, (packs, 1, bodies + 1): memory of that in `States`
    q: wp.array3d[Quat]
    v: wp.array3d[Vec3]
    w: wp.array3d[Vec3]
    f: wp.array2d[Vec3]  # (packs, bodies + 1)
    t: wp.array2d[Vec3]
    fp: wp.array2d[Vec3]  # probes
    tp: wp.array2d[Vec3]
    stage_x: wp.array3d[Vec3]
    stage_raw: wp.array3d[Quat]  # before it is made a unit quaternion
    stage_v: wp.array3d[Vec3]
    stage_l: wp.array3d[Vec3]
    stage_f: wp.array3d[Vec3]
    stage_t: wp.array3d[Vec3]
    after_x: wp.array2d[Vec3]  # adjoints of the state after the step
    after_q: wp.array2d[Quat]
    after_v: wp.array2d[Vec3]
    after_l: wp.array2d[Vec3]
    sum_x: wp.array2d[Vec3]  # and of that before, as the stages add theirs
    sum_q: wp.array2d[Quat]
    sum_v: wp.array2d[Vec3]
    sum_l: wp.array2d[Vec3]


@wp.struct
class Given:
    """What does not change in a rollout."""

    bodies: Bodies
    if PAIRS:
        pair: PairShape
        pairs: PairNumbers
    if JOINTS:
        joint: JointShape
        joints: JointNumbers
        links: LinkWork
    share: wp.array2d[Scalar]
    blow: wp.array[int]
    step: wp.array2d[Real]  # h in each frame interval


@wp.func(inline=True)
def gentle(h: Real) -> Real:
    """A step above zero, where one over it is wanted."""
    return max(h, spread(Scalar(1e-9)))


if INTEGRATOR == "semi-implicit":

    @wp.func(inline=True)
    def stabilised(h: Real):
        """Factors of the bias, of the rate and of the error of a joint, see `rigid/constraint_kernels.py`."""
        rate = 1.0 / gentle(h)
        return spread(Scalar(1.0)), rate, rate * rate * spread(Scalar(BAUMGARTE))

    @wp.func(inline=True)
    def stabilised_adjoint(h: Real, damping: Real, stiffness: Real) -> Real:
        """That of the step from those of the factors."""
        rate = 1.0 / gentle(h)
        slope = damping + stiffness * rate * spread(Scalar(2.0 * BAUMGARTE))
        return where(less(spread(Scalar(1e-9)), h), neg(slope * rate * rate), zero(0))

else:

    @wp.func(inline=True)
    def stabilised(h: Real):
        return spread(Scalar(1.0)), spread(Scalar(2.0 * STEADY)), spread(Scalar(STEADY * STEADY))

    @wp.func(inline=True)
    def stabilised_adjoint(h: Real, damping: Real, stiffness: Real) -> Real:
        return zero(0)


@wp.func
def evaluate(g: Given, s: States, m: Work, row: int, frame: int, h: Real, i: int, n: int, stage: int):
    """Forces and torques on all bodies at the state `s`, into `m`."""
    for r in range(n):
        k = i * n + r
        s.w[i, r] = spin(s.q[i, r], s.l[i, r], g.bodies.inertia_inverse[k])
        f, t = wrench(g.bodies, g.share, row, h, k, s.x[i, r], s.q[i, r], s.v[i, r], s.w[i, r])
        m.f[i, r] = f
        m.t[i, r] = t
    m.f[i, n] = zero3(0)
    m.t[i, n] = zero3(0)
    if PAIRS:  # known when this is compiled, and so is what is left out
        add_pairs(g.pair, g.pairs, i, 0, m.x, m.q, m.v, m.w, m.f, m.t)
    if JOINTS:
        add_coordinates(g.joint, g.joints, i, frame, s.x, s.q, s.v, s.w, m.f, m.t)
        curved, damping, stiffness = stabilised(h)
        constrain(
            g.joint, g.joints, g.links, g.bodies.mass, g.bodies.inertia_inverse, g.bodies.gravity, i, n,
            s.x, s.q, s.v, s.w, s.l, curved, damping, stiffness, g.links.mu[stage], m.f, m.t,
        )  # fmt: skip


@wp.func
def strike(g: Given, s: States, row: int, i: int, n: int):
    """The blows that fall into a step."""
    for r in range(n):
        v, l = struck(g.bodies, g.blow, row, i * n + r, s.q[i, r], s.v[i, r], s.l[i, r])
        s.v[i, r] = v
        s.l[i, r] = l


@wp.func
def read(film: Film, at: int, s: States, i: int, n: int):
    for r in range(n):
        s.x[i, r] = film.x[i, at, r]
        s.q[i, r] = film.q[i, at, r]
        s.v[i, r] = film.v[i, at, r]
        s.l[i, r] = film.l[i, at, r]


if INTEGRATOR == "semi-implicit":
    if JOINTS:

        @wp.func(inline=True)
        def turned_on(q: Quat, l: Vec3, inertia_inverse: Mat3, h: Real) -> Quat:
            """Orientation after a step, by the ω of that in the middle: by the ω of that before, slender bodies that spin
            gain energy as exp(h ω² t), and their joints pass it on."""
            middle = normalised(exponential(spin(q, l, inertia_inverse) * (h * 0.5)) * q)
            return normalised(exponential(spin(middle, l, inertia_inverse) * h) * q)

    else:

        @wp.func(inline=True)
        def turned_on(q: Quat, l: Vec3, inertia_inverse: Mat3, h: Real) -> Quat:
            """Orientation after a step, as of a body alone."""
            return normalised(exponential(spin(q, l, inertia_inverse) * h) * q)

    @wp.func(inline=True)
    def moved_power(
        x: Vec3, q: Quat, v: Vec3, l: Vec3, f: Vec3, torque: Vec3, mass: Real, inertia_inverse: Mat3, gravity: Vec3,
        h: Real, ax: Vec3, aq: Quat, av: Vec3, al: Vec3,
    ) -> Real:  # fmt: skip
        """⟨state after the step, adjoint⟩; its gradient is the adjoint of the step."""
        v1 = v + (f * (1.0 / mass) + gravity) * h
        l1 = l + torque * h
        return dot(x + v1 * h, ax) + qdot(turned_on(q, l1, inertia_inverse, h), aq) + dot(v1, av) + dot(l1, al)

    @wp.func
    def advance(g: Given, s: States, m: Work, film: Film, source: int, to: int, row: int, frame: int, i: int, n: int):
        """One step."""
        h = g.step[i, frame]
        read(film, source, s, i, n)
        strike(g, s, row, i, n)
        evaluate(g, s, m, row, frame, h, i, n, 0)
        for r in range(n):
            k = i * n + r
            v = s.v[i, r] + (m.f[i, r] * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k]) * h
            l = s.l[i, r] + m.t[i, r] * h
            q = s.q[i, r]
            film.x[i, to, r] = s.x[i, r] + v * h
            film.q[i, to, r] = turned_on(q, l, g.bodies.inertia_inverse[k], h)
            film.v[i, to, r] = v
            film.l[i, to, r] = l

else:

    @wp.func(inline=True)
    def turning(q: Quat, w: Vec3) -> Quat:
        """q̇."""
        return quat(w * spread(Scalar(0.5)), zero(0)) * q

    @wp.func
    def stages(g: Given, s: States, m: Work, film: Film, source: int, row: int, frame: int, i: int, n: int):
        """States and forces of the four stages of a step."""
        h = g.step[i, frame]
        read(film, source, s, i, n)
        strike(g, s, row, i, n)
        for stage in range(4):
            for r in range(n):
                k = i * n + r
                if stage == 0:
                    m.stage_x[i, 0, r] = s.x[i, r]
                    m.stage_raw[i, 0, r] = s.q[i, r]
                    m.stage_v[i, 0, r] = s.v[i, r]
                    m.stage_l[i, 0, r] = s.l[i, r]
                else:  # s still has the stage before
                    c = h * spread(wp.where(stage == 3, Scalar(1.0), Scalar(0.5)))
                    rate = m.stage_f[i, stage - 1, r] * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k]
                    m.stage_x[i, stage, r] = m.stage_x[i, 0, r] + s.v[i, r] * c
                    m.stage_raw[i, stage, r] = m.stage_raw[i, 0, r] + turning(s.q[i, r], s.w[i, r]) * c
                    m.stage_v[i, stage, r] = m.stage_v[i, 0, r] + rate * c
                    m.stage_l[i, stage, r] = m.stage_l[i, 0, r] + m.stage_t[i, stage - 1, r] * c
            settle(s, m, stage, i, n)
            evaluate(g, s, m, row, frame, h, i, n, stage)
            for r in range(n):
                m.stage_f[i, stage, r] = m.f[i, r]
                m.stage_t[i, stage, r] = m.t[i, r]

    @wp.func
    def settle(s: States, m: Work, stage: int, i: int, n: int):
        """Make a stage the state where forces are wanted."""
        for r in range(n):
            s.x[i, r] = m.stage_x[i, stage, r]
            s.q[i, r] = normalised(m.stage_raw[i, stage, r])
            s.v[i, r] = m.stage_v[i, stage, r]
            s.l[i, r] = m.stage_l[i, stage, r]

    @wp.func(inline=True)
    def stage_turning(g: Given, m: Work, i: int, n: int, stage: int, r: int) -> Quat:
        q = normalised(m.stage_raw[i, stage, r])
        return turning(q, spin(q, m.stage_l[i, stage, r], g.bodies.inertia_inverse[i * n + r]))

    @wp.func(inline=True)
    def whole_turning(g: Given, m: Work, i: int, n: int, r: int) -> Quat:
        """q̇ of the stages, weighted and summed."""
        middle = stage_turning(g, m, i, n, 1, r) + stage_turning(g, m, i, n, 2, r)
        return stage_turning(g, m, i, n, 0, r) + middle * spread(Scalar(2.0)) + stage_turning(g, m, i, n, 3, r)

    @wp.func(inline=True)
    def whole(y: wp.array3d[Vec3], i: int, r: int) -> Vec3:
        return y[i, 0, r] + (y[i, 1, r] + y[i, 2, r]) * spread(Scalar(2.0)) + y[i, 3, r]

    @wp.func
    def advance(g: Given, s: States, m: Work, film: Film, source: int, to: int, row: int, frame: int, i: int, n: int):
        """One step."""
        stages(g, s, m, film, source, row, frame, i, n)
        sixth = g.step[i, frame] * spread(Scalar(1.0) / Scalar(6.0))
        for r in range(n):
            k = i * n + r
            pull = whole(m.stage_f, i, r) * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k] * spread(Scalar(6.0))
            film.x[i, to, r] = m.stage_x[i, 0, r] + whole(m.stage_v, i, r) * sixth
            film.q[i, to, r] = normalised(m.stage_raw[i, 0, r] + whole_turning(g, m, i, n, r) * sixth)
            film.v[i, to, r] = m.stage_v[i, 0, r] + pull * sixth
            film.l[i, to, r] = m.stage_l[i, 0, r] + whole(m.stage_t, i, r) * sixth


@wp.kernel(enable_backward=False)
def forward(
    g: Given,
    substeps: int,
    n: int,  # bodies
    s: States,
    m: Work,
    # out; frame 0 is given
    film: Film,
):
    i = wp.tid()
    for frame in range(film.x.shape[1] - 1):
        for k in range(substeps):
            source = wp.where(k > 0, frame + 1, frame)
            advance(g, s, m, film, source, frame + 1, frame * substeps + k, frame, i, n)


if not DUAL:

    @wp.func
    def evaluate_adjoint(
        g: Given, grad: Given, s: States, m: Work, a: States, row: int, frame: int, h: Real, i: int, n: int, stage: int
    ) -> Real:
        """Adjoint of `evaluate` at the state `s`, whose forces are in `m` beside their probes; `a` has what the rest of
        the step adds to the adjoint of the state. Returns that of h."""
        for r in range(n + 1):
            a.w[i, r] = zero3(0)
        ah = zero(0)
        if JOINTS:
            curved, damping, stiffness = stabilised(h)
            damping_, stiffness_ = constrain_adjoint(
                g.joint, g.joints, g.links, g.bodies.mass, g.bodies.inertia_inverse, g.bodies.gravity, i, n,
                s.x, s.q, s.v, s.w, s.l, curved, damping, stiffness, g.links.mu[stage], m.f, m.t, m.fp, m.tp,
                a.x, a.q, a.v, a.w, a.l, grad.joints, grad.bodies.mass, grad.bodies.inertia_inverse,
                grad.bodies.gravity,
            )  # fmt: skip
            coordinates_adjoint(
                g.joint, g.joints, i, frame, s.x, s.q, s.v, s.w, m.fp, m.tp, a.x, a.q, a.v, a.w, grad.joints
            )
            ah = stabilised_adjoint(h, damping_, stiffness_)
        if PAIRS:
            add_pair_adjoints(g.pair, g.pairs, grad.pairs, i, 0, m.x, m.q, m.v, m.w, m.fp, m.tp, a.x, a.q, a.v, a.w)
        for r in range(n):
            k = i * n + r
            x_, q_, v_, w_, h_ = contact_adjoint(
                g.bodies, grad.bodies, g.share, row, h, k, s.x[i, r], s.q[i, r], s.v[i, r], s.w[i, r],
                m.fp[i, r], m.tp[i, r],
            )  # fmt: skip
            turn_, l_, inertia_, _w = wp.grad(spin_power)(
                s.q[i, r], s.l[i, r], g.bodies.inertia_inverse[k], a.w[i, r] + w_
            )
            grad.bodies.inertia_inverse[k] = grad.bodies.inertia_inverse[k] + inertia_
            a.x[i, r] = a.x[i, r] + x_
            a.q[i, r] = a.q[i, r] + q_ + turn_
            a.v[i, r] = a.v[i, r] + v_
            a.l[i, r] = a.l[i, r] + l_
            ah = ah + h_
        return ah

    if INTEGRATOR == "semi-implicit":

        @wp.func
        def retreat(
            g: Given, grad: Given, s: States, m: Work, a: States, film: Film, source: int, row: int, frame: int,
            i: int, n: int,
        ):  # fmt: skip
            """`a` becomes the adjoint of the state before the step."""
            h = g.step[i, frame]
            read(film, source, s, i, n)
            strike(g, s, row, i, n)
            evaluate(g, s, m, row, frame, h, i, n, 0)
            ah = zero(0)
            for r in range(n):
                k = i * n + r
                x_, q_, v_, l_, f_, t_, mass_, inertia_, gravity_, h_, _x, _q, _v, _l = wp.grad(moved_power)(
                    s.x[i, r], s.q[i, r], s.v[i, r], s.l[i, r], m.f[i, r], m.t[i, r], g.bodies.mass[k],
                    g.bodies.inertia_inverse[k], g.bodies.gravity[k], h, a.x[i, r], a.q[i, r], a.v[i, r], a.l[i, r],
                )  # fmt: skip
                grad.bodies.mass[k] = grad.bodies.mass[k] + mass_
                grad.bodies.inertia_inverse[k] = grad.bodies.inertia_inverse[k] + inertia_
                grad.bodies.gravity[k] = grad.bodies.gravity[k] + gravity_
                ah = ah + h_
                m.fp[i, r] = f_
                m.tp[i, r] = t_
                a.x[i, r] = x_
                a.q[i, r] = q_
                a.v[i, r] = v_
                a.l[i, r] = l_
            ah = ah + evaluate_adjoint(g, grad, s, m, a, row, frame, h, i, n, 0)
            for r in range(n):
                k = i * n + r
                a.q[i, r] = a.q[i, r] + struck_adjoint(g.bodies, grad.bodies, g.blow, row, k, s.q[i, r], a.v[i, r], a.l[i, r])  # fmt: skip
            grad.step[i, frame] = grad.step[i, frame] + ah

    else:

        @wp.func
        def retreat(
            g: Given, grad: Given, s: States, m: Work, a: States, film: Film, source: int, row: int, frame: int,
            i: int, n: int,
        ):  # fmt: skip
            h = g.step[i, frame]
            sixth = spread(Scalar(1.0) / Scalar(6.0))
            stages(g, s, m, film, source, row, frame, i, n)
            ah = zero(0)
            for r in range(n):
                k = i * n + r
                turn = whole_turning(g, m, i, n, r)
                raw_, _p = wp.grad(normalised_power)(m.stage_raw[i, 0, r] + turn * (h * sixth), a.q[i, r])
                a.q[i, r] = raw_
                pull = whole(m.stage_f, i, r) * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k] * spread(Scalar(6.0))
                along = paired(
                    whole(m.stage_v, i, r), turn, pull, whole(m.stage_t, i, r), a.x[i, r], raw_, a.v[i, r], a.l[i, r]
                )
                ah = ah + along * sixth
                m.after_x[i, r] = a.x[i, r]
                m.after_q[i, r] = raw_
                m.after_v[i, r] = a.v[i, r]
                m.after_l[i, r] = a.l[i, r]
                m.sum_x[i, r] = a.x[i, r]
                m.sum_q[i, r] = raw_
                m.sum_v[i, r] = a.v[i, r]
                m.sum_l[i, r] = a.l[i, r]
            for back in range(4):
                stage = 3 - back
                settle(s, m, stage, i, n)
                for r in range(n):
                    s.w[i, r] = spin(s.q[i, r], s.l[i, r], g.bodies.inertia_inverse[i * n + r])
                    m.f[i, r] = m.stage_f[i, stage, r]
                    m.t[i, r] = m.stage_t[i, stage, r]
                ah = ah + stage_adjoint(g, grad, s, m, a, row, frame, h, i, n, stage)
            for r in range(n):
                k = i * n + r
                a.x[i, r] = m.sum_x[i, r]
                a.v[i, r] = m.sum_v[i, r]
                a.l[i, r] = m.sum_l[i, r]
                a.q[i, r] = m.sum_q[i, r] + struck_adjoint(
                    g.bodies, grad.bodies, g.blow, row, k, m.stage_raw[i, 0, r], a.v[i, r], a.l[i, r]
                )
            grad.step[i, frame] = grad.step[i, frame] + ah

        @wp.func
        def stage_adjoint(
            g: Given, grad: Given, s: States, m: Work, a: States, row: int, frame: int, h: Real, i: int, n: int,
            stage: int,
        ) -> Real:  # fmt: skip
            """Adjoint of one stage. `a` has that of the state of the stage after this one, and `after_*` that of the
            state after the step; on return `a` has that of the state of this stage, which is added to the sums."""
            ah = zero(0)
            weight = spread(wp.where(stage % 3 == 0, Scalar(1.0) / Scalar(6.0), Scalar(1.0) / Scalar(3.0)))
            ahead = spread(wp.where(stage == 3, Scalar(0.0), wp.where(stage == 2, Scalar(1.0), Scalar(0.5))))
            for r in range(n):
                k = i * n + r
                turn = turning(s.q[i, r], s.w[i, r])
                pull = m.f[i, r] * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k]
                if stage < 3:
                    ah = (
                        ah
                        + paired(s.v[i, r], turn, pull, m.t[i, r], a.x[i, r], a.q[i, r], a.v[i, r], a.l[i, r]) * ahead
                    )
                px = m.after_x[i, r] * (h * weight) + a.x[i, r] * (h * ahead)
                pq = m.after_q[i, r] * (h * weight) + a.q[i, r] * (h * ahead)
                pv = m.after_v[i, r] * (h * weight) + a.v[i, r] * (h * ahead)
                pl = m.after_l[i, r] * (h * weight) + a.l[i, r] * (h * ahead)
                q_, v_, l_, f_, t_, mass_, inertia_, gravity_, _x, _q, _v, _l = wp.grad(rates_power)(
                    s.q[i, r], s.v[i, r], s.l[i, r], m.f[i, r], m.t[i, r], g.bodies.mass[k],
                    g.bodies.inertia_inverse[k], g.bodies.gravity[k], px, pq, pv, pl,
                )  # fmt: skip
                grad.bodies.mass[k] = grad.bodies.mass[k] + mass_
                grad.bodies.inertia_inverse[k] = grad.bodies.inertia_inverse[k] + inertia_
                grad.bodies.gravity[k] = grad.bodies.gravity[k] + gravity_
                m.fp[i, r] = f_
                m.tp[i, r] = t_
                a.x[i, r] = zero3(0)
                a.q[i, r] = q_
                a.v[i, r] = v_
                a.l[i, r] = l_
            ah = ah + evaluate_adjoint(g, grad, s, m, a, row, frame, h, i, n, stage)
            for r in range(n):
                raw_, _p = wp.grad(normalised_power)(m.stage_raw[i, stage, r], a.q[i, r])
                a.q[i, r] = raw_
                m.sum_x[i, r] = m.sum_x[i, r] + a.x[i, r]
                m.sum_q[i, r] = m.sum_q[i, r] + raw_
                m.sum_v[i, r] = m.sum_v[i, r] + a.v[i, r]
                m.sum_l[i, r] = m.sum_l[i, r] + a.l[i, r]
            return ah

    @wp.kernel(enable_backward=False)
    def backward(
        g: Given,
        substeps: int,
        segment: int,  # frames between checkpoints
        n: int,
        s: States,
        m: Work,
        film: Film,
        steps: Film,  # workspace: the states of one segment
        # out; the adjoints of the frames are given, that of frame 0 becomes that of the start
        adjoint: Film,
        a: States,
        grad: Given,
    ):
        i = wp.tid()
        frames = film.x.shape[1]
        segments = (frames - 1 + segment - 1) // segment
        for part in range(segments):
            first = (segments - 1 - part) * segment
            last = wp.min(first + segment, frames - 1)
            count = (last - first) * substeps
            for r in range(n):
                steps.x[i, 0, r] = film.x[i, first, r]
                steps.q[i, 0, r] = film.q[i, first, r]
                steps.v[i, 0, r] = film.v[i, first, r]
                steps.l[i, 0, r] = film.l[i, first, r]
            for k in range(count - 1):
                advance(g, s, m, steps, k, k + 1, first * substeps + k, first + k // substeps, i, n)
            for back in range(count):
                k = count - 1 - back
                if (k + 1) % substeps == 0:
                    frame = first + (k + 1) // substeps
                    for r in range(n):
                        a.x[i, r] = a.x[i, r] + adjoint.x[i, frame, r]
                        a.q[i, r] = a.q[i, r] + adjoint.q[i, frame, r]
                        a.v[i, r] = a.v[i, r] + adjoint.v[i, frame, r]
                        a.l[i, r] = a.l[i, r] + adjoint.l[i, frame, r]
                retreat(g, grad, s, m, a, steps, k, first * substeps + k, first + k // substeps, i, n)
        for r in range(n):
            adjoint.x[i, 0, r] = adjoint.x[i, 0, r] + a.x[i, r]
            adjoint.q[i, 0, r] = adjoint.q[i, 0, r] + a.q[i, r]
            adjoint.v[i, 0, r] = adjoint.v[i, 0, r] + a.v[i, r]
            adjoint.l[i, 0, r] = adjoint.l[i, 0, r] + a.l[i, r]

    # Never launched: wp.grad emits empty adjoints of nested functions unless a differentiable kernel reaches them
    @wp.kernel(enable_backward=True)
    def keep_adjoints(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
        a, b, r = v[0], q[0], s[0]
        s[1] = contact_power(a, b, a, a, a, r, a, r, r, r, r, r, a, a) + push_power(b, a, a, r, a, a)
        s[2] = spin_power(b, a, m[0], a) + blow_power(b, a, a, r, a, a)

    if OBSTACLES:

        @wp.kernel(enable_backward=True)
        def keep_obstacle_adjoint(v: wp.array[Vec3], q: wp.array[Quat], s: wp.array[Real]):
            a, b, r = v[0], q[0], s[0]
            s[1] = obstacle_power(a, b, a, a, a, r, a, a, a, a, r, r, r, r, r, r, r, r, a, a)

    if PAIRS:

        @wp.kernel(enable_backward=True)
        def keep_pair_adjoints(v: wp.array[Vec3], q: wp.array[Quat], s: wp.array[Real]):
            s[1] = all_pair_powers(v[0], q[0], s[0])

    if JOINTS:

        @wp.kernel(enable_backward=True)
        def keep_joint_adjoints(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
            s[1] = all_link_powers(v[0], q[0], m[0], s[0])

    if INTEGRATOR == "semi-implicit":

        @wp.kernel(enable_backward=True)
        def keep_moved_adjoint(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
            a, b, r = v[0], q[0], s[0]
            s[1] = moved_power(a, b, a, a, a, a, r, m[0], a, r, a, b, a, a)

    else:

        @wp.kernel(enable_backward=True)
        def keep_rates_adjoint(v: wp.array[Vec3], q: wp.array[Quat], m: wp.array[Mat3], s: wp.array[Real]):
            a, b, r = v[0], q[0], s[0]
            s[1] = rates_power(b, a, a, a, a, r, m[0], a, a, b, a, a) + normalised_power(b, b)
