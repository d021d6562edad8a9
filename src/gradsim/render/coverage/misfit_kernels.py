# pyright: reportInvalidTypeForm=false
"""Least squares on coverage of one picture a frame, without images: a template for `engine.lanes`.

    Σ ρ(√w (α − T)),   Jᵀ W (α − T),   Jᵀ W J          J = ∂α/∂unknowns

with ρ(x) = x² and W = w, or a loss of `gradsim.numerics.robust` and W = w ρ'(x)/(2 x). A pixel that the outline does not touch has J = 0 and
the coverage of the one to its left, 0 or 1, so only the blocks of columns that the outline touches are visited. Others add ρ(√w T) or
ρ(√w (1 − T)), differences of running sums over blocks. Where these terms are 0, both sums are equal: a cost of 0 comes out as 0.

Of a pixel that one edge alone crosses, J = w_t a + w_b b, with the weights of the pixel (`kernels.py`) and numbers a, b of the edge, one for each
unknown. So sums of five products of r = W (α − T), W and the weights over the pixels of an edge, its moments, are all that gradient and matrix need of them, whatever the
number of unknowns:

    Jᵀ r = a Σ r w_t + b Σ r w_b,   Jᵀ W J = a aᵀ Σ W w_t² + (a bᵀ + b aᵀ) Σ W w_t w_b + b bᵀ Σ W w_b²
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import lane, put, total

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.rows import WIDTH, load_image, load_row, most, numbers_from, running_sum, store_row
    from gradsim.render.coverage.canvas_kernels import (
        INVERSE,
        LEFT_BEGIN,
        LEFT_EDGE,
        LEFT_END,
        RIGHT_BEGIN,
        RIGHT_EDGE,
        RIGHT_END,
        SLOPE,
        STEEPNESS,
        Canvas,
        Pixel,
        X,
        Y,
        cell_of,
        draw_outline,
        on_grid,
    )
    from gradsim.render.coverage.edge_kernels import cell, face_camera, silhouette
    from gradsim.render.coverage.goal_kernels import (
        BLOCK,
        Goal,
        Pair,
        influence,
        one_by_one,
        other_rows,
        rho,
        target_of,
    )
    from gradsim.render.coverage.kernels import ROUNDING, as_coverage, bounds, is_seen
    from gradsim.render.coverage.outline_kernels import Outline, touched

MOMENTS = 5
COLUMN_OFFSET = 2**24  # [px] multiple of BLOCK, left of all images
MATCH = wp.constant(Scalar(1.0e-14))  # difference from a target that is rounding: sums of areas in another order


@wp.func(inline=True)
def alike(
    goal: Goal, blocks: wp.array2d[Pair], frame: int, row: int, corner: int, within: bool, first: int, end: int, alpha: Scalar,
):  # fmt: skip
    """Σ ρ of columns of a row that are covered alike, between ends of blocks."""
    sum = Scalar(0.0)
    if first < end:
        if alpha > Scalar(0.0) and alpha < Scalar(1.0):
            sum = one_by_one(goal, frame, row, first, end, alpha)
        else:
            width = goal.image.shape[2]
            low = wp.clamp(first - corner, 0, width)
            high = wp.clamp(end - corner, 0, width)
            if within:
                target_row = row - goal.corner[frame][0]
                sums = blocks[target_row, (high + BLOCK - 1) // BLOCK] - blocks[target_row, (low + BLOCK - 1) // BLOCK]
                sum = wp.where(alpha == Scalar(0.0), sums[0], sums[1])
            else:
                high = low
            if alpha == Scalar(1.0) and end - first > high - low:
                sum += Scalar(end - first - (high - low)) * rho(goal.outside[frame], goal.kind, goal.bend)
    return sum


@wp.func
def add_shared(
    canvas: Canvas, worker: int, body: int, slot: int, r: Scalar, w: Scalar,
    gradient: wp.array2d[Scalar], normal: wp.array3d[Scalar],
):  # fmt: skip
    """Gradient and matrix of a pixel that several edges share."""
    for u in range(canvas.shared.shape[2]):
        s = canvas.shared[worker, slot, u]
        gradient[body, u] = gradient[body, u] + s * r
        for k in range(u + 1):
            normal[body, u, k] = normal[body, u, k] + w * s * canvas.shared[worker, slot, k]


@wp.func
def add_moments(moments: wp.array[Scalar], number: int, i: int, r: Scalar, w: Scalar, upper: Scalar, lower: Scalar):
    """Moments of one pixel."""
    at = number * MOMENTS * WIDTH + i
    moments[at] = moments[at] + r * upper
    moments[at + WIDTH] = moments[at + WIDTH] + r * lower
    moments[at + 2 * WIDTH] = moments[at + 2 * WIDTH] + w * upper * upper
    moments[at + 3 * WIDTH] = moments[at + 3 * WIDTH] + w * upper * lower
    moments[at + 4 * WIDTH] = moments[at + 4 * WIDTH] + w * lower * lower


@wp.func
def fold(
    canvas: Canvas, worker: int, body: int, number: int, unknowns: int,
    gradient: wp.array2d[Scalar], normal: wp.array3d[Scalar],
):  # fmt: skip
    """Gradient and matrix of the moments of an edge, which are zero after."""
    moments = canvas.moments[worker]
    at = number * MOMENTS * WIDTH
    upper = total(load_row(moments, at))
    lower = total(load_row(moments, at + WIDTH))
    both_upper = total(load_row(moments, at + 2 * WIDTH))
    mixed = total(load_row(moments, at + 3 * WIDTH))
    both_lower = total(load_row(moments, at + 4 * WIDTH))
    for k in range(MOMENTS):
        store_row(moments, at + k * WIDTH, zero(0))
    for u in range(unknowns):
        a = canvas.lean[worker, number, u]
        b = canvas.lean[worker, number, unknowns + u]
        gradient[body, u] = gradient[body, u] + upper * a + lower * b
        first = both_upper * a + mixed * b
        second = mixed * a + both_lower * b
        for k in range(u + 1):
            normal[body, u, k] = (
                normal[body, u, k]
                + first * canvas.lean[worker, number, k]
                + second * canvas.lean[worker, number, unknowns + k]
            )


@wp.func
def robust(square: Real, kind: int, bend: Scalar):
    """ρ and ρ'(x)/(2 x), from x²."""
    values = square
    factors = square
    for i in range(WIDTH):
        values = put(values, i, rho(lane(square, i), kind, bend))
        factors = put(factors, i, influence(lane(square, i), kind, bend))
    return values, factors


@wp.func
def odd_pixels(goal: Goal, frame: int, row: int, column: int, width: int):
    """Targets and weights of a register that lies partly outside of the image or of its window."""
    target = zero(0)
    w = zero(0)
    for i in range(WIDTH):
        if column + i >= 0 and column + i < width:
            t, v = target_of(goal, frame, row, column + i)
            target = put(target, i, t)
            w = put(w, i, v)
    return target, w


@wp.func(inline=True)
def pixels(
    goal: Goal, targets: wp.array2d[Scalar], weights: wp.array2d[Scalar], frame: int, row: int, target_row: int,
    within: bool, column: int, corner: int, width: int,
):  # fmt: skip
    """Targets and weights of the pixels of a register."""
    target = zero(0)
    w = spread(weights[0, 0])
    target_column = column - corner
    if within and target_column >= 0 and target_column + WIDTH <= goal.image.shape[2]:
        target = load_image(targets, target_row, target_column)
        if goal.weight.shape[2] > 1:
            w = load_image(weights, target_row, target_column)
    else:
        target, w = odd_pixels(goal, frame, row, column, width)
    return target, w


@wp.func(inline=True)
def crossed(column: int, x0: Scalar, x1: Scalar, rise: Scalar):
    """Heights of a line that crosses all of a row, left of each pixel of a register and of its end, and the area to its right."""
    c = numbers_from(column)
    right = c + 1.0
    before = min(max((c - spread(x0)) * spread(rise), zero(0)), zero(0) + 1.0)
    after = min(max((right - spread(x0)) * spread(rise), zero(0)), zero(0) + 1.0)
    reach = (max(c, spread(x0)) + min(right, spread(x1))) * 0.5 - c
    return before, after, after - (after - before) * reach


@wp.func(inline=True)
def residuals(goal: Goal, alphas: Real, target: Real, w: Real):
    """ρ, w (α − T) and w of the pixels of a register, where α is 0 or 1 if it is so to rounding."""
    snapped = where(less(alphas, spread(ROUNDING)), zero(0), alphas)
    snapped = where(less(spread(Scalar(1.0) - ROUNDING), alphas), zero(0) + 1.0, snapped)
    off = snapped - target
    off = where(less(spread(MATCH), abs(off)), off, zero(0))
    r = w * off
    square = r * off
    if goal.kind != 0:
        square, factor = robust(square, goal.kind, goal.bend)
        w = w * factor
        r = r * factor
    return square, r, w


@wp.func(inline=True)
def plain_pixels(
    goal: Goal, targets: wp.array2d[Scalar], weights: wp.array2d[Scalar], frame: int, row: int, target_row: int, within: bool,
    column: int, corner: int, width: int, x: Scalar, next_x: Scalar, y: Scalar, slope: Scalar, steep: Scalar, inverse: Scalar,
    left: bool, unknowns: int,
):  # fmt: skip
    """ρ and moments of the pixels of a register, in a row that a line crosses from its upper to its lower end."""
    before, after, alphas = crossed(column, wp.min(x, next_x), wp.max(x, next_x), steep)
    if not left:
        alphas = zero(0) + 1.0 - alphas
    target, w = pixels(goal, targets, weights, frame, row, target_row, within, column, corner, width)
    square, r, w = residuals(goal, alphas, target, w)
    upper = zero(0)
    lower = zero(0)
    if unknowns > 0:
        start = y * inverse
        along = inverse
        if slope < Scalar(0.0):
            start = (y + Scalar(1.0)) * inverse
            along = -inverse
        size = (after - before) * spread(inverse)
        lower = size * (spread(start) + (before + after) * spread(Scalar(0.5) * along))
        upper = size - lower
    return square, r, w, upper, lower


@wp.func(inline=True)
def keep(
    moments: wp.array[Scalar], line: int, r_upper: Real, r_lower: Real, upper_upper: Real, upper_lower: Real, lower_lower: Real,
):  # fmt: skip
    """Add to the moments of an edge."""
    at = line * MOMENTS * WIDTH
    store_row(moments, at, load_row(moments, at) + r_upper)
    store_row(moments, at + WIDTH, load_row(moments, at + WIDTH) + r_lower)
    store_row(moments, at + 2 * WIDTH, load_row(moments, at + 2 * WIDTH) + upper_upper)
    store_row(moments, at + 3 * WIDTH, load_row(moments, at + 3 * WIDTH) + upper_lower)
    store_row(moments, at + 4 * WIDTH, load_row(moments, at + 4 * WIDTH) + lower_lower)


@wp.func
def plain_rows(
    goal: Goal, frame: int, worker: int, first: int, last: int, place: wp.vec3i, unknowns: int, width: int, canvas: Canvas,
):  # fmt: skip
    """ρ of rows between the same two edges, from one on, and their moments. Returns the row after them."""
    targets = goal.image[frame]
    weights = goal.weight[frame]
    blocks = goal.blocks[frame]
    corner = goal.corner[frame][1]
    moments = canvas.moments[worker]
    lines = canvas.lines[worker]
    rows = canvas.rows[worker]
    one = rows[first, LEFT_EDGE]
    two = rows[first, RIGHT_EDGE]
    cost = Scalar(0.0)
    lanes = zero(0)
    a = one - 1
    b = two - 1
    a_r_upper = zero(0)
    a_r_lower = zero(0)
    a_upper_upper = zero(0)
    a_upper_lower = zero(0)
    a_lower_lower = zero(0)
    b_r_upper = zero(0)
    b_r_lower = zero(0)
    b_upper_upper = zero(0)
    b_upper_lower = zero(0)
    b_lower_lower = zero(0)
    a_y = lines[a, Y]
    b_y = lines[b, Y]
    a_slope = lines[a, SLOPE]
    b_slope = lines[b, SLOPE]
    a_steep = lines[a, STEEPNESS]
    b_steep = lines[b, STEEPNESS]
    a_inverse = lines[a, INVERSE]
    b_inverse = lines[b, INVERSE]
    a_x = lines[a, X] + a_slope * (Scalar(first) - a_y)
    b_x = lines[b, X] + b_slope * (Scalar(first) - b_y)
    row = wp.int32(first)
    while row < last and rows[row, LEFT_EDGE] == one and rows[row, RIGHT_EDGE] == two:
        y = Scalar(row + 1)
        a_next = lines[a, X] + a_slope * (y - a_y)
        b_next = lines[b, X] + b_slope * (y - b_y)
        a_begin = rows[row, LEFT_BEGIN]
        a_end = rows[row, LEFT_END]
        b_begin = rows[row, RIGHT_BEGIN]
        b_end = rows[row, RIGHT_END]
        target_row = row - goal.corner[frame][0]
        within = target_row >= 0 and target_row < goal.image.shape[1]
        cost += alike(goal, blocks, frame, row, corner, within, 0, a_begin, Scalar(0.0))
        cost += alike(goal, blocks, frame, row, corner, within, a_end, b_begin, Scalar(1.0))
        cost += alike(goal, blocks, frame, row, corner, within, b_end, width, Scalar(0.0))
        for column in range(a_begin, a_end, WIDTH):
            square, r, w, upper, lower = plain_pixels(
                goal, targets, weights, frame, row, target_row, within, column, corner, width, a_x, a_next, Scalar(row) - a_y, a_slope, a_steep, a_inverse, True, unknowns,
            )  # fmt: skip
            lanes = lanes + square
            if unknowns > 0:
                a_r_upper = a_r_upper + r * upper
                a_r_lower = a_r_lower + r * lower
                a_upper_upper = a_upper_upper + w * upper * upper
                a_upper_lower = a_upper_lower + w * upper * lower
                a_lower_lower = a_lower_lower + w * lower * lower
        for column in range(b_begin, b_end, WIDTH):
            square, r, w, upper, lower = plain_pixels(
                goal, targets, weights, frame, row, target_row, within, column, corner, width, b_x, b_next, Scalar(row) - b_y, b_slope, b_steep, b_inverse, False, unknowns,
            )  # fmt: skip
            lanes = lanes + square
            if unknowns > 0:
                b_r_upper = b_r_upper + r * upper
                b_r_lower = b_r_lower + r * lower
                b_upper_upper = b_upper_upper + w * upper * upper
                b_upper_lower = b_upper_lower + w * upper * lower
                b_lower_lower = b_lower_lower + w * lower * lower
        a_x = a_next
        b_x = b_next
        row += 1
    if unknowns > 0:
        keep(moments, a, a_r_upper, a_r_lower, a_upper_upper, a_upper_lower, a_lower_lower)
        keep(moments, b, b_r_upper, b_r_lower, b_upper_upper, b_upper_lower, b_lower_lower)
    return row, cost + total(lanes)


@wp.func
def compare(
    goal: Goal, frame: int, body: int, worker: int, area: wp.vec4i, place: wp.vec3i, unknowns: int, width: int, outline: Outline,
    canvas: Canvas, gradient: wp.array2d[Scalar], normal: wp.array3d[Scalar],
):  # fmt: skip
    """ρ of the difference of a body that is drawn, and its derivatives; differences and owners are zero after."""
    difference = canvas.difference[worker]
    owners = canvas.owner[worker]
    uppers = canvas.upper[worker]
    lowers = canvas.lower[worker]
    moments = canvas.moments[worker]
    targets = goal.image[frame]
    blocks = goal.blocks[frame]
    corner = goal.corner[frame][1]
    weights = goal.weight[frame]
    cost = other_rows(goal, frame, area[0], area[1])
    lanes = zero(0)
    row = wp.int32(area[0])
    while row < area[1]:
        if canvas.rows[worker, row, LEFT_EDGE] > 0:
            next, plain_cost = plain_rows(goal, frame, worker, row, area[1], place, unknowns, width, canvas)
            cost += plain_cost
            row = next
            continue
        columns = touched(outline, worker, row)
        ends = wp.vec4i(0, 0, 0, 0)
        if columns[0] < columns[1]:
            begin = on_grid(place, columns[0])
            end = on_grid(place, columns[1] + BLOCK - 1)
            third = on_grid(place, columns[2])
            last = on_grid(place, columns[3] + BLOCK - 1)
            ends = wp.vec4i(begin, end, third, last)
            if third <= end:
                ends = wp.vec4i(begin, wp.max(end, last), wp.max(end, last), wp.max(end, last))
        sum = Scalar(0.0)
        alpha = Scalar(0.0)
        target_row = row - goal.corner[frame][0]
        within = target_row >= 0 and target_row < goal.image.shape[1]
        cost += alike(goal, blocks, frame, row, corner, within, 0, ends[0], alpha)
        for part in range(2):
            for column in range(ends[2 * part], ends[2 * part + 1], WIDTH):
                at = cell_of(place, row, column)
                change = load_row(difference, at)
                store_row(difference, at, zero(0))
                sums = running_sum(change) + spread(sum)
                sum = lane(sums, WIDTH - 1)
                target, w = pixels(goal, targets, weights, frame, row, target_row, within, column, corner, width)
                square, r, w = residuals(goal, sums, target, w)
                lanes = lanes + square
                if unknowns > 0:
                    owner = load_row(owners, at)
                    store_row(owners, at, zero(0))
                    upper = load_row(uppers, at)
                    lower = load_row(lowers, at)
                    first = most(owner)
                    same = where(less(abs(owner - spread(first)), spread(Scalar(0.5))), zero(0), owner)
                    if first > Scalar(0.0) and not any_lane(less(zero(0), abs(same))):
                        w = where(less(zero(0), owner), w, zero(0))
                        r = where(less(zero(0), owner), r, zero(0))
                        wu = w * upper
                        keep(moments, int(first) - 1, r * upper, r * lower, wu * upper, wu * lower, w * lower * lower)
                    else:
                        for i in range(WIDTH):
                            whose = lane(owner, i)
                            if whose > Scalar(0.0):
                                add_moments(
                                    moments, int(whose) - 1, i, lane(r, i), lane(w, i), lane(upper, i), lane(lower, i)
                                )
                            if whose < Scalar(0.0):
                                add_shared(
                                    canvas, worker, body, -1 - int(whose), lane(r, i), lane(w, i), gradient, normal
                                )
            alpha = as_coverage(sum)
            after = wp.where(part == 0, ends[2], width)
            cost += alike(goal, blocks, frame, row, corner, within, ends[2 * part + 1], after, alpha)
        row += 1
    return cost + total(lanes)


@wp.kernel(enable_backward=False)
def misfit(
    offset: int,  # see `engine.launch`
    screen: wp.array2d[Pixel],  # (bodies, vertices), bodies are frames of worlds
    tangent: wp.array4d[Pixel],  # (worlds, unknowns, frames, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    convex: bool,
    goal: Goal,
    height: int,
    width: int,
    frames: int,
    workers: int,
    # scratch
    front: wp.array2d[wp.bool],  # (bodies, faces)
    outline: Outline,  # (workers)
    canvas: Canvas,  # (workers)
    # out, zero before
    cost: wp.array[Scalar],  # (bodies)
    gradient: wp.array2d[Scalar],  # (bodies, unknowns)
    normal: wp.array3d[Scalar],  # (bodies, unknowns, unknowns), lower triangle
):
    worker = offset + wp.tid()
    worlds = screen.shape[0] // frames
    unknowns = tangent.shape[1]
    for k in range(
        worker, screen.shape[0], workers
    ):  # worlds of one frame in turn, which read the same rows of the target
        frame = k // worlds
        body = k % worlds * frames + frame
        box = bounds(screen, body)
        if not is_seen(box, height, width):
            cost[body] = other_rows(goal, frame, 0, 0)
            continue
        area = wp.vec4i(
            wp.max(cell(box[1], height - 1), 0),
            cell(box[3], height - 1) + 1,
            wp.max(cell(box[0], width - 1), 0),
            wp.min(cell(box[2], width - 1) + 2, width),
        )
        corner = goal.corner[frame][1]
        first = wp.where(box[0] < Scalar(0.0), -1, area[2]) - corner
        first = corner + (first + COLUMN_OFFSET) // BLOCK * BLOCK - COLUMN_OFFSET
        cells = (area[3] + 1 - first + BLOCK - 1) // WIDTH * WIDTH
        place = wp.vec3i(area[0], first, cells)
        face_camera(screen, body, faces, front)
        count = silhouette(edges, front, convex, body, worker, outline.edges)
        draw_outline(screen, tangent, edges, convex, front, outline, canvas, worker, body, count, area, place, height, width, box)  # fmt: skip
        cost[body] = compare(goal, frame, body, worker, area, place, unknowns, width, outline, canvas, gradient, normal)
        if unknowns > 0:
            for m in range(count):
                fold(canvas, worker, body, m, unknowns, gradient, normal)
