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

FAR = wp.constant(Scalar(1.0e9))  # [px] beyond it, whole numbers overflow
BEHIND = wp.constant(Scalar(1.00001))  # by so much a pixel has to be farther away than an edge before it


@wp.struct
class Crossing:
    used: bool
    target: wp.vec2i  # row and column of the pixel that the edge cuts
    other: wp.vec2i
    share: Scalar  # of the other's colour in the target
    slope: Scalar  # d share / d place of the crossing
    fraction: Scalar  # of the edge at the crossing


@wp.func
def crossing(a: Corner, b: Corner, axis: int, line: int, left_is_inner: bool, depth: wp.array3d[Scalar], image: int):
    """How an edge cuts a line of pixels: a row if axis is 0, a column if it is 1."""
    found = Crossing()
    across = 1 - axis
    along = (Scalar(line) + Scalar(0.5) - a[across]) / (b[across] - a[across])
    place = a[axis] + along * (b[axis] - a[axis]) - Scalar(0.5)
    size = depth.shape[2 - axis]
    if not (place >= Scalar(0.0) and place < Scalar(size - 1)):
        return found
    before = int(wp.floor(place))
    f = place - Scalar(before)
    low = wp.vec2i(line, before)
    high = wp.vec2i(line, before + 1)
    if axis == 1:
        low = wp.vec2i(before, line)
        high = wp.vec2i(before + 1, line)
    # the way from the inner pixel to the crossing
    way = wp.where(left_is_inner, f, Scalar(1.0) - f)
    inner = low
    outer = high
    if not left_is_inner:
        inner = high
        outer = low
    near = depth[image, inner[0], inner[1]]
    far = depth[image, outer[0], outer[1]]
    here = Scalar(1.0) / ((Scalar(1.0) - along) / a[2] + along / b[2])
    # depth 0: nothing is seen there, and alpha takes care of the edge
    if not (near > Scalar(0.0) and far > here * BEHIND and near <= far):
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
    colours: wp.array4d[Scalar],  # (images, rows, columns, channels)
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    depth: wp.array3d[Scalar],  # [m], 0 where nothing is seen
    near: wp.array[Scalar],  # [m]
    # out
    image_out: wp.array4d[Scalar],  # a copy of the colours before
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
    span = lines(wp.min(a[across], b[across]), wp.max(a[across], b[across]), depth.shape[1 + axis])
    for line in range(span[0], span[1]):
        cut = crossing(a, b, axis, line, inner_low, depth, image)
        if cut.used:
            for c in range(colours.shape[3]):
                difference = colours[image, cut.other[0], cut.other[1], c] - colours[image, cut.target[0], cut.target[1], c]  # fmt: skip
                wp.atomic_add(image_out, image, cut.target[0], cut.target[1], c, cut.share * difference)


@wp.kernel(enable_backward=False)
def smooth_adjoint(
    screen: wp.array2d[Corner],
    colours: wp.array4d[Scalar],
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    depth: wp.array3d[Scalar],
    near: wp.array[Scalar],
    image_adjoint: wp.array4d[Scalar],
    # out
    screen_adjoint: wp.array2d[Corner],  # zero before
    colours_adjoint: wp.array4d[Scalar],  # a copy of the image's adjoint before
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
    span = lines(wp.min(a[across], b[across]), wp.max(a[across], b[across]), depth.shape[1 + axis])
    to_a = Corner()
    to_b = Corner()
    lean = (b[axis] - a[axis]) / (b[across] - a[across])
    for line in range(span[0], span[1]):
        cut = crossing(a, b, axis, line, inner_low, depth, image)
        if cut.used:
            by_place = Scalar(0.0)
            for c in range(colours.shape[3]):
                g = image_adjoint[image, cut.target[0], cut.target[1], c]
                difference = colours[image, cut.other[0], cut.other[1], c] - colours[image, cut.target[0], cut.target[1], c]  # fmt: skip
                by_place += g * difference * cut.slope
                wp.atomic_add(colours_adjoint, image, cut.other[0], cut.other[1], c, cut.share * g)
                wp.atomic_add(colours_adjoint, image, cut.target[0], cut.target[1], c, -cut.share * g)
            # the crossing moves with the edge, along its line: d place = (1 − t) (da − lean da') + t (db − lean db')
            near_a = (Scalar(1.0) - cut.fraction) * by_place
            near_b = cut.fraction * by_place
            to_a[axis] = to_a[axis] + near_a
            to_a[across] = to_a[across] - near_a * lean
            to_b[axis] = to_b[axis] + near_b
            to_b[across] = to_b[across] - near_b * lean
    wp.atomic_add(screen_adjoint, image, edges[k][0], to_a)
    wp.atomic_add(screen_adjoint, image, edges[k][1], to_b)
