# pyright: reportInvalidTypeForm=false
"""Projected vertices of a rigid body and their derivatives: a template for `engine.lanes`.

    p = C (R r + x) + t,   s = (K p)_xy / p_z            C: world → camera
    dp = C (dω × R r + R dr + dx) + dt + w × (p − t),   ds = ((K dp + dK p)_xy - s dp_z) / p_z

with dω from dq = ½ (dω, 0) q, and w of the camera, dC = [w]× C. One pass over what would be a dozen arrays of worlds × unknowns × frames × vertices.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Point = wp.types.vector(2, Scalar)
V3 = wp.types.vector(3, Scalar)
V4 = wp.types.vector(4, Scalar)
M3 = wp.types.matrix((3, 3), Scalar)


@wp.func
def rotation(q: V4):
    x = q[0]
    y = q[1]
    z = q[2]
    w = q[3]
    one = Scalar(1.0)
    two = Scalar(2.0)
    return M3(
        one - two * (y * y + z * z), two * (x * y - z * w), two * (x * z + y * w),
        two * (x * y + z * w), one - two * (x * x + z * z), two * (y * z - x * w),
        two * (x * z - y * w), two * (y * z + x * w), one - two * (x * x + y * y),
    )  # fmt: skip


@wp.func
def turning(dq: V4, q: V4):
    """Rotation vector dω of the change dq of a unit quaternion, (x, y, z, w): the vector part of 2 dq q*."""
    a = V3(dq[0], dq[1], dq[2])
    b = V3(q[0], q[1], q[2])
    return (a * q[3] - b * dq[3] - wp.cross(a, b)) * Scalar(2.0)


@wp.kernel(enable_backward=False)
def project_rigid(
    offset: int,  # see `engine.launch`
    rest: wp.array2d[V3],  # (worlds or 1, vertices)
    x: wp.array2d[V3],  # (worlds, frames)
    q: wp.array2d[V4],
    lens: wp.array[M3],  # K (worlds or 1)
    turn: wp.array[M3],  # C (worlds or 1)
    shift: wp.array[V3],  # t (worlds or 1)
    rest_tangent: wp.array3d[V3],  # (worlds, unknowns, vertices), or no worlds for zero
    x_tangent: wp.array3d[V3],  # (worlds, unknowns, frames)
    q_tangent: wp.array3d[V4],
    lens_tangent: wp.array2d[M3],  # (worlds, unknowns), or no worlds for zero
    shift_tangent: wp.array2d[V3],
    turn_tangent: wp.array2d[V3],  # w
    near: Scalar,  # [m]
    away: Scalar,  # [px] position given to all vertices of a part that is not drawn
    # out
    screen: wp.array3d[Point],  # (worlds, frames, vertices)
    screen_tangent: wp.array4d[Point],  # (worlds, unknowns, frames, vertices)
):
    world, frame = wp.tid()
    world += offset
    count = rest.shape[1]
    rest_world = wp.min(world, rest.shape[0] - 1)
    K = lens[wp.min(world, lens.shape[0] - 1)]
    C = turn[wp.min(world, turn.shape[0] - 1)]
    t = shift[wp.min(world, shift.shape[0] - 1)]
    R = C * rotation(q[world, frame])
    centre = C * x[world, frame] + t
    visible = wp.int32(1)
    for i in range(count):
        p = R * rest[rest_world, i] + centre
        if not (p[2] >= near):  # also where it is not a number
            visible = wp.int32(0)
        projected = K * p
        screen[world, frame, i] = Point(projected[0] / p[2], projected[1] / p[2])
    if visible == 0:
        for i in range(count):
            screen[world, frame, i] = Point(away, away)
            for u in range(x_tangent.shape[1]):
                screen_tangent[world, u, frame, i] = Point(Scalar(0.0), Scalar(0.0))
        return
    for u in range(x_tangent.shape[1]):
        w = C * turning(q_tangent[world, u, frame], q[world, frame])
        dx = C * x_tangent[world, u, frame]
        if shift_tangent.shape[0] > 0:
            dx += shift_tangent[world, u]
        if turn_tangent.shape[0] > 0:
            w += turn_tangent[world, u]
            dx += wp.cross(turn_tangent[world, u], centre - t)
        for i in range(count):
            arm = R * rest[rest_world, i]
            place = arm + centre
            dp = wp.cross(w, arm) + dx
            if rest_tangent.shape[0] > 0:
                dp += R * rest_tangent[world, u, i]
            ds = K * dp
            if lens_tangent.shape[0] > 0:
                ds += lens_tangent[world, u] * place
            at = screen[world, frame, i]
            velocity = Point(ds[0] - at[0] * dp[2], ds[1] - at[1] * dp[2])
            screen_tangent[world, u, frame, i] = velocity / place[2]
