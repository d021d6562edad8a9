# pyright: reportInvalidTypeForm=false
"""Soft silhouettes (Liu et al. 2019) and their adjoint: a template for `engine.lanes`.

A face covers a pixel by D = sigmoid(x), x = ± d²/σ with d the distance from its border [px], + inside (Eq. 1), and all
faces together by A = 1 - Π (1 - D) (Eq. 2; the binary loss of no face). With log(1 - A) = -Σ softplus(x),

    ∂A/∂x = (1 - A) D

has no division, where Eq. 2 gives 0/0 inside. Pixels with 1 - A below 4e-18 are covered, and nothing in them has a
derivative. One thread takes one face of one image and goes over the tiles within
its reach; sums over faces are atomic.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import total

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.softras.face_kernels import (
        COLUMNS,
        ROWS,
        Distance,
        Pixel,
        Side,
        add_to,
        distance,
        face_of,
        signed_square,
        tiles_in_row,
    )

SATURATED = wp.constant(Scalar(4.0e-18))  # 1 - A, below which A is 1 in any precision: further faces are left out
MIN_CLEAR = wp.constant(Scalar(1.0e-30))  # its least value, since products below are subnormal (slow)
MAX_EXPONENT = wp.constant(Scalar(40.0))  # e^-40 is negligible against 1, and its square is not subnormal (slow)


@wp.struct
class Reach:
    """Extent of the blur, and culling."""

    sharpness: Scalar  # 1/σ [1/px²]
    cut: Scalar  # -x, beyond which a face does not count
    radius: Scalar  # the distance there [px]
    cull: int  # 1 drops faces turned away, -1 those turned here
    height: int  # of the image [px]
    width: int


@wp.struct
class Cover:
    """Coverage of a tile by a face."""

    softplus: Real  # of x; 0 where the face does not count
    share: Real  # D; 0 where the face does not count


@wp.func(inline=True)
def cover(x: Real, cut: Scalar):
    e = exp(max(zero(0) - abs(x), spread(-MAX_EXPONENT)))
    counts = less(spread(-cut), x)
    d = Cover()
    d.softplus = where(counts, max(x, zero(0)) + log1p(e), zero(0))
    d.share = where(counts, where(less(x, zero(0)), e, spread(Scalar(1.0))) / (e + Scalar(1.0)), zero(0))
    return d


if ROWS * COLUMNS > 1:  # registers are for CPUs, where threads run in turn: a product needs no logarithm

    @wp.func(inline=True)
    def cover_tile(clear: wp.array3d[Real], image: int, row: int, column: int, x: Real, cut: Scalar):
        e = exp(max(zero(0) - abs(x), spread(-MAX_EXPONENT)))
        factor = where(less(x, zero(0)), spread(Scalar(1.0)), e) / (e + Scalar(1.0))
        factor = where(less(spread(-cut), x), factor, spread(Scalar(1.0)))
        clear[image, row, column] = max(clear[image, row, column] * factor, spread(MIN_CLEAR))

    @wp.func(inline=True)
    def is_open(  # pyright: ignore[reportRedeclaration] -- one of both
        clear: wp.array3d[Real], image: int, row: int, column: int
    ):
        return any_lane(less(spread(SATURATED), clear[image, row, column]))

else:

    @wp.func(inline=True)
    def cover_tile(clear: wp.array3d[Real], image: int, row: int, column: int, x: Real, cut: Scalar):
        add_to(clear, image, row, column, cover(x, cut).softplus)

    @wp.func(inline=True)
    def is_open(clear: wp.array3d[Real], image: int, row: int, column: int):
        return True


@wp.struct
class EdgeGradient:
    """Sums of ∂loss/∂d² over the pixels nearest to a side."""

    aside: Real  # times aside
    slid: Real  # times aside and the fraction of the way along the side
    before: Real  # times before
    past: Real  # times past


@wp.func(inline=True)
def add_edge(edge: EdgeGradient, side: Side, d: Distance, g: Real):
    """The sums after another tile with ∂loss/∂d² = g."""
    turn = g * d.aside
    fraction = (d.along - d.before - d.past) * (Scalar(1.0) / side.length)
    edge.aside = edge.aside + turn
    edge.slid = edge.slid + turn * fraction
    edge.before = edge.before + g * d.before
    edge.past = edge.past + g * d.past
    return edge


@wp.func(inline=True)
def if_nearest(other: Real, square: Real, g: Real):
    """g where no other side is nearer than this squared distance, else 0."""
    return where(less(other, square), zero(0), g)


@wp.func(inline=True)
def at_first(edge: EdgeGradient, side: Side):
    """Adjoint of the corner where a side starts: closest points of the side move with it by 1 - fraction."""
    return (side.normal * (total(edge.aside) - total(edge.slid)) + side.direction * total(edge.before)) * Scalar(-2.0)


@wp.func(inline=True)
def at_second(edge: EdgeGradient, side: Side):
    return (side.normal * total(edge.slid) + side.direction * total(edge.past)) * Scalar(-2.0)


@wp.func(inline=True)
def on_screen(p: Pixel):
    return Point(p[0], p[1], Scalar(0.0))


@wp.kernel(enable_backward=False)
def cover_faces(
    screen: wp.array2d[Point],  # (images, vertices): u [px], v [px], depth [m]
    faces: wp.array2d[wp.vec3i],  # (images or 1, faces); a negative one is none
    centers: wp.array[Real],  # x and y of a tile's pixels from its first one [px]
    reach: Reach,
    # out
    clear: wp.array3d[Real],  # Π (1 - D), one before; in tiles of one pixel Σ softplus(x) = -log(1 - A), zero before
):
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centers[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            if is_open(clear, image, row, column):
                x = centers[0] + Scalar((column - face.left) * COLUMNS)
                square = signed_square(distance(face.a, x, y), distance(face.b, x, y), distance(face.c, x, y))
                cover_tile(clear, image, row, column, square * reach.sharpness, reach.cut)


@wp.kernel(enable_backward=False)
def cover_faces_adjoint(
    screen: wp.array2d[Point],
    faces: wp.array2d[wp.vec3i],
    centers: wp.array[Real],
    reach: Reach,
    opaque_adjoint: wp.array3d[Real],
    # out
    screen_adjoint: wp.array2d[Point],  # zero before
):
    """Adjoint of `cover_faces`."""
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    if face.top == face.bottom:
        return
    edge_a = EdgeGradient()
    edge_b = EdgeGradient()
    edge_c = EdgeGradient()
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centers[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            along = opaque_adjoint[image, row, column]
            if not any_lane(less(zero(0), abs(along))):
                continue
            x = centers[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            square = signed_square(a, b, c)
            g = along * cover(square * reach.sharpness, reach.cut).share * reach.sharpness
            g = where(less(square, zero(0)), zero(0) - g, g)
            at_a = if_nearest(min(b.square, c.square), a.square, g)
            at_b = if_nearest(c.square, b.square, g - at_a)
            edge_a = add_edge(edge_a, face.a, a, at_a)
            edge_b = add_edge(edge_b, face.b, b, at_b)
            edge_c = add_edge(edge_c, face.c, c, g - at_a - at_b)
    wp.atomic_add(screen_adjoint, image, corners[0], on_screen(at_second(edge_b, face.b) + at_first(edge_c, face.c)))
    wp.atomic_add(screen_adjoint, image, corners[1], on_screen(at_second(edge_c, face.c) + at_first(edge_a, face.a)))
    wp.atomic_add(screen_adjoint, image, corners[2], on_screen(at_second(edge_a, face.a) + at_first(edge_b, face.b)))
