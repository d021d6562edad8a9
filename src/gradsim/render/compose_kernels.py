"""Fragments onto a picture: a template for `engine.lanes`.

Pictures are one row of numbers here, since long indices cost more than the sums.
"""

import warp as wp

from gradsim.engine.lanes import Scalar


@wp.kernel(enable_backward=False)
def compose(
    colours: wp.array[Scalar],  # (fragments, channels)
    channels: int,
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    # out
    picture: wp.array[Scalar],  # (images, channels, rows, columns); the background before
):
    k = wp.tid()
    own = owner[k]
    share = alpha[own[0], own[3], own[2]]
    plane = alpha.shape[1] * alpha.shape[2]
    at = plane * channels * own[0] + alpha.shape[2] * own[3] + own[2]
    for c in range(channels):
        under = picture[at]
        picture[at] = under + share * (colours[channels * k + c] - under)
        at += plane


@wp.kernel(enable_backward=False)
def compose_adjoint(
    colours: wp.array[Scalar],
    channels: int,
    alpha: wp.array3d[Scalar],
    owner: wp.array[wp.vec4i],
    background: wp.array4d[Scalar],  # (images or 1, channels, rows or 1, columns or 1)
    picture_adjoint: wp.array[Scalar],
    # out
    colours_adjoint: wp.array[Scalar],
    alpha_adjoint: wp.array3d[Scalar],  # zero before
):
    k = wp.tid()
    own = owner[k]
    page = wp.where(background.shape[0] == 1, 0, own[0])
    row = wp.where(background.shape[2] == 1, 0, own[3])
    column = wp.where(background.shape[3] == 1, 0, own[2])
    share = alpha[own[0], own[3], own[2]]
    plane = alpha.shape[1] * alpha.shape[2]
    at = plane * channels * own[0] + alpha.shape[2] * own[3] + own[2]
    total = Scalar(0.0)
    for c in range(channels):
        g = picture_adjoint[at]
        colours_adjoint[channels * k + c] = g * share
        total += g * (colours[channels * k + c] - background[page, c, row, column])
        at += plane
    alpha_adjoint[own[0], own[3], own[2]] = total
