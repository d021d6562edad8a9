# ruff: noqa: F821
"""Blending of pixels across edges that lie before something else: a template for `engine.lanes`.

Where an edge over which layers change (`coverage_kernels.py`) crosses the line between the centres of two neighbouring
pixels, at a distance f from the inner one, the pixel that it cuts shows |f − ½| of the other (the idea of Laine et al.
2020, Sec. 3.6, by edges instead of pixels: so it does not depend on how small triangles are). Steep edges join pixels
of a row, flat ones of a column.

Left open for `specialise`: jump of `coverage_kernels.py`.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Corner = wp.types.vector(3, Scalar)  # u, v [px] and depth [m]
Place = wp.types.vector(4, Scalar)  # barycentrics and depth [m]

FAR = wp.constant(Scalar(1.0e9))  # [px] beyond it, whole numbers overflow
INSIDE = wp.constant(3)
BEHIND = wp.constant(Scalar(1.00001))  # by so much a pixel has to be farther away than an edge before it


@wp.struct
class Crossing:
    used: bool
    target: int  # fragment of the pixel that the edge cuts
    other: int
    share: Scalar  # of the other's colour in the target
    slope: Scalar  # d share / d place of the crossing
    fraction: Scalar  # of the edge at the crossing


@wp.func
def crossing(a: Corner, b: Corner, axis: int, line: int, left_is_inner: bool, rows: wp.array3d[int], place: wp.array[Place], side: wp.array[int], image: int):  # fmt: skip
    """How an edge cuts a line of pixels: a row if axis is 0, a column if it is 1."""
    found = Crossing()
    across = 1 - axis
    along = (Scalar(line) + Scalar(0.5) - a[across]) / (b[across] - a[across])
    cut = a[axis] + along * (b[axis] - a[axis]) - Scalar(0.5)
    size = rows.shape[2 - axis]
    if not (cut >= Scalar(0.0) and cut < Scalar(size - 1)):
        return found
    before = int(wp.floor(cut))
    f = cut - Scalar(before)
    low = wp.int32(0)
    high = wp.int32(0)
    if axis == 0:
        low = rows[image, line, before]
        high = rows[image, line, before + 1]
    else:
        low = rows[image, before, line]
        high = rows[image, before + 1, line]
    # where a centre is not covered, alpha takes care of the edge
    if low < 0 or high < 0 or side[wp.max(low, 0)] != INSIDE or side[wp.max(high, 0)] != INSIDE:
        return found
    # the way from the inner pixel to the crossing
    way = wp.where(left_is_inner, f, Scalar(1.0) - f)
    inner = low
    outer = high
    if not left_is_inner:
        inner = high
        outer = low
    near = place[inner][3]
    far = place[outer][3]
    here = Scalar(1.0) / ((Scalar(1.0) - along) / a[2] + along / b[2])
    if not (far > here * BEHIND and near <= far):
        return found
    found.used = True
    found.fraction = along
    found.slope = wp.where(left_is_inner, Scalar(1.0), Scalar(-1.0))
    if way < Scalar(0.5):
        found.target = inner
        found.other = outer
        found.share = Scalar(0.5) - way
        found.slope = -found.slope
    else:
        found.target = outer
        found.other = inner
        found.share = way - Scalar(0.5)
    return found


@wp.func
def lines(low: Scalar, high: Scalar, size: int):
    """First and one after the last of the pixel centres in [low, high)."""
    first = int(wp.ceil(wp.clamp(low - Scalar(0.5), Scalar(0.0), Scalar(size))))
    after = int(wp.ceil(wp.clamp(high - Scalar(0.5), Scalar(0.0), Scalar(size))))
    return wp.vec2i(first, after)


@wp.func
def usable(a: Corner, b: Corner, near: Scalar):
    inside = wp.abs(a[0]) <= FAR and wp.abs(a[1]) <= FAR and wp.abs(b[0]) <= FAR and wp.abs(b[1]) <= FAR
    return inside and a[2] >= near and b[2] >= near


@wp.kernel(enable_backward=False)
def smooth(
    screen: wp.array2d[Corner],  # (images, vertices)
    colours: wp.array2d[Scalar],  # (fragments, channels)
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    rows: wp.array3d[int],  # number of the fragment at each pixel, -1: none
    place: wp.array[Place],
    side: wp.array[int],
    near: wp.array[Scalar],  # [m]
    # out
    smoothed: wp.array2d[Scalar],  # a copy of the colours before
):
    thread = wp.tid()
    image = thread / edges.shape[0]
    k = thread - image * edges.shape[0]
    turn = jump(edges, front, image, k)
    a = screen[image, edges[k][0]]
    b = screen[image, edges[k][1]]
    if turn == 0 or not usable(a, b, near[0]):
        return
    axis = wp.where(wp.abs(b[1] - a[1]) >= wp.abs(b[0] - a[0]), 0, 1)
    across = 1 - axis
    # more layers on the left of the way from a to b, to the eye; y points down
    inner_low = ((b[across] > a[across]) == (turn < 0)) == (axis == 0)
    span = lines(wp.min(a[across], b[across]), wp.max(a[across], b[across]), rows.shape[1 + axis])
    for line in range(span[0], span[1]):
        cut = crossing(a, b, axis, line, inner_low, rows, place, side, image)
        if cut.used:
            for c in range(colours.shape[1]):
                difference = colours[cut.other, c] - colours[cut.target, c]
                wp.atomic_add(smoothed, cut.target, c, cut.share * difference)


@wp.kernel(enable_backward=False)
def smooth_adjoint(
    screen: wp.array2d[Corner],
    colours: wp.array2d[Scalar],
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    rows: wp.array3d[int],
    place: wp.array[Place],
    side: wp.array[int],
    near: wp.array[Scalar],
    smoothed_adjoint: wp.array2d[Scalar],
    # out
    screen_adjoint: wp.array2d[Corner],  # zero before
    colours_adjoint: wp.array2d[Scalar],  # a copy of `smoothed_adjoint` before
):
    thread = wp.tid()
    image = thread / edges.shape[0]
    k = thread - image * edges.shape[0]
    turn = jump(edges, front, image, k)
    a = screen[image, edges[k][0]]
    b = screen[image, edges[k][1]]
    if turn == 0 or not usable(a, b, near[0]):
        return
    axis = wp.where(wp.abs(b[1] - a[1]) >= wp.abs(b[0] - a[0]), 0, 1)
    across = 1 - axis
    inner_low = ((b[across] > a[across]) == (turn < 0)) == (axis == 0)
    span = lines(wp.min(a[across], b[across]), wp.max(a[across], b[across]), rows.shape[1 + axis])
    to_a = Corner()
    to_b = Corner()
    lean = (b[axis] - a[axis]) / (b[across] - a[across])
    for line in range(span[0], span[1]):
        cut = crossing(a, b, axis, line, inner_low, rows, place, side, image)
        if cut.used:
            by_place = Scalar(0.0)
            for c in range(colours.shape[1]):
                g = smoothed_adjoint[cut.target, c]
                difference = colours[cut.other, c] - colours[cut.target, c]
                by_place += g * difference * cut.slope
                wp.atomic_add(colours_adjoint, cut.other, c, cut.share * g)
                wp.atomic_add(colours_adjoint, cut.target, c, -cut.share * g)
            # the crossing moves with the edge, along its line: d place = (1 − t) (da − lean da') + t (db − lean db')
            near_a = (Scalar(1.0) - cut.fraction) * by_place
            near_b = cut.fraction * by_place
            to_a[axis] = to_a[axis] + near_a
            to_a[across] = to_a[across] - near_a * lean
            to_b[axis] = to_b[axis] + near_b
            to_b[across] = to_b[across] - near_b * lean
    wp.atomic_add(screen_adjoint, image, edges[k][0], to_a)
    wp.atomic_add(screen_adjoint, image, edges[k][1], to_b)
