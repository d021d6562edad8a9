# pyright: reportInvalidTypeForm=false, reportCallIssue=false
"""Face attributes at the pixels of a tile: a template for `engine.lanes`.

Color is diffuse · texture(uv) + specular, each interpolated by the shares of the corners, which sum to one.
"""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *
from gradsim.engine.lanes import lane, put

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.render.softras.face_kernels import COLUMNS, ROWS, Pixel

LANES = ROWS * COLUMNS
MIN_WEIGHT = wp.constant(Scalar(1.0e-20))  # weight that changes no digit: that of the nearest face is at least D = 1e-4


@wp.struct
class SurfaceColor:
    """Attribute tables; shared by all images where their first dimension is 1."""

    diffuse: wp.array2d[Point]  # RGB of corners
    specular: wp.array2d[Point]
    corners: wp.array2d[wp.vec3i]  # of each face, in `diffuse` and `specular`
    uv: wp.array2d[Pixel]
    uv_corners: wp.array2d[wp.vec3i]
    texture: wp.array2d[Point]  # (rows, columns); none if it has no rows


@wp.struct
class Three:
    """A number for each corner, or for each channel."""

    a: Real
    b: Real
    c: Real


@wp.func(inline=True)
def mean(shares: Three, x: Scalar, y: Scalar, z: Scalar):
    return shares.a * x + shares.b * y + shares.c * z


@wp.func(inline=True)
def mean_color(shares: Three, p: Point, q: Point, r: Point):
    return Three(mean(shares, p[0], q[0], r[0]), mean(shares, p[1], q[1], r[1]), mean(shares, p[2], q[2], r[2]))


@wp.func(inline=True)
def dot_color(g: Three, p: Point):
    """Dot product of a tile's colors with one color."""
    return g.a * p[0] + g.b * p[1] + g.c * p[2]


@wp.struct
class Texels:
    """The four around a point of a texture."""

    row: int
    column: int
    below: int
    right: int
    down: Scalar  # fractions of the way to `below` and `right`
    across: Scalar


@wp.func
def texels_at(texture: wp.array2d[Point], u: Scalar, v: Scalar):
    """Texel centres are at +0.5, v = 0 is the lower border of the last row; beyond the border its texels go on."""
    rows = texture.shape[0]
    columns = texture.shape[1]
    y = wp.clamp((Scalar(1.0) - v) * Scalar(rows) - Scalar(0.5), Scalar(0.0), Scalar(rows - 1))
    x = wp.clamp(u * Scalar(columns) - Scalar(0.5), Scalar(0.0), Scalar(columns - 1))
    t = Texels()
    t.row = int(y)
    t.column = int(x)
    t.below = wp.min(t.row + 1, rows - 1)
    t.right = wp.min(t.column + 1, columns - 1)
    t.down = y - Scalar(t.row)
    t.across = x - Scalar(t.column)
    return t


@wp.func
def texture_at(texture: wp.array2d[Point], u: Scalar, v: Scalar):
    """Bilinear."""
    t = texels_at(texture, u, v)
    upper = texture[t.row, t.column] * (Scalar(1.0) - t.across) + texture[t.row, t.right] * t.across
    lower = texture[t.below, t.column] * (Scalar(1.0) - t.across) + texture[t.below, t.right] * t.across
    return upper * (Scalar(1.0) - t.down) + lower * t.down


@wp.func
def texture_adjoint(texture: wp.array2d[Point], u: Scalar, v: Scalar, g: Point, sums: wp.array2d[Point]):
    """∂loss/∂(u, v), with the texels' added to `sums`; exactly 0 for a coordinate beyond the border."""
    t = texels_at(texture, u, v)
    wp.atomic_add(sums, t.row, t.column, g * ((Scalar(1.0) - t.across) * (Scalar(1.0) - t.down)))
    wp.atomic_add(sums, t.row, t.right, g * (t.across * (Scalar(1.0) - t.down)))
    wp.atomic_add(sums, t.below, t.column, g * ((Scalar(1.0) - t.across) * t.down))
    wp.atomic_add(sums, t.below, t.right, g * (t.across * t.down))
    upper = wp.dot(g, texture[t.row, t.right] - texture[t.row, t.column])
    lower = wp.dot(g, texture[t.below, t.right] - texture[t.below, t.column])
    left = wp.dot(g, texture[t.below, t.column] - texture[t.row, t.column])
    right = wp.dot(g, texture[t.below, t.right] - texture[t.row, t.right])
    rows = Scalar(texture.shape[0])
    columns = Scalar(texture.shape[1])
    du = (upper * (Scalar(1.0) - t.down) + lower * t.down) * columns
    dv = (left * (Scalar(1.0) - t.across) + right * t.across) * -rows
    if wp.abs(u * columns - columns * Scalar(0.5)) > Scalar(0.5) * (columns - Scalar(1.0)):
        du = Scalar(0.0)
    if wp.abs(v * rows - rows * Scalar(0.5)) > Scalar(0.5) * (rows - Scalar(1.0)):
        dv = Scalar(0.0)
    return Pixel(du, dv)


@wp.struct
class CornerAttributes:
    """Attributes of one corner."""

    diffuse: Point
    specular: Point
    uv: Pixel


@wp.func
def attributes_of(tables: SurfaceColor, image: int, face: int, corner: int):
    d = CornerAttributes()
    k = tables.corners[wp.min(image, tables.corners.shape[0] - 1), face][corner]
    d.diffuse = tables.diffuse[wp.min(image, tables.diffuse.shape[0] - 1), k]
    d.specular = tables.specular[wp.min(image, tables.specular.shape[0] - 1), k]
    if tables.texture.shape[0] > 0:
        m = tables.uv_corners[wp.min(image, tables.uv_corners.shape[0] - 1), face][corner]
        d.uv = tables.uv[wp.min(image, tables.uv.shape[0] - 1), m]
    return d


@wp.struct
class Shade:
    """Attributes of a face at the pixels of a tile."""

    diffuse: Three
    texel: Three
    color: Three
    u: Real
    v: Real


@wp.func(inline=True)
def shade_of(
    texture: wp.array2d[Point], a: CornerAttributes, b: CornerAttributes, c: CornerAttributes, shares: Three, w: Real
):
    """Interpolated attributes; the texture is sampled only where the weight is above `MIN_WEIGHT`."""
    s = Shade()
    s.diffuse = mean_color(shares, a.diffuse, b.diffuse, c.diffuse)
    s.texel = Three(spread(Scalar(1.0)), spread(Scalar(1.0)), spread(Scalar(1.0)))
    s.u = mean(shares, a.uv[0], b.uv[0], c.uv[0])
    s.v = mean(shares, a.uv[1], b.uv[1], c.uv[1])
    if texture.shape[0] > 0:
        count = int(LANES)
        for k in range(count):
            if lane(w, k) > MIN_WEIGHT:
                p = texture_at(texture, lane(s.u, k), lane(s.v, k))
                s.texel.a = put(s.texel.a, k, p[0])
                s.texel.b = put(s.texel.b, k, p[1])
                s.texel.c = put(s.texel.c, k, p[2])
    specular = mean_color(shares, a.specular, b.specular, c.specular)
    s.color = Three(
        s.diffuse.a * s.texel.a + specular.a, s.diffuse.b * s.texel.b + specular.b, s.diffuse.c * s.texel.c + specular.c
    )
    return s
