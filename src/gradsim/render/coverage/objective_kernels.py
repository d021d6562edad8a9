# pyright: reportInvalidTypeForm=false
"""Least squares on means of coverage images, without keeping images: a template for `engine.lanes`.

Images and their derivatives live in the scratch of one worker, one body after another, and only their sums leave it:

    objective_of_mean     Σ ρ(√w (α − T)),   Jᵀ W (α − T),   Jᵀ W J          J = ∂α/∂unknowns

with ρ and W as in `misfit_kernels.py`, which is for single images.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.coverage.goal_kernels import Goal, influence, other_rows, rho, run, target_of
    from gradsim.render.coverage.kernels import Point, draw
    from gradsim.render.coverage.outline_kernels import Outline


@wp.func
def add_pixel(
    worker: int,
    body: int,
    goal: Goal,
    frame: int,
    row: int,
    column: int,
    alpha: Scalar,
    slope: wp.array4d[Scalar],
    gradient: wp.array2d[Scalar],
    normal: wp.array3d[Scalar],
):
    """ρ of a pixel, whose derivatives are added and become zero."""
    unknowns = slope.shape[3]
    target, w = target_of(goal, frame, row, column)
    off = alpha - target
    square = w * off * off
    touches = wp.int32(0)
    for u in range(unknowns):
        if slope[worker, row, column, u] != Scalar(0.0):
            touches = wp.int32(1)
    if touches > 0:
        w = w * influence(square, goal.kind, goal.bend)
        r = w * off
        for u in range(unknowns):
            s = slope[worker, row, column, u]
            gradient[body, u] = gradient[body, u] + s * r
            for k in range(u + 1):
                normal[body, u, k] = normal[body, u, k] + w * s * slope[worker, row, column, k]
        for u in range(unknowns):
            slope[worker, row, column, u] = Scalar(0.0)
    return rho(square, goal.kind, goal.bend)


@wp.func
def misfit_of_image(
    area: wp.vec4i,
    worker: int,
    body: int,
    goal: Goal,
    frame: int,
    image: wp.array3d[Scalar],
    slope: wp.array4d[Scalar],
    gradient: wp.array2d[Scalar],
    normal: wp.array3d[Scalar],
):
    """`misfit` of a page of the coverage itself."""
    width = image.shape[2]
    total = other_rows(goal, frame, area[0], area[1])
    none = Scalar(0.0)
    for row in range(area[0], area[1]):
        total += run(goal, frame, row, 0, area[2], none)
        total += run(goal, frame, row, area[3], width, none)
        for column in range(area[2], area[3]):
            alpha = image[worker, row, column]
            image[worker, row, column] = Scalar(0.0)
            total += add_pixel(worker, body, goal, frame, row, column, alpha, slope, gradient, normal)
    return total


@wp.kernel(enable_backward=False)
def objective_of_mean(
    offset: int,  # see `engine.launch`
    screen: wp.array2d[Point],  # (bodies · images, vertices)
    tangent: wp.array4d[Point],  # (worlds, unknowns, frames · images, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    goal: Goal,
    frames: int,
    workers: int,
    # scratch, zero before and after
    front: wp.array2d[wp.bool],  # (bodies · images, faces)
    outline: Outline,
    image: wp.array3d[Scalar],
    slope: wp.array4d[Scalar],
    mean: wp.array3d[Scalar],  # as the image
    mean_slope: wp.array4d[Scalar],
    # out, zero before
    cost: wp.array[Scalar],
    gradient: wp.array2d[Scalar],
    normal: wp.array3d[Scalar],
):
    """`objective` of the mean of consecutive images."""
    worker = offset + wp.tid()
    unknowns = tangent.shape[1]
    images = screen.shape[0] // cost.shape[0]
    share = Scalar(1.0) / Scalar(images)
    for body in range(worker, cost.shape[0], workers):
        frame = body % frames
        area = wp.vec4i(0, 0, 0, 0)
        for k in range(images):
            part = draw(
                screen, tangent, faces, edges, convex, front, outline, worker, body * images + k, worker, image, slope
            )
            for row in range(part[0], part[1]):
                for column in range(part[2], part[3]):
                    alpha = image[worker, row, column]
                    if alpha != Scalar(0.0):
                        mean[worker, row, column] = mean[worker, row, column] + share * alpha
                        image[worker, row, column] = Scalar(0.0)
                    for u in range(unknowns):
                        s = slope[worker, row, column, u]
                        if s != Scalar(0.0):
                            mean_slope[worker, row, column, u] = mean_slope[worker, row, column, u] + share * s
                            slope[worker, row, column, u] = Scalar(0.0)
            if area[1] == 0:
                area = part
            elif part[1] > 0:
                area = wp.vec4i(
                    wp.min(area[0], part[0]),
                    wp.max(area[1], part[1]),
                    wp.min(area[2], part[2]),
                    wp.max(area[3], part[3]),
                )
        cost[body] = misfit_of_image(area, worker, body, goal, frame, mean, mean_slope, gradient, normal)
