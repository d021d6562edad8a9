"""From sums in tiles to images, and the adjoint: a template for `engine.lanes`. One thread for each tile."""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import lane

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.softras.face_kernels import COLUMNS, ROWS

NEGLIGIBLE_EXPONENT = wp.constant(Scalar(50.0))  # e^-50 is negligible, and its products are not subnormal (slow)


@wp.struct
class DepthWeights:
    """Weights by depth."""

    sharpness: Scalar  # 1 / (γ (far - near)) [1/m]
    horizon: Scalar  # depth of the background [m]


@wp.func(inline=True)
def background_weight(nearest: Real, depth_weights: DepthWeights):
    """w_b: that of a face over all of the pixel at the depth of the background."""
    return exp(max((nearest - depth_weights.horizon) * depth_weights.sharpness, spread(-NEGLIGIBLE_EXPONENT)))


@wp.kernel(enable_backward=False)
def finish(
    opaque: wp.array3d[Real],  # -log(1 - A), (images, tiles down, tiles across)
    nearest: wp.array3d[Real],  # [m]
    weights: wp.array3d[Real],  # Σ w
    colors: wp.array3d[Real],  # Σ w c, (images × channels, ...)
    background: wp.array4d[Scalar],  # (images or 1, channels, rows or 1, columns or 1)
    depth_weights: DepthWeights,
    # out
    rgb: wp.array4d[Scalar],  # C (images, channels, rows, columns)
    clear: wp.array3d[Scalar],  # 1 - A
):
    image, down, across = wp.tid()
    rest = background_weight(nearest[image, down, across], depth_weights)
    one = Scalar(1.0) / (weights[image, down, across] + rest)
    rest = rest * one
    red = colors[3 * image, down, across] * one
    green = colors[3 * image + 1, down, across] * one
    blue = colors[3 * image + 2, down, across] * one
    not_covered = exp(zero(0) - opaque[image, down, across])
    b = wp.min(image, background.shape[0] - 1)
    rows = wp.min(ROWS, clear.shape[1] - down * ROWS)
    columns = wp.min(COLUMNS, clear.shape[2] - across * COLUMNS)
    for row in range(rows):
        for column in range(columns):
            k = row * COLUMNS + column
            y = down * ROWS + row
            x = across * COLUMNS + column
            i = wp.min(y, background.shape[2] - 1)
            j = wp.min(x, background.shape[3] - 1)
            rgb[image, 0, y, x] = lane(red, k) + lane(rest, k) * background[b, 0, i, j]
            rgb[image, 1, y, x] = lane(green, k) + lane(rest, k) * background[b, 1, i, j]
            rgb[image, 2, y, x] = lane(blue, k) + lane(rest, k) * background[b, 2, i, j]
            clear[image, y, x] = lane(not_covered, k)


@wp.kernel(enable_backward=False)
def finish_adjoint(
    rgb: wp.array4d[Scalar],
    clear: wp.array3d[Scalar],
    nearest: wp.array3d[Real],
    weights: wp.array3d[Real],
    depth_weights: DepthWeights,
    rgb_adjoint: wp.array4d[Scalar],
    clear_adjoint: wp.array3d[Scalar],
    # out
    opaque_adjoint: wp.array4d[
        Scalar
    ],  # (images, tiles down, tiles across, pixels of a tile), zero before, as the next
    weights_adjoint: wp.array4d[Scalar],
    colors_adjoint: wp.array4d[Scalar],
    background_adjoint: wp.array4d[Scalar],  # of each pixel of each image
):
    """Adjoint of `finish`."""
    image, down, across = wp.tid()
    rest = background_weight(nearest[image, down, across], depth_weights)
    one = Scalar(1.0) / (weights[image, down, across] + rest)
    rows = wp.min(ROWS, clear.shape[1] - down * ROWS)
    columns = wp.min(COLUMNS, clear.shape[2] - across * COLUMNS)
    for row in range(rows):
        for column in range(columns):
            k = row * COLUMNS + column
            y = down * ROWS + row
            x = across * COLUMNS + column
            red = rgb_adjoint[image, 0, y, x] * lane(one, k)
            green = rgb_adjoint[image, 1, y, x] * lane(one, k)
            blue = rgb_adjoint[image, 2, y, x] * lane(one, k)
            level = red * rgb[image, 0, y, x] + green * rgb[image, 1, y, x] + blue * rgb[image, 2, y, x]
            opaque_adjoint[image, down, across, k] = -clear[image, y, x] * clear_adjoint[image, y, x]
            weights_adjoint[image, down, across, k] = -level
            colors_adjoint[3 * image, down, across, k] = red
            colors_adjoint[3 * image + 1, down, across, k] = green
            colors_adjoint[3 * image + 2, down, across, k] = blue
            background_adjoint[image, 0, y, x] = red * lane(rest, k)
            background_adjoint[image, 1, y, x] = green * lane(rest, k)
            background_adjoint[image, 2, y, x] = blue * lane(rest, k)
