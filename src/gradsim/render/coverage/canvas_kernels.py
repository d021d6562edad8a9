# pyright: reportInvalidTypeForm=false
"""The outline of one body at a time, drawn for `misfit_kernels.py`: a template for `engine.lanes`.

Registers hold consecutive pixels of a row (`engine.rows`). A row that two edges cross from its upper to its lower border, with the body
between them, is noted with the blocks of their pixels and not drawn: its pixels follow from the two lines. Of other
rows the differences of coverage are drawn as by `kernels.py`, with the weights w_t and w_b of each pixel and the edge that they belong
to. Of pixels that several edges share, J is summed as it is drawn.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import lane, put

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.rows import WIDTH, both, load_row, numbers_from, shifted, store_row
    from gradsim.render.coverage.edge_kernels import Edge, cell, in_column, in_row, outline_edge
    from gradsim.render.coverage.goal_kernels import BLOCK
    from gradsim.render.coverage.kernels import MAX_ROW_GAP, Box, at_fraction
    from gradsim.render.coverage.outline_kernels import (
        Bins,
        Outline,
        arrange,
        empty_band,
        is_outer,
        next_cut,
        widen_band,
    )

Pixel = wp.types.vector(2, Scalar)  # x to the right, y down [px]
Line = wp.types.vector(4, Scalar)  # x, y of the left end, x, y of the right end [px]

# of a row: edges that touch it, 1 + number of that on the left and of that on the right (0: none), and blocks of their pixels
EDGE_COUNT, LEFT_EDGE, RIGHT_EDGE, LEFT_BEGIN, LEFT_END, RIGHT_BEGIN, RIGHT_END, ROW = range(8)
# of an edge: x and y of its upper end, dx/dy, |dy/dx|, 1/dy, dy/dx, x and y of its lower end, and others of `Edge`
X, Y, SLOPE, STEEPNESS, INVERSE, RISE, END_X, END_Y, AXIS_X, AXIS_Y, SIGN, FIRST_VERTEX, SECOND_VERTEX, LINE = range(14)
TOO_MANY_EDGES = 100  # edges, more than a row that is not drawn has
VERTICAL = wp.constant(Scalar(1.0e300))  # |dy/dx| of a line that goes straight down


@wp.struct
class Canvas:
    """Pixels about one body at a time, and sums over its edges; a page for each worker."""

    difference: wp.array2d[Scalar]  # of coverage along rows, (workers, cells); zero before and after; so is `owner`
    owner: wp.array2d[Scalar]  # 1 + number of the edge in a cell; 0: none; below 0: -1 - number among shared cells
    upper: wp.array2d[Scalar]  # w_t
    lower: wp.array2d[Scalar]  # w_b
    moments: wp.array2d[Scalar]  # (workers, edges · MOMENTS · WIDTH); zero before and after
    lean: wp.array3d[Scalar]  # a, then b (workers, edges, 2 · unknowns)
    shared: wp.array3d[Scalar]  # J (workers, cells, unknowns)
    count: wp.array[int]  # of shared cells (workers)
    rows: wp.array3d[
        int
    ]  # edges that touch a row; 1 + number of that on the left and on the right, and blocks of their pixels (workers, rows, 7)
    lines: wp.array3d[Scalar]  # numbers of edges (workers, edges, LINE)


@wp.func(inline=True)
def cell_of(place: wp.vec3i, row: int, column: int):
    """Place in a page; `place`: first row and column, and cells of a row."""
    return (row - place[0]) * place[2] + column - place[1]


@wp.func(inline=True)
def aligned(place: wp.vec3i, column: int):
    """First column of the register that a column is in."""
    return column - (column - place[1]) % WIDTH


@wp.func(inline=True)
def on_grid(place: wp.vec3i, column: int):
    """First column of the block that a column is in."""
    return column - (column - place[1]) % BLOCK


@wp.func(inline=True)
def list_edge(canvas: Canvas, worker: int, number: int, edge: Edge, convex: bool, height: int):
    """Note the line of an edge, and which rows it touches."""
    lines = canvas.lines[worker]
    lines[number, X] = edge.top[0]
    lines[number, Y] = edge.top[1]
    lines[number, SLOPE] = edge.slope
    steep = VERTICAL
    if edge.rise != Scalar(0.0):
        steep = wp.min(wp.abs(edge.rise), VERTICAL)
    lines[number, STEEPNESS] = steep
    lines[number, INVERSE] = Scalar(1.0) / wp.max(edge.bottom[1] - edge.top[1], Scalar(1.0))
    lines[number, RISE] = edge.rise
    lines[number, END_X] = edge.bottom[0]
    lines[number, END_Y] = edge.bottom[1]
    lines[number, AXIS_X] = edge.axis[0]
    lines[number, AXIS_Y] = edge.axis[1]
    lines[number, SIGN] = edge.sign
    lines[number, FIRST_VERTEX] = Scalar(edge.first)
    lines[number, SECOND_VERTEX] = Scalar(edge.second)
    if convex:
        first = wp.max(cell(edge.top[1], height), 0)
        last = cell(edge.bottom[1], height - 1)
        side = wp.where(edge.sign > Scalar(0.0), LEFT_EDGE, RIGHT_EDGE)
        for row in range(first, last + 1):
            canvas.rows[worker, row, EDGE_COUNT] = canvas.rows[worker, row, EDGE_COUNT] + 1
            canvas.rows[worker, row, side] = number + 1
        if first <= last:
            if edge.top[1] > Scalar(first):  # of a row of which it crosses a part alone
                canvas.rows[worker, first, EDGE_COUNT] = TOO_MANY_EDGES
            if edge.bottom[1] < Scalar(last + 1):
                canvas.rows[worker, last, EDGE_COUNT] = TOO_MANY_EDGES


@wp.func(inline=True)
def plan_rows(canvas: Canvas, worker: int, area: wp.vec4i, place: wp.vec3i, width: int):
    """Blocks of the pixels of rows between two edges; none of rows where one block has pixels of both."""
    lines = canvas.lines[worker]
    rows = canvas.rows[worker]
    for row in range(area[0], area[1]):
        plain = False
        if rows[row, EDGE_COUNT] == 2 and rows[row, LEFT_EDGE] > 0 and rows[row, RIGHT_EDGE] > 0:
            a = rows[row, LEFT_EDGE] - 1
            b = rows[row, RIGHT_EDGE] - 1
            y = Scalar(row)
            a_x = lines[a, X] + lines[a, SLOPE] * (y - lines[a, Y])
            b_x = lines[b, X] + lines[b, SLOPE] * (y - lines[b, Y])
            a_next = lines[a, X] + lines[a, SLOPE] * (y + Scalar(1.0) - lines[a, Y])
            b_next = lines[b, X] + lines[b, SLOPE] * (y + Scalar(1.0) - lines[b, Y])
            a_end = on_grid(place, wp.max(cell(wp.max(a_x, a_next), width - 1) + BLOCK, 0))
            b_begin = on_grid(place, wp.max(cell(wp.min(b_x, b_next), width), 0))
            if a_end <= b_begin:
                plain = True
                rows[row, LEFT_BEGIN] = on_grid(place, wp.max(cell(wp.min(a_x, a_next), width), 0))
                rows[row, LEFT_END] = a_end
                rows[row, RIGHT_BEGIN] = b_begin
                rows[row, RIGHT_END] = on_grid(place, wp.max(cell(wp.max(b_x, b_next), width - 1) + BLOCK, 0))
        if not plain:
            rows[row, LEFT_EDGE] = 0


@wp.func(inline=True)
def recall(canvas: Canvas, worker: int, number: int):
    """An edge that was noted."""
    lines = canvas.lines[worker]
    edge = Edge()
    edge.top = Pixel(lines[number, X], lines[number, Y])
    edge.bottom = Pixel(lines[number, END_X], lines[number, END_Y])
    edge.first = int(lines[number, FIRST_VERTEX])
    edge.second = int(lines[number, SECOND_VERTEX])
    edge.normal = Pixel(edge.bottom[1] - edge.top[1], edge.top[0] - edge.bottom[0])
    edge.slope = lines[number, SLOPE]
    edge.rise = lines[number, RISE]
    edge.axis = Pixel(lines[number, AXIS_X], lines[number, AXIS_Y])
    edge.sign = lines[number, SIGN]
    return edge


@wp.func
def share(canvas: Canvas, worker: int, at: int, owner: Scalar, number: int, top_share: Scalar, bottom_share: Scalar):
    """Add J of a piece to a cell that has another. Returns the new owner."""
    unknowns = canvas.shared.shape[2]
    slot = -1 - int(owner)
    if owner > Scalar(0.0):
        slot = canvas.count[worker]
        canvas.count[worker] = slot + 1
        first = int(owner) - 1
        for u in range(unknowns):
            canvas.shared[worker, slot, u] = (
                canvas.upper[worker, at] * canvas.lean[worker, first, u]
                + canvas.lower[worker, at] * canvas.lean[worker, first, unknowns + u]
            )
    for u in range(unknowns):
        canvas.shared[worker, slot, u] = (
            canvas.shared[worker, slot, u]
            + top_share * canvas.lean[worker, number, u]
            + bottom_share * canvas.lean[worker, number, unknowns + u]
        )
    return Scalar(-1 - slot)


@wp.func(inline=True)
def height_at(column: Real, line: Line, rise: Real, low: Real, high: Real):
    """y of a line at the border of a column."""
    return min(max(spread(line[1]) + rise * (column - spread(line[0])), low), high)


@wp.func
def draw_row(
    canvas: Canvas, worker: int, place: wp.vec3i, width: int, unknowns: int,
    outline: Outline, edge: Edge, part: Edge, number: int, row: int,
):  # fmt: skip
    """Differences of a part of an edge in a row that it meets, its weights in each pixel, and whose it is."""
    difference = canvas.difference[worker]
    owners = canvas.owner[worker]
    uppers = canvas.upper[worker]
    lowers = canvas.lower[worker]
    rise = spread(part.rise)
    line = in_row(part, row)
    begin = cell(line[0], width)
    end = cell(line[2], width - 1) + 1
    if begin >= end:
        return
    widen_band(outline, worker, row, part.sign, begin, end + 1)
    if begin < 0:
        piece = in_column(part, line, -1)
        at = cell_of(place, row, -1)
        difference[at] = difference[at] + part.sign * wp.abs(piece[3] - piece[1])
        begin = 0
        if end == 0:
            return
    before = Scalar(0.0)
    low = spread(wp.min(line[1], line[3]))
    high = spread(wp.max(line[1], line[3]))
    begin_row = spread(Scalar(begin))
    end_row = spread(Scalar(end))
    for column in range(aligned(place, begin), end + 1, WIDTH):
        at = cell_of(place, row, column)
        c = numbers_from(column)
        right = c + 1.0
        x0 = max(c, spread(line[0]))
        x1 = min(right, spread(line[2]))
        y0 = where(less(spread(line[0]), c), height_at(c, line, rise, low, high), spread(line[1]))
        y1 = where(less(right, spread(line[2])), height_at(right, line, rise, low, high), spread(line[3]))
        inside = both(less(c, end_row), less(begin_row, right))
        area = where(inside, spread(part.sign) * abs(y1 - y0), zero(0))
        beyond = area * ((x0 + x1) * 0.5 - c)
        passed = shifted(beyond, before)
        before = lane(beyond, WIDTH - 1)
        store_row(difference, at, load_row(difference, at) + passed + area - beyond)
        if unknowns > 0:
            along = edge.axis
            s0 = (x0 - spread(edge.top[0])) * spread(along[0]) + (y0 - spread(edge.top[1])) * spread(along[1])
            s1 = (x1 - spread(edge.top[0])) * spread(along[0]) + (y1 - spread(edge.top[1])) * spread(along[1])
            size = abs(s1 - s0)
            mean = (s0 + s1) * 0.5
            bottom_share = size * mean
            top_share = size - bottom_share
            owner = load_row(owners, at)
            now = where(inside, spread(Scalar(number + 1)), owner)
            if any_lane(both(inside, less(zero(0), abs(owner)))):
                for i in range(wp.max(begin - column, 0), wp.min(WIDTH, end - column)):
                    if lane(owner, i) != Scalar(0.0):
                        slot = share(
                            canvas, worker, at + i, lane(owner, i), number, lane(top_share, i), lane(bottom_share, i)
                        )
                        now = put(now, i, slot)
            store_row(owners, at, now)
            store_row(uppers, at, where(inside, top_share, load_row(uppers, at)))
            store_row(lowers, at, where(inside, bottom_share, load_row(lowers, at)))


@wp.func(inline=True)
def draw_part(
    canvas: Canvas, worker: int, place: wp.vec3i, height: int, width: int, unknowns: int,
    outline: Outline, edge: Edge, part: Edge, number: int,
):  # fmt: skip
    """`draw_row` of all rows of a part but those that two edges cross."""
    for row in range(wp.max(cell(part.top[1], height), 0), cell(part.bottom[1], height - 1) + 1):
        if canvas.rows[worker, row, LEFT_EDGE] == 0:
            draw_row(canvas, worker, place, width, unknowns, outline, edge, part, number, row)


@wp.func
def row_gap(canvas: Canvas, worker: int, place: wp.vec3i, area: wp.vec4i):
    """Sum of the differences of the worst row: 0 of an outline that is closed and lies inside the image."""
    worst = Scalar(0.0)
    for row in range(area[0], area[1]):
        sum = Scalar(0.0)
        for column in range(place[1], area[3]):
            sum += canvas.difference[worker, cell_of(place, row, column)]
        worst = wp.max(worst, wp.abs(sum))
    return worst


@wp.func
def draw_outline(
    screen: wp.array2d[Pixel], tangent: wp.array4d[Pixel], edges: wp.array[wp.vec4i], convex: bool,
    front: wp.array2d[wp.bool], outline: Outline, canvas: Canvas, worker: int, body: int, count: int, area: wp.vec4i,
    place: wp.vec3i, height: int, width: int, box: Box,
):  # fmt: skip
    """Differences of the coverage of a body along rows, with weights and owners."""
    unknowns = tangent.shape[1]
    world = body // tangent.shape[2]
    frame = body % tangent.shape[2]
    bins = Bins()
    if not convex:
        bins = arrange(screen, edges, front, outline, body, worker, count, box[1], box[3])
    empty_band(outline, worker, area[0], area[1], width)
    for row in range(area[0], area[1]):
        canvas.rows[worker, row, EDGE_COUNT] = 0
        canvas.rows[worker, row, LEFT_EDGE] = 0
        canvas.rows[worker, row, RIGHT_EDGE] = 0
    for m in range(count):
        edge = outline_edge(screen, body, edges, outline.edges[worker, m], convex, front)
        list_edge(canvas, worker, m, edge, convex, height)
        for u in range(unknowns):
            canvas.lean[worker, m, u] = -edge.sign * wp.dot(tangent[world, u, frame, edge.first], edge.normal)
            canvas.lean[worker, m, unknowns + u] = -edge.sign * wp.dot(
                tangent[world, u, frame, edge.second], edge.normal
            )
    if convex:
        plan_rows(canvas, worker, area, place, width)
    whole = bool(convex)
    for _attempt in range(2):
        canvas.count[worker] = 0
        for m in range(count):
            edge = recall(canvas, worker, m)
            start = Scalar(0.0)
            while start < Scalar(1.0):
                end = Scalar(1.0)
                part = edge
                outer = True
                if not whole:
                    end = next_cut(screen, body, outline, worker, bins, edge, start)
                    outer = is_outer(screen, body, outline, worker, bins, edge, m, Scalar(0.5) * (start + end))
                    part.top = at_fraction(edge, start)
                    part.bottom = at_fraction(edge, end)
                if outer:
                    draw_part(canvas, worker, place, height, width, unknowns, outline, edge, part, m)
                start = end
        if whole or cell(box[2], width - 1) + 1 >= width:
            return
        if row_gap(canvas, worker, place, area) < MAX_ROW_GAP:
            return
        # edges within rounding of each other hid one another: all of them then, and what they cover twice counts once
        whole = True
        for at in range((area[1] - area[0]) * place[2]):
            canvas.difference[worker, at] = Scalar(0.0)
            canvas.owner[worker, at] = Scalar(0.0)
