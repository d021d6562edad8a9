"""Long steps of a rigid body that touches nothing until the end of its stride, a template for `engine.lanes`.

Contact needs short steps, and free flight does not: rk4 moves a centre of mass in a parabola at any step, and turns a body
through the angle ωH to (ωH/2)⁵/120. So a world that is too far from all grounds and obstacles to meet one within the rest H
of its stride, and turns by less than `MAX_STRIDE_ANGLE` in it, takes one step to its end; where air brakes it, only if that takes less than half of that share of its speed. What a world does depends on its
own state alone, not on the other lanes of its pack. Left open: what `rigid/wrench_kernels.py` has.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.point_sdf import obstacle_gap
    from gradsim.physics.rigid.wrench_kernels import Parameters

OBSTACLES = globals().get("OBSTACLES", False)
DRAG = globals().get("DRAG", False)
MAX_STRIDE_ANGLE = wp.constant(0.03)  # largest angle of a long step [rad]: off by 6e-12 rad


@wp.func
def may_touch(p: Parameters, time: Real, i: int, x: Vec3, v: Vec3, l: Vec3) -> Mask:
    """Mask of worlds that may meet something within a time [s], or turn by too much."""
    inverse = p.inertia_inverse[i]
    turn = dot(l, l) * ddot(inverse, inverse) * time * time  # |I⁻¹|² of Frobenius is the larger one
    g = p.gravity[i]
    travel = time * (sqrt(dot(v, v)) + time * sqrt(dot(g, g)) * 0.5)  # [m] at most
    if DRAG:
        braked = p.drag[i, 0] / p.mass[i] * travel * 2.0  # share of the speed, twice, in which its rate changes
        turn = max(turn, braked * braked)
    clearance = travel * 2.0  # [m] from the nearest ground or obstacle, as far as it matters
    for k in range(p.normal.shape[1]):
        clearance = min(clearance, dot(x, p.normal[i, k]) - p.height[i, k] - p.reach[i])
    if OBSTACLES:
        for o in range(p.centre.shape[1]):
            gap = obstacle_gap(
                x, quat(zero3(0), spread(Scalar(1.0))), zero3(0), p.reach[i], p.centre[i, o], p.axis[i, o, 0],
                p.axis[i, o, 1], p.axis[i, o, 2], p.half[i, o, 0], p.half[i, o, 1], p.half[i, o, 2], p.rounding[i, o],
            )  # fmt: skip
            clearance = min(clearance, gap)
    limit = spread(Scalar(MAX_STRIDE_ANGLE * MAX_STRIDE_ANGLE))
    return less(where(less(turn, limit), clearance, spread(Scalar(-1.0))), travel * 1.001)
