"""Forces on rigid bodies that act on one another, with their adjoints: a template for `engine.lanes`.

Each body moves by its own pushes, gravity, grounds and obstacles (`rigid/wrench_kernels.py`), by contact with the others
(`contact/convex_kernels.py`), and by joints (`rigid/constraint_kernels.py`). The body b of pack i is row i · bodies + b of
the arrays of its parameters, and entry (i, b) of those of states; entry (i, bodies) is the world, which is at rest, and entry
(i, bodies + 1 + f) the frame f that follows a recording (`rigid/recorded/rollout.py`): joints hold bodies at it as at the world.

Each step leaves its forces, multipliers, rows and factor in a slot of the workspace, where its adjoint finds them: they are not evaluated once
more. The steps are those of the rollout, where all of them are kept, or those between two checkpoints, which the backward pass computes again. A
workspace of one slot is that of the last evaluation.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.convex_kernels import PairNumbers, add_pair_adjoints, add_pairs, all_pair_powers
    from gradsim.physics.contact.narrow_phase_kernels import NearPairs, PairShape
    from gradsim.physics.rigid.constraint_kernels import (
        JointNumbers,
        JointShape,
        LinkWork,
        all_link_powers,
        constrain,
        constrain_adjoint,
    )
    from gradsim.physics.rigid.coordinate_kernels import (
        add_coordinates,
        all_coordinate_powers,
        coordinates_adjoint,
    )
    from gradsim.physics.rigid.wrench_kernels import Parameters as Bodies
    from gradsim.physics.rigid.wrench_kernels import (
        all_wrench_powers,
        apply_impulses,
        contact_adjoint,
        has_impulses,
        impulses_adjoint,
        spin,
        spin_power,
        wrench,
    )

PAIRS = globals().get("PAIRS", False)  # whether bodies touch one another
JOINTS = globals().get("JOINTS", False)
RECORDED = globals().get("RECORDED", False)  # whether frames follow recordings
INTERVAL_BOUND = globals().get("INTERVAL_BOUND", True)  # whether joints are stabilized by the length of the step
BAUMGARTE = 0.25  # β of semi-implicit steps: share of a joint's error that a step takes back (exact in float32)
STAGES = 1 if INTERVAL_BOUND else 4  # evaluations of a step
BAUMGARTE_RATE = 5.0  # α of a high order [1/s]: its error is independent of the step


@wp.struct
class State:
    """State of all bodies, of the world and of frames, (packs, bodies + 1 + frames)."""

    x: wp.array2d[Vec3]
    q: wp.array2d[Quat]
    v: wp.array2d[Vec3]
    l: wp.array2d[Vec3]
    w: wp.array2d[Vec3]  # angular velocity


@wp.struct
class States:
    """States at several instants, (packs, instants, bodies)."""

    x: wp.array3d[Vec3]
    q: wp.array3d[Quat]
    v: wp.array3d[Vec3]
    l: wp.array3d[Vec3]


@wp.struct
class Work:
    """Workspace of a step. Arrays of stages are (packs, stages, bodies)."""

    x: wp.array3d[Vec3]  # the state where forces are wanted, (packs, 1, bodies + 1): memory of that in `State`
    q: wp.array3d[Quat]
    v: wp.array3d[Vec3]
    w: wp.array3d[Vec3]
    f: wp.array2d[Vec3]  # (packs, bodies + 1)
    t: wp.array2d[Vec3]
    fp: wp.array2d[Vec3]  # probes
    tp: wp.array2d[Vec3]
    slot_f: wp.array3d[
        Vec3
    ]  # f and t of each evaluation (packs, slots · stages, bodies), where there are several slots
    slot_t: wp.array3d[Vec3]
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
    if PAIRS:
        near: NearPairs


if RECORDED:

    @wp.struct
    class FrameMotion:
        """Motion of frames in each stage of each step, (packs, instants, frames)."""

        x: wp.array3d[Vec3]
        q: wp.array3d[Quat]
        v: wp.array3d[Vec3]
        w: wp.array3d[Vec3]
        a: wp.array3d[Vec3]  # accelerations
        s: wp.array3d[Vec3]


@wp.struct
class Parameters:
    """Parameters and workspace of a rollout."""

    bodies: Bodies
    if PAIRS:
        pair: PairShape
        pairs: PairNumbers
    if JOINTS:
        joint: JointShape
        joints: JointNumbers
        links: LinkWork
    if RECORDED:
        motion: FrameMotion
    step: wp.array2d[Real]  # h in each frame interval [s]
    count: int  # of bodies
    slots: int  # of the workspace
    spacing: int  # states from one frame to the next: 1, or all steps
    state: State  # where forces are evaluated
    work: Work


@wp.func(inline=True)
def slot_of(g: Parameters, source: int) -> int:
    """Slot of the step from a state."""
    return wp.min(source, g.slots - 1)


@wp.func(inline=True)
def clamp_step(h: Real) -> Real:
    """A step above zero, where one over it is wanted."""
    return max(h, spread(Scalar(1e-9)))


if INTERVAL_BOUND:

    @wp.func(inline=True)
    def stabilization(h: Real):
        """Factors of the bias, of the rate and of the error of a joint, see `rigid/constraint_kernels.py`."""
        rate = 1.0 / clamp_step(h)
        return spread(Scalar(1.0)), rate, rate * rate * spread(Scalar(BAUMGARTE))

    @wp.func(inline=True)
    def stabilization_adjoint(h: Real, damping: Real, stiffness: Real) -> Real:
        """That of the step from those of the factors."""
        rate = 1.0 / clamp_step(h)
        slope = damping + stiffness * rate * spread(Scalar(2.0 * BAUMGARTE))
        return where(less(spread(Scalar(1e-9)), h), neg(slope * rate * rate), zero(0))

else:

    @wp.func(inline=True)
    def stabilization(h: Real):
        return (
            spread(Scalar(1.0)),
            spread(Scalar(2.0 * BAUMGARTE_RATE)),
            spread(Scalar(BAUMGARTE_RATE * BAUMGARTE_RATE)),
        )

    @wp.func(inline=True)
    def stabilization_adjoint(h: Real, damping: Real, stiffness: Real) -> Real:
        return zero(0)


if RECORDED:

    @wp.func
    def instant_of(row: int, stage: int) -> int:
        """Instant of a stage of a step."""
        if INTERVAL_BOUND:
            return row
        return 4 * row + stage

    @wp.func
    def load_frames(g: Parameters, s: State, m: Work, row: int, stage: int, i: int, n: int):
        """Pose, velocities and accelerations of all frames, and no forces on them."""
        at = instant_of(row, stage)
        for f in range(g.motion.x.shape[2]):
            k = n + 1 + f
            s.x[i, k] = g.motion.x[i, at, f]
            s.q[i, k] = g.motion.q[i, at, f]
            s.v[i, k] = g.motion.v[i, at, f]
            s.w[i, k] = g.motion.w[i, at, f]
            g.links.a[i, k] = g.motion.a[i, at, f]
            g.links.s[i, k] = g.motion.s[i, at, f]
            m.f[i, k] = zero3(0)
            m.t[i, k] = zero3(0)

    @wp.func
    def hold_frames(g: Parameters, i: int, n: int):
        """No change of velocity of any frame, as in a blow."""
        for f in range(g.motion.x.shape[2]):
            k = n + 1 + f
            g.links.a[i, k] = zero3(0)
            g.links.s[i, k] = zero3(0)


@wp.func(inline=True)
def link_row(g: Parameters, i: int, slot: int, stage: int) -> int:
    """Row of an evaluation among rows, factors and inertias of joints."""
    return (i * g.slots + slot) * STAGES + stage


@wp.func
def recall(g: Parameters, s: State, m: Work, i: int, n: int, slot: int, stage: int):
    """Load forces, torques and spins that `evaluate` left for this state."""
    for r in range(n):
        s.w[i, r] = spin(s.q[i, r], s.l[i, r], g.bodies.inertia_inverse[i * n + r])
        m.f[i, r] = m.slot_f[i, slot * STAGES + stage, r]
        m.t[i, r] = m.slot_t[i, slot * STAGES + stage, r]


@wp.func
def evaluate(g: Parameters, s: State, m: Work, row: int, frame: int, h: Real, i: int, n: int, slot: int, stage: int):
    """Forces and torques on all bodies at the state `s`, into `m`."""
    for r in range(n):
        k = i * n + r
        s.w[i, r] = spin(s.q[i, r], s.l[i, r], g.bodies.inertia_inverse[k])
        f, t = wrench(g.bodies, row, h, k, s.x[i, r], s.q[i, r], s.v[i, r], s.w[i, r])
        m.f[i, r] = f
        m.t[i, r] = t
    m.f[i, n] = zero3(0)
    m.t[i, n] = zero3(0)
    if PAIRS:  # known when this is compiled, and so is what is left out
        add_pairs(g.pair, g.pairs, m.near, i, 0, m.x, m.q, m.v, m.w, m.f, m.t)
    if RECORDED:
        load_frames(g, s, m, row, stage, i, n)
    if JOINTS:
        add_coordinates(g.joint, g.joints, i, frame, s.x, s.q, s.v, s.w, m.f, m.t)
        curved, damping, stiffness = stabilization(h)
        constrain(
            g.joint, g.joints, g.links, g.bodies.mass, g.bodies.inertia_inverse, g.bodies.gravity, i,
            link_row(g, i, slot, stage), n, s.x, s.q, s.v, s.w, s.l, curved, damping, stiffness,
            g.links.mu[slot * (STAGES + 1) + stage], m.f, m.t,
        )  # fmt: skip
    if g.slots > 1:
        for r in range(n):
            m.slot_f[i, slot * STAGES + stage, r] = m.f[i, r]
            m.slot_t[i, slot * STAGES + stage, r] = m.t[i, r]


if JOINTS:

    @wp.func
    def distribute_impulses(g: Parameters, s: State, m: Work, row: int, i: int, n: int, slot: int):
        """Changes of all momenta by impulses and joints, less m g, into `m`: J Δ(v, ω) = 0."""
        none = zero(0)
        for r in range(n):
            k = i * n + r
            v, l = apply_impulses(g.bodies, row, k, s.q[i, r], zero3(0), zero3(0))
            s.w[i, r] = zero3(0)
            m.f[i, r] = (v - g.bodies.gravity[k]) * g.bodies.mass[k]
            m.t[i, r] = l
        m.f[i, n] = zero3(0)
        m.t[i, n] = zero3(0)
        if RECORDED:
            load_frames(g, s, m, row, 0, i, n)
            hold_frames(g, i, n)
        constrain(
            g.joint, g.joints, g.links, g.bodies.mass, g.bodies.inertia_inverse, g.bodies.gravity, i,
            link_row(g, i, slot, 0), n, s.x, s.q, s.v, s.w, s.l, none, none, none,
            g.links.mu[slot * (STAGES + 1) + STAGES], m.f, m.t,
        )  # fmt: skip

    @wp.func
    def apply_all_impulses(g: Parameters, s: State, m: Work, row: int, i: int, n: int, slot: int):
        """Apply the impulses of all bodies before a step, and what joints pass on at once.

        J and its factor depend on places and orientations alone: those of the first evaluation after a blow are the same.
        """
        if has_impulses(g.bodies, row):
            distribute_impulses(g, s, m, row, i, n, slot)
            for r in range(n):
                k = i * n + r
                s.v[i, r] = s.v[i, r] + m.f[i, r] * (1.0 / g.bodies.mass[k]) + g.bodies.gravity[k]
                s.l[i, r] = s.l[i, r] + m.t[i, r]

else:

    @wp.func
    def apply_all_impulses(g: Parameters, s: State, m: Work, row: int, i: int, n: int, slot: int):
        """Apply the impulses of all bodies before a step."""
        for r in range(n):
            v, l = apply_impulses(g.bodies, row, i * n + r, s.q[i, r], s.v[i, r], s.l[i, r])
            s.v[i, r] = v
            s.l[i, r] = l


@wp.func(inline=True)
def change_power(momentum: Vec3, mass: Real, gravity: Vec3, probe: Vec3) -> Real:
    """⟨change of v by an impulse less m g, probe⟩."""
    return dot(momentum * (1.0 / mass) + gravity, probe)


@wp.func(inline=True)
def momentum_power(v: Vec3, mass: Real, gravity: Vec3, probe: Vec3) -> Real:
    """⟨impulse less m g, probe⟩."""
    return dot((v - gravity) * mass, probe)


@wp.func
def load_state(t: States, at: int, s: State, i: int, n: int):
    for r in range(n):
        s.x[i, r] = t.x[i, at, r]
        s.q[i, r] = t.q[i, at, r]
        s.v[i, r] = t.v[i, at, r]
        s.l[i, r] = t.l[i, at, r]


if not DUAL:
    if RECORDED:

        @wp.func
        def clear_frames(g: Parameters, a: State, i: int, n: int):
            """No adjoint of any frame."""
            for f in range(g.motion.x.shape[2]):
                k = n + 1 + f
                a.x[i, k] = zero3(0)
                a.q[i, k] = quat(zero3(0), zero(0))
                a.v[i, k] = zero3(0)
                a.w[i, k] = zero3(0)
                g.links.pa[i, k] = zero3(0)
                g.links.ps[i, k] = zero3(0)

        @wp.func
        def add_frames(g: Parameters, grad: Parameters, a: State, row: int, stage: int, i: int, n: int):
            """Add the adjoints of all frames to those of their motion."""
            at = instant_of(row, stage)
            for f in range(g.motion.x.shape[2]):
                k = n + 1 + f
                grad.motion.x[i, at, f] = grad.motion.x[i, at, f] + a.x[i, k]
                grad.motion.q[i, at, f] = grad.motion.q[i, at, f] + a.q[i, k]
                grad.motion.v[i, at, f] = grad.motion.v[i, at, f] + a.v[i, k]
                grad.motion.w[i, at, f] = grad.motion.w[i, at, f] + a.w[i, k]
                grad.motion.a[i, at, f] = grad.motion.a[i, at, f] + g.links.pa[i, k]
                grad.motion.s[i, at, f] = grad.motion.s[i, at, f] + g.links.ps[i, k]

        @wp.func
        def hold_frame_adjoints(g: Parameters, i: int, n: int):
            """Adjoint of `hold_frames`."""
            for f in range(g.motion.x.shape[2]):
                k = n + 1 + f
                g.links.pa[i, k] = zero3(0)
                g.links.ps[i, k] = zero3(0)

    @wp.func
    def evaluate_adjoint(
        g: Parameters,
        grad: Parameters,
        s: State,
        m: Work,
        a: State,
        row: int,
        frame: int,
        h: Real,
        i: int,
        n: int,
        slot: int,
        stage: int,
    ) -> Real:
        """Adjoint of `evaluate` at the state `s`, with forces and probes in `m`; `a` holds the contributions of the
        rest of the step to the adjoint of the state. Returns the adjoint of h."""
        for r in range(n + 1):
            a.w[i, r] = zero3(0)
        ah = zero(0)
        if RECORDED:
            load_frames(g, s, m, row, stage, i, n)
            clear_frames(g, a, i, n)
        if JOINTS:
            curved, damping, stiffness = stabilization(h)
            damping_, stiffness_ = constrain_adjoint(
                g.joint, g.joints, g.links, g.bodies.mass, g.bodies.inertia_inverse, g.bodies.gravity, i,
                link_row(g, i, slot, stage), n, s.x, s.q, s.v, s.w, s.l, curved, damping, stiffness,
                g.links.mu[slot * (STAGES + 1) + stage], m.f, m.t, m.fp, m.tp, a.x, a.q, a.v, a.w, a.l, grad.joints, grad.bodies.mass, grad.bodies.inertia_inverse,
                grad.bodies.gravity,
            )  # fmt: skip
            coordinates_adjoint(
                g.joint, g.joints, i, frame, s.x, s.q, s.v, s.w, m.fp, m.tp, a.x, a.q, a.v, a.w, grad.joints
            )
            ah = stabilization_adjoint(h, damping_, stiffness_)
        if RECORDED:
            add_frames(g, grad, a, row, stage, i, n)
        if PAIRS:
            add_pair_adjoints(
                g.pair, g.pairs, grad.pairs, m.near, i, 0, m.x, m.q, m.v, m.w, m.fp, m.tp, a.x, a.q, a.v, a.w
            )
        for r in range(n):
            k = i * n + r
            x_, q_, v_, w_, h_ = contact_adjoint(
                g.bodies, grad.bodies, row, h, k, s.x[i, r], s.q[i, r], s.v[i, r], s.w[i, r],
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

    if JOINTS:

        @wp.func
        def all_impulses_adjoint(
            g: Parameters, grad: Parameters, s: State, m: Work, a: State, row: int, i: int, n: int, slot: int
        ):
            """Adjoint of `apply_all_impulses` at the state `s` before it; `a` becomes that of this state."""
            if has_impulses(g.bodies, row):
                none = zero(0)
                distribute_impulses(g, s, m, row, i, n, slot)
                for r in range(n):
                    k = i * n + r
                    f_, mass_, gravity_, _p = wp.grad(change_power)(
                        m.f[i, r], g.bodies.mass[k], g.bodies.gravity[k], a.v[i, r]
                    )
                    grad.bodies.mass[k] = grad.bodies.mass[k] + mass_
                    grad.bodies.gravity[k] = grad.bodies.gravity[k] + gravity_
                    m.fp[i, r] = f_
                    m.tp[i, r] = a.l[i, r]
                    a.w[i, r] = zero3(0)
                m.fp[i, n] = zero3(0)
                m.tp[i, n] = zero3(0)
                a.w[i, n] = zero3(0)
                if RECORDED:
                    clear_frames(g, a, i, n)
                _damping, _stiffness = constrain_adjoint(
                    g.joint, g.joints, g.links, g.bodies.mass, g.bodies.inertia_inverse, g.bodies.gravity, i,
                    link_row(g, i, slot, 0), n, s.x, s.q, s.v, s.w, s.l, none, none, none,
                    g.links.mu[slot * (STAGES + 1) + STAGES], m.f, m.t, m.fp, m.tp, a.x, a.q, a.v, a.w, a.l, grad.joints, grad.bodies.mass, grad.bodies.inertia_inverse,
                    grad.bodies.gravity,
                )  # fmt: skip
                if RECORDED:  # a blow leaves their velocities as they are
                    hold_frame_adjoints(g, i, n)
                    add_frames(g, grad, a, row, 0, i, n)
                for r in range(n):
                    k = i * n + r
                    v, _l = apply_impulses(g.bodies, row, k, s.q[i, r], zero3(0), zero3(0))
                    v_, mass_, gravity_, _p = wp.grad(momentum_power)(
                        v, g.bodies.mass[k], g.bodies.gravity[k], m.fp[i, r]
                    )
                    grad.bodies.mass[k] = grad.bodies.mass[k] + mass_
                    grad.bodies.gravity[k] = grad.bodies.gravity[k] + gravity_
                    a.q[i, r] = a.q[i, r] + impulses_adjoint(g.bodies, grad.bodies, row, k, s.q[i, r], v_, m.tp[i, r])

    else:

        @wp.func
        def same(a: Real) -> Real:
            return a

        @wp.func
        def all_impulses_adjoint(
            g: Parameters, grad: Parameters, s: State, m: Work, a: State, row: int, i: int, n: int, slot: int
        ):
            """Adjoint of `apply_all_impulses`."""
            _after = wp.grad(same)(zero(0))  # as in `multibody_kernels.step_adjoint`
            for r in range(n):
                k = i * n + r
                a.q[i, r] = a.q[i, r] + impulses_adjoint(g.bodies, grad.bodies, row, k, s.q[i, r], a.v[i, r], a.l[i, r])

    @wp.func
    def all_force_powers(a: Vec3, b: Quat, m: Mat3, r: Real) -> Real:
        """For a kernel with a backward pass: Warp leaves adjoints of nested functions empty unless one reaches them."""
        s = all_wrench_powers(a, b, m, r)
        if PAIRS:
            s = s + all_pair_powers(a, b, r)
        if JOINTS:
            s = s + all_coordinate_powers(a, b, r)
            s = s + all_link_powers(a, b, m, r) + change_power(a, r, a, a) + momentum_power(a, r, a, a)
        return s
