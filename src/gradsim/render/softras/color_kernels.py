# pyright: reportInvalidTypeForm=false, reportCallIssue=false
"""Soft colours (Liu et al. 2019) and their adjoint: a template for `engine.lanes`, over the distances of `softras`.

The colour of a pixel is the mean of the faces and the background (Eqs. 4 and 5),

    C = (Σ w c + w_b c_b) / (Σ w + w_b),   w = D exp((z - Z) / γ),   w_b = exp((ε - Z) / γ)

with z = (far - depth) / (far - near) and any Z, here the largest z or ε. The code keeps depths instead: near 1 the digits
of z are too coarse to be divided by γ = 1e-4, and depth is taken from the first corner of the face, for as much again.

A face's colour is c = gain · texture(uv) + gloss, interpolated in perspective: with the barycentric coordinates clipped
to [0, 1] and made to sum to one, u, and k = u / depth of the corner, depth = 1 / Σ k and corner shares are k · depth.

Adjoint: with h = w / (Σ w + w_b) and g = ∂loss/∂C, ∂loss/∂c = h g and ∂loss/∂ log w = h g · (c - C); Z cancels.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import lane, put, total

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.softras.attribute_kernels import (
        FAINT,
        LANES,
        SurfaceColor,
        Three,
        against,
        dye_of,
        look_of,
        texture_adjoint,
    )
    from gradsim.render.softras.face_kernels import (
        COLUMNS,
        FAR,
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
    from gradsim.render.softras.kernels import EdgeGradient, Reach, at_first, at_second, cover, pulled, unless
    from gradsim.render.softras.resolve_kernels import DIM, DepthWeights


@wp.struct
class Barycentrics:
    """Where the pixels of a tile are on a face."""

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
def moved(raw: Real, g: Real):
    """The adjoint of a clipped coordinate: 0 where it is clipped."""
    return where(less(raw, zero(0)), zero(0), where(less(spread(Scalar(1.0)), raw), zero(0), g))


@wp.func(inline=True)
def spot_of(face: Face, a: Distance, b: Distance, c: Distance):
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
def shares_of(spot: Barycentrics):
    """Of the corners, in perspective."""
    return Three(spot.slope.a * spot.depth, spot.slope.b * spot.depth, spot.slope.c * spot.depth)


@wp.func(inline=True)
def weight(share: Real, spot: Barycentrics, nearest: Real, face: Face, fog: DepthWeights):
    """w: D is 0 where the face does not count."""
    return share * exp(max(((nearest - face.depth[0]) - spot.behind) * fog.sharpness, spread(-DIM)))


@wp.kernel(enable_backward=False)
def blend_in_depth(
    screen: wp.array2d[Point],  # (images, vertices): u [px], v [px], depth [m]
    faces: wp.array2d[wp.vec3i],  # (images or 1, faces); a negative one is none
    centres: wp.array[Real],  # x and y of a tile's pixels from its first one [px]
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
        y = centres[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centres[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            d = cover(signed_square(a, b, c) * reach.sharpness, reach.cut)
            add_to(opaque, image, row, column, d.softplus)
            depth = spot_of(face, a, b, c).behind + face.depth[0]
            lower_to(nearest, image, row, column, where(less(zero(0), d.share), depth, spread(FAR)))


@wp.kernel(enable_backward=False)
def mix(
    screen: wp.array2d[Point],
    faces: wp.array2d[wp.vec3i],
    centres: wp.array[Real],
    reach: Reach,
    fog: DepthWeights,
    paint: SurfaceColor,
    nearest: wp.array3d[Real],
    # out
    weights: wp.array3d[Real],  # Σ w, zero before
    colours: wp.array3d[Real],  # Σ w c, (images × channels, ...), zero before
):
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    if face.top == face.bottom:
        return
    dye_a = dye_of(paint, image, k, 0)
    dye_b = dye_of(paint, image, k, 1)
    dye_c = dye_of(paint, image, k, 2)
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centres[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centres[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            d = cover(signed_square(a, b, c) * reach.sharpness, reach.cut)
            spot = spot_of(face, a, b, c)
            w = weight(d.share, spot, nearest[image, row, column], face, fog)
            if any_lane(less(spread(FAINT), w)):
                look = look_of(paint.texture, dye_a, dye_b, dye_c, shares_of(spot), w)
                add_to(weights, image, row, column, w)
                add_to(colours, 3 * image, row, column, w * look.colour.a)
                add_to(colours, 3 * image + 1, row, column, w * look.colour.b)
                add_to(colours, 3 * image + 2, row, column, w * look.colour.c)


@wp.struct
class CornerGradients:
    """Sums over pixels of ∂loss/∂ what a corner has."""

    gain: Three
    gloss: Three
    u: Real
    v: Real
    x: Real  # by the barycentric coordinates alone
    y: Real
    depth: Real


@wp.func(inline=True)
def owed(sums: CornerGradients, share: Real, gain: Three, gloss: Three, u: Real, v: Real, raw: Real, x: Real, y: Real, depth: Real):  # fmt: skip
    """The sums with another tile."""
    sums.gain = Three(sums.gain.a + share * gain.a, sums.gain.b + share * gain.b, sums.gain.c + share * gain.c)
    sums.gloss = Three(sums.gloss.a + share * gloss.a, sums.gloss.b + share * gloss.b, sums.gloss.c + share * gloss.c)
    sums.u = sums.u + share * u
    sums.v = sums.v + share * v
    sums.x = sums.x - raw * x
    sums.y = sums.y - raw * y
    sums.depth = sums.depth + depth
    return sums


@wp.func
def pay(sums: CornerGradients, border: Pixel, paint: SurfaceColor, image: int, face: int, corner: int, vertex: int, screen_adjoint: wp.array2d[Point], gain_adjoint: wp.array2d[Point], gloss_adjoint: wp.array2d[Point], uv_adjoint: wp.array2d[Pixel]):  # fmt: skip
    """Add a corner's sums to the arrays; `border` is what the distance from the border adds."""
    place = Point(border[0] + total(sums.x), border[1] + total(sums.y), total(sums.depth))
    wp.atomic_add(screen_adjoint, image, vertex, place)
    k = paint.corners[wp.min(image, paint.corners.shape[0] - 1), face][corner]
    gain = Point(total(sums.gain.a), total(sums.gain.b), total(sums.gain.c))
    gloss = Point(total(sums.gloss.a), total(sums.gloss.b), total(sums.gloss.c))
    wp.atomic_add(gain_adjoint, wp.min(image, gain_adjoint.shape[0] - 1), k, gain)
    wp.atomic_add(gloss_adjoint, wp.min(image, gloss_adjoint.shape[0] - 1), k, gloss)
    if paint.texture.shape[0] > 0:
        m = paint.uv_corners[wp.min(image, paint.uv_corners.shape[0] - 1), face][corner]
        wp.atomic_add(uv_adjoint, wp.min(image, uv_adjoint.shape[0] - 1), m, Pixel(total(sums.u), total(sums.v)))


@wp.kernel(enable_backward=False)
def mix_adjoint(
    screen: wp.array2d[Point],
    faces: wp.array2d[wp.vec3i],
    centres: wp.array[Real],
    reach: Reach,
    fog: DepthWeights,
    paint: SurfaceColor,
    nearest: wp.array3d[Real],
    opaque_adjoint: wp.array3d[Real],
    weights_adjoint: wp.array3d[Real],
    colours_adjoint: wp.array3d[Real],
    # out
    screen_adjoint: wp.array2d[Point],  # zero before, as all below
    gain_adjoint: wp.array2d[Point],
    gloss_adjoint: wp.array2d[Point],
    uv_adjoint: wp.array2d[Pixel],
    texture_sums: wp.array2d[Point],
):
    """Adjoint of `blend_in_depth` and `mix`."""
    image, k = wp.tid()
    corners = faces[wp.min(image, faces.shape[0] - 1), k]
    face = face_of(screen, image, corners, reach.cull, reach.radius, reach.height, reach.width)
    if face.top == face.bottom:
        return
    dye_a = dye_of(paint, image, k, 0)
    dye_b = dye_of(paint, image, k, 1)
    dye_c = dye_of(paint, image, k, 2)
    near = Point(Scalar(1.0) / face.depth[0], Scalar(1.0) / face.depth[1], Scalar(1.0) / face.depth[2])
    # 1/depth of the corners from that of the first, by differences
    tilt_b = (face.depth[1] - face.depth[0]) * near[0] * near[1]
    tilt_c = (face.depth[2] - face.depth[0]) * near[0] * near[2]
    slope_a = face.a.normal * face.a.height
    slope_b = face.b.normal * face.b.height
    slope_c = face.c.normal * face.c.height
    pull_a = EdgeGradient()
    pull_b = EdgeGradient()
    pull_c = EdgeGradient()
    owed_a = CornerGradients()
    owed_b = CornerGradients()
    owed_c = CornerGradients()
    for row in range(face.top, face.bottom):
        first, last = tiles_in_row(face, row, reach.radius)
        y = centres[1] + Scalar((row - face.top) * ROWS)
        for column in range(first, last):
            x = centres[0] + Scalar((column - face.left) * COLUMNS)
            a = distance(face.a, x, y)
            b = distance(face.b, x, y)
            c = distance(face.c, x, y)
            square = signed_square(a, b, c)
            d = cover(square * reach.sharpness, reach.cut)
            spot = spot_of(face, a, b, c)
            w = weight(d.share, spot, nearest[image, row, column], face, fog)
            g = opaque_adjoint[image, row, column] * d.share
            if any_lane(less(spread(FAINT), w)):
                look = look_of(paint.texture, dye_a, dye_b, dye_c, shares_of(spot), w)
                red = colours_adjoint[3 * image, row, column] * w
                green = colours_adjoint[3 * image + 1, row, column] * w
                blue = colours_adjoint[3 * image + 2, row, column] * w
                p = look.colour
                log_w = red * p.a + green * p.b + blue * p.c + weights_adjoint[image, row, column] * w
                g = g + log_w * (Scalar(1.0) - d.share)
                gloss = Three(red, green, blue)
                gain = Three(red * look.texel.a, green * look.texel.b, blue * look.texel.c)
                u = zero(0)
                v = zero(0)
                if paint.texture.shape[0] > 0:
                    count = int(LANES)
                    for n in range(count):
                        if lane(w, n) > FAINT:
                            # of the texel's colour
                            t = Point(lane(red * look.gain.a, n), lane(green * look.gain.b, n), lane(blue * look.gain.c, n))  # fmt: skip
                            uv = texture_adjoint(paint.texture, lane(look.u, n), lane(look.v, n), t, texture_sums)
                            u = put(u, n, uv[0])
                            v = put(v, n, uv[1])
                # of the shares, which sum to one
                to_a = against(gain, dye_a.gain) + against(gloss, dye_a.gloss) + u * dye_a.uv[0] + v * dye_a.uv[1]
                to_b = against(gain, dye_b.gain) + against(gloss, dye_b.gloss) + u * dye_b.uv[0] + v * dye_b.uv[1]
                to_c = against(gain, dye_c.gain) + against(gloss, dye_c.gloss) + u * dye_c.uv[0] + v * dye_c.uv[1]
                s = shares_of(spot)
                middle = s.a * to_a + s.b * to_b + s.c * to_c
                to_a = (to_a - middle) * spot.depth
                to_b = (to_b - middle) * spot.depth
                to_c = (to_c - middle) * spot.depth
                # of the clipped coordinates, which sum to one too: depth changes by the differences of 1/depth
                deep = spot.depth * spot.depth * log_w * fog.sharpness  # -depth² ∂loss/∂depth
                u_a = to_a * near[0]
                u_b = to_b * near[1] - deep * tilt_b
                u_c = to_c * near[2] - deep * tilt_c
                middle = spot.clipped.a * u_a + spot.clipped.b * u_b + spot.clipped.c * u_c
                one = Scalar(1.0) / spot.over
                u_a = moved(spot.raw.a, (u_a - middle) * one)
                u_b = moved(spot.raw.b, (u_b - middle) * one)
                u_c = moved(spot.raw.c, (u_c - middle) * one)
                # of the place of the pixel on the face; a corner moves it by its own coordinate, backward
                right = u_a * slope_a[0] + u_b * slope_b[0] + u_c * slope_c[0]
                down = u_a * slope_a[1] + u_b * slope_b[1] + u_c * slope_c[1]
                z_a = zero(0) - (to_a + deep) * spot.slope.a * near[0]
                z_b = zero(0) - (to_b + deep) * spot.slope.b * near[1]
                z_c = zero(0) - (to_c + deep) * spot.slope.c * near[2]
                owed_a = owed(owed_a, s.a, gain, gloss, u, v, spot.raw.a, right, down, z_a)
                owed_b = owed(owed_b, s.b, gain, gloss, u, v, spot.raw.b, right, down, z_b)
                owed_c = owed(owed_c, s.c, gain, gloss, u, v, spot.raw.c, right, down, z_c)
            g = g * reach.sharpness
            g = where(less(square, zero(0)), zero(0) - g, g)
            at_a = unless(min(b.square, c.square), a.square, g)
            at_b = unless(c.square, b.square, g - at_a)
            pull_a = pulled(pull_a, face.a, a, at_a)
            pull_b = pulled(pull_b, face.b, b, at_b)
            pull_c = pulled(pull_c, face.c, c, g - at_a - at_b)
    border_a = at_second(pull_b, face.b) + at_first(pull_c, face.c)
    border_b = at_second(pull_c, face.c) + at_first(pull_a, face.a)
    border_c = at_second(pull_a, face.a) + at_first(pull_b, face.b)
    pay(owed_a, border_a, paint, image, k, 0, corners[0], screen_adjoint, gain_adjoint, gloss_adjoint, uv_adjoint)
    pay(owed_b, border_b, paint, image, k, 1, corners[1], screen_adjoint, gain_adjoint, gloss_adjoint, uv_adjoint)
    pay(owed_c, border_c, paint, image, k, 2, corners[2], screen_adjoint, gain_adjoint, gloss_adjoint, uv_adjoint)
