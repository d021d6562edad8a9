"""Fragments onto a picture: a template for `engine.lanes`."""

import warp as wp

from gradsim.engine.lanes import Scalar


@wp.kernel(enable_backward=False)
def compose(
    colours: wp.array2d[Scalar],  # (fragments, channels)
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    # out
    picture: wp.array4d[Scalar],  # (images, channels, rows, columns); the background before
):
    k = wp.tid()
    own = owner[k]
    share = alpha[own[0], own[3], own[2]]
    for c in range(picture.shape[1]):
        under = picture[own[0], c, own[3], own[2]]
        picture[own[0], c, own[3], own[2]] = under + share * (colours[k, c] - under)


@wp.kernel(enable_backward=False)
def compose_adjoint(
    colours: wp.array2d[Scalar],
    alpha: wp.array3d[Scalar],
    owner: wp.array[wp.vec4i],
    background: wp.array4d[Scalar],  # (images or 1, channels, rows or 1, columns or 1)
    picture_adjoint: wp.array4d[Scalar],
    # out
    colours_adjoint: wp.array2d[Scalar],
    alpha_adjoint: wp.array3d[Scalar],  # zero before
):
    k = wp.tid()
    own = owner[k]
    page = wp.where(background.shape[0] == 1, 0, own[0])
    row = wp.where(background.shape[2] == 1, 0, own[3])
    column = wp.where(background.shape[3] == 1, 0, own[2])
    share = alpha[own[0], own[3], own[2]]
    total = Scalar(0.0)
    for c in range(colours.shape[1]):
        g = picture_adjoint[own[0], c, own[3], own[2]]
        colours_adjoint[k, c] = g * share
        total += g * (colours[k, c] - background[page, c, row, column])
    alpha_adjoint[own[0], own[3], own[2]] = total
