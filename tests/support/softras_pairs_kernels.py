# pyright: reportInvalidTypeForm=false, reportCallIssue=false, reportArgumentType=false
"""One face at one pixel, of SoftRas' own functions, in a form that Warp differentiates: without a loop."""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.softras.attribute_kernels import Three, mean_color
    from gradsim.render.softras.color_kernels import barycentrics_of, weight
    from gradsim.render.softras.face_kernels import Face, Pixel, Place, Wide, distance, side_of, signed_square
    from gradsim.render.softras.kernels import Reach, cover
    from gradsim.render.softras.resolve_kernels import DepthWeights


@wp.kernel
def pairs(
    screen: wp.array[Point],
    faces: wp.array[wp.vec3i],
    diffuse: wp.array[Point],
    specular: wp.array[Point],
    pixels: wp.array[Pixel],  # their centres [px]
    nearest: wp.array[Scalar],  # in each pixel [m]
    reach: Reach,
    depth_weights: DepthWeights,
    # out
    opaque: wp.array2d[Scalar],  # (faces, pixels)
    weights: wp.array2d[Scalar],
    colors: wp.array2d[Point],
):
    k, i = wp.tid()
    corners = faces[k]
    p = screen[corners[0]]
    q = screen[corners[1]]
    r = screen[corners[2]]
    a = Place(Wide(p[0]), Wide(p[1]))
    b = Place(Wide(q[0]), Wide(q[1]))
    c = Place(Wide(r[0]), Wide(r[1]))
    origin = Place(Wide(0.5), Wide(0.5))
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    face = Face(corners, Point(p[2], q[2], r[2]), side_of(b, c, origin, area), side_of(c, a, origin, area), side_of(a, b, origin, area), 0, 0, 0, 0)  # fmt: skip
    x = pixels[i][0] - Scalar(0.5)
    y = pixels[i][1] - Scalar(0.5)
    to_a = distance(face.a, x, y)
    to_b = distance(face.b, x, y)
    to_c = distance(face.c, x, y)
    d = cover(signed_square(to_a, to_b, to_c) * reach.sharpness, reach.cut)
    bary = barycentrics_of(face, to_a, to_b, to_c)
    w = weight(d.share, bary, nearest[i], face, depth_weights)
    shares = Three(bary.slope.a * bary.depth, bary.slope.b * bary.depth, bary.slope.c * bary.depth)
    shade = diffuse[corners[0]] + specular[corners[0]]
    bright = mean_color(
        shares, shade, diffuse[corners[1]] + specular[corners[1]], diffuse[corners[2]] + specular[corners[2]]
    )
    opaque[k, i] = d.softplus
    weights[k, i] = w
    colors[k, i] = Point(w * bright.a, w * bright.b, w * bright.c)
