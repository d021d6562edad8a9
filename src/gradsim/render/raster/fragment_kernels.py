# pyright: reportInvalidTypeForm=false
"""Positions of fragments on their triangles: a template for `engine.lanes`.

A fragment is a pixel and its visible triangle. Its centre lies on the triangle (see `zbuffer_kernels.py` for the
barycentrics), or outside near an edge: then it shows the point of the edge that is nearest on the screen, at the fraction
s of the way from begin to end, with barycentrics (1 − s) / z_begin : s / z_end.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Flat = wp.types.vector(2, Scalar)  # [px]
Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z) [px m, px m, m]
Place = wp.types.vector(4, Scalar)  # barycentrics b_0, b_1, b_2 and depth z [m]
Double = wp.types.vector(3, wp.float64)

MAX_KEY = wp.constant(wp.int64(0x7FFFFFFF))
TOUCHED_RANK = wp.constant(wp.int64(0x800000))  # ranks of pixels that a triangle only touches are below it
INSIDE = wp.constant(3)
NEARNESS = wp.constant(Scalar(1.0e-3))  # of the depth of one end: nearer parts of an edge are ignored


@wp.func
def relative(h: Corner, x: Scalar, y: Scalar):
    """Single precision would lose as many digits as the image has pixels for each of the triangle's."""
    z = wp.float64(h[2])
    return Double(wp.float64(h[0]) - wp.float64(x) * z, wp.float64(h[1]) - wp.float64(y) * z, z)


@wp.kernel(enable_backward=False)
def unpack(
    key: wp.array2d[wp.int64],  # (images x rows, columns), see `zbuffer_kernels.py`
    height: int,
    first: wp.array[int],  # number of the first fragment of each row
    # out
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    side: wp.array[int],  # INSIDE, or the edge of the face that the pixel only touches
    rows: wp.array2d[int],  # (images x rows, columns): number of the fragment at each pixel, -1: none
):
    line = wp.tid()
    image = line / height
    row = line - image * height
    k = first[line]
    for column in range(key.shape[1]):
        mark = key[line, column]
        if mark == wp.int64(0):
            rows[line, column] = -1
            continue
        low = wp.int32(MAX_KEY - (mark & MAX_KEY))
        if (mark >> wp.int64(32)) < TOUCHED_RANK:
            owner[k] = wp.vec4i(image, low / 4, column, row)
            side[k] = low % 4
        else:
            owner[k] = wp.vec4i(image, low, column, row)
            side[k] = INSIDE
        rows[line, column] = k
        k += 1


@wp.func
def cross(a: Double, b: Double):
    return a[0] * b[1] - a[1] * b[0]


@wp.struct
class Foot:
    begin: int  # corner
    end: int
    share: Scalar  # of the end, on the screen
    loose: bool  # whether it moves along the edge
    along: Flat  # [px]
    way: Flat  # from the beginning to the pixel [px]
    square: Scalar  # of the edge [px²]


@wp.func
def flat(h: Corner):
    return Flat(h[0] / h[2], h[1] / h[2])


@wp.func
def behind(h: Corner, other: Corner, least: Scalar):
    """Fraction of an edge, from its end h, that lies nearer than a depth, if the other end does not."""
    if h[2] >= least or other[2] <= least:
        return Scalar(0.0)
    return (least - h[2]) / (other[2] - h[2])


@wp.func
def foot(begin: Corner, end: Corner, x: Scalar, y: Scalar):
    """The point of an edge that is nearest to a pixel on the screen."""
    foot = Foot()
    foot.along = flat(end) - flat(begin)
    foot.way = Flat(x, y) - flat(begin)
    foot.square = wp.dot(foot.along, foot.along)
    if foot.square > Scalar(0.0):
        share = wp.dot(foot.way, foot.along) / foot.square
        foot.loose = share > Scalar(0.0) and share < Scalar(1.0)
        foot.share = wp.clamp(share, Scalar(0.0), Scalar(1.0))
    return foot


@wp.func
def at_foot(point: Foot, begin: Corner, end: Corner, side: int):
    """Place of the foot on an edge: w_b = (1 − s) / z_b : s / z_e, perspective-correct."""
    near = (Scalar(1.0) - point.share) / begin[2]
    far = point.share / end[2]
    depth = Scalar(1.0) / (near + far)
    place = Place()
    place[side] = near * depth
    place[(side + 1) % 3] = far * depth
    place[3] = depth
    return place


@wp.func
def at_centre(a: Double, b: Double, c: Double):
    """Place of a pixel's centre on a triangle with such `relative` corners."""
    e = Double(cross(b, c), cross(c, a), cross(a, b))
    w = e / (e[0] + e[1] + e[2])
    return Place(Scalar(w[0]), Scalar(w[1]), Scalar(w[2]), Scalar(w[0] * a[2] + w[1] * b[2] + w[2] * c[2]))


@wp.kernel(enable_backward=False)
def locate(
    clip: wp.array2d[Corner],
    faces: wp.array[wp.vec3i],
    owner: wp.array[wp.vec4i],  # image, face, column, row of each fragment
    side: wp.array[int],
    # out
    place: wp.array[Place],
):
    k = wp.tid()
    pixel = owner[k]
    corners = faces[pixel[1]]
    x = Scalar(pixel[2]) + Scalar(0.5)
    y = Scalar(pixel[3]) + Scalar(0.5)
    if side[k] != INSIDE:
        begin = clip[pixel[0], corners[side[k]]]
        end = clip[pixel[0], corners[(side[k] + 1) % 3]]
        # the point where the edge is cut is far outside the image and has no derivative
        t = behind(begin, end, NEARNESS * end[2])
        s = behind(end, begin, NEARNESS * begin[2])
        first = begin + t * (end - begin)
        second = end + s * (begin - end)
        weights = at_foot(foot(first, second, x, y), first, second, side[k])
        w = weights[side[k]]
        u = weights[(side[k] + 1) % 3]
        weights[side[k]] = (Scalar(1.0) - t) * w + s * u
        weights[(side[k] + 1) % 3] = t * w + (Scalar(1.0) - s) * u
        place[k] = weights
        return
    a = relative(clip[pixel[0], corners[0]], x, y)
    b = relative(clip[pixel[0], corners[1]], x, y)
    c = relative(clip[pixel[0], corners[2]], x, y)
    place[k] = at_centre(a, b, c)


@wp.func
def back_to_pixels(adjoint: Double, x: Scalar, y: Scalar):
    """Adjoint of `relative`."""
    by_depth = adjoint[2] - wp.float64(x) * adjoint[0] - wp.float64(y) * adjoint[1]
    return Corner(Scalar(adjoint[0]), Scalar(adjoint[1]), Scalar(by_depth))


@wp.func
def flat_adjoint(h: Corner, g: Flat):
    """Adjoint of `flat`."""
    return Corner(g[0] / h[2], g[1] / h[2], -(g[0] * h[0] + g[1] * h[1]) / (h[2] * h[2]))


@wp.kernel(enable_backward=False)
def locate_adjoint(
    clip: wp.array2d[Corner],
    faces: wp.array[wp.vec3i],
    owner: wp.array[wp.vec4i],
    side: wp.array[int],
    place_adjoint: wp.array[Place],
    # out
    clip_adjoint: wp.array2d[Corner],  # zero before
):
    k = wp.tid()
    pixel = owner[k]
    image = pixel[0]
    corners = faces[pixel[1]]
    x = Scalar(pixel[2]) + Scalar(0.5)
    y = Scalar(pixel[3]) + Scalar(0.5)
    g = place_adjoint[k]
    by_depth = g[3]
    if side[k] != INSIDE:
        first = corners[side[k]]
        second = corners[(side[k] + 1) % 3]
        a_begin = clip[image, first]
        an_end = clip[image, second]
        t = behind(a_begin, an_end, NEARNESS * an_end[2])
        s = behind(an_end, a_begin, NEARNESS * a_begin[2])
        begin = a_begin + t * (an_end - a_begin)
        end = an_end + s * (a_begin - an_end)
        point = foot(begin, end, x, y)
        weights = at_foot(point, begin, end, side[k])
        by_begin = (Scalar(1.0) - t) * g[side[k]] + t * g[(side[k] + 1) % 3]
        by_end = s * g[side[k]] + (Scalar(1.0) - s) * g[(side[k] + 1) % 3]
        # w = n d, d = 1 / Σ n, n_b = (1 − s) / z_b, n_e = s / z_e
        mean = by_begin * weights[side[k]] + by_end * weights[(side[k] + 1) % 3] + by_depth * weights[3]
        to_near = (by_begin - mean) * weights[3]
        to_far = (by_end - mean) * weights[3]
        by_share = to_far / end[2] - to_near / begin[2]
        to_begin = Corner(Scalar(0.0), Scalar(0.0), -to_near * (Scalar(1.0) - point.share) / (begin[2] * begin[2]))
        to_end = Corner(Scalar(0.0), Scalar(0.0), -to_far * point.share / (end[2] * end[2]))
        if point.loose:
            # s = way · along / |along|²
            by_along = (point.way - Scalar(2.0) * point.share * point.along) * (by_share / point.square)
            by_way = point.along * (by_share / point.square)
            to_begin += flat_adjoint(begin, -(by_along + by_way))
            to_end += flat_adjoint(end, by_along)
        wp.atomic_add(clip_adjoint, image, first, (Scalar(1.0) - t) * to_begin + s * to_end)
        wp.atomic_add(clip_adjoint, image, second, t * to_begin + (Scalar(1.0) - s) * to_end)
        return
    a = relative(clip[image, corners[0]], x, y)
    b = relative(clip[image, corners[1]], x, y)
    c = relative(clip[image, corners[2]], x, y)
    e = Double(cross(b, c), cross(c, a), cross(a, b))
    total = e[0] + e[1] + e[2]
    w = e / total
    h = wp.float64(by_depth)
    w_adjoint = Double(wp.float64(g[0]), wp.float64(g[1]), wp.float64(g[2])) + h * Double(a[2], b[2], c[2])
    level = wp.dot(w_adjoint, w)
    e_adjoint = (w_adjoint - Double(level, level, level)) / total
    # e_0 = b × c, e_1 = c × a, e_2 = a × b
    to_a = Double(e_adjoint[2] * b[1] - e_adjoint[1] * c[1], e_adjoint[1] * c[0] - e_adjoint[2] * b[0], h * w[0])
    to_b = Double(e_adjoint[0] * c[1] - e_adjoint[2] * a[1], e_adjoint[2] * a[0] - e_adjoint[0] * c[0], h * w[1])
    to_c = Double(e_adjoint[1] * a[1] - e_adjoint[0] * b[1], e_adjoint[0] * b[0] - e_adjoint[1] * a[0], h * w[2])
    wp.atomic_add(clip_adjoint, image, corners[0], back_to_pixels(to_a, x, y))
    wp.atomic_add(clip_adjoint, image, corners[1], back_to_pixels(to_b, x, y))
    wp.atomic_add(clip_adjoint, image, corners[2], back_to_pixels(to_c, x, y))
