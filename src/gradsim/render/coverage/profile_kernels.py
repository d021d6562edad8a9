# pyright: reportInvalidTypeForm=false
"""Sums of coverage images along rows and columns, without keeping images: a template for `engine.lanes`.

    profiles     Σ w α   and   Σ w ∂α/∂unknowns   of each row and of each column, for the CDF residuals

Images and their derivatives live in the scratch of one worker, one body after another. Where the pixels of a frame have one weight, the columns that the
outline touches are visited; those between are covered alike, and add a step to the sums of columns where they begin and end.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.coverage.kernels import Point, as_coverage, bounds, draw_outline, sum_rows
    from gradsim.render.coverage.outline_kernels import Outline, touched


@wp.kernel(enable_backward=False)
def profiles(
    offset: int,  # see `engine.launch`
    screen: wp.array2d[Point],
    tangent: wp.array4d[Point],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    weight: wp.array3d[Scalar],  # (frames, rows, columns) or (frames, 1, 1)
    workers: int,
    # scratch, zero before and after
    front: wp.array2d[wp.bool],
    outline: Outline,
    image: wp.array3d[Scalar],
    slope: wp.array4d[Scalar],
    step: wp.array2d[Scalar],  # of coverage from column to column, of all rows together, (workers, columns + 1)
    # out, zero before
    sums: wp.array2d[Scalar],  # (bodies, rows + columns)
    sums_tangent: wp.array3d[Scalar],  # (bodies, rows + columns, unknowns)
):
    worker = offset + wp.tid()
    height = image.shape[1]
    alike = weight.shape[2] == 1
    unknowns = tangent.shape[1]
    for body in range(worker, screen.shape[0], workers):
        frame = body % weight.shape[0]
        area = draw_outline(screen, tangent, faces, edges, convex, front, outline, worker, body, worker, image, slope)
        if area[1] == 0:
            continue
        if alike:
            w = weight[frame, 0, 0]
            for row in range(area[0], area[1]):
                columns = touched(outline, worker, row)
                total = Scalar(0.0)
                alpha = Scalar(0.0)
                of_row = Scalar(0.0)
                for part in range(2):
                    for column in range(columns[2 * part], columns[2 * part + 1]):
                        total += image[worker, row, column]
                        image[worker, row, column] = Scalar(0.0)
                        alpha = as_coverage(total)
                        of_row += alpha
                        sums[body, height + column] = sums[body, height + column] + w * alpha
                        for u in range(unknowns):
                            s = slope[worker, row, column, u]
                            if s != Scalar(0.0):
                                slope[worker, row, column, u] = Scalar(0.0)
                                sums_tangent[body, row, u] = sums_tangent[body, row, u] + w * s
                                sums_tangent[body, height + column, u] = sums_tangent[body, height + column, u] + w * s
                    first = columns[2 * part + 1]
                    end = wp.where(part == 0, columns[2], area[3])
                    if first < end and alpha != Scalar(0.0):  # covered alike
                        of_row += alpha * Scalar(end - first)
                        step[worker, first] = step[worker, first] + alpha
                        step[worker, end] = step[worker, end] - alpha
                sums[body, row] = w * of_row
            inner = Scalar(0.0)
            for column in range(area[2], area[3]):
                inner += step[worker, column]
                step[worker, column] = Scalar(0.0)
                sums[body, height + column] = sums[body, height + column] + w * inner
            step[worker, area[3]] = Scalar(0.0)
            continue
        sum_rows(image, worker, bounds(screen, body))
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
