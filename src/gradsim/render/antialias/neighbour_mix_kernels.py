# pyright: reportInvalidTypeForm=false
"""Colours of pixels mixed with those of their four neighbours: a template for `engine.lanes`.

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
    """Those of the neighbours in what is covered of a pixel are kept · w."""

    w: Four
    raw: Scalar  # Σ w
    kept: Scalar
    by_raw: Scalar  # d kept / d raw
    by_near: Scalar  # d kept / d share of pixels that show the near side
    by_alpha: Scalar  # d kept / d alpha


@wp.func
def allotted(shares: wp.array2d[Scalar], alpha: Scalar, k: int):
    """Shares of the neighbours, none below 0 and all together at most 1: where several outlines cross, they may err.

    If the pixel shows the near side, what is not covered is missing from the far side, that is from the neighbours.
    """
    found = Shares()
    for way in range(4):
        found.w[way] = wp.max(shares[k, way], Scalar(0.0))
        found.raw += found.w[way]
    if found.raw == Scalar(0.0) or alpha <= Scalar(0.0):
        return found
    scale = Scalar(1.0) / (found.raw * alpha)
    near = wp.clamp(shares[k, NEAR_SIDE], Scalar(0.0), found.raw)
    room = found.raw - wp.min(Scalar(1.0) - alpha, near)
    if room >= alpha:
        found.kept = Scalar(1.0) / found.raw
        found.by_raw = -found.kept / found.raw
        return found
    found.kept = room * scale
    if near == found.raw and Scalar(1.0) - alpha >= near:
        return found
    found.by_raw = scale - found.kept / found.raw
    found.by_alpha = -found.kept / alpha
    if Scalar(1.0) - alpha <= near:
        found.by_alpha += scale
    elif near > Scalar(0.0):
        found.by_near = -scale
    return found


@wp.func
def neighbour(owner: wp.vec4i, rows: wp.array3d[int], way: int):
    return rows[owner[0], row_of(owner[3], way), column_of(owner[2], way)]


@wp.kernel(enable_backward=False)
def mix(
    colours: wp.array2d[Scalar],  # (fragments, channels)
    shares: wp.array2d[Scalar],
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    owner: wp.array[wp.vec4i],
    rows: wp.array3d[int],
    # out
    mixed: wp.array2d[Scalar],  # a copy of the colours before
):
    k = wp.tid()
    own = owner[k]
    found = allotted(shares, alpha[own[0], own[3], own[2]], k)
    for way in range(4):
        if found.w[way] > Scalar(0.0):
            other = neighbour(own, rows, way)
            for c in range(colours.shape[1]):
                mixed[k, c] = mixed[k, c] + found.kept * found.w[way] * (colours[other, c] - colours[k, c])


@wp.kernel(enable_backward=False)
def mix_adjoint(
    colours: wp.array2d[Scalar],
    shares: wp.array2d[Scalar],
    alpha: wp.array3d[Scalar],
    owner: wp.array[wp.vec4i],
    rows: wp.array3d[int],
    mixed_adjoint: wp.array2d[Scalar],
    # out
    colours_adjoint: wp.array2d[Scalar],  # a copy of `mixed_adjoint` before
    shares_adjoint: wp.array2d[Scalar],  # zero before
    alpha_adjoint: wp.array3d[Scalar],  # zero before
):
    k = wp.tid()
    own = owner[k]
    found = allotted(shares, alpha[own[0], own[3], own[2]], k)
    if found.raw == Scalar(0.0):
        return
    by_w = Four()
    for way in range(4):
        if found.w[way] > Scalar(0.0):
            other = neighbour(own, rows, way)
            for c in range(colours.shape[1]):
                g = mixed_adjoint[k, c]
                by_w[way] = by_w[way] + g * (colours[other, c] - colours[k, c])
                wp.atomic_add(colours_adjoint, other, c, found.kept * found.w[way] * g)
                wp.atomic_add(colours_adjoint, k, c, -found.kept * found.w[way] * g)
    by_kept = wp.dot(by_w, found.w)
    for way in range(4):
        if found.w[way] > Scalar(0.0):
            shares_adjoint[k, way] = found.kept * by_w[way] + found.by_raw * by_kept
    shares_adjoint[k, NEAR_SIDE] = found.by_near * by_kept
    alpha_adjoint[own[0], own[3], own[2]] = found.by_alpha * by_kept
