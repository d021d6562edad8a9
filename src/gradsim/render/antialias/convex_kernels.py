# pyright: reportInvalidTypeForm=false, reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
"""Images of one convex body with colors at its vertices, in one launch each way on a CPU: a template for `engine.lanes`.

The same as the launches of `view_kernels`, `coverage.kernels`, `zbuffer_kernels`, `conservative_kernels` and
`vertex_color_kernels` one after another, to rounding: a thread takes an image, and a register pixels of a row. A triangle is
traversed row by row. Its e_i (see `zbuffer_kernels.py`) are taken in double precision at the first pixel of a run and are linear
from there; in the adjoint ∂loss/∂e and its moments are summed over the pixels of a triangle before they go to the corners.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import total

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.rows import WIDTH, both, load_row, numbers_from
    from gradsim.engine.runs import (
        either,
        equal_int,
        first_lane,
        float_bits,
        is_open,
        lane_int,
        lanes_from,
        less_int,
        load_ints,
        spread_int,
        store,
        store_ints,
        truncated,
        without,
    )
    from gradsim.render.antialias.conservative_kernels import MARK_STEPS, PIXEL_RADIUS, on_screen, side_of, visible_face
    from gradsim.render.coverage.edge_kernels import cell, outline_edge, silhouette
    from gradsim.render.coverage.kernels import as_coverage, bounds, draw_part, is_seen, part_weights
    from gradsim.render.coverage.outline_kernels import Outline, empty_band, touched
    from gradsim.render.raster.fragment_kernels import NEARNESS, back_to_pixels, behind, flat_adjoint, relative
    from gradsim.render.raster.fragment_kernels import cross as cross_flat
    from gradsim.render.raster.vertex_color_kernels import along, touched_adjoint, touched_shares
    from gradsim.render.raster.zbuffer_kernels import (
        BACK,
        EDGE,
        MAX_COORDINATE,
        MIN_SPAN_WIDTH,
        NONE,
        Triangle,
        between,
        prepare,
    )

Flat = wp.types.vector(2, Scalar)  # [px]
Box = wp.types.vector(4, Scalar)  # left, top, right, bottom [px]
Span = wp.types.vector(2, Scalar)  # columns
Double = wp.types.vector(3, wp.float64)
Square = wp.types.matrix((3, 3), wp.float64)

INSIDE = wp.constant(3)
NO_MARK = wp.constant(-1)
RUN_LENGTH = wp.constant(int(WIDTH))


@wp.struct
class Size:
    """Rows, columns and pixels of an image."""

    height: int
    width: int
    plane: int  # pixels


@wp.struct
class Plane:
    """A triangle seen from the pixel at the left and top of its box; in double precision as `relative`."""

    corners: wp.vec3i
    a: Double  # `relative` corners
    b: Double
    c: Double
    e: Double  # e_i there
    across: Double  # changes by a column
    down: Double  # by a row
    first: Point  # colors of the corners
    second: Point
    third: Point


@wp.struct
class Shares:
    """Barycentrics of the pixels of a run."""

    a: Real
    b: Real
    c: Real
    scale: Real  # 1 / Σ e, times Σ e at the first pixel of the run


@wp.struct
class Three:
    """A number for each corner, or for each channel."""

    a: Real
    b: Real
    c: Real


@wp.func
def size_of(height: int, width: int):
    size = Size()
    size.height = height
    size.width = width
    size.plane = height * width
    return size


@wp.func(inline=True)
def first_of_run(size: Size, row: int, column: int):
    """Number in its image of the pixel in the first lane of a run from a pixel on: such that the last lane is in the image."""
    return wp.min(row * size.width + column, size.plane - RUN_LENGTH)


@wp.func(inline=True)
def wide(p: Point):
    return Double(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2]))


@wp.func(inline=True)
def no_three():
    return Three(zero(0), zero(0), zero(0))


@wp.func
def project(points: wp.array2d[Point], matrices: wp.array[Square], offsets: wp.array[Double], image: int, world: int, near: Scalar, clip: wp.array2d[Point], screen: wp.array2d[Flat]):  # fmt: skip
    """Vertices of an image in homogeneous pixels and in pixels; False if one is not before the near plane, or is not a number."""
    matrix = matrices[wp.min(world, matrices.shape[0] - 1)]
    offset = offsets[wp.min(world, offsets.shape[0] - 1)]
    missing = wp.int32(0)  # vertices
    for i in range(points.shape[1]):
        h = matrix * wide(points[image, i]) + offset
        p = Point(Scalar(h[0]), Scalar(h[1]), Scalar(h[2]))
        clip[0, i] = p
        u = p[0] / p[2]
        v = p[1] / p[2]
        screen[0, i] = Flat(u, v)
        # negated, so that what is not a number counts
        if not (p[2] >= near and wp.abs(u) <= MAX_COORDINATE and wp.abs(v) <= MAX_COORDINATE):
            missing += 1
    return missing == 0


@wp.func
def face_eye(clip: wp.array2d[Point], faces: wp.array[wp.vec3i], front: wp.array2d[wp.bool]):
    """`show_sides` of `view_kernels.py`."""
    for k in range(faces.shape[0]):
        corners = faces[k]
        a = wide(clip[0, corners[0]])
        front[0, k] = wp.dot(a, wp.cross(wide(clip[0, corners[1]]), wide(clip[0, corners[2]]))) < wp.float64(0.0)


@wp.func
def is_outward(points: wp.array2d[Point], faces: wp.array[wp.vec3i]):
    """True if the faces of the first image turn outward: the body has a volume."""
    origin = wide(points[0, faces[0][0]])
    volume = wp.float64(0.0)
    for k in range(faces.shape[0]):
        corners = faces[k]
        a = wide(points[0, corners[0]]) - origin
        volume += wp.dot(a, wp.cross(wide(points[0, corners[1]]) - origin, wide(points[0, corners[2]]) - origin))
    return volume > wp.float64(0.0)


@wp.func
def fill(x: wp.array[Scalar], begin: int, count: int, value: Scalar):
    """Fill entries of an array, at least a register of them."""
    k = wp.int32(0)
    while k < count:
        store(x, begin + wp.min(k, count - RUN_LENGTH), lanes_from(0, RUN_LENGTH), spread(value))
        k += RUN_LENGTH


@wp.func
def fill_ints(x: wp.array[wp.int32], begin: int, count: int, value: int):
    k = wp.int32(0)
    while k < count:
        store_ints(x, begin + wp.min(k, count - RUN_LENGTH), lanes_from(0, RUN_LENGTH), spread_int(value))
        k += RUN_LENGTH


@wp.func
def fill_row(x: wp.array[Scalar], page: int, size: Size, row: int, begin: int, end: int, value: Scalar):
    """Fill columns `begin` to `end` - 1 of a row of an image."""
    column = wp.int32(begin)
    while column < end:
        first = first_of_run(size, row, column)
        shift = row * size.width + column - first
        store(x, page * size.plane + first, lanes_from(shift, shift + end - column), spread(value))
        column += RUN_LENGTH - shift


@wp.func
def sum_rows(alpha: wp.array3d[Scalar], flat: wp.array[Scalar], page: int, size: Size, outline: Outline, box: Box):
    """`sum_rows` of `coverage.kernels`, whose sums are the same where no edge is."""
    after = cell(box[2], size.width - 1) + 1
    for row in range(wp.max(cell(box[1], size.height - 1), 0), cell(box[3], size.height - 1) + 1):
        columns = touched(outline, 0, row)
        covered = Scalar(0.0)
        for column in range(columns[0], wp.min(columns[1], after)):
            covered += alpha[page, row, column]
            alpha[page, row, column] = as_coverage(covered)
        fill_row(flat, page, size, row, columns[1], wp.min(columns[2], after), as_coverage(covered))
        for column in range(columns[2], wp.min(columns[3], after)):
            covered += alpha[page, row, column]
            alpha[page, row, column] = as_coverage(covered)
        fill_row(flat, page, size, row, columns[3], after, as_coverage(covered))
        if after < size.width:
            alpha[page, row, after] = Scalar(0.0)


@wp.func
def cover_image(screen: wp.array2d[Flat], tangent: wp.array4d[Flat], edges: wp.array[wp.vec4i], front: wp.array2d[wp.bool], outline: Outline, page: int, size: Size, alpha: wp.array3d[Scalar], flat: wp.array[Scalar], alpha_tangent: wp.array4d[Scalar]):  # fmt: skip
    """Coverage of an image, zero before; returns the number of edges on the outline."""
    box = bounds(screen, 0)
    count = silhouette(edges, front, True, 0, 0, outline.edges)
    if not is_seen(box, size.height, size.width):
        return count
    empty_band(outline, 0, wp.max(cell(box[1], size.height - 1), 0), cell(box[3], size.height - 1) + 1, size.width)
    for m in range(count):
        edge = outline_edge(screen, 0, edges, outline.edges[0, m], True, front)
        draw_part(tangent, 0, 0, page, edge, edge, outline, 0, alpha, alpha_tangent)
    sum_rows(alpha, flat, page, size, outline, box)
    return count


@wp.func(inline=True)
def row_span(triangle: Triangle, row: int):
    """First column of a triangle in a row, and the one after the last."""
    span = Span(Scalar(0.0), Scalar(triangle.right - triangle.left))
    if triangle.right - triangle.left > MIN_SPAN_WIDTH:
        dy = Scalar(row - triangle.top)
        a = triangle.e0[1] * dy + triangle.e0[2]
        b = triangle.e1[1] * dy + triangle.e1[2]
        c = triangle.e2[1] * dy + triangle.e2[2]
        span = between(triangle.e0[0], a, between(triangle.e1[0], b, between(triangle.e2[0], c, span)))
    return triangle.left + int(span[0]), wp.min(triangle.right, triangle.left + int(span[1]) + 1)


@wp.func
def mark_edge(clip: wp.array2d[Point], faces: wp.array[wp.vec3i], ends: wp.vec4i, front: wp.array2d[wp.bool], near: Scalar, cull: int, page: int, size: Size, alpha: wp.array[Scalar], rank: wp.array[wp.int32], mark: wp.array[wp.int32]):  # fmt: skip
    """`mark_touched` of `conservative_kernels.py` for one edge over which layers change."""
    begin = clip[0, ends[0]]
    end = clip[0, ends[1]]
    face = visible_face(front, 0, ends[2], ends[3], cull)
    if face < 0:
        return
    a = on_screen(begin + behind(begin, end, wp.max(near, NEARNESS * end[2])) * (end - begin))
    b = on_screen(end + behind(end, begin, wp.max(near, NEARNESS * begin[2])) * (begin - end))
    low = face * 4 + side_of(faces[face], ends[0], ends[1])
    reach = PIXEL_RADIUS + Scalar(0.5)
    top = wp.max(int(wp.floor(wp.clamp(wp.min(a[1], b[1]) - reach, Scalar(-1.0), Scalar(size.height)))), 0)
    bottom = int(wp.ceil(wp.clamp(wp.max(a[1], b[1]) + PIXEL_RADIUS - Scalar(0.5), Scalar(-1.0), Scalar(size.height - 1)))) + 1  # fmt: skip
    left = wp.max(int(wp.floor(wp.clamp(wp.min(a[0], b[0]) - reach, Scalar(-1.0), Scalar(size.width)))), 0)
    right = int(wp.ceil(wp.clamp(wp.max(a[0], b[0]) + PIXEL_RADIUS - Scalar(0.5), Scalar(-1.0), Scalar(size.width - 1)))) + 1  # fmt: skip
    way_x = b[0] - a[0]
    way_y = b[1] - a[1]
    square = way_x * way_x + way_y * way_y
    inverse = Scalar(0.0)
    if square > Scalar(0.0):
        inverse = Scalar(1.0) / square
    for row in range(top, bottom):
        y = Scalar(row) + Scalar(0.5) - a[1]
        column = wp.int32(left)
        while column < right:
            first = first_of_run(size, row, column)
            shift = row * size.width + column - first
            x = numbers_from(0) + (Scalar(column - shift) + Scalar(0.5) - a[0])
            share = min(max((x * way_x + y * way_y) * inverse, zero(0)), spread(Scalar(1.0)))
            away_x = x - share * way_x
            away_y = y - share * way_y
            distance = away_x * away_x + away_y * away_y
            nearby = without(lanes_from(shift, shift + right - column), less(spread(PIXEL_RADIUS * PIXEL_RADIUS), distance))  # fmt: skip
            nearby = both(nearby, less(zero(0), load_row(alpha, page * size.plane + first)))
            nearness = truncated((Scalar(1.0) - distance) * MARK_STEPS + Scalar(1.0))
            old = load_ints(rank, first)
            tie = both(equal_int(old, nearness), less_int(spread_int(low), load_ints(mark, page * size.plane + first)))
            nearby = both(nearby, either(less_int(old, nearness), tie))
            store_ints(rank, first, nearby, nearness)
            store_ints(mark, page * size.plane + first, nearby, spread_int(low))
            column += RUN_LENGTH - shift


@wp.func
def plane_of(clip: wp.array2d[Point], colors: wp.array2d[Point], corners: wp.vec3i, image: int, left: int, top: int):
    plane = Plane()
    x = Scalar(left) + Scalar(0.5)
    y = Scalar(top) + Scalar(0.5)
    plane.corners = corners
    a = relative(clip[0, corners[0]], x, y)
    b = relative(clip[0, corners[1]], x, y)
    c = relative(clip[0, corners[2]], x, y)
    plane.a = a
    plane.b = b
    plane.c = c
    plane.e = Double(cross_flat(b, c), cross_flat(c, a), cross_flat(a, b))
    plane.across = Double(along(b, c), along(c, a), along(a, b))
    plane.down = Double(b[2] * c[0] - b[0] * c[2], c[2] * a[0] - c[0] * a[2], a[2] * b[0] - a[0] * b[2])
    page = wp.min(image, colors.shape[0] - 1)
    plane.first = colors[page, corners[0]]
    plane.second = colors[page, corners[1]]
    plane.third = colors[page, corners[2]]
    return plane


@wp.func(inline=True)
def level_of(plane: Plane, columns: int, rows: int):
    """1 / Σ e at a pixel, counted from that of the plane."""
    e = plane.e + plane.across * wp.float64(columns) + plane.down * wp.float64(rows)
    return wp.float64(1.0) / (e[0] + e[1] + e[2])


@wp.func(inline=True)
def shares_of(plane: Plane, columns: int, rows: int, scale: wp.float64, lane: int):
    """Barycentrics of a run whose lane `lane` is a pixel `columns` and `rows` from that of the plane."""
    e = (plane.e + plane.across * wp.float64(columns) + plane.down * wp.float64(rows)) * scale
    across = plane.across * scale
    dx = numbers_from(0) + Scalar(-lane)
    a = dx * Scalar(across[0]) + Scalar(e[0])
    b = dx * Scalar(across[1]) + Scalar(e[1])
    c = dx * Scalar(across[2]) + Scalar(e[2])
    inverse = Scalar(1.0) / (a + b + c)
    return Shares(a * inverse, b * inverse, c * inverse, inverse)


@wp.func(inline=True)
def mean(shares: Shares, a: Scalar, b: Scalar, c: Scalar):
    return shares.a * a + shares.b * b + shares.c * c


@wp.func(inline=True)
def color_of(plane: Plane, shares: Shares):
    p = plane.first
    q = plane.second
    r = plane.third
    return Three(mean(shares, p[0], q[0], r[0]), mean(shares, p[1], q[1], r[1]), mean(shares, p[2], q[2], r[2]))


@wp.func(inline=True)
def behind_run(background: wp.array[Scalar], plain: bool, number: int, size: Size, first: int):
    """Background of a run from pixel `first` on, in the `number`-th channel of all images."""
    under = Scalar(0.0)
    if plain:
        under = background[number]
        return spread(under)
    return load_row(background, number * size.plane + first)


@wp.func(inline=True)
def mix(under: Real, color: Real, opaque: Real):
    return under + (color - under) * opaque


@wp.func
def paint_face(plane: Plane, triangle: Triangle, face: int, near: Scalar, page: int, size: Size, alpha: wp.array[Scalar], background: wp.array[Scalar], plain: bool, behind_page: int, rank: wp.array[wp.int32], mark: wp.array[wp.int32], painted: wp.array[Scalar]):  # fmt: skip
    """`nearest` of `zbuffer_kernels.py` for one face, where those before have a lower number, and the colors of its pixels."""
    closest = triangle.volume / near
    thinness = Scalar(1.0) / triangle.volume
    for row in range(triangle.top, triangle.bottom):
        dy = Scalar(row - triangle.top)
        a = triangle.e0[1] * dy + triangle.e0[2]
        b = triangle.e1[1] * dy + triangle.e1[2]
        c = triangle.e2[1] * dy + triangle.e2[2]
        start, end = row_span(triangle, row)
        column = wp.int32(start)
        while column < end:
            first = first_of_run(size, row, column)
            shift = row * size.width + column - first
            dx = numbers_from(0) + Scalar(column - shift - triangle.left)
            e0 = dx * triangle.e0[0] + a
            e1 = dx * triangle.e1[0] + b
            e2 = dx * triangle.e2[0] + c
            level = e0 + e1 + e2
            least = min(e0, min(e1, e2))
            visible = both(lanes_from(shift, shift + end - column), less(zero(0), level))
            visible = without(without(visible, less(least, level * -EDGE)), less(spread(closest), level))
            nearness = float_bits(level * thinness)
            visible = both(visible, less_int(load_ints(rank, first), nearness))
            lane = first_lane(visible)
            if lane < RUN_LENGTH:
                store_ints(rank, first, visible, nearness)
                store_ints(mark, page * size.plane + first, visible, spread_int(face * 4 + INSIDE))
                columns = column - shift + lane - triangle.left
                scale = level_of(plane, columns, row - triangle.top)
                color = color_of(plane, shares_of(plane, columns, row - triangle.top, scale, lane))
                opaque = load_row(alpha, page * size.plane + first)
                at = 3 * page * size.plane + first
                red = behind_run(background, plain, 3 * behind_page, size, first)
                green = behind_run(background, plain, 3 * behind_page + 1, size, first)
                blue = behind_run(background, plain, 3 * behind_page + 2, size, first)
                store(painted, at, visible, mix(red, color.a, opaque))
                store(painted, at + size.plane, visible, mix(green, color.b, opaque))
                store(painted, at + 2 * size.plane, visible, mix(blue, color.c, opaque))
            column += RUN_LENGTH - shift


@wp.func
def behind_pixel(background: wp.array[Scalar], plain: bool, behind_page: int, size: Size, pixel: int):
    """Background of one pixel."""
    if plain:
        return Point(background[3 * behind_page], background[3 * behind_page + 1], background[3 * behind_page + 2])
    first = 3 * behind_page * size.plane + pixel
    return Point(background[first], background[first + size.plane], background[first + 2 * size.plane])


@wp.func
def paint_touched(clip: wp.array2d[Point], colors: wp.array2d[Point], faces: wp.array[wp.vec3i], value: int, page: int, size: Size, pixel: int, alpha: wp.array[Scalar], background: wp.array[Scalar], plain: bool, behind_page: int, painted: wp.array[Scalar]):  # fmt: skip
    """Color of a pixel that a face touches."""
    row = pixel / size.width
    corners = faces[value >> 2]
    x = Scalar(pixel - row * size.width) + Scalar(0.5)
    w = touched_shares(clip, 0, corners, value & 3, x, Scalar(row) + Scalar(0.5))
    k = wp.min(page, colors.shape[0] - 1)
    color = colors[k, corners[0]] * w[0] + colors[k, corners[1]] * w[1] + colors[k, corners[2]] * w[2]
    under = behind_pixel(background, plain, behind_page, size, pixel)
    color = under + (color - under) * alpha[page * size.plane + pixel]
    at = 3 * page * size.plane + pixel
    painted[at] = color[0]
    painted[at + size.plane] = color[1]
    painted[at + 2 * size.plane] = color[2]


@wp.func
def paint_others(clip: wp.array2d[Point], colors: wp.array2d[Point], faces: wp.array[wp.vec3i], page: int, size: Size, alpha: wp.array[Scalar], background: wp.array[Scalar], plain: bool, behind_page: int, mark: wp.array[wp.int32], painted: wp.array[Scalar]):  # fmt: skip
    """Pixels that no face covers at their centre: the background, or a face that touches them."""
    pixel = wp.int32(0)
    at = 3 * page * size.plane
    while pixel < size.plane:
        first = wp.min(pixel, size.plane - RUN_LENGTH)
        marks = load_ints(mark, page * size.plane + first)
        empty = less_int(marks, spread_int(0))
        for c in range(3):
            under = behind_run(background, plain, 3 * behind_page + c, size, first)
            store(painted, at + c * size.plane + first, empty, under)
        open = without(is_open(marks, INSIDE), empty)
        if any_lane(open):
            for k in range(RUN_LENGTH):
                if lane_int(open, k) != 0:
                    paint_touched(clip, colors, faces, lane_int(marks, k), page, size, first + k, alpha, background, plain, behind_page, painted)  # fmt: skip
        pixel += RUN_LENGTH


@wp.kernel(enable_backward=False)
def draw(
    points: wp.array2d[Point],  # (images, vertices) [m]
    colors: wp.array2d[Point],  # (images or 1, vertices)
    background: wp.array[Scalar],  # (images or 1, channels), or (images or 1, channels, rows, columns)
    plain: bool,  # the former
    behind_pages: int,  # images of the background
    matrices: wp.array[Square],  # (worlds or 1): homogeneous pixels are matrix · point + offset
    offsets: wp.array[Double],
    frames: int,  # of a world
    near: Scalar,  # [m]
    cull: int,
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    # scratch
    clip: wp.array2d[Point],  # (1, vertices)
    screen: wp.array2d[Flat],
    tangent: wp.array4d[Flat],  # none
    front: wp.array2d[wp.bool],  # (1, faces)
    outline: Outline,  # (1)
    rank: wp.array[wp.int32],  # (rows, columns): nearness of what a pixel shows
    alpha_tangent: wp.array4d[Scalar],  # none
    # out
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    flat: wp.array[Scalar],  # the same in one row
    mark: wp.array[
        wp.int32
    ],  # (images, rows, columns): 4 · face + side, see `unpack` of `fragment_kernels.py`; -1: none
    painted: wp.array[Scalar],  # (images, channels, rows, columns)
    status: wp.array[
        wp.int32
    ],  # 1 if a vertex of an image is not before the near plane, and the output is of no use; zero before
):
    page = wp.tid()
    size = size_of(alpha.shape[1], alpha.shape[2])
    if not project(points, matrices, offsets, page, page / frames, near, clip, screen):
        status[0] = 1
        return
    side = wp.int32(cull)
    if cull == NONE:
        if page == 0:
            status[1] = wp.where(is_outward(points, faces), BACK, NONE)
        side = status[1]
    face_eye(clip, faces, front)
    fill(flat, page * size.plane, size.plane, Scalar(0.0))
    fill_ints(rank, 0, size.plane, 0)
    fill_ints(mark, page * size.plane, size.plane, NO_MARK)
    count = cover_image(screen, tangent, edges, front, outline, page, size, alpha, flat, alpha_tangent)
    behind_page = wp.min(page, behind_pages - 1)
    for k in range(faces.shape[0]):
        if side == BACK and not front[0, k]:
            continue
        corners = faces[k]
        triangle = prepare(clip[0, corners[0]], clip[0, corners[1]], clip[0, corners[2]], near, side, size.height, size.width)  # fmt: skip
        if triangle.left < triangle.right and triangle.top < triangle.bottom:
            plane = plane_of(clip, colors, corners, page, triangle.left, triangle.top)
            paint_face(plane, triangle, k, near, page, size, flat, background, plain, behind_page, rank, mark, painted)
    for m in range(count):
        mark_edge(clip, faces, edges[outline.edges[0, m]], front, near, cull, page, size, flat, rank, mark)
    paint_others(clip, colors, faces, page, size, flat, background, plain, behind_page, mark, painted)


@wp.struct
class Sums:
    """Sums over the pixels of a face."""

    first: Three  # ∂loss/∂color of its corners
    second: Three
    third: Three
    e: Three  # ∂loss/∂e, times Σ e at the pixel of the plane
    across: Three  # times columns
    down: Three  # times rows


@wp.func(inline=True)
def add_times(sums: Three, x: Real, y: Three):
    return Three(sums.a + x * y.a, sums.b + x * y.b, sums.c + x * y.c)


@wp.func(inline=True)
def dot_point(g: Three, p: Point):
    return g.a * p[0] + g.b * p[1] + g.c * p[2]


@wp.func(inline=True)
def totals(x: Three):
    return Point(total(x.a), total(x.b), total(x.c))


@wp.func(inline=True)
def masked(x: wp.array[Scalar], i: int, mask: Mask):
    return where(mask, load_row(x, i), zero(0))


@wp.func
def paint_face_adjoint(plane: Plane, triangle: Triangle, face: int, page: int, size: Size, alpha: wp.array[Scalar], background: wp.array[Scalar], plain: bool, behind_page: int, mark: wp.array[wp.int32], painted_adjoint: wp.array[Scalar], clip_adjoint: wp.array2d[Point], colors_adjoint: wp.array2d[Point], alpha_adjoint: wp.array[Scalar]):  # fmt: skip
    value = face * 4 + INSIDE
    none = no_three()
    sums = Sums(none, none, none, none, none, none)
    runs = wp.int32(0)  # that show the face
    one = wp.float64(0.0)
    for row in range(triangle.top, triangle.bottom):
        start, end = row_span(triangle, row)
        column = wp.int32(start)
        while column < end:
            first = first_of_run(size, row, column)
            shift = row * size.width + column - first
            marks = load_ints(mark, page * size.plane + first)
            visible = both(lanes_from(shift, shift + end - column), equal_int(marks, spread_int(value)))
            lane = first_lane(visible)
            if lane < RUN_LENGTH:
                columns = column - shift + lane - triangle.left
                rows = row - triangle.top
                scale = level_of(plane, columns, rows)
                if runs == 0:
                    one = wp.float64(1.0) / scale
                runs += 1
                shares = shares_of(plane, columns, rows, scale, lane)
                color = color_of(plane, shares)
                at = 3 * page * size.plane + first
                g = Three(masked(painted_adjoint, at, visible), masked(painted_adjoint, at + size.plane, visible), masked(painted_adjoint, at + 2 * size.plane, visible))  # fmt: skip
                by_alpha = g.a * (color.a - behind_run(background, plain, 3 * behind_page, size, first))
                by_alpha = by_alpha + g.b * (color.b - behind_run(background, plain, 3 * behind_page + 1, size, first))
                by_alpha = by_alpha + g.c * (color.c - behind_run(background, plain, 3 * behind_page + 2, size, first))
                store(alpha_adjoint, first, visible, load_row(alpha_adjoint, first) + by_alpha)
                opaque = load_row(alpha, page * size.plane + first)
                g = Three(g.a * opaque, g.b * opaque, g.c * opaque)
                sums.first = add_times(sums.first, shares.a, g)
                sums.second = add_times(sums.second, shares.b, g)
                sums.third = add_times(sums.third, shares.c, g)
                by_shares = Three(dot_point(g, plane.first), dot_point(g, plane.second), dot_point(g, plane.third))
                level = by_shares.a * shares.a + by_shares.b * shares.b + by_shares.c * shares.c
                by_e = where(visible, shares.scale * Scalar(scale * one), zero(0))
                change = Three((by_shares.a - level) * by_e, (by_shares.b - level) * by_e, (by_shares.c - level) * by_e)
                sums.e = add_times(sums.e, spread(Scalar(1.0)), change)
                sums.across = add_times(sums.across, numbers_from(0) + Scalar(columns - lane), change)
                sums.down = add_times(sums.down, spread(Scalar(rows)), change)
            column += RUN_LENGTH - shift
    if runs > 0:
        k = wp.min(page, colors_adjoint.shape[0] - 1)
        wp.atomic_add(colors_adjoint, k, plane.corners[0], totals(sums.first))
        wp.atomic_add(colors_adjoint, k, plane.corners[1], totals(sums.second))
        wp.atomic_add(colors_adjoint, k, plane.corners[2], totals(sums.third))
        inverse = wp.float64(1.0) / one
        g_e = wide(totals(sums.e)) * inverse
        add_to_corners(plane, g_e, wide(totals(sums.across)) * inverse, wide(totals(sums.down)) * inverse, triangle, clip_adjoint)  # fmt: skip


@wp.func
def add_to_corners(plane: Plane, g: Double, h: Double, v: Double, triangle: Triangle, clip_adjoint: wp.array2d[Point]):
    """Add to the adjoints of the corners, from ∂loss/∂e = g, ∂loss/∂across = h and ∂loss/∂down = v."""
    a = plane.a
    b = plane.b
    c = plane.c
    x = Scalar(triangle.left) + Scalar(0.5)
    y = Scalar(triangle.top) + Scalar(0.5)
    # e = (b × c, c × a, a × b)₂, across the first and down the second component of the same products, with signs
    n = Double(h[0], v[0], g[0])
    m = Double(h[1], v[1], g[1])
    k = Double(h[2], v[2], g[2])
    to_a = corner_adjoint(c, m) - corner_adjoint(b, k)
    to_b = corner_adjoint(a, k) - corner_adjoint(c, n)
    to_c = corner_adjoint(b, n) - corner_adjoint(a, m)
    wp.atomic_add(clip_adjoint, 0, plane.corners[0], back_to_pixels(to_a, x, y))
    wp.atomic_add(clip_adjoint, 0, plane.corners[1], back_to_pixels(to_b, x, y))
    wp.atomic_add(clip_adjoint, 0, plane.corners[2], back_to_pixels(to_c, x, y))


@wp.func(inline=True)
def corner_adjoint(p: Double, g: Double):
    """Adjoint of q in p × q, whose components are (along, down, cross), from those of the product."""
    return wp.cross(g, p)


@wp.func
def paint_others_adjoint(clip: wp.array2d[Point], colors: wp.array2d[Point], faces: wp.array[wp.vec3i], page: int, size: Size, alpha: wp.array[Scalar], background: wp.array[Scalar], plain: bool, behind_page: int, mark: wp.array[wp.int32], painted_adjoint: wp.array[Scalar], alpha_seed: wp.array[Scalar], clip_adjoint: wp.array2d[Point], colors_adjoint: wp.array2d[Point], alpha_adjoint: wp.array[Scalar]):  # fmt: skip
    """Adjoint of `paint_others`; begins that of alpha."""
    pixel = wp.int32(0)
    while pixel < size.plane:
        first = wp.min(pixel, size.plane - RUN_LENGTH)
        begun = zero(0)
        if alpha_seed.shape[0] > 0:
            begun = load_row(alpha_seed, page * size.plane + first)
        store(alpha_adjoint, first, lanes_from(0, RUN_LENGTH), begun)
        pixel += RUN_LENGTH
    pixel = wp.int32(0)
    k_page = wp.min(page, colors.shape[0] - 1)
    while pixel < size.plane:
        first = wp.min(pixel, size.plane - RUN_LENGTH)
        marks = load_ints(mark, page * size.plane + first)
        pixel += RUN_LENGTH
        open = without(is_open(marks, INSIDE), less_int(marks, spread_int(0)))
        if any_lane(open):
            for k in range(RUN_LENGTH):
                value = lane_int(marks, k)
                at = first + k
                if lane_int(open, k) != 0 and at >= pixel - RUN_LENGTH:
                    row = at / size.width
                    corners = faces[value >> 2]
                    x = Scalar(at - row * size.width) + Scalar(0.5)
                    y = Scalar(row) + Scalar(0.5)
                    w = touched_shares(clip, 0, corners, value & 3, x, y)
                    p = colors[k_page, corners[0]]
                    q = colors[k_page, corners[1]]
                    r = colors[k_page, corners[2]]
                    place = 3 * page * size.plane + at
                    g = Point(painted_adjoint[place], painted_adjoint[place + size.plane], painted_adjoint[place + 2 * size.plane])  # fmt: skip
                    under = behind_pixel(background, plain, behind_page, size, at)
                    alpha_adjoint[at] = alpha_adjoint[at] + wp.dot(g, p * w[0] + q * w[1] + r * w[2] - under)
                    g = g * alpha[page * size.plane + at]
                    page_of = wp.min(page, colors_adjoint.shape[0] - 1)
                    wp.atomic_add(colors_adjoint, page_of, corners[0], g * w[0])
                    wp.atomic_add(colors_adjoint, page_of, corners[1], g * w[1])
                    wp.atomic_add(colors_adjoint, page_of, corners[2], g * w[2])
                    by_w = Point(wp.dot(g, p), wp.dot(g, q), wp.dot(g, r))
                    touched_adjoint(clip, 0, corners, value & 3, x, y, by_w, clip_adjoint)


@wp.kernel(enable_backward=False)
def draw_adjoint(
    points: wp.array2d[Point],
    colors: wp.array2d[Point],
    background: wp.array[Scalar],
    plain: bool,
    behind_pages: int,
    matrices: wp.array[Square],
    offsets: wp.array[Double],
    frames: int,
    near: Scalar,
    cull: int,
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    # scratch
    clip: wp.array2d[Point],
    screen: wp.array2d[Flat],
    front: wp.array2d[wp.bool],
    outline: Outline,
    clip_adjoint: wp.array2d[Point],
    alpha_adjoint: wp.array3d[Scalar],  # (1, rows, columns)
    by_alpha: wp.array[Scalar],  # the same in one row
    # of `draw`
    alpha: wp.array[Scalar],
    mark: wp.array[wp.int32],
    status: wp.array[wp.int32],
    painted_adjoint: wp.array[Scalar],
    alpha_seed: wp.array[Scalar],  # ∂loss/∂alpha, or nothing
    # out
    points_adjoint: wp.array2d[Point],
    colors_adjoint: wp.array2d[Point],  # zero before
):
    page = wp.tid()
    size = size_of(alpha_adjoint.shape[1], alpha_adjoint.shape[2])
    world = page / frames
    project(points, matrices, offsets, page, world, near, clip, screen)
    side = wp.int32(cull)
    if cull == NONE:
        side = status[1]
    face_eye(clip, faces, front)
    for i in range(points.shape[1]):
        clip_adjoint[0, i] = Point()
    behind_page = wp.min(page, behind_pages - 1)
    paint_others_adjoint(clip, colors, faces, page, size, alpha, background, plain, behind_page, mark, painted_adjoint, alpha_seed, clip_adjoint, colors_adjoint, by_alpha)  # fmt: skip
    for k in range(faces.shape[0]):
        if side == BACK and not front[0, k]:
            continue
        corners = faces[k]
        triangle = prepare(clip[0, corners[0]], clip[0, corners[1]], clip[0, corners[2]], near, side, size.height, size.width)  # fmt: skip
        if triangle.left < triangle.right and triangle.top < triangle.bottom:
            plane = plane_of(clip, colors, corners, page, triangle.left, triangle.top)
            paint_face_adjoint(plane, triangle, k, page, size, alpha, background, plain, behind_page, mark, painted_adjoint, clip_adjoint, colors_adjoint, by_alpha)  # fmt: skip
    if is_seen(bounds(screen, 0), size.height, size.width):
        count = silhouette(edges, front, True, 0, 0, outline.edges)
        for m in range(count):
            edge = outline_edge(screen, 0, edges, outline.edges[0, m], True, front)
            sums = part_weights(edge, edge, alpha_adjoint, 0)
            by_first = edge.normal * (-edge.sign * sums[0])
            by_second = edge.normal * (-edge.sign * sums[1])
            wp.atomic_add(clip_adjoint, 0, edge.first, flat_adjoint(clip[0, edge.first], by_first))
            wp.atomic_add(clip_adjoint, 0, edge.second, flat_adjoint(clip[0, edge.second], by_second))
    matrix = wp.transpose(matrices[wp.min(world, matrices.shape[0] - 1)])
    for i in range(points.shape[1]):
        g = matrix * wide(clip_adjoint[0, i])
        points_adjoint[page, i] = Point(Scalar(g[0]), Scalar(g[1]), Scalar(g[2]))
