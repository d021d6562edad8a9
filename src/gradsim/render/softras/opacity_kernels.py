# pyright: reportInvalidTypeForm=false, reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
"""Soft silhouettes of vertices in space, in one launch each way on a CPU: a template for `engine.lanes`.

The same as a projection, `cover_faces` of `kernels.py` and its adjoint, to rounding: a thread takes an image. What two pixels of
a row have in common is computed once for a row of tiles, and faces all of whose tiles are covered, or have nothing to pass on,
are left out before their sides are computed.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.runs import any_of, load_part, load_tile, store_part, store_tile
    from gradsim.render.softras.face_kernels import (
        COLUMNS,
        MAX_COORDINATE,
        ROWS,
        Distance,
        Face,
        Side,
        box_of,
        signed_square,
        tiles_in_row,
        with_sides,
    )
    from gradsim.render.softras.kernels import (
        MAX_EXPONENT,
        MIN_CLEAR,
        SATURATED,
        EdgeGradient,
        Reach,
        add_edge,
        at_first,
        at_second,
        cover,
        if_nearest,
        on_screen,
    )

Double = wp.types.vector(3, wp.float64)
Square = wp.types.matrix((3, 3), wp.float64)


@wp.struct
class Row:
    """A side at the pixels of a row of tiles: what `distance` of `face_kernels.py` adds to multiples of x."""

    aside: Real
    along: Real
    past: Real


@wp.func(inline=True)
def row_of(side: Side, y: Real):
    way = y * side.direction[1]
    return Row(y * side.normal[1] + side.aside, way + side.along, way + side.past)


@wp.func(inline=True)
def distance_in_row(side: Side, row: Row, x: Real):
    way = x * side.direction[0]
    d = Distance()
    d.aside = x * side.normal[0] + row.aside
    d.along = way + row.along
    d.before = min(d.along, zero(0))
    d.past = max(way + row.past, zero(0))
    beyond = d.before + d.past
    d.square = d.aside * d.aside + beyond * beyond
    return d


@wp.func
def wide(p: Point):
    return Double(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2]))


@wp.func
def project(points: wp.array2d[Point], matrix: Square, offset: Double, image: int, near: Scalar, screen: wp.array2d[Point]):  # fmt: skip
    """Vertices of an image in pixels and depth; False if one is not before the near plane, or is not a number."""
    missing = wp.int32(0)  # vertices
    for i in range(points.shape[1]):
        h = matrix * wide(points[image, i]) + offset
        z = Scalar(h[2])
        u = Scalar(h[0]) / z
        v = Scalar(h[1]) / z
        screen[0, i] = Point(u, v, z)
        # negated, so that what is not a number counts
        if not (z >= near and wp.abs(u) <= MAX_COORDINATE and wp.abs(v) <= MAX_COORDINATE):
            missing += 1
    return missing == 0


@wp.func
def is_busy(busy: wp.array2d[int], face: Face):
    """True if a tile of the box around a face is marked."""
    for row in range(face.top, face.bottom):
        for column in range(face.left, face.right):
            if busy[row, column] != 0:
                return True
    return False


@wp.kernel(enable_backward=False)
def cover_images(
    points: wp.array2d[Point],  # (images, vertices) [m]
    matrices: wp.array[Square],  # (worlds or 1): homogeneous pixels are matrix · point + offset
    offsets: wp.array[Double],
    frames: int,  # of a world
    near: Scalar,  # [m]
    faces: wp.array[wp.vec3i],
    centers: wp.array[Real],  # see `cover_faces`
    reach: Reach,
    # scratch
    screen: wp.array2d[Point],  # (1, vertices)
    busy: wp.array2d[int],  # (tiles down, tiles across): 1 where a pixel is not covered
    # out
    clear: wp.array3d[Real],  # (images, tiles down, tiles across): Π (1 - D)
    alpha: wp.array[Scalar],  # (images, rows, columns) in one row
    status: wp.array[wp.int32],  # 1 if a vertex is not before the near plane, and the output is of no use; zero before
):
    page = wp.tid()
    world = page / frames
    matrix = matrices[wp.min(world, matrices.shape[0] - 1)]
    if not project(points, matrix, offsets[wp.min(world, offsets.shape[0] - 1)], page, near, screen):
        status[0] = 1
        return
    for row in range(busy.shape[0]):
        for column in range(busy.shape[1]):
            clear[page, row, column] = spread(Scalar(1.0))
            busy[row, column] = 1
    for k in range(faces.shape[0]):
        face = box_of(screen, 0, faces[k], reach.cull, reach.radius, reach.height, reach.width)
        if face.top == face.bottom or not is_busy(busy, face):
            continue
        face = with_sides(face, screen, 0)
        for row in range(face.top, face.bottom):
            first, last = tiles_in_row(face, row, reach.radius)
            y = centers[1] + Scalar((row - face.top) * ROWS)
            a = row_of(face.a, y)
            b = row_of(face.b, y)
            c = row_of(face.c, y)
            for column in range(first, last):
                if busy[row, column] != 0:
                    x = centers[0] + Scalar((column - face.left) * COLUMNS)
                    square = signed_square(distance_in_row(face.a, a, x), distance_in_row(face.b, b, x), distance_in_row(face.c, c, x))  # fmt: skip
                    z = square * reach.sharpness
                    e = exp(max(zero(0) - abs(z), spread(-MAX_EXPONENT)))
                    factor = where(less(z, zero(0)), spread(Scalar(1.0)), e) / (e + Scalar(1.0))
                    factor = where(less(spread(-reach.cut), z), factor, spread(Scalar(1.0)))
                    now = max(clear[page, row, column] * factor, spread(MIN_CLEAR))
                    clear[page, row, column] = now
                    if not any_of(less(spread(SATURATED), now)):
                        busy[row, column] = 0
    first_pixel = page * reach.height * reach.width
    for row in range(busy.shape[0]):
        for column in range(busy.shape[1]):
            opaque = spread(Scalar(1.0)) - clear[page, row, column]
            at = first_pixel + row * ROWS * reach.width + column * COLUMNS
            rows = wp.min(ROWS, reach.height - row * ROWS)
            columns = wp.min(COLUMNS, reach.width - column * COLUMNS)
            if rows == ROWS and columns == COLUMNS:
                store_tile(alpha, at, reach.width, opaque)
            else:
                store_part(alpha, at, reach.width, rows, columns, opaque)


@wp.kernel(enable_backward=False)
def cover_images_adjoint(
    points: wp.array2d[Point],
    matrices: wp.array[Square],
    offsets: wp.array[Double],
    frames: int,
    near: Scalar,
    faces: wp.array[wp.vec3i],
    centers: wp.array[Real],
    reach: Reach,
    # scratch
    screen: wp.array2d[Point],
    busy: wp.array2d[int],  # 1 where a pixel has something to pass on
    opaque: wp.array2d[Real],  # (tiles down, tiles across): ∂loss/∂log(1 - A), negative
    screen_adjoint: wp.array2d[Point],  # (1, vertices)
    # of `cover_images`
    clear: wp.array3d[Real],
    alpha_adjoint: wp.array[Scalar],
    # out
    points_adjoint: wp.array2d[Point],
):
    page = wp.tid()
    world = page / frames
    matrix = matrices[wp.min(world, matrices.shape[0] - 1)]
    project(points, matrix, offsets[wp.min(world, offsets.shape[0] - 1)], page, near, screen)
    for i in range(points.shape[1]):
        screen_adjoint[0, i] = Point()
    first_pixel = page * reach.height * reach.width
    for row in range(busy.shape[0]):
        for column in range(busy.shape[1]):
            at = first_pixel + row * ROWS * reach.width + column * COLUMNS
            rows = wp.min(ROWS, reach.height - row * ROWS)
            columns = wp.min(COLUMNS, reach.width - column * COLUMNS)
            g = zero(0)
            if rows == ROWS and columns == COLUMNS:
                g = load_tile(alpha_adjoint, at, reach.width)
            else:
                g = load_part(alpha_adjoint, at, reach.width, rows, columns)
            transparent = clear[page, row, column]
            g = where(less(spread(SATURATED), transparent), g * transparent, zero(0))
            opaque[row, column] = g
            busy[row, column] = wp.where(any_of(less(zero(0), abs(g))), 1, 0)
    for k in range(faces.shape[0]):
        corners = faces[k]
        face = box_of(screen, 0, corners, reach.cull, reach.radius, reach.height, reach.width)
        if face.top == face.bottom or not is_busy(busy, face):
            continue
        face = with_sides(face, screen, 0)
        edge_a = EdgeGradient()
        edge_b = EdgeGradient()
        edge_c = EdgeGradient()
        for row in range(face.top, face.bottom):
            first, last = tiles_in_row(face, row, reach.radius)
            y = centers[1] + Scalar((row - face.top) * ROWS)
            row_a = row_of(face.a, y)
            row_b = row_of(face.b, y)
            row_c = row_of(face.c, y)
            for column in range(first, last):
                if busy[row, column] == 0:
                    continue
                x = centers[0] + Scalar((column - face.left) * COLUMNS)
                a = distance_in_row(face.a, row_a, x)
                b = distance_in_row(face.b, row_b, x)
                c = distance_in_row(face.c, row_c, x)
                square = signed_square(a, b, c)
                g = opaque[row, column] * cover(square * reach.sharpness, reach.cut).share * reach.sharpness
                g = where(less(square, zero(0)), zero(0) - g, g)
                at_a = if_nearest(min(b.square, c.square), a.square, g)
                at_b = if_nearest(c.square, b.square, g - at_a)
                edge_a = add_edge(edge_a, face.a, a, at_a)
                edge_b = add_edge(edge_b, face.b, b, at_b)
                edge_c = add_edge(edge_c, face.c, c, g - at_a - at_b)
        wp.atomic_add(screen_adjoint, 0, corners[0], on_screen(at_second(edge_b, face.b) + at_first(edge_c, face.c)))
        wp.atomic_add(screen_adjoint, 0, corners[1], on_screen(at_second(edge_c, face.c) + at_first(edge_a, face.a)))
        wp.atomic_add(screen_adjoint, 0, corners[2], on_screen(at_second(edge_a, face.a) + at_first(edge_b, face.b)))
    turned = wp.transpose(matrix)
    for i in range(points.shape[1]):
        p = screen[0, i]
        along = screen_adjoint[0, i]
        by_depth = -(along[0] * p[0] + along[1] * p[1]) / p[2]
        world_adjoint = turned * wide(Point(along[0] / p[2], along[1] / p[2], by_depth))
        points_adjoint[page, i] = Point(Scalar(world_adjoint[0]), Scalar(world_adjoint[1]), Scalar(world_adjoint[2]))
