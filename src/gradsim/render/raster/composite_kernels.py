# pyright: reportInvalidTypeForm=false
"""Fragments onto a picture: a template for `engine.lanes`.

Pictures are one row of numbers here, since long indices cost more than the sums. Channels of fragments come in threes.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Three = wp.types.vector(3, Scalar)  # channels


@wp.kernel(enable_backward=False)
def compose(
    colours: wp.array[Three],  # (fragments, groups)
    groups: int,
    channels: int,  # of the picture; those beyond are padding
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    # out
    picture: wp.array[Scalar],  # (images, channels, rows, columns); the background before
):
    k = wp.tid()
    own = owner[k]
    share = alpha[own[0], own[3], own[2]]
    plane = alpha.shape[1] * alpha.shape[2]
    first = plane * channels * own[0] + alpha.shape[2] * own[3] + own[2]
    for g in range(groups):
        colour = colours[groups * k + g]
        for i in range(3):
            c = 3 * g + i
            if c < channels:
                under = picture[first + plane * c]
                picture[first + plane * c] = under + share * (colour[i] - under)


@wp.kernel(enable_backward=False)
def compose_adjoint(
    colours: wp.array[Three],
    groups: int,
    channels: int,
    alpha: wp.array3d[Scalar],
    owner: wp.array[wp.vec4i],
    background: wp.array4d[Scalar],  # (images or 1, channels, rows or 1, columns or 1)
    picture_adjoint: wp.array[Scalar],
    # out
    colours_adjoint: wp.array[Three],
    alpha_adjoint: wp.array3d[Scalar],  # zero before
):
    k = wp.tid()
    own = owner[k]
    page = wp.where(background.shape[0] == 1, 0, own[0])
    row = wp.where(background.shape[2] == 1, 0, own[3])
    column = wp.where(background.shape[3] == 1, 0, own[2])
    share = alpha[own[0], own[3], own[2]]
    plane = alpha.shape[1] * alpha.shape[2]
    first = plane * channels * own[0] + alpha.shape[2] * own[3] + own[2]
    total = Scalar(0.0)
    for group in range(groups):
        colour = colours[groups * k + group]
        by_colour = Three()
        for i in range(3):
            c = 3 * group + i
            if c < channels:
                g = picture_adjoint[first + plane * c]
                by_colour[i] = g * share
                total += g * (colour[i] - background[page, c, row, column])
        colours_adjoint[groups * k + group] = by_colour
    alpha_adjoint[own[0], own[3], own[2]] = total
