# pyright: reportInvalidTypeForm=false
"""Soft silhouettes (Liu et al. 2019) and their adjoint: a template for `engine.lanes`.

A face covers a pixel by D = sigmoid(x), x = ± d²/σ with d the distance from its border [px], + inside (Eq. 1), and all
faces together by A = 1 - Π (1 - D) (Eq. 2; the binary loss of no face). With log(1 - A) = -Σ softplus(x),

    ∂A/∂x = (1 - A) D

has no division, where Eq. 2 gives 0/0 inside. One thread takes one face of one image and goes over the tiles within
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

STEEP = wp.constant(Scalar(40.0))  # e^-40 is nothing beside 1, and its square is no subnormal number, which are slow


@wp.struct
class Reach:
    """How far faces blur, and which of them count."""

    sharpness: Scalar  # 1/σ [1/px²]
    cut: Scalar  # -x, beyond which a face does not count
    radius: Scalar  # the distance there [px]
    cull: int  # 1 drops faces turned away, -1 those turned here
    height: int  # of the image [px]
    width: int


@wp.struct
class Cover:
    """Of a tile by a face."""

    softplus: Real  # of x; 0 where the face does not count
    share: Real  # D; 0 where the face does not count


@wp.func(inline=True)
def cover(x: Real, cut: Scalar):
    e = exp(max(zero(0) - abs(x), spread(-STEEP)))
    counts = less(spread(-cut), x)
    d = Cover()
    d.softplus = where(counts, max(x, zero(0)) + log1p(e), zero(0))
    d.share = where(counts, where(less(x, zero(0)), e, spread(Scalar(1.0))) / (e + Scalar(1.0)), zero(0))
    return d


@wp.struct
class EdgeGradient:
    """Sums over the pixels nearest to a side, of what the loss changes by d² there."""

    aside: Real  # times aside
    slid: Real  # times aside and the fraction of the way along the side
    before: Real  # times before
    past: Real  # times past


@wp.func(inline=True)
def pulled(pull: EdgeGradient, side: Side, d: Distance, g: Real):
    """The sums with another tile, where the loss changes by g d²."""
    turn = g * d.aside
    fraction = (d.along - d.before - d.past) * (Scalar(1.0) / side.length)
    pull.aside = pull.aside + turn
    pull.slid = pull.slid + turn * fraction
    pull.before = pull.before + g * d.before
    pull.past = pull.past + g * d.past
    return pull


@wp.func(inline=True)
def unless(other: Real, square: Real, g: Real):
    """g where no other side is nearer than the one at this squared distance, else 0."""
    return where(less(other, square), zero(0), g)


@wp.func(inline=True)
def at_first(pull: EdgeGradient, side: Side):
    """Adjoint of the corner where a side starts: closest points of the side move with it by 1 - fraction."""
    return (side.normal * (total(pull.aside) - total(pull.slid)) + side.direction * total(pull.before)) * Scalar(-2.0)


@wp.func(inline=True)
def at_second(pull: EdgeGradient, side: Side):
    return (side.normal * total(pull.slid) + side.direction * total(pull.past)) * Scalar(-2.0)


@wp.func(inline=True)
def on_screen(p: Pixel):
    return Point(p[0], p[1], Scalar(0.0))


@wp.kernel(enable_backward=False)
def blend(
    screen: wp.array2d[Point],  # (images, vertices): u [px], v [px], depth [m]
    faces: wp.array2d[wp.vec3i],  # (images or 1, faces); a negative one is none
    centres: wp.array[Real],  # x and y of a tile's pixels from its first one [px]
    reach: Reach,
    # out
    opaque: wp.array3d[Real],  # Σ softplus(x) = -log(1 - A), (images, tiles down, tiles across), zero before
):
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centres[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centres[0] + Scalar((column - face.left) * COLUMNS)
            square = signed_square(distance(face.a, x, y), distance(face.b, x, y), distance(face.c, x, y))
            add_to(opaque, image, row, column, cover(square * reach.sharpness, reach.cut).softplus)


@wp.kernel(enable_backward=False)
def blend_adjoint(
    screen: wp.array2d[Point],
    faces: wp.array2d[wp.vec3i],
    centres: wp.array[Real],
    reach: Reach,
    opaque_adjoint: wp.array3d[Real],
    # out
    screen_adjoint: wp.array2d[Point],  # zero before
):
    """Adjoint of `blend`."""
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    if face.top == face.bottom:
        return
    pull_a = EdgeGradient()
    pull_b = EdgeGradient()
    pull_c = EdgeGradient()
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centres[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centres[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            square = signed_square(a, b, c)
            g = opaque_adjoint[image, row, column] * cover(square * reach.sharpness, reach.cut).share * reach.sharpness
            g = where(less(square, zero(0)), zero(0) - g, g)
            at_a = unless(min(b.square, c.square), a.square, g)
            at_b = unless(c.square, b.square, g - at_a)
            pull_a = pulled(pull_a, face.a, a, at_a)
            pull_b = pulled(pull_b, face.b, b, at_b)
            pull_c = pulled(pull_c, face.c, c, g - at_a - at_b)
    wp.atomic_add(screen_adjoint, image, corners[0], on_screen(at_second(pull_b, face.b) + at_first(pull_c, face.c)))
    wp.atomic_add(screen_adjoint, image, corners[1], on_screen(at_second(pull_c, face.c) + at_first(pull_a, face.a)))
    wp.atomic_add(screen_adjoint, image, corners[2], on_screen(at_second(pull_a, face.a) + at_first(pull_b, face.b)))
