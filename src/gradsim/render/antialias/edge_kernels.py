# pyright: reportInvalidTypeForm=false
"""Edges at which pixels are divided, outlines and creases: a template for `engine.lanes`."""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import Scalar

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.coverage.edge_kernels import Edge, jump, straight
    from gradsim.render.raster.fragment_kernels import behind

Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z), or u, v [px] and depth [m]
Point = wp.types.vector(2, Scalar)  # x to the right, y down [px]

MAX_COORDINATE = wp.constant(Scalar(1.0e9))  # [px] beyond it, whole numbers overflow
# [px] distance from an edge at which its outer side is sampled; in double precision
MAX_SIDE_DISTANCE = wp.constant(Scalar(1.0e-9))


@wp.kernel(enable_backward=False)
def turns(
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],  # (images, faces)
    # out
    turn: wp.array2d[int],  # (images, edges): see `jump`
):
    thread = wp.tid()
    image = thread / edges.shape[0]
    k = thread - image * edges.shape[0]
    turn[image, k] = jump(edges, front, image, k)


@wp.struct
class Border:
    """An edge over which layers change, or a crease: then the inner side is that of its face, not of its back."""

    used: bool
    edge: Edge
    first_depth: Scalar  # of its ends [m]
    second_depth: Scalar
    face: int  # the adjacent faces; -1: none
    back: int
    part: int
    image: int
    crease: bool


@wp.func
def end_of(h: Corner, other: Corner, near: Scalar):
    """u, v and depth of an end of an edge, or of where it crosses the near plane."""
    p = h + behind(h, other, near) * (other - h)
    return Corner(p[0] / p[2], p[1] / p[2], p[2])


@wp.func
def border(clip: wp.array2d[Corner], edges: wp.array[wp.vec4i], turn: wp.array2d[int], part_of: wp.array[int], near: Scalar, listed: wp.vec3i):  # fmt: skip
    border_edge = Border()
    image = listed[0]
    k = listed[1]
    ends = edges[k]
    first = clip[image, ends[0]]
    second = clip[image, ends[1]]
    if not (first[2] >= near or second[2] >= near):
        return border_edge
    a = end_of(first, second, near)
    b = end_of(second, first, near)
    inside = (
        wp.abs(a[0]) <= MAX_COORDINATE
        and wp.abs(a[1]) <= MAX_COORDINATE
        and wp.abs(b[0]) <= MAX_COORDINATE
        and wp.abs(b[1]) <= MAX_COORDINATE
    )
    if not inside or (a[0] == b[0] and a[1] == b[1]):
        return border_edge
    edge = Edge()
    edge.first = ends[0]
    edge.second = ends[1]
    border_edge.crease = listed[2] != 0
    edge.sign = wp.where(turn[image, k] + listed[2] > 0, Scalar(1.0), Scalar(-1.0))
    if b[1] < a[1]:
        edge.first = ends[1]
        edge.second = ends[0]
        edge.sign = -edge.sign
        swapped = a
        a = b
        b = swapped
    edge.top = Point(a[0], a[1])
    edge.bottom = Point(b[0], b[1])
    border_edge.edge = straight(edge)
    border_edge.used = True
    border_edge.first_depth = a[2]
    border_edge.second_depth = b[2]
    border_edge.face = ends[2]
    border_edge.back = ends[3]
    border_edge.part = part_of[wp.max(ends[2], ends[3])]
    border_edge.image = image
    return border_edge


@wp.func
def is_outline(clip: wp.array2d[Corner], near: Scalar, edges: wp.array[wp.vec4i], turn: wp.array2d[int], part_of: wp.array[int], outline: wp.array[wp.vec2i], begin: wp.array[int], border_edge: Border, p: Point):  # fmt: skip
    """True if no layer of the edge's own part is adjacent to its point p on the outer side."""
    q = p - border_edge.edge.normal * (border_edge.edge.sign * MAX_SIDE_DISTANCE / wp.length(border_edge.edge.normal))
    layers = wp.int32(0)
    for m in range(begin[border_edge.image], begin[border_edge.image + 1]):
        k = outline[m][1]
        ends = edges[k]
        if part_of[wp.max(ends[2], ends[3])] != border_edge.part:
            continue
        first = clip[border_edge.image, ends[0]]
        second = clip[border_edge.image, ends[1]]
        if not (first[2] >= near or second[2] >= near):
            continue
        a = end_of(first, second, near)
        b = end_of(second, first, near)
        if (a[1] <= q[1]) == (b[1] <= q[1]) or (a[0] > q[0] and b[0] > q[0]):
            continue
        right = (b[0] - a[0]) * (q[1] - a[1]) - (q[0] - a[0]) * (b[1] - a[1])
        if b[1] < a[1]:
            right = -right
        if right < Scalar(0.0):
            layers += wp.where(b[1] < a[1], -turn[border_edge.image, k], turn[border_edge.image, k])
    return layers == 0
