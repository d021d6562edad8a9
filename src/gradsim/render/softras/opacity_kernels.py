# pyright: reportInvalidTypeForm=false, reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
"""Soft silhouettes of vertices in space, in one launch each way on a CPU: a template for `engine.lanes`.

The same as a projection, `cover_faces` of `kernels.py` and its adjoint, to rounding: a thread takes an image. A register holds the
pixels of a tile, or the tiles of a block, which is about square. Of a block, those tiles that a face can reach and where it has
something to do are found at once, and taken one after the other.

Lengths are in units in which d²/σ is a number of bits: 1 + e^x = 1 + 2^(± d²), so that the product over faces

    Π (1 + 2^(± d²)) = 1 / (1 - A)

needs no division; the adjoint has D = 2^x / (1 + 2^x).
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import total

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.runs import (
        any_of,
        bits_of,
        entry,
        exp2,
        first_bit,
        load_block,
        load_part,
        load_tile,
        put_entry,
        spread_entry,
        store_part,
        store_tile,
    )
    from gradsim.render.softras.face_kernels import (
        COLUMNS,
        MAX_COORDINATE,
        MIN_AREA_RATIO,
        MIN_DEPTH,
        MIN_SIDE_SQUARED,
        ROWS,
        SLACK,
        Pixel,
        Place,
        Wide,
    )
    from gradsim.render.softras.kernels import SATURATED, Reach

Double = wp.types.vector(3, wp.float64)
Square = wp.types.matrix((3, 3), wp.float64)

BLOCK_ROWS = wp.constant(COLUMNS)  # tiles of a block
BLOCK_COLUMNS = wp.constant(ROWS)
MAX_BITS = wp.constant(Scalar(58.0))  # 2^-58 is negligible against 1
MAX_PRODUCT = wp.constant(Scalar(2.0**60))  # above 1 / SATURATED; times 2^MAX_BITS it is finite


@wp.struct
class Unit:
    """Length in which squared distances over σ count bits."""

    by_pixel: Scalar  # [1/px]
    bits: Scalar  # of the cut


@wp.struct
class Box:
    """A face, and tiles that it can reach: the first, and the one after the last; none if it is not seen."""

    p: Place  # its corners
    q: Place
    r: Place
    area: Wide  # twice, with the sign of its turn
    left: int
    right: int
    top: int
    bottom: int


@wp.struct
class Line:
    """A side in units in which distances count bits, at the first pixel of the face's tiles, see `Side` of `face_kernels.py`."""

    aside: Scalar
    along: Scalar
    past: Scalar
    per_length: Scalar  # 1 / length
    direction: Pixel
    normal: Pixel
    aside_in_tile: Real  # what the pixels of a tile have more than its first one
    along_in_tile: Real


@wp.struct
class Way:
    """Distance of a tile's pixels from a side, see `Distance` of `face_kernels.py`."""

    aside: Real
    along: Real
    before: Real
    past: Real
    square: Real


@wp.struct
class EdgeSums:
    """Sums of g = ∂loss/∂d² over the pixels nearest to a side."""

    aside: Real  # g aside
    slid: Real  # g aside, times the way along the side
    before: Real  # g before
    past: Real  # g past


@wp.struct
class Ends:
    """Adjoints of the corners of a side, by pixels."""

    first_x: Real
    first_y: Real
    second_x: Real
    second_y: Real


@wp.func(inline=True)
def lesser(a: Wide, b: Wide):
    return wp.where(a < b, a, b)  # `wp.min` handles NaN, which takes longer


@wp.func(inline=True)
def greater(a: Wide, b: Wide):
    return wp.where(a < b, b, a)


@wp.func(inline=True)
def first_tile(low: Wide, size: int):
    """Tile of the first pixel beyond a place, for tiles of `size` pixels."""
    return wp.max(int(wp.ceil((low - Wide(size - 1)) / Wide(size))), 0)


@wp.func(inline=True)
def last_tile(high: Wide, size: int, count: int):
    """One past the tile of the last pixel before a place; `count` at most."""
    return wp.min(int(wp.floor((high + Wide(size - 1)) / Wide(size))), count)


@wp.func(inline=True)
def box_of(places: wp.array[Place], corners: wp.vec3i, reach: Reach, down: int, across: int):
    """A face whose corners are before the camera; the same as that of `face_kernels.py`."""
    box = Box()
    box.p = places[corners[0]]
    box.q = places[corners[1]]
    box.r = places[corners[2]]
    pq = box.q - box.p
    qr = box.r - box.q
    rp = box.p - box.r
    box.area = qr[0] * rp[1] - qr[1] * rp[0]
    longest = greater(greater(wp.length_sq(pq), wp.length_sq(qr)), greater(wp.length_sq(rp), MIN_SIDE_SQUARED))
    if wp.abs(box.area) > MIN_AREA_RATIO * longest and box.area * Wide(reach.cull) <= Wide(0.0):
        margin = Wide(reach.radius + SLACK + Scalar(0.5))
        box.left = first_tile(lesser(lesser(box.p[0], box.q[0]), box.r[0]) - margin, COLUMNS)
        box.right = last_tile(greater(greater(box.p[0], box.q[0]), box.r[0]) + margin, COLUMNS, across)
        box.top = first_tile(lesser(lesser(box.p[1], box.q[1]), box.r[1]) - margin, ROWS)
        box.bottom = last_tile(greater(greater(box.p[1], box.q[1]), box.r[1]) + margin, ROWS, down)
    return box


@wp.func(inline=True)
def line_of(first: Place, second: Place, box: Box, unit: Scalar, centers: wp.array[Real]):
    """The side between two corners."""
    origin = Place(Wide(box.left * COLUMNS) + Wide(0.5), Wide(box.top * ROWS) + Wide(0.5))
    way = second - first
    by_length = Wide(1.0) / wp.length(way)
    turn = wp.where(box.area < Wide(0.0), -Scalar(1.0), Scalar(1.0))
    u = way * (by_length * Wide(unit))
    begin = origin - first
    end = origin - second
    line = Line()
    line.aside = Scalar(begin[1] * u[0] - begin[0] * u[1]) * turn
    line.along = Scalar(begin[0] * u[0] + begin[1] * u[1])
    line.past = Scalar(end[0] * u[0] + end[1] * u[1])
    line.per_length = Scalar(by_length) * (Scalar(1.0) / unit)
    line.direction = Pixel(Scalar(u[0]), Scalar(u[1]))
    line.normal = Pixel(-line.direction[1] * turn, line.direction[0] * turn)
    x = centers[0]
    y = centers[1]
    line.aside_in_tile = x * line.normal[0] + y * line.normal[1]
    line.along_in_tile = x * line.direction[0] + y * line.direction[1]
    return line


@wp.func(inline=True)
def put_line(lines: wp.array[Real], place: int, line: Line, x: Real, y: Real):
    """Write a side at the first pixels of the tiles of a block; returns how far their pixels reach to its inner side."""
    aside = x * line.normal[0] + y * line.normal[1] + line.aside
    way = x * line.direction[0] + y * line.direction[1]
    put_entry(lines, place, aside)
    put_entry(lines, place + 1, way + line.along)
    put_entry(lines, place + 2, way + line.past)
    right = line.normal[0] * Scalar(COLUMNS - 1)
    below = line.normal[1] * Scalar(ROWS - 1)
    return aside + (
        wp.where(right > Scalar(0.0), right, Scalar(0.0)) + wp.where(below > Scalar(0.0), below, Scalar(0.0))
    )


@wp.func(inline=True)
def way_of(line: Line, lines: wp.array[Real], place: int, tile: int):
    d = Way()
    d.aside = line.aside_in_tile + spread_entry(lines, place, tile)
    d.along = line.along_in_tile + spread_entry(lines, place + 1, tile)
    d.before = min(d.along, zero(0))
    d.past = max(line.along_in_tile + spread_entry(lines, place + 2, tile), zero(0))
    beyond = d.before + d.past
    d.square = d.aside * d.aside + beyond * beyond
    return d


@wp.func(inline=True)
def inside_of(a: Way, b: Way, c: Way):
    return less(zero(0), min(a.aside, min(b.aside, c.aside)))


@wp.func(inline=True)
def signed(inside: Mask, square: Real):
    """x in bits, ± d²."""
    bits = min(square, spread(MAX_BITS))
    return where(inside, bits, zero(0) - bits)


@wp.func(inline=True)
def add_side(sums: EdgeSums, d: Way, g: Real):
    """The sums after another tile with ∂loss/∂d² = g."""
    turn = g * d.aside
    sums.aside = sums.aside + turn
    sums.slid = sums.slid + turn * (d.along - d.before - d.past)
    sums.before = sums.before + g * d.before
    sums.past = sums.past + g * d.past
    return sums


@wp.func(inline=True)
def ends_of(sums: EdgeSums, line: Line):
    """Adjoints of the corners where a side starts and ends: closest points of the side move with the first by 1 - fraction."""
    slid = sums.slid * line.per_length
    still = sums.aside - slid
    ends = Ends()
    ends.first_x = still * line.normal[0] + sums.before * line.direction[0]
    ends.first_y = still * line.normal[1] + sums.before * line.direction[1]
    ends.second_x = slid * line.normal[0] + sums.past * line.direction[0]
    ends.second_y = slid * line.normal[1] + sums.past * line.direction[1]
    return ends


@wp.func(inline=True)
def add_corner(screen_adjoint: wp.array[Pixel], corner: int, end: Ends, start: Ends):
    """Add what the sides that end and start at a corner have for it."""
    change = Pixel(total(end.second_x + start.first_x), total(end.second_y + start.first_y))
    screen_adjoint[corner] = screen_adjoint[corner] + change


@wp.func
def wide(p: Point):
    return Double(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2]))


@wp.func
def project(points: wp.array2d[Point], matrix: Square, offset: Double, image: int, near: Scalar, places: wp.array[Place], depth: wp.array[Scalar]):  # fmt: skip
    """Vertices of an image in pixels, and their depth; False if one is not before the near plane, or is not a number."""
    missing = wp.int32(0)  # vertices
    nearest = wp.max(near, MIN_DEPTH)
    for i in range(points.shape[1]):
        h = matrix * wide(points[image, i]) + offset
        z = Scalar(h[2])
        u = Scalar(h[0]) / z
        v = Scalar(h[1]) / z
        places[i] = Place(Wide(u), Wide(v))
        depth[i] = z
        # negated, so that what is not a number counts
        if not (z >= nearest and wp.abs(u) <= MAX_COORDINATE and wp.abs(v) <= MAX_COORDINATE):
            missing += 1
    return missing == 0


@wp.func(inline=True)
def is_busy(busy: wp.array[Scalar], stride: int, box: Box):
    """True if a tile of the blocks around a face is marked."""
    row = wp.int32(box.top)
    while row < box.bottom:
        column = wp.int32(box.left)
        while column < box.right:
            if any_of(less(zero(0), load_block(busy, row * stride + column, stride))):
                return True
            column += BLOCK_COLUMNS
        row += BLOCK_ROWS
    return False


@wp.func(inline=True)
def put_face(
    lines: wp.array[Real],
    a: Line,
    b: Line,
    c: Line,
    box: Box,
    busy: wp.array[Scalar],
    stride: int,
    row: int,
    column: int,
    radius: Scalar,
    centers: wp.array[Real],
):
    """Write the sides of a face in a block to `lines`; returns a bit for each tile that is marked and that they can reach."""
    x = centers[2]
    y = centers[3]
    to_do = load_block(busy, row * stride + column, stride)
    to_do = min(to_do, spread(Scalar((box.right - column) * COLUMNS)) - x)  # in the box
    to_do = min(to_do, spread(Scalar((box.bottom - row) * ROWS)) - y)
    x = x + Scalar((column - box.left) * COLUMNS)
    y = y + Scalar((row - box.top) * ROWS)
    near_a = put_line(lines, 0, a, x, y)
    near_b = put_line(lines, 3, b, x, y)
    near_c = put_line(lines, 6, c, x, y)
    return bits_of(less(zero(0), min(to_do, min(near_a, min(near_b, near_c)) + radius)))


@wp.kernel(enable_backward=False)
def cover_images(
    points: wp.array2d[Point],  # (images, vertices) [m]
    matrices: wp.array[Square],  # (worlds or 1): homogeneous pixels are matrix · point + offset
    offsets: wp.array[Double],
    frames: int,  # of a world
    near: Scalar,  # [m]
    faces: wp.array[wp.vec3i],
    centers: wp.array[Real],  # x and y of a tile's pixels, and of the tiles of a block, from the first one [px]
    reach: Reach,
    unit: Unit,
    # scratch
    places: wp.array[Place],  # (vertices): pixels
    depth: wp.array[Scalar],  # [m]
    busy: wp.array[
        Scalar
    ],  # (tiles down and of a block, tiles across and of a block) in one row: 1 where a pixel is not covered
    lines: wp.array[Real],  # (9)
    # out
    clear: wp.array[Real],  # (images, tiles down, tiles across) in one row: Π (1 - D)
    alpha: wp.array[Scalar],  # (images, rows, columns) in one row
    status: wp.array[wp.int32],  # 1 if a vertex is not before the near plane, and the output is of no use; zero before
):
    page = wp.tid()
    world = page / frames
    matrix = matrices[wp.min(world, matrices.shape[0] - 1)]
    if not project(points, matrix, offsets[wp.min(world, offsets.shape[0] - 1)], page, near, places, depth):
        status[0] = 1
        return
    down = (reach.height + ROWS - 1) / ROWS
    across = (reach.width + COLUMNS - 1) / COLUMNS
    stride = across + BLOCK_COLUMNS
    page_tile = page * down * across
    for row in range(down):
        for column in range(across):
            put_entry(
                clear, page_tile + row * across + column, spread(Scalar(1.0))
            )  # the product, until all faces are in it
            busy[row * stride + column] = Scalar(1.0)
    radius = (reach.radius + SLACK) * unit.by_pixel
    for k in range(faces.shape[0]):
        box = box_of(places, faces[k], reach, down, across)
        if box.left >= box.right or box.top >= box.bottom or not is_busy(busy, stride, box):
            continue
        line_a = line_of(box.q, box.r, box, unit.by_pixel, centers)
        line_b = line_of(box.r, box.p, box, unit.by_pixel, centers)
        line_c = line_of(box.p, box.q, box, unit.by_pixel, centers)
        block_row = wp.int32(box.top)
        while block_row < box.bottom:
            block_column = wp.int32(box.left)
            while block_column < box.right:
                tiles = wp.int32(put_face(lines, line_a, line_b, line_c, box, busy, stride, block_row, block_column, radius, centers))  # fmt: skip
                while tiles != 0:
                    tile = first_bit(tiles)
                    tiles = tiles & (tiles - 1)
                    row = block_row + tile / BLOCK_COLUMNS
                    column = block_column + tile % BLOCK_COLUMNS
                    at = page_tile + row * across + column
                    a = way_of(line_a, lines, 0, tile)
                    b = way_of(line_b, lines, 3, tile)
                    c = way_of(line_c, lines, 6, tile)
                    square = min(a.square, min(b.square, c.square))
                    x = signed(inside_of(a, b, c), square)
                    before = entry(clear, at)
                    power = where(less(spread(-unit.bits), x), exp2(x), zero(0))
                    now = min(before + before * power, spread(MAX_PRODUCT))
                    put_entry(clear, at, now)
                    if not any_of(less(now * SATURATED, spread(Scalar(1.0)))):
                        busy[row * stride + column] = Scalar(0.0)
                block_column += BLOCK_COLUMNS
            block_row += BLOCK_ROWS
    first_pixel = page * reach.height * reach.width
    for row in range(down):
        for column in range(across):
            transparent = spread(Scalar(1.0)) / entry(clear, page_tile + row * across + column)
            put_entry(clear, page_tile + row * across + column, transparent)
            opaque = spread(Scalar(1.0)) - transparent
            pixel = first_pixel + row * ROWS * reach.width + column * COLUMNS
            rows = wp.min(ROWS, reach.height - row * ROWS)
            columns = wp.min(COLUMNS, reach.width - column * COLUMNS)
            if rows == ROWS and columns == COLUMNS:
                store_tile(alpha, pixel, reach.width, opaque)
            else:
                store_part(alpha, pixel, reach.width, rows, columns, opaque)


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
    unit: Unit,
    # scratch
    places: wp.array[Place],
    depth: wp.array[Scalar],
    busy: wp.array[Scalar],  # 1 where a pixel has something to pass on
    lines: wp.array[Real],
    opaque: wp.array[Real],  # (tiles down, tiles across) in one row: ∂loss/∂d², by D
    screen_adjoint: wp.array[Pixel],  # (vertices)
    # of `cover_images`
    clear: wp.array[Real],
    alpha_adjoint: wp.array[Scalar],
    # out
    points_adjoint: wp.array2d[Point],
):
    page = wp.tid()
    world = page / frames
    matrix = matrices[wp.min(world, matrices.shape[0] - 1)]
    project(points, matrix, offsets[wp.min(world, offsets.shape[0] - 1)], page, near, places, depth)
    for i in range(points.shape[1]):
        screen_adjoint[i] = Pixel()
    down = (reach.height + ROWS - 1) / ROWS
    across = (reach.width + COLUMNS - 1) / COLUMNS
    stride = across + BLOCK_COLUMNS
    first_pixel = page * reach.height * reach.width
    factor = reach.sharpness * Scalar(-2.0) / unit.by_pixel / unit.by_pixel
    for row in range(down):
        for column in range(across):
            pixel = first_pixel + row * ROWS * reach.width + column * COLUMNS
            rows = wp.min(ROWS, reach.height - row * ROWS)
            columns = wp.min(COLUMNS, reach.width - column * COLUMNS)
            g = zero(0)
            if rows == ROWS and columns == COLUMNS:
                g = load_tile(alpha_adjoint, pixel, reach.width)
            else:
                g = load_part(alpha_adjoint, pixel, reach.width, rows, columns)
            transparent = entry(clear, (page * down + row) * across + column)
            g = where(less(spread(SATURATED), transparent), g * transparent * factor, zero(0))
            put_entry(opaque, row * across + column, g)
            busy[row * stride + column] = wp.where(any_of(less(zero(0), abs(g))), Scalar(1.0), Scalar(0.0))
    radius = (reach.radius + SLACK) * unit.by_pixel
    for k in range(faces.shape[0]):
        corners = faces[k]
        box = box_of(places, corners, reach, down, across)
        if box.left >= box.right or box.top >= box.bottom or not is_busy(busy, stride, box):
            continue
        line_a = line_of(box.q, box.r, box, unit.by_pixel, centers)
        line_b = line_of(box.r, box.p, box, unit.by_pixel, centers)
        line_c = line_of(box.p, box.q, box, unit.by_pixel, centers)
        edge_a = EdgeSums()
        edge_b = EdgeSums()
        edge_c = EdgeSums()
        block_row = wp.int32(box.top)
        while block_row < box.bottom:
            block_column = wp.int32(box.left)
            while block_column < box.right:
                tiles = wp.int32(put_face(lines, line_a, line_b, line_c, box, busy, stride, block_row, block_column, radius, centers))  # fmt: skip
                while tiles != 0:
                    tile = first_bit(tiles)
                    tiles = tiles & (tiles - 1)
                    a = way_of(line_a, lines, 0, tile)
                    b = way_of(line_b, lines, 3, tile)
                    c = way_of(line_c, lines, 6, tile)
                    nearer = min(b.square, c.square)
                    square = min(a.square, nearer)
                    inside = inside_of(a, b, c)
                    x = signed(inside, square)
                    power = exp2(x)
                    g = entry(opaque, (block_row + tile / BLOCK_COLUMNS) * across + block_column + tile % BLOCK_COLUMNS)
                    g = g * power / (power + Scalar(1.0))
                    g = where(inside, g, zero(0) - g)
                    g = where(less(spread(-unit.bits), x), g, zero(0))
                    at_a = where(less(nearer, a.square), zero(0), g)
                    at_bc = g - at_a
                    at_b = where(less(c.square, b.square), zero(0), at_bc)
                    edge_a = add_side(edge_a, a, at_a)
                    edge_b = add_side(edge_b, b, at_b)
                    edge_c = add_side(edge_c, c, at_bc - at_b)
                block_column += BLOCK_COLUMNS
            block_row += BLOCK_ROWS
        ends_a = ends_of(edge_a, line_a)
        ends_b = ends_of(edge_b, line_b)
        ends_c = ends_of(edge_c, line_c)
        add_corner(screen_adjoint, corners[0], ends_b, ends_c)
        add_corner(screen_adjoint, corners[1], ends_c, ends_a)
        add_corner(screen_adjoint, corners[2], ends_a, ends_b)
    turned = wp.transpose(matrix)
    for i in range(points.shape[1]):
        p = places[i]
        along = screen_adjoint[i] / depth[i]
        by_depth = -(along[0] * Scalar(p[0]) + along[1] * Scalar(p[1]))
        world_adjoint = turned * wide(Point(along[0], along[1], by_depth))
        points_adjoint[page, i] = Point(Scalar(world_adjoint[0]), Scalar(world_adjoint[1]), Scalar(world_adjoint[2]))
