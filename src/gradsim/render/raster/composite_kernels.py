# pyright: reportInvalidTypeForm=false
"""Compositing of fragments: a template for `engine.lanes`.

Images are flat arrays here, since long indices cost more than the sums. Channels of fragments come in threes.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Three = wp.types.vector(3, Scalar)  # channels


@wp.kernel(enable_backward=False)
def composite(
    colors: wp.array[Three],  # (fragments, groups)
    groups: int,
    channels: int,  # of the image; further ones are padding
    alpha: wp.array3d[Scalar],  # (images, rows, columns)
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    background: wp.array4d[Scalar],  # for the adjoint; `image` holds it here
    # out
    image: wp.array[Scalar],  # (images, channels, rows, columns); the background before
):
    k = wp.tid()
    pixel = owner[k]
    share = alpha[pixel[0], pixel[3], pixel[2]]
    plane = alpha.shape[1] * alpha.shape[2]
    first = plane * channels * pixel[0] + alpha.shape[2] * pixel[3] + pixel[2]
    for g in range(groups):
        color = colors[groups * k + g]
        for i in range(3):
            c = 3 * g + i
            if c < channels:
                under = image[first + plane * c]
                image[first + plane * c] = under + share * (color[i] - under)


@wp.kernel(enable_backward=False)
def composite_adjoint(
    colors: wp.array[Three],
    groups: int,
    channels: int,
    alpha: wp.array3d[Scalar],
    owner: wp.array[wp.vec4i],
    background: wp.array4d[Scalar],  # (images or 1, channels, rows or 1, columns or 1)
    image_adjoint: wp.array[Scalar],
    # out
    colors_adjoint: wp.array[Three],
    alpha_adjoint: wp.array3d[Scalar],  # zero before
):
    k = wp.tid()
    pixel = owner[k]
    page = wp.where(background.shape[0] == 1, 0, pixel[0])
    row = wp.where(background.shape[2] == 1, 0, pixel[3])
    column = wp.where(background.shape[3] == 1, 0, pixel[2])
    share = alpha[pixel[0], pixel[3], pixel[2]]
    plane = alpha.shape[1] * alpha.shape[2]
    first = plane * channels * pixel[0] + alpha.shape[2] * pixel[3] + pixel[2]
    total = Scalar(0.0)
    for group in range(groups):
        color = colors[groups * k + group]
        by_color = Three()
        for i in range(3):
            c = 3 * group + i
            if c < channels:
                g = image_adjoint[first + plane * c]
                by_color[i] = g * share
                total += g * (color[i] - background[page, c, row, column])
        colors_adjoint[groups * k + group] = by_color
    alpha_adjoint[pixel[0], pixel[3], pixel[2]] = total
