# pyright: reportInvalidTypeForm=false
"""Images of triangles with colors at their vertices, composited over a background: a template for `engine.lanes`.

A thread takes a row of an image. In a run of pixels that show one triangle its barycentrics are b_i = e_i / Σ e with e_i
linear in the column (`zbuffer_kernels.py`): their values at the first pixel and their slopes make all of them, and the
adjoints of these two are summed over the run before they go to the corners.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.raster.fragment_kernels import (
        MAX_KEY,
        TOUCHED_RANK,
        at_foot,
        back_to_pixels,
        cross,
        flat_adjoint,
        foot,
        relative,
    )

Flat = wp.types.vector(2, Scalar)  # [px]
Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z) [px m, px m, m]
Color = wp.types.vector(3, Scalar)
Double = wp.types.vector(3, wp.float64)

INSIDE = wp.constant(3)
NO_FACE = wp.constant(-1)


@wp.struct
class Run:
    """A triangle seen from the first of a run of pixels; in double precision as `relative`."""

    corners: wp.vec3i
    a: Double  # `relative` corners
    b: Double
    c: Double
    e: Double  # e_i at the first pixel
    slope: Double  # changes by a column
    first: Color  # colors of the corners
    second: Color
    third: Color


@wp.func
def along(p: Double, q: Double):
    """Slope of p × q: its change by a column."""
    return p[1] * q[2] - p[2] * q[1]


@wp.func
def begin_run(clip: wp.array2d[Corner], colors: wp.array2d[Color], faces: wp.array[wp.vec3i], image: int, face: int, x: Scalar, y: Scalar):  # fmt: skip
    run = Run()
    run.corners = faces[face]
    run.a = relative(clip[image, run.corners[0]], x, y)
    run.b = relative(clip[image, run.corners[1]], x, y)
    run.c = relative(clip[image, run.corners[2]], x, y)
    run.e = Double(cross(run.b, run.c), cross(run.c, run.a), cross(run.a, run.b))
    run.slope = Double(along(run.b, run.c), along(run.c, run.a), along(run.a, run.b))
    page = wp.min(image, colors.shape[0] - 1)
    run.first = colors[page, run.corners[0]]
    run.second = colors[page, run.corners[1]]
    run.third = colors[page, run.corners[2]]
    return run


@wp.func
def inner_shares(run: Run, step: int):
    """Barycentrics of the pixel `step` columns after the first."""
    e = run.e + run.slope * wp.float64(step)
    scale = wp.float64(1.0) / (e[0] + e[1] + e[2])
    return Color(Scalar(e[0] * scale), Scalar(e[1] * scale), Scalar(e[2] * scale))


@wp.func
def inner_adjoint(run: Run, step: int, w: Color, by_w: Color):
    """∂loss/∂e of that pixel, from its barycentrics w and ∂loss/∂w."""
    e = run.e + run.slope * wp.float64(step)
    scale = wp.float64(1.0) / (e[0] + e[1] + e[2])
    level = wp.dot(by_w, w)
    return Double(wp.float64(by_w[0] - level), wp.float64(by_w[1] - level), wp.float64(by_w[2] - level)) * scale


@wp.func
def face_of_mark(mark: wp.int64):
    """Face · 4 + side of a mark in the table of the z-buffer, see `unpack` of `fragment_kernels.py`; -1: none."""
    if mark == wp.int64(0):
        return NO_FACE
    low = wp.int32(MAX_KEY - (mark & MAX_KEY))
    if (mark >> wp.int64(32)) < TOUCHED_RANK:
        return low
    return low * 4 + INSIDE


@wp.func
def touched_shares(clip: wp.array2d[Corner], image: int, corners: wp.vec3i, side: int, x: Scalar, y: Scalar):
    """Barycentrics of the point of an edge that is nearest to a pixel."""
    begin = clip[image, corners[side]]
    end = clip[image, corners[(side + 1) % 3]]
    place = at_foot(foot(begin, end, x, y), begin, end, side)
    return Color(place[0], place[1], place[2])


@wp.func
def background_at(background: wp.array4d[Scalar], page: int, row: int, column: int):
    return Color(background[page, 0, row, column], background[page, 1, row, column], background[page, 2, row, column])


@wp.kernel(enable_backward=False)
def paint(
    clip: wp.array2d[Corner],  # (images, vertices), all beyond the near plane
    colors: wp.array2d[Color],  # (images or 1, vertices)
    height: int,
    width: int,
    alpha: wp.array[Scalar],  # (images, rows, columns) as one row: long indices cost more than sums
    background: wp.array4d[Scalar],  # (images or 1, channels, rows or 1, columns or 1)
    faces: wp.array[wp.vec3i],
    key: wp.array[wp.int64],  # (images, rows, columns): see `zbuffer_kernels.py`
    # out
    painted: wp.array[Scalar],  # (images, channels, rows, columns)
):
    line = wp.tid()
    image = line / height
    first = line * width
    plane = height * width
    first_painted = (line + 2 * image * height) * width
    row = line - image * height
    page = wp.min(image, background.shape[0] - 1)
    behind_row = wp.min(row, background.shape[2] - 1)
    y = Scalar(row) + Scalar(0.5)
    behind = background_at(background, page, behind_row, 0)
    varies = background.shape[3] > 1
    column = wp.int32(0)
    while column < width:
        mark = face_of_mark(key[first + column])
        face = mark >> 2
        if mark < 0:
            if varies:
                behind = background_at(background, page, behind_row, column)
            painted[first_painted + column] = behind[0]
            painted[first_painted + plane + column] = behind[1]
            painted[first_painted + 2 * plane + column] = behind[2]
            column += 1
        else:
            start = column
            run = begin_run(clip, colors, faces, image, face, Scalar(column) + Scalar(0.5), y)
            # an inner loop, since what changes under a condition is copied at every turn
            while mark >= 0 and (mark >> 2) == face:
                w = inner_shares(run, column - start)
                if (mark & 3) != INSIDE:
                    w = touched_shares(clip, image, run.corners, mark & 3, Scalar(column) + Scalar(0.5), y)
                if varies:
                    behind = background_at(background, page, behind_row, column)
                color = run.first * w[0] + run.second * w[1] + run.third * w[2]
                color = behind + (color - behind) * alpha[first + column]
                painted[first_painted + column] = color[0]
                painted[first_painted + plane + column] = color[1]
                painted[first_painted + 2 * plane + column] = color[2]
                column += 1
                mark = NO_FACE
                if column < width:
                    mark = face_of_mark(key[first + column])


@wp.func
def add_to_corners(run: Run, g: Double, h: Double, image: int, x: Scalar, y: Scalar, clip_adjoint: wp.array2d[Corner]):
    """Add to the adjoints of the corners of a run, with its first pixel at x, y, from ∂loss/∂e = g and ∂loss/∂slope = h."""
    a = run.a
    b = run.b
    c = run.c
    # e_0 = b × c, e_1 = c × a, e_2 = a × b, and the slopes are linear in the same products
    to_a = Double(g[2] * b[1] - g[1] * c[1], g[1] * c[0] - g[2] * b[0] + h[2] * b[2] - h[1] * c[2], h[1] * c[1] - h[2] * b[1])  # fmt: skip
    to_b = Double(g[0] * c[1] - g[2] * a[1], g[2] * a[0] - g[0] * c[0] + h[0] * c[2] - h[2] * a[2], h[2] * a[1] - h[0] * c[1])  # fmt: skip
    to_c = Double(g[1] * a[1] - g[0] * b[1], g[0] * b[0] - g[1] * a[0] + h[1] * a[2] - h[0] * b[2], h[0] * b[1] - h[1] * a[1])  # fmt: skip
    wp.atomic_add(clip_adjoint, image, run.corners[0], back_to_pixels(to_a, x, y))
    wp.atomic_add(clip_adjoint, image, run.corners[1], back_to_pixels(to_b, x, y))
    wp.atomic_add(clip_adjoint, image, run.corners[2], back_to_pixels(to_c, x, y))


@wp.func
def touched_adjoint(clip: wp.array2d[Corner], image: int, corners: wp.vec3i, side: int, x: Scalar, y: Scalar, g: Color, clip_adjoint: wp.array2d[Corner]):  # fmt: skip
    """Adjoint of `touched_shares`, from ∂loss/∂barycentrics."""
    first = corners[side]
    second = corners[(side + 1) % 3]
    begin = clip[image, first]
    end = clip[image, second]
    point = foot(begin, end, x, y)
    weights = at_foot(point, begin, end, side)
    # w = n d, d = 1 / Σ n, n_b = (1 − s) / z_b, n_e = s / z_e
    mean = g[side] * weights[side] + g[(side + 1) % 3] * weights[(side + 1) % 3]
    to_near = (g[side] - mean) * weights[3]
    to_far = (g[(side + 1) % 3] - mean) * weights[3]
    by_share = to_far / end[2] - to_near / begin[2]
    to_begin = Corner(Scalar(0.0), Scalar(0.0), -to_near * (Scalar(1.0) - point.share) / (begin[2] * begin[2]))
    to_end = Corner(Scalar(0.0), Scalar(0.0), -to_far * point.share / (end[2] * end[2]))
    if point.loose:
        # s = way · along / |along|²
        by_along = (point.way - Scalar(2.0) * point.share * point.along) * (by_share / point.square)
        by_way = point.along * (by_share / point.square)
        to_begin += flat_adjoint(begin, -(by_along + by_way))
        to_end += flat_adjoint(end, by_along)
    wp.atomic_add(clip_adjoint, image, first, to_begin)
    wp.atomic_add(clip_adjoint, image, second, to_end)


@wp.kernel(enable_backward=False)
def paint_adjoint(
    clip: wp.array2d[Corner],
    colors: wp.array2d[Color],
    height: int,
    width: int,
    alpha: wp.array[Scalar],
    background: wp.array4d[Scalar],
    faces: wp.array[wp.vec3i],
    key: wp.array[wp.int64],
    painted_adjoint: wp.array[Scalar],  # (images, channels, rows, columns)
    # out
    clip_adjoint: wp.array2d[Corner],  # zero before
    colors_adjoint: wp.array2d[Color],  # zero before
    alpha_adjoint: wp.array[Scalar],
):
    line = wp.tid()
    image = line / height
    first = line * width
    plane = height * width
    first_painted = (line + 2 * image * height) * width
    row = line - image * height
    page = wp.min(image, background.shape[0] - 1)
    behind_row = wp.min(row, background.shape[2] - 1)
    y = Scalar(row) + Scalar(0.5)
    behind = background_at(background, page, behind_row, 0)
    varies = background.shape[3] > 1
    column = wp.int32(0)
    while column < width:
        mark = face_of_mark(key[first + column])
        face = mark >> 2
        if mark < 0:
            alpha_adjoint[first + column] = Scalar(0.0)
            column += 1
        else:
            start = column
            run = begin_run(clip, colors, faces, image, face, Scalar(column) + Scalar(0.5), y)
            by_e = Double()
            by_slope = Double()
            by_first = Color()
            by_second = Color()
            by_third = Color()
            while mark >= 0 and (mark >> 2) == face:
                w = inner_shares(run, column - start)
                if (mark & 3) != INSIDE:
                    w = touched_shares(clip, image, run.corners, mark & 3, Scalar(column) + Scalar(0.5), y)
                if varies:
                    behind = background_at(background, page, behind_row, column)
                g = Color(
                    painted_adjoint[first_painted + column],
                    painted_adjoint[first_painted + plane + column],
                    painted_adjoint[first_painted + 2 * plane + column],
                )
                color = run.first * w[0] + run.second * w[1] + run.third * w[2]
                alpha_adjoint[first + column] = wp.dot(g, color - behind)
                g = g * alpha[first + column]
                by_first += g * w[0]
                by_second += g * w[1]
                by_third += g * w[2]
                by_w = Color(wp.dot(g, run.first), wp.dot(g, run.second), wp.dot(g, run.third))
                if (mark & 3) == INSIDE:
                    change = inner_adjoint(run, column - start, w, by_w)
                    by_e += change
                    by_slope += change * wp.float64(column - start)
                else:
                    touched_adjoint(clip, image, run.corners, mark & 3, Scalar(column) + Scalar(0.5), y, by_w, clip_adjoint)  # fmt: skip
                column += 1
                mark = NO_FACE
                if column < width:
                    mark = face_of_mark(key[first + column])
            add_to_corners(run, by_e, by_slope, image, Scalar(start) + Scalar(0.5), y, clip_adjoint)
            color_page = wp.min(image, colors_adjoint.shape[0] - 1)
            wp.atomic_add(colors_adjoint, color_page, run.corners[0], by_first)
            wp.atomic_add(colors_adjoint, color_page, run.corners[1], by_second)
            wp.atomic_add(colors_adjoint, color_page, run.corners[2], by_third)
