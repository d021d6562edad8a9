# pyright: reportInvalidTypeForm=false
"""Colors of pixels mixed with those of their four neighbours: a template for `engine.lanes`.

Where bodies cover a part of a pixel only, the near side keeps its share, and the far side gets the rest of the coverage.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Four = wp.types.vector(4, Scalar)  # of the neighbours

LEFT, RIGHT, ABOVE, BELOW = wp.constant(0), wp.constant(1), wp.constant(2), wp.constant(3)
NEAR_SIDE = wp.constant(4)  # the entry behind the four that sums the shares of pixels which show the near side


@wp.func
def row_of(row: int, way: int):
    return row + wp.where(way == BELOW, 1, 0) - wp.where(way == ABOVE, 1, 0)


@wp.func
def column_of(column: int, way: int):
    return column + wp.where(way == RIGHT, 1, 0) - wp.where(way == LEFT, 1, 0)


@wp.struct
class Shares:
    """Shares scale · w of the neighbours in the covered part of a pixel."""

    w: Four
    raw: Scalar  # Σ w
    scale: Scalar
    by_raw: Scalar  # d scale / d raw
    by_near: Scalar  # d scale / d share of pixels that show the near side
    by_alpha: Scalar  # d scale / d alpha


@wp.func
def mixing_shares(shares: wp.array2d[Scalar], alpha: Scalar, k: int):
    """Shares of the neighbours, none below 0 and all together at most 1: where several outlines cross, they may err.

    If the pixel shows the near side, what is not covered is missing from the far side, that is from the neighbours.
    """
    mixing = Shares()
    for way in range(4):
        mixing.w[way] = wp.max(shares[k, way], Scalar(0.0))
        mixing.raw += mixing.w[way]
    if mixing.raw == Scalar(0.0) or alpha <= Scalar(0.0):
        return mixing
    per_area = Scalar(1.0) / (mixing.raw * alpha)
    near = wp.clamp(shares[k, NEAR_SIDE], Scalar(0.0), mixing.raw)
    room = mixing.raw - wp.min(Scalar(1.0) - alpha, near)
    if room >= alpha:
        mixing.scale = Scalar(1.0) / mixing.raw
        mixing.by_raw = -mixing.scale / mixing.raw
        return mixing
    mixing.scale = room * per_area
    if near == mixing.raw and Scalar(1.0) - alpha >= near:
        return mixing
    mixing.by_raw = per_area - mixing.scale / mixing.raw
    mixing.by_alpha = -mixing.scale / alpha
    if Scalar(1.0) - alpha <= near:
        mixing.by_alpha += per_area
    elif near > Scalar(0.0):
        mixing.by_near = -per_area
    return mixing


@wp.func
def neighbour(owner: wp.vec4i, rows: wp.array3d[int], way: int):
    return rows[owner[0], row_of(owner[3], way), column_of(owner[2], way)]


@wp.kernel(enable_backward=False)
def mix(
    colors: wp.array2d[Scalar],  # (fragments, channels)
    shares: wp.array2d[Scalar],
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    owner: wp.array[wp.vec4i],
    rows: wp.array3d[int],
    # out
    mixed: wp.array2d[Scalar],  # a copy of the colors before
):
    k = wp.tid()
    pixel = owner[k]
    mixing = mixing_shares(shares, alpha[pixel[0], pixel[3], pixel[2]], k)
    for way in range(4):
        if mixing.w[way] > Scalar(0.0):
            other = neighbour(pixel, rows, way)
            for c in range(colors.shape[1]):
                mixed[k, c] = mixed[k, c] + mixing.scale * mixing.w[way] * (colors[other, c] - colors[k, c])


@wp.kernel(enable_backward=False)
def mix_adjoint(
    colors: wp.array2d[Scalar],
    shares: wp.array2d[Scalar],
    alpha: wp.array3d[Scalar],
    owner: wp.array[wp.vec4i],
    rows: wp.array3d[int],
    mixed_adjoint: wp.array2d[Scalar],
    # out
    colors_adjoint: wp.array2d[Scalar],  # a copy of `mixed_adjoint` before
    shares_adjoint: wp.array2d[Scalar],  # zero before
    alpha_adjoint: wp.array3d[Scalar],  # zero before
):
    k = wp.tid()
    pixel = owner[k]
    mixing = mixing_shares(shares, alpha[pixel[0], pixel[3], pixel[2]], k)
    if mixing.raw == Scalar(0.0):
        return
    by_w = Four()
    for way in range(4):
        if mixing.w[way] > Scalar(0.0):
            other = neighbour(pixel, rows, way)
            for c in range(colors.shape[1]):
                g = mixed_adjoint[k, c]
                by_w[way] = by_w[way] + g * (colors[other, c] - colors[k, c])
                wp.atomic_add(colors_adjoint, other, c, mixing.scale * mixing.w[way] * g)
                wp.atomic_add(colors_adjoint, k, c, -mixing.scale * mixing.w[way] * g)
    by_scale = wp.dot(by_w, mixing.w)
    for way in range(4):
        if mixing.w[way] > Scalar(0.0):
            shares_adjoint[k, way] = mixing.scale * by_w[way] + mixing.by_raw * by_scale
    shares_adjoint[k, NEAR_SIDE] = mixing.by_near * by_scale
    alpha_adjoint[pixel[0], pixel[3], pixel[2]] = mixing.by_alpha * by_scale
