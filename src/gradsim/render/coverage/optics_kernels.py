# pyright: reportInvalidTypeForm=false
"""Vertices in the images of a camera with a lens and a shutter, and their derivatives: a template for `engine.lanes`.

The equations are those of `render/optics.py`, which is the definition; one pass over what would be dozens of arrays of worlds ×
unknowns × frames × samples × vertices. With u(τ) the pixels of a pinhole, p = D(u) the lens, y the line over the number of lines
less ½, and τ the root of equation (3):

    dp = D' du + ∂D + D' u' dτ
    dτ = (d delay + d exposure s + d readout y + readout ∇y·(D' du + ∂D)) / (1 − readout ∇y·D' u')
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Point = wp.types.vector(2, Scalar)
M2 = wp.types.matrix((2, 2), Scalar)
M3 = wp.types.matrix((3, 3), Scalar)
Five = wp.types.vector(5, Scalar)

NOT_DRAWN = wp.constant(Scalar(-5.0e5))  # [px] half of `rigid_projection.AWAY`


@wp.func
def brown_factor(square: Scalar, k: Five):
    return Scalar(1.0) + square * (k[0] + square * (k[1] + square * k[4]))


@wp.func
def fisheye_angle(q: Scalar, k: Five):
    """θ_d/θ."""
    return Scalar(1.0) + q * (k[0] + q * (k[1] + q * (k[2] + q * k[3])))


@wp.func
def distort(n: Point, k: Five, limit: Scalar, kind: int):
    """Equation (1) where kind is 1, (2) where it is 2, and its Jacobian."""
    x = n[0]
    y = n[1]
    r2 = x * x + y * y
    two = Scalar(2.0)
    if kind == 2:
        r = wp.sqrt(r2)
        if r < Scalar(1.0e-9):
            return n, M2(Scalar(1.0), Scalar(0.0), Scalar(0.0), Scalar(1.0))
        theta = wp.min(wp.atan(r), limit)
        q = theta * theta
        g = theta * fisheye_angle(q, k) / r
        rate = Scalar(0.0)
        if wp.atan(r) < limit:
            slope = Scalar(1.0) + q * (
                Scalar(3.0) * k[0] + q * (Scalar(5.0) * k[1] + q * (Scalar(7.0) * k[2] + q * Scalar(9.0) * k[3]))
            )
            rate = slope / (Scalar(1.0) + r2)
        h = (rate - g) / r2
        return n * g, M2(g + h * x * x, h * x * y, h * x * y, g + h * y * y)
    s = wp.min(r2, limit * limit)
    f = brown_factor(s, k)
    slope = Scalar(0.0)
    if r2 < limit * limit:
        slope = k[0] + s * (two * k[1] + Scalar(3.0) * s * k[4])
    p1 = k[2]
    p2 = k[3]
    bent = Point(x * f + two * p1 * x * y + p2 * (r2 + two * x * x), y * f + p1 * (r2 + two * y * y) + two * p2 * x * y)
    mixed = two * (x * y * slope + p1 * x + p2 * y)
    return bent, M2(
        f + two * x * x * slope + two * p1 * y + Scalar(6.0) * p2 * x, mixed,
        mixed, f + two * y * y * slope + Scalar(6.0) * p1 * y + two * p2 * x,
    )  # fmt: skip


@wp.func
def by_coefficients(n: Point, k_tangent: Five, limit: Scalar, kind: int):
    """Derivative of `distort` along a change of the coefficients."""
    r2 = n[0] * n[0] + n[1] * n[1]
    if kind == 2:
        r = wp.sqrt(r2)
        if r < Scalar(1.0e-9):
            return Point(Scalar(0.0), Scalar(0.0))
        theta = wp.min(wp.atan(r), limit)
        q = theta * theta
        return n * (theta * (fisheye_angle(q, k_tangent) - Scalar(1.0)) / r)
    change = brown_factor(wp.min(r2, limit * limit), k_tangent) - Scalar(1.0)
    two = Scalar(2.0)
    dp1 = k_tangent[2]
    dp2 = k_tangent[3]
    xy = two * n[0] * n[1]
    return Point(
        n[0] * change + dp1 * xy + dp2 * (r2 + two * n[0] * n[0]),
        n[1] * change + dp1 * (r2 + two * n[1] * n[1]) + dp2 * xy,
    )


@wp.func
def normalized(K: M3, u: Point):
    y = (u[1] - K[1, 2]) / K[1, 1]
    return Point((u[0] - K[0, 2] - K[0, 1] * y) / K[0, 0], y)


@wp.func
def lens(K: M3, k: Five, limit: Scalar, kind: int, u: Point):
    """Pixel of the image of a pixel of the pinhole, and its Jacobian."""
    if kind == 0:
        return u, M2(Scalar(1.0), Scalar(0.0), Scalar(0.0), Scalar(1.0))
    bent, J = distort(normalized(K, u), k, limit, kind)
    A = M2(K[0, 0], K[0, 1], Scalar(0.0), K[1, 1])
    return A * bent + Point(K[0, 2], K[1, 2]), A * J * wp.inverse(A)


@wp.func
def lens_tangent(K: M3, dK: M3, k: Five, dk: Five, limit: Scalar, kind: int, u: Point):
    """Derivative of `lens` along a change of intrinsics and coefficients at a fixed pixel of the pinhole."""
    if kind == 0:
        return Point(Scalar(0.0), Scalar(0.0))
    n = normalized(K, u)
    bent, J = distort(n, k, limit, kind)
    A = M2(K[0, 0], K[0, 1], Scalar(0.0), K[1, 1])
    dA = M2(dK[0, 0], dK[0, 1], Scalar(0.0), dK[1, 1])
    dc = Point(dK[0, 2], dK[1, 2])
    dn = wp.inverse(A) * (dA * n + dc)
    return dA * bent + dc + A * (by_coefficients(n, dk, limit, kind) - J * dn)


@wp.func
def smaller(a: Scalar, b: Scalar):
    """-1, 1 or 0: the one of smaller magnitude of two numbers of one sign, or neither."""
    if a * b <= Scalar(0.0):
        return 0
    if wp.abs(a) < wp.abs(b):
        return -1
    return 1


@wp.func
def slope_between(a: Point, b: Point, t: Scalar):
    return (b - a) / t


@wp.kernel(enable_backward=False)
def project_optics(
    offset: int,  # see `engine.launch`
    samples: wp.array3d[Point],  # (worlds, frames · samples, vertices)
    samples_tangent: wp.array4d[Point],  # (worlds, unknowns, frames · samples, vertices)
    offsets: wp.array2d[Scalar],  # (frames, samples) [s]
    intrinsics: wp.array[M3],  # (worlds or 1)
    intrinsics_tangent: wp.array2d[M3],  # (worlds, unknowns), or no worlds for zero; likewise below
    coefficients: wp.array[Five],  # (worlds or 1)
    coefficients_tangent: wp.array2d[Five],
    limits: wp.array[Scalar],  # (worlds or 1)
    kind: int,  # of the lens: 0 none, 1 Brown–Conrady, 2 fisheye
    readout: wp.array[Scalar],  # (worlds or 1) [s]
    readout_tangent: wp.array2d[Scalar],
    exposure: wp.array[Scalar],
    exposure_tangent: wp.array2d[Scalar],
    delay: wp.array[Scalar],
    delay_tangent: wp.array2d[Scalar],
    shares: wp.array[Scalar],  # of the exposure, of each image of a frame
    axis: int,  # across the lines: 0 x, 1 y
    first: Scalar,  # line of the sensor [px]
    lines: Scalar,  # their number
    beyond: Scalar,  # |y| from which on lines are not told apart
    steps: int,  # of Newton's method
    # out
    screen: wp.array3d[Point],  # (worlds, frames · images, vertices)
    screen_tangent: wp.array4d[Point],  # (worlds, unknowns, frames · images, vertices)
):
    world, frame = wp.tid()
    world += offset
    count = offsets.shape[1]
    images = shares.shape[0]
    unknowns = samples_tangent.shape[1]
    K = intrinsics[wp.min(world, intrinsics.shape[0] - 1)]
    k = coefficients[wp.min(world, coefficients.shape[0] - 1)]
    limit = limits[wp.min(world, limits.shape[0] - 1)]
    span = readout[wp.min(world, readout.shape[0] - 1)]
    open_time = exposure[wp.min(world, exposure.shape[0] - 1)]
    later = delay[wp.min(world, delay.shape[0] - 1)]
    zero = Point(Scalar(0.0), Scalar(0.0))
    for i in range(samples.shape[2]):
        visible = wp.int32(1)
        for j in range(count):
            if not (samples[world, frame * count + j, i][0] > NOT_DRAWN):
                visible = wp.int32(0)
        for image in range(images):
            row = frame * images + image
            if visible == 0:
                screen[world, row, i] = samples[world, frame * count, i]
                if samples[world, frame * count, i][0] > NOT_DRAWN:
                    screen[world, row, i] = Point(NOT_DRAWN + NOT_DRAWN, NOT_DRAWN + NOT_DRAWN)
                for u in range(unknowns):
                    screen_tangent[world, u, row, i] = zero
                continue
            start = later + open_time * shares[image]
            tau = start
            at = samples[world, frame * count, i]
            moving = zero
            m = wp.int32(0)
            side_x = wp.int32(0)
            side_y = wp.int32(0)
            base = frame * count
            slope = Scalar(1.0)
            line = Scalar(0.0)
            inside = wp.int32(1)
            p, J = lens(K, k, limit, kind, at)
            for step in range(steps + 1):
                if count > 1:
                    m = wp.int32(0)
                    for j in range(1, count - 1):
                        if tau >= offsets[frame, j]:
                            m = j
                    ta = offsets[frame, m]
                    tb = offsets[frame, m + 1]
                    a = samples[world, base + m, i]
                    b = samples[world, base + m + 1, i]
                    speed = slope_between(a, b, tb - ta)
                    low = wp.max(m - 1, 0)
                    high = wp.min(m, count - 3)
                    f0 = samples[world, base + low, i]
                    f1 = samples[world, base + low + 1, i]
                    f2 = samples[world, base + low + 2, i]
                    t0 = offsets[frame, low]
                    t1 = offsets[frame, low + 1]
                    t2 = offsets[frame, low + 2]
                    before = (slope_between(f1, f2, t2 - t1) - slope_between(f0, f1, t1 - t0)) / (t2 - t0)
                    f0 = samples[world, base + high, i]
                    f1 = samples[world, base + high + 1, i]
                    f2 = samples[world, base + high + 2, i]
                    t0 = offsets[frame, high]
                    t1 = offsets[frame, high + 1]
                    t2 = offsets[frame, high + 2]
                    after = (slope_between(f1, f2, t2 - t1) - slope_between(f0, f1, t1 - t0)) / (t2 - t0)
                    side_x = smaller(before[0], after[0])
                    side_y = smaller(before[1], after[1])
                    bend = Point(
                        wp.where(side_x < 0, before[0], wp.where(side_x > 0, after[0], Scalar(0.0))),
                        wp.where(side_y < 0, before[1], wp.where(side_y > 0, after[1], Scalar(0.0))),
                    )
                    at = a + speed * (tau - ta) + bend * ((tau - ta) * (tau - tb))
                    moving = speed + bend * (tau - ta + tau - tb)
                    p, J = lens(K, k, limit, kind, at)
                    line = (p[axis] - first) / lines - Scalar(0.5)
                    crossing = (J * moving)[axis] / lines
                    inside = wp.int32(1)
                    if wp.abs(line) > beyond:
                        line = wp.clamp(line, -beyond, beyond)
                        crossing = Scalar(0.0)
                        inside = wp.int32(0)
                    slope = Scalar(1.0) - span * crossing
                    if step < steps:
                        tau = tau - (tau - start - span * line) / slope
            screen[world, row, i] = p
            for u in range(unknowns):
                du = samples_tangent[world, u, base, i]
                dtau = Scalar(0.0)
                if count > 1:
                    ta = offsets[frame, m]
                    tb = offsets[frame, m + 1]
                    da = samples_tangent[world, u, base + m, i]
                    db = samples_tangent[world, u, base + m + 1, i]
                    du = da + (db - da) * ((tau - ta) / (tb - ta))
                    area = (tau - ta) * (tau - tb)
                    for component in range(2):
                        side = wp.where(component == 0, side_x, side_y)
                        if side != 0:
                            at_node = wp.where(side < 0, wp.max(m - 1, 0), wp.min(m, count - 3))
                            t0 = offsets[frame, at_node]
                            t1 = offsets[frame, at_node + 1]
                            t2 = offsets[frame, at_node + 2]
                            d0 = samples_tangent[world, u, base + at_node, i][component]
                            d1 = samples_tangent[world, u, base + at_node + 1, i][component]
                            d2 = samples_tangent[world, u, base + at_node + 2, i][component]
                            du[component] += area * ((d2 - d1) / (t2 - t1) - (d1 - d0) / (t1 - t0)) / (t2 - t0)
                dp = J * du
                if kind > 0 and (intrinsics_tangent.shape[0] > 0 or coefficients_tangent.shape[0] > 0):
                    dK = M3()
                    dk = Five()
                    if intrinsics_tangent.shape[0] > 0:
                        dK = intrinsics_tangent[world, u]
                    if coefficients_tangent.shape[0] > 0:
                        dk = coefficients_tangent[world, u]
                    dp = dp + lens_tangent(K, dK, k, dk, limit, kind, at)
                if count > 1:
                    if inside > 0:
                        dtau += span * dp[axis] / lines
                    if readout_tangent.shape[0] > 0:
                        dtau += readout_tangent[world, u] * line
                    if exposure_tangent.shape[0] > 0:
                        dtau += exposure_tangent[world, u] * shares[image]
                    if delay_tangent.shape[0] > 0:
                        dtau += delay_tangent[world, u]
                    dp = dp + (J * moving) * (dtau / slope)
                screen_tangent[world, u, row, i] = dp
