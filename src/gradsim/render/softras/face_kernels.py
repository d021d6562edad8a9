# pyright: reportInvalidTypeForm=false
"""A face on the screen and how far tiles of pixels are from it: a template for `engine.lanes`, shared by soft renderers.

Each side of a face is the two linear functions of a pixel p

    aside(p) = ± (p - first) × direction    distance from the line, positive on the inner side [px]
    along(p) = (p - first) · direction      way along it from the first corner [px]

so the squared distance from the side is aside² + beyond², with beyond = min(along, 0) + max(along - length, 0), the
barycentric coordinate of the corner opposite is aside · length / (2 area), and a pixel is inside if all three are
positive. Their constants are taken at the first pixel that the face can reach, in double precision: what is left is as
exact as the image is small, however large the face.

Pixels come in tiles, as many as a register has lanes; on CUDA a tile is one pixel.
"""

import warp as wp

from gradsim.engine.lanes import *

ROWS = globals().get("ROWS", 1)  # of pixels in a tile
COLUMNS = globals().get("COLUMNS", 1)

Pixel = wp.types.vector(2, Scalar)  # x to the right, y down [px]
Wide = wp.float64
Place = wp.types.vector(2, Wide)  # a Pixel in double precision

MAX_COORDINATE = wp.constant(Scalar(1.0e9))  # [px] beyond it, products and whole numbers overflow
MIN_DEPTH = wp.constant(Scalar(1.0e-6))  # [m] nearest depth of a corner; the near plane is the caller's
MIN_AREA_RATIO = wp.constant(Wide(1.0e-6))  # of a face without area: twice the area by the square of the longest side
MIN_SIDE_SQUARED = wp.constant(Wide(1.0e-6))  # [px²] least square of the longest side
SLACK = wp.constant(Scalar(1.0e-3))  # [px] rounding allowance for the tiles that a face reaches


@wp.struct
class Side:
    """Between two corners; `aside` and the like at the centre of the first pixel of the face's tiles."""

    aside: Scalar
    along: Scalar
    past: Scalar  # along - length
    length: Scalar
    direction: Pixel
    normal: Pixel  # inward
    height: Scalar  # barycentric coordinate of the corner opposite, by `aside` [1/px]


@wp.struct
class Face:
    corners: wp.vec3i
    depth: Point  # of its corners [m]
    a: Side  # the side opposite of the first corner, and so on
    b: Side
    c: Side
    left: int  # first tile that it can reach, and the one after the last; none if it is not seen
    right: int
    top: int
    bottom: int


@wp.struct
class Distance:
    """Distance of a tile's pixels from a side [px]."""

    aside: Real
    along: Real
    before: Real  # min(along, 0)
    past: Real  # max(along - length, 0)
    square: Real  # of the distance [px²]


@wp.func(inline=True)
def side_of(first: Place, second: Place, origin: Place, area: Wide):
    """The side between two corners of a face; `area` is twice the face's, with the sign of its turn."""
    way = second - first
    length = wp.length(way)
    u = way * (Wide(1.0) / length)
    n = Place(-u[1], u[0]) * wp.sign(area)
    side = Side()
    side.aside = Scalar(wp.dot(origin - first, n))
    side.along = Scalar(wp.dot(origin - first, u))
    side.past = Scalar(wp.dot(origin - second, u))
    side.length = Scalar(length)
    side.direction = Pixel(Scalar(u[0]), Scalar(u[1]))
    side.normal = Pixel(Scalar(n[0]), Scalar(n[1]))
    side.height = Scalar(length / wp.abs(area))
    return side


@wp.func
def box_of(screen: wp.array2d[Point], image: int, corners: wp.vec3i, cull: int, radius: Scalar, height: int, width: int):  # fmt: skip
    """A face without its sides, see `face_of`."""
    face = Face()
    if wp.min(wp.min(corners[0], corners[1]), corners[2]) < 0:
        return face
    p = screen[image, corners[0]]
    q = screen[image, corners[1]]
    r = screen[image, corners[2]]
    low = wp.min(wp.min(p, q), r)
    high = wp.max(wp.max(p, q), r)
    if not (
        low[0] > -MAX_COORDINATE
        and low[1] > -MAX_COORDINATE
        and low[2] > MIN_DEPTH
        and high[0] < MAX_COORDINATE
        and high[1] < MAX_COORDINATE
        and high[2] < MAX_COORDINATE
    ):
        return face
    a = Place(Wide(p[0]), Wide(p[1]))
    b = Place(Wide(q[0]), Wide(q[1]))
    c = Place(Wide(r[0]), Wide(r[1]))
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    longest = wp.max(wp.max(wp.length_sq(b - a), wp.length_sq(c - b)), wp.length_sq(a - c))
    # y points down, so a face whose corners run counter-clockwise to the eye has a negative area
    if wp.abs(area) <= MIN_AREA_RATIO * wp.max(longest, MIN_SIDE_SQUARED) or area * Wide(cull) > Wide(0.0):
        return face
    margin = radius + SLACK + Scalar(0.5)
    left = int(wp.ceil(wp.clamp(low[0] - margin, Scalar(0.0), Scalar(width))))
    right = int(wp.floor(wp.clamp(high[0] + margin, Scalar(0.0), Scalar(width))))
    top = int(wp.ceil(wp.clamp(low[1] - margin, Scalar(0.0), Scalar(height))))
    bottom = int(wp.floor(wp.clamp(high[1] + margin, Scalar(0.0), Scalar(height))))
    if left >= right or top >= bottom:
        return face
    face.corners = corners
    face.depth = Point(p[2], q[2], r[2])
    face.left = left / COLUMNS
    face.right = (right + COLUMNS - 1) / COLUMNS
    face.top = top / ROWS
    face.bottom = (bottom + ROWS - 1) / ROWS
    return face


@wp.func
def with_sides(face: Face, screen: wp.array2d[Point], image: int):
    """A face of `box_of` that is seen, with its sides."""
    p = screen[image, face.corners[0]]
    q = screen[image, face.corners[1]]
    r = screen[image, face.corners[2]]
    a = Place(Wide(p[0]), Wide(p[1]))
    b = Place(Wide(q[0]), Wide(q[1]))
    c = Place(Wide(r[0]), Wide(r[1]))
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    origin = Place(Wide(face.left * COLUMNS) + Wide(0.5), Wide(face.top * ROWS) + Wide(0.5))
    face.a = side_of(b, c, origin, area)
    face.b = side_of(c, a, origin, area)
    face.c = side_of(a, b, origin, area)
    return face


@wp.func
def face_of(screen: wp.array2d[Point], image: int, corners: wp.vec3i, cull: int, radius: Scalar, height: int, width: int):  # fmt: skip
    """A face and the tiles within `radius` [px] of it; `cull` is 1 to drop faces turned away, -1 those turned here."""
    face = box_of(screen, image, corners, cull, radius, height, width)
    if face.top < face.bottom:
        return with_sides(face, screen, image)
    return face


@wp.func(inline=True)
def narrowed(span: Pixel, side: Side, top: Scalar, radius: Scalar):
    """The part of a range of x in which a row of tiles can be within `radius` of the inner side of a line."""
    low = side.normal[1] * top
    best = side.aside + wp.max(low, low + side.normal[1] * Scalar(ROWS - 1)) + radius + SLACK
    if side.normal[0] > Scalar(0.0):
        return Pixel(wp.max(span[0], -best / side.normal[0]), span[1])
    if side.normal[0] < Scalar(0.0):
        return Pixel(span[0], wp.min(span[1], -best / side.normal[0]))
    if best < Scalar(0.0):
        return Pixel(Scalar(0.0), Scalar(-1.0))
    return span


@wp.func(inline=True)
def tiles_in_row(face: Face, row: int, radius: Scalar):
    """First tile of a row of tiles that the face can reach, and the one after the last."""
    top = Scalar((row - face.top) * ROWS)
    end = Scalar((face.right - face.left) * COLUMNS)
    span = Pixel(Scalar(0.0), end)
    span = narrowed(span, face.a, top, radius)
    span = narrowed(span, face.b, top, radius)
    span = narrowed(span, face.c, top, radius)
    first = int(wp.ceil(wp.min(span[0], end) - Scalar(COLUMNS - 1)))
    last = int(wp.floor(wp.max(span[1], Scalar(-1.0))))
    if last < 0 or span[0] > span[1]:
        return face.left, face.left
    return face.left + wp.max(first + COLUMNS - 1, 0) / COLUMNS, wp.min(face.left + last / COLUMNS + 1, face.right)


@wp.func(inline=True)
def distance(side: Side, x: Real, y: Real):
    """Distance of pixels at x, y [px], counted from the first one of the face's tiles."""
    way = x * side.direction[0] + y * side.direction[1]
    d = Distance()
    d.aside = x * side.normal[0] + y * side.normal[1] + side.aside
    d.along = way + side.along
    d.before = min(d.along, zero(0))
    d.past = max(way + side.past, zero(0))
    beyond = d.before + d.past
    d.square = d.aside * d.aside + beyond * beyond
    return d


@wp.func(inline=True)
def signed_square(a: Distance, b: Distance, c: Distance):
    """Square of the distance from the border of a face, positive inside [px²]."""
    square = min(a.square, min(b.square, c.square))
    return where(less(zero(0), min(a.aside, min(b.aside, c.aside))), square, zero(0) - square)


if ROWS * COLUMNS > 1:  # registers are for CPUs, where Warp runs one thread after another

    @wp.func(inline=True)
    def add_to(sums: wp.array3d[Real], image: int, row: int, column: int, value: Real):
        sums[image, row, column] = sums[image, row, column] + value

    @wp.func(inline=True)
    def lower_to(least: wp.array3d[Real], image: int, row: int, column: int, value: Real):
        least[image, row, column] = min(least[image, row, column], value)

else:

    @wp.func(inline=True)
    def add_to(sums: wp.array3d[Real], image: int, row: int, column: int, value: Real):
        wp.atomic_add(sums, image, row, column, value)

    @wp.func(inline=True)
    def lower_to(least: wp.array3d[Real], image: int, row: int, column: int, value: Real):
        wp.atomic_min(least, image, row, column, value)
