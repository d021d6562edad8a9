# pyright: reportInvalidTypeForm=false
"""Least squares on coverage without keeping images: a template for `engine.lanes`.

`Point`, `draw` and `Outline` are those of `kernels.py` and `outline_kernels.py`, bound by the specialisation.

Images and their derivatives live in the scratch of one worker, one body after another, and only their sums leave it:

    misfit     Σ ρ(√w (α − T)),   Jᵀ W (α − T),   Jᵀ W J          J = ∂α/∂unknowns
    profiles   sums of α and ∂α along rows and columns, for the CDF residuals

with ρ(x) = x² and W = w, or a loss of `gradsim.numerics.robust` and W = w ρ'(x)/(2 x). A pixel that the outline does not touch has
J = 0, so only the body's box is visited. What lies around it adds ρ(√w T), from running sums that start at the borders
of the image: nothing is subtracted, so a cost of 0 comes out as 0.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.coverage.kernels import Point, draw
    from gradsim.render.coverage.outline_kernels import Outline


@wp.func
def rho(square: Scalar, kind: int, bend: Scalar):
    """ρ, from x²."""
    if kind == 1 and square > bend * bend:
        return Scalar(2.0) * bend * wp.sqrt(square) - bend * bend
    if kind == 2:
        u = square / (bend * bend)
        if u < Scalar(1e-4):  # log(1 + u) would lose digits
            return square * (Scalar(1.0) - u * (Scalar(0.5) - u * (Scalar(1.0 / 3.0) - Scalar(0.25) * u)))
        return bend * bend * wp.log(Scalar(1.0) + u)
    return square


@wp.func
def influence(square: Scalar, kind: int, bend: Scalar):
    """ρ'(x)/(2 x), from x²."""
    if kind == 1 and square > bend * bend:
        return bend / wp.sqrt(square)
    if kind == 2:
        return Scalar(1.0) / (Scalar(1.0) + square / (bend * bend))
    return Scalar(1.0)


@wp.func
def misfit(
    area: wp.vec4i,
    worker: int,
    body: int,
    frame: int,
    target: wp.array3d[Scalar],
    weight: wp.array3d[Scalar],
    before: wp.array3d[Scalar],
    after: wp.array3d[Scalar],
    above: wp.array2d[Scalar],
    below: wp.array2d[Scalar],
    kind: int,
    bend: Scalar,
    image: wp.array3d[Scalar],
    slope: wp.array4d[Scalar],
    gradient: wp.array2d[Scalar],
    normal: wp.array3d[Scalar],
):
    """ρ of the difference of a page of the images, and its derivatives; the page is zero after."""
    unknowns = slope.shape[3]
    total = above[frame, area[0]] + below[frame, area[1]]
    for row in range(area[0], area[1]):
        total += before[frame, row, area[2]] + after[frame, row, area[3]]
        for column in range(area[2], area[3]):
            alpha = image[worker, row, column]
            image[worker, row, column] = Scalar(0.0)
            t = target[frame, row, column]
            w = weight[frame, row, column]
            square = w * (alpha - t) * (alpha - t)
            total += rho(square, kind, bend)
            touched = wp.int32(0)
            for u in range(unknowns):
                if slope[worker, row, column, u] != Scalar(0.0):
                    touched = wp.int32(1)
            if touched > 0:
                w = w * influence(square, kind, bend)
                r = w * (alpha - t)
                for u in range(unknowns):
                    s = slope[worker, row, column, u]
                    gradient[body, u] = gradient[body, u] + s * r
                    for k in range(u + 1):
                        normal[body, u, k] = normal[body, u, k] + w * s * slope[worker, row, column, k]
                for u in range(unknowns):
                    slope[worker, row, column, u] = Scalar(0.0)
    return total


@wp.kernel(enable_backward=False)
def objective(
    screen: wp.array2d[Point],  # (bodies, vertices), bodies are frames of worlds
    tangent: wp.array4d[Point],  # (worlds, unknowns, frames, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    target: wp.array3d[Scalar],  # (frames, rows, columns)
    weight: wp.array3d[Scalar],
    before: wp.array3d[Scalar],  # Σ ρ(√w T) of a row before a column, (frames, rows, columns + 1)
    after: wp.array3d[Scalar],  # from a column on
    above: wp.array2d[Scalar],  # Σ ρ(√w T) of the rows before a row, (frames, rows + 1)
    below: wp.array2d[Scalar],  # from a row on
    kind: int,  # of the loss: 0 Gaussian, 1 Huber, 2 Cauchy
    bend: Scalar,
    workers: int,
    # scratch, zero before and after
    front: wp.array2d[wp.bool],  # (bodies, faces)
    outline: Outline,  # (workers)
    image: wp.array3d[Scalar],  # (workers, rows, columns)
    slope: wp.array4d[Scalar],  # (workers, rows, columns, unknowns)
    # out, zero before
    cost: wp.array[Scalar],  # (bodies)
    gradient: wp.array2d[Scalar],  # (bodies, unknowns)
    normal: wp.array3d[Scalar],  # (bodies, unknowns, unknowns), lower triangle
):
    worker = wp.tid()
    for body in range(worker, screen.shape[0], workers):
        frame = body % target.shape[0]
        area = draw(screen, tangent, faces, edges, convex, front, outline, worker, body, worker, image, slope)
        cost[body] = misfit(
            area, worker, body, frame, target, weight, before, after, above, below, kind, bend, image, slope, gradient, normal
        )  # fmt: skip


@wp.kernel(enable_backward=False)
def objective_of_mean(
    screen: wp.array2d[Point],  # (bodies · images, vertices)
    tangent: wp.array4d[Point],  # (worlds, unknowns, frames · images, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    target: wp.array3d[Scalar],
    weight: wp.array3d[Scalar],
    before: wp.array3d[Scalar],
    after: wp.array3d[Scalar],
    above: wp.array2d[Scalar],
    below: wp.array2d[Scalar],
    kind: int,
    bend: Scalar,
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
    worker = wp.tid()
    unknowns = tangent.shape[1]
    images = screen.shape[0] // cost.shape[0]
    share = Scalar(1.0) / Scalar(images)
    for body in range(worker, cost.shape[0], workers):
        frame = body % target.shape[0]
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
        cost[body] = misfit(
            area, worker, body, frame, target, weight, before, after, above, below, kind, bend, mean, mean_slope, gradient,
            normal,
        )  # fmt: skip


@wp.kernel(enable_backward=False)
def profiles(
    screen: wp.array2d[Point],
    tangent: wp.array4d[Point],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    weight: wp.array3d[Scalar],
    workers: int,
    # scratch, zero before and after
    front: wp.array2d[wp.bool],
    outline: Outline,
    image: wp.array3d[Scalar],
    slope: wp.array4d[Scalar],
    # out, zero before
    sums: wp.array2d[Scalar],  # (bodies, rows + columns)
    sums_tangent: wp.array3d[Scalar],  # (bodies, rows + columns, unknowns)
):
    worker = wp.tid()
    height = image.shape[1]
    unknowns = tangent.shape[1]
    for body in range(worker, screen.shape[0], workers):
        frame = body % weight.shape[0]
        area = draw(screen, tangent, faces, edges, convex, front, outline, worker, body, worker, image, slope)
        for row in range(area[0], area[1]):
            for column in range(area[2], area[3]):
                w = weight[frame, row, column]
                alpha = w * image[worker, row, column]
                image[worker, row, column] = Scalar(0.0)
                sums[body, row] = sums[body, row] + alpha
                sums[body, height + column] = sums[body, height + column] + alpha
                for u in range(unknowns):
                    s = w * slope[worker, row, column, u]
                    if s != Scalar(0.0):
                        slope[worker, row, column, u] = Scalar(0.0)
                        sums_tangent[body, row, u] = sums_tangent[body, row, u] + s
                        sums_tangent[body, height + column, u] = sums_tangent[body, height + column, u] + s
                    elif slope[worker, row, column, u] != Scalar(0.0):
                        slope[worker, row, column, u] = Scalar(0.0)
