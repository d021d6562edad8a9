# pyright: reportInvalidTypeForm=false, reportCallIssue=false
"""Soft colors (Liu et al. 2019) and their adjoint: a template for `engine.lanes`, over the distances of `softras`.

The color of a pixel is the mean of the faces and the background (Eqs. 4 and 5),

    C = (Σ w c + w_b c_b) / (Σ w + w_b),   w = D exp((z - Z) / γ),   w_b = exp((ε - Z) / γ)

with z = (far - depth) / (far - near) and any Z, here the largest z or ε. The code keeps depths instead: near 1 the digits
of z are too coarse to be divided by γ = 1e-4, and depth is taken from the first corner of the face, for as much again.

A face's color is c = diffuse · texture(uv) + specular, interpolated in perspective: with the barycentric coordinates clipped
to [0, 1] and made to sum to one, u, and k = u / depth of the corner, depth = 1 / Σ k and corner shares are k · depth.

Adjoint: with h = w / (Σ w + w_b) and g = ∂loss/∂C, ∂loss/∂c = h g and ∂loss/∂ log w = h g · (c - C); Z cancels.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import lane, put, total

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.softras.attribute_kernels import (
        LANES,
        MIN_WEIGHT,
        SurfaceColor,
        Three,
        attributes_of,
        dot_color,
        shade_of,
        texture_adjoint,
    )
    from gradsim.render.softras.face_kernels import (
        COLUMNS,
        MAX_COORDINATE,
        ROWS,
        Distance,
        Face,
        Pixel,
        add_to,
        distance,
        face_of,
        lower_to,
        signed_square,
        tiles_in_row,
    )
    from gradsim.render.softras.kernels import EdgeGradient, Reach, add_edge, at_first, at_second, cover, if_nearest
    from gradsim.render.softras.resolve_kernels import NEGLIGIBLE_EXPONENT, DepthWeights


@wp.struct
class Barycentrics:
    """Barycentric coordinates of the pixels of a tile on a face."""

    raw: Three  # barycentric coordinates
    clipped: Three  # to the face
    over: Real  # what the clipped ones were divided by
    slope: Three  # clipped / depth of the corner [1/m]
    depth: Real  # [m]
    behind: Real  # depth, from that of the first corner [m]


@wp.func(inline=True)
def within(x: Real):
    return min(max(x, zero(0)), spread(Scalar(1.0)))


@wp.func(inline=True)
def clip_adjoint(raw: Real, g: Real):
    """The adjoint of a clipped coordinate: 0 where it is clipped."""
    return where(less(raw, zero(0)), zero(0), where(less(spread(Scalar(1.0)), raw), zero(0), g))


@wp.func(inline=True)
def barycentrics_of(face: Face, a: Distance, b: Distance, c: Distance):
    s = Barycentrics()
    s.raw = Three(a.aside * face.a.height, b.aside * face.b.height, c.aside * face.c.height)
    u = Three(within(s.raw.a), within(s.raw.b), within(s.raw.c))
    s.over = u.a + u.b + u.c
    one = Scalar(1.0) / s.over
    s.clipped = Three(u.a * one, u.b * one, u.c * one)
    z = face.depth
    s.slope = Three(s.clipped.a * (Scalar(1.0) / z[0]), s.clipped.b * (Scalar(1.0) / z[1]), s.clipped.c * (Scalar(1.0) / z[2]))  # fmt: skip
    s.depth = Scalar(1.0) / (s.slope.a + s.slope.b + s.slope.c)
    s.behind = (s.slope.b * (z[1] - z[0]) + s.slope.c * (z[2] - z[0])) * s.depth
    return s


@wp.func(inline=True)
def shares_of(bary: Barycentrics):
    """Perspective-correct shares of the corners."""
    return Three(bary.slope.a * bary.depth, bary.slope.b * bary.depth, bary.slope.c * bary.depth)


@wp.func(inline=True)
def weight(share: Real, bary: Barycentrics, nearest: Real, face: Face, depth_weights: DepthWeights):
    """w: D is 0 where the face does not count."""
    return share * exp(
        max(((nearest - face.depth[0]) - bary.behind) * depth_weights.sharpness, spread(-NEGLIGIBLE_EXPONENT))
    )


@wp.kernel(enable_backward=False)
def cover_in_depth(
    screen: wp.array2d[Point],  # (images, vertices): u [px], v [px], depth [m]
    faces: wp.array2d[wp.vec3i],  # (images or 1, faces); a negative one is none
    centers: wp.array[Real],  # x and y of a tile's pixels from its first one [px]
    reach: Reach,
    # out
    opaque: wp.array3d[Real],  # -log(1 - A), (images, tiles down, tiles across), zero before
    nearest: wp.array3d[Real],  # depth of the nearest face that counts [m], the background's before
):
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centers[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centers[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            d = cover(signed_square(a, b, c) * reach.sharpness, reach.cut)
            add_to(opaque, image, row, column, d.softplus)
            depth = barycentrics_of(face, a, b, c).behind + face.depth[0]
            lower_to(nearest, image, row, column, where(less(zero(0), d.share), depth, spread(MAX_COORDINATE)))


@wp.kernel(enable_backward=False)
def mix_colors(
    screen: wp.array2d[Point],
    faces: wp.array2d[wp.vec3i],
    centers: wp.array[Real],
    reach: Reach,
    depth_weights: DepthWeights,
    tables: SurfaceColor,
    nearest: wp.array3d[Real],
    # out
    weights: wp.array3d[Real],  # Σ w, zero before
    colors: wp.array3d[Real],  # Σ w c, (images × channels, ...), zero before
):
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    if face.top == face.bottom:
        return
    attr_a = attributes_of(tables, image, k, 0)
    attr_b = attributes_of(tables, image, k, 1)
    attr_c = attributes_of(tables, image, k, 2)
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centers[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centers[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            d = cover(signed_square(a, b, c) * reach.sharpness, reach.cut)
            bary = barycentrics_of(face, a, b, c)
            w = weight(d.share, bary, nearest[image, row, column], face, depth_weights)
            if any_lane(less(spread(MIN_WEIGHT), w)):
                shade = shade_of(tables.texture, attr_a, attr_b, attr_c, shares_of(bary), w)
                add_to(weights, image, row, column, w)
                add_to(colors, 3 * image, row, column, w * shade.color.a)
                add_to(colors, 3 * image + 1, row, column, w * shade.color.b)
                add_to(colors, 3 * image + 2, row, column, w * shade.color.c)


@wp.struct
class CornerGradients:
    """Sums over pixels of ∂loss/∂ what a corner has."""

    diffuse: Three
    specular: Three
    u: Real
    v: Real
    x: Real  # by the barycentric coordinates alone
    y: Real
    depth: Real


@wp.func(inline=True)
def add_tile(sums: CornerGradients, share: Real, diffuse: Three, specular: Three, u: Real, v: Real, raw: Real, x: Real, y: Real, depth: Real):  # fmt: skip
    """The sums after another tile."""
    sums.diffuse = Three(
        sums.diffuse.a + share * diffuse.a, sums.diffuse.b + share * diffuse.b, sums.diffuse.c + share * diffuse.c
    )
    sums.specular = Three(
        sums.specular.a + share * specular.a, sums.specular.b + share * specular.b, sums.specular.c + share * specular.c
    )
    sums.u = sums.u + share * u
    sums.v = sums.v + share * v
    sums.x = sums.x - raw * x
    sums.y = sums.y - raw * y
    sums.depth = sums.depth + depth
    return sums


@wp.func
def accumulate(sums: CornerGradients, border: Pixel, tables: SurfaceColor, image: int, face: int, corner: int, vertex: int, screen_adjoint: wp.array2d[Point], diffuse_adjoint: wp.array2d[Point], specular_adjoint: wp.array2d[Point], uv_adjoint: wp.array2d[Pixel]):  # fmt: skip
    """Add a corner's sums to the arrays; `border` is what the distance from the border adds."""
    place = Point(border[0] + total(sums.x), border[1] + total(sums.y), total(sums.depth))
    wp.atomic_add(screen_adjoint, image, vertex, place)
    k = tables.corners[wp.min(image, tables.corners.shape[0] - 1), face][corner]
    diffuse = Point(total(sums.diffuse.a), total(sums.diffuse.b), total(sums.diffuse.c))
    specular = Point(total(sums.specular.a), total(sums.specular.b), total(sums.specular.c))
    wp.atomic_add(diffuse_adjoint, wp.min(image, diffuse_adjoint.shape[0] - 1), k, diffuse)
    wp.atomic_add(specular_adjoint, wp.min(image, specular_adjoint.shape[0] - 1), k, specular)
    if tables.texture.shape[0] > 0:
        m = tables.uv_corners[wp.min(image, tables.uv_corners.shape[0] - 1), face][corner]
        wp.atomic_add(uv_adjoint, wp.min(image, uv_adjoint.shape[0] - 1), m, Pixel(total(sums.u), total(sums.v)))


@wp.kernel(enable_backward=False)
def mix_colors_adjoint(
    screen: wp.array2d[Point],
    faces: wp.array2d[wp.vec3i],
    centers: wp.array[Real],
    reach: Reach,
    depth_weights: DepthWeights,
    tables: SurfaceColor,
    nearest: wp.array3d[Real],
    opaque_adjoint: wp.array3d[Real],
    weights_adjoint: wp.array3d[Real],
    colors_adjoint: wp.array3d[Real],
    # out
    screen_adjoint: wp.array2d[Point],  # zero before, as all below
    diffuse_adjoint: wp.array2d[Point],
    specular_adjoint: wp.array2d[Point],
    uv_adjoint: wp.array2d[Pixel],
    texture_sums: wp.array2d[Point],
):
    """Adjoint of `cover_in_depth` and `mix_colors`."""
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    if face.top == face.bottom:
        return
    attr_a = attributes_of(tables, image, k, 0)
    attr_b = attributes_of(tables, image, k, 1)
    attr_c = attributes_of(tables, image, k, 2)
    near = Point(Scalar(1.0) / face.depth[0], Scalar(1.0) / face.depth[1], Scalar(1.0) / face.depth[2])
    # 1/depth of the corners from that of the first, by differences
    tilt_b = (face.depth[1] - face.depth[0]) * near[0] * near[1]
    tilt_c = (face.depth[2] - face.depth[0]) * near[0] * near[2]
    slope_a = face.a.normal * face.a.height
    slope_b = face.b.normal * face.b.height
    slope_c = face.c.normal * face.c.height
    edge_a = EdgeGradient()
    edge_b = EdgeGradient()
    edge_c = EdgeGradient()
    gradient_a = CornerGradients()
    gradient_b = CornerGradients()
    gradient_c = CornerGradients()
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centers[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centers[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            square = signed_square(a, b, c)
            d = cover(square * reach.sharpness, reach.cut)
            bary = barycentrics_of(face, a, b, c)
            w = weight(d.share, bary, nearest[image, row, column], face, depth_weights)
            g = opaque_adjoint[image, row, column] * d.share
            if any_lane(less(spread(MIN_WEIGHT), w)):
                shade = shade_of(tables.texture, attr_a, attr_b, attr_c, shares_of(bary), w)
                red = colors_adjoint[3 * image, row, column] * w
                green = colors_adjoint[3 * image + 1, row, column] * w
                blue = colors_adjoint[3 * image + 2, row, column] * w
                p = shade.color
                log_w = red * p.a + green * p.b + blue * p.c + weights_adjoint[image, row, column] * w
                g = g + log_w * (Scalar(1.0) - d.share)
                specular = Three(red, green, blue)
                diffuse = Three(red * shade.texel.a, green * shade.texel.b, blue * shade.texel.c)
                u = zero(0)
                v = zero(0)
                if tables.texture.shape[0] > 0:
                    count = int(LANES)
                    for n in range(count):
                        if lane(w, n) > MIN_WEIGHT:
                            # of the texel's color
                            t = Point(lane(red * shade.diffuse.a, n), lane(green * shade.diffuse.b, n), lane(blue * shade.diffuse.c, n))  # fmt: skip
                            uv = texture_adjoint(tables.texture, lane(shade.u, n), lane(shade.v, n), t, texture_sums)
                            u = put(u, n, uv[0])
                            v = put(v, n, uv[1])
                # of the shares, which sum to one
                to_a = (
                    dot_color(diffuse, attr_a.diffuse)
                    + dot_color(specular, attr_a.specular)
                    + u * attr_a.uv[0]
                    + v * attr_a.uv[1]
                )
                to_b = (
                    dot_color(diffuse, attr_b.diffuse)
                    + dot_color(specular, attr_b.specular)
                    + u * attr_b.uv[0]
                    + v * attr_b.uv[1]
                )
                to_c = (
                    dot_color(diffuse, attr_c.diffuse)
                    + dot_color(specular, attr_c.specular)
                    + u * attr_c.uv[0]
                    + v * attr_c.uv[1]
                )
                s = shares_of(bary)
                middle = s.a * to_a + s.b * to_b + s.c * to_c
                to_a = (to_a - middle) * bary.depth
                to_b = (to_b - middle) * bary.depth
                to_c = (to_c - middle) * bary.depth
                # of the clipped coordinates, which sum to one too: depth changes by the differences of 1/depth
                deep = bary.depth * bary.depth * log_w * depth_weights.sharpness  # -depth² ∂loss/∂depth
                u_a = to_a * near[0]
                u_b = to_b * near[1] - deep * tilt_b
                u_c = to_c * near[2] - deep * tilt_c
                middle = bary.clipped.a * u_a + bary.clipped.b * u_b + bary.clipped.c * u_c
                one = Scalar(1.0) / bary.over
                u_a = clip_adjoint(bary.raw.a, (u_a - middle) * one)
                u_b = clip_adjoint(bary.raw.b, (u_b - middle) * one)
                u_c = clip_adjoint(bary.raw.c, (u_c - middle) * one)
                # of the place of the pixel on the face; a corner moves it by its own coordinate, backward
                right = u_a * slope_a[0] + u_b * slope_b[0] + u_c * slope_c[0]
                down = u_a * slope_a[1] + u_b * slope_b[1] + u_c * slope_c[1]
                z_a = zero(0) - (to_a + deep) * bary.slope.a * near[0]
                z_b = zero(0) - (to_b + deep) * bary.slope.b * near[1]
                z_c = zero(0) - (to_c + deep) * bary.slope.c * near[2]
                gradient_a = add_tile(gradient_a, s.a, diffuse, specular, u, v, bary.raw.a, right, down, z_a)
                gradient_b = add_tile(gradient_b, s.b, diffuse, specular, u, v, bary.raw.b, right, down, z_b)
                gradient_c = add_tile(gradient_c, s.c, diffuse, specular, u, v, bary.raw.c, right, down, z_c)
            g = g * reach.sharpness
            g = where(less(square, zero(0)), zero(0) - g, g)
            at_a = if_nearest(min(b.square, c.square), a.square, g)
            at_b = if_nearest(c.square, b.square, g - at_a)
            edge_a = add_edge(edge_a, face.a, a, at_a)
            edge_b = add_edge(edge_b, face.b, b, at_b)
            edge_c = add_edge(edge_c, face.c, c, g - at_a - at_b)
    border_a = at_second(edge_b, face.b) + at_first(edge_c, face.c)
    border_b = at_second(edge_c, face.c) + at_first(edge_a, face.a)
    border_c = at_second(edge_a, face.a) + at_first(edge_b, face.b)
    accumulate(
        gradient_a,
        border_a,
        tables,
        image,
        k,
        0,
        corners[0],
        screen_adjoint,
        diffuse_adjoint,
        specular_adjoint,
        uv_adjoint,
    )
    accumulate(
        gradient_b,
        border_b,
        tables,
        image,
        k,
        1,
        corners[1],
        screen_adjoint,
        diffuse_adjoint,
        specular_adjoint,
        uv_adjoint,
    )
    accumulate(
        gradient_c,
        border_c,
        tables,
        image,
        k,
        2,
        corners[2],
        screen_adjoint,
        diffuse_adjoint,
        specular_adjoint,
        uv_adjoint,
    )
