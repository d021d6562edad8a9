# pyright: reportInvalidTypeForm=false
"""Soft alpha of pixels near triangles: a template for `engine.lanes`.

A pixel whose centre no triangle covers is as opaque as A = 1 − Π (1 − Q_j), Q_j = exp(−d_j² / δ), where d_j is its
distance on the screen from triangle j (Chen et al. 2019, Eq. 4 and 5). Kernels sum log(1 − Q_j).
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.raster.triangle_kernels import centre, reach, to_border

Corner = wp.types.vector(3, Scalar)  # u, v [px] and depth [m]

MIN_SQUARED_DISTANCE = wp.constant(Scalar(1.0e-30))  # least d² / δ: a pixel that lies on an edge is opaque, and finite
MAX_SQUARED_DISTANCE = wp.constant(Scalar(9.210340371976184))  # −log 1e-4: beyond this d² / δ a triangle does not count


@wp.func
def expm1(x: Scalar):
    """e^x − 1 for x ≤ 0, to rounding (Kahan): (u − 1) x / log u, u = e^x."""
    u = wp.exp(x)
    if u == Scalar(1.0):
        return x
    if u - Scalar(1.0) == Scalar(-1.0):
        return Scalar(-1.0)
    return (u - Scalar(1.0)) * x / wp.log(u)


@wp.kernel(enable_backward=False)
def fade(
    screen: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array2d[wp.vec3i],  # (images or 1, faces), -1 in rows that do not count
    covered: wp.array3d[wp.bool],  # pixels whose centre is covered
    delta: wp.array[Scalar],  # [px²]
    near: wp.array[Scalar],  # [m]
    cull: wp.array[int],
    # out
    clear: wp.array3d[Scalar],  # log (1 − A), zero before
):
    thread = wp.tid()
    image = thread / faces.shape[1]
    page = wp.where(faces.shape[0] == 1, 0, image)
    k = faces[page, thread - image * faces.shape[1]]
    if k[0] < 0:
        return
    a = screen[image, k[0]]
    b = screen[image, k[1]]
    c = screen[image, k[2]]
    box = reach(a, b, c, wp.sqrt(MAX_SQUARED_DISTANCE * delta[0]), near[0], cull[0], clear.shape[1], clear.shape[2])
    for row in range(box.top, box.bottom):
        for column in range(box.left, box.right):
            if not covered[image, row, column]:
                x = to_border(centre(row, column), a, b, c).square / delta[0]
                if x <= MAX_SQUARED_DISTANCE:
                    # log(1 − e^−x) without loss where x is small
                    wp.atomic_add(clear, image, row, column, wp.log(-expm1(-wp.max(x, MIN_SQUARED_DISTANCE))))


@wp.kernel(enable_backward=False)
def fade_adjoint(
    screen: wp.array2d[Corner],
    faces: wp.array2d[wp.vec3i],
    covered: wp.array3d[wp.bool],
    delta: wp.array[Scalar],
    near: wp.array[Scalar],
    cull: wp.array[int],
    clear_adjoint: wp.array3d[Scalar],
    # out
    screen_adjoint: wp.array2d[Corner],  # zero before
):
    thread = wp.tid()
    image = thread / faces.shape[1]
    page = wp.where(faces.shape[0] == 1, 0, image)
    k = faces[page, thread - image * faces.shape[1]]
    if k[0] < 0:
        return
    a = screen[image, k[0]]
    b = screen[image, k[1]]
    c = screen[image, k[2]]
    box = reach(
        a,
        b,
        c,
        wp.sqrt(MAX_SQUARED_DISTANCE * delta[0]),
        near[0],
        cull[0],
        clear_adjoint.shape[1],
        clear_adjoint.shape[2],
    )
    to_a = Corner()
    to_b = Corner()
    to_c = Corner()
    for row in range(box.top, box.bottom):
        for column in range(box.left, box.right):
            g = clear_adjoint[image, row, column]
            if g != Scalar(0.0) and not covered[image, row, column]:
                closest = to_border(centre(row, column), a, b, c)
                x = closest.square / delta[0]
                if x <= MAX_SQUARED_DISTANCE and x > MIN_SQUARED_DISTANCE:
                    # d log(1 − e^−x) = dx / (e^x − 1), and d d² = −2 away · ((1 − s) da + s db)
                    g = g * wp.exp(-x) / (-expm1(-x) * delta[0])
                    pull = Corner(Scalar(-2.0) * g * closest.away[0], Scalar(-2.0) * g * closest.away[1], Scalar(0.0))
                    begin = pull * (Scalar(1.0) - closest.share)
                    end = pull * closest.share
                    if closest.edge == 0:
                        to_a += begin
                        to_b += end
                    elif closest.edge == 1:
                        to_b += begin
                        to_c += end
                    else:
                        to_c += begin
                        to_a += end
    wp.atomic_add(screen_adjoint, image, k[0], to_a)
    wp.atomic_add(screen_adjoint, image, k[1], to_b)
    wp.atomic_add(screen_adjoint, image, k[2], to_c)
