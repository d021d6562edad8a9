"""Fragments onto a picture: a template for `engine.lanes`."""

import warp as wp

from gradsim.engine.lanes import Scalar


@wp.kernel(enable_backward=False)
def compose(
    colours: wp.array2d[Scalar],  # (fragments, channels)
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    background: wp.array4d[Scalar],  # (images or 1, channels, rows or 1, columns or 1)
    rows: wp.array3d[int],  # number of the fragment at each pixel, -1: none
    # out
    picture: wp.array4d[Scalar],  # (images, channels, rows, columns)
):
    line = wp.tid()
    image = line / alpha.shape[1]
    row = line - image * alpha.shape[1]
    page = wp.where(background.shape[0] == 1, 0, image)
    behind = wp.where(background.shape[2] == 1, 0, row)
    for column in range(alpha.shape[2]):
        k = rows[image, row, column]
        share = alpha[image, row, column]
        for c in range(picture.shape[1]):
            under = background[page, c, behind, wp.where(background.shape[3] == 1, 0, column)]
            if k >= 0:
                picture[image, c, row, column] = under + share * (colours[k, c] - under)
            else:
                picture[image, c, row, column] = under


@wp.kernel(enable_backward=False)
def compose_adjoint(
    colours: wp.array2d[Scalar],
    alpha: wp.array3d[Scalar],
    background: wp.array4d[Scalar],
    rows: wp.array3d[int],
    picture_adjoint: wp.array4d[Scalar],
    # out
    colours_adjoint: wp.array2d[Scalar],  # written for every fragment
    alpha_adjoint: wp.array3d[Scalar],
    background_adjoint: wp.array4d[Scalar],  # zero before
):
    line = wp.tid()
    image = line / alpha.shape[1]
    row = line - image * alpha.shape[1]
    page = wp.where(background.shape[0] == 1, 0, image)
    behind = wp.where(background.shape[2] == 1, 0, row)
    for column in range(alpha.shape[2]):
        k = rows[image, row, column]
        share = alpha[image, row, column]
        aside = wp.where(background.shape[3] == 1, 0, column)
        by_alpha = Scalar(0.0)
        for c in range(picture_adjoint.shape[1]):
            g = picture_adjoint[image, c, row, column]
            if k >= 0:
                by_alpha += g * (colours[k, c] - background[page, c, behind, aside])
                colours_adjoint[k, c] = g * share
                g = g * (Scalar(1.0) - share)
            wp.atomic_add(background_adjoint, page, c, behind, aside, g)
        alpha_adjoint[image, row, column] = by_alpha
