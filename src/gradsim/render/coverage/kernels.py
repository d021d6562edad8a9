# pyright: reportInvalidTypeForm=false
"""Area of every pixel that meshes cover, exactly, and its derivatives: a template for `engine.lanes`.

The outline of a mesh is where its layers (`edge_kernels.py`) begin. Of a convex body that is every silhouette edge; of
others, and of several bodies together, those parts of them that have nothing on their outer side (`outline_kernels.py`).

Cut at the borders of the pixels, each piece of the outline adds what lies to the right of it in its pixel and, by its
height with a sign, to all pixels further right, so a running sum along each row completes the areas.

Moving the ends of an edge, top t and bottom b, moves the border of the body only inside the pixels that it crosses.
With N = (b - t) turned by a right angle, a piece from fraction s₀ to s₁ of the edge changes the area of its pixel by

    dA = ∓ (w_t dt + w_b db) · N,   w_t = ∫ (1 - s) ds,   w_b = ∫ s ds   over s₀ ≤ s ≤ s₁

so the two weights w_t, w_b of the pieces are all that the tangent and the adjoint need.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import RARE, Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.coverage.edge_kernels import (
        Edge,
        cell,
        face_camera,
        in_column,
        in_row,
        outline_edge,
        silhouette,
    )
    from gradsim.render.coverage.outline_kernels import (
        Bins,
        Outline,
        arrange,
        empty_band,
        is_outer,
        next_cut,
        touched,
        widen_band,
    )

Point = wp.types.vector(2, Scalar)  # x to the right, y down [px]
Box = wp.types.vector(4, Scalar)  # left, top, right, bottom [px]
Piece = wp.types.vector(4, Scalar)  # x, y of the left end, x, y of the right end [px]

MAX_COORDINATE = wp.constant(Scalar(1.0e9))  # [px] beyond it, products and whole numbers overflow
ROUNDING = wp.constant(Scalar(1.0e-12))  # of sums of areas, in double precision
MAX_ROW_GAP = wp.constant(Scalar(1.0e-3))  # [px] that a row of the outline may stay open


@wp.func
def bounds(screen: wp.array2d[Point], body: int):
    """Box around a body; left > right where a vertex is not a number or beyond MAX_COORDINATE."""
    box = Box(MAX_COORDINATE, MAX_COORDINATE, -MAX_COORDINATE, -MAX_COORDINATE)
    for i in range(screen.shape[1]):
        p = screen[body, i]
        if not (wp.abs(p[0]) <= MAX_COORDINATE and wp.abs(p[1]) <= MAX_COORDINATE):
            return Box(MAX_COORDINATE, MAX_COORDINATE, -MAX_COORDINATE, -MAX_COORDINATE)
        box = Box(wp.min(box[0], p[0]), wp.min(box[1], p[1]), wp.max(box[2], p[0]), wp.max(box[3], p[1]))
    return box


@wp.func
def is_seen(box: Box, height: int, width: int):
    return box[0] <= box[2] and box[0] < Scalar(width) and box[2] > Scalar(0.0) and box[1] < Scalar(height) and box[3] > Scalar(0.0)  # fmt: skip


@wp.func
def weights(edge: Edge, piece: Piece):
    """w_t and w_b, how far the piece goes with the top and with the bottom of its edge."""
    s0 = wp.dot(Point(piece[0], piece[1]) - edge.top, edge.axis)
    s1 = wp.dot(Point(piece[2], piece[3]) - edge.top, edge.axis)
    size = wp.abs(s1 - s0)
    mean = Scalar(0.5) * (s0 + s1)
    return Point(size * (Scalar(1.0) - mean), size * mean)


@wp.func
def add_area(image: wp.array3d[Scalar], body: int, row: int, column: int, edge: Edge, piece: Piece):
    """Differences along the row of the area to the right of a piece."""
    area = edge.sign * wp.abs(piece[3] - piece[1])
    if column < 0:
        image[body, row, 0] = image[body, row, 0] + area
    else:
        beyond = area * (Scalar(0.5) * (piece[0] + piece[2]) - Scalar(column))
        image[body, row, column] = image[body, row, column] + area - beyond
        if column + 1 < image.shape[2]:
            image[body, row, column + 1] = image[body, row, column + 1] + beyond


@wp.func
def as_coverage(total: Scalar):
    """Coverage in [0, 1] of a sum of differences, without the rounding of what is 0 or 1."""
    if total < ROUNDING:
        return Scalar(0.0)
    if total > Scalar(1.0) - ROUNDING:
        return Scalar(1.0)
    return total


@wp.func
def sum_rows(image: wp.array3d[Scalar], body: int, box: Box):
    """Running sums of the differences; exactly 0 beyond the box and never outside [0, 1]."""
    first = wp.max(cell(box[0], image.shape[2] - 1), 0)
    last = cell(box[2], image.shape[2] - 1)
    for row in range(wp.max(cell(box[1], image.shape[1] - 1), 0), cell(box[3], image.shape[1] - 1) + 1):
        total = Scalar(0.0)
        for column in range(first, last + 1):
            total += image[body, row, column]
            image[body, row, column] = as_coverage(total)
        if last + 1 < image.shape[2]:
            image[body, row, last + 1] = Scalar(0.0)


@wp.func
def row_gap(image: wp.array3d[Scalar], page: int, outline: Outline, sheet: int, area: wp.vec4i):
    """Sum of the differences of the worst row: 0 of an outline that is closed and lies inside the image."""
    worst = Scalar(0.0)
    for row in range(area[0], area[1]):
        total = Scalar(0.0)
        columns = touched(outline, sheet, row)
        for column in range(columns[0], columns[1]):
            total += image[page, row, column]
        for column in range(columns[2], columns[3]):
            total += image[page, row, column]
        worst = wp.max(worst, wp.abs(total))
    return worst


@wp.func
def at_fraction(edge: Edge, t: Scalar):
    if t <= Scalar(0.0):
        return edge.top
    if t >= Scalar(1.0):
        return edge.bottom
    return edge.top + (edge.bottom - edge.top) * t


@wp.func
def draw_part(
    tangent: wp.array4d[Point],
    world: int,
    frame: int,
    page: int,
    edge: Edge,
    part: Edge,
    outline: Outline,
    sheet: int,
    image: wp.array3d[Scalar],
    image_tangent: wp.array4d[Scalar],
):
    """Differences of a part of an edge, and the derivatives of its pixels."""
    height = image.shape[1]
    width = image.shape[2]
    for row in range(wp.max(cell(part.top[1], height), 0), cell(part.bottom[1], height - 1) + 1):
        line = in_row(part, row)
        begin = cell(line[0], width)
        end = cell(line[2], width - 1) + 1
        if begin < end:
            widen_band(outline, sheet, row, edge.sign, wp.max(begin, 0), wp.min(end + 1, width))
        for column in range(begin, end):
            piece = in_column(part, line, column)
            add_area(image, page, row, column, edge, piece)
            if column >= 0 and tangent.shape[1] > 0:
                w = weights(edge, piece) * -edge.sign
                for u in range(tangent.shape[1]):
                    dt = tangent[world, u, frame, edge.first]
                    db = tangent[world, u, frame, edge.second]
                    change = wp.dot(dt * w[0] + db * w[1], edge.normal)
                    image_tangent[page, row, column, u] = image_tangent[page, row, column, u] + change


@wp.func
def draw_outline(
    screen: wp.array2d[Point],
    tangent: wp.array4d[Point],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    front: wp.array2d[wp.bool],
    outline: Outline,
    sheet: int,
    body: int,
    page: int,
    image: wp.array3d[Scalar],
    image_tangent: wp.array4d[Scalar],
):
    """Differences of the coverage of a body along rows, and its derivatives, onto a page of the images, zero before.

    `sheet` is its page of the outline, whose band has the columns that are not zero. Returns the first row and the one after the
    last, and the same of columns, of what the body may cover.
    """
    height = image.shape[1]
    width = image.shape[2]
    world = body // tangent.shape[2]
    frame = body % tangent.shape[2]
    box = bounds(screen, body)
    if not is_seen(box, height, width):
        return wp.vec4i(0, 0, 0, 0)
    area = wp.vec4i(
        wp.max(cell(box[1], height - 1), 0),
        cell(box[3], height - 1) + 1,
        wp.max(cell(box[0], width - 1), 0),
        wp.min(cell(box[2], width - 1) + 2, width),
    )
    face_camera(screen, body, faces, front)
    count = silhouette(edges, front, convex, body, sheet, outline.edges)
    bins = Bins()
    if not convex:
        bins = arrange(screen, edges, front, outline, body, sheet, count, box[1], box[3])
    empty_band(outline, sheet, area[0], area[1], width)
    whole = bool(convex)
    for _attempt in range(2):
        for m in range(count):
            edge = outline_edge(screen, body, edges, outline.edges[sheet, m], convex, front)
            if whole:
                draw_part(tangent, world, frame, page, edge, edge, outline, sheet, image, image_tangent)
                continue
            start = Scalar(0.0)
            while start < Scalar(1.0):
                end = next_cut(screen, body, outline, sheet, bins, edge, start)
                if is_outer(screen, body, outline, sheet, bins, edge, m, Scalar(0.5) * (start + end)):
                    part = edge
                    part.top = at_fraction(edge, start)
                    part.bottom = at_fraction(edge, end)
                    draw_part(tangent, world, frame, page, edge, part, outline, sheet, image, image_tangent)
                start = end
        if whole or cell(box[2], width - 1) + 1 >= width:
            return area
        if row_gap(image, page, outline, sheet, area) < MAX_ROW_GAP:
            return area
        # edges within rounding of each other hid one another: all of them then, and what they cover twice counts once
        whole = True
        for row in range(area[0], area[1]):
            for column in range(area[2], area[3]):
                image[page, row, column] = Scalar(0.0)
                for u in range(tangent.shape[1]):
                    image_tangent[page, row, column, u] = Scalar(0.0)
    return area


@wp.func
def draw(
    screen: wp.array2d[Point],
    tangent: wp.array4d[Point],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    front: wp.array2d[wp.bool],
    outline: Outline,
    sheet: int,
    body: int,
    page: int,
    image: wp.array3d[Scalar],
    image_tangent: wp.array4d[Scalar],
):
    """Coverage of a body and its derivatives onto a page of the images, zero before; `sheet` is its page of the outline.

    Returns the first row and the one after the last, and the same of columns, of what it may have filled.
    """
    area = draw_outline(screen, tangent, faces, edges, convex, front, outline, sheet, body, page, image, image_tangent)
    if area[1] > 0:
        sum_rows(image, page, bounds(screen, body))
    return area


@wp.kernel(enable_backward=False)
def cover(
    screen: wp.array2d[Point],  # (bodies, vertices), bodies are frames of worlds
    tangent: wp.array4d[Point],  # (worlds, unknowns, frames, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],  # from, to, face in which it runs so, face in which it runs back (-1: none)
    convex: bool,
    sheets: int,
    # scratch
    front: wp.array2d[wp.bool],  # (bodies, faces)
    outline: Outline,  # (sheets)
    # out
    image: wp.array3d[Scalar],  # (bodies, rows, columns), zero before
    image_tangent: wp.array4d[Scalar],  # (bodies, rows, columns, unknowns), zero before
):
    body = wp.tid()
    draw(screen, tangent, faces, edges, convex, front, outline, body % sheets, body, body, image, image_tangent)


@wp.func
def part_weights(edge: Edge, part: Edge, image_adjoint: wp.array3d[Scalar], page: int):
    """Sums over pixels of ∂loss/∂coverage and `weights` of a part of an edge."""
    height = image_adjoint.shape[1]
    width = image_adjoint.shape[2]
    sums = Point()
    for row in range(wp.max(cell(part.top[1], height), 0), cell(part.bottom[1], height - 1) + 1):
        line = in_row(part, row)
        for column in range(wp.max(cell(line[0], width), 0), cell(line[2], width - 1) + 1):
            w = weights(edge, in_column(part, line, column))
            sums += w * image_adjoint[page, row, column]
    return sums


@wp.kernel(enable_backward=False, module=__name__ + RARE)  # a fit by outlines has no gradient of an image
def cover_adjoint(
    screen: wp.array2d[Point],
    image_adjoint: wp.array3d[Scalar],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    sheets: int,
    # scratch
    front: wp.array2d[wp.bool],
    outline: Outline,
    # out
    screen_adjoint: wp.array2d[Point],  # zero before
):
    """Adjoint of `cover`."""
    body = wp.tid()
    height = image_adjoint.shape[1]
    width = image_adjoint.shape[2]
    sheet = body % sheets
    box = bounds(screen, body)
    if not is_seen(box, height, width):
        return
    face_camera(screen, body, faces, front)
    count = silhouette(edges, front, convex, body, sheet, outline.edges)
    bins = Bins()
    if not convex:
        bins = arrange(screen, edges, front, outline, body, sheet, count, box[1], box[3])
    for m in range(count):
        edge = outline_edge(screen, body, edges, outline.edges[sheet, m], convex, front)
        sums = Point()
        start = Scalar(0.0)
        while start < Scalar(1.0):
            end = Scalar(1.0)
            part = edge
            if not convex:
                end = next_cut(screen, body, outline, sheet, bins, edge, start)
                part.top = at_fraction(edge, start)
                part.bottom = at_fraction(edge, end)
            if convex or is_outer(screen, body, outline, sheet, bins, edge, m, Scalar(0.5) * (start + end)):
                sums += part_weights(edge, part, image_adjoint, body)
            start = end
        screen_adjoint[body, edge.first] = screen_adjoint[body, edge.first] - edge.normal * (edge.sign * sums[0])
        screen_adjoint[body, edge.second] = screen_adjoint[body, edge.second] - edge.normal * (edge.sign * sums[1])
