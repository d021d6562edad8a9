"""Springs, dampers, motors, friction and limits along the coordinates of joints, and their adjoints: a template for `engine.lanes`.

See `rigid/joint_kernels.py` for one coordinate; `rigid/constraint_kernels.py` has the structs, and the rows that hold bodies together.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.rigid.constraint_kernels import JointNumbers, JointShape
    from gradsim.physics.rigid.joint_kernels import (
        ball_power,
        ball_torque,
        free_effort,
        free_turn_power,
        point_jacobian,
        slide_force,
        slide_power,
        turn_angle,
        turn_power,
        turn_torque,
        unit_efforts,
    )

TURN, SLIDE = 0, 1  # kinds of coordinates; others are balls
NO_STIFFNESS = wp.constant(1e-30)  # [N m/rad or N/m]


if DUAL:

    @wp.func(inline=True)
    def is_free(p: JointNumbers, i: int, k: int) -> bool:
        """False: springs of no stiffness have a derivative by it."""
        return False

else:

    @wp.func(inline=True)
    def is_free(p: JointNumbers, i: int, k: int) -> bool:
        """True if neither a spring nor a limit acts along a coordinate in any world, so that its angle does not matter."""
        acting = where(
            less(abs(p.spring[i, k]) + abs(p.limit[i, k]), spread(Scalar(NO_STIFFNESS))),
            zero(0),
            spread(Scalar(1.0)),
        )
        return not any_lane(less(zero(0), acting))


@wp.func
def add_coordinates(
    g: JointShape, p: JointNumbers, i: int, frame: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
    v: wp.array2d[Vec3], w: wp.array2d[Vec3], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    """Springs, dampers, motors and limits."""
    for k in range(g.coordinate.shape[0]):
        a = g.from_body[k]
        b = g.to_body[k]
        target = p.target[i, wp.min(frame, p.target.shape[1] - 1), k]
        torque = p.torque[i, wp.min(frame, p.torque.shape[1] - 1), k]
        if g.coordinate[k] == TURN:
            on_b = zero3(0)
            if is_free(p, i, k):
                hinge = rotate(q[i, a], p.axis[i, k])
                rate = dot(hinge, w[i, b] - w[i, a])
                on_b = hinge * free_effort(rate, p.damping[i, k], torque, p.friction[i, k], p.slip[i, k])
            else:
                on_b = turn_torque(
                    q[i, a], w[i, a], q[i, b], w[i, b], p.axis[i, k], p.across_a[i, k], p.across_b[i, k], p.spring[i, k],
                    target, p.damping[i, k], torque, p.lower[i, k], p.upper[i, k], p.limit[i, k],
                    p.friction[i, k], p.slip[i, k], p.backlash[i, k],
                )  # fmt: skip
            t[i, a] = t[i, a] - on_b
            t[i, b] = t[i, b] + on_b
        elif g.coordinate[k] == SLIDE:
            along = slide_force(
                x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], p.axis[i, k], p.pivot_a[i, k],
                p.pivot_b[i, k], p.spring[i, k], target, p.damping[i, k], torque, p.lower[i, k], p.upper[i, k],
                p.limit[i, k], p.friction[i, k], p.slip[i, k], p.backlash[i, k],
            )  # fmt: skip
            u, ta, tb = point_jacobian(
                x[i, a], q[i, a], x[i, b], q[i, b], p.axis[i, k], p.pivot_a[i, k], p.pivot_b[i, k]
            )
            f[i, a] = f[i, a] - u * along
            t[i, a] = t[i, a] - ta * along
            f[i, b] = f[i, b] + u * along
            t[i, b] = t[i, b] + tb * along
        else:
            on_b = ball_torque(w[i, a], w[i, b], p.damping[i, k], p.friction[i, k], p.slip[i, k])
            t[i, a] = t[i, a] - on_b
            t[i, b] = t[i, b] + on_b


if not DUAL:

    @wp.func
    def coordinates_adjoint(
        g: JointShape, p: JointNumbers, i: int, frame: int, x: wp.array2d[Vec3], q: wp.array2d[Quat],
        v: wp.array2d[Vec3], w: wp.array2d[Vec3], fp: wp.array2d[Vec3], tp: wp.array2d[Vec3],
        # out
        ax: wp.array2d[Vec3], aq: wp.array2d[Quat], av: wp.array2d[Vec3],
        aw: wp.array2d[Vec3], grad: JointNumbers,
    ):  # fmt: skip
        """Adjoint of `add_coordinates`."""
        for k in range(g.coordinate.shape[0]):
            a = g.from_body[k]
            b = g.to_body[k]
            at = wp.min(frame, p.target.shape[1] - 1)
            now = wp.min(frame, p.torque.shape[1] - 1)
            if g.coordinate[k] == TURN and is_free(p, i, k):
                q_, w_, wb_, axis_, damping_, torque_, friction_, slip_, _t, _tb = wp.grad(free_turn_power)(
                    q[i, a], w[i, a], w[i, b], p.axis[i, k], p.damping[i, k], p.torque[i, now, k], p.friction[i, k],
                    p.slip[i, k], tp[i, a], tp[i, b],
                )  # fmt: skip
                phi = turn_angle(q[i, a], q[i, b], p.axis[i, k], p.across_a[i, k], p.across_b[i, k])
                power = dot(rotate(q[i, a], p.axis[i, k]), tp[i, b] - tp[i, a])
                back, stop = unit_efforts(phi, p.target[i, at, k], p.lower[i, k], p.upper[i, k], p.backlash[i, k])
                aq[i, a] = aq[i, a] + q_
                grad.axis[i, k] = grad.axis[i, k] + axis_
                grad.spring[i, k] = grad.spring[i, k] + back * power
                grad.limit[i, k] = grad.limit[i, k] + stop * power
                grad.torque[i, now, k] = grad.torque[i, now, k] + torque_
            elif g.coordinate[k] == TURN:
                (
                    q_, w_, qb_, wb_, axis_, ca_, cb_, spring_, target_, damping_, torque_, lower_, upper_, limit_,
                    friction_, slip_, backlash_, _t, _tb,
                ) = wp.grad(turn_power)(
                    q[i, a], w[i, a], q[i, b], w[i, b], p.axis[i, k], p.across_a[i, k], p.across_b[i, k],
                    p.spring[i, k], p.target[i, at, k], p.damping[i, k], p.torque[i, now, k], p.lower[i, k],
                    p.upper[i, k], p.limit[i, k], p.friction[i, k], p.slip[i, k], p.backlash[i, k], tp[i, a], tp[i, b],
                )  # fmt: skip
                grad.across_a[i, k] = grad.across_a[i, k] + ca_
                grad.across_b[i, k] = grad.across_b[i, k] + cb_
            elif g.coordinate[k] == SLIDE:
                (
                    x_, q_, v_, w_, xb_, qb_, vb_, wb_, axis_, pa_, pb_, spring_, target_, damping_, torque_, lower_,
                    upper_, limit_, friction_, slip_, backlash_, _f, _t, _fb, _tb,
                ) = wp.grad(slide_power)(
                    x[i, a], q[i, a], v[i, a], w[i, a], x[i, b], q[i, b], v[i, b], w[i, b], p.axis[i, k],
                    p.pivot_a[i, k], p.pivot_b[i, k], p.spring[i, k], p.target[i, at, k], p.damping[i, k],
                    p.torque[i, now, k], p.lower[i, k], p.upper[i, k], p.limit[i, k],
                    p.friction[i, k], p.slip[i, k], p.backlash[i, k], fp[i, a], tp[i, a], fp[i, b], tp[i, b],
                )  # fmt: skip
                ax[i, a] = ax[i, a] + x_
                av[i, a] = av[i, a] + v_
                ax[i, b] = ax[i, b] + xb_
                av[i, b] = av[i, b] + vb_
                grad.pivot_a[i, k] = grad.pivot_a[i, k] + pa_
                grad.pivot_b[i, k] = grad.pivot_b[i, k] + pb_
            if g.coordinate[k] == SLIDE or (g.coordinate[k] == TURN and not is_free(p, i, k)):
                aq[i, a] = aq[i, a] + q_
                aq[i, b] = aq[i, b] + qb_
                grad.axis[i, k] = grad.axis[i, k] + axis_
                grad.spring[i, k] = grad.spring[i, k] + spring_
                grad.target[i, at, k] = grad.target[i, at, k] + target_
                grad.torque[i, now, k] = grad.torque[i, now, k] + torque_
                grad.lower[i, k] = grad.lower[i, k] + lower_
                grad.upper[i, k] = grad.upper[i, k] + upper_
                grad.limit[i, k] = grad.limit[i, k] + limit_
                grad.backlash[i, k] = grad.backlash[i, k] + backlash_
            elif g.coordinate[k] > SLIDE:
                w_, wb_, damping_, friction_, slip_, _t, _tb = wp.grad(ball_power)(
                    w[i, a], w[i, b], p.damping[i, k], p.friction[i, k], p.slip[i, k], tp[i, a], tp[i, b]
                )
            aw[i, a] = aw[i, a] + w_
            aw[i, b] = aw[i, b] + wb_
            grad.damping[i, k] = grad.damping[i, k] + damping_
            grad.friction[i, k] = grad.friction[i, k] + friction_
            grad.slip[i, k] = grad.slip[i, k] + slip_

    @wp.func
    def all_coordinate_powers(a: Vec3, t: Quat, r: Real) -> Real:
        """As `constraint_kernels.all_link_powers`."""
        turning = turn_power(t, a, t, a, a, a, a, r, r, r, r, r, r, r, r, r, r, a, a)
        sliding = slide_power(a, t, a, a, a, t, a, a, a, a, a, r, r, r, r, r, r, r, r, r, r, a, a, a, a)
        return turning + sliding + ball_power(a, a, r, r, r, a, a) + free_turn_power(t, a, a, a, r, r, r, r, a, a)
