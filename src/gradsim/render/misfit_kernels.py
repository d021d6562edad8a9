"""Least squares on coverage without keeping images: a template for `engine.lanes`, on top of `coverage_kernels`.

Images and their derivatives live in the scratch of one worker, one body after another, and only their sums leave it:

    misfit     Σ w (α − T)²,   Jᵀ W (α − T),   Jᵀ W J          J = ∂α/∂unknowns
    profiles   sums of α and ∂α along rows and columns, for the CDF residuals

A pixel that the outline does not touch has J = 0, so only the body's box is visited. What lies around it adds w T²,
from running sums that start at the borders of the image: nothing is subtracted, so a cost of 0 comes out as 0.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

# Point and the functions of coverage_kernels are bound by the specialisation

@wp.func
def draw(
    body: int,
    screen: wp.array2d[Point],
    tangent: wp.array4d[Point],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    worker: int,
    image: wp.array3d[Scalar],
    slope: wp.array4d[Scalar],
):
    """Coverage and derivatives of one body into the scratch of a worker; returns the rows and columns it may fill."""
    height = image.shape[1]
    width = image.shape[2]
    world = body / tangent.shape[2]
    frame = body % tangent.shape[2]
    box = bounds(screen, body)  # noqa: F821
    if not is_seen(box, height, width):  # noqa: F821
        return wp.vec4i(0, 0, 0, 0)
    face_camera(screen, body, faces, front)  # noqa: F821
    for k in range(edges.shape[0]):
        if front[body, edges[k][2]] == front[body, edges[k][3]]:
            continue
        edge = outline_edge(screen, body, edges[k], front)  # noqa: F821
        for row in range(wp.max(cell(edge.top[1], height), 0), cell(edge.bottom[1], height - 1) + 1):  # noqa: F821
            line = in_row(edge, row)  # noqa: F821
            for column in range(cell(line[0], width), cell(line[2], width - 1) + 1):  # noqa: F821
                piece = in_column(edge, line, column)  # noqa: F821
                add_area(image, worker, row, column, edge, piece)  # noqa: F821
                if column >= 0 and tangent.shape[1] > 0:
                    w = weights(edge, piece) * -edge.sign  # noqa: F821
                    for u in range(tangent.shape[1]):
                        dt = tangent[world, u, frame, edge.first]
                        db = tangent[world, u, frame, edge.second]
                        change = wp.dot(dt * w[0] + db * w[1], edge.normal)
                        slope[worker, row, column, u] = slope[worker, row, column, u] + change
    sum_rows(image, worker, box)  # noqa: F821
    return wp.vec4i(
        wp.max(cell(box[1], height - 1), 0),  # noqa: F821
        cell(box[3], height - 1) + 1,  # noqa: F821
        wp.max(cell(box[0], width - 1), 0),  # noqa: F821
        wp.min(cell(box[2], width - 1) + 2, width),  # noqa: F821
    )


@wp.kernel(enable_backward=False)
def misfit(
    screen: wp.array2d[Point],  # (bodies, vertices), bodies are frames of worlds
    tangent: wp.array4d[Point],  # (worlds, unknowns, frames, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    target: wp.array3d[Scalar],  # (frames, rows, columns)
    weight: wp.array3d[Scalar],
    before: wp.array3d[Scalar],  # Σ w T² of a row before a column, (frames, rows, columns + 1)
    after: wp.array3d[Scalar],  # from a column on
    above: wp.array2d[Scalar],  # Σ w T² of the rows before a row, (frames, rows + 1)
    below: wp.array2d[Scalar],  # from a row on
    workers: int,
    # scratch, zero before and after
    front: wp.array2d[wp.bool],  # (bodies, faces)
    image: wp.array3d[Scalar],  # (workers, rows, columns)
    slope: wp.array4d[Scalar],  # (workers, rows, columns, unknowns)
    # out, zero before
    cost: wp.array[Scalar],  # (bodies)
    gradient: wp.array2d[Scalar],  # (bodies, unknowns)
    normal: wp.array3d[Scalar],  # (bodies, unknowns, unknowns), lower triangle
):
    worker = wp.tid()
    unknowns = tangent.shape[1]
    for body in range(worker, screen.shape[0], workers):
        frame = body % target.shape[0]
        area = draw(body, screen, tangent, faces, edges, front, worker, image, slope)
        total = above[frame, area[0]] + below[frame, area[1]]
        for row in range(area[0], area[1]):
            total += before[frame, row, area[2]] + after[frame, row, area[3]]
            for column in range(area[2], area[3]):
                alpha = image[worker, row, column]
                image[worker, row, column] = Scalar(0.0)
                t = target[frame, row, column]
                w = weight[frame, row, column]
                total += w * (alpha - t) * (alpha - t)
                touched = bool(False)
                for u in range(unknowns):
                    if slope[worker, row, column, u] != Scalar(0.0):
                        touched = True
                if touched:
                    r = w * (alpha - t)
                    for u in range(unknowns):
                        s = slope[worker, row, column, u]
                        gradient[body, u] = gradient[body, u] + s * r
                        for k in range(u + 1):
                            normal[body, u, k] = normal[body, u, k] + w * s * slope[worker, row, column, k]
                    for u in range(unknowns):
                        slope[worker, row, column, u] = Scalar(0.0)
        cost[body] = total


@wp.kernel(enable_backward=False)
def profiles(
    screen: wp.array2d[Point],
    tangent: wp.array4d[Point],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    weight: wp.array3d[Scalar],
    workers: int,
    # scratch, zero before and after
    front: wp.array2d[wp.bool],
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
        area = draw(body, screen, tangent, faces, edges, front, worker, image, slope)
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
