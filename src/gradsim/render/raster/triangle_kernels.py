# pyright: reportInvalidTypeForm=false
"""Distances of pixels from triangles on the screen: a template for `engine.lanes`."""

import warp as wp

from gradsim.engine.lanes import Scalar

Corner = wp.types.vector(3, Scalar)  # u, v [px] and depth [m]
Flat = wp.types.vector(2, Scalar)  # [px]

MAX_COORDINATE = wp.constant(Scalar(1.0e9))  # [px] beyond it, whole numbers overflow

NONE, BACK, FRONT = wp.constant(0), wp.constant(1), wp.constant(2)  # which faces are left out


@wp.struct
class Nearest:
    square: Scalar  # distance squared [px²]
    share: Scalar  # how far along the edge the nearest point is
    away: Flat  # from that point to the pixel [px]
    edge: int


@wp.struct
class Box:
    left: int
    top: int
    right: int  # one after the last
    bottom: int


@wp.func
def reach(a: Corner, b: Corner, c: Corner, radius: Scalar, near: Scalar, cull: int, height: int, width: int):
    """Pixels whose centres may be within a radius of a triangle [px]; none of one not wholly before the near plane."""
    box = Box()
    low_x = wp.min(a[0], wp.min(b[0], c[0]))
    high_x = wp.max(a[0], wp.max(b[0], c[0]))
    low_y = wp.min(a[1], wp.min(b[1], c[1]))
    high_y = wp.max(a[1], wp.max(b[1], c[1]))
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    # negated, so that what is not a number leaves
    if not (a[2] >= near and b[2] >= near and c[2] >= near and low_x >= -MAX_COORDINATE and high_x <= MAX_COORDINATE and low_y >= -MAX_COORDINATE and high_y <= MAX_COORDINATE):  # fmt: skip
        return box
    # seen from outside, corners run counter-clockwise to the eye, and y points down
    if (cull == BACK and area >= Scalar(0.0)) or (cull == FRONT and area <= Scalar(0.0)):
        return box
    box.left = int(wp.ceil(wp.clamp(low_x - radius - Scalar(0.5), Scalar(0.0), Scalar(width))))
    box.top = int(wp.ceil(wp.clamp(low_y - radius - Scalar(0.5), Scalar(0.0), Scalar(height))))
    box.right = int(wp.floor(wp.clamp(high_x + radius - Scalar(0.5), Scalar(-1.0), Scalar(width - 1)))) + 1
    box.bottom = int(wp.floor(wp.clamp(high_y + radius - Scalar(0.5), Scalar(-1.0), Scalar(height - 1)))) + 1
    return box


@wp.func
def to_segment(p: Flat, a: Corner, b: Corner, edge: int):
    along = Flat(b[0] - a[0], b[1] - a[1])
    from_a = Flat(p[0] - a[0], p[1] - a[1])
    square = wp.dot(along, along)
    point = Nearest()
    if square > Scalar(0.0):
        point.share = wp.clamp(wp.dot(from_a, along) / square, Scalar(0.0), Scalar(1.0))
    point.away = from_a - point.share * along
    point.square = wp.dot(point.away, point.away)
    point.edge = edge
    return point


@wp.func
def to_border(p: Flat, a: Corner, b: Corner, c: Corner):
    """The nearest point of the border of a triangle."""
    first = to_segment(p, a, b, 0)
    second = to_segment(p, b, c, 1)
    third = to_segment(p, c, a, 2)
    if second.square < first.square:
        first = second
    if third.square < first.square:
        first = third
    return first


@wp.func
def centre(row: int, column: int):
    return Flat(Scalar(column) + Scalar(0.5), Scalar(row) + Scalar(0.5))
